package api

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"troupe/serve"
)

// The hot routes are those that a running application calls all the time: :decide, :decideBatch, :reward and
// rewards:batch. What is usual there goes a short way: the body is read once into a buffer that is used again, scan
// makes the request of it, and the answer is written without reflection. Everything else, and every request that has
// something wrong, goes the way of the other routes, with the body as it was; so errors have one source, and both ways
// give the same answer.

// hotRoute is one of the hot routes, or none.
type hotRoute int

const (
	notHot hotRoute = iota
	hotDecide
	hotDecides
	hotReward
	hotRewards
)

// hotPath is how a hot route is recognised: the path of its operation around the model or the event that it names.
type hotPath struct {
	prefix, suffix string
	name           int    // longest name, 0 for a path without one
	key            int    // longest idempotency key, so that those of a batch's items are at most 256
	pattern        string // in the metrics and the log
}

var hotPaths = [...]hotPath{
	hotDecide:  pathOf(hotDecide, 64, 256),
	hotDecides: pathOf(hotDecides, 64, 252),
	hotReward:  pathOf(hotReward, 256, 256),
	hotRewards: pathOf(hotRewards, 0, 256),
}

func pathOf(route hotRoute, name, key int) hotPath {
	o := hotOperations[route]
	p := hotPath{prefix: o.path, name: name, key: key, pattern: o.method + " " + splitVerb(o.path)}
	if name > 0 {
		from, to := strings.IndexByte(o.path, '{'), strings.IndexByte(o.path, '}')
		p.prefix, p.suffix = o.path[:from], o.path[to+1:]
	}
	return p
}

// hot returns the hot route of a request and the model or event that it names, or notHot.
func hot(r *http.Request) (route hotRoute, name string) {
	u := r.URL
	if r.Method != http.MethodPost || u.RawPath != "" || u.RawQuery != "" || u.ForceQuery || r.ContentLength <= 0 ||
		len(r.TransferEncoding) > 0 {
		return notHot, ""
	}
	for route = hotDecide; ; route++ {
		if route > hotRewards {
			return notHot, ""
		}
		p := &hotPaths[route]
		if p.name == 0 && u.Path == p.prefix {
			return route, ""
		}
		if p.name > 0 && len(u.Path) > len(p.prefix)+len(p.suffix) && strings.HasPrefix(u.Path, p.prefix) &&
			strings.HasSuffix(u.Path, p.suffix) {
			name = u.Path[len(p.prefix) : len(u.Path)-len(p.suffix)]
			break
		}
	}
	if len(name) > hotPaths[route].name {
		return notHot, ""
	}
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return notHot, ""
		}
	}
	return route, name
}

// plainHeaders reports whether the headers that change what a body means or how an answer looks are absent or usual,
// and returns the idempotency key.
func plainHeaders(h http.Header, most int) (key string, ok bool) {
	for _, name := range []string{"Content-Type", "Accept"} {
		if v := h[name]; len(v) > 1 || len(v) == 1 && v[0] != "application/json" &&
			(name != "Accept" || v[0] != "*/*") {
			return "", false
		}
	}
	if h["Content-Encoding"] != nil || h[timeoutHeader] != nil && patience(h[timeoutHeader]) == 0 {
		return "", false
	}
	v := h["Idempotency-Key"]
	if len(v) == 0 {
		return "", true
	}
	if key = v[0]; len(v) > 1 || len(key) > most {
		return "", false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return "", false
		}
	}
	return key, true
}

// scratch is what a hot request needs and gives back.
type scratch struct {
	body, out []byte
	scan      scan
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

const mostScratch = 1 << 20 // larger buffers are not kept

func (s *scratch) release() {
	s.scan.end()
	if cap(s.body) <= mostScratch && cap(s.out) <= mostScratch {
		scratches.Put(s)
	}
}

// serveHot answers a request to a hot route, or reports false when it is for the other way; the request then has its
// body still. left, if not 0, is the time that the client gives.
func (a *API) serveHot(w http.ResponseWriter, r *http.Request, info *request, route hotRoute, name string,
	left time.Duration) bool {
	key, ok := plainHeaders(r.Header, hotPaths[route].key)
	if !ok || r.ContentLength >= a.opts.MaxBody || a.origin.Check(r) != nil {
		return false
	}
	s := scratches.Get().(*scratch)
	// As for the other routes; net/http sets its own deadline before the next request.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.opts.Timeout))
	if n := int(r.ContentLength); cap(s.body) < n {
		s.body = make([]byte, n, max(n, 4<<10))
	} else {
		s.body = s.body[:n]
	}
	n, err := io.ReadFull(r.Body, s.body)
	if err != nil {
		// As huma answers it. Its way would begin to wait for the body again.
		r.Body.Close()
		status, message := http.StatusInternalServerError, "cannot read request body"
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			status, message = http.StatusRequestTimeout, "request body read timeout"
		}
		a.failHot(r.Context(), w, info, huma.NewError(status, message, err))
		return true
	}
	if !s.scan.begin(s.body) || !a.scanHot(&s.scan, route) {
		r.Body = &replay{Reader: bytes.NewReader(s.body[:n]), Closer: r.Body}
		return false // the buffer goes with the body
	}
	info.hot = hotContext{Context: r.Context(), info: info, limit: a.limit()}
	var ctx context.Context = &info.hot
	if left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	err = a.callHot(ctx, s, route, name, key)
	if err != nil {
		a.failHot(ctx, w, info, err) // what came of the call may not be known, so the buffers are not used again
		return true
	}
	w.Header()["Content-Type"] = jsonType
	w.Write(append(s.out, '\n'))
	s.release()
	return true
}

// failHot writes a problem as the other routes do.
func (a *API) failHot(ctx context.Context, w http.ResponseWriter, info *request, err error) {
	p := problemOf(err)
	info.says(p)
	a.explain(ctx, p, err)
	h := w.Header()
	for k, v := range p.header {
		h[k] = v
	}
	h["Content-Type"] = []string{"application/problem+json"}
	w.WriteHeader(p.Status)
	w.Write(appendJSON(nil, p))
}

var jsonType = []string{"application/json"}

// replay is a body that begins again.
type replay struct {
	io.Reader
	io.Closer
}

// scanHot reads a body.
func (a *API) scanHot(s *scan, route hotRoute) bool {
	switch route {
	case hotDecide:
		return s.oneDecide(a.opts.MaxActions)
	case hotDecides:
		return s.manyDecides(a.opts.MaxActions, 256)
	case hotReward:
		return s.oneReward()
	}
	return s.manyRewards(10_000)
}

// callHot calls the service and makes the answer.
func (a *API) callHot(ctx context.Context, s *scratch, route hotRoute, name, key string) error {
	model := ""
	if route == hotDecide || route == hotDecides {
		model = name
	}
	if err := a.allow(ctx, hotOperations[route].scope, model); err != nil {
		return err
	}
	switch route {
	case hotDecide:
		return a.decideHot(ctx, s, name, key)
	case hotDecides:
		return a.decidesHot(ctx, s, name, key)
	case hotReward:
		return a.rewardHot(ctx, s, name, key)
	}
	return a.rewardsHot(ctx, s)
}

func (a *API) decideHot(ctx context.Context, s *scratch, name, key string) error {
	r := &s.scan.decides[0]
	r.Caller, r.IdempotencyKey = caller(ctx), key
	d, err := a.svc.Decide(ctx, name, *r)
	if err != nil {
		return err
	}
	s.out = appendDecision(s.out[:0], &d)
	return nil
}

func (a *API) decidesHot(ctx context.Context, s *scratch, name, key string) error {
	rs := s.scan.decides
	for i := range rs {
		rs[i].Caller = caller(ctx)
		if rs[i].IdempotencyKey = key; key != "" {
			rs[i].IdempotencyKey = key + "/" + strconv.Itoa(i)
		}
	}
	items, err := a.svc.DecideBatch(ctx, name, rs)
	if err != nil {
		return err
	}
	b := append(s.out[:0], `{"results":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		if items[i].Err != nil {
			b = a.appendProblem(ctx, b, items[i].Err)
		} else {
			b = append(appendDecision(append(b, `{"decision":`...), &items[i].Decision), '}')
		}
	}
	s.out = append(b, "]}"...)
	return nil
}

func (a *API) rewardHot(ctx context.Context, s *scratch, event, key string) error {
	r := &s.scan.rewards[0]
	if r.EventID = event; r.Key == "" {
		r.Key = key
	}
	r.Caller, r.Allow = caller(ctx), a.allowsModel(ctx, Reward)
	x, err := a.svc.Reward(ctx, *r)
	a.metrics.reward(x.Status, err)
	if err != nil {
		return err
	}
	s.out = appendReward(s.out[:0], &x)
	return nil
}

func (a *API) rewardsHot(ctx context.Context, s *scratch) error {
	rs, allow := s.scan.rewards, a.allowsModel(ctx, Reward)
	for i := range rs {
		rs[i].Caller, rs[i].Allow = caller(ctx), allow
	}
	items, err := a.svc.RewardBatch(ctx, rs)
	if err != nil {
		return err
	}
	b := append(s.out[:0], `{"results":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		a.metrics.reward(items[i].Result.Status, items[i].Err)
		if items[i].Err != nil {
			b = a.appendProblem(ctx, b, items[i].Err)
		} else {
			b = append(appendReward(append(b, `{"result":`...), &items[i].Result), '}')
		}
	}
	s.out = append(b, "]}"...)
	return nil
}

// appendProblem appends the entry of a batch that failed.
func (a *API) appendProblem(ctx context.Context, b []byte, err error) []byte {
	p := problemOf(err)
	a.explain(ctx, p, err)
	b = appendJSON(append(b, `{"problem":`...), p)
	b[len(b)-1] = '}' // instead of the newline
	return b
}

// appendJSON appends a value and a newline, as the other routes write it.
func appendJSON(b []byte, v any) []byte {
	buf := bytes.NewBuffer(b)
	enc := stdjson.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // a problem or a decision
	}
	return buf.Bytes()
}

// appendString appends a string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b = appendJSON(b, s)
			return b[:len(b)-1]
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendFraction(b []byte, f serve.Fraction) []byte {
	b = strconv.AppendUint(append(b, `{"num":`...), f.Num, 10)
	return append(strconv.AppendUint(append(b, `,"den":`...), f.Den, 10), '}')
}

// appendDecision appends a decision.
func appendDecision(b []byte, d *serve.Decision) []byte {
	if len(d.Warnings) > 0 || len(d.Explain) > 0 {
		shown := *d // so that d stays on the stack
		b = appendJSON(b, &shown)
		return b[:len(b)-1]
	}
	b = appendString(append(b, `{"event_id":`...), d.EventID)
	b = appendString(append(b, `,"action":{"id":`...), d.Action.ID)
	b = strconv.AppendInt(append(b, `,"index":`...), int64(d.Action.Index), 10)
	b = appendFraction(append(b, `},"propensity":`...), d.Propensity)
	b = appendString(append(b, `,"mode":`...), string(d.Mode))
	b = strconv.AppendUint(append(b, `,"seq":`...), d.Seq, 10)
	b = strconv.AppendUint(append(b, `,"basis_seq":`...), d.BasisSeq, 10)
	b = strconv.AppendBool(append(b, `,"durable":`...), d.Durable)
	if d.Repeated {
		b = append(b, `,"repeated":true`...)
	}
	if d.Would != nil {
		b = appendString(append(b, `,"would":{"action":`...), d.Would.Action)
		b = append(appendFraction(append(b, `,"propensity":`...), d.Would.Propensity), '}')
	}
	return append(b, '}')
}

// appendReward appends the result of a reward.
func appendReward(b []byte, r *serve.RewardResult) []byte {
	b = appendString(append(b, `{"status":`...), string(r.Status))
	return append(strconv.AppendUint(append(b, `,"seq":`...), r.Seq, 10), '}')
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
func (c *hotContext) Done() <-chan struct{}       { return c.limit.done }

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

// limit returns the limit of a request that begins now: the timeout, and at most a twentieth more.
func (a *API) limit() *limit {
	now := time.Now()
	if l := a.limits.Load(); l != nil && now.Before(l.until) {
		return l
	}
	part := min(a.opts.Timeout/20, 50*time.Millisecond)
	l := &limit{until: now.Add(part), at: now.Add(a.opts.Timeout + part), done: make(chan struct{})}
	time.AfterFunc(a.opts.Timeout+part, func() { close(l.done) })
	a.limits.Store(l)
	return l
}
