package ope

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"troupe/feature"
	"troupe/logged"
)

// A reward model predicts q(x, a). It is fitted on the past only: after 256, 512, 1024, … events, from 65 536 on after
// every 65 536; an event is predicted by the last fit before it, the first 256 by q = 0. So q is a function of
// earlier events, which the sequence needs. Vocabularies, ranges and the ridge parameter come from the past as well.
const (
	firstFit = 256
	mostFit  = 65_536
)

// fitAfter reports whether a fit happens after n events.
func fitAfter(n int) bool {
	if n < firstFit {
		return false
	}
	if n < mostFit {
		return n&(n-1) == 0
	}
	return n%mostFit == 0
}

// Models lists what --q may say.
var Models = []string{"ridge", "logistic", "mean", "column", "none"}

// maxDim is the largest dimension of a reward model.
const maxDim = 128

// layout says how an event becomes vectors. It is decided by the first 256 events.
type layout struct {
	blocks bool // an action has coefficients of its own, on (1, x); else one regression on vectors of (x, action)
	d      int  // length of a vector
	cross  bool // x ⊗ features of the action
	dx, da int
	enc    *feature.Encoder
	slots  map[string]int // of blocks: action id → block
	byID   bool

	atoms           bool // see atoms.go
	context, action dictionary
	keys            map[uint64]int // of blocks: the atoms of an action → block
}

// newLayout looks at the first events of a log.
func newLayout(first []*logged.Event) (*layout, error) {
	l := &layout{}
	e := first[0]
	named := slices.ContainsFunc(first, func(e *logged.Event) bool {
		return e.Named != nil || slices.ContainsFunc(e.Actions, func(a logged.Action) bool { return a.Named != nil })
	})
	if hasAtoms(e) {
		l.learnAtoms(first)
		return l, nil
	}
	l.dx = len(e.Context)
	for i := range e.Actions {
		l.da = max(l.da, len(e.Actions[i].X))
	}
	switch {
	case named:
		return l, l.learn(first)
	case l.da > 0:
		l.d = 1 + l.dx + l.da
		if l.cross = l.d+l.dx*l.da <= maxDim && l.dx > 0; l.cross {
			l.d += l.dx * l.da
		}
	default:
		l.blocks, l.d = true, 1+l.dx
		if l.byID = len(e.Actions) > 0 && !slices.ContainsFunc(e.Actions,
			func(a logged.Action) bool { return a.ID == "" }); l.byID {
			l.slots = map[string]int{}
			for _, e := range first {
				for i := range e.Actions {
					if _, ok := l.slots[e.Actions[i].ID]; !ok && len(l.slots) < 1000 {
						l.slots[e.Actions[i].ID] = len(l.slots)
					}
				}
			}
		}
	}
	if l.d > 4*maxDim {
		return nil, fmt.Errorf("a context of %d numbers is too long for a regression of ours: at most %d; bring q as "+
			"a column", l.dx, 4*maxDim-1)
	}
	return l, nil
}

// learn proposes a schema of named features from the first events.
func (l *layout) learn(first []*logged.Event) error {
	var samples []feature.Sample
	for _, e := range first {
		s := feature.Sample{Context: e.Named}
		for i := range e.K {
			a := feature.SampleAction{ID: idOf(e, i)}
			if i < len(e.Actions) {
				a.Features = e.Actions[i].Named
			}
			s.Actions = append(s.Actions, a)
		}
		samples = append(samples, s)
	}
	p, err := feature.Learn(samples, feature.LearnOptions{MaxDim: maxDim})
	if err != nil {
		return err
	}
	if l.enc, err = feature.New(p.Schema, feature.Limits{}); err != nil {
		return err
	}
	l.d = l.enc.Dim()
	return nil
}

func idOf(e *logged.Event, i int) string {
	if i < len(e.Actions) && e.Actions[i].ID != "" {
		return e.Actions[i].ID
	}
	return fmt.Sprint(i)
}

// scratch is what one goroutine needs to make vectors.
type scratch struct {
	batch *feature.Batch
	z     []float64
	x, a  []float64
	bad   int // events that the schema refused: q = 0 there
}

// vectors returns the vectors of all actions of an event: one for all with blocks, else K rows. nil when the
// schema refuses the event.
func (l *layout) vectors(e *logged.Event, s *scratch) []float64 {
	switch {
	case l.atoms:
		return l.atomVectors(e, s)
	case l.blocks:
		s.z = append(s.z[:0], 1)
		s.z = append(s.z, e.Context...)
		if len(s.z) != l.d {
			s.bad++
			return nil
		}
		return s.z
	case l.enc != nil:
		if s.batch == nil || s.batch.Encoder() != l.enc {
			s.batch = feature.NewBatch(l.enc)
		}
		if err := s.batch.Begin(e.Named); err != nil {
			s.bad++
			return nil
		}
		for i := range e.K {
			var f []byte
			if i < len(e.Actions) {
				f = e.Actions[i].Named
			}
			if err := s.batch.Add(idOf(e, i), f); err != nil {
				s.bad++
				return nil
			}
		}
		return s.batch.X()
	}
	s.z = s.z[:0]
	if len(e.Context) != l.dx {
		s.bad++
		return nil
	}
	for i := range e.K {
		s.z = append(s.z, 1)
		s.z = append(s.z, e.Context...)
		var x []float64
		if i < len(e.Actions) {
			x = e.Actions[i].X
		}
		if len(x) > l.da {
			s.bad++
			return nil
		}
		s.z = append(s.z, x...)
		for range l.da - len(x) {
			s.z = append(s.z, 0)
		}
		if l.cross {
			for _, c := range e.Context {
				for _, v := range x {
					s.z = append(s.z, float64(c*v))
				}
				for range l.da - len(x) {
					s.z = append(s.z, 0)
				}
			}
		}
	}
	return s.z
}

// block is the block of action i, −1 for one that was not among the first.
func (l *layout) block(e *logged.Event, i int) int {
	if l.keys != nil {
		if i >= len(e.Actions) {
			return -1
		}
		if b, ok := l.keys[keyOf(e.Actions[i].Atoms)]; ok {
			return b
		}
		return -1
	}
	if l.byID {
		if b, ok := l.slots[e.Actions[i].ID]; ok {
			return b
		}
		return -1
	}
	return i
}

// normal is the sums of one regression: V = Σ ω z zᵀ (lower triangle by rows), b = Σ ω z y, Σ ω y², Σ ω.
type normal struct {
	v, b    []float64
	yy, n   float64
	rows    int
	dim     int
	z, y, w []float64 // of logistic: the rows since the last fit
}

func (s *normal) add(z []float64, y, weight float64) {
	d := len(z)
	if s.v == nil {
		s.dim, s.v, s.b = d, make([]float64, d*(d+1)/2), make([]float64, d)
	}
	s.rows++
	s.n += weight
	s.yy += float64(weight * float64(y*y))
	at := 0
	for i, zi := range z {
		wz := weight * zi
		s.b[i] += float64(wz * y)
		row := s.v[at : at+i+1]
		for j, zj := range z[:i+1] {
			row[j] += float64(wz * zj)
		}
		at += i + 1
	}
}

func (s *normal) merge(o *normal) {
	if o.rows == 0 {
		return
	}
	if s.v == nil {
		s.dim, s.v, s.b = o.dim, make([]float64, len(o.v)), make([]float64, len(o.b))
	}
	s.rows += o.rows
	s.n += o.n
	s.yy += o.yy
	for i, v := range o.v {
		s.v[i] += v
	}
	for i, v := range o.b {
		s.b[i] += v
	}
	s.z, s.y, s.w = append(s.z, o.z...), append(s.y, o.y...), append(s.w, o.w...)
}

// cholesky factors V + λI = LLᵀ in place of a copy; false when it is not positive definite.
func cholesky(v []float64, d int, lambda float64, l []float64) bool {
	copy(l, v)
	at := 0
	for i := range d {
		row := l[at : at+i+1]
		row[i] += lambda
		jt := 0
		for j := range i {
			s := row[j]
			other := l[jt : jt+j+1]
			for k, x := range other[:j] {
				s -= float64(row[k] * x)
			}
			row[j] = s / other[j]
			jt += j + 1
		}
		s := row[i]
		for _, x := range row[:i] {
			s -= float64(x * x)
		}
		if !(s > 0) {
			return false
		}
		row[i] = math.Sqrt(s)
		at += i + 1
	}
	return true
}

// solve overwrites x with (LLᵀ)⁻¹x.
func solve(l []float64, d int, x []float64) {
	at := 0
	for i := range d {
		s := x[i]
		for k, v := range l[at : at+i] {
			s -= float64(v * x[k])
		}
		x[i] = s / l[at+i]
		at += i + 1
	}
	for i := d - 1; i >= 0; i-- {
		at -= i + 1
		x[i] /= l[at+i]
		for k, v := range l[at : at+i] {
			x[k] -= float64(v * x[i])
		}
	}
}

// lambdaGrid is what generalised cross-validation chooses from.
var lambdaGrid = []float64{0.0625, 0.5, 4, 32, 256, 2048}

// ridge returns θ = (V + λI)⁻¹b with the λ of the grid that minimises the generalised cross-validation
// n·RSS/(n − tr(V(V + λI)⁻¹))² (Golub, Heath, Wahba 1979).
func (s *normal) ridge() []float64 {
	if s.rows == 0 {
		return nil
	}
	d := s.dim
	l, theta, col := make([]float64, len(s.v)), make([]float64, d), make([]float64, d)
	var best []float64
	least := math.Inf(1)
	for _, lambda := range lambdaGrid {
		if !cholesky(s.v, d, lambda, l) {
			continue
		}
		copy(theta, s.b)
		solve(l, d, theta)
		// RSS = Σy² − 2θᵀb + θᵀVθ, and Vθ = b − λθ
		rss := s.yy
		for i, t := range theta {
			rss -= float64(t * (s.b[i] + float64(lambda*t)))
		}
		// tr(V(V + λI)⁻¹) = d − λ tr((V + λI)⁻¹) = d − λ‖L⁻¹‖²
		trace := 0.0
		for k := range d {
			for i := range col {
				col[i] = 0
			}
			col[k] = 1
			at := k * (k + 1) / 2
			for i := k; i < d; i++ {
				x := col[i]
				for j := k; j < i; j++ {
					x -= float64(l[at+j] * col[j])
				}
				x /= l[at+i]
				col[i] = x
				trace += float64(x * x)
				at += i + 1
			}
		}
		df := float64(d) - float64(lambda*trace)
		if free := s.n - df; free > 0 {
			if g := s.n * max(rss, 0) / float64(free*free); g < least || best == nil {
				least, best = g, slices.Clone(theta)
			}
		}
	}
	if best == nil { // fewer events than parameters: the largest λ
		if cholesky(s.v, d, lambdaGrid[len(lambdaGrid)-1], l) {
			copy(theta, s.b)
			solve(l, d, theta)
			return theta
		}
	}
	return best
}

// model is a fitted reward model. It does not change and is safe for concurrent use.
type model struct {
	kind     string
	l        *layout
	theta    [][]float64 // by block, or one
	mean     []float64   // of kind mean, by block
	overall  float64
	logistic bool
}

// predict stores q(x, ·) of an event in dst, of length K. Without a fit, and for features that it cannot read, it
// stores 0 and returns false.
func (m *model) predict(dst []float64, e *logged.Event, s *scratch) bool {
	clear(dst)
	if m == nil || m.l == nil {
		return false
	}
	if m.kind == "mean" {
		for i := range dst {
			dst[i] = m.overall
			if b := m.l.block(e, i); b >= 0 && b < len(m.mean) {
				dst[i] = m.mean[b]
			}
		}
		return true
	}
	z := m.l.vectors(e, s)
	if z == nil || !m.l.blocks && m.theta[0] == nil {
		return false
	}
	for i := range dst {
		theta, x := []float64(nil), z
		if m.l.blocks {
			dst[i] = m.overall
			if b := m.l.block(e, i); b >= 0 && b < len(m.theta) {
				theta = m.theta[b]
			}
		} else {
			theta, x = m.theta[0], z[i*m.l.d:(i+1)*m.l.d]
		}
		if theta == nil {
			continue
		}
		q := 0.0
		for k, t := range theta {
			q += float64(t * x[k])
		}
		if m.logistic {
			q = 1 / (1 + math.Exp(-q))
		}
		dst[i] = q
	}
	return true
}

// sums is what a block of events adds to a model.
type sums struct {
	blocks []normal
	r      sum // Σ rewards
	n      int
	keep   bool // rows of logistic
}

func (s *sums) add(l *layout, kind string, e *logged.Event, z []float64, weight float64) {
	if e.BadReward {
		return
	}
	s.n++
	s.r.add(e.Reward)
	b := 0
	if l.blocks || kind == "mean" {
		if b = l.block(e, e.Chosen); b < 0 || b >= logged.MaxActions {
			return
		}
	}
	for len(s.blocks) <= b {
		s.blocks = append(s.blocks, normal{})
	}
	if kind == "mean" {
		z = []float64{1}
	} else if z == nil {
		return
	} else if !l.blocks {
		z = z[e.Chosen*l.d : (e.Chosen+1)*l.d]
	}
	n := &s.blocks[b]
	if s.keep {
		n.dim = len(z)
		n.rows++
		n.z, n.y, n.w = append(n.z, z...), append(n.y, e.Reward), append(n.w, weight)
		return
	}
	n.add(z, e.Reward, weight)
}

func (s *sums) merge(o *sums) {
	s.n += o.n
	s.r.merge(o.r)
	for b := range o.blocks {
		for len(s.blocks) <= b {
			s.blocks = append(s.blocks, normal{})
		}
		s.blocks[b].merge(&o.blocks[b])
	}
}

// learner fits a model as the log goes on.
type learner struct {
	kind  string
	l     *layout
	total sums
	model *model
	hess  [][]float64 // of logistic: the precision of θ so far, by block
	theta [][]float64
}

var errNotBinary = errors.New("--q logistic: rewards other than 0 and 1; ridge takes them")

// fit makes the model of all sums so far.
func (l *learner) fit() error {
	m := &model{kind: l.kind, l: l.l, logistic: l.kind == "logistic"}
	if l.total.n > 0 {
		m.overall = l.total.r.value() / float64(l.total.n)
	}
	for b := range l.total.blocks {
		s := &l.total.blocks[b]
		switch l.kind {
		case "mean": // one pseudo-observation of the mean over all
			v := 0.0
			if s.rows > 0 {
				v = s.b[0]
			}
			m.mean = append(m.mean, (v+m.overall)/(s.n+1))
		case "logistic":
			if err := l.newton(b, s); err != nil {
				return err
			}
			m.theta = append(m.theta, slices.Clone(l.theta[b]))
		default:
			m.theta = append(m.theta, s.ridge())
		}
	}
	if len(m.theta) == 0 && l.kind != "mean" && !l.l.blocks {
		m.theta = [][]float64{nil}
	}
	l.model = m
	return nil
}

// newton finds the maximum of the posterior of one block: the rows since the last fit, and the normal approximation
// of what came before (recursive Laplace), N(θ, H⁻¹), H = I at first.
func (l *learner) newton(b int, s *normal) error {
	for len(l.theta) <= b {
		l.theta, l.hess = append(l.theta, nil), append(l.hess, nil)
	}
	d := s.dim
	if d == 0 {
		return nil
	}
	if l.theta[b] == nil {
		l.theta[b], l.hess[b] = make([]float64, d), make([]float64, d*(d+1)/2)
		for i := range d {
			l.hess[b][i*(i+1)/2+i] = 1
		}
	}
	prior, h0 := slices.Clone(l.theta[b]), l.hess[b]
	theta := l.theta[b]
	h, f, g := make([]float64, len(h0)), make([]float64, len(h0)), make([]float64, d)
	for range 25 {
		copy(h, h0)
		clear(g)
		at := 0
		for i := range d { // gradient of the prior
			for j := range i + 1 {
				v := h0[at+j]
				g[i] -= float64(v * (theta[j] - prior[j]))
				if j < i {
					g[j] -= float64(v * (theta[i] - prior[i]))
				}
			}
			at += i + 1
		}
		for r, y := range s.y {
			if y != 0 && y != 1 {
				return errNotBinary
			}
			z := s.z[r*d : (r+1)*d]
			q := 0.0
			for k, t := range theta {
				q += float64(t * z[k])
			}
			p := 1 / (1 + math.Exp(-q))
			w := float64(p*(1-p)) * s.w[r]
			at := 0
			for i, zi := range z {
				g[i] += float64(float64((y-p)*s.w[r]) * zi)
				wz := w * zi
				for j, zj := range z[:i+1] {
					h[at+j] += float64(wz * zj)
				}
				at += i + 1
			}
		}
		if !cholesky(h, d, 0, f) {
			break
		}
		solve(f, d, g)
		step := 0.0
		for i := range theta {
			x := min(max(g[i], -5), 5)
			theta[i] += x
			step = max(step, math.Abs(x))
		}
		if step < 1e-10 {
			break
		}
	}
	l.hess[b] = h
	s.z, s.y, s.w = s.z[:0], s.y[:0], s.w[:0]
	return nil
}
