package api

import (
	"bytes"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// bounded gives the operations of huma bodies within a limit.
func (f *faults) bounded(limit int64) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		if err := within(r, limit); err != nil {
			w.Header().Set("Connection", "close") // the rest of the body is not read
			f.fail(w, r, bodyProblem(err))
			return
		}
		next(ctx)
	}
}

// readBody reads a body within the limit, for the routes that are not huma's.
func readBody(_ http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if err := within(r, most); err != nil {
		return nil, bodyProblem(err)
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, r.Body); err != nil {
		if p := bodyProblem(err); p != nil {
			return nil, p
		}
		return nil, err
	}
	return b.Bytes(), nil
}

// readForm reads the body of a form within the limit, or answers why not.
func (f *faults) readForm(w http.ResponseWriter, r *http.Request, most int64) bool {
	err := within(r, 3*most) // a form writes a byte as up to three
	if err == nil {
		if err = r.ParseForm(); err == nil {
			return true
		}
	}
	p := bodyProblem(err)
	if p == nil {
		p = problem("malformed", "", "the form cannot be read")
	}
	f.fail(w, r, p)
	return false
}
