package ope

import (
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestKnobCells: on a law over four cells, drawn in the proportions of the law, the estimate of a target is the mean reward in the cell
// of its number, whatever the law; the sequence covers it in 200 logs of 300 decisions; a mass that is half the truth contradicts itself.
func TestKnobCells(t *testing.T) {
	law := []float64{.5, .25, .125, .125}
	mean := func(a float64) float64 { return .2 + .6*a*a } // in [0, 1]
	inCell := func(c int) float64 {                        // ∫ mean over [c/4, (c+1)/4), 4 of it
		lo, hi := float64(c)/4, float64(c+1)/4
		return .2 + .6*4*(hi*hi*hi-lo*lo*lo)/3
	}
	names := []string{"a", "b", "edge"}
	aims := []float64{.8, .1, .5} // cells 3, 0 and 2
	try := func(seed uint64, n int, mass float64) (*KnobResult, error) {
		r, at := rand.New(rand.NewPCG(seed, 9)), 0
		return EvaluateKnobs(func(k *Knob) error {
			if at++; at > n {
				return io.EOF
			}
			u, c := r.Float64(), 0
			for u >= law[c] {
				u -= law[c]
				c++
			}
			a := (float64(c) + r.Float64()) / 4
			reward := 0.0
			if r.Float64() < mean(a) {
				reward = 1
			}
			*k = Knob{Action: a, Density: law[c] * 4, Reward: reward, Aims: aims, Cell: Pair{float64(c) / 4, float64(c+1) / 4}, Mass: law[c] * mass}
			return nil
		}, KnobOptions{Names: names, Cells: true})
	}
	log := func(seed uint64, n int) *KnobResult {
		out, err := try(seed, n, 1)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	truth := []float64{inCell(3), inCell(0), inCell(2)}
	big := log(1, 200_000)
	for i, x := range big.Targets {
		b := x.Bandwidths[0]
		if !b.Cell || len(x.Bandwidths) != 1 || math.Abs(*b.IPW-truth[i]) > 4**b.SE || math.Abs(b.WeightMean-1) > .02 {
			t.Errorf("%s: %v ± %v, want %v (weights %v)", x.Name, *b.IPW, *b.SE, truth[i], b.WeightMean)
		}
	}
	held := 0
	for seed := range uint64(200) {
		right := log(seed+10, 300)
		for i, v := range truth {
			if s := right.Targets[i].Bandwidths[0].Sequence; s[0] <= v && v <= s[1] {
				held++
			}
		}
	}
	if held < 570 {
		t.Errorf("the sequence covers in %d of 600", held)
	}
	if _, err := try(10, 3000, .5); err == nil || !strings.Contains(err.Error(), "contradict") {
		t.Errorf("half the mass: %v", err)
	}
	at := 0
	for _, c := range []struct {
		k    Knob
		want string
	}{
		{Knob{Action: .6, Density: 1, Reward: 1, Aims: aims, Cell: Pair{0, .5}, Mass: .5}, "expected a number in its cell [0, 0.5)"},
		{Knob{Action: .6, Density: 1, Reward: 1, Aims: aims}, "the cell is missing"},
		{Knob{Action: .6, Reward: 1, Aims: aims, Cell: Pair{.5, 1}, Mass: 1.5}, "the probability of the cell is 1.5"},
	} {
		at = 0
		_, err := EvaluateKnobs(func(k *Knob) error {
			if at++; at > 1 {
				return io.EOF
			}
			*k = c.k
			return nil
		}, KnobOptions{Names: names, Cells: true})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
