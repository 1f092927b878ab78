package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// version is what decisions are made on: a model after an entry of the log. It never changes, but once a newer
// one is published its state may be gone (policyState).
type version struct {
	id, root eventlog.ID
	cfg      *compiled
	number   uint64 // of the configuration
	seed     rng.Key
	seq      uint64
	paused   bool
	failed   string
	state    *policyState // nil until the features are learned
	digest   eventlog.ID
}

// errOld says that the state of a version is gone: there is a newer version.
var errOld = errors.New("there is a newer version")

// usable returns why a version does not decide.
func (v *version) usable() error {
	switch {
	case v.paused:
		return errorf(Paused, "the model is paused")
	case v.failed != "":
		return &Error{Code: Unavailable, Want: "the model has failed: " + v.failed}
	}
	return nil
}

// bench is a pool of workers of one model.
type bench struct {
	mu   sync.Mutex
	free []*worker
}

// worker is what one decision needs to itself: a policy put into the state of a version, and scratch
// space.
type worker struct {
	at     *version
	policy learner
	batch  *feature.Batch
	x      []float64 // candidates, K×d
	which  []int     // which of the given actions they are; nil: all, in order
	ids    []string
	law    bandit.Law
	action bandit.Action
	buf    []byte
}

// take returns a worker in the state of v, or of the newest version when v's is gone.
func (e *entry) take(v *version) (*worker, error) {
	for {
		w, err := e.bench.take(v)
		if err == nil {
			return w, nil
		}
		if err != errOld {
			return nil, &Error{Code: Internal, Want: "the model cannot decide", Err: err}
		}
		v = e.version.Load()
		if err := v.usable(); err != nil {
			return nil, err
		}
	}
}

// take returns a worker in the state of v, or errOld.
func (b *bench) take(v *version) (*worker, error) {
	b.mu.Lock()
	var w *worker
	if n := len(b.free); n > 0 {
		at := n - 1
		for i := range b.free { // one that need not be restored
			if b.free[i].at == v {
				at = i
			}
		}
		w = b.free[at]
		b.free = slices.Delete(b.free, at, at+1)
	}
	b.mu.Unlock()
	ready, err := v.prepare(w)
	if err == errOld && w != nil {
		b.put(w)
	}
	return ready, err
}

func (b *bench) put(w *worker) {
	b.mu.Lock()
	if len(b.free) < 16 {
		b.free = append(b.free, w)
	}
	b.mu.Unlock()
}

// prepare puts a worker, or a new one, into the state of v. With errOld it has done nothing.
func (v *version) prepare(w *worker) (*worker, error) {
	if w != nil && w.at == v {
		return w, nil
	}
	if !v.state.hold() {
		return nil, errOld
	}
	defer v.state.release()
	if w == nil || w.at.cfg != v.cfg || w.at.seed != v.seed {
		p, err := v.cfg.newPolicy(v.seed)
		if err != nil {
			return nil, err
		}
		w = &worker{policy: p, batch: feature.NewBatch(v.cfg.encoder)}
	}
	if err := w.policy.Restore(v.state.data()); err != nil {
		return nil, err
	}
	w.at = v
	return w, nil
}

// encode reads the candidates of a request into w.x, w.which and w.ids. ids are those of all given
// actions.
func (w *worker) encode(r *DecideRequest) error {
	b, cfg := w.batch, w.at.cfg
	if err := b.Begin(r.Context); err != nil {
		return requestError(err)
	}
	w.ids = w.ids[:0]
	switch {
	case len(r.Packed) > 0:
		if len(r.Actions) > 0 {
			return invalid("packed", "", "expected either actions or packed")
		}
		if err := b.AddPacked(r.IDs, r.Packed); err != nil {
			return packedError(err)
		}
		w.ids = append(w.ids, r.IDs...)
	case len(r.IDs) > 0:
		return invalid("ids", "", "goes with packed; actions have their own id")
	case len(r.Actions) == 0:
		if len(cfg.config.Actions) == 0 {
			return invalid("actions", "", "expected at least one action: the model has no catalogue")
		}
		for _, a := range cfg.config.Actions {
			if err := b.Add(a.ID, a.Features); err != nil {
				return requestError(err)
			}
			w.ids = append(w.ids, a.ID)
		}
	default:
		for i, a := range r.Actions {
			f := a.Features
			if len(f) == 0 || string(f) == "null" {
				n, ok := cfg.catalogue[a.ID]
				switch {
				case ok:
					f = cfg.config.Actions[n].Features
				case len(cfg.catalogue) > 0:
					return invalid(fmt.Sprintf("actions[%d].features", i), a.ID, "is missing, and the catalogue has no action of this id")
				case cfg.config.Dim != 0:
					return invalid(fmt.Sprintf("actions[%d].features", i), a.ID, "is missing, expected a list of %d numbers", cfg.dim)
				}
			}
			if err := b.Add(a.ID, f); err != nil {
				return requestError(err)
			}
			w.ids = append(w.ids, a.ID)
		}
	}
	if err := w.name(b.Len(), len(r.Packed) > 0); err != nil {
		return err
	}
	return w.mask(r)
}

// name checks the ids of the k given actions; those without one are called by their place.
func (w *worker) name(k int, packed bool) error {
	field := func(i int) string {
		if packed {
			return fmt.Sprintf("ids[%d]", i)
		}
		return fmt.Sprintf("actions[%d].id", i)
	}
	for len(w.ids) < k {
		w.ids = append(w.ids, "")
	}
	named := false
	for i, id := range w.ids {
		if id == "" {
			w.ids[i] = strconv.Itoa(i)
		} else if named = true; len(id) > maxText || checkID("", id) != nil {
			return checkID(field(i), id)
		}
	}
	if !named {
		return nil
	}
	if k <= 32 {
		for i, id := range w.ids {
			if slices.Contains(w.ids[:i], id) {
				return invalid(field(i), id, "is the id of two actions")
			}
		}
		return nil
	}
	seen := make(map[string]bool, k)
	for i, id := range w.ids {
		if seen[id] {
			return invalid(field(i), id, "is the id of two actions")
		}
		seen[id] = true
	}
	return nil
}

// mask leaves out what is not available.
func (w *worker) mask(r *DecideRequest) error {
	k := w.batch.Len()
	if r.Available != nil && len(r.Available) != k {
		return invalid("available", len(r.Available), "expected %d truth values, one for each action", k)
	}
	w.which = w.which[:0]
	for i := range k {
		if (r.Available == nil || r.Available[i]) && !slices.Contains(r.Exclude, w.ids[i]) {
			w.which = append(w.which, i)
		}
	}
	if len(w.which) == 0 {
		return invalid("actions", "", "expected at least one action that is available")
	}
	if len(w.which) == k {
		w.which = w.which[:0]
		w.x = append(w.x[:0], w.batch.X()...)
		return nil
	}
	w.x = w.x[:0]
	for _, i := range w.which {
		w.x = append(w.x, w.batch.Row(i)...)
	}
	return nil
}

// given returns the place of candidate i among the actions of the request.
func (w *worker) given(i int) int {
	if len(w.which) == 0 {
		return i
	}
	return w.which[i]
}

// candidate is the inverse of given: −1 when that action is not available.
func (w *worker) candidate(given int) int {
	if len(w.which) == 0 {
		return given
	}
	return slices.Index(w.which, given)
}

// requestError names the field of the request in which package feature found something wrong.
func requestError(err error) error {
	var f *feature.Error
	if !errors.As(err, &f) {
		return &Error{Code: Invalid, Want: err.Error(), Err: err}
	}
	field := strings.TrimPrefix(f.Path, "sample[0].") // of feature.Learn
	if row, rest, ok := strings.Cut(field, "]"); ok && strings.HasPrefix(field, "actions[") && rest != ".id" {
		field = row + "].features" + rest
	}
	return &Error{Code: Invalid, Field: field, Value: f.Value, Want: f.Problem, Err: err}
}

// packedError is requestError for a packed matrix and its ids.
func packedError(err error) error {
	e := requestError(err).(*Error)
	row, rest, _ := strings.Cut(strings.TrimPrefix(e.Field, "actions"), "]")
	switch {
	case rest == ".id":
		e.Field = "ids" + row + "]"
	case row != "":
		e.Field, e.Want = "packed", "row "+row[1:]+": "+e.Want
	default:
		e.Field = "packed"
	}
	return e
}

// choice is what a version says to the candidates of a worker.
type choice struct {
	index    int // among the candidates
	num, den uint64
	member   uint32
	negative bool
}

// choose draws an action from the version's law under the floor. It depends on the version, the
// candidates and the nonce and on nothing else; w.law is the law of the policy without the floor.
func (w *worker) choose(nonce eventlog.ID) (choice, error) {
	v := w.at
	set, err := actionset.FiniteOf(v.cfg.dim, w.x)
	if err != nil {
		return choice{}, err
	}
	k := set.Len()
	source := draw(v.seed, v.id, nonce)
	if err := w.policy.Select(&w.action, set, source.Sub(0)); err != nil {
		return choice{}, err
	}
	if err := w.policy.Prob(&w.law, set, source.Sub(0)); err != nil {
		return choice{}, err
	}
	c := choice{index: w.action.Index}
	c.member, c.negative = drawn(w.policy, source.Sub(0))
	if v.cfg.floorNum > 0 && source.Intn(0, int(v.cfg.floorDen)) < int(v.cfg.floorNum) {
		c.index = source.Intn(1, k)
	}
	if len(w.law.Atoms) != k || c.index < 0 || c.index >= k {
		return choice{}, fmt.Errorf("the policy has a law of %d actions and chose %d of %d", len(w.law.Atoms), c.index, k)
	}
	c.num, c.den = w.propensity(c.index)
	if c.num == 0 {
		return choice{}, fmt.Errorf("the policy chose an action of probability 0")
	}
	return c, nil
}

// propensity returns the probability of candidate i under the floor. See the package comment.
func (w *worker) propensity(i int) (num, den uint64) {
	a, b, k := w.at.cfg.floorNum, w.at.cfg.floorDen, uint64(len(w.law.Atoms))
	atom, total := w.law.Atoms[i], w.law.Total
	if total > 0 && a == 0 {
		return atom.Count, total
	}
	if total > 0 {
		if hi, tk := bits.Mul64(total, k); hi == 0 {
			if hi, den := bits.Mul64(tk, b); hi == 0 {
				return (b-a)*atom.Count*k + a*total, den
			}
		}
	}
	e := float64(a) / float64(b)
	p := (1-e)*atom.P + e/float64(k)
	return uint64(math.Round(min(p, 1) * (1 << 53))), 1 << 53
}

// drawn returns the member j and whether ξ = −1 that a policy draws from a source, 0 and false when
// it has no members. It repeats what Select of package policy documents.
func drawn(p bandit.Policy, source rng.Source) (member uint32, negative bool) {
	one := func(m int, symmetric bool) (uint32, bool) {
		return uint32(source.Intn(0, m)), symmetric && source.Sign(1) < 0
	}
	switch p := p.(type) {
	case *policy.Mixed:
		return drawn(p.Base(), source.Sub(0))
	case *policy.Doubling:
		return drawn(p.Base(), source)
	case *policy.Ensemble:
		if o := p.Options(); o.Select == "random" && o.Reference == "coordinate" {
			return one(p.Members(), o.Symmetric)
		}
	case *policy.Incremental:
		return one(len(p.Models())/(2*p.Ridge().Dim()), true)
	case *policy.Atoms:
		return one(p.Options().M, p.Options().Symmetric)
	case *policy.Lazy:
		return one(p.Options().M, p.Options().Symmetric)
	}
	return 0, false
}

// regression is implemented by policies that keep a ridge regression.
type regression interface{ Ridge() *linalg.Ridge }

// explain describes every candidate.
func (w *worker) explain() []Explained {
	out := make([]Explained, len(w.law.Atoms))
	var theta []float64
	if r, ok := w.policy.(regression); ok {
		theta = r.Ridge().Theta()
	}
	d := w.at.cfg.dim
	for i := range out {
		at := w.given(i)
		num, den := w.propensity(i)
		out[i] = Explained{Chosen: Chosen{w.ids[at], at}, Propensity: Fraction{num, den}, Votes: w.law.Atoms[i].Count, Voters: w.law.Total}
		if theta != nil {
			score := linalg.Dot(w.x[i*d:(i+1)*d], theta)
			out[i].Score = &score
		}
	}
	return out
}

// The candidates of a decision in its record (Decision.Full), version 1:
//
//	1 | flags u8 | given: count, each the distance to the one before |
//	K | d | bitmap of K·d bits: not 0 | the numbers that are not 0, f32 or f64 little-endian
//
// flags: 1: given is there, the places of the candidates among the actions of the request;
// 2: numbers are float32, exactly; 4: the vectors are there.
const (
	fullGiven   = 1
	fullSingle  = 2
	fullVectors = 4

	// maxFull is the largest encoding: with it, the chosen vector and all texts at their longest, a
	// record still fits into a batch.
	maxFull = eventlog.MaxBatch - 8*feature.MaxDim - 8<<10
)

// appendFull appends the candidates of w. vectors says whether theirs are wanted.
func (w *worker) appendFull(b []byte, vectors bool) []byte {
	flags := byte(0)
	if len(w.which) > 0 {
		flags |= fullGiven
	}
	if vectors {
		flags |= fullVectors | fullSingle
	}
	mark := len(b) + 1
	b = append(b, 1, flags)
	if flags&fullGiven != 0 {
		b = binary.AppendUvarint(b, uint64(len(w.which)))
		last := 0
		for _, i := range w.which {
			b = binary.AppendUvarint(b, uint64(i-last))
			last = i
		}
	}
	if !vectors {
		return b
	}
	d := w.at.cfg.dim
	b = binary.AppendUvarint(b, uint64(len(w.x)/d))
	b = binary.AppendUvarint(b, uint64(d))
	from, to := len(b), len(b)+(len(w.x)+7)/8 // bitmap
	if out, ok := w.appendNumbers(b[:from], to, 4); ok {
		return out
	}
	b[mark] &^= fullSingle
	b, _ = w.appendNumbers(b[:from], to, 8)
	return b
}

// appendNumbers appends the bitmap, which ends at to, and the numbers in size bytes each. It is not ok when
// float32 has not the value of one.
func (w *worker) appendNumbers(b []byte, to, size int) (_ []byte, ok bool) {
	at, n := len(b), to
	most := to + size*len(w.x)
	b = slices.Grow(b, most-at)[:most]
	for i := 0; i < len(w.x); i, at = i+8, at+1 {
		var set byte
		for k, v := range w.x[i:min(i+8, len(w.x))] {
			if v == 0 {
				continue
			}
			set |= 1 << k
			if size == 8 {
				binary.LittleEndian.PutUint64(b[n:], math.Float64bits(v))
			} else if f, ok := narrow(v); ok {
				binary.LittleEndian.PutUint32(b[n:], f)
			} else {
				return nil, false
			}
			n += size
		}
		b[at] = set
	}
	return b[:n], true
}

// narrow returns the bits of v as a float32, and whether that has the value of v. Whole numbers are faster at
// it than conversions there and back.
func narrow(v float64) (uint32, bool) {
	u := math.Float64bits(v)
	if e := u >> 52 & 0x7ff; e-897 > 253 { // not a normal float32
		f := float32(v)
		return math.Float32bits(f), float64(f) == v
	}
	return uint32(u>>63)<<31 | uint32(u<<1>>30-896<<23), u<<35 == 0
}

// full is a decoded Decision.Full.
type full struct {
	given []int     // nil: all
	k, d  int       // 0 without vectors
	x     []float64 // k×d
}

// decodeFull reads what appendFull wrote; other bytes are an error.
func decodeFull(b []byte) (f full, err error) {
	if len(b) == 0 {
		return f, nil
	}
	r := reader{b: b}
	version, flags := r.byte(), r.byte()
	if version != 1 || flags&^(fullGiven|fullSingle|fullVectors) != 0 {
		return f, errors.New("candidates: an unknown form")
	}
	if flags&fullGiven != 0 {
		last := uint64(0)
		f.given = make([]int, r.count())
		for i := range f.given {
			if last += r.uint(); last > 1<<20 {
				return f, errors.New("candidates: an impossible place")
			}
			f.given[i] = int(last)
		}
	}
	if flags&fullVectors != 0 {
		k, d := r.uint(), r.uint()
		if r.err != nil || k == 0 || d == 0 || k > 1<<20 || d > feature.MaxDim || (k*d+7)/8 > uint64(len(r.b)) {
			return f, errors.New("candidates: an impossible shape")
		}
		f.k, f.d = int(k), int(d)
		f.x = make([]float64, f.k*f.d)
		bitmap := r.take((len(f.x) + 7) / 8)
		for i := range f.x {
			switch {
			case bitmap[i/8]>>(i%8)&1 == 0:
			case flags&fullSingle != 0:
				if v := r.take(4); v != nil {
					f.x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))
				}
			default:
				f.x[i] = math.Float64frombits(r.fixed())
			}
			if f.x[i]-f.x[i] != 0 {
				return f, fmt.Errorf("candidates: number %d is not finite", i)
			}
		}
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("too long")
	}
	if r.err != nil {
		return full{}, fmt.Errorf("candidates: %w", r.err)
	}
	return f, nil
}
