// Package fault has the errors of the decision server: a code, the field that is wrong, words that may be shown, and
// whether the call may have been recorded. Package serve gives them names of its own.
package fault

import (
	"errors"
	"fmt"
	"time"

	"troupe/serve/model"
)

// Code is the kind of an error. The edge maps codes to the HTTP status numbers given here.
type Code string

// The codes.
const (
	NotFound    Code = "not_found"    // 404: no such model; no such event although the id is ours
	BadEventID  Code = "bad_event_id" // 400: not an id that this server made
	Invalid     Code = "invalid"      // 422: Field, Value and Want say what
	TooLarge    Code = "too_large"    // 413: the candidates do not fit into a record of the log
	Conflict    Code = "conflict"     // 409: name taken, version changed, idempotency key used for another request
	Paused      Code = "paused"       // 409: the model is paused
	ModelFailed Code = "model_failed" // 409: the policy of the model cannot decide, and repeating does not help
	Needed      Code = "needed"       // 409: the node may not be stopped now
	Changing    Code = "changing"     // 409: a change of the nodes is under way
	Moved       Code = "moved"        // 307: the model is at another server, To
	Leaving     Code = "leaving"      // 503: the model is about to go to another server; repeat soon
	Gone        Code = "gone"         // 410: the decision is no longer in the log
	TooBusy     Code = "too_busy"     // 429: RetryAfter
	Unavailable Code = "unavailable"  // 503: RetryAfter
	Full        Code = "full"         // 507: the log is full; RetryAfter
	Internal    Code = "internal"     // 500: an invariant broke; look at the server's log
)

// Error is every error of a server.
type Error struct {
	Code Code
	// Field is the path of the request's field that is wrong, for instance actions[3].features.price
	// or config.reward.min; empty when it is none in particular.
	Field string
	// Value is what was found, shortened. It may repeat what users sent: show it to the operator of
	// a model (fields below config), never in logs, and in answers about decisions with Tell only. Error leaves it out.
	Value string
	// Tell: the answer to the call may have Value.
	Tell bool
	// Want is what was expected, or what happened, in words that may be shown.
	Want string
	// RetryAfter is when to try again, 0 when there is nothing to wait for.
	RetryAfter time.Duration
	// To is the address of the server that has the model, of code Moved.
	To string
	// Unknown: the record may or may not be in the log.
	Unknown bool
	// Err is the cause, for the server's own log.
	Err error
}

// Error says in one line what is wrong.
func (e *Error) Error() string {
	if e.Field == "" {
		return string(e.Code) + ": " + e.Want
	}
	return string(e.Code) + ": " + e.Field + ": " + e.Want
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of an error of a server, Internal for an error that has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Errorf returns an error with a code.
func Errorf(code Code, format string, a ...any) *Error {
	return &Error{Code: code, Want: fmt.Sprintf(format, a...)}
}

// Invalidf returns an error of code Invalid that names a field. A long value is shortened.
func Invalidf(field string, value any, format string, a ...any) *Error {
	v := fmt.Sprint(value)
	if len(v) > 80 {
		v = v[:80] + "…"
	}
	return &Error{Code: Invalid, Field: field, Value: v, Want: fmt.Sprintf(format, a...)}
}

// Refused gives an error of packages model and choose its code: Invalid for one that names a field.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	var e *model.Error
	if errors.As(err, &e) {
		return &Error{Code: Invalid, Field: e.Field, Value: e.Value, Tell: e.Tell, Want: e.Want, Err: e.Err}
	}
	return err
}

// Unsure is what is known of a call whose outcome is unknown. What its caller does about that depends on the kind of
// call.
const Unsure = "it is not known whether it was recorded"

// Advise adds to an error of unknown outcome what its caller can do, and leaves every other error as it is.
func Advise(err error, again string) error {
	var e *Error
	if !errors.As(err, &e) || !e.Unknown {
		return err
	}
	out := *e
	out.Want += "; " + again
	return &out
}

// TooLate is the error of a request whose time was over before anything of it was sent to the log.
func TooLate(err error) *Error {
	return &Error{Code: Unavailable, RetryAfter: time.Second, Err: err,
		Want: "the time of the request was over before it was recorded: choosing took too long, or waited for other " +
			"requests; send fewer decisions at once, or use a model with fewer members or coordinates"}
}
