package verify

import (
	"math"
	"math/rand/v2"

	"troupe/internal/stats"
	"troupe/theory"
)

// stuck is the setting of docs/papers/price-of-few.md, section 1: the accumulated ensemble with signs on orthogonal
// unit arms with N(0, 1) noise, one of mean best and the others of mean other. A run is stuck when it pulls the others
// in at least half of T rounds.
type stuck struct {
	best, other float64
	others      int // 0 is 1; nothing: the zero vector, whose mean is 0
	lambda      float64
	m, T        int
	r           float64 // the scale; with delta > 0 it is r·β_t^δ
	delta       float64
	// Targets uniform on [−1, 1] and init = "matched", the program's defaults, in place of Gaussian ones and "prior".
	uniform bool
}

// nothing is the number of others for the zero vector alone.
const nothing = -1

// dim is the number of arms that are no zero vector.
func (s stuck) dim() int { return max(s.others, 1) + 1 + min(s.others, 0) }

// early is how many pulls of the better arm have tapes of their own in splitting; what decides whether it is lost is
// among them.
const early = 12

// tape is the randomness of a run: the noise of the better arm's first pulls, the members' perturbations before the
// first pull and their steps at each of these pulls, as N(0, 1) numbers, and the seed of everything else.
type tape struct {
	noise []float64 // n
	walk  []float64 // (n + 1) × m
	rest  uint64
}

// draw draws a tape with the better arm's first n pulls.
func (s stuck) draw(r *rand.Rand, n int) *tape {
	x := &tape{noise: make([]float64, n), walk: make([]float64, (n+1)*s.m), rest: r.Uint64()}
	for i := range x.noise {
		x.noise[i] = r.NormFloat64()
	}
	for i := range x.walk {
		if s.uniform && i >= s.m {
			x.walk[i] = float64(2*r.Float64()) - 1
			continue
		}
		x.walk[i] = r.NormFloat64()
	}
	return x
}

// move proposes a tape near x. It is reversible with respect to the law of draw: with ρ drawn before, N(0, 1) numbers v
// become ρv + √(1 − ρ²)g, and a new seed does not depend on the old one.
func (s stuck) move(x *tape, r *rand.Rand) *tape {
	y := *x
	if r.IntN(3) == 0 {
		y.rest = r.Uint64()
		return &y
	}
	rho := [...]float64{0, 0.6, 0.9, 0.98}[r.IntN(4)]
	root := math.Sqrt(1 - rho*rho)
	if r.IntN(2) == 0 {
		y.noise = make([]float64, len(x.noise))
		for i, v := range x.noise {
			y.noise[i] = rho*v + root*r.NormFloat64()
		}
		return &y
	}
	y.walk = make([]float64, len(x.walk))
	copy(y.walk, x.walk)
	part := 1 + r.IntN(8) // one member in part, on average
	for j := range s.m {
		if part > 1 && r.IntN(part) > 0 {
			continue
		}
		for i := j; i < len(y.walk); i += s.m {
			y.walk[i] = rho*y.walk[i] + root*r.NormFloat64()
		}
	}
	return &y
}

// arm is an arm's sums and the perturbations of its members, which are computed when they are asked for.
type arm struct {
	n, sum float64
	w      []float64 // W^j after the first seen[j] pulls
	seen   []int32
}

// play is a run of stuck on a tape.
type play struct {
	stuck
	x     *tape
	rest  *rand.Rand
	early int
	arms  []arm
	first []float64 // m × arms: the perturbations before the first pull, of uniform targets
	drawn []bool
}

// score plays T rounds and returns the pulls of the worse arms, at most half of T: what comes after does not matter.
func (s stuck) score(x *tape) (worse float64) {
	p := play{stuck: s, x: x, rest: rand.New(rand.NewPCG(x.rest, 1)), early: len(x.noise), arms: make([]arm, s.dim())}
	for k := range p.arms {
		p.arms[k] = arm{w: make([]float64, s.m), seen: make([]int32, s.m)}
		for j := range s.m {
			p.arms[k].seen[j] = -1
		}
	}
	if s.uniform {
		p.first, p.drawn = make([]float64, s.m*s.dim()), make([]bool, s.m)
	}
	r, changed := s.r, s.delta > 0
	for range s.T {
		if worse >= s.half() {
			break
		}
		if changed {
			r = s.betaOf(p.arms)
		}
		u := p.rest.Uint64N(2 * uint64(s.m))
		j, scale := int(u>>1), r
		if u&1 == 1 {
			scale = -r
		}
		k, top := -1, 0.0 // the zero vector
		for i := range p.arms {
			a := &p.arms[i]
			if v := (a.sum + float64(scale*p.at(i, j))) / (s.lambda + a.n); i == 0 && s.others != nothing || v > top {
				k, top = i, v
			}
		}
		if k != 0 {
			worse++
		}
		if k >= 0 {
			p.pull(k)
		}
	}
	return worse
}

func (p *play) pull(k int) {
	a, mean, z := &p.arms[k], p.other, 0.0
	if k == 0 {
		mean = p.best
	}
	if n := int(a.n); k == 0 && n < p.early {
		z = p.x.noise[n]
	} else {
		z = p.rest.NormFloat64()
	}
	a.sum += mean + z
	a.n++
}

// at is W^j of arm k after its pulls so far.
func (p *play) at(k, j int) float64 {
	a := &p.arms[k]
	n := int32(a.n)
	if a.seen[j] == n {
		return a.w[j]
	}
	if a.seen[j] < 0 {
		a.w[j], a.seen[j] = p.begin(k, j), 0
	}
	if k == 0 {
		for ; a.seen[j] < n && int(a.seen[j]) < p.early; a.seen[j]++ {
			a.w[j] += p.x.walk[int(a.seen[j]+1)*p.m+j]
		}
	}
	if gap := n - a.seen[j]; gap > 0 {
		a.w[j] += p.steps(int(gap))
		a.seen[j] = n
	}
	return a.w[j]
}

// begin is W^j of arm k before its first pull.
func (p *play) begin(k, j int) float64 {
	root := math.Sqrt(p.lambda)
	if !p.uniform {
		if k == 0 {
			return root * p.x.walk[j]
		}
		return root * p.rest.NormFloat64()
	}
	d := len(p.arms)
	row := p.first[j*d : j*d+d]
	if !p.drawn[j] { // on √(λd/3)·𝕊^{d−1}
		row[0], p.drawn[j] = p.x.walk[j], true
		sum := row[0] * row[0]
		for i := 1; i < d; i++ {
			row[i] = p.rest.NormFloat64()
			sum += row[i] * row[i]
		}
		scale := root * math.Sqrt(float64(d)/(3*sum))
		for i := range row {
			row[i] *= scale
		}
	}
	return row[k]
}

// steps is the sum of n targets; of more than 40 uniform ones a Gaussian number with their variance.
func (p *play) steps(n int) (sum float64) {
	switch {
	case !p.uniform:
		return math.Sqrt(float64(n)) * p.rest.NormFloat64()
	case n > 40:
		return math.Sqrt(float64(n)/3) * p.rest.NormFloat64()
	}
	for range n {
		sum += float64(2*p.rest.Float64()) - 1
	}
	return sum
}

// beta is r·β^δ after a pulls of the better arm and b of the other.
func (s stuck) beta(a, b float64) float64 {
	return s.r * (math.Sqrt(s.lambda) + math.Sqrt(math.Log((1+a/s.lambda)*(1+b/s.lambda))-2*math.Log(s.delta)))
}

// betaOf is r·β^δ after the pulls of the arms so far.
func (s stuck) betaOf(arms []arm) float64 {
	if len(arms) == 2 {
		return s.beta(arms[0].n, arms[1].n)
	}
	det := 1.0
	for _, a := range arms {
		det *= 1 + a.n/s.lambda
	}
	return s.r * (math.Sqrt(s.lambda) + math.Sqrt(math.Log(det)-2*math.Log(s.delta)))
}

// half is the score from which a run is stuck.
func (s stuck) half() float64 { return float64(s.T) / 2 }

// splitting returns the estimator of the stuck probability.
func (s stuck) splitting(r *rand.Rand, particles, moves int) stats.Splitting[*tape] {
	return stats.Splitting[*tape]{
		Particles: particles, Moves: moves, Intn: r.IntN, Score: s.score,
		Draw: func() *tape { return s.draw(r, early) },
		Move: func(x *tape) *tape { return s.move(x, r) },
	}
}

// bound is the lower bound of thm:few-exponent on the stuck probability at a constant scale: a run that pulls the
// better arm at most k ≤ T/2 times is stuck.
func (s stuck) bound() (best float64) {
	f := theory.Few{Best: s.best, Other: s.other, Lambda: s.lambda, R: s.r, Draws: float64(s.m)}
	for k := 1; k <= 20; k++ {
		best = max(best, must(f.Lost(k)))
	}
	return best
}
