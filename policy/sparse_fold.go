package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/internal/paged"
	"troupe/rng"
)

// firstG is the sum of squared gradients of a coordinate before its first one.
const firstG = 1e-8

// sparseFold is one sparse model: weights w by AdaGrad and a diagonal precision A for each coordinate,
// and the one-step errors. Its rewards lie in [0, 1].
//
// For a vector x with nonzeros x_i, nnz of them, and z = offset + ⟨x, w⟩ before the update:
//
//	g   = (z − y)·x_i          G_i += g²·nnz        w_i −= η·g·√nnz/√G_i
//	A_i += κ·|x_i|·‖x‖₁        κ = 1, or μ'(s) for the logistic link
//	RSS += e²/(1 + q)          e = y − z,  q = Σ x_i²/A_i before the update
//
// With the logistic link z is a logit, the gradient is (μ(z) − y)·x_i, and s the root of
// s = z + q(y − μ(s)). A is λ at first. Σ diag(|x_i|·‖x‖₁) ⪰ Σ xxᵀ (Gershgorin), so that diag A
// majorises V.
type sparseFold struct {
	cells    *paged.Table
	lambda   float64
	eta      float64
	logistic bool

	n      uint64
	rss    float64
	offset float64 // of a linear score
}

// gather stores u_i = float64(scale·x_i)/√A_i in c, which has the length of at, and returns ⟨scale·x, w⟩.
// Coordinates are taken modulo mask + 1. The sum runs over the list in order.
func (f *sparseFold) gather(c []float64, at []uint32, x []float64, scale float64, mask uint32) (z float64) {
	var w, a [paged.Together]float64
	for len(at) > 0 {
		n := min(len(at), paged.Together)
		f.cells.Read(w[:n], a[:n], at[:n], mask)
		for k, e := range x[:n] {
			v := float64(e * scale)
			c[k] = v / math.Sqrt(f.lambda+a[k])
			z += float64(v * w[k])
		}
		c, at, x = c[n:], at[n:], x[n:]
	}
	return z
}

// predict returns the score z of the mean, with the offset, and q = Σ x_i²/A_i.
func (f *sparseFold) predict(at []uint32, x []float64, scale float64, mask uint32) (z, q float64) {
	var w, a [paged.Together]float64
	for len(at) > 0 {
		n := min(len(at), paged.Together)
		f.cells.Read(w[:n], a[:n], at[:n], mask)
		for k, e := range x[:n] {
			v := float64(e * scale)
			z += float64(v * w[k])
			q += float64(v*v) / (f.lambda + a[k])
		}
		at, x = at[n:], x[n:]
	}
	return f.offset + z, q
}

// weight returns what the Weight of a policy is, in units of scale.
func (f *sparseFold) weight(i uint32, scale, a float64) (w, spread float64, ok bool) {
	c := f.cells.Cell(i)
	w, d := c.W, f.lambda+c.A
	return float64(scale * w), float64(scale*float64(a*f.sigma())) / math.Sqrt(d), c.G > 0
}

// mean returns the predicted reward of a score.
func (f *sparseFold) mean(z float64) float64 {
	if f.logistic {
		return logs.Sigmoid(z)
	}
	return z
}

// learn folds reward y ∈ [0, 1] of a vector in, and returns the prediction before it.
func (f *sparseFold) learn(at []uint32, x []float64, scale float64, mask uint32, y float64) (before float64) {
	z, q := f.predict(at, x, scale, mask)
	var one float64
	for _, v := range x {
		one += math.Abs(float64(v * scale))
	}
	kappa := 1.0
	before = f.mean(z)
	if f.logistic {
		s, _ := logs.LogisticRoot(z, q, y)
		kappa = float64(logs.Sigmoid(s) * logs.Sigmoid(-s))
	}
	e := before - y
	f.rss += float64(e*e) / (1 + q)
	f.n++
	nnz := float64(len(at))
	root := math.Sqrt(nnz)
	for k, i := range at {
		i &= mask
		c := f.cells.Edit(i)
		sum := c.G
		if sum == 0 {
			sum = firstG
		}
		v := float64(x[k] * scale)
		g := float64(e * v)
		sum += float64(float64(g*g) * nnz)
		c.G = sum
		c.W -= float64(float64(float64(f.eta*g)*root) / math.Sqrt(sum))
		c.A += float64(float64(kappa*math.Abs(v)) * one)
		f.cells.Done(c)
	}
	return before
}

// sigma returns σ̂, the scale of members: 1 for the logistic link, whose precision has the variance of a
// reward in it.
func (f *sparseFold) sigma() float64 {
	if f.logistic {
		return 1
	}
	const s0 = 0.5
	n := float64(f.n)
	return math.Sqrt((float64(s0*s0) + f.rss) / (1 + n))
}

// rescale turns rewards y into αy + β: predictions follow, and so do errors. The logistic link has no
// such form; a fold with it begins anew.
func (f *sparseFold) rescale(alpha, beta float64) {
	old := f.cells
	f.cells = paged.New(old.Bits())
	if f.logistic {
		f.n, f.rss = 0, 0
		return
	}
	f.offset = float64(alpha*f.offset) + beta
	f.rss *= float64(alpha * alpha)
	old.Each(func(i uint32, w, a, g float64) {
		f.cells.Set(i, float64(alpha*w), a, float64(float64(alpha*alpha)*g))
	})
}

// chunk is the number of coordinates that members are added for at a time: a multiple of rng.Lanes.
// Sums over coordinates restart in every chunk of an action, so that an action's scores do not depend
// on its place in the set.
const chunk = 16 * rng.Lanes

// sparseMembers computes members of a fold on the actions of a sparse set. It is scratch space.
//
// Member j adds r·Σ_i (x_i/√A_i)·g(i, e, j) to an action's score, where g(i, e, j) ~ N(0, 1) is the
// number of coordinate i in round j of sub-stream e of the policy's init stream (column layout), and e
// the number of the decision.
type sparseMembers struct {
	keys   rng.Stream
	m      int
	c      []float64 // of one action
	base   []float64 // K: score of the mean
	spread []float64 // K×m
	masked []uint32
	prices []float64 // of the actions, in units of the folded reward; empty where the set has none
	logit  bool      // scores are logits

	coordinates bool // e is that of the coordinate: how often its precision has doubled
}

func newSparseMembers(init rng.Stream, m int) sparseMembers {
	return sparseMembers{keys: init, m: m}
}

// lent has the normals of members while they are added: room for all policies together, because thousands of models
// may be in memory of which few choose at a time.
var lent sync.Pool

func lend(n int) *[]float64 {
	g, _ := lent.Get().(*[]float64)
	if g == nil {
		g = new([]float64)
	}
	*g = fit(*g, n)
	return g
}

// view says how a fold reads the vectors of a set: coordinates modulo mask + 1, of all entries or those
// before the first coordinate of limit or more (pairs), divided by their norm or as they are.
type view struct {
	fold  *sparseFold
	mask  uint32
	limit uint64
	unit  bool
}

// part returns how many leading entries count, and what they are multiplied by.
func (v *view) part(at []uint32, x []float64) (n int, scale float64) {
	for n = len(at); n > 0 && uint64(at[n-1]) >= v.limit; n-- {
	}
	if !v.unit {
		return n, 1
	}
	var q float64
	for _, e := range x[:n] {
		q += float64(e * e)
	}
	if q == 0 {
		return n, 1
	}
	return n, 1 / math.Sqrt(q)
}

// all computes base and spread for every member; one with only member j, in column 0.
func (s *sparseMembers) all(v *view, set bandit.Sparse, key uint64) error {
	return s.run(v, set, key, -1)
}

func (s *sparseMembers) one(v *view, set bandit.Sparse, key uint64, j int) error {
	return s.run(v, set, key, j)
}

func (s *sparseMembers) run(v *view, set bandit.Sparse, key uint64, only int) error {
	k, m := set.Len(), s.m
	if only >= 0 {
		m = 1
	}
	s.base = fit(s.base, k)
	s.spread = fit(s.spread, k*m)
	clear(s.spread)
	stream := s.keys.Sub(key)
	for i := range k {
		at, x := set.Nonzeros(i)
		n, scale := v.part(at, x)
		at, x = at[:n], x[:n]
		s.c = fit(s.c, n)
		z := v.fold.gather(s.c, at, x, scale, v.mask)
		if z-z != 0 {
			return fmt.Errorf("policy: action %d has the score %v: %w", i, z, bandit.ErrNotFinite)
		}
		s.base[i] = z
		for c, row := s.c, s.spread[i*m:(i+1)*m]; len(at) > 0; {
			n := min(len(at), chunk)
			s.masked = append(s.masked[:0], at[:n]...)
			for l := range s.masked {
				s.masked[l] &= v.mask
			}
			if s.coordinates {
				s.addEach(row, c[:n], v.fold, only)
			} else {
				s.add(row, c[:n], stream, only)
			}
			at, c = at[n:], c[n:]
		}
	}
	return nil
}

// add adds the members' sums over one chunk to row.
func (s *sparseMembers) add(row, c []float64, stream rng.Stream, only int) {
	n := len(c)
	if only >= 0 {
		room := lend(chunk)
		defer lent.Put(room)
		g := *room
		stream.Round(uint64(only)).FillRound(g[:n], s.masked, rng.NormalLaw)
		row[0] += linalg.Dot(c, g)
		return
	}
	room := lend((s.m + 3) / 4 * 4 * chunk)
	defer lent.Put(room)
	g := *room
	var lanes [rng.Lanes]uint32
	for from := 0; from < n; from += rng.Lanes {
		last := copy(lanes[:], s.masked[from:])
		for l := last; l < rng.Lanes; l++ {
			lanes[l] = lanes[last-1]
		}
		stream.Round(0).FillMembers(g[from:], chunk, &lanes, (s.m+3)/4, rng.NormalLaw)
	}
	for j := range s.m {
		row[j] += linalg.Dot(c, g[j*chunk:])
	}
}

// byCoordinate tells the sub-streams of coordinates from those of decisions.
const byCoordinate = uint64(1) << 63

// addEach is add with the key e_i = ⌊log₂(A_i/λ)⌋ of each coordinate. A little is added to the ratio, so
// that exact powers of 2 do not depend on rounding. Cost: a call of the generator for each coordinate and
// member.
func (s *sparseMembers) addEach(row, c []float64, f *sparseFold, only int) {
	var g [1]float64
	for l, i := range s.masked {
		_, e := math.Frexp(float64((1 + f.cells.Cell(i).A/f.lambda) * (1 + 1e-9)))
		stream := s.keys.Sub(byCoordinate | uint64(e))
		if only >= 0 {
			stream.Round(uint64(only)).FillRound(g[:], s.masked[l:l+1], rng.NormalLaw)
			row[0] += float64(c[l] * g[0])
			continue
		}
		for j := range row {
			stream.Round(uint64(j)).FillRound(g[:], s.masked[l:l+1], rng.NormalLaw)
			row[j] += float64(c[l] * g[0])
		}
	}
}

func fit(v []float64, n int) []float64 {
	if cap(v) < n {
		return make([]float64, n, n+n/2)
	}
	return v[:n]
}

// best returns the action with the largest base + r·spread[·, j] in a table with m columns, the first
// among equals.
func (s *sparseMembers) best(r float64, j, m int) int {
	arm, most := 0, math.Inf(-1)
	if len(s.prices) > 0 {
		for i, b := range s.base {
			v := b + float64(r*s.spread[i*m+j])
			if s.logit {
				v = logs.Sigmoid(v)
			}
			if v -= s.prices[i]; v > most {
				arm, most = i, v
			}
		}
		return arm
	}
	for i, b := range s.base {
		if v := b + float64(r*s.spread[i*m+j]); v > most {
			arm, most = i, v
		}
	}
	return arm
}

// price reads the prices of a set: with rewards folded from [lo, hi] to [0, 1], and with scores that are logits where
// logit is set, an action is chosen by its mean less Price/(hi − lo).
func (s *sparseMembers) price(set bandit.ActionSet, lo, hi float64, logit bool) {
	s.prices, s.logit = s.prices[:0], logit
	p, ok := set.(bandit.Priced)
	if !ok {
		return
	}
	s.prices = fit(s.prices, lengthOf(set))
	for i := range s.prices {
		s.prices[i] = p.Price(i) / (hi - lo)
	}
}

// lengthOf returns the number of actions of a list.
func lengthOf(set bandit.ActionSet) int {
	if l, ok := set.(interface{ Len() int }); ok {
		return l.Len()
	}
	return 0
}

// choose stores the action of the member and the sign that draw has at 0 and 1.
func (s *sparseMembers) choose(dst *bandit.Action, v *view, a float64, set bandit.Sparse, draw rng.Source) error {
	j, sign := draw.Intn(0, s.m), draw.Sign(1)
	if err := s.one(v, set, draw.At(), j); err != nil {
		return err
	}
	i := s.best(float64(sign*float64(a*v.fold.sigma())), 0, 1)
	if l, ok := set.(*denseList); ok {
		dst.Set(l.arms.At(i), i)
		return nil
	}
	at, x := set.Nonzeros(i)
	dst.SetSparse(at, x, i)
	return nil
}

// law writes the share of the 2m members that choose each action.
func (s *sparseMembers) law(dst *bandit.Law, v *view, a float64, set bandit.Sparse, draw rng.Source) error {
	if err := s.all(v, set, draw.At()); err != nil {
		return err
	}
	zeros(dst, set.Len())
	r := float64(a * v.fold.sigma())
	for j := range s.m {
		dst.Atoms[s.best(r, j, s.m)].Count++
		dst.Atoms[s.best(-r, j, s.m)].Count++
	}
	share(dst, uint64(2*s.m))
	return nil
}

// denseList is a finite set of dense arms, seen as lists of what is not 0.
type denseList struct {
	arms bandit.Finite
	from []int
	at   []uint32
	x    []float64
}

func (l *denseList) set(f bandit.Finite) {
	l.arms, l.from, l.at, l.x = f, append(l.from[:0], 0), l.at[:0], l.x[:0]
	for i := range f.Len() {
		l.add(f.At(i))
	}
}

func (l *denseList) add(x []float64) {
	for i, v := range x {
		if v != 0 {
			l.at, l.x = append(l.at, uint32(i)), append(l.x, v)
		}
	}
	l.from = append(l.from, len(l.at))
}

func (l *denseList) Dim() int { return l.arms.Dim() }
func (l *denseList) Len() int { return l.arms.Len() }
func (l *denseList) Nonzeros(i int) ([]uint32, []float64) {
	return l.at[l.from[i]:l.from[i+1]], l.x[l.from[i]:l.from[i+1]]
}
func (l *denseList) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	return l.arms.ArgMax(dst, theta)
}

// sparseInput is what policies on nonzeros do with sets, actions and rewards. dim is the dimension of
// dense vectors, 0 when there are none; most bounds the coordinates of sparse ones.
type sparseInput struct {
	kind      string
	dim, most int
	fixed     bool // the range is declared
	list, one denseList
}

// open returns a set as lists of nonzeros.
func (c *sparseInput) open(set bandit.ActionSet) (bandit.Sparse, error) {
	switch s := set.(type) {
	case bandit.Sparse:
		if s.Dim() > c.most {
			return nil, fmt.Errorf("policy: the action set has dimension %d, the policy %d", s.Dim(), c.most)
		}
		return s, nil
	case bandit.Finite:
		if s.Dim() != c.dim {
			return nil, fmt.Errorf("policy: the action set has dimension %d, the policy %d", s.Dim(), c.dim)
		}
		if err := checkNumbers(s); err != nil {
			return nil, err
		}
		c.list.set(s)
		return &c.list, nil
	}
	return nil, fmt.Errorf("policy: %s needs a list of actions, sparse or dense, not %s: %w", c.kind, described(set),
		bandit.ErrUnsupported)
}

// read returns the nonzeros of an action. It returns an error unless its values are finite, its
// coordinates those of the policy, and y is finite.
func (c *sparseInput) read(a bandit.Action, y float64) (at []uint32, x []float64, err error) {
	if a.At == nil {
		if err := checkAction(a, y, c.dim); err != nil {
			return nil, nil, err
		}
		c.one.from, c.one.at, c.one.x = c.one.from[:0], c.one.at[:0], c.one.x[:0]
		c.one.add(a.X)
		a.At, a.X = c.one.at, c.one.x
	}
	if len(a.At) != len(a.X) {
		return nil, nil, fmt.Errorf("policy: action has %d values and %d coordinates, expected as many of both",
			len(a.X), len(a.At))
	}
	for k, v := range a.X {
		if int64(a.At[k]) >= int64(c.most) {
			return nil, nil, fmt.Errorf("policy: action coordinate %d is %d, expected less than %d", k, a.At[k], c.most)
		}
		if !(math.Abs(v) <= 1e18) {
			return nil, nil, fmt.Errorf("policy: action value at coordinate %d is %v, expected a number of at most "+
				"1e18: %w", a.At[k], v, bandit.ErrNotFinite)
		}
	}
	if y-y != 0 {
		return nil, nil, fmt.Errorf("policy: reward is %v: %w", y, bandit.ErrNotFinite)
	}
	return a.At, a.X, nil
}

// widened returns the range [lo, hi] after reward y: the same when it holds y, otherwise with its width
// doubled on that side until it does. A declared range is never widened.
func (c *sparseInput) widened(lo, hi, y float64) (float64, float64, error) {
	if y >= lo && y <= hi {
		return lo, hi, nil
	}
	if c.fixed {
		return lo, hi, fmt.Errorf("policy: reward is %v, expected a number in [%v, %v] (option range)", y, lo, hi)
	}
	if !(math.Abs(y) <= 1e100) {
		return lo, hi, fmt.Errorf("policy: reward is %v, expected a number of at most 1e100", y)
	}
	width := hi - lo
	for y < lo || y > hi {
		width *= 2
		if y < lo {
			lo = hi - width
		} else {
			hi = lo + width
		}
	}
	return lo, hi, nil
}

// A sparse snapshot is: "TRS1", kind (u16 length, bytes), count of numbers (u16) and as many float64s,
// count of folds (u16), for each: bits u8, n u64, rss and offset f64, touched u32, and for every touched
// coordinate in ascending order its distance to the one before (uvarint; the first to −1), w, A − λ and G as
// float64; then CRC-32C of all before. Everything is little-endian. docs/reference/formats.md describes it.
const sparseMagic = "TRS1"

func appendSparse(b []byte, kind string, numbers []float64, folds []*sparseFold) []byte {
	start := len(b)
	b = append(b, sparseMagic...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(kind)))
	b = append(b, kind...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(numbers)))
	for _, v := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(folds)))
	for _, f := range folds {
		b = append(b, byte(f.cells.Bits()))
		b = binary.LittleEndian.AppendUint64(b, f.n)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f.rss))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f.offset))
		b = binary.LittleEndian.AppendUint32(b, uint32(f.cells.Touched()))
		last := int64(-1)
		f.cells.Each(func(i uint32, w, a, g float64) {
			b = binary.AppendUvarint(b, uint64(int64(i)-last))
			last = int64(i)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(w))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(a))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(g))
		})
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// readSparse reads a snapshot with as many numbers as into numbers and into new tables of the folds,
// which change only when the whole snapshot is sound, as far as sound says of the numbers; nil takes all.
func readSparse(b []byte, kind string, numbers []float64, folds []*sparseFold, sound func([]float64) bool) error {
	short := errors.New("policy: snapshot is cut short")
	if len(b) < 4 || string(b[:4]) != sparseMagic {
		return errors.New("policy: not a snapshot of a sparse policy")
	}
	if len(b) < 8 {
		return short
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("policy: snapshot is damaged (checksum)")
	}
	body = body[4:]
	bad := false
	take := func(n int) []byte {
		if bad || n > len(body) {
			bad = true
			return make([]byte, n)
		}
		out := body[:n]
		body = body[n:]
		return out
	}
	u16 := func() int { return int(binary.LittleEndian.Uint16(take(2))) }
	f64 := func() float64 { return math.Float64frombits(binary.LittleEndian.Uint64(take(8))) }
	if n := u16(); n > len(body) {
		return short
	} else if k := string(take(n)); k != kind {
		return fmt.Errorf("policy: snapshot is of a policy of kind %q, expected %q", k, kind)
	}
	if n := u16(); !bad && n != len(numbers) {
		return fmt.Errorf("policy: snapshot has %d numbers, expected %d", n, len(numbers))
	}
	fresh := make([]float64, len(numbers))
	for i := range fresh {
		if fresh[i] = f64(); fresh[i]-fresh[i] != 0 {
			return fmt.Errorf("policy: snapshot number %d is %v", i, fresh[i])
		}
	}
	if sound != nil && !bad && !sound(fresh) {
		return fmt.Errorf("policy: snapshot holds the numbers %v", fresh)
	}
	if n := u16(); !bad && n != len(folds) {
		return fmt.Errorf("policy: snapshot has %d models, expected %d", n, len(folds))
	}
	read := make([]sparseFold, len(folds))
	for k, f := range folds {
		r := &read[k]
		*r = *f
		if bits := int(take(1)[0]); !bad && bits != f.cells.Bits() {
			return fmt.Errorf("policy: snapshot has 2^%d coordinates, expected 2^%d", bits, f.cells.Bits())
		}
		r.n = binary.LittleEndian.Uint64(take(8))
		r.rss, r.offset = f64(), f64()
		touched := binary.LittleEndian.Uint32(take(4))
		if bad || int64(touched)*25 > int64(len(body)) {
			return short
		}
		if !(r.rss >= 0) || math.IsInf(r.rss, 0) || r.offset-r.offset != 0 {
			return fmt.Errorf("policy: snapshot holds the errors %v and the offset %v", r.rss, r.offset)
		}
		r.cells = paged.New(f.cells.Bits())
		at := int64(-1)
		for range touched {
			d, n := binary.Uvarint(body)
			if n <= 0 || d == 0 || d > 1<<32 {
				return short
			}
			body = body[n:]
			if at += int64(d); at >= 1<<f.cells.Bits() {
				return fmt.Errorf("policy: snapshot holds coordinate %d of 2^%d", at, f.cells.Bits())
			}
			w, a, g := f64(), f64(), f64()
			if bad {
				return short
			}
			if w-w != 0 || !(a >= 0) || math.IsInf(a, 0) || !(g > 0) || math.IsInf(g, 0) {
				return fmt.Errorf("policy: snapshot holds (%v, %v, %v) at coordinate %d", w, a, g, at)
			}
			r.cells.Set(uint32(at), w, a, g)
		}
	}
	if bad {
		return short
	}
	if len(body) != 0 {
		return fmt.Errorf("policy: snapshot has %d bytes too many", len(body))
	}
	copy(numbers, fresh)
	for k, f := range folds {
		*f = read[k]
	}
	return nil
}
