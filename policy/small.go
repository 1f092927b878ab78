package policy

import (
	"slices"

	"troupe/bandit"
	"troupe/internal/logs"
)

// Prior variances of the small models, in units of the squared range of rewards. They were chosen on the streams of
// `troupe load`; docs/record/does-it-learn.md has what others give.
const (
	meanPrior    = .07 // of an action's mean
	levelPrior   = .02 // of what a value of a field, or a number of one standard deviation, adds to it
	productPrior = .01 // of what a value of the context adds to a value of the action
	ownPrior     = .6  // of the sum of all that one action's model has
	totalPrior   = .12 // of the sum of all, where actions share coefficients

	firstVariance = .25 // σ̂² before the first event, which counts once
)

// Limits of the small models.
const (
	mostLevels  = 32      // a field with more values is not read
	mostIDs     = 64      // nor are ids, by the models that actions share
	mostFields  = 64      // fields that are known
	mostAlone   = 12      // models of one field
	mostNumbers = 4       // numbers whose ranges the models "bins", "range" and "ranges" read
	ownLimit    = 128     // coefficients of a block of one action
	sharedLimit = 256     // and of all actions
	mostBlocks  = 512     // blocks of a model
	mostCells   = 1 << 17 // entries of the covariances of a model
	mostSmalls  = 24
)

// smallKind is what a small model reads.
type smallKind uint8

const (
	smallIDs     smallKind = iota // the action alone
	smallField                    // one field of the context, for each action
	smallLinear                   // all fields of the context, numbers as slopes, for each action
	smallBins                     // numbers by their ranges, too
	smallShared                   // ids and features of the actions
	smallCrossed                  // and features of the actions × fields of the context
	smallRange                    // rules 3 (small_ranges.go): one number of the context by ranges, for each action
	smallRanges                   // all fields of the context, numbers by ranges, for each action
	smallGrid                     // ids and features of the actions, and ranges of their numbers × those of the context
	smallKinds
)

func (k smallKind) String() string {
	return [...]string{"ids", "field", "linear", "bins", "shared", "crossed", "range", "ranges", "grid"}[k]
}

// smallModel is an exact Bayesian linear model on few coordinates: one block for each action, or one for all. σ̂² is
// (¼ + Σ e²s²/(s² + q))/(1 + n) over its one-step errors, and each event is learned with the σ̂² before it.
//
// With restarts it has several starts, oldest first, and σ̂² is common to them (starts.go).
type smallModel struct {
	smallStart // the oldest; without restarts the only one

	field uint32 // of smallField
	rss   float64
	like  float64 // discounted log likelihood
	gone  bool    // it has lost, or its vectors are too long; it has no blocks
	trial bool    // it came back lately (returns.go)

	later []smallStart // the others; readers have a copy
	noise float64      // σ̂² of all starts, with restarts
	heard float64      // number of events that it is the mean of, 0 without restarts
}

// smallStart is what a small model has learned since one moment.
type smallStart struct {
	kind smallKind
	n    uint64 // events

	born  uint64  // events of the mixture before it began
	first float64 // mean reward with which it began
	sum   float64 // of its rewards, and first once
	trust float64 // log weight among the starts of the model

	gen    uint64
	listed uint64   // generation of keys, places and blocks
	keys   []uint64 // of blocks, ascending
	places []int32
	blocks []*smallBlock
	cells  int    // entries of the covariances
	digest uint64 // sum of those of the blocks
}

func (s *smallModel) variance() float64 {
	if s.heard > 0 {
		return s.noise
	}
	return (firstVariance + s.rss) / (1 + float64(s.n))
}

func (s *smallStart) shared() bool {
	return s.kind == smallShared || s.kind == smallCrossed || s.kind == smallGrid
}

// single reports whether models of the kind read one field each.
func (k smallKind) single() bool { return k == smallField || k == smallRange }

func (s *smallStart) limit() int {
	if s.shared() {
		return sharedLimit
	}
	return ownLimit
}

func (s *smallStart) block(key uint64) *smallBlock {
	if i, ok := slices.BinarySearch(s.keys, key); ok {
		return s.blocks[s.places[i]]
	}
	return nil
}

// ownLists makes the lists of blocks those of the start alone.
func (s *smallStart) ownLists() {
	if s.listed != s.gen {
		s.keys, s.places, s.blocks = slices.Clone(s.keys), slices.Clone(s.places), slices.Clone(s.blocks)
		s.listed = s.gen
	}
}

// own returns block k to be changed. The caller keeps the digest.
func (s *smallStart) own(k int) *smallBlock {
	s.ownLists()
	b := s.blocks[k]
	if b.gen != s.gen {
		b = b.clone(s.gen)
		s.blocks[k] = b
	}
	return b
}

// edit returns the block of a key to be changed, and takes it out of the digest; a new one of an action begins with its
// mean, whose prior is given. With a half-life a block keeps prior variances from clock on.
func (s *smallStart) edit(key uint64, now uint64, mean, prior float64, clock *float64) *smallBlock {
	s.ownLists()
	i, ok := slices.BinarySearch(s.keys, key)
	if !ok {
		b := &smallBlock{gen: s.gen, key: key}
		if !s.shared() {
			b.keys, b.pos, b.last = []uint64{0}, []int32{0}, []uint64{now}
			b.mean, b.cov = []float64{mean}, []float64{prior}
			s.cells++
		}
		if clock != nil {
			b.prior, b.faded = append([]float64{}, b.cov...), *clock
		}
		s.keys = slices.Insert(s.keys, i, key)
		s.places = slices.Insert(s.places, i, int32(len(s.blocks)))
		s.blocks = append(s.blocks, b)
	}
	b := s.own(int(s.places[i]))
	if ok {
		s.digest -= b.sum()
	}
	b.used = now
	return b
}

// trim gives up blocks that were used longest ago until the model is within its limits.
func (s *smallStart) trim() {
	cells := mostCells
	if s.born > 0 && !s.returned() {
		cells /= restartShare
	}
	for len(s.blocks) > mostBlocks || s.cells > cells && len(s.blocks) > 1 {
		oldest := 0
		for i, b := range s.blocks {
			if b.used < s.blocks[oldest].used {
				oldest = i
			}
		}
		s.cells -= len(s.blocks[oldest].cov)
		s.digest -= s.blocks[oldest].sum()
		i, _ := slices.BinarySearch(s.keys, s.blocks[oldest].key)
		s.keys, s.places = slices.Delete(s.keys, i, i+1), slices.Delete(s.places, i, i+1)
		s.blocks = slices.Delete(s.blocks, oldest, oldest+1)
		for k, p := range s.places {
			if int(p) > oldest {
				s.places[k]--
			}
		}
	}
}

func (s *smallModel) giveUp() {
	*s = smallModel{smallStart: smallStart{kind: s.kind, n: s.n, gen: s.gen, listed: s.gen}, field: s.field, rss: s.rss,
		like: s.like, gone: true, noise: s.noise, heard: s.heard}
}

// fieldEntry is what is known of a field: at most mostLevels of its values.
type fieldEntry struct {
	field  uint32
	action bool
	number bool
	out    bool     // it has more values
	levels []uint32 // ascending; none where it has more, but from rules 2 on those that came first
}

// fieldTable lists fields in the order of their first event. It is replaced, never changed, because readers share it.
type fieldTable struct {
	entries []fieldEntry
	ids     []uint32 // of actions, ascending
	manyIDs bool
	rules   int // HashedOptions.Rules
}

func (f *fieldTable) of(field uint32, action bool) *fieldEntry {
	for i := range f.entries {
		if e := &f.entries[i]; e.field == field && e.action == action {
			return e
		}
	}
	return nil
}

// reads reports whether an atom is read: its field is known and has few values; from rules 2 on also where it has more,
// but the value was among the first, or is a number.
func (f *fieldTable) reads(a *smallAtom, action bool) bool {
	e := f.of(a.field, action)
	if e == nil || !e.out || f.rules < 2 {
		return e != nil && !e.out
	}
	if a.role != bandit.LevelRole {
		return true
	}
	_, ok := slices.BinarySearch(e.levels, a.level)
	return ok
}

// numbers returns how many fields of the context, or of the actions, have numbers.
func (f *fieldTable) numbers(action bool) (n int) {
	for i := range f.entries {
		if e := &f.entries[i]; e.number && e.action == action {
			n++
		}
	}
	return n
}

// atom is an atom as the small models see it.
type smallAtom struct {
	key   uint64
	field uint32
	level uint32 // among those of its field
	role  bandit.Role
	value float64
}

// smallAtoms are those of one action: context first.
type smallAtoms struct {
	context, action []smallAtom // action without its id
	id              uint64
	all             []smallAtom
}

func (s *smallAtoms) set(a *bandit.Atoms) {
	s.all = s.all[:0]
	for i := range a.Len() {
		h, v := a.At(i)
		if i == a.Context {
			s.id = h
			continue
		}
		field, role := bandit.FieldOf(h)
		s.all = append(s.all, smallAtom{h, field, uint32(h & (1<<30 - 1)), role, v})
	}
	s.context, s.action = s.all[:a.Context], s.all[a.Context:]
}

// meet returns the table with the atoms of an event.
func (f *fieldTable) meet(s *smallAtoms) *fieldTable {
	out := f
	edit := func() {
		if out == f {
			out = &fieldTable{slices.Clone(f.entries), f.ids, f.manyIDs, f.rules}
		}
	}
	if !f.manyIDs {
		id := uint32(s.id & (1<<30 - 1))
		if i, ok := slices.BinarySearch(f.ids, id); !ok {
			edit()
			if out.manyIDs = len(f.ids) == mostIDs; out.manyIDs {
				out.ids = nil
			} else {
				out.ids = slices.Insert(slices.Clone(f.ids), i, id)
			}
		}
	}
	for k := range s.all {
		a, action := &s.all[k], k >= len(s.context)
		if a.role > bandit.ValueRole {
			continue
		}
		e := out.of(a.field, action)
		if e == nil {
			if len(out.entries) == mostFields {
				continue
			}
			edit()
			out.entries = append(out.entries, fieldEntry{field: a.field, action: action})
			e = &out.entries[len(out.entries)-1]
		}
		switch {
		case a.role != bandit.LevelRole && !e.number:
			edit()
			out.of(a.field, action).number = true
		case a.role == bandit.LevelRole && !e.out:
			i, ok := slices.BinarySearch(e.levels, a.level)
			if ok {
				continue
			}
			edit()
			e = out.of(a.field, action)
			if e.out = len(e.levels) == mostLevels; e.out && f.rules < 2 {
				e.levels = nil
			} else if !e.out {
				e.levels = slices.Insert(slices.Clone(e.levels), i, a.level)
			}
		}
	}
	return out
}

// terms appends φ of an action under the model, and returns the key of its block.
func (s *smallModel) terms(phi []term, a *smallAtoms, f *fieldTable) (block uint64, _ []term) {
	if s.shared() {
		return 0, s.sharedTerms(phi, a, f)
	}
	if s.kind >= smallRange {
		return a.id, s.rangeTerms(phi, a, f)
	}
	phi = append(phi, term{0, meanPrior, 1, -1})
	if s.kind == smallIDs {
		return a.id, phi
	}
	for k := range a.context {
		c := &a.context[k]
		if s.kind == smallField && c.field != s.field || s.kind == smallLinear && c.role == bandit.BinRole ||
			c.role > bandit.ValueRole || !f.reads(c, false) {
			continue
		}
		phi = append(phi, term{c.key, levelPrior, c.value, -1})
	}
	bound(phi[1:], ownPrior-meanPrior)
	return a.id, phi
}

// bound lowers prior variances so that together they are at most total.
func bound(phi []term, total float64) {
	var sum float64
	for k := range phi {
		sum += phi[k].prior
	}
	if sum > total {
		for k := range phi {
			phi[k].prior *= total / sum
		}
	}
}

func (s *smallModel) sharedTerms(phi []term, a *smallAtoms, f *fieldTable) []term {
	if !f.manyIDs {
		phi = append(phi, term{a.id, levelPrior, 1, -1})
	}
	for k := range a.action {
		c := &a.action[k]
		if c.role > bandit.ValueRole || !f.reads(c, true) {
			continue
		}
		if s.kind == smallGrid && c.role != bandit.LevelRole {
			phi = c.appendGrid(phi, a.context, f)
			continue
		}
		phi = append(phi, term{c.key, meanPrior, c.value, -1})
		if s.kind != smallCrossed {
			continue
		}
		for l := range a.context {
			x := &a.context[l]
			if x.role > bandit.ValueRole || !f.reads(x, false) {
				continue
			}
			phi = append(phi, term{(x.key ^ 0x9e3779b97f4a7c15) * (c.key | 1), productPrior,
				float64(x.value * c.value), -1})
		}
	}
	bound(phi, totalPrior)
	return phi
}

// predict returns the mean reward and the variance of it for an action; offset is the mean of all rewards, with which
// an action begins.
func (s *smallStart) predict(phi []term, block uint64, offset float64) (b *smallBlock, z, q float64) {
	b = s.block(block)
	b.locate(phi)
	z, q = b.score(phi)
	if s.shared() || b == nil {
		z += offset
	}
	return b, z, q
}

// learn folds reward y of an action in.
func (s *smallModel) learn(phi []term, block uint64, offset, y float64, w []float64) (like float64) {
	if len(phi) >= s.limit() {
		s.giveUp()
		return 0
	}
	_, z, q := s.predict(phi, block, offset)
	variance := s.variance()
	e := y - z
	v := variance + q
	like = -float64(.5 * (logs.Log(v) + float64(e*e)/v))
	s.rss += float64(float64(e*e)*variance) / v
	s.fold(phi, block, offset, e, variance, w, nil)
	return like
}

// fold learns error e of an action; clock is nil without a half-life.
func (s *smallStart) fold(phi []term, block uint64, offset, e, variance float64, w []float64, clock *float64) {
	s.n++
	if len(phi) == 0 {
		return
	}
	b := s.edit(block, s.n, offset, phi[0].prior, clock)
	before := len(b.cov)
	b.locate(phi)
	b.grow(phi, s.limit(), s.n)
	s.cells += len(b.cov) - before
	b.learn(phi, e, variance, w)
	s.digest += b.sum()
	s.trim()
}

// rescale turns rewards y into αy + β.
func (s *smallModel) rescale(alpha, beta float64) {
	s.rss *= float64(alpha * alpha)
	s.noise *= float64(alpha * alpha)
	for i := range s.starts() {
		s.start(i).rescale(alpha, beta)
	}
}

func (s *smallStart) rescale(alpha, beta float64) {
	s.first = float64(alpha*s.first) + beta
	s.sum = float64(alpha*s.sum) + float64((1+float64(s.n))*beta)
	s.ownLists()
	s.digest = 0
	for i := range s.blocks {
		b := s.own(i)
		for k := range b.mean {
			b.mean[k] = float64(alpha * b.mean[k])
		}
		for k := range b.cov {
			b.cov[k] *= float64(alpha * alpha)
		}
		for k := range b.prior {
			b.prior[k] *= float64(alpha * alpha)
		}
		if p := b.find(0); p >= 0 && !s.shared() {
			b.mean[p] += beta
		}
		s.digest += b.sum()
	}
}
