package verify

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// TestChecks runs the whole list plain and against its plants: every verdict is the expected one,
// and every plant changes it. The plain run is what `troupe verify` prints.
func TestChecks(t *testing.T) {
	plain, err := Run(context.Background(), Checks, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	planted, err := Run(context.Background(), Checks, Options{Seed: 1, Planted: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range plain {
		line := fmt.Sprintf("%-70s %-9s %12.5g %12.5g %8d  %.2f s  %s", r.Name(), r.Verdict, r.Observed, r.Bound, r.Samples, r.Seconds, r.Detail)
		t.Log(line)
		if !r.Expected() {
			t.Errorf("%s: %s, expected %s\n%s", r.Name(), r.Verdict, r.Expect, r.Detail)
		}
		if p := planted[i]; !Caught(r, p) {
			t.Errorf("%s: the plant (%s) was not caught: %s, observed %.5g, bound %.5g, %.2f s\n%s", p.Name(), p.Plant, p.Verdict, p.Observed, p.Bound, p.Seconds, p.Detail)
		}
	}
}

// TestErrorBudget: the false alarm probability of a whole run is below 1e-6 by the union bound.
func TestErrorBudget(t *testing.T) {
	n := 0
	for _, c := range Checks {
		if c.Kind == Probability {
			n++
		}
	}
	if budget := float64(n) * Level; !(budget < 1e-6) {
		t.Errorf("%d probability checks at level %g: %g, want below 1e-6", n, Level, budget)
	}
	t.Logf("%d checks, %d of them probability, family-wise false alarm below %.1e", len(Checks), n, float64(n)*Level)
}

// TestList: every check says what it claims and what its plant is, and names are unique.
func TestList(t *testing.T) {
	var names []string
	for _, c := range Checks {
		if c.Label == "" || c.Statement == "" || c.Plant == "" || c.run == nil {
			t.Errorf("%s: incomplete", c.Name())
		}
		if slices.Contains(names, c.Name()) {
			t.Errorf("%s: twice", c.Name())
		}
		names = append(names, c.Name())
	}
}
