package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/contract"
	"troupe/serve"
	"troupe/serve/joined"
	"troupe/serve/model"
	"troupe/timing"
)

// fake is a Service in a few lines: it remembers what it was asked, so that the tests see what the
// edge makes of a request, and answers with err when that is set.
type fake struct {
	mu       sync.Mutex
	models   map[string]*serve.Model
	events   map[string]string // id → model
	keys     map[string]string // idempotency key → id
	rewards  []serve.RewardRequest
	decides  []serve.DecideRequest
	active   []string
	callers  []string
	rollback serve.RollbackRequest
	health   serve.Health
	err      error
}

// keep is a copy of a request, whose slices belong to the caller.
func keep(r serve.DecideRequest) serve.DecideRequest {
	r.Context, r.Packed, r.Actions, r.Available = slices.Clone(r.Context), slices.Clone(r.Packed), slices.Clone(r.Actions), slices.Clone(r.Available)
	for i := range r.Actions {
		r.Actions[i].Features = slices.Clone(r.Actions[i].Features)
	}
	return r
}

func newFake(names ...string) *fake {
	f := &fake{models: map[string]*serve.Model{}, events: map[string]string{}, keys: map[string]string{}}
	f.health = serve.Health{Ready: true, Applied: 12, Log: 12, Started: clock().Add(-time.Hour)}
	for _, n := range names {
		if _, err := f.CreateModel(context.Background(), serve.DefaultConfig(n), ""); err != nil {
			panic(err)
		}
	}
	return f
}

// clock is the time of all tests.
func clock() time.Time { return time.Date(2026, 11, 20, 14, 32, 8, 0, time.UTC) }

func refuse(code serve.Code, format string, a ...any) error {
	return &serve.Error{Code: code, Want: fmt.Sprintf(format, a...)}
}

func (f *fake) CreateModel(_ context.Context, c serve.ModelConfig, caller string) (serve.Model, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers = append(f.callers, caller)
	switch {
	case f.err != nil:
		return serve.Model{}, f.err
	case c.ID == "":
		return serve.Model{}, &serve.Error{Code: serve.Invalid, Field: "config.id", Want: "expected a name"}
	case f.models[c.ID] != nil:
		return serve.Model{}, refuse(serve.Conflict, "the name is taken")
	}
	cfg, err := c.Admit(model.DefaultLimits)
	if err != nil {
		return serve.Model{}, serve.ConfigError(err)
	}
	c = cfg.Config
	f.models[c.ID] = &serve.Model{Name: c.ID, Config: c, ConfigVersion: 1, Created: serve.Stamp{Seq: 1, Time: clock()}, Changed: serve.Stamp{Seq: 1, Time: clock()}}
	return *f.models[c.ID], nil
}

func (f *fake) model(name string) (*serve.Model, error) {
	if f.err != nil {
		return nil, f.err
	}
	if m := f.models[name]; m != nil {
		return m, nil
	}
	return nil, refuse(serve.NotFound, "there is no such model")
}

func (f *fake) GetModel(_ context.Context, name string) (serve.Model, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(name)
	if err != nil {
		return serve.Model{}, err
	}
	return *m, nil
}

func (f *fake) ListModels(_ context.Context, after string, limit int) (out []serve.Model, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range sortedKeys(f.models) {
		if name <= after {
			continue
		}
		if len(out) == limit {
			return out, true, f.err
		}
		out = append(out, *f.models[name])
	}
	return out, false, f.err
}

func (f *fake) ConfigureModel(_ context.Context, name string, version uint64, c serve.ModelConfig, _ string) (serve.Model, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(name)
	if err != nil {
		return serve.Model{}, err
	}
	if version != 0 && version != m.ConfigVersion {
		return serve.Model{}, refuse(serve.Conflict, "the configuration has changed")
	}
	if c.ID != name {
		return serve.Model{}, &serve.Error{Code: serve.Invalid, Field: "config.id", Want: "cannot change"}
	}
	if err := c.Check(); err != nil {
		return serve.Model{}, serve.ConfigError(err)
	}
	m.Config = c
	m.ConfigVersion++
	return *m, nil
}

func (f *fake) DeleteModel(_ context.Context, name, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.model(name)
	delete(f.models, name)
	return err
}

func (f *fake) pause(name string, to bool) (serve.Model, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(name)
	if err != nil {
		return serve.Model{}, err
	}
	m.Paused = to
	return *m, nil
}

func (f *fake) Following(string, uint64) {}

func (f *fake) Entries(context.Context, uint64, int) (serve.Entries, error) {
	return serve.Entries{}, nil
}
func (f *fake) LogBase(context.Context) (serve.LogBase, error) {
	return serve.LogBase{}, nil
}
func (f *fake) CheckReplica(context.Context) (serve.ReplicaCheck, error) {
	return serve.ReplicaCheck{}, nil
}
func (f *fake) Drain(context.Context) error {
	if f.err != nil {
		return f.err
	}
	return &serve.Error{Code: serve.Conflict, Want: "this server is no node of a cluster"}
}

func (f *fake) RemoveNode(context.Context, string) error {
	return &serve.Error{Code: serve.Conflict, Want: "this server is no node of a cluster"}
}

func (f *fake) PauseModel(_ context.Context, name, _ string) (serve.Model, error) {
	return f.pause(name, true)
}
func (f *fake) ResumeModel(_ context.Context, name, _ string) (serve.Model, error) {
	return f.pause(name, false)
}

func (f *fake) CreateModelFrom(ctx context.Context, name string, saved []byte, caller string) (serve.Model, error) {
	if string(saved) != "saved" {
		return serve.Model{}, &serve.Error{Code: serve.Invalid, Field: "snapshot", Want: "expected a saved model"}
	}
	return f.CreateModel(ctx, serve.DefaultConfig(name), caller)
}

func (f *fake) SaveModel(ctx context.Context, name string, _ uint64) ([]byte, error) {
	_, err := f.GetModel(ctx, name)
	return []byte("saved"), err
}

func (f *fake) Decisions(ctx context.Context, model string, from uint64, entries int) (serve.DecisionPage, error) {
	page, err := f.Log(ctx, model, from, entries)
	return serve.DecisionPage{From: page.From, Next: page.Next, Applied: page.Applied, Decisions: func(func(serve.JoinedDecision, error) bool) {},
		Ended: func() *joined.Ended { return &joined.Ended{} }}, err
}

func (f *fake) CloneModel(ctx context.Context, r serve.CloneRequest) (serve.Model, error) {
	m, err := f.GetModel(ctx, r.From)
	if err != nil {
		return m, err
	}
	m.Config.ID = r.Name
	return f.CreateModel(ctx, m.Config, r.Caller)
}

func (f *fake) RollbackModel(ctx context.Context, r serve.RollbackRequest) (serve.Model, error) {
	f.rollback = r
	return f.GetModel(ctx, r.Name)
}

func (f *fake) Decide(_ context.Context, model string, r serve.DecideRequest) (serve.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(model)
	if err != nil {
		return serve.Decision{}, err
	}
	f.decides = append(f.decides, keep(r))
	if m.Paused {
		return serve.Decision{}, refuse(serve.Paused, "the model is paused")
	}
	d := serve.Decision{Mode: serve.Online, Seq: 5, BasisSeq: 4, Durable: true, Propensity: serve.Fraction{Num: 3, Den: 8}}
	free := slices.DeleteFunc(slices.Clone(r.Actions), func(a serve.Action) bool { return slices.Contains(r.Exclude, a.ID) })
	if len(free) == 0 {
		return d, &serve.Error{Code: serve.Invalid, Field: "actions", Want: "nothing remains"}
	}
	d.Action = serve.Chosen{ID: free[len(free)-1].ID, Index: len(r.Actions) - 1}
	if r.Explain {
		for i, a := range free {
			p := serve.Fraction{Num: 0, Den: 8}
			switch i {
			case len(free) - 1:
				p.Num = 3
			case 0:
				p.Num = 5
			}
			d.Explain = append(d.Explain, serve.Explained{Chosen: serve.Chosen{ID: a.ID, Index: i}, Propensity: p})
		}
	}
	if id := f.keys[r.IdempotencyKey]; r.IdempotencyKey != "" && id != "" {
		d.EventID, d.Repeated, d.Explain = id, true, nil
		return d, nil
	}
	d.EventID = fmt.Sprintf("EVENT%d", len(f.events)+1)
	f.events[d.EventID] = model
	if r.IdempotencyKey != "" {
		f.keys[r.IdempotencyKey] = d.EventID
	}
	return d, nil
}

func (f *fake) DecideBatch(ctx context.Context, model string, rs []serve.DecideRequest) (out []serve.DecideItem, err error) {
	if f.err != nil {
		return nil, f.err
	}
	for _, r := range rs {
		d, err := f.Decide(ctx, model, r)
		out = append(out, serve.DecideItem{Decision: d, Err: err})
	}
	return out, nil
}

func (f *fake) event(id string) error {
	switch {
	case f.err != nil:
		return f.err
	case f.events[id] == "":
		return refuse(serve.BadEventID, "this is no event id of this server")
	}
	return nil
}

func (f *fake) Reward(_ context.Context, r serve.RewardRequest) (serve.RewardResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.event(r.EventID); err != nil {
		return serve.RewardResult{}, err
	}
	if r.Allow != nil {
		if err := r.Allow(f.events[r.EventID]); err != nil {
			return serve.RewardResult{}, err
		}
	}
	if r.Value < -1 || r.Value > 1 {
		return serve.RewardResult{}, &serve.Error{Code: serve.Invalid, Field: "value", Value: fmt.Sprint(r.Value), Want: "expected a number in [-1, 1]"}
	}
	f.rewards = append(f.rewards, r)
	return serve.RewardResult{Status: serve.Accepted, Seq: 6}, nil
}

func (f *fake) RewardBatch(ctx context.Context, rs []serve.RewardRequest) (out []serve.RewardItem, err error) {
	for _, r := range rs {
		x, err := f.Reward(ctx, r)
		out = append(out, serve.RewardItem{Result: x, Err: err})
	}
	return out, nil
}

func (f *fake) Activate(_ context.Context, id, _ string) (serve.ActivateResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.event(id); err != nil {
		return serve.ActivateResult{}, err
	}
	f.active = append(f.active, id)
	return serve.ActivateResult{Status: serve.Accepted, Seq: 7}, nil
}

func (f *fake) Event(_ context.Context, id string) (serve.EventView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.event(id); err != nil {
		return serve.EventView{}, err
	}
	return serve.EventView{EventID: id, Model: f.events[id], Status: "open"}, nil
}

func (f *fake) Owner(_ context.Context, id string) (serve.Owner, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.event(id); err != nil {
		return serve.Owner{}, err
	}
	return serve.Owner{Model: f.events[id]}, nil
}

func (f *fake) Replay(_ context.Context, id string) (serve.Replayed, error) {
	return serve.Replayed{Action: "a", Equal: true}, f.event(id)
}

func (f *fake) State(ctx context.Context, model string) (serve.StateView, error) {
	m, err := f.GetModel(ctx, model)
	return serve.StateView{Name: m.Name, Seq: 9, Theta: []float64{1, 2}, Snapshot: []byte{0, 1, 2}}, err
}

func (f *fake) Log(ctx context.Context, model string, from uint64, entries int) (serve.LogPage, error) {
	if _, err := f.GetModel(ctx, model); err != nil {
		return serve.LogPage{}, err
	}
	from = max(from, 1)
	return serve.LogPage{From: from, Next: from + uint64(entries), Applied: 100, Records: func(yield func(serve.LogRecord, error) bool) {
		for seq := from; seq < from+uint64(entries); seq++ {
			if seq == 50 {
				yield(serve.LogRecord{}, refuse(serve.Unavailable, "planted"))
				return
			}
			if !yield(serve.LogRecord{Seq: seq, Record: &eventlog.Control{Act: eventlog.Pause, Caller: strings.Repeat("k", 2000)}}, nil) {
				return
			}
		}
	}}, nil
}

func (f *fake) Health() serve.Health {
	h := f.health
	h.Models = len(f.models)
	return h
}

var _ serve.Service = (*fake)(nil)

// edge is an API under test.
type edge struct {
	*API
	t    testing.TB
	fake *fake
	via  *swap // what New got
}

// swap is a service that a test may put another one in the place of.
type swap struct{ serve.Service }

func newEdge(t testing.TB, f *fake, o Options) *edge {
	t.Helper()
	if o.Clock == (timing.Clock{}) {
		o.Clock = timing.At(clock)
	}
	via := &swap{f}
	a, err := New(via, o)
	if err != nil {
		t.Fatal(err)
	}
	return &edge{API: a, t: t, fake: f, via: via}
}

// documents are those that were read, by their text.
var documents sync.Map

// documentOf returns the document of an edge, to which its answers are held.
func documentOf(t testing.TB, a *API) *contract.Document {
	t.Helper()
	if d, ok := documents.Load(string(a.OpenAPI())); ok {
		return d.(*contract.Document)
	}
	d, err := contract.Read(a.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	documents.Store(string(a.OpenAPI()), d)
	return d
}

// answer is a response as a test looks at it.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; headers are pairs.
func (e *edge) do(method, path, body string, headers ...string) answer {
	e.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, in)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	if w.Header().Get("Content-Type") == "application/problem+json" {
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.RequestID == "" || p.RequestID != w.Header().Get("X-Request-Id") {
			e.t.Errorf("%s %s: %d: the problem has request_id %q, the header %q (%v)", method, path, w.Code, p.RequestID,
				w.Header().Get("X-Request-Id"), err)
		}
	}
	if err := documentOf(e.t, e.API).Check(contract.Exchange{Method: method, Path: r.URL.Path, Request: []byte(body), Status: w.Code,
		Header: w.Header(), Answer: w.Body.Bytes()}); err != nil {
		e.t.Error(err)
	}
	return answer{w.Code, w.Header(), w.Body.String()}
}

// want checks the status and that the body has every one of the parts.
func (a answer) want(t *testing.T, what string, status int, parts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: status %d, want %d; body %s", what, a.status, status, a.body)
	}
	for _, p := range parts {
		if !strings.Contains(a.body, p) {
			t.Errorf("%s: body %s lacks %s", what, a.body, p)
		}
	}
	if status >= 400 && !strings.HasPrefix(a.header.Get("Content-Type"), "application/") {
		t.Errorf("%s: content type %q of an error", what, a.header.Get("Content-Type"))
	}
}

// Unwrap returns the service behind.
func (s *swap) Unwrap() serve.Service { return s.Service }
