package effects

import (
	"math"
	"slices"

	"troupe/internal/logs"
)

// kind says what a group of coefficients is of. Coefficients of one group have one prior variance.
type kind uint8

const (
	ofAction         kind = iota // the action itself: the intercept of its block, or its id where actions have features
	ofValues                     // a field of words, booleans or texts: one coefficient for each value
	ofSlope                      // a number: its slope
	ofRanges                     // a number: six overlapping ranges
	ofPairs                      // two fields of words: one for each pair of values that was seen
	ofGrid                       // two numbers: products of their ranges
	ofProducts                   // a value or range of the action × one of the context
	ofIDs                        // an action's id × a value of the context
	ofRepeated                   // of a list: an entry above has the same value of a field
	ofRepeatedValues             // one for each value of it
	ofPosition                   // of a list: one for each position
	ofPlaces                     // an action's id × a position
	ofOwnFeatures    kind = 32   // added to the kinds of an action's own features
)

// The groups of waves, see knob.
const (
	ofWaves     kind = 2*ofOwnFeatures + iota // an octave of the waves of a knob
	ofWavePairs                               // of products of the waves of two knobs
	ofCrossed                                 // of waves × a value or range of the context, or of the action
	ofIDWaves                                 // of waves × an action's id
	ofIDCrossed                               // of waves × an action's id × a value of the context
	endOfKinds
)

// waveBases are bases, of the groups of waves.
var waveBases = [...]float64{waveBase, waveBase, crossedBase, idWaveBase, idValueBase}

// bases are the first guesses of a group's variance, in units of guess · the variance of the rewards.
var bases = [...]float64{ofAction: 1, ofValues: .45, ofSlope: .1, ofRanges: .05, ofPairs: .05, ofGrid: .05,
	ofProducts: 1, ofIDs: .15, ofRepeated: .5, ofRepeatedValues: .15, ofPosition: .15, ofPlaces: .15}

// group is a group of coefficients: its kind, and the fields that it is of.
type group struct {
	kind kind
	a, b fieldKey
}

func (g group) base() float64 {
	if g.kind == ofAction && g.a != 0 {
		return idBase
	}
	if g.kind >= ofWaves {
		return waveBases[g.kind-ofWaves]
	}
	return bases[g.kind&(ofOwnFeatures-1)]
}

// idBase is the base of the ids of actions with features: these say what the features do not.
var idBase = .1

// fieldKey is the number of a field (bandit.FieldOf), with a bit that tells the fields of actions from those of the
// context.
type fieldKey uint32

const (
	actionField fieldKey = 1 << 20
	compared    fieldKey = 1 << 24 // a number of an action less one of the context, both as their scales take them
)

// number is that of bandit.FieldOf.
func (f fieldKey) number() uint32 { return uint32(f & (actionField - 1)) }

// field is what is known of a field of the requests.
type field struct {
	key    fieldKey
	number bool // its values are numbers with a scale
	log    bool // the scale is of logarithms
	mid    float64
	width  float64
	levels uint16 // values that have a coordinate
}

// z returns a number on the scale of its field.
func (f *field) z(v float64) float64 {
	return min(max((f.plain(v)-f.mid)/f.width, -cut), cut)
}

// plain returns a number, or its logarithm where the scale is of these. The difference of two is finite.
func (f *field) plain(v float64) float64 {
	if f.log {
		return logs.Log(max(v, 1e-300))
	}
	return min(max(v, -largest), largest)
}

// coord is a coordinate of a block: what it stands for, and its group.
type coord struct {
	key   uint64
	group int32
}

// layout says which coordinate is what. All blocks of a model have one layout. It only grows: readers keep the first
// so many entries of its lists, and find them by maps of their own.
type layout struct {
	joint  bool // one block for all actions, because they have features
	lists  bool // of lists: an id has a coordinate from its second event on, and is a value of the tail before
	fields []field
	groups []group
	coords []coord
	ids    []uint64 // of blocks; a single 0 where joint
}

// index finds the entries of a layout.
type index struct {
	fields map[fieldKey]int32
	groups map[group]int32
	coords map[uint64]int32
	blocks map[uint64]int32
}

func newIndex() index {
	return index{map[fieldKey]int32{}, map[group]int32{}, map[uint64]int32{}, map[uint64]int32{}}
}

// follow adds the entries of a layout that are new to the index.
func (x *index) follow(l *layout) {
	for i := len(x.fields); i < len(l.fields); i++ {
		x.fields[l.fields[i].key] = int32(i)
	}
	for i := len(x.groups); i < len(l.groups); i++ {
		x.groups[l.groups[i]] = int32(i)
	}
	for i := len(x.coords); i < len(l.coords); i++ {
		x.coords[l.coords[i].key] = int32(i)
	}
	for i := len(x.blocks); i < len(l.ids); i++ {
		x.blocks[l.ids[i]] = int32(i)
	}
}

// level is a value of a field of words, and span a number on its scale.
type (
	level struct {
		field int32 // in layout.fields
		key   uint64
		x     float64
		core  bool // the value has a coordinate
	}
	span struct {
		field int32
		z     float64
		plain float64
	}
)

// vector is what a block reads of a decision: coordinates in ascending order with their values, and beside them values
// without a coordinate.
type vector struct {
	at   []int32
	x    []float64
	tail []loose
}

// loose is a value without a coordinate.
type loose struct {
	key   uint64
	group int32
	x     float64
	value bool // of a field, or an id: it counts only once it was learned
}

func (v *vector) reset() { v.at, v.x, v.tail = v.at[:0], v.x[:0], v.tail[:0] }

// clone returns a copy that shares nothing.
func (v *vector) clone() vector {
	return vector{slices.Clone(v.at), slices.Clone(v.x), slices.Clone(v.tail)}
}

// reading turns atoms into vectors. It is the scratch space of one goroutine.
type reading struct {
	levels, ownLevels []level
	spans, ownSpans   []span
	compared          []span // of an action's numbers with those of the context
	present           []bool // fields of a request
	vector            vector
	place             []int32 // 1 + the place of a coordinate in the vector
	tails             tails   // of the vector

	knobs   []knob
	waves   []wave
	heights []float64
	still   bool // the waves are not in the vector
}

// learner is what reading needs of a model that learns: it may add to the layout.
type learner interface {
	see(f fieldKey, v float64) // a number
	field(f fieldKey) int32
	level(field int32) // one more of its values has a coordinate
	group(g group) int32
	seenBefore(key uint64) bool // whether a value was seen before
	room(g group) bool          // whether one more coordinate of the group has room
	place(key uint64, group int32) int32
}

// mix is the finaliser of MurmurHash3 (64 bits).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func mix2(a, b uint64) uint64 { return mix(a*0x9e3779b97f4a7c15 ^ mix(b)) }

// span finds the ranges of a number: two neighbours of six, at z = −1.5, −.9, … 1.5, with weights that sum to 1.
func ranges(z float64) (i int, w float64) {
	t := min(max((z+1.5)/.6, 0), 5)
	i = min(int(t), 4)
	return i, t - float64(i)
}

func rangeKey(f fieldKey, i int) uint64 { return mix2(uint64(f)|3<<32, uint64(i)) }

func slopeKey(f fieldKey) uint64 { return mix2(uint64(f)|2<<32, 0) }

// levelLimit is how many values of a field have coordinates.
const (
	levelLimit    = 24
	ownLevelLimit = 150 // of a field of actions
	rangedNumbers = 20  // more numbers than these have slopes only
	pairedFields  = 6   // more fields of words than these have no pairs
	pairedLevels  = 12
	pairedCells   = 48
	gridNumbers   = 3  // two or three numbers have grids
	firstIDs      = 3  // an id has a coordinate from its third event on
	optional      = 16 // of more fields than these, those that a request lacks are not noted
)

// scan reads the atoms of the context, or of an action, into levels and spans.
func (r *reading) scan(l *layout, x *index, side fieldKey, atoms []Atom, to learner) ([]level, []span) {
	levels, spans := r.levels[:0], r.spans[:0]
	if side != 0 {
		levels, spans = r.ownLevels[:0], r.ownSpans[:0]
	}
	r.present = r.present[:0]
	for range l.fields {
		r.present = append(r.present, false)
	}
	for _, a := range atoms {
		if a.played() {
			continue
		}
		f := a.field() | side
		number := a.number()
		at, ok := x.fields[f]
		if ok = ok && int(at) < len(l.fields); !ok {
			if to == nil {
				continue
			}
			at = to.field(f)
			r.present = append(r.present, true)
		}
		r.present[at] = true
		if number {
			if to != nil {
				to.see(f, a.Value)
			}
			if d := &l.fields[at]; d.number {
				spans = append(spans, span{at, d.z(a.Value), d.plain(a.Value)})
			}
			continue
		}
		levels = append(levels, r.level(l, x, at, mix2(a.Hash, uint64(side)), a.Value, to))
	}
	if len(l.fields) <= optional {
		for i, there := range r.present {
			f := &l.fields[i]
			if there || f.key&actionField != side || f.key&compared != 0 || !f.number && f.levels == 0 {
				continue
			}
			if v := r.level(l, x, int32(i), absentKey(f.key), 1, to); v.core {
				levels = append(levels, v)
			}
		}
	}
	if side != 0 {
		r.ownLevels, r.ownSpans = levels, spans
	} else {
		r.levels, r.spans = levels, spans
	}
	return levels, spans
}

// level reads a value of a field of words. It has a coordinate from its second sighting on, while there is room.
func (r *reading) level(l *layout, x *index, at int32, key uint64, v float64, to learner) level {
	j, core := x.coords[key]
	core = core && int(j) < len(l.coords)
	if to != nil && !core {
		if !to.seenBefore(key) {
			return level{at, key, 0, false}
		}
		f := l.fields[at].key
		limit, g := uint16(levelLimit), group{kind: ofValues, a: f}
		if f&actionField != 0 {
			limit, g.kind = ownLevelLimit, g.kind|ofOwnFeatures
		}
		if l.fields[at].levels < limit && to.room(g) {
			to.place(key, to.group(g))
			to.level(at)
			core = true
		}
	}
	return level{at, key, v, core}
}

// absentKey is the key of the value of a field that a request lacks.
func absentKey(f fieldKey) uint64 { return mix2(uint64(f)|5<<32, 1) }

// compare reads the difference of each number of the action and each of the context whose scales are of one kind, as
// a number of its own: of logarithms it is a ratio.
func (r *reading) compare(l *layout, x *index, to learner) {
	r.compared = r.compared[:0]
	r.comparisons(l, func(f fieldKey, v float64) {
		at, ok := x.fields[f]
		if ok = ok && int(at) < len(l.fields); !ok {
			if to == nil {
				return
			}
			at = to.field(f)
		}
		if to != nil {
			to.see(f, v)
		}
		if d := &l.fields[at]; d.number {
			r.compared = append(r.compared, span{at, d.z(v), v})
		}
	})
}

// comparisons calls f for each difference that compare reads.
func (r *reading) comparisons(l *layout, f func(f fieldKey, v float64)) {
	if len(r.ownSpans) > gridNumbers || len(r.spans) > gridNumbers {
		return
	}
	for _, s := range r.ownSpans {
		for _, t := range r.spans {
			if a, b := &l.fields[s.field], &l.fields[t.field]; a.log == b.log {
				f(compareKey(a.key, b.key), s.plain-t.plain)
			}
		}
	}
}

func compareKey(a, b fieldKey) fieldKey {
	return compared | actionField | fieldKey(mix2(uint64(a), uint64(b)))&(actionField-1)
}

// begin empties the vector and gives it the coordinate that every block has.
func (r *reading) begin(l *layout, x *index, to learner) {
	for _, j := range r.vector.at {
		r.place[j] = 0
	}
	r.tails.reset(len(r.vector.tail))
	r.vector.reset()
	r.put(l, x, oneKey, group{kind: ofAction}, 1, to)
}

const oneKey = 1

// put adds a value to the vector.
func (r *reading) put(l *layout, x *index, key uint64, g group, v float64, to learner) {
	if v == 0 {
		return
	}
	j, ok := x.coords[key]
	if !ok && to != nil && to.room(g) {
		j, ok = to.place(key, to.group(g)), true
	}
	if ok {
		if int(j) >= len(l.coords) { // of a later state
			ok = false
		}
	}
	if ok {
		for len(r.place) <= int(j) {
			r.place = append(r.place, 0)
		}
		if n := r.place[j]; n > 0 {
			r.vector.x[n-1] += v
			return
		}
		r.vector.at, r.vector.x = append(r.vector.at, j), append(r.vector.x, v)
		r.place[j] = int32(len(r.vector.at))
		return
	}
	r.loose(l, x, key, g, v, g.kind == ofAction, to)
}

// loose adds a value without a coordinate to the vector.
func (r *reading) loose(l *layout, x *index, key uint64, g group, v float64, value bool, to learner) {
	at, known := x.groups[g]
	switch {
	case known && int(at) < len(l.groups):
	case to != nil:
		at = to.group(g)
	default:
		return
	}
	if i := r.tails.find(r.vector.tail, key); i >= 0 {
		r.vector.tail[i].x += v
		return
	}
	r.vector.tail = append(r.vector.tail, loose{key, at, v, value})
	r.tails.add(r.vector.tail)
}

// tails finds the values without a coordinate by their keys, which are hashes: an action whose features meet those of the
// context has thousands of them. Short lists are searched.
type tails struct {
	at []int32 // 1 + place in the list, 0 for none; its length is a power of two, at least twice that of the list
}

const fewTails = 16

func (t *tails) reset(n int) {
	if n > fewTails {
		clear(t.at)
	}
}

func (t *tails) find(list []loose, key uint64) int {
	if len(list) <= fewTails {
		return slices.IndexFunc(list, func(l loose) bool { return l.key == key })
	}
	for s := t.slot(key); t.at[s] > 0; s = (s + 1) & (len(t.at) - 1) {
		if i := int(t.at[s]) - 1; list[i].key == key {
			return i
		}
	}
	return -1
}

func (t *tails) slot(key uint64) int { return int(key) & (len(t.at) - 1) }

// add notes the last entry of a list.
func (t *tails) add(list []loose) {
	n := len(list)
	from := n - 1
	switch {
	case n <= fewTails:
		return
	case n == fewTails+1, 2*n > len(t.at):
		if from = 0; 2*n > len(t.at) {
			t.at = make([]int32, max(4*fewTails, 2*len(t.at)))
		}
	}
	for i := from; i < n; i++ {
		s := t.slot(list[i].key)
		for t.at[s] > 0 {
			s = (s + 1) & (len(t.at) - 1)
		}
		t.at[s] = int32(i + 1)
	}
}

// side adds the values and numbers of one side to the vector.
func (r *reading) side(l *layout, x *index, levels []level, spans []span, numbers int, own kind, to learner) {
	for _, v := range levels {
		g := group{kind: ofValues | own, a: l.fields[v.field].key}
		switch {
		case v.core:
			r.put(l, x, v.key, g, v.x, to)
		case v.x != 0:
			r.loose(l, x, v.key, g, v.x, true, to)
		}
	}
	for _, s := range spans {
		f := l.fields[s.field].key
		r.put(l, x, slopeKey(f), group{kind: ofSlope | own, a: f}, s.z, to)
		if numbers <= rangedNumbers {
			i, w := ranges(s.z)
			g := group{kind: ofRanges | own, a: f}
			r.put(l, x, rangeKey(f, i), g, 1-w, to)
			r.put(l, x, rangeKey(f, i+1), g, w, to)
		}
	}
}

// count counts the fields of numbers with a scale, and fields those of words, of one side.
func (l *layout) count(side fieldKey) (numbers, fields int) {
	for i := range l.fields {
		switch f := &l.fields[i]; {
		case f.key&actionField != side || f.key&compared != 0:
		case f.number:
			numbers++
		case f.levels > 0:
			fields++
		}
	}
	return numbers, fields
}

// context reads the context. With it the vectors of blocks by action are complete.
func (r *reading) context(l *layout, x *index, atoms []Atom, to learner) {
	levels, spans := r.scan(l, x, 0, atoms, to)
	if l.joint {
		return
	}
	r.begin(l, x, to)
	numbers, fields := l.count(0)
	r.side(l, x, levels, spans, numbers, 0, to)
	if numbers >= 2 && numbers <= gridNumbers {
		for i, a := range spans {
			for _, b := range spans[:i] {
				r.grid(l, x, b, a, to)
			}
		}
	}
	if fields <= pairedFields {
		for i, a := range levels {
			for _, b := range levels[:i] {
				r.pair(l, x, b, a, to)
			}
		}
	}
	r.sort()
}

func (r *reading) grid(l *layout, x *index, a, b span, to learner) {
	fa, fb := l.fields[a.field].key, l.fields[b.field].key
	g := group{ofGrid, fa, fb}
	i, v := ranges(a.z)
	j, w := ranges(b.z)
	for n := range 4 {
		p, q := i+n&1, j+n>>1
		s, t := 1-v, 1-w
		if n&1 == 1 {
			s = v
		}
		if n>>1 == 1 {
			t = w
		}
		r.put(l, x, mix2(rangeKey(fa, p), rangeKey(fb, q)), g, float64(s*t), to)
	}
}

func (r *reading) pair(l *layout, x *index, a, b level, to learner) {
	fa, fb := &l.fields[a.field], &l.fields[b.field]
	if !a.core || !b.core || a.field == b.field || fa.number || fb.number {
		return
	}
	if n, m := fa.levels, fb.levels; max(n, m) <= pairedLevels && n*m <= pairedCells {
		g := group{ofPairs, fa.key, fb.key}
		r.put(l, x, mix2(a.key, b.key), g, float64(a.x*b.x), to)
	}
}

// action reads an action with features after the context: the vector of the one block.
func (r *reading) action(l *layout, x *index, id uint64, atoms []Atom, to learner) {
	r.scan(l, x, actionField, atoms, to)
	r.readKnobs(atoms)
	r.begin(l, x, to)
	numbers, _ := l.count(actionField)
	contexts, _ := l.count(0)
	r.compare(l, x, to)
	r.side(l, x, r.ownLevels, r.ownSpans, numbers, ofOwnFeatures, to)
	r.side(l, x, nil, r.compared, 0, ofOwnFeatures, to)
	r.side(l, x, r.levels, r.spans, contexts, 0, to)
	idKey := mix2(id, 4)
	known := id != noID && (to == nil || to.seenBefore(idKey) && (l.lists || to.seenBefore(mix(idKey))))
	switch {
	case known:
		r.put(l, x, idKey, group{kind: ofAction, a: actionField}, 1, to)
	case l.lists:
		r.loose(l, x, idKey, group{kind: ofAction, a: actionField}, 1, true, to)
	}
	r.parts(l, x, r.ownLevels, r.ownSpans, numbers, func(key uint64, f fieldKey, k kind, v float64) {
		r.parts(l, x, r.levels, r.spans, contexts, func(other uint64, of fieldKey, ok kind, w float64) {
			g := group{ofProducts, f | fieldKey(k)<<21, of | fieldKey(ok)<<21}
			r.put(l, x, mix2(key, other), g, float64(v*w), to)
		})
	})
	if known {
		r.parts(l, x, r.levels, r.spans, contexts, func(other uint64, of fieldKey, ok kind, w float64) {
			r.put(l, x, mix2(idKey, other), group{kind: ofIDs, a: of, b: fieldKey(ok)}, w, to)
		})
	}
	r.putWaves(l, x, idKey, known, to)
	r.sort()
}

// parts calls f for the values and the ranges of one side.
func (r *reading) parts(l *layout, x *index, levels []level, spans []span, numbers int,
	f func(key uint64, of fieldKey, k kind, v float64)) {
	for _, v := range levels {
		if v.core {
			f(v.key, l.fields[v.field].key, ofValues, v.x)
		}
	}
	if numbers > rangedNumbers {
		return
	}
	for _, s := range spans {
		of := l.fields[s.field].key
		i, w := ranges(s.z)
		if w < 1 {
			f(rangeKey(of, i), of, ofRanges, 1-w)
		}
		if w > 0 {
			f(rangeKey(of, i+1), of, ofRanges, w)
		}
	}
}

// sort puts the coordinates in ascending order.
func (r *reading) sort() {
	v := &r.vector
	for i := 1; i < len(v.at); i++ { // nearly in order already
		j, x := v.at[i], v.x[i]
		k := i
		for ; k > 0 && v.at[k-1] > j; k-- {
			v.at[k], v.x[k] = v.at[k-1], v.x[k-1]
		}
		v.at[k], v.x[k] = j, x
	}
	for i, j := range v.at {
		r.place[j] = int32(i + 1)
	}
}

// scale finds the scale of a number from its first values: logarithms if all are positive and spread over more than a
// factor of 20; the median, and the width of the middle 80 per cent in units of that of a normal.
func (f *field) scale(first []float64) {
	v := slices.Clone(first)
	slices.Sort(v)
	lo, hi := quantile(v, .1), quantile(v, .9)
	f.log = f.key&compared == 0 && v[0] > 0 && hi > 20*max(lo, 1e-300)
	if f.log {
		for i, x := range v {
			v[i] = logs.Log(x)
		}
		lo, hi = quantile(v, .1), quantile(v, .9)
	}
	f.mid, f.width = quantile(v, .5), (hi-lo)/2.56
	if f.width == 0 {
		var mean, sum float64
		for _, x := range v {
			mean += x / float64(len(v))
		}
		for _, x := range v {
			sum += float64((x - mean) * (x - mean))
		}
		f.width = math.Sqrt(sum / float64(len(v)))
	}
	if !(f.width > 0) || math.IsInf(f.width, 0) {
		f.width = 1
	}
	f.number = true
}

// quantile returns the q-quantile of sorted numbers, linear between two.
func quantile(v []float64, q float64) float64 {
	t := float64(q * float64(len(v)-1))
	i := int(t)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	w := t - float64(i)
	return float64(v[i]*(1-w)) + float64(v[i+1]*w)
}
