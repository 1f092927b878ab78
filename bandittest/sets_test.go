package bandittest

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"troupe/bandit"
)

// recorder is a TB that keeps what it is told.
type recorder struct{ said []string }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

// arms is a correct bandit.Finite, written for clarity.
type arms [][]float64

func (a arms) Dim() int           { return len(a[0]) }
func (a arms) Len() int           { return len(a) }
func (a arms) At(i int) []float64 { return a[i] }

func (a arms) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	k, err := a.best(theta)
	if err != nil {
		return 0, err
	}
	dst.Set(a[k], k)
	return dot(a[k], theta), nil
}

func (a arms) best(theta []float64) (int, error) {
	if len(theta) != len(a[0]) {
		panic("length")
	}
	for _, v := range theta {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, errors.New("not finite")
		}
	}
	k := 0
	for i := range a {
		if dot(a[i], theta) > dot(a[k], theta) {
			k = i
		}
	}
	return k, nil
}

// hull is the convex hull of arms: the same answers without an index.
type hull struct{ arms arms }

func (h hull) Dim() int { return h.arms.Dim() }

func (h hull) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	v, err := h.arms.ArgMax(dst, theta)
	if err == nil {
		dst.Index = bandit.NoIndex
	}
	return v, err
}

func (h hull) Contains(x []float64, tol float64) bool { return true }

// broken replaces the answer of a set.
type broken struct {
	bandit.ActionSet
	argMax func(dst *bandit.Action, theta []float64) (float64, error)
}

func (b broken) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	return b.argMax(dst, theta)
}

// brokenFinite replaces the answer of a finite set.
type brokenFinite struct {
	arms
	argMax func(dst *bandit.Action, theta []float64) (float64, error)
}

func (b brokenFinite) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	return b.argMax(dst, theta)
}

var sample = arms{{0.6, 0, 0}, {0, 0.8, 0}, {0, 0, 1}, {-0.5, -0.5, -0.5}, {0.6, 0, 0}, {0.1, 0.2, -0.9}}

func sampleOptions() SetOptions {
	return SetOptions{
		Members: sample, Complete: true,
		Rebuild: func(list [][]float64) (bandit.Finite, error) { return arms(list), nil },
	}
}

func TestSuiteAcceptsCorrectSets(t *testing.T) {
	TestActionSet(t, sample, sampleOptions())
	TestActionSet(t, hull{sample}, SetOptions{Members: sample, Complete: true})
	TestActionSet(t, arms{{1}}, SetOptions{})
}

// TestSuiteSeesFaults plants one fault at a time and expects the suite to name it.
func TestSuiteSeesFaults(t *testing.T) {
	type argMax = func(dst *bandit.Action, theta []float64) (float64, error)
	finite := func(f argMax) bandit.ActionSet { return brokenFinite{sample, f} }
	convex := func(f argMax) bandit.ActionSet { return broken{hull{sample}, f} }
	var calls atomic.Int64
	faults := []struct {
		name string
		set  bandit.ActionSet
		edit func(o *SetOptions)
		want string
	}{
		{"a value that is not ⟨x, θ⟩", finite(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := sample.ArgMax(dst, theta)
			return v + 1e-6*norm(theta), err
		}), nil, "but ⟨x, θ⟩ is"},
		{"the minimum", finite(func(dst *bandit.Action, theta []float64) (float64, error) {
			minus := make([]float64, len(theta))
			for i, v := range theta {
				minus[i] = -v
			}
			v, err := sample.ArgMax(dst, minus)
			return -v, err
		}), nil, "but the member"},
		{"an arm that is never found", finite(func(dst *bandit.Action, theta []float64) (float64, error) {
			return sample[:5].ArgMax(dst, theta)
		}), func(o *SetOptions) { o.Members = nil; o.Complete = false }, "but arm 5 gives"},
		{"the last of equal arms", finite(func(dst *bandit.Action, theta []float64) (float64, error) {
			k, err := sample.best(theta)
			if err != nil {
				return 0, err
			}
			if k == 0 {
				k = 4
			}
			dst.Set(sample[k], k)
			return dot(sample[k], theta), nil
		}), nil, "the lowest of equals"},
		{"a wrong index", finite(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := sample.ArgMax(dst, theta)
			if err == nil {
				dst.Index = (dst.Index + 1) % 3
			}
			return v, err
		}), nil, "but At("},
		{"no index for an arm", finite(hull{sample}.ArgMax), nil, "has index -1"},
		{"an index outside the list of arms", convex(sample.ArgMax), nil, "want bandit.NoIndex"},
		{"an answer outside the set", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := hull{sample}.ArgMax(dst, theta)
			return v, err
		}), func(o *SetOptions) { o.Contains = func(x []float64, tol float64) bool { return x[0] < 0.5 } }, "not in the set"},
		{"an answer beyond the set", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := hull{sample}.ArgMax(dst, theta)
			if err == nil {
				for i := range dst.X {
					dst.X[i] *= 1 - 1e-3
				}
			}
			return v * (1 - 1e-3), err
		}), nil, "but the member"},
		{"an answer that is too good", hull{append(arms{{0.9, 0, 0}}, sample...)}, nil, "but the best member gives"},
		{"an arm outside the unit ball", arms{{1, 1e-3}, {0, 0.5}}, func(o *SetOptions) { o.Members, o.Complete = nil, false }, "has norm"},
		{"an answer outside the unit ball", hull{arms{{1, 1e-3}, {0, 0.5}}}, func(o *SetOptions) { o.Members, o.Complete = nil, false }, "of norm"},
		{"an answer that depends on the calls before", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := hull{sample}.ArgMax(dst, theta)
			if err == nil && norm(theta) == 0 && calls.Add(1) > 1 {
				copy(dst.X, sample[1])
			}
			return v, err
		}), nil, "but the first time"},
		{"an answer that depends on what dst held", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			if dst.Index == 77 && len(theta) == 3 && norm(theta) == 0 {
				dst.Set(sample[2], bandit.NoIndex)
				return 0, nil
			}
			return hull{sample}.ArgMax(dst, theta)
		}), nil, "but the first time"},
		{"the set's own storage handed out", aliased(), func(o *SetOptions) { o.Members, o.Complete = nil, false }, "but the first time"},
		{"a constant bonus", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := hull{sample}.ArgMax(dst, theta)
			return v + 1e-12, err
		}), nil, "but ⟨x, θ⟩ is"},
		{"homogeneity lost for small θ", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			if len(theta) == 3 && norm(theta) < 1e-9 && norm(theta) > 1e-100 {
				dst.Set(sample[3], bandit.NoIndex)
				return dot(sample[3], theta), nil
			}
			return hull{sample}.ArgMax(dst, theta)
		}), nil, "want"},
		{"theta written to", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := hull{sample}.ArgMax(dst, theta)
			if err == nil {
				theta[0]++
			}
			return v, err
		}), nil, "changed theta"},
		{"shared scratch", scratch(), nil, "at once"},
		{"dst.X replaced", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			var a bandit.Action
			v, err := hull{sample}.ArgMax(&a, theta)
			if err == nil {
				*dst = a
			}
			return v, err
		}), nil, "moved dst.X"},
		{"allocation", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			garbage = make([]float64, 100)
			return hull{sample}.ArgMax(dst, theta)
		}), nil, "allocated"},
		{"NaN accepted", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			clean := make([]float64, len(theta))
			for i, v := range theta {
				if clean[i] = v; v != v {
					clean[i] = 0
				}
			}
			return hull{sample}.ArgMax(dst, clean)
		}), func(o *SetOptions) { o.Allocates = true }, "accepted theta["},
		{"dst changed by an error", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			v, err := hull{sample}.ArgMax(dst, theta)
			dst.Index = bandit.NoIndex
			return v, err
		}), nil, "but changed dst"},
		{"an error without need", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			if norm(theta) > 1e50 {
				return 0, errors.New("too large for me")
			}
			return hull{sample}.ArgMax(dst, theta)
		}), nil, "too large for me"},
		{"a short theta accepted", convex(func(dst *bandit.Action, theta []float64) (float64, error) {
			for len(theta) < 3 {
				theta = append(theta, 0)
			}
			return hull{sample}.ArgMax(dst, theta)
		}), nil, "want a panic"},
		{"an answer that prefers high arm numbers", sample, func(o *SetOptions) {
			o.Rebuild = func(list [][]float64) (bandit.Finite, error) {
				return brokenFinite{list, func(dst *bandit.Action, theta []float64) (float64, error) {
					k := len(list) - 1
					dst.Set(list[k], k)
					return dot(list[k], theta), nil
				}}, nil
			}
		}, "with permuted arms"},
		{"no arms", brokenFinite{arms: sample, argMax: sample.ArgMax}.empty(), nil, "Len() is 0"},
		{"dimension 0", arms{{}}, nil, "Dim() is 0"},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.name == "allocation" && raceDetector {
				return // not looked at under the race detector
			}
			o := sampleOptions()
			if f.edit != nil {
				f.edit(&o)
			}
			if _, ok := f.set.(bandit.Finite); !ok {
				o.Rebuild = nil
			}
			var r recorder
			TestActionSet(&r, f.set, o)
			if len(r.said) == 0 {
				t.Fatal("the suite saw nothing")
			}
			if !strings.Contains(strings.Join(r.said, "\n"), f.want) {
				t.Errorf("the suite said\n%s\nwant something with %q", strings.Join(r.said, "\n"), f.want)
			}
		})
	}
}

var garbage []float64

// aliased hands out the slices of its arms instead of copies.
func aliased() bandit.ActionSet {
	list := arms{{0.6, 0, 0}, {0, 0.8, 0}, {-0.1, -0.1, -0.1}}
	return brokenFinite{list, func(dst *bandit.Action, theta []float64) (float64, error) {
		k, err := list.best(theta)
		if err != nil {
			return 0, err
		}
		dst.X, dst.Index = list[k], k
		return dot(list[k], theta), nil
	}}
}

// scratch keeps θ in one place for all callers, with atomic accesses so that the race detector
// leaves the finding to the suite.
func scratch() bandit.ActionSet {
	var shared [3]atomic.Uint64
	return broken{hull{sample}, func(dst *bandit.Action, theta []float64) (float64, error) {
		if len(theta) != 3 {
			panic("length")
		}
		for i, v := range theta {
			shared[i].Store(math.Float64bits(v))
		}
		var mine [3]float64
		for range 10 { // let the other goroutines come by
			runtime.Gosched()
		}
		for i := range mine {
			mine[i] = math.Float64frombits(shared[i].Load())
		}
		return hull{sample}.ArgMax(dst, mine[:])
	}}
}

func (b brokenFinite) empty() bandit.ActionSet { return noArms{b} }

type noArms struct{ brokenFinite }

func (noArms) Len() int { return 0 }
