package feature

import (
	"fmt"
	"strconv"
	"strings"
)

// Code sorts errors by what the caller can do about them.
type Code string

// What is wrong with a request.
const (
	Syntax    Code = "syntax"    // not JSON
	Limit     Code = "limit"     // larger, deeper or longer than allowed
	Duplicate Code = "duplicate" // a feature or key is given twice
	Unknown   Code = "unknown"   // the schema does not have this feature and refuses others
	Missing   Code = "missing"   // a required feature is not there
	Value     Code = "value"     // the feature is there with a value that the schema does not take
)

// Error is a fault in a request.
type Error struct {
	Code    Code
	Path    string // for instance actions[3].item.price
	Value   string // what was found, shortened; empty where there is nothing to show
	Problem string // what was expected
}

// Error says in one line what is wrong.
func (e *Error) Error() string {
	if e.Value == "" {
		return e.Redacted()
	}
	return e.Path + ": is " + e.Value + ", " + e.Problem
}

// Redacted is the message without the value, for logs and answers that must not repeat what users
// sent. (The path holds names of fields, never values.)
func (e *Error) Redacted() string { return e.Path + ": " + e.Problem }

// shorten makes a name or a value that came from outside fit for a message.
func shorten(b []byte, most int) string {
	cut := ""
	if len(b) > most {
		b, cut = b[:most], "…"
	}
	q := strconv.Quote(string(b))
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) + cut
}

const notUTF8 = "is not valid UTF-8"

func expected(format string, args ...any) string {
	return "expected " + fmt.Sprintf(format, args...)
}
