package serve

import (
	"troupe/serve/fault"
	"troupe/serve/model"
)

// Code is the kind of an error, and Error is every error of a Service: see package fault.
type (
	Code  = fault.Code
	Error = fault.Error
)

// The codes; see fault.Code.
const (
	NotFound    = fault.NotFound
	BadEventID  = fault.BadEventID
	Invalid     = fault.Invalid
	TooLarge    = fault.TooLarge
	Conflict    = fault.Conflict
	Paused      = fault.Paused
	ModelFailed = fault.ModelFailed
	Needed      = fault.Needed
	Changing    = fault.Changing
	Moved       = fault.Moved
	Leaving     = fault.Leaving
	Gone        = fault.Gone
	TooBusy     = fault.TooBusy
	Unavailable = fault.Unavailable
	Full        = fault.Full
	Internal    = fault.Internal
)

// CodeOf returns the code of an error of a Service, Internal for an error that has none.
func CodeOf(err error) Code { return fault.CodeOf(err) }

func errorf(code Code, format string, a ...any) *Error { return fault.Errorf(code, format, a...) }

func invalid(field string, value any, format string, a ...any) *Error {
	return fault.Invalidf(field, value, format, a...)
}

func refused(err error) error { return fault.Refused(err) }

// checkText refuses an id from outside that is too long or not UTF-8.
func checkText(field, id string) error { return refused(model.CheckText(field, id)) }

// ConfigError turns an error of DecodeModel or UnmarshalJSON into one of code Invalid.
func ConfigError(err error) *Error { return refused(model.ErrorAt("config", err)).(*Error) }

func noModel(name string) *Error {
	return &Error{Code: NotFound, Field: "model", Value: name, Want: "there is no such model"}
}

// errMeanwhile: the fold refused an act, because another one came first.
var errMeanwhile = errorf(Conflict, "the model has changed meanwhile")
