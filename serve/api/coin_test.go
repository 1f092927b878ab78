package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/timing"
)

// TestCoinPage: the page of a model with a budget says whether choosing pays, with a picture, its points and what has none; waits for
// the first decision without a reward; says why when it has nothing to compare; and a model without costs has no such part. It is the
// same after a restart, and its stretch of the log is bounded.
func TestCoinPage(t *testing.T) {
	dir, log := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	open := func() (*edge, *serve.Server) {
		s := must(serve.Open(context.Background(), serve.Options{Dir: dir, Log: log, Wait: time.Minute}))
		return &edge{API: must(New(s, Options{Clock: timing.At(clock)})), t: t}, s
	}
	e, s := open()
	e.do("POST", "/v1/models", `{"id": "router", "budget": {"mean": 2}, "floor": 0.2, "reward": {"min": 0, "max": 1}}`).want(t, "create", 201)
	e.do("GET", "/v1/models/router/coin", "").want(t, "before the first decision", 200, `"why":"`, "no decision")
	e.do("GET", "/models/router", "").want(t, "page before the first decision", 200, "Does choosing pay?", "Nothing can be said")
	r := rand.New(rand.NewPCG(31, 1))
	decide := func(model string, costs ...string) (id, action string) {
		t.Helper()
		a := e.do("POST", "/v1/models/"+model+":decide", fmt.Sprintf(`{"actions": [{"id": "<small>"%s}, {"id": "large"%s}]}`, costs[0], costs[1]))
		if a.status != 200 {
			t.Fatalf("decide: %s", a.body)
		}
		return field[string](t, a, "event_id"), field[serve.Chosen](t, a, "action").ID
	}
	rewards := map[string]float64{"<small>": .5, "large": .9}
	reward := func(id, action string) {
		t.Helper()
		y := 0
		if r.Float64() < rewards[action] {
			y = 1
		}
		e.do("POST", "/v1/events/"+id+":reward", fmt.Sprintf(`{"value": %d}`, y)).want(t, "reward", 200)
	}
	for range 150 {
		reward(decide("router", `, "cost": 1`, `, "cost": 4`))
	}
	waits, action := decide("router", `, "cost": 1`, `, "cost": 4`)
	reward(decide("router", `, "cost": 1`, `, "cost": 4`))
	e.do("GET", "/v1/models/router/coin", "").want(t, "coin", 200, `"pending":2`, `"early":150`, `"sentence":"choosing`, `"with_stop"`)
	page := e.do("GET", "/models/router", "", "X-Request-Id", "test")
	page.want(t, "page", 200, `<h2 id="coin">Does choosing pay?</h2>`, `<p class="lead">Choosing `, "2 wait for a reward", `role="img"`, ">the decisions<",
		"&lt;small&gt;", "With the decisions under the hard stop", "% of the coin", `href="/v1/models/router/coin"`)
	for _, no := range []string{"<small>", "NaN", "Inf"} {
		if strings.Contains(page.body, no) {
			t.Errorf("the page has %s", no)
		}
	}
	reward(waits, action)
	after := e.do("GET", "/v1/models/router/coin", "")
	after.want(t, "after the reward that was missing", 200, `"pending":0`, `"early":152`)

	e.do("POST", "/v1/models", `{"id": "free"}`).want(t, "create", 201)
	reward(decide("free", "", ""))
	e.do("GET", "/v1/models/free/coin", "").want(t, "without costs", 200, `"why":"`, "says what its actions cost")
	if a := e.do("GET", "/models/free", ""); a.status != 200 || strings.Contains(a.body, "Does choosing pay") {
		t.Errorf("the page of a model without costs: %d", a.status)
	}
	e.do("POST", "/v1/models", `{"id": "nofloor", "floor": 0}`).want(t, "create", 201)
	lacking := func() answer { return e.do("GET", "/v1/models/nofloor/coin", "") }
	// The policy soon gives one of the actions no probability; one whose rewards are all the same keeps some. How soon is up to
	// its seed.
	for n := 0; n < 60 || n < 2000 && n%60 > 0 || n < 2000 && !strings.Contains(lacking().body, `"lacking":`); n++ {
		id, action := decide("nofloor", `, "cost": 1`, `, "cost": 4`)
		y := .1 * float64(n%2)
		if action == "large" {
			y = 1 - y
		}
		e.do("POST", "/v1/events/"+id+":reward", fmt.Sprintf(`{"value": %v}`, y)).want(t, "reward", 200)
	}
	lacking().want(t, "without a floor", 200, `"lacking":`, `"floor":0.01`)
	e.do("GET", "/models/nofloor", "").want(t, "the page without a floor", 200, "could not play it; a floor gives it one, such as floor = 0.01")
	e.do("GET", "/v1/models/nothing/coin", "").want(t, "another model", 404)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, s = open()
	defer s.Close(context.Background())
	if got := e.do("GET", "/v1/models/router/coin", ""); field[any](t, got, "coin") == nil || strings.Split(got.body, `"coin"`)[1] !=
		strings.Split(after.body, `"coin"`)[1] {
		t.Errorf("after a restart\n%s\nbefore\n%s", got.body, after.body)
	}
}

// TestCoinStretch: between two beginnings the comparison starts at one entry, and never reads more than two blocks.
func TestCoinStretch(t *testing.T) {
	for _, x := range []struct{ first, created, applied, from uint64 }{
		{1, 1, 1, 1}, {1, 5, 9, 5}, {1, 1, 16383, 1}, {1, 1, 16384, 8193}, {1, 1, 24575, 8193}, {1, 1, 24576, 16385},
		{20000, 1, 24576, 20000}, {1, 24000, 24576, 24000},
	} {
		if got := blockFrom(x.first, x.created, x.applied, coinBlock); got != x.from {
			t.Errorf("%+v: from %d", x, got)
		}
	}
}
