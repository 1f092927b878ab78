package logged

import (
	"fmt"
	"strconv"
	"strings"
)

// BadReward is the Reason of an Error of a reward: Options.SkipBad keeps the rest of such an event, but for lists.
const BadReward = "reward"

// Error is a fault in a file: where it is, what was found and what was expected.
type Error struct {
	File   string
	Line   int // from 1; 0 where the format has no lines
	Column int // in bytes, from 1; 0: not known
	Row    int // of a binary format, from 1
	Field  string
	Found  string
	Want   string
	// Reason groups faults for counting: the field, or what kind of fault it is.
	Reason string
	Empty  bool   // there is no event at all
	Left   string // of an empty log: how many lines were left out and why, behind a comma; "" for none
	fatal  bool   // reading cannot go on behind it
	twice  bool   // a key comes twice in a JSON object
}

// Error says in one line what is wrong.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
		if e.Column > 0 {
			b.WriteString(":" + strconv.Itoa(e.Column))
		}
	}
	if e.Row > 0 {
		b.WriteString(": row " + strconv.Itoa(e.Row))
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	if e.Found != "" {
		b.WriteString(": " + e.Found + e.Left)
	}
	if e.Want != "" {
		b.WriteString(", expected " + e.Want)
	}
	return b.String()
}

// ExitCode is 2: a fault in the data is the caller's to mend.
func (e *Error) ExitCode() int { return 2 }

// shown shortens a value for a message.
func shown(b []byte) string {
	const most = 40
	s := string(b)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	for _, r := range s {
		if r < ' ' {
			return strconv.Quote(s)
		}
	}
	return s
}

// bad returns an error of a field; the reader adds the place.
func bad(field, found, want string, args ...any) *Error {
	if len(args) > 0 {
		want = fmt.Sprintf(want, args...)
	}
	return &Error{Field: field, Found: found, Want: want, Reason: reasonOf(field)}
}

// reasonOf is a field without its indices.
func reasonOf(field string) string {
	if i := strings.IndexByte(field, '['); i >= 0 {
		return field[:i]
	}
	return field
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
