package logged

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
)

var sameEvent = cmp.Options{cmpopts.IgnoreUnexported(Event{}), cmpopts.EquateEmpty()}

// clone copies what an event holds.
func clone(e *Event) Event {
	c := *e
	c.buf, c.num = nil, nil
	c.Context, c.Law, c.Target, c.Q = slices.Clone(e.Context), slices.Clone(e.Law), slices.Clone(e.Target), slices.Clone(e.Q)
	c.Named, c.Observed, c.Group = slices.Clone(e.Named), slices.Clone(e.Observed), slices.Clone(e.Group)
	c.Actions, c.Slots = slices.Clone(e.Actions), slices.Clone(e.Slots)
	for i := range c.Actions {
		c.Actions[i].X, c.Actions[i].Named = slices.Clone(c.Actions[i].X), slices.Clone(c.Actions[i].Named)
	}
	for i := range c.Slots {
		c.Slots[i].Law, c.Slots[i].Named = slices.Clone(c.Slots[i].Law), slices.Clone(c.Slots[i].Named)
	}
	return c
}

func readAll(name string, o Options) ([]Event, *Reader, error) {
	r, err := Open(name, o)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	var out []Event
	var e Event
	for {
		if err := r.Read(&e); err == io.EOF {
			return out, r, nil
		} else if err != nil {
			return out, r, err
		}
		out = append(out, clone(&e))
	}
}

func mustRead(t testing.TB, name string, o Options) []Event {
	t.Helper()
	all, _, err := readAll(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var csvColumns = "action=arm,reward=click,propensity=prob,time=when,context=x0:x1:x2,law=pi_b_*,target=pi_e_*,q=q_*"

// TestTwins: the same decisions in five formats are the same events, as far as each format can say them.
func TestTwins(t *testing.T) {
	want := mustRead(t, "testdata/events.jsonl", Options{})
	if len(want) != 400 || want[0].K != 5 || want[1].Chosen != 2 {
		t.Fatalf("%d events, the first %+v", len(want), want[0])
	}
	columns, err := ParseColumns(csvColumns)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		o       Options
		context bool
		law     bool
		target  bool
		id      bool
	}{
		{"events.csv", Options{Columns: columns}, true, true, true, false},
		{"events.npz", Options{}, true, true, true, false},
		{"events.dsjson", Options{}, false, true, false, true},
		{"events.vw", Options{}, false, false, false, false},
	} {
		got := mustRead(t, "testdata/"+c.name, c.o)
		if len(got) != len(want) {
			t.Fatalf("%s: %d events, want %d", c.name, len(got), len(want))
		}
		for i := range got {
			g, w := got[i], want[i]
			if g.K != w.K || g.Chosen != w.Chosen || g.Reward != w.Reward || g.Propensity != w.Propensity {
				t.Fatalf("%s: event %d: %+v, want %+v", c.name, i, g, w)
			}
			if c.context && !slices.Equal(g.Context, w.Context) || c.law && !slices.Equal(g.Law, w.Law) ||
				c.target && (!slices.Equal(g.Target, w.Target) || !slices.Equal(g.Q, w.Q)) || c.id && g.ID != w.ID {
				t.Fatalf("%s: event %d: %+v, want %+v", c.name, i, g, w)
			}
			if !c.context && !strings.Contains(string(g.Named), "x0") {
				t.Fatalf("%s: event %d has the context %s", c.name, i, g.Named)
			}
		}
	}
}

func TestLists(t *testing.T) {
	all := mustRead(t, "testdata/lists.dsjson", Options{})
	if len(all) != 150 || len(all[0].Slots) != 3 {
		t.Fatalf("%d lists, the first with %d slots", len(all), len(all[0].Slots))
	}
	s := all[0].Slots[1]
	if s.ID != "s1" || !slices.Equal(s.Allowed, []int{1, 0, 2, 3}) || s.Propensity != 0.75 || s.Reward != 0 || string(s.Named) != `{"Slot":{"at":1.0}}` {
		t.Errorf("slot 1 is %+v", s)
	}
}

// TestVowpalWabbit reads VW's own logs; the counts are those of ../shared/data/vw/README.md.
func TestVowpalWabbit(t *testing.T) {
	dir := filepath.FromSlash("../../shared/data/vw/")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("../shared/data/vw is not beside the checkout")
	}
	for _, c := range []struct {
		name string
		n, k int
		rate float64
	}{{"dsjson_cb.json", 23, 4, 0.5217391304347826}, {"igl.dsjson", 200, 4, 0.305}, {"explore_eval_egreedy.dat", 50, 9, 0.58}} {
		all := mustRead(t, filepath.Join(dir, c.name), Options{})
		sum := 0.0
		for _, e := range all {
			sum += e.Reward
			if e.K != c.k {
				t.Fatalf("%s: %d actions", c.name, e.K)
			}
		}
		if len(all) != c.n || math.Abs(sum/float64(len(all))-c.rate) > 1e-12 {
			t.Errorf("%s: %d events with mean reward %v", c.name, len(all), sum/float64(len(all)))
		}
	}
}

func TestOpenBandit(t *testing.T) {
	dir := filepath.FromSlash("../../shared/data/obd/")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("../shared/data/obd is not beside the checkout")
	}
	all := mustRead(t, filepath.Join(dir, "random/men/men.csv"), Options{Logger: even{}})
	e := all[0]
	if len(all) != 10000 || e.K != 34 || e.Law == nil || e.Actions[3].ID != "3" || !strings.Contains(string(e.Actions[3].Named), "item_feature_0") {
		t.Errorf("%d events, the first %+v", len(all), e)
	}
	if _, _, err := readAll(filepath.Join(dir, "bts/men/men.csv"), Options{Logger: even{}}); err == nil || !strings.Contains(err.Error(), "1/34") {
		t.Errorf("a Bernoulli-TS log was taken for a uniform one: %v", err)
	}
	one := mustRead(t, filepath.Join(dir, "bts/men/men.csv"), Options{Position: "2"})
	if len(one) == 0 || len(one) == 10000 || one[0].Position != 1 {
		t.Errorf("%d events of position 2, the first at %d", len(one), one[0].Position)
	}
}

// TestPacked: gzip and zstd are recognised by content.
func TestPacked(t *testing.T) {
	text, err := os.ReadFile("testdata/events.vw")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.gz", "b"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var z io.WriteCloser = gzip.NewWriter(f)
		if name == "b" {
			z, _ = zstd.NewWriter(f)
		}
		z.Write(text)
		z.Close()
		f.Close()
		if n := len(mustRead(t, f.Name(), Options{})); n != 400 {
			t.Errorf("%s: %d events", name, n)
		}
	}
}

// saying is a set of events that every reader and writer must keep, and what each format can say of them.
func sampleEvents() []Event {
	at := time.Date(2026, 5, 4, 10, 0, 0, 123456700, time.UTC)
	var out []Event
	for i := range 7 {
		f := float64(i)
		out = append(out, Event{
			ID: fmt.Sprintf("e \"%d\"", i), Time: at.Add(time.Duration(i) * time.Second), Context: []float64{f, -0.1, 1e-300}, K: 3,
			Chosen: i % 3, Reward: f/3 - 0.5, Propensity: []float64{0.5, 0.25, 0.25}[i%3], Law: []float64{0.5, 0.25, 0.25}, Target: []float64{0, 1, 0},
			Q: []float64{0.1, 0.2, f}, Group: []string{"a", "b, c", "0"}, Drop: 0.5, Position: 2,
			Actions:  []Action{{ID: "x", X: []float64{1, f}}, {ID: "ø\n", X: []float64{2, 3}}, {ID: "z", X: []float64{4}}},
			Observed: []byte(`[{"v":1}]`),
		})
	}
	out[3].Context, out[3].Named = nil, []byte(`{"user":{"age":0.5,"tags":["a","b"]},"é":true}`)
	out[4].Actions = []Action{{ID: "p", Named: []byte(`{"price":1}`)}, {ID: "q", Named: []byte(`{}`)}, {ID: "r"}}
	out[5].Law, out[5].Target, out[5].Q, out[5].Group, out[5].Observed, out[5].ID, out[5].Time = nil, nil, nil, nil, nil, "", time.Time{}
	out[6] = Event{ID: "list", K: 3, Actions: out[6].Actions, Position: NoPosition, Named: []byte(`{"u":1}`), Slots: []Slot{
		{ID: "s0", Named: []byte(`{"at":0}`), Allowed: []int{2, 0, 1}, Reward: 1, Propensity: 0.5, Law: []float64{0.5, 0.25, 0.25}},
		{Allowed: []int{1}, Reward: -0.5, Propensity: 1, Law: []float64{1}}, {Allowed: []int{0, 1}, Reward: 0, Propensity: 0.125},
	}}
	return out
}

// roundTrip writes events and reads them back.
func roundTrip(t testing.TB, dir, format string, events []Event, o Options) []Event {
	t.Helper()
	name := filepath.Join(dir, "events-"+format)
	w, err := Create(name, WriteOptions{Format: format})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			t.Fatalf("%s: event %d: %v", format, i, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	o.Format = format
	return mustRead(t, name, o)
}

// TestIdentity: what a writer takes, its reader gives back.
func TestIdentity(t *testing.T) {
	for _, format := range []string{"jsonl", "parquet"} {
		want := sampleEvents()
		if diff := cmp.Diff(want, roundTrip(t, t.TempDir(), format, want, Options{}), sameEvent); diff != "" {
			t.Errorf("%s:\n%s", format, diff)
		}
	}
	// The others, with the events that they can say.
	for _, c := range []struct {
		format, from string
		o            Options
	}{
		{"dsjson", "events.dsjson", Options{}}, {"dsjson", "lists.dsjson", Options{}}, {"vw", "events.vw", Options{}}, {"csv", "events.csv", Options{}},
		{"npz", "events.npz", Options{}}, {"jsonl", "events-drop.jsonl", Options{}}, {"vw-json", "events.vw", Options{}},
	} {
		in := c.o
		if c.from == "events.csv" {
			in.Columns, _ = ParseColumns(csvColumns)
		}
		want := mustRead(t, "testdata/"+c.from, in)
		want = want[:min(len(want), 60)]
		if diff := cmp.Diff(want, roundTrip(t, t.TempDir(), c.format, want, c.o), sameEvent); diff != "" {
			t.Errorf("%s: %s:\n%.2000s", c.format, c.from, diff)
		}
	}
	flat := []Event{{K: 6, Chosen: 1, Reward: 0.5, Propensity: 0.2, Position: NoPosition, Named: []byte(`{"f":1,"u":{"city":"Oslo","n":-2.5}}`)},
		{K: 3, Chosen: 1, Reward: 0, Propensity: 0.25, Position: NoPosition, Named: []byte(`{}`), Actions: []Action{{ID: "1"}, {ID: "5"}, {ID: "6"}}}}
	if diff := cmp.Diff(flat, roundTrip(t, t.TempDir(), "vw-flat", flat, Options{Actions: 6}), sameEvent); diff != "" {
		t.Errorf("vw-flat:\n%s", diff)
	}
	at := time.Date(2026, 5, 4, 10, 0, 0, 5, time.UTC)
	rows := []Event{{ID: "a", Time: at, K: 2, Chosen: 1, Reward: -1, Propensity: 0.3, Position: NoPosition, Law: []float64{0.7, 0.3}, Actions: []Action{{X: []float64{1}}, {X: []float64{2}}}},
		{ID: "b", Time: at, K: 9, Chosen: 8, Reward: 1, Propensity: 1, Position: NoPosition}}
	if diff := cmp.Diff(rows, roundTrip(t, t.TempDir(), "export", rows, Options{}), sameEvent); diff != "" {
		t.Errorf("export:\n%s", diff)
	}
	items := []Event{{Time: at, K: 2, Chosen: 1, Reward: 1, Propensity: 0.5, Position: 2, Named: []byte(`{"user_feature_0":"ab","user_feature_1":""}`),
		Actions: []Action{{ID: "0", Named: []byte(`{"affinity":0}`)}, {ID: "1", Named: []byte(`{"affinity":0.25}`)}}}}
	if diff := cmp.Diff(items, roundTrip(t, t.TempDir(), "obd", items, Options{}), sameEvent); diff != "" {
		t.Errorf("obd:\n%s", diff)
	}
}

// TestLossy: a writer names what its format cannot say, and leaves no file behind.
func TestLossy(t *testing.T) {
	events := mustRead(t, "testdata/events.jsonl", Options{})
	for _, format := range Formats {
		if format == "jsonl" || format == "parquet" || format == "csv" { // they can say all of it
			continue
		}
		dir := t.TempDir()
		w, err := Create(filepath.Join(dir, "out"), WriteOptions{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Write(&events[0])
		w.Abort()
		if err == nil || !strings.Contains(err.Error(), "cannot say") || !strings.Contains(err.Error(), "--lossy") {
			t.Errorf("%s: %v", format, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", format, left)
		}
		w, _ = Create(filepath.Join(dir, "out"), WriteOptions{Format: format, Lossy: true})
		for i := range events {
			if err := w.Write(&events[i]); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
		}
		if err := w.Close(); err != nil || len(w.Lost()) == 0 {
			t.Errorf("%s: %v, lost %v", format, err, w.Lost())
		}
		if format == "obd" { // nothing of it is left to read: no affinity is known
			continue
		}
		o := Options{Format: format, Actions: 5}
		if got := mustRead(t, filepath.Join(dir, "out"), o); len(got) != 400 || got[7].Reward != events[7].Reward || got[7].Chosen != events[7].Chosen {
			t.Errorf("%s: %d events came back, number 7 %+v", format, len(got), got[7])
		}
	}
}

// corner is a text and what reading it must say.
type corner struct {
	name, text string
	o          Options
	want       string // in the error; "" for none
	events     int
	skipped    map[string]int
	check      func(e []Event) bool
}

const (
	dsHead = `{"_label_cost":-1,"_label_probability":0.5,"_label_Action":2,"_labelIndex":1,"a":[2,1],"p":[0.5,0.5],"c":{"_multi":[{"a":1},{"b":1}]}`
	okLine = `{"action":0,"reward":1,"propensity":0.5,"law":[0.5,0.5]}` + "\n"
)

func corners() []corner {
	return []corner{
		{name: "nan.jsonl", text: `{"action":0,"reward":NaN,"propensity":0.5}`, want: ":1:22: reward"},
		{name: "big.jsonl", text: okLine + `{"action":0,"reward":1e999,"propensity":0.5,"law":[0.5,0.5]}`, want: ":2:22: reward: 1e999, expected a finite number"},
		{name: "p0.jsonl", text: `{"action":0,"reward":1,"propensity":0}`, want: ":1:37: propensity: 0, expected a number in (0, 1]"},
		{name: "tiny.jsonl", text: okLine + `{"action":0,"reward":1,"propensity":5e-324}`, want: ":2:37: propensity: 5e-324, expected at least 1e-100"},
		{name: "tiny.vw", text: "|x b\n0:-1:1e-200 |x c\n", want: "propensity: 1e-200, expected at least 1e-100"},
		{name: "small.jsonl", text: okLine + `{"action":0,"reward":1,"propensity":1e-100}`, events: 2},
		{name: "zone.dsjson", text: dsHead + `,"Timestamp":"2017-03-14T23:45:01.5"}` + "\n" + dsHead + `,"Timestamp":"2017-03-14T23:46:01"}`, events: 2,
			check: func(e []Event) bool { return e[0].Time.Equal(time.Date(2017, 3, 14, 23, 45, 1, 5e8, time.UTC)) }},
		{name: "p2.jsonl", text: `{"action":0,"reward":1,"propensity":1.5}`, want: "propensity: 1.5"},
		{name: "law.jsonl", text: `{"action":0,"reward":1,"propensity":0.5,"law":[0.5,0.4]}`, want: ":1:47: law: sums to 0.9, expected 1"},
		{name: "contra.jsonl", text: `{"action":0,"reward":1,"propensity":0.4,"law":[0.5,0.5]}`, want: "law[0]: 0.5, expected the propensity 0.4"},
		{name: "range.jsonl", text: `{"action":2,"reward":1,"propensity":0.5,"law":[0.5,0.5]}`, want: ":1:11: action: 2, expected an index from 0 to 1"},
		{name: "rewards.jsonl", text: `{"action":0,"reward":2,"propensity":0.5}`, o: Options{Rewards: &[2]float64{0, 1}}, want: ":1:22: reward: 2, expected a reward in [0, 1]"},
		{name: "twice.jsonl", text: `{"id":"a","action":0,"reward":1,"propensity":1}` + "\n" + `{"id":"a","action":0,"reward":1,"propensity":1}`, want: ":2:7: id: a, expected an id that comes once"},
		{name: "repeats.jsonl", text: `{"id":"a","action":0,"reward":1,"propensity":1}` + "\n" + `{"id":"a","action":0,"reward":1,"propensity":1}`, o: Options{Repeats: true}, events: 2},
		{name: "key.jsonl", text: `{"action":0,"reward":1,"propensty":0.5}`, want: `propensty: an unknown key; did you mean "propensity"?`},
		{name: "dup.jsonl", text: `{"action":0,"action":1,"reward":1,"propensity":0.5}`, want: "duplicate object member name"},
		{name: "cut.jsonl", text: okLine + `{"action":0,"rew`, want: ":2:"},
		{name: "both.jsonl", text: `{"action":0,"reward":1,"propensity":0.5,"pscore":0.5}`, want: "either propensity or pscore"},
		{name: "pscore.jsonl", text: `{"context":[0.1],"action":3,"position":0,"reward":1,"pscore":0.12}`, events: 1, check: func(e []Event) bool { return e[0].Propensity == 0.12 && e[0].Position == 0 }},
		{name: "ids.jsonl", text: `{"actions":[{"id":"a"},{"id":"b","features":{"x":1}}],"action":"b","reward":1,"propensity":0.5}`, events: 1, check: func(e []Event) bool { return e[0].Chosen == 1 }},
		{name: "noid.jsonl", text: `{"actions":["a","b"],"action":"c","reward":1,"propensity":0.5}`, want: `action: "c", expected an index, or the id of one of the 2 actions`},
		{name: "empty.jsonl", text: "\n\n", want: "an empty log"},
		{name: "after.jsonl", text: okLine[:len(okLine)-1] + ` {}`, want: "expected one JSON object on the line"},
		{name: "uniform.jsonl", text: `{"action":1,"reward":1,"actions":["a","b","c","d"]}`, o: Options{Logger: even{}}, events: 1, check: func(e []Event) bool { return e[0].Propensity == 0.25 && len(e[0].Law) == 4 }},
		{name: "skip.jsonl", text: strings.Repeat(okLine, 300) + `{"action":0,"reward":1,"propensity":9}`, o: Options{SkipBad: "yes"}, events: 300, skipped: map[string]int{"bad propensity": 1}},
		{name: "skipmany.jsonl", text: okLine + `{"action":9,"reward":1,"propensity":0.5,"law":[0.5,0.5]}`, o: Options{SkipBad: "yes"}, want: "1 of 2 events are bad, expected at most 1%"},
		{name: "skipall.jsonl", text: okLine + `{"action":9,"reward":1,"propensity":0.5,"law":[0.5,0.5]}`, o: Options{SkipBad: "all"}, events: 1, skipped: map[string]int{"bad action": 1}},
		{name: "worst.jsonl", text: okLine + `{"action":0,"reward":7,"propensity":0.5,"law":[0.5,0.5]}`, o: Options{SkipBad: "all", Rewards: &[2]float64{0, 1}}, events: 2, skipped: map[string]int{"bad reward": 1},
			check: func(e []Event) bool { return e[1].BadReward && math.IsNaN(e[1].Reward) && len(e[1].Law) == 2 }},

		{name: "ok.dsjson", text: dsHead + "}", events: 1, check: func(e []Event) bool { return e[0].Chosen == 1 && e[0].Reward == 1 && e[0].Law[1] == 0.5 }},
		{name: "skiplearn.dsjson", text: dsHead + "}\n" + dsHead + `,"_skipLearn":true}`, events: 1, skipped: map[string]int{"_skipLearn": 1}},
		{name: "pdrop.dsjson", text: dsHead + `,"pdrop":0.25}`, events: 1, check: func(e []Event) bool { return e[0].Drop == 0.25 }},
		{name: "pdrop1.dsjson", text: dsHead + `,"pdrop":1}`, want: "pdrop: 1, expected a probability below 1"},
		{name: "dangling.dsjson", text: dsHead + "}\n" + `{"EventId":"x","RewardValue":1}`, events: 1, skipped: map[string]int{"no event: a dangling reward or another line of the joiner": 1}},
		{name: "noaction.dsjson", text: strings.ReplaceAll(dsHead, `{"a":1},{"b":1}`, `{},{}`) + "}", events: 1, check: func(e []Event) bool { return e[0].K == 2 && string(e[0].Actions[0].Named) == "{}" }},
		{name: "clash.dsjson", text: strings.ReplaceAll(dsHead, `"_labelIndex":1`, `"_labelIndex":0`) + "}", want: "_label_Action: 2, expected 1, _labelIndex + 1"},
		{name: "zero.dsjson", text: strings.ReplaceAll(dsHead, `"_label_Action":2`, `"_label_Action":0`) + "}", events: 1, check: func(e []Event) bool { return e[0].Chosen == 1 }},
		{name: "fromzero.dsjson", text: strings.ReplaceAll(dsHead, `"a":[2,1]`, `"a":[0,1]`) + "}", events: 1, check: func(e []Event) bool { return e[0].Chosen == 1 }},
		{name: "bases.dsjson", text: dsHead + "}\n" + strings.ReplaceAll(dsHead, `"a":[2,1]`, `"a":[0,1]`) + "}", want: ":2:82: a: [0,1], expected ids from 1"},
		{name: "lawprob.dsjson", text: strings.ReplaceAll(dsHead, `"_label_probability":0.5`, `"_label_probability":0.6`) + "}", want: "law[1]: 0.5, expected the propensity 0.6"},
		{name: "nomulti.dsjson", text: strings.ReplaceAll(dsHead, "_multi", "multi") + "}", want: "c._multi: missing"},
		{name: "slate.dsjson", text: `{"_label_cost":-1,"c":{"_multi":[{"_slot_id":0},{"_slot_id":1},{"_slot_id":1}],"_slots":[{"_id":"a"},{"_id":"b"}]},"_outcomes":[{"_a":[0],"_p":[1]},{"_a":[1,0],"_p":[0.75,0.25]}]}`, events: 1,
			check: func(e []Event) bool {
				return slices.Equal(e[0].Slots[1].Allowed, []int{2, 1}) && e[0].OneReward && e[0].Reward == 1 && e[0].Slots[0].Reward == 0 &&
					e[0].Slots[1].Marginal == .75 && slices.Equal(e[0].Slots[1].Marginals, []float64{0, .25, .75})
			}},

		{name: "ok.vw", text: "shared |u a\n|x b\n0:-1:0.5 |x c\n\n", events: 1, check: func(e []Event) bool { return e[0].Chosen == 1 && string(e[0].Named) == `{"u":{"a":1}}` }},
		{name: "eof.vw", text: "|x b\n0:-1:0.5 |x c", events: 1},
		{name: "nolabel.vw", text: "|x b\n|x c\n\n|x b\n0:-1:0.5 |x c\n", events: 1, skipped: map[string]int{"without a label": 1}},
		{name: "two.vw", text: "shared |u a\n0:1:0.5 |x b\n0:-1:0.5 |x c\n\n", want: ":3:1: label: a second label in the block"},
		{name: "flat.vw", text: "1:0:0.5 | a\n2:-1:0.5 | b\n", want: "--actions K"},
		{name: "flatasblock.vw", text: "1:0:0.5 | a\n2:-1:0.5 | b\n", o: Options{Format: "vw"}, want: "this is one-line VW text, expected VW text in blocks"},
		{name: "clamp.vw", text: "|x b\n0:-1:1.5 |x c\n", want: ":2:1: propensity: 1.5"},
		{name: "weight.vw", text: "|x:2 b:0.5 city=Oslo\n0:-1:0.5 'tag|x c:1e999\n", want: ":2:17: feature: c:1e999"},
		{name: "tags.vw", text: "shared 'id|u a\n|x:2 b:0.5 c b=d\n0:-1:0.5 tag|x c=e c=f d d\n", events: 1, check: func(e []Event) bool {
			return e[0].ID == "id" && e[0].Actions[1].ID == "tag" && string(e[0].Actions[0].Named) == `{"x":{"b":1,"c":2,"b=d":2}}` && string(e[0].Actions[1].Named) == `{"x":{"c":["e","f"],"d":2}}`
		}},
		{name: "a.flat", text: "1 2 5:-0.0:0.25 6 | x\n2:-0.5:0.2 | f1 f2:0.7\n| u\n", o: Options{Format: "vw-flat", Actions: 6}, events: 2, skipped: map[string]int{"without a label": 1},
			check: func(e []Event) bool {
				return e[0].K == 4 && e[0].Chosen == 2 && e[1].K == 6 && e[1].Chosen == 1 && e[1].Reward == 0.5
			}},
		{name: "costs.flat", text: "1:0:0.5 2:1:0.5 | x\n3:1:0.5 | y\n", o: Options{Format: "vw-flat", Actions: 6}, want: "several costs"},
		{name: "zero.flat", text: "0:1:0.5 | x\n3:1:0.5 | y\n", o: Options{Format: "vw-flat", Actions: 6}, want: "action: 0, expected an id from 1 to 6"},

		{name: "json.vw", text: dsHead + "}", o: Options{Format: "vw"}, want: "this is dsjson, expected VW text in blocks"},
		{name: "csv.dsjson", text: "a,b,c\n1,2,3\n", o: Options{Format: "dsjson"}, want: "this is a CSV table, expected dsjson"},
		{name: "none.txt", text: "hello world\n", want: "a format that is not known"},
		{name: "plain.vwjson", text: `{"_label":"1:-1:0.5","user":{"a":1},"_multi":[{"x":1},{"x":2}]}` + "\n" + `{"_label_cost":-1,"_label_probability":0.5,"_labelIndex":0,"_multi":[{},{}]}`, events: 2,
			check: func(e []Event) bool {
				return e[0].Chosen == 0 && e[0].Reward == 1 && string(e[0].Named) == `{"user":{"a":1}}`
			}},

		{name: "t.csv", text: "arm,click,prob\n0,1,0.5\n1,0,0.25\n", want: ":1: action: no such column, expected --columns action=NAME"},
		{name: "u.csv", text: "arm,click,prob\n0,1,0.5\n1,0,0.25\n", o: Options{Columns: map[string][]string{"action": {"arm"}, "reward": {"click"}, "propensity": {"prob"}}}, events: 2},
		{name: "v.csv", text: "arm;click;prob\nred;1;0.5\nblue;x;0.25\n", o: Options{Columns: map[string][]string{"action": {"arm"}, "reward": {"click"}, "propensity": {"prob"}}}, want: `:3:6: reward: "x", expected a finite number`},
		{name: "w.csv", text: "arm,click,prob\n0,1\n", o: Options{Columns: map[string][]string{"action": {"arm"}, "reward": {"click"}, "propensity": {"prob"}}}, want: "expected 3 fields, as the header has"},
		{name: "x.csv", text: "arm,click,prob\n0,1,1\n", o: Options{Columns: map[string][]string{"action": {"arms"}, "reward": {"click"}, "propensity": {"prob"}}}, want: `did you mean "arm"?`},
		{name: "names.csv", text: "action,reward,propensity,city,n\n0,1,1,Oslo,2\n", o: Options{Columns: map[string][]string{"context": {"city", "n"}}}, events: 1, check: func(e []Event) bool { return string(e[0].Named) == `{"city":"Oslo","n":2}` }},
	}
}

// TestCorners: every corner of the study's table, and every refusal, with its place.
func TestCorners(t *testing.T) {
	dir := t.TempDir()
	for _, c := range corners() {
		name := filepath.Join(dir, c.name)
		if err := os.WriteFile(name, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, r, err := readAll(name, c.o)
		switch {
		case c.want != "":
			var fault *Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v\nwant an *Error with %q", c.name, err, c.want)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(got) != c.events || len(c.skipped) > 0 && !cmp.Equal(r.Skipped(), c.skipped) || c.check != nil && !c.check(got) {
			t.Errorf("%s: %d events, skipped %v: %+v", c.name, len(got), r.Skipped(), got)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range corners() {
		f.Add([]byte(c.text), c.o.Actions)
	}
	for _, name := range []string{"events.npz", "lists.dsjson", "events.vw"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 12000)], 5)
	}
	dir := f.TempDir()
	name := filepath.Join(dir, "p")
	w, err := Create(name, WriteOptions{Format: "parquet"})
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range sampleEvents() {
		w.Write(&e)
	}
	w.Close()
	b, _ := os.ReadFile(name)
	f.Add(b, 5)
	f.Add([]byte("shared |a b:1\n0:1:0.5 |0 | 1:1\n\n"), 5) // a namespace, then features without one
	f.Fuzz(func(t *testing.T, b []byte, k int) {
		dir := t.TempDir()
		name := filepath.Join(dir, "in")
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		o := Options{SkipBad: "all", Actions: max(0, min(k, 50)), Columns: nil}
		events, r, err := readAll(name, o)
		if err != nil || r.Format() == "parquet" && len(events) > 1000 {
			return
		}
		// What was read can be used, and is the same after writing, in every format that can say it.
		for i := range events {
			if err := events[i].Check(); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		for _, format := range []string{"jsonl", r.Format()} {
			if slices.ContainsFunc(events, func(e Event) bool { return e.BadReward }) {
				return
			}
			out := filepath.Join(dir, "out")
			w, err := Create(out, WriteOptions{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				if err = w.Write(&events[i]); err != nil {
					w.Abort()
					break
				}
			}
			if err != nil {
				continue
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			again, _, err := readAll(out, Options{Format: format, Actions: o.Actions, IDs: "", Repeats: true})
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if diff := cmp.Diff(events, again, sameEvent, anyOrder); diff != "" {
				t.Fatalf("%s:\n%s", format, diff)
			}
		}
	})
}

// anyOrder compares features by name: the text of Vowpal Wabbit has features without a namespace first,
// in whatever order they were read.
var anyOrder = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Named" },
	cmp.FilterValues(func(a, b []byte) bool { return len(a) > 0 && len(b) > 0 }, cmp.Comparer(sameJSON)))

func sameJSON(a, b []byte) bool {
	var x, y any
	for _, one := range []struct {
		text []byte
		to   *any
	}{{a, &x}, {b, &y}} {
		d := json.NewDecoder(bytes.NewReader(one.text))
		d.UseNumber()
		if d.Decode(one.to) != nil {
			return false
		}
	}
	return cmp.Equal(x, y)
}
