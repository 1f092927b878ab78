package policy_test

import (
	"math"
	"os"
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
)

// sparseBag is a bag of m greedy models with the weights of kind sparse: each learns an event a Poisson(1)
// number of times, and a random one plays (Eckles & Kaptein 2019; VW --bag). It is a rival in
// measurements only.
type sparseBag struct{ models []*policy.Sparse }

func (b *sparseBag) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return b.models[draw.Intn(0, len(b.models))].Select(dst, set, draw.Sub(1))
}

func (b *sparseBag) Update(a bandit.Action, y float64, draw rng.Source) error {
	for j, p := range b.models {
		u, w := draw.Float64(j), math.Exp(-1)
		for k, sum := 1, w; u > sum && k < 20; k++ { // inverts the distribution function
			w /= float64(k)
			sum += w
			if err := p.Update(a, y, rng.Source{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestSparseBars measures the share of errors of one pass over labelled rows as one-hot columns with all
// pairs, ten orders, against greedy play, ε-greedy and a bag on the same weights. TROUPE_RECORD names the
// data set, or 1 for all.
func TestSparseBars(t *testing.T) {
	which := os.Getenv("TROUPE_RECORD")
	if which == "" {
		t.Skip("minutes: set TROUPE_RECORD=1, or =mushroom, =pendigits, =letter")
	}
	for _, c := range []struct {
		data, file, class string
		rounds            int
		most, share       float64 // largest error, and share of that of ε-greedy; 0: none
	}{
		{"mushroom", "mushroom.data", "first", 8124, 0.006, 0}, {"pendigits", "pendigits.arff", "auto", 10992, 0.125, 0},
		{"letter", "letter.arff", "auto", 20000, 0.44, 0.9},
	} {
		if which != "1" && which != c.data {
			continue
		}
		o := env.NewOneHot()
		o.Data, o.Class = "../../shared/data/"+c.file, c.class
		source := &dataset.Source{}
		names := []string{"sparse", "greedy", "ε = 0.05", "bag of 8"}
		errors := make([][]float64, len(names))
		for r := range uint64(10) {
			key := rng.NewKey(1).At(r + 1)
			for k := range names {
				world, err := o.Build(key, source)
				if err != nil {
					t.Skip(err)
				}
				problem := policy.Problem{Dim: world.Dim(), Arms: 26, Horizon: c.rounds, Init: key.Stream(rng.Init)}
				build := func(a float64) *policy.Sparse {
					p, err := policy.NewSparse(policy.SparseOptions{A: a}, problem)
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				var p bandit.Policy
				switch k {
				case 0:
					p = build(1)
				case 1:
					p = build(1e-9)
				case 2:
					if p, err = policy.Mix(build(1e-9), 0.05); err != nil {
						t.Fatal(err)
					}
				case 3:
					b := &sparseBag{}
					for range 8 {
						b.models = append(b.models, build(1e-9))
					}
					p = b
				}
				errors[k] = append(errors[k], onePass(t, world, p, key, c.rounds))
			}
			t.Logf("%s, order %d: %.4f %.4f %.4f %.4f", c.data, r+1, errors[0][r], errors[1][r], errors[2][r], errors[3][r])
		}
		means := make([]float64, len(names))
		for k, name := range names {
			mean, square := 0.0, 0.0
			for _, e := range errors[k] {
				mean += e / 10
			}
			for _, e := range errors[k] {
				square += (e - mean) * (e - mean) / 9
			}
			means[k] = mean
			t.Logf("%s: %s %.4f ± %.4f", c.data, name, mean, math.Sqrt(square/10))
		}
		if means[0] > c.most {
			t.Errorf("%s: error %.4f, expected at most %v", c.data, means[0], c.most)
		}
		if c.share > 0 {
			mean, square := means[0]-c.share*means[2], 0.0
			for r := range 10 {
				d := errors[0][r] - c.share*errors[2][r] - mean
				square += d * d / 9
			}
			se := math.Sqrt(square / 10)
			t.Logf("%s: error less %v of that of ε-greedy %.4f ± %.4f", c.data, c.share, mean, se)
			if mean > 2*se {
				t.Errorf("%s: error %.4f, more than %v of that of ε-greedy, %.4f, by more than chance", c.data, means[0], c.share, means[2])
			}
		}
		if means[0] >= means[3] {
			t.Errorf("%s: error %.4f, that of the bag %.4f", c.data, means[0], means[3])
		}
	}
}

// onePass returns the share of errors.
func onePass(t *testing.T, world bandit.Environment, p bandit.Policy, key rng.Key, rounds int) float64 {
	t.Helper()
	offer, choose, pay, perturb := key.Stream(rng.Offer), key.Stream(rng.Select), key.Stream(rng.Reward), key.Stream(rng.Perturb)
	var a bandit.Action
	wrong := 0.0
	for i := range uint64(rounds) {
		set, err := world.Offer(offer.Round(i + 1))
		if err == nil {
			err = p.Select(&a, set, choose.Round(i+1))
		}
		var y float64
		if err == nil {
			y, err = world.Reward(a, pay.Round(i+1))
		}
		if err == nil {
			err = p.Update(a, y, perturb.Round(i+1))
		}
		if err != nil {
			t.Fatal(err)
		}
		wrong += 1 - y
	}
	return wrong / float64(rounds)
}
