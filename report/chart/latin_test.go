package chart

import "testing"

// Names of any script have file names that say something and stay apart.
func TestLatin(t *testing.T) {
	for name, want := range map[string]string{
		"θ":            "theta",
		"Λ and λ":      "Lambda and lambda",
		"ς σ":          "sigma sigma",
		"Zürich, d=10": "Zurich, d=10",
		"ωά":           "omegaalpha",
		"日本":           "u65e5u672c",
		"r ≥ √3":       "r    3",
		"m²":           "m2",
		"a_b-c.d":      "a_b-c.d",
	} {
		if got := Latin(name); got != want {
			t.Errorf("%q is %q, expected %q", name, got, want)
		}
	}
}
