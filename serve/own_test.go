package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/logged"
	"troupe/ope"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/joined"
	"troupe/serve/train"
	"troupe/spec"
)

// ownOptions are those of a kind that package policy does not have, as `troupe new policy` writes one.
type ownOptions struct {
	C float64 `key:"c" doc:"the probability of a uniform arm in round t is c/t"`
}

func (*ownOptions) Doc() string { return "greedy, with a share c/t of uniform arms" }

func (o *ownOptions) New(p policy.Problem) (bandit.Policy, error) {
	g, err := policy.NewGreedy(policy.GreedyOptions{}, p)
	return &ownPolicy{g, o.C}, err
}

type ownPolicy struct {
	*policy.Greedy
	c float64
}

func (p *ownPolicy) explores() float64 { return min(1, p.c/float64(p.Ridge().Len()+1)) }

func (p *ownPolicy) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if draw.Float64(0) < p.explores() {
		arms := set.(bandit.Finite)
		i := draw.Intn(1, arms.Len())
		dst.Set(arms.At(i), i)
		return nil
	}
	return p.Greedy.Select(dst, set, draw)
}

func (p *ownPolicy) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	if err := p.Greedy.Prob(dst, set, draw); err != nil {
		return err
	}
	e := p.explores()
	dst.Total = 0
	for i := range dst.Atoms {
		a := &dst.Atoms[i]
		a.Count, a.P = 0, (1-e)*a.P+e/float64(len(dst.Atoms))
	}
	return nil
}

func (p *ownPolicy) Score(a bandit.Action) (sum float64) {
	for i, x := range a.X {
		sum += float64(x * p.Ridge().Theta()[i])
	}
	return sum
}

func init() {
	if err := policy.Register("own", func() policy.Options { return &ownOptions{C: 5} }); err != nil {
		panic(err)
	}
}

// TestOwnKind: a kind that this program alone has is served, shares the probability of equal scores, survives a restart,
// is replayed, learns from the log what the server learned, bit for bit, and is evaluated.
func TestOwnKind(t *testing.T) {
	ctx, clock := t.Context(), &fakeClock{}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := open(t, log, clock)
	var c ModelConfig
	if err := json.Unmarshal([]byte(`{"id":"m","dim":3,"floor":0.1,"policy":{"kind":"own","c":2.0},"reward":{"min":-1,"max":1,"default":"none","window":"1s"}}`), &c); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, c, ""))
	var ids []string
	for n := range 30 {
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 3, 3), Explain: true}))
		if len(d.Explain) != 3 || d.Explain[0].Score == nil {
			t.Fatalf("decision %d: %+v", n, d)
		}
		ids = append(ids, d.EventID)
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5 - 0.25*float64(d.Action.Index)}))
	}
	twins := slices.Repeat(actions(1, 1, 3), 2)
	twins[1].ID = "twin"
	d := must(s.Decide(ctx, "m", DecideRequest{Actions: twins, Explain: true}))
	if p := d.Propensity; d.Explain[0].Alike != 2 || p.Num*2 != p.Den {
		t.Errorf("two equal candidates: %+v", d)
	}
	clock.forward(2e9)
	must(s.Expire(ctx))
	state := s.fold.Named("m")
	before, learned := must(state.State()).Digest(), state.Counts.Learned
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}

	s = open(t, log, clock)
	m := s.fold.Named("m")
	if got := must(m.State()).Digest(); got != before || learned != 30 || m.Counts.Learned != 30 {
		t.Fatalf("after a restart the digest is %v, it was %v; %d and %d events", got, before, m.Counts.Learned, learned)
	}
	for _, id := range ids {
		if r := must(s.Replay(ctx, id)); !r.Equal {
			t.Fatalf("replay of %s: %+v", id, r)
		}
	}
	trainer := must(train.New(m.Compiled, m.Seed, train.Options{}))
	var target *ope.PolicyTarget
	var weights []float64
	j := joined.New(joined.Options{Model: "m", Features: true})
	see := func(x *joined.Decided) error {
		if x.State != joined.Paid {
			return nil
		}
		if err := trainer.Add(train.Event{X: x.Record.X, Reward: x.Reward, Given: true, Draw: m.Targets(x.Key)}); err != nil {
			return err
		}
		e, err := joined.Event(x)
		if err != nil {
			return err
		}
		w, err := weightOf(&target, e)
		weights = append(weights, w)
		return err
	}
	err := s.past.Log.Replay(s.past.Chain(1), s.fold.Seq(), func(d eventlog.Delivery) error { return j.Apply(d, see) })
	if err != nil {
		t.Fatal(err)
	}
	saved := must(trainer.Finish(fold.Memory{}))
	if got := fold.Digest(saved.Policy); saved.Learned != 30 || got != before {
		t.Errorf("trained on %d events the digest is %v, the server has %v", saved.Learned, got, before)
	}
	if len(weights) != 30 || !slices.ContainsFunc(weights, func(w float64) bool { return w > 0 && w != 1 }) {
		t.Errorf("%d weights: %v", len(weights), weights)
	}

	var unknown ModelConfig
	err = json.Unmarshal([]byte(`{"id":"n","dim":3,"policy":{"kind":"owm"}}`), &unknown)
	if want := `unknown kind "owm"; did you mean "own"?`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected %s", err, want)
	}
	if err := policy.Register("own", nil); err == nil {
		t.Error("a name is registered twice")
	}
}

// weightOf returns the importance weight of an event for a target of the own kind, which learns the log.
func weightOf(target **ope.PolicyTarget, e *logged.Event) (float64, error) {
	if *target == nil {
		x, err := ope.DecodeTarget(spec.Raw{"kind": "own", "c": 1.0}, "own")
		if err != nil {
			return 0, err
		}
		*target = ope.NewPolicyTarget("own", x.Policy, "log", nil, 1)
	}
	law := make([]float64, e.K)
	if err := (*target).Law(law, e, nil); err != nil {
		return 0, err
	}
	var sum float64
	for _, p := range law {
		sum += p
	}
	if math.Abs(sum-1) > 1e-12 {
		return 0, fmt.Errorf("a law of sum %v", sum)
	}
	return law[e.Chosen] / e.Propensity, (*target).Learn(e)
}
