package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// readBody reads a body within the limit, for the routes that are not huma's.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.Copy(&b, http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem("too_large", "", fmt.Sprintf("the body has more than %d bytes", large.Limit))
	case err != nil:
		return nil, problem("malformed", "", "the body ended early")
	}
	return b.Bytes(), nil
}

// readForm reads the body of a form within the limit, or answers why not.
func (f *faults) readForm(w http.ResponseWriter, r *http.Request, most int64) bool {
	r.Body = http.MaxBytesReader(w, r.Body, 3*most) // a form writes a byte as up to three
	err := r.ParseForm()
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return true
	case errors.As(err, &large):
		f.fail(w, r, problem("too_large", "", fmt.Sprintf("the form has more than %d bytes", large.Limit)))
	default:
		f.fail(w, r, problem("malformed", "", "the form cannot be read"))
	}
	return false
}
