package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/episode"
	"troupe/report/chart"
	"troupe/sim"
)

// Solved says which agents solved which sizes of DeepSea, by bsuite's rule. It is of the environments of one kind.
type Solved struct {
	Kind   string
	Sizes  []int      // increasing
	Agents []int      // in the manifest
	Cells  [][]Solves // by agent and size
	Score  []float64  // by agent: the share of sizes and replications that count in bsuite's score
	T      int        // episodes that were played
}

// Solves is an agent on a size.
type Solves struct {
	R       int          // finished replications
	Each    map[int]bool // finished replications: whether they solved it
	Solved  []int        // the episodes of those that solved it, increasing
	Rounded []int        // the same among the episodes that bsuite logs
	Best    int          // of them and the others: how many count in bsuite's score
}

// Median returns the median of all finished replications, where one that did not solve comes last; ok is false when
// fewer than half solved.
func (s Solves) Median() (episode float64, ok bool) { return medianOf(s.Solved, s.R) }

func medianOf(at []int, r int) (float64, bool) {
	if r == 0 || r/2 >= len(at) {
		return 0, false
	}
	return float64(at[(r-1)/2]+at[r/2]) / 2, true
}

// SolvedBy returns what a run recorded of DeepSea, one for each kind of environment; nil for other runs.
func SolvedBy(run *Run) []*Solved {
	m := &run.Manifest
	if !slices.Contains(m.Record, "solved") {
		return nil
	}
	var out []*Solved
	for _, kind := range []string{"deep-sea", "deep-sea-stochastic"} {
		s := &Solved{Kind: kind, T: m.Horizon}
		var envs []int
		for e, row := range m.Environments {
			if n := sim.SizeOf(row); row.Kind == kind && n > 0 && !slices.Contains(s.Sizes, n) {
				s.Sizes, envs = append(s.Sizes, n), append(envs, e)
			}
		}
		if envs == nil {
			continue
		}
		slices.SortFunc(envs, func(a, b int) int { return sim.SizeOf(m.Environments[a]) - sim.SizeOf(m.Environments[b]) })
		slices.Sort(s.Sizes)
		for p := range m.Policies {
			cells := make([]Solves, len(envs))
			best, all := 0, 0
			for i, e := range envs {
				cells[i] = run.solves(e, p, s.Sizes[i])
				best, all = best+cells[i].Best, all+cells[i].R
			}
			if all > 0 {
				s.Agents, s.Cells = append(s.Agents, p), append(s.Cells, cells)
				s.Score = append(s.Score, float64(best)/float64(all))
			}
		}
		if s.Agents != nil {
			out = append(out, s)
		}
	}
	return out
}

// solves reads the last line of each replication of an agent in an environment.
func (run *Run) solves(e, p, size int) (s Solves) {
	s.Each = map[int]bool{}
	data := &run.Envs[e]
	for r, c := range data.Cells[p] {
		if c == nil || data.Also == nil || data.Also[p][r] == nil {
			continue
		}
		s.R++
		last := func(column string) int {
			v := data.Also[p][r][column]
			if len(v) == 0 {
				return 0
			}
			return int(v[len(v)-1])
		}
		s.Each[r] = last("solved") > 0
		if at := last("solved"); at > 0 {
			s.Solved = append(s.Solved, at)
		}
		at := last("solved_logged")
		if at > 0 {
			s.Rounded = append(s.Rounded, at)
		}
		if episode.Scores(size, at) {
			s.Best++
		}
	}
	slices.Sort(s.Solved)
	slices.Sort(s.Rounded)
	return s
}

// shown are the sizes that a table has room for.
func (s *Solved) shown() []int {
	const most = 5
	if len(s.Sizes) <= most {
		return indices(len(s.Sizes))
	}
	var at []int
	for k := range most {
		at = append(at, k*(len(s.Sizes)-1)/(most-1))
	}
	return at
}

func indices(n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	return at
}

// Table returns the median episode until solved by agent and size. With logged it is rounded up to the episodes that
// bsuite logs.
func (s *Solved) Table(m *sim.Manifest, logged bool) *chart.Table {
	id, title := "solved-"+s.Kind, "Episodes until "+s.Kind+" is solved"
	note := "Solved: runs of all sizes in which "
	if logged {
		id, title = id+"-logged", title+", as bsuite logs them"
		note = "Rounded up to the episodes that bsuite writes a line for (1, 1.2, 1.4, 1.7, 2, 2.5, 3, 4, … × 10^k). Solved: runs of all " +
			"sizes in which "
	}
	rule := episode.Deterministic
	if s.Kind == "deep-sea-stochastic" {
		rule = episode.Stochastic
	}
	from := ""
	if rule.From > 1 {
		from = fmt.Sprintf(" from episode %d on", rule.From)
	}
	note += fmt.Sprintf("the share of bad episodes is below %v%s (%s). Episodes are medians over the replications. Score: the share of "+
		"sizes and replications solved before 2^N + 100 and within %s episodes; %s were played.", rule.Share, from, rule.File,
		chart.Count(episode.SuiteEpisodes), chart.Count(s.T))
	t := &chart.Table{ID: id, Title: title, Note: note, Cols: []chart.Column{{Key: "agent", Head: "Agent", Text: true},
		{Key: "solved", Head: "Solved", Text: true}}}
	shown := s.shown()
	for i, n := range s.Sizes {
		c := chart.Column{Key: fmt.Sprintf("N=%d", n), Head: fmt.Sprintf("N = %d", n), Text: true}
		if !slices.Contains(shown, i) {
			c.Only = "csv"
		}
		t.Cols = append(t.Cols, c)
	}
	t.Cols = append(t.Cols, chart.Column{Key: "score", Head: "Score", Dec: 2})
	for a, p := range s.Agents {
		solved, all := 0, 0
		for _, c := range s.Cells[a] {
			at := c.Solved
			if logged {
				at = c.Rounded
			}
			solved, all = solved+len(at), all+c.R
		}
		row := chart.Row{Look: p, Cells: []chart.Cell{chart.TextCell(m.Policies[p].Name),
			chart.TextCell(fmt.Sprintf("%s of %s", chart.Count(solved), chart.Count(all)))}}
		for _, c := range s.Cells[a] {
			row.Cells = append(row.Cells, chart.TextCell(c.text(logged)))
		}
		row.Cells = append(row.Cells, chart.Num(s.Score[a]))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// text is a cell of the table.
func (s Solves) text(logged bool) string {
	at := s.Solved
	if logged {
		at = s.Rounded
	}
	share := ""
	if len(at) < s.R {
		share = fmt.Sprintf("%d/%d", len(at), s.R)
	}
	v, ok := medianOf(at, s.R)
	if len(at) == 0 {
		return "–"
	}
	if !ok {
		return share
	}
	text := chart.Number(v, chart.DecimalsOf(v))
	if v >= 100 || v == math.Trunc(v) {
		text = chart.Number(v, 0)
	}
	return strings.TrimSpace(text + " " + share)
}

// Figure returns the median episode until solved against the size, with 2^N beside it.
func (s *Solved) Figure(m *sim.Manifest) *chart.Figure {
	if len(s.Sizes) < 2 {
		return nil
	}
	first, last := float64(s.Sizes[0]), float64(s.Sizes[len(s.Sizes)-1])
	// Room for eight doublings of 2^N, up to 100,000 episodes.
	lo, hi := chart.LogRange(10, max(float64(s.T), min(math.Exp2(first+8), 1e5)))
	p := &chart.Panel{Look: -1,
		X: chart.Axis{Caption: "Size N", Lo: first, Hi: last, Ticks: chart.Within(chart.LinearTicks(first, last, 6),
			first, last)},
		Y: chart.Axis{Caption: "Episodes (log)", Log: true, Lo: lo, Hi: hi, Ticks: chart.LogTicks(lo, hi)}}
	guide := chart.Mark{Kind: chart.Guide, Look: -1, Name: "2^N"}
	for x := first; x <= last && math.Exp2(x) <= hi; x += 0.25 {
		guide.X, guide.Y = append(guide.X, x), append(guide.Y, math.Exp2(x))
	}
	if len(guide.X) > 1 {
		p.Marks = append(p.Marks, guide)
	}
	var none []string
	for a, q := range s.Agents {
		line := chart.Mark{Kind: chart.Line, Look: q, Name: m.Policies[q].Name}
		for i, c := range s.Cells[a] {
			if v, ok := c.Median(); ok {
				line.X, line.Y = append(line.X, float64(s.Sizes[i])), append(line.Y, max(v, lo))
			}
		}
		if len(line.X) == 0 {
			none = append(none, line.Name)
			continue
		}
		p.Marks = append(p.Marks, line)
		if line.X[len(line.X)-1] == last {
			p.Ends = append(p.Ends, chart.End{Look: q, Y: line.Y[len(line.Y)-1], Label: line.Name})
		}
	}
	how := "Median episode in which bsuite's rule holds, over the replications; a curve ends where fewer than half " +
		"of them solved. Dotted: 2^N, what undirected exploration needs."
	if none != nil {
		how += fmt.Sprintf(" Without a curve: %s.", strings.Join(none, ", "))
	}
	return &chart.Figure{ID: "solved-" + s.Kind, Title: "Episodes until " + s.Kind + " is solved", How: how,
		Panels: []*chart.Panel{p}}
}
