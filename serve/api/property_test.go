package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/contract"
	"troupe/serve"
	"troupe/timing"
)

// world is a real server that a sequence of requests is sent to. The clock is the test's, so that windows close.
type world struct {
	edge     *API
	svc      *serve.Server
	document *contract.Document
	ns       atomic.Int64
	events   []string
}

func newWorld(t testing.TB) *world { return newWorldWith(t, Options{MaxActions: 50, MaxBody: 1 << 16}) }

func newWorldWith(t testing.TB, o Options) *world {
	return newWorldOn(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), o)
}

// newWorldOn returns a world on a log, with nil one in files of its own.
func newWorldOn(t testing.TB, log eventlog.Log, o Options) *world {
	w := &world{}
	clock := timing.At(func() time.Time { return time.Unix(1_800_000_000, w.ns.Load()).UTC() })
	w.svc = must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Clock: clock, ExpireEvery: time.Millisecond,
		LayAside: 20 * time.Millisecond, Log: log, Wait: time.Minute}))
	o.Clock = clock
	w.edge = must(New(w.svc, o))
	w.document = documentOf(t, w.edge)
	t.Cleanup(func() {
		w.edge.Close()
		if err := w.svc.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// send sends a request and checks what every answer must be.
func (w *world) send(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	r.Header.Set("If-Match", "*")
	out := httptest.NewRecorder()
	w.edge.ServeHTTP(out, r)
	if out.Code >= 500 || strings.Contains(out.Body.String(), `"model_failed"`) {
		t.Errorf("%s %s %s: %d %s", method, path, body, out.Code, out.Body)
	}
	if err := w.document.Check(contract.Exchange{Method: method, Path: r.URL.Path, Request: []byte(body), Status: out.Code,
		Header: out.Header(), Answer: out.Body.Bytes()}); err != nil {
		t.Error(err)
		for _, name := range w.models() {
			m, _ := w.svc.GetModel(context.Background(), name)
			b, _ := json.Marshal(m.Config)
			t.Logf("%s: %v, %s", name, notFinite(m), b)
		}
	}
	return out.Code, out.Body.String()
}

func (w *world) models() (names []string) {
	all, _, _ := w.svc.ListModels(context.Background(), "", 1000)
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names
}

// dice draws from the bytes of a fuzzer.
type dice struct{ b []byte }

func (d *dice) n(of int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0])
	d.b = d.b[1:]
	return v % of
}

func pick[T any](d *dice, of ...T) T { return of[d.n(len(of))] }

// number is one at which arithmetic may end.
func (d *dice) number() string {
	x := pick(d, 0, 1, -1, 0.5, 2, 1e-300, 5e-324, 1e15, 9e99, -9e99, 1e100, -1e100, 1.1e100, 1e307, -1e308, math.MaxFloat64, 1e-100, 3e16)
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// value is a JSON value of a request.
func (d *dice) value() string {
	return pick(d, d.number(), `"a"`, `""`, `null`, `true`, `[]`, `{}`, `[1,"a",null]`, `{"a":1,"b":{"c":"x"}}`, `"2026-11-28T10:00:00Z"`,
		`[0.5,0.25]`, `[1e300,-1e300]`, `"`+strings.Repeat("é", 40)+`"`)
}

func (d *dice) actions() string {
	var all []string
	for i := range d.n(5) + 1 {
		one := []string{pick(d, `"id":"a`+strconv.Itoa(i)+`"`, `"id":"a"`, `"cost":1`)}
		if d.n(2) == 0 {
			one = append(one, `"features":`+d.value())
		}
		if d.n(4) == 0 && !strings.Contains(one[0], "cost") {
			one = append(one, `"cost":`+d.number())
		}
		all = append(all, "{"+strings.Join(one, ",")+"}")
	}
	return strings.Join(all, ",")
}

// config is a new configuration without its id.
func (d *dice) config() string {
	reward := pick(d, "", `,"reward":{"rule":"sum","window":"1s"}`, `,"reward":{"min":0,"max":1,"rule":"sum","window":"1s"}`,
		`,"reward":{"rule":"last","window":"1s","default":`+d.number()+`}`, `,"reward":{"min":`+d.number()+`,"max":`+d.number()+`,"window":"1s"}`)
	shape := pick(d, "", "", `,"dim":2`, `,"dim":2,"policy":{"kind":"ensemble","m":4,"lambda":`+d.number()+`}`, `,"policy":{"kind":"sparse"}`,
		`,"dim":2,"policy":{"kind":"linucb"}`, `,"dim":2,"policy":{"kind":"logistic"}`, `,"dim":2,"policy":{"kind":"epsilon-greedy"}`,
		`,"dim":2,"sigma":`+d.number()+`,"policy":{"kind":"atoms"}`, `,"features":{"features":[{"feature":"action.p","kind":"number","range":[0,`+d.number()+`]}]}`)
	more := pick(d, "", "", `,"budget":{"mean":`+d.number()+`}`, `,"floor":`+d.number(), `,"caps":{"a":0.5}`, `,"mode":"frozen"`)
	return reward + shape + more
}

// step sends one request.
func (w *world) step(t testing.TB, d *dice) {
	m := "m" + strconv.Itoa(d.n(4))
	event := "xx"
	if n := len(w.events); n > 0 {
		event = w.events[n-1-d.n(min(n, 8))]
	}
	switch d.n(16) {
	case 0, 1:
		if d.n(2) == 0 {
			w.send(t, "DELETE", "/v1/models/"+m, "")
		}
		w.send(t, "POST", "/v1/models", `{"id":"`+m+`"`+d.config()+`}`)
	case 2:
		w.send(t, "PATCH", "/v1/models/"+m, `{`+strings.TrimPrefix(d.config(), ",")+`}`)
	case 3:
		w.send(t, "POST", "/v1/models/"+m+"/actions:enter", `{"id":"a","prior":{"mean":`+d.number()+`,"events":3}}`)
	case 4:
		w.send(t, "POST", "/v1/models/"+m+"/actions:leave", `{"id":"a"}`)
	case 5:
		w.send(t, "POST", "/v1/models/"+m+":"+pick(d, "pause", "resume", "resume"), "")
	case 6:
		switch d.n(3) {
		case 0, 1:
			w.send(t, "POST", "/v1/models/"+m+":clone", `{"name":"m`+strconv.Itoa(d.n(4))+`"}`)
		case 2:
			w.send(t, "POST", "/v1/models/"+m+":rollback", fmt.Sprintf(`{"to_seq":%d,"keep_later":%v}`, max(1, w.svc.Health().Applied-uint64(d.n(20))), d.n(2) == 0))
		}
	case 7, 8, 9:
		for range d.n(3) + 1 {
			code, body := w.send(t, "POST", "/v1/models/"+m+":decide", `{"context":`+d.value()+`,"actions":[`+d.actions()+`],"explain":"full"}`)
			var a struct {
				EventID string `json:"event_id"`
			}
			if code == 200 && json.Unmarshal([]byte(body), &a) == nil {
				w.events = append(w.events, a.EventID)
			}
		}
	case 10, 11, 12:
		w.send(t, "POST", "/v1/events/"+event+":reward", `{"value":`+d.number()+`,"key":"`+strconv.Itoa(d.n(4))+`"}`)
	case 13:
		w.send(t, "POST", "/v1/events/"+event+":reward", `{"cost":`+d.number()+`}`)
	case 14:
		w.ns.Add(int64(pick(d, time.Millisecond, time.Second, time.Minute, time.Hour)))
	case 15:
		w.send(t, "GET", pick(d, "/v1/models/"+m, "/v1/models", "/v1/events/"+event, "/v1/models/"+m+"/state", "/v1/models/"+m+"/coin", "/v1/models/"+m+"/control", "/v1/models/"+m+"/control?share=.1"), "")
	}
}

// check looks at what must hold after any sequence: the server takes records, and every model decides or says why not.
func (w *world) check(t testing.TB) {
	t.Helper()
	if h := w.svc.Health(); !h.Ready || len(h.Failed) > 0 {
		for _, name := range h.Failed {
			m, err := w.svc.GetModel(context.Background(), name)
			b, _ := json.Marshal(m.Config)
			t.Errorf("%s: %s, %v, %+v", name, b, err, m.Counts)
		}
		t.Fatalf("the server is not ready: %s; failed %v", h.Reason, h.Failed)
	}
	for _, name := range w.models() {
		m, err := w.svc.GetModel(context.Background(), name)
		if bad := notFinite(m); err != nil || len(bad) > 0 {
			t.Errorf("%s: %v, %v", name, bad, err)
		}
		// Every copy states the digest of the state that it begins with.
		w.send(t, "DELETE", "/v1/models/probe", "")
		if code, body := w.send(t, "POST", "/v1/models/"+name+":clone", `{"name":"probe"}`); code != 201 && name != "probe" {
			t.Errorf("%s has no copy: %d %s", name, code, body)
		}
	}
	w.send(t, "DELETE", "/v1/models/probe", "")
	w.send(t, "POST", "/v1/models", `{"id":"probe"}`)
	if code, body := w.send(t, "POST", "/v1/models/probe:decide", `{"actions":[{"id":"a"},{"id":"b"}]}`); code != 200 {
		t.Errorf("another model is not served: %d %s", code, body)
	}
	for i := range 4 {
		features := fmt.Sprintf(`[{"id":"a","features":%s,"cost":1},{"id":"b","features":%[1]s,"cost":1}]`, pick(&dice{[]byte{byte(i)}}, `[0.5,0.5]`))
		w.send(t, "POST", "/v1/models/m"+strconv.Itoa(i)+":decide", `{"actions":`+features+`}`)
	}
}

// FuzzAcceptedRequests: no sequence of requests makes a model or the server fail, or is answered with a body that the document
// does not describe.
func FuzzAcceptedRequests(f *testing.F) {
	w := newWorld(f)
	for _, seed := range []string{"", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c", "\x00\x07\x00\x00\x0a\x00\x08\x0a\x00\x08\x0e\x02"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &dice{b}
		for n := 0; len(d.b) > 0 && n < 30; n++ {
			w.step(t, d)
		}
		w.check(t)
	})
}

// TestAcceptedRequests plays sequences of a fixed seed, as FuzzAcceptedRequests does.
func TestAcceptedRequests(t *testing.T) {
	sequences := 60
	if os.Getenv("TROUPE_LONG") != "" {
		sequences = 3000
	}
	var w *world
	r := rand.New(rand.NewPCG(20261128, 47))
	for i := range sequences {
		if i%100 == 0 { // rollbacks fold the log from its beginning
			w = newWorld(t)
		}
		b := make([]byte, 400)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		d := &dice{b}
		for n := 0; len(d.b) > 0 && n < 60; n++ {
			w.step(t, d)
		}
		if t.Failed() {
			t.Errorf("sequence %d of seed 20261128, 47", i)
		}
		if w.check(t); t.Failed() {
			t.FailNow()
		}
	}
}
