package fold

import (
	"encoding/binary"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/model"
)

// Memory is what a model keeps beside its policy. It is part of the state: of the digest, of snapshots, clones
// and rollbacks. The range and the default are functions of the rewards and of the windows that closed; the
// statistics are those of Learned records.
type Memory struct {
	Statistics *feature.Statistics // of number features
	digest     eventlog.ID         // of Statistics
	StatsSeq   uint64              // entry that changed them last

	Low, High float64 // the range of rewards; 0 and 0: that of the configuration
	RangeSeq  uint64  // entry of the reward that widened it last, 0 when none did

	Seen   uint64  // rewards that were learned, without defaults
	First  float64 // the first of them
	Differ bool    // two of them are not equal
	Missed uint64  // windows that closed without a reward and taught nothing

	Adopted    bool    // a missing reward counts as Default from entry AdoptedSeq on
	Default    float64 //
	AdoptedSeq uint64
}

// EnoughMissed is the number of windows without a reward after which a missing reward gets a meaning, where the
// creator of the model said nothing.
const EnoughMissed = 100

// Range returns the range of rewards in force.
func (m *Model) Range() (lo, hi float64) {
	if m.Memory.Low != m.Memory.High {
		return m.Memory.Low, m.Memory.High
	}
	r := m.Compiled.Config.Reward
	return r.Min, r.Max
}

// MissingReward returns what an event without a reward counts, not ok when it teaches nothing. Without a word
// of the creator it is the smallest reward, once all rewards were equal and positive, so that only successes
// seem to be sent, or once more than 100 windows closed without a reward.
func (m *Model) MissingReward() (y float64, ok bool) {
	d := m.Compiled.Config.Reward.Default
	switch {
	case d.Set:
		return d.Value, true
	case d.Word != "auto":
		return 0, false
	case m.Memory.Adopted:
		return m.Memory.Default, true
	}
	lo, _ := m.Range()
	x := &m.Memory
	return lo, x.Seen > 0 && !x.Differ && x.First > lo && x.First > 0 || x.Missed > EnoughMissed
}

// missed notes a window that closed without a reward, with the default y or without one.
func (f *Fold) missed(m *Model, defaulted bool, y float64) error {
	d := m.Compiled.Config.Reward.Default
	x := &m.Memory
	switch {
	case d.Set || d.Word != "auto" || x.Adopted:
		return nil
	case defaulted:
		x.Adopted, x.Default, x.AdoptedSeq = true, y, f.seq
	default:
		x.Missed++
	}
	return f.touch(m)
}

// touch notes that the state of a model has changed at this entry.
func (f *Fold) touch(m *Model) error {
	if err := f.wake(m); err != nil {
		return err
	}
	m.Last = f.seq
	m.dropState()
	f.markChanged(m)
	return nil
}

// rewarded notes a reward before the policy learns it.
func (f *Fold) rewarded(m *Model, y float64, given bool) {
	if m.Compiled.Remembers() {
		m.Memory.Rewarded(m.Compiled, y, given, f.seq)
	}
}

// Rewarded notes a reward of a model that remembers: the range widens by doubling on the side where the reward lies, as
// policy.Hashed does it. given is false for a default reward.
func (x *Memory) Rewarded(c *model.Compiled, y float64, given bool, seq uint64) {
	if given {
		if x.Seen++; x.Seen == 1 {
			x.First = y
		}
		x.Differ = x.Differ || y != x.First
	}
	lo, hi := c.Config.Reward.Min, c.Config.Reward.Max
	if x.Low != x.High {
		lo, hi = x.Low, x.High
	}
	if !c.Config.Reward.Adapt || y >= lo && y <= hi {
		return
	}
	for width := hi - lo; y < lo || y > hi; {
		width *= 2
		if y < lo {
			lo = hi - width
		} else {
			hi = lo + width
		}
	}
	x.Low, x.High, x.RangeSeq = lo, hi, seq
}

// Beside returns what x knows of rewards together with what another memory knows of features and of missing rewards,
// for a model in another log: sequences are 0.
func (x Memory) Beside(o Memory) Memory {
	x.Statistics, x.digest = o.Statistics, o.digest
	x.Missed, x.Adopted, x.Default = o.Missed, o.Adopted, o.Default
	x.StatsSeq, x.RangeSeq, x.AdoptedSeq = 0, 0, 0
	return x
}

// learned takes what a model measured into its state. The first record of a feature and a generation counts.
func (f *Fold) learned(r *eventlog.Learned) (Outcome, error) {
	m := f.models[r.Model]
	switch {
	case m == nil || m.Deleted || m.Successor != 0 || m.Compiled.Hashed == nil || r.What != eventlog.NumberStatistics:
		return Ignored, nil
	}
	s, err := m.Memory.Statistics.With(feature.Standard{
		Feature: uint64(r.Feature), Name: r.Name, Generation: r.Generation,
		Mean: r.Values[0], Deviation: r.Values[1], Center: r.Values[2], Width: r.Values[3], Levels: r.Values[4] == 1,
	})
	if err != nil || s == m.Memory.Statistics {
		return Duplicate, nil // a standard that the encoder refuses has no effect anywhere
	}
	m.Memory.SetStatistics(s)
	m.Memory.StatsSeq = f.seq
	return Accepted, f.touch(m)
}

// Measured returns the record of a standard.
func Measured(id eventlog.ID, s feature.Standard, now int64) *eventlog.Learned {
	levels := 0.0
	if s.Levels {
		levels = 1
	}
	return &eventlog.Learned{
		Model: id, What: eventlog.NumberStatistics, Name: s.Name, Generation: s.Generation,
		Feature: eventlog.ID(s.Feature), Time: now,
		Values: []float64{s.Mean, s.Deviation, s.Center, s.Width, levels},
	}
}

// SetStatistics gives the memory statistics of number features.
func (x *Memory) SetStatistics(s *feature.Statistics) {
	x.Statistics, x.digest = s, 0
	if s != nil {
		x.digest = Digest(s.Append(nil))
	}
}

// hasLearning is a flag of the bytes of a memory: a Learning follows the notes.
const hasLearning = 4

// hasBudget: the state of a budget follows the notes, before the Learning.
const hasBudget = 8

// hasGuard: the state of a guard follows that of a budget.
const hasGuard = 16

// append appends what the digest of a state depends on. more is of the bytes of a fold: flags.
func (x *Memory) append(b []byte, more uint64) []byte {
	u := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	flags := more
	if x.Differ {
		flags |= 1
	}
	if x.Adopted {
		flags |= 2
	}
	u(uint64(x.digest))
	u(x.StatsSeq)
	u(math.Float64bits(x.Low))
	u(math.Float64bits(x.High))
	u(x.RangeSeq)
	u(x.Seen)
	u(math.Float64bits(x.First))
	u(x.Missed)
	u(math.Float64bits(x.Default))
	u(x.AdoptedSeq)
	u(flags)
	return b
}

// write appends the memory and the notes to the bytes of a fold: nothing when there are none.
func (w *writer) memory(m *Model) error {
	x := &m.Memory
	if *x == (Memory{}) && m.Notes == [5]uint64{} && m.Learning == nil && m.Spending == nil && m.Guard == nil {
		w.bytes(nil)
		return nil
	}
	var more uint64
	if m.Learning != nil {
		more |= hasLearning
	}
	if m.Spending != nil {
		more |= hasBudget
	}
	if m.Guard != nil {
		more |= hasGuard
	}
	b := x.append(nil, more)
	for _, n := range m.Notes {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if m.Spending != nil {
		b = m.Spending.append(b)
	}
	if m.Guard != nil {
		b = m.Guard.append(b)
	}
	if m.Learning != nil {
		l, err := m.Learning.append(nil)
		if err != nil {
			return err
		}
		b = append(binary.AppendUvarint(b, uint64(len(l))), l...)
	}
	if x.Statistics != nil {
		b = x.Statistics.Append(b)
	}
	w.bytes(b)
	return nil
}

func (m *Model) readMemory(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	x := &m.Memory
	fixed := len(x.append(nil, 0)) + 8*len(m.Notes)
	if len(b) < fixed {
		return fmt.Errorf("what the model keeps beside its policy is cut short")
	}
	r := reader{b: b[:fixed]}
	f64 := func() float64 { return math.Float64frombits(r.fixed()) }
	r.fixed()
	x.StatsSeq, x.Low, x.High, x.RangeSeq, x.Seen, x.First, x.Missed = r.fixed(), f64(), f64(), r.fixed(), r.fixed(),
		f64(), r.fixed()
	x.Default, x.AdoptedSeq = f64(), r.fixed()
	flags := r.fixed()
	x.Differ, x.Adopted = flags&1 != 0, flags&2 != 0
	for i := range m.Notes {
		m.Notes[i] = r.fixed()
	}
	b = b[fixed:]
	if flags&hasBudget != 0 {
		r := reader{b: b}
		var err error
		if m.Spending, err = readSpending(&r); err != nil {
			return err
		}
		b = r.b
	}
	if flags&hasGuard != 0 {
		r := reader{b: b}
		var err error
		if m.Guard, err = readGuard(&r); err != nil {
			return err
		}
		b = r.b
	}
	if flags&hasLearning != 0 {
		r := reader{b: b}
		l := r.bytes()
		if r.err != nil {
			return r.err
		}
		var err error
		if m.Learning, err = readLearning(l); err != nil {
			return err
		}
		b = r.b
	}
	if len(b) == 0 {
		return nil
	}
	s, err := feature.ReadStatistics(b)
	if err == nil {
		x.SetStatistics(s)
	}
	return err
}

// Features are what a record has of the action that was chosen: its vector, or the atoms of one.
type Features struct {
	X     []float64
	Atoms []byte

	seq      uint64             // entry of the decision
	kept     bool               // it has its request
	decision *eventlog.Decision // nil: not read yet
}

// action returns the vector that the policy of m learns from. It is valid until the next call.
func (f *Fold) action(m *Model, x Features) (bandit.Action, error) {
	if m.Compiled.Hashed == nil {
		return bandit.Action{X: x.X, Index: bandit.NoIndex}, nil
	}
	context, rest, err := feature.ReadAtoms(f.atoms[:0], x.Atoms)
	if err != nil {
		return bandit.Action{}, err
	}
	n := len(context)
	if f.atoms, rest, err = feature.ReadAtoms(context, rest); err == nil && (len(rest) > 0 || len(f.atoms) == n) {
		err = fmt.Errorf("the atoms of a decision are not those of a context and an action")
	}
	if err != nil {
		return bandit.Action{}, err
	}
	f.at, f.x = m.Compiled.Hashed.AppendVector(f.at[:0], f.x[:0], f.atoms[:n], f.atoms[n:])
	return bandit.Action{At: f.at, X: f.x, Index: bandit.NoIndex}, nil
}
