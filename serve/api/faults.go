package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
)

// faults writes what is refused: as /v1 does, and on the paths of an adapter in the form of its clients.
type faults struct {
	log      *slog.Logger
	adapters adapters
}

// fail writes a problem without huma.
func (f *faults) fail(w http.ResponseWriter, r *http.Request, p *Problem) {
	for k, v := range p.header {
		w.Header()[k] = v
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
		// A page asks a browser for a name and a key; paths are what routes go by.
		if r.URL.Path == "/" || r.URL.Path == "/models" ||
			strings.HasPrefix(r.URL.Path, "/models/") {
			w.Header().Set("WWW-Authenticate", `Basic realm="troupe: any name, a key as the password"`)
		}
	}
	requestOf(r.Context()).says(p)
	if x := f.adapters.of(r.URL.Path); x != nil {
		x.Fail(w, p)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// refuse is fail for any error.
func (f *faults) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f.fail(w, r, problemOf(err))
}

// problem is problemOf for a call that failed: a fault of ours goes into the log with its cause, and what is the
// caller's fault stays with the caller.
func (f *faults) problem(ctx context.Context, err error) *Problem {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		f.log.Error("a call failed", "request", requestOf(ctx).id, "error", err)
	}
	return p
}

// failed is problem for a call as a whole, which the log of requests names.
func (f *faults) failed(ctx context.Context, err error) *Problem {
	p := f.problem(ctx, err)
	requestOf(ctx).problem = p.Code
	return p
}
