package personalizer

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

	"troupe/eventlog/eventlogtest"
	openapi "troupe/internal/contract"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/serve/model"
	"troupe/timing"
)

// fake is what the adapter needs of a service, in a few lines: it remembers what it was asked, and answers with err when
// that is set.
type fake struct {
	serve.Service // for the compiler; what it does not have below panics
	mu            sync.Mutex
	models        map[string]*serve.Model
	events        map[string]string // id → model
	keys          map[string]string // idempotency key → id
	decides       []serve.DecideRequest
	rewards       []serve.RewardRequest
	active        []string
	decisions     func(ctx context.Context, yield func(serve.JoinedDecision, error) bool)
	err           error
}

func newFake(names ...string) *fake {
	f := &fake{models: map[string]*serve.Model{}, events: map[string]string{}, keys: map[string]string{}}
	for _, n := range names {
		f.make(serve.DefaultConfig(n))
	}
	return f
}

// clock is the time of all tests.
func clock() time.Time { return time.Date(2026, 11, 20, 14, 32, 8, 0, time.UTC) }

func (f *fake) make(c serve.ModelConfig) {
	c = must(c.Admit(model.DefaultLimits)).Config
	stamp := serve.Stamp{Seq: 1, Time: clock()}
	f.models[c.ID] = &serve.Model{Name: c.ID, Config: c, ConfigVersion: 1, Created: stamp, Changed: stamp}
}

func (f *fake) GetModel(_ context.Context, name string) (m serve.Model, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err != nil:
		return m, f.err
	case f.models[name] == nil:
		return m, &serve.Error{Code: serve.NotFound, Field: "model", Want: "there is no such model"}
	}
	return *f.models[name], nil
}

func (f *fake) ConfigureModel(ctx context.Context, name string, _ uint64, c serve.ModelConfig, _ string) (serve.Model, error) {
	if _, err := f.GetModel(ctx, name); err != nil {
		return serve.Model{}, err
	}
	admitted, err := c.Admit(model.DefaultLimits)
	if err != nil {
		return serve.Model{}, serve.ConfigError(err)
	}
	f.models[name].Config = admitted.Config
	return *f.models[name], nil
}

// Decide plays the last action that is free, with probability 3/8; the first has 5/8.
func (f *fake) Decide(ctx context.Context, name string, r serve.DecideRequest) (d serve.Decision, err error) {
	if _, err := f.GetModel(ctx, name); err != nil {
		return d, err
	}
	f.decides = append(f.decides, r)
	free := slices.DeleteFunc(slices.Clone(r.Actions), func(a serve.Action) bool { return slices.Contains(r.Exclude, a.ID) })
	if len(free) == 0 {
		return d, &serve.Error{Code: serve.Invalid, Field: "actions", Want: "nothing remains"}
	}
	d.Propensity, d.Action = serve.Fraction{Num: 3, Den: 8}, serve.Chosen{ID: free[len(free)-1].ID, Index: len(r.Actions) - 1}
	if id := f.keys[r.IdempotencyKey]; id != "" {
		d.EventID, d.Repeated = id, true
		return d, nil
	}
	for i, a := range free {
		p := serve.Fraction{Num: 0, Den: 8}
		if i == 0 {
			p.Num = 5
		}
		if i == len(free)-1 {
			p.Num = 3
		}
		d.Explain = append(d.Explain, serve.Explained{Chosen: serve.Chosen{ID: a.ID, Index: i}, Propensity: p})
	}
	d.EventID = fmt.Sprintf("EVENT%d", len(f.events)+1)
	if f.events[d.EventID] = name; r.IdempotencyKey != "" {
		f.keys[r.IdempotencyKey] = d.EventID
	}
	return d, nil
}

func (f *fake) event(id string) error {
	switch {
	case f.err != nil:
		return f.err
	case f.events[id] == "":
		return &serve.Error{Code: serve.BadEventID, Want: "this is no event id of this server"}
	}
	return nil
}

func (f *fake) Reward(_ context.Context, r serve.RewardRequest) (serve.RewardResult, error) {
	if err := f.event(r.EventID); err != nil {
		return serve.RewardResult{}, err
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
	f.active = append(f.active, id)
	return serve.ActivateResult{Status: serve.Accepted, Seq: 7}, f.event(id)
}

func (f *fake) Owner(_ context.Context, id string) (serve.Owner, error) {
	return serve.Owner{Model: f.events[id]}, f.event(id)
}

func (f *fake) EventOfKey(_ context.Context, _, key string) (string, error) {
	if id := f.keys[key]; id != "" {
		return id, nil
	}
	return "", &serve.Error{Code: serve.NotFound, Want: "no decision with this key"}
}

func (f *fake) Decisions(ctx context.Context, _ string, _ uint64, _ int) (serve.DecisionPage, error) {
	return serve.DecisionPage{Decisions: func(yield func(serve.JoinedDecision, error) bool) { f.decisions(ctx, yield) }}, nil
}

// front is an API with the adapter under test.
type front struct {
	*api.API
	*Adapter
	t testing.TB
}

// newFront puts an API with an adapter for the model of this name in front of a service.
func newFront(t testing.TB, svc serve.Service, model string, o api.Options) *front {
	t.Helper()
	f := &front{Adapter: New(model), t: t}
	if o.Clock == (timing.Clock{}) {
		o.Clock = timing.At(clock)
	}
	o.Adapters = []api.Adapter{f.Adapter}
	f.API = must(api.New(svc, o))
	return f
}

// newReal is an API in front of a real server with a log in memory, which has the model shop.
func newReal(t testing.TB, o api.Options) (*front, *serve.Server) {
	s := must(serve.Open(t.Context(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}),
		Wait: time.Minute, ExpireEvery: -1, Clock: o.Clock}))
	if o.Clock == (timing.Clock{}) {
		o.Clock = timing.At(time.Now)
	}
	f := newFront(t, s, "shop", o)
	t.Cleanup(func() {
		f.API.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must(s.CreateModel(t.Context(), Config("shop"), ""))
	return f, s
}

// answer is a response as a test looks at it.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; headers are pairs.
func (f *front) do(method, path, body string, headers ...string) answer {
	f.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, in)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	document, err := openapi.Read(f.OpenAPI())
	if err == nil {
		err = document.Check(openapi.Exchange{Method: method, Path: r.URL.Path, Request: []byte(body), Status: w.Code,
			Header: w.Header(), Answer: w.Body.Bytes()})
	}
	if err != nil {
		f.t.Error(err)
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
	if status >= 400 && !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		t.Errorf("%s: content type %q of an error", what, a.header.Get("Content-Type"))
	}
}

// field reads one member of an answer.
func field[T any](t testing.TB, a answer, name string) (v T) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a.body), &all); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if err := json.Unmarshal(all[name], &v); err != nil {
		t.Fatalf("%s: %v: %s", name, err, a.body)
	}
	return v
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
