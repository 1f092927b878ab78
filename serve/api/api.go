package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"troupe/serve"
	"troupe/spec"
	"troupe/timing"
)

// Options configure the edge. Zero fields stand for the defaults.
type Options struct {
	// Keys are the API keys and their scopes; nil allows every request everything, which is for loopback.
	Keys *Keys
	// Hosts are the names under which the server may be called, in the header Host; nil means any.
	// LoopbackHosts are right for a server on loopback: a page of another site that makes a browser
	// resolve its own name to 127.0.0.1 is refused.
	Hosts []string
	// Adapters are other APIs in front of the same service, for the clients of other products. Close closes them.
	Adapters []Adapter
	// MaxBody bounds the bytes of a body, default 1 MiB.
	MaxBody int64
	// MaxActions bounds K in one decision, default 1000.
	MaxActions int
	// Concurrent bounds the requests at once, default 1024, and apart from them those with rewards and activations;
	// more are answered 429.
	Concurrent int
	// Connections bounds the open connections, default 4096; what comes beyond is closed without an
	// answer. Each takes a file descriptor, and without one the log could not go on.
	Connections int
	// Timeout bounds one request, default 10 s.
	Timeout time.Duration
	// Data is the data directory, for /metrics and the status page.
	Data string
	// Version is what the pages and the OpenAPI document call this program.
	Version string
	// Logger gets one line for a request that failed, and with Debug one for every request. It
	// gets no features, no rewards, no secrets.
	Logger *slog.Logger
	// Clock is the machine's when it is not set. Deadlines of connections are the machine's in any case.
	Clock timing.Clock
}

// LoopbackHosts are the names of a server that listens on loopback.
var LoopbackHosts = []string{"localhost", "127.0.0.1", "::1"}

// API serves HTTP. It is an http.Handler, safe for concurrent use.
type API struct {
	svc      serve.Service
	opts     Options
	keys     atomic.Pointer[Keys]
	requests chan struct{} // semaphore of the requests
	feedback chan struct{} // of those with rewards and activations
	gate     *gate
	exports  chan struct{} // semaphore of the exports of a log
	imports  chan struct{} // semaphore of createModelFrom
	lives    chan struct{} // semaphore of the live pages
	shutdown chan struct{} // closed when an http.Server of Server shuts down
	once     sync.Once     // closes it

	connections atomic.Int64          // open now
	drained     atomic.Bool           // by drain: the node is about to stop
	limits      atomic.Pointer[limit] // of the hot requests that begin now
	noHot       bool                  // for tests: hot routes go the way of the others
	mux         *http.ServeMux
	huma        huma.API
	metrics     *metrics
	flow        flow
	unavailable paced // lines about calls that were answered 503
	verdicts    verdicts
	openapi     []byte
	docs        []byte
	origin      *http.CrossOriginProtection
}

// New returns an API in front of a service.
func New(svc serve.Service, o Options) (*API, error) {
	setErrors()
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.MaxActions == 0 {
		o.MaxActions = 1000
	}
	if o.Concurrent == 0 {
		o.Concurrent = 1024
	}
	if o.Connections == 0 {
		o.Connections = 4096
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{svc: svc, opts: o, requests: make(chan struct{}, o.Concurrent),
		feedback: make(chan struct{}, o.Concurrent), gate: newGate(o.Clock), exports: make(chan struct{}, maxExports),
		imports: make(chan struct{}, maxImports), lives: make(chan struct{}, maxLive), shutdown: make(chan struct{}),
		mux: http.NewServeMux(), origin: http.NewCrossOriginProtection()}
	a.keys.Store(o.Keys)
	a.metrics = newMetrics(a)
	a.huma = newHuma(a.mux, o.Version)
	for _, o := range a.operations() {
		o.route(a, o)
	}
	a.describeLog()
	a.pageRoutes()
	a.modelPageRoutes()
	for _, x := range o.Adapters {
		a.mount(x)
	}
	if err := a.document(); err != nil {
		return nil, err
	}
	return a, nil
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
		ConnState:         a.connection,
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

// connection counts the open connections and closes those beyond the limit.
func (a *API) connection(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		if n := a.connections.Add(1); n > int64(a.opts.Connections) {
			a.metrics.cutOff.Inc()
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		a.connections.Add(-1)
	}
}

// request is what the edge knows of a request; it travels in the context.
type request struct {
	id     string
	holder *holder
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

// exchange is a request and its answer, in one allocation.
type exchange struct {
	request
	response
	id      [1]string
	r       *http.Request
	pattern string // of a hot route; that of the others is in r
	start   timing.Instant
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := &exchange{response: response{ResponseWriter: w}, r: r, start: a.opts.Clock.Mark()}
	info, out := &one.request, &one.response
	info.id = requestID(r)
	one.id[0] = info.id
	w.Header()["X-Request-Id"], w.Header()["X-Content-Type-Options"] = one.id[:], nosniff
	if a.drained.Load() {
		out.Header().Set("Connection", "close") // so that the stop meets no request on its way over a kept connection
	}
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// RFC 9112, 6.1: a request with Content-Length and Transfer-Encoding may smuggle another one behind it, so the
		// connection must end. net/http takes the Content-Length away before it can be seen here.
		out.Header().Set("Connection", "close")
	}
	kind := a.classOf(r.URL.Path)
	most := a.opts.Timeout
	var wait time.Duration // what the client has given a decision
	if kind == Deciding {
		if wait = patience(r.Header[timeoutHeader]); wait > 0 {
			most = min(most, wait)
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
	if p := a.admit(r, info); p != nil {
		info.says(p)
		a.fail(out, r, p)
		return
	}
	if !probe(r) {
		places := a.requests
		if kind == Feedback {
			places = a.feedback
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			info.problem = "too_busy"
			a.fail(out, r, problem("too_busy", "", "too many requests at once").After(time.Second))
			return
		}
	}
	if kind == Deciding {
		weight := a.gate.weight(r.ContentLength)
		waited, err := a.gate.enter(r.Context(), weight, wait)
		if waited > 0 {
			a.metrics.waited.Observe(waited.Seconds())
		}
		if err != nil {
			a.metrics.shed.Inc()
			p := problemOf(err)
			p.Unknown = false // nothing was begun
			info.says(p)
			a.fail(out, r, p)
			return
		}
		defer a.gate.leave(weight)
	}
	if hotly != notHot {
		one.pattern = hotPaths[hotly].pattern
		var left time.Duration
		if wait > 0 {
			left = max(wait-a.opts.Clock.Since(one.start), 1)
		}
		if a.serveHot(out, r, info, hotly, name, left) {
			return
		}
		one.pattern = ""
		describe()
	}
	a.serveRoute(out, r)
}

// serveRoute answers by the routes of the OpenAPI document.
func (a *API) serveRoute(out *response, r *http.Request) {
	if !clean(r.URL.EscapedPath()) {
		// A ServeMux would send the client elsewhere, to a path that is route's and not ours.
		detail := "the path has an empty segment, or . or .. as one"
		if strings.Contains(r.URL.Path, "//:") {
			detail = "the name in front of the colon is missing"
		}
		a.fail(out, r, problem("not_found", "", detail))
		return
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		out.Header().Set("Accept-Encoding", "identity")
		a.fail(out, r, problem("unsupported_media_type", "header.Content-Encoding",
			"bodies are read as they are; send it without compression"))
		return
	}
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		a.noRoute(out, r, handler)
		return
	}
	r.Pattern = pattern // of the log, also when the request is refused
	if a.origin.Check(r) != nil {
		a.fail(out, r, problem("forbidden", "", "a page of another site may not change anything here"))
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
			a.fail(out, r, problem("internal", "", "look at the server's log"))
		}
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
	if a.opts.Hosts != nil && !slices.Contains(a.opts.Hosts, hostName(r.Host)) {
		return problem("wrong_host", "", "the header Host names another server")
	}
	if open(r) {
		return nil
	}
	keys := a.keys.Load()
	if keys == nil {
		return nil
	}
	h := keys.identify(r)
	if h == nil {
		return problem("unauthorized", "", "")
	}
	info.holder = h
	if h.limiter != nil && !h.limiter.Allow() {
		wait := time.Duration(float64(time.Second) / float64(h.limiter.Limit()))
		return problem("too_busy", "", "more requests than the key may send").After(wait)
	}
	return nil
}

func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// allow checks the scope, and the pattern for the model when there is one.
func (a *API) allow(ctx context.Context, s Scope, model string) error {
	info := requestOf(ctx)
	if model != "" {
		info.model = model
	}
	if !info.holder.may(s) {
		return problem("forbidden", "", "the key has no scope "+string(s))
	}
	if model != "" && !info.holder.sees(model) {
		return problem("forbidden", "", "the key has no pattern for this model")
	}
	return nil
}

// allowEvent checks the scope, and for a holder with patterns the event's model.
func (a *API) allowEvent(ctx context.Context, s Scope, eventID string) error {
	if err := a.allow(ctx, s, ""); err != nil {
		return err
	}
	allows := a.allowsModel(ctx, s)
	if allows == nil {
		return nil
	}
	owner, err := a.svc.Owner(ctx, eventID)
	if err != nil {
		return err
	}
	return allows(owner.Model)
}

// allowsModel returns the check of an event's model, nil for a holder without patterns. The scope is checked
// already.
func (a *API) allowsModel(ctx context.Context, s Scope) func(model string) error {
	if len(requestOf(ctx).holder.models) == 0 {
		return nil
	}
	return func(model string) error {
		if model == "" {
			return problem("forbidden", "", "it is not known any more whose event it is")
		}
		return a.allow(ctx, s, model)
	}
}

// caller is the name that the log keeps.
func caller(ctx context.Context) string { return requestOf(ctx).holder.id }

func keyOf(info *request) string {
	if info.holder == nil {
		return ""
	}
	return info.holder.id
}

// fail writes a problem without huma.
func (a *API) fail(w http.ResponseWriter, r *http.Request, p *Problem) {
	for k, v := range p.header {
		w.Header()[k] = v
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
		if r.URL.Path == "/" || r.URL.Path == "/models" ||
			strings.HasPrefix(r.URL.Path, "/models/") {
			w.Header().Set("WWW-Authenticate", `Basic realm="troupe: any name, a key as the password"`)
		}
	}
	requestOf(r.Context()).says(p)
	if x := a.adapterOf(r.URL.Path); x != nil {
		x.Fail(w, p)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// noRoute answers what the mux would answer in plain text.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	rec := &recorder{header: http.Header{}}
	h.ServeHTTP(rec, r)
	_, verb, acts := strings.Cut(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], ":")
	switch {
	case acts && strings.HasPrefix(r.URL.Path, "/v1/") && !slices.Contains(verbs, verb):
		a.fail(w, r, problem("not_found", "", "there is no such verb behind the colon"+spec.Suggest(verb, verbs)))
	case rec.status == http.StatusMethodNotAllowed:
		w.Header().Set("Allow", rec.header.Get("Allow"))
		a.fail(w, r, problem("method_not_allowed", "", ""))
	default:
		a.fail(w, r, problem("not_found", "", "there is no such path"))
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// clientGone is the status, in the metrics and the log, of a request whose client left before the answer.
const clientGone = 499

// response remembers the status.
type response struct {
	http.ResponseWriter
	status int
}

// WriteHeader sends the first status only: huma gives another one when it cannot write a body, because the client has
// left.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
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

// verbs are the words after the colon in paths like /v1/models/news:decide.
var verbs = []string{"decide", "decideBatch", "reward", "activate", "pause", "resume", "clone", "createFrom",
	"rollback", "batch", "replay"}

// splitVerb writes …/news:decide as …/news/:decide, because a ServeMux knows whole segments only.
func splitVerb(path string) string {
	i := strings.LastIndexByte(path, ':')
	if i <= strings.LastIndexByte(path, '/') || !slices.Contains(verbs, path[i+1:]) {
		return path
	}
	return path[:i] + "/" + path[i:]
}

// route rewrites the path of a request for the mux. Some clients write the colon as %3A.
func route(r *http.Request) *http.Request {
	esc := r.URL.EscapedPath()
	if !strings.HasPrefix(esc, "/v1/") || strings.Contains(esc, "/actions/") {
		return r
	}
	slash := strings.LastIndexByte(esc, '/')
	last := strings.Replace(strings.Replace(esc[slash:], "%3A", ":", 1), "%3a", ":", 1)
	split := splitVerb(esc[:slash] + last)
	if split == esc {
		return r
	}
	plain, err := url.PathUnescape(split)
	if err != nil {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = plain, split
	out := r.WithContext(r.Context())
	out.URL = &u
	return out
}

// verbMux registers patterns as route rewrites paths.
type verbMux struct{ *http.ServeMux }

func (m verbMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.ServeMux.HandleFunc(splitVerb(pattern), h)
}

// readBody reads a body within the limit, for the routes that are not huma's.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.Copy(&b, http.MaxBytesReader(w, r.Body, a.opts.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem("too_large", "", fmt.Sprintf("the body has more than %d bytes", large.Limit))
	case err != nil:
		return nil, problem("malformed", "", "the body ended early")
	}
	return b.Bytes(), nil
}
