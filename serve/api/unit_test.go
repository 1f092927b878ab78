package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/timing"
)

// TestUnit: a unit is set, shown, changed and taken away; a request without it is refused with its path, alone, in a batch and
// on the hot route; exports have the hash and not the value; the page gives no interval that takes decisions for independent.
func TestUnit(t *testing.T) {
	s := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	defer s.Close(context.Background())
	var log bytes.Buffer // at the level at which every request is written
	e := &edge{API: must(New(s, Options{Clock: timing.At(clock), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})), t: t}
	e.do("POST", "/v1/models", `{"id": "m", "unit": "user.id"}`).want(t, "no path of the context", 422, `"field":"unit"`, "is user.id, expected a path", "such as context.user.id")
	e.do("POST", "/v1/models", `{"id": "m", "unit": "context.user.id", "reward": {"min": 0, "max": 1}}`).want(t, "create", 201, `"unit":"context.user.id"`)
	e.do("GET", "/v1/models/m", "").want(t, "show", 200, `"unit":"context.user.id"`)
	const actions = `"actions": [{"id": "a"}, {"id": "b"}]`
	e.do("POST", "/v1/models/m:decide", `{"context": {"user": {"age": 3}}, `+actions+`}`).want(t, "without it", 422, "context.user.id", "is missing")
	e.do("POST", "/v1/models/m:decide", `{`+actions+`}`).want(t, "without a context", 422, "context.user.id", "is missing")
	e.do("POST", "/v1/models/m:decide", `{"context": {"user": {"id": [1]}}, `+actions+`}`).want(t, "a list", 422, "context.user.id", "is [1], expected a text")
	e.do("POST", "/v1/models/m:decide", `{"context": {"user": {"id": "`+strings.Repeat("secret", 200)+`"}}, `+actions+`}`).want(t, "a long text", 422, "context.user.id", `is \"secretsecret`, "…, expected a text", "at most 1024 bytes")
	e.do("POST", "/v1/models/m:decideBatch", `{"requests": [{"context": {"user": {"id": ["secret"]}}, `+actions+`}]}`).want(t, "a list in a batch", 200, `is [\"secret\"], expected a text`)
	if !strings.Contains(log.String(), "status=422") || strings.Contains(log.String(), "secret") {
		t.Errorf("the log has no refused request, or the value of a unit:\n%s", log.String())
	}
	e.do("POST", "/v1/models/m:decideBatch", `{"requests": [{`+actions+`}, {"context": {"user": {"id": 5}}, `+actions+`}]}`).want(t, "in a batch", 200, "context.user.id", "event_id")
	for i := range 60 {
		d, err := s.Decide(t.Context(), "m", serve.DecideRequest{Context: fmt.Appendf(nil, `{"user": {"id": "ann-%d"}}`, i%5), Actions: []serve.Action{{ID: "a"}, {ID: "b"}}})
		if err == nil {
			_, err = s.Reward(t.Context(), serve.RewardRequest{EventID: d.EventID, Value: float64(i % 2)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, route := range []string{"/v1/models/m/decisions", "/v1/models/m/log"} {
		a := e.do("GET", route, "")
		a.want(t, route, 200, `"unit":"`)
		if strings.Contains(a.body, "ann-") {
			t.Errorf("%s has the value of a unit", route)
		}
	}
	e.do("GET", "/models/m", "").want(t, "page", 200, "decisions of one unit share a draw", "context.user.id")
	e.do("PATCH", "/v1/models/m", `{"unit": null}`, "If-Match", "*").want(t, "take it away", 200)
	e.do("POST", "/v1/models/m:decide", `{`+actions+`}`).want(t, "without a unit", 200)
}
