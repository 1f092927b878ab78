package report

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"

	"troupe/internal/infer"
	"troupe/internal/stats"
	"troupe/report/chart"
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

// Verdict says the result in sentences.
func (c *Comparison) Verdict() (head Prose, lead []Prose) {
	switch {
	case len(c.Rows) == 0:
		return say("The runs have nothing in common."),
			[]Prose{say("No environment and policy has a replication and a checkpoint in both.")}
	case c.SameSpec && c.SameSeed && c.Differ == 0:
		return say("Same spec: all ", chart.Count(c.Numbers), " numbers are the same."), nil
	case c.SameSpec && c.SameSeed:
		head = say("Same spec: ", chart.Count(c.Differ), " of ", chart.Count(c.Numbers), " numbers differ.")
		lead = append(lead, say("The first is the "+c.First+"."))
	case c.Differ == 0:
		head = say("All ", chart.Count(c.Numbers), " numbers that both runs have are the same.")
	default:
		head = say("The runs differ in ", chart.Count(c.Differ), " of ", chart.Count(c.Numbers), " numbers.")
	}
	if !c.SameSeed {
		lead = append(lead, say(fmt.Sprintf("The seeds differ (%d and %d), so the runs do not share instances.",
			c.A.Manifest.Seed, c.B.Manifest.Seed)))
	}
	if a, b := c.A.estimand(), c.B.estimand(); a != b {
		lead = append(lead, say(fmt.Sprintf("The runs fix different estimands (%v and %v), so their means are "+
			"compared.", a, b)))
	}
	several := len(c.A.Manifest.Environments) > 1
	var changed []Prose
	open, few, rare, oneIn, loss := 0, 0, 0, 0.0, 0.0
	for _, r := range c.Rows {
		switch {
		case !r.OK:
			few++
		case r.Lo > 0 || r.Hi < 0:
			p := r.changed(c.Estimand)
			if several {
				p = say(p, " in ", r.Env)
			}
			changed = append(changed, p)
			if r.Rare.Reverses {
				rare, oneIn, loss = rare+1, math.Max(oneIn, r.Rare.OneIn), math.Max(loss, r.loss)
			}
		case r.Same < r.R:
			open++
		}
	}
	for i, p := range changed {
		if i == 4 && len(changed) > 5 {
			lead = append(lead, say(fmt.Sprintf("%d more have intervals that exclude zero; see the table.",
				len(changed)-4)))
			break
		}
		lead = append(lead, say(p, "."))
	}
	if rare > 0 {
		which := "this change"
		if len(changed) > 1 {
			which = fmt.Sprintf("%d of these changes", rare)
		}
		lead = append(lead, say("One run in ", about(int(oneIn)), " that loses ", chart.Amount(loss, 0),
			" would reverse "+which+", and the replications do not exclude such runs."))
	}
	if open > 0 {
		lead = append(lead, say(fmt.Sprintf("In %s the two runs cannot be told apart; the intervals of the table say "+
			"how large a change may be (95%s%%, all rows at once).", many(open, "row"), chart.Narrow)))
	}
	if few > 0 {
		lead = append(lead, say(many(few, "row"), plural(few, " has", " have"),
			" too few replications for an interval."))
	}
	if n := len(c.OnlyA) + len(c.OnlyB); n > 0 {
		lead = append(lead, say(many(n, "pair"), " of environment and policy ", plural(n, "is", "are"),
			" in one run only."))
	}
	return head, lead
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
	return say(p, chart.Amount(math.Abs(r.Mean), r.Dec), " ", word, " in B [", chart.Amount(lo, r.Dec), ", ",
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
	title, note := "Regret in B minus regret in A", "The intervals hold together for all rows (largest "+
		"studentised change "+
		"over resampled replications, 95 %)."
	if c.Estimand != infer.Mean {
		title = upperFirst(nounOf(c.Estimand)) + " in B minus that in A"
		note = meaning(c.Estimand) + " The intervals hold together for all rows (95 %)."
	}
	short := shortOf(c.Estimand)
	t := &chart.Table{ID: "compare", Title: title + c.paired(), Note: note,
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true},
			{Key: "environment", Head: "Environment", Text: true},
			{Key: "replications", Head: "n"}, {Key: "same", Head: "same"},
			{Key: "mean_a", Head: short + " A", Dec: dec, Extra: true}, {Key: "mean_b", Head: short + " B", Dec: dec},
			{Key: "change", Head: "change", Dec: dec, Plus: true},
			{Key: "lo", Head: "95 %, all rows", Dec: dec}, {Key: "hi", Dec: dec, Range: true},
			{Key: "round", Only: "csv"}}}
	for _, r := range c.Rows {
		row := chart.Row{Look: r.look, Cells: []chart.Cell{chart.TextCell(r.Policy), chart.TextCell(r.Env),
			chart.Num(float64(r.R)), chart.Num(float64(r.Same)), chart.Num(r.MeanA), chart.Num(r.MeanB),
			chart.Num(r.Mean)}}
		if r.OK {
			row.Cells = append(row.Cells, chart.Num(r.Lo), chart.Num(r.Hi))
		} else {
			row.Cells = append(row.Cells, chart.Empty(), chart.Empty())
		}
		row.Cells = append(row.Cells, chart.Num(float64(r.Round)))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Figure draws the changes, one row each.
func (c *Comparison) Figure() *chart.Figure {
	f := &chart.Figure{ID: "compare", Title: "Change from A to B", Strips: true,
		How: "Difference in " + nounOf(c.Estimand) + ", B minus A" + c.paired() + "; right of zero B lost more."}
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
		p.Rows = append(p.Rows, chart.RowLabel{Look: r.look, Label: label, Note: chart.Signed(r.Mean, r.Dec)})
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
	s := &Sheet{Title: "two runs compared", Foot: "Made by troupe from two result directories."}
	s.Head, s.Lead = c.Verdict()
	for _, x := range []struct {
		letter string
		run    *Run
	}{{"A", c.A}, {"B", c.B}} {
		m := x.run.Manifest
		commit := "commit unknown"
		if _, err := hex.DecodeString(m.Commit); err == nil && m.Commit != "" {
			commit = fmt.Sprintf("%.12s", m.Commit)
		}
		s.Facts = append(s.Facts, fmt.Sprintf("%s: %s, %s, %s, seed %d", x.letter, when(m.Started), commit, m.Go,
			m.Seed))
	}
	if len(c.Rows) > 0 {
		s.Sections = append(s.Sections, Section{ID: "change", Title: "Change from A to B", How: c.Figure().How,
			Figure: c.Figure(), Table: c.Table()})
	}
	var only bytes.Buffer
	for _, l := range c.OnlyA {
		fmt.Fprintf(&only, "only in A   %s\n", l)
	}
	for _, l := range c.OnlyB {
		fmt.Fprintf(&only, "only in B   %s\n", l)
	}
	if only.Len() > 0 {
		s.Sections = append(s.Sections, Section{ID: "only", Title: "In one run only", Pre: only.String()})
	}
	if diff := manifestChanges(c.A, c.B); diff != "" {
		s.Sections = append(s.Sections, Section{ID: "manifest", Title: "What else differs", Pre: diff})
	}
	return s.WriteHTML(w, c.looks)
}

// manifestChanges lists the lines of the manifests that differ.
func manifestChanges(a, b *Run) string {
	ra, rb := manifestRows(a.Manifest), manifestRows(b.Manifest)
	find := func(rows [][2]string, key string) string {
		if i := slices.IndexFunc(rows, func(r [2]string) bool { return r[0] == key }); i >= 0 {
			return rows[i][1]
		}
		return "–"
	}
	var out bytes.Buffer
	seen := map[string]bool{}
	for _, r := range append(slices.Clone(ra), rb...) {
		if seen[r[0]] {
			continue
		}
		seen[r[0]] = true
		if x, y := find(ra, r[0]), find(rb, r[0]); x != y {
			fmt.Fprintf(&out, "%-16s A  %s\n%-16s B  %s\n", r[0], x, "", y)
		}
	}
	return out.String()
}
