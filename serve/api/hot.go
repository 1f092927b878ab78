package api

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"troupe/serve"
)

// The hot routes are those that a running application calls all the time: :decide, :decideBatch, :reward and
// rewards:batch. What is usual there goes a short way: the body is read once into a buffer that is used again, scan
// makes the request of it, and the answer is written without reflection. Everything else, and every request that has
// something wrong, goes the way of the other routes, with the body as it was; so errors have one source, and both ways
// give the same answer.

// scratch is what a hot request needs and gives back.
type scratch struct {
	from      body
	body, out []byte
	scan      scan
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

const mostScratch = 1 << 20 // larger buffers are not kept

func (s *scratch) release() {
	s.scan.end()
	s.from = body{}
	if cap(s.body) <= mostScratch && cap(s.out) <= mostScratch {
		scratches.Put(s)
	}
}

// hotCalls serves the hot routes.
type hotCalls struct {
	svc     serve.DecisionService
	opts    *Options
	metrics *metrics
	faults  *faults
	origin  *http.CrossOriginProtection
	limits  atomic.Pointer[limit] // of the requests that begin now
}

// serve answers a request to a hot route, or reports false when it is for the other way; the request then has its
// body still. left, if not 0, is the time that the client gives.
func (a *hotCalls) serve(w http.ResponseWriter, r *http.Request, info *request, route hotRoute, name string,
	left time.Duration) bool {
	key, ok := plainHeaders(r.Header, hotPaths[route].key)
	if !ok || r.ContentLength > a.opts.MaxBody || !info.page && a.origin.Check(r) != nil {
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
	s.from = body{ReadCloser: r.Body, left: r.ContentLength, limit: r.ContentLength}
	n, err := io.ReadFull(&s.from, s.body)
	if err != nil {
		r.Body.Close() // the other way would begin to wait for it again
		var failed error = bodyProblem(err)
		if failed == (*Problem)(nil) {
			failed = err
		}
		a.fail(r.Context(), w, info, failed)
		return true
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the answer may take longer
	if !s.scan.begin(s.body) || !a.scan(&s.scan, route) {
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
	err = a.call(ctx, s, route, name, key)
	if err != nil {
		a.fail(ctx, w, info, err) // what came of the call may not be known, so the buffers are not used again
		return true
	}
	w.Header()["Content-Type"] = jsonType
	w.Write(append(s.out, '\n'))
	s.release()
	return true
}

// fail writes a problem as the other routes do.
func (a *hotCalls) fail(ctx context.Context, w http.ResponseWriter, info *request, err error) {
	p := a.faults.problem(ctx, err)
	info.says(p)
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

// scan reads a body.
func (a *hotCalls) scan(s *scan, route hotRoute) bool {
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

// call calls the service and makes the answer.
func (a *hotCalls) call(ctx context.Context, s *scratch, route hotRoute, name, key string) error {
	model := ""
	if route == hotDecide || route == hotDecides {
		model = name
	}
	if err := allow(ctx, hotOperations[route].scope, model); err != nil {
		return err
	}
	switch route {
	case hotDecide:
		return a.decide(ctx, s, name, key)
	case hotDecides:
		return a.decides(ctx, s, name, key)
	case hotReward:
		return a.reward(ctx, s, name, key)
	}
	return a.rewards(ctx, s)
}

func (a *hotCalls) decide(ctx context.Context, s *scratch, name, key string) error {
	r := &s.scan.decides[0]
	r.Caller, r.IdempotencyKey = caller(ctx), key
	d, err := a.svc.Decide(ctx, name, *r)
	if err != nil {
		return err
	}
	s.out = appendDecision(s.out[:0], &d)
	return nil
}

func (a *hotCalls) decides(ctx context.Context, s *scratch, name, key string) error {
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

func (a *hotCalls) reward(ctx context.Context, s *scratch, event, key string) error {
	r := &s.scan.rewards[0]
	if r.EventID = event; r.Key == "" {
		r.Key = key
	}
	r.Caller, r.Allow = caller(ctx), allowsModel(ctx, Reward)
	x, err := a.svc.Reward(ctx, *r)
	a.metrics.reward(x.Status, err)
	if err != nil {
		return err
	}
	s.out = appendReward(s.out[:0], &x)
	return nil
}

func (a *hotCalls) rewards(ctx context.Context, s *scratch) error {
	rs, allow := s.scan.rewards, allowsModel(ctx, Reward)
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
func (a *hotCalls) appendProblem(ctx context.Context, b []byte, err error) []byte {
	b = appendJSON(append(b, `{"problem":`...), a.faults.problem(ctx, err))
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
	if len(d.Warnings) > 0 || len(d.Explain) > 0 || d.Numbers != nil || len(d.List) > 0 {
		shown := *d // so that d stays on the stack
		b = appendJSON(b, &shown)
		return b[:len(b)-1]
	}
	b = appendString(append(b, `{"event_id":`...), d.EventID)
	if d.Action != (serve.Chosen{}) {
		b = appendString(append(b, `,"action":{"id":`...), d.Action.ID)
		b = append(strconv.AppendInt(append(b, `,"index":`...), int64(d.Action.Index), 10), '}')
	}
	if d.Propensity != (serve.Fraction{}) {
		b = appendFraction(append(b, `,"propensity":`...), d.Propensity)
	}
	b = appendString(append(b, `,"mode":`...), string(d.Mode))
	b = strconv.AppendUint(append(b, `,"seq":`...), d.Seq, 10)
	b = strconv.AppendUint(append(b, `,"basis_seq":`...), d.BasisSeq, 10)
	b = strconv.AppendBool(append(b, `,"durable":`...), d.Durable)
	if d.Repeated {
		b = append(b, `,"repeated":true`...)
	}
	if d.Group != "" {
		b = appendString(append(b, `,"group":`...), d.Group)
	}
	if d.Would != nil {
		b = appendString(append(b, `,"would":{"action":`...), d.Would.Action)
		b = append(appendFraction(append(b, `,"propensity":`...), d.Would.Propensity), '}')
	}
	return append(b, '}')
}

// appendReward appends the result of a reward.
func appendReward(b []byte, r *serve.RewardResult) []byte {
	if len(r.Positions) > 0 {
		shown := *r // so that r stays on the stack
		b = appendJSON(b, &shown)
		return b[:len(b)-1]
	}
	b = appendString(append(b, `{"status":`...), string(r.Status))
	return append(strconv.AppendUint(append(b, `,"seq":`...), r.Seq, 10), '}')
}

// limit returns the limit of a request that begins now: the timeout, and at most a twentieth more.
func (a *hotCalls) limit() *limit {
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
