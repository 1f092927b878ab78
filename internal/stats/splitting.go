package stats

import (
	"fmt"
	"slices"
)

// Splitting estimates the probability that the score of a random X reaches a level that is too rare for plain
// simulation. Particles are drawn from the law of X. At each level those below it are replaced by copies of the others,
// chosen uniformly with replacement; then each particle moves by a Markov chain that keeps the law of X given
// score ≥ level: it takes what Move proposes where the score still reaches the level, and stays otherwise.
//
// With k_i of n particles at or above level i the estimate is Π k_i/n, 0 where no particle is left. It is unbiased for
// any number of particles and moves when the levels do not depend on the particles and Move is reversible with respect
// to the law of X (Del Moral, Feynman–Kac Formulae, 2004, theorem 7.4.2): few moves cost variance, not bias. The
// variance comes from independent estimates.
type Splitting[X any] struct {
	Particles int                 // n
	Moves     int                 // proposals for each particle at each level
	Draw      func() X            // a draw from the law
	Score     func(x X) float64   //
	Move      func(x X) X         // a proposal; it does not change x
	Intn      func(n int) (i int) // uniform on 0, …, n − 1
}

// Estimate returns the estimate for the last of the levels, which increase, and the share of the particles that
// reached each level, given the one before. It panics without levels or particles. Cost: at most
// Particles·(1 + Moves·(levels − 1)) scores.
func (s Splitting[X]) Estimate(levels []float64) (p float64, shares []float64) {
	if len(levels) == 0 {
		panic("stats: Splitting without levels")
	}
	x, score := s.start()
	p = 1
	for i, level := range levels {
		if i > 0 && !(level > levels[i-1]) {
			panic(fmt.Sprintf("stats: Splitting: level %v after %v", level, levels[i-1]))
		}
		alive := 0
		for _, v := range score {
			if v >= level {
				alive++
			}
		}
		shares = append(shares, float64(alive)/float64(len(x)))
		p *= shares[i]
		if alive == 0 || i == len(levels)-1 {
			break
		}
		x, score = s.pass(x, score, level)
	}
	return p, shares
}

// Levels returns levels for Estimate that end with last: each is the score that the share keep of the particles reaches
// above the one before it. They are random, so that Estimate needs other random numbers than this call. ok is false
// where more than limit levels are needed, or where the particles have got stuck below last. It panics without
// particles, or with keep outside (0, 1).
func (s Splitting[X]) Levels(last, keep float64, limit int) (levels []float64, ok bool) {
	if !(keep > 0 && keep < 1) {
		panic("stats: Splitting: keep outside (0, 1)")
	}
	x, score := s.start()
	for {
		level := slices.Sorted(slices.Values(score))[int(float64(len(score))*(1-keep))]
		if level >= last {
			return append(levels, last), true
		}
		if n := len(levels); n+1 >= limit || n > 0 && level <= levels[n-1] {
			return append(levels, last), false
		}
		levels = append(levels, level)
		x, score = s.pass(x, score, level)
	}
}

func (s Splitting[X]) start() (x []X, score []float64) {
	if s.Particles < 1 {
		panic("stats: Splitting without particles")
	}
	x, score = make([]X, s.Particles), make([]float64, s.Particles)
	for i := range x {
		x[i] = s.Draw()
		score[i] = s.Score(x[i])
	}
	return x, score
}

// pass takes the particles, of which at least one reaches the level, to the law given that level.
func (s Splitting[X]) pass(x []X, score []float64, level float64) ([]X, []float64) {
	var alive []int
	for i, v := range score {
		if v >= level {
			alive = append(alive, i)
		}
	}
	y, now := make([]X, len(x)), make([]float64, len(x))
	for i := range y {
		from := alive[s.Intn(len(alive))]
		y[i], now[i] = x[from], score[from]
		for range s.Moves {
			next := s.Move(y[i])
			if v := s.Score(next); v >= level {
				y[i], now[i] = next, v
			}
		}
	}
	return y, now
}
