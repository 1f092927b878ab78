package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"troupe/serve"
)

// TestRewardsWithNames: a model with rewards takes objects alone and in a batch, refuses the rest with its field, and shows them in
// the event, the log, the decisions as JSON and as Parquet, and on its page. A number stays a number for other models.
func TestRewardsWithNames(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id": "m", "rewards": {"revenue": 0.05, "click": 1, "latency": 0}, "reward": {"rule": "sum"}}`).want(t, "create", 201,
		`"rewards":{"click":1,"latency":0,"revenue":0.05}`, `"default":0`)
	e.do("POST", "/v1/models", `{"id": "plain"}`).want(t, "create", 201)
	for config, field := range map[string]string{
		`{"id": "x", "rewards": {}}`:                                                       `"field":"rewards"`,
		`{"id": "x", "rewards": {"a": 1e9}}`:                                               `"field":"rewards.a"`,
		`{"id": "x", "rewards": {"a": "b"}}`:                                               `"field":"rewards.a"`,
		`{"id": "x", "rewards": [1]}`:                                                      `"field":"rewards"`,
		`{"id": "x", "rewards": {"a": 1}, "reward": {"default": 1}}`:                       `"field":"reward.default"`,
		`{"id": "x", "rewards": {"a": 1}, "list": {"reward": "list"}}`:                     `"field":"list.reward"`,
		`{"id": "x", "rewards": {"a": 0}}`:                                                 `"field":"rewards"`,
		`{"id": "x", "rewards": {"a": 1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}}`: `"field":"rewards"`,
	} {
		e.do("POST", "/v1/models", config).want(t, config, 422, field)
	}
	e.do("PATCH", "/v1/models/m", `{"rewards": {"click": 2}}`, "If-Match", "*").want(t, "another weight", 422, `"field":"rewards"`, "cannot change")
	e.do("PATCH", "/v1/models/m", `{"rewards": null}`, "If-Match", "*").want(t, "none", 422, `"field":"rewards"`)
	e.do("PATCH", "/v1/models/m", `{"reward": {"window": "20m"}}`, "If-Match", "*").want(t, "a window", 200, `"rewards":{"click":1`)
	decide := func(model string) string {
		t.Helper()
		var d serve.Decision
		if err := json.Unmarshal([]byte(e.do("POST", "/v1/models/"+model+":decide", `{"actions": [{"id": "a"}, {"id": "b"}]}`).body), &d); err != nil {
			t.Fatal(err)
		}
		return d.EventID
	}
	d, p := decide("m"), decide("plain")
	reward := "/v1/events/" + d + ":reward"
	e.do("POST", reward, `{"reward": {"click": 1, "revenue": 12.5}, "cost": 2, "key": "k"}`).want(t, "two", 200, `"status":"accepted"`)
	e.do("POST", reward, `{"reward": {"click": 1, "revenue": 12.5}, "key": "k"}`).want(t, "again", 200, `"status":"duplicate"`)
	e.do("POST", "/v1/rewards:batch", fmt.Sprintf(`{"rewards": [{"event_id": %q, "reward": {"revenue": 7.5}}, {"event_id": %[1]q, "value": 1},
		{"event_id": %[1]q, "reward": {"clicks": 1}}, {"event_id": %q, "value": 1}, {"event_id": %[2]q, "reward": {"click": 1}},
		{"event_id": %[1]q, "reward": {"click": 1}, "value": 1}]}`, d, p)).want(t, "batch", 200,
		`{"results":[{"result":{"status":"accepted"`, `"field":"value"`, "click, latency and revenue", `"field":"reward.clicks"`, `"field":"reward"`,
		"made without rewards", `"field":"rewards[5].reward"`)
	for body, want := range map[string]string{
		`{"value": 1}`:                              `"field":"value"`,
		`{"reward": {}}`:                            `"field":"reward"`,
		`{"reward": 1}`:                             `"field":"reward"`,
		`{"reward": {"click": null}}`:               `"field":"reward.click"`,
		`{"reward": {"click": "1"}}`:                `"field":"reward.click"`,
		`{"reward": {"click": 1, "click": 2}}`:      "is there twice",
		`{"reward": {"click": 1e101}}`:              `"field":"reward.click"`,
		`{"reward": {"click": 1e999}}`:              `"field":"reward.click"`,
		`{"reward": {"clicks": 1}}`:                 "click, latency and revenue",
		`{"reward": {"click": 1}, "value": 1}`:      "stands beside another",
		`{"reward": {"click": 1}, "values": [1]}`:   "stands beside another",
		`{"reward": {"click": 1}, "position": 0}`:   `"field":"position"`,
		`{"reward": {"click": 1, "position": {}}}`:  `"field":"reward.position"`,
		`{"reward": [1]}`:                           `"field":"reward"`,
		`{"rewards": {"click": 1}, "value": 1}`:     "unknown_field",
		`{"reward": {"\u0000": 1}}`:                 "is no reward",
		`{"reward": {"latency": 1}, "shown": 1}`:    `"field":"shown"`,
		`{"reward": {"latency": 1}, "slot": "top"}`: `"field":"slot"`,
	} {
		a := e.do("POST", reward, body)
		if a.status != 422 && a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want a refusal with %s", body, a.status, a.body, want)
		}
	}
	e.do("GET", "/v1/events/"+d, "").want(t, "event", 200, `"value":2,"reward":{"click":1,"revenue":20}`, `"cost":2`)
	e.do("GET", "/v1/models/m/log", "").want(t, "log", 200, `"reward":{"click":1,"revenue":12.5}`, `"reward":{"revenue":7.5}`)
	e.do("GET", "/v1/models/m/decisions", "").want(t, "decisions", 200, `"reward.click":null,"reward.latency":null,"reward.revenue":null}`)
	e.do("GET", "/v1/models/plain/decisions", "").want(t, "decisions of another", 200)
	if a := e.do("GET", "/v1/models/plain/decisions", ""); strings.Contains(a.body, "reward.") {
		t.Errorf("a model with one reward has columns of others: %s", a.body)
	}
	for _, path := range []string{"decisions", "log"} {
		b := []byte(e.do("GET", "/v1/models/m/"+path, "", "Accept", typeParquet).body)
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if path == "decisions" && (f.Root().Column("reward.click") == nil || f.Root().Column("reward.revenue") == nil || f.NumRows() != 1) {
			t.Errorf("columns %v", f.Schema())
		}
	}
	e.do("GET", "/models/m", "", "Accept", "text/html").want(t, "page", 200, "Each reward", "revenue", "0.05")
	if a := e.do("GET", "/models/plain", "", "Accept", "text/html"); strings.Contains(a.body, "Each reward") {
		t.Error("the page of a model with one reward has several")
	}
}
