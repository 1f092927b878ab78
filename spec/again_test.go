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

// A key that the command line adds to a table of a list is the table's first line.
func TestInsert(t *testing.T) {
	for _, c := range []struct{ text, table, want, err string }{
		{"a = 1\n[[e]] # one\nb = 2\n[[e]]\n", "e[0]", "a = 1\n[[e]] # one\nk = [1]\nb = 2\n[[e]]\n", ""},
		{"[[e]]\n[e.sub]\nb = 2\n[[e]]", "e[1]", "[[e]]\n[e.sub]\nb = 2\n[[e]]\nk = [1]\n", ""},
		{"[[e]]\nk = [2]\n", "e[0]", "", "x.toml:2:1: k is written here, and the command line cannot add to it: write [1] here"},
		{"e = [{b = 1}]\n", "e[0]", "", "x.toml:1:6: no header of the table e[0] here, so that k cannot come from the command " +
			"line: write k = [1] in it"},
		{"[[e]]\n", "e[1]", "", "x.toml:1:1: no table e[1]"},
	} {
		got, err := Insert("x.toml", c.text, c.table, "k", "[1]")
		said := ""
		if err != nil {
			said = err.Error()
		}
		if got != c.want || said != c.err {
			t.Errorf("%q: %q, %s, expected %q, %s", c.text, got, said, c.want, c.err)
		}
	}
}
