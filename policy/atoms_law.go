package policy

import (
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// This file has what policies with computed members share: their directions, the draw of a model and
// the count over all of them.

// directions serves g(e, j) ~ N(0, I_d), the numbers of round j of sub-stream e, and keeps those of
// the last key. It is a cache and changes no number.
type directions struct {
	stream rng.Stream
	keyed  rng.Stream
	key    uint64
	block  []float64 // m×d
	have   []bool
	d      int
}

func newDirections(init rng.Stream, m, d int) directions {
	return directions{stream: init, keyed: init.Sub(0), block: make([]float64, m*d), have: make([]bool, m), d: d}
}

func (g *directions) at(key uint64, j int) []float64 {
	if key != g.key {
		g.key, g.keyed = key, g.stream.Sub(key)
		clear(g.have)
	}
	row := g.block[j*g.d : j*g.d+g.d]
	if !g.have[j] {
		g.keyed.Round(uint64(j)).Normals(row, 0)
		g.have[j] = true
	}
	return row
}

// models are the 2m models θ̂ ± c·member of a decision, or m without signs.
type models struct {
	m, d      int
	symmetric bool
	model     []float64
	tally     tally
}

func newModels(m, d int, symmetric bool) models {
	return models{m: m, d: d, symmetric: symmetric, model: make([]float64, d)}
}

// Models returns the number of models that take part: 2m, or m without symmetrisation.
func (a *models) Models() int {
	if a.symmetric {
		return 2 * a.m
	}
	return a.m
}

// shift stores hat + c·member in dst.
func shift(dst, hat []float64, c float64, member []float64) {
	for i, v := range member {
		dst[i] = hat[i] + float64(c*v)
	}
}

// choose draws J and ξ, numbers 0 and 1 of the source, and plays for model (J, ξ).
func (a *models) choose(dst *bandit.Action, set bandit.ActionSet, draw rng.Source, model modelOf) error {
	if err := checkDim(set, a.d); err != nil {
		return err
	}
	j, sign := draw.Intn(0, a.m), 1.0
	if a.symmetric {
		sign = draw.Sign(1)
	}
	model(a.model, draw.At(), j, sign)
	_, err := set.ArgMax(dst, a.model)
	return err
}

// modelOf stores model (j, ξ) of a decision in dst.
type modelOf func(dst []float64, decision uint64, j int, sign float64)

// law writes the share of the models θ̂ ± c·member of a decision that choose each action.
func (a *models) law(dst *bandit.Law, set bandit.ActionSet, decision uint64, theta []float64, c float64,
	members func(block []float64, decision uint64), model modelOf) error {
	d := a.d
	if err := checkSet(set, d); err != nil {
		return err
	}
	f, ok := set.(bandit.Finite)
	if !ok {
		return count(dst, set, uint64(a.Models()), func(add func([]float64) error) error {
			for j := range a.m {
				model(a.model, decision, j, 1)
				if err := add(a.model); err != nil {
					return err
				}
				if !a.symmetric {
					continue
				}
				model(a.model, decision, j, -1)
				if err := add(a.model); err != nil {
					return err
				}
			}
			return nil
		})
	}
	members(a.tally.start(a.m, d), decision)
	a.tally.score(f, theta, c)
	zeros(dst, f.Len())
	for j := range a.m {
		for k := range 2 {
			sign := float64(1 - 2*k)
			if k == 1 && !a.symmetric {
				break
			}
			i, sure := a.tally.winner(j, k)
			if !sure {
				model(a.model, decision, j, sign)
				if _, err := set.ArgMax(&a.tally.action, a.model); err != nil {
					return err
				}
				i = a.tally.action.Index
			}
			dst.Atoms[i].Count++
		}
	}
	share(dst, uint64(a.Models()))
	return nil
}

// tally finds the best arm of every model θ̂ ± c·member from one product of the arms with the
// (m+1)×d parameters: ⟨x, θ̂⟩ ± c⟨x, member⟩, less the price of x where the set has prices. Its sums are
// rounded otherwise than the oracle's, so where the best arm leads by less than the rounding error it does
// not decide.
type tally struct {
	d, m    int
	members []float64 // m×d
	best    []lead    // 2m: model (j, +) at 2j, (j, −) at 2j+1
	margin  []float64 // m: twice the largest possible rounding error of a score
	action  bandit.Action
}

// lead is the best arm of a model so far, and the scores of the best and the second.
type lead struct {
	arm           int
	first, second float64
}

// start makes room for m members and returns it, m×d.
func (t *tally) start(m, d int) []float64 {
	if t.m != m || t.d != d {
		*t = tally{m: m, d: d, members: make([]float64, m*d), best: make([]lead, 2*m), margin: make([]float64, m),
			action: t.action}
	}
	return t.members
}

func (t *tally) score(f bandit.Finite, theta []float64, c float64) {
	d, inf := t.d, math.Inf(-1)
	for k := range t.best {
		t.best[k] = lead{0, inf, inf}
	}
	priced, _ := f.(bandit.Priced)
	var longest, dearest float64
	for i := range f.Len() {
		x := f.At(i)
		longest = max(longest, linalg.Dot(x, x))
		base := linalg.Dot(x, theta)
		if priced != nil {
			price := priced.Price(i)
			dearest = max(dearest, math.Abs(price))
			base -= price
		}
		for j, members := 0, t.members; j < t.m; j, members = j+1, members[d:] {
			s := float64(c * linalg.Dot(x, members[:d]))
			t.best[2*j].add(i, base+s)
			t.best[2*j+1].add(i, base-s)
		}
	}
	// A sum of d products is off by at most d·2⁻⁵³ Σ|x_i θ_i| ≤ d·2⁻⁵³ ‖x‖‖θ‖ to first order, here
	// and in the oracle; forming θ and the score adds three roundings. A price is one more product of such a sum.
	unit := float64(4 * float64(d+4) * 0x1p-53)
	length, hat := math.Sqrt(longest), linalg.Norm(theta)
	for j := range t.m {
		values := float64(length * (hat + float64(math.Abs(c)*linalg.Norm(t.members[j*d:j*d+d]))))
		t.margin[j] = 2 * unit * (values + dearest)
	}
}

func (l *lead) add(arm int, s float64) {
	if s > l.first {
		l.arm, l.first, l.second = arm, s, l.first
	} else if s > l.second {
		l.second = s
	}
}

// winner returns the best arm of a model, and whether it is sure to be the oracle's answer. Numbers
// that are not finite, or so large that the oracle may refuse them, are not sure.
func (t *tally) winner(j, k int) (arm int, sure bool) {
	l := t.best[2*j+k]
	return l.arm, l.first-l.second > t.margin[j] && t.margin[j] < 1e100
}

// DrawnMember implements bandit.MemberDrawer, with what choose draws.
func (a *models) DrawnMember(draw rng.Source) (j int, xi float64) {
	return drawMember(draw, a.m, a.symmetric)
}
