package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// toldChange plays the world of a seed with a table that is told the true cells: Beta posteriors, drawn as normal with
// scale times their deviation, empty again delay events after the change, which it is told, too.
func (s *stream) toldChange(seed uint64, delay int, scale float64) (out played) {
	r, luck := rand.New(rand.NewPCG(seed, 77)), rand.New(rand.NewPCG(seed, 99))
	means := meansOf(s, r)
	after := s.after(means, r)
	out.got, out.most = make([]float64, (s.rounds+249)/250), make([]float64, (s.rounds+249)/250)
	hits, misses := make([][]float64, s.cells), make([][]float64, s.cells)
	empty := func() {
		for c := range hits {
			hits[c], misses[c] = make([]float64, s.arms), make([]float64, s.arms)
		}
	}
	empty()
	for n := range s.rounds {
		if n == s.at {
			means = after
		}
		if n == s.at+delay {
			empty()
		}
		c := r.IntN(s.cells)
		s.context(c, r)
		r.Uint64()
		best, most := 0, math.Inf(-1)
		for k := range s.arms {
			a, b := 1+hits[c][k], 2+misses[c][k]
			m := a / (a + b)
			if v := m + scale*luck.NormFloat64()*math.Sqrt(m*(1-m)/(a+b+1)); v > most {
				best, most = k, v
			}
		}
		if luck.Float64() < .01 {
			best = luck.IntN(s.arms)
		}
		uniform := 0.
		for _, m := range means[c] {
			uniform += m / float64(s.arms)
		}
		out.got[n/250] += means[c][best] - uniform
		out.most[n/250] += slices.Max(means[c]) - uniform
		if luck.Float64() < means[c][best] {
			hits[c][best]++
		} else {
			misses[c][best]++
		}
	}
	return out
}

// TestSwapsRecord counts the worlds of swaps in which a learner is back at nine tenths 750 to 1,250 decisions after the
// change: restarts, a model that begins at the change, and tables that are told the cells and the change.
func TestSwapsRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play the worlds: two minutes of a processor")
	}
	all := streams()
	s, n := all["swaps"], recordWorlds
	back := map[string]int{}
	for i, p := range s.worlds(t, recordFrom, n, "restarts") {
		seed := uint64(recordFrom + i)
		before := p.share(s.at-1000, s.at)
		count := func(name string, q *played, before float64) {
			if q.share(s.at+750, s.at+1250) >= .9*before {
				back[name]++
			}
		}
		count("restarts", &p, before)
		fresh := all["swaps, begun at the change"].play(t, seed, "restarts")
		count("begun at the change", &fresh, before)
		for _, scale := range []float64{1, .5} {
			for _, delay := range []int{0, 130} {
				q := s.toldChange(seed, delay, scale)
				count(fmt.Sprintf("told, %d late, scale %v", delay, scale), &q, q.share(s.at-1000, s.at))
			}
		}
	}
	t.Logf("back in, of %d: %v", n, back)
}
