package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/timing"
)

// TestModelPageUniform: the page says by how much the model is better than uniform play on the same decisions, with the
// predictions of the model's policy where it has some and the log has the candidates, otherwise with those of a linear
// model.
func TestModelPageUniform(t *testing.T) {
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Log: log, Wait: time.Minute}))
	defer s.Close(context.Background())
	e := &edge{API: must(New(s, Options{Clock: timing.At(clock)})), t: t}
	for _, c := range []struct{ name, more, want, no string }{
		{"own", `"floor": 0.2`, "the model&#39;s own predictions are the control variate", "a linear model"},
		{"schema", `"floor": 0.2, "policy": {"kind": "ensemble"}, "features": ` + priceSchema,
			"a linear model&#39;s predictions are the control variate", "own predictions"},
		{"without", `"floor": 0.2, "log_candidates": "none", "policy": {"kind": "ensemble"}, "features": ` + priceSchema,
			"a linear model&#39;s predictions are the control variate", "own predictions"},
	} {
		e.fill(c.name, `{"id": "`+c.name+`", "reward": {"min": 0, "max": 1}, `+c.more+`}`, twoActions, "b", 250)
		a := e.do("GET", "/models/"+c.name, "")
		a.want(t, c.name, 200, c.want)
		if strings.Contains(a.body, c.no) {
			t.Errorf("%s: the page says %q", c.name, c.no)
		}
		a.want(t, c.name, 200, "On the same 250 decisions the model is better than uniform play, by 0.")
	}
}
