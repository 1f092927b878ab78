package verify

import (
	"math"
	"math/rand/v2"

	"troupe/internal/stats"
	"troupe/theory"
)

// stuck is the setting of docs/papers/price-of-few.md, section 1: the accumulated ensemble with signs on two orthogonal
// unit arms with N(0, 1) noise. A run is stuck when it pulls the worse arm in at least half of T rounds.
type stuck struct {
	best, other float64
	lambda      float64
	m, T        int
	r           float64 // the scale; with delta > 0 it is r·β_t^δ
	delta       float64
}

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

// score plays T rounds and returns the pulls of the worse arm, at most half of T: what comes after does not matter.
func (s stuck) score(x *tape) float64 {
	rest, early := rand.New(rand.NewPCG(x.rest, 1)), len(x.noise)
	var arms [2]arm
	for k := range arms {
		arms[k] = arm{w: make([]float64, s.m), seen: make([]int32, s.m)}
		for j := range s.m {
			arms[k].seen[j] = -1
		}
	}
	root := math.Sqrt(s.lambda)
	at := func(k, j int) float64 {
		a := &arms[k]
		n := int32(a.n)
		if a.seen[j] == n {
			return a.w[j]
		}
		if k == 0 {
			for ; a.seen[j] < n && int(a.seen[j]) < early; a.seen[j]++ {
				step := x.walk[int(a.seen[j]+1)*s.m+j]
				if a.seen[j] < 0 {
					step *= root
				}
				a.w[j] += step
			}
		} else if a.seen[j] < 0 {
			a.w[j], a.seen[j] = root*rest.NormFloat64(), 0
		}
		if gap := n - a.seen[j]; gap > 0 {
			a.w[j] += math.Sqrt(float64(gap)) * rest.NormFloat64()
			a.seen[j] = n
		}
		return a.w[j]
	}
	means := [2]float64{s.best, s.other}
	r, changed := s.r, s.delta > 0
	for range s.T {
		if arms[1].n >= s.half() {
			break
		}
		if changed {
			r = s.beta(arms[0].n, arms[1].n)
		}
		u := rest.Uint64N(2 * uint64(s.m))
		j, scale := int(u>>1), r
		if u&1 == 1 {
			scale = -r
		}
		var model [2]float64
		for k := range arms {
			model[k] = (arms[k].sum + scale*at(k, j)) / (s.lambda + arms[k].n)
		}
		k := 0
		if model[1] > model[0] {
			k = 1
		}
		a := &arms[k]
		z := 0.0
		if n := int(a.n); k == 0 && n < early {
			z = x.noise[n]
		} else {
			z = rest.NormFloat64()
		}
		a.sum += means[k] + z
		a.n++
	}
	return arms[1].n
}

// beta is r·β^δ after a pulls of the better arm and b of the other.
func (s stuck) beta(a, b float64) float64 {
	return s.r * (math.Sqrt(s.lambda) + math.Sqrt(math.Log((1+a/s.lambda)*(1+b/s.lambda))-2*math.Log(s.delta)))
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
