package eventlog

import "slices"

// slate is memory for the records of one batch, for a reader that is done with a batch before it decodes
// the next: decisions, rewards and vectors are in it, and bytes are those of the batch. A nil slate gives
// every record memory of its own.
type slate struct {
	records   []Record
	decisions []Decision
	rewards   []Reward
	floats    []float64
}

// begin wipes the slate, for n records in size bytes.
func (m *slate) begin(n, size int) []Record {
	if m == nil {
		return make([]Record, 0, n)
	}
	m.decisions, m.rewards, m.floats = m.decisions[:0], m.rewards[:0], slices.Grow(m.floats[:0], size/8)
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

// vector returns n numbers.
func (m *slate) vector(n int) []float64 {
	if m == nil || n > cap(m.floats)-len(m.floats) {
		return make([]float64, n)
	}
	at := len(m.floats)
	m.floats = m.floats[:at+n]
	return m.floats[at : at+n : at+n]
}
