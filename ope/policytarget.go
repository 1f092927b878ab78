package ope

import (
	"errors"
	"fmt"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/feature"
	"troupe/logged"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// PolicyTarget is a policy of the registry as a target. Actions are vectors: their own numbers where the log has them;
// the context in a block for each action where it has only that; a schema of named features learned from the first 256
// events otherwise (until then it plays uniformly, and learns these events afterwards). Not safe for concurrent use.
type PolicyTarget struct {
	label   string
	options policy.Options
	learn   string // no, log or replay
	start   []byte // a snapshot
	key     rng.Key

	p       bandit.Policy
	l       *layout
	s       scratch
	waiting []*logged.Event
	set     bandit.ActionSet
	hashed  *feature.AtomEncoder // of the kinds that take sparse vectors, where the log has hashed or named features
	batch   *feature.AtomBatch
	law     bandit.Law
	drawn   bandit.Action
	rounds  uint64
	trained int
}

// NewPolicyTarget returns a target from decoded options. learn is no (frozen), log (after each event it learns what
// was played and paid) or replay (it learns matching events only).
func NewPolicyTarget(label string, options policy.Options, learn string, start []byte, seed uint64) *PolicyTarget {
	if learn == "" {
		learn = "no"
	}
	return &PolicyTarget{label: label, options: options, learn: learn, start: start,
		key: rng.NewKey(seed).Child("target").Child(label)}
}

// Name implements Target.
func (t *PolicyTarget) Name() string { return t.label }

// Trained returns how many events it has learned.
func (t *PolicyTarget) Trained() int { return t.trained }

// Empty reports whether it knows nothing: it has learned no event and began without a state.
func (t *PolicyTarget) Empty() bool { return t.trained == 0 && t.start == nil }

// Policy returns the policy, nil before the first event.
func (t *PolicyTarget) Policy() bandit.Policy { return t.p }

// reads returns whether a policy takes sparse vectors.
func (t *PolicyTarget) reads() bool {
	_, ok := t.options.(policy.RequestReader)
	return ok
}

// begin makes the policy when the vectors are known.
func (t *PolicyTarget) begin(first []*logged.Event) error {
	e := first[0]
	if t.reads() && (hasAtoms(e) || named(e)) {
		t.hashed = feature.NewAtomEncoder(feature.Limits{})
		t.batch = feature.NewAtomBatch(t.hashed)
		return t.make(t.hashed.Dim(), e.K, &layout{})
	}
	l, err := newLayout(first)
	if err != nil {
		return err
	}
	l.byID, l.slots = false, nil // a block for each index
	d := l.d
	switch {
	case l.keys != nil:
		if d *= len(l.keys); d > mostDense {
			return fmt.Errorf("%d coefficients for each of %d actions are too many for this kind of policy; the "+
				"kind effects takes them", l.d, len(l.keys))
		}
	case l.atoms:
	case l.blocks:
		d = l.d * e.K
	case l.enc == nil: // the actions' own numbers, and nothing of ours
		d = l.da
	}
	return t.make(d, e.K, l)
}

// mostDense is the largest dimension of a policy that keeps a matrix, where the log has hashed features.
const mostDense = 1024

func named(e *logged.Event) bool {
	return e.Named != nil || slices.ContainsFunc(e.Actions, func(a logged.Action) bool { return a.Named != nil })
}

func (t *PolicyTarget) make(d, arms int, l *layout) (err error) {
	if t.p, err = t.options.New(policy.Problem{Dim: d, Arms: arms, Init: t.key.Stream(rng.Init),
		Timed: true}); err != nil {
		return err
	}
	if t.start != nil {
		s, ok := t.p.(bandit.Snapshotter)
		if !ok {
			return errors.New("start: this policy has no snapshots")
		}
		if err := s.Restore(t.start); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	t.l = l
	return nil
}

// vectors makes the action set of an event.
func (t *PolicyTarget) vectors(e *logged.Event) error {
	var block []float64
	d := 0
	switch {
	case t.hashed != nil:
		return t.sparse(e)
	case t.l.keys != nil:
		z := t.l.vectors(e, &t.s)
		d = len(z) * len(t.l.keys)
		block = make([]float64, d*e.K)
		for k := range e.K {
			if b := t.l.block(e, k); b >= 0 {
				copy(block[k*d+b*len(z):], z)
			}
		}
	case t.l.atoms:
		z := t.l.vectors(e, &t.s)
		if z == nil {
			return errors.New("an event without candidates")
		}
		d, block = t.l.d, slices.Clone(z)
	case t.l.blocks:
		z := t.l.vectors(e, &t.s)
		if z == nil {
			return fmt.Errorf("a context of %d numbers, expected %d as at first", len(e.Context), t.l.dx)
		}
		d = len(z) * e.K
		block = make([]float64, d*e.K)
		for k := range e.K {
			copy(block[k*d+k*len(z):], z)
		}
	case t.l.enc != nil:
		z := t.l.vectors(e, &t.s)
		if z == nil {
			return errors.New("features that the schema of the first events refuses")
		}
		d, block = t.l.d, slices.Clone(z)
	default:
		d = t.l.da
		for i := range e.Actions {
			if len(e.Actions[i].X) != d {
				return fmt.Errorf("action %d has length %d, expected %d", i, len(e.Actions[i].X), d)
			}
			block = append(block, e.Actions[i].X...)
		}
	}
	set, err := actionset.FiniteOf(d, block)
	t.set = set
	return err
}

// sparse makes the action set of an event with hashed or named features.
func (t *PolicyTarget) sparse(e *logged.Event) error {
	if len(e.Actions) != e.K && hasAtoms(e) {
		return errors.New("an event without candidates")
	}
	from, at, x := []int{0}, []uint32(nil), []float64(nil)
	if !hasAtoms(e) {
		if err := t.batch.Begin(e.Named); err != nil {
			return err
		}
		for i := range e.K {
			var f []byte
			if i < len(e.Actions) {
				f = e.Actions[i].Named
			}
			if err := t.batch.Add(idOf(e, i), f); err != nil {
				return err
			}
		}
	}
	for i := range e.K {
		if hasAtoms(e) {
			at, x = t.hashed.AppendVector(at, x, e.Atoms, e.Actions[i].Atoms)
		} else {
			a, v := t.batch.Nonzeros(i)
			at, x = append(at, a...), append(x, v...)
		}
		from = append(from, len(at))
	}
	set, err := actionset.SparseOf(t.hashed.Dim(), from, at, x)
	t.set = set
	return err
}

// action returns action i of the event's set.
func (t *PolicyTarget) action(i int) bandit.Action {
	switch set := t.set.(type) {
	case *actionset.Finite:
		return bandit.Action{X: set.At(i), Index: i}
	case bandit.Sparse:
		at, x := set.Nonzeros(i)
		return bandit.Action{At: at, X: x, Index: i}
	}
	panic("ope: an action set of no kind that vectors makes")
}

// waits reports whether the first events must be seen before there are vectors.
func (t *PolicyTarget) waits(e *logged.Event) bool {
	return (named(e) || hasAtoms(e)) && !t.reads()
}

// Law implements Target: the exact law of the policy. Without one (the policy is no bandit.Prober) the target plays
// the action that Select draws with numbers of its own; only --learn replay takes that.
func (t *PolicyTarget) Law(dst []float64, e *logged.Event, _ []float64) error {
	if t.l == nil {
		if t.waits(e) {
			return Uniform{}.Law(dst, e, nil)
		}
		if err := t.begin([]*logged.Event{e}); err != nil {
			return err
		}
	}
	if err := t.vectors(e); err != nil {
		return err
	}
	clear(dst)
	draw := t.key.Stream(rng.Select).Round(t.rounds)
	p, ok := t.p.(bandit.Prober)
	err := error(bandit.ErrUnsupported)
	if ok {
		err = p.Prob(&t.law, t.set, draw)
	}
	if err == nil {
		for i, a := range t.law.Atoms {
			dst[i] = a.P
		}
	}
	if err != nil && (!errors.Is(err, bandit.ErrUnsupported) || t.learn != "replay") {
		if errors.Is(err, bandit.ErrUnsupported) {
			return fmt.Errorf("this policy has no exact law (%w); --learn replay takes it", err)
		}
		return err
	}
	if t.learn == "replay" {
		if serr := t.p.Select(&t.drawn, t.set, draw); serr != nil {
			return serr
		}
		if err != nil {
			dst[t.drawn.Index] = 1
		}
	}
	return nil
}

// Learn implements Learner.
func (t *PolicyTarget) Learn(e *logged.Event) error {
	t.rounds++
	if t.l == nil {
		if t.learn == "no" {
			return errors.New("a schema of named features needs 256 events before the first one: --split, or --learn " +
				"log")
		}
		t.waiting = append(t.waiting, e.Clone())
		if len(t.waiting) < firstFit {
			return nil
		}
		return t.catchUp()
	}
	if t.learn == "no" || t.learn == "replay" && t.drawn.Index != e.Chosen {
		return nil
	}
	return t.update(e)
}

// catchUp learns the events that came before there was a schema.
func (t *PolicyTarget) catchUp() error {
	if err := t.begin(t.waiting); err != nil {
		return err
	}
	for _, e := range t.waiting {
		if err := t.vectors(e); err != nil {
			return err
		}
		if err := t.update(e); err != nil {
			return err
		}
	}
	t.waiting = nil
	return nil
}

// Train learns one event of a log that is not evaluated. End it with Freeze.
func (t *PolicyTarget) Train(e *logged.Event) error {
	if t.l == nil {
		if t.waits(e) {
			if t.waiting = append(t.waiting, e.Clone()); len(t.waiting) < firstFit {
				return nil
			}
			return t.catchUp()
		}
		if err := t.begin([]*logged.Event{e}); err != nil {
			return err
		}
	}
	if err := t.vectors(e); err != nil {
		return err
	}
	return t.update(e)
}

// Freeze ends the training.
func (t *PolicyTarget) Freeze() error {
	if t.l == nil && len(t.waiting) > 0 {
		return t.catchUp()
	}
	return nil
}

// update learns the action that was played and what it paid.
func (t *PolicyTarget) update(e *logged.Event) error {
	a := t.action(e.Chosen)
	t.trained++
	if c, ok := t.p.(policy.Clocked); ok && c.Timed() {
		if e.Time.IsZero() {
			return fmt.Errorf("event %d has no time, which half_life needs: give a number of events", t.trained)
		}
		c.Tick(e.Time.UnixNano())
	}
	return t.p.Update(a, e.Reward, t.key.Stream(rng.Perturb).Round(uint64(t.trained)))
}

// Law returns the target that a table of no policy describes, nil for one of a policy.
func (t *TargetTable) Law() Target {
	switch {
	case t.Fixed != nil:
		return t.Fixed
	case t.Named != nil:
		return t.Named
	case t.BTS != nil:
		return t.BTS
	case t.Softmax != nil:
		return t.Softmax
	}
	return nil
}

// Exact reports whether a policy states its law, for a refusal before the log is read.
func Exact(o policy.Options) bool {
	p, err := o.New(policy.Problem{Dim: 2, Arms: 2, Init: rng.NewKey(0).Stream(rng.Init)})
	if err != nil {
		return true // its own error comes with the log
	}
	_, ok := p.(bandit.Prober)
	return ok
}

// fixedTable and btsTable are the kinds of a target's TOML file that are no policies.
type fixedTable struct {
	P []float64 `key:"p" doc:"the law, one probability for each action"`
}

func (*fixedTable) Doc() string { return "plays by one law whatever the context" }

type btsTable struct {
	Alpha []float64 `key:"alpha" doc:"successes of each item's prior"`
	Beta  []float64 `key:"beta" doc:"failures of each item's prior"`
	Lists int       `key:"lists" doc:"positions of a list"`
}

func (*btsTable) Doc() string {
	return "Bernoulli Thompson sampling with fixed posteriors, by position"
}

type softmaxTable struct {
	Inverse float64 `key:"inverse_temperature" doc:"β: the law is proportional to exp(β q(a))"`
	Floor   float64 `key:"floor" doc:"share of uniform decisions that are mixed in"`
}

func (*softmaxTable) Doc() string { return "softmax of the column q" }

// TargetTable is a decoded target file.
type TargetTable struct {
	Label   string
	Fixed   *Fixed
	Named   Target // of kind fixed, by the ids of actions or by the number of one
	BTS     *BTS
	Softmax *Softmax
	Policy  policy.Options
	Start   string // a snapshot file
}

// DecodeTarget reads the table of a target's TOML file: kind = "fixed" with p or action, "bts" with alpha and beta, "softmax", or any
// policy of the registry with start, a snapshot. name is the label where the table has none.
func DecodeTarget(raw spec.Raw, name string) (*TargetTable, error) {
	t := &TargetTable{Label: name}
	for key, into := range map[string]*string{"name": &t.Label, "start": &t.Start} {
		if v, ok := raw[key]; ok {
			s, ok := v.(string)
			if !ok || s == "" {
				return nil, spec.Errorf(key, "is %s, expected a text", spec.Show(v))
			}
			*into = s
		}
	}
	kind, _ := raw["kind"].(string)
	switch kind {
	case "fixed":
		if n, ok, err := namedTarget(raw, t.Label); ok {
			t.Named = n
			return t, err
		}
		if _, ok := raw["p"]; !ok {
			break // the policy of that name
		}
		var o fixedTable
		if err := spec.DecodeStruct(&o, raw, "", "kind", "name"); err != nil {
			return nil, err
		}
		f, err := NewFixed(t.Label, o.P)
		if err != nil {
			return nil, spec.Errorf("p", "%v", err)
		}
		t.Fixed = f
		return t, nil
	case "bts":
		o := btsTable{Lists: 3}
		if err := spec.DecodeStruct(&o, raw, "", "kind", "name"); err != nil {
			return nil, err
		}
		b, err := NewBTS(t.Label, o.Alpha, o.Beta, min(o.Lists, max(len(o.Alpha), 1)))
		if err != nil {
			return nil, spec.Errorf("alpha", "%v", err)
		}
		t.BTS = b
		return t, nil
	case "softmax":
		o := softmaxTable{Inverse: 1}
		if err := spec.DecodeStruct(&o, raw, "", "kind", "name"); err != nil {
			return nil, err
		}
		var err error
		t.Softmax, err = NewSoftmax(t.Label, o.Inverse, o.Floor)
		return t, err
	}
	o, err := spec.Decode(policy.Kinds, raw, "", "name", "start")
	if err != nil {
		return nil, err
	}
	t.Policy = o
	return t, nil
}
