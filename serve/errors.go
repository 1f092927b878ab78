package serve

import (
	"errors"
	"fmt"
	"time"

	"troupe/serve/model"
)

// Code is the kind of an error. The edge maps codes to the HTTP status numbers given here.
type Code string

const (
	NotFound    Code = "not_found"    // 404: no such model; no such event although the id is ours
	BadEventID  Code = "bad_event_id" // 400: not an id that this server made
	Invalid     Code = "invalid"      // 422: Field, Value and Want say what
	TooLarge    Code = "too_large"    // 413: the candidates do not fit into a record of the log
	Conflict    Code = "conflict"     // 409: name taken, version changed, idempotency key used for another request
	Paused      Code = "paused"       // 409: the model is paused
	Gone        Code = "gone"         // 410: the decision is no longer in the log
	TooBusy     Code = "too_busy"     // 429: RetryAfter
	Unavailable Code = "unavailable"  // 503: RetryAfter
	Full        Code = "full"         // 507: the log is full; RetryAfter
	Internal    Code = "internal"     // 500: an invariant broke; look at the server's log
)

// Error is every error of a Service.
type Error struct {
	Code Code
	// Field is the path of the request's field that is wrong, for instance actions[3].features.price
	// or config.reward.min; empty when it is none in particular.
	Field string
	// Value is what was found, shortened. It may repeat what users sent: show it to the operator of
	// a model (configurations), never in logs and answers about decisions. Error leaves it out.
	Value string
	// Want is what was expected, or what happened, in words that may be shown.
	Want string
	// RetryAfter is when to try again, 0 when there is nothing to wait for.
	RetryAfter time.Duration
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

// CodeOf returns the code of an error of a Service, Internal for an error that has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

func errorf(code Code, format string, a ...any) *Error {
	return &Error{Code: code, Want: fmt.Sprintf(format, a...)}
}

func invalid(field string, value any, format string, a ...any) *Error {
	v := fmt.Sprint(value)
	if len(v) > 80 {
		v = v[:80] + "…"
	}
	return &Error{Code: Invalid, Field: field, Value: v, Want: fmt.Sprintf(format, a...)}
}

// refused gives an error of packages model and choose its code: Invalid for one that names a field.
func refused(err error) error {
	if err == nil {
		return nil
	}
	var e *model.Error
	if errors.As(err, &e) {
		return &Error{Code: Invalid, Field: e.Field, Value: e.Value, Want: e.Want, Err: e.Err}
	}
	return err
}

// checkText refuses an id from outside that is too long or not UTF-8.
func checkText(field, id string) error {
	if err := model.CheckText(field, id); err != nil {
		return refused(err)
	}
	return nil
}

// ConfigError turns an error of DecodeModel or UnmarshalJSON into one of code Invalid.
func ConfigError(err error) *Error { return refused(model.ErrorAt("config", err)).(*Error) }

func noModel(name string) *Error {
	return &Error{Code: NotFound, Field: "model", Value: name, Want: "there is no such model"}
}
