package policy_test

import (
	"errors"
	"math"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

func sparseAction(x float64, at ...uint32) bandit.Action {
	v := make([]float64, len(at))
	for i := range v {
		v[i] = x
	}
	return bandit.Action{X: v, At: at}
}

// TestSparseGolden compares the state after three events with the values of the prototype.
func TestSparseGolden(t *testing.T) {
	p, err := policy.NewSparse(policy.SparseOptions{}, policy.Problem{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		at []uint32
		y  float64
	}{{[]uint32{0, 1, 2, 3}, 1}, {[]uint32{0, 1, 4, 5}, 0}, {[]uint32{0, 1, 2, 3}, 1}} {
		if err := p.Update(sparseAction(0.5, e.at...), e.y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range [][3]float64{
		{0.0809794747325, 4, 1.81700063077}, {0.0809794747325, 4, 1.81700063077}, {0.083499409303, 3, 1.8145006308},
		{0.083499409303, 3, 1.8145006308}, {-0.0499999000003, 2, 0.002500009975}, {-0.0499999000003, 2, 0.002500009975}, {0, 1, 1e-8},
	} {
		w, a, g := p.Coordinate(uint32(i))
		for k, got := range []float64{w, a, g} {
			if math.Abs(got-want[k]) > 1e-11*max(1, math.Abs(want[k])) { // the last digit that the prototype printed
				t.Errorf("coordinate %d: number %d is %.13g, expected %v", i, k, got, want[k])
			}
		}
	}
}

// TestDenseRefusesSparse: policies for dense vectors name d² and the kinds that take sparse sets.
func TestDenseRefusesSparse(t *testing.T) {
	set, err := actionset.SparseOf(1<<18, []int{0, 1, 2}, []uint32{3, 9}, []float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []policy.Options{&policy.AtomsOptions{}, &policy.EnsembleOptions{}, &policy.GreedyOptions{}, &policy.ThompsonOptions{}, &policy.UniformOptions{}} {
		p, err := o.New(policy.Problem{Dim: 2})
		if err != nil {
			t.Fatal(err)
		}
		var a bandit.Action
		if err := p.Select(&a, set, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) {
			t.Errorf("%T: Select on a sparse set: %v, expected ErrUnsupported", o, err)
		}
		if err := p.Update(sparseAction(0.5, 1, 2), 1, rng.Source{}); err == nil {
			if _, uniform := o.(*policy.UniformOptions); !uniform {
				t.Errorf("%T: Update with a sparse action succeeded", o)
			}
		}
	}
}
