package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"troupe/serve"
)

// Adapter is another API in front of the same service, for the clients of another product. Its calls pass the same
// door as those of /v1: hosts, keys, limits, the gate, the log of requests and the metrics. Behind it the adapter has
// an [Edge]. Its methods are called from many goroutines, but for Routes.
type Adapter interface {
	// Routes returns the calls that it takes. It is called once, before all others.
	Routes(e Edge, svc serve.Service) []Route
	// Tag is what its calls have in the OpenAPI document, title the heading above them on the page /docs.
	Tag() (tag, title string)
	// Owns reports whether a path is one of its own: there Fail writes what the door refuses, also where no route is.
	Owns(path string) bool
	// Class returns the class of a path that it owns, before it is known whether there is such a route.
	Class(path string) Class
	// Fail writes a problem in the form that its clients expect. The headers of the problem are set already.
	Fail(w http.ResponseWriter, p *Problem)
	// Close ends its work beside the requests, and waits until it has let go of the service.
	Close()
}

// Route is a call of an adapter.
type Route struct {
	Method   string
	Patterns []string // of http.ServeMux without the method, where the call is taken
	Serve    http.HandlerFunc
	Doc      *RouteDoc // its row in the OpenAPI document, nil for a call that is not described
}

// RouteDoc describes a call in the OpenAPI document.
type RouteDoc struct {
	ID, Path, Summary, Text string
	Scope                   Scope
	Status                  int               // of success; 0 means 200
	Body, Answer, Fault     any               // values of their types, nil for none or for bytes
	Example                 json.RawMessage   // of the body
	Parameters              map[string]string // name in the path → what it is
}

// adapters are those of an API.
type adapters []Adapter

// of returns the adapter that owns a path, nil when it is one of ours.
func (a adapters) of(path string) Adapter {
	for _, x := range a {
		if x.Owns(path) {
			return x
		}
	}
	return nil
}

// class returns the class of a path.
func (a adapters) class(path string) Class {
	if colon := strings.LastIndexByte(path, ':'); strings.HasPrefix(path, "/v1/") &&
		colon > strings.LastIndexByte(path, '/') {
		switch path[colon+1:] {
		case "decide", "decideBatch":
			return Deciding
		case "reward", "activate", "batch":
			return Feedback
		}
	} else if x := a.of(path); x != nil {
		return x.Class(path)
	}
	return Other
}

// Edge is what an adapter may ask of the API in front of which it stands. It is safe for concurrent use.
type Edge interface {
	// Allow checks that the key of a call has a scope, and a pattern for the model unless that is "".
	Allow(ctx context.Context, s Scope, model string) error
	// AllowEvent checks the scope, and the pattern for the model of an event.
	AllowEvent(ctx context.Context, s Scope, eventID string) error
	// AllowsModel returns the check of the model of an event for serve.RewardRequest, nil where every model is allowed.
	AllowsModel(ctx context.Context, s Scope) func(model string) error
	// Caller is the name of the key that the log keeps.
	Caller(ctx context.Context) string
	// Body reads a body within the limit, strictly, into a struct, and returns its bytes.
	Body(w http.ResponseWriter, r *http.Request, into any) ([]byte, error)
	// Fail answers with the problem that an error is. A fault of ours goes into the server's log.
	Fail(w http.ResponseWriter, r *http.Request, err error)
	// Edit changes the configuration of a model, and tries again when another change comes between.
	Edit(ctx context.Context, model string, change func(*serve.ModelConfig) error) (serve.Model, error)
	// Rewarded counts a reward in the metrics.
	Rewarded(status serve.RewardStatus, err error)
	// Export waits for one of the places of those that read the whole log. done gives it back.
	Export(ctx context.Context) (done func(), err error)
	// MaxActions bounds the candidates of one decision.
	MaxActions() int
	// Now is the clock, Logger takes what the operator should know.
	Now() time.Time
	Logger() *slog.Logger
}

// Refuse returns an error with one of the codes of the page /docs.
func Refuse(code, field, detail string) *Problem { return problem(code, field, detail) }

// ProblemOf translates every error into what may be shown.
func ProblemOf(err error) *Problem { return problemOf(err) }
