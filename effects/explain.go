package effects

import (
	"cmp"
	"slices"
)

// Part is how much of what the model has found goes back to one thing: an action itself, a field, two fields together, or
// what an action with features has of its own with a field.
type Part struct {
	// A and B are numbers of fields (bandit.FieldOf). B is 0 for one field, and both are 0 for the actions themselves. Where
	// A alone is 0 it is the action itself with field B: its id, beside what its features say.
	A, B  uint32
	Share float64 // of what differs between decisions, as far as the model sees it
}

// Explained returns the parts in descending order of their share, and the share of the variance of the rewards that the
// model explains, 1 − σ²/s². Both are empty while all rewards were equal. With coefficients m and sums A, coordinate 0
// that is always 1, part g has
//
//	S_g = Σ_k m_kgᵀ A_kgg m_kg − (A_k0gᵀ m_kg)²/A_k00,   share S_g/Σ S,
//
// which is the sum of squares of what the part adds, about its mean in the block: what it adds to all decisions alike is of
// the action. The action itself has the sum of squares of the blocks' means about their mean. It costs the squares of the
// groups' coordinates in each block.
func (m *Model) Explained() (parts []Part, of float64) {
	if !m.s.h.known() {
		return nil, 0
	}
	parts, at := m.partsOf()
	total := 0.
	add := func(group int32, s float64) {
		parts[at[group]].Share += s
		total += s
	}
	var means mean
	for _, b := range m.s.main.blocks {
		if b == nil || b.a[0] == 0 {
			continue
		}
		means.add(b.a[0], m.found(b, add))
	}
	if !m.s.lay.joint {
		add(m.s.lay.coords[0].group, means.between())
	}
	for _, p := range m.s.main.tail.pages {
		for i := range p.cells {
			if c := &p.cells[i]; c.key != 0 && c.n > 0 {
				w := c.r / (c.n + m.s.h.s2/m.s.h.prior(c.group))
				add(c.group, float64(float64(w*w)*c.n))
			}
		}
	}
	if total > 0 {
		for i := range parts {
			parts[i].Share /= total
		}
	}
	slices.SortFunc(parts, func(x, y Part) int {
		return cmp.Or(cmp.Compare(y.Share, x.Share), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	return parts, max(0, 1-m.s.h.s2/m.s.h.variance)
}

// partsOf returns the parts of all groups, without their shares, and the place of each group's.
func (m *Model) partsOf() (parts []Part, at []int) {
	type key struct{ a, b uint32 }
	places := map[key]int{}
	for _, g := range m.s.lay.groups {
		k := key{g.a.number(), g.b.number()}
		switch {
		case g.kind == ofAction:
			k = key{}
		case g.kind == ofIDs: // b tells values from ranges
			k = key{0, g.a.number()}
		case g.kind == ofWaves: // b is the octave
			k.b = 0
		case g.kind == ofIDWaves, g.kind == ofIDCrossed:
			k = key{0, g.a.number()}
		case g.a&compared != 0:
			k.a, k.b = m.s.lay.compared(g.a)
		}
		i, ok := places[k]
		if !ok {
			i = len(parts)
			places[k], parts = i, append(parts, Part{A: k.a, B: k.b})
		}
		at = append(at, i)
	}
	return parts, at
}

// compared returns the numbers of the two fields whose difference a field is.
func (l *layout) compared(f fieldKey) (a, b uint32) {
	for i := range l.fields {
		for j := range l.fields {
			if x, y := l.fields[i].key, l.fields[j].key; x&actionField != 0 && y&actionField == 0 && compareKey(x, y) == f {
				return x.number(), y.number()
			}
		}
	}
	return f.number(), 0
}

// found calls add with the sum of squares of each group of coordinates of a block, and returns the mean of what the block
// expects.
func (m *Model) found(b *block, add func(group int32, s float64)) (mean float64) {
	d := len(b.post.m)
	of := map[int32][]int{}
	var order []int32
	for j := range d {
		g := m.s.lay.coords[j].group
		if of[g] == nil {
			order = append(order, g)
		}
		of[g] = append(of[g], j)
	}
	n := b.a[0]
	for _, g := range order {
		square, sum := 0., 0.
		for i, j := range of[g] {
			w := b.post.m[j]
			sum += float64(w * b.a[triangle(j)])
			square += float64(float64(w*w) * b.a[triangle(j)+j])
			for _, k := range of[g][:i] {
				square += 2 * float64(float64(w*b.post.m[k])*b.a[triangle(j)+k])
			}
		}
		mean += sum / n
		add(g, max(0, square-float64(sum*sum)/n))
	}
	return mean
}

// mean is the weighted mean of numbers, and the sum of squares about it.
type mean struct{ n, sum, square float64 }

func (x *mean) add(n, v float64) {
	x.n += n
	x.sum += float64(n * v)
	x.square += float64(float64(n*v) * v)
}

func (x *mean) between() float64 {
	if x.n == 0 {
		return 0
	}
	return max(0, x.square-float64(x.sum*x.sum)/x.n)
}

// Range returns the least and the largest reward that counts, and the reward that lies beyond them, if there is one:
// it counts as the nearest of the two, or as the mean where it is far, until there is a second one like it. ok is false before the first reward.
func (m *Model) Range() (lo, hi float64, ok bool) {
	if m.s.events == 0 {
		return 0, 0, false
	}
	lo, hi = m.s.extremes.bounds()
	return lo + m.s.offset, hi + m.s.offset, true
}

// Far returns the rewards that are far from all others, by more than ten standard deviations: at most one above and one
// below. Each counts as the mean until there is a second one like it.
func (m *Model) Far() (far []float64) {
	if !m.s.h.known() {
		return nil
	}
	lo, hi := m.s.extremes.bounds()
	sd := sqrt(m.s.h.variance)
	if y := m.s.extremes.top[0].raw; y > hi+float64(10*sd) {
		far = append(far, y+m.s.offset)
	}
	if y := m.s.extremes.low[0].raw; y < lo-float64(10*sd) {
		far = append(far, y+m.s.offset)
	}
	return far
}

// Events returns how many rewards were learned.
func (m *Model) Events() uint64 { return m.s.events }

// Changes returns the changes of the rewards that were noticed, the last one last. The slice must not be changed.
func (m *Model) Changes() []Change { return m.s.changes }

// Coefficient returns the mean and the standard deviation of what a value of the context adds for an action, by the
// hashes of their atoms: with context 0 what the action adds by itself. isID says that action is an id, and not a value
// of the actions' features. ok is false where the model has no coordinate for it.
func (m *Model) Coefficient(action uint64, isID bool, context uint64) (w, deviation float64, ok bool) {
	k, key := int32(0), mix2(context, 0)
	switch {
	case !m.s.lay.joint:
		if k = m.blockAt(action, false); !isID || k < 0 {
			return 0, 0, false
		}
		if context == 0 {
			key = oneKey
		}
	case isID:
		key = mix2(action, 4)
	default:
		key = mix2(action, uint64(actionField))
	}
	if m.s.lay.joint && context != 0 {
		key = mix2(key, mix2(context, 0))
	}
	j, ok := m.find.coords[key]
	if !ok || int(j) >= len(m.s.lay.coords) || int(k) >= len(m.s.main.blocks) || m.s.main.blocks[k] == nil {
		return 0, 0, false
	}
	p := &m.s.main.blocks[k].post
	if int(j) >= len(p.m) {
		return 0, 0, false
	}
	return p.m[j], sqrt(p.p[triangle(int(j))+int(j)]), true
}
