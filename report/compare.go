package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"troupe/internal/infer"
	"troupe/internal/stats"
	"troupe/report/chart"
	"troupe/report/headline"
	"troupe/rng"
)

// Comparison is two runs side by side: which numbers differ, and by how much a policy's regret
// changed from A to B.
type Comparison struct {
	A, B     *Run
	SameSpec bool
	SameSeed bool
	Estimand infer.Estimand // that both fix; the mean where they fix different ones
	Numbers  int            // values both runs have, for the same cell and checkpoint
	Differ   int            // of these, how many are not the same number
	First    string         // the first that differs, in words
	Rows     []Change
	OnlyA    []string // environment / policy that B does not have
	OnlyB    []string

	looks []chart.Look
}

// Change is one policy in one environment: B minus A at the last checkpoint both have, paired by
// replication.
type Change struct {
	Env, Policy  string
	Round        int
	R            int // replications both have
	Same         int // of these, how many have the same regret
	MeanA, MeanB float64
	Mean, SE     float64
	Lo, Hi       float64 // simultaneous over all rows; only if OK
	OK           bool
	Factor       float64
	Dec          int
	Rare         stats.Rare // how rare a loss would reverse the change; only where the interval excludes zero
	loss         float64    // what a run can lose, from the largest regret of a round in either run
	look         int
}

// Compare loads two result directories and compares what they have in common. Replications are
// paired by number: with the same seed and spec they share instances and noise; with different
// seeds the pairs are independent, and pairing gains nothing and costs nothing.
func Compare(dirA, dirB string) (*Comparison, error) {
	a, err := Load(dirA)
	if err != nil {
		return nil, err
	}
	b, err := Load(dirB)
	if err != nil {
		return nil, err
	}
	return compareRuns(a, b), nil
}

func compareRuns(a, b *Run) *Comparison { return compareAll(a, []*Run{b})[0] }

// compareAll compares a run with each of others; the intervals hold for all rows of all comparisons at once. The
// estimand is that of all runs, the mean where they fix different ones.
func compareAll(a *Run, others []*Run) []*Comparison {
	e := a.estimand()
	for _, b := range others {
		if b.estimand() != e {
			e = infer.Mean
		}
	}
	var all []*Comparison
	var contrasts []infer.Contrast
	for _, b := range others {
		c, more := pairUp(a, b, e)
		all, contrasts = append(all, c), append(contrasts, more...)
	}
	judge(all, contrasts)
	return all
}

// pairUp finds what two runs have in common: a row and a contrast, B minus A, for each environment and policy of both.
func pairUp(a, b *Run, estimand infer.Estimand) (*Comparison, []infer.Contrast) {
	c := &Comparison{A: a, B: b, Estimand: estimand,
		SameSpec: a.Manifest.SpecSHA256 == b.Manifest.SpecSHA256 && a.Manifest.Spec == b.Manifest.Spec,
		SameSeed: a.Manifest.Seed == b.Manifest.Seed}
	c.looks, _ = looksOf(a.Manifest.Policies)
	envB, polB := map[string]int{}, map[string]int{}
	for i, e := range b.Manifest.Environments {
		envB[e.Name] = i
	}
	for i, p := range b.Manifest.Policies {
		polB[p.Name] = i
	}
	var contrasts []infer.Contrast // B minus A, of each row
	met := map[string]bool{}
	for i, e := range a.Manifest.Environments {
		for p, pol := range a.Manifest.Policies {
			label := e.Name + " / " + pol.Name
			j, ok1 := envB[e.Name]
			q, ok2 := polB[pol.Name]
			if !ok1 || !ok2 {
				c.OnlyA = append(c.OnlyA, label)
				continue
			}
			met[label] = true
			ch, d := c.change(e.Name, pol.Name, &a.Envs[i], &b.Envs[j], p, q)
			if ch.R == 0 {
				continue
			}
			ch.look = p
			contrasts, c.Rows = append(contrasts, d), append(c.Rows, ch)
		}
	}
	for _, e := range b.Manifest.Environments {
		for _, p := range b.Manifest.Policies {
			if label := e.Name + " / " + p.Name; !met[label] {
				c.OnlyB = append(c.OnlyB, label)
			}
		}
	}
	return c, contrasts
}

// judge fills in the intervals, which hold for all rows of all comparisons at once. All have one run A and one
// estimand.
func judge(all []*Comparison, contrasts []infer.Contrast) {
	var rows []*Change
	draws := map[int]infer.Draw{} // rows with different numbers of replications are resampled apart
	for _, c := range all {
		for i := range c.Rows {
			n := c.Rows[i].R
			draws[n] = drawFrom(rng.NewKey(c.A.Manifest.Seed).Child("compare").At(uint64(n)).Stream(rng.Resample))
			rows = append(rows, &c.Rows[i])
		}
	}
	c := all[0]
	f := infer.Simultaneous(c.Estimand, contrasts, level, bySize(draws))
	for k, i := range f.Each {
		ch := rows[k]
		if c.Estimand != infer.Mean {
			ch.MeanA, ch.MeanB = c.Estimand.Of(contrasts[k].Y), c.Estimand.Of(contrasts[k].X)
		}
		ch.Mean, ch.SE, ch.Lo, ch.Hi, ch.OK, ch.Factor = i.Value, i.SE, i.Lo, i.Hi, i.OK, f.Factor[k]
		if c.Estimand == infer.Mean && ch.loss > 0 && ch.SE > 0 && (i.Above() || i.Below()) {
			away := make([]float64, ch.R)
			for r := range away {
				away[r] = math.Copysign(1, ch.Mean) * (contrasts[k].X[r] - contrasts[k].Y[r])
			}
			ch.Rare = stats.RareLoss(away, ch.loss, 1-level)
		}
	}
}

// change compares one policy in one environment and counts equal numbers.
func (c *Comparison) change(env, pol string, ea, eb *EnvData, p, q int) (Change, infer.Contrast) {
	ch, none := Change{Env: env, Policy: pol}, infer.Contrast{}
	at := map[int]int{}
	for k, t := range eb.Rounds {
		at[t] = k
	}
	var both []int // checkpoints of both
	var in [][2]int
	for k, t := range ea.Rounds {
		if kb, ok := at[t]; ok {
			both, in = append(both, t), append(in, [2]int{k, kb})
		}
	}
	half := infer.Halfway(both)
	if len(both) == 0 || half < 0 && c.Estimand == infer.ShareLost {
		return ch, none
	}
	ch.Round = both[len(both)-1]
	value := func(cell *CellRun, side int) float64 {
		end := cell.Regret[in[len(in)-1][side]]
		if c.Estimand != infer.ShareLost {
			return end
		}
		return float64(b2i(infer.Lost(cell.Regret[in[half][side]], end, float64(ch.Round)/float64(both[half]))))
	}
	var xa, xb []float64
	for r := range min(len(ea.Cells[p]), len(eb.Cells[q])) {
		x, y := ea.Cells[p][r], eb.Cells[q][r]
		if x == nil || y == nil {
			continue
		}
		for k, t := range ea.Rounds {
			kb, ok := at[t]
			if !ok {
				continue
			}
			for _, v := range [2]struct {
				what string
				a, b float64
			}{{"regret", x.Regret[k], y.Regret[kb]}, {"reward", x.Reward[k], y.Reward[kb]}} {
				c.Numbers++
				if v.a != v.b {
					if c.Differ++; c.First == "" {
						c.First = fmt.Sprintf("%s of %s in %s, replication %d, round %d: %v in A, %v in B", v.what, pol,
							env, r+1, t, v.a, v.b)
					}
				}
			}
		}
		for _, run := range [2]struct {
			at     []int
			regret []float64
		}{{ea.Rounds, x.Regret}, {eb.Rounds, y.Regret}} {
			for k, t := range run.at { // as Analysis.largestLoss
				if 100*t >= ch.Round && t <= ch.Round {
					ch.loss = math.Max(ch.loss, run.regret[k]/float64(t)*float64(ch.Round))
				}
			}
		}
		xa, xb = append(xa, value(x, 0)), append(xb, value(y, 1))
		ch.Same += b2i(xa[ch.R] == xb[ch.R])
		ch.R++
	}
	if ch.R == 0 {
		return ch, none
	}
	ch.MeanA, ch.MeanB = mean(xa), mean(xb)
	se := 0.0
	if ch.R > 1 {
		se = stderr(xa)
	}
	if ch.Dec = decimals(se, ch.MeanA); c.Estimand == infer.ShareLost {
		ch.Dec = 2
	}
	return ch, infer.Contrast{X: xb, Y: xa}
}

// Names are what a reader calls the two runs: by their seeds, their versions, or their order.
func (c *Comparison) Names() (first, second string) {
	a, b := &c.A.Manifest, &c.B.Manifest
	switch {
	case a.Seed != b.Seed:
		return fmt.Sprintf("seed %d", a.Seed), fmt.Sprintf("seed %d", b.Seed)
	case a.Troupe != b.Troupe:
		return "troupe " + a.Troupe, "troupe " + b.Troupe
	}
	return "the first run", "the second run"
}

// Answer says whether anything changed: the answer, what was compared and what could hide, and the sentences for who asks
// how sure it is.
func (c *Comparison) Answer() Answer {
	pair := &headline.Pair{SameSeed: c.SameSeed, Equal: c.Numbers > 0 && c.Differ == 0}
	pair.First, pair.Second = c.Names()
	if c.Estimand != infer.Mean {
		pair.Noun = nounOf(c.Estimand)
	}
	several := len(c.A.Manifest.Environments) > 1
	var widest *Change
	for i := range c.Rows {
		r := &c.Rows[i]
		x := headline.Change{Policy: r.Policy, Lo: r.Lo, Hi: r.Hi, OK: r.OK, Runs: r.R, Same: r.Same}
		if several {
			x.Environment = r.Env
		}
		pair.Changes = append(pair.Changes, x)
		if r.word() == unseen && (widest == nil || r.hidden() > widest.hidden()) {
			widest = r
		}
	}
	out := Answer{Head: headline.Compare(pair)}
	if len(c.Rows) == 0 {
		return out
	}
	what := "Two runs"
	if e := c.A.Manifest.Experiment; e != "" && e == c.B.Manifest.Experiment {
		what += " of " + e
	}
	least := c.Rows[0].R
	for _, r := range c.Rows {
		least = min(least, r.R)
	}
	what += ", " + many(least, "replication") + " each"
	if !c.SameSeed {
		what += ", on different instances"
	}
	out.Lead = say(what + ".")
	switch {
	case pair.Equal:
		out.Lead = say(what+": all ", chart.Count(c.Numbers), " numbers that both have are the same.")
	case widest != nil:
		where := say(name(widest.Policy))
		if several {
			where = say(where, " in ", name(widest.Env))
		}
		out.Lead = say(out.Lead, " The largest change that could hide is ", chart.Amount(widest.hidden(), widest.Dec), " (", where, ").")
	}
	if a, b := c.A.estimand(), c.B.estimand(); a != b {
		out.Lead = say(out.Lead, fmt.Sprintf(" The runs fix different estimands (%v and %v), so their means are compared.", a, b))
	}
	out.Careful = c.careful()
	return out
}

// hidden is the largest change that the interval leaves.
func (r *Change) hidden() float64 { return math.Max(math.Abs(r.Lo), math.Abs(r.Hi)) }

// What is said of a change.
const (
	unseen     = "no change seen"
	equalWords = "the same"
	fewWords   = "too few runs"
)

// word says what a row shows.
func (r *Change) word() string {
	switch {
	case r.Same == r.R:
		return equalWords
	case !r.OK:
		return fewWords
	case r.Lo > 0:
		return "lost more"
	case r.Hi < 0:
		return "lost less"
	}
	return unseen
}

// Verdict is the answer as a headline and all sentences under it.
func (c *Comparison) Verdict() (head Prose, lead []Prose) { return c.Answer().all() }

// careful are the sentences for who asks how sure the answer is.
func (c *Comparison) careful() (out []Prose) {
	if c.Differ > 0 {
		out = append(out, say(chart.Count(c.Differ), " of ", chart.Count(c.Numbers), " numbers differ."))
		if c.SameSeed {
			out[0] = say(out[0], " The first is the "+c.First+".")
		}
	}
	if !c.SameSeed {
		out = append(out, say("The seeds differ, so the runs do not share instances, and their differences are those of independent runs."))
	}
	several := len(c.A.Manifest.Environments) > 1
	var changed []Prose
	few, rare, oneIn, loss := 0, 0, 0.0, 0.0
	for _, r := range c.Rows {
		switch word := r.word(); {
		case word == fewWords:
			few++
		case word != unseen && word != equalWords:
			p := r.changed(c.Estimand)
			if several {
				p = say(p, " in ", r.Env)
			}
			changed = append(changed, p)
			if r.Rare.Reverses {
				rare, oneIn, loss = rare+1, math.Max(oneIn, r.Rare.OneIn), math.Max(loss, r.loss)
			}
		}
	}
	for i, p := range changed {
		if i == 4 && len(changed) > 5 {
			out = append(out, say(fmt.Sprintf("%d more have intervals that leave out zero; see the table.", len(changed)-4)))
			break
		}
		out = append(out, say(p, "."))
	}
	if rare > 0 {
		which := "this change"
		if len(changed) > 1 {
			which = fmt.Sprintf("%d of these changes", rare)
		}
		out = append(out, say("One run in ", about(int(oneIn)), " that loses ", chart.Amount(loss, 0),
			" would reverse "+which+", and the replications do not exclude such runs."))
	}
	if few > 0 {
		out = append(out, say(many(few, "row"), plural(few, " has", " have"), " too few replications for an interval."))
	}
	if n := len(c.OnlyA) + len(c.OnlyB); n > 0 {
		out = append(out, say(many(n, "pair"), " of environment and policy ", plural(n, "is", "are"), " in one run only."))
	}
	return append(out, say("The intervals hold for all rows at once (95%)."))
}

// changed says by how much a policy lost more or less in B.
func (r *Change) changed(e infer.Estimand) Prose {
	word, lo, hi := "more", r.Lo, r.Hi
	if r.Mean < 0 {
		word, lo, hi = "less", -r.Hi, -r.Lo
	}
	p := say(name(r.Policy), " lost ")
	if e != infer.Mean {
		p = say("The ", nounOf(e), " of ", name(r.Policy), " is ")
	}
	return say(p, chart.Amount(math.Abs(r.Mean), r.Dec), " ", word, " in the second run [", chart.Amount(lo, r.Dec), ", ",
		chart.Amount(hi, r.Dec), "]")
}

// paired says how the differences are taken: with different seeds the runs are independent.
func (c *Comparison) paired() string {
	if c.SameSeed {
		return ", paired by replication"
	}
	return ", of independent runs"
}

// Table returns the changes.
func (c *Comparison) Table() *chart.Table {
	dec := 1
	for _, r := range c.Rows {
		dec = max(dec, r.Dec)
	}
	title, note := "Regret in the second run minus regret in the first", "The intervals hold together for all rows (largest "+
		"studentised change over resampled replications, 95%)."
	if c.Estimand != infer.Mean {
		title = upperFirst(nounOf(c.Estimand)) + " in the second run minus that in the first"
		note = meaning(c.Estimand) + " The intervals hold together for all rows (95%)."
	}
	first, second := c.Names()
	if c.A.Manifest.Seed == c.B.Manifest.Seed {
		first, second = "first", "second"
	}
	several := len(c.A.Manifest.Environments) > 1
	short := shortOf(c.Estimand)
	t := &chart.Table{ID: "compare", Title: title + c.paired(), Note: note,
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true},
			{Key: "environment", Head: "Environment", Text: true},
			{Key: "replications", Head: "n", Only: "csv"}, {Key: "same", Head: "same", Only: "csv"},
			{Key: "mean_a", Head: short + ", " + first, Dec: dec}, {Key: "mean_b", Head: short + ", " + second, Dec: dec},
			{Key: "change", Head: "change", Dec: dec, Plus: true},
			{Key: "lo", Head: "95%, all rows", Dec: dec}, {Key: "hi", Dec: dec, Range: true},
			{Key: "round", Only: "csv"}, {Key: "word", Head: "in words", Text: true, Extra: true}}}
	if !several {
		t.Cols[1].Only = "csv"
	}
	for _, r := range c.Rows {
		row := chart.Row{Look: r.look, Cells: []chart.Cell{chart.TextCell(r.Policy), chart.TextCell(r.Env),
			chart.Num(float64(r.R)), chart.Num(float64(r.Same)), chart.Num(r.MeanA), chart.Num(r.MeanB),
			chart.Num(r.Mean)}}
		if r.OK {
			row.Cells = append(row.Cells, chart.Num(r.Lo), chart.Num(r.Hi))
		} else {
			row.Cells = append(row.Cells, chart.Empty(), chart.Empty())
		}
		row.Cells = append(row.Cells, chart.Num(float64(r.Round)), chart.TextCell(r.word()))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Figure draws the changes, one row each.
func (c *Comparison) Figure() *chart.Figure {
	f := &chart.Figure{ID: "compare", Title: "Change in " + nounOf(c.Estimand), Strips: true,
		How: "The second run minus the first" + c.paired() + ": right of zero the second lost more. 95%, all rows at once."}
	p := &chart.Panel{Look: -1, Y: chart.Axis{Lo: float64(len(c.Rows)), Hi: 0}}
	lo, hi := 0.0, 0.0
	for i, r := range c.Rows {
		l, h := r.Mean, r.Mean
		if r.OK {
			l, h = r.Lo, r.Hi
		}
		lo, hi = min(lo, l), max(hi, h)
		label := r.Policy
		if len(c.A.Manifest.Environments) > 1 {
			label += ", " + r.Env
		}
		p.Rows = append(p.Rows, chart.RowLabel{Look: r.look, Label: label, Note: r.word()})
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Across, Look: r.look, Name: label, X: []float64{r.Mean},
			Y: []float64{float64(i) + 0.5}, Lo: []float64{l}, Hi: []float64{h}})
	}
	t := chart.LinearTicks(lo, hi, 4)
	p.X = chart.Axis{Caption: "Change in regret", Lo: t[0].At, Hi: t[len(t)-1].At, Ticks: t}
	p.Marks = append([]chart.Mark{{Kind: chart.ZeroX, Look: -1, Name: "no change", X: []float64{0}}}, p.Marks...)
	f.Panels = []*chart.Panel{p}
	return f
}

// WriteHTML writes the comparison as a page.
func (c *Comparison) WriteHTML(w io.Writer) error {
	answer := c.Answer()
	s := &Sheet{Title: "two runs", Head: answer.Head, Lead: []Prose{answer.Lead}, Foot: "Made by troupe from two result directories."}
	if e := c.A.Manifest.Experiment; e != "" && e == c.B.Manifest.Experiment {
		s.Title = "two runs of " + e
	}
	if len(c.Rows) > 0 {
		f := c.Figure()
		s.Sections = append(s.Sections, Section{ID: "change", Title: f.Title, How: f.How, Figure: f, Table: c.Table()})
	}
	rows := manifestChanges(c.A, c.B)
	if t := differs(rows, false); len(t.Rows) > 0 {
		s.Sections = append(s.Sections, Section{ID: "differs", Title: "What is different in the runs", Table: t})
	}
	s.Careful = answer.Careful
	var only bytes.Buffer
	for _, l := range c.OnlyA {
		fmt.Fprintf(&only, "only in the first   %s\n", l)
	}
	for _, l := range c.OnlyB {
		fmt.Fprintf(&only, "only in the second  %s\n", l)
	}
	if only.Len() > 0 {
		s.Sections = append(s.Sections, Section{ID: "only", Title: "In one run only", Pre: only.String(), Fold: true})
	}
	if t := differs(rows, true); len(t.Rows) > 0 {
		s.Sections = append(s.Sections, Section{ID: "manifest", Title: "Start, duration, hashes", Table: t, Fold: true})
	}
	return s.WriteHTML(w, c.looks)
}

// differs is the table of what differs in the manifests: what a reader asks for, or the rest.
func differs(rows []manifestChange, rest bool) *chart.Table {
	t := &chart.Table{ID: "differs", Cols: []chart.Column{{Key: "what", Head: " ", Text: true}, {Key: "first", Head: "First", Text: true},
		{Key: "second", Head: "Second", Text: true}}}
	for _, r := range rows {
		if r.detail == rest {
			t.Rows = append(t.Rows, chart.Row{Look: -1, Cells: []chart.Cell{chart.TextCell(r.key), chart.TextCell(r.a), chart.TextCell(r.b)}})
		}
	}
	return t
}

// manifestChange is a line of two manifests that differs.
type manifestChange struct {
	key, a, b string
	detail    bool // differs between any two runs, or is for a machine
}

// manifestChanges lists the lines of the manifests that differ.
func manifestChanges(a, b *Run) (out []manifestChange) {
	ra, rb := manifestRows(a.Manifest), manifestRows(b.Manifest)
	find := func(rows [][2]string, key string) string {
		if i := slices.IndexFunc(rows, func(r [2]string) bool { return r[0] == key }); i >= 0 {
			return rows[i][1]
		}
		return "–"
	}
	details := []string{"Build ID", "Started", "Duration", "Spec SHA-256", "Results SHA-256"}
	seen := map[string]bool{}
	for _, r := range append(slices.Clone(ra), rb...) {
		if seen[r[0]] {
			continue
		}
		seen[r[0]] = true
		if x, y := find(ra, r[0]), find(rb, r[0]); x != y {
			out = append(out, manifestChange{r[0], x, y, slices.Contains(details, r[0])})
		}
	}
	if m, n := a.Manifest, b.Manifest; m.Replications != n.Replications {
		out = append(out, manifestChange{"Replications", chart.Count(m.Replications), chart.Count(n.Replications), false})
	}
	return out
}
