package fold_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/policy"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// requestsOf is a configuration of a model that reads requests.
func requestsOf(t *testing.T, name string, edit func(*model.Config)) model.Config {
	t.Helper()
	c := model.Default(name)
	edit(&c)
	out, err := c.Admit(model.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return out.Config
}

// atomsOf returns the atoms of a context and of an action, as a record has them.
func atomsOf(t *testing.T, context, id string) []byte {
	t.Helper()
	b := feature.NewAtomBatch(feature.NewAtomEncoder(feature.Limits{}))
	if err := b.Begin([]byte(context)); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(id, nil); err != nil {
		t.Fatal(err)
	}
	return feature.AppendAtoms(feature.AppendAtoms(nil, b.Context()), b.Action(0))
}

// decision is one of a model that reads requests, in a fold and as its policy sees it.
type decision struct {
	key   eventlog.Event
	atoms []byte
	a     bandit.Action
}

// watched is a script with one model that reads requests, and its policy taught beside it.
type watched struct {
	*script
	own *policy.Effects
	c   *model.Compiled
	id  eventlog.ID
	all []decision
}

func newWatched(t *testing.T, edit func(*model.Config)) *watched {
	s := newScript(t)
	w := &watched{script: s, id: 1}
	s.entry(controlOf(t, eventlog.Create, 1, requestsOf(t, "m", edit), true))
	w.c = s.f.Model(1).Compiled
	p, err := w.c.NewPolicy(s.f.Model(1).Seed)
	if err != nil {
		t.Fatal(err)
	}
	w.own = p.(*policy.Effects)
	return w
}

// decide makes decision n.
func (w *watched) decide() decision {
	w.t.Helper()
	n := len(w.all)
	d := decision{atoms: atomsOf(w.t, fmt.Sprintf(`{"city": "c%d", "age": %d}`, n%3, n*7%50), string('a'+rune(n%2)))}
	r := decided(w.id)
	r.Atoms = d.atoms
	e, out := w.entry(r)
	w.want(out, fold.Accepted)
	d.key = e
	d.a = w.action(d.atoms)
	if err := w.own.Decided(fold.EventKey(d.key), d.a); err != nil {
		w.t.Fatal(err)
	}
	w.all = append(w.all, d)
	return d
}

func (w *watched) action(atoms []byte) bandit.Action {
	w.t.Helper()
	context, rest, err := feature.ReadAtoms(nil, atoms)
	if err != nil {
		w.t.Fatal(err)
	}
	action, _, err := feature.ReadAtoms(nil, rest)
	if err != nil {
		w.t.Fatal(err)
	}
	at, x := w.c.Atoms.AppendVector(nil, nil, context, action)
	return bandit.Action{At: at, X: x, Index: bandit.NoIndex}
}

// pay rewards a decision, by how it is to be.
func (w *watched) pay(d decision, y float64) {
	w.t.Helper()
	r := paid(d.key, w.id, y)
	r.Atoms = d.atoms
	_, out := w.entry(r)
	w.want(out, fold.Accepted)
	w.settled(d, y)
}

func (w *watched) settled(d decision, y float64) {
	if err := w.own.Settled(fold.EventKey(d.key), d.a, y); err != nil {
		w.t.Fatal(err)
	}
}

// close ends the window of a decision without a reward, with a default or without one.
func (w *watched) close(d decision, defaulted bool) {
	w.t.Helper()
	r := closing(d.key, w.id, 1)
	if defaulted {
		r.Default, r.Y = true, .25
	}
	_, out := w.entry(r)
	w.want(out, fold.Accepted)
	if defaulted {
		w.settled(d, .25)
	} else {
		w.own.Dropped(fold.EventKey(d.key))
	}
}

// agrees compares the state of the model's policy with that of the policy that was taught beside it.
func (w *watched) agrees(when string) {
	w.t.Helper()
	past, err := historyOf(w.log).PolicyAt([]eventlog.ID{w.id}, w.f.Seq())
	if err != nil {
		w.t.Fatal(err)
	}
	want, err := w.own.AppendSnapshot(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if !bytes.Equal(past.Snapshot, want) {
		w.t.Errorf("%s: the log says another state than its decisions and rewards", when)
	}
	if got := must(w.t)(w.f.Model(w.id).State()).Digest(); got != past.Digest {
		w.t.Errorf("%s: the fold has the digest %v, the log says %v", when, got, past.Digest)
	}
}

// state returns the bytes of the fold.
func (w *watched) state() []byte {
	w.t.Helper()
	b, err := w.f.AppendState(nil, w.chain)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// TestWitness: a policy that looks at decisions sees each of them, and what came of it: a reward at once or after later
// decisions, a default, or nothing. Its state is that of a policy that is told the same here. A fold that was restored
// between a decision and its reward, and one whose model was laid aside there, have the same bytes as one that was not.
func TestWitness(t *testing.T) {
	for _, laid := range []bool{false, true} {
		w := newWatched(t, func(c *model.Config) { c.Reward.Rule = "first" })
		r := rand.New(rand.NewPCG(1, 9))
		var open []decision
		var states [][]byte
		y := func() float64 { return float64(r.IntN(2)) }
		for n := range 200 {
			d := w.decide()
			switch {
			case n%5 == 4:
				open = append(open, d) // its reward is late, or never comes
			default:
				w.pay(d, y())
			}
			if len(open) > 6 {
				switch k := r.IntN(len(open)); r.IntN(4) {
				case 0:
					w.close(open[k], false)
					open = append(open[:k:k], open[k+1:]...)
				case 1:
					w.close(open[k], true)
					open = append(open[:k:k], open[k+1:]...)
				default:
					w.pay(open[k], y())
					open = append(open[:k:k], open[k+1:]...)
				}
			}
			if n%20 == 4 { // a decision is open
				states = append(states, w.state())
				if laid {
					if err := w.f.LayAside(w.f.Model(1)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n%50 == 49 {
				w.agrees(fmt.Sprint("after decision ", n))
			}
		}
		final := w.state()
		for i, b := range states {
			f, chain, err := fold.Restore(b, w.past)
			if err != nil {
				t.Fatal(err)
			}
			w.goesOnTo(f, chain, w.f.Seq(), final, fmt.Sprint("state ", i))
			if got, want := must(t)(f.Model(1).State()).Digest(), must(t)(w.f.Model(1).State()).Digest(); got != want {
				t.Errorf("from state %d the digest is %v, want %v", i, got, want)
			}
		}
	}
}

// TestWitnessWoken: a decision builds the policy of a model that is laid aside, and so does a window that closes without a
// reward. Laid aside again before anything was learned, the model has what it has seen, also on a shelf.
func TestWitnessWoken(t *testing.T) {
	w := newWatched(t, func(*model.Config) {})
	w.f = fold.NewOn(w.past, newShelf(t))
	w.goesOn()
	down := func() {
		t.Helper()
		if err := w.f.LayAside(w.f.Model(1)); err != nil {
			t.Fatal(err)
		}
		if w.f.Model(1).Awake() {
			t.Fatal("the model is awake")
		}
	}
	for range 30 {
		w.pay(w.decide(), float64(len(w.all)%2))
	}
	down()
	a, b, c := w.decide(), w.decide(), w.decide()
	if !w.f.Model(1).Awake() {
		t.Error("the model has not seen a decision")
	}
	down()
	w.agrees("three decisions later")
	w.close(b, false)
	down()
	w.agrees("a window closed")
	w.pay(c, 1)
	down()
	w.pay(a, 0)
	w.agrees("at the end")
	live := fold.New(w.past)
	w.goesOnTo(live, eventlog.NewChain(0, 1), w.f.Seq(), w.state(), "a fold that lays nothing aside")
}

// goesOn folds the log from its beginning.
func (w *watched) goesOn() {
	w.t.Helper()
	last := w.chain.Last()
	w.chain = eventlog.NewChain(0, 1)
	if err := (reader{w.log}).Replay(w.chain, last, func(d eventlog.Delivery) error { _, err := w.f.Apply(d); return err }); err != nil {
		w.t.Fatal(err)
	}
}

// TestCopiesDropOpen: a clone and a rollback go on without the decisions that are open in their source, whether it comes
// from a fold that saw them, from a snapshot, or from the log; rewards of those are learned as they come, by the model
// to which they belong.
func TestCopiesDropOpen(t *testing.T) {
	for _, laid := range []bool{false, true} {
		w := newWatched(t, func(*model.Config) {})
		for range 60 {
			w.pay(w.decide(), float64(len(w.all)%2))
		}
		open := []decision{w.decide(), w.decide()}
		early := w.f.Seq()
		w.pay(w.decide(), 1)
		before := w.state()
		if laid {
			if err := w.f.LayAside(w.f.Model(1)); err != nil {
				t.Fatal(err)
			}
		}
		alone := func(own *policy.Effects) []byte {
			t.Helper()
			b, err := own.AppendSnapshot(nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := w.c.NewPolicy(w.f.Model(1).Seed)
			if err == nil {
				err = p.Restore(b)
			}
			if err != nil {
				t.Fatal(err)
			}
			p.(*policy.Effects).Alone()
			if b, err = p.AppendSnapshot(nil); err != nil {
				t.Fatal(err)
			}
			return b
		}
		of := func(id ...eventlog.ID) []byte {
			t.Helper()
			past, err := historyOf(w.log).PolicyAt(id, w.f.Seq())
			if err != nil {
				t.Fatal(err)
			}
			return past.Snapshot
		}
		for i, at := range []uint64{w.f.Seq(), early} {
			id := eventlog.ID(2 + i)
			c := w.f.Model(1).Compiled.Config
			c.ID = fmt.Sprint("copy-", id)
			clone := controlOf(t, eventlog.Clone, id, c, false)
			clone.From, clone.AtSeq = 1, at
			_, out := w.entry(clone)
			w.want(out, fold.Accepted)
		}
		if !bytes.Equal(of(2, 1), alone(w.own)) {
			t.Error("a clone has other than the state of its source without the open decisions")
		}
		w.pay(open[0], 1) // the source's own
		if bytes.Equal(of(2, 1), of(1)) {
			t.Error("the clone has learned the reward of a decision of its source")
		}
		_, out := w.entry(&eventlog.Control{Act: eventlog.Rollback, Model: 4, From: 1, Name: "m", AtSeq: early})
		w.want(out, fold.Accepted)
		if !bytes.Equal(of(4, 1), of(3, 1)) {
			t.Error("a clone and a rollback to the same entry have other states")
		}
		w.id = 1
		r := paid(open[1].key, 1, 1) // decided before the entry: the new incarnation learns it
		r.Atoms = open[1].atoms
		_, out = w.entry(r)
		w.want(out, fold.Accepted)
		if m := w.f.Model(4); m.Untaken.Refused != 0 || m.Counts.Learned != 61 {
			t.Errorf("after the rollback %d events are learned: %s", m.Counts.Learned, m.Untaken.Why)
		}
		final := w.state()
		f, chain, err := fold.Restore(before, w.past)
		if err != nil {
			t.Fatal(err)
		}
		w.goesOnTo(f, chain, w.f.Seq(), final, "a snapshot")
		w.goesOnTo(fold.New(historyOf(w.log)), eventlog.NewChain(0, 1), w.f.Seq(), final, "the beginning")
	}
}
