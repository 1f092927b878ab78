package report

import (
	"fmt"
	"slices"
	"strings"

	"troupe/internal/infer"
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
	if a.Estimand != infer.Mean {
		head, lead = a.byEstimand()
	} else {
		head, lead = a.general()
	}
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

// general is the verdict on all policies alike. Only the intervals of the mean decide; what else is seen, policies that
// lost more in most replications among it, has sentences of its own.
func (a *Analysis) general() (head Prose, lead []Prose) {
	best := a.Best()
	first := a.same(best) // more than one where policies lost the same
	A, n := say(first), len(first)
	has, it, each := plural(n, " has", " have"), plural(n, "it", "them"), plural(n, "it has", "each has")
	amount := chart.Amount(a.Summary[best].Mean, a.Dec)
	if a.R() < 2 {
		return say("Too few replications to compare (", chart.Count(a.R()), ")."),
			[]Prose{say("After ", many(a.T, a.Run.Manifest.Unit()), " the lowest regret is ", A, "’s, ", amount, ".")}
	}
	lost := amount + " ± " + chart.Amount(a.Summary[best].SE, a.Dec)
	open, behind, worse := a.split()
	reversed, _ := a.rare()
	switch {
	case a.Compared() == 1:
		head = say(A, " lost ", lost, " in ", many(a.T, a.Run.Manifest.Unit()), ".")
		lead = append(lead, say("It is the only policy", map[bool]string{true: " of this run",
			false: " here whose numbers are not rounding"}[len(a.Policies) == 1],
			", so there is nothing to compare it with."))
	case a.allSame():
		head = say(map[bool]any{true: first, false: "All " + chart.Count(n) + " policies"}[n <= 4], " lost the same.")
		lead = append(lead, say("After ", many(a.T, a.Run.Manifest.Unit()), " each has lost ", lost,
			", and no two of them differ in any of ", many(a.R(), "replication"), "."))
	case a.R() < minReps:
		head = say("Too few replications to compare (", chart.Count(a.R()), ").")
		lead = append(lead, say("Means only: after ", many(a.T, a.Run.Manifest.Unit()), " ", A, has, " the lowest, ",
			lost, ". From ", chart.Count(minReps), " replications on the report says which differences are more than "+
				"chance."))
	case len(open) == 0:
		next := a.Order[n]
		d := a.Diff[next]
		head = say(A, has, " the lowest regret.")
		lead = append(lead, say("After ", many(a.T, a.Run.Manifest.Unit()), " ", each, " lost ", lost, "; the next, ",
			name(a.Label(next)),
			", lost ", chart.Amount(d.Mean, a.Dec), " more [", chart.Amount(d.Lo, a.Dec), ", ",
			chart.Amount(d.Hi, a.Dec), "]."))
		if len(reversed) == 0 {
			lead[0] = say(lead[0], " All margins are more than chance explains ", a.chance(), ".")
		} else {
			head = say(A, has, " the lowest mean regret.")
		}
	case len(worse) == 0 && len(reversed) == 0:
		head = say("No policy stands out.")
		p := say("The lowest mean is ", A, "’s, ", lost, "; every difference of means may be chance at ",
			many(a.R(), "replication"), ".")
		next := a.Order[n]
		switch need := a.Diff[next].Need; {
		case need > tooMany*a.R():
			p = say(p, tooManyToTell(a.Label(next)))
		case need > 0:
			p = say(p, " About ", about(need), " would be needed to separate ", it, " from ", name(a.Label(next)),
				", if the difference is what it looks like.")
		}
		lead = append(lead, p)
	default:
		by := " cannot be told apart from " + it
		if len(behind) > 0 {
			by += " by the mean"
		}
		p := say("After ", many(a.T, a.Run.Manifest.Unit()), " ", each, " lost ", lost, ".")
		if len(open) <= 4 {
			head = say(A, has, " the lowest mean regret, but ", open, by, ".")
		} else {
			head = say(A, has, " the lowest mean regret, but ", chart.Count(len(open)), " others"+by+".")
			p = say(p, " Not separated from ", it, ": ", listed(open), ".")
		}
		lead = append(lead, say(p, a.needed(open, it)))
	}
	if len(worse) > 0 && len(open)+len(reversed) > 0 {
		lead[0] = say(lead[0], fmt.Sprintf(" On the same %s instances and the same noise ", chart.Count(a.R())),
			listed(worse), " lost more, by margins that chance does not explain ", a.chance(), ".")
	}
	if len(reversed) > 0 {
		lead = append(lead, a.reversed())
	}
	return head, append(lead, a.beside(behind)...)
}

// beside is what is said beside the verdict on the means: policies that lost more in most replications, the places, the
// shape of the regrets and rare losses.
func (a *Analysis) beside(behind []string) (out []Prose) {
	if len(behind) > 0 {
		out = append(out, say(listed(behind),
			" lost more in most replications, which chance does not explain; rare large losses leave the difference "+
				"of the means open."))
	}
	for _, p := range []Prose{a.places(), a.identical(), a.shape()} {
		if len(p) > 0 {
			out = append(out, p)
		}
	}
	return append(out, a.losses()...)
}

// split sorts the policies that did not lose the same as the best, in the order of their means: open by the interval of
// the mean, those of them that lost more in most replications, and worse. A margin that a rare loss would reverse is
// in none.
func (a *Analysis) split() (open, behind, worse []string) {
	for _, i := range a.Order[1:] {
		switch d := a.Diff[i]; {
		case d.Verdict == Behind:
			behind = append(behind, a.Label(i))
			open = append(open, a.Label(i))
		case d.Verdict == Tied:
			open = append(open, a.Label(i))
		case d.Verdict == Worse && !d.Rare.Reverses:
			worse = append(worse, a.Label(i))
		}
	}
	return open, behind, worse
}

// identical names policies that lost the same in every replication; nil where none did, and where all did, which is the
// headline.
func (a *Analysis) identical() Prose {
	if a.R() < 2 || a.allSame() {
		return nil
	}
	var p Prose
	met := map[string]bool{}
	for i := range a.Policies {
		group := a.same(i)
		if len(group) < 2 || met[group[0]] {
			continue
		}
		met[group[0]] = true
		if p != nil {
			p = say(p, " ")
		}
		p = say(p, listed(group), " lost the same in ", every(a.R(), "replication"), ".")
	}
	return p
}

// tooMany is the multiple of the present replications beyond which a forecast is only said to be beyond it.
const tooMany = 20

// tooManyToTell is what is said of such a forecast. It does not call the difference small: the interval may be wide.
func tooManyToTell(label string) Prose {
	return say(" More than 20 times as many replications would be needed to separate it from ", name(label),
		", if the difference is what it looks like.")
}

// needed says how many replications would separate the first tied policy from the best, which is called it or them.
func (a *Analysis) needed(tied []string, best string) Prose {
	for _, i := range a.Order[1:a.Compared()] {
		switch n := a.Diff[i].Need; {
		case a.Label(i) != tied[0]:
		case n > tooMany*a.R():
			return tooManyToTell(tied[0])
		case n > 0:
			return say(" About ", about(n), " replications would separate ", name(tied[0]),
				" from "+best+", if the difference is what it looks like.")
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
	switch {
	case len(t.order) == 0 && all[0].Estimand != infer.Mean:
		return say("The ", t.noun, " is the same for all policies in ", every(len(all), "environment"), "."), nil
	case len(t.order) == 0:
		return say("All policies lost the same in ", every(len(all), "environment"), "."),
			[]Prose{say("In no replication does one of them have another regret than the rest.")}
	case len(t.order) == 1:
		head, lead = t.oneWinner(all)
	default:
		head, lead = t.manyWinners(all)
	}
	if t.decided == 0 { // nothing is said that chance may have done
		least, most := all[0].R(), all[0].R()
		for _, a := range all {
			least, most = min(least, a.R()), max(most, a.R())
		}
		text := chart.Count(least)
		if least < most {
			text += " to " + chart.Count(most)
		}
		lead = slices.Insert(lead, 0, head)
		head = say("Too few replications to compare (", text, ").")
	}
	return head, append(lead, t.beside(all)...)
}

// winners are the policies of lowest mean regret over several environments. Policies that lost the same in an
// environment win it together.
type winners struct {
	order   [][]string     // those of lowest mean somewhere, by how often
	wins    map[string]int // in how many environments, by the first name
	alone   map[string]int // in how many by margins that chance does not explain
	equal   []string       // environments in which all lost the same: nothing wins them
	decided int            // environments with enough replications
	safe    []string       // policies that are clearly worse than the best in none: by the intervals of the mean alone
	behind  []string       // policies that lost more in most replications of some environment, where the mean is open
	where   int            // in how many environments all of behind did; 0 where the numbers differ
	noun    string         // mean regret
	chance  string         // at which level differences count
}

func tally(all []*Analysis) *winners {
	t := &winners{wins: map[string]int{}, alone: map[string]int{}, noun: nounOf(all[0].Estimand), chance: all[0].chance()}
	worse, behind := map[string]bool{}, map[string]int{}
	groups := winnersOf(all)
	for n, a := range all {
		if a.R() >= a.Estimand.Least() {
			t.decided++
		}
		only := true
		for i := range a.Policies {
			l := a.Label(i)
			switch v := a.Diff[i].Verdict; v {
			case Lowest, Same:
			case Behind, Tied:
				only = false
				behind[l] += b2i(v == Behind)
			default:
				worse[l] = true
			}
		}
		for _, p := range a.Missing {
			worse[a.Run.Manifest.Policies[p].Name] = true
		}
		w := groups[n]
		if w == nil {
			t.equal = append(t.equal, a.Name)
			continue
		}
		key := w[0]
		if t.wins[key] == 0 {
			t.order = append(t.order, w)
		}
		t.wins[key]++
		if only && a.R() >= a.Estimand.Least() && a.Compared() > 1 {
			t.alone[key]++
		}
	}
	slices.SortStableFunc(t.order, func(x, y []string) int { return t.wins[y[0]] - t.wins[x[0]] })
	for _, p := range all[0].Run.Manifest.Policies {
		if !worse[p.Name] {
			t.safe = append(t.safe, p.Name)
		}
		if k := behind[p.Name]; k > 0 {
			if len(t.behind) == 0 {
				t.where = k
			} else if t.where != k {
				t.where = 0
			}
			t.behind = append(t.behind, p.Name)
		}
	}
	return t
}

// winnersOf returns the policies of lowest mean of each environment; nil where all lost the same. Policies that share
// the lowest mean everywhere stay together; of others that share it somewhere the most frequent counts.
func winnersOf(all []*Analysis) [][]string {
	out := make([][]string, len(all))
	often := map[string]int{}
	for n, a := range all {
		if a.allSame() {
			continue
		}
		out[n] = a.same(a.Best())
		for _, l := range out[n] {
			often[l]++
		}
	}
	for n, w := range out {
		most := 0
		for _, l := range w {
			most = max(most, often[l])
		}
		out[n] = slices.DeleteFunc(w, func(l string) bool { return often[l] < most })
	}
	return out
}

// oneWinner is for one policy that has the lowest mean everywhere, or several that lost the same.
func (t *winners) oneWinner(all []*Analysis) (head Prose, lead []Prose) {
	w := t.order[0]
	n := t.wins[w[0]]
	everywhere := map[bool]string{true: every(n, "environment"), false: chart.Count(n) + " of " + many(len(all),
		"environment")}[n == len(all)]
	has, it := plural(len(w), " has", " have"), plural(len(w), "it", "them")
	switch {
	case t.decided < len(all):
		head = say(w, has, " the lowest "+t.noun+" in "+everywhere+".")
		return head, []Prose{say("Some have too few replications to say whether that is more than chance.")}
	case t.alone[w[0]] == n:
		head = say(w, has, " the lowest "+strings.TrimPrefix(t.noun, "mean ")+" in "+everywhere+".")
		if all[0].Estimand == infer.CVaR5 {
			head = say(w, has, " the lowest "+t.noun+" in "+everywhere+".")
		}
		lead = append(lead, allMargins(all))
	default:
		head = say(w, has, " the lowest "+t.noun+" in "+everywhere+", but "+plural(len(w), "is", "are")+" not alone.")
		if k := t.alone[w[0]]; k > 0 {
			lead = append(lead, say("In ", chart.Count(k),
				" of them all others lost more by margins that chance does not explain; in the rest some cannot be "+
					"told apart from ", it, "."))
		} else {
			lead = append(lead, say(plural(n, "There", "In each of them"),
				" some policy cannot be told apart from ", it, " ", t.chance, "."))
		}
	}
	won := func(l string) bool { return slices.Contains(w, l) }
	if safe := slices.DeleteFunc(slices.Clone(t.safe), won); len(safe) > 0 {
		lead = append(lead, say(listed(safe), plural(len(safe), " is", " are"), " never clearly worse either."))
	}
	return head, lead
}

// manyWinners is for different policies that have the lowest mean. What can be said is which policies are never clearly
// worse.
func (t *winners) manyWinners(all []*Analysis) (head Prose, lead []Prose) {
	total := chart.Count(len(all))
	lowest := t.lowest(total)
	chance := "Differences of means count when they are more than chance explains " + t.chance + "."
	if all[0].Estimand != infer.Mean {
		chance = strings.Replace(chance, " of means", "", 1)
	}
	if anyRare(all) {
		chance = "Differences of means count when their interval excludes zero " + t.chance + ". " + rareSomewhere
	}
	switch {
	case t.decided < len(all):
		few := "Some environments have"
		if t.decided == 0 {
			few = "The environments have"
		}
		return say("No policy has the lowest " + t.noun + " everywhere."),
			[]Prose{lowest, say(few, " too few replications to say whether that is more than chance.")}
	case len(t.safe) == len(all[0].Run.Manifest.Policies):
		where := "any of the " + many(len(all), "environment")
		if len(all) == 2 {
			where = "either environment"
		}
		return say("No policy stands out in ", where, "."), []Prose{lowest, say(chance)}
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

// beside are the sentences of several environments that decide nothing: policies that lost more in most replications
// where the means cannot be told apart, and environments in which all lost the same.
func (t *winners) beside(all []*Analysis) (out []Prose) {
	if n := len(t.behind); n > 0 {
		where := "of at least one environment"
		if t.where > 0 {
			where = "of " + chart.Count(t.where) + " of " + many(len(all), "environment")
		}
		out = append(out, say(listed(t.behind), " lost more than the policy of lowest mean in most replications "+where+
			", which chance does not explain; rare large losses leave the difference of the means open there."))
	}
	if n := len(t.equal); n > 0 {
		out = append(out, say("In ", listed(t.equal), " all policies lost the same."))
	}
	return out
}

// lowest says where each of the winners has the lowest mean.
func (t *winners) lowest(total string) Prose {
	p := say("The lowest " + t.noun + " is ")
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
		p = say(p, sep, w, "’s in ", chart.Count(t.wins[w[0]]))
		if i == 0 {
			p = say(p, " of ", total, " environments")
		}
	}
	return say(p, ".")
}

// Legend explains the marks of leader tables on one line: those that are there. "" when there are
// none.
func Legend(all []*Analysis) string {
	parts := marks(all)
	if len(parts) == 0 || !slices.ContainsFunc(all, func(a *Analysis) bool { return len(a.Policies) > 1 }) {
		return ""
	}
	first := Lowest.mark()
	for _, a := range all {
		if a.Diff[a.Best()].Verdict == Same {
			first = "the first row"
		}
	}
	return strings.Join(parts, ", ") + "; diff: " + shortOf(all[0].Estimand) + " minus that of " + first
}

// marks lists the marks of the analyses with their words.
func marks(all []*Analysis) (parts []string) {
	var seen [Rounding + 1]bool
	for _, a := range all {
		for _, d := range a.Diff {
			seen[d.Verdict] = true
		}
	}
	for v := Lowest; v <= Rounding; v++ {
		switch {
		case !seen[v]:
		case v == Same:
			parts = append(parts, v.mark()+" "+v.String()+" in every replication")
		default:
			parts = append(parts, v.mark()+" "+verdictWord(v, all[0].Estimand))
		}
	}
	return parts
}

// mark is the sign of a verdict.
func (v Verdict) mark() string {
	return [...]string{None: "", Lowest: "◆", Same: "=", Tied: "≈", Behind: "△", Worse: "▲", Rounding: "†"}[v]
}

// String returns the verdict in words.
func (v Verdict) String() string {
	return [...]string{None: "no verdict", Lowest: "lowest mean", Same: "the same",
		Tied: "can’t tell apart", Behind: "behind in most",
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
	if e.Horizon > 0 {
		facts = append(facts, "T = "+chart.Count(e.Horizon))
	}
	if e.Seed != nil {
		facts = append(facts, fmt.Sprintf("seed %d", *e.Seed))
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
