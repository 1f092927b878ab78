package model

import "troupe/serve/numbers"

// Ranges are the numbers of a model.
type Ranges = []numbers.Range

// NumberError names the field of a configuration or a request whose numbers, found at path, were refused.
func NumberError(path string, err error) *Error {
	e, ok := err.(*numbers.Error)
	if !ok {
		return Invalid(path, "", "%v", err)
	}
	if e.Field != "" && e.Field[0] != '[' {
		path += "."
	}
	return Invalid(path+e.Field, e.Value, "%s", e.Want).Told()
}
