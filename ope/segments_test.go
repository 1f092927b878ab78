package ope

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"troupe/feature"
	"troupe/logged"
)

// cityLog: two arms at ½; in Oslo arm 1 is better by 0.3, in Rome worse by 0.3, elsewhere as good. Small places come seldom.
func cityLog(n int, seed uint64) (all []logged.Event, gain map[string]float64) {
	r := rand.New(rand.NewPCG(seed, 291))
	law := []float64{0.5, 0.5}
	gain = map[string]float64{"Oslo": 0.3, "Rome": -0.3}
	for range n {
		city := []string{"Oslo", "Rome", "Bern"}[r.IntN(3)]
		if r.IntN(40) == 0 {
			city = fmt.Sprint("village ", r.IntN(5))
		}
		price := 80 * r.Float64()
		e := logged.Event{Named: fmt.Appendf(nil, `{"user": {"city": %q, "age": 30}, "price": %g}`, city, price), K: 2, Chosen: r.IntN(2), Propensity: 0.5, Law: law, Position: logged.NoPosition}
		if r.Float64() < 0.5+gain[city]*(float64(e.Chosen)-0.5) {
			e.Reward = 1
		}
		all = append(all, e)
	}
	return all, gain
}

// TestSegments: the difference of each segment is that of its events alone at the level of one row; small ones are pooled; the words name
// for whom it holds. Null: some row misses its truth with probability at most 5 % (seeds 1 to n, exact binomial test at level 10⁻⁴).
func TestSegments(t *testing.T) {
	o := Options{Targets: []Target{&Fixed{"one", []float64{0, 1}}}, Estimators: []string{"logged", "ips"}, Q: "none"}
	by := func(text string) *By {
		b, err := ParseBy(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all, _ := cityLog(3000, 1)
	o.By = by("context.user.city")
	r := answerOf(t, all, o)
	s := r.Targets[0].Segments
	if s == nil || len(s.Rows) != 5 || s.Rows[0].Name != "all" || s.Rows[4].Name != "the 5 others" || s.Rows[4].Values != 5 || math.Abs(s.Each-0.99) > 1e-12 {
		t.Fatalf("%+v", s)
	}
	if !strings.Contains(s.Sentence, "in Oslo better by ") || !strings.Contains(s.Sentence, "in Rome worse by ") || !strings.HasSuffix(s.Sentence, "elsewhere too close to call") ||
		!strings.Contains(strings.Join(r.Warnings, " "), "without looking") {
		t.Errorf("%s %q", s.Sentence, r.Warnings)
	}
	total := 0
	for _, row := range s.Rows[1:] {
		total += row.Events
		var own []logged.Event
		for _, e := range all {
			if city, _ := e.Feature("user.city"); city == row.Name || row.Values > 1 && strings.HasPrefix(city, "village") {
				own = append(own, e)
			}
		}
		alone := o
		alone.By, alone.Level = nil, s.Each
		if want := answerOf(t, own, alone).Targets[0].Uplift.Sequence; len(own) != row.Events || math.Abs(want[0]-row.Sequence[0]) > 1e-9 || math.Abs(want[1]-row.Sequence[1]) > 1e-9 {
			t.Errorf("%s: %v, of its %d events alone %v", row.Name, *row.Sequence, len(own), *want)
		}
	}
	if total != 3000 {
		t.Errorf("%d events in the rows", total)
	}
	o.By = by("price=0:10:50:")
	if s := answerOf(t, all, o).Targets[0].Segments; len(s.Rows) != 4 || s.Rows[1].Name != "price 10 to 50" || s.Rows[2].Name != "price from 50" || s.Rows[3].Name != "price 0 to 10" {
		t.Errorf("%+v", s.Rows)
	}
	runs, missed := plays(10, 10, 300), 0
	o.By = by("user.city")
	for run := range runs {
		all, gain := cityLog(600, uint64(run+1))
		for _, row := range answerOf(t, all, o).Targets[0].Segments.Rows[1:] {
			if truth := gain[row.Name] / 2; truth < row.Sequence[0] || truth > row.Sequence[1] {
				missed++
				break
			}
		}
	}
	if unlikely(missed, runs, 0.05, 1e-4) {
		t.Errorf("%d of %d logs have a segment outside of its interval", missed, runs)
	}
}

// TestSegmentsWorkers: the same bytes for any number of workers.
func TestSegmentsWorkers(t *testing.T) {
	all, _ := cityLog(1500, 3)
	b, _ := ParseBy("user.city")
	var want []byte
	for _, workers := range []int{1, 3} {
		got, err := json.Marshal(answerOf(t, all, Options{Targets: []Target{Uniform{}, &Fixed{"one", []float64{0, 1}}}, By: b, Workers: workers}))
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		} else if string(got) != string(want) {
			t.Error("other bytes")
		}
	}
}

// hashedLog is the log as a server with hashed features keeps it.
func hashedLog(t *testing.T, all []logged.Event) []logged.Event {
	t.Helper()
	b := feature.NewAtomBatch(feature.NewAtomEncoder(feature.Limits{}))
	out := make([]logged.Event, 0, len(all))
	for _, e := range all {
		if err := b.Begin(e.Named); err != nil {
			t.Fatal(err)
		}
		e.Named, e.Atoms = nil, slices.Clone(b.Context())
		out = append(out, e)
	}
	return out
}

// TestSegmentsHashed: segments of a context of which only hashes are kept are those of the context itself; values that are listed have their
// names; numbers are refused.
func TestSegmentsHashed(t *testing.T) {
	all, _ := cityLog(3000, 1)
	hashed := hashedLog(t, all)
	rows := func(log []logged.Event, by string) (out []Segment) {
		b, err := ParseBy(by)
		if err != nil || b.String() != by {
			t.Fatalf("%s is %s, %v", by, b, err)
		}
		o := Options{Targets: []Target{&Fixed{"one", []float64{0, 1}}}, Estimators: []string{"logged", "ips"}, Q: "none", By: b}
		for _, row := range answerOf(t, log, o).Targets[0].Segments.Rows {
			row.sums = nil
			out = append(out, row)
		}
		return out
	}
	for _, by := range []string{"user.city", "user.city=Oslo|Rome|Bern", "user.city=Oslo"} {
		want, got := rows(all, by), rows(hashed, by)
		if len(got) != len(want) || len(got) < 3 {
			t.Fatalf("%s: %d rows, want %d", by, len(got), len(want))
		}
		for i, x := range want {
			if hash := strings.HasPrefix(got[i].Name, "user.city #"); hash == (by == "user.city" && x.Values == 1 && x.Name != "all") && hash {
				got[i].Name = x.Name
			}
			if x.Values > 1 { // small ones are merged in the order of their names
				x.Logged, x.Value, x.Sequence, got[i].Logged, got[i].Value, got[i].Sequence = nil, nil, nil, nil, nil, nil
			}
			if !reflect.DeepEqual(got[i], x) {
				t.Errorf("%s: %+v, want %+v", by, got[i], x)
			}
		}
	}
	b, _ := ParseBy("user.age")
	_, err := Evaluate(t.Context(), &events{all: hashed}, Options{Targets: []Target{Uniform{}}, By: b})
	if err == nil || !strings.Contains(err.Error(), "a string, true or false") {
		t.Errorf("a number: %v", err)
	}
}

// TestSegmentsOfLists: a list is the set of its values, whatever their order, so each event is in one segment; hashed
// contexts have the same rows.
func TestSegmentsOfLists(t *testing.T) {
	all, _ := cityLog(3000, 5)
	lists := []string{`["a"]`, `["b", "a"]`, `["a", "b"]`, `["b"]`, `[]`, `["a", "a"]`, `"a"`, `["c"]`}
	for i := range all {
		all[i].Named = fmt.Appendf(nil, `{"tags": %s}`, lists[i%len(lists)])
	}
	hashed := hashedLog(t, all)
	for by, want := range map[string]string{
		"tags":         "all 3000, a 1125, a and b 750, b 375, c 375, no tags 375",
		"tags=a|b":     "all 3000, a 1125, a and b 750, b 375, no tags 375, other tags 375",
		"tags=a|b|c":   "all 3000, a 1125, a and b 750, b 375, c 375, no tags 375",
		"context.tags": "all 3000, a 1125, a and b 750, b 375, c 375, no tags 375",
	} {
		b, err := ParseBy(by)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Targets: []Target{&Fixed{"one", []float64{0, 1}}}, Estimators: []string{"logged", "ips"}, Q: "none", By: b}
		for i, log := range [][]logged.Event{all, hashed} {
			var got []string
			for _, row := range answerOf(t, log, o).Targets[0].Segments.Rows {
				got = append(got, fmt.Sprintf("%s %d", row.Name, row.Events))
			}
			if i == 1 && b.Values == nil {
				if strings.Count(strings.Join(got, ", "), " and #") != 1 || len(got) != 6 {
					t.Errorf("%s, hashed: %q", by, got)
				}
			} else if s := strings.Join(got, ", "); s != want {
				t.Errorf("%s: %q, want %q", by, s, want)
			}
		}
	}
}

// TestBadSegments: what is refused, with its words.
func TestBadSegments(t *testing.T) {
	for text, want := range map[string]string{
		"": "--by \"\": expected a value of the context", "x=": `value 1 is ""`, "x=a||b": `value 2 is ""`, "x=a|a": `value 2 is "a"`, "x=1:a": `edge 2 is "a"`, "x=2:1": "more than the one before", "x=0:NaN": "edge 2", "x=0::1": "edge 2 is",
	} {
		if _, err := ParseBy(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	all, _ := cityLog(1200, 2)
	many := make([]logged.Event, 0, 1200)
	for i, e := range all {
		e.Named = fmt.Appendf(nil, `{"user": "u%d", "age": %d, "deep": {"x": null, "list": [[1]], "numbers": [1, 2]}}`, i, i)
		many = append(many, e)
	}
	for _, x := range []struct {
		by, want string
		all      []logged.Event
	}{
		{"user.citty", "no event has context.user.citty", all}, {"user.citty", `"user.city"`, all}, {"user", "more than 1000 segments", many}, {"user=0:1", `context.user is "u0", expected a number`, many},
		{"price=0:10:200:300", `no event is in the segment "price 200 to 300"`, all}, {"price=900:1000", "between the edges", all}, {"deep.x", "no event has", many}, {"deep.list", "no event has", many},
		{"deep.numbers=0:1", "is a list, which has no place between the edges", many}, {"deep.numbers=1|3", `no event is in the segment "3"`, many},
		{"user.city=Lima", "no event has one of these values", all}, {"user.city=Oslo|Lima", `no event is in the segment "Lima"`, all},
	} {
		b, err := ParseBy(x.by)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Evaluate(t.Context(), &events{all: x.all}, Options{Targets: []Target{Uniform{}}, By: b})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.by, err, x.want)
		}
	}
}

// TestSegmentsMemory: segments of many targets are bounded before memory is taken for them.
func TestSegmentsMemory(t *testing.T) {
	b, err := ParseBy("u")
	if err != nil {
		t.Fatal(err)
	}
	var all []logged.Event
	for i := range 300 {
		all = append(all, logged.Event{K: 2, Chosen: 0, Propensity: 0.5, Position: logged.NoPosition, Named: fmt.Appendf(nil, `{"u":"u%d"}`, i)})
	}
	var targets []Target
	for i := range 200 {
		targets = append(targets, &Fixed{fmt.Sprint(i), []float64{0, 1}})
	}
	_, err = Evaluate(t.Context(), &events{all: all}, Options{Targets: targets, By: b, Estimators: []string{"ips"}})
	if err == nil || !strings.Contains(err.Error(), "more than 250 segments of 200 targets") {
		t.Error(err)
	}
}
