package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/timing"
)

// TestFloorsAndCaps: they are set, changed and taken away by PATCH, hold from the next decision on, and are refused by field.
func TestFloorsAndCaps(t *testing.T) {
	s := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	defer s.Close(context.Background())
	e := &edge{API: must(New(s, Options{Clock: timing.At(clock)})), t: t}
	e.do("POST", "/v1/models", `{"id": "m", "floors": {"a": 0.7}}`).want(t, "create", 201, `"floors":{"a":0.7}`)
	e.do("POST", "/v1/models", `{"id": "dense", "dim": 2, "caps": {"a": 0.5}}`).want(t, "without ids", 422, "caps", "by their features")
	law := func(want ...float64) {
		t.Helper()
		a := e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}, {"id": "b"}], "explain": "full"}`)
		var d struct {
			Explain []struct {
				Propensity struct{ Num, Den uint64 }
			}
		}
		if err := json.Unmarshal([]byte(a.body), &d); err != nil || len(d.Explain) != 2 {
			t.Fatalf("%s: %v", a.body, err)
		}
		for i, x := range d.Explain {
			if p := float64(x.Propensity.Num) / float64(x.Propensity.Den); p < want[2*i]-1e-12 || p > want[2*i+1]+1e-12 {
				t.Errorf("action %d has the probability %v, want %v to %v", i, p, want[2*i], want[2*i+1])
			}
		}
	}
	law(.7, 1, 0, .3)
	e.do("PATCH", "/v1/models/m", `{"floors": {"a": null, "c": 0.1}, "caps": {"a": 0.2}}`, "If-Match", "*").want(t, "change", 200, `"caps":{"a":0.2}`, `"floors":{"c":0.1}`)
	law(0, .2, .8, 1)
	e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}]}`).want(t, "capped actions alone", 422, "actions", "sum to 0.2", "without a cap")
	e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}, {"id": "b"}], "exclude": ["b"]}`).want(t, "capped actions are left", 422, "sum to 0.2")
	e.do("PATCH", "/v1/models/m", `{"floors": {"a": 0.3}}`, "If-Match", "*").want(t, "a floor above a cap", 422, "floors.a", "caps.a")
	e.do("PATCH", "/v1/models/m", `{"floors": {"b": 0.95}}`, "If-Match", "*").want(t, "floors above 1", 422, `\"b\" and \"c\"`, "sum to 1.05")
	e.do("PATCH", "/v1/models/m", `{"caps": {"b": 0}}`, "If-Match", "*").want(t, "a cap of 0", 422, "caps.b", "(0, 1]")
	e.do("PATCH", "/v1/models/m", `{"caps": null, "floors": null}`, "If-Match", "*").want(t, "no more", 200)
	e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}]}`).want(t, "without caps", 200)
	e.do("PATCH", "/v1/models/m", `{"floors": {"b": 1}}`, "If-Match", "*").want(t, "all of it", 200)
	law(0, 0, 1, 1)
	e.do("GET", "/models/m", "").want(t, "page", 200, "floors: ")
}
