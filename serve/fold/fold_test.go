package fold_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/shelf"
	"troupe/spec"
)

// script writes entries to a log in memory and folds them.
type script struct {
	t     *testing.T
	log   *eventlogtest.Memory
	c     *eventlog.Committer
	past  *fold.History
	f     *fold.Fold
	chain *eventlog.Chain
	now   time.Time
}

// reader gives a history the log.
type reader struct{ log eventlog.Log }

func (r reader) Get(seq uint64) (eventlog.Entry, error) {
	return r.log.Get(context.Background(), 0, seq)
}

func (r reader) Replay(c *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error {
	for d, err := range eventlog.Replay(context.Background(), r.log, c, until) {
		if err == nil {
			err = f(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func historyOf(log eventlog.Log) *fold.History {
	h := &fold.History{Log: reader{log}, Nearest: func(uint64) []byte { return nil }}
	h.First.Store(1)
	return h
}

func newScript(t *testing.T) *script {
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := &script{t: t, log: log, past: historyOf(log), chain: eventlog.NewChain(0, 1), now: time.Unix(1000, 0)}
	s.f = fold.New(s.past)
	s.c = eventlogtest.NewCommitter(t, log, eventlog.CommitterOptions{Now: func() time.Time { return s.now }})
	t.Cleanup(func() { s.c.Close(context.Background()) })
	return s
}

// entry writes records as one entry and returns what the fold makes of them, and the key of the first.
func (s *script) entry(records ...eventlog.Record) (eventlog.Event, []fold.Outcome) {
	s.t.Helper()
	for _, r := range records {
		switch r := r.(type) {
		case *eventlog.Decision:
			r.Time = s.now.UnixNano()
		case *eventlog.Control:
			r.Time = s.now.UnixNano()
		}
	}
	receipt, err := s.c.Append(context.Background(), records...)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []fold.Outcome
	err = reader{s.log}.Replay(s.chain, receipt.Seq, func(d eventlog.Delivery) (err error) { out, err = s.f.Apply(d); return err })
	if err != nil {
		s.t.Fatal(err)
	}
	return receipt.Event, out
}

func (s *script) want(out []fold.Outcome, want ...fold.Outcome) {
	s.t.Helper()
	if !slices.Equal(out, want) {
		s.t.Errorf("outcomes %v, want %v", out, want)
	}
}

// configOf is a configuration of plain vectors with two numbers.
func configOf(t *testing.T, name, kind string, edit func(*model.Config)) model.Config {
	t.Helper()
	c := model.Default(name)
	c.Dim = 2
	if err := c.Policy.DecodeSpec(spec.Raw{"kind": kind}, "policy"); err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&c)
	}
	out, err := c.Admit(model.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return out.Config
}

func controlOf(t *testing.T, act eventlog.Act, id eventlog.ID, c model.Config, seeded bool) *eventlog.Control {
	t.Helper()
	seed := rng.NewKey(7)
	p := &seed
	if !seeded {
		p = nil
	}
	b, err := fold.ControlConfig(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return &eventlog.Control{Act: act, Model: id, Name: c.ID, Config: b}
}

func decided(id eventlog.ID, x ...float64) *eventlog.Decision {
	return &eventlog.Decision{Model: id, Action: "a", X: x, Num: 1, Den: 1, Offered: 1, Deadline: int64(time.Hour)}
}

func paid(e eventlog.Event, id eventlog.ID, y float64, x ...float64) *eventlog.Reward {
	return &eventlog.Reward{Event: e, Model: id, Y: y, X: x}
}

func closing(e eventlog.Event, id eventlog.ID, n uint32) *eventlog.Expire {
	return &eventlog.Expire{Event: e, Model: id, Count: n}
}

// TestOutcomes: what the fold says of each record, in the cases that its callers tell apart.
func TestOutcomes(t *testing.T) {
	s := newScript(t)
	c := configOf(t, "m", "auto", nil)
	_, out := s.entry(controlOf(t, eventlog.Create, 1, c, true))
	s.want(out, fold.Accepted)
	_, out = s.entry(controlOf(t, eventlog.Create, 2, c, true), controlOf(t, eventlog.Create, 1, configOf(t, "n", "auto", nil), true))
	s.want(out, fold.Conflict, fold.Conflict) // the name, the id
	deferred, frozen := decided(1, 0.5, 0), decided(1, 0, 0.5)
	deferred.Deferred, frozen.Mode = true, eventlog.Frozen
	e, out := s.entry(decided(1, 0.5, 0), deferred, frozen, decided(9, 1))
	s.want(out, fold.Accepted, fold.Accepted, fold.Accepted, fold.Ignored)
	at := func(i uint32) eventlog.Event { k := e; k.Index += i; return k }
	unknown := e
	unknown.Batch += 100
	_, out = s.entry(paid(e, 1, 1, 0.5, 0), paid(e, 1, 1, 0.5, 0), paid(at(2), 1, 1, 0, 0.5), paid(unknown, 1, 1, 1, 0), paid(e, 9, 1, 1, 0), &eventlog.Activate{Event: at(1)}, &eventlog.Activate{Event: at(1)}, &eventlog.Activate{Event: unknown})
	s.want(out, fold.Accepted, fold.Duplicate, fold.Ignored, fold.Late, fold.Ignored, fold.Accepted, fold.Duplicate, fold.Late)
	m := s.f.Named("m")
	if m.Counts.Decisions != 3 || m.Counts.Rewards != 1 || m.Counts.Duplicates != 1 || m.Counts.Ignored != 1 || m.Counts.Late != 1 || m.Counts.Learned != 1 || m.Counts.Open != 3 || s.f.Waiting() != 3 {
		t.Errorf("counts %+v, %d wait", m.Counts, s.f.Waiting())
	}
	_, out = s.entry(closing(e, 1, 3), closing(e, 1, 3), paid(at(1), 1, 1, 0.5, 0))
	s.want(out, fold.Accepted, fold.Late, fold.Late)
	if m.Counts.Open != 0 || s.f.Waiting() != 0 || m.Counts.Expired != 1 || s.f.OldestOpen() != s.f.Seq()+1 {
		t.Errorf("after the windows: %+v", m.Counts)
	}
	other := configOf(t, "m", "ensemble", nil)
	_, out = s.entry(controlOf(t, eventlog.Configure, 1, other, false), &eventlog.Control{Act: eventlog.Pause, Model: 1}, &eventlog.Control{Act: eventlog.Pause, Model: 8})
	s.want(out, fold.Conflict, fold.Accepted, fold.Conflict)
	if !m.Paused || m.Version != 1 || !s.f.TakeRenamed() || s.f.TakeRenamed() {
		t.Errorf("paused %v, version %d", m.Paused, m.Version)
	}
	e, _ = s.entry(decided(1, 0.5, 0))
	_, out = s.entry(&eventlog.Control{Act: eventlog.Delete, Model: 1}, paid(e, 1, 1, 0.5, 0), &eventlog.Control{Act: eventlog.Resume, Model: 1}, controlOf(t, eventlog.Create, 3, c, true))
	s.want(out, fold.Accepted, fold.Ignored, fold.Conflict, fold.Accepted)
	if got := s.f.Named("m"); got.ID != 3 || s.f.Model(1) == nil || !s.f.Model(1).Deleted || s.f.Model(1).HasPolicy() {
		t.Errorf("the model of the name is %v", got.ID)
	}
	if changed := s.f.TakeChanged(); len(changed) == 0 || len(s.f.TakeChanged()) != 0 {
		t.Errorf("%d models have changed", len(changed))
	}
}

// learnedBy is the snapshot of the policy of a model after these events and rewards.
func learnedBy(t *testing.T, m *fold.Model, events []eventlog.Event, x [][]float64, y []float64) []byte {
	t.Helper()
	p, err := m.Compiled.NewPolicy(m.Seed)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if err := p.Update(action(x[i]), y[i], m.Targets(e)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := p.AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRules: first learns at once, sum and last when the window closes, with keys against repetitions, and defaults
// where no reward came.
func TestRules(t *testing.T) {
	for rule, want := range map[string][]float64{"first": {0.25, 0.5}, "sum": {1, 0.5}, "last": {0.75, 0.5}} {
		s := newScript(t)
		s.entry(controlOf(t, eventlog.Create, 1, configOf(t, "m", "ensemble", func(c *model.Config) { c.Reward.Rule = model.Rule(rule) }), true))
		e, _ := s.entry(decided(1, 0.5, 0), decided(1, 0, 0.5))
		second := e
		second.Index++
		first, again, last := paid(e, 1, 0.25, 0.5, 0), paid(e, 1, 0.25, 0.5, 0), paid(e, 1, 0.75, 0.5, 0)
		first.Key, again.Key, last.Key = 5, 5, 6
		_, out := s.entry(first, again, last)
		if rule == "first" {
			s.want(out, fold.Accepted, fold.Duplicate, fold.Duplicate)
		} else {
			s.want(out, fold.Accepted, fold.Duplicate, fold.Accepted)
		}
		if status, y := s.f.Event(e); status != fold.Rewarded || y != want[0] || !s.f.Known(e, 5) || s.f.Known(second, 5) {
			t.Errorf("%s: status %v, reward %v", rule, status, y)
		}
		m := s.f.Named("m")
		if early := m.Counts.Learned; early != map[string]uint64{"first": 1}[rule] {
			t.Errorf("%s: %d updates before the window closes", rule, early)
		}
		end := closing(e, 1, 2)
		end.Default, end.Y = true, 0.5
		s.entry(end)
		state, err := m.State()
		if err != nil {
			t.Fatal(err)
		}
		if got := learnedBy(t, m, []eventlog.Event{e, second}, [][]float64{{0.5, 0}, {0, 0.5}}, want); !bytes.Equal(bytesOf(t, state), got) {
			t.Errorf("%s: the policy has learned something else", rule)
		}
		if m.Counts.Defaulted != 1 || m.Counts.Expired != 1 || m.Counts.Learned != 2 {
			t.Errorf("%s: counts %+v", rule, m.Counts)
		}
	}
}

// TestMissingRewards: without a word of the creator a missing reward gets a meaning when more than EnoughMissed windows
// closed without one, or all rewards were equal and positive; with a word it has that one.
func TestMissingRewards(t *testing.T) {
	s := newScript(t)
	word := func(w string) func(*model.Config) {
		return func(c *model.Config) { c.Reward.Default = model.Maybe{Word: w} }
	}
	s.entry(controlOf(t, eventlog.Create, 1, configOf(t, "auto", "auto", word("auto")), true), controlOf(t, eventlog.Create, 2, configOf(t, "none", "auto", word("none")), true),
		controlOf(t, eventlog.Create, 3, configOf(t, "clicks", "auto", word("auto")), true))
	for n := range fold.EnoughMissed + 1 {
		if _, ok := s.f.Named("auto").MissingReward(); ok {
			t.Fatalf("after %d windows a missing reward counts", n)
		}
		e, _ := s.entry(decided(1, 0.5, 0), decided(2, 0.5, 0))
		s.entry(closing(e, 1, 2), closing(e, 2, 2))
	}
	if y, ok := s.f.Named("auto").MissingReward(); !ok || y != 0 {
		t.Errorf("after %d windows: %v, %v", fold.EnoughMissed+1, y, ok)
	}
	if _, ok := s.f.Named("none").MissingReward(); ok {
		t.Error("none means nothing, and counts")
	}
	e, _ := s.entry(decided(3, 0.5, 0), decided(3, 0.5, 0))
	s.entry(paid(e, 3, 1, 0.5, 0))
	m := s.f.Named("clicks")
	if y, ok := m.MissingReward(); !ok || y != 0 {
		t.Errorf("after a success: %v, %v", y, ok)
	}
	e.Index++
	s.entry(paid(e, 3, 0, 0.5, 0))
	if _, ok := m.MissingReward(); ok {
		t.Error("after a failure a missing reward still counts")
	}
	// Rewards outside widen the range by doubling, on their side.
	e, _ = s.entry(decided(3, 0.5, 0), decided(3, 0.5, 0))
	second := e
	second.Index++
	s.entry(paid(e, 3, 3, 0.5, 0), paid(second, 3, -1, 0.5, 0))
	if lo, hi := m.Range(); lo != -4 || hi != 4 || m.Memory.RangeSeq != s.f.Seq() {
		t.Errorf("the range is [%v, %v]", lo, hi)
	}
}

// TestRollback: an incarnation with the state of then; rewards of decisions before it count, later ones only when it
// says so; a wrong digest in the record is an error.
func TestRollback(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := newScript(t)
		s.entry(controlOf(t, eventlog.Create, 1, configOf(t, "m", "ensemble", nil), true))
		e, _ := s.entry(decided(1, 0.5, 0), decided(1, 0.5, 0.5))
		before := e
		before.Index++
		s.entry(paid(e, 1, 1, 0.5, 0))
		cut := s.f.Seq()
		digest := must(t)(s.f.Named("m").State()).Digest()
		later, _ := s.entry(decided(1, 0, 0.5))
		after, _ := s.entry(decided(1, 0, 0.25))
		s.entry(paid(later, 1, 1, 0, 0.5))
		_, out := s.entry(&eventlog.Control{Act: eventlog.Rollback, Model: 2, From: 1, Name: "m", AtSeq: cut, KeepLater: keep, Digest: digest})
		s.want(out, fold.Accepted)
		m := s.f.Named("m")
		if m.ID != 2 || m.Root != 1 || must(t)(m.State()).Digest() != digest || m.Counts.Learned != 1 || m.Counts.Decisions != 4 || s.f.Current(s.f.Model(1)) != m || !slices.Equal(s.f.Lineage(m), []eventlog.ID{2, 1}) {
			t.Errorf("after the rollback: %+v", m)
		}
		_, out = s.entry(paid(before, 1, 0.5, 0.5, 0.5), paid(after, 1, 0.25, 0, 0.25))
		x, y, events := [][]float64{{0.5, 0}, {0.5, 0.5}}, []float64{1, 0.5}, []eventlog.Event{e, before}
		if s.want(out[:1], fold.Accepted); keep {
			s.want(out[1:], fold.Accepted)
			x, y, events = append(x, []float64{0, 0.25}), append(y, 0.25), append(events, after)
		} else {
			s.want(out[1:], fold.Ignored)
		}
		if !bytes.Equal(bytesOf(t, must(t)(m.State())), learnedBy(t, m, events, x, y)) {
			t.Errorf("keep_later = %v: the model has learned something else", keep)
		}
		past, err := s.past.PolicyAt([]eventlog.ID{2, 1}, cut)
		if err != nil || past.Digest != digest || past.Learned != 1 {
			t.Errorf("the past is %+v, %v", past, err)
		}
		receipt, err := s.c.Append(context.Background(), &eventlog.Control{Act: eventlog.Rollback, Model: 3, From: 2, Name: "m", AtSeq: cut, Digest: digest + 1})
		if err != nil {
			t.Fatal(err)
		}
		err = reader{s.log}.Replay(s.chain, receipt.Seq, func(d eventlog.Delivery) error { _, err := s.f.Apply(d); return err })
		if err == nil || !strings.Contains(err.Error(), "digest") {
			t.Errorf("a wrong digest: %v", err)
		}
	}
}

func bytesOf(t *testing.T, s *fold.State) []byte {
	t.Helper()
	b, err := s.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t *testing.T) func(*fold.State, error) *fold.State {
	return func(s *fold.State, err error) *fold.State {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestStateAnywhere: after any entry of a random log, with every kind of record, the bytes of the state restore to a fold
// that goes on to the same bytes; a fold of the log from its beginning has them too, and one that defers choices of λ when
// it is settled. Damaged bytes are refused. Models that read requests look at decisions, too, which settle in any order.
func TestStateAnywhere(t *testing.T) {
	sum := func(c *model.Config) { c.Reward.Rule = "sum" }
	missing := func(c *model.Config) { c.Reward.Default = model.Maybe{Word: "auto"} }
	t.Run("vectors", func(t *testing.T) {
		stateAnywhere(t, 120, configOf(t, "sum", "ensemble", sum), configOf(t, "auto", "auto", missing), func(r *rand.Rand) features {
			return features{x: []float64{r.Float64() / 2, r.Float64() / 2}}
		})
	})
	t.Run("requests", func(t *testing.T) {
		stateAnywhere(t, 360, requestsOf(t, "sum", sum), requestsOf(t, "auto", missing), func(r *rand.Rand) features {
			return features{atoms: atomsOf(t, fmt.Sprintf(`{"city": "c%d", "age": %d}`, r.IntN(3), r.IntN(90)), string('a'+rune(r.IntN(3))))}
		})
	})
}

// features are those of an action that was chosen: its vector, or its atoms.
type features struct {
	x     []float64
	atoms []byte
}

func (f features) of(d *eventlog.Decision) *eventlog.Decision { d.X, d.Atoms = f.x, f.atoms; return d }

func (f features) paid(r *eventlog.Reward) *eventlog.Reward { r.X, r.Atoms = f.x, f.atoms; return r }

func stateAnywhere(t *testing.T, steps int, first, second model.Config, draw func(*rand.Rand) features) {
	s := newScript(t)
	r := rand.New(rand.NewPCG(3, 5))
	s.entry(controlOf(t, eventlog.Create, 1, first, true), controlOf(t, eventlog.Create, 2, second, true))
	ids := []eventlog.ID{1, 2}
	var open []eventlog.Event
	var of []eventlog.ID
	var given []features
	next := eventlog.ID(10)
	states := [][]byte{}
	for n := range steps {
		s.now = s.now.Add(time.Minute)
		k := r.IntN(len(ids))
		var records []eventlog.Record
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			for range 1 + r.IntN(3) {
				x := draw(r)
				given = append(given, x)
				d := x.of(decided(ids[k]))
				d.Deferred, d.Notes = r.IntN(4) == 0, eventlog.Notes(r.IntN(16))
				d.Mode = eventlog.Mode(r.IntN(4))
				if r.IntN(3) == 0 {
					d.Idempotency = fmt.Appendf(nil, "%016d%016d", r.IntN(30), n)
				}
				records = append(records, d)
			}
		case 4, 5, 6:
			for range 1 + r.IntN(3) {
				if len(open) > 0 {
					i := r.IntN(len(open))
					p := given[i].paid(paid(open[i], of[i], r.Float64()*2))
					p.Key = eventlog.ID(r.IntN(3))
					records = append(records, p, &eventlog.Activate{Event: open[r.IntN(len(open))]})
				}
			}
		case 7:
			if len(open) > 0 {
				i := r.IntN(len(open))
				end := closing(open[i], of[i], uint32(1+r.IntN(3)))
				end.Default, end.Y = r.IntN(2) == 0, 0
				records = append(records, end)
			}
		case 8:
			records = append(records, &eventlog.Control{Act: []eventlog.Act{eventlog.Pause, eventlog.Resume}[r.IntN(2)], Model: ids[k]})
		default:
			from := s.f.Current(s.f.Model(ids[k]))
			if len(ids) > 12 { // enough models: what they learn is to matter
				continue
			}
			if r.IntN(2) == 0 {
				records = append(records, &eventlog.Control{Act: eventlog.Rollback, Model: next, From: from.ID, Name: from.Name(), AtSeq: from.Since + uint64(r.IntN(int(s.f.Seq()-from.Since)+1)), KeepLater: r.IntN(2) == 0})
				ids[k] = next
			} else {
				c := from.Compiled.Config
				c.ID = fmt.Sprintf("copy-%d", n)
				clone := controlOf(t, eventlog.Clone, next, c, false)
				clone.From, clone.AtSeq = from.ID, s.f.Seq()
				records = append(records, clone)
				ids = append(ids, next)
			}
			next++
		}
		if len(records) == 0 {
			continue
		}
		e, _ := s.entry(records...)
		for i, x := range records {
			if d, ok := x.(*eventlog.Decision); ok {
				k := e
				k.Index += uint32(i)
				open, of = append(open, k), append(of, d.Model)
			}
		}
		b, err := s.f.AppendState(nil, s.chain)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, b)
	}
	last := s.f.Seq()
	final := states[len(states)-1]
	for i, b := range states {
		f, chain, err := fold.Restore(b, s.past)
		if err != nil {
			t.Fatalf("state %d: %v", i, err)
		}
		if again, err := f.AppendState(nil, chain); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("state %d has other bytes when it was restored (%v)", i, err)
		}
		if i%8 == 0 {
			s.goesOnTo(f, chain, last, final, fmt.Sprintf("state %d", i))
		}
	}
	s.laidAside(states, r, nil)
	s.laidAside(states, r, newShelf(t))
	defer fold.SetInMemory(fold.SetInMemory(0)) // all of a state goes to the shelf before it is written
	s.laidAside(states, r, newShelf(t))
	// The bytes have all that a model is, not only what two writers leave out alike.
	restored, _, err := fold.Restore(final, s.past)
	if err != nil {
		t.Fatal(err)
	}
	paused, models := 0, 0
	for m := range s.f.Models() {
		r := restored.Model(m.ID)
		if models++; m.Paused {
			paused++
		}
		if r.Paused != m.Paused || r.Deleted != m.Deleted || r.Counts != m.Counts || r.Notes != m.Notes || r.Seed != m.Seed || r.Version != m.Version || r.Since != m.Since ||
			r.Parent != m.Parent || r.Root != m.Root || r.Successor != m.Successor || r.Cut != m.Cut || r.KeepLater != m.KeepLater || r.Last != m.Last || r.Created != m.Created || r.Changed != m.Changed || r.HasPolicy() != m.HasPolicy() {
			t.Errorf("%v is restored as %+v, it was %+v", m.ID, r, m)
		}
	}
	if paused == 0 || models < 5 || restored.Waiting() != s.f.Waiting() || restored.Keys() != s.f.Keys() || restored.Keys() == 0 {
		t.Errorf("%d of %d models are paused, %d events wait, %d keys; restored %d and %d", paused, models, s.f.Waiting(), s.f.Keys(), restored.Waiting(), restored.Keys())
	}
	f, chain := fold.New(historyOf(s.log)), eventlog.NewChain(0, 1)
	f.Defer()
	s.goesOnTo(f, chain, last, final, "the beginning")
	for _, at := range []int{0, 7, len(final) / 2, len(final) - 40, len(final) - 1} {
		bad := bytes.Clone(final)
		bad[at] ^= 1
		if _, _, err := fold.Restore(bad, nil); err == nil {
			t.Errorf("a state with a wrong byte %d is restored", at)
		}
		if _, _, err := fold.Restore(final[:at], nil); err == nil {
			t.Errorf("a state of %d bytes is restored", at)
		}
	}
}

// laidAside: a fold whose models are laid aside at any time has the same states, also when they are on a shelf, and so
// has one that is restored with the shelf.
func (s *script) laidAside(states [][]byte, r *rand.Rand, on *shelf.Shelf) {
	s.t.Helper()
	last := uint64(len(states)) + 1
	laid, at, down := fold.NewOn(s.past, on), eventlog.NewChain(0, 1), 0
	err := reader{s.log}.Replay(at, last, func(d eventlog.Delivery) error {
		if _, err := laid.Apply(d); err != nil {
			return err
		}
		for m := range laid.Models() {
			if m.Awake() && r.IntN(2) == 0 {
				down++
				if err := laid.LayAside(m); err != nil || m.Awake() || !m.HasPolicy() {
					return fmt.Errorf("%v is laid aside: %v", m.ID, err)
				}
			}
		}
		b, err := laid.AppendState(nil, at)
		if err == nil && d.Seq > 1 && !bytes.Equal(b, states[d.Seq-2]) { // the first made the models
			err = fmt.Errorf("the state after entry %d has other bytes where models are laid aside", d.Seq)
		}
		return err
	})
	if err != nil || down < 15 {
		s.t.Errorf("%d times laid aside: %v", down, err)
	}
	final := states[len(states)-1]
	if on == nil {
		return
	}
	if on.Status().Used == 0 {
		s.t.Error("no model is on the shelf")
	}
	half := len(states) / 2
	f, chain, err := fold.RestoreOn(states[half], s.past, on)
	if err != nil {
		s.t.Fatal(err)
	}
	s.goesOnTo(f, chain, last, final, "a state that was restored on the shelf")
	for _, f := range []*fold.Fold{f, laid} {
		f.DropPolicies()
	}
	if got := on.Status(); got.Used != 0 || got.Bytes != 0 {
		s.t.Errorf("the shelf has %+v after the last model is gone", got)
	}
	if _, _, err := fold.RestoreOn(final[:len(final)-1], s.past, on); err == nil || on.Status().Used != 0 {
		s.t.Errorf("a state that is not restored leaves %+v on the shelf (%v)", on.Status(), err)
	}
}

func newShelf(t *testing.T) *shelf.Shelf {
	t.Helper()
	on, err := shelf.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { on.Close() })
	return on
}

// TestShelfDamaged: a place that cannot be read ends the fold where its model is to learn, with a word on the file, and
// the state is not written; a shelf that takes nothing more leaves states in memory.
func TestShelfDamaged(t *testing.T) {
	s, on := newScript(t), newShelf(t)
	s.f = fold.NewOn(s.past, on)
	c := configOf(t, "m", "ensemble", nil)
	e, _ := s.entry(controlOf(t, eventlog.Create, 1, c, true), decided(1, 0.5, 0), decided(1, 0.5, 0))
	e.Index++
	good, err := s.f.AppendState(nil, s.chain)
	if err != nil || on.Status().Used == 0 {
		t.Fatalf("%+v, %v", on.Status(), err)
	}
	if err := on.Close(); err != nil {
		t.Fatal(err)
	}
	var damage *shelf.DamageError
	if b, err := s.f.AppendState(nil, s.chain); len(b) > 0 || !errors.As(err, &damage) {
		t.Errorf("%d bytes of a state that cannot be read: %v", len(b), err)
	}
	receipt, err := s.c.Append(t.Context(), paid(e, 1, 1, 0.5, 0))
	if err != nil {
		t.Fatal(err)
	}
	err = reader{s.log}.Replay(s.chain, receipt.Seq, func(d eventlog.Delivery) error { _, err := s.f.Apply(d); return err })
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), damage.Dir) || !strings.Contains(err.Error(), "start again") {
		t.Errorf("a model whose state is gone has learned: %v", err)
	}
	f, chain, err := fold.RestoreOn(good, s.past, on)
	if err != nil || on.Status().Err == nil {
		t.Fatalf("%+v, %v", on.Status(), err)
	}
	if b, err := f.AppendState(nil, chain); err != nil || !bytes.Equal(b, good) {
		t.Errorf("a state that stays in memory has other bytes (%v)", err)
	}
	on = newShelf(t)
	f, chain, err = fold.RestoreOn(good, s.past, on)
	if err != nil {
		t.Fatal(err)
	}
	defer fold.SetInMemory(fold.SetInMemory(0))
	before := on.Status().Used
	image, err := f.Image(chain)
	if err != nil || on.Status().Used <= before || image.Len() != len(good) {
		t.Errorf("an image of %d bytes takes %d of the shelf (%v)", image.Len(), on.Status().Used-before, err)
	}
	if image.Release(); on.Status().Used != before {
		t.Errorf("an image that is given up leaves %d bytes on the shelf", on.Status().Used-before)
	}
	if image, err = f.Image(chain); err != nil {
		t.Fatal(err)
	}
	if err := on.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := image.WriteTo(&out); out.Len() > 0 || !errors.As(err, &damage) {
		t.Errorf("%d bytes of an image that cannot be read: %v", out.Len(), err)
	}
}

func (s *script) goesOnTo(f *fold.Fold, chain *eventlog.Chain, last uint64, want []byte, from string) {
	s.t.Helper()
	err := reader{s.log}.Replay(chain, last, func(d eventlog.Delivery) error { _, err := f.Apply(d); return err })
	if err != nil {
		s.t.Fatalf("from %s: %v", from, err)
	}
	if b, err := f.AppendState(nil, chain); err != nil || !bytes.Equal(b, want) {
		s.t.Errorf("from %s the fold comes to other bytes (%v)", from, err)
	}
}

// wide makes model 1 of vectors of length d, with the policy that such a model has.
func (s *script) wide(d int) {
	s.t.Helper()
	c := model.Default("m")
	c.Dim = d
	out, err := c.Admit(model.DefaultLimits)
	if err != nil {
		s.t.Fatal(err)
	}
	s.entry(controlOf(s.t, eventlog.Create, 1, out.Config, true))
}

// TestDeferred: a fold that defers lags behind while a choice of λ waits, learns what queued when it is done, in slices or
// at once, and ends with the bits of one that does not.
func TestDeferred(t *testing.T) {
	const d = 128
	run := func(how string) (digests []eventlog.ID, lagged int) {
		s := newScript(t)
		if how != "plain" {
			s.f.Defer()
		}
		s.wide(d)
		r := rand.New(rand.NewPCG(1, 9))
		m := s.f.Named("m")
		var done bandit.Work
		for n := range 40 {
			x := make([]float64, d)
			x[r.IntN(d)], x[r.IntN(d)] = 0.5, 0.25
			y := r.Float64()
			e, _ := s.entry(decided(1, x...))
			s.entry(paid(e, 1, y, x...))
			if m.Lagging() {
				lagged++
			}
			switch {
			case how == "slices" && m.Lagging() && n > 20:
				if work := s.f.Advance(m, done); work != nil {
					for range 3 * d {
						work.Step()
					}
					done = work
				}
			case how == "at once" && n == 39:
				s.f.Settle(m)
			}
		}
		for how == "slices" && m.Lagging() {
			if work := s.f.Advance(m, done); work != nil {
				for !work.Step() {
				}
				done = work
			}
		}
		if m.Lagging() || s.f.Lagging() != 0 || m.Counts.Learned != 40 || !m.Untaken.IsZero() {
			t.Errorf("%s: %d learned, lagging %v, %s", how, m.Counts.Learned, m.Lagging(), m.Untaken.Why)
		}
		state := must(t)(m.State())
		return append(digests, state.Digest()), lagged
	}
	plain, none := run("plain")
	slices1, some := run("slices")
	once, most := run("at once")
	if none != 0 || some == 0 || most < 20 {
		t.Errorf("the model lagged for %d, %d and %d entries", none, some, most)
	}
	if !slices.Equal(plain, slices1) || !slices.Equal(plain, once) {
		t.Errorf("digests %v, %v in slices, %v at once", plain, slices1, once)
	}
}

// TestImportDefers: a model that came by import lags like one that was made in the fold.
func TestImportDefers(t *testing.T) {
	const d = 128
	s := newScript(t)
	s.f.Defer()
	s.wide(d)
	m := s.f.Named("m")
	b, err := must(t)(m.State()).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	saved := fold.Saved{Compiled: m.Compiled, Seed: m.Seed, Policy: b}
	records, err := saved.Records(2, "n", "", 0, fold.MaxSaved)
	if err != nil {
		t.Fatal(err)
	}
	s.entry(records...)
	for _, id := range []eventlog.ID{1, 2} {
		lagged := 0
		for n := range 20 {
			x := make([]float64, d)
			x[n], x[n+1] = 0.5, 0.25
			e, _ := s.entry(decided(id, x...))
			s.entry(paid(e, id, 1, x...))
			if s.f.Model(id).Lagging() {
				lagged++
			}
		}
		if lagged == 0 {
			t.Errorf("model %d never lags", id)
		}
	}
}

// TestRecast: the past under another policy is that of a model that always had it; a log that was trimmed has none.
func TestRecast(t *testing.T) {
	s, o := newScript(t), newScript(t)
	cast := configOf(t, "m", "atoms", nil)
	s.entry(controlOf(t, eventlog.Create, 1, configOf(t, "m", "ensemble", func(c *model.Config) { c.Reward.Rule = "sum" }), true))
	o.entry(controlOf(t, eventlog.Create, 1, configOf(t, "m", "atoms", func(c *model.Config) { c.Reward.Rule = "sum" }), true))
	r := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		x, y := []float64{r.Float64() / 2, r.Float64() / 2}, r.Float64()
		for _, s := range []*script{s, o} {
			e, _ := s.entry(decided(1, x...))
			s.entry(paid(e, 1, y, x...))
			s.entry(closing(e, 1, 1))
		}
	}
	compiled, err := cast.Compile(model.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.past.Recast([]eventlog.ID{1}, s.f.Seq(), compiled)
	if err != nil {
		t.Fatal(err)
	}
	// atoms draws nothing at an update, so that the keys of events, which differ between the logs, do not matter.
	if want := must(t)(o.f.Named("m").State()); !bytes.Equal(got.Snapshot, bytesOf(t, want)) || got.Learned != 20 {
		t.Errorf("%d events were learned, or the state is another", got.Learned)
	}
	s.past.First.Store(2)
	if _, err := historyTrimmed(s).Recast([]eventlog.ID{1}, s.f.Seq(), compiled); err == nil {
		t.Error("a trimmed log is folded from its beginning")
	}
}

func historyTrimmed(s *script) *fold.History {
	h := historyOf(s.log)
	h.First.Store(2)
	h.Base.Store(2)
	return h
}

func action(x []float64) bandit.Action { return bandit.Action{X: x, Index: bandit.NoIndex} }
