// Package headline answers the question of a page in one sentence: the heading of a report, its <title>, the first line of
// the terminal and the heading of a card in a gallery.
//
// Every kind of page has one question and one function, which reads values, never texts:
//
//   - One and Several: which policy should I use?
//   - Claim: does the claim of the spec hold?
//   - Sweep: what does the swept number do?
//   - Deep: who solves it?
//   - Compare: did anything change between two runs?
//   - Suite: which policy may be first?
//   - Evaluate: would the target have earned more?
//   - Gallery: how many results are there?
//
// The intervals are those of the table under the headline, so both have the same error rate. Three words say how sure an
// answer is; docs/guide/sure.md defines them for readers: sure, likely, and too close to call. "Loses more" rests on the
// interval of the table. It is sure where the interval for every law leaves zero out, too, and otherwise likely.
//
// Sentences end with a full stop. At most four names are listed; more become a number.
package headline

import (
	"slices"
	"strings"

	"troupe/report/chart"
)

// Prose is a sentence in which names are marked, so that a page can set them in weight.
type Prose []Span

// Span is a piece of a sentence.
type Span struct {
	Text string
	Name bool // a policy or an environment
}

// String returns the sentence without marks.
func (p Prose) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Name is a part of Say that is marked as a name.
type Name string

// Say builds a sentence from strings, names, lists of names (a, b and c) and sentences. It panics for other parts.
func Say(parts ...any) Prose {
	var p Prose
	for _, x := range parts {
		switch x := x.(type) {
		case string:
			p = append(p, Span{Text: x})
		case Name:
			p = append(p, Span{Text: string(x), Name: true})
		case []string: // a, b and c
			for i, s := range x {
				switch {
				case i == 0:
				case i == len(x)-1:
					p = append(p, Span{Text: " and "})
				default:
					p = append(p, Span{Text: ", "})
				}
				p = append(p, Span{Text: s, Name: true})
			}
		case Prose:
			p = append(p, x...)
		default:
			panic("headline: Say: unknown part")
		}
	}
	return p
}

// most is how many names a headline lists.
const most = 4

// similar is the share of the lowest estimate within which differences are called about the same.
const similar = 0.1

// Standing is what an interval says about a policy against the one with the lowest estimate.
type Standing int

// The standings.
const (
	Out       Standing = iota // in no comparison
	Lowest                    // the reference
	Equal                     // the same as the reference in every replication
	LosesMore                 // the interval lies above zero
	AboutSame                 // the interval lies within a tenth of the lowest estimate
	TooClose                  // neither
)

// String returns the standing in words; "" for Out.
func (s Standing) String() string {
	return [...]string{Out: "", Lowest: "lowest", Equal: "the same", LosesMore: "loses more", AboutSame: "about the same",
		TooClose: "too close to call"}[s]
}

// Judge returns the standing of a difference to the lowest estimate from its interval [lo, hi]; ok is false without one,
// which nothing can separate.
func Judge(lo, hi float64, ok bool, lowest float64) Standing {
	switch within := similar * lowest; {
	case !ok:
		return TooClose
	case lo > 0:
		return LosesMore
	case -within <= lo && hi <= within:
		return AboutSame
	}
	return TooClose
}

// Confidence says how sure a statement is. docs/guide/sure.md has these three words for readers.
type Confidence int

// The words.
const (
	Close  Confidence = iota // too close to call: no interval leaves zero out
	Likely                   // the interval for one look leaves zero out
	Sure                     // the interval for every law, or for every look, leaves zero out
)

// String returns the word.
func (c Confidence) String() string {
	return [...]string{Close: "too close to call", Likely: "likely", Sure: "sure"}[c]
}

// How returns the word for an interval for one look [lo, hi] and one that always holds [sureLo, sureHi]; an interval that
// does not exist is given as one with zero inside.
func How(lo, hi, sureLo, sureHi float64) Confidence {
	switch {
	case sureLo > 0 || sureHi < 0:
		return Sure
	case lo > 0 || hi < 0:
		return Likely
	}
	return Close
}

// number writes a count as a word up to twelve.
func number(n int) string {
	if n >= 0 && n < len(words) {
		return words[n]
	}
	return chart.Count(n)
}

var words = [...]string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

// upper begins a sentence.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// these lists names, or says how many things they are.
func these(names []string, one, many string) Prose {
	if len(names) > most {
		return Say(upper(number(len(names))) + " " + many)
	}
	return Say(names)
}

// verb chooses by number.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// things writes a number of things: 1 replication, 40 replications.
func things(n int, thing string) string { return chart.Count(n) + " " + verb(n, thing, thing+"s") }

// without returns the names that are not in the other list.
func without(names, out []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return slices.Contains(out, s) })
}
