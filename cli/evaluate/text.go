package evaluate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"troupe/cli/term"
	"troupe/internal/decimal"
	"troupe/ope"
)

// printResult prints the answer in 80 columns.
func printResult(w io.Writer, r *ope.Result, page, source string) {
	name := strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))
	if r.Log.Model != nil {
		name = *r.Log.Model
	}
	line := func(label, text string) {
		fmt.Fprintf(w, "%s %s\n", term.PadRight(term.Shorten(label, 9), 9), term.Wrap(text, 10))
	}
	line(name, logLine(r))
	if n := r.Log.Names; n != nil {
		line("actions", term.Numbered(n))
	}
	decimals := decimalsOf(r)
	printControl(w, r, decimals, line)
	if len(r.Targets) >= shortTable {
		printShort(w, r, decimals)
		for _, t := range r.Targets {
			if t.Segments != nil {
				line("segments", t.Name+", by "+t.Segments.Path()+": "+t.Segments.Sentence)
			}
		}
	} else {
		for i, t := range r.Targets {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if len(r.Targets) > 1 {
				fmt.Fprintf(w, "%s\n", term.Shorten(t.Name, 24))
			}
			line("overlap", overlapLine(t, r))
			printTable(w, t, r, decimals)
			line("verdict", t.Verdict)
			printSegments(w, t, decimals, line)
		}
	}
	printCandidates(w, r, decimals, line)
	printCoin(w, r, decimals, line)
	printPropensities(w, r, line)
	if r.Assumptions.AtEnd != "" {
		line("this n", r.Assumptions.AtEnd)
	}
	if anySure(r) {
		line(sureLabel(r), r.Assumptions.Sequence)
	}
	for _, s := range r.Warnings {
		line("warning", s)
	}
	if page != "" {
		line("report", page)
	}
}

// printPropensities prints what is known of estimated propensities.
func printPropensities(w io.Writer, r *ope.Result, line func(label, text string)) {
	f := r.Propensities
	if f == nil {
		return
	}
	fits := "chance explains how far they are from what was played"
	if !f.Fits {
		fits = "they are further from what was played than chance explains"
	}
	line("logger", fmt.Sprintf("estimated: a multinomial logit of the context and what was offered, on %s, each from the other folds of %d; smallest "+
		"propensity of what was played %s; %s", term.Many(f.Rows, "decision"), f.Folds, figures(f.Least), fits))
	rows := [][]string{{"  estimated from", "to", "mean", "played", "z"}}
	for _, d := range f.Deciles {
		rows = append(rows, []string{"  " + three(d.From), three(d.To), three(d.Mean), three(d.Played), strconv.FormatFloat(d.Z, 'f', 1, 64)})
	}
	term.Columns(w, rows)
	line("rests on", r.Assumptions.Normal)
	for _, t := range r.Targets {
		if s := t.Sensitivity; s != nil && s.Gamma != nil {
			line("hidden", fmt.Sprintf("%s: the sign turns if something that is not in the log changes the odds of an action by Γ = %s; %s", t.Name,
				figures(*s.Gamma), s.Model))
		}
	}
}

func three(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// sureLabel is what the interval that holds at every look is called beside the line about it.
func sureLabel(r *ope.Result) string {
	if r.Assumptions.AtEnd != "" {
		return "any look"
	}
	return "sure"
}

// anySure reports whether a result has an interval that holds at every look.
func anySure(r *ope.Result) bool {
	for _, t := range r.Targets {
		if t.Segments != nil || t.Uplift != nil && t.Uplift.Sequence != nil {
			return true
		}
		for i := range t.Estimates {
			if e := &t.Estimates[i]; e.Sequence != nil || e.Lower != nil {
				return true
			}
		}
	}
	return r.Candidates != nil || r.Pairs != nil || r.Coin != nil
}

// logLine is what the log has.
func logLine(r *ope.Result) string {
	parts := []string{term.Many(r.Log.Events, "decision") + " evaluated"}
	if r.Log.First != nil {
		layout := "2 Jan 2006"
		if r.Log.First.Year() == r.Log.Last.Year() {
			layout = "2 Jan"
		}
		first, last := r.Log.First.Format(layout), r.Log.Last.Format("2 Jan 2006")
		if r.Log.First.Format("2 Jan 2006") == last {
			parts[0] += ", " + last
		} else {
			parts[0] += ", " + first + " to " + last
		}
	}
	if r.Log.Units > 0 {
		parts = append(parts, term.Many(r.Log.Units, "unit"))
	}
	if r.Log.Pending > 0 {
		parts = append(parts, term.Grouped(int64(r.Log.Pending))+" still open")
	}
	for _, k := range slices.Sorted(maps.Keys(r.Log.Skipped)) {
		parts = append(parts, term.Grouped(int64(r.Log.Skipped[k]))+" skipped: "+k)
	}
	return strings.Join(parts, "; ")
}

func overlapLine(t *ope.Evaluated, r *ope.Result) string {
	d := t.Diagnostics
	s := fmt.Sprintf("%s: %s effective of %s", t.Overlap, figures(d.ESS), term.Grouped(int64(r.Log.Events)))
	if d.ESSRewarded > 0 {
		s += fmt.Sprintf(", %s of them rewarded", figures(d.ESSRewarded))
	}
	s += ", largest weight " + figures(d.WeightMax)
	switch {
	case d.Unsupported == nil:
	case *d.Unsupported == 0:
		s += ", nothing unsupported"
	default:
		s += ", " + decimal.Short(100**d.Unsupported, 2) + "% unsupported"
	}
	if m := d.Marginal; m != nil {
		s += fmt.Sprintf("; without the members of each decision %s effective, largest weight %s", figures(m.ESS),
			figures(m.WeightMax))
	}
	return s
}

// figures prints a count or a weight with three digits.
func figures(v float64) string {
	if v >= 999.5 {
		return term.Grouped(int64(math.Round(v)))
	}
	return decimal.Short(v, 3)
}

// decimalsOf is how many decimals the numbers need: two digits of the narrowest interval.
func decimalsOf(r *ope.Result) int {
	least := (r.Rewards[1] - r.Rewards[0]) / 2
	if math.IsInf(least, 1) {
		least = 1
	}
	tiny := 1e-9 * least // an interval of rounding: the target plays as the logger did
	see := func(p *ope.Pair) {
		if p != nil && p[1]-p[0] > tiny {
			least = min(least, p[1]-p[0])
		}
	}
	for _, t := range r.Targets {
		for i := range t.Estimates {
			if t.Estimates[i].Estimator != "dm" { // its width says nothing about the truth
				see(t.Estimates[i].Normal)
				see(t.Estimates[i].Sequence)
				see(t.Estimates[i].AtEnd)
			}
		}
		if t.Uplift != nil {
			see(t.Uplift.Normal)
		}
	}
	return max(0, min(9, 2-int(math.Floor(math.Log10(least)))-1))
}

func interval(p *ope.Pair, decimals int, sign bool) string {
	if p == nil {
		return "–"
	}
	if sign {
		decimals = ope.Apart(p, decimals)
	}
	switch {
	case math.IsInf(p[1], 1):
		return "at least " + signed(p[0], decimals, sign)
	case math.IsInf(p[0], -1):
		return "at most " + signed(p[1], decimals, sign)
	}
	return signed(p[0], decimals, sign) + " … " + signed(p[1], decimals, sign)
}

// point prints an estimate, a dash where it is not shown (ope.Shown).
func point(v *float64, decimals int, sign bool) string {
	if v == nil {
		return "–"
	}
	return signed(*v, decimals, sign)
}

func signed(v float64, decimals int, sign bool) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
		sign = false
	}
	if sign && v > 0 {
		s = "+" + s
	}
	return strings.Replace(s, "-", "−", 1)
}

// printTable prints the difference and the estimates of one target.
func printTable(w io.Writer, t *ope.Evaluated, r *ope.Result, decimals int) {
	if len(t.Estimates) == 0 && t.Uplift == nil {
		return
	}
	level := strconv.FormatFloat(100*r.Level, 'g', 4, 64)
	rows := [][4]string{{"", "value", level + "% sure", level + "% if n is large"}}
	atEnd := r.Assumptions.AtEnd != ""
	if atEnd {
		rows[0] = [4]string{"", "value", level + "% for this n", level + "% at every look"}
	}
	value := func(v *float64, sign bool) string {
		if sign {
			return point(v, ope.Apart(surest(t.Uplift.AtEnd, t.Uplift.Sequence), decimals), true)
		}
		return point(v, decimals, false)
	}
	if u := t.Uplift; u != nil {
		row := [4]string{"difference", value(u.Value, true), interval(u.Sequence, decimals, true),
			bracketed(interval(u.Normal, decimals, true), u.Doubt)}
		if atEnd {
			row[2], row[3] = interval(u.AtEnd, decimals, true), interval(u.Sequence, decimals, true)
		}
		rows = append(rows, row)
		if u.Marginal != nil {
			rows = append(rows, [4]string{"  without the members", "", interval(u.Marginal, decimals, true), ""})
		}
	}
	first := true
	var notes []string
	for i := range t.Estimates {
		e := &t.Estimates[i]
		label := "logged"
		if e.Estimator != "logged" {
			label = ""
			if first {
				label, first = term.Shorten(t.Name, 15), false
			}
			label = term.PadRight(label, 16) + e.Estimator
		}
		sure := interval(e.Sequence, decimals, false)
		switch {
		case e.Lower != nil:
			sure = "at least " + value(e.Lower, false)
		case e.Estimator == "logged":
			sure = ""
		}
		large := interval(e.Normal, decimals, false)
		if e.Interval != nil {
			large = interval(e.Interval, decimals, false)
		}
		point := value(e.Value, false)
		if e.Outside {
			point += "*"
		}
		row := [4]string{label, point, sure, bracketed(large, e.Doubt)}
		if atEnd {
			row[2], row[3] = interval(e.AtEnd, decimals, false), sure
		}
		rows = append(rows, row)
		if e.Why != nil {
			notes = append(notes, e.Estimator+": "+*e.Why)
		}
	}
	var width [4]int
	for _, row := range rows {
		for k, c := range row {
			width[k] = max(width[k], utf8.RuneCountInString(c))
		}
	}
	width[0] = max(width[0], 24)
	for _, row := range rows {
		line := term.PadRight(row[0], width[0]) + "  " + term.PadLeft(row[1], width[1]) + "  " +
			term.PadRight(row[2], width[2]) + "  " + row[3]
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	if t.Uplift != nil && t.Uplift.Why != nil {
		notes = append([]string{"difference: " + *t.Uplift.Why}, notes...)
	} else if t.Uplift != nil && t.Uplift.Value != nil {
		notes = append([]string{"the difference is paired on the same events and uses the reward model on both " +
			"sides: it is not dr minus logged"}, notes...)
	}
	if !atEnd { // there are no brackets
		notes = append(notes, doubts(t)...)
	}
	for _, n := range notes {
		fmt.Fprintf(w, "  %s\n", term.Wrap(n, 2))
	}
}

// surest is the interval that decides.
func surest(atEnd, sequence *ope.Pair) *ope.Pair {
	if atEnd != nil {
		return atEnd
	}
	return sequence
}

// bracketed puts an interval into brackets where something says that it covers less than it says.
func bracketed(s string, doubt *string) string {
	if doubt == nil || s == "–" {
		return s
	}
	return "(" + s + ")"
}

// doubts says once for each reason why intervals stand in brackets.
func doubts(t *ope.Evaluated) (out []string) {
	var order []string
	rows := map[string][]string{}
	see := func(name string, why *string) {
		if why == nil {
			return
		}
		if rows[*why] == nil {
			order = append(order, *why)
		}
		rows[*why] = append(rows[*why], name)
	}
	if t.Uplift != nil {
		see("difference", t.Uplift.Doubt)
	}
	for i := range t.Estimates {
		see(t.Estimates[i].Estimator, t.Estimates[i].Doubt)
	}
	for _, why := range order {
		out = append(out, "in brackets ("+strings.Join(rows[why], ", ")+"), it covers less than it says: "+why)
	}
	return out
}
