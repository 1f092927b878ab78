package linalg

import (
	"math"
	"math/bits"
	"slices"

	"troupe/internal/cpu"
)

// Leads says, for a panel of eight members and both signs ξ = +1 (index 0) and −1 (index 1), which arm
// has the largest value base_a + ξ·c·p_a. The number of an arm takes the place of the low bits of its
// value, so that a maximum of values is a maximum with its arm: a value is good to a relative error of
// 2^{b−52}, b the number of bits of the largest arm number.
type Leads struct {
	First, Second [2][8]float64 // the largest value and the next, with their arms
	mask          uint64        // internal/gen/leads.go knows the places
}

// Resolution returns the largest relative error of a value in leads of a number of arms.
func Resolution(arms int) float64 { return math.Ldexp(1, bits.Len(uint(arms-1))-52) }

// Arm returns the arm of a value of First or Second.
func (l *Leads) Arm(value float64) int { return int(math.Float64bits(value) & l.mask) }

// FindLeads sets the leads of panels of scores, one after the other in p: 8 numbers for each arm in a panel;
// base has one for each arm. No number may be NaN, and arms not more than 2²⁰.
func FindLeads(leads []Leads, p, base []float64, c float64) {
	StepLeads(leads, p, nil, nil, 0, base, c)
}

// StepLeads first moves the scores, p_a ← fma(w_a, u − p_b, p_a), b the arm that was played and u a number
// for each member, and then does FindLeads, in one pass over p. A nil w leaves them where they are.
func StepLeads(leads []Leads, p, w, u []float64, b int, base []float64, c float64) {
	arms, n := len(base), len(leads)
	if arms == 0 || arms > 1<<20 || n == 0 || len(p) != 8*arms*n || w != nil &&
		(len(w) != arms || len(u) < 8*n || b < 0 || b >= arms) {
		panic(badLength)
	}
	mask := uint64(1)<<bits.Len(uint(arms-1)) - 1
	switch level := cpu.Kernels(); {
	case level == cpu.AVX512 && w == nil:
		leadsAVX512(&p[0], arms, &base[0], c, &leads[0], mask, n)
	case level == cpu.AVX512:
		stepLeadsAVX512(&p[0], arms, &base[0], c, &leads[0], mask, n, &w[0], &u[0], b)
	case level == cpu.AVX2 && w == nil:
		leadsAVX2(&p[0], arms, &base[0], c, &leads[0], mask, n)
	case level == cpu.AVX2:
		stepLeadsAVX2(&p[0], arms, &base[0], c, &leads[0], mask, n, &w[0], &u[0], b)
	default:
		for k := range leads {
			var h [8]float64
			panel := p[8*arms*k : 8*arms*(k+1)]
			if w != nil {
				for i := range h {
					h[i] = u[8*k+i] - panel[8*b+i]
				}
			}
			leads[k].step(panel, w, &h, base, c, mask)
		}
	}
}

// step is StepLeads for one panel, in portable Go.
func (l *Leads) step(p, w []float64, h *[8]float64, base []float64, c float64, mask uint64) {
	l.none(mask)
	for a, b := range base {
		row := p[8*a : 8*a+8 : 8*a+8]
		for i, v := range row {
			if w != nil {
				v = math.FMA(w[a], h[i], v)
				row[i] = v
			}
			l.add(0, i, a, math.FMA(c, v, b))
			l.add(1, i, a, math.FMA(-c, v, b))
		}
	}
}

// none is no arm at all.
func (l *Leads) none(mask uint64) {
	l.mask = mask
	for k := range l.First {
		for i := range l.First[k] {
			l.First[k][i], l.Second[k][i] = math.Inf(-1), math.Inf(-1)
		}
	}
}

func (l *Leads) add(sign, i, arm int, v float64) {
	v = math.Float64frombits(math.Float64bits(v)&^l.mask | uint64(arm))
	if v > l.First[sign][i] {
		l.First[sign][i], l.Second[sign][i] = v, l.First[sign][i]
	} else if v > l.Second[sign][i] {
		l.Second[sign][i] = v
	}
}

// Merge takes the leads of some arms, numbered from first on, into those of arms before them; first = 0 begins. arms is
// the number of all, by which values are rounded.
func (l *Leads) Merge(some *Leads, first, arms int) {
	mask := uint64(1)<<bits.Len(uint(arms-1)) - 1
	if first == 0 {
		l.none(mask)
	}
	number := func(v float64) float64 {
		if v == math.Inf(-1) { // no arm
			return v
		}
		b := math.Float64bits(v)
		return math.Float64frombits(b&^mask | (b&some.mask + uint64(first)))
	}
	for k := range l.First {
		for i, v := range &some.First[k] {
			v, second := number(v), number(some.Second[k][i])
			if most := &l.First[k][i]; v > *most {
				l.Second[k][i] = max(*most, second)
				*most = v
			} else if v > l.Second[k][i] {
				l.Second[k][i] = v
			}
		}
	}
}

// Counts are how many leads each arm has. They stay from one look to the next: most models have the arm that they had,
// and only the others move a count.
type Counts struct {
	counts []uint32 // behind the arms one place for leads that are not sure
	last   []uint64 // [panels][2][8] the arms that are counted
	more   []int    // and those of Add
}

// LeadPanels is the largest number of panels that Counts takes at a time.
const LeadPanels = 16

// NewCounts returns the counts of no leads at all, for so many arms and members.
func NewCounts(arms, members int) *Counts {
	c := &Counts{counts: make([]uint32, arms+1), last: make([]uint64, (members+7)/8*16)}
	for i := range c.last {
		c.last[i] = uint64(arms)
	}
	c.counts[arms] = uint32(len(c.last))
	return c
}

// Reset makes the counts those of no leads, for a number of arms.
func (c *Counts) Reset(arms int) {
	c.counts = slices.Grow(c.counts[:0], arms+1)[:arms+1]
	clear(c.counts)
	for i := range c.last {
		c.last[i] = uint64(arms)
	}
	c.counts[arms], c.more = uint32(len(c.last)), c.more[:0]
}

// Begin takes back what Add added.
func (c *Counts) Begin() {
	for _, arm := range c.more {
		c.counts[arm]--
	}
	c.more = c.more[:0]
}

// Of returns the count of an arm.
func (c *Counts) Of(arm int) uint64 { return uint64(c.counts[arm]) }

// Add counts an arm until the next Begin.
func (c *Counts) Add(arm int) {
	c.counts[arm]++
	c.more = append(c.more, arm)
}

// Set replaces what panels first, first+1, … count: the first arms of their leads, for members from the first of them
// on, 8 in a panel, and one sign or two, where they are ahead of the second by more than gap. Where not, bit j mod 8 of
// unsure[2·(j/8) + sign] is set, and any is true. With any false unsure has nothing new.
func (c *Counts) Set(first int, leads []Leads, members, signs int, gap float64,
	unsure *[2 * LeadPanels]uint8) (any bool) {
	if len(leads) == 0 || len(leads) > LeadPanels || signs < 1 || signs > 2 {
		panic(badLength)
	}
	members = min(members, 8*len(leads))
	mask, nobody := leads[0].mask, len(c.counts)-1
	last := c.last[16*first : 16*(first+len(leads))]
	if cpu.Kernels() == cpu.AVX512 {
		return countLeadsAVX512(&c.counts[0], &last[0], &leads[0], len(leads), gap, members, signs, nobody, mask,
			&unsure[0]) != 0
	}
	for g := range leads {
		l := &leads[g]
		n := min(8, members-8*g)
		for k := range signs {
			var not uint8
			first, second, last := l.First[k][:n], l.Second[k][:n], last[16*g+8*k:][:n]
			for i, v := range first {
				arm := math.Float64bits(v) & mask
				if !(v-second[i] > gap) {
					arm = uint64(nobody)
					not |= 1 << i
				}
				if arm != last[i] {
					c.counts[last[i]]--
					c.counts[arm]++
					last[i] = arm
				}
			}
			unsure[2*g+k] = not
			any = any || not != 0
		}
	}
	return any
}
