package term

import (
	"reflect"
	"runtime/debug"
	"strings"
	"testing"

	"troupe/sim"
)

// A number is not broken at its thousands, nor from its per cent.
func TestWrapNumbers(t *testing.T) {
	text := strings.Repeat("x", Width-8) + " loses 2 081 in 95% of"
	if got, want := Wrap(text, 0), strings.Repeat("x", Width-8)+" loses\n2 081 in 95% of"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a manifest says was typed can be typed again.
func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "troupe"},
		{[]string{"run", "--out", "a b", "it's"}, `troupe run --out 'a b' 'it'\''s'`},
		{[]string{"run", ""}, `troupe run ''`},
		{[]string{"run", "paper/x", "--seed=3"}, `troupe run paper/x --seed=3`},
	} {
		if got := Line(c.args); got != c.want {
			t.Errorf("commandLine(%q) = %s, want %s", c.args, got, c.want)
		}
	}
}

// Commands that are printed can be pasted: a program of another module is called by its own name.
func TestCalled(t *testing.T) {
	for _, c := range []struct{ module, file, want string }{
		{"", "/tmp/x", "troupe"}, {strings.TrimSuffix(reflect.TypeFor[sim.Catalogue]().PkgPath(), "/sim"), "/bin/other", "troupe"}, {"example.com/mine", "./decay", "decay"},
		{"example.com/mine", "decay.exe", "decay"}, {"example.com/mine", "two words", "troupe"},
	} {
		if got := calledBy(&debug.BuildInfo{Main: debug.Module{Path: c.module}}, c.file); got != c.want {
			t.Errorf("%+v: called %s", c, got)
		}
	}
	if calledBy(nil, "x") != "troupe" {
		t.Error("a program without build information has another name")
	}
}
