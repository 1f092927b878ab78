package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/rng"
	"troupe/sim"
	"troupe/spec"
)

// The kinds of difficulty of an environment, and one of a policy: few members.
const (
	plainWorld = "none of these"
	dimension  = "dimension" // 20 or more
	manyArms   = "arms"      // 100 or more, or a set that is no list
	noisy      = "noise"     // another law than the Gaussian, a part that is not linear, or small gaps (a norm below ½)
	changing   = "change"    // of the rewards
	delayed    = "delay"     // of the rewards
	fewMembers = "few members"
)

// fewest is the largest number of members that is few.
const fewest = 8

// difficulties are the kinds of difficulty of an environment.
func difficulties(e sim.EnvironmentRow) (kinds []string) {
	number := func(path string) float64 {
		v, _ := option(e.Options, path)
		f, _ := spec.Number(v)
		return f
	}
	set, hasSet := e.Options["set"].(map[string]any)
	arms := max(number("set.arms"), number("arms"))
	noise, _ := option(e.Options, "noise.kind")
	for _, k := range []struct {
		name string
		is   bool
	}{
		{dimension, e.Dim >= 20},
		{manyArms, arms >= 100 || hasSet && arms == 0 && set["kind"] != "finite"},
		{noisy, noise != nil && noise != "gaussian" || number("misspecification") > 0 ||
			number("norm") > 0 && number("norm") < 0.5},
		{changing, number("drift") > 0 || e.Options["change"] != nil && e.Options["change"] != "none" ||
			e.Kind == "adversary"},
		{delayed, e.Feedback != nil},
	} {
		if k.is {
			kinds = append(kinds, k.name)
		}
	}
	if kinds == nil {
		kinds = []string{plainWorld}
	}
	return kinds
}

// Difficulty is the score of the policies of a run in its environments of each kind of difficulty.
type Difficulty struct {
	Run   *Run
	Kinds []string // those that the run has, in their order
	Rows  []DifficultyRow
	First map[string][]string // by kind: the policies that may have the highest score; all pairs of all kinds at once
}

// DifficultyRow is a policy: the mean over the environments of a kind of 1 − regret/(regret of uniform play), with
// intervals that hold for all kinds and policies of the run at once. Under few members it is the score over all
// environments, for policies with at most 8 members only.
type DifficultyRow struct {
	Policy string
	Score  map[string]infer.Interval // by kind; a kind that does not concern it is not there
	place  int                       // in the manifest
	shares map[string][]float64      // by kind: their mean is the score
}

// DifficultyOf returns the scores; nil for a run without uniform play, below 20 replications, with one kind of
// difficulty only, or whose spec fixes another estimand than the mean.
func DifficultyOf(run *Run) *Difficulty {
	m := &run.Manifest
	uniform := slices.IndexFunc(m.Policies, func(p sim.PolicyRow) bool { return p.Kind == "uniform" })
	if uniform < 0 || run.estimand() != infer.Mean {
		return nil
	}
	var envs []*Analysis
	kinds := map[string][]int{} // by kind: places in envs
	for e, row := range m.Environments {
		a := prepare(run, e)
		if a == nil || len(a.Missing) > 0 || a.R() < minReps || a.R() != m.Replications ||
			!(mean(a.Final(a.index(m.Policies[uniform].Name))) > 0) {
			continue
		}
		for _, k := range difficulties(row) {
			kinds[k] = append(kinds[k], len(envs))
		}
		envs = append(envs, a)
	}
	d := &Difficulty{Run: run}
	for _, k := range []string{plainWorld, dimension, manyArms, noisy, changing, delayed} {
		if kinds[k] != nil {
			d.Kinds = append(d.Kinds, k)
		}
	}
	if len(d.Kinds) < 2 {
		return nil
	}
	var contrasts []infer.Contrast
	type place struct {
		row  int
		kind string
	}
	var at []place
	add := func(row DifficultyRow, kind string, in []int) {
		score, shares := scoreIn(envs, in, row.Policy, m.Policies[uniform].Name)
		row.Score[kind], row.shares[kind] = infer.Interval{Value: score}, shares
		at = append(at, place{row.place, kind})
		contrasts = append(contrasts, infer.Contrast{X: shares, Y: make([]float64, len(shares))})
	}
	everywhere := make([]int, len(envs))
	for i := range everywhere {
		everywhere[i] = i
	}
	for p, row := range m.Policies {
		r := DifficultyRow{Policy: row.Name, Score: map[string]infer.Interval{}, place: p,
			shares: map[string][]float64{}}
		if p != uniform {
			for _, k := range d.Kinds {
				add(r, k, kinds[k])
			}
			if n, ok := spec.Number(row.Options["m"]); ok && n <= fewest {
				add(r, fewMembers, everywhere)
			}
		}
		d.Rows = append(d.Rows, r)
	}
	stream := rng.NewKey(m.Seed).Child("report").Child("difficulty").Stream(rng.Resample)
	f := infer.Simultaneous(infer.Mean, contrasts, level, drawFrom(stream))
	for k, p := range at {
		x := d.Rows[p.row].Score[p.kind]
		x.Lo, x.Hi, x.OK = around(x.Value, f.Each[k])
		d.Rows[p.row].Score[p.kind] = x
		if p.kind == fewMembers && !slices.Contains(d.Kinds, fewMembers) {
			d.Kinds = append(d.Kinds, fewMembers)
		}
	}
	d.Rows = slices.Delete(d.Rows, uniform, uniform+1)
	slices.SortStableFunc(d.Rows, func(a, b DifficultyRow) int { return cmp.Compare(b.mean(d.Kinds), a.mean(d.Kinds)) })
	d.places()
	return d
}

// places finds which policies may be first in each kind of difficulty of environments.
func (d *Difficulty) places() {
	d.First = map[string][]string{}
	type pair struct{ kind, i, j int }
	at := map[pair]int{}
	var contrasts []infer.Contrast
	for k, kind := range d.Kinds {
		for i := range d.Rows {
			for j := range i {
				if kind == fewMembers {
					continue
				}
				at[pair{k, i, j}] = len(contrasts)
				contrasts = append(contrasts, infer.Contrast{X: d.Rows[i].shares[kind], Y: d.Rows[j].shares[kind],
					Group: k})
			}
		}
	}
	stream := rng.NewKey(d.Run.Manifest.Seed).Child("report").Child("difficulty").Child("pairs").Stream(rng.Resample)
	f := infer.Simultaneous(infer.Mean, contrasts, level, drawFrom(stream))
	for k, kind := range d.Kinds {
		if kind == fewMembers {
			continue
		}
		for i := range d.Rows {
			// The highest score is the first place, so signs are turned.
			from, _ := infer.Places(i, len(d.Rows), func(i, j int) infer.Interval {
				if j < i {
					return negative(f.Each[at[pair{k, i, j}]])
				}
				return f.Each[at[pair{k, j, i}]]
			})
			if from == 1 {
				d.First[kind] = append(d.First[kind], d.Rows[i].Policy)
			}
		}
	}
}

// negative is the interval of the contrast the other way round.
func negative(i infer.Interval) infer.Interval {
	i.Value, i.Lo, i.Hi = -i.Value, -i.Hi, -i.Lo
	return i
}

// mean is the mean over the kinds of environments, by which the rows are sorted.
func (r *DifficultyRow) mean(kinds []string) (m float64) {
	for _, k := range kinds {
		if k != fewMembers {
			m += r.Score[k].Value
		}
	}
	return m
}

// scoreIn is the score of a policy in some environments, and its shares by replication (ScoreRow.add).
func scoreIn(envs []*Analysis, in []int, policy, uniform string) (score float64, shares []float64) {
	row := ScoreRow{Each: make([]float64, len(in)), shares: make([]float64, envs[in[0]].R())}
	for n, e := range in {
		a := envs[e]
		row.add(n, a.Final(a.index(policy)), a.Final(a.index(uniform)))
	}
	return row.Mean, row.shares
}

// shownPolicies is how many policies the figure draws.
const shownPolicies = 8

// Figure draws the scores by kind of difficulty, of the best policies and those with few members.
func (d *Difficulty) Figure(id string) *chart.Figure {
	ax := chart.Axis{Caption: "Kind of difficulty", Lo: -0.5, Hi: float64(len(d.Kinds)) - 0.5}
	for i, k := range d.Kinds {
		ax.Ticks = append(ax.Ticks, chart.Tick{At: float64(i), Label: k})
	}
	rows := slices.Clone(d.Rows[:min(shownPolicies, len(d.Rows))])
	for _, r := range d.Rows[len(rows):] {
		if _, few := r.Score[fewMembers]; few {
			rows = append(rows, r)
		}
	}
	low := 0.0
	p := &chart.Panel{Look: -1, X: ax}
	for n, r := range rows {
		m := chart.Mark{Kind: chart.Interval, Look: r.place, Name: r.Policy,
			Aside: 0.7 / float64(len(d.Kinds)*len(rows)) * (float64(n) - float64(len(rows)-1)/2)}
		last := 0.0
		for i, k := range d.Kinds {
			s, ok := r.Score[k]
			if !ok {
				continue
			}
			lo, hi := s.Value, s.Value
			if s.OK {
				lo, hi = s.Lo, s.Hi
			}
			m.X, m.Y, m.Lo, m.Hi = append(m.X, float64(i)), append(m.Y, s.Value), append(m.Lo, lo), append(m.Hi, hi)
			low = math.Min(low, lo)
			last = s.Value
		}
		p.Marks = append(p.Marks, m)
		p.Ends = append(p.Ends, chart.End{Look: r.place, Y: last, Label: r.Policy})
	}
	t := chart.LinearTicks(low, 1, 4)
	p.Y = chart.Axis{Caption: "Score", Lo: t[0].At, Hi: t[len(t)-1].At, Ticks: t}
	how := fmt.Sprintf("1 − regret/(regret of uniform play), the mean over the environments of each kind, with "+
		"95%% intervals for "+
		"all kinds and policies at once; %s.", many(d.Run.Manifest.Replications, "replication"))
	if n := len(d.Rows) - len(rows); n > 0 {
		how += fmt.Sprintf(" The best %d policies; %d more are in the table.", shownPolicies, n)
	}
	return &chart.Figure{ID: id, Title: "Score by kind of difficulty", How: how, Panels: []*chart.Panel{p}}
}

// Table has the scores of all policies.
func (d *Difficulty) Table(id string) *chart.Table {
	t := &chart.Table{ID: id, Title: "Score by kind of difficulty",
		Note: "Dimension: 20 or more. Arms: 100 or more, or a set that is no list. Noise: not Gaussian, a reward " +
			"that is not linear, or " +
			"small gaps. Change: of the rewards. Delay: of the rewards. Few members: the score over all " +
			"environments of policies with " +
			"at most 8. An environment may be of several kinds.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}}}
	for _, k := range d.Kinds {
		t.Cols = append(t.Cols, chart.Column{Key: k, Head: upperFirst(k), Dec: 3})
	}
	for _, r := range d.Rows {
		row := chart.Row{Look: r.place, Cells: []chart.Cell{chart.TextCell(r.Policy)}}
		for _, k := range d.Kinds {
			cell := chart.Empty()
			if s, ok := r.Score[k]; ok {
				cell = chart.Num(s.Value)
			}
			row.Cells = append(row.Cells, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// orList is names with or before the last.
func orList(names []string) Prose {
	var p Prose
	for i, n := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			p = say(p, " or ")
		default:
			p = say(p, ", ")
		}
		p = say(p, name(n))
	}
	return p
}

// WriteHTML writes the scores of a run as a page.
func (d *Difficulty) WriteHTML(w io.Writer) error {
	m := d.Run.Manifest
	looks, _ := d.Run.looks()
	s := &Sheet{Title: cmp.Or(m.Experiment, "experiment") + ": score by kind of difficulty",
		Head: say("Which policies may be first, by kind of difficulty (95%, all pairs and kinds at once)."), Foot: "Made by troupe from a result directory.",
		Facts: []string{factsLine(&m)}}
	for _, k := range d.Kinds {
		switch first := d.First[k]; {
		case k == fewMembers:
		case len(first) == len(d.Rows):
			s.Lead = append(s.Lead, say(upperFirst(k)+": every policy may have the highest score."))
		default:
			s.Lead = append(s.Lead, say(upperFirst(k)+": the highest score may be that of ", orList(first), "."))
		}
	}
	f := d.Figure("difficulty")
	s.Sections = []Section{{ID: f.ID, Title: f.Title, How: f.How, Figure: f, Table: d.Table("difficulty")}}
	return s.WriteHTML(w, looks)
}
