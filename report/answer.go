package report

import (
	"slices"
	"strings"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/report/headline"
)

// Prose is a sentence in which names are marked, so that the page can set them in weight.
type Prose = headline.Prose

// Span is a piece of a sentence.
type Span = headline.Span

// name is a part of a sentence that is marked.
type name = headline.Name

// say builds Prose from strings, names and lists of names.
func say(parts ...any) Prose { return headline.Say(parts...) }

// Answer is what a run says first, on its page, on a terminal and on its card in a gallery.
type Answer struct {
	Head    Prose   // the answer to the question of the page
	Lead    Prose   // what was measured, and how sure the answer is
	Careful []Prose // for the reader who asks how sure: the page folds them, the terminal prints them with --explain
}

// Answer returns the answer of a run: that of its first claim; of a run of DeepSea, who solves it; of a suite, which
// policies may be first; otherwise that of its environments.
func (run *Run) Answer() Answer {
	var all []*Analysis
	for e := range run.Envs {
		if a := Analyze(run, e); a != nil {
			all = append(all, a)
		}
	}
	out := answer(all)
	if s, _ := Scores(run); s != nil {
		out = s.answer(out)
	}
	if solved := SolvedBy(run); solved != nil {
		out = run.deep(solved, out)
	}
	if claims := run.Claims(); len(claims) > 0 {
		out = claimed(claims, run, out)
	}
	return out
}

// claimed puts the first claim of the spec before what else a run says.
func claimed(claims []Claim, run *Run, rest Answer) Answer {
	c := &claims[0]
	state := map[string]headline.State{holds: headline.Holds, contradicted: headline.Contradicted,
		openClaim: headline.Undecided, tooFewRuns: headline.TooFew, notAsked: headline.NotAsked}[c.Answer]
	head := headline.Claim(c.text(run.estimand()), state)
	if sum := summedRanges(claims); c.Range() && len(claims) > 1 {
		head = sum
	}
	return Answer{Head: head, Lead: rest.Head,
		Careful: slices.Concat([]Prose{rest.Lead}, rest.Careful)}
}

// deep says who solves DeepSea.
func (run *Run) deep(solved []*Solved, rest Answer) Answer {
	s := solved[0]
	m := &run.Manifest
	var agents []*headline.Agent
	for _, p := range s.Agents {
		agents = append(agents, &headline.Agent{Name: m.Policies[p].Name, Runs: make([][]bool, len(s.Sizes))})
	}
	for k := range s.Sizes {
		for r := range m.Replications {
			done := true // by every agent, so that they can be paired
			for i := range s.Agents {
				_, ok := s.Cells[i][k].Each[r]
				done = done && ok
			}
			for i := range s.Agents {
				if done {
					agents[i].Runs[k] = append(agents[i].Runs[k], s.Cells[i][k].Each[r])
				}
			}
		}
	}
	sizes := many(len(s.Sizes), "size")
	if n := len(s.Sizes); n > 1 {
		sizes += " from " + chart.Count(s.Sizes[0]) + " to " + chart.Count(s.Sizes[n-1])
	}
	return Answer{Head: headline.Deep(agents), Lead: say(s.title() + ", " + sizes + ", " + many(m.Replications, "seed") +
		" each, " + chart.Count(s.T) + " episodes."), Careful: slices.Concat([]Prose{say("Agents are told apart by the runs that exactly " +
		"one of the two solved: a sign test, corrected for all pairs (Holm, 5%).")}, []Prose{say("By mean regret: ", rest.Head)},
		rest.Careful)}
}

// title calls a kind of DeepSea by its name in bsuite.
func (s *Solved) title() string {
	if s.Kind == "deep-sea-stochastic" {
		return "bsuite’s DeepSea with noise"
	}
	return "bsuite’s DeepSea"
}

// answer is that of a suite.
func (s *Score) answer(rest Answer) Answer {
	var first []string
	for _, r := range s.Rows {
		if r.First {
			first = append(first, r.Policy)
		}
	}
	lead := say("The score of suite/"+s.Suite+" is 0 for uniform play and 1 for no regret; the highest is that of ",
		name(s.Rows[0].Policy), ", "+chart.Number(s.Rows[0].Mean, 3)+".")
	careful := slices.Concat([]Prose{rest.Head, rest.Lead}, rest.Careful)
	if p := s.Say(); p != nil {
		careful = slices.Insert(careful, 0, p)
	}
	return Answer{Head: headline.Suite(first, len(s.Rows), s.R, minReps), Lead: lead, Careful: careful}
}

// answer is that of environments.
func answer(all []*Analysis) Answer {
	switch len(all) {
	case 0:
		return Answer{Head: headline.Several(nil), Lead: say("There is nothing to compare yet: no environment has a replication " +
			"that every policy has finished.")}
	case 1:
		return all[0].Answer()
	}
	var envs []*headline.Environment
	for _, a := range all {
		envs = append(envs, sentences{a}.headline())
	}
	out := Answer{Head: headline.Several(envs), Lead: several(all), Careful: carefully(all)}
	if f, said := findings(all); f != nil {
		out.Careful = slices.Insert(out.Careful, 0, out.Head, said)
		out.Head = headline.Sweeps(f)
	}
	return out
}

// several says what was measured in several environments, and what is not sure.
func several(all []*Analysis) Prose {
	a := all[0]
	least, most := a.R(), a.R()
	for _, x := range all {
		least, most = min(least, x.R()), max(most, x.R())
	}
	runs := chart.Count(least)
	if least < most {
		runs += " to " + chart.Count(most)
	}
	lead := say(upperFirst(nounOf(a.Estimand)) + " after " + many(a.T, a.Run.Manifest.Unit()) + " in " +
		many(len(all), "environment") + ", " + runs + " runs of each policy.")
	switch {
	case least < a.Estimand.Least():
		return say(lead, sentences{a}.wanted())
	case anyRare(all):
		return say(lead, " In some environments a rare bad run could reverse a difference.")
	}
	return lead
}

// sentences say in words what an analysis found.
type sentences struct{ a *Analysis }

// wanted says how to get intervals.
func (se sentences) wanted() string {
	return " From " + chart.Count(se.a.Estimand.Least()) + " replications on there are intervals: run it again with --replications " +
		chart.Count(se.a.Estimand.Least()) + "; what is finished is kept."
}

// Answer is that of one environment.
func (a *Analysis) Answer() Answer {
	careful := sentences{a}.careful()
	out := Answer{Head: headline.One(sentences{a}.headline()), Lead: sentences{a}.lead()}
	if f := (swept{a}).finding(); f != nil { // for a sweep the finding is its curve
		careful = slices.Insert(careful, 0, out.Head)
		out.Head, out.Lead = headline.Sweep(f.curve()), say(f.exponentSaid(), " ", out.Lead)
	}
	loses, against := sentences{a}.versus()
	if against != nil {
		careful = slices.Insert(careful, 0, against)
	}
	if loses != nil { // the question that the spec asked comes first
		careful = slices.Insert(careful, 0, out.Head)
		out.Head = loses
	}
	out.Careful = careful
	return out
}

// Verdict is the answer as a headline and all sentences under it.
func (a *Analysis) Verdict() (head Prose, lead []Prose) { return a.Answer().all() }

// Headline is the same for several environments.
func Headline(all []*Analysis) (head Prose, lead []Prose) { return answer(all).all() }

func (a Answer) all() (head Prose, lead []Prose) {
	return a.Head, slices.DeleteFunc(slices.Concat([]Prose{a.Lead}, a.Careful), func(p Prose) bool { return len(p) == 0 })
}

// headline is what the table of the environment says, as values.
func (se sentences) headline() *headline.Environment {
	best := se.a.Best()
	e := &headline.Environment{Name: se.a.Name, Runs: se.a.R(), Least: se.a.Estimand.Least(), Lost: se.a.amount(se.a.Summary[best].Estimate),
		Rounds: many(se.a.T, se.a.Run.Manifest.Unit())}
	if se.a.Estimand != infer.Mean {
		e.Noun = nounOf(se.a.Estimand)
	} else if se.a.R() > 1 {
		e.Lost += " ± " + chart.Amount(se.a.Summary[best].SE, se.a.Dec)
	}
	for _, i := range se.a.Order {
		e.Policies = append(e.Policies, headline.Policy{Name: se.a.Label(i), Standing: se.a.stand(i)})
	}
	for _, p := range se.a.Missing {
		e.Policies = append(e.Policies, headline.Policy{Name: se.a.Run.Manifest.Policies[p].Name, Standing: headline.Out})
	}
	return e
}

// stand is what the interval of the table says about a policy.
func (a *Analysis) stand(i int) headline.Standing {
	d := &a.Pairs.Diff[i]
	switch d.Verdict {
	case Lowest:
		return headline.Lowest
	case Same:
		return headline.Equal
	case Rounding:
		return headline.Out
	case Worse:
		return headline.LosesMore
	}
	return headline.Judge(d.Lo, d.Hi, d.OK, a.Summary[a.Best()].Estimate)
}

// How says how sure it is that policy i loses more than the first one: sure where its interval for every law leaves zero
// out, likely where only the resampled one does.
func (a *Analysis) How(i int) headline.Confidence {
	d := &a.Pairs.Diff[i]
	if a.stand(i) != headline.LosesMore {
		return headline.Close
	}
	lo := 0.0
	if d.Exact {
		lo = d.ExactLo
	}
	return headline.How(1, 1, lo, 0)
}

// lead says what was measured and how sure it is.
func (se sentences) lead() Prose {
	if se.a.Compared() == 1 {
		return say("It is the only policy", map[bool]string{true: " of this run",
			false: " here whose numbers are not rounding"}[len(se.a.Policies) == 1], ", so there is nothing to compare it with.")
	}
	what := upperFirst(nounOf(se.a.Estimand)) + " after " + many(se.a.T, se.a.Run.Manifest.Unit()) + ", " + many(se.a.R(), "run") + " of each policy"
	if !se.a.Run.apart {
		what += " on the same instances and noise"
	}
	p := say(what + ".")
	switch {
	case se.a.allSame():
		return say(p, " No two of them differ in any run.")
	case se.a.R() < se.a.Estimand.Least():
		return say(p, se.wanted())
	}
	var sure, likely []string
	for _, i := range se.a.Order {
		switch {
		case se.a.How(i) == headline.Sure:
			sure = append(sure, se.a.Label(i))
		case se.a.How(i) == headline.Likely && !se.a.Pairs.Diff[i].Rare.Reverses:
			likely = append(likely, se.a.Label(i))
		}
	}
	rare, _ := reversible(se.a)
	if len(sure) > 0 {
		p = say(p, " Sure for ", briefly(sure), ".")
	}
	if len(likely) > 0 {
		p = say(p, " Likely for ", briefly(likely), " (95%, all pairs at once).")
	}
	if len(rare) > 0 {
		p = say(p, " A rare bad run could still reverse ", briefly(rare), ".")
	}
	if len(sure)+len(likely)+len(rare) == 0 {
		if open, _, _ := se.split(); len(open) > 0 {
			p = say(p, se.needed(open, se.a.Label(se.a.Best())))
		}
	}
	return p
}

// briefly lists at most four names.
func briefly(names []string) any {
	if len(names) > 4 {
		return chart.Count(len(names)) + " policies"
	}
	return names
}

// careful are the sentences for who asks how sure the answer is: margins, what a rare loss could do, the places, the shape
// of the regrets.
func (se sentences) careful() (out []Prose) {
	best := se.a.Best()
	first := se.a.same(best)
	lost := se.a.amount(se.a.Summary[best].Estimate)
	if se.a.Estimand == infer.Mean && se.a.R() > 1 {
		lost += " ± " + chart.Amount(se.a.Summary[best].SE, se.a.Dec)
	}
	switch {
	case se.a.Compared() == 1:
		return se.losses()
	case se.a.allSame():
		return append(out, say("Each of them lost ", lost, "."))
	case se.a.Estimand == infer.Mean && len(first) > 1:
		out = append(out, say(first, " lost ", lost, " each, the lowest mean."))
	case se.a.Estimand == infer.Mean:
		out = append(out, say(first, " lost ", lost, ", the lowest mean."))
	default:
		out = append(out, say("The lowest ", nounOf(se.a.Estimand), " is that of ", first, ", ", lost, "."))
	}
	if se.a.R() < se.a.Estimand.Least() {
		return append(out, se.losses()...)
	}
	open, behind, worse := se.split()
	if len(worse) > 0 {
		out = append(out, say(listed(worse), " lost more by margins that chance does not explain ", se.a.chance(), "."))
	}
	if len(open) > 0 {
		out = append(out, say(listed(open), " cannot be told apart from ", plural(len(first), "it", "them"), " by the "+
			shortOf(se.a.Estimand)+".", se.needed(open, plural(len(first), "it", "them"))))
	}
	if reversed, _ := reversible(se.a); len(reversed) > 0 {
		out = append(out, se.reversed())
	}
	if se.a.Estimand != infer.Mean {
		if p := se.places(); p != nil {
			out = append(out, p)
		}
		return append(out, se.losses()...)
	}
	return append(out, se.beside(behind)...)
}

// carefully are the same sentences for several environments.
func carefully(all []*Analysis) []Prose {
	t := tally(all)
	out := []Prose{}
	if len(t.order) > 0 {
		out = append(out, t.lowest(chart.Count(len(all))))
	}
	a := all[0]
	chance := "Policies lose more where the interval of the table leaves out zero " + t.chance + "."
	if anyRare(all) {
		chance += " " + rareSomewhere
	}
	if a.R() >= a.Estimand.Least() {
		out = append(out, say(chance))
	}
	return append(out, t.beside(all)...)
}

// findings are the curves of the same swept number in all environments, with their exponents in words; nil where one has
// none.
func findings(all []*Analysis) (out []*headline.Curve, exponents Prose) {
	var in []string
	var first *finding
	for _, a := range all {
		f := swept{a}.finding()
		if f == nil {
			return nil, nil
		}
		if first == nil {
			first = f
		}
		out, in = append(out, f.curve()), append(in, f.exponent()+" in "+a.Name)
	}
	text := "Exponents of " + first.path + " over " + valueLabel(first.first) + " to " + valueLabel(first.last) + ": " +
		strings.Join(in[:min(len(in), 4)], ", ")
	if len(in) > 4 {
		text += ", and " + chart.Count(len(in)-4) + " more"
	}
	return out, say(text + ".")
}
