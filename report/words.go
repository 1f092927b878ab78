package report

import (
	"fmt"
	"slices"
	"strings"

	"troupe/report/chart"
	"troupe/sim"
)

// beside is what is said beside the verdict on the means: policies that lost more in most replications, the places, the
// shape of the regrets and rare losses.
func (se sentences) beside(behind []string) (out []Prose) {
	if len(behind) > 0 {
		out = append(out, say(listed(behind),
			" lost more in most replications, which chance does not explain; rare large losses leave the difference "+
				"of the means open."))
	}
	for _, p := range []Prose{se.places(), se.identical(), se.shape()} {
		if len(p) > 0 {
			out = append(out, p)
		}
	}
	return append(out, se.losses()...)
}

// split sorts the policies that did not lose the same as the best, in the order of their means: open by the interval of
// the mean, those of them that lost more in most replications, and worse. A margin that a rare loss would reverse is
// in none.
func (se sentences) split() (open, behind, worse []string) {
	for _, i := range se.a.Order[1:] {
		switch d := se.a.Pairs.Diff[i]; {
		case d.Verdict == Behind:
			behind = append(behind, se.a.Label(i))
			open = append(open, se.a.Label(i))
		case d.Verdict == Tied:
			open = append(open, se.a.Label(i))
		case d.Verdict == Worse && !d.Rare.Reverses:
			worse = append(worse, se.a.Label(i))
		}
	}
	return open, behind, worse
}

// identical names policies that lost the same in every replication; nil where none did, and where all did, which is the
// headline.
func (se sentences) identical() Prose {
	if se.a.R() < 2 || se.a.allSame() {
		return nil
	}
	var p Prose
	met := map[string]bool{}
	for i := range se.a.Policies {
		group := se.a.same(i)
		if len(group) < 2 || met[group[0]] {
			continue
		}
		met[group[0]] = true
		if p != nil {
			p = say(p, " ")
		}
		p = say(p, listed(group), " lost the same in ", every(se.a.R(), "replication"), ".")
	}
	return p
}

// tooMany is the multiple of the present replications beyond which a forecast is only said to be beyond it.
const tooMany = 20

// needed says how many replications would separate the first tied policy from the best, which is called it or them, or by
// its name. A forecast far beyond the present replications does not call the difference small: the interval may be wide.
func (se sentences) needed(tied []string, best string) Prose {
	for _, i := range se.a.Order[1:se.a.Compared()] {
		switch n := se.a.Pairs.Diff[i].Need; {
		case se.a.Label(i) != tied[0]:
		case n > tooMany*se.a.R():
			return say(" More than 20 times as many replications would be needed to separate ", name(tied[0]), " from "+best+
				", if the difference is what it looks like.")
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
func (se sentences) shape() Prose {
	if se.a.Compared() < 2 {
		return nil
	}
	best := se.a.Best()
	var p Prose
	add := func(q Prose) {
		if p != nil {
			p = say(p, " ")
		}
		p = say(p, q)
	}
	med, tail := best, best
	for _, i := range se.a.Order[:se.a.Compared()] {
		if se.a.Summary[i].Median < se.a.Summary[med].Median {
			med = i
		}
		if se.a.Summary[i].Worst < se.a.Summary[tail].Worst {
			tail = i
		}
	}
	if med != best {
		s := se.a.Summary[med]
		q := say("Mean and median disagree: ", name(se.a.Label(med)), " has the lowest median, ",
			chart.Amount(s.Median, se.a.Dec))
		if s.NearLinear > 0 && s.NearLinear*10 >= se.a.R() {
			q = say(q, ", yet ", chart.Count(s.NearLinear), " of its ", chart.Count(se.a.R()),
				" replications still grow almost linearly")
		}
		add(say(q, "."))
	}
	if tail != best && se.a.R() >= minReps {
		add(say("In its worst 5% of replications ", name(se.a.Label(tail)), " loses least, ",
			chart.Amount(se.a.Summary[tail].Worst, se.a.Dec), " on average."))
	}
	var ahead []string
	for _, i := range se.a.Order[1:se.a.Compared()] {
		if se.a.R() >= minReps && se.a.Pairs.Diff[i].BehindHi < 0.5 && se.a.Pairs.Diff[i].Moving > 0 {
			ahead = append(ahead, se.a.Label(i))
		}
	}
	if n := len(ahead); n > 0 {
		add(say(listed(ahead), plural(n, " has a higher mean", " have higher means"),
			" but lost less in most replications."))
	}
	return p
}

// losses says which replications are in no comparison.
func (se sentences) losses() (out []Prose) {
	data := &se.a.Run.Envs[se.a.Env]
	most := se.a.Run.Manifest.Replications
	var rounded []string
	for i, yes := range se.a.Rounded {
		if yes {
			rounded = append(rounded, se.a.Label(i))
		}
	}
	if n := len(rounded); n > 0 {
		out = append(out, say("† ", listed(rounded), plural(n, " never leaves", " never leave"),
			" a proper subspace here in real arithmetic, so what the run shows of ", plural(n, "it", "them"),
			" is rounding; ", plural(n, "it is", "they are"), " in no comparison."))
	}
	for _, p := range se.a.Missing {
		out = append(out, say(name(se.a.Run.Manifest.Policies[p].Name),
			" finished no replication and is in no comparison."))
	}
	if se.a.R() < most {
		short := most
		for _, p := range se.a.Policies {
			short = min(short, data.Finished(p))
		}
		out = append(out, say(fmt.Sprintf("%s of %s replications are finished by every policy; only these are "+
			"compared.", chart.Count(se.a.R()), chart.Count(most))))
	}
	return out
}

// winners are the policies of lowest mean regret over several environments. Policies that lost the same in an
// environment win it together.
type winners struct {
	order  [][]string     // those of lowest mean somewhere, by how often
	wins   map[string]int // in how many environments, by the first name
	equal  []string       // environments in which all lost the same: nothing wins them
	behind []string       // policies that lost more in most replications of some environment, where the mean is open
	where  int            // in how many environments all of behind did; 0 where the numbers differ
	noun   string         // mean regret
	chance string         // at which level differences count
}

func tally(all []*Analysis) *winners {
	t := &winners{wins: map[string]int{}, noun: nounOf(all[0].Estimand), chance: all[0].chance()}
	behind := map[string]int{}
	groups := winnersOf(all)
	for n, a := range all {
		for i := range a.Policies {
			behind[a.Label(i)] += b2i(a.Pairs.Diff[i].Verdict == Behind)
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
	}
	slices.SortStableFunc(t.order, func(x, y []string) int { return t.wins[y[0]] - t.wins[x[0]] })
	for _, p := range all[0].Run.Manifest.Policies {
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
		if a.Pairs.Diff[a.Best()].Verdict == Same {
			first = "the first row"
		}
	}
	return strings.Join(parts, ", ") + "; diff: " + shortOf(all[0].Estimand) + " minus that of " + first
}

// marks lists the marks of the analyses with their words.
func marks(all []*Analysis) (parts []string) {
	var seen [Rounding + 1]bool
	for _, a := range all {
		for _, d := range a.Pairs.Diff {
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
		Tied: "too close to call", Behind: "too close, behind in most",
		Worse: "loses more", Rounding: "rounding, not compared"}[v]
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
