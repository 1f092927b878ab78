package api

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/ope"
	"troupe/serve"
	"troupe/serve/joined"
	"troupe/timing"
)

// TestControl: a control group is set, shown and refused by field; a decision says its group; the comparison is answered
// by the operation and first on the page, the same after a restart; a plan comes before there is a control group.
func TestControl(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1) // the seeds of the models: what they earn is compared
	dir, log := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	open := func() (*edge, *serve.Server) {
		s := must(serve.Open(context.Background(), serve.Options{Dir: dir, Log: log, Wait: time.Minute}))
		return &edge{API: must(New(s, Options{Clock: timing.At(clock)})), t: t}, s
	}
	e, s := open()
	const reward = `"reward": {"min": 0, "max": 1}`
	for body, words := range map[string][]string{
		`{"id": "m", "control": {"share": 0.6}}`:                                                                       {`control.share`, "is 0.6, expected a number above 0 and at most 0.5"},
		`{"id": "m", "control": {"share": 0}}`:                                                                         {`control.share`},
		`{"id": "m", "control": {"share": 0.0000001}}`:                                                                 {"at most 6 decimals"},
		`{"id": "m", "control": {"plays": "first"}}`:                                                                   {`control.share`},
		`{"id": "m", "control": {"share": 0.1, "plays": "last"}}`:                                                      {`control.plays`, "expected uniform or first"},
		`{"id": "m", "control": 0.1}`:                                                                                  {"expected a table with share"},
		`{"id": "m", "control": {"share": 0.1, "of": 1}}`:                                                              {"of"},
		`{"id": "m", "control": {"share": 0.1}, "budget": {"mean": 1}}`:                                                {"does not go with a budget"},
		`{"id": "m", "control": {"share": 0.1}, "caps": {"a": 0.5}}`:                                                   {"does not go with caps"},
		`{"id": "m", "control": {"share": 0.1}, "floors": {"a": 0.5}}`:                                                 {"does not go with floors"},
		`{"id": "m", "control": {"share": 0.1}, "guard": {"margin": 0.1}, ` + reward + `}`:                             {"does not go with a guard"},
		`{"id": "m", "mode": "guarded", "control": {"share": 0.1}, ` + reward + `}`:                                    {"guard"},
		`{"id": "m", "numbers": [{"name": "price", "min": 1, "max": 9}], "control": {"share": 0.1, "plays": "first"}}`: {`control.plays`, "does not go with numbers"},
	} {
		e.do("POST", "/v1/models", body).want(t, body, 422, words...)
	}
	// Numbers: the control plays a uniform cell, and the log says how likely it was.
	e.do("POST", "/v1/models", `{"id": "n", "numbers": [{"name": "price", "min": 1, "max": 9}], "control": {"share": 0.5}, `+reward+`}`).want(t, "numbers", 201)
	for range 40 {
		a := e.do("POST", "/v1/models/n:decide", `{}`)
		a.want(t, "numbers", 200, `"group":"`, `"price":`)
		e.do("POST", "/v1/events/"+field[string](t, a, "event_id")+":replay", "").want(t, "numbers, replayed", 200, `"equal":true`)
		e.do("POST", "/v1/events/"+field[string](t, a, "event_id")+":reward", `{"value": 0.5}`).want(t, "reward", 200)
	}
	e.do("GET", "/v1/models/n/control", "").want(t, "numbers", 200, `"decisions":40,`)
	e.do("POST", "/v1/models", `{"id": "m", `+reward+`}`).want(t, "create", 201)
	e.do("GET", "/v1/models/m/control", "").want(t, "no decision", 200, `"why":"no decision`)
	e.do("GET", "/v1/models/m/control?plays=first", "").want(t, "a plan without a share", 422, `"field":"query.plays"`)
	e.do("GET", "/v1/models/m/control?difference=0.1", "").want(t, "a plan without a control", 422, `"field":"query.difference"`)
	e.do("GET", "/v1/models/m/control?share=0.7", "").want(t, "too large a share", 422, "share")
	e.do("GET", "/v1/models/m/control?from=99", "").want(t, "from beyond the end", 200, "there is no decision yet")
	e.do("GET", "/v1/models/none/control", "").want(t, "another model", 404)
	r := rand.New(rand.NewPCG(50, 8))
	play := func(n int) (control int) {
		t.Helper()
		for range n {
			a := e.do("POST", "/v1/models/m:decide", `{"actions": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}`)
			if a.status != 200 {
				t.Fatal(a.body)
			}
			if strings.Contains(a.body, `"group":"control"`) {
				control++
			}
			y := 0
			if r.Float64() < []float64{.2, .3, .9}[field[serve.Chosen](t, a, "action").Index] {
				y = 1
			}
			e.do("POST", "/v1/events/"+field[string](t, a, "event_id")+":reward", fmt.Sprintf(`{"value": %d}`, y)).want(t, "reward", 200)
		}
		return control
	}
	if n := play(150); n > 0 {
		t.Errorf("%d decisions without a control group are in it", n)
	}
	e.do("GET", "/v1/models/m/control", "").want(t, "no control group", 200, `"why":"no decision with a final reward has a control group"`)
	e.do("GET", "/v1/models/m/control?share=0.2", "").want(t, "a plan", 200, `"plan":{"share":0.2,"difference":0.0`, `"decisions":`)
	e.do("GET", "/v1/models/m/control?share=0.2&difference=0.9", "").want(t, "a plan for too much", 200, `"why_no_plan":"difference is 0.9, and with this mean reward these laws allow at most`)
	if page := e.do("GET", "/models/m", ""); strings.Contains(page.body, "Does the model pay?") {
		t.Error("a page without a control group compares with one")
	}
	e.do("PATCH", "/v1/models/m", `{"control": {"share": 0.2}}`, "If-Match", "*").want(t, "set it", 200, `"control":{"plays":"uniform","share":0.2}`)
	if n := play(400); n < 45 || n > 120 {
		t.Errorf("%d of 400 decisions are in a control of .2", n)
	}
	a := e.do("GET", "/v1/models/m/control", "")
	a.want(t, "compare", 200, `"settled":"better"`, `"decisions":400`, `"early":550`, `"sentence":"The model earns 0.`, `"plays":"uniform"`)
	c := field[ope.ControlResult](t, a, "comparison")
	if d := c.Difference; !(d.Every[0] > 0 && d.Every[0] < .4 && d.Every[1] > .3 && d.Mean > .2 && d.Mean < .5) {
		t.Errorf("the difference of about .4 is %+v", d)
	}
	page := e.do("GET", "/models/m", "", "X-Request-Id", "test")
	page.want(t, "page", 200, "Does the model pay?", "<p class=\"lead\">The model earns 0.", "in the control group, which plays a uniform action", `href="/v1/models/m/control"`)
	if strings.Index(page.body, `id="control"`) > strings.Index(page.body, `id="rewards"`) {
		t.Error("the page does not begin with it")
	}
	m := must(s.GetModel(context.Background(), "m"))
	h := must(readHistory(context.Background(), s, &m, bounds{entries: pageEntries, decisions: pageDecisions, candidates: true}))
	for _, d := range h.decisions { // what the page compares with has the probabilities of both groups together
		if law := joined.Law(d.whole); math.Abs(law[d.index]-float64(d.num)/float64(d.den)) > 1e-12 {
			t.Fatalf("entry %d: the law has %v, the propensity is %d/%d", d.seq, law[d.index], d.num, d.den)
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	e, s = open()
	defer s.Close(context.Background())
	if again := e.do("GET", "/v1/models/m/control", ""); again.body != a.body {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", again.body, a.body)
	}
	for _, route := range []string{"/v1/models/m/decisions", "/v1/models/m/log"} {
		e.do("GET", route, "").want(t, route, 200, `"group":"control","control":0.2,"control_plays":"uniform"`)
	}
	e.do("PATCH", "/v1/models/m", `{"control": {"plays": "first"}}`, "If-Match", "*").want(t, "change it", 200, `"control":{"plays":"first","share":0.2}`)
	play(40)
	e.do("GET", "/v1/models/m/control?difference=0.3", "").want(t, "anew", 200, `"decisions":40,`, `"before":400`, `"plays":"first"`, `"plan":{`)
	e.do("POST", "/v1/models/m:clone", `{"name": "copy"}`).want(t, "clone", 201, `"control":{"plays":"first","share":0.2}`)
	e.do("PATCH", "/v1/models/m", `{"control": null}`, "If-Match", "*").want(t, "take it away", 200)
	play(1)
	e.do("GET", "/v1/models/m/control", "").want(t, "none any more", 200, `"why":"the newest decisions have no control group"`)
	e.do("GET", "/models/m", "").want(t, "page", 200, "Does the model pay?", "the newest decisions have no control group")
}
