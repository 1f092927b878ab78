package choose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/rng"
	"troupe/serve/candidates"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

// offerOf is an empty offer to a new model, dense of dimension 2 or with hashed features.
func offerOf(dense bool) *Offer {
	c := model.Default("m")
	if dense {
		c.Dim = 2
		must(0, c.Policy.DecodeSpec(spec.Raw{"kind": "ensemble"}, "policy"))
	}
	cfg := must(c.Admit(model.DefaultLimits))
	seed := rng.NewKey(1)
	p := must(cfg.NewPolicy(seed))
	v := &Version{ID: 1, Compiled: cfg, Seed: seed, State: fold.NewState(must(p.AppendSnapshot(nil)))}
	return &must(v.Worker(nil)).Offer
}

// TestOffer: the candidates are the actions that are available and not excluded, in order, each with its own features
// and cost, whatever the request before offered; their recorded form is read back as the same candidates.
func TestOffer(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 1))
	fewer := 0
	for _, dense := range []bool{true, false} {
		o, again := offerOf(dense), offerOf(dense)
		for range 200 {
			var q Request
			var want []int
			k, costly := 1+r.IntN(6), r.IntN(2) == 0
			q.Available = make([]bool, k)
			for i := range k {
				a := Action{ID: fmt.Sprint("a", i), Features: fmt.Appendf(nil, "[%v, 0.25]", float64(i)/16)}
				if !dense {
					a.Features = fmt.Appendf(nil, `{"size": %d}`, i)
				}
				if costly {
					a.Cost = new(float64(i) + .5)
				}
				q.Actions = append(q.Actions, a)
				if q.Available[i] = r.IntN(4) > 0; r.IntN(4) == 0 {
					q.Exclude = append(q.Exclude, a.ID)
				} else if q.Available[i] {
					want = append(want, i)
				}
			}
			err := o.Encode(&q)
			if (err != nil) != (len(want) == 0) {
				t.Fatalf("%d candidates of %d: %v", len(want), k, err)
			} else if err != nil {
				continue
			}
			if o.Count() != len(want) || len(o.Costs()) != len(want) && costly || len(o.Costs()) > 0 && !costly {
				t.Fatalf("%d candidates with %d costs, want %d", o.Count(), len(o.Costs()), len(want))
			}
			if len(want) < k {
				fewer++
			}
			set := must(candidates.Parse(o.AppendCandidates(nil, true)))
			must(0, again.Recorded(&set))
			for c, i := range want {
				if o.Place(c) != i || o.Candidate(i) != c || o.IDs[i] != q.Actions[i].ID || must(set.Place(c)) != i {
					t.Fatalf("candidate %d stands at %d, want %d", c, o.Place(c), i)
				}
				if costly && o.Costs()[c] != *q.Actions[i].Cost {
					t.Fatalf("candidate %d has the cost %v, want %v", c, o.Costs()[c], *q.Actions[i].Cost)
				}
				x, atoms := o.Features(c)
				y, same := again.Features(c)
				if !slices.Equal(x, y) || !slices.Equal(atoms, same) || dense && x[0] != float64(i)/16 {
					t.Fatalf("candidate %d has the features %v, read back %v", c, x, y)
				}
			}
			for i := range k {
				if !slices.Contains(want, i) && o.Candidate(i) >= 0 {
					t.Fatalf("action %d is candidate %d, and was not offered", i, o.Candidate(i))
				}
			}
		}
	}
	if fewer < 100 {
		t.Errorf("%d requests offered fewer actions than they named: this shows too little", fewer)
	}
}
