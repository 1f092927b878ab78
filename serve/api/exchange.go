package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"troupe/timing"
)

// request is what the edge knows of a request; it travels in the context.
type request struct {
	id     string
	holder *holder
	page   bool   // of a page of another site, which Options.Origins has
	model  string // set when it is known, for the log

	problem string // code of the answer, for the log
	reason  string // of a 503, for the log

	hot hotContext // of a hot route
}

type requestKey struct{}

var nosniff = []string{"nosniff"}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil {
		return &request{holder: &holder{}}
	}
	return r
}

// says notes the answer for the log, and gives it the id of the request.
func (i *request) says(p *Problem) {
	if i.problem = p.Code; i.id != "" {
		p.RequestID = i.id
	}
	if p.Status == http.StatusServiceUnavailable {
		i.reason = p.Detail
	}
}

// exchange is a request and its answer, in one allocation.
type exchange struct {
	request
	response
	id      [1]string
	r       *http.Request
	pattern string // of a hot route; that of the others is in r
	start   timing.Instant
	wait    time.Duration // that its client has given a decision, 0 when it says none

	address string        // that holds a part of shares
	shares  *shares       // nil for none
	place   chan struct{} // that it holds a place of, nil for none
	gate    *gate         // that it has passed, nil for none
	weight  int           // that it holds of it
}

// response remembers the status.
type response struct {
	http.ResponseWriter
	status int
	ended  context.Context // the request's own of HTTP/1.1, nil otherwise
	from   *url.URL        // of the request
}

// lastOf ends the connection behind this answer where net/http has ended its context: the time to read passed while the
// request was answered, as it does when a process was stopped for a while. net/http would keep the connection, and its
// next request would have no time at all.
func (w *response) lastOf() {
	if w.ended != nil && w.ended.Err() != nil {
		w.Header().Set("Connection", "close")
	}
}

// WriteHeader sends the first status only: huma gives another one when it cannot write a body, because the client has
// left.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.lastOf()
	if at := w.Header().Get("Location"); status == http.StatusTemporaryRedirect && at != "" && w.from != nil {
		w.Header().Set("Location", strings.TrimSuffix(at, "/")+w.from.RequestURI())
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
		w.lastOf()
	}
	return w.ResponseWriter.Write(b)
}

func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// requestID takes the caller's id when it is harmless, otherwise makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool {
		return c <= ' ' || c > '~' ||
			c == '"' || c == '\\'
	}) {
		return id
	}
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// hotContext is the context of a hot request: its values, and the end of the time that it has, which it shares with the
// others of that moment. A client that leaves does not end it: what was asked is recorded, or refused, as it would have
// been.
type hotContext struct {
	context.Context
	info  *request
	limit *limit
}

func (c *hotContext) Deadline() (time.Time, bool) { return c.limit.at, true }

func (c *hotContext) Done() <-chan struct{} { return c.limit.done }

func (c *hotContext) Err() error {
	select {
	case <-c.limit.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (c *hotContext) Value(key any) any {
	if key == (requestKey{}) {
		return c.info
	}
	return c.Context.Value(key)
}

// limit is the end of the time of the requests of one moment.
type limit struct {
	until time.Time // requests that begin later take the next one
	at    time.Time
	done  chan struct{}
}
