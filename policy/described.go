package policy

import (
	"fmt"
	"strings"
	"unicode"

	"troupe/bandit"
)

// described names a set in words: *actionset.RandomSphere is "a random sphere".
func described(set bandit.ActionSet) string {
	name := fmt.Sprintf("%T", set)
	name = name[strings.LastIndex(name, ".")+1:]
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	if strings.ContainsRune("aeiou", rune(b.String()[0])) {
		return "an " + b.String()
	}
	return "a " + b.String()
}
