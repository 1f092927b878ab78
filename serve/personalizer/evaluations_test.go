package personalizer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/logged"
	"troupe/ope"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/serve/joined"
	"troupe/timing"
)

// events is a source of events in memory.
type events []*logged.Event

func (e *events) Read(dst *logged.Event) error {
	if len(*e) == 0 {
		return io.EOF
	}
	*dst, *e = *(*e)[0], (*e)[1:]
	return nil
}

// baseline is the target that plays the first candidate.
type baseline struct{}

func (baseline) Name() string { return "baseline" }

func (baseline) Law(dst []float64, _ *logged.Event, _ []float64) error {
	clear(dst)
	dst[0] = 1
	return nil
}

// newClocked is a real server whose time is the test's, and the API in front of it.
func newClocked(t *testing.T) (*front, *serve.Server, *atomic.Int64) {
	now := new(atomic.Int64)
	now.Store(time.Date(2026, 11, 3, 10, 10, 0, 0, time.UTC).UnixNano())
	e, s := newReal(t, api.Options{Clock: timing.At(func() time.Time { return time.Unix(0, now.Load()).UTC() })})
	return e, s, now
}

const evaluations1 = "/personalizer/v1.0/evaluations"

func contract(name, start, end string) string {
	return fmt.Sprintf(`{"name":%q,"startTime":%q,"endTime":%q,"policies":[]}`, name, start, end)
}

// evaluated sends an evaluation, and returns what became of it.
func (e *front) evaluated(t *testing.T, start, end string) (out evaluationAnswer) {
	t.Helper()
	a := e.do("POST", evaluations1, contract("e", start, end))
	a.want(t, "create", 201, `"status":"pending"`, `"policyResults":[]`, `"featureImportance":[]`, `"evaluationType":"Manual"`)
	if at := evaluations1 + "/" + field[string](t, a, "id"); a.header.Get("Location") != at {
		t.Errorf("Location is %q, want %q", a.header.Get("Location"), at)
	}
	e.evaluations.kept.work.Wait()
	a = e.do("GET", a.header.Get("Location"), "")
	a.want(t, "get", 200)
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The numbers of an evaluation are those of ope on the same decisions: rewards, default rewards of closed windows, excluded
// actions; without those of an apprentice, those never activated and those whose windows are open. Periods add up to the total.
func TestEvaluationNumbers(t *testing.T) {
	e, s, now := newClocked(t)
	rank := func(i int, more string) {
		t.Helper()
		excluded := ""
		if i%3 == 0 {
			excluded = `"a"`
		}
		e.do("POST", "/personalizer/v1.0/rank", fmt.Sprintf(`{"contextFeatures":[{"hour":%d}],"actions":[{"id":"a","features":[{"p":1}]},{"id":"b","features":[{"p":2}]},{"id":"c","features":[{"p":3}]}],
			"excludedActions":[%s],"eventId":"e%d"%s}`, i%4, excluded, i, more)).want(t, "rank", 201)
	}
	reward := func(i int) {
		t.Helper()
		e.do("POST", fmt.Sprintf("/personalizer/v1.0/events/e%d/reward", i), fmt.Sprintf(`{"value":%g}`, float64(i%5)/4-0.25)).want(t, "reward", 204)
	}
	for i := range 60 {
		if rank(i, ""); i%4 != 1 {
			reward(i)
		}
		now.Add(int64(2 * time.Minute)) // over three hours
	}
	for i := 60; i < 63; i++ {
		rank(i, `,"deferActivation":true`)
	}
	const service = "/personalizer/v1.0/configurations/service"
	config := e.do("GET", service, "").body
	e.do("PUT", service, strings.Replace(config, "Online", "Apprentice", 1)).want(t, "apprentice", 200)
	rank(64, "") // its first action is not excluded
	reward(64)
	e.do("PUT", service, config).want(t, "online", 200)
	now.Add(int64(time.Hour))
	must(s.Expire(t.Context()))
	rank(65, "")
	reward(65)

	var all, part, early events
	j := joined.New(joined.Options{})
	middle := time.Date(2026, 11, 3, 11, 0, 0, 0, time.UTC)
	for d, err := range must(s.Decisions(t.Context(), "shop", 0, 1000)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		if d.State == joined.Pending {
			continue
		}
		if x := must(j.Event(d.Decided)); x != nil {
			if all = append(all, x); !x.Time.Before(middle) {
				part = append(part, x)
			} else {
				early = append(early, x)
			}
		}
	}
	if len(all) != 60 || len(part) != 35 {
		t.Fatalf("%d and %d events, want 60 and 35", len(all), len(part))
	}
	left := []string{"3 left out: inactive: deferred and never activated", "1 left out: mode apprentice: a baseline was played", "1 left out: the reward may still come"}
	for _, c := range []struct {
		start, end   string // the last decision of early is at 10:58
		events       events
		first, hours int
		notes        []string
	}{
		{"2026-11-03T00:00:00Z", "2026-11-04T00:00:00.000Z", all, 10, 3, left},
		{"2026-11-03T12:00:00+01:00", "2026-11-04T00:00:00Z", part, 11, 2, left},
		{"2026-11-03T10:10:00Z", "2026-11-03T10:58:00Z", early, 10, 1, nil},
	} {
		got := e.evaluated(t, c.start, c.end)
		if got.Status != "completed" || len(got.Notes) < len(c.notes) || !slices.Equal(got.Notes[:len(c.notes)], c.notes) || strings.Contains(strings.Join(got.Notes[len(c.notes):], ""), "left out") || got.Name != "e" || got.JobID == "" || len(got.PolicyResults) != 3 {
			t.Fatalf("%s %q of %d policies: notes %q, want %q", got.Status, got.Name, len(got.PolicyResults), got.Notes, c.notes)
		}
		n := float64(len(c.events))
		want := must(ope.Evaluate(t.Context(), new(slices.Clone(c.events)), ope.Options{Targets: []ope.Target{baseline{}, ope.Uniform{}}, Estimators: []string{"logged", "ips", "snips"}, Rewards: &ope.Pair{-1, 1}}))
		for k, r := range got.PolicyResults {
			x := r.TotalSummary
			target := want.Targets[max(k-1, 0)]
			ips, snips := target.Estimates[1], target.Estimates[2]
			if k == 0 {
				ips, snips = target.Estimates[0], target.Estimates[0]
			}
			if want := []string{"Online", "Baseline", "Random"}[k]; r.PolicySource != want || r.Name != want {
				t.Errorf("result %d is of %s, want %s", k, r.PolicySource, want)
			}
			near(t, r.Name+": averageReward", x.AverageReward, *ips.Value)
			near(t, r.Name+": IPS", x.IPSNumerator/x.IPSDenominator, *ips.Value)
			near(t, r.Name+": SNIPS", x.IPSNumerator/x.SNIPSDenominator, *snips.Value)
			near(t, r.Name+": decisions", x.IPSDenominator, n)
			near(t, r.Name+": low", x.AverageReward-*x.ConfidenceInterval, ips.Normal[0])
			near(t, r.Name+": high", x.AverageReward+*x.ConfidenceInterval, ips.Normal[1])
			if few := strings.Contains(strings.Join(got.Notes, "\n"), r.Name+": the log has "); k > 0 && few != (target.Diagnostics.ESSRewarded < 10) {
				t.Errorf("%s: %v effective decisions with a reward, notes %q", r.Name, target.Diagnostics.ESSRewarded, got.Notes)
			}
			var nonzero float64
			for _, x := range c.events {
				if k != 1 || x.Chosen == 0 {
					nonzero++
				}
			}
			near(t, r.Name+": nonZeroProbability", x.NonZeroProbability, nonzero)
			if !x.TimeStamp.Equal(got.EndTime) || len(r.Summary) != c.hours || !r.Summary[0].TimeStamp.Equal(time.Date(2026, 11, 3, c.first, 0, 0, 0, time.UTC)) || r.Summary[0].TimeWindow != "PT1H" {
				t.Errorf("%s: total at %v, %d periods: %+v", r.Name, x.TimeStamp, len(r.Summary), r.Summary)
			}
			var sum policySummary
			for _, p := range r.Summary {
				sum.IPSNumerator += p.IPSNumerator
				sum.IPSDenominator += p.IPSDenominator
				sum.SNIPSDenominator += p.SNIPSDenominator
				sum.NonZeroProbability += p.NonZeroProbability
				sum.SumOfSquares += p.SumOfSquares
			}
			near(t, r.Name+": numerators", sum.IPSNumerator, x.IPSNumerator)
			near(t, r.Name+": denominators", sum.IPSDenominator, x.IPSDenominator)
			near(t, r.Name+": weights", sum.SNIPSDenominator, x.SNIPSDenominator)
			near(t, r.Name+": counts", sum.NonZeroProbability, x.NonZeroProbability)
			near(t, r.Name+": squares", sum.SumOfSquares, x.SumOfSquares)
		}
		if a := got.PolicyResults[0].Arguments; !strings.Contains(a, `"kind":"effects"`) {
			t.Errorf("the policy that ran is %q", a)
		}
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// However long the log is, a summary is bounded, in the order of time, and loses nothing.
func TestEvaluationPeriods(t *testing.T) {
	s := evaluationSums{window: time.Hour}
	const n = 3000
	begin := time.Date(1969, 1, 1, 5, 30, 0, 0, time.UTC)
	for i := range n {
		s.add(begin.Add(time.Duration(i*7919%n)*11*time.Hour), 0.5, nil, 2, i%2, 1)
	}
	sum := 0.0
	for i, p := range s.periods {
		if sum += p.by[0].n; p.begin%int64(s.window/time.Second) != 0 || i > 0 && s.periods[i-1].begin >= p.begin {
			t.Errorf("period %d of %v begins at %d", i, s.window, p.begin)
		}
	}
	if sum != n || len(s.periods) > mostPeriods || len(s.periods) < mostPeriods/4 || s.window%(24*time.Hour) != 0 {
		t.Errorf("%v decisions in %d periods of %v", sum, len(s.periods), s.window)
	}
}

// Where a policy plays actions that the logged one could not, there is no interval and a note says so; the same for rewards
// that are all 0, whose interval has no width, and for a log without laws whose weights are far from 1.
func TestEvaluationDoubts(t *testing.T) {
	for _, c := range []struct {
		p      float64
		law    []float64
		reward float64
		doubt  [len(evaluated)]string
		none   [len(evaluated)]bool
	}{
		{1, []float64{0, 1}, 1, [...]string{"", "with probability 1", "with probability 0.5"}, [...]bool{false, true, true}},
		{0.5, []float64{0.5, 0.5}, 1, [...]string{"", "0 effective", ""}, [3]bool{}},
		{0.5, []float64{0.5, 0.5}, 0, [...]string{"0 effective", "0 effective", "0 effective"}, [3]bool{}},
		{1, nil, 1, [...]string{"", "mean weight is 0,", "mean weight is 0.5,"}, [3]bool{}},
	} {
		s := evaluationSums{window: time.Hour}
		for range fewDecisions {
			s.add(clock(), c.p, c.law, 2, 1, c.reward)
		}
		for k := range evaluated {
			sums := s.periods[0].by[k]
			doubt, interval := sums.doubt(), sums.summary(clock(), time.Hour).ConfidenceInterval
			if (c.doubt[k] == "") != (doubt == "") || !strings.Contains(doubt, c.doubt[k]) || (interval == nil) != c.none[k] {
				t.Errorf("%+v: %s has the interval %v and the doubt %q", c, evaluated[k].source, interval, doubt)
			}
		}
	}
}

// What cannot be evaluated is refused with the field's name; without a decision an evaluation fails and says so; evaluations
// are listed, read and deleted, by the model and the key that may, and are gone with the process.
func TestEvaluationCalls(t *testing.T) {
	e, s, _ := newClocked(t)
	must(s.CreateModel(t.Context(), Config("other"), ""))
	const start, end = "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"
	for target, body := range map[string]string{
		"name": contract("", start, end), "startTime": contract("e", end, start), "endTime": contract("e", start, "tomorrow"),
		"policies":                     strings.Replace(contract("e", start, end), "[]", `[{"name":"x","arguments":"--cb_explore_adf"}]`, 1),
		"enableOfflineExperimentation": strings.Replace(contract("e", start, end), "{", `{"enableOfflineExperimentation":true,`, 1),
		"until":                        strings.Replace(contract("e", start, end), "{", `{"until":1,`, 1),
	} {
		e.do("POST", evaluations1, body).want(t, target, 400, `"target":"`+target+`"`)
	}
	e.do("POST", evaluations1, strings.Replace(contract("e", start, end), start, "", 1)).want(t, "no start", 400, `"target":"startTime"`)
	e.do("GET", evaluations1, "").want(t, "none", 200, "[]")

	got := e.evaluated(t, start, end)
	if got.Status != "failed" || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "no decision") {
		t.Errorf("an evaluation of nothing: %+v", got)
	}
	e.do("POST", "/personalizer/v1.0/rank", rankRequest).want(t, "rank", 201)
	e.do("POST", "/personalizer/v1.0/events/e1/reward", `{"value":1}`).want(t, "reward", 204)
	if got = e.evaluated(t, start, end); got.Status != "failed" || !strings.Contains(strings.Join(got.Notes, " "), "may still come") {
		t.Errorf("an evaluation of a decision whose window is open: %+v", got)
	}
	e.do("GET", evaluations1, "").want(t, "list", 200, `[{"id":"`, got.ID)
	e.do("GET", "/v1/models/other/personalizer/v1.0/evaluations", "").want(t, "another model", 200, "[]")
	e.do("GET", "/v1/models/other/personalizer/v1.0/evaluations/"+got.ID, "").want(t, "another model", 404, "ResourceNotFound")
	e.do("DELETE", "/v1/models/other/personalizer/v1.0/evaluations/"+got.ID, "").want(t, "another model", 404, "ResourceNotFound")
	e.do("GET", "/v1/models/none/personalizer/v1.0/evaluations", "").want(t, "no model", 404, "ResourceNotFound")
	e.do("POST", "/v1/models/none/personalizer/v1.0/evaluations", contract("e", start, end)).want(t, "no model", 404, "ResourceNotFound")
	e.do("GET", "/v1/models/shop/personalizer/v1.1-preview.3/evaluations/"+got.ID, "").want(t, "the other prefix", 200, got.ID)
	again := newFront(t, s, "shop", api.Options{})
	again.do("GET", evaluations1+"/"+got.ID, "").want(t, "after a restart", 404, "ResourceNotFound", "until the server stops")
	e.do("DELETE", evaluations1+"/"+got.ID, "").want(t, "delete", 204)
	e.do("DELETE", evaluations1+"/"+got.ID, "").want(t, "delete again", 404, "ResourceNotFound")
	e.do("GET", evaluations1+"/"+got.ID, "").want(t, "deleted", 404, "ResourceNotFound")

	for range mostEvaluations + 3 {
		got = e.evaluated(t, start, end)
	}
	var list []evaluationAnswer
	if err := json.Unmarshal([]byte(e.do("GET", evaluations1, "").body), &list); err != nil || len(list) != mostEvaluations || list[mostEvaluations-1].ID != got.ID {
		t.Errorf("%v: %d evaluations are kept, want the newest %d", err, len(list), mostEvaluations)
	}

	reader, table, err := api.NewKey("k", []string{"read"}, []string{"sh*"})
	if err != nil {
		t.Fatal(err)
	}
	e.SetKeys(must(api.ParseKeys("keys.toml", table, nil)))
	key := []string{"Ocp-Apim-Subscription-Key", reader}
	e.do("GET", evaluations1+"/"+got.ID, "", key...).want(t, "a key that reads", 200)
	e.do("DELETE", evaluations1+"/"+got.ID, "", key...).want(t, "a key that reads", 403)
	e.do("POST", evaluations1, contract("e", start, end), key...).want(t, "a key that reads", 403)
	e.do("GET", "/v1/models/other/personalizer/v1.0/evaluations", "", key...).want(t, "a key for another model", 403)
	e.do("GET", evaluations1, "").want(t, "no key", 401)
}

// places counts the places of exports that are taken.
type places struct {
	api.Edge
	taken atomic.Int64
}

func (p *places) Export(ctx context.Context) (done func(), err error) {
	release, err := p.Edge.Export(ctx)
	if err != nil {
		return nil, err
	}
	p.taken.Add(1)
	return func() { p.taken.Add(-1); release() }, nil
}

// One evaluation reads at a time. A deletion ends it and the next one begins; Close ends all and waits for them.
func TestEvaluationsEnd(t *testing.T) {
	s, begun, ended := newFake("personalizer"), make(chan struct{}), make(chan struct{}, 10)
	s.decisions = func(ctx context.Context, yield func(serve.JoinedDecision, error) bool) { // not read to the end until the reader gives up
		begun <- struct{}{}
		<-ctx.Done()
		yield(serve.JoinedDecision{}, ctx.Err())
		ended <- struct{}{}
	}
	e := newFront(t, s, "", api.Options{})
	exports := &places{Edge: e.evaluations.edge}
	e.evaluations.edge = exports
	var ids []string
	for range mostEvaluations {
		a := e.do("POST", evaluations1, contract("e", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"))
		a.want(t, "create", 201)
		ids = append(ids, field[string](t, a, "id"))
	}
	a := e.do("POST", evaluations1, contract("e", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"))
	a.want(t, "too many", 429, "TooManyRequests")
	if a.header.Get("Retry-After") == "" {
		t.Error("too many: no Retry-After")
	}
	<-begun
	e.do("DELETE", evaluations1+"/"+ids[0], "").want(t, "delete what runs", 204)
	<-ended
	<-begun // the next one
	e.do("GET", evaluations1+"/"+ids[0], "").want(t, "deleted", 404)
	e.do("DELETE", evaluations1+"/"+ids[2], "").want(t, "delete what waits", 204)
	e.do("GET", evaluations1+"/"+ids[1], "").want(t, "what runs", 200, `"status":"pending"`)
	if n := exports.taken.Load(); n != 1 {
		t.Errorf("%d places of exports are taken, want 1", n)
	}
	e.API.Close()
	if len(ended) != 1 || exports.taken.Load() != 0 {
		t.Errorf("after Close %d readings have ended, want the one that was under way; %d places are taken", len(ended), exports.taken.Load())
	}
	e.do("POST", evaluations1, contract("e", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")).want(t, "after Close", 503, "ServiceUnavailable")
	e.API.Close()
}

// A log that cannot be read, or a fault of ours, fails the evaluation and not the server.
func TestEvaluationFails(t *testing.T) {
	f := newFake("personalizer")
	e := newFront(t, f, "shop", api.Options{})
	f.make(Config("shop"))
	for what, decisions := range map[string]func(context.Context, func(serve.JoinedDecision, error) bool){
		"the disk is gone": func(_ context.Context, yield func(serve.JoinedDecision, error) bool) {
			yield(serve.JoinedDecision{}, &serve.Error{Code: serve.Unavailable, Want: "the disk is gone"})
		},
		"look at the server's log": func(context.Context, func(serve.JoinedDecision, error) bool) { panic("planted") },
	} {
		f.decisions = decisions
		if got := e.evaluated(t, "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"); got.Status != "failed" || !strings.Contains(strings.Join(got.Notes, " "), what) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestEvaluationLeavesLists: lists and numbers of the same model are left out, with a note; they would count as their first entry.
func TestEvaluationLeavesLists(t *testing.T) {
	e, s, now := newClocked(t)
	actions := []serve.Action{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	two := 2
	for range 3 {
		d := must(s.Decide(t.Context(), "shop", serve.DecideRequest{Actions: actions, Choose: &two}))
		must(s.Reward(t.Context(), serve.RewardRequest{EventID: d.EventID, Values: []float64{1, 1}}))
	}
	e.do("POST", "/personalizer/v1.0/rank", `{"actions":[{"id":"a","features":[{"p":1}]},{"id":"b","features":[{"p":2}]}],"eventId":"one"}`).want(t, "rank", 201)
	e.do("POST", "/personalizer/v1.0/events/one/reward", `{"value":0.5}`).want(t, "reward", 204)
	now.Add(int64(time.Hour))
	must(s.Expire(t.Context()))
	out := e.evaluated(t, "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
	if text := fmt.Sprintf("%+v", out); !strings.Contains(text, "3 left out: a list, or a number") {
		t.Errorf("%s", text)
	}
}
