package fold

import (
	"encoding/binary"
	"math"

	"troupe/budget"
)

// Spending is the state of a model's budget: the price and what was spent. It is a fold over the decisions that were
// made under it and what became of their costs; a rollback keeps it, because what was spent is spent. A decision
// reserves the stated cost of its action. The first call that says what it cost pays that in its place, the end of its
// window pays the stated cost, or nothing when it was deferred and never activated. Decisions that played a baseline
// spend nothing.
type Spending struct {
	budget.Pacer
	Seq uint64 // entry that changed it last
}

// append and readSpending are the bytes of a state: the numbers of the pacer and the entry.
func (s *Spending) append(b []byte) []byte {
	for _, v := range s.Numbers() {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return binary.LittleEndian.AppendUint64(b, s.Seq)
}

func readSpending(r *reader) (*Spending, error) {
	var s Spending
	v := s.Numbers()
	for i := range v {
		v[i] = math.Float64frombits(r.fixed())
	}
	s.Seq = r.fixed()
	if r.err != nil {
		return nil, r.err
	}
	return &s, s.Set(v)
}
