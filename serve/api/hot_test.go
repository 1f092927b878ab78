package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/serve"
	"troupe/timing"
)

// twins are two edges, of which the second has no hot routes.
type twins struct {
	edge [2]*API
	fake [2]*fake
}

func newTwins(t testing.TB) *twins {
	t.Helper()
	var w twins
	for i := range w.edge {
		w.fake[i] = newFake("news", "off")
		w.fake[i].models["off"].Paused = true
		w.edge[i] = must(New(w.fake[i], Options{MaxActions: 20, MaxBody: 4000, Clock: timing.At(clock)}))
	}
	w.edge[1].noHot = true
	return &w
}

// agree sends a request to both and compares the answers and what the services were asked. It reports whether the request took the
// hot way.
func (w *twins) agree(t *testing.T, path string, body []byte, headers ...string) bool {
	t.Helper()
	var got [2]string
	var asked [2]any
	var hotly bool
	for i, a := range w.edge {
		w.fake[i].reset()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080"+path, bytes.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		r.Header.Set("X-Request-Id", "1")
		if i == 0 {
			if route, _ := hot(r); route != notHot {
				var s scan
				hotly = s.begin(body) && a.hot.scan(&s, route)
			}
		}
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, r)
		got[i] = fmt.Sprint(rec.Code, " ", rec.Header(), " ", rec.Body)
		if rec.Code >= 500 {
			t.Fatalf("POST %s %q: %s", path, body, got[i])
		}
		asked[i] = []any{w.fake[i].decides, w.fake[i].rewards}
	}
	if got[0] != got[1] {
		t.Fatalf("POST %s %v\n%q\nis answered\n%s\nand on the described way\n%s", path, headers, body, got[0], got[1])
	}
	if !reflect.DeepEqual(asked[0], asked[1]) {
		t.Fatalf("POST %s\n%q\nasks the service for\n%+v\nand on the described way\n%+v", path, body, asked[0], asked[1])
	}
	return hotly
}

func (f *fake) reset() {
	f.decides, f.rewards, f.keys = nil, nil, map[string]string{}
	f.events = map[string]string{"EVENT1": "news"}
}

// bodies makes bodies of the hot routes, most of them right.
type bodies struct{ *rand.Rand }

func (r bodies) one(of ...string) string { return of[r.IntN(len(of))] }

func (r bodies) space() string { return r.one("", "", "", "", " ", "\n\t") }

// rare is something odd in one of n cases, otherwise usual.
func (r bodies) rare(n int, usual string, odd ...string) string {
	if r.IntN(n) == 0 {
		return r.one(odd...)
	}
	return usual
}

func (r bodies) number() string {
	return r.one(fmt.Sprint(r.NormFloat64()), fmt.Sprint(r.IntN(5)), "-0", "0.5e-3", "1E5", r.rare(9, "2", "1e999", "01", "+1", ".5", "1.", "-", "NaN", "null", "\"1\""))
}

func (r bodies) text() string {
	return r.rare(12, `"`+r.one("a", "b", "c", "long name", "Ünïcode", "9")+`"`, `"\n"`, `"\u0061"`, `"\ud800"`, "\"\x01\"", `"\x"`, `"`, "\"\xff\"", "\"\u202e\"", `"\\"`, "1", "null", `""`, "\"\x7f\"")
}

func (r bodies) list(most int, f func() string) string {
	var s []string
	for range r.IntN(most + 1) {
		s = append(s, r.space()+f()+r.space())
	}
	return "[" + strings.Join(s, ",") + "]"
}

func (r bodies) value(depth int) string {
	if depth > 18 {
		return "1"
	}
	switch r.IntN(7) {
	case 0:
		return r.text()
	case 1:
		return r.rare(4, "true", "false", "null", "nul", "TRUE")
	case 2:
		return r.list(4, func() string { return r.value(depth + 1 + 8*(r.IntN(40)/39)) })
	case 3, 4:
		return r.object(r.IntN(5), func() (string, string) { return r.text(), r.value(depth + 1) })
	case 5:
		if r.IntN(30) == 0 {
			n := 10 + r.IntN(12)
			return strings.Repeat("[", n) + strings.Repeat("]", n)
		}
	}
	return r.number()
}

func (r bodies) object(n int, f func() (name, value string)) string {
	var s []string
	for range n {
		name, value := f()
		s = append(s, r.space()+name+r.space()+":"+r.space()+value)
	}
	return "{" + strings.Join(s, ",") + r.space() + "}"
}

// fields is an object with some of the fields.
func (r bodies) fields(all map[string]func() string) string {
	names := sortedKeys(all)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:r.IntN(len(names)+1)]
	if len(names) > 0 && r.IntN(25) == 0 {
		names = append(names, names[0]) // twice
	}
	i := -1
	return r.object(len(names), func() (string, string) {
		i++
		name := `"` + names[i] + `"`
		return r.rare(80, name, `"Value"`, `"other"`, strings.Replace(name, "a", `\u0061`, 1)), r.rare(40, all[names[i]](), "null", "{}", "[]", "1", `"x"`)
	})
}

func (r bodies) decide() string {
	ids := func() string { return r.list(3, r.text) }
	return r.fields(map[string]func() string{
		"context": func() string { return r.value(1) },
		"actions": func() string {
			return r.list(r.IntN(4)+20*(r.IntN(60)/59), func() string {
				return r.fields(map[string]func() string{"id": r.text, "features": func() string { return r.value(3) }, "cost": r.number,
					"numbers": func() string { return r.list(r.IntN(4), r.text) }})
			})
		},
		"packed":    func() string { return `{"dtype":"float32","shape":[1,2],"data":"AAAAAAAAAAA="}` },
		"ids":       ids,
		"available": func() string { return r.list(3, func() string { return r.rare(9, "true", "false", "1", "null") }) },
		"exclude":   ids,
		"costs":     func() string { return r.list(3+20*(r.IntN(60)/59), r.number) },
		"baseline":  func() string { return r.one("0", "1", "-1", "1.0", "99999999999", "1e0") },
		"numbers": func() string {
			truth := func() string { return r.one("true", "false", "1") }
			return r.list(r.IntN(4), func() string {
				return r.fields(map[string]func() string{"name": r.text, "min": r.number, "max": r.number, "step": r.number, "cyclic": truth, "log": truth})
			})
		},
		"mode":             func() string { return r.one(`"online"`, `"shadow"`, `"frozen"`, `"nonsense"`, `""`) },
		"defer_activation": func() string { return r.one("true", "false") },
		"min_seq":          func() string { return r.one("0", "7", "18446744073709551615", "-1", "01") },
		"explain":          func() string { return r.one(`"full"`, `"full"`, `""`, `"some"`) },
	})
}

func (r bodies) reward(event bool) string {
	all := map[string]func() string{"value": r.number, "cost": r.number, "key": r.text}
	if event {
		all["event_id"] = func() string { return r.one(`"EVENT1"`, `"EVENT1"`, `"EVENT2"`, r.text()) }
	}
	return r.fields(all)
}

func (r bodies) body() (path, body string) {
	switch r.IntN(5) {
	case 0, 1:
		return r.rare(20, "/v1/models/news:decide", "/v1/models/off:decide", "/v1/models/none:decide", "/v1/models/:decide", "/v1/models/news%3Adecide", "/v1/models/news:decide?x=1", "/v1/models/news:decides", "/v1/models/news:decide/"), r.decide()
	case 2:
		return r.rare(20, "/v1/models/news:decideBatch", "/v1/models/none:decideBatch"), r.rare(30, `{"requests":`, `{"requests":[],"requests":`, `{`, `[`) + r.list(3, r.decide) + "}"
	case 3:
		return r.rare(20, "/v1/events/EVENT1:reward", "/v1/events/EVENT2:reward", "/v1/events/a/b:reward"), r.reward(false)
	}
	return "/v1/rewards:batch", `{"rewards":` + r.list(3, func() string { return r.reward(true) }) + "}"
}

// mutate changes some bytes.
func (r bodies) mutate(b []byte) []byte {
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			return b
		}
		i := r.IntN(len(b))
		switch r.IntN(5) {
		case 0:
			b[i] = byte(r.IntN(256))
		case 1:
			b = append(b[:i], b[i+1:]...)
		case 2:
			b = b[:i]
		case 3:
			b = append(b[:i:i], append([]byte(r.one("{", "}", "[", "]", ",", ":", "\"", "\\", "null", "1", " ", "\x00", "é")), b[i:]...)...)
		case 4:
			j := r.IntN(len(b))
			b[i], b[j] = b[j], b[i]
		}
	}
	return b
}

// TestPathsAgree: a request to a hot route gets the answer that it would have got on the way of the other routes, byte for byte, with the
// code and the field of an error, and the service is asked for the same.
func TestPathsAgree(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n /= 2
	}
	if os.Getenv("TROUPE_LONG") != "" {
		n = 1_000_000
	}
	w := newTwins(t)
	r := bodies{rand.New(rand.NewPCG(18, 3))}
	hotly := map[string]int{}
	for i := range n {
		path, body := r.body()
		b := []byte(body)
		if i%2 == 1 {
			b = r.mutate(b)
		}
		var headers []string
		switch r.IntN(20) {
		case 4:
			headers = []string{timeoutHeader, r.one("60000", "0", "-1", "soon", "1e3", "", "99999999999")}
		case 0:
			headers = []string{"Idempotency-Key", r.one("k1", "", " ", strings.Repeat("k", 253), "ä", "a b")}
		case 1:
			headers = []string{"Content-Type", r.one("application/json", "application/json; charset=utf-8", "text/plain", "")}
		case 2:
			headers = []string{"Accept", r.one("*/*", "application/json", "application/cbor", "text/html, */*")}
		case 3:
			headers = []string{r.one("Content-Encoding", "Origin", "Sec-Fetch-Site"), r.one("gzip", "identity", "http://evil.example", "cross-site")}
		}
		if w.agree(t, path, b, headers...) {
			hotly[path]++
		}
	}
	for _, path := range []string{"/v1/models/news:decide", "/v1/models/news:decideBatch", "/v1/events/EVENT1:reward", "/v1/rewards:batch"} {
		if hotly[path] < n/200 {
			t.Errorf("%d of %d bodies took the hot way to %s", hotly[path], n, path)
		}
	}
}

// TestHotLimits: what is at a limit and beyond it gets the same answer on both ways.
func TestHotLimits(t *testing.T) {
	w := newTwins(t)
	for _, n := range []int{19, 20, 21} {
		ids := strings.TrimSuffix(strings.Repeat(`"a",`, n), ",")
		for _, field := range []string{"ids", "exclude", "available"} {
			w.agree(t, "/v1/models/news:decide", fmt.Appendf(nil, `{"actions":[{"id":"x"}],"%s":[%s]}`, field, ids))
		}
		w.agree(t, "/v1/models/news:decide", fmt.Appendf(nil, `{"actions":[%s]}`, strings.TrimSuffix(strings.Repeat("{},", n), ",")))
	}
	for _, n := range []int{3999, 4000, 4001, 9000} {
		w.agree(t, "/v1/models/news:decide", append([]byte(`{"actions":[{"id":"a"}]}`), bytes.Repeat([]byte(" "), n-24)...))
	}
	for _, n := range []int{255, 256, 257} {
		w.agree(t, "/v1/models/news:decideBatch", fmt.Appendf(nil, `{"requests":[%s]}`, strings.TrimSuffix(strings.Repeat(`{},`, n), ",")))
		w.agree(t, "/v1/models/news:decide", []byte(`{"actions":[{"id":"a"}]}`), "Idempotency-Key", strings.Repeat("k", n))
		w.agree(t, "/v1/models/news:decideBatch", []byte(`{"requests":[{"actions":[{"id":"a"}]}]}`), "Idempotency-Key", strings.Repeat("k", n-4))
		w.agree(t, "/v1/events/"+strings.Repeat("E", n)+":reward", []byte(`{"value":1}`))
	}
	for _, n := range []int{63, 64, 65} {
		w.agree(t, "/v1/models/"+strings.Repeat("m", n)+":decide", []byte(`{"actions":[{"id":"a"}]}`))
	}
	for n := 10; n < 20; n++ {
		deep := strings.Repeat("[", n) + strings.Repeat("]", n)
		if hotly := w.agree(t, "/v1/models/news:decide", []byte(`{"actions":[{"id":"a"}],"context":`+deep+`}`)); hotly != (n < maxDepth) {
			t.Errorf("a context of depth %d: hot is %v", n, hotly)
		}
		w.agree(t, "/v1/models/news:decideBatch", []byte(`{"requests":[{"actions":[{"id":"a","features":`+deep+`}]}]}`))
	}
	many := `{`
	for i := range 300 {
		many += fmt.Sprintf(`"n%d":1,`, i)
	}
	w.agree(t, "/v1/models/news:decide", []byte(`{"actions":[{"id":"a"}],"context":`+many+`"n7":1}}`))
	w.agree(t, "/v1/models/news:decide", []byte(`{"actions":[{"id":"a"}],"context":`+many+`"m7":1}}`))
}

// TestHotAnswers: every decision that a service may answer is written as the other routes write it.
func TestHotAnswers(t *testing.T) {
	score := 0.25
	for _, d := range []serve.Decision{
		{},
		{EventID: "E", Action: serve.Chosen{ID: "<&>\u2028\"\\\x7f\n", Index: -1}, Propensity: serve.Fraction{Num: 1, Den: 1 << 63}, Mode: serve.Shadow, Seq: 1<<64 - 1, BasisSeq: 9, Durable: true},
		{Repeated: true, Group: "control", Would: &serve.Would{Action: "ü", Propensity: serve.Fraction{Num: 2, Den: 3}}},
		{Warnings: []string{"<b>"}, Would: &serve.Would{}},
		{Explain: []serve.Explained{{Score: &score}}},
		{List: []serve.ListEntry{{ID: "a", Slot: "<hero>", Propensity: serve.Fraction{Num: 1, Den: 3}}}},
		{List: []serve.ListEntry{{ID: "a"}}, Approximate: true},
		{Numbers: map[string]float64{"price": 9.5}, Propensity: serve.Fraction{Num: 1, Den: 3}},
		{Numbers: map[string]float64{"bid": .5}, Density: &serve.Density{Num: 1, Den: 3, Cell: map[string][2]float64{"bid": {.25, .5}}}},
	} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(d); err != nil {
			t.Fatal(err)
		}
		if got := string(appendDecision(nil, &d)) + "\n"; got != want.String() {
			t.Errorf("%+v is written %s, want %s", d, got, &want)
		}
	}
	if n := reflect.TypeFor[serve.Decision]().NumField(); n != 16 {
		t.Errorf("a decision has %d fields, appendDecision writes 16", n)
	}
	if n := reflect.TypeFor[serve.RewardResult]().NumField(); n != 3 {
		t.Errorf("the result of a reward has %d fields, appendReward writes 3", n)
	}
	const lists = 2 // choose and slots: a list takes the way of the other routes
	if n := reflect.TypeFor[decideBody]().NumField(); n != len(decideFields)+lists {
		t.Errorf("a request has %d fields, scan reads %d", n, len(decideFields)+lists)
	}
}

// TestHotTimeout: a call on a hot route that the service cannot finish ends with the timeout.
func TestHotTimeout(t *testing.T) {
	a := must(New(&stuck{fake: newFake("news")}, Options{Timeout: 20 * time.Millisecond}))
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, httptest.NewRequest("POST", "/v1/models/news:decide", strings.NewReader(`{"actions":[{"id":"a"}]}`)))
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), `"unknown_outcome":true`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// stuck answers when its time is over.
type stuck struct{ *fake }

func (s *stuck) Decide(ctx context.Context, _ string, _ serve.DecideRequest) (serve.Decision, error) {
	<-ctx.Done()
	return serve.Decision{}, ctx.Err()
}

// FuzzPathsAgree is TestPathsAgree for any body.
func FuzzPathsAgree(f *testing.F) {
	r := bodies{rand.New(rand.NewPCG(18, 4))}
	for range 50 {
		_, body := r.body()
		f.Add([]byte(body))
	}
	w := newTwins(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/v1/models/news:decide", "/v1/models/news:decideBatch", "/v1/events/EVENT1:reward", "/v1/rewards:batch"} {
			w.agree(t, path, body)
		}
	})
}

// BenchmarkHot is a packed decision, a lone reward and a batch of rewards at the edge, with a service that does nothing: allocations of the
// edge alone.
func BenchmarkHot(b *testing.B) {
	data := strings.Repeat("AAAA", 853)
	for _, c := range []struct{ name, path, body string }{
		{"packed", "/v1/models/news:decide", `{"packed":{"dtype":"float32","shape":[20,32],"data":"` + data + `="}}`},
		{"reward", "/v1/events/EVENT1:reward", `{"value":0.5}`},
	} {
		for _, way := range []string{"hot", "described"} {
			b.Run(c.name+"/"+way, func(b *testing.B) {
				a := must(New(idle{newFake("news")}, Options{}))
				a.noHot = way == "described"
				w := &blank{header: http.Header{}}
				body := strings.NewReader(c.body)
				r := httptest.NewRequest("POST", c.path, body)
				in, url := io.NopCloser(body), r.URL
				b.ReportAllocs()
				for b.Loop() {
					body.Reset(c.body)
					clear(w.header)
					r.Body, r.URL = in, url
					a.ServeHTTP(w, r)
				}
				if w.status > 200 {
					b.Fatal(w.status)
				}
			})
		}
	}
}

// idle is a service that knows what to answer.
type idle struct{ *fake }

func (idle) Decide(context.Context, string, serve.DecideRequest) (serve.Decision, error) {
	return serve.Decision{EventID: "EVENT1", Action: serve.Chosen{ID: "a"}, Mode: serve.Online, Durable: true}, nil
}

func (idle) Reward(context.Context, serve.RewardRequest) (serve.RewardResult, error) {
	return serve.RewardResult{Status: serve.Accepted}, nil
}

// blank is a ResponseWriter that forgets.
type blank struct {
	header http.Header
	status int
}

func (w *blank) Header() http.Header         { return w.header }
func (w *blank) Write(b []byte) (int, error) { return len(b), nil }
func (w *blank) WriteHeader(s int)           { w.status = max(w.status, s) }

// TestHotBuffers: many callers at once, whose buffers are used again, on a real server: what is recorded of each decision is what its own
// caller sent, by lists, packed and in batches, with the id of the action that it was.
func TestHotBuffers(t *testing.T) {
	e, s := newReal(t, Options{})
	config := serve.DefaultConfig("m")
	config.Dim = 2
	must(s.CreateModel(t.Context(), config, ""))
	type sent struct {
		event string
		at    int // of the action
		id    string
		x     [2]float64
	}
	var mu sync.Mutex
	var all []sent
	var callers sync.WaitGroup
	for c := range 8 {
		callers.Go(func() {
			for n := range 40 {
				base := float64(c*40+n) / 1000
				x := func(b, i int) [2]float64 { return [2]float64{base + float64(b)/8000, float64(i) / 8} }
				request := func(b int) string {
					ids := fmt.Sprintf(`["c%d-%d-%d-0","c%d-%d-%d-1"]`, c, n, b, c, n, b)
					if n%2 == 0 {
						var raw []byte
						for i := range 2 {
							for _, v := range x(b, i) {
								raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
							}
						}
						return fmt.Sprintf(`{"packed":{"dtype":"float64","shape":[2,2],"data":"%s"},"ids":%s}`, base64.StdEncoding.EncodeToString(raw), ids)
					}
					var actions []string
					for i := range 2 {
						actions = append(actions, fmt.Sprintf(`{"features":[%v,%v],"id":"c%d-%d-%d-%d"}`, x(b, i)[0], x(b, i)[1], c, n, b, i))
					}
					return `{"actions":[` + strings.Join(actions, ",") + `]}`
				}
				var ds []serve.Decision
				if n%4 < 2 {
					var d serve.Decision
					if err := json.Unmarshal([]byte(e.do("POST", "/v1/models/m:decide", request(0)).body), &d); err != nil {
						t.Error(err)
						return
					}
					ds = append(ds, d)
				} else {
					var answers batchAnswers
					body := fmt.Sprintf(`{"requests":[%s,%s,%s]}`, request(0), request(1), request(2))
					if err := json.Unmarshal([]byte(e.do("POST", "/v1/models/m:decideBatch", body).body), &answers); err != nil {
						t.Error(err)
						return
					}
					for _, a := range answers.Results {
						ds = append(ds, *a.Decision)
					}
				}
				mu.Lock()
				for b, d := range ds {
					all = append(all, sent{d.EventID, d.Action.Index, fmt.Sprintf("c%d-%d-%d-%d", c, n, b, d.Action.Index), x(b, d.Action.Index)})
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	if len(all) != 8*(20+20*3) {
		t.Fatalf("%d decisions", len(all))
	}
	for _, want := range all {
		got := must(s.Event(t.Context(), want.event))
		if got.Action.ID != want.id || got.Action.Index != want.at || len(got.Decision.X) != 2 || got.Decision.X[0] != want.x[0] || got.Decision.X[1] != want.x[1] {
			t.Fatalf("recorded is %+v with %v, sent was %+v", got.Action, got.Decision.X, want)
		}
	}
}

// TestQuoted: the end of a string is found wherever it, an escape, a control character or a byte above 127 stands, for lengths around the
// pieces of eight and sixteen bytes.
func TestQuoted(t *testing.T) {
	for n := range 40 {
		for at := range n + 1 {
			for _, put := range []string{"", `\"`, `\u0041`, "\x1f", "\xff", "ü", " !#[]"} {
				text := strings.Repeat("a", at) + put + strings.Repeat("b", n-at) + `"`
				for _, rest := range []string{"", "x", `,"second": "text that goes on"`} {
					s := plainJSON{b: []byte(`"` + text + rest)}
					ok := s.quoted()
					switch {
					case put == `\u0041` || put == "\x1f": // left to the other way
						if ok {
							t.Fatalf("%q was accepted", s.b)
						}
					case !ok || s.i != 1+len(text):
						t.Fatalf("%q ends at %d (%v), want %d", s.b, s.i, ok, 1+len(text))
					}
				}
			}
		}
		if s := (plainJSON{b: []byte(`"` + strings.Repeat("a", n))}); s.quoted() {
			t.Fatalf("%q has no end and was accepted", s.b)
		}
	}
}

// TestHotPaths: what the short way knows of a hot route beside its operation (how long a name and a key may be) is what the
// description says, and a request to each path is recognised, with the longest name and no longer one.
func TestHotPaths(t *testing.T) {
	a := must(New(newFake("news"), Options{Clock: timing.At(clock)}))
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct {
				Name, In string
				Schema   struct{ MaxLength int }
			}
		}
	}
	if err := json.Unmarshal(a.openapi, &doc); err != nil {
		t.Fatal(err)
	}
	for route := hotDecide; route <= hotRewards; route++ {
		o, p := hotOperations[route], hotPaths[route]
		described, ok := doc.Paths[o.path][strings.ToLower(o.method)]
		if !ok || described.OperationID != o.id {
			t.Fatalf("%s %s is not described as %s", o.method, o.path, o.id)
		}
		name, key := 0, p.key
		for _, x := range described.Parameters {
			switch {
			case x.In == "path":
				name = x.Schema.MaxLength
			case x.Name == "Idempotency-Key":
				key = x.Schema.MaxLength
			}
		}
		if p.name != name || p.key != key {
			t.Errorf("%s: names up to %d and keys up to %d, described are %d and %d", o.id, p.name, p.key, name, key)
		}
		for more := range 2 {
			long := strings.Repeat("n", p.name+more)
			r := httptest.NewRequest(o.method, "http://h"+p.prefix+long+p.suffix, strings.NewReader("{}"))
			got, is := hot(r)
			if want := more == 0; want != (got == route && is == long) {
				t.Errorf("%s with %d more bytes: route %d, name of %d bytes", o.id, more, got, len(is))
			}
		}
	}
}
