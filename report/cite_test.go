package report

import (
	"strings"
	"testing"
)

// The entry of the software has version, commit and year, and no character that BibTeX reads as its own.
func TestCitation(t *testing.T) {
	got := citation("0.1.0+dev", "0123456789abcdef", yearOf("2026-11-22T10:00:00Z"))
	for _, want := range []string{"howpublished = {Software, version 0.1.0+dev, commit 0123456789ab}", "year         = {2026}", "Szepesv{\\'a}ri"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
	if got := citation("1}{", "", ""); !strings.Contains(got, "version 1}\n}") || strings.Count(got, "{") != strings.Count(got, "}") {
		t.Errorf("braces do not match in\n%s", got)
	}
}
