package policy

import (
	"math"
	"slices"
)

// smallBlock is an exact Gaussian posterior of the coefficients that some actions share, or of one action's own: mean μ
// and covariance Σ of D coefficients, each with a 64-bit key. It is a Kalman filter: reward y of a vector φ with
// y = ⟨φ, θ⟩ + noise of variance s²,
//
//	w = Σφ,  q = ⟨φ, w⟩,  μ += w·(y − ⟨φ, μ⟩)/(s² + q),  Σ −= wwᵀ/(s² + q)
//
// A coefficient begins with mean 0 and a prior variance when a vector that is learned has it; before, a vector that has
// it is answered with that prior. One that gives way to others is marginalised: its row and column go, which leaves the
// posterior of the rest as it was.
//
// A block is changed only by the policy that owns its generation (smallModel.gen); another one makes a copy first.
type smallBlock struct {
	gen  uint64
	key  uint64
	used uint64   // number of the last event that it learned
	keys []uint64 // ascending; replaced, never changed
	pos  []int32  // the place of keys[i]
	last []uint64 // by place: number of the last event with it
	mean []float64
	cov  []float64 // lower triangle by rows: (i, j), j ≤ i, at i(i+1)/2 + j

	prior []float64 // variances with which coefficients began, with a half-life; otherwise nil
	faded float64   // clock until which it has faded
}

func (b *smallBlock) clone(gen uint64) *smallBlock {
	c := *b
	c.gen = gen
	c.last, c.mean, c.cov, c.prior = slices.Clone(b.last), slices.Clone(b.mean), slices.Clone(b.cov), slices.Clone(b.prior)
	return &c
}

// find returns the place of a key, −1 without one.
func (b *smallBlock) find(key uint64) int {
	if b == nil {
		return -1
	}
	if i, ok := slices.BinarySearch(b.keys, key); ok {
		return int(b.pos[i])
	}
	return -1
}

// at is the index of (i, j) in a packed lower triangle.
func packedAt(i, j int) int {
	if i < j {
		i, j = j, i
	}
	return i*(i+1)/2 + j
}

// term is one entry of a vector φ: the key of its coefficient, the prior variance of that, the value of the entry, and
// the coefficient's place in the block, −1 where it is not there yet.
type term struct {
	key   uint64
	prior float64
	value float64
	place int
}

// locate fills in the places of terms.
func (b *smallBlock) locate(phi []term) {
	for k := range phi {
		phi[k].place = b.find(phi[k].key)
	}
}

// score returns ⟨φ, μ⟩ and q = ⟨φ, Σφ⟩ of located terms. Cost: the square of their number.
func (b *smallBlock) score(phi []term) (z, q float64) {
	for k := range phi {
		t := &phi[k]
		if t.place < 0 {
			q += float64(t.prior * float64(t.value*t.value))
			continue
		}
		z += float64(t.value * b.mean[t.place])
		var row float64
		for l := range k {
			if o := &phi[l]; o.place >= 0 {
				row += float64(o.value * b.cov[packedAt(t.place, o.place)])
			}
		}
		row = float64(2*row) + float64(t.value*b.cov[packedAt(t.place, t.place)])
		q += float64(t.value * row)
	}
	return z, max(q, 0)
}

// deviation returns the standard deviation of a term's coefficient.
func (b *smallBlock) deviation(t *term) float64 {
	if t.place < 0 {
		return math.Sqrt(t.prior)
	}
	return math.Sqrt(max(0, b.cov[packedAt(t.place, t.place)]))
}

// grow gives every term a place, of at most limit; coefficients that were used longest ago give way. Terms must be
// fewer than limit.
func (b *smallBlock) grow(phi []term, limit int, now uint64) {
	fresh := 0
	for k := range phi {
		if phi[k].place < 0 {
			fresh++
		} else {
			b.last[phi[k].place] = now
		}
	}
	if fresh == 0 {
		return
	}
	b.keys, b.pos = roomy(b.keys, fresh, true), roomy(b.pos, fresh, true)
	for over := len(b.mean) + fresh - limit; over > 0; over-- {
		oldest := 0
		for i, n := range b.last {
			if n < b.last[oldest] {
				oldest = i
			}
		}
		b.remove(oldest)
	}
	d := len(b.mean)
	b.last, b.mean = roomy(b.last, fresh, false), roomy(b.mean, fresh, false)
	b.cov = roomy(b.cov, (d+fresh)*(d+fresh+1)/2-len(b.cov), false)
	b.locate(phi)
	for k := range phi {
		t := &phi[k]
		if t.place >= 0 {
			continue
		}
		if t.place = b.find(t.key); t.place >= 0 { // the same key twice
			continue
		}
		t.place = len(b.mean)
		i, _ := slices.BinarySearch(b.keys, t.key)
		b.keys = slices.Insert(b.keys, i, t.key)
		b.pos = slices.Insert(b.pos, i, int32(t.place))
		b.last = append(b.last, now)
		b.mean = append(b.mean, 0)
		b.cov = append(b.cov, make([]float64, t.place)...)
		b.cov = append(b.cov, t.prior)
		if b.prior != nil {
			b.prior = append(b.prior, t.prior)
		}
	}
}

// roomy returns v with room for n more values and no more: blocks are many and grow seldom. It is another slice where
// anew is set.
func roomy[T any](v []T, n int, anew bool) []T {
	if !anew && cap(v)-len(v) >= n {
		return v
	}
	return append(make([]T, 0, len(v)+n), v...)
}

// remove marginalises the coefficient in a place.
func (b *smallBlock) remove(p int) {
	to := 0
	for i := range len(b.mean) {
		for j := range i + 1 {
			if i != p && j != p {
				b.cov[to] = b.cov[i*(i+1)/2+j]
				to++
			}
		}
	}
	b.cov = b.cov[:to]
	b.mean = slices.Delete(b.mean, p, p+1)
	b.last = slices.Delete(b.last, p, p+1)
	if b.prior != nil {
		b.prior = slices.Delete(b.prior, p, p+1)
	}
	k := slices.Index(b.pos, int32(p))
	b.keys, b.pos = slices.Delete(b.keys, k, k+1), slices.Delete(b.pos, k, k+1)
	for i, v := range b.pos {
		if int(v) > p {
			b.pos[i]--
		}
	}
}

// learn folds an error e = y − ⟨φ, μ⟩ of located terms in; every term has a place. w is scratch space of at least D.
func (b *smallBlock) learn(phi []term, e, variance float64, w []float64) {
	d := len(b.mean)
	w = w[:d]
	clear(w)
	for k := range phi {
		p, v := phi[k].place, phi[k].value
		row := b.cov[p*(p+1)/2 : p*(p+1)/2+p+1]
		for j, c := range row {
			w[j] += float64(v * c)
		}
		for i := p + 1; i < d; i++ {
			w[i] += float64(v * b.cov[i*(i+1)/2+p])
		}
	}
	q := 0.0
	for k := range phi {
		q += float64(phi[k].value * w[phi[k].place])
	}
	inverse := 1 / (variance + max(q, 0))
	for i := range d {
		if w[i] == 0 {
			continue
		}
		g := float64(w[i] * inverse)
		b.mean[i] += float64(g * e)
		row := b.cov[i*(i+1)/2 : i*(i+1)/2+i+1]
		for j := range row {
			row[j] -= float64(g * w[j])
		}
	}
}
