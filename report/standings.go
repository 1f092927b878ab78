package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/report/headline"
)

// few is how many environments have room for their estimates beside the standing.
const fewEnvironments = 4

// standings is the picture of several environments: who loses more where, a row for each policy, those first that lose more
// in the fewest environments, and a column for each environment. The numbers stand in the cells of a few environments, and
// in the title of each cell. It is "" for one environment, or one policy.
func standings(run *Run, all []*Analysis) template.HTML {
	if len(all) < 2 || len(run.Manifest.Policies) < 2 {
		return ""
	}
	var order []int
	worse := make([]int, len(run.Manifest.Policies))
	at := make([]float64, len(worse)) // mean place by the estimates
	for p := range run.Manifest.Policies {
		order = append(order, p)
		for _, a := range all {
			i := slices.Index(a.Policies, p)
			if i < 0 {
				worse[p]++
				continue
			}
			worse[p] += b2i(a.stand(i) == headline.LosesMore)
			at[p] += float64(slices.Index(a.Order, i))
		}
	}
	slices.SortStableFunc(order, func(p, q int) int {
		if worse[p] != worse[q] {
			return worse[p] - worse[q]
		}
		switch {
		case at[p] < at[q]:
			return -1
		case at[p] > at[q]:
			return 1
		}
		return 0
	})
	var b strings.Builder
	text := template.HTMLEscapeString
	b.WriteString(`<table class="stand"><thead><tr><th scope="col">Policy</th>`)
	for _, a := range all {
		fmt.Fprintf(&b, `<th scope="col">%s</th>`, text(a.Name))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, p := range order {
		label := run.Manifest.Policies[p].Name
		fmt.Fprintf(&b, `<tr class="%s"><th scope="row"><i class="sw"></i><span title="%s">%s</span></th>`, chart.ClassOf(p), text(label),
			text(chart.Shorten(label, 28)))
		for _, a := range all {
			i := slices.Index(a.Policies, p)
			if i < 0 {
				b.WriteString(`<td title="no finished replication">–</td>`)
				continue
			}
			b.WriteString(standingCell(a, i, len(all) <= fewEnvironments))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>")
	return template.HTML(b.String()) // words went through HTMLEscapeString
}

// standingCell is a policy in an environment.
func standingCell(a *Analysis, i int, wide bool) string {
	value := a.amount(a.Summary[i].Estimate)
	title := a.Name + ", " + a.Label(i) + ": " + value
	if a.Estimand == infer.Mean && a.R() > 1 {
		title += " ± " + chart.Amount(a.Summary[i].SE, a.Dec)
	}
	word := a.Word(i)
	class := map[headline.Standing]string{headline.Lowest: "low", headline.Equal: "low", headline.LosesMore: "more",
		headline.AboutSame: "near", headline.TooClose: "near"}[a.stand(i)]
	if a.allSame() {
		class = "near"
	}
	if a.R() < a.Estimand.Least() && class != "low" {
		class, word = "", "too few runs"
	}
	if d := &a.Pairs.Diff[i]; d.OK {
		title += ", " + a.plain(d.Lo) + " to " + a.plain(d.Hi) + " more than the lowest"
	}
	mark := a.Pairs.Diff[i].Verdict.mark()
	shown := `<span aria-hidden="true">` + mark + "</span>"
	switch {
	case wide:
		shown = value + " " + shown
	case mark == "":
		shown = value
	}
	return fmt.Sprintf(`<td class="%s" title="%s">%s<span class="sr">%s</span></td>`, class, template.HTMLEscapeString(title+", "+word), shown,
		template.HTMLEscapeString(word))
}
