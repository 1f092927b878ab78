package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/budget"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// BudgetedOptions configures a policy that keeps a budget.
type BudgetedOptions struct {
	Base   Base    `key:"base" doc:"the policy that chooses, a table of its own; one that heeds prices"`
	Budget float64 `key:"budget" doc:"mean cost of a decision; 0: that of the environment" default:"0"`
	Rule   string  `key:"rule" doc:"of the price: dual (exact expected cost, balance, hard stop), or pareto (in the manner of ParetoBandit)" default:"dual"`
	Costs  string  `key:"costs" doc:"where costs are not stated before the choice: model (learned from the context) or mean (of each action)" default:"model"`
}

// Doc implements spec.Documented.
func (*BudgetedOptions) Doc() string {
	return "a policy under a price on what actions cost, so that a budget is kept"
}

// New implements Options.
func (o *BudgetedOptions) New(p Problem) (bandit.Policy, error) { return NewBudgeted(*o, p) }

// Budgeted plays what its base prefers when each action has its price λ·c(a) taken off, c its cost in money: on sets
// that are bandit.Costed. On other sets it is its base.
//
// With rule = "dual" λ and the hard stop are those of package budget; the expected cost E of a decision comes from the
// base's exact law where it has one, otherwise from the action that it would play. With rule = "pareto" (in the manner
// of ParetoBandit's pacer; written from descriptions, not compared with its authors' program)
//
//	λ ← min(5, max(0, λ + 0.05(ĉ/b − 1))),  ĉ ← 0.95ĉ + 0.05c,  price(a) = λ·log(c(a)/c_min)/log(c_max/c_min)
//
// with c_min and c_max the smallest and the largest mean cost of an action; it has no hard stop but that with λ > 0 an
// action whose mean cost is above c_max/(1 + λ) is left out.
//
// A cost that is not stated before the choice is estimated. With costs = "mean" by the mean of the action's costs. With
// costs = "model" that mean times exp(g), where an Effects policy learns g from the same vectors as the logarithm of a
// cost over the geometric mean of the action, cut at ±3, and a factor for each action makes the mean of all estimates
// that of all costs.
//
// Cost of a round: that of the base, its law once more, and one more update.
type Budgeted struct {
	base          bandit.Policy
	limit         budget.Limit // of the options, zero for that of the set
	pareto, model bool

	pacer    budget.Pacer
	price    float64  // λ of the rule pareto
	smoothed float64  // ĉ
	costs    *Effects // nil without model
	paid     []paidArm

	// scratch space
	cost, priced, predicted []float64
	keep                    []int
	law                     bandit.Law
	choice                  budgetedChoice
}

// paidArm is what is known of the costs of an action.
type paidArm struct{ n, sum, logs, predicted float64 }

// budgetedChoice is what Pay needs of the last Select.
type budgetedChoice struct {
	limit     budget.Limit
	expects   float64
	stated    float64 // of the action that was chosen
	predicted float64 // exp(g) of it
	stopped   bool
	costed    bool
}

// NewBudgeted builds the base. The error names the option that is wrong.
func NewBudgeted(o BudgetedOptions, p Problem) (*Budgeted, error) {
	if o.Base.Options == nil {
		o.Base = Base{Options: &EffectsOptions{}, kinds: o.Base.kinds}
	}
	base, err := o.Base.New(p)
	if err != nil {
		return nil, err
	}
	if !bandit.Heeds(base) {
		return nil, spec.Errorf("base.kind", "is a %T, which looks at the vectors alone and would ignore prices; expected "+
			"effects, sparse, auto (link = \"linear\"), atoms, ats, ensemble, lee-oh, lvr, ts, linucb, greedy, epsilon-greedy, "+
			"or mixed of these",
			base)
	}
	fill(&o.Rule, "dual")
	fill(&o.Costs, "model")
	if err := oneOf("rule", o.Rule, "dual", "pareto"); err != nil {
		return nil, err
	}
	if err := oneOf("costs", o.Costs, "model", "mean"); err != nil {
		return nil, err
	}
	b := &Budgeted{base: base, pareto: o.Rule == "pareto", model: o.Costs == "model"}
	if o.Budget != 0 {
		b.limit = budget.Limit{Mean: o.Budget}
		var fault *budget.Error
		if errors.As(b.limit.Check(), &fault) {
			return nil, spec.Errorf("budget", "%s", fault.Text)
		}
	}
	if b.model {
		p.Init = p.Init.Sub(0xc057)
		if b.costs, err = NewEffects(EffectsOptions{}, p); err != nil {
			return nil, spec.Under("costs", err)
		}
	}
	return b, nil
}

const (
	costCut      = 3 // of the logarithm of a cost over its action's geometric mean
	costFrom     = 5 // costs of an action, before its model is used
	paretoStep   = .05
	paretoCap    = 5
	paretoSmooth = .05
)

// Base returns the policy that chooses.
func (b *Budgeted) Base() bandit.Policy { return b.base }

// Pacer returns the state of the budget.
func (b *Budgeted) Pacer() budget.Pacer { return b.pacer }

// Warnings implements bandit.Warner.
func (b *Budgeted) Warnings(set bandit.ActionSet) []string { return warnings(b.base, set) }

// open reads the costs of a set and puts the prices on it. all is the whole set with its prices; within has what the
// hard stop leaves of it.
func (b *Budgeted) open(set bandit.ActionSet) (all, within bandit.Priced, err error) {
	costed, ok := set.(bandit.Costed)
	if b.choice = (budgetedChoice{costed: ok}); !ok {
		return nil, nil, nil
	}
	k := lengthOf(set)
	if k == 0 {
		return nil, nil, fmt.Errorf("policy: budgeted: costs need a list of actions, this is %s: %w", described(set),
			bandit.ErrUnsupported)
	}
	limit := b.limit
	if limit == (budget.Limit{}) {
		limit.Mean = costed.Budget()
	}
	if err := limit.Check(); err != nil {
		return nil, nil, fmt.Errorf("policy: budgeted: budget: %w", err)
	}
	b.choice.limit = limit
	for len(b.paid) < k {
		b.paid = append(b.paid, paidArm{})
	}
	b.cost, b.priced, b.predicted = fit(b.cost, k), fit(b.priced, k), fit(b.predicted, k)
	if err := b.estimate(set, costed, k); err != nil {
		return nil, nil, err
	}
	if b.pareto {
		b.paretoPrices(k)
	} else {
		b.dualPrices(k)
	}
	if all, err = Price(set, b.priced, nil); err != nil || len(b.keep) == k {
		return all, all, err
	}
	b.choice.stopped = true
	within, err = Price(set, b.priced, b.keep)
	return all, within, err
}

// estimate fills in the costs.
func (b *Budgeted) estimate(set bandit.ActionSet, costed bandit.Costed, k int) error {
	opened := false
	for i := range k {
		b.predicted[i] = 1
		c := costed.Cost(i)
		if c == c {
			if err := budget.Cost(c); err != nil {
				return fmt.Errorf("policy: budgeted: the cost of action %d %v", i, err)
			}
			b.cost[i] = c
			continue
		}
		p := &b.paid[i]
		if b.cost[i] = 0; p.n > 0 {
			b.cost[i] = p.sum / p.n
		}
		if !b.model {
			continue
		}
		if !opened {
			if err := b.costs.open(set); err != nil {
				return err
			}
			opened = true
		}
		g := min(costCut, max(-costCut, b.costs.model.Estimate(b.costs.context, b.costs.actions[i])))
		b.predicted[i] = logs.Exp(g)
		if p.n > costFrom {
			b.cost[i] *= b.predicted[i] / (p.predicted / p.n)
		}
	}
	return nil
}

// dualPrices are those of package budget. Where no action is within the budget the cheapest is.
func (b *Budgeted) dualPrices(k int) {
	price, left := b.pacer.Price(b.choice.limit), b.pacer.Most(b.choice.limit, 0)
	b.keep = b.keep[:0]
	cheapest := 0
	for i, c := range b.cost[:k] {
		b.priced[i] = float64(price * c)
		if c <= left {
			b.keep = append(b.keep, i)
		}
		if c < b.cost[cheapest] {
			cheapest = i
		}
	}
	if len(b.keep) == 0 {
		b.keep = append(b.keep, cheapest)
	}
}

func (b *Budgeted) paretoPrices(k int) {
	lo, hi := math.Inf(1), 0.0
	mean := func(i int) float64 {
		if p := &b.paid[i]; p.n > 0 {
			return p.sum / p.n
		}
		return b.cost[i]
	}
	for i := range k {
		if c := mean(i); c > 0 {
			lo, hi = min(lo, c), max(hi, c)
		}
	}
	b.keep = b.keep[:0]
	for i := range k {
		c := mean(i)
		if b.priced[i] = 0; hi > lo && c > 0 {
			b.priced[i] = float64(b.price * (logs.Log(c/lo) / logs.Log(hi/lo)))
		}
		if b.price == 0 || c <= hi/(1+b.price) || c <= lo {
			b.keep = append(b.keep, i)
		}
	}
}

// Select implements bandit.Policy: the base chooses with the same source.
func (b *Budgeted) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	all, within, err := b.open(set)
	if err != nil {
		return err
	}
	if all == nil {
		return b.base.Select(dst, set, draw)
	}
	if b.choice.expects, err = b.expected(all, draw, dst); err != nil {
		return err
	}
	if err := b.base.Select(dst, within, draw); err != nil {
		return err
	}
	if within != all {
		dst.Index = b.keep[dst.Index]
	}
	b.choice.stated, b.choice.predicted = b.cost[dst.Index], b.predicted[dst.Index]
	return nil
}

// expected returns E: the mean cost under the base's law at these prices, before the hard stop.
func (b *Budgeted) expected(all bandit.Priced, draw rng.Source, dst *bandit.Action) (float64, error) {
	if p, ok := b.base.(bandit.Prober); ok {
		err := p.Prob(&b.law, all, draw)
		if err == nil {
			var e float64
			for i := range b.law.Atoms {
				e += float64(b.law.Atoms[i].P * b.cost[i])
			}
			return e, nil
		}
		if !errors.Is(err, bandit.ErrUnsupported) {
			return 0, err
		}
	}
	if err := b.base.Select(dst, all, draw); err != nil {
		return 0, err
	}
	return b.cost[dst.Index], nil
}

// Prob implements bandit.Prober where the base does.
func (b *Budgeted) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	p, ok := b.base.(bandit.Prober)
	if !ok {
		return fmt.Errorf("policy: budgeted: the base, a %T, has no exact propensities: %w", b.base, bandit.ErrUnsupported)
	}
	kept := b.choice
	all, within, err := b.open(set)
	b.choice = kept
	switch {
	case err != nil:
		return err
	case all == nil:
		return p.Prob(dst, set, draw)
	case within == all:
		return p.Prob(dst, all, draw)
	}
	if err := p.Prob(&b.law, within, draw); err != nil {
		return err
	}
	zeros(dst, len(b.cost))
	dst.Total = b.law.Total
	for j, i := range b.keep {
		dst.Atoms[i].Count, dst.Atoms[i].P = b.law.Atoms[j].Count, b.law.Atoms[j].P
	}
	return nil
}

// Pay implements bandit.Payer: the action of the last Select cost so much.
func (b *Budgeted) Pay(a bandit.Action, cost float64) error {
	if err := budget.Cost(cost); err != nil {
		return fmt.Errorf("policy: budgeted: the cost of action %d %v", a.Index, err)
	}
	c := &b.choice
	if !c.costed || a.Index < 0 || a.Index >= len(b.paid) {
		return errors.New("policy: budgeted: a cost without a choice on a set with costs before it")
	}
	b.smoothed += float64(paretoSmooth * (cost - b.smoothed))
	b.price = min(paretoCap, max(0, b.price+float64(paretoStep*(b.smoothed/c.limit.Mean-1))))
	b.pacer.Decide(c.limit, 0, c.expects, c.stated, c.stopped)
	b.pacer.Pay(c.stated, cost)
	p := &b.paid[a.Index]
	p.n++
	p.sum += cost
	p.predicted += c.predicted
	if b.costs == nil {
		return nil
	}
	l := logs.Log(max(cost, budget.Least))
	p.logs += l
	return b.costs.Update(a, min(costCut, max(-costCut, l-p.logs/p.n)), rng.Source{})
}

// Update implements bandit.Policy.
func (b *Budgeted) Update(a bandit.Action, y float64, draw rng.Source) error {
	return b.base.Update(a, y, draw)
}

// AppendSnapshot implements bandit.Snapshotter where the base does.
func (b *Budgeted) AppendSnapshot(out []byte) ([]byte, error) {
	s, err := snapshotter("budgeted", b.base)
	if err != nil {
		return out, err
	}
	base, err := s.AppendSnapshot(nil)
	if err != nil {
		return out, err
	}
	var model []byte
	if b.costs != nil {
		if model, err = b.costs.AppendSnapshot(nil); err != nil {
			return out, err
		}
	}
	numbers := b.pacer.Numbers()
	v := append(numbers[:], b.price, b.smoothed)
	for _, p := range b.paid {
		v = append(v, p.n, p.sum, p.logs, p.predicted)
	}
	own := appendSnapshot(nil, "budgeted", [][]float64{v})
	for _, part := range [][]byte{own, model, base} {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out, nil
}

// Restore implements bandit.Snapshotter where the base does.
func (b *Budgeted) Restore(in []byte) error {
	s, err := snapshotter("budgeted", b.base)
	if err != nil {
		return err
	}
	var parts [3][]byte
	for i := range parts {
		n, k := binary.Uvarint(in)
		if k <= 0 || n > uint64(len(in)-k) {
			return errors.New("policy: snapshot holds no state of budgeted")
		}
		parts[i], in = in[k:k+int(n)], in[k+int(n):]
	}
	if len(in) > 0 || (b.costs == nil) != (len(parts[1]) == 0) {
		return errors.New("policy: snapshot holds no state of budgeted")
	}
	const fixed = 13
	v, err := readSnapshot(parts[0], "budgeted", []int{-1})
	if err != nil {
		return err
	}
	n := (len(v[0]) - fixed) / 4
	if n < 0 || len(v[0]) != fixed+4*n {
		return errors.New("policy: snapshot holds no state of budgeted")
	}
	own := v[0]
	var pacer budget.Pacer
	if err := pacer.Set([11]float64(own[:11])); err != nil {
		return err
	}
	fresh := *b
	if b.costs != nil {
		kept, err := b.costs.AppendSnapshot(nil)
		if err != nil {
			return err
		}
		if err := b.costs.Restore(parts[1]); err != nil {
			return err
		}
		if err := s.Restore(parts[2]); err != nil {
			return errors.Join(err, fresh.costs.Restore(kept))
		}
	} else if err := s.Restore(parts[2]); err != nil {
		return err
	}
	b.pacer, b.price, b.smoothed, b.choice = pacer, own[11], own[12], budgetedChoice{}
	b.paid = make([]paidArm, n)
	for i := range b.paid {
		p := own[fixed+4*i:]
		b.paid[i] = paidArm{p[0], p[1], p[2], p[3]}
	}
	return nil
}

var (
	_ bandit.Payer       = (*Budgeted)(nil)
	_ bandit.Prober      = (*Budgeted)(nil)
	_ bandit.Snapshotter = (*Budgeted)(nil)
)
