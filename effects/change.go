package effects

import (
	"slices"

	"troupe/internal/logs"
)

// trial judges whether the rewards have changed, in the order of decisions: a reward that comes late is compared with
// what was expected at its decision, and only after those of all earlier decisions.
type trial struct {
	queue []pending // of decisions that are not judged yet, in their order
	first uint64    // number of the first of them since the model began
	at    map[uint64]uint64
	open  int // decisions in the queue that wait for a reward

	decided uint64 // decisions
}

// pending is a decision that is not judged yet.
type pending struct {
	key      uint64
	t        uint64 // number of the decision
	y        float64
	z, q     float64 // what the model expected, and how surely
	copies   [4]expected
	open     uint32         // decisions that waited for a reward then, this one included
	known    bool           // the model had an estimate
	done     bool           // nothing more comes
	given    bool           // y is the reward
	list     []listExpected // of a list whose rewards are not there
	evidence *[4]float64    // of a list, for each copy
}

// expected is what a copy expected.
type expected struct {
	born uint64
	slot int
	z, q float64
}

const (
	maxPending = 4096
	period     = 500 // decisions between the births of copies
	firstBirth = 60
	evidence   = 1.  // of one decision at most
	least      = -3. // evidence does not fall below it
	takes      = 14. // evidence at which a copy becomes the model
	plays      = 9.  // evidence at which a copy plays as often as the model
)

// Alone forgets the decisions that are not settled: the model is a copy, and their rewards are learned as they come.
func (m *Model) Alone() {
	m.trial = newTrial()
	m.trial.decided = m.s.t
}

func newTrial() *trial { return &trial{at: map[uint64]uint64{}} }

func (t *trial) full() bool { return len(t.queue) >= maxPending }

func (t *trial) add(p pending) {
	t.at[p.key] = t.first + uint64(len(t.queue))
	t.queue = append(t.queue, p)
	t.open++
}

// decision returns the number of the decision with a key, or otherwise the last one.
func (t *trial) decision(key, last uint64) uint64 {
	if at, ok := t.at[key]; ok {
		return t.queue[at-t.first].t
	}
	return last
}

// settle notes what came of a decision.
func (t *trial) settle(key uint64, given bool, y float64) {
	at, ok := t.at[key]
	if !ok {
		return
	}
	p := &t.queue[at-t.first]
	if !p.done {
		p.done, p.given, p.y = true, given, y
		t.open--
	}
}

// beginCopies lets copies begin after fixed numbers of decisions, as many as there is room for.
func (m *Model) beginCopies() {
	if m.options.Still || m.s.t < firstBirth || !m.s.h.known() {
		return
	}
	for slot := range m.s.births {
		per := uint64(period << (2 * (slot / 2)))
		phase := uint64(slot%2) * per / 2
		if m.s.t < phase {
			continue
		}
		due := m.s.t - (m.s.t-phase)%per
		if due < firstBirth || due <= m.s.births[slot] {
			continue
		}
		m.s.births[slot] = due
		m.s.copies = slices.DeleteFunc(slices.Clone(m.s.copies), func(c *sums) bool { return c.slot == slot })
		if m.has(slot) {
			m.s.copies = append(m.s.copies, &sums{born: m.s.t, slot: slot})
		}
	}
}

// has reports whether the model has room for a copy: four within 256 kB, two within 1 MB, one otherwise.
func (m *Model) has(slot int) bool {
	size := 0
	for _, b := range m.s.main.blocks {
		if b != nil {
			size += 16 * len(b.a)
			for _, p := range b.placed {
				if p != nil {
					size += 8 * len(p.a)
				}
			}
		}
	}
	switch {
	case 4*size <= 256<<10:
		return true
	case 2*size <= 1<<20:
		return slot == 0 || slot == 2
	}
	return slot == 2
}

// judge compares the model with its copies on the decisions of which all that were before are settled.
func (m *Model) judge() {
	t := m.trial
	for len(t.queue) > 0 && t.queue[0].done {
		p := t.queue[0]
		t.queue = t.queue[1:]
		t.first++
		delete(t.at, p.key)
		if p.given && p.known {
			m.weigh(&p)
		}
	}
	if len(t.queue) == 0 {
		t.queue = nil
	}
}

func (m *Model) weigh(p *pending) {
	for _, c := range m.s.copies {
		for i := range p.copies {
			e := &p.copies[i]
			if e.born != c.born || e.slot != c.slot || e.born == 0 {
				continue
			}
			r := 0.
			if p.evidence != nil {
				r = p.evidence[i]
			} else {
				r = m.evidenceOf(p, e)
			}
			c.weigh = max(least, c.weigh+r)
			break
		}
	}
	for _, c := range m.s.copies {
		if c.weigh > takes {
			m.takeOver(c, p.t)
			return
		}
	}
}

// evidenceOf is the evidence of one decision for a copy.
func (m *Model) evidenceOf(p *pending, e *expected) float64 {
	return evidenceFor(sqrt(m.s.h.s2), p.y, p.z, e.z, float64(float64(p.open)*max(p.q, e.q)))
}

// evidenceFor is the evidence for a copy that expected e where the model expected z, of a reward y with this deviation; q is
// the variance of what was expected, times the decisions that waited.
func evidenceFor(sd, y, z, e, q float64) float64 {
	d := min(max((e-z)/sd, -1), 1)
	u := (y - z) / sd
	r := (float64(d*u) - float64(float64(d*d)/2)) / (1 + q/float64(sd*sd))
	return min(max(r, -evidence), evidence)
}

// takeOver makes a copy the model.
func (m *Model) takeOver(c *sums, seen uint64) {
	was, is := m.s.main.average(), c.average()
	m.s.changes = append(m.s.changes, Change{c.born, seen, was + m.s.offset, is + m.s.offset})
	m.s.main, m.s.copies, m.s.fit = c, nil, nil
	m.s.n = 0
	for _, b := range c.blocks {
		if b != nil {
			m.s.n += uint64(b.n)
		}
	}
	m.s.next = m.s.n + 1
}

// average is the mean reward of the events of a copy.
func (s *sums) average() float64 {
	var n, sum float64
	for _, b := range s.blocks {
		if b != nil {
			n, sum = n+b.n, sum+b.sy
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// shares returns how often each copy plays, the model first.
func (m *Model) shares(dst []float64) []float64 {
	dst = append(dst[:0], 1)
	sum := 1.
	for _, c := range m.s.copies {
		w := logs.Exp(c.weigh - plays)
		dst = append(dst, w)
		sum += w
	}
	for i := range dst {
		dst[i] /= sum
	}
	return dst
}
