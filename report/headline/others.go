package headline

import (
	"math"
	"slices"

	"troupe/report/chart"
)

// Curve is what a run says about a swept number of a policy: the exponent of the regret in it and the values that may be
// best.
type Curve struct {
	Policy, Option string
	First, Last    string // the smallest and the largest value, as they are written
	From, To       string // values that the one with the lowest mean cannot be told from, with it
	Region         bool   // From and To are known
	Lo, Hi         float64
}

// Sweep is the headline of a swept number: up to where it helps, or from where on it hurts, by the intervals of the table;
// where they leave no such range, the sign of the exponent by its interval [Lo, Hi].
func Sweep(c *Curve) Prose {
	regret := Say("Regret of ", Name(c.Policy), " ")
	switch {
	case c.Region && c.From == c.First && c.To == c.Last:
		return Say("Which "+c.Option+" is best for ", Name(c.Policy), " is too close to call.")
	case c.Region && c.To == c.Last && c.From == c.Last:
		return Say(regret, "falls with "+c.Option+" up to "+c.Last+", the largest value.")
	case c.Region && c.To == c.Last:
		return Say(regret, "falls with "+c.Option+" up to "+c.From+"; beyond, it is too close to call.")
	case c.Region && c.From == c.First && c.To == c.First:
		return Say(regret, "grows with "+c.Option+" from "+c.First+", the smallest value, on.")
	case c.Region && c.From == c.First:
		return Say(regret, "grows with "+c.Option+" from "+c.To+" on; below, it is too close to call.")
	case c.Region && c.From == c.To:
		return Say(Name(c.Policy), " loses least at "+c.Option+" = "+c.From+".")
	case c.Region:
		return Say(Name(c.Policy), " loses least for "+c.Option+" from "+c.From+" to "+c.To+".")
	}
	return Say(regret, c.trend()+" "+c.Option+".")
}

func (c *Curve) trend() string {
	switch {
	case c.Lo > 0:
		return "grows with"
	case c.Hi < 0:
		return "falls with"
	}
	return "has no clear trend in"
}

// Sweeps is the headline of the same sweep in several environments: what the exponents have in common.
func Sweeps(all []*Curve) Prose {
	first := all[0]
	if len(all) == 1 {
		return Sweep(first)
	}
	if slices.ContainsFunc(all, func(c *Curve) bool { return c.trend() != first.trend() }) {
		return Say("Whether regret of ", Name(first.Policy), " grows with "+first.Option+" depends on the environment.")
	}
	where := "every"
	if first.Lo <= 0 && first.Hi >= 0 {
		where = "any"
	}
	return Say("Regret of ", Name(first.Policy), " "+first.trend()+" "+first.Option+" in "+where+" environment.")
}

// Agent is an agent on the sizes of a problem: by size, which of its runs solved it.
type Agent struct {
	Name string
	Runs [][]bool
}

func (a *Agent) solved() (solved, all, sizes int) {
	for _, size := range a.Runs {
		k := 0
		for _, ok := range size {
			if ok {
				k++
			}
		}
		solved, all = solved+k, all+len(size)
		if k == len(size) && k > 0 {
			sizes++
		}
	}
	return solved, all, sizes
}

// chance is the largest probability with which a difference is called one although there is none, over all pairs of agents.
const chance = 0.05

// Deep is the headline of a problem of several sizes: the agents that solve all of it, some of it and nothing. It is called
// sure where each agent of one group and each of another differ by more than chance, by a sign test on the runs that exactly
// one of the two solved, corrected for all pairs by Holm.
func Deep(agents []*Agent) Prose {
	var all, none []string
	var some []*Agent
	group := make([]int, len(agents))
	cells, sizes, seeds := 0, 0, 0
	for i, a := range agents {
		k, n, _ := a.solved()
		cells, sizes = max(cells, n), max(sizes, len(a.Runs))
		for _, size := range a.Runs {
			seeds = max(seeds, len(size))
		}
		switch {
		case n == 0:
			group[i] = -1
		case k == n:
			all, group[i] = append(all, a.Name), 2
		case k == 0:
			none = append(none, a.Name)
		default:
			some, group[i] = append(some, a), 1
		}
	}
	end := "."
	if !apart(agents, group) {
		end = "; " + things(seeds, "seed") + " " + verb(seeds, "is", "are") + " too few to be sure."
	}
	count := len(all) + len(none) + len(some)
	switch {
	case count == 0:
		return Say("No replication is complete.")
	case sizes == 1:
		return one(all, none, some, seeds, end)
	case len(all) == count && count > most:
		return Say("All " + number(count) + " agents solve every size.")
	case len(all) == count:
		return Say(all, " "+verb(count, "solves", "solve")+" every size.")
	case len(none) == count:
		return Say("No agent solves any size.")
	}
	var parts []Prose
	if len(all) > 0 {
		parts = append(parts, Say(these(all, "agent", "agents"), " "+verb(len(all), "solves", "solve")+" every size"))
	}
	for _, a := range some {
		if len(some) > 2 {
			parts = append(parts, Say(upper(number(len(some)))+" agents solve some"))
			break
		}
		k, n, whole := a.solved()
		text := " solves " + chart.Count(whole) + " of " + things(sizes, "size")
		if whole == 0 {
			text = " solves " + chart.Count(k) + " of " + things(n, "run")
		}
		parts = append(parts, Say(Name(a.Name), text))
	}
	if len(none) > 0 {
		parts = append(parts, Say(these(none, "agent", "agents"), " "+verb(len(none), "solves", "solve")+" none"))
	}
	return sentences(parts, end)
}

// sentences joins clauses: two sentences, more by semicolons; the last ends as said.
func sentences(parts []Prose, end string) Prose {
	var p Prose
	for i, x := range parts {
		switch {
		case i == 0:
		case end == ".":
			p = Say(p, ". ")
		default:
			p = Say(p, "; ")
		}
		p = Say(p, x)
	}
	return Say(p, end)
}

// one is Deep for one size.
func one(all, none []string, some []*Agent, seeds int, end string) Prose {
	var parts []Prose
	if len(all) > 0 {
		parts = append(parts, Say(these(all, "agent", "agents"), " solved it in all "+things(seeds, "seed")))
	}
	for _, a := range some {
		k, n, _ := a.solved()
		parts = append(parts, Say(Name(a.Name), " in "+chart.Count(k)+" of "+chart.Count(n)))
	}
	if len(none) > 0 {
		parts = append(parts, Say(these(none, "agent", "agents"), map[bool]string{true: " in none", false: " solved it in no seed"}[len(parts) > 0]))
	}
	var p Prose
	for i, x := range parts {
		if i > 0 {
			p = Say(p, ", ")
		}
		p = Say(p, x)
	}
	return Say(p, end)
}

// apart reports whether all pairs of agents of different groups differ by more than chance.
func apart(agents []*Agent, group []int) bool {
	type pair struct {
		p       float64
		differs bool // of different groups
	}
	var pairs []pair
	for j := range agents {
		for i := range j {
			if group[i] >= 0 && group[j] >= 0 {
				pairs = append(pairs, pair{signTest(agents[i], agents[j]), group[i] != group[j]})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		switch {
		case a.p < b.p:
			return -1
		case a.p > b.p:
			return 1
		}
		return 0
	})
	rejected := true
	for k, x := range pairs { // Holm: the first that is not small enough ends it
		rejected = rejected && x.p*float64(len(pairs)-k) < chance
		if x.differs && !rejected {
			return false
		}
	}
	return true
}

// signTest returns the two-sided probability of the runs that exactly one of two agents solved, when each of the two is as
// likely to be that one: 2 P(Bin(D, 1/2) ≥ k) with k of D runs solved by the one that solved more.
func signTest(a, b *Agent) float64 {
	onlyA, onlyB := 0, 0
	for i := range min(len(a.Runs), len(b.Runs)) {
		for r := range min(len(a.Runs[i]), len(b.Runs[i])) {
			switch x, y := a.Runs[i][r], b.Runs[i][r]; {
			case x && !y:
				onlyA++
			case y && !x:
				onlyB++
			}
		}
	}
	d, k := onlyA+onlyB, max(onlyA, onlyB)
	if d == 0 {
		return 1
	}
	all, _ := math.Lgamma(float64(d + 1))
	p := 0.0
	for i := k; i <= d; i++ {
		x, _ := math.Lgamma(float64(i + 1))
		y, _ := math.Lgamma(float64(d - i + 1))
		p += math.Exp(all - x - y - float64(d)*math.Ln2)
	}
	return min(1, 2*p)
}

// Change is a policy of an environment in two runs.
type Change struct {
	Policy, Environment string  // Environment is "" where there is one
	Lo, Hi              float64 // of the second run minus the first, for all rows at once
	OK                  bool    // there is an interval
	Runs, Same          int     // replications of both, and those with the same regret
}

// Pair is what is known of two runs.
type Pair struct {
	Changes       []Change
	SameSeed      bool
	First, Second string // what tells the runs apart, for a reader: seed 1, seed 2
	Equal         bool   // all numbers that both have are the same
	Noun          string // what is compared, where it is not the mean regret
}

// Compare is the headline of two runs: what changed. With one seed, equal numbers are counted; otherwise a change counts
// where its interval leaves zero out.
func Compare(p *Pair) Prose {
	between := " between " + p.First + " and " + p.Second
	var changed, equal, open []Change
	for _, c := range p.Changes {
		switch {
		case c.Same == c.Runs:
			equal = append(equal, c)
		case !c.OK: // too few replications
		case c.Lo > 0 || c.Hi < 0:
			changed = append(changed, c)
		default:
			open = append(open, c)
		}
	}
	moved := without(rows(p.Changes), rows(equal))
	switch {
	case len(p.Changes) == 0:
		return Say("These runs have no environment and policy in common, so nothing can be compared.")
	case p.Equal:
		return Say("Both runs are equal, number for number.")
	case p.SameSeed && len(equal) > 0 && len(moved) == 1:
		c := p.Changes[slices.IndexFunc(p.Changes, func(c Change) bool { return c.Same < c.Runs })]
		return Say(c.name(), " changed in "+chart.Count(c.Runs-c.Same)+" of "+things(c.Runs, "replication")+". The other "+
			others(len(equal), "is", "are")+" equal, number for number.")
	case p.SameSeed && len(equal) > 0:
		return Say(these(moved, "row", "rows"), " changed. The other "+others(len(equal), "is", "are")+" equal, number for number.")
	case len(changed) == 0 && len(open) == 0:
		return Say("Too few replications to say what changed" + between + ".")
	case len(changed) == 0:
		return Say("Nothing changed by more than chance" + between + ".")
	case len(changed) > most:
		return Say(upper(number(len(changed))) + " of " + things(len(p.Changes), "row") + " changed by more than chance" + between + ".")
	}
	var more, less []string
	for _, c := range changed {
		if c.Lo > 0 {
			more = append(more, c.label())
		} else {
			less = append(less, c.label())
		}
	}
	out := Prose(nil)
	for _, side := range []struct {
		names []string
		word  string
	}{{less, "less"}, {more, "more"}} {
		if len(side.names) == 0 {
			continue
		}
		if out != nil {
			out = Say(out, "; ")
		}
		if p.Noun == "" {
			out = Say(out, side.names, " lost "+side.word)
		} else {
			out = Say(out, "the "+p.Noun+" of ", side.names, " is "+map[string]string{"less": "smaller", "more": "larger"}[side.word])
		}
	}
	if !out[0].Name {
		out[0].Text = upper(out[0].Text)
	}
	out = Say(out, " in the second run.")
	if len(open) > 0 {
		out = Say(out, " Nothing else changed by more than chance.")
	}
	return out
}

func (c *Change) name() Prose {
	if c.Environment == "" {
		return Say(Name(c.Policy))
	}
	return Say(Name(c.Policy), " in ", Name(c.Environment))
}

func (c *Change) label() string { return c.name().String() }

// rows are the labels of changes.
func rows(cs []Change) (out []string) {
	for i := range cs {
		out = append(out, cs[i].label())
	}
	return out
}

// Many is the headline of several runs against the first one: how many differ from it by more than chance.
func Many(changed, runs int) Prose {
	if changed == 0 {
		return Say("No run differs from the first by more than chance.")
	}
	return Say(upper(number(changed)) + " of " + things(runs, "run") + " " + verb(changed, "differs", "differ") +
		" from the first by more than chance.")
}

// Suite is the headline of a suite of environments: which of n policies may have the highest score, after so many
// replications of which least are needed.
func Suite(first []string, n, runs, least int) Prose {
	switch {
	case runs < least:
		return Say("No ranking yet: " + things(runs, "replication") + ", a ranking needs " + chart.Count(least) + ".")
	case len(first) == n:
		return Say("Each of the " + number(n) + " policies may be first.")
	case len(first) == 1:
		return Say(first, " is first of "+number(n)+".")
	}
	return Say(these(first, "policy", "policies"), " may be first of "+number(n)+".")
}

// Gallery is the headline of a gallery without a title.
func Gallery(n int) Prose {
	switch n {
	case 0:
		return Say("No results yet.")
	case 1:
		return Say("One result, one click from its data.")
	}
	return Say(upper(number(n)) + " results, each one click from its data.")
}
