package sim

import (
	"errors"
	"os"
	"strings"
	"testing"

	"troupe/spec"
)

// A hypothesis travels from the spec to the manifest, is part of the experiment's identity, and does
// not touch a number. One that says nothing, or cannot be printed, is refused at its line.
func TestHypothesis(t *testing.T) {
	with := func(h string) string { return strings.Replace(small, "seed = 3", "hypothesis = "+h+"\nseed = 3", 1) }
	plain, err := Parse("x.toml", small, fakes)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Parse("x.toml", with("'''\nbeta is lower\nthan alpha'''"), fakes)
	if err != nil || x.Hypothesis != "beta is lower\nthan alpha" {
		t.Fatalf("hypothesis %q, %v", x.Hypothesis, err)
	}
	y, err := Parse("x.toml", with("'alpha is lower'"), fakes)
	if err != nil {
		t.Fatal(err)
	}
	if plain.Identity() == x.Identity() || x.Identity() == y.Identity() {
		t.Error("an experiment with another hypothesis has the same identity")
	}
	dir := t.TempDir()
	if _, err := Run(t.Context(), x, Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if m, err := ReadManifest(dir); err != nil || m.Hypothesis != x.Hypothesis {
		t.Errorf("the manifest's hypothesis is %q, %v", m.Hypothesis, err)
	}
	other := t.TempDir()
	if _, err := Run(t.Context(), plain, Options{Dir: other}); err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(dir + "/" + ResultsFile)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(other + "/" + ResultsFile); err != nil || string(a) != string(b) {
		t.Errorf("a hypothesis changes results.csv (%v)", err)
	}
	if _, err := Run(t.Context(), y, Options{Dir: dir}); err == nil {
		t.Error("results were continued under another hypothesis")
	}
	for h, want := range map[string]string{
		"' '":                                 "hypothesis is blank",
		`"a\tb"`:                              `hypothesis is "a\tb", expected printable characters`,
		"'" + strings.Repeat("x", 2001) + "'": "hypothesis is 2001 characters long, expected at most 2000",
		"7":                                   "hypothesis is 7, expected a string",
		`["a", "b"]`:                          "hypothesis",
	} {
		var at *spec.FileError
		if _, err := Parse("x.toml", with(h), fakes); !errors.As(err, &at) || at.Line != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q on line 2", h, err, want)
		}
	}
}
