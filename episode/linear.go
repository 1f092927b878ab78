package episode

import (
	"fmt"
	"math"
	"slices"

	"troupe/rng"
	"troupe/spec"
)

// LinearOptions are the options of kind "linear": RLSVI with Q_h(s, a) = φ_h(s, a)ᵀθ_h, one ridge regression in each
// step,
//
//	θ^j_h = V_h⁻¹(Σ φ·(r + V^j_{h+1}(s')) + ς(σ·S^j_h + λ·p^j_h)),   V_h = λI + Σ φφᵀ
//
// for method ensemble, S^j the sum of φ times standard normals. Method atoms computes a member from V_h: instead of the
// sums it adds ς·σ·V_h^{−1/2}g, g standard normal by member, step and ⌊log₂ det(V_h/λ)⌋. Method fresh draws g anew in
// each episode, without a sign, and has no members.
//
// Atoms keyed by what a step knows, (V_h, b_h) with b_h = Σ φ·(r + V_{h+1}(s')), would be method fresh: each step is
// visited once in an episode, so V_h grows by one φφᵀ in each, and no key comes again unless φ is 0. A key that stays
// for some episodes, as that of method atoms, must leave something out.
//
// The sums are V_h, Σ φ·r and Σ φ·1{s' = s} for each state s. So the problem has numbered states beside its features.
// With one-hot features method ensemble is kind ensemble and method fresh is kind fresh, bit for bit.
type LinearOptions struct {
	M        int     `key:"m" doc:"members m; method fresh has none"`
	Sigma    float64 `key:"sigma" doc:"standard deviation σ of the perturbation of a target"`
	Prior    float64 `key:"prior" doc:"standard deviation of the random priors; λ = (σ/prior)², and λ = 0 where it is 0"`
	OneSided bool    `key:"one_sided" doc:"members play with the sign + only, not with a random sign"`
	Redraw   string  `key:"redraw" doc:"when a member is drawn: episode, or step, which fails (an ablation)"`
	Features string  `key:"features" doc:"environment: those that the environment has; one-hot: one for each state and action"`
	Method   string  `key:"method" doc:"ensemble (accumulated), atoms, or fresh: new noise in each episode"`
}

// NewLinear returns the defaults.
func NewLinear() *LinearOptions {
	o := NewRLSVI()
	return &LinearOptions{o.M, o.Sigma, o.Prior, o.OneSided, o.Redraw, "environment", "ensemble"}
}

// Doc says what the kind is.
func (*LinearOptions) Doc() string {
	return "RLSVI with linear values: a ridge regression of each step, m members"
}

// Agent implements AgentOptions.
func (o *LinearOptions) Agent(s Setting) (Agent, error) {
	if err := numbered(s); err != nil {
		return nil, err
	}
	var phi Featured
	switch o.Features {
	case "environment":
		if phi = s.Features; phi == nil {
			return nil, spec.Errorf("features", "is %q, and the environment has no features; take one-hot, or an environment "+
				"with features such as random-mdp with a rank", o.Features)
		}
	case "one-hot":
		phi = oneHot{s.Size}
	default:
		return nil, spec.Errorf("features", "is %q%s", o.Features,
			spec.Suggest(o.Features, []string{"environment", "one-hot"}))
	}
	if methods := []string{"ensemble", "atoms", "fresh"}; !slices.Contains(methods, o.Method) {
		return nil, spec.Errorf("method", "is %q%s", o.Method, spec.Suggest(o.Method, methods))
	}
	z, d := s.Size, phi.Dim()
	if d < 1 {
		return nil, fmt.Errorf("episode: %d features, expected at least 1", d)
	}
	members := RLSVI{o.M, o.Sigma, o.Prior, o.OneSided, o.Redraw}
	if err := members.check(Size{z.Steps, 1, d}); err != nil {
		return nil, err
	}
	each := float64(d)*float64(d+z.States) + float64(z.States)*float64(z.Actions)*float64(d)
	if n := float64(z.Steps) * each; n > 10*maxCells {
		return nil, fmt.Errorf("%d features, %d states and %d steps make %.3g numbers, expected at most %d", d, z.States,
			z.Steps, n, 10*maxCells)
	}
	if o.Method != "ensemble" && o.Prior == 0 && o.Sigma > 0 {
		return nil, spec.Errorf("prior", "is 0, without which the noise of method %s has no size before the first visit",
			o.Method)
	}
	return newLinear(s, phi, *o), nil
}

// oneHot are features with one for each state and action.
type oneHot struct{ size Size }

// Dim implements Featured.
func (o oneHot) Dim() int { return o.size.States * o.size.Actions }

// Features implements Featured.
func (o oneHot) Features(dst []float64, _, s, a int) {
	clear(dst)
	dst[s*o.size.Actions+a] = 1
}

// linear is the agent of LinearOptions.
type linear struct {
	size  Size
	phi   Featured
	d     int
	o     LinearOptions
	init  rng.Stream
	who   member
	fresh rng.Source // method fresh: the numbers of this episode
	steps []linearStep
	v     []float64 // by step and state
	rhs   []float64
	buf   []float64 // m
	acts  []float64 // A
	each  bool
}

// linearStep is the regression of one step.
type linearStep struct {
	l      []float64 // V = L·D·Lᵀ: L, d×d with 1 on the diagonal, below it only
	diag   []float64 // D
	reward []float64 // Σ φ·r
	next   []float64 // d×S: Σ φ·1{s'}
	sums   []float64 // m×d: λ·p^j + σ·S^j
	theta  []float64
	order  []int32             // states seen
	rows   map[int32][]float64 // by state seen: A×d features
}

func newLinear(s Setting, phi Featured, o LinearOptions) *linear {
	z, d := s.Size, phi.Dim()
	l := &linear{size: z, phi: phi, d: d, o: o, init: s.Init, who: member{m: o.M, oneSided: o.OneSided},
		steps: make([]linearStep, z.Steps), v: make([]float64, (z.Steps+1)*z.States), rhs: make([]float64, d),
		buf: make([]float64, o.M), acts: make([]float64, z.Actions), each: o.Redraw == "step"}
	ridge := lambda(o.Sigma, o.Prior)
	for h := range l.steps {
		st := &l.steps[h]
		*st = linearStep{l: make([]float64, d*d), diag: make([]float64, d), reward: make([]float64, d),
			next: make([]float64, d*z.States), theta: make([]float64, d), rows: make(map[int32][]float64)}
		for i := range d {
			st.diag[i] = ridge
		}
		if o.Method != "ensemble" {
			continue
		}
		st.sums = make([]float64, o.M*d)
		if size := float64(ridge * o.Prior); size > 0 {
			for i := range d {
				s.Init.Round(uint64(h*d+i)).Normals(l.buf, 0)
				for j, g := range l.buf {
					st.sums[j*d+i] = float64(size * g)
				}
			}
		}
	}
	return l
}

// Begin implements Agent.
func (l *linear) Begin(_ int, draw rng.Source) {
	if !l.each {
		l.draw(draw)
		l.back(0)
	}
}

// draw chooses what plays: a member and its sign, or the noise of an episode.
func (l *linear) draw(draw rng.Source) {
	if l.o.Method == "fresh" {
		l.fresh = draw
		return
	}
	l.who.draw(draw)
}

// Act implements Agent, with the numbers of the source that tabular agents take.
func (l *linear) Act(h, s int, draw rng.Source) int {
	st := &l.steps[h]
	if st.rows[int32(s)] == nil {
		row := make([]float64, l.size.Actions*l.d)
		for a := range l.size.Actions {
			l.phi.Features(row[a*l.d:][:l.d], h, s, a)
		}
		st.rows[int32(s)] = row
		st.order = append(st.order, int32(s))
	}
	if l.each {
		l.draw(draw.Sub(1))
		l.back(h)
	}
	for a := range l.acts {
		l.acts[a] = l.q(st, int32(s), a)
	}
	return argmax(l.acts, draw, 0)
}

// q returns φ_h(s, a)ᵀθ_h.
func (l *linear) q(st *linearStep, s int32, a int) float64 {
	sum := 0.0
	for i, x := range st.rows[s][a*l.d:][:l.d] {
		sum += float64(x * st.theta[i])
	}
	return sum
}

// back solves the regressions from step H−1 to step h. Cost: d(S + d) + SAd for each step.
func (l *linear) back(h int) {
	for k := l.size.Steps - 1; k >= h; k-- {
		st := &l.steps[k]
		after := l.v[(k+1)*l.size.States:][:l.size.States]
		for i := range l.rhs {
			sum := st.reward[i]
			for s, n := range st.next[i*l.size.States:][:l.size.States] {
				sum += float64(n * after[s])
			}
			if st.sums != nil {
				sum += float64(l.who.sign * st.sums[l.who.j*l.d+i])
			}
			l.rhs[i] = sum
		}
		st.solve(st.theta, l.rhs)
		if l.o.Method != "ensemble" && l.o.Sigma != 0 {
			l.addNoise(k)
		}
		for _, s := range st.order {
			best := math.Inf(-1)
			for a := range l.size.Actions {
				best = max(best, l.q(st, s, a))
			}
			l.v[k*l.size.States+int(s)] = best
		}
	}
}

// addNoise adds ς·σ·L⁻ᵀD^{−1/2}g, which has the covariance σ²V⁻¹; ς is 1 for method fresh.
func (l *linear) addNoise(h int) {
	st, sign := &l.steps[h], 1.0
	if l.o.Method == "fresh" {
		l.fresh.Normals(l.rhs, h*l.d)
	} else {
		epoch := st.epoch(lambda(l.o.Sigma, l.o.Prior))
		l.init.Round(uint64(h)<<32|uint64(epoch)).Sub(uint64(l.who.j)).Normals(l.rhs, 0)
		sign = l.who.sign
	}
	for i := range l.rhs {
		l.rhs[i] *= float64(sign*l.o.Sigma) / math.Sqrt(st.diag[i])
	}
	for i := l.d - 1; i >= 0; i-- {
		for k := i + 1; k < l.d; k++ {
			l.rhs[i] -= float64(st.l[k*l.d+i] * l.rhs[k])
		}
		st.theta[i] += l.rhs[i]
	}
}

// epoch returns ⌊log₂ det(V/λ)⌋.
func (st *linearStep) epoch(ridge float64) int {
	mantissa, exponent := 1.0, 0
	for _, v := range st.diag {
		f, e := math.Frexp(v / ridge)
		g, k := math.Frexp(mantissa * f)
		mantissa, exponent = g, exponent+e+k
	}
	return max(0, exponent-1)
}

// solve stores V⁻¹b in x. A coordinate that V does not have, with D = 0, becomes 0.
func (st *linearStep) solve(x, b []float64) {
	d := len(x)
	for i := range d {
		v := b[i]
		for k := range i {
			v -= float64(st.l[i*d+k] * x[k])
		}
		x[i] = v
	}
	for i := range d {
		if st.diag[i] > 0 {
			x[i] /= st.diag[i]
		} else {
			x[i] = 0
		}
	}
	for i := d - 1; i >= 0; i-- {
		for k := i + 1; k < d; k++ {
			x[i] -= float64(st.l[k*d+i] * x[k])
		}
	}
}

// add makes V + φφᵀ of V: the rank-one update of L·D·Lᵀ (Gill and others 1974, method C1). Cost: d².
func (st *linearStep) add(phi, w []float64) {
	d := len(phi)
	copy(w, phi)
	alpha := 1.0
	for j := range d {
		p := w[j]
		if p == 0 {
			continue
		}
		old := st.diag[j]
		now := old + float64(alpha*float64(p*p))
		st.diag[j] = now
		if now == 0 {
			continue
		}
		beta := float64(alpha*p) / now
		alpha = float64(alpha*old) / now
		for i := j + 1; i < d; i++ {
			w[i] -= float64(p * st.l[i*d+j])
			st.l[i*d+j] += float64(beta * w[i])
		}
		if alpha == 0 {
			return // nothing is left of φ
		}
	}
}

// Learn implements Agent.
func (l *linear) Learn(h, s, a int, reward float64, next int, draw rng.Source) {
	st := &l.steps[h]
	phi := st.rows[int32(s)][a*l.d:][:l.d]
	st.add(phi, l.rhs)
	for i, x := range phi {
		st.reward[i] += float64(x * reward)
		if h+1 < l.size.Steps {
			st.next[i*l.size.States+next] += x
		}
	}
	if st.sums == nil || l.o.Sigma == 0 {
		return
	}
	draw.Normals(l.buf, 0)
	for j, g := range l.buf {
		push := float64(l.o.Sigma * g)
		for i, x := range phi {
			st.sums[j*l.d+i] += float64(x * push)
		}
	}
}
