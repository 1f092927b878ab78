package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"troupe/feature"
	"troupe/spec"
)

// Error refuses a field of a configuration or of a request.
type Error struct {
	Field string // path of the field, such as config.reward.min; empty when it is none in particular
	Value string // what was found, shortened
	Want  string // what was expected
	Tell  bool   // of a decision: the caller may be answered Value, see Told
	Err   error  // the cause, may be nil
}

// Told returns the error with leave to show the value in the answer to the caller, from whom it came. Error leaves it
// out all the same, so that it stands in no log.
func (e *Error) Told() *Error {
	e.Tell = true
	return e
}

// Error says in one line what is wrong.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Want
	}
	return e.Field + ": " + e.Want
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// Invalid returns an *Error for a field with this value.
func Invalid(field string, value any, format string, a ...any) *Error {
	v := fmt.Sprint(value)
	if len(v) > 80 {
		v = strings.ToValidUTF8(v[:80], "") + "…"
	}
	return &Error{Field: field, Value: v, Want: fmt.Sprintf(format, a...)}
}

// ErrorAt gives the error of a decoder or a constructor its place in a configuration found at path.
func ErrorAt(path string, err error) *Error {
	e := &Error{Field: path, Want: err.Error(), Err: err}
	var se *spec.Error
	if errors.As(err, &se) {
		e.Field, e.Want = spec.Join(path, se.Path), se.Msg
	}
	return e
}

// FeatureError names the field of a request that package feature refused.
func FeatureError(err error) *Error {
	var f *feature.Error
	if !errors.As(err, &f) {
		return &Error{Want: err.Error(), Err: err}
	}
	field := f.Path // and only the name of the field in the error depends on it
	if row, rest, ok := strings.Cut(field, "]"); ok && strings.HasPrefix(field, "actions[") && rest != ".id" {
		field = row + "].features" + rest
	}
	return &Error{Field: field, Value: f.Value, Want: f.Problem, Err: err}
}

// MaxText is the most bytes of an id or a key that a caller chooses.
const MaxText = 256

// CheckText refuses an id from outside that is too long or not UTF-8.
func CheckText(field, id string) error {
	if len(id) > MaxText || !utf8.ValidString(id) {
		return Invalid(field, fmt.Sprintf("%d bytes", len(id)), "expected UTF-8 of at most %d bytes", MaxText)
	}
	return nil
}

// CheckName refuses what is not a name: 1 to 64 letters, digits and . _ - that begin with a letter or a digit.
func CheckName(field, name string) error {
	ok := name != "" && len(name) <= 64
	for i := range len(name) {
		c := name[i]
		letter := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		ok = ok && (letter || i > 0 && (c == '.' || c == '_' || c == '-'))
	}
	if !ok {
		return Invalid(field, name, "expected 1 to 64 letters, digits and . _ - that begin with a letter or a digit")
	}
	return nil
}

// short is the JSON of a value, cut for an error.
func short(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > 80 {
		return strings.ToValidUTF8(string(b[:80]), "") + "…"
	}
	return string(b)
}

// ways are what a caller can do in place of a change that is refused, by the field of the configuration.
var ways = map[string]string{
	"config.id":       "; clone the model under another name",
	"config.policy":   "; clone the model with another policy, which learns from its log, or make another model",
	"config.features": "; clone the model with other bits or pairs, which learns from its log, or make another model",
	"config.dim":      "; make another model",
	"config.numbers":  "; a request may narrow a range, and another model may have another one",
	"config.list":     "; make another model",
	"config.rewards":  "; make another model, and let it learn from the same decisions in the mode apprentice",
	"config.sigma":    "; clone the model with another sigma, which learns from its log, or make another model",
	"config.reward": "; the policy folds rewards by their range: make another model with this range, and let it learn " +
		"from the same decisions in the mode apprentice",
	"config.entered": "; :enter and :leave change the list",
}

// way is that of the part of the configuration in which a field lies.
func way(field string) string {
	for ; field != ""; field = field[:max(strings.LastIndexByte(field, '.'), 0)] {
		if w, ok := ways[field]; ok {
			return w
		}
	}
	return ""
}
