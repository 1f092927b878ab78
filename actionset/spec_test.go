package actionset_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// TestSpecContract: the two spellings that specs written elsewhere rely on.
func TestSpecContract(t *testing.T) {
	var s actionset.Spec
	if err := s.DecodeSpec(spec.Raw{"kind": "ball"}, "set"); err != nil {
		t.Fatal(err)
	}
	set, err := s.Build(10, instance())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := set.(bandit.UnitBall); !ok || set.Dim() != 10 || s.String() != "ball" {
		t.Errorf("ball is %T of dimension %d", set, set.Dim())
	}
	if _, ok := s.EachRound(); ok {
		t.Error("a ball is redrawn in every round")
	}

	for _, redraw := range []bool{false, true} {
		if err := s.DecodeSpec(spec.Raw{"kind": "random-sphere", "arms": int64(50), "redraw": redraw}, "set"); err != nil {
			t.Fatal(err)
		}
		set, err := s.Build(10, instance())
		if err != nil {
			t.Fatal(err)
		}
		f := set.(bandit.Finite)
		if f.Len() != 50 || f.Dim() != 10 || math.Abs(norm(f.At(49))-1) > 1e-15*4 {
			t.Errorf("random-sphere has %d arms in dimension %d, the last of norm %v", f.Len(), f.Dim(), norm(f.At(49)))
		}
		r, ok := s.EachRound()
		if ok != redraw {
			t.Errorf("redraw = %v, EachRound says %v", redraw, ok)
		}
		if !ok {
			continue
		}
		offers := rng.NewKey(1).Stream(rng.Offer)
		one := must(r.Redraw(10, offers.Round(1))).(bandit.Finite)
		again := must(r.Redraw(10, offers.Round(1))).(bandit.Finite)
		two := must(r.Redraw(10, offers.Round(2))).(bandit.Finite)
		if !slices.Equal(one.At(3), again.At(3)) || slices.Equal(one.At(3), two.At(3)) {
			t.Error("Redraw is not a function of the round's source")
		}
	}
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }

// TestSpecRefuses: every refusal names the place and the value.
func TestSpecRefuses(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{"ball", `set: is the string "ball", expected a table such as { kind = "assignments" }`},
		{spec.Raw{}, "set: kind is missing"},
		{spec.Raw{"kind": "bal"}, `set.kind: unknown kind "bal"; did you mean "ball"?`},
		{spec.Raw{"kind": "ball", "arms": int64(3)}, `set.arms: unknown key "arms"`},
		{spec.Raw{"kind": "random-sphere", "arms": int64(0)}, "set: arms is 0, expected at least 1"},
		{spec.Raw{"kind": "random-ball", "arms": int64(-4)}, "set: arms is -4"},
		{spec.Raw{"kind": "random-cube", "u": -1.0}, "set: u is -1"},
		{spec.Raw{"kind": "random-cube", "u": math.NaN()}, "set.u: is NaN, expected a finite number"},
		{spec.Raw{"kind": "ellipsoid"}, "set: d is 0"},
		{spec.Raw{"kind": "ellipsoid", "axes": list(1.0, -1.0)}, "set: axes[1] is -1"},
		{spec.Raw{"kind": "ellipsoid", "axes": list(1.0, 2.0)}, "set: the set has radius 2 and leaves the unit ball; make it smaller or say rescale = true, which multiplies every action by 0.5"},
		{spec.Raw{"kind": "box", "half_width": -1.0}, "set: half_width is -1"},
		{spec.Raw{"kind": "box", "half_width": 0.1, "lo": list(1.0), "hi": list(2.0)}, "exclude each other"},
		{spec.Raw{"kind": "box", "lo": list(1.0)}, "set: hi has length 0 and lo has 1"},
		{spec.Raw{"kind": "box", "lo": list(-1.0, -1.0), "hi": list(1.0, 1.0)}, "radius 1.41421"},
		{spec.Raw{"kind": "finite", "arms": list(list(1.0, 1.0))}, "radius 1.41421"},
		{spec.Raw{"kind": "finite"}, "set: arms is empty"},
		{spec.Raw{"kind": "finite", "arms": list(list(1.0)), "ties": "shared"}, `set: ties is "shared", expected "first" or "share"`},
		{spec.Raw{"kind": "finite", "arms": list(list(1.0)), "ties": ""}, `set.ties: is the string ""; leave the key out for its default, first`},
		{spec.Raw{"kind": "random-sphere", "ties": "share"}, `set.ties: unknown key "ties"`},
		{spec.Raw{"kind": "polytope", "a": list(list(1.0), list(-1.0)), "b": list(2.0, 0.0)}, "radius 2 "},
		{spec.Raw{"kind": "polytope", "a": list(list(1.0)), "b": list(1.0)}, "set: the polytope is unbounded: x[0] has no lower bound"},
		{spec.Raw{"kind": "m-sets", "k": int64(0)}, "set: k is 0"},
		{spec.Raw{"kind": "paths", "edges": list(list(int64(0)))}, "set: edges[0] has length 1, expected [from, to]"},
		{spec.Raw{"kind": "paths", "layers": int64(2), "rescale": false}, "radius 1.73205"},
		{spec.Raw{"kind": "spanning-trees", "nodes": int64(1)}, "set: nodes is 1"},
		{spec.Raw{"kind": "assignments", "n": int64(0)}, "set: n is 0"},
	} {
		var s actionset.Spec
		err := s.DecodeSpec(c.v, "set")
		var e *spec.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v (%T), want something with %q", c.v, err, err, c.want)
		}
		if s.Builder != nil {
			t.Errorf("%v: a failed decode set the receiver", c.v)
		}
	}
}

// TestBuildRefuses: what only the environment's dimension can show.
func TestBuildRefuses(t *testing.T) {
	for _, c := range []struct {
		b    actionset.Builder
		d    int
		want string
	}{
		{&actionset.BallOptions{}, 0, "d is 0"},
		{&actionset.BasisOptions{}, 0, "d is 0"},
		{&actionset.HypercubeOptions{}, 21, "at most 20"},
		{&actionset.RandomSphereOptions{Arms: 5}, 0, "d is 0"},
		{&actionset.RandomSphereOptions{Arms: 1 << 50}, 10, "arms·d at most"},
		{&actionset.RandomCubeOptions{Arms: 5, U: 1 / math.Sqrt(5)}, 10, "radius 1.41421"},
		{&actionset.BoxOptions{HalfWidth: 1}, 4, "radius 2"},
		{&actionset.FiniteOptions{Arms: [][]float64{{1, 0}}}, 3, "d is 3, but the set has dimension 2"},
		{&actionset.EllipsoidOptions{Axes: []float64{1, 1}}, 3, "dimension 2"},
		{&actionset.MSetsOptions{K: 5}, 4, "k is 5, but d is 4"},
		{&actionset.MSetsOptions{K: 2}, 4, "radius 1.41421"},
		{&actionset.PathsOptions{Layers: 2, Width: 2, Rescale: true}, 7, "d is 7, but the set has dimension 8"},
		{&actionset.TreesOptions{Nodes: 4, Rescale: true}, 7, "dimension 6"},
		{&actionset.AssignmentsOptions{N: 3, Rescale: true}, 8, "dimension 9"},
	} {
		if _, err := c.b.Build(c.d, instance()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%T.Build(%d): %v, want something with %q", c.b, c.d, err, c.want)
		}
	}
}

// TestRescaledCubeHasOneFactor: the factor comes from the law, not from the draw.
func TestRescaledCubeHasOneFactor(t *testing.T) {
	o := &actionset.RandomCubeOptions{Arms: 4, U: 1 / math.Sqrt(5), Rescale: true}
	want := 1 / (math.Sqrt(10) / math.Sqrt(5))
	for k := range 20 {
		set := must(o.Redraw(10, rng.NewKey(3).Stream(rng.Offer).Round(uint64(k))))
		if f := actionset.Factor(set); math.Abs(f-want) > 1e-15 {
			t.Fatalf("round %d: factor %v, want %v", k, f, want)
		}
	}
}

// TestSweeps: a list where a number is expected is a sweep, in a set too.
func TestSweeps(t *testing.T) {
	var s actionset.Spec
	choices := s.ExpandSpec(spec.Raw{"kind": "random-sphere", "arms": list(int64(5), int64(50))})
	if len(choices) != 2 || len(choices[1].Swept) != 1 || choices[1].Swept[0].Key != "arms" {
		t.Fatalf("choices %v", choices)
	}
	if err := s.DecodeSpec(choices[1].Value, "set"); err != nil {
		t.Fatal(err)
	}
	if n := must(s.Build(2, instance())).(bandit.Finite).Len(); n != 50 {
		t.Errorf("%d arms", n)
	}
	// A list that is an option's own type is no sweep.
	if c := s.ExpandSpec(spec.Raw{"kind": "ellipsoid", "axes": list(1.0, 0.5)}); len(c) != 1 {
		t.Errorf("axes were taken for a sweep: %v", c)
	}
}

// TestKindsAreDocumented: troupe list has a line for each kind and each option.
func TestKindsAreDocumented(t *testing.T) {
	for kind, make := range actionset.Kinds {
		b := make()
		if b.Doc() == "" {
			t.Errorf("kind %q has no doc", kind)
		}
		for _, o := range spec.Options(b) {
			if o.Doc == "" {
				t.Errorf("option %q of kind %q has no doc", o.Key, kind)
			}
		}
	}
}
