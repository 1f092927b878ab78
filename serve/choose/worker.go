package choose

import (
	"errors"
	"slices"
	"sync"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
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
	State    *fold.State // nil until the features are learned
	Digest   eventlog.ID // of the state
	Keeps    bool        // decisions keep their requests, see fold.Learning
	Notes    [5]uint64   // decisions with each note, up to Seq, in the order of their bits
}

// Meanwhile returns the version of a model that lags behind its log (fold.Fold.Defer): the state of v, with what else
// has changed.
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
	return &Version{
		ID: m.ID, Root: m.Root, Compiled: m.Compiled, Number: m.Version, Seed: m.Seed, Seq: seq,
		Paused: m.Paused, Failed: m.Failed, State: state, Digest: state.Digest(), Keeps: m.Keeps(), Notes: m.Notes,
	}, nil
}

// FromSaved returns the version of a saved model.
func FromSaved(s *fold.Saved) *Version {
	return &Version{ID: 1, Root: 1, Compiled: s.Compiled, Number: 1, Seed: s.Seed, State: s.State()}
}

// ErrOld: the state of a version is gone, because there is a newer version.
var ErrOld = errors.New("there is a newer version")

// Estimate is θ̂ and log det V/λ^d of a version whose policy is a ridge regression, nil and 0 otherwise.
func (v *Version) Estimate() (theta []float64, logDet float64, err error) {
	w, err := v.Worker(nil)
	if err != nil {
		return nil, 0, err
	}
	if r, ok := w.policy.(regression); ok {
		theta, logDet = slices.Clone(r.Ridge().Theta()), r.Ridge().LogDetRatio()
	}
	return theta, logDet, nil
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
	places []int                // which of the actions the candidates are; empty: all, in order
	sparse sparse               // the candidates with hashed features
	groups groups
	law    bandit.Law
	action bandit.Action
}

// Worker puts a worker, or with nil a new one, into the state of v. With ErrOld it has done nothing.
func (v *Version) Worker(w *Worker) (*Worker, error) {
	if w != nil && w.Version == v {
		return w, nil
	}
	if !v.State.Hold() {
		return nil, ErrOld
	}
	defer v.State.Release()
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
	p.mu.Lock()
	if len(p.free) < 16 {
		p.free = append(p.free, w)
	}
	p.mu.Unlock()
}
