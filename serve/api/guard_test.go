package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
	"troupe/serve"
	"troupe/timing"
)

// TestGuard: a guard is set, shown and refused by field; a guarded decision plays the baseline and says what the policy would
// have done.
func TestGuard(t *testing.T) {
	s := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	defer s.Close(context.Background())
	e := &edge{API: must(New(s, Options{Clock: timing.At(clock)})), t: t}
	const reward = `"reward": {"min": 0, "max": 1}`
	for body, words := range map[string]string{
		`{"id": "m", "mode": "guarded", ` + reward + `}`:                                "guard",
		`{"id": "m", "guard": {"margin": 0}, ` + reward + `}`:                           "expected a positive number",
		`{"id": "m", "guard": {"margin": 0.1, "confidence": 1}, ` + reward + `}`:        "guard.confidence",
		`{"id": "m", "guard": {"margin": 1}, ` + reward + `}`:                           "guard.margin",
		`{"id": "m", "guard": {"margin": 0.1}}`:                                         "reward.min",
		`{"id": "m", "guard": {"margin": 0.1, "alpha": 1}, ` + reward + `}`:             "alpha",
		`{"id": "m", "guard": 0.1, ` + reward + `}`:                                     "expected a table with margin",
		`{"id": "m", "guard": {"margin": 0.1}, "budget": {"mean": 1}, ` + reward + `}`:  "does not go with a budget",
		`{"id": "m", "guard": {"margin": 0.1}, "unit": "context.user", ` + reward + `}`: "does not go with unit context.user",
	} {
		e.do("POST", "/v1/models", body).want(t, body, 422, words)
	}
	e.do("POST", "/v1/models", `{"id": "m", "mode": "guarded", "guard": {"margin": 0.1}, `+reward+`}`).want(t, "create", 201, `"guard":{"confidence":0.95,"margin":0.1}`)
	e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}, {"id": "b"}]}`).want(t, "without a baseline", 422, `"field":"baseline"`, "is missing")
	e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}, {"id": "b"}], "baseline": 2}`).want(t, "no place", 422, `"field":"baseline"`)
	e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}, {"id": "b"}], "baseline": 1}`).want(t, "decide", 200, `"id":"b"`, `"mode":"guarded"`, `"would":`)
	await.Until(t, "the decision is applied", func() bool { return strings.Contains(e.do("GET", "/v1/models/m", "").body, `"decisions":1`) })
	e.do("GET", "/v1/models/m", "").want(t, "show", 200, `"plays":false`, `"policy":0`)
	for _, route := range []string{"/v1/models/m/decisions", "/v1/models/m/log"} {
		e.do("GET", route, "").want(t, route, 200, `"mode":"guarded"`)
	}
	e.do("GET", "/models/m", "").want(t, "page", 200, "This model is guarded: the next decision plays the baseline of its request. "+
		"The policy has played 0 of 1 decisions. All together have earned at least 0 more than the baselines in the mean, 95% sure "+
		"whenever you look; the margin is 0.1.")
}
