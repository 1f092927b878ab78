package joined

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

// script builds a log entry by entry.
type script struct {
	t   *testing.T
	j   *Joiner
	seq uint64
	got []string
}

// entry applies records as one entry at a time, in minutes.
func (s *script) entry(minute int, records ...eventlog.Record) {
	s.t.Helper()
	s.seq++
	h := eventlog.Header{Epoch: 1, No: s.seq, Time: int64(minute) * int64(time.Minute)}
	b, err := eventlog.AppendBatch(nil, h, records...)
	if err != nil {
		s.t.Fatal(err)
	}
	batch, err := eventlog.ParseBatch(b)
	if err != nil {
		s.t.Fatal(err)
	}
	err = s.j.Apply(eventlog.Delivery{Seq: s.seq, Batch: batch}, func(x *Decided) error {
		e, err := s.j.Event(x)
		if err != nil || e == nil {
			return err
		}
		s.got = append(s.got, fmt.Sprintf("%s %d/%d p=%g r=%g law=%v", e.ID, e.Chosen, e.K, e.Propensity, e.Reward, e.Law))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func create(t *testing.T, id eventlog.ID, name, rule string, lo, hi float64, rewards ...model.NamedWeight) *eventlog.Control {
	t.Helper()
	c := model.Default(name)
	c.Rewards = rewards
	c.Dim, c.Sigma, c.Reward.Adapt = 1, 1, false
	if err := c.Policy.DecodeSpec(spec.Raw{"kind": "ensemble", "m": int64(4)}, "policy"); err != nil {
		t.Fatal(err)
	}
	c.Reward.Rule, c.Reward.Min, c.Reward.Max = model.Rule(rule), lo, hi
	full, err := c.Admit(model.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	seed := rng.NewKey(1)
	b, err := fold.ControlConfig(full.Config, &seed)
	if err != nil {
		t.Fatal(err)
	}
	return &eventlog.Control{Act: eventlog.Create, Model: id, Name: name, Config: b}
}

func decided(id eventlog.ID, minute int) *eventlog.Decision {
	return &eventlog.Decision{Model: id, Num: 1, Den: 4, Offered: 3, Index: 1, Time: int64(minute) * int64(time.Minute), Deadline: int64(minute+10) * int64(time.Minute)}
}

func id(e eventlog.Event, _ uint64) string { return fmt.Sprintf("%d.%d", e.Batch, e.Index) }

func at(seq uint64, index uint32) eventlog.Event {
	return eventlog.Event{Epoch: 1, Batch: seq, Index: index}
}

func play(t *testing.T, rule, name string) *script {
	t.Helper()
	s := &script{t: t}
	s.j = New(Options{Model: name, ID: id})
	shadow, deferred, law := decided(1, 1), decided(1, 1), decided(1, 1)
	shadow.Mode, deferred.Deferred = eventlog.Apprentice, true
	law.Law, law.Groups, law.Voters, law.Floor, law.Num, law.Den = []uint64{1, 3, 3}, []uint32{0, 1, 1}, 4, 500_000, 85, 240
	s.entry(0, create(t, 1, "news", rule, 0, 1), create(t, 2, "other", "first", 0, 1))
	s.entry(1, decided(1, 1), decided(1, 1), shadow, deferred, law, decided(2, 1)) // 2.0 … 2.5
	s.entry(2, &eventlog.Reward{Event: at(2, 0), Model: 1, Y: 0.25, Key: 7}, &eventlog.Reward{Event: at(2, 0), Model: 1, Y: 0.25, Key: 7})
	s.entry(3, &eventlog.Reward{Event: at(2, 0), Model: 1, Y: 0.5, Key: 8}, &eventlog.Reward{Event: at(2, 0), Model: 2, Y: 9})
	s.entry(9, decided(1, 9), decided(1, 9)) // 5.0, 5.1
	s.entry(10, &eventlog.Reward{Event: at(5, 1), Model: 1, Y: 1})
	s.entry(12, &eventlog.Expire{Event: at(2, 0), Count: 5, Model: 1, Default: true, Y: 0.125, Time: 1})
	s.entry(13, &eventlog.Reward{Event: at(2, 1), Model: 1, Y: 1}) // late
	return s
}

// TestJoin: rewards count by the model's rule, repetitions and late ones do not; defaults count; what never became
// active and what a baseline played is left out; the end is cut by time of decision, whether or not it was paid.
func TestJoin(t *testing.T) {
	for rule, first := range map[string]float64{"first": 0.25, "sum": 0.75, "last": 0.5} {
		s := play(t, rule, "news")
		want := []string{
			fmt.Sprintf("2.0 1/3 p=0.25 r=%g law=[]", first), "2.1 1/3 p=0.25 r=0.125 law=[]",
			"2.4 1/3 p=0.3541666666666667 r=0.125 law=[0.29166666666666663 0.35416666666666663 0.35416666666666663]",
		}
		if diff := cmp.Diff(want, s.got); diff != "" {
			t.Errorf("%s:\n%s", rule, diff)
		}
		skipped := map[string]int{"inactive: deferred and never activated": 1, "mode apprentice: a baseline was played": 1}
		if diff := cmp.Diff(skipped, s.j.Skipped); diff != "" || s.j.Pending() != 2 {
			t.Errorf("%s: %d pending\n%s", rule, s.j.Pending(), diff)
		}
		// 5.1 was paid, 5.0 was not: both wait until the clock of the log is past their window.
		s.entry(25, &eventlog.Expire{Event: at(5, 0), Count: 1, Model: 1, Time: 1})
		if n := len(s.got); rule == "first" && (n != 5 || s.got[4] != "5.1 1/3 p=0.25 r=1 law=[]") || s.j.Skipped["(counted as 0) no reward and no default"] != 1 {
			t.Errorf("%s: %v, skipped %v", rule, s.got[3:], s.j.Skipped)
		}
	}
}

// TestBaselineOf: of a decision that is left out the mode is said that its model has.
func TestBaselineOf(t *testing.T) {
	for want, r := range map[string]eventlog.Decision{
		"mode apprentice: a baseline was played": {Mode: eventlog.Apprentice}, "mode shadow: a baseline was played": {Mode: eventlog.Shadow},
		"mode guarded: a baseline was played": {Mode: eventlog.Apprentice, Baseline: 1, Play: eventlog.PlayBaseline},
	} {
		if d := (Decided{Record: &r}); d.Baseline() != want || d.Played() {
			t.Errorf("%q, want %q", d.Baseline(), want)
		}
	}
}

// TestJoinInactive: deferred decisions that were never activated are no events, and where activation depends on the action that
// is said.
func TestJoinInactive(t *testing.T) {
	for _, biased := range []bool{false, true} {
		s := &script{t: t, j: New(Options{})}
		s.entry(0, create(t, 1, "news", "first", 0, 1))
		var all []eventlog.Record
		for i := range uint32(400) {
			d := decided(1, 1)
			d.Deferred, d.Offered, d.Law, d.Voters, d.Index = true, 2, []uint64{1, 1}, 2, i%2
			d.Num, d.Den = 1, 2
			all = append(all, d)
		}
		s.entry(1, all...)
		for i := range uint32(400) {
			if biased && i%2 == 0 || !biased && i%4 < 2 {
				s.entry(2, &eventlog.Activate{Event: at(2, i), Model: 1})
			}
		}
		s.entry(12, &eventlog.Expire{Event: at(2, 0), Count: 400, Model: 1, Time: 1})
		if err := s.j.Activation(); errors.Is(err, ErrActivation) != biased || s.j.Skipped["inactive: deferred and never activated"] != 200 || len(s.got) != 200 {
			t.Errorf("biased %v: %v, %d events, skipped %v", biased, err, len(s.got), s.j.Skipped)
		}
	}
}

// TestJoinTrimmed: a trimmed log needs its base.
func TestJoinTrimmed(t *testing.T) {
	whole := &script{t: t, j: New(Options{})}
	whole.entry(0, create(t, 1, "news", "sum", 0, 1))
	whole.entry(1, decided(1, 1))
	base, err := whole.j.f, error(nil)
	s := &script{t: t, seq: 1, j: New(Options{ID: id, Base: func(first uint64) (*fold.Fold, error) { return base, err }})}
	s.entry(1, decided(1, 1)) // entry 2, before the base
	s.entry(2, decided(1, 2))
	s.entry(3, &eventlog.Reward{Event: at(3, 0), Model: 1, Y: 0.5, Key: 1}, &eventlog.Reward{Event: at(3, 0), Model: 1, Y: 0.25, Key: 2})
	s.entry(20, &eventlog.Expire{Event: at(3, 0), Count: 1, Model: 1, Time: 1})
	if want := []string{"3.0 1/3 p=0.25 r=0.75 law=[]"}; !slices.Equal(s.got, want) || s.j.Skipped["decided before the base of the trimmed log"] != 1 {
		t.Errorf("%v, skipped %v", s.got, s.j.Skipped)
	}
	s.seq++
	s.entry(21, decided(1, 21))
	if s.j.Gap() == nil || whole.j.Gap() != nil {
		t.Errorf("a missing entry: %v", s.j.Gap())
	}
	broken := New(Options{})
	if err := broken.begin(2); err == nil {
		t.Error("a trimmed log was joined without its base")
	}
}

// TestJoinNotes: two models need a name; a changed range is noted; an act that came too late has no effect.
func TestJoinNotes(t *testing.T) {
	s := &script{t: t, j: New(Options{})}
	s.entry(0, create(t, 1, "news", "first", 0, 1), create(t, 2, "other", "first", 0, 1))
	s.entry(1, decided(1, 1))
	configured := create(t, 1, "news", "first", 0, 2)
	configured.Act = eventlog.Configure
	late := create(t, 9, "news", "sum", -5, 5) // the name is taken: the fold refuses it
	s.entry(2, configured, late)
	s.entry(2, decided(1, 2))
	if s.j.Ranges != 2 || s.j.Range != [2]float64{0, 1} || len(s.j.Notes) != 1 {
		t.Errorf("%d ranges, the first %v, notes %v", s.j.Ranges, s.j.Range, s.j.Notes)
	}
	b, err := eventlog.AppendBatch(nil, eventlog.Header{Epoch: 1, No: 9}, decided(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := eventlog.ParseBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.j.Apply(eventlog.Delivery{Seq: 5, Batch: batch}, nil); err == nil {
		t.Error("decisions of two models were joined without a name")
	}
}

// TestEnd: by the rule first the end of the log is the first decision without a final reward; by the rule sum it stays where the windows are over.
func TestEnd(t *testing.T) {
	for _, x := range []struct {
		rule         string
		early, after int
	}{{"first", 3, 2}, {"sum", 0, 5}} {
		s := &script{t: t, j: New(Options{ID: id})}
		s.entry(0, create(t, 7, "m", x.rule, 0, 1))
		shadow := decided(7, 1)
		shadow.Mode = eventlog.Shadow
		s.entry(1, decided(7, 1), shadow, decided(7, 1), decided(7, 1), decided(7, 1), decided(7, 1))
		for _, i := range []uint32{0, 2, 3, 5} { // 1 played a baseline, 4 has no reward yet
			s.entry(2, &eventlog.Reward{Model: 7, Event: at(2, i), Y: 0.5})
		}
		if len(s.got) != 0 {
			t.Fatalf("%s: settled before the end: %v", x.rule, s.got)
		}
		n := 0
		if err := s.j.End(func(d *Decided) error {
			n++
			if d.State != Paid || d.Reward != 0.5 {
				t.Errorf("%s: %+v", x.rule, d)
			}
			return nil
		}); err != nil || n != x.early || s.j.Early != x.early || s.j.Pending() != x.after {
			t.Errorf("%s: %d decisions, early %d, pending %d, %v; want %d and %d", x.rule, n, s.j.Early, s.j.Pending(), err, x.early, x.after)
		}
	}
}

// TestEndWithNames: at the end of a log an event with several rewards is final by the rule first when each name has its value,
// and not before; with its window closed it counts what came.
func TestEndWithNames(t *testing.T) {
	s := &script{t: t}
	s.j = New(Options{Model: "shop", ID: id})
	s.entry(0, create(t, 1, "shop", "first", 0, 10, model.NamedWeight{Name: "click", Weight: 1}, model.NamedWeight{Name: "revenue", Weight: .5}))
	s.entry(1, decided(1, 1), decided(1, 1), decided(1, 1))
	s.entry(2, &eventlog.Reward{Event: at(2, 0), Model: 1, Named: 3, Values: []float64{1, 8}},
		&eventlog.Reward{Event: at(2, 1), Model: 1, Named: 1, Values: []float64{1}}, &eventlog.Reward{Event: at(2, 2), Model: 1, Named: 3, Values: []float64{0, 2}})
	end := func() (got []string) {
		t.Helper()
		if err := s.j.End(func(d *Decided) error {
			_, values := RewardColumns(d)
			got = append(got, fmt.Sprintf("%d r=%g %g %g", d.Key.Index, d.Reward, *values[0], *values[1]))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	// The second one may still get a revenue: it ends the prefix.
	if diff := cmp.Diff([]string{"0 r=5 1 8"}, end()); diff != "" {
		t.Errorf("open: %s", diff)
	}
	s.entry(20, &eventlog.Expire{Event: at(2, 1), Count: 2, Model: 1, Time: int64(20 * time.Minute)})
	if want := []string{"2.1 1/3 p=0.25 r=1 law=[]", "2.2 1/3 p=0.25 r=1 law=[]"}; !slices.Equal(s.got, want) {
		t.Errorf("closed: %q, want %q", s.got, want)
	}
}
