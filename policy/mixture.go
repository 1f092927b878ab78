package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/internal/paged"
	"troupe/rng"
)

// mixture is what Hashed has beside its sparse models when vectors end with a list of their atoms: small exact models,
// and weights by what each model has predicted. Readers of a shared state have the same slices; whoever changes one
// makes a copy first.
type mixture struct {
	first  uint32 // coordinate of the list
	fields *fieldTable
	smalls []*smallModel
	likes  []float64 // of the sparse models: discounted log likelihood
	gone   []bool
	trial  []bool  // sparse models that came back lately
	count  float64 // discounted number of events
	n      uint64
	sum    float64 // of all rewards, in [0, 1], and of one of ½ before the first

	changes changes

	fade  *fading // nil without a half-life
	clock float64 // of it; Hashed keeps it

	// scratch space
	atoms  smallAtoms
	phi    []term
	given  bool     // it was shared and has not learned since
	weight []uint32 // of all models: small ones first, in multiples of 1/weightTotal
	likely []float64

	playing []part
}

// Constants of the mixture. docs/record/does-it-learn.md says how they were chosen.
const (
	weightTotal    = 1 << 16
	weightLow      = 1. / 32 // a model with a smaller weight does not play
	handicap       = 2       // log likelihood that sparse models begin behind
	secondHandicap = 4       // from rules 2 on: more than log 1/weightLow, so they play only after they have predicted better
	newcomer       = 2       // and small ones that are added later
	givenUp        = 60      // a small model that is so far behind the best one leaves, and so does a sparse one behind its twin
	smallScale     = .5      // of the members, in units of the standard deviation
	aloneScale     = 1       // where requests have ids only: half would leave some runs with the wrong action for long
	sparseScale    = .5
)

func newMixture(first uint32, folds int, restarts bool, rules int, fade *fading) *mixture {
	x := &mixture{first: first, sum: .5, fields: &fieldTable{rules: rules}, likes: make([]float64, folds), gone: make([]bool, folds),
		trial: make([]bool, folds), changes: changes{on: restarts, unit: 1}, fade: fade}
	x.smalls = []*smallModel{x.newSmall(smallIDs, 0)}
	behind := float64(handicap)
	if rules >= 2 {
		behind = secondHandicap
	}
	for k := range x.likes {
		x.likes[k] = -behind
	}
	return x
}

func (x *mixture) newSmall(kind smallKind, field uint32) *smallModel {
	s := &smallModel{smallStart: smallStart{kind: kind, gen: 1, listed: 1}, field: field}
	if x.changes.on {
		s.noise, s.heard = firstVariance, 1
	}
	return s
}

// offset is the mean reward of all events.
func (x *mixture) offset() float64 { return x.sum / (1 + float64(x.n)) }

// weights fills in and returns the weights of the small models, then those of the sparse ones. Their sum is
// weightTotal.
func (x *mixture) weights() []uint32 {
	n := len(x.smalls) + len(x.likes)
	x.likely = fit(x.likely, n)
	best, most := 0, math.Inf(-1)
	for k := range x.likely {
		x.likely[k] = math.Inf(-1)
		if k < len(x.smalls) {
			if s := x.smalls[k]; !s.gone {
				x.likely[k] = s.like
			}
		} else if k -= len(x.smalls); !x.gone[k] {
			x.likely[k+len(x.smalls)] = x.likes[k]
		}
	}
	for k, l := range x.likely {
		if l > most {
			best, most = k, l
		}
	}
	var sum float64
	for k, l := range x.likely {
		if l -= most; l < -20 {
			x.likely[k] = 0
			continue
		}
		x.likely[k] = logs.Exp(l)
		sum += x.likely[k]
	}
	var play float64
	for k, v := range x.likely {
		if v < float64(weightLow*sum) {
			x.likely[k] = 0
		}
		play += x.likely[k]
	}
	if cap(x.weight) < n {
		x.weight = make([]uint32, n)
	}
	x.weight = x.weight[:n]
	left := uint32(weightTotal)
	for k, v := range x.likely {
		x.weight[k] = uint32(float64(v/play) * weightTotal)
		left -= x.weight[k]
	}
	x.weight[best] += left
	return x.weight
}

// list returns the atoms of a vector, false when it has no list.
func (x *mixture) list(at []uint32, v []float64) (a bandit.Atoms, ok bool) {
	if a, ok = bandit.ReadAtoms(at, v, x.first); ok {
		x.atoms.set(&a)
	}
	return a, ok
}

// estimate returns the mean of a start of a small model for the atoms that list has read, and its variance.
func (x *mixture) estimate(s *smallModel, start int) (z, q float64) {
	block := x.terms(s)
	t := s.start(start)
	_, z, q = t.predict(x.phi, block, x.offsetOf(t))
	return z, q
}

// learn folds a reward in [lo, hi] of the atoms that list has read into the small models. Its log likelihoods are
// discounted by gamma.
func (x *mixture) learn(reward, lo, hi, gamma float64) {
	y := (reward - lo) / (hi - lo)
	x.given = false
	var room [sharedLimit]float64
	x.fields = x.fields.meet(&x.atoms)
	x.add()
	if x.fade != nil {
		x.fadeBlocks()
	}
	offset := x.offset()
	var e evidence
	if x.changes.on {
		x.changes.meet(reward)
		e = x.evidence(reward, lo, hi)
	}
	for _, s := range x.smalls {
		if s.gone {
			continue
		}
		block := x.terms(s)
		var like float64
		if x.changes.on {
			like = x.learnStarts(s, block, y, &e, room[:])
		} else {
			like = s.learn(x.phi, block, offset, y, room[:])
		}
		s.like = float64(gamma*s.like) + like
	}
	x.n++
	x.sum += y
}

// add begins the small models that the fields call for.
func (x *mixture) add() {
	var context, alone int
	action := false
	for i := range x.fields.entries {
		e := &x.fields.entries[i]
		switch {
		case e.action:
			action = true
		default:
			context++
			if alone < mostAlone {
				alone++
				x.begin(smallField, e.field, newcomer)
			}
		}
	}
	if context > 0 {
		x.begin(smallLinear, 0, newcomer)
	}
	if action {
		x.begin(smallShared, 0, newcomer)
	}
	if action && context > 0 {
		x.begin(smallCrossed, 0, newcomer)
	}
	if n := x.fields.numbers(false); n > 0 && n <= mostNumbers {
		x.begin(smallBins, 0, newcomer)
	}
	if x.fields.rules >= 3 {
		x.addRanges(context)
	}
	for _, s := range x.smalls {
		if !s.gone && x.crowded(s.kind) {
			s.giveUp()
		}
	}
}

// crowded reports whether a kind that reads numbers by ranges has too many of them.
func (x *mixture) crowded(kind smallKind) bool {
	switch kind {
	case smallBins:
		return x.fields.numbers(false) > mostNumbers
	case smallRange, smallRanges, smallGrid:
		return !x.fields.ranged(kind)
	}
	return false
}

// begin adds a small model unless it is there. After the first event it begins so far behind the best one.
func (x *mixture) begin(kind smallKind, field uint32, behind float64) {
	best := math.Inf(-1)
	for _, s := range x.smalls {
		if s.kind == kind && s.field == field {
			return
		}
		if !s.gone {
			best = max(best, s.like)
		}
	}
	if len(x.smalls) == mostSmalls {
		return
	}
	s := x.newSmall(kind, field)
	if x.n > 0 && best > math.Inf(-1) {
		s.like = best - behind
	}
	x.smalls = append(x.smalls, s)
}

// settle lets models go that have lost.
func (x *mixture) settle(folds []*sparseFold, wide []bool) {
	best := math.Inf(-1)
	for _, s := range x.smalls {
		if !s.gone {
			best = max(best, s.like)
		}
	}
	for k, l := range x.likes {
		if !x.gone[k] {
			best = max(best, l)
		}
	}
	for _, s := range x.smalls {
		if !s.gone && s.like < best-givenUp {
			s.giveUp()
		}
	}
	for k := range folds {
		for l := range folds {
			if wide[k] == wide[l] && !x.gone[k] && !x.gone[l] && x.likes[k] < x.likes[l]-givenUp {
				x.gone[k], x.trial[k] = true, false
				folds[k].reset()
			}
		}
	}
}

// rescale turns rewards y into αy + β.
func (x *mixture) rescale(alpha, beta float64) {
	x.given = false
	x.sum = float64(alpha*x.sum) + float64((1+float64(x.n))*beta)
	for i := range x.changes.means {
		x.changes.means[i] = float64(alpha*x.changes.means[i]) + beta
	}
	for _, s := range x.smalls {
		s.rescale(alpha, beta)
	}
}

// share returns the mixture as it is now, for readers, in the room of y where that is not nil. The one that goes on
// copies what it changes.
func (x *mixture) share(y *mixture) *mixture {
	if y == nil {
		y = new(mixture)
	}
	y.take(x)
	for _, s := range x.smalls {
		s.age(1)
	}
	x.given = true
	return y
}

// reclaim takes back what the last share gave.
func (x *mixture) reclaim() {
	if x.given {
		for _, s := range x.smalls {
			s.age(-1)
		}
	}
	x.given = false
}

// take copies the models of o, whose blocks both have then: s changes none of them, because its generation is later.
func (x *mixture) take(o *mixture) {
	x.first, x.fields, x.n, x.sum, x.count, x.given = o.first, o.fields, o.n, o.sum, o.count, false
	x.changes, x.fade, x.clock = o.changes, o.fade, o.clock
	x.likes = append(x.likes[:0], o.likes...)
	x.gone, x.trial = append(x.gone[:0], o.gone...), append(x.trial[:0], o.trial...)
	if len(x.smalls) > len(o.smalls) {
		x.smalls = x.smalls[:len(o.smalls)]
	}
	for k, s := range o.smalls {
		if k == len(x.smalls) {
			x.smalls = append(x.smalls, new(smallModel))
		}
		x.smalls[k].own(s, x.smalls[k].later)
	}
}

// blend computes the mixture's members on the actions of a set. Member j of any model adds to an action's score its
// deviation there times N(0, 1): what is the action's own has one such number for each member, at the action's id, and
// what actions share has one for each coordinate; what all actions of a request share changes no ranking and is left
// out.
type blend struct {
	*sparseMembers
	own   []float64 // K×m: numbers of the actions' own
	lists []bandit.Atoms
	same  bool        // all have one context
	of    *smallModel // the one that phi is of, nil for none
	phi   []term      // of every action, where all have one context and no coefficients are shared
}

// open reads the lists of a set; false when an action has none.
func (b *blend) open(x *mixture, set bandit.Sparse) bool {
	k := set.Len()
	b.same, b.of = true, nil
	if cap(b.lists) < k {
		b.lists = make([]bandit.Atoms, k)
	}
	b.lists = b.lists[:k]
	for i := range k {
		at, v := set.Nonzeros(i)
		var ok bool
		if b.lists[i], ok = bandit.ReadAtoms(at, v, x.first); !ok {
			return false
		}
		b.same = b.same && sameContext(&b.lists[0], &b.lists[i])
	}
	return true
}

// sameContext reports whether two lists have the same atoms of the context in the same order.
func sameContext(a, b *bandit.Atoms) bool {
	if a.Context != b.Context {
		return false
	}
	for i := range a.Context {
		h, v := a.At(i)
		if g, w := b.At(i); g != h || w != v {
			return false
		}
	}
	return true
}

// terms returns φ of action i under a small model, and the key of its block.
func (b *blend) terms(x *mixture, s *smallModel, i int) (key uint64, phi []term) {
	if s.shared() || !b.same {
		x.atoms.set(&b.lists[i])
		return x.terms(s), x.phi
	}
	if b.of != s {
		x.atoms.set(&b.lists[i])
		x.terms(s)
		b.of, b.phi = s, append(b.phi[:0], x.phi...)
	}
	key, _ = b.lists[i].At(b.lists[i].Context)
	return key, b.phi
}

// normals fills own with the numbers of every action and member, or only with those of one member.
func (b *blend) normals(stream rng.Stream, only int) {
	k, m := len(b.lists), b.m
	if only >= 0 {
		m = 1
	}
	b.own = fit(b.own, k*m)
	room := lend((m + 3) / 4 * 4 * rng.Lanes)
	defer lent.Put(room)
	g := *room
	var lanes [rng.Lanes]uint32
	for from := 0; from < k; from += rng.Lanes {
		n := min(rng.Lanes, k-from)
		for l := range lanes {
			h, _ := b.lists[from+min(l, n-1)].At(b.lists[from+min(l, n-1)].Context)
			lanes[l] = uint32(h)
		}
		if only >= 0 {
			stream.Round(uint64(only)).FillRound(b.own[from:from+n], lanes[:n], rng.NormalLaw)
			continue
		}
		stream.Round(0).FillMembers(g, rng.Lanes, &lanes, (m+3)/4, rng.NormalLaw)
		for l := range n {
			for j := range m {
				b.own[(from+l)*m+j] = g[j*rng.Lanes+l]
			}
		}
	}
}

// begin makes room for the scores of k actions and m members.
func (b *blend) begin(only int) (k, m int) {
	k, m = len(b.lists), b.m
	if only >= 0 {
		m = 1
	}
	b.base, b.spread = fit(b.base, k), fit(b.spread, k*m)
	clear(b.spread)
	return k, m
}

// small computes base and spread under a start of a small model.
func (b *blend) small(x *mixture, s *smallModel, t *smallStart, stream rng.Stream, only int) {
	k, m := b.begin(only)
	offset := x.offsetOf(t)
	for i := range k {
		key, phi := b.terms(x, s, i)
		block, z, q := t.predict(phi, key, offset)
		b.base[i] = z
		row, root := b.spread[i*m:(i+1)*m], math.Sqrt(q)
		if !s.shared() {
			for j := range row {
				row[j] = float64(root * b.own[i*m+j])
			}
			continue
		}
		b.c, b.masked = b.c[:0], b.masked[:0]
		var sum float64
		for l := range phi {
			t := &phi[l]
			v := float64(t.value * block.deviation(t))
			sum += float64(v * v)
			b.c, b.masked = append(b.c, v), append(b.masked, uint32(t.key))
		}
		if sum > 0 {
			root /= math.Sqrt(sum)
		}
		for l := range b.c {
			b.c[l] *= root
		}
		b.addChunks(row, stream, only)
	}
}

// addChunks adds the members' sums over c at the coordinates of masked.
func (b *blend) addChunks(row []float64, stream rng.Stream, only int) {
	all, c := b.masked, b.c
	for len(c) > 0 {
		n := min(len(c), chunk)
		b.masked = all[:n]
		b.add(row, c[:n], stream, only)
		all, c = all[n:], c[n:]
	}
	b.masked = b.masked[:0]
}

// sparse computes base and spread under a sparse model.
func (b *blend) sparse(v *view, set bandit.Sparse, stream rng.Stream, only int) error {
	k, m := b.begin(only)
	for i := range k {
		at, val := set.Nonzeros(i)
		l := &b.lists[i]
		n, scale := v.part(at, val)
		at, val = at[:n], val[:n]
		b.c = fit(b.c, n)
		z := v.fold.gather(b.c, at, val, scale, v.mask)
		if z-z != 0 {
			return fmt.Errorf("policy: action %d has the score %v: %w", i, z, bandit.ErrNotFinite)
		}
		b.base[i] = z
		singles := 1 + l.Context
		sum := linalg.Dot(b.c[:singles], b.c[:singles])
		common := singles + l.Context
		pairs := pairsFrom(at, v.mask)
		row := b.spread[i*m : (i+1)*m]
		c := b.c
		b.masked = b.masked[:0]
		to := 0
		for e := common; e < n; e++ {
			if e == pairs {
				own := c[e : e+l.OwnPairs]
				sum += linalg.Dot(own, own)
				e += l.OwnPairs - 1
				continue
			}
			c[to] = c[e]
			b.masked = append(b.masked, at[e]&v.mask)
			to++
		}
		root := math.Sqrt(sum)
		for j := range row {
			row[j] = float64(root * b.own[i*m+j])
		}
		b.c = c[:to]
		b.addChunks(row, stream, only)
		b.c = c
	}
	return nil
}

// pairsFrom returns where pairs begin.
func pairsFrom(at []uint32, mask uint32) int {
	lo, hi := 0, len(at)
	for lo < hi {
		if mid := (lo + hi) / 2; at[mid] > mask {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// reset forgets everything.
func (f *sparseFold) reset() {
	f.cells = paged.New(f.cells.Bits())
	f.n, f.rss, f.offset, f.count = 0, 0, 0, 0
}
