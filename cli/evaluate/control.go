package evaluate

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
)

// printControl prints whether the model pays, against its control group.
func printControl(w io.Writer, r *ope.Result, decimals int, line func(label, text string)) {
	c := r.Control
	if c == nil {
		return
	}
	line("control", c.Sentence)
	number := func(v float64) string { return fmt.Sprintf("%.*f", decimals, v) }
	pair := func(p *ope.Pair) string {
		if p == nil {
			return "–"
		}
		return number(p[0]) + " … " + number(p[1])
	}
	sure := percentOf(r.Level) + " % "
	rows := [][]string{{"  a decision of", "earns", sure + "at every look", sure + "for this n"}}
	for _, x := range []struct {
		name string
		v    *ope.ControlValue
	}{{"the model", &c.Model}, {"the control group", &c.Control}, {"difference", &c.Difference}} {
		rows = append(rows, []string{"  " + x.name, number(x.v.Mean), pair(&x.v.Every), pair(x.v.AtEnd)})
	}
	term.Columns(w, rows)
	plays := "a uniform action"
	if c.Plays == "first" {
		plays = "the first action"
	}
	line("", fmt.Sprintf("%s, %s of them in the control group, which plays %s; every one counts for both, by its probabilities",
		term.Many(c.Decisions, "decision"), term.Grouped(int64(c.Controlled)), plays))
	if c.Before > 0 {
		line("", fmt.Sprintf("%s under another control, or before it, are not among them", term.Many(c.Before, "decision")))
	}
	if u := c.ByUnit; u != nil {
		text := fmt.Sprintf("of each unit the first decision counts, for its group; all decisions by the groups of %s and %s units: %s and %s",
			term.Grouped(int64(u.Units[0])), term.Grouped(int64(u.Units[1])), number(u.Model), number(u.Control))
		if u.Normal != nil {
			text += fmt.Sprintf(", difference %s (normal, by units, for one look)", pair(u.Normal))
		} else {
			text += "; " + u.Why
		}
		line("units", text)
	}
}

// controlOf adds the comparison with the control group to a result.
func controlOf(r *ope.Result, log *ope.ControlLog) {
	if log == nil {
		return
	}
	var why string
	if r.Control, why = log.Result(r.Log.Pending > 0); why != "" && log.Begun() {
		r.Warnings = append(r.Warnings, "no comparison with the control group: "+why)
	}
}

// group reads --control of a plan: SHARE or SHARE,first.
func (p *planningFlags) group() (logged.Control, error) {
	share, plays, has := strings.Cut(p.control, ",")
	v, err := strconv.ParseFloat(share, 64)
	c := logged.Control{Share: v, First: plays == "first"}
	if err != nil || !(c.Share > 0 && c.Share <= .5) || has && plays != "first" && plays != "uniform" {
		return c, term.Misuse(fmt.Errorf("--control %s: expected the share of the control group, above 0 and at most 0.5, and what it plays: "+
			"0.05 or 0.05,uniform or 0.05,first", p.control))
	}
	return c, nil
}

// planControl plans for a model and its control group, from --actions, --floor and --rate: the model plays one action, and
// all of them with the floor.
func (g *flags) planControl(out io.Writer) error {
	q, err := g.question("", "")
	if err != nil {
		return err
	}
	group, err := q.plan.group()
	if err != nil {
		return err
	}
	K, f := g.log.in.Actions, q.plan.floor
	switch {
	case K < 2 || K > 100_000:
		return term.Misuse(fmt.Errorf("--actions %d: expected 2 to 100 000 actions", K))
	case !(f >= 0 && f <= 1):
		return term.Misuse(fmt.Errorf("--floor %v: expected a share from 0 to 1", f))
	case len(q.targets) > 0:
		return term.Misuse(errors.New("--target and --control: the target of a plan with a control group is the model"))
	}
	law := make([]float64, K)
	for a := range law {
		law[a] = f / float64(K)
	}
	law[K-1] += 1 - f // not the first one, which a control may play
	lo, hi := q.options.Rewards[0], q.options.Rewards[1]
	var p ope.ControlPlan
	p.Add(&logged.Event{K: K, Law: law, Unit: q.unit}, group, lo, hi)
	a := &ControlPlanAnswer{Share: group.Share, Plays: "uniform", Units: q.unit != "", Level: q.options.Level, Rewards: ope.Pair{lo, hi}, Plans: []*ope.ControlPlanned{}}
	if group.First {
		a.Plays = "first"
	}
	wanted, err := q.plan.parse((hi - lo) * q.plan.rate)
	if err != nil {
		return err
	}
	for _, d := range wanted {
		if lo+float64((hi-lo)*q.plan.rate)+d > hi {
			if q.plan.differences == "" {
				break
			}
			return term.Misuse(fmt.Errorf("--difference %s: the model would earn %s a decision, expected at most %s", figures(d),
				figures(lo+float64((hi-lo)*q.plan.rate)+d), figures(hi)))
		}
		// The rate is what the control group earns, and both together are what is seen.
		x, err := p.Plan(group.Share, d, lo+float64((hi-lo)*q.plan.rate)+float64((1-group.Share)*d), lo, hi, q.options.Level)
		if err != nil {
			if q.plan.differences == "" && len(a.Plans) > 0 {
				break
			}
			return term.Misuse(fmt.Errorf("--plan --control: %w", err))
		}
		a.Plans = append(a.Plans, x)
	}
	if g.output.json {
		return writeJSON(out, a)
	}
	return a.print(out, lo+float64((hi-lo)*q.plan.rate))
}

// ControlPlanAnswer is the object of evaluate --plan --control --json.
type ControlPlanAnswer struct {
	Share   float64               `json:"share"`
	Plays   string                `json:"plays"`
	Units   bool                  `json:"units"` // persons are drawn: the first decision of each counts
	Level   float64               `json:"level"`
	Rewards ope.Pair              `json:"rewards"`
	Plans   []*ope.ControlPlanned `json:"plans"`
}

func (a *ControlPlanAnswer) print(out io.Writer, control float64) error {
	line := func(label, text string) {
		fmt.Fprintf(out, "%s %s\n", term.PadRight(label, 9), term.Wrap(text, 10))
	}
	plays := "a uniform action"
	if a.Plays == "first" {
		plays = "the first action"
	}
	what := "decisions"
	if a.Units {
		what = "persons"
	}
	line("plan", fmt.Sprintf("a control group of %s %% that plays %s: %s until a difference is settled (%s %% sure) with 80 %% chance; "+
		"the control group earns %s", percentOf(a.Share), plays, what, percentOf(a.Level), figures(control)))
	rows := [][]string{{"  the model earns", "more", "every look", "fixed n", "of these control"}}
	count := func(n float64) string {
		if n == 0 {
			return "beyond any"
		}
		return term.Grouped(int64(roundedUp(n)))
	}
	for _, x := range a.Plans {
		rows = append(rows, []string{"  " + figures(control+x.Difference), figures(x.Difference), count(x.Every), count(x.AtEnd),
			count(max(1, x.Every*a.Share))})
	}
	term.Columns(out, rows)
	line("rests on", "a model that has learned, and rewards at one end of the range or the other; while it learns it earns less. Within a factor "+
		"of about 1.4. GET /v1/models/NAME/control?share=… plans from the decisions of a model that runs")
	return nil
}
