package api

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/ope"
	"troupe/serve"
)

// The search finds decisions by a part of the action, by the end of an event id and by state, among those that were
// read, and an older event by its whole id; what is typed comes back as text.
func TestModelPageSearch(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.fill("news", `{"id": "news", "floor": 1}`, twoActions, "b", 30)
	last := e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"lonely"}]}`)
	last.want(t, "decide", 200)
	id := field[string](t, last, "event_id")
	e.do("GET", "/v1/events/"+id, "").want(t, "when it is applied", 200)
	find := func(find, state string) answer {
		return e.do("GET", "/models/news?find="+url.QueryEscape(find)+"&state="+url.QueryEscape(state), "")
	}
	plain := e.do("GET", "/models/news", "")
	plain.want(t, "page", 200, "Search the decisions", `<option selected>any state</option>`)
	if strings.Contains(plain.body, `id="found"`) {
		t.Error("nothing was asked, and something was found")
	}
	find("lone", "").want(t, "action", 200, "1 of the 31 decisions read.", `value="lone"`)
	find("", "waiting").want(t, "state", 200, "1 of the 31 decisions read.", `<option selected>waiting</option>`)
	find("lonely", "rewarded").want(t, "both", 200, "0 of the 31 decisions read.")
	find("…"+id[len(id)-8:], "any state").want(t, "end of an id", 200, "1 of the 31 decisions read.", id)
	find("", "rewarded").want(t, "rewarded", 200, "30 of the 31 decisions read.")
	find(`"><script>alert(2)</script>`, "x").want(t, "markup", 200, "0 of the 31 decisions read.", "&#34;&gt;&lt;script&gt;alert(2)")
	// Among no decisions at all the id still finds its event; an event of another model is not shown.
	e.do("POST", "/v1/models", `{"id":"other"}`).want(t, "create", 201)
	m := must(e.via.GetModel(t.Context(), "news"))
	if s := searched(t.Context(), e.via, url.Values{"find": {id}}, &m, &modelHistory{}); len(s.Rows) != 1 || s.Rows[0].ID != id || s.Rows[0].Action != "lonely" || s.Rows[0].State != "waiting" {
		t.Errorf("an older event: %+v", s)
	}
	other := must(e.via.GetModel(t.Context(), "other"))
	if s := searched(t.Context(), e.via, url.Values{"find": {id}}, &other, &modelHistory{}); len(s.Rows) != 0 {
		t.Errorf("an event of another model: %+v", s)
	}
}

// The form makes a model; what is wrong comes back with the text, and keys and patterns hold.
func TestNewPage(t *testing.T) {
	f := newFake()
	secret, table := must2(NewKey("admin", []string{"read", "admin"}, []string{"news*"}))
	reader, more := must2(NewKey("reader", []string{"read"}, nil))
	e := newEdge(t, f, Options{Keys: must(ParseKeys("keys.toml", table+more, nil))})
	auth := func(key string) []string {
		return []string{"Authorization", "Bearer " + key, "Content-Type", "application/x-www-form-urlencoded"}
	}
	e.do("GET", "/models", "", auth(secret)...).want(t, "form", 200, `<form method="post" action="/models">`)
	if a := e.do("GET", "/models", "", auth(reader)...); a.status != 200 || strings.Contains(a.body, "<form") {
		t.Errorf("a key without admin: %d %.300s", a.status, a.body)
	}
	for _, c := range []struct {
		key, id, config string
		status          int
		want            string
	}{
		{secret, "news-1", "", 303, "/models/news-1"},
		{secret, "news-2", `{"floor": 0.5, "reward": {"window": "1h"}}`, 303, "/models/news-2"},
		{secret, "news-1", "", 409, `role="alert"`},
		{secret, "mail", "", 403, `role="alert"`},
		{secret, "news-3", `{"flor": 1}`, 422, "flor"},
		{secret, "news-3", `{"id": "mail"}`, 422, "given twice"},
		{secret, "news-3", `<script>`, 400, "&lt;script&gt;</textarea>"},
		{reader, "news-3", "", 403, "admin"},
	} {
		a := e.do("POST", "/models", url.Values{"id": {c.id}, "config": {c.config}}.Encode(), auth(c.key)...)
		got := a.body
		if a.status == 303 {
			got = a.header.Get("Location")
		}
		if a.status != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d, %.800s", c.id, c.config, a.status, got)
		}
	}
	if len(f.models) != 2 || f.models["news-2"].Config.Floor != 0.5 {
		t.Errorf("models %v", sortedKeys(f.models))
	}
}

// The stream says that the page has changed, not when nothing did, and ends with the server.
func TestLive(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.fill("news", `{"id": "news"}`, twoActions, "b", 3)
	server := e.Server()
	web := httptest.NewUnstartedServer(nil)
	web.Config = server
	web.Start()
	defer web.Close()
	follow := func(last string) (*bufio.Scanner, func()) {
		r := must(http.NewRequest("GET", web.URL+"/models/news/live", nil))
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		a := must(http.DefaultClient.Do(r))
		if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %v", a.StatusCode, a.Header)
		}
		return bufio.NewScanner(a.Body), func() { a.Body.Close() }
	}
	read := func(s *bufio.Scanner, prefix string) string {
		for s.Scan() {
			if v, ok := strings.CutPrefix(s.Text(), prefix); ok {
				return v
			}
		}
		return ""
	}
	s, end := follow("")
	id := read(s, "id: ")
	if kind := read(s, "event: "); kind != "begin" || id == "" {
		t.Fatalf("the first event is %q, %q", id, kind)
	}
	e.do("POST", "/v1/models/news:decide", twoActions).want(t, "decide", 200)
	if kind, data := read(s, "event: "), read(s, "data: "); kind != "change" || !strings.Contains(data, `"decisions": 4`) {
		t.Errorf("after a decision: %q %q", kind, data)
	}
	end()
	// A browser that comes back with the id of before is told at once.
	s, end = follow(id)
	if kind := read(s, "event: "); kind != "change" {
		t.Errorf("on coming back: %q", kind)
	}
	done := make(chan string)
	go func() { done <- read(s, "event: ") }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if kind := <-done; kind != "" {
		t.Errorf("at the end: %q", kind)
	}
	end()
	a := e.do("GET", "/live.js", "")
	a.want(t, "script", 200, "EventSource")
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/javascript") {
		t.Errorf("the script is %q", a.header.Get("Content-Type"))
	}
	e.do("GET", "/models/none/live", "").want(t, "no such model", 404)
}

// The baseline of the first candidate: exact for a known law, no number without support, and the bounds hold with the
// others at 95 % together (the level is in boundAlpha).
func TestFirstCandidate(t *testing.T) {
	r := terms{min: -1, max: 3, rule: "first"}
	h := &modelHistory{}
	add := func(n int, index uint32, num, den uint64, y float64) {
		for range n {
			h.decisions = append(h.decisions, &past{rule: "first", num: num, den: den, offered: 2, index: index, y: y, rewarded: true})
		}
	}
	for range 100 { // the second candidate has 3/4 and pays 3, the first has 1/4 and pays -1
		add(3, 1, 3, 4, 3)
		add(1, 0, 1, 4, -1)
	}
	es, outside := estimate(h, &r)
	last := es[len(es)-1]
	if math.Abs(last.first.Mean+1) > 1e-12 || math.Abs(last.firstWeight-1) > 1e-12 || last.first.Low > -1 || last.first.High < -1 || last.first.High > 1 {
		t.Errorf("%+v", last)
	}
	if words := strings.Join(baselineText(es, outside), " "); !strings.Contains(words, "would have earned -1") || !strings.Contains(words, "better than this baseline") {
		t.Error(words)
	}
	if words := baselineText(es, 1); words != nil {
		t.Errorf("with rewards outside: %q", words)
	}
	h.decisions = nil
	add(400, 1, 1, 1, 3) // the first candidate is never played
	es, outside = estimate(h, &r)
	if words := strings.Join(baselineText(es, outside), " "); !strings.Contains(words, "too rarely for a number") || es[len(es)-1].first.High < 3 {
		t.Error(words)
	}
	h.decisions = nil
	add(400, 0, 1, 1, 3) // the model plays the baseline
	es, outside = estimate(h, &r)
	if words := strings.Join(baselineText(es, outside), " "); !strings.Contains(words, "would have earned 3") || !strings.Contains(words, "not certain") {
		t.Error(words)
	}
}

// How many more decisions the comparison with the baseline needs: as many as a plan for two actions with these laws, and nothing once it is
// settled. Paired on the same decisions it is settled where the intervals still overlap.
func TestBaselinePlan(t *testing.T) {
	r := terms{min: 0, max: 1, rule: "first"}
	h := &modelHistory{}
	at := int64(0)
	add := func(n int, index uint32, num uint64, y float64) {
		for range n {
			at += int64(time.Minute)
			h.decisions = append(h.decisions, &past{rule: "first", num: num, den: 4, offered: 2, index: index, y: y, rewarded: true, time: at})
		}
	}
	say := func() string {
		es, outside := estimate(h, &r)
		last := &es[len(es)-1]
		return strings.Join(append(baselineText(es, outside), planText(h, &r, last)...), " ")
	}
	for range 30 { // 1/4 for the first candidate, and both pay half
		add(3, 1, 3, 1)
		add(1, 0, 1, 1)
		add(3, 1, 3, 0)
		add(1, 0, 1, 0)
	}
	p, err := ope.NewPlanner(ope.PlanOptions{Rate: 0.5, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	p.Add([]float64{0.25, 0.75}, []float64{1, 0})
	want, err := p.Plan(0.05)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("known after about %s decisions with 80%% chance, ", grouped(round(want.Decisions)))
	if words := say(); !strings.Contains(words, "not certain yet") || !strings.Contains(words, text) || !strings.Contains(words, "half as many would do with") {
		t.Errorf("%s: want %q", words, text)
	}
	h.decisions = nil
	for range 60 { // the first candidate pays a quarter, the other one three
		add(9, 1, 3, 1)
		add(3, 1, 3, 0)
		add(1, 0, 1, 1)
		add(3, 0, 1, 0)
	}
	if words := say(); !strings.Contains(words, "On the same decisions the model is better") || strings.Contains(words, "known after") {
		t.Error(words)
	}
}

// TestExplainedPage: GET, the page and metrics of a model that reads requests say what it has found out, and a reward that is
// far from all others is warned of.
func TestExplainedPage(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id": "news", "floor": 1}`).want(t, "create", 201)
	pay := func(n int, value func(k int, action string) float64) {
		for k := range n {
			a := e.do("POST", "/v1/models/news:decide", fmt.Sprintf(`{"context": {"city": "c%d", "<b>": "same"}, "actions": [{"id": "a"}, {"id": "b"}]}`, k%2))
			id := field[struct{ ID string }](t, a, "action").ID
			e.do("POST", "/v1/events/"+field[string](t, a, "event_id")+":reward", fmt.Sprintf(`{"value": %g}`, value(k, id))).want(t, "reward", 200)
		}
	}
	e.do("GET", "/models/news", "").want(t, "new", 200, "All rewards so far are equal, or there are none")
	if a := e.do("GET", "/metrics", ""); strings.Contains(a.body, "troupe_model_explained_ratio{") {
		t.Error("a model without rewards has a metric of what it explains")
	}
	right := func(k int, action string) float64 {
		if (action == "a") == (k%2 == 0) && k%10 < 8 {
			return 1
		}
		return 0
	}
	pay(60, right)
	e.do("GET", "/models/news", "").want(t, "early", 200, "What matters is said after 100 rewards.")
	pay(140, right)
	m := field[serve.ExplainedView](t, e.do("GET", "/v1/models/news", ""), "explained")
	if !strings.HasPrefix(m.Text, "`context.city` explains") || len(m.Parts) < 2 || m.Parts[0].Name != "context.city" {
		t.Errorf("explained: %+v", m)
	}
	e.do("GET", "/models/news", "").want(t, "page", 200, "`context.city` explains", "All of it explains", fmt.Sprintf("%.1f%%", 100*m.Parts[0].Share))
	e.do("GET", "/metrics", "").want(t, "metrics", 200, fmt.Sprintf(`troupe_model_explained_ratio{model="news"} %v`, m.Share), `troupe_model_far_rewards{model="news"} 0`)
	pay(1, func(int, string) float64 { return 900 })
	e.do("GET", "/v1/models/news", "").want(t, "far", 200, `"far":[900]`, "a reward (900) is far from all others")
	e.do("GET", "/models/news", "").want(t, "far page", 200, "a reward (900) is far from all others")
	e.do("GET", "/metrics", "").want(t, "far metric", 200, `troupe_model_far_rewards{model="news"} 1`)
}

// TestChangePage: a model whose world has changed says so in GET, on its page with a mark in the curve, in a warning for a
// thousand events, and in a metric; before, it says nothing.
func TestChangePage(t *testing.T) {
	for range 3 {
		if changePage(t) {
			return
		}
	}
	t.Error("in none of three models the change of event 400 is the one that is noticed, between 250 and 500")
}

// changePage plays a change, and reports false where chance had another one noticed, or this one elsewhere: the seed of
// a model is random. That is so in 1 of 100.
func changePage(t *testing.T) bool {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id": "news"}`).want(t, "create", 201)
	n := 0
	play := func(turn, until int) {
		for ; n < until; n++ {
			a := e.do("POST", "/v1/models/news:decide", fmt.Sprintf(`{"context": {"segment": "s%d"}, "actions": [{"id": "a"}, {"id": "b"}]}`, n%2))
			y := 0
			if (field[struct{ Index int }](t, a, "action").Index+n+turn)%2 == 0 || n%19 == 0 {
				y = 1
			}
			e.do("POST", "/v1/events/"+field[string](t, a, "event_id")+":reward", fmt.Sprintf(`{"value": %d}`, y)).want(t, "reward", 200)
		}
	}
	play(0, 400)
	before := e.do("GET", "/v1/models/news", "")
	if strings.Contains(before.body, "noticed") || strings.Contains(before.body, "the rewards changed") {
		return false
	}
	e.do("GET", "/metrics", "").want(t, "before", 200, `troupe_model_rewards_changed_event{model="news"} 0`)
	if a := e.do("GET", "/models/news", ""); strings.Contains(a.body, `class="change"`) {
		t.Error("there is a mark before the change")
	}
	play(1, 600)
	after := e.do("GET", "/v1/models/news", "")
	if !strings.Contains(after.body, `"noticed"`) {
		return false
	}
	c := field[serve.NoticedView](t, after, "noticed")
	if c.At < 250 || c.At > 400 || c.Seen <= 400 || c.Seen > 500 || c.Posterior < .98 || c.Before < .8 || c.Before > 1 || c.After < .1 || c.After > c.Before {
		t.Logf("%+v", c)
		return false
	}
	text := fmt.Sprintf("the rewards changed between about event %d and event %d (posterior ", c.At, c.Seen)
	after.want(t, "after", 200, text)
	e.do("GET", "/metrics", "").want(t, "after", 200, fmt.Sprintf(`troupe_model_rewards_changed_event{model="news"} %d`, c.At))
	mark := fmt.Sprintf(`<path class="change" d="M%d 0V1000"/>`, int(math.Round(1000*float64(c.At)/600)))
	e.do("GET", "/models/news", "").want(t, "page", 200, mark, fmt.Sprintf("The rewards changed between about event %d and event %d, when it was noticed", c.At, c.Seen), text)
	play(1, int(c.Seen)+1000)
	last := e.do("GET", "/v1/models/news", "")
	if field[serve.NoticedView](t, last, "noticed") != c {
		return false
	}
	if strings.Contains(last.body, text) {
		t.Errorf("after a thousand events: %s", last.body)
	}
	return true
}

// TestPageAfterAnotherRule: past decisions keep the rule under which their rewards were learned when the model gets
// another one, also where the page does not read back to the creation.
func TestPageAfterAnotherRule(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id":"news","reward":{"rule":"last"},"floor":1}`).want(t, "create", 201)
	pay := func(n int) {
		for range n {
			id := field[string](t, e.do("POST", "/v1/models/news:decide", twoActions), "event_id")
			for _, y := range []string{"0.25", "0.75"} {
				e.do("POST", "/v1/events/"+id+":reward", `{"value":`+y+`}`)
			}
		}
	}
	means := func(b bounds) (out []float64) {
		t.Helper()
		m := must(e.via.GetModel(t.Context(), "news"))
		h := must(readHistory(t.Context(), e.via, &m, b))
		for _, d := range h.decisions {
			out = append(out, d.y)
			if terms := termsOf(&m); d.rule == "" {
				if _, ok := h.value(d, &terms); ok {
					t.Error("a decision without a rule has a value")
				}
				out[len(out)-1] = -1
			}
		}
		return out
	}
	all := bounds{pageEntries, pageDecisions, false, false}
	pay(3)
	patch := func(rule string) {
		tag := e.do("GET", "/v1/models/news", "").header.Get("ETag")
		e.do("PATCH", "/v1/models/news", `{"reward":{"rule":"`+rule+`"}}`, "If-Match", tag).want(t, "patch", 200)
	}
	patch("first")
	if got := means(all); !slices.Equal(got, []float64{.75, .75, .75}) {
		t.Errorf("after the change the past is %v", got)
	}
	pay(40) // more entries than the first chunk has
	patch("sum")
	pay(2)
	got := means(all)
	if want := append(append(slices.Repeat([]float64{.75}, 3), slices.Repeat([]float64{.25}, 40)...), 1, 1); !slices.Equal(got, want) {
		t.Errorf("three rules: %v", got)
	}
	got = means(bounds{30, pageDecisions, false, false}) // three chunks: the second change, and not the first one
	if n := len(got); n < 10 || n > 40 || !slices.Equal(got[n-2:], []float64{1, 1}) || got[0] != -1 {
		t.Errorf("a part of the log: %v", got)
	}
}
