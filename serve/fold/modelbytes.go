package fold

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"troupe/eventlog"
	"troupe/serve/model"
)

func (w *imager) model(m *Model) error {
	if _, err := m.State(); err != nil { // a model that lags catches up
		return err
	}
	w.fixed(uint64(m.ID))
	w.fixed(uint64(m.Parent))
	w.fixed(uint64(m.Root))
	w.fixed(uint64(m.Successor))
	w.uint(m.Cut)
	w.bool(m.KeepLater)
	w.uint(m.Since)
	w.uint(m.Last)
	w.uint(m.Version)
	w.bool(m.Paused)
	w.bool(m.Deleted)
	m.Untaken.append(&w.writer)
	for _, v := range m.Seed {
		w.b = binary.LittleEndian.AppendUint32(w.b, v)
	}
	w.stamp(m.Created)
	w.stamp(m.Changed)
	for _, v := range m.Counts.numbers() {
		w.fixed(*v)
	}
	w.fixed(math.Float64bits(m.Counts.RewardSum))
	w.time(m.Counts.Last)
	w.bytes(m.Compiled.JSON)
	w.bool(m.HasPolicy())
	if err := w.policy(m); err != nil {
		return err
	}
	w.memory(m)
	return nil
}

// numbers are the counts in the order of the format.
func (c *Counts) numbers() [9]*uint64 {
	return [...]*uint64{&c.Decisions, &c.Rewards, &c.Duplicates, &c.Late, &c.Ignored, &c.Expired, &c.Defaulted,
		&c.Learned, &c.Open}
}

// model reads what writer.model wrote.
func (r *reader) model(shapes *model.Shapes, laying *scratch) (*Model, error) {
	m := &Model{
		ID: eventlog.ID(r.fixed()), Lineage: Lineage{Parent: eventlog.ID(r.fixed()), Root: eventlog.ID(r.fixed()),
			Successor: eventlog.ID(r.fixed()), Cut: r.uint(), KeepLater: r.bool(), Since: r.uint()},
		Last: r.uint(), Version: r.uint(), Paused: r.bool(), Deleted: r.bool(), Untaken: readUntaken(r),
	}
	for i := range m.Seed {
		if v := r.take(4); v != nil {
			m.Seed[i] = binary.LittleEndian.Uint32(v)
		}
	}
	m.Created, m.Changed = r.stamp(), r.stamp()
	for _, v := range m.Counts.numbers() {
		*v = r.fixed()
	}
	m.Counts.RewardSum = math.Float64frombits(r.fixed())
	m.Counts.Last = r.time()
	config, alive, policy := r.bytes(), r.bool(), r.take(r.count())
	memory := r.bytes()
	if r.err != nil {
		return nil, r.err
	}
	err := m.readMemory(memory)
	if err == nil {
		err = m.restore(shapes, laying, config, alive, policy)
	}
	if err != nil {
		return nil, fmt.Errorf("model %v: %w", m.ID, err)
	}
	return m, nil
}

// restore gives m its configuration, and its policy laid aside where the snapshot allows it.
func (m *Model) restore(shapes *model.Shapes, laying *scratch, config []byte, alive bool, policy []byte) error {
	var c model.Config
	err := json.Unmarshal(config, &c)
	if err == nil {
		m.Compiled, err = shapes.Logged(c)
	}
	if err != nil || !alive || laying.laid(m, policy) {
		return err
	}
	if m.policy, err = m.Compiled.NewPolicy(m.Seed); err != nil {
		return err
	}
	if err := m.policy.Restore(policy); err != nil {
		return err
	}
	_, err = m.State()
	return err
}

// time writes 0 for the zero time.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.fixed(0)
	} else {
		w.fixed(uint64(t.UnixNano()))
	}
}

func (w *writer) stamp(s Stamp) { w.uint(s.Seq); w.time(s.Time) }

func (r *reader) time() time.Time {
	if v := r.fixed(); v != 0 {
		return time.Unix(0, int64(v)).UTC()
	}
	return time.Time{}
}

func (r *reader) stamp() Stamp { return Stamp{r.uint(), r.time()} }

// hasBudget is a flag of the bytes of a memory: the state of a budget follows the notes.
const hasBudget = 8

// hasGuard: the state of a guard follows that of a budget.
const hasGuard = 16

// memory appends the memory and the notes to the bytes of a fold: nothing when there are none.
func (w *writer) memory(m *Model) {
	x := &m.Memory
	if *x == (Memory{}) && m.Notes == [5]uint64{} && m.Spending == nil && m.Guard == nil {
		w.bytes(nil)
		return
	}
	var more uint64
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
	w.bytes(b)
}

// readMemory reads what writer.memory wrote.
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
	x.Low, x.High, x.RangeSeq, x.Seen, x.First, x.Missed = f64(), f64(), r.fixed(), r.fixed(), f64(), r.fixed()
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
	if len(b) > 0 {
		return fmt.Errorf("what the model keeps beside its policy has %d bytes too many", len(b))
	}
	return nil
}
