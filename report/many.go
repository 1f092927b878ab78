package report

import (
	"fmt"
	"io"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/report/headline"
)

// Series is several runs of one experiment, compared with the first.
type Series struct {
	Runs  []*Run
	Each  []*Comparison // of Runs[1:] with the first; the intervals hold for all rows of all of them at once
	names []string
}

// CompareMany compares each of two runs or more with the first. names are what the page calls them, one for each run.
func CompareMany(runs []*Run, names []string) *Series {
	return &Series{Runs: runs, Each: compareAll(runs[0], runs[1:]), names: names}
}

// counted says how many rows of a comparison changed, in words.
func (c *Comparison) counted() string {
	more, less, open, few := 0, 0, 0, 0
	for _, r := range c.Rows {
		switch {
		case r.Same == r.R:
		case !r.OK:
			few++
		case r.Lo > 0:
			more++
		case r.Hi < 0:
			less++
		default:
			open++
		}
	}
	switch {
	case len(c.Rows) == 0:
		return "has nothing in common with it"
	case more+less+open+few == 0:
		return "has the same numbers in " + every(len(c.Rows), "row")
	}
	text := fmt.Sprintf("lost more in %d of %s, less in %d, and cannot be told apart from it in %d", more,
		many(len(c.Rows), "row"), less, open)
	if few > 0 {
		text += fmt.Sprintf("; %d have too few replications", few)
	}
	return text
}

// Verdict says in a sentence for each run what changed.
func (s *Series) Verdict() (head Prose, lead []Prose) {
	changed := 0
	for i, c := range s.Each {
		for _, r := range c.Rows {
			if r.OK && (r.Lo > 0 || r.Hi < 0) {
				changed++
				break
			}
		}
		lead = append(lead, say("Against ", name(s.names[0]), ", ", name(s.names[i+1]), " "+c.counted()+"."))
	}
	return headline.Many(changed, len(s.Each)), lead
}

// Table has a row for each environment and policy that the first run shares with another one, and for each run its
// estimate and the change with its interval and a mark: ▲ more, ▼ less, ≈ cannot be told apart, = the same.
func (s *Series) Table() *chart.Table {
	e := s.Each[0].Estimand
	t := &chart.Table{ID: "many", Title: upperFirst(nounOf(e)) + ", and its change from the first run",
		Note: "▲ more and ▼ less than in the first run, ≈ cannot be told apart, = the same in each replication. " +
			"The intervals hold " +
			"together for all rows and runs (95%).",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}, {Key: "environment", Head: "Environment",
			Text: true},
			{Key: "first", Head: s.names[0], Dec: 2}}}
	type key struct{ env, policy string }
	at := map[key]int{}
	for _, c := range s.Each {
		for _, r := range c.Rows {
			k := key{r.Env, r.Policy}
			if _, met := at[k]; !met {
				at[k] = len(t.Rows)
				t.Rows = append(t.Rows, chart.Row{Look: r.look, Cells: []chart.Cell{chart.TextCell(r.Policy),
					chart.TextCell(r.Env), chart.Num(r.MeanA)}})
			}
		}
	}
	for i, c := range s.Each {
		t.Cols = append(t.Cols, chart.Column{Key: fmt.Sprintf("run_%d", i+2), Head: s.names[i+1], Dec: 2},
			chart.Column{Key: fmt.Sprintf("change_%d", i+2), Head: "change", Text: true})
		for _, r := range c.Rows {
			text := r.mark(e)
			if r.OK && r.Same < r.R {
				text += fmt.Sprintf(" %s [%s, %s]", chart.Signed(r.Mean, r.Dec), chart.Signed(r.Lo, r.Dec),
					chart.Signed(r.Hi, r.Dec))
			}
			row := &t.Rows[at[key{r.Env, r.Policy}]]
			row.Cells = append(row.Cells, chart.Num(r.MeanB), chart.TextCell(text))
		}
		for n := range t.Rows {
			for len(t.Rows[n].Cells) < len(t.Cols) {
				t.Rows[n].Cells = append(t.Rows[n].Cells, chart.Empty())
			}
		}
	}
	return t
}

// mark is the sign of a change.
func (r *Change) mark(e infer.Estimand) string {
	switch {
	case r.Same == r.R:
		return "="
	case r.R < e.Least() || !r.OK:
		return ""
	case r.Lo > 0:
		return "▲"
	case r.Hi < 0:
		return "▼"
	}
	return "≈"
}

// WriteHTML writes the comparison as a page.
func (s *Series) WriteHTML(w io.Writer) error {
	sheet := &Sheet{Title: fmt.Sprintf("%d runs compared", len(s.Runs)),
		Foot: "Made by troupe from result directories."}
	sheet.Head, sheet.Lead = s.Verdict()
	for i, run := range s.Runs {
		m := run.Manifest
		sheet.Facts = append(sheet.Facts, fmt.Sprintf("%s: %s, %s, seed %d, troupe %s, engine %d", s.names[i],
			when(m.Started),
			many(m.Replications, "replication"), m.Seed, m.Troupe, m.Engine))
	}
	t := s.Table()
	sheet.Sections = []Section{{ID: t.ID, Title: t.Title, Table: t}}
	return sheet.WriteHTML(w, s.Each[0].looks)
}
