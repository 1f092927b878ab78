package api

import (
	"context"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/timing"
)

// TestActionsEnterAndLeave: one call each; what cannot be is refused by field, and nothing is written.
func TestActionsEnterAndLeave(t *testing.T) {
	s := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	defer s.Close(context.Background())
	e := &edge{API: must(New(s, Options{Clock: timing.At(clock)})), t: t}
	e.do("POST", "/v1/models", `{"id": "m", "reward": {"min": 0, "max": 1}}`).want(t, "create", 201)
	e.do("POST", "/v1/models", `{"id": "dense", "dim": 2}`).want(t, "create", 201)
	ask := `{"actions": [{"id": "a"}, {"id": "b"}]}`
	e.do("POST", "/v1/models/m/actions:leave", `{"id": "b"}`).want(t, "leave", 200, `"left":true`)
	for range 20 {
		if a := e.do("POST", "/v1/models/m:decide", ask); field[serve.Chosen](t, a, "action").ID != "a" {
			t.Fatalf("%s after b has left", a.body)
		}
	}
	e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "b"}]}`).want(t, "an action that has left alone", 422, "has not left")
	e.do("POST", "/v1/models/m/actions:enter", `{"id": "b", "floor": 0.7, "decisions": 31, "prior": {"mean": 0.4, "events": 10}}`).want(t, "enter", 200,
		`"entered":[{"floor":0.7,"id":"b","prior":{"events":10,"mean":0.4},"times":1,"until":51}]`)
	n := 0
	for range 30 {
		if field[serve.Chosen](t, e.do("POST", "/v1/models/m:decide", ask), "action").ID == "b" {
			n++
		}
	}
	if n < 12 { // P(Binomial(30, .7) < 12) = 2e-4
		t.Errorf("b was played %d times of 30 with a floor of .7", n)
	}
	version := field[int](t, e.do("GET", "/v1/models/m", ""), "config_version")
	for body, words := range map[string]string{
		`{"id": ""}`: "id of an action",
		`{"id": "c", "floor": 0.5, "decisions": 10}`:     "sum to 1.2",
		`{"id": "c", "floor": 0.1}`:                      "floor and decisions together",
		`{"id": "c", "floor": -1, "decisions": 1}`:       "above 0",
		`{"id": "c", "prior": {"mean": 1}}`:              "prior.events",
		`{"id": "c", "prior": {"mean": 7, "events": 1}}`: "expected a reward in [0, 1]",
		`{"id": "c", "flor": 1}`:                         "flor",
	} {
		e.do("POST", "/v1/models/m/actions:enter", body).want(t, body, 422, words)
	}
	e.do("POST", "/v1/models/dense/actions:enter", `{"id": "c"}`).want(t, "without ids", 422, "by their features")
	e.do("POST", "/v1/models/none/actions:leave", `{"id": "c"}`).want(t, "another model", 404)
	if got := field[int](t, e.do("GET", "/v1/models/m", ""), "config_version"); got != version {
		t.Errorf("refused calls made version %d of %d", got, version)
	}
	e.do("GET", "/models/m", "").want(t, "page", 200, "entered: ")
}
