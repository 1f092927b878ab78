package serve

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"troupe/internal/stats"
	"troupe/spec"
	"troupe/timing"
)

// TestRedraw: decisions drawn anew follow the law without their members. For two candidates and atoms with a key for each decision that
// law is known: ⟨x₀ − x₁, θ⟩ is normal, with the mean and the variance of the regression on the rewards so far (exact binomial
// test at level 10⁻⁵ for each state; seed 1). The same seed gives the same draws; a policy that keeps its members is refused.
func TestRedraw(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	now := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	s, err := Open(ctx, Options{Dir: t.TempDir(), ExpireEvery: -1, Clock: timing.At(func() time.Time { return now })})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	make := func(name string, raw spec.Raw) {
		t.Helper()
		c := DefaultConfig(name)
		c.Dim, c.Floor, c.Sigma, c.Reward.Adapt = 2, 0.1, 0.5, false
		if err := c.Policy.DecodeSpec(raw, "policy"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateModel(ctx, c, ""); err != nil {
			t.Fatal(err)
		}
	}
	make("news", spec.Raw{"kind": "atoms", "m": int64(4)})
	request := DecideRequest{Actions: []Action{{Features: []byte("[1, 0]")}, {Features: []byte("[0, 1]")}}}
	// The regression: V = diag(1 + n_k), b_k the sum of rewards of action k.
	var n, b [2]float64
	var want []float64 // P(candidate 0) of each decision
	for i := range 25 {
		p := distuv.UnitNormal.CDF((b[0]/(1+n[0]) - b[1]/(1+n[1])) / (0.5 * math.Sqrt(1/(1+n[0])+1/(1+n[1]))))
		want = append(want, 0.9*p+0.05)
		d, err := s.Decide(ctx, "news", request)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			continue // several decisions on one state
		}
		y := 0.25 + 0.5*float64(d.Action.Index)
		if _, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}); err != nil {
			t.Fatal(err)
		}
		n[d.Action.Index]++
		b[d.Action.Index] += y
	}
	if math.Abs(want[24]-want[0]) < 0.05 {
		t.Fatalf("the states do not differ: %v", want)
	}
	o := RedrawOptions{First: 3000, Further: 5, Seed: 1}
	var first []Redrawn
	at, listed := 0, [2]int{}
	err = s.Redraw(ctx, "news", o, func(r *Redrawn) error {
		if at == 0 {
			c := *r
			c.Counts = append([]uint32(nil), r.Counts...)
			first = append(first, c)
		}
		k := int(r.Counts[0])
		if lo, hi := stats.BinomialCDF(k, o.First, want[at]), 1-stats.BinomialCDF(k-1, o.First, want[at]); min(lo, hi) < 1e-5 {
			t.Errorf("decision %d: %d of %d draws took candidate 0, probability %.4f", at, k, o.First, want[at])
		}
		if len(r.Further) != o.Further || r.Counts[0]+r.Counts[1] != uint32(o.First) {
			t.Errorf("decision %d: %+v", at, r)
		}
		for _, a := range r.Further {
			listed[a]++
		}
		at++
		return nil
	})
	if err != nil || at != len(want) || listed[0] == 0 || listed[1] == 0 {
		t.Fatalf("%d of %d decisions, further %v: %v", at, len(want), listed, err)
	}
	at = 0
	if err := s.Redraw(ctx, "news", o, func(r *Redrawn) error {
		if at++; at == 1 && (r.Key != first[0].Key || r.Counts[0] != first[0].Counts[0]) {
			t.Errorf("another draw from one seed: %+v, %+v", *r, first[0])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	at = 0
	if err := s.Redraw(ctx, "news", RedrawOptions{First: 1, Seed: 1, From: first[0].Seq}, func(*Redrawn) error { at++; return nil }); err != nil || at != len(want)-1 {
		t.Errorf("after the first entry: %d decisions, %v", at, err)
	}
	// A log that was trimmed: decisions on states before the base are left out, the others are drawn as before.
	s.past.Base.Store(first[0].Seq + 6)
	at = 0
	if err := s.Redraw(ctx, "news", RedrawOptions{First: 1, Seed: 1}, func(r *Redrawn) error {
		if at++; r.Seq <= first[0].Seq+6 {
			t.Errorf("entry %d was decided on a state before the base", r.Seq)
		}
		return nil
	}); err != nil || at == 0 || at > len(want)-4 {
		t.Errorf("of a trimmed log: %d decisions, %v", at, err)
	}
	s.past.Base.Store(0)
	for name, raw := range map[string]spec.Raw{"kept": {"kind": "ensemble", "m": int64(4)}, "epochs": {"kind": "atoms", "key": "epoch"}, "anew": {"kind": "auto"}} {
		make(name, raw)
		if _, err := s.Decide(ctx, name, request); err != nil {
			t.Fatal(err)
		}
		var shared *NotFreshError
		if err := s.Redraw(ctx, name, o, func(*Redrawn) error { return nil }); (name == "anew") != (err == nil) || err != nil && !errors.As(err, &shared) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
