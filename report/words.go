package report

import (
	"fmt"
	"slices"
	"strings"

	"troupe/report/chart"
	"troupe/sim"
)

// Prose is a sentence in which names are marked, so that the page can set them in weight.
type Prose []Span

// Span is a piece of a sentence.
type Span struct {
	Text string
	Name bool // a policy or an environment
}

// String returns the sentence without marks.
func (p Prose) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.Text)
	}
	return b.String()
}

// say builds Prose from strings, names and lists of names.
func say(parts ...any) Prose {
	var p Prose
	for _, x := range parts {
		switch x := x.(type) {
		case string:
			p = append(p, Span{Text: x})
		case name:
			p = append(p, Span{Text: string(x), Name: true})
		case []string: // a, b and c
			for i, s := range x {
				switch {
				case i == 0:
				case i == len(x)-1:
					p = append(p, Span{Text: " and "})
				default:
					p = append(p, Span{Text: ", "})
				}
				p = append(p, Span{Text: s, Name: true})
			}
		case Prose:
			p = append(p, x...)
		default:
			panic("report: say: unknown part")
		}
	}
	return p
}

type name string

// Verdict is what the report says about one environment: one headline and a few sentences. It is a
// function of the analysis, so nothing is said that the tables do not show. The templates are
// chosen by conditions, first match.
func (a *Analysis) Verdict() (head Prose, lead []Prose) {
	head, lead = a.general()
	if f := a.finding(); f != nil { // for a sweep the finding is its curve
		curve, low := f.say()
		head, lead = curve, slices.Concat([]Prose{low, head}, lead)
	}
	loses, against := a.versus()
	if loses != nil { // the question the spec asked comes first
		lead[0] = say(head, " ", lead[0])
		head = loses
	}
	if against != nil {
		lead = slices.Insert(lead, 1, against)
	}
	return head, lead
}

// general is the verdict on all policies alike.
func (a *Analysis) general() (head Prose, lead []Prose) {
	best := a.Best()
	b := a.Summary[best]
	A := name(a.Label(best))
	if a.R() < 2 {
		return say("Too few replications to compare (", chart.Count(a.R()), ")."),
			[]Prose{say("After ", many(a.T, "round"), " the lowest regret is ", A, "’s, ", chart.Amount(b.Mean, a.Dec),
				".")}
	}
	lost := chart.Amount(b.Mean, a.Dec) + " ± " + chart.Amount(b.SE, a.Dec)
	var tied, behind, worse []string
	open, _ := a.rare()
	for _, i := range a.Order[1:] {
		switch a.Diff[i].Verdict {
		case Tied:
			tied = append(tied, a.Label(i))
		case Behind:
			behind = append(behind, a.Label(i))
		case Worse:
			if !a.Diff[i].Rare.Reverses {
				worse = append(worse, a.Label(i))
			}
		}
	}
	switch {
	case a.Compared() == 1:
		head = say(A, " lost ", lost, " in ", many(a.T, "round"), ".")
		lead = append(lead, say("It is the only policy", map[bool]string{true: " of this run",
			false: " here whose numbers are not rounding"}[len(a.Policies) == 1],
			", so there is nothing to compare it with."))
	case a.R() < minReps:
		head = say("Too few replications to compare (", chart.Count(a.R()), ").")
		lead = append(lead, say("Means only: after ", many(a.T, "round"), " ", A, " has the lowest, ", lost,
			". From ", chart.Count(minReps), " replications on the report says which differences are more than "+
				"chance."))
	case len(tied) == 0 && len(behind) == 0:
		second := a.Order[1]
		d := a.Diff[second]
		head = say(A, " has the lowest regret.")
		lead = append(lead, say("After ", many(a.T, "round"), " it has lost ", lost, "; the next, ",
			name(a.Label(second)),
			", lost ", chart.Amount(d.Mean, a.Dec), " more [", chart.Amount(d.Lo, a.Dec), ", ",
			chart.Amount(d.Hi, a.Dec), "]."))
		if len(open) == 0 {
			lead[0] = say(lead[0], " All margins are more than chance explains (95"+chart.Narrow+"%, all pairs at "+
				"once).")
		} else {
			head = say(A, " has the lowest mean regret.")
		}
	case len(tied) == 0:
		head = say(A, " has the lowest mean regret, and every other policy lost more in most replications.")
		lead = append(lead, say("After ", many(a.T, "round"), " it has lost ", lost, "."))
	case len(worse) == 0 && len(behind) == 0 && len(open) == 0:
		head = say("No policy stands out.")
		p := say("The lowest mean is ", A, "’s, ", lost, "; every difference may be chance at ",
			many(a.R(), "replication"), ".")
		next := a.Order[1]
		switch n := a.Diff[next].Need; {
		case n > tooMany*a.R():
			p = say(p, tooManyToTell(a.Label(next)))
		case n > 0:
			p = say(p, " About ", about(n), " would be needed to separate it from ", name(a.Label(next)),
				", if the difference is what it looks like.")
		}
		lead = append(lead, p)
	case len(tied) <= 4:
		head = say(A, " has the lowest mean regret, but ", tied, " cannot be told apart from it.")
		lead = append(lead, say("After ", many(a.T, "round"), " it has lost ", lost, ".", a.needed(tied)))
	default:
		head = say(A, " has the lowest mean regret, but ", chart.Count(len(tied)),
			" others cannot be told apart from it.")
		lead = append(lead, say("After ", many(a.T, "round"), " it has lost ", lost, ". Not separated from it: ",
			listed(tied), ".", a.needed(tied)))
	}
	if len(worse) > 0 && len(tied)+len(behind)+len(open) > 0 {
		lead[0] = say(lead[0], fmt.Sprintf(" On the same %s instances and the same noise ", chart.Count(a.R())),
			listed(worse),
			" lost more, by margins that chance does not explain (95"+chart.Narrow+"%, all pairs at once).")
	}
	if len(open) > 0 {
		lead = append(lead, a.reversed())
	}
	if len(behind) > 0 {
		lead = append(lead, say(listed(behind),
			" lost more in most replications, which chance does not explain either; rare large losses leave the "+
				"difference of the means open."))
	}
	if extra := a.shape(); len(extra) > 0 {
		lead = append(lead, extra)
	}
	lead = append(lead, a.losses()...)
	return head, lead
}

// tooMany is the multiple of the present replications beyond which a forecast is only said to be beyond it.
const tooMany = 20

// tooManyToTell is what is said of such a forecast. It does not call the difference small: the interval may be wide.
func tooManyToTell(label string) Prose {
	return say(" More than 20 times as many replications would be needed to separate it from ", name(label),
		", if the difference is what it looks like.")
}

// needed says how many replications would separate the first tied policy from the best.
func (a *Analysis) needed(tied []string) Prose {
	for _, i := range a.Order[1:a.Compared()] {
		switch n := a.Diff[i].Need; {
		case a.Label(i) != tied[0]:
		case n > tooMany*a.R():
			return tooManyToTell(tied[0])
		case n > 0:
			return say(" About ", about(n), " replications would separate ", name(tied[0]),
				" from it, if the difference is what it looks like.")
		}
	}
	return nil
}

// listed shortens a long list of names to its length.
func listed(names []string) any {
	if len(names) > 6 {
		return say(slices.Clone(names[:5]), fmt.Sprintf(" (and %d more)", len(names)-5))
	}
	return names
}

// about rounds to two digits: an extrapolation does not know more.
func about(n int) string {
	step := 1
	for n/step >= 100 {
		step *= 10
	}
	return chart.Count((n + step/2) / step * step)
}

// shape says where mean, median and tail tell different stories.
func (a *Analysis) shape() Prose {
	if a.Compared() < 2 {
		return nil
	}
	best := a.Best()
	var p Prose
	add := func(q Prose) {
		if p != nil {
			p = say(p, " ")
		}
		p = say(p, q)
	}
	med, tail := best, best
	for _, i := range a.Order[:a.Compared()] {
		if a.Summary[i].Median < a.Summary[med].Median {
			med = i
		}
		if a.Summary[i].Worst < a.Summary[tail].Worst {
			tail = i
		}
	}
	if med != best {
		s := a.Summary[med]
		q := say("Mean and median disagree: ", name(a.Label(med)), " has the lowest median, ",
			chart.Amount(s.Median, a.Dec))
		if s.NearLinear > 0 && s.NearLinear*10 >= a.R() {
			q = say(q, ", yet ", chart.Count(s.NearLinear), " of its ", chart.Count(a.R()),
				" replications still grow almost linearly")
		}
		add(say(q, "."))
	}
	if tail != best && a.R() >= minReps {
		add(say("In its worst 5"+chart.Narrow+"% of replications ", name(a.Label(tail)), " loses least, ",
			chart.Amount(a.Summary[tail].Worst, a.Dec), " on average."))
	}
	var ahead []string
	for _, i := range a.Order[1:a.Compared()] {
		if a.R() >= minReps && a.Diff[i].BehindHi < 0.5 && a.Diff[i].Moving > 0 {
			ahead = append(ahead, a.Label(i))
		}
	}
	if n := len(ahead); n > 0 {
		add(say(listed(ahead), plural(n, " has a higher mean", " have higher means"),
			" but lost less in most replications."))
	}
	return p
}

// losses says which replications are in no comparison.
func (a *Analysis) losses() (out []Prose) {
	data := &a.Run.Envs[a.Env]
	most := a.Run.Manifest.Replications
	var rounded []string
	for i, yes := range a.Rounded {
		if yes {
			rounded = append(rounded, a.Label(i))
		}
	}
	if n := len(rounded); n > 0 {
		out = append(out, say("† ", listed(rounded), plural(n, " never leaves", " never leave"),
			" a proper subspace here in real arithmetic, so what the run shows of ", plural(n, "it", "them"),
			" is rounding; ", plural(n, "it is", "they are"), " in no comparison."))
	}
	for _, p := range a.Missing {
		out = append(out, say(name(a.Run.Manifest.Policies[p].Name),
			" finished no replication and is in no comparison."))
	}
	if a.R() < most {
		short := most
		for _, p := range a.Policies {
			short = min(short, data.Finished(p))
		}
		out = append(out, say(fmt.Sprintf("%s of %s replications are finished by every policy; only these are "+
			"compared.", chart.Count(a.R()), chart.Count(most))))
	}
	return out
}

// ranking sums up several environments; with one it is that environment's verdict.
func ranking(all []*Analysis) (head Prose, lead []Prose) {
	switch len(all) {
	case 0:
		return say("No replication is complete."),
			[]Prose{say("There is nothing to compare yet: no environment has a replication that every policy has " +
				"finished.")}
	case 1:
		return all[0].Verdict()
	}
	t := tally(all)
	if len(t.order) == 1 {
		return t.oneWinner(all)
	}
	return t.manyWinners(all)
}

// winners are the policies of lowest mean regret over several environments, by label.
type winners struct {
	order   []string       // those of lowest mean somewhere, by how often
	wins    map[string]int // in how many environments
	alone   map[string]int // in how many by margins that chance does not explain
	decided int            // environments with enough replications
	safe    []string       // policies that are clearly worse than the best in none
}

func tally(all []*Analysis) *winners {
	t := &winners{wins: map[string]int{}, alone: map[string]int{}}
	never := map[string]bool{} // policies that are nowhere worse
	for n, a := range all {
		w := a.Label(a.Best())
		if t.wins[w] == 0 {
			t.order = append(t.order, w)
		}
		t.wins[w]++
		if a.R() >= minReps {
			t.decided++
		}
		ok := map[string]bool{}
		only := true
		for i := range a.Policies {
			switch a.Diff[i].Verdict {
			case Lowest:
				ok[a.Label(i)] = true
			case Tied, Behind:
				ok[a.Label(i)] = a.Diff[i].Verdict == Tied
				only = false
			}
		}
		if only && a.R() >= minReps && a.Compared() > 1 {
			t.alone[w]++
		}
		for k := range never {
			if !ok[k] {
				never[k] = false
			}
		}
		if n == 0 {
			never = ok
		}
	}
	slices.SortStableFunc(t.order, func(x, y string) int { return t.wins[y] - t.wins[x] })
	for i := range all[0].Policies {
		if l := all[0].Label(i); never[l] {
			t.safe = append(t.safe, l)
		}
	}
	return t
}

// oneWinner is for one policy that has the lowest mean everywhere.
func (t *winners) oneWinner(all []*Analysis) (head Prose, lead []Prose) {
	w := t.order[0]
	every := "all " + chart.Count(len(all))
	if len(all) == 2 {
		every = "both"
	}
	switch {
	case t.decided < len(all):
		head = say(name(w), " has the lowest mean regret in "+every+" environments.")
		return head, []Prose{say("Some have too few replications to say whether that is more than chance.")}
	case t.alone[w] == len(all):
		head = say(name(w), " has the lowest regret in "+every+" environments.")
		lead = append(lead, allMargins(all))
	default:
		head = say(name(w), " has the lowest mean regret in "+every+" environments, but is not alone.")
		if t.alone[w] > 0 {
			lead = append(lead, say("In ", chart.Count(t.alone[w]),
				" of them all others lost more by margins that chance does not explain; in the rest some cannot be "+
					"told apart from it."))
		} else {
			lead = append(lead, say("In each of them some policy cannot be told apart from it "+
				"(95"+chart.Narrow+"%, all pairs at once)."))
		}
	}
	if safe := slices.DeleteFunc(slices.Clone(t.safe), func(l string) bool { return l == w }); len(safe) > 0 {
		lead = append(lead, say(listed(safe), plural(len(safe), " is", " are"), " never clearly worse either."))
	}
	return head, lead
}

// manyWinners is for different policies that have the lowest mean. What can be said is which policies are never clearly
// worse.
func (t *winners) manyWinners(all []*Analysis) (head Prose, lead []Prose) {
	total := chart.Count(len(all))
	lowest := t.lowest(total)
	chance := "Differences count when they are more than chance explains (95" + chart.Narrow +
		"%, all pairs of an environment at once)."
	if anyRare(all) {
		chance = "Differences count when their interval excludes zero (95" + chart.Narrow +
			"%, all pairs of an environment at once). " + rareSomewhere
	}
	switch {
	case t.decided < len(all):
		few := "Some environments have"
		if t.decided == 0 {
			few = "The environments have"
		}
		return say("No policy has the lowest mean regret everywhere."),
			[]Prose{lowest, say(few, " too few replications to say whether that is more than chance.")}
	case len(t.safe) == len(all[0].Policies):
		return say("No policy stands out in any of the ", total, " environments."), []Prose{lowest, say(chance)}
	case len(t.safe) == 0:
		return say("Which policy is best depends on the environment."),
			[]Prose{lowest, say("Every policy is clearly worse than the best in at least one of them. ", chance)}
	case len(t.safe) == 1:
		return say("Only ", t.safe, " is never clearly worse than the best."), []Prose{lowest, say(chance)}
	case len(t.safe) <= 3:
		return say(t.safe, " are never clearly worse than the best."), []Prose{lowest, say(chance)}
	}
	return say(chart.Count(len(t.safe)), " policies are never clearly worse than the best."),
		[]Prose{say("They are ", listed(t.safe), "."), lowest, say(chance)}
}

// lowest says where each of the winners has the lowest mean.
func (t *winners) lowest(total string) Prose {
	p := say("The lowest mean regret is ")
	for i, w := range t.order {
		if i == 3 && len(t.order) > 4 {
			p = say(p, fmt.Sprintf(" and that of %d others in the rest", len(t.order)-3))
			break
		}
		sep := ", "
		if i == 0 {
			sep = ""
		} else if i == len(t.order)-1 {
			sep = " and "
		}
		p = say(p, sep, name(w), "’s in ", chart.Count(t.wins[w]))
		if i == 0 {
			p = say(p, " of ", total, " environments")
		}
	}
	return say(p, ".")
}

// Legend explains the marks of leader tables on one line: those that are there. "" when there are
// none.
func Legend(all []*Analysis) string {
	var seen [Rounding + 1]bool
	for _, a := range all {
		for _, d := range a.Diff {
			seen[d.Verdict] = true
		}
	}
	var parts []string
	for v := Lowest; v <= Rounding; v++ {
		if seen[v] {
			parts = append(parts, v.mark()+" "+v.String())
		}
	}
	if len(parts) == 0 || !slices.ContainsFunc(all, func(a *Analysis) bool { return len(a.Policies) > 1 }) {
		return ""
	}
	return strings.Join(parts, ", ") + "; diff: mean minus that of " + Lowest.mark()
}

// mark is the sign of a verdict.
func (v Verdict) mark() string {
	return [...]string{None: "", Lowest: "◆", Tied: "≈", Behind: "△", Worse: "▲", Rounding: "†"}[v]
}

// String returns the verdict in words.
func (v Verdict) String() string {
	return [...]string{None: "no verdict", Lowest: "lowest mean", Tied: "can’t tell apart", Behind: "behind in most",
		Worse: "worse", Rounding: "rounding, not compared"}[v]
}

// environmentFacts describes an environment in a few words: d = 10, 50 fixed arms, Gaussian noise.
func environmentFacts(e sim.EnvironmentRow) (facts []string) {
	defer func() { // not what the name says already
		squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		facts = slices.DeleteFunc(facts, func(f string) bool { return squeeze(f) == squeeze(e.Name) })
	}()
	if e.Kind != "linear" {
		facts = append(facts, e.Kind)
	}
	if e.Dim > 0 {
		facts = append(facts, "d = "+chart.Count(e.Dim))
	}
	if set, ok := e.Options["set"].(map[string]any); ok {
		facts = append(facts, describeSet(set))
	}
	if noise, ok := e.Options["noise"].(map[string]any); ok {
		facts = append(facts, describeNoise(noise))
	}
	if e.Feedback != nil {
		facts = append(facts, describeFeedback(e.Feedback))
	}
	return facts
}

func describeSet(o map[string]any) string {
	kind, _ := o["kind"].(string)
	switch arms, _ := o["arms"].(float64); {
	case kind == "ball":
		return "unit ball"
	case kind == "random-sphere" && arms > 0:
		if o["redraw"] == true {
			return chart.Count(int(arms)) + " random arms, new each round"
		}
		return chart.Count(int(arms)) + " random arms"
	}
	return options(kind, o)
}

// describeFeedback says when rewards arrive.
func describeFeedback(o map[string]any) string {
	var parts []string
	if d, ok := o["delay"].(map[string]any); ok {
		kind, _ := d["kind"].(string)
		parts = append(parts, "delayed: "+options(kind, d))
	}
	if b, ok := o["batch"].(float64); ok {
		parts = append(parts, "in batches of "+chart.Count(int(b)))
	}
	return "rewards " + strings.Join(parts, ", ")
}

func describeNoise(o map[string]any) string {
	kind, _ := o["kind"].(string)
	if sigma, ok := o["sigma"].(float64); ok && kind == "gaussian" {
		return fmt.Sprintf("Gaussian noise, σ = %v", sigma)
	}
	return options(kind, o) + " noise"
}

// options writes a table of options on one line: kind(a=1, b=2).
func options(kind string, o map[string]any) string {
	var in []string
	for k, v := range o {
		switch v.(type) {
		case float64, string, bool:
			if k != "kind" {
				in = append(in, fmt.Sprintf("%s=%v", k, v))
			}
		}
	}
	slices.Sort(in)
	if in == nil {
		return kind
	}
	return kind + "(" + strings.Join(in, ", ") + ")"
}
