package chart

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// greekNames names the letters of the Greek alphabet in their order from α, the final ς among them.
var greekNames = strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi " +
	"rho sigma sigma tau upsilon phi chi psi omega")

// Latin writes a name in ASCII, for file names: accents go, Greek letters are spelled out (θ is theta, Λ is Lambda),
// and of other scripts each letter is its number (日 is u65e5), so that two names stay two. What is neither a
// letter nor a digit, nor ASCII, is a space.
func Latin(name string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(name) {
		lower := unicode.ToLower(r)
		switch {
		case r < 128:
			b.WriteRune(r)
		case unicode.Is(unicode.Mn, r):
		case lower >= 'α' && lower <= 'ω':
			word := greekNames[lower-'α']
			if lower != r {
				word = strings.ToUpper(word[:1]) + word[1:]
			}
			b.WriteString(word)
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			fmt.Fprintf(&b, "u%x", r)
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}
