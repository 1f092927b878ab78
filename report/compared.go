package report

import (
	"maps"
	"slices"
	"strings"

	"troupe/report/chart"
	"troupe/sim"
)

// comparedFirst are the options that stand first in the table of what was compared, and that it shows
// for every policy that has them, written in the spec or not.
var comparedFirst = []string{"m", "scale", "lambda", "init", "delta"}

// scaleWords writes defaults such as "beta 1" as names of policies do.
var scaleWords = strings.NewReplacer("betatilde 1", "β̃", "beta 1", "β", "constant ", "")

// Values says in a sentence whose options were tuned, and whether some were; "" where there are not two kinds to compare.
func (r *Run) Values() (text string, some bool) {
	kinds := map[string]bool{}
	var tuned []string
	for _, p := range r.Manifest.Policies {
		kinds[p.Kind] = true
		if p.Tuned != "" {
			tuned = append(tuned, p.Name)
		}
	}
	switch {
	case len(kinds) < 2:
		return "", false
	case tuned == nil:
		return "Textbook values: no policy was tuned.", false
	case len(tuned) == len(r.Manifest.Policies):
		return "Tuned values: every policy was tuned.", true
	}
	return "Tuned values: " + say(listed(tuned)).String() + "; textbook values: the others.", true
}

// compared returns the table of what was compared: the options of every policy, and whether their
// values were tuned.
func compared(run *Run) *chart.Table {
	written := map[string]bool{}
	has := map[string]bool{}
	for _, p := range run.Manifest.Policies {
		for k := range p.Options {
			written[k], has[k] = true, true
		}
		for k := range p.Defaults {
			has[k] = true
		}
	}
	keys := slices.DeleteFunc(slices.Clone(comparedFirst), func(k string) bool { return !has[k] })
	for _, k := range slices.Sorted(maps.Keys(written)) {
		if !slices.Contains(comparedFirst, k) {
			keys = append(keys, k)
		}
	}
	title := "What was compared"
	if len(run.Manifest.Policies) == 1 {
		title = "What was run"
	}
	t := &chart.Table{ID: "compared", Title: title,
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}, {Key: "kind", Head: "Kind", Text: true}}}
	for _, k := range keys {
		t.Cols = append(t.Cols, chart.Column{Key: k, Head: k, Text: true})
	}
	t.Cols = append(t.Cols, chart.Column{Key: "values", Head: "Values", Text: true})
	var from []string
	for i, p := range run.Manifest.Policies {
		row := chart.Row{Look: i, Cells: []chart.Cell{chart.TextCell(p.Name), chart.TextCell(p.Kind)}}
		for _, k := range keys {
			text := ""
			if v, ok := p.Options[k]; ok {
				text = sim.OptionText(v)
			} else if d, ok := p.Defaults[k]; ok {
				text = scaleWords.Replace(d)
			}
			row.Cells = append(row.Cells, chart.TextCell(text))
		}
		values := "textbook"
		if p.Tuned != "" {
			values = "tuned"
			if !slices.Contains(from, p.Tuned) {
				from = append(from, p.Tuned)
			}
		}
		row.Cells = append(row.Cells, chart.TextCell(values))
		t.Rows = append(t.Rows, row)
	}
	t.Note = "Textbook values are those of the spec or of the literature; they were not tuned."
	if from != nil {
		t.Note += " Tuned values:"
		for _, text := range from {
			t.Note += " " + text + "."
		}
	}
	return t
}
