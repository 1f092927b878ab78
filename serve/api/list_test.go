package api

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"troupe/serve"
)

// TestLists: a list is decided, alone and in a batch, rewarded by position, slot, action and values, alone and in a batch, and
// shown; what is refused names its field; a list whose model has one reward takes no position.
func TestLists(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id": "m"}`).want(t, "create", 201)
	e.do("POST", "/v1/models", `{"id": "w", "list": {"reward": "list"}}`).want(t, "create", 201, `"list":{"reward":"list"}`)
	e.do("POST", "/v1/models", `{"id": "x", "list": {"reward": "both"}}`).want(t, "no such reward", 422, `"field":"list.reward"`, "expected positions or list")
	e.do("PATCH", "/v1/models/m", `{"list": {"reward": "list"}}`, "If-Match", "*").want(t, "a change of it", 422, `"field":"list.reward"`)
	const actions = `"actions": [{"id": "a", "features": {"topic": "sport"}}, {"id": "b"}, {"id": "c"}, {"id": "d"}]`
	list := func(a answer) (d serve.Decision) {
		t.Helper()
		a.want(t, "decide", 200, `"list":[{"position":0`)
		if strings.Contains(a.body, `"action"`) {
			t.Errorf("a list has an action: %s", a.body)
		}
		if err := json.Unmarshal([]byte(a.body), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := list(e.do("POST", "/v1/models/m:decide", `{"context": {"country": "NO"}, "choose": 3, `+actions+`, "explain": "full"}`))
	if len(d.List) != 3 || len(d.Explain) != 4 || len(d.Explain[0].Marginals) != 3 || d.List[1].Prefix == nil || *d.List[0].Examination != 1 {
		t.Errorf("%+v", d)
	}
	// A baseline is played with probability 1, and the answer has what the model would have played.
	const based = `{"mode": "apprentice", "slots": [{"id": "hero", "baseline": "c"}, {"baseline": "a"}], ` + actions + `}`
	b := e.do("POST", "/v1/models/m:decide", based)
	b.want(t, "baseline", 200, `"list":[{"position":0,"slot":"hero","id":"c","index":2,"propensity":{"num":1,"den":1}},{"position":1,"slot":"1","id":"a","index":0,"propensity":{"num":1,"den":1}}]`,
		`"would":{"list":[{"position":0,"slot":"hero","id":"`)
	e.do("POST", "/v1/models/m:decideBatch", `{"requests": [`+based+`]}`).want(t, "baseline in a batch", 200, `"id":"c","index":2,"propensity":{"num":1,"den":1}}`, `"would":{"list"`)
	e.do("POST", "/v1/models/m:decide", strings.Replace(based, `"baseline": "a"`, `"baseline": "c"`, 1)).want(t, "twice", 422, `"field":"slots[1].baseline"`, `\"c\" is the baseline of slots[0] too`)
	e.do("POST", "/v1/models/m:decide", strings.Replace(based, `"baseline": "a"`, `"baseline": 1`, 1)).want(t, "a place", 422, "baseline")
	e.do("POST", "/v1/models/m:decide", `{"mode": "apprentice", "baseline": 0, "choose": 2, `+actions+`}`).want(t, "of an action", 422, `"field":"baseline"`, "slots[i].baseline")
	for p, x := range d.List { // the event has the whole list, and no action
		e.do("GET", "/v1/events/"+d.EventID, "").want(t, "event", 200, fmt.Sprintf(`{"position":%d,"id":%q,"index":%d,"propensity":{"num":%d,"den":%d}}`, p, x.ID, x.Index, x.Propensity.Num, x.Propensity.Den))
	}
	if a := e.do("GET", "/v1/events/"+d.EventID, ""); strings.Contains(a.body, `"action":{"id"`) {
		t.Errorf("the event of a list has one action: %s", a.body)
	}
	// A category that repeats is searched; the answer says so, and propensities are exact: those of each position sum to 1, also where the log has none.
	e.do("POST", "/v1/models", `{"id": "r", "log_candidates": "none"}`).want(t, "create", 201)
	const sports = `"choose": 3, "actions": [{"id": "a", "features": {"topic": "sport"}}, {"id": "b", "features": {"topic": "sport"}}, {"id": "c", "features": {"topic": "news"}}, {"id": "d", "features": {"topic": "sport"}}], "explain": "full"`
	for i := range 10 {
		x := list(e.do("POST", "/v1/models/r:decide", `{`+sports+`}`))
		for p := range 3 {
			sum := 0.
			for _, q := range x.Explain {
				sum += q.Marginals[p].Float()
			}
			if math.Abs(sum-1) > 1e-12 {
				t.Errorf("the marginals of position %d sum to %v", p, sum)
			}
		}
		if x.Approximate != (i > 8) && (i == 0 || i > 8) { // a model that has learned no list knows no repetition
			t.Errorf("list %d is approximate: %t", i, x.Approximate)
		}
		e.do("POST", "/v1/events/"+x.EventID+":reward", `{"values": [1, 0, 0]}`).want(t, "reward", 200)
	}
	if a := e.do("GET", "/v1/models/r/log?page_size=100", ""); strings.Contains(a.body, `"votes":[`) {
		t.Errorf("a model that keeps no candidates has their counts in its log: %s", a.body)
	}
	reward := "/v1/events/" + d.EventID + ":reward"
	e.do("POST", reward, `{"position": 0, "value": 1}`).want(t, "position", 200, `"status":"accepted"`)
	e.do("POST", reward, fmt.Sprintf(`{"action": %q, "value": 0}`, d.List[1].ID)).want(t, "action", 200, `"status":"accepted"`)
	e.do("POST", reward, `{"values": [1, 1, 0], "shown": 2}`).want(t, "values", 200, `"status":"duplicate"`, `{"position":2,"status":"ignored"}`)
	e.do("POST", reward, `{"value": 1}`).want(t, "no position", 422, `"field":"value"`, "name one by position")
	e.do("POST", reward, `{"values": [1, 0]}`).want(t, "too few", 422, `"field":"values"`, "expected 3 numbers")
	e.do("POST", reward, `{"values": [1, null, 0]}`).want(t, "null", 422, "values[1]", "is null")
	e.do("POST", reward, `{"value": 1, "values": [1, 0, 0]}`).want(t, "both", 422, "values", "beside value")
	e.do("POST", reward, `{"position": 7, "value": 1}`).want(t, "beyond", 422, `"field":"position"`)
	e.do("GET", "/v1/events/"+d.EventID, "").want(t, "event", 200, `"positions":[{"position":0,"shown":true,"value":1}`, `{"position":2,"shown":false}`)
	e.do("POST", "/v1/events/"+d.EventID+":replay", "").want(t, "replay", 200, `"equal":true`)
	s := list(e.do("POST", "/v1/models/m:decide", `{"slots": [{"id": "hero"}, {"id": "side", "exclude": ["d"]}], `+actions+`}`))
	e.do("POST", "/v1/rewards:batch", fmt.Sprintf(`{"rewards": [{"event_id": %q, "slot": "side", "value": 1}, {"event_id": %[1]q, "slot": "foot", "value": 1},
		{"event_id": %[1]q, "values": [0, 1]}, {"event_id": %[1]q, "shown": 1}]}`, s.EventID)).want(t, "batch", 200,
		`{"result":{"status":"accepted"`, `"field":"slot"`, `"positions":[{"position":0,"status":"accepted"},{"position":1,"status":"duplicate"}]`)
	w := list(e.do("POST", "/v1/models/w:decide", `{"choose": 2, `+actions+`}`))
	e.do("POST", "/v1/events/"+w.EventID+":reward", `{"position": 0, "value": 1}`).want(t, "one reward", 422, `"field":"position"`, "one reward for the list")
	e.do("POST", "/v1/events/"+w.EventID+":reward", `{"value": 3.2}`).want(t, "one reward", 200, "accepted")
	e.do("POST", "/v1/models/m:decideBatch", `{"requests": [{"choose": 2, `+actions+`}, {`+actions+`}, {"choose": 5, `+actions+`}, {"choose": 51, `+actions+`}]}`).want(t, "batch", 200,
		`{"decision":{"event_id"`, `"list":[`, `"action":{"id"`, `5 of 4 actions`, `"status":413`)
	e.do("GET", "/v1/models/m/decisions", "").want(t, "decisions", 200, `"slots":[{"id":"hero","action":"`, `"positions":3`, `"shown":false`, `"marginals":[`)
	for body, want := range map[string]string{
		`{"choose": 2.5, ` + actions + `}`:                                                   `"field":"choose"`,
		`{"choose": 2, "slots": [{}], ` + actions + `}`:                                      "does not go with slots",
		`{"slots": [{"id": "a", "size": 3}], ` + actions + `}`:                               "unknown_field",
		`{"slots": [null], ` + actions + `}`:                                                 "is null",
		`{"slots": [{"features": {"size": "large"}}], ` + actions + `}`:                      `"field":"slots[0].features"`,
		`{"slots": [{"actions": [{"id": "a"}]}, {"actions": [{"id": "a"}]}]}`:                `"field":"slots[1].actions"`,
		`{"choose": 2, "numbers": [{"name": "price", "min": 1, "max": 2}], ` + actions + `}`: "numbers",
	} {
		e.do("POST", "/v1/models/m:decide", body).want(t, body, 422, want)
	}
}
