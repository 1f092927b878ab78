package personalizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/serve"
	"troupe/serve/api"
	"troupe/serve/model"
)

const rankRequest = `{"contextFeatures":[{"user":{"city":"Oslo"}}],"actions":[{"id":"a","features":[{"price":0.4}]},{"id":"b","features":[{"price":0.9}]}],"deferActivation":false,"eventId":"e1"}`

// The requests of that service's clients, as its reference and the clients' code have them.
func TestPersonalizer(t *testing.T) {
	f := newFake("personalizer", "shop")
	e := newFront(t, f, "", api.Options{})
	key := []string{"Ocp-Apim-Subscription-Key", "0123", "Content-Type", "application/json"}

	a := e.do("POST", "/personalizer/v1.0/rank", rankRequest, key...)
	a.want(t, "rank", 201)
	if want := `{"ranking":[{"id":"a","probability":0.625},{"id":"b","probability":0.375}],"eventId":"e1","rewardActionId":"b"}`; a.body != want {
		t.Errorf("rank answers\n%s, want\n%s", a.body, want)
	}
	r := f.decides[0]
	if string(r.Context) != `[{"user":{"city":"Oslo"}}]` || string(r.Actions[0].Features) != `[{"price":0.4}]` || r.IdempotencyKey != "e1" || r.Deferred {
		t.Errorf("the service was asked for %+v", r)
	}
	a = e.do("POST", "/personalizer/v1.0/events/e1/reward", `{"value": 0.7}`, key...)
	a.want(t, "reward", 204)
	if a.body != "" || f.rewards[0].EventID != "EVENT1" || f.rewards[0].Value != 0.7 {
		t.Errorf("reward answers %q and reached the service as %+v", a.body, f.rewards)
	}
	e.do("POST", "/personalizer/v1.0/events/e1/activate", "", key...).want(t, "activate", 204)
	if len(f.active) != 1 || f.active[0] != "EVENT1" {
		t.Errorf("activated: %v", f.active)
	}

	// A repetition gets the same action and does not make up probabilities.
	a = e.do("POST", "/personalizer/v1.0/rank", rankRequest, key...)
	if want := `{"ranking":[{"id":"b","probability":0.375},{"id":"a"}],"eventId":"e1","rewardActionId":"b"}`; a.body != want {
		t.Errorf("rank again answers\n%s, want\n%s", a.body, want)
	}
	// Without an id of the caller's: ours. Nulls are what some clients send for nothing.
	a = e.do("POST", "/personalizer/v1.1-preview.3/rank", `{"contextFeatures":null,"actions":[{"id":"x","features":null},{"id":"y","features":[]},{"id":"z","features":[]}],"excludedActions":["x"],"deferActivation":true}`, key...)
	a.want(t, "rank without id", 201, `"eventId":"EVENT2"`, `"ranking":[{"id":"x","probability":0},{"id":"y","probability":0.625},{"id":"z","probability":0.375}]`)
	if r := f.decides[2]; r.Context != nil || r.Actions[0].Features != nil || !r.Deferred {
		t.Errorf("nulls reached the service as %+v", r)
	}
	e.do("POST", "/personalizer/v1.0/events/EVENT2/reward", `{"value": 1}`, key...).want(t, "reward of our id", 204)
	e.do("POST", "/v1/models/shop/personalizer/v1.0/rank", strings.Replace(rankRequest, "e1", "e:reward", 1), key...).want(t, "another model", 201, `"eventId":"e:reward"`)
	e.do("POST", "/v1/models/shop/personalizer/v1.0/events/e:reward/reward", `{"value": 1}`, key...).want(t, "an id with a verb in it", 204)

	for _, c := range []struct {
		name, path, body string
		status           int
		parts            []string
	}{
		{"no actions", "rank", `{"actions":[]}`, 400, []string{`"code":"BadRequest"`, `"target":"actions"`}},
		{"no id", "rank", `{"actions":[{"features":[]}]}`, 400, []string{`"target":"actions[0].id"`}},
		{"unknown", "rank", `{"actions":[{"id":"a","feature":[]}]}`, 400, []string{`"innerError":{"code":"unknown_field"}`}},
		{"long id", "rank", `{"actions":[{"id":"a"}],"eventId":"` + strings.Repeat("e", 257) + `"}`, 400, []string{`"target":"eventId"`}},
		{"range", "events/e1/reward", `{"value":7}`, 400, []string{`"target":"value"`, `"details":[]`}},
		{"no value", "events/e1/reward", `{}`, 400, []string{`"target":"value"`}},
		{"unknown event", "events/nobody/reward", `{"value":1}`, 404, []string{`"code":"ResourceNotFound"`}},
		{"unknown path", "reports", `{}`, 404, []string{`"error":{"code":"ResourceNotFound"`}},
		{"apply", "configurations/applyFromEvaluation", `{}`, 501, []string{`"error":{"code":"NotImplemented"`, "troupe evaluate", `"innerError":{"code":"not_supported"}`}},
	} {
		a := e.do("POST", "/personalizer/v1.0/"+c.path, c.body, key...)
		a.want(t, c.name, c.status, c.parts...)
		var body struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Error.Code == "" || body.Error.Message == "" {
			t.Errorf("%s: no error of theirs: %s", c.name, a.body)
		}
	}
	e.do("POST", "/personalizer/v2.0/rank", rankRequest).want(t, "another version", 404)
}

func TestPersonalizerConfiguration(t *testing.T) {
	f := newFake()
	e := newFront(t, f, "shop", api.Options{})
	f.make(Config("shop"))
	const path = "/personalizer/v1.0/configurations/service"
	e.do("GET", path, "").want(t, "get", 200, `{"rewardWaitTime":"PT10M","defaultReward":0,"rewardAggregation":"earliest","explorationPercentage":0.2,"learningMode":"Online","modelExportFrequency":"PT5M"`)
	e.do("PUT", path, `{"rewardWaitTime":"P1DT30M","defaultReward":-0.5,"rewardAggregation":"sum","explorationPercentage":0.1,"modelExportFrequency":"PT5M","logRetentionDays":7,"learningMode":"Apprentice","logMirrorEnabled":false,"logMirrorSasUri":"SECRET"}`).
		want(t, "put", 200, `"rewardWaitTime":"PT24H30M","defaultReward":-0.5,"rewardAggregation":"sum"`)
	c := f.models["shop"].Config
	if time.Duration(c.Reward.Window) != 24*time.Hour+30*time.Minute || c.Reward.Rule != "sum" || c.Mode != "apprentice" || c.Floor != 0.1 || c.Reward.Default.Value != -0.5 {
		t.Errorf("the configuration became %+v, mode %s, floor %v", c.Reward, c.Mode, c.Floor)
	}
	if a := e.do("GET", path, ""); strings.Contains(a.body, "SECRET") {
		t.Error("the secret of the mirror comes back")
	}
	for field, body := range map[string]string{
		"rewardWaitTime": `{"rewardWaitTime":"10m"}`, "logMirrorEnabled": `{"rewardWaitTime":"PT10M","logMirrorEnabled":true}`,
		"isAutoOptimizationEnabled": `{"rewardWaitTime":"PT10M","isAutoOptimizationEnabled":true}`, "foo": `{"foo":1}`,
		"rewardAggregation": `{"rewardWaitTime":"PT10M","rewardAggregation":"mean"}`, "learningMode": `{"rewardWaitTime":"PT10M","learningMode":"frozen"}`,
	} {
		e.do("PUT", path, body).want(t, field, 400, `"target":"`+field+`"`)
	}
	// What is left out stays.
	e.do("PUT", path, `{"rewardWaitTime":"PT5M"}`).want(t, "one field", 200, `"rewardWaitTime":"PT5M","defaultReward":-0.5,"rewardAggregation":"sum","explorationPercentage":0.1,"learningMode":"Apprentice"`)
	// Fields of ours have the names of theirs.
	f.err = &serve.Error{Code: serve.Invalid, Field: "config.floor", Want: "expected a number in [0, 1]"}
	e.do("PUT", path, `{"rewardWaitTime":"PT5M","explorationPercentage":2}`).want(t, "a bad field", 400, `"message":"explorationPercentage: expected a number in [0, 1]","target":"explorationPercentage"`)
	f.err = &serve.Error{Code: serve.Conflict, Field: "idempotency_key", Want: "it was used for another request"}
	e.do("POST", "/personalizer/v1.0/rank", `{"actions":[{"id":"a"}],"eventId":"e"}`).want(t, "an id twice", 409, `"target":"eventId"`)
	f.err = &serve.Error{Code: serve.Invalid, Field: "context.user.age", Want: "expected a number"}
	e.do("POST", "/personalizer/v1.0/rank", `{"actions":[{"id":"a"}]}`).want(t, "a bad feature", 400, `"target":"contextFeatures.user.age"`)
	f.err = nil
	other := newFront(t, newFake(), "", api.Options{})
	other.do("POST", "/personalizer/v1.0/rank", `{"actions":[{"id":"a"}]}`).want(t, "no model", 404, "--personalizer")
	other.do("POST", "/personalizer/v2.0/rank", `{}`).want(t, "another version", 404, `{"error":{`)
}

func TestISODurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT10M": 10 * time.Minute, "PT5S": 5 * time.Second, "P2D": 48 * time.Hour, "PT1H30M": 90 * time.Minute, "PT0.5S": time.Second / 2, "P1DT1S": 24*time.Hour + time.Second,
	} {
		d, ok := parseISODuration(text)
		if !ok || d != want {
			t.Errorf("parseISODuration(%s) = %v, %v; want %v", text, d, ok, want)
		}
		if again, ok := parseISODuration(isoDuration(d)); !ok || again != d {
			t.Errorf("%v is written %s, which is read as %v", d, isoDuration(d), again)
		}
	}
	for _, bad := range []string{"", "P", "PT", "10M", "P1M", "PT-1S", "PT1", "P1DT", "PT1S1M", "PT99999999999S"} {
		if d, ok := parseISODuration(bad); ok {
			t.Errorf("parseISODuration(%q) = %v", bad, d)
		}
	}
}

// FuzzPersonalizer: no body makes a panic, a 500, or an answer that repeats it.
func FuzzPersonalizer(f *testing.F) {
	for _, s := range []string{rankRequest, `{"value":0.5}`, `{}`, `{"actions":[{"id":"a"}],"excludedActions":["a"]}`, `{"rewardWaitTime":"PT10M"}`, `[`,
		fmt.Sprintf(slotsRequest, true), `{"reward":[{"slotId":"s","value":1}]}`} {
		f.Add(s)
	}
	service := newFake()
	e := newFront(f, service, "", api.Options{MaxActions: 20})
	f.Fuzz(func(t *testing.T, body string) {
		e.t, *service = t, *newFake("personalizer")
		fuzzOne(t, e, "POST", "/personalizer/v1.0/rank", body, 201)
		fuzzOne(t, e, "POST", "/personalizer/v1.0/events/e1/reward", body, 204)
		fuzzOne(t, e, "PUT", "/personalizer/v1.0/configurations/service", body, 200)
		fuzzOne(t, e, "POST", "/personalizer/v1.1-preview.1/multislot/rank", body, 201)
		fuzzOne(t, e, "POST", "/personalizer/v1.1-preview.1/multislot/events/e1/reward", body, 204)
	})
}

func fuzzOne(t *testing.T, e *front, method, path, body string, ok int) {
	a := e.do(method, path, body, "If-Match", "*")
	switch {
	case a.status == ok && (a.body == "" || json.Valid([]byte(a.body))):
	case a.status >= 400 && a.status < 500 && json.Valid([]byte(a.body)):
	default:
		t.Errorf("%s %s with %q: %d %s", method, path, body, a.status, a.body)
	}
}

// The requests of that service's multi-slot quickstarts, against a real server.
const slotsRequest = `{"eventId": "call 1", "deferActivation": %t,
 "contextFeatures": [{"time": "morning"}, {"device": "mobile"}],
 "actions": [
  {"id": "Red-Polo-Shirt-432", "features": [{"onSale": "true", "price": 20, "category": "Clothing"}]},
  {"id": "Tennis-Racket-133", "features": [{"onSale": "false", "price": 70, "category": "Sports"}]},
  {"id": "31-Inch-Monitor-771", "features": [{"onSale": "true", "price": 200, "category": "Electronics"}]},
  {"id": "XBox-Series X-117", "features": [{"onSale": "false", "price": 499, "category": "Electronics"}]}],
 "slots": [
  {"id": "BigHeroPosition", "features": [{"size": "large", "position": "left"}], "excludedActions": ["31-Inch-Monitor-771"], "baselineAction": "Red-Polo-Shirt-432"},
  {"id": "SmallSidebar", "features": [{"size": "small", "position": "right"}], "excludedActions": ["Tennis-Racket-133"], "baselineAction": "XBox-Series X-117"}]}`

// One call is one event, a list of two slots, no action twice and none that a slot excludes; each slot has its own reward, found by the
// caller's id; a repetition gets the same; the learner has the list once all slots have their rewards; what is refused is refused before anything is decided.
func TestMultiSlot(t *testing.T) {
	e, s := newReal(t, api.Options{})
	const prefix = "/personalizer/v1.1-preview.1/multislot/"
	rank := func(body string) slotsAnswer {
		t.Helper()
		a := e.do("POST", prefix+"rank", body)
		a.want(t, "rank", 201)
		var out slotsAnswer
		if err := json.Unmarshal([]byte(a.body), &out); err != nil || len(out.Slots) != 2 || out.Slots[0].ID != "BigHeroPosition" || out.Slots[1].ID != "SmallSidebar" {
			t.Fatalf("%v: rank answers %s", err, a.body)
		}
		x, y := out.Slots[0].RewardActionID, out.Slots[1].RewardActionID
		if x == y || x == "31-Inch-Monitor-771" || y == "Tennis-Racket-133" {
			t.Errorf("the slots got %s and %s", x, y)
		}
		return out
	}
	decisions := func() uint64 { return must(s.GetModel(t.Context(), "shop")).Counts.Decisions }

	body := fmt.Sprintf(slotsRequest, false)
	first := rank(body)
	if first.EventID != "call 1" {
		t.Errorf("the event is %q", first.EventID)
	}
	if again := rank(body); again.Slots[0] != first.Slots[0] || again.Slots[1] != first.Slots[1] || decisions() != 1 || len(again.Notes) != 1 || again.Notes[0] != unread {
		t.Errorf("a repetition answers %v after %v; %d decisions", again, first, decisions())
	}
	e.do("POST", prefix+"rank", strings.Replace(body, "morning", "evening", 1)).want(t, "another call with its id", 409, `"code":"Conflict"`)

	reward := `{"reward": [{"slotId": "BigHeroPosition", "value": 1}, {"slotId": "SmallSidebar", "value": 0.25}]}`
	for range 2 { // the second changes nothing
		e.do("POST", prefix+"events/call%201/reward", reward).want(t, "reward", 204)
	}
	c := must(s.GetModel(t.Context(), "shop")).Counts
	if c.Rewards != 2 || c.RewardSum != 1.25 || c.Learned != 1 || c.Duplicates > 2 {
		t.Errorf("the model counts %+v", c)
	}

	// Deferred, and rewarded in one slot only.
	rank(strings.Replace(fmt.Sprintf(slotsRequest, true), "call 1", "call 2", 1))
	e.do("POST", prefix+"events/call%202/activate", "").want(t, "activate", 204)
	e.do("POST", prefix+"events/call%202/reward", `{"reward": [{"slotId": "SmallSidebar", "value": 1}]}`).want(t, "one slot", 204)
	// An id of ours.
	ours := rank(strings.Replace(body, `"eventId": "call 1",`, "", 1))
	e.do("POST", prefix+"events/"+ours.EventID+"/reward", reward).want(t, "reward of our id", 204)
	e.do("POST", prefix+"events/"+ours.EventID+"/activate", "").want(t, "activate our id", 204)
	// What the log says: one event with the slots, their exact law and rewards.
	n := 0
	for d, err := range must(s.Decisions(t.Context(), "shop", 0, 1000)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		l := d.Record.List
		if n++; l == nil || !slices.Equal(l.Slots, []string{"BigHeroPosition", "SmallSidebar"}) || l.Voters == 0 || len(d.Positions) != 2 {
			t.Errorf("entry %d has the list %+v", d.Seq, l)
		} else if y := d.Positions[1].Reward; y != 1 && n == 2 || y != .25 && n != 2 {
			t.Errorf("event %d has the reward %v in the sidebar", n, y)
		}
		if x := must(s.Replay(t.Context(), d.EventID)); !x.Equal {
			t.Errorf("event %d replays with other %v", n, x.Differs)
		}
	}
	if n != 3 {
		t.Errorf("three calls are %d events", n)
	}

	before, body := decisions(), strings.Replace(body, "call 1", "call 9", 1)
	for name, change := range map[string][3]string{
		"no slots":         {`"slots": [`, `"slots": [], "x": [`, "x"},
		"unknown baseline": {`"baselineAction": "Red-Polo-Shirt-432"`, `"baselineAction": "Hat"`, "slots[0].baselineAction"},
		"excluded":         {`"baselineAction": "XBox-Series X-117"`, `"baselineAction": "Tennis-Racket-133"`, "slots[1].baselineAction"},
		"twice":            {"SmallSidebar", "BigHeroPosition", "slots[1].id"},
		"no id":            {`"id": "SmallSidebar", `, "", "slots[1].id"},
		"nothing left":     {`["Tennis-Racket-133"], "baselineAction": "XBox-Series X-117"`, `["Tennis-Racket-133", "31-Inch-Monitor-771", "XBox-Series X-117", "Red-Polo-Shirt-432"]`, "slots[1].excludedActions"},
		"no action":        {`{"id": "Red-Polo-Shirt-432"`, `{"name": "Red-Polo-Shirt-432"`, "actions[0].name"},
	} {
		if !strings.Contains(body, change[0]) {
			t.Fatalf("%s: the request lacks %s", name, change[0])
		}
		e.do("POST", prefix+"rank", strings.Replace(body, change[0], change[1], 1)).want(t, name, 400, `"target":"`+change[2])
	}
	if n := decisions() - before; n > 0 {
		t.Errorf("refused calls made %d decisions", n)
	}
	e.do("POST", prefix+"events/call%201/reward", `{"reward": [{"slotId": "Footer", "value": 1}]}`).want(t, "another slot", 400, `"target":"reward[0].slotId"`)
	e.do("POST", prefix+"events/call%201/reward", `{"reward": [{"slotId": "SmallSidebar"}]}`).want(t, "no value", 400, `"target":"reward[0].value"`)
	e.do("POST", prefix+"events/nobody/reward", reward).want(t, "another event", 404, "ResourceNotFound")
	e.do("POST", prefix+"events/nobody/activate", "").want(t, "another event", 404, "ResourceNotFound")

	// An event of a rank has no slots, and one of slots no reward without one.
	e.do("POST", prefix+"events/call%201/reward", `{"reward": []}`).want(t, "no rewards", 400, `"target":"reward"`)
	e.do("POST", "/personalizer/v1.0/rank", `{"eventId": "call 1", "actions": [{"id": "a"}]}`).want(t, "the id of slots", 409)
	e.do("POST", "/personalizer/v1.0/rank", `{"eventId": "single", "actions": [{"id": "a"}, {"id": "b"}]}`).want(t, "a rank", 201)
	e.do("POST", prefix+"events/single/reward", `{"reward": [{"slotId": "a", "value": 1}]}`).want(t, "a rank's slot", 400, "is not a slot of this event")
	e.do("POST", "/personalizer/v1.0/events/call%202/reward", `{"value": 1}`).want(t, "slots without a slot", 400, "is for no position")

	// Names that no action has exclude nothing; a name twice is once; without features there are no notes.
	const plain = `{"eventId": "plain", "actions": [{"id": "a"}, {"id": "b"}], "slots": [{"id": "top", "excludedActions": ["b", "b", "z"]}, {"id": "side"}]}`
	e.do("POST", prefix+"rank", plain).want(t, "plain", 201, `{"slots":[{"id":"top","rewardActionId":"a"},{"id":"side","rewardActionId":"b"}],"eventId":"plain"}`)
	// Sets that overlap in part are counted for at most six slots.
	var slots, actions []string
	for i := range 8 {
		slots = append(slots, fmt.Sprintf(`{"id": "s%d", "excludedActions": ["a%d"]}`, i, i))
		actions = append(actions, fmt.Sprintf(`{"id": "a%d"}, {"id": "b%d"}`, i, i))
	}
	e.do("POST", prefix+"rank", `{"actions": [`+strings.Join(actions, ",")+`], "slots": [`+strings.Join(slots, ",")+`]}`).want(t, "eight that overlap", 400, `.excludedActions"`)

	// The modes with a baseline play that of each slot, and one of them learns from it.
	for i, mode := range []string{"Apprentice", "LoggingOnly"} {
		e.do("PUT", "/personalizer/v1.0/configurations/service", `{"rewardWaitTime":"PT10M","rewardAggregation":"earliest","learningMode":"`+mode+`"}`).want(t, mode, 200)
		learned, made := must(s.GetModel(t.Context(), "shop")).Counts.Learned, decisions()
		body := strings.Replace(body, "call 9", "as "+mode, 1)
		a := rank(body)
		if a.Slots[0].RewardActionID != "Red-Polo-Shirt-432" || a.Slots[1].RewardActionID != "XBox-Series X-117" {
			t.Errorf("in the mode %s the slots got %v", mode, a.Slots)
		}
		if again := rank(body); !slices.Equal(again.Slots, a.Slots) {
			t.Errorf("a repetition answers %v after %v", again, a)
		}
		e.do("POST", prefix+"events/as%20"+mode+"/reward", reward).want(t, "reward as "+mode, 204)
		if c := must(s.GetModel(t.Context(), "shop")).Counts; c.Learned != learned+uint64(1-i) || c.Decisions != made+1 {
			t.Errorf("in the mode %s the model counts %+v", mode, c)
		}
		for name, change := range map[string][3]string{
			"no baseline": {`, "baselineAction": "XBox-Series X-117"`, "", "slots[1].baselineAction"},
			"twice":       {`"baselineAction": "XBox-Series X-117"`, `"baselineAction": "Red-Polo-Shirt-432"`, "slots[1].baselineAction"},
		} {
			e.do("POST", prefix+"rank", strings.Replace(strings.Replace(body, "as ", "not ", 1), change[0], change[1], 1)).want(t, name, 400, `"target":"`+change[2])
		}
	}
	whole := Config("whole")
	whole.List.Reward = "list"
	must(s.CreateModel(t.Context(), whole, ""))
	e.do("POST", "/v1/models/whole/personalizer/v1.0/multislot/rank", plain).want(t, "one reward", 400, `"target":"slots"`, "list.reward")
}

// In the modes that play a baseline it is the first action that is not excluded.
func TestPersonalizerBaseline(t *testing.T) {
	e, s := newReal(t, api.Options{})
	c := Config("shop")
	const rank = `{"actions":[{"id":"a","features":[]},{"id":"b","features":[]},{"id":"c","features":[]}],"excludedActions":[%s]}`
	for _, mode := range []string{"apprentice", "shadow"} {
		c.Mode = mode
		must(s.ConfigureModel(t.Context(), "shop", 0, c, ""))
		for excluded, want := range map[string]string{"": "a", `"a"`: "b", `"a","b"`: "c", `"b"`: "a"} {
			e.do("POST", "/personalizer/v1.0/rank", fmt.Sprintf(rank, excluded)).want(t, mode+" without "+excluded, 201, `"rewardActionId":"`+want+`"`, `{"id":"`+want+`","probability":1}`)
		}
		e.do("POST", "/personalizer/v1.0/rank", fmt.Sprintf(rank, `"a","b","c"`)).want(t, mode+" without any", 400, `"target":"actions"`)
	}
	c.Mode = "online"
	must(s.ConfigureModel(t.Context(), "shop", 0, c, ""))
	e.do("POST", "/personalizer/v1.0/rank", fmt.Sprintf(rank, `"a"`)).want(t, "online", 201, `{"id":"a","probability":0}`)
	e.do("POST", "/v1/models/none/personalizer/v1.0/rank", fmt.Sprintf(rank, `"a"`)).want(t, "no model", 404)
}

// A guarded model takes the baseline as the modes that play one do: the first action that is not excluded, or that of the
// slot. An id can be repeated. What does not go with a guard is refused by its name there.
func TestPersonalizerGuarded(t *testing.T) {
	e, s := newReal(t, api.Options{})
	c := Config("shop")
	c.Mode, c.Guard = "guarded", model.Guard{Margin: .1, Confidence: .95}
	c.Reward.Min, c.Reward.Max, c.Reward.Adapt = 0, 1, false
	c.ID = "safe"
	must(s.CreateModel(t.Context(), c, ""))
	const at = "/v1/models/safe/personalizer/v1.0/"
	const rank = `{"eventId":"%s","actions":[{"id":"a","features":[]},{"id":"b","features":[]},{"id":"c","features":[]}],"excludedActions":[%s]%s}`
	for excluded, want := range map[string]string{"": "a", `"a"`: "b", `"a","b"`: "c", `"b"`: "a"} {
		id := fmt.Sprint("e", len(excluded), want)
		for _, when := range []string{"first", "again"} {
			a := e.do("POST", at+"rank", fmt.Sprintf(rank, id, excluded, ""))
			a.want(t, when+" without "+excluded, 201, `"rewardActionId":"`+want+`"`, `{"id":"`+want+`","probability":1}`)
		}
		e.do("POST", at+"events/"+id+"/reward", `{"value":1}`).want(t, "reward", 204)
	}
	e.do("POST", at+"rank", fmt.Sprintf(rank, "e0a", `"c"`, "")).want(t, "another body", 409)
	e.do("POST", at+"rank", fmt.Sprintf(rank, "d", "", `,"deferActivation":true`)).want(t, "deferred", 400, `"target":"deferActivation"`)
	e.do("POST", strings.Replace(at, "v1.0", "v1.1-preview.1", 1)+"multislot/rank", `{"eventId":"m1","actions":[{"id":"a","features":[]},{"id":"b","features":[]}],`+
		`"slots":[{"id":"top","baselineAction":"b"},{"id":"side","baselineAction":"a"}]}`).want(t, "slots", 400, `"target":"slots"`, "guarded")
	g := must(s.GetModel(t.Context(), "safe")).Guard
	if g == nil || g.Plays || g.Policy != 0 {
		t.Errorf("the guard is %+v", g)
	}
	e.do("GET", at+"configurations/service", "").want(t, "settings", 200, `"learningMode":"guarded"`)
}

// What else clients of that service read.
func TestPersonalizerReads(t *testing.T) {
	e, _ := newReal(t, api.Options{})
	e.do("POST", "/personalizer/v1.0/rank", rankRequest).want(t, "rank", 201)
	e.do("GET", "/personalizer/v1.0/configurations/policy", "").want(t, "policy", 200, `{"name":"shop","arguments":"{`, `\"kind\":\"effects\"`)
	e.do("GET", "/personalizer/v1.0/model/properties", "").want(t, "model", 200, `{"creationTime":"2`, `"lastModifiedTime":"2`)
	e.do("GET", "/personalizer/v1.0/logs/properties", "").want(t, "log", 200, `{"dateRange":{"from":"2`)
	if a := e.do("GET", "/personalizer/v1.0/model", ""); a.status != 200 || len(a.body) < 100 || a.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("model: %d, %d bytes of %s", a.status, len(a.body), a.header.Get("Content-Type"))
	}
	e.do("PUT", "/personalizer/v1.0/configurations/policy", "{}").want(t, "no policy", 400, `"target":"arguments"`)
}

// Calls that change settings, models and logs: done where there is something to do, otherwise answered with
// words, for both prefixes and after the key is checked.
func TestPersonalizerManagement(t *testing.T) {
	e, _ := newReal(t, api.Options{})
	for _, prefix := range []string{"/personalizer/v1.0", "/personalizer/v1.1-preview.3", "/v1/models/shop/personalizer/v1.1-preview.3"} {
		for _, u := range unsupported {
			a := e.do(u.method, prefix+u.path, "{}")
			a.want(t, u.method+" "+u.path, 501, `"code":"NotImplemented"`, `"innerError":{"code":"not_supported"}`, strings.SplitN(u.instead, ",", 2)[0])
		}
		policy := prefix + "/configurations/policy"
		now := e.do("GET", policy, "")
		e.do("PUT", policy, now.body).want(t, "the same policy", 200, now.body)
		e.do("PUT", policy, `{"name":"x","arguments":"{\"kind\":\"greedy\"}"}`).want(t, "another policy", 501, `"target":"arguments"`, "/v1/models")
		e.do("PUT", policy, `{"name":"x","arguments":"--cb_explore_adf --epsilon 0.2"}`).want(t, "a line of VW", 400, `"target":"arguments"`, "Vowpal")
		e.do("DELETE", policy, "").want(t, "reset of the policy", 200, now.body)
	}

	e.do("POST", "/personalizer/v1.0/rank", strings.Replace(rankRequest, "e1", "e0", 1)).want(t, "rank", 201)
	for _, y := range []string{"2.5", "-1.01"} {
		e.do("POST", "/personalizer/v1.0/events/e0/reward", `{"value":`+y+`}`).want(t, "a reward out of range", 400, `"target":"value"`, "[-1, 1]")
	}
	e.do("POST", "/v1/models", `{"id":"cents","reward":{"min":0,"max":500}}`).want(t, "create", 201)
	e.do("POST", "/v1/models/cents/personalizer/v1.0/rank", rankRequest).want(t, "rank", 201)
	e.do("POST", "/v1/models/cents/personalizer/v1.0/events/e1/reward", `{"value":499}`).want(t, "a declared range", 204)
	e.do("POST", "/v1/models/cents/personalizer/v1.0/events/e1/reward", `{"value":501}`).want(t, "beyond it", 400, `"target":"value"`)

	// A reset forgets what was learned and counts what is still to come.
	empty := e.do("GET", "/personalizer/v1.0/model", "").body
	e.do("POST", "/personalizer/v1.0/rank", rankRequest).want(t, "rank", 201)
	e.do("POST", "/personalizer/v1.0/rank", strings.Replace(rankRequest, "e1", "e2", 1)).want(t, "rank", 201)
	e.do("POST", "/personalizer/v1.0/events/e1/reward", `{"value":1}`).want(t, "reward", 204)
	learned := e.do("GET", "/personalizer/v1.0/model", "").body
	if learned == empty {
		t.Fatal("the model learned nothing")
	}
	e.do("DELETE", "/personalizer/v1.0/model", "").want(t, "reset", 204)
	if after := e.do("GET", "/personalizer/v1.0/model", "").body; after == learned {
		t.Error("the model did not forget")
	}
	e.do("POST", "/personalizer/v1.0/events/e2/reward", `{"value":1}`).want(t, "a reward of before", 204)
	e.do("POST", "/personalizer/v1.0/rank", strings.Replace(rankRequest, "e1", "e3", 1)).want(t, "rank", 201)
	e.do("DELETE", "/v1/models/none/personalizer/v1.0/model", "").want(t, "no model", 404, "ResourceNotFound")

	f := newFake("personalizer")
	secret, table, err := api.NewKey("k", []string{"read"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	locked := newFront(t, f, "", api.Options{Keys: must(api.ParseKeys("keys.toml", table, nil))})
	for _, c := range [][2]string{{"POST", "rank"}, {"DELETE", "model"}, {"PUT", "model"}, {"DELETE", "logs"}, {"PUT", "configurations/policy"}, {"DELETE", "configurations/policy"}} {
		locked.do(c[0], "/personalizer/v1.0/"+c[1], "{}", "Ocp-Apim-Subscription-Key", secret).want(t, "a key that reads", 403)
	}
	locked.do("POST", "/personalizer/v1.0/configurations/applyFromEvaluation", "", "Ocp-Apim-Subscription-Key", secret).want(t, "a key that reads", 403)
}

// Ids with control characters are refused by their field before anything is decided.
func TestControlCharacters(t *testing.T) {
	f := newFake("personalizer")
	e := newFront(t, f, "", api.Options{})
	for _, bad := range []string{`a\u0000b`, `a\u202eb`, `\u2028`} {
		e.do("POST", "/personalizer/v1.0/rank", fmt.Sprintf(`{"actions":[{"id":"ok"},{"id":"%s"}]}`, bad)).
			want(t, "rank", 400, "actions[1].id", "the control character U+")
		e.do("POST", "/personalizer/v1.1-preview.1/multislot/rank", fmt.Sprintf(`{"actions":[{"id":"ok"}],"slots":[{"id":"%s"}]}`, bad)).
			want(t, "slot", 400, "slots[0].id", "the control character U+")
	}
	if len(f.decides) > 0 {
		t.Errorf("refused requests reached the service: %d decisions", len(f.decides))
	}
}

// TestClasses: decisions and feedback under both prefixes.
func TestClasses(t *testing.T) {
	a := New("")
	for path, want := range map[string]api.Class{
		"/personalizer/v1.0/rank": api.Deciding, "/personalizer/v1.0/events/e/reward": api.Feedback,
		"/personalizer/v1.1-preview.1/multislot/events/e/activate": api.Feedback, "/v1/models/m/personalizer/v1.0/rank": api.Deciding,
		"/personalizer/v1.0/model": api.Other, "/personalizer/": api.Other,
	} {
		if got := a.Class(path); got != want || !a.Owns(path) {
			t.Errorf("%s is %d, want %d; owned: %v", path, got, want, a.Owns(path))
		}
	}
	for _, path := range []string{"/", "/personalizer", "/v1/models/personalizer", "/v1/models/news:decide", "/x/personalizer/v1.0/rank"} {
		if a.Owns(path) {
			t.Errorf("%s is owned", path)
		}
	}
}

// Every call of the document answers on a real server with a status below 300, and where it takes a body, with the
// document's own example.
func TestExamples(t *testing.T) {
	e, _ := newReal(t, api.Options{})
	var doc struct {
		Paths map[string]map[string]struct {
			ID          string   `json:"operationId"`
			Tags        []string `json:"tags"`
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(e.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	type place struct{ method, path, body string }
	all := map[string]place{}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			if o.Tags[0] == "personalizer" {
				all[o.ID] = place{strings.ToUpper(method), path, string(o.RequestBody.Content["application/json"].Example)}
			}
		}
	}
	evaluation, policy := "", ""
	for _, step := range [][2]string{{"rank"}, {"rankReward", "e1"}, {"rankActivate", "e1"}, {"multiSlotRank"}, {"multiSlotReward", "m1"},
		{"multiSlotActivate", "m1"}, {"getServiceConfig"}, {"putServiceConfig"}, {"getPolicy"}, {"putPolicy"}, {"resetPolicy"},
		{"getPolicyState"}, {"getModelProperties"}, {"getLogProperties"}, {"createEvaluation"}, {"listEvaluations"}, {"getEvaluation"},
		{"deleteEvaluation"}, {"resetModel"}} {
		id := step[0]
		c, ok := all[id]
		if !ok {
			t.Fatalf("there is no call %s", id)
		}
		delete(all, id)
		if strings.HasPrefix(id, "put") || strings.HasSuffix(strings.ToLower(id), "rank") {
			if c.body == "" {
				t.Errorf("%s has no example", id)
			}
		}
		path := strings.NewReplacer("{model}", "shop", "{event}", step[1], "{evaluation}", evaluation).Replace(c.path)
		a := e.do(c.method, path, strings.ReplaceAll(c.body, strconv.Quote(`{"kind":"effects"}`), policy))
		if a.status >= 300 {
			t.Errorf("%s: %s %s answers %d to its example %s: %s", id, c.method, path, a.status, c.body, a.body)
		}
		switch id {
		case "createEvaluation":
			evaluation = field[string](t, a, "id")
		case "getPolicy":
			policy = strconv.Quote(field[string](t, a, "arguments"))
		}
	}
	for id := range all {
		t.Errorf("the call %s was not tried", id)
	}
}
