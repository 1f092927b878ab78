// Package train makes the state of a model from a log: what a server's model would be if it had learned these events.
//
// Where a policy merges (bandit.Merger: atoms, lazy), blocks of events are added up apart and joined by a binary tree
// over block numbers: the same bits for any number of workers, and within rounding of one update after the other. Every
// other kind learns in the order of the log, on one worker.
package train

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// Block is how many events are added up apart.
const Block = 65_536

// Event is what was played and what it paid. Atoms are those of the context and of the action, each as
// feature.AppendAtoms writes them; other models have X.
type Event struct {
	X      []float64
	Atoms  []byte
	Reward float64
	Given  bool       // false: a default reward
	Draw   rng.Source // of the targets U of this event
	Time   int64      // ns since 1970, 0 where it is not known; for a half-life that is a time
}

// Options configure a Trainer.
type Options struct {
	// Cap N keeps the estimate of n > N events and gives the members the variance of N: every event counts ρ = N/n, as
	// x√ρ and y√ρ, so that V − λI and b are ρ times their sums and the sums of the members √ρ times theirs. A policy
	// whose state is no sum over events (bandit.Additive) learns N of the events instead, evenly spaced. n is Events.
	// 0: no cap.
	Cap, Events int
	Workers     int // 0: 1
	block       int // for tests
}

// Trainer learns a log. Add every event, then Finish. Not safe for concurrent use.
type Trainer struct {
	compiled *model.Compiled
	seed     rng.Key
	o        Options
	root     float64 // √ρ
	thins    bool    // N of the events are learned
	memory   fold.Memory
	n        int // events that were given
	learned  int
	p        model.Policy // that learns in order
	merges   bool
	block    []Event
	running  []chan trained // blocks under way, in their order
	stack    []ranked
}

// trained is a block that was added up.
type trained struct {
	p   model.Policy
	err error
}

// ranked is the join of 2^rank blocks.
type ranked struct {
	rank int
	p    model.Policy
}

// New returns a trainer of a model that was compiled from its configuration. Errors are those of its policy.
func New(c *model.Compiled, seed rng.Key, o Options) (*Trainer, error) {
	t := &Trainer{compiled: c, seed: seed, o: o, root: 1}
	if t.o.block == 0 {
		t.o.block = Block
	}
	t.o.Workers = max(t.o.Workers, 1)
	var err error
	if t.p, err = c.NewPolicy(seed); err != nil {
		return nil, err
	}
	if o.Cap > 0 && o.Events > o.Cap {
		if a, ok := t.p.(bandit.Additive); ok && a.Additive() == nil {
			t.root = math.Sqrt(float64(o.Cap) / float64(o.Events))
		} else {
			t.thins = true
		}
	}
	other, err := c.NewPolicy(seed)
	if err != nil {
		return nil, err
	}
	t.merges = merge(t.p, other) == nil
	if t.p, err = c.NewPolicy(seed); err != nil {
		return nil, err
	}
	return t, nil
}

// Merges reports whether blocks are added up apart.
func (t *Trainer) Merges() bool { return t.merges }

// Len returns how many events were learned.
func (t *Trainer) Len() int { return t.learned }

// Thins reports whether a cap leaves events out.
func (t *Trainer) Thins() bool { return t.thins }

// merge adds what b has seen to a.
func merge(a, b model.Policy) error {
	if m, ok := a.(bandit.Merger); ok {
		return m.Merge(b)
	}
	return errors.ErrUnsupported
}

// Add learns an event. It keeps nothing of it.
func (t *Trainer) Add(e Event) error {
	if t.n++; t.thins && t.n*t.o.Cap/t.o.Events == (t.n-1)*t.o.Cap/t.o.Events {
		return nil
	}
	t.learned++
	if t.compiled.Remembers() {
		t.memory.Rewarded(t.compiled, e.Reward, e.Given, 0)
	}
	if !t.merges {
		if err := t.learn(t.p, &e); err != nil {
			return fmt.Errorf("event %d: %w", t.n, err)
		}
		return nil
	}
	e.X, e.Atoms = slices.Clone(e.X), slices.Clone(e.Atoms)
	if t.block = append(t.block, e); len(t.block) < t.o.block {
		return nil
	}
	return t.dispatch()
}

// learn is one update.
func (t *Trainer) learn(p model.Policy, e *Event) error {
	a := bandit.Action{X: e.X, Index: bandit.NoIndex}
	if h := t.compiled.Atoms; h != nil {
		context, rest, err := feature.ReadAtoms(nil, e.Atoms)
		var action []feature.Atom
		if err == nil {
			action, rest, err = feature.ReadAtoms(nil, rest)
		}
		if err != nil || len(rest) > 0 || len(action) == 0 {
			return errors.Join(err, errors.New("the atoms are not those of a context and an action"))
		}
		a.X = nil
		a.At, a.X = h.AppendVector(nil, nil, context, action)
	} else if len(e.X) != t.compiled.Dim {
		return fmt.Errorf("a vector of %d numbers, expected %d", len(e.X), t.compiled.Dim)
	}
	y := e.Reward
	if t.root != 1 {
		a.X = slices.Clone(a.X)
		for i := range a.X {
			a.X[i] *= t.root
		}
		y *= t.root
	}
	if c, ok := p.(policy.Clocked); ok && c.Timed() {
		if e.Time == 0 {
			return errors.New("it has no time, which half_life needs; give a number of events")
		}
		c.Tick(e.Time)
	}
	return p.Update(a, y, e.Draw)
}

// dispatch gives the block to a worker, and joins the oldest block when all workers are busy.
func (t *Trainer) dispatch() error {
	for len(t.running) >= t.o.Workers {
		if err := t.join(); err != nil {
			return err
		}
	}
	block, done, first := t.block, make(chan trained, 1), t.learned-len(t.block)
	t.block, t.running = nil, append(t.running, done)
	go func() {
		p, err := t.compiled.NewPolicy(t.seed)
		for i := range block {
			if err != nil {
				break
			}
			if err = t.learn(p, &block[i]); err != nil {
				err = fmt.Errorf("event %d: %w", first+i+1, err)
			}
		}
		done <- trained{p, err}
	}()
	return nil
}

// join takes the oldest block: two joins of 2^r blocks become one of 2^(r+1).
func (t *Trainer) join() error {
	b := <-t.running[0]
	if t.running = t.running[1:]; b.err != nil {
		return b.err
	}
	t.stack = append(t.stack, ranked{0, b.p})
	for n := len(t.stack); n > 1 && t.stack[n-1].rank == t.stack[n-2].rank; n = len(t.stack) {
		if err := merge(t.stack[n-2].p, t.stack[n-1].p); err != nil {
			return err
		}
		t.stack[n-2].rank++
		t.stack = t.stack[:n-1]
	}
	return nil
}

// Finish returns the model. beside is what it keeps besides what it learned from rewards: statistics of features, and
// how many windows closed without a reward.
func (t *Trainer) Finish(beside fold.Memory) (*fold.Saved, error) {
	if t.merges {
		if len(t.block) > 0 {
			if err := t.dispatch(); err != nil {
				return nil, err
			}
		}
		for len(t.running) > 0 {
			if err := t.join(); err != nil {
				return nil, err
			}
		}
		for n := len(t.stack); n > 1; n-- {
			if err := merge(t.stack[n-2].p, t.stack[n-1].p); err != nil {
				return nil, err
			}
		}
		if len(t.stack) > 0 {
			t.p = t.stack[0].p
		}
	}
	s := &fold.Saved{Compiled: t.compiled, Seed: t.seed, Learned: uint64(t.learned)}
	if t.compiled.Remembers() {
		s.Memory = t.memory.Beside(beside)
	}
	var err error
	s.Policy, err = t.p.AppendSnapshot(nil)
	return s, err
}
