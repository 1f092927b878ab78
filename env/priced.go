package env

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"troupe/bandit"
	"troupe/budget"
	"troupe/feature"
	"troupe/internal/logs"
	"troupe/rng"
)

// PricedOptions are the options of kind "priced", a world that is made up: actions that cost money, of which each
// decision may spend so much in the mean. Each round shows a context; the policy pays the cost of the action that it
// chose and gets its reward, and learns nothing of the others.
//
// There are 12 contexts and 4 actions. Action a = 0, …, 3 costs 1, 4, 12 and 60 times a factor of the context in [½,
// 2], and pays 1 with probability .5 + .12a + .15·N(0, 1), cut to [.02, .98], which is drawn once for each context, so
// that dear actions are better in the mean and not everywhere. What a decision costs is that times an exponential
// variable.
//
// The regret of a round is that against the best policy within the budget, which solves the linear program
//
//	max Σ p(x, a)·r(x, a)  subject to  Σ p(x, a)·c(x, a) ≤ n·b,  Σ_a p(x, a) = 1,  p ≥ 0
//
// over all n contexts x. With λ* the multiplier of its budget it is
//
//	max_a (r(x, a) − λ*c(x, a)) − (r(x, A) − λ*c(x, A)) ≥ 0.
//
// Summed over the rounds this is the reward of that policy less the reward of the policy that plays, plus λ* for each
// unit of money above the budget, less λ* for each that is left.
type PricedOptions struct {
	Budget   float64 `key:"budget" doc:"mean cost of a decision that is allowed"`
	Costs    string  `key:"costs" doc:"what is known of a cost before the choice: nothing (late), the action's mean (mean), or all (known)"`
	Features string  `key:"features" doc:"hashed (as a server without a schema reads requests, for the policies effects and budgeted) or block (dense: a parameter for each action)"`
	Change   string  `key:"change" doc:"none; at round at: cost (action costs twice as much), break (action pays 0 and costs the same), or enter (action is there from then on only)"`
	Action   string  `key:"action" doc:"name of the action that changes: a0, a1, a2 or a3"`
	At       int     `key:"at" doc:"round of the change"`
}

// NewPriced returns the defaults.
func NewPriced() *PricedOptions {
	return &PricedOptions{Budget: 8, Costs: "late", Features: "hashed", Change: "none"}
}

// Doc says what the kind is.
func (*PricedOptions) Doc() string {
	return "actions that cost money under a budget: 12 contexts, 4 actions, made up"
}

// Build implements Options.
func (o *PricedOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	return o.build(key, madeUp(key))
}

// PricedTableOptions are the options of kind "priced-table": as "priced", with the rows of a table as contexts. Columns
// NAME_reward and NAME_cost make NAME an action, the others are the context. Rows come in an order that is drawn for
// each replication, and from the first again when all were seen. The best policy within the budget, against which the
// regret counts, knows the rewards and costs of every row.
type PricedTableOptions struct {
	Data     string  `key:"data" doc:"CSV with columns NAME_reward and NAME_cost for each action, the others are the context; the flag --data takes its place"`
	Budget   float64 `key:"budget" doc:"mean cost of a decision that is allowed"`
	Costs    string  `key:"costs" doc:"what is known of a cost before the choice: nothing (late), the action's mean (mean), or all (known)"`
	Features string  `key:"features" doc:"hashed (as a server without a schema reads requests, for the policies effects and budgeted) or block (dense: a parameter for each action)"`
	Change   string  `key:"change" doc:"none; at round at: cost (action costs twice as much), break (action pays 0 and costs the same), or enter (action is there from then on only)"`
	Action   string  `key:"action" doc:"name of the action that changes"`
	At       int     `key:"at" doc:"round of the change"`
}

// NewPricedTable returns the defaults. The budget has none.
func NewPricedTable() *PricedTableOptions {
	return &PricedTableOptions{Costs: "late", Features: "hashed", Change: "none"}
}

// Doc says what the kind is.
func (*PricedTableOptions) Doc() string {
	return "rows of a table with the reward and the cost of every action, under a budget"
}

// DataFile implements FileReader.
func (o *PricedTableOptions) DataFile() string { return o.Data }

// Build implements Options.
func (o *PricedTableOptions) Build(key rng.Key, data DataSource) (bandit.Environment, error) {
	if data == nil {
		return nil, fmt.Errorf("env: priced-table needs a source of data")
	}
	t, err := data.Other(o.Data, "priced", func(file string) (any, error) { return readPriced(file) })
	if err != nil {
		return nil, err
	}
	rest := PricedOptions{o.Budget, o.Costs, o.Features, o.Change, o.Action, o.At}
	return rest.build(key, t.(*pricedTable))
}

// build makes the environment of a table of contexts.
func (o *PricedOptions) build(key rng.Key, t *pricedTable) (bandit.Environment, error) {
	for _, f := range []struct {
		key, v string
		valid  []string
	}{
		{"costs", o.Costs, []string{"late", "mean", "known"}},
		{"features", o.Features, []string{"hashed", "block"}},
		{"change", o.Change, []string{"none", "cost", "break", "enter"}},
	} {
		if err := oneOf(f.key, f.v, f.valid...); err != nil {
			return nil, err
		}
	}
	e := &priced{opts: *o, pricedTable: t, changed: -1, row: -1}
	if err := (budget.Limit{Mean: o.Budget}).Check(); err != nil {
		return nil, wrong("budget", "%v", err)
	}
	if o.Change == "none" {
		if o.Action != "" || o.At != 0 {
			return nil, wrong("change", "is none, and action = %q at = %d say that something changes", o.Action, o.At)
		}
	} else if e.changed = slices.Index(t.names, o.Action); e.changed < 0 {
		return nil, wrong("action", "is %q, expected one of %s", o.Action, strings.Join(t.names, ", "))
	} else if o.At < 2 {
		return nil, wrong("at", "is %d, expected a round from 2 on", o.At)
	}
	if cheapest := slices.Min(t.meanCost); o.Budget < cheapest {
		return nil, wrong("budget", "is %v, below the mean cost %v of the cheapest action", o.Budget, cheapest)
	}
	for i := range e.lp {
		e.lp[i] = solvePriced(o.Budget, t.rows, t.k, func(x, a int) (r, c float64, ok bool) {
			return e.mean(x, a, i == 1)
		})
	}
	if t.made == nil {
		e.order = Shuffled(t.rows, key)
	}
	if o.Features == "hashed" {
		e.encoder = feature.NewAtomEncoder(feature.Limits{})
	}
	return e, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pricedTable is a table of contexts × actions.
type pricedTable struct {
	names        []string
	rows, k, dim int       // dim: of a context as a dense vector
	reward, cost []float64 // rows×k
	dense        []float64 // rows×dim
	requests     [][]byte
	meanCost     []float64
	made         []float64 // of a world that is made up: probability of a reward of 1; otherwise nil
	notes        []string
}

// Numbers of the world that is made up.
const (
	madeContexts = 12
	madeActions  = 4
)

// madeUp draws the world from round drawArms of the instance.
func madeUp(key rng.Key) *pricedTable {
	t := &pricedTable{rows: madeContexts, k: madeActions, dim: madeContexts,
		notes: []string{"rewards are 0 or 1, costs are a mean of context and action times an exponential variable"}}
	draw := key.Stream(rng.Instance).Round(drawArms)
	t.reward, t.cost = make([]float64, t.rows*t.k), make([]float64, t.rows*t.k)
	t.dense, t.meanCost = make([]float64, t.rows*t.dim), make([]float64, t.k)
	for a := range t.k {
		t.names = append(t.names, "a"+strconv.Itoa(a))
	}
	for x := range t.rows {
		t.dense[x*t.dim+x] = 1
		t.requests = append(t.requests, fmt.Appendf(nil, `{"context":"c%d"}`, x))
		factor := logs.Exp(math.Ln2 * (2*draw.Float64(100+x) - 1))
		for a := range t.k {
			i := x*t.k + a
			t.reward[i] = min(.98, max(.02, .5+float64(.12*float64(a))+float64(.15*draw.Normal(200+i))))
			t.cost[i] = []float64{1, 4, 12, 60}[a] * factor
			t.meanCost[a] += t.cost[i] / float64(t.rows)
		}
	}
	t.made = t.reward
	return t
}

// maxPriced bounds a table.
const maxPriced = 256 << 20

// readPriced reads a table with columns NAME_reward and NAME_cost.
func readPriced(file string) (*pricedTable, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(io.LimitReader(f, maxPriced))
	lines, err := r.ReadAll()
	if err != nil {
		return nil, wrong("data", "%s: %v", file, err)
	}
	if len(lines) < 2 {
		return nil, wrong("data", "%s has %d lines, expected a line of names and rows", file, len(lines))
	}
	names, lines := lines[0], lines[1:]
	t := &pricedTable{rows: len(lines)}
	used := map[int]bool{}
	var rewards, costs []int
	for i, name := range names {
		name, ok := strings.CutSuffix(name, "_reward")
		if at := slices.Index(names, name+"_cost"); ok && at >= 0 {
			t.names, rewards, costs = append(t.names, name), append(rewards, i), append(costs, at)
			used[i], used[at] = true, true
		}
	}
	if t.k = len(t.names); t.k < 2 {
		return nil, wrong("data", "%s has columns NAME_reward and NAME_cost for %d actions, expected at least 2", file,
			t.k)
	}
	number := func(x, column int) (float64, error) {
		v, err := strconv.ParseFloat(lines[x][column], 64)
		if err != nil || v-v != 0 {
			return 0, wrong("data", "%s: line %d: %s is %q, expected a number", file, x+2, names[column],
				lines[x][column])
		}
		return v, nil
	}
	t.meanCost = make([]float64, t.k)
	for x := range lines {
		for a := range t.k {
			y, err := number(x, rewards[a])
			if err != nil {
				return nil, err
			}
			c, err := number(x, costs[a])
			if err != nil {
				return nil, err
			}
			if err := budget.Cost(c); err != nil {
				return nil, wrong("data", "%s: line %d: %s %v", file, x+2, names[costs[a]], err)
			}
			t.reward, t.cost = append(t.reward, y), append(t.cost, c)
			t.meanCost[a] += c / float64(t.rows)
		}
	}
	var context []int
	for i := range names {
		if !used[i] {
			context = append(context, i)
		}
	}
	return t, t.contexts(names, lines, context)
}

// contexts makes the requests and the dense vectors of the columns that are no action's. A column with a value that is
// no number has names.
func (t *pricedTable) contexts(names []string, lines [][]string, columns []int) error {
	fields, dense := make([]map[string]any, t.rows), make([][]float64, t.rows)
	for x := range fields {
		fields[x], dense[x] = map[string]any{}, []float64{1}
	}
	for _, i := range columns {
		values, levels := make([]float64, t.rows), []string{}
		var sum, square float64
		numeric := true
		for x := range lines {
			v, err := strconv.ParseFloat(lines[x][i], 64)
			numeric = numeric && err == nil && v-v == 0
			values[x] = v
			sum, square = sum+v, square+float64(v*v)
			levels = append(levels, lines[x][i])
		}
		slices.Sort(levels)
		levels = slices.Compact(levels)
		if !numeric && len(levels) > manyClasses {
			levels = nil // an identifier; the hashed features read it all the same
		}
		mean := sum / float64(t.rows)
		deviation := math.Sqrt(max(1e-300, square/float64(t.rows)-float64(mean*mean)))
		for x := range lines {
			if numeric {
				fields[x][names[i]] = values[x]
				dense[x] = append(dense[x], min(3, max(-3, (values[x]-mean)/deviation)))
				continue
			}
			fields[x][names[i]] = lines[x][i]
			for _, l := range levels {
				dense[x] = append(dense[x], float64(b2i(lines[x][i] == l)))
			}
		}
	}
	longest := 0.0
	for x := range t.rows {
		b, err := json.Marshal(fields[x])
		if err != nil {
			return err
		}
		t.requests = append(t.requests, b)
		var q float64
		for _, v := range dense[x] {
			q += float64(v * v)
		}
		longest = max(longest, math.Sqrt(q))
	}
	t.dim = len(dense[0])
	for x := range t.rows {
		for _, v := range dense[x] {
			t.dense = append(t.dense, v/longest)
		}
	}
	t.notes = []string{fmt.Sprintf("%d rows, actions %s of mean cost %s; rewards of the rows are not linear in the "+
		"features", t.rows, strings.Join(t.names, ", "), strings.Join(shown(t.meanCost), ", "))}
	return nil
}

func shown(v []float64) (out []string) {
	for _, x := range v {
		out = append(out, strconv.FormatFloat(x, 'g', 3, 64))
	}
	return out
}

// priced is the environment of kind "priced". It implements bandit.Costly, Noted and Noisy.
type priced struct {
	*pricedTable
	opts    PricedOptions
	changed int // action that changes, −1 for none
	order   []int32
	lp      [2]pricedLP // before the change and after it
	encoder *feature.AtomEncoder
	batch   *feature.AtomBatch

	row    int // offered last
	after  bool
	factor float64 // of costs in the round offered last, where the world is made up
	hidden int     // action that is not there, −1 for none
}

// mean returns reward and cost of an action in a context; ok is false where it is not there.
func (e *priced) mean(x, a int, after bool) (r, c float64, ok bool) {
	r, c = e.reward[x*e.k+a], e.cost[x*e.k+a]
	if a != e.changed {
		return r, c, true
	}
	switch {
	case e.opts.Change == "enter":
		return r, c, after
	case after && e.opts.Change == "cost":
		return r, 2 * c, true
	case after && e.opts.Change == "break":
		return 0, c, true
	}
	return r, c, true
}

// Dim implements bandit.Environment.
func (e *priced) Dim() int {
	if e.encoder != nil {
		return e.encoder.Dim()
	}
	return e.dim * e.k
}

// Notes implements Noted.
func (e *priced) Notes() []string {
	text := fmt.Sprintf("regret is that against the best policy with a mean cost of at most %.6g", e.opts.Budget)
	if e.made == nil {
		text += fmt.Sprintf("; a unit of money above that counts λ* = %.6g", e.lp[0].price)
	}
	return append(slices.Clip(e.notes), text)
}

// Sigma implements Noisy.
func (e *priced) Sigma() (float64, bool) { return 0.5, true }

// Reacts implements Reacting: what the features have been seen to be is in no snapshot.
func (e *priced) Reacts() {}

// Offer implements bandit.Environment.
func (e *priced) Offer(draw rng.Source) (bandit.ActionSet, error) {
	t := draw.At()
	if e.order != nil {
		n := uint64(len(e.order))
		e.row = int(e.order[(t+n-1)%n])
	} else {
		e.row = draw.Intn(0, e.rows)
		e.factor = -logs.Log(1 - draw.Float64(1))
	}
	e.after = e.changed >= 0 && t >= uint64(e.opts.At)
	e.hidden = -1
	if e.opts.Change == "enter" && !e.after {
		e.hidden = e.changed
	}
	set := pricedSet{env: e, k: e.k}
	if e.hidden >= 0 {
		set.k--
	}
	if e.encoder == nil {
		if e.hidden >= 0 && e.hidden != e.k-1 {
			return nil, wrong("action", "is %q, and with features = \"block\" the last action can enter only",
				e.opts.Action)
		}
		return &pricedDense{set, newBlocks(e.dense[e.row*e.dim:(e.row+1)*e.dim], e.k)}, nil
	}
	return e.encode(set, t)
}

// encode reads the request as a server does.
func (e *priced) encode(set pricedSet, t uint64) (bandit.ActionSet, error) {
	e.batch = feature.NewAtomBatch(e.encoder)
	if err := e.batch.Begin(e.requests[e.row]); err != nil {
		return nil, err
	}
	for i := range set.k {
		if err := e.batch.Add(e.names[set.action(i)], nil); err != nil {
			return nil, err
		}
	}
	return &pricedSparse{set, e.batch}, nil
}

// pricedSet is what the sets of an environment have in common.
type pricedSet struct {
	env *priced
	k   int
}

// action returns the number of candidate i: one that is not there is passed over.
func (s pricedSet) action(i int) int {
	if s.env.hidden >= 0 && i >= s.env.hidden {
		return i + 1
	}
	return i
}

// Len returns the number of candidates.
func (s pricedSet) Len() int { return s.k }

// Budget implements bandit.Costed.
func (s pricedSet) Budget() float64 { return s.env.opts.Budget }

// Cost implements bandit.Costed.
func (s pricedSet) Cost(i int) float64 {
	a := s.action(i)
	switch s.env.opts.Costs {
	case "mean":
		return s.env.meanCost[a]
	case "known":
		return s.env.paid(a)
	}
	return math.NaN()
}

type pricedDense struct {
	pricedSet
	set *blocks
}

func (s *pricedDense) Dim() int           { return s.set.Dim() }
func (s *pricedDense) At(i int) []float64 { return s.set.At(i) }
func (s *pricedDense) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if s.k == s.set.k {
		return s.set.ArgMax(dst, theta)
	}
	part := &blocks{k: s.k, c: s.set.c}
	v, err := part.ArgMax(dst, theta[:part.Dim()])
	if err == nil {
		dst.Set(s.At(dst.Index), dst.Index)
	}
	return v, err
}

type pricedSparse struct {
	pricedSet
	set *feature.AtomBatch
}

func (s *pricedSparse) Dim() int                             { return s.set.Dim() }
func (s *pricedSparse) Nonzeros(i int) ([]uint32, []float64) { return s.set.Nonzeros(i) }
func (s *pricedSparse) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	return s.set.ArgMax(dst, theta)
}

// paid returns what an action costs in this round.
func (e *priced) paid(a int) float64 {
	_, c, _ := e.mean(e.row, a, e.after)
	if e.made != nil {
		c *= e.factor
	}
	return c
}

// arm returns the number of the action that was chosen.
func (e *priced) arm(a bandit.Action) (int, error) {
	if e.row < 0 {
		panic("env: an action before the first offer")
	}
	k := e.k
	if e.hidden >= 0 {
		k--
	}
	if a.Index < 0 || a.Index >= k {
		return 0, fmt.Errorf("env: the action's index is %d, expected an arm from 0 to %d", a.Index, k-1)
	}
	return pricedSet{env: e}.action(a.Index), nil
}

// Cost implements bandit.Costly.
func (e *priced) Cost(a bandit.Action) (float64, error) {
	i, err := e.arm(a)
	if err != nil {
		return 0, err
	}
	return e.paid(i), nil
}

// Reward implements bandit.Environment.
func (e *priced) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	i, err := e.arm(a)
	if err != nil {
		return 0, err
	}
	r, _, _ := e.mean(e.row, i, e.after)
	if e.made != nil {
		r = float64(b2i(draw.Float64(0) < r))
	}
	return r, nil
}

// Regret implements bandit.Environment.
func (e *priced) Regret(a bandit.Action) (float64, error) {
	i, err := e.arm(a)
	if err != nil {
		return 0, err
	}
	lp := &e.lp[b2i(e.after)]
	best, mine := math.Inf(-1), 0.0
	for b := range e.k {
		r, c, ok := e.mean(e.row, b, e.after)
		if !ok {
			continue
		}
		v := r - float64(lp.price*c)
		best = max(best, v)
		if b == i {
			mine = v
		}
	}
	return best - mine, nil
}

// pricedLP is the solution of the linear program of PricedOptions.
type pricedLP struct {
	price  float64 // λ*, 0 where the budget does not bind
	reward float64 // mean of the best policy
	cost   float64 // and its mean cost
}

// solvePriced solves it. Every context begins with its cheapest best action and goes up its concave frontier of cost
// and reward; the steps of all contexts are taken in the order of reward for money until the budget is spent, the last
// one in part. Cost: n·k² + n·k·log(n·k).
func solvePriced(b float64, n, k int, mean func(x, a int) (r, c float64, ok bool)) pricedLP {
	type climb struct{ slope, r, c float64 }
	var steps []climb
	var lp pricedLP
	for x := range n {
		at := -1
		var r0, c0 float64
		for a := range k {
			if r, c, ok := mean(x, a); ok && (at < 0 || c < c0 || c == c0 && r > r0) {
				at, r0, c0 = a, r, c
			}
		}
		lp.reward, lp.cost = lp.reward+r0, lp.cost+c0
		for {
			next, slope := -1, 0.0
			var r1, c1 float64
			for a := range k {
				r, c, ok := mean(x, a)
				if !ok || r <= r0 || c <= c0 {
					continue
				}
				if s := (r - r0) / (c - c0); next < 0 || s > slope || s == slope && c > c1 {
					next, slope, r1, c1 = a, s, r, c
				}
			}
			if next < 0 {
				break
			}
			steps = append(steps, climb{slope, r1 - r0, c1 - c0})
			r0, c0 = r1, c1
		}
	}
	slices.SortStableFunc(steps, func(a, b climb) int { return cmp.Compare(b.slope, a.slope) })
	for _, s := range steps {
		left := float64(b*float64(n)) - lp.cost
		if s.c > left {
			part := max(0, left/s.c)
			lp.reward, lp.cost, lp.price = lp.reward+float64(part*s.r), lp.cost+float64(part*s.c), s.slope
			break
		}
		lp.reward, lp.cost = lp.reward+s.r, lp.cost+s.c
	}
	lp.reward, lp.cost = lp.reward/float64(n), lp.cost/float64(n)
	return lp
}

var (
	_ bandit.Costly = (*priced)(nil)
	_ bandit.Costed = (*pricedDense)(nil)
	_ bandit.Costed = (*pricedSparse)(nil)
	_ bandit.Finite = (*pricedDense)(nil)
	_ bandit.Sparse = (*pricedSparse)(nil)
	_ Noted         = (*priced)(nil)
	_ Noisy         = (*priced)(nil)
	_ Reacting      = (*priced)(nil)
)
