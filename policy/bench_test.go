package policy_test

import (
	"errors"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// BenchmarkRound plays rounds of every kind at d = 10, on 50 fixed arms of the sphere and on the
// unit ball: one Select, one Update, a linear reward with Gaussian noise (about 60 ns of the round).
// The state is that of a policy that has played 2000 rounds; linphe with replayed targets costs
// what its history makes it cost and grows, so it is not here.
//
//	go test ./policy -run xxx -bench Round
func BenchmarkRound(b *testing.B) {
	const d, k, warm = 10, 50, 2000
	root := rng.NewKey(1)
	arms := make([][]float64, k)
	for i := range arms {
		arms[i] = make([]float64, d)
		root.Stream(rng.Instance).Round(uint64(i)).Sphere(arms[i], 0)
	}
	fifty, err := actionset.NewFinite(arms)
	if err != nil {
		b.Fatal(err)
	}
	unit, err := actionset.NewBall(d)
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range spec.Names(policy.Kinds) {
		raw := spec.Raw{}
		if kind == "fixed" {
			var x []any
			for _, v := range arms[0] {
				x = append(x, v)
			}
			raw["x"] = x
		}
		for name, set := range map[string]bandit.ActionSet{"K=50": fifty, "ball": unit} {
			mk := func() bandit.Policy {
				return build(b, kind, raw, policy.Problem{Dim: d, Arms: k, Horizon: 10_000, Init: root.Stream(rng.Init)})
			}
			if err := mk().Select(new(bandit.Action), set, rng.Source{}); errors.Is(err, bandit.ErrUnsupported) {
				continue
			}
			b.Run(kind+"/"+name, func(b *testing.B) {
				p := mk()
				var a bandit.Action
				t := uint64(0)
				round := func() error {
					t++
					if err := p.Select(&a, set, root.Stream(rng.Select).Round(t)); err != nil {
						return err
					}
					return p.Update(a, 0.7*a.X[0]-0.7*a.X[1]+root.Stream(rng.Reward).Round(t).Normal(0), root.Stream(rng.Perturb).Round(t))
				}
				for range warm {
					if err := round(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := round(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
