package report

import (
	"math"
	"slices"
	"strings"

	"troupe/internal/stats"
	"troupe/report/chart"
)

// against compares every policy with the one that the spec names as the reference: the quotient of
// mean regrets, resampled. A reference that was stated before the run is compared with the others
// only (many-to-one intervals, as Dunnett's); one that was named when results were there has the
// factor of all pairs, if that is larger.
func against(a *Analysis, s *stats.Resamples) Against {
	out := Against{Reference: -1}
	for i := range a.Policies {
		if a.Label(i) == a.Run.Manifest.Reference {
			out.Reference = i
		}
	}
	if out.Reference < 0 || a.Compared() < 2 || a.Rounded[out.Reference] {
		out.Reference = -1
		return out
	}
	ref := a.Final(out.Reference)
	out.Ratios = make([]stats.Ratio, len(a.Policies))
	factor, ok := 0.0, false
	if s != nil && a.R() >= minReps && a.Pairs.OK {
		var rivals [][]float64
		for i := range a.Policies {
			if i != out.Reference && !a.Rounded[i] {
				rivals = append(rivals, a.Final(i))
			}
		}
		if factor, ok = s.RatioFactor(rivals, ref, level); ok {
			if a.Run.Manifest.LateReference {
				factor = math.Max(factor, a.Pairs.Factor)
			}
			if full := a.beforeChoice(); full != nil {
				factor = full.Against.Factor
			}
			out.Factor = factor
		}
	}
	for i := range a.Policies {
		switch {
		case i == out.Reference:
			out.Ratios[i] = stats.Ratio{Value: 1, Lo: 1, Hi: 1, OK: true}
		case ok && !a.Rounded[i] && stats.Estimable(a.paired(i, out.Reference, len(a.Rounds)-1)):
			out.Ratios[i] = stats.Fieller(a.Final(i), ref, factor)
		case mean(ref) > 0:
			out.Ratios[i] = stats.Ratio{Value: mean(a.Final(i)) / mean(ref)}
		}
	}
	return out
}

// change writes a quotient as people say it: 23 % less [5 %, 37 %], 112 % more [90 %, 140 %].
func change(r stats.Ratio) string {
	if r.Hi < 1 {
		return chart.Percent(1-r.Value) + " less [" + chart.Percent(1-r.Hi) + ", " + chart.Percent(1-r.Lo) + "]"
	}
	return chart.Percent(r.Value-1) + " more [" + chart.Percent(r.Lo-1) + ", " + chart.Percent(r.Hi-1) + "]"
}

// versus returns the sentences on the reference: which policies lose less than it, and which more, by a margin that
// chance does not explain, and which cannot be told apart from it. head is not nil when the policy
// with the lowest mean is among the first.
func (se sentences) versus() (head, lead Prose) {
	if se.a.Against.Ratios == nil || se.a.Against.Factor == 0 {
		return nil, nil
	}
	ref := name(se.a.Label(se.a.Against.Reference))
	var less, more []Prose
	var open, equal []string
	for _, i := range se.a.Order {
		r := se.a.Against.Ratios[i]
		switch {
		case i == se.a.Against.Reference, se.a.Rounded[i]:
		case slices.Equal(se.a.Final(i), se.a.Final(se.a.Against.Reference)):
			equal = append(equal, se.a.Label(i))
		case r.OK && r.Hi < 1:
			less = append(less, say(name(se.a.Label(i)), " loses ", change(r)))
		case r.OK && r.Lo > 1:
			more = append(more, say(name(se.a.Label(i)), " loses ", change(r)))
		default:
			open = append(open, se.a.Label(i))
		}
	}
	if best := se.a.Best(); best != se.a.Against.Reference && se.a.Against.Ratios[best].OK && se.a.Against.Ratios[best].Hi < 1 {
		head = say(name(se.a.Label(best)), " loses ", chart.Percent(1-se.a.Against.Ratios[best].Value), " less than ", ref, ".")
	}
	sentence := say("Against ", ref, ", the reference: ")
	parts := slices.Concat(less, more)
	hidden := 0
	if len(parts) > 4 {
		parts, hidden = parts[:4], len(parts)-4
	}
	for i, p := range parts {
		if i > 0 {
			sentence = say(sentence, "; ")
		}
		sentence = say(sentence, p)
	}
	if hidden > 0 {
		sentence = say(sentence, "; ", chart.Count(hidden), " more in the table")
	}
	if len(equal) > 0 && len(parts)+len(open) > 0 {
		defer func() {
			lead = say(lead, " ", listed(equal), " lost the same as it in ", every(se.a.R(), "replication"), ".")
		}()
	}
	switch {
	case len(parts)+len(open) == 0:
		return head, say(listed(equal), " lost the same as ", ref, ", the reference, in ", every(se.a.R(), "replication"),
			".")
	case len(parts) == 0 && len(equal) > 0:
		return head, say(listed(open), " cannot be told apart from ", ref, ", the reference.")
	case len(parts) == 0:
		return head, say("No policy can be told apart from ", ref, ", the reference.")
	case len(open) > 0:
		sentence = say(sentence, "; ", listed(open), " cannot be told apart from it")
	}
	return head, say(sentence, " (quotients of mean regrets, 95%, all at once).")
}

// Versus returns the comparison with the reference as a table; nil without one.
func (a *Analysis) Versus(id string) *chart.Table {
	if a.Against.Ratios == nil {
		return nil
	}
	ref := a.Label(a.Against.Reference)
	t := &chart.Table{ID: id, Title: "Against " + ref + ", the reference: " + a.Name,
		Note: "Mean regret compared with that of " + ref + ": the quotient minus one, paired by replication.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true},
			{Key: "change", Head: "Against " + ref, Pct: true, Plus: true},
			{Key: "lo", Head: "95%, all at once", Pct: true, Plus: true},
			{Key: "hi", Head: "", Pct: true, Plus: true, Range: true},
			{Key: "verdict", Head: "", Text: true}}}
	if a.Against.Factor > 0 {
		t.Note += " The intervals hold for all comparisons with " + ref + " at once (factor " +
			chart.Number(a.Against.Factor, 2) + "; it was stated before the run, so other pairs do not count)."
		if a.Run.Manifest.LateReference {
			t.Note = strings.Replace(t.Note, "it was stated before the run, so other pairs do not count",
				"it was named when results were there, so all pairs count", 1)
		}
	}
	for _, i := range a.Order {
		r := a.Against.Ratios[i]
		row := chart.Row{Look: a.Policies[i], Best: i == a.Against.Reference, Cells: []chart.Cell{chart.TextCell(a.Label(i)),
			chart.Num(r.Value - 1), chart.Empty(), chart.Empty(), chart.TextCell("")}}
		switch {
		case i == a.Against.Reference:
			row.Cells[1], row.Cells[4] = chart.Empty(), chart.TextCell("reference")
		case r.OK:
			row.Cells[2], row.Cells[3] = chart.Num(r.Lo-1), chart.Num(r.Hi-1)
			row.Cells[4] = chart.TextCell(map[bool]string{true: "less", false: "too close to call"}[r.Hi < 1])
			if r.Lo > 1 {
				row.Cells[4] = chart.TextCell("more")
			}
		case a.Rounded[i]:
			row.Cells[4] = chart.TextCell(Rounding.String())
		case slices.Equal(a.Final(i), a.Final(a.Against.Reference)):
			row.Cells[4] = chart.TextCell("the same")
		case a.Against.Factor > 0:
			row.Cells[4] = chart.TextCell("too close to call")
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
