package sim

import (
	"errors"

	"troupe/bandit"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// The tests of this package need worlds and policies that are small enough to know by heart: arms
// with means drawn from the instance stream, a policy that plays at random, one that breaks.

var fakes = Catalogue{
	Environments: spec.Registry[env.Options]{
		"arms": func() env.Options { return &armsWorld{K: 3, Noise: 1} },
	},
	Policies: spec.Registry[policy.Options]{
		"random": func() policy.Options { return &randomPolicy{Weight: 1} },
		"break":  func() policy.Options { return &breakingPolicy{} },
		"stingy": func() policy.Options { return &stingyPolicy{} },
	},
}

type armsWorld struct {
	K     int     `key:"k" doc:"arms"`
	Noise float64 `key:"noise" doc:"half width of the noise"`
	Set   fakeSet `key:"set" doc:"a nested table"`
}

func (*armsWorld) Doc() string { return "arms with random means" }

func (w *armsWorld) Build(key rng.Key, _ env.DataSource) (bandit.Environment, error) {
	if w.K < 1 {
		return nil, spec.Errorf("k", "is %d, expected at least 1", w.K)
	}
	env := &arms{noise: w.Noise}
	draw := key.Stream(rng.Instance).Round(0)
	for i := range w.K {
		env.mean = append(env.mean, draw.Float64(i))
	}
	for _, m := range env.mean {
		env.best = max(env.best, m)
	}
	env.set = standardBasis(w.K)
	return env, nil
}

type fakeSet struct {
	Kind  string
	Value float64
}

var setKinds = spec.Registry[*fakeSetOptions]{"ball": func() *fakeSetOptions { return &fakeSetOptions{Value: 1} }}

type fakeSetOptions struct {
	Value float64 `key:"value" doc:"radius"`
}

func (s *fakeSet) DecodeSpec(v any, path string) error {
	o, err := spec.DecodeTable(setKinds, v, path)
	if err == nil {
		s.Value = o.Value
	}
	return err
}
func (s *fakeSet) ExpandSpec(v any) []spec.Choice { return spec.ExpandTable(setKinds, v) }

type arms struct {
	mean  []float64
	best  float64
	noise float64
	set   bandit.ActionSet
}

func (e *arms) Dim() int                                   { return len(e.mean) }
func (e *arms) Offer(rng.Source) (bandit.ActionSet, error) { return e.set, nil }
func (e *arms) Regret(a bandit.Action) (float64, error)    { return e.best - e.mean[a.Index], nil }
func (e *arms) Notes() []string                            { return nil }
func (e *arms) Reward(a bandit.Action, d rng.Source) (float64, error) {
	return e.mean[a.Index] + e.noise*d.Uniform(0), nil
}

// basis is the finite set e_1, …, e_k.
type basis [][]float64

func standardBasis(k int) bandit.ActionSet {
	b := make(basis, k)
	for i := range b {
		b[i] = make([]float64, k)
		b[i][i] = 1
	}
	return b
}

func (b basis) Dim() int           { return len(b) }
func (b basis) Len() int           { return len(b) }
func (b basis) At(i int) []float64 { return b[i] }
func (b basis) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	at := 0
	for i, v := range theta {
		if v > theta[at] {
			at = i
		}
	}
	dst.Set(b[at], at)
	return theta[at], nil
}

// randomPolicy plays arm ⌊weight·u·k⌋ mod k and remembers what it was told.
type randomPolicy struct {
	M      int      `key:"m" doc:"only a number to sweep"`
	Weight float64  `key:"weight" doc:"changes the choices"`
	Law    string   `key:"law" doc:"only a string to sweep"`
	List   []int    `key:"list" doc:"a list"`
	Scale  fakeSet2 `key:"scale" doc:"a nested table"`
}

type fakeSet2 = fakeSet

func (*randomPolicy) Doc() string { return "plays at random" }
func (o *randomPolicy) New(p policy.Problem) (bandit.Policy, error) {
	if o.M < 0 {
		return nil, spec.Refuse("m", o.M, "expected at least 0")
	}
	return &randomPlayer{weight: o.Weight, warn: o.M == 13}, nil
}

type randomPlayer struct {
	weight float64
	warn   bool
}

func (p *randomPlayer) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	f := set.(bandit.Finite)
	i := int(draw.Float64(0)*p.weight*float64(f.Len())) % f.Len()
	dst.Set(f.At(i), i)
	return nil
}
func (p *randomPlayer) Update(bandit.Action, float64, rng.Source) error { return nil }
func (p *randomPlayer) Warnings(bandit.ActionSet) []string {
	if p.warn {
		return []string{"m = 13 brings bad luck"}
	}
	return nil
}

// breakingPolicy fails its update in a round.
type breakingPolicy struct {
	Round int `key:"round" doc:"the round that fails"`
}

var errBroken = errors.New("a spring is broken")

func (*breakingPolicy) Doc() string { return "breaks" }
func (o *breakingPolicy) New(policy.Problem) (bandit.Policy, error) {
	return &breaking{round: o.Round}, nil
}

type breaking struct {
	randomPlayer
	round int
}

func (p *breaking) Update(_ bandit.Action, _ float64, draw rng.Source) error {
	if int(draw.At()) == p.round {
		return errBroken
	}
	return nil
}

// stingyPolicy refuses every set.
type stingyPolicy struct{}

func (*stingyPolicy) Doc() string                               { return "refuses" }
func (*stingyPolicy) New(policy.Problem) (bandit.Policy, error) { return &stingy{}, nil }

type stingy struct{ randomPlayer }

func (*stingy) Select(*bandit.Action, bandit.ActionSet, rng.Source) error {
	return bandit.ErrUnsupported
}
