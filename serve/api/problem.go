package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"troupe/serve"
)

// Problem is the body of every error, application/problem+json of RFC 9457. It never repeats what a
// request said: requests are full of other people's data.
type Problem struct {
	Type   string `json:"type" doc:"where this kind of problem is explained, a path on this server"`
	Title  string `json:"title" doc:"the kind of problem in words"`
	Status int    `json:"status" doc:"the HTTP status"`
	Code   string `json:"code" doc:"the kind of problem in one word that never changes"`
	Detail string `json:"detail,omitempty" doc:"what happened here"`
	Field  string `json:"field,omitempty" doc:"the field of the request that is wrong, such as actions[3].id"`
	// RetryAfter repeats the header, in seconds.
	RetryAfter int `json:"retry_after,omitempty" doc:"seconds after which another try makes sense"`
	// Unknown outcome: the call may have happened. Repeat it as it was.
	Unknown bool `json:"unknown_outcome,omitempty" doc:"the call may have been recorded: repeat it, with the same Idempotency-Key"`
	// RequestID repeats the header. Problems of the entries of a batch leave it out.
	// MovedTo repeats the header Location without the path.
	MovedTo   string `json:"moved_to,omitempty" doc:"of moved: address of the server that has the model"`
	RequestID string `json:"request_id,omitempty" doc:"the header X-Request-Id of this answer, by which the server's log names the request"`

	header http.Header
}

// The kinds of problems: status, title and what to do. The page /docs prints this table.
var problems = []struct {
	code   string
	status int
	title  string
	advice string
}{
	{"moved", 307, "The model is at another server", "Repeat the call there: Location has the address. Clients of troupe do."},
	{"malformed", 400, "The request cannot be read", "Not JSON, a member twice, not UTF-8. Correct the request."},
	{"bad_event_id", 400, "Not an event id of this server",
		"Event ids are signed. Send the id that decide answered, unchanged."},
	{"unauthorized", 401, "No valid key", "Send a key as Authorization: Bearer troupe_…"},
	{"forbidden", 403, "The key may not do this", "Use a key that has the scope and a pattern for the model."},
	{"not_found", 404, "There is no such thing", "Check the name of the model or the path."},
	{"method_not_allowed", 405, "This path has other methods", "See the header Allow and the page /docs."},
	{"not_acceptable", 406, "There is no such form of the answer", "See the header Accept of the path in /docs."},
	{"request_timeout", 408, "The request did not come in time", "Send the body within the time of --timeout."},
	{"conflict", 409, "It changed, or it is there already",
		"Read it again and decide anew; an Idempotency-Key belongs to one request."},
	{"paused", 409, "The model is paused", "Use the default of your application until the model is resumed."},
	{"model_failed", 409, "The model cannot decide",
		"Repeating does not help: use the default of your application. The member detail has the call that mends the model."},
	{"needed", 409, "The node may not be stopped now", "Wait until the others have what the member detail says."},
	{"changing", 409, "A change of the nodes is under way",
		"Repeat when it is done; the member detail says what it waits for."},
	{"gone", 410, "The event is no longer in the log", "It is too old. Nothing is to be done."},
	{"precondition_failed", 412, "The configuration changed meanwhile",
		"Read it again, with its ETag, and repeat the change."},
	{"too_large", 413, "The request is too large", "Send fewer actions or items, or packed numbers."},
	{"unsupported_media_type", 415, "The body is not plain JSON", "Send JSON without compression."},
	{"wrong_host", 421, "This server answers to its own names only",
		"Use localhost, 127.0.0.1 or a name given with --host."},
	{"invalid", 422, "A field has a value that is refused", "The member field names it."},
	{"unknown_field", 422, "A field is not known", "The member field names it; see /docs."},
	{"too_deep", 422, "The body is nested too deep", "Flatten it."},
	{"precondition_required", 428, "A change needs If-Match", "Send the ETag of the configuration that you read."},
	{"too_busy", 429, "Too many requests", "Wait for the time in Retry-After."},
	{"internal", 500, "A fault of the server", "Its log says more; the request id finds the line."},
	{"not_supported", 501, "This server has no such operation", "The member detail says what to do instead."},
	{"unavailable", 503, "Not available now",
		"Repeat after Retry-After. With unknown_outcome the call may have happened: detail says what a repetition " +
			"does."},
	{"leaving", 503, "The model is about to go to another server", "Repeat at once; the move takes about a second."},
	{"full", 507, "The log is full", "Nothing is lost. Make room; the server goes on by itself."},
}

func problem(code, field, detail string) *Problem {
	for _, p := range problems {
		if p.code == code {
			return &Problem{Type: "/docs#" + code, Title: p.title, Status: p.status, Code: code, Field: field,
				Detail: detail}
		}
	}
	return problem("internal", "", "")
}

// After adds a time to wait, in whole seconds, at least one.
func (p *Problem) After(d time.Duration) *Problem {
	if d > 0 {
		p.RetryAfter = max(1, int(math.Ceil(d.Seconds())))
		p.header = http.Header{"Retry-After": {strconv.Itoa(p.RetryAfter)}}
	}
	return p
}

// Error says in one line what is wrong.
func (p *Problem) Error() string {
	if p.Field != "" {
		return p.Code + ": " + p.Field + ": " + p.Detail
	}
	return p.Code + ": " + p.Detail
}

// GetStatus, GetHeaders and ContentType are what huma asks an error for.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the answer, such as Retry-After.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType is that of RFC 9457, whatever the request accepts.
func (p *Problem) ContentType(_ string) string { return "application/problem+json" }

// problemOf translates every error into what may be shown.
func problemOf(err error) *Problem {
	var p *Problem
	var f *fieldError
	var e *serve.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &f):
		code := f.Code
		if code == "" {
			code = "invalid"
		}
		return problem(code, f.Field, f.Want)
	case errors.As(err, &e):
		if e.Code == serve.Internal {
			return problem("internal", "", "look at the server's log")
		}
		detail := e.Want
		// A path that begins with config is of a configuration, which is its operator's own, so its value is shown. Package
		// model makes these paths, and no part of them comes from a request.
		if e.Value != "" && (e.Tell || strings.HasPrefix(e.Field, "config.")) {
			detail = "is " + e.Value + ", " + e.Want
		}
		p = problem(string(e.Code), requestField(e.Field), detail)
		p.Unknown = e.Unknown
		wait := e.RetryAfter
		if e.To != "" {
			p.MovedTo, p.header = e.To, http.Header{"Location": {e.To}}
		}
		if wait == 0 && e.Code != serve.Leaving && (p.Status == 429 || p.Status == 503 || p.Status == 507) {
			wait = time.Second
		}
		return p.After(wait)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p = problem("unavailable", "", "the request ended before an answer; it may have been recorded")
		p.Unknown = true
		return p.After(time.Second)
	}
	return problem("internal", "", "look at the server's log")
}

// requestField names a field of the service as the request has it: a configuration is the whole body, and an
// idempotency key is a header.
func requestField(field string) string {
	switch {
	case field == "config":
		return ""
	case field == "idempotency_key":
		return "header.Idempotency-Key"
	}
	return strings.TrimPrefix(field, "config.")
}

// bodyProblem returns the answer to a body that cannot be read, nil for other errors.
func bodyProblem(err error) *Problem {
	var large *largeBody
	var broken *brokenBody
	switch {
	case errors.As(err, &large):
		return problem("too_large", "", large.Error())
	case errors.As(err, &broken):
		return problem("malformed", "", "the body is not as the headers say: it ended early, or is not in valid chunks")
	case late(err):
		return problem("request_timeout", "", "the body did not come in time")
	}
	return nil
}

// setErrors makes huma's own errors problems of ours. huma has one hook for the whole process; its
// default repeats the request in its answer.
var setErrors = sync.OnceFunc(func() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		for _, err := range errs {
			var d *huma.ErrorDetail
			if errors.As(err, &d) { // a parameter of the path, the query or a header
				if d.Message == "invalid integer" {
					d.Message = "expected a whole number that fits"
				}
				return problem("invalid", d.Location, d.Message)
			}
			if p := bodyProblem(err); p != nil {
				return p
			}
		}
		detail := ""
		if message == "request body is required" { // huma says it in no other way, and only the words depend on it
			detail = emptyBody
		}
		for _, p := range problems {
			if p.status == status {
				return problem(p.code, "", detail)
			}
		}
		if status >= 500 {
			return problem("internal", "", "")
		}
		return problem("invalid", "", strings.ToLower(http.StatusText(status)))
	}
})
