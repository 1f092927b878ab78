package choose

import (
	"errors"
	"math"
	"slices"
	"sync"

	"troupe/bandit"
	"troupe/budget"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// Version is what decisions are made on: a model after an entry of the log. It never changes. Once a newer
// one is published its state may be gone (fold.State).
type Version struct {
	ID, Root eventlog.ID
	Compiled *model.Compiled
	Number   uint64 // of the configuration
	Seed     rng.Key
	Seq      uint64
	Paused   bool
	Failed   string
	State    *fold.State
	Digest   eventlog.ID  // of the state
	Keeps    bool         // decisions keep their requests, see fold.Learning
	Notes    [5]uint64    // decisions with each note, up to Seq, in the order of their bits
	Spending budget.Pacer // of a model with a budget, after Seq
	Floors   []model.ActionFloor
	Learned  uint64 // events that the state has learned
	Plays    bool   // a guarded decision plays the policy, and not the baseline
}

// Meanwhile returns the version of a model that lags behind its log (fold.Fold.Defer): the state of v, with what else
// has changed. The price of a budget belongs to the state: a decision names the entry of both.
func (v *Version) Meanwhile(m *fold.Model) *Version {
	w := *v
	w.Paused, w.Failed, w.Notes = m.Paused, m.Failed, m.Notes
	return &w
}

// VersionOf returns the version of a model after entry seq. The caller holds m's state as long as the
// version is in use.
func VersionOf(m *fold.Model, seq uint64) (*Version, error) {
	state, err := m.State()
	if err != nil {
		return nil, err
	}
	v := &Version{
		ID: m.ID, Root: m.Root, Compiled: m.Compiled, Number: m.Version, Seed: m.Seed, Seq: seq,
		Paused: m.Paused, Failed: m.Failed, State: state, Digest: state.Digest(), Keeps: m.Keeps(), Notes: m.Notes,
	}
	if m.Spending != nil {
		v.Spending = m.Spending.Pacer
	}
	v.Floors, v.Learned = m.Compiled.Floors(m.Counts.Decisions), m.Counts.Learned
	v.Plays = m.GuardPlays()
	return v, nil
}

// FromSaved returns the version of a saved model.
func FromSaved(s *fold.Saved) *Version {
	return &Version{ID: 1, Root: 1, Compiled: s.Compiled, Number: 1, Seed: s.Seed, State: s.State()}
}

// ErrOld: the state of a version is gone, because there is a newer version.
var ErrOld = errors.New("there is a newer version")

// Estimate is what a version whose policy has a linear estimate knows of its coordinates.
type Estimate struct {
	Theta []float64 // θ̂, nil for other policies
	// standard deviation of the members around θ̂; nil without members, and where they are too many to compute
	Spread []float64
	LogDet float64 // log det V/λ^d of a ridge regression
}

// maxSpread bounds the operations for Estimate.Spread: members times d².
const maxSpread = 1 << 28

// Estimate returns that of the version. Cost d² for each member.
func (v *Version) Estimate() (e Estimate, err error) {
	w, err := v.Worker(nil)
	if err != nil {
		return e, err
	}
	defer w.Release()
	p := bandit.Innermost(w.policy)
	switch r := p.(type) {
	case regression:
		e.Theta, e.LogDet = slices.Clone(r.Ridge().Theta()), r.Ridge().LogDetRatio()
	case interface{ Root() policy.SquareRoot }:
		e.Theta, e.LogDet = slices.Clone(r.Root().Theta()), r.Root().LogDetRatio()
	}
	members := 0
	if r, ok := p.(interface{ Models() int }); ok {
		members = (r.Models() + 1) / 2
	}
	if r, ok := p.(interface{ Members() int }); ok {
		members = r.Members()
	}
	d := v.Compiled.Dim
	var model func(dst []float64, j int, sign float64)
	switch r := p.(type) {
	case interface {
		Model(dst []float64, j int, sign float64)
	}:
		model = r.Model
	case interface {
		Model(dst []float64, decision uint64, j int, sign float64)
	}:
		model = func(dst []float64, j int, sign float64) { r.Model(dst, 0, j, sign) }
	default:
		return e, nil
	}
	if members == 0 || members*d*d > maxSpread {
		return e, nil
	}
	e.Theta, e.Spread = make([]float64, d), make([]float64, d)
	model(e.Theta, 0, 0) // also where another model than the regression plays
	member := make([]float64, d)
	for j := range members {
		model(member, j, 1)
		for i, x := range member {
			x -= e.Theta[i]
			e.Spread[i] += float64(x*x) / float64(members)
		}
	}
	for i, x := range e.Spread {
		e.Spread[i] = math.Sqrt(x)
	}
	return e, nil
}

// Worker is what one decision needs for itself: a policy in the state of a version, and scratch space.
// Not safe for concurrent use.
type Worker struct {
	Version *Version
	IDs     []string  // of the actions of the request
	X       []float64 // the candidates, K×d; none with hashed features

	policy model.Policy
	batch  *feature.Batch       // nil with hashed features
	hashed *feature.HashedBatch // nil with a schema
	held   bool                 // the state of Version
	places []int                // which of the actions the candidates are; empty: all, in order
	sparse sparse               // the candidates with hashed features
	costs  []float64            // of the candidates; none where the request has none
	groups groups
	each   bool // the actions of the request have their own costs
	market market
	floors floors
	limits limits
	unit   eventlog.ID // of the next choice, 0 for none
	span   uint64
	law    bandit.Law
	action bandit.Action
}

// Worker puts a worker, or with nil a new one, into the state of v, which it holds until Release where its policy reads
// it. With ErrOld it has done nothing.
func (v *Version) Worker(w *Worker) (*Worker, error) {
	same := w != nil && w.Version == v
	if same && (w.held || !v.State.Kept()) {
		return w, nil
	}
	if !v.State.Hold() {
		return nil, ErrOld
	}
	if same {
		w.held = true
		return w, nil
	}
	if w != nil {
		w.Release()
	}
	w, err := v.put(w)
	if err != nil || !v.State.Kept() {
		v.State.Release()
		return w, err
	}
	w.held = true
	return w, nil
}

// Release ends the hold of the state. The next decision of the worker is after another call of Version.Worker.
func (w *Worker) Release() {
	if w.held {
		w.held = false
		w.Version.State.Release()
	}
}

func (v *Version) put(w *Worker) (*Worker, error) {
	if w == nil || w.Version.Compiled != v.Compiled || w.Version.Seed != v.Seed {
		p, err := v.Compiled.NewPolicy(v.Seed)
		if err != nil {
			return nil, err
		}
		w = &Worker{policy: p}
		if h := v.Compiled.Hashed; h != nil {
			w.hashed = feature.NewHashedBatch(h, nil)
		} else {
			w.batch = feature.NewBatch(v.Compiled.Encoder)
			w.batch.Lenient(v.Compiled.Config.Features.Learned)
		}
	}
	if v.State != nil && w.Version != nil && w.Version.State == v.State { // another version of the same state
		w.Version = v
		return w, nil
	}
	if w.hashed != nil {
		w.hashed.Use(v.State.Statistics())
	}
	if err := v.State.Put(w.policy); err != nil {
		return nil, err
	}
	w.Version = v
	return w, nil
}

// StateDigest returns the digest of the policy's state that the worker has now, 0 when it cannot be encoded.
func (w *Worker) StateDigest() eventlog.ID {
	b, err := w.policy.AppendSnapshot(nil)
	if err != nil {
		return 0
	}
	return fold.Digest(b)
}

// Snapshot returns the bytes of the policy in the state of v, nil without one.
func (v *Version) Snapshot() ([]byte, error) {
	if b := v.State.Bytes(); b != nil || v.State == nil {
		return slices.Clone(b), nil
	}
	w, err := v.Worker(nil)
	if err != nil {
		return nil, err
	}
	defer w.Release()
	return w.policy.AppendSnapshot(nil)
}

// Pool keeps the idle workers of one model, at most 16. The zero value is empty. Safe for concurrent use.
type Pool struct {
	mu   sync.Mutex
	free []*Worker
}

// Take returns a worker in the state of v, or ErrOld. It prefers one that is in this state already.
func (p *Pool) Take(v *Version) (*Worker, error) {
	p.mu.Lock()
	var w *Worker
	if n := len(p.free); n > 0 {
		at := n - 1
		for i := range p.free {
			if p.free[i].Version == v {
				at = i
			}
		}
		w = p.free[at]
		p.free = slices.Delete(p.free, at, at+1)
	}
	p.mu.Unlock()
	ready, err := v.Worker(w)
	if err == ErrOld && w != nil {
		p.Put(w)
	}
	return ready, err
}

// Drop gives the idle workers up.
func (p *Pool) Drop() {
	p.mu.Lock()
	p.free = nil
	p.mu.Unlock()
}

// Put gives a worker back.
func (p *Pool) Put(w *Worker) {
	w.Release()
	p.mu.Lock()
	if len(p.free) < 16 {
		p.free = append(p.free, w)
	}
	p.mu.Unlock()
}

// sparse are the candidates with hashed features. What it holds belongs to a batch, or to a record.
type sparse struct {
	context []feature.Atom
	actions [][]feature.Atom // of each candidate
	at      [][]uint32
	x       [][]float64
}

func (s *sparse) clear() {
	s.actions, s.at, s.x = s.actions[:0], s.at[:0], s.x[:0]
}

// read takes the actions of a batch at these places.
func (s *sparse) read(b *feature.HashedBatch, places []int) {
	s.clear()
	s.context = b.Context()
	for _, i := range places {
		at, x := b.Nonzeros(i)
		s.actions, s.at, s.x = append(s.actions, b.Action(i)), append(s.at, at), append(s.x, x)
	}
}
