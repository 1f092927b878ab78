package effects

import (
	"math"

	"troupe/bandit"
)

// A knob is a number that is played: a price, an hour. Its atom has the role bandit.PlayedRole and says where the number
// lies in its range, u in [0, 1]. What the number adds to the reward is a sum of waves,
//
//	Σ_j θ_j √2 cos(πju)/j,  j = 1 … 15,    θ_j ~ N(0, τ_b) in octave b of j (1 | 2–3 | 4–7 | 8–15).
//
// With one τ for all octaves it would be a random walk over the range; a learned τ for each says how rough the curve is. Of
// a cyclic number, whose 1 is 0 again, the waves are cos and sin of 2πju, j = 1 … 7. Products of the waves of two knobs are
// waves too. The same waves times a value of the context, a feature of the action or its id have groups of their own.
type knob struct {
	field  fieldKey
	u      float64
	cyclic bool
}

// maxKnobs is how many knobs an action may have.
const maxKnobs = 3

// noID is the hash of the first atom of an action that has no id, because there is no other.
var noID = bandit.TagAtom(0, bandit.PlayedRole, 0) >> 11

func (a *Atom) played() bool {
	_, role := bandit.FieldOf(a.Hash)
	return role == bandit.PlayedRole
}

func (a *Atom) knob() knob {
	return knob{a.field(), min(max(a.Value, 0), 1), a.Hash&(bandit.CyclicNumber>>11) != 0}
}

// The limits of waves.
const (
	waves1     = 15 // of a knob, by the number of knobs
	waves2     = 8
	sum2, sum3 = 8, 5 // of the orders of two waves that are multiplied, with two and three knobs
	crossed2   = 6    // the same, with a value of the context
	short      = 7    // of an id with a value of the context, and of a range of a number
	waveRoom   = .55  // of the coordinates, for waves of the last octave with a value of the context
	midRoom    = .9   // of the coordinates, for the octave before
)

// The bases of the groups of waves (bases).
const (
	waveBase    = .75
	crossedBase = .25
	idWaveBase  = .5
	idValueBase = .25
)

// wave is a function of the knobs: wave i of knob a, and where k is above 0 times wave k of knob b.
type wave struct {
	a, b, i, k int
	octave     int
	order      int // of the frequencies, in half turns
	key        uint64
}

// order is how many half turns wave i makes on the range.
func (k *knob) order(i int) int {
	if k.cyclic {
		return (i + 1) / 2 * 2
	}
	return i
}

// octaveOf is that of a frequency: 0 for 1, 1 for 2 and 3, 2 for 4 to 7, 3 above.
func octaveOf(j int) int {
	o := 0
	for j > 1 && o < 3 {
		j, o = j/2, o+1
	}
	return o
}

// octave is that of wave i. Of a cyclic knob frequency j makes 2j half turns.
func (k *knob) octave(i int) int {
	if k.cyclic {
		return octaveOf((i + 1) / 2)
	}
	return octaveOf(i)
}

// wavesOf appends the waves of knobs.
func wavesOf(dst []wave, knobs []knob) []wave {
	most, sum := waves1, 0
	switch len(knobs) {
	case 2:
		most, sum = waves1, sum2
	case 3:
		most, sum = waves2, sum3
	}
	for a := range knobs {
		x := &knobs[a]
		for i := 1; i <= most; i++ {
			if x.order(i) <= most {
				dst = append(dst, wave{a: a, i: i, octave: x.octave(i), order: x.order(i), key: mix2(uint64(x.field)|6<<32, uint64(i))})
			}
		}
	}
	for b := range knobs {
		for a := range b {
			x, y := &knobs[a], &knobs[b]
			for i := 1; x.order(i) < sum; i++ {
				for k := 1; x.order(i)+y.order(k) <= sum; k++ {
					dst = append(dst, wave{a: a, b: b, i: i, k: k, octave: max(x.octave(i), y.octave(k)), order: x.order(i) + y.order(k),
						key: mix2(mix2(uint64(x.field)|6<<32, uint64(i)), mix2(uint64(y.field)|6<<32, uint64(k)))})
				}
			}
		}
	}
	return dst
}

// heights are the values of the waves of each knob, each divided by its frequency: entry i of knob a is at a·(waves1 + 1) + i.
func heights(dst []float64, knobs []knob) []float64 {
	dst = resize(dst, len(knobs)*(waves1+1))
	for a := range knobs {
		knobs[a].heights(dst[a*(waves1+1):][:waves1+1])
	}
	return dst
}

// heights computes cos(jx) = 2 cos(x) cos((j−1)x) − cos((j−2)x), and sin likewise.
func (k *knob) heights(h []float64) {
	h[0] = 1
	if !k.cyclic {
		c := cosPi(k.u)
		last, now := 1., c
		for j := 1; j <= waves1; j++ {
			h[j] = float64(math.Sqrt2*now) / float64(j)
			last, now = now, float64(2*float64(c*now))-last
		}
		return
	}
	t := 2 * k.u // in half turns, below 1 with the sign of the sine
	sign := 1.
	if t > 1 {
		t, sign = 2-t, -1
	}
	c, s := cosPi(t), sign*sinPi(t)
	lastC, nowC, lastS, nowS := 1., c, 0., s
	for j := 1; j <= waves1/2; j++ {
		h[2*j-1], h[2*j] = float64(math.Sqrt2*nowC)/float64(j), float64(math.Sqrt2*nowS)/float64(j)
		lastC, nowC = nowC, float64(2*float64(c*nowC))-lastC
		lastS, nowS = nowS, float64(2*float64(c*nowS))-lastS
	}
	h[waves1] = 0
}

// at is the value of a wave by the heights of the knobs.
func (w *wave) at(h []float64) float64 {
	v := h[w.a*(waves1+1)+w.i]
	if w.k > 0 {
		v *= h[w.b*(waves1+1)+w.k]
	}
	return v
}

// cosPi returns cos(πt) for t in [0, 1], with the same bits on every machine. The error is below 10⁻¹⁵.
func cosPi(t float64) float64 {
	switch {
	case t > .75:
		return -cosSmall(float64(math.Pi * (1 - t)))
	case t > .25:
		return sinSmall(float64(math.Pi * (.5 - t)))
	}
	return cosSmall(float64(math.Pi * t))
}

// sinPi returns sin(πt) for t in [0, 1].
func sinPi(t float64) float64 {
	if t > .5 {
		t = 1 - t
	}
	if t > .25 {
		return cosSmall(float64(math.Pi * (.5 - t)))
	}
	return sinSmall(float64(math.Pi * t))
}

// cosSmall and sinSmall are the series for |x| ≤ π/4.
func cosSmall(x float64) float64 {
	y, s := float64(x*x), 0.
	for n := 16; n > 0; n -= 2 {
		s = float64(float64(1-s)*y) / float64(n*(n-1))
	}
	return 1 - s
}

func sinSmall(x float64) float64 {
	y, s := float64(x*x), 0.
	for n := 17; n > 1; n -= 2 {
		s = float64(float64(1-s)*y) / float64(n*(n-1))
	}
	return float64(x * (1 - s))
}

// hasKnobs reports whether an action has numbers that are played.
func hasKnobs(action []Atom) bool {
	for i := 1; i < len(action); i++ {
		if action[i].played() {
			return true
		}
	}
	return false
}

// readKnobs takes the knobs of an action.
func (r *reading) readKnobs(atoms []Atom) {
	r.knobs = r.knobs[:0]
	for i := range atoms {
		if atoms[i].played() && len(r.knobs) < maxKnobs {
			r.knobs = append(r.knobs, atoms[i].knob())
		}
	}
	r.waves = wavesOf(r.waves[:0], r.knobs)
}

// groupOf is the group of a wave alone.
func (r *reading) groupOf(w *wave) group {
	f := r.knobs[w.a].field
	if w.k == 0 {
		return group{ofWaves, f, fieldKey(w.octave)}
	}
	return group{ofWavePairs, f, r.knobs[w.b].field | fieldKey(w.octave)<<21}
}

// with is the group of a wave times something of another field.
func (r *reading) with(k kind, w *wave, of fieldKey, ok kind) group {
	f := r.knobs[w.a].field
	if w.k > 0 {
		f = fieldKey(mix2(uint64(f), uint64(r.knobs[w.b].field)))&(actionField-1) | actionField
	}
	return group{k, f | fieldKey(w.octave)<<21, of | fieldKey(ok)<<21}
}

// eachWave calls f for each coefficient of a wave that the request reads: the number of the wave, the key and the group of
// the coefficient, and what the wave is multiplied by. scan and compare have read the rest of the request.
func (r *reading) eachWave(l *layout, id uint64, known bool, f func(w int, key uint64, g group, x float64)) {
	own, _ := l.count(actionField)
	contexts, _ := l.count(0)
	several := len(r.knobs) > 1
	for n := range r.waves {
		w := &r.waves[n]
		f(n, w.key, r.groupOf(w), 1)
		if several && (w.k == 0 && w.order > waves2 || w.k > 0 && w.order > crossed2) {
			continue
		}
		r.parts(l, nil, r.ownLevels, r.ownSpans, own, func(key uint64, of fieldKey, k kind, x float64) {
			if k != ofRanges || w.order <= short {
				f(n, mix2(w.key, key), r.with(ofCrossed, w, of, k), x)
			}
		})
		r.parts(l, nil, r.levels, r.spans, contexts, func(key uint64, of fieldKey, k kind, x float64) {
			if k != ofRanges || w.order <= short {
				f(n, mix2(w.key, key), r.with(ofCrossed, w, of, k), x)
			}
		})
		if !known {
			continue
		}
		f(n, mix2(w.key, id), r.with(ofIDWaves, w, 0, 0), 1)
		if w.order > short {
			continue
		}
		for _, v := range r.levels {
			if v.core {
				f(n, mix2(w.key, mix2(id, v.key)), r.with(ofIDCrossed, w, l.fields[v.field].key, ofValues), v.x)
			}
		}
	}
}

// putWaves adds the waves of the knobs to the vector.
func (r *reading) putWaves(l *layout, x *index, id uint64, known bool, to learner) {
	if len(r.knobs) == 0 || r.still {
		return
	}
	r.heights = heights(r.heights, r.knobs)
	r.eachWave(l, id, known, func(w int, key uint64, g group, v float64) {
		v *= r.waves[w].at(r.heights)
		if _, ok := x.coords[key]; !ok && g.octave() >= 2 && (to == nil || !to.room(g)) {
			return
		}
		r.put(l, x, key, g, v, to)
	})
}

// octave is that of the waves of a group.
func (g group) octave() int {
	switch g.kind {
	case ofWaves:
		return int(g.b)
	case ofWavePairs:
		return int(g.b >> 21 & 3)
	case ofCrossed, ofIDWaves, ofIDCrossed:
		return int(g.a >> 21 & 3)
	}
	return 0
}
