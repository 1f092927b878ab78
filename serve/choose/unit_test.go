package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

// united returns a worker of a model with a unit, after some events, and what it chooses from.
func united(t *testing.T, kind, key string, edit func(*model.Config)) *Worker {
	t.Helper()
	c := model.Default("m")
	c.Unit = "context.id"
	raw := spec.Raw{"kind": kind}
	if kind != "effects" {
		c.Dim = 3
	}
	if key != "" {
		raw["key"] = key
	}
	must(0, c.Policy.DecodeSpec(raw, "policy"))
	if edit != nil {
		edit(&c)
	}
	cfg := must(c.Admit(model.DefaultLimits))
	seed := rng.NewKey(11)
	p := must(cfg.NewPolicy(seed))
	v := &Version{ID: 3, Compiled: cfg, Seed: seed}
	r := rand.New(rand.NewPCG(1, 2))
	if kind != "effects" {
		for n := range 12 {
			x := []float64{r.Float64() / 2, r.Float64() / 2, r.Float64() / 2}
			must(0, p.Update(bandit.Action{X: x}, x[0]-x[1], draw(seed, 1, eventlog.ID(n))))
			v.Learned++
		}
	}
	v.State = fold.NewState(must(p.AppendSnapshot(nil)))
	w := must(v.Worker(nil))
	var q Request
	for i := range 4 {
		a := Action{ID: fmt.Sprint(i)}
		if kind != "effects" {
			a.Features = fmt.Appendf(nil, "[%v, %v, %v]", .5*math.Cos(float64(i)), .5*math.Sin(float64(i)), .1)
		}
		q.Actions = append(q.Actions, a)
	}
	must(0, w.Offer.Encode(&q))
	return w
}

// TestUnitKeeps: two decisions of a unit in a span are one draw of the policy, for every kind of key, with candidates
// that are alike and with a clipped law; another unit, and another span, are another draw.
func TestUnitKeeps(t *testing.T) {
	capped := func(c *model.Config) { c.Caps = model.Shares{"0": .2}; c.Floors = model.Shares{"1": .3} }
	sure := func(c *model.Config) { c.Floor = 0 }
	for name, w := range map[string]*Worker{
		"effects": united(t, "effects", "", sure), "effects with caps": united(t, "effects", "", capped),
		"decision": united(t, "atoms", "decision", sure), "epoch": united(t, "atoms", "epoch", sure), "fixed": united(t, "atoms", "fixed", sure),
		"auto": united(t, "auto", "", sure), "ensemble": united(t, "ensemble", "", sure),
	} {
		units, spans := map[string]bool{}, map[string]bool{}
		for unit := range eventlog.ID(60) {
			w.Assign(unit + 1)
			_, span := w.Assigned()
			first := must(w.Choose(1, true))
			for nonce := range eventlog.ID(5) {
				if c := must(w.Choose(nonce+2, true)); c != first {
					t.Fatalf("%s: unit %d: %+v, first %+v", name, unit, c, first)
				}
			}
			units[fmt.Sprintf("%+v", first)] = true
			w.Reassign(1, span+uint64(unit))
			spans[fmt.Sprintf("%+v", must(w.Choose(1, true)))] = true
		}
		if len(units) < 4 || len(spans) < 4 {
			t.Errorf("%s: 60 units have %d draws, 60 spans %d: this shows too little", name, len(units), len(spans))
		}
	}
}

// TestUnitFloor: the coin of the floor is the decision's own, so a unit meets every action with at least its share.
func TestUnitFloor(t *testing.T) {
	w := united(t, "atoms", "fixed", func(c *model.Config) { c.Floor = .4 })
	w.Assign(5)
	n, counts := 20_000, make([]float64, 4)
	for nonce := range eventlog.ID(n) {
		counts[must(w.Choose(nonce+1, true)).Index]++
	}
	most := 0.
	for i, x := range counts {
		if x < .1*float64(n)-5*math.Sqrt(.09*float64(n)) {
			t.Errorf("action %d was played %v times of %d, the floor alone is %v", i, x, n, .1*float64(n))
		}
		most = max(most, x)
	}
	if math.Abs(most/float64(n)-.7) > 5*math.Sqrt(.21/float64(n)) { // its member's choice, and the floor
		t.Errorf("the action of its member was played %v times of %d, want .7", most, n)
	}
}

// TestUnitCounted: over 50,000 units, with TROUPE_LONG 200,000, the actions have the probabilities that the records state,
// by each key: |z| ≤ 5 for 4 actions of 6 models.
func TestUnitCounted(t *testing.T) {
	for name, w := range map[string]*Worker{
		"decision": united(t, "atoms", "decision", nil), "epoch": united(t, "atoms", "epoch", nil), "fixed": united(t, "atoms", "fixed", nil),
		"ensemble": united(t, "ensemble", "", nil), "auto": united(t, "auto", "", nil),
		"caps": united(t, "effects", "", func(c *model.Config) { c.Caps = model.Shares{"0": .2}; c.Floors = model.Shares{"1": .3} }),
	} {
		n := 50_000
		switch {
		case testing.Short():
			n = 20_000
		case os.Getenv("TROUPE_LONG") != "":
			n = 200_000
		}
		diff, variance := make([]float64, 4), make([]float64, 4)
		for unit := range eventlog.ID(n) {
			w.Assign((unit + 1) * 0x9e3779b97f4a7c15)
			c := must(w.Choose(unit+7, true))
			diff[c.Index]++
			for i := range diff {
				num, den := w.Propensity(i)
				p := float64(num) / float64(den)
				diff[i] -= p
				variance[i] += p * (1 - p)
			}
		}
		for i, d := range diff {
			if z := d / math.Sqrt(variance[i]); !(math.Abs(z) <= 5) && variance[i] > 0 {
				t.Errorf("%s: action %d: z = %v", name, i, z)
			}
		}
	}
}

// TestUnitSpan: the span is ⌊log₂(1 + n)⌋ after n events, and the epoch of a policy that has epochs.
func TestUnitSpan(t *testing.T) {
	w := united(t, "atoms", "decision", nil)
	for learned, want := range map[uint64]uint64{0: 0, 1: 1, 2: 1, 3: 2, 6: 2, 7: 3, 1023: 10, 1024: 10, 1<<40 - 2: 39} {
		w.Version.Learned = learned
		if w.Assign(9); w.unit.span != want {
			t.Errorf("after %d events the span is %d, want %d", learned, w.unit.span, want)
		}
	}
	if w.Assign(0); w.unit.span != 0 || w.unit.unit != 0 {
		t.Errorf("without a unit: %d, span %d", w.unit.unit, w.unit.span)
	}
	e := united(t, "atoms", "epoch", nil)
	e.Version.Learned = 1 << 40
	if e.Assign(9); e.unit.span == 0 || e.unit.span > 12 {
		t.Errorf("the span of a policy with epochs is %d", e.unit.span)
	}
	if err := w.Version.Fresh(); err == nil {
		t.Error("decisions of units count as drawn one by one")
	}
}
