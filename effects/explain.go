package effects

import "slices"

// Part is how much of what the model has found goes back to one thing: an action itself, a field, or two fields
// together.
type Part struct {
	// A and B are numbers of fields (bandit.FieldOf); B is 0 for one field. Both are 0 for the actions themselves.
	A, B       uint32
	OfA, OfB   bool    // the field is one of the actions' features
	Share      float64 // of what differs between decisions, as far as the model sees it
	Deviations float64 // the prior standard deviation of its coefficients, in standard deviations of the rewards
}

// Explained returns the parts in descending order of their share, and the share of the variance of the rewards that the
// model explains, 1 − σ²/s². Both are empty while all rewards were equal. With coefficients m and sums A, coordinate 0
// that is always 1, part g has
//
//	S_g = Σ_k m_kgᵀ A_kgg m_kg − (A_k0gᵀ m_kg)²/A_k00,   share S_g/Σ S,
//
// which is the sum of squares of what the part adds, about its mean in the block: what it adds to all decisions alike is of
// the action. The action itself has the sum of squares of the blocks' means about their mean.
func (m *Model) Explained() (parts []Part, of float64) {
	if !m.h.known() {
		return nil, 0
	}
	type key struct {
		a, b     uint32
		ofA, ofB bool
	}
	keyOf := func(g *group) key {
		k := key{uint32(g.a) & (1<<20 - 1), uint32(g.b) & (1<<20 - 1), g.a&actionField != 0, g.b&actionField != 0}
		switch g.kind {
		case ofAction:
			k = key{}
		case ofIDs: // b tells values from ranges
			k.b, k.ofB = 0, false
		}
		return k
	}
	sums := map[key]*Part{}
	total := 0.
	for i := range m.lay.groups {
		k := keyOf(&m.lay.groups[i])
		if sums[k] == nil {
			sums[k] = &Part{A: k.a, B: k.b, OfA: k.ofA, OfB: k.ofB}
		}
		p := sums[k]
		p.Deviations = max(p.Deviations, sqrt(m.h.tau[i]/m.h.variance))
	}
	of2 := func(group int32) *Part { return sums[keyOf(&m.lay.groups[group])] }
	add := func(p *Part, s float64) {
		p.Share += s
		total += s
	}
	var means mean
	for _, b := range m.main.blocks {
		if b == nil || b.a[0] == 0 {
			continue
		}
		means.add(b.a[0], m.found(b, func(g int32, s float64) { add(of2(g), s) }))
	}
	if !m.lay.joint {
		add(of2(m.lay.coords[0].group), means.between())
	}
	for _, p := range m.main.tail.pages {
		for i := range p.cells {
			if c := &p.cells[i]; c.key != 0 && c.n > 0 {
				w := c.r / (c.n + m.h.s2/m.h.prior(c.group))
				s := float64(float64(w*w) * c.n)
				of2(c.group).Share += s
				total += s
			}
		}
	}
	for _, p := range sums {
		if total > 0 {
			p.Share /= total
		}
		parts = append(parts, *p)
	}
	slices.SortFunc(parts, func(x, y Part) int {
		switch {
		case x.Share != y.Share && x.Share > y.Share:
			return -1
		case x.Share != y.Share:
			return 1
		case x.A != y.A:
			return int(x.A) - int(y.A)
		}
		return int(x.B) - int(y.B)
	})
	return parts, max(0, 1-m.h.s2/m.h.variance)
}

// found calls add with the sum of squares of each group of coordinates of a block, and returns the mean of what the block
// expects.
func (m *Model) found(b *block, add func(group int32, s float64)) (mean float64) {
	d := len(b.post.m)
	of := map[int32][]int{}
	var order []int32
	for j := range d {
		g := m.lay.coords[j].group
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
// it counts as the nearest of the two until there is a second one like it. ok is false before the first reward.
func (m *Model) Range() (lo, hi float64, ok bool) {
	if m.events == 0 {
		return 0, 0, false
	}
	lo, hi = m.extremes.bounds()
	return lo + m.offset, hi + m.offset, true
}

// Far returns the rewards that are far from all others, by more than ten standard deviations: at most one above and one
// below. Each counts as the nearest of the others until there is a second one like it.
func (m *Model) Far() (far []float64) {
	if !m.h.known() {
		return nil
	}
	lo, hi := m.extremes.bounds()
	sd := sqrt(m.h.variance)
	if y := m.extremes.top[0].raw; y > hi+float64(10*sd) {
		far = append(far, y+m.offset)
	}
	if y := m.extremes.low[0].raw; y < lo-float64(10*sd) {
		far = append(far, y+m.offset)
	}
	return far
}

// Events returns how many rewards were learned.
func (m *Model) Events() uint64 { return m.events }

// Changes returns the changes of the rewards that were noticed, the last one last. The slice must not be changed.
func (m *Model) Changes() []Change { return m.changes }

// Coefficient returns the mean and the standard deviation of what a value of the context adds for an action, by the
// hashes of their atoms: with context 0 what the action adds by itself. isID says that action is an id, and not a value
// of the actions' features. ok is false where the model has no coordinate for it.
func (m *Model) Coefficient(action uint64, isID bool, context uint64) (w, deviation float64, ok bool) {
	k, key := int32(0), mix2(context, 0)
	switch {
	case !m.lay.joint:
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
	if m.lay.joint && context != 0 {
		key = mix2(key, mix2(context, 0))
	}
	j, ok := m.find.coords[key]
	if !ok || int(j) >= len(m.lay.coords) || int(k) >= len(m.main.blocks) || m.main.blocks[k] == nil {
		return 0, 0, false
	}
	p := &m.main.blocks[k].post
	if int(j) >= len(p.m) {
		return 0, 0, false
	}
	return p.m[j], sqrt(p.p[triangle(int(j))+int(j)]), true
}
