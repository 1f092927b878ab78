package ope

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"troupe/logged"
)

// mostGammaPairs bounds the pairs (position, action) of Γ: its decomposition takes their cube.
const mostGammaPairs = 512

// gamma is Γ⁺ of a law of lists, in the pairs that the law plays.
type gamma struct {
	law     *logged.ListLaw
	sets    []int // the candidates of every slot, each slot's ended by −1
	at      map[[2]int]int
	inverse *mat.SymDense
}

// setsOf lists the candidates of every slot, in order, whatever was played.
func setsOf(into []int, ev *logged.Event) []int {
	into = into[:0]
	sets, _ := ev.Sets()
	for l := range ev.Slots {
		a := ev.Slots[l].Allowed
		if sets == logged.SetsShared {
			a = ev.Slots[0].Allowed
		}
		from := len(into)
		into = append(into, a...)
		slices.Sort(into[from:])
		into = append(into, -1)
	}
	return into
}

// of reports whether g is that of an event.
func (g *gamma) of(ev *logged.Event, sets []int) bool {
	a, b := g.law, ev.ListLaw
	return a != nil && a.Floor == b.Floor && slices.Equal(a.P, b.P) && slices.Equal(g.sets, sets) &&
		slices.EqualFunc(a.Lists, b.Lists, slices.Equal[[]int])
}

// gammaOf decomposes Γ = E[1_L 1_Lᵀ] of an event's law. Eigenvalues below 1e-10 of the largest one count as 0.
func gammaOf(ev *logged.Event, b []logged.Standing, setting []int) *gamma {
	c := ev.Clone()
	g := &gamma{law: c.ListLaw, sets: slices.Clone(setting), at: map[[2]int]int{}}
	sets, n := ev.Sets()
	var pairs [][2]int
	for l := range b {
		for a, p := range b[l].Marginals {
			if p > 0 {
				g.at[[2]int{l, a}] = len(pairs)
				pairs = append(pairs, [2]int{l, a})
			}
		}
	}
	m := len(pairs)
	if m > mostGammaPairs {
		return g
	}
	x := mat.NewSymDense(m, nil)
	for i, p := range pairs {
		x.SetSym(i, i, b[p[0]].Marginals[p[1]])
		for j, q := range pairs[:i] {
			if p[0] != q[0] {
				x.SetSym(j, i, ev.ListLaw.Pair(ev, sets, n, q[0], q[1], p[0], p[1]))
			}
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(x, true) {
		return g
	}
	values := eigen.Values(nil)
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	most := slices.Max(values)
	g.inverse = mat.NewSymDense(m, nil)
	for k, v := range values {
		if v > 1e-10*most {
			g.inverse.SymRankOne(g.inverse, 1/v, vectors.ColView(k))
		}
	}
	return g
}

// pseudoWeight is 1_Lᵀ Γ⁺ q_π of a list, and E w² = q_πᵀ Γ⁺ q_π.
func (w *worker) pseudoWeight(ev *logged.Event) (weight, squared float64, why string) {
	n := len(ev.Slots)
	b, e := w.lists.logger[:n], w.lists.target[:n]
	if ev.ListLaw == nil {
		return independentWeight(ev, b, e)
	}
	for l := range e {
		if len(e[l].Marginals) == 0 {
			return 0, 0, noTarget + whatAll
		}
	}
	w.gammaSets = setsOf(w.gammaSets, ev)
	if w.gamma == nil || !w.gamma.of(ev, w.gammaSets) {
		w.gamma = gammaOf(ev, b, w.gammaSets)
	}
	g := w.gamma
	switch {
	case len(g.at) > mostGammaPairs:
		return 0, 0, largeGamma
	case g.inverse == nil:
		return 0, 0, "Γ has no decomposition"
	}
	q := make([]float64, len(g.at))
	for l := range e {
		for a, p := range e[l].Marginals {
			if i, is := g.at[[2]int{l, a}]; is {
				q[i] = p
			}
		}
	}
	for i, p := range q {
		if p == 0 {
			continue
		}
		for l := range ev.Slots {
			if j, is := g.at[[2]int{l, ev.Slots[l].Allowed[0]}]; is {
				weight += float64(g.inverse.At(i, j) * p)
			}
		}
		for j, r := range q {
			squared += float64(float64(g.inverse.At(i, j)*p) * r)
		}
	}
	return weight, squared, ""
}

// independentWeight is the weight where slots are drawn independently from sets of their own: 1 + Σ_l (w_l − 1).
func independentWeight(ev *logged.Event, b, e []logged.Standing) (weight, squared float64, why string) {
	if sets, _ := ev.Sets(); sets != logged.SetsOwn {
		return 0, 0, noLists
	}
	weight, squared = 1, 1
	for l := range b {
		m, allowed := &b[l], ev.Slots[l].Allowed
		if len(m.Law) == 0 || len(m.Marginals) == 0 {
			return 0, 0, noLists
		}
		for i, a := range allowed { // drawn independently: what stands above does not matter
			if math.Abs(m.Law[i]-m.Marginals[a]) > logged.Tolerance {
				return 0, 0, noLists
			}
		}
		if math.IsNaN(e[l].Marginal) {
			return 0, 0, noTarget + whatMarginals
		}
		weight += e[l].Marginal/m.Marginal - 1
		two := e[l].Marginal / m.Marginal * e[l].Marginal / m.Marginal
		if len(e[l].Marginals) > 0 {
			two = 0
			for a, p := range m.Marginals {
				if p > 0 {
					two += float64(e[l].Marginals[a] / p * e[l].Marginals[a])
				}
			}
		}
		squared += two - 1
	}
	return weight, squared, ""
}
