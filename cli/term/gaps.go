package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// AddGaps adds the flag --gap of a command that reads data sets, or the contexts of logs.
func AddGaps(fl *pflag.FlagSet, gaps *[]string) {
	fl.StringArrayVar(gaps, "gap", nil, "further text for a missing value in the data set, or in the context of a CSV log, "+
		"beside ?, NA, nan, NULL and the like (may be repeated)")
}

// CheckGaps refuses a text of --gap that no field can be.
func CheckGaps(gaps []string) error {
	for _, g := range gaps {
		if g == "" || g != strings.TrimSpace(g) || !utf8.ValidString(g) || strings.ContainsFunc(g, unicode.IsControl) {
			return Misuse(fmt.Errorf("--gap %q: expected a text without blanks around it and without control characters "+
				"(an empty field is a gap already)", g))
		}
	}
	return nil
}
