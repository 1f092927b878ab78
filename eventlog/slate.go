package eventlog

import "slices"

// slate is memory for the records of one batch, for a reader that is done with a batch before it decodes
// the next: decisions, rewards and vectors are in it, and bytes are those of the batch. A nil slate gives
// every record memory of its own.
type slate struct {
	records   []Record
	decisions []Decision
	rewards   []Reward
	floats    pool[float64]
	groups    pool[uint32]
	counts    pool[uint64]
}

// pool gives out parts of a slice, and grows to what a batch needed when the next one begins.
type pool[T any] struct {
	buf  []T
	need int // of this batch
}

func (p *pool[T]) begin() { p.buf, p.need = slices.Grow(p.buf[:0], p.need), 0 }

func (p *pool[T]) take(n int) []T {
	p.need += n
	at := len(p.buf)
	if n > cap(p.buf)-at {
		return make([]T, n)
	}
	p.buf = p.buf[:at+n]
	return p.buf[at : at+n : at+n]
}

// begin wipes the slate, for n records.
func (m *slate) begin(n int) []Record {
	if m == nil {
		return make([]Record, 0, n)
	}
	m.decisions, m.rewards = m.decisions[:0], m.rewards[:0]
	m.floats.begin()
	m.groups.begin()
	m.counts.begin()
	return slices.Grow(m.records[:0], n)
}

// record is newRecord on the slate.
func (m *slate) record(k Kind) Record {
	switch { // a record that was given out before a slice grows stays where it is
	case m != nil && k == KindDecision:
		m.decisions = append(m.decisions, Decision{})
		return &m.decisions[len(m.decisions)-1]
	case m != nil && k == KindReward:
		m.rewards = append(m.rewards, Reward{})
		return &m.rewards[len(m.rewards)-1]
	}
	return newRecord(k)
}

// vector returns n numbers. What stands in them is not defined.
func (m *slate) vector(n int) []float64 {
	if m == nil {
		return make([]float64, n)
	}
	return m.floats.take(n)
}

// numbers returns n numbers of groups.
func (m *slate) numbers(n int) []uint32 {
	if m == nil {
		return make([]uint32, n)
	}
	return m.groups.take(n)
}

// votes returns n counts.
func (m *slate) votes(n int) []uint64 {
	if m == nil {
		return make([]uint64, n)
	}
	return m.counts.take(n)
}
