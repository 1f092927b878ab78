package sim

import (
	"fmt"
	"math"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// A spec may ask for more than regret and reward: record = ["actions", "spectrum"]. What is asked
// for is written to diagnostics.csv at every checkpoint, for the policies and environments that
// have it. A quantity of the policy's state at checkpoint t is that of the state the action of
// round t was chosen from, after t − 1 updates. Nothing is drawn for it and nothing is changed, so
// results.csv is the same with and without; what is not asked for costs nothing.

// ranks is how many of the best arms have a column of their own.
const ranks = 5

// Builtin is what record can name without a recorder of the catalogue, in the order of the columns of
// diagnostics.csv.
var Builtin = []Quantity{
	{"actions", []string{"action_1", "action_2", "action_3", "action_4", "action_5"},
		"share of the rounds so far in which the best, second best, … arm of the round was played",
		"environments with finite action sets"},
	{"spectrum", []string{"s_min", "s_max"},
		"smallest and largest singular value of Γ/√m, Γ = V^{-1/2}(S^1 … S^m)",
		"policies with members: ensemble, atoms, lazy"},
	{"optimism", []string{"optimistic"},
		"share of the models θ with max⟨x, θ⟩ ≥ max⟨x, θ*⟩ over the round's set",
		"policies with members in environments with a θ*"},
	{"coverage", []string{"distance", "distance_max"},
		"‖θ* − θ̂‖_V/β: at most 1 while θ* is in the confidence ellipsoid; now, and the largest so far",
		"policies with a ridge regression in environments with a θ*"},
	{"solved", solvedColumns,
		"bad episodes and treasures so far, and the return of the last episode. The episode in which DeepSea was solved by " +
			"bsuite's rule (0: not yet), and the same among the episodes that bsuite logs",
		"agents in deep-sea and deep-sea-stochastic, where it is recorded unless the spec names something else"},
	{"cost", []string{"cost", "over"},
		"sum of the costs so far, and their mean over the budget", "environments whose actions cost money"},
}

// watched is a policy that remembers what it was offered and what it chose.
type watched struct {
	bandit.Policy
	set      bandit.ActionSet
	x        *bandit.Action
	decision uint64 // the number of the round's source
}

func (w *watched) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	w.set, w.x, w.decision = set, dst, draw.At()
	if groups, ok := set.(*actionset.Groups); ok {
		w.set = groups.Whole() // what the environment offered
	}
	return w.Policy.Select(dst, set, draw)
}

// regression is the state of a ridge regression: *linalg.Ridge, *linalg.Root.
type regression interface {
	Dim() int
	Lambda() float64
	LogDetRatio() float64
	Theta() []float64
}

// regressionOf returns the regression of a policy, nil when it has none.
func regressionOf(p bandit.Policy) regression {
	switch p := p.(type) {
	case interface{ Ridge() policy.Regression }:
		return p.Ridge()
	case interface{ Root() policy.SquareRoot }:
		return p.Root()
	}
	return nil
}

// membersOf returns the members of a policy at a decision; ok is false when it has none.
func membersOf(p bandit.Policy, decision uint64) (view bandit.View, ok bool) {
	if v, is := p.(bandit.Viewer); is {
		ok = v.View(&view, decision)
	}
	return view, ok
}

// diary writes down what a spec asks for beside regret and reward, in one cell.
type diary struct {
	who    *watched
	world  bandit.Environment
	truth  env.Truth // nil without a θ*
	sigma  float64
	delta  float64
	values map[string]numbers // by column

	actions, spectrum, optimism, coverage bool

	costly bandit.Costly // nil where costs are not recorded
	spent  float64

	counts  [ranks]int // by rank of the arm
	width   int        // how many of them are recorded: as many as there are arms in round 1
	arm     bandit.Action
	largest float64 // distance_max
	probes  []probe
	best    bandit.Action
	u, v    []float64
	factor  *linalg.Factor
	eigen   *linalg.Eigen
	square  []float64
}

// probe is a recorder at work in a cell.
type probe struct {
	Probe
	name    string
	columns []string
	values  []float64
}

// newDiary returns the diary of a cell for what is asked for and what is there; nil when that is
// nothing. set is a set of the environment, delta the confidence level of the policy.
func (x *Experiment) newDiary(world bandit.Environment, set bandit.ActionSet, pol bandit.Policy, delta float64,
	horizon int) *diary {
	record := x.Record
	w := &diary{who: &watched{Policy: pol}, world: world, sigma: 1, delta: delta}
	w.truth, _ = world.(env.Truth)
	if n, ok := world.(env.Noisy); ok {
		if s, _ := n.Sigma(); s > 0 {
			w.sigma = s
		}
	}
	list, finite := set.(bandit.Finite)
	if finite {
		w.width = min(ranks, list.Len())
	}
	reg := regressionOf(bandit.Innermost(pol))
	members, has := membersOf(bandit.Innermost(pol), 0)
	w.actions = slices.Contains(record, "actions") && finite
	w.spectrum = slices.Contains(record, "spectrum") && has
	w.optimism = slices.Contains(record, "optimism") && has && w.truth != nil && !members.Mixed
	w.coverage = slices.Contains(record, "coverage") && reg != nil && w.truth != nil
	if slices.Contains(record, "cost") {
		w.costly, _ = world.(bandit.Costly)
	}
	for _, q := range x.recorded() {
		if p := x.kinds.Recorders[q.Name].New(RecordedCell{world, pol, set, horizon}); p != nil {
			w.probes = append(w.probes, probe{p, q.Name, q.Columns, make([]float64, len(q.Columns))})
		}
	}
	if !w.actions && !w.spectrum && !w.optimism && !w.coverage && w.probes == nil && w.costly == nil {
		return nil
	}
	w.values = make(map[string]numbers)
	if !w.spectrum && !w.optimism && !w.coverage {
		return w
	}
	d := world.Dim()
	w.u, w.v = make([]float64, d), make([]float64, d)
	w.square = make([]float64, d*d)
	w.factor, w.eigen = linalg.NewFactor(d, 1), linalg.NewEigen(d)
	return w
}

// has reports whether the diary records a quantity.
func (w *diary) has(name string) bool {
	switch name {
	case "actions":
		return w.actions
	case "spectrum":
		return w.spectrum
	case "optimism":
		return w.optimism
	case "coverage":
		return w.coverage
	case "cost":
		return w.costly != nil
	}
	return slices.ContainsFunc(w.probes, func(p probe) bool { return p.name == name })
}

// round is called in round t, after the choice and before the update; mark says that t is a
// checkpoint. Cost: for actions one Regret for each arm and round, for coverage d² a round; the
// others cost at checkpoints only, m·d² for the spectrum and an oracle call for each model for
// optimism.
func (w *diary) round(t int, regret, reward float64, mark bool) error {
	for _, p := range w.probes {
		if err := p.round(w, Round{t, w.who.set, *w.who.x, regret, reward}, mark); err != nil {
			return fmt.Errorf("recorder %q: %w", p.name, err)
		}
	}
	if w.actions {
		if err := w.rank(t, regret, mark); err != nil {
			return err
		}
	}
	if w.coverage {
		if err := w.cover(mark); err != nil {
			return err
		}
	}
	if w.costly != nil {
		if err := w.spend(t, mark); err != nil {
			return err
		}
	}
	if !mark {
		return nil
	}
	if w.spectrum {
		if err := w.look(); err != nil {
			return err
		}
	}
	if w.optimism {
		return w.optimistic()
	}
	return nil
}

// spend sums what the actions cost.
func (w *diary) spend(t int, mark bool) error {
	c, err := w.costly.Cost(*w.who.x)
	if err != nil {
		return err
	}
	w.spent += c
	if !mark {
		return nil
	}
	if err := w.put("cost", w.spent); err != nil {
		return err
	}
	return w.put("over", w.spent/float64(t)/w.who.set.(bandit.Costed).Budget())
}

// round shows the probe a round and writes down its values at a checkpoint.
func (p probe) round(w *diary, r Round, mark bool) error {
	if err := p.Round(r); err != nil || !mark {
		return err
	}
	if err := p.Values(p.values); err != nil {
		return err
	}
	for i, v := range p.values {
		if err := w.put(p.columns[i], v); err != nil {
			return err
		}
	}
	return nil
}

func (w *diary) put(column string, v float64) error {
	if !finite(v) {
		return fmt.Errorf("%s is %v: %w", column, v, bandit.ErrNotFinite)
	}
	w.values[column] = append(w.values[column], v)
	return nil
}

// rank counts the arms that would have been better: arms of equal regret share a rank.
func (w *diary) rank(t int, regret float64, mark bool) error {
	set, ok := w.who.set.(bandit.Finite)
	if !ok {
		return fmt.Errorf("the action set of round %d is not finite, that of round 1 was", t)
	}
	better := 0
	for i := 0; i < set.Len() && better < ranks; i++ {
		w.arm.X, w.arm.Index = set.At(i), i
		r, err := w.world.Regret(w.arm)
		if err != nil {
			return err
		}
		if r < regret {
			better++
		}
	}
	if better < ranks {
		w.counts[better]++
	}
	if !mark {
		return nil
	}
	for k := range w.width {
		if err := w.put(fmt.Sprintf("action_%d", k+1), float64(w.counts[k])/float64(t)); err != nil {
			return err
		}
	}
	return nil
}

// cover compares the distance of θ* from θ̂ with β of eq:beta, for noise level σ.
func (w *diary) cover(mark bool) error {
	reg := regressionOf(bandit.Innermost(w.who.Policy))
	hat := reg.Theta()
	for i, v := range w.truth.Theta() {
		w.u[i] = v - hat[i]
	}
	root := math.Sqrt(reg.Lambda())
	beta := root + float64(w.sigma*(theory.Beta(reg.Lambda(), w.delta, max(0, reg.LogDetRatio()))-root))
	ratio := math.Sqrt(w.norm2(reg, w.u)) / beta
	w.largest = max(w.largest, ratio)
	if !mark {
		return nil
	}
	if err := w.put("distance", ratio); err != nil {
		return err
	}
	return w.put("distance_max", w.largest)
}

// norm2 returns ‖u‖²_V ≥ 0.
func (w *diary) norm2(reg regression, u []float64) float64 {
	switch reg := reg.(type) {
	case *linalg.Ridge:
		return max(0, reg.Norm2(u))
	case *linalg.Root:
		mulLT(w.v, reg.Factor().L(), u)
		return linalg.Dot(w.v, w.v)
	}
	panic("sim: a regression of unknown kind")
}

// mulLT stores Lᵀz in dst, L lower triangular, d×d.
func mulLT(dst, l, z []float64) {
	d := len(z)
	clear(dst)
	for k, v := range z {
		linalg.Axpy(v, l[k*d:k*d+k+1], dst[:k+1])
	}
}

// look stores the extreme singular values of Γ/√m. Column j of Γ = V^{−1/2}S is V^{1/2}θ̃^j with the
// member θ̃^j = (model − θ̂)/r, and ΓΓᵀ has the eigenvalues of Σ (Lᵀθ̃^j)(Lᵀθ̃^j)ᵀ for V = LLᵀ.
func (w *diary) look() error {
	pol := bandit.Innermost(w.who.Policy)
	reg := regressionOf(pol)
	members, _ := membersOf(pol, w.who.decision)
	l := w.factor.L()
	switch reg := reg.(type) {
	case *linalg.Ridge:
		if !w.factor.Set(reg.V()) {
			return fmt.Errorf("the matrix V is not positive definite: %w", bandit.ErrNumerical)
		}
	case *linalg.Root:
		l = reg.Factor().L()
	}
	d, hat := reg.Dim(), reg.Theta()
	clear(w.square)
	for j := range members.M {
		members.Model(w.u, j, 1)
		scale := members.Scale(j)
		for i := range w.u {
			w.u[i] = (w.u[i] - hat[i]) / scale
		}
		mulLT(w.v, l, w.u)
		for i, v := range w.v {
			linalg.Axpy(v, w.v, w.square[i*d:i*d+d])
		}
	}
	if !w.eigen.Set(w.square) {
		return fmt.Errorf("the singular values of the members: %w", bandit.ErrNumerical)
	}
	m, least := float64(members.M), 0.0 // fewer members than dimensions leave some without any
	if members.M >= d {
		least = math.Sqrt(max(0, slices.Min(w.eigen.Values())) / m)
	}
	if err := w.put("s_min", least); err != nil {
		return err
	}
	return w.put("s_max", math.Sqrt(max(0, slices.Max(w.eigen.Values()))/m))
}

// optimistic stores the share of models with J(θ) ≥ J(θ*) on the round's set.
func (w *diary) optimistic() error {
	members, _ := membersOf(bandit.Innermost(w.who.Policy), w.who.decision)
	top, err := w.who.set.ArgMax(&w.best, w.truth.Theta())
	if err != nil {
		return err
	}
	n := 0
	for j := range members.M {
		for _, sign := range members.Signs {
			members.Model(w.u, j, sign)
			v, err := w.who.set.ArgMax(&w.best, w.u)
			if err != nil {
				return err
			}
			if v >= top {
				n++
			}
		}
	}
	return w.put("optimistic", float64(n)/float64(members.M*len(members.Signs)))
}

// deltaOf is the confidence level of a policy's table, or of the table of what it wraps.
func deltaOf(table spec.Raw) float64 {
	if v, ok := spec.Number(table["delta"]); ok {
		return v
	}
	if inner, ok := table["base"].(spec.Raw); ok {
		return deltaOf(inner)
	}
	return 0.1 // the default of every policy that has one
}

// unmeasured says why a quantity that was asked for is not there.
func unmeasured(x *Experiment, name string) string {
	for _, q := range x.kinds.Quantities() {
		if q.Name == name {
			return fmt.Sprintf("is %q, which nothing in this experiment has: it is for %s", name, q.Who)
		}
	}
	panic("sim: unknown quantity")
}
