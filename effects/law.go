package effects

import (
	"slices"

	"troupe/rng"
)

// drawing counts votes. It is the scratch space of one goroutine.
type drawing struct {
	z, s    []float64 // mean and standard deviation of each action, of the copy that draws
	normal  []float64 // voters for each action
	votes   []uint64
	pick    [voters]int
	scale   [voters]float64
	winner  [voters]int
	weights []float64
	curve   curve
	unseen  []float64 // of each action: the chance that a draw prefers it for a reward that was not seen yet
	u       [voters]float64
}

// Until lets Votes ask late at every 16th action, and return no votes when that returns an error. nil takes it away.
func (m *Model) Until(late func() error) { m.late = late }

// Votes returns how many of 64 draws prefer each action of a decision, and which each prefers. prices, if not nil, are
// taken off the expected rewards; they are in units of the rewards. Draws are keyed by the number of the decision and the ids
// of the actions, whatever their order. Each action has an id, its first atom. The results are valid until the next call, and
// the model does not change; but a Model belongs to one goroutine.
//
// It costs K·(d² + 64) operations for K actions and d values of a request, in each copy that a draw takes.
func (m *Model) Votes(context []Atom, actions [][]Atom, prices func(i int) float64, number uint64) (votes []uint64, winner []int) {
	d, count := &m.drawing, len(actions)
	stream := m.keys.Sub(number)
	d.weights = m.shares(d.weights)
	m.toss(d, stream.Round(^uint64(0)))
	if slices.ContainsFunc(actions, hasKnobs) {
		m.votesOfCurves(context, actions, prices, stream)
		d.votes = append(d.votes[:0], make([]uint64, count)...)
		for _, i := range d.winner {
			d.votes[i]++
		}
		return d.votes, d.winner[:]
	}
	d.normal = resize(d.normal, voters*count)
	for i := range count {
		stream.Round(actions[i][0].Hash).Normals(d.normal[i*voters:(i+1)*voters], 0)
	}
	d.z, d.s = resize(d.z, count*len(d.weights)), resize(d.s, count*len(d.weights))
	d.unseen = resize(d.unseen, count)
	var wanted [5]bool // of the model and its copies
	for _, c := range d.pick {
		wanted[c] = true
	}
	for i := range count {
		if i%16 == 0 && m.late != nil && m.late() != nil {
			return nil, nil
		}
		var v *vector
		var k int32
		if i == 0 {
			k, v = m.read(context, actions[i], false)
		} else {
			k, v = m.readNext(actions[i])
		}
		d.unseen[i] = m.unseen(k)
		for c := range d.weights {
			if !wanted[c] {
				continue
			}
			s := m.s.main
			if c > 0 {
				s = m.s.copies[c-1]
			}
			z, q := m.estimate(s, k, v)
			if prices != nil {
				z -= prices(i)
			}
			d.z[c*count+i], d.s[c*count+i] = z, float64(scaleOf(len(v.at)+len(v.tail))*sqrt(q))
		}
	}
	d.votes = d.votes[:0]
	for range count {
		d.votes = append(d.votes, 0)
	}
	for j := range voters {
		z, s := d.z[d.pick[j]*count:][:count], d.s[d.pick[j]*count:][:count]
		best, at := 0., 0
		for i := range count {
			if v := z[i] + float64(float64(d.scale[j]*s[i])*d.normal[i*voters+j]); i == 0 || v > best {
				best, at = v, i
			}
		}
		for i, u := 0, d.u[j]; i < count; i++ {
			if u -= d.unseen[i]; u < 0 {
				at = i
				break
			}
		}
		d.votes[at]++
		d.winner[j] = at
	}
	return d.votes, d.winner[:]
}

// unseen is the chance that a draw prefers the action of a block for a reward that it has not paid yet: e²/(n + 1) after n ≥ 2
// rewards that are all the same, or all but one that is bounded, where the model explains the share e of the rewards' variance.
// Where little is explained the noise of others says enough of what an action may pay.
func (m *Model) unseen(k int32) float64 {
	h := &m.s.h
	if m.s.lay.joint || !h.known() || k < 0 || int(k) >= len(m.s.main.blocks) || m.s.main.blocks[k] == nil {
		return 0
	}
	b := m.s.main.blocks[k]
	if rss := b.syy - float64(b.sy/b.n*b.sy); b.n < 1.5 || rss > 1e-6*h.variance && !m.s.extremes.bounded(k) {
		return 0
	}
	e := max(0, 1-h.s2/h.variance)
	return float64(e*e) / (b.n + 1)
}

// toss draws the copy and the scale of each draw.
func (m *Model) toss(d *drawing, source rng.Source) {
	for j := range voters {
		u := source.Float64(2 * j)
		c := 0
		for c+1 < len(d.weights) && u >= d.weights[c] {
			u -= d.weights[c]
			c++
		}
		d.pick[j], d.scale[j] = c, narrow
		d.u[j] = source.Float64(2*voters + j)
		if source.Float64(2*j+1) < wideShare {
			d.scale[j] = 1
		}
	}
}

// Estimate returns the expected reward of an action, in units of the rewards. It costs what an action costs in Votes, once.
func (m *Model) Estimate(context, action []Atom) float64 {
	k, v := m.read(context, action, false)
	z, _ := m.estimate(m.s.main, k, v)
	return z + m.s.offset
}
