package spec

import "testing"

// A header that repeats one above it is refused in the words of a spec, whose lists need two brackets.
func TestHeadersAgain(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[policy]\n[policy]\n", "x.toml:2:2: [policy], and line 1 has [policy]: expected [[policy]] for each table of a list, " +
			"or the table once"},
		{"[[policy]]\n\n[policy]\n", "x.toml:3:2: [policy], and line 1 has [[policy]]: expected [[policy]] for each table of a " +
			"list, or the table once"},
		{"[policy]\n[[policy]]\n", "x.toml:2:3: [[policy]], and line 1 has [policy]: expected [[policy]] for each table of a " +
			"list, or the table once"},
		{"a = 1\na = 2\n", "x.toml:2:1: key a is already defined"},
	} {
		_, _, err := ReadFile("x.toml", c.text)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, expected %s", c.text, err, c.want)
		}
	}
	_, src, err := ReadFile("x.toml", "b = 1\n\n[[lists]]\n[[lists]]\n")
	if err != nil {
		t.Fatal(err)
	}
	if line, column := src.At("lists"); line != 3 || column != 3 {
		t.Errorf("a list stands at %d:%d, expected 3:3, its first table", line, column)
	}
}
