package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"troupe/cli/term"
	"troupe/ope"
)

// planningFlags are the flags of evaluate --plan.
type planningFlags struct {
	on          bool
	rate, floor float64
	chance      float64
	differences string
	control     string
}

func (p *planningFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&p.on, "plan", false, "say how many decisions would settle a difference, from laws alone; rewards are "+
		"not looked at")
	f.StringVar(&p.differences, "difference", "", "with --plan: differences in units of the rewards, or per cent of "+
		"what runs: 0.02,10%; default 5%,10%,20%,50%")
	f.Float64Var(&p.rate, "rate", 0.5, "with --plan: what runs earns this share of the range of rewards")
	f.Float64Var(&p.floor, "floor", 0, "with --plan and no log: the logger plays one of --actions, and all of them "+
		"with this share; the target plays another one")
	f.StringVar(&p.control, "control", "", "with --plan and no log: a control group of this share that plays a uniform action, or "+
		"with 0.05,first the first one; it earns --rate")
	f.Float64Var(&p.chance, "chance", 0.8, "with --plan: chance that this number of decisions settles it")
}

// check refuses the flags of a plan without one.
func (p *planningFlags) check(f *pflag.FlagSet) error {
	for _, name := range []string{"difference", "rate", "floor", "chance", "control"} {
		if !p.on && f.Changed(name) {
			return term.Misuse(fmt.Errorf("--%s is for --plan", name))
		}
	}
	switch {
	case !p.on:
		return nil
	case !(p.rate > 0 && p.rate < 1):
		return term.Misuse(fmt.Errorf("--rate %v: expected a share between 0 and 1", p.rate))
	case !(p.chance > 0 && p.chance < 1):
		return term.Misuse(fmt.Errorf("--chance %v: expected a number between 0 and 1", p.chance))
	case f.Changed("by"):
		return term.Misuse(errors.New("--by and --plan: one at a time; a segment needs as many decisions of its own " +
			"as the whole"))
	case f.Changed("control") && f.NArg() > 0:
		return term.Misuse(errors.New("--control is for a plan without a log: a server plans from its own, GET /v1/models/NAME/control?share=0.05"))
	case f.Changed("control") && f.Changed("chance"):
		return term.Misuse(errors.New("--chance and --control: the plan of a control group is for a chance of 0.8"))
	case f.Changed("floor") && f.NArg() > 0:
		return term.Misuse(errors.New("--floor is for a plan without a log: a log has the laws themselves"))
	}
	_, err := p.parse(1)
	return err
}

// parse reads --difference; rate is the reward of what runs in units of the rewards.
func (p *planningFlags) parse(rate float64) (out []float64, err error) {
	text := p.differences
	if text == "" {
		text = "5%,10%,20%,50%"
	}
	for part := range strings.SplitSeq(text, ",") {
		number, percent := strings.CutSuffix(strings.TrimSpace(part), "%")
		v, err := strconv.ParseFloat(number, 64)
		switch {
		case err == nil && v == 0:
			return nil, term.Misuse(fmt.Errorf("--difference %s: no number of decisions settles a difference of 0",
				part))
		case err != nil || !(v > 0) || v > 1e300:
			return nil, term.Misuse(fmt.Errorf("--difference %s: expected a positive number, or one of per cent", part))
		case percent:
			v *= rate / 100
		}
		out = append(out, v)
	}
	return out, nil
}

// PlanAnswer is the object of evaluate --plan --json.
type PlanAnswer struct {
	Decisions int          `json:"decisions"` // whose laws were read; 0: from a spec
	PerDay    float64      `json:"per_day"`   // 0: not known
	Rate      float64      `json:"rate"`
	Level     float64      `json:"level"`
	Chance    float64      `json:"chance"`
	Rewards   ope.Pair     `json:"rewards"`
	Targets   []PlanTarget `json:"targets"`
	Warnings  []string     `json:"warnings"`
}

// PlanTarget is the plan for one target.
type PlanTarget struct {
	Name  string         `json:"name"`
	Most  float64        `json:"most"` // the largest difference that the laws and the rate allow
	Plans []*ope.Planned `json:"plans"`
}

// add plans for one target.
func (a *PlanAnswer) add(f *planningFlags, name string, p *ope.Planner) error {
	scale := a.Rewards[1] - a.Rewards[0]
	t := PlanTarget{Name: name, Most: p.Most(), Plans: []*ope.Planned{}}
	wanted, err := f.parse(scale * f.rate)
	if err != nil {
		return err
	}
	for _, x := range wanted {
		if f.differences == "" && x > t.Most && t.Most > 0 {
			continue
		}
		planned, err := p.Plan(x)
		if err != nil {
			return term.Misuse(fmt.Errorf("--plan: target %s: %w", name, err))
		}
		t.Plans = append(t.Plans, planned)
	}
	if len(t.Plans) == 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("%s: with this rate the laws allow a difference of at most %s",
			name, figures(t.Most)))
	}
	if p.Again() > 0 {
		a.Warnings = append(a.Warnings, name+": the plan counts units, of which the first decision counts; "+
			term.Grouped(int64(p.Again()))+" later ones do not")
	}
	a.Targets, a.PerDay, a.Decisions = append(a.Targets, t), p.PerDay(), p.Events()
	return nil
}

// planner plans for rewards of this range.
func (q *question) planner(r ope.Pair) (*ope.Planner, error) {
	p, err := ope.NewPlanner(ope.PlanOptions{Rate: q.plan.rate, Level: q.options.Level, Chance: q.plan.chance, Rewards: r})
	if err != nil {
		return nil, term.Misuse(fmt.Errorf("--plan: %w", err))
	}
	return p, nil
}

// planFloor plans from --actions, --floor and --rate.
func (g *flags) planFloor(out io.Writer) error {
	q, err := g.question("", "")
	if err != nil {
		return err
	}
	K, f := g.log.in.Actions, q.plan.floor
	switch {
	case K < 2 || K > 100_000:
		return term.Misuse(fmt.Errorf("--actions %d: expected 2 to 100 000 actions; or a log is missing", K))
	case !(f > 0 && f <= 1):
		return term.Misuse(fmt.Errorf("--floor %v: expected a share above 0 and up to 1", f))
	case len(q.targets) > 0:
		return term.Misuse(errors.New("--target needs a log: without one the target plays another action than the " +
			"logger"))
	}
	pb, pe := make([]float64, K), make([]float64, K)
	for a := range pb {
		pb[a] = f / float64(K)
	}
	pb[0] += 1 - f
	pe[1] = 1
	p, err := q.planner(*q.options.Rewards)
	if err != nil {
		return err
	}
	p.Add(pb, pe)
	a := &PlanAnswer{Rate: q.plan.rate, Level: q.options.Level, Chance: q.plan.chance, Rewards: *q.options.Rewards,
		Warnings: []string{}}
	if err := a.add(&q.plan, "another action", p); err != nil {
		return err
	}
	a.Decisions = 0
	return a.print(out, g.output.json)
}

// planLog plans from the laws of a log.
func planLog(ctx context.Context, q *question, copied *copied, progress io.Writer) (*PlanAnswer, error) {
	o, err := openAndSelect(ctx, q, copied, progress)
	if err != nil {
		return nil, err
	}
	skip, err := o.selected.train(ctx, q, o.log, progress)
	if err != nil {
		return nil, inFile(err, q, o.log)
	}
	a := &PlanAnswer{Rate: q.plan.rate, Level: q.options.Level, Chance: q.plan.chance, Warnings: []string{}}
	for _, t := range o.selected.targets {
		f, err := openPart(q, o.log, skip)
		if err != nil {
			return nil, inFile(err, q, o.log)
		}
		rewards := *rewardRange(q, f.r)
		p, err := q.planner(rewards)
		if err == nil {
			err = p.Read(f, t)
		}
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, inFile(ofData(err), q, o.log)
		}
		if a.Rewards = rewards; len(a.Targets) == 0 {
			a.Warnings = append(a.Warnings, lawWarnings(f.r)...)
		}
		if err := a.add(&q.plan, t.Name(), p); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// lawWarnings are the warnings of the log but those about rewards, which a plan does not look at.
func lawWarnings(r logReader) []string {
	if s, ok := r.(serverReader); ok {
		return s.Notes()
	}
	return r.Warnings()
}

// print prints the plan, as text or as JSON.
func (a *PlanAnswer) print(out io.Writer, json bool) error {
	if json {
		return writeJSON(out, a)
	}
	line := func(label, text string) {
		fmt.Fprintf(out, "%s %s\n", term.PadRight(label, 9), term.Wrap(text, 10))
	}
	from := "a logger with a floor"
	if a.Decisions > 0 {
		from = "the laws of " + term.Many(a.Decisions, "decision")
	}
	line("plan", fmt.Sprintf("from %s: decisions until a difference is sure (%s%% sure, at every look or once) with %s%% "+
		"chance; what runs earns %s", from, percentOf(a.Level), percentOf(a.Chance),
		figures(a.Rewards[0]+(a.Rewards[1]-a.Rewards[0])*a.Rate)))
	for _, t := range a.Targets {
		rows := [][5]string{{t.Name, "every look", "fixed n", "today's rate", "half with"}}
		if a.PerDay == 0 {
			rows[0][3] = ""
		}
		for _, p := range t.Plans {
			row := [5]string{fmt.Sprintf("%s to %s", figures(p.From), figures(p.To)), "beyond any", "beyond any", "", "–"}
			if p.AtEnd > 0 {
				row[2] = term.Grouped(int64(roundedUp(p.AtEnd)))
			}
			if p.Decisions > 0 {
				row[1] = term.Grouped(int64(roundedUp(p.Decisions)))
				if p.Time > 0 {
					row[3] = lasting(p.Time)
				}
				if p.Share != nil {
					row[4] = fmt.Sprintf("%s%% uniform", figures(100**p.Share))
				}
			}
			rows = append(rows, row)
		}
		for _, row := range rows {
			fmt.Fprintln(out, strings.TrimRight(term.PadRight(term.Shorten(row[0], 22), 22)+"  "+
				term.PadLeft(row[1], 11)+"  "+term.PadLeft(row[2], 11)+"  "+term.PadRight(row[3], 12)+"  "+row[4], " "))
		}
	}
	line("fixed n", "so many do where they are fixed beforehand and looked at once, and the world does not change (evaluate --at-end)")
	if a.PerDay > 0 {
		line("rate", fmt.Sprintf("%s decisions a day in this log", figures(a.PerDay)))
	}
	line("half with", "this share of uniform decisions mixed into the logger half as many would do; – where none does")
	line("rests on", "rewards at one end of the range or the other, all gain from what the target plays more "+
		"often, and a logger that goes on as it does; within a factor of about 1.4")
	for _, w := range a.Warnings {
		line("warning", w)
	}
	return nil
}

func percentOf(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) }

// roundedUp is a count with two digits.
func roundedUp(v float64) float64 {
	m := math.Pow(10, max(math.Floor(math.Log10(v))-1, 0))
	return math.Ceil(v/m) * m
}

// lasting says a time with its largest unit.
func lasting(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{365 * 24 * time.Hour, "years"}, {24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= 2*u.unit {
			return figures(math.Round(10*float64(d)/float64(u.unit))/10) + " " + u.name
		}
	}
	return figures(d.Seconds()) + " seconds"
}
