package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/serve"
	"troupe/spec"
)

// API serves HTTP. It is an http.Handler, safe for concurrent use. It is the door: it checks and counts what comes, and
// hands it to the calls and pages behind it, each of which has what it needs.
type API struct {
	opts     Options
	keys     atomic.Pointer[Keys]
	requests chan struct{} // semaphore of the requests
	feedback chan struct{} // of those with rewards and activations
	gates    *gates
	shutdown chan struct{} // closed when an http.Server of Server shuts down
	once     sync.Once     // closes it

	connections *connections
	shares      struct{ requests, feedback *shares } // of the places, by address
	drained     atomic.Bool                          // the node is about to stop
	noHot       bool                                 // for tests: hot routes go the way of the others
	calls       *calls                               // under /v1
	hot         *hotCalls
	mux         *http.ServeMux
	faults      *faults
	metrics     *metrics
	flow        *flow
	unavailable paced // lines about calls that were answered 503
	openapi     []byte
	origin      *http.CrossOriginProtection
}

// New returns an API in front of a service.
func New(svc serve.Service, o Options) (*API, error) {
	setErrors()
	o.setDefaults()
	for i, origin := range o.Origins {
		if err := CheckOrigin(origin); err != nil {
			return nil, fmt.Errorf("api: Origins[%d] is %w", i, err)
		}
	}
	if len(o.Origins) > 0 && o.Keys == nil {
		return nil, errors.New("api: Origins needs Keys: without them every page of the list could do everything")
	}
	a := &API{opts: o, requests: make(chan struct{}, o.Concurrent), feedback: make(chan struct{}, o.Concurrent),
		gates: newGates(o.Clock), shutdown: make(chan struct{}), mux: http.NewServeMux(),
		origin: http.NewCrossOriginProtection(), faults: &faults{o.Logger, o.Adapters},
		flow: &flow{svc: svc, clock: o.Clock}}
	a.keys.Store(o.Keys)
	a.metrics = newMetrics(svc, &a.opts, a.gates.waiting)
	a.shares.requests, a.shares.feedback = newShares(o.Concurrent), newShares(o.Concurrent)
	a.connections = newConnections(o.Connections, a.metrics.cutOff.Inc)
	exports := make(chan struct{}, maxExports)
	a.calls = newCalls(svc, o.MaxActions, a.metrics, a.faults, exports, &a.drained)
	a.hot = &hotCalls{svc: svc, opts: &a.opts, metrics: a.metrics, faults: a.faults, origin: a.origin}
	d := newDocument(a.mux, &a.opts, a.faults)
	for _, o := range a.calls.operations() {
		o.route(d, o)
	}
	describeLog(d.huma.OpenAPI())
	status := &statusPages{svc: svc, opts: &a.opts, metrics: a.metrics, flow: a.flow, faults: a.faults,
		verdicts: &verdicts{log: svc, exports: exports}}
	status.routes(a.mux, d)
	(&modelPages{svc, &a.opts, a.calls.decisions, a.calls.coins, a.calls.controls, a.faults, exports, newTurns()}).routes(a.mux)
	(&newPages{svc, &a.opts, a.faults}).routes(a.mux)
	(&livePages{svc, &a.opts, a.faults, make(chan struct{}, maxLive), a.shutdown}).routes(a.mux)
	edge := apiEdge{&a.opts, a.calls.models, svc, a.metrics, a.faults, exports}
	for _, x := range o.Adapters {
		edge.mount(x, svc, a.mux, d)
	}
	if err := a.fix(d); err != nil {
		return nil, err
	}
	return a, nil
}

// fix makes the OpenAPI document, and the page of it, of what was described.
func (a *API) fix(d *document) (err error) {
	describeConfig(d.huma.OpenAPI())
	if a.openapi, err = d.text(); err != nil {
		return err
	}
	page, err := docsPage(d.huma.OpenAPI(), a.opts.Adapters, a.opts.Version)
	if err != nil {
		return err
	}
	document, docs := pack(a.openapi), pack(page)
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(document.of(w, r))
	})
	a.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) { writePage(w, docs.of(w, r)) })
	return nil
}

// Run samples the counts of the models until ctx ends. Without it the status page shows totals
// only.
func (a *API) Run(ctx context.Context) { a.flow.run(ctx) }

// Close ends the work of the adapters, and waits until they have let go of the service.
func (a *API) Close() {
	for _, x := range a.opts.Adapters {
		x.Close()
	}
}

// SetKeys replaces the list of keys; requests that are on their way keep theirs.
func (a *API) SetKeys(k *Keys) { a.keys.Store(k) }

// Keys returns the present list, nil when there is none.
func (a *API) Keys() *Keys { return a.keys.Load() }

// OpenAPI returns the description of /v1, JSON of OpenAPI 3.1.
func (a *API) OpenAPI() []byte { return a.openapi }

// Server returns an http.Server with this handler and with timeouts against clients that send slowly.
func (a *API) Server() *http.Server {
	s := &http.Server{
		ConnState:         a.connections.state,
		ConnContext:       withLeavers,
		Handler:           a,
		ReadHeaderTimeout: min(5*time.Second, a.opts.Timeout),
		ReadTimeout:       2 * a.opts.Timeout,
		WriteTimeout:      a.opts.Timeout + 30*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    12 << 10, // net/http adds 4 KiB
		ErrorLog:          slog.NewLogLogger(a.opts.Logger.Handler(), slog.LevelWarn),
	}
	s.RegisterOnShutdown(func() { a.once.Do(func() { close(a.shutdown) }) }) // live pages would keep it waiting
	return s
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := &exchange{response: response{ResponseWriter: w, from: r.URL}, r: r, start: a.opts.Clock.Mark()}
	if r.ProtoMajor == 1 {
		one.response.ended = r.Context()
	}
	info, out := &one.request, &one.response
	a.greet(one)
	kind, most := a.faults.adapters.class(r.URL.Path), a.opts.Timeout
	if kind == Deciding {
		if one.wait = patience(r.Header[timeoutHeader]); one.wait > 0 {
			most = min(most, one.wait)
		}
	}
	cancel := func() {}
	defer func() { cancel() }()
	describe := func() { // the way of the routes in the OpenAPI document
		var ctx context.Context
		ctx, cancel = context.WithTimeout(context.WithValue(r.Context(), requestKey{}, info), most)
		r = route(r.WithContext(ctx))
		one.r = r
	}
	hotly, name := hot(r)
	if hotly == notHot || a.noHot {
		hotly = notHot
		describe()
	}
	defer a.answered(one)
	if len(a.opts.Origins) > 0 {
		out.Header()["Vary"] = varyOrigin
		if info.page = origins(a.opts.Origins).allows(r, kind); info.page {
			greetPage(out.Header(), r)
		}
		if a.preflight(one, kind) {
			return
		}
	}
	if p := a.admit(r, info); p != nil {
		info.says(p)
		a.faults.fail(out, r, p)
		return
	}
	defer a.leave(one)
	if !a.enter(one, kind) {
		return
	}
	if hotly != notHot {
		one.pattern = hotPaths[hotly].pattern
		var left time.Duration
		if one.wait > 0 {
			left = max(one.wait-a.opts.Clock.Since(one.start), 1)
		}
		if a.hot.serve(out, r, info, hotly, name, left) {
			return
		}
		one.pattern = ""
		describe()
	}
	a.serveRoute(out, r, info)
}

// greet gives a request its id, and its answer the headers that all have.
func (a *API) greet(one *exchange) {
	r, out := one.r, &one.response
	one.request.id = requestID(r)
	one.id[0] = one.request.id
	h := out.Header()
	h["X-Request-Id"], h["X-Content-Type-Options"] = one.id[:], nosniff
	if a.drained.Load() {
		h.Set("Connection", "close") // so that the stop meets no request on its way over a kept connection
	}
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// RFC 9112, 6.1: a request with Content-Length and Transfer-Encoding may smuggle another one behind it, so the
		// connection must end. net/http takes the Content-Length away before it can be seen here.
		h.Set("Connection", "close")
	}
}

// enter takes a place for a request, and its turn at the gate where it decides, or answers why not.
func (a *API) enter(one *exchange, kind Class) bool {
	r, info, out := one.r, &one.request, &one.response
	if !probe(r) {
		places, shares := a.requests, a.shares.requests
		if kind == Feedback {
			places, shares = a.feedback, a.shares.feedback
		}
		address := hostOf(r.RemoteAddr)
		if !shares.take(address) {
			return a.busy(one, "too many requests at once of one address")
		}
		one.address, one.shares = address, shares
		select {
		case places <- struct{}{}:
			one.place = places
		default:
			return a.busy(one, "too many requests at once")
		}
	}
	if kind != Deciding {
		return true
	}
	if err := a.fetch(one); err != nil { // a body that comes slowly does not wait for the processors
		p := problemOf(err)
		info.says(p)
		out.Header().Set("Connection", "close")
		a.faults.fail(out, r, p)
		return false
	}
	gate, weight := a.gates.of(r.ContentLength)
	waited, err := gate.enter(r.Context(), weight, one.wait)
	if waited > 0 {
		a.metrics.waited.Observe(waited.Seconds())
	}
	if err != nil {
		a.metrics.shed.Inc()
		p := problemOf(err)
		p.Unknown = false // nothing was begun
		info.says(p)
		a.faults.fail(out, r, p)
		return false
	}
	one.gate, one.weight = gate, weight
	return true
}

// busy answers a request that finds no place.
func (a *API) busy(one *exchange, detail string) bool {
	p := problem("too_busy", "", detail).After(time.Second)
	one.request.says(p)
	a.faults.fail(&one.response, one.r, p)
	return false
}

// fetch reads the body of a decision of known length, within the limit and the time that it has.
func (a *API) fetch(one *exchange) error {
	r := one.r
	if r.ContentLength <= 0 {
		return nil
	}
	if r.ContentLength > a.opts.MaxBody {
		return bodyProblem(&largeBody{a.opts.MaxBody})
	}
	_ = http.NewResponseController(&one.response).SetReadDeadline(time.Now().Add(a.opts.Timeout))
	from := &body{ReadCloser: r.Body, left: r.ContentLength, limit: r.ContentLength}
	b := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(from, b); err != nil {
		if p := bodyProblem(err); p != nil {
			return p
		}
		return &brokenBody{err}
	}
	_ = http.NewResponseController(&one.response).SetReadDeadline(time.Time{}) // the answer may take longer
	r.Body = &replay{Reader: bytes.NewReader(b), Closer: r.Body}
	return nil
}

// leave gives back what enter took.
func (a *API) leave(one *exchange) {
	if one.shares != nil {
		one.shares.release(one.address)
	}
	if one.gate != nil {
		one.gate.leave(one.weight)
	}
	if one.place != nil {
		<-one.place
	}
}

// serveRoute answers by the routes of the OpenAPI document.
func (a *API) serveRoute(out *response, r *http.Request, info *request) {
	if !clean(r.URL.EscapedPath()) {
		// A ServeMux would send the client elsewhere, to a path that is route's and not ours.
		detail := "the path has an empty segment, or . or .. as one"
		if strings.Contains(r.URL.Path, "//:") {
			detail = "the name in front of the colon is missing"
		}
		a.faults.fail(out, r, problem("not_found", "", detail))
		return
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		out.Header().Set("Accept-Encoding", "identity")
		a.faults.fail(out, r, problem("unsupported_media_type", "header.Content-Encoding",
			"bodies are read as they are; send it without compression"))
		return
	}
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		a.noRoute(out, r, handler)
		return
	}
	r.Pattern = pattern // of the log, also when the request is refused
	if !info.page && a.origin.Check(r) != nil {
		a.faults.fail(out, r, problem("forbidden", "", "a page of another site may not change anything here"))
		return
	}
	a.mux.ServeHTTP(out, r)
}

// answered counts a request and writes it to the log. It is deferred: a panic of the handler is answered and logged.
func (a *API) answered(one *exchange) {
	r, info, out, pattern := one.r, &one.request, &one.response, one.pattern
	if pattern == "" {
		pattern = r.Pattern
	}
	if v := recover(); v != nil {
		if v == http.ErrAbortHandler {
			panic(v)
		}
		a.opts.Logger.Error("a handler panicked", "request", info.id, "route", pattern, "panic", fmt.Sprint(v))
		if out.status == 0 {
			a.faults.fail(out, r, problem("internal", "", "look at the server's log"))
		}
	}
	if r.ProtoMajor > 1 && ended(r.Context(), errors.Is(r.Context().Err(), context.Canceled)) {
		a.metrics.cutOff.Inc()
	}
	status, took := out.status, a.opts.Clock.Since(one.start)
	if errors.Is(r.Context().Err(), context.Canceled) && status >= 500 {
		status = clientGone // the client has left; this is not a fault of the server
	}
	a.metrics.request(pattern, status, took)
	level := slog.LevelDebug
	if status >= 500 && status != http.StatusNotImplemented {
		level = slog.LevelError
	}
	ctx, silent := r.Context(), uint64(0)
	if !a.opts.Logger.Enabled(ctx, level) {
		return
	}
	if level == slog.LevelError && status == http.StatusServiceUnavailable {
		var ok bool
		if silent, ok = a.unavailable.tell(info.problem+info.reason, one.start); !ok {
			return
		}
	}
	more := []any{"request", info.id, "method", r.Method, "route", pattern, "model", info.model, "key", keyOf(info),
		"status", status, "took", took, "problem", info.problem}
	if info.reason != "" {
		more = append(more, "reason", info.reason)
	}
	if silent > 0 {
		more = append(more, "since_last_line", silent)
	}
	a.opts.Logger.Log(ctx, level, "request", more...)
}

// clean reports whether a path is what a ServeMux looks up, with or without a slash at its end.
func clean(p string) bool {
	return p == "/" || path.Clean(p) == strings.TrimSuffix(p, "/")
}

// probe reports whether the request asks for the state of the server. It must get an answer when the server is
// busy.
func probe(r *http.Request) bool {
	return r.URL.Path == "/livez" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics"
}

// open reports whether the answer needs no key: the state of the server for a balancer, and the description of the
// interface, which is the same at every server of this version.
func open(r *http.Request) bool {
	switch r.URL.Path {
	case "/livez", "/readyz", "/docs", "/openapi.json":
		return true
	}
	return false
}

// admit checks host, key and rate.
func (a *API) admit(r *http.Request, info *request) *Problem {
	info.holder = anonymous
	if a.foreignHost(r) {
		return problem("wrong_host", "", "the header Host names another server")
	}
	keys := a.keys.Load()
	if keys == nil {
		return nil
	}
	if open(r) {
		info.holder = nobody
		if r.URL.Path == "/readyz" { // a key shows more there
			info.holder = cmp.Or(keys.identify(r), nobody)
		}
		return nil
	}
	h := keys.identify(r)
	if h == nil {
		return problem("unauthorized", "", "")
	}
	info.holder = h
	if info.page && !h.harmless() {
		return problem("forbidden", "", "a key in a page of another site may have the scopes decide and reward only")
	}
	if h.limiter != nil && !h.limiter.Allow() {
		wait := time.Duration(float64(time.Second) / float64(h.limiter.Limit()))
		return problem("too_busy", "", "more requests than the key may send").After(wait)
	}
	return nil
}

// preflight answers the question of a browser whether a page may call, which comes without a key. It reports false for
// other requests.
func (a *API) preflight(one *exchange, kind Class) bool {
	r, h := one.r, one.response.Header()
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" || a.foreignHost(r) {
		return false
	}
	one.pattern = "OPTIONS (CORS)"
	if !one.request.page {
		a.faults.fail(&one.response, r, problem("forbidden", "", "a page of this origin may not call this path"))
		return true
	}
	h["Access-Control-Allow-Methods"], h["Access-Control-Allow-Headers"] = pageMethods, pageHeaders
	h["Access-Control-Max-Age"] = pageKeeps
	one.response.WriteHeader(http.StatusNoContent)
	return true
}

// foreignHost reports whether a request calls the server by a name that is not its own.
func (a *API) foreignHost(r *http.Request) bool {
	return a.opts.Hosts != nil && !slices.Contains(a.opts.Hosts, hostName(r.Host))
}

func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// noRoute answers what the mux would answer in plain text.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	rec := &recorder{header: http.Header{}}
	h.ServeHTTP(rec, r)
	_, verb, acts := strings.Cut(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], ":")
	switch {
	case acts && strings.HasPrefix(r.URL.Path, "/v1/") && !slices.Contains(verbs, verb):
		a.faults.fail(w, r, problem("not_found", "", "there is no such verb behind the colon"+spec.Suggest(verb, verbs)))
	case rec.status == http.StatusMethodNotAllowed:
		w.Header().Set("Allow", rec.header.Get("Allow"))
		a.faults.fail(w, r, problem("method_not_allowed", "", ""))
	default:
		a.faults.fail(w, r, problem("not_found", "", "there is no such path"))
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }

func (r *recorder) WriteHeader(status int) { r.status = status }

// clientGone is the status, in the metrics and the log, of a request whose client left before the answer.
const clientGone = 499
