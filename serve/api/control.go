package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"troupe/logged"
	"troupe/ope"
	"troupe/serve"
	"troupe/serve/joined"
	"troupe/serve/model"
)

// The comparison with a control group reads the log from a block of entries on, as that with a coin does: of the newest
// entry and the one before. The page of a model takes the smaller blocks. Of many decisions the first ones count.
const (
	controlBlock     = 65536
	controlDecisions = 1 << 19
)

// controlView says whether a model pays, against its control group. The intervals at every look hold while From stays.
type controlView struct {
	From     uint64              `json:"from" doc:"first log entry that was read"`
	To       uint64              `json:"to" doc:"last log entry"`
	Level    float64             `json:"level" doc:"of the intervals, each by itself"`
	Pending  int                 `json:"pending" doc:"decisions from the first without a final reward on"`
	Early    int                 `json:"early" doc:"count before their windows are over"`
	Cut      bool                `json:"cut,omitempty" doc:"there are more decisions than the 524288 that are read: the first ones count; without units, from begins later"`
	Left     map[string]int      `json:"left_out,omitempty" doc:"decisions, by reason"`
	Control  *ope.ControlResult  `json:"comparison,omitempty" doc:"absent where there is none"`
	Why      string              `json:"why,omitempty" doc:"why there is none"`
	Plan     *ope.ControlPlanned `json:"plan,omitempty" doc:"how many decisions it takes: with share for a control group that the model does not have, otherwise while nothing is settled"`
	WhyPlan  string              `json:"why_no_plan,omitempty" doc:"why there is no plan, where one was asked for"`
	requests int
}

type controlIn struct {
	Model      string  `path:"model" maxLength:"64" doc:"name of the model"`
	From       uint64  `query:"from" doc:"first log entry to read; default is a block of 65536 entries before that of the newest"`
	Share      float64 `query:"share" minimum:"0" maximum:"0.5" doc:"plan a control group of this share, for the newest decisions of the model as they were"`
	Plays      string  `query:"plays" enum:"uniform,first" doc:"what it plays; default uniform"`
	Difference float64 `query:"difference" minimum:"0" doc:"plan for this difference, in units of reward; default a tenth of what a decision earns"`
}

// planned is what a plan is asked for.
type planned struct {
	group      *logged.Control // nil: that of the decisions
	difference float64         // 0: a tenth of what a decision earns
	always     bool            // also where the comparison is settled
}

// controlCalls say whether models pay.
type controlCalls struct {
	svc interface {
		serve.ModelService
		serve.RecordService
	}
	exports chan struct{} // semaphore of those that read the whole log
}

func (a *controlCalls) get(ctx context.Context, in *controlIn) (*reply[controlView], error) {
	if err := allow(ctx, Read, in.Model); err != nil {
		return nil, err
	}
	m, err := a.svc.GetModel(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	want := planned{difference: in.Difference, always: in.Difference > 0}
	switch c := m.Config.Control; {
	case in.Share > 0:
		want.group = &logged.Control{Share: in.Share, First: model.Plays(in.Plays) == model.PlaysFirst}
	case in.Plays != "":
		return nil, &fieldError{Field: "query.plays", Want: "needs share: both are of a control group to plan"}
	case in.Difference > 0 && c.IsZero():
		return nil, &fieldError{Field: "query.difference", Want: "needs share: the model has no control group"}
	}
	select {
	case a.exports <- struct{}{}:
		defer func() { <-a.exports }()
	default:
		return nil, problem("too_busy", "", fmt.Sprintf("%d other readings of the log are under way", maxExports))
	}
	v, err := a.compare(ctx, &m, in.From, controlBlock, want)
	if err != nil {
		return nil, err
	}
	return &reply[controlView]{*v}, nil
}

// compare compares the model with its control group, on the decisions whose rewards are final: the fold of troupe
// evaluate over them.
func (a *controlCalls) compare(ctx context.Context, m *serve.Model, from, block uint64, want planned) (*controlView, error) {
	start, err := a.svc.Log(ctx, m.Name, 0, 1)
	if err != nil {
		return nil, err
	}
	units := m.Config.Unit != ""
	most := controlDecisions
	if block == coinBlock {
		most = pageDecisions
	}
	if units && from == 0 {
		from = max(start.From, m.Created.Seq, 1)
	} else if from == 0 {
		from = blockFrom(start.From, m.Created.Seq, start.Applied, block)
	} else if from < start.From {
		return nil, &fieldError{Field: "query.from", Want: fmt.Sprintf("is before entry %d, where the log begins", start.From)}
	}
	v := &controlView{From: from, To: max(start.Applied, from), Level: coinLevel}
	if from > start.Applied {
		v.Why = "there is no decision yet"
		return v, nil
	}
	lo, hi := m.Range.Min, m.Range.Max
	switch {
	case !(lo < hi) || hi-lo > 1e300:
		v.Why = "rewards have no range"
	case units && from > m.Created.Seq:
		v.Why = fmt.Sprintf("units may have decided before entry %d, and their groups were known then", from)
	case m.Range.ChangedSeq >= from:
		v.Why = "the range of rewards was widened on the way; declare one (reward.min and max), or ask with a later from"
	}
	if v.Why != "" {
		return v, nil
	}
	page, err := a.svc.Decisions(ctx, m.Name, from, int(start.Applied-from+1))
	if err != nil {
		return nil, err
	}
	x := &controlReader{view: v, j: joined.New(joined.Options{}), log: ope.NewControlLog(lo, hi, coinLevel), lo: lo, hi: hi, want: want}
	for d, err := range page.Decisions {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if v.requests++; v.requests > most {
			v.Cut = true
			break
		}
		if err := x.add(d.Decided); err != nil {
			return nil, err
		}
	}
	x.end()
	return v, nil
}

// controlReader folds decisions in the order of the log.
type controlReader struct {
	view   *controlView
	j      *joined.Joiner // it knows which decisions are events, and counts the others
	log    *ope.ControlLog
	plan   ope.ControlPlan
	want   planned
	lo, hi float64
	now    []float64 // the law of a model without its control group
}

func (x *controlReader) add(d *joined.Decided) error {
	early := false
	if d.State == joined.Pending {
		if d.AtEnd == "" {
			if d.Played() {
				x.view.Pending++
			}
			return nil
		}
		if d.State = d.AtEnd; d.Played() {
			x.view.Early++
			early = true
		}
	}
	e, err := x.j.Event(d)
	if err != nil || e == nil {
		return err
	}
	e.Early = early
	x.log.Add(e)
	if x.want.group != nil {
		if e.Control != nil && e.Law != nil {
			e.Law, _ = e.Control.Groups(x.now, e.Law)
			x.now = e.Law
		}
		x.plan.Add(e, *x.want.group, x.lo, x.hi)
	}
	return nil
}

func (x *controlReader) end() {
	v := x.view
	if len(x.j.Skipped) > 0 {
		v.Left = x.j.Skipped
	}
	if err := x.j.Activation(); err != nil {
		v.Why = err.Error()
		return
	}
	v.Control, v.Why = x.log.Result(v.Pending > 0 || v.Cut)
	var err error
	switch c := v.Control; {
	case x.want.group != nil:
		v.Plan, err = x.plan.Plan(x.want.group.Share, x.want.difference, math.NaN(), x.lo, x.hi, coinLevel)
	case c != nil && (x.want.always || c.Settled == "no"):
		v.Plan, err = x.log.Plan(x.want.difference)
	}
	if err != nil {
		v.WhyPlan = err.Error()
	}
}

// controlPage is the comparison on the page of a model.
type controlPage struct {
	Sentence string
	Notes    []string
	Rows     []controlRow

	result *ope.ControlResult
}

type controlRow struct{ Name, Mean, Every, AtEnd string }

// page returns what the page shows, nil for a model that neither has a control group nor had one.
func (a *controlCalls) page(ctx context.Context, m *serve.Model, h *modelHistory) *controlPage {
	if m.Config.Control.IsZero() && !h.controlled {
		return nil
	}
	v, err := a.compare(ctx, m, 0, coinBlock, planned{})
	switch {
	case err != nil:
		return &controlPage{Sentence: problemOf(err).Detail}
	case v.Control == nil:
		return &controlPage{Sentence: "Whether the model earns more than its control group cannot be said yet: " + v.Why + "."}
	}
	c := v.Control
	p := &controlPage{Sentence: c.Sentence, result: c}
	row := func(name string, x ope.ControlValue) {
		r := controlRow{name, short(x.Mean), short(x.Every[0]) + " to " + short(x.Every[1]), "–"}
		if x.AtEnd != nil {
			r.AtEnd = short(x.AtEnd[0]) + " to " + short(x.AtEnd[1])
		}
		p.Rows = append(p.Rows, r)
	}
	row("the model", c.Model)
	row("the control group", c.Control)
	row("difference", c.Difference)
	plays := "a uniform action"
	if c.Plays == "first" {
		plays = "the first action"
	}
	p.Notes = append(p.Notes, fmt.Sprintf("What a decision earns, in %s decisions of log entries %s to %s; %s are in the control group, "+
		"which plays %s. Every decision counts for both, by its probabilities.", grouped(uint64(c.Decisions)), grouped(v.From), grouped(v.To),
		grouped(uint64(c.Controlled)), plays))
	if c.Again > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("Of each person the first decision counts; %s later ones are left out of these intervals.",
			grouped(uint64(c.Again))))
	}
	if u := c.ByUnit; u != nil {
		text := fmt.Sprintf("All decisions by the groups of %s and %s persons: %s and %s", grouped(uint64(u.Units[0])),
			grouped(uint64(u.Units[1])), short(u.Model), short(u.Control))
		if u.Normal != nil {
			text += fmt.Sprintf(", a difference between %s and %s (normal, by persons, for one look)", short(u.Normal[0]), short(u.Normal[1]))
		} else {
			text += "; " + u.Why
		}
		p.Notes = append(p.Notes, text+".")
	}
	if v.Cut {
		p.Notes = append(p.Notes, fmt.Sprintf("These are the first %s decisions; GET /v1/models/%s/control reads more.", grouped(pageDecisions), m.Name))
	}
	if v.Pending > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s decisions wait for a reward, or come after one that does.", grouped(uint64(v.Pending))))
	}
	if v.Plan != nil {
		p.Notes = append(p.Notes, planSentence(v.Plan))
	}
	return p
}

// planSentence says a plan.
func planSentence(x *ope.ControlPlanned) string {
	if x.Every == 0 {
		return fmt.Sprintf("If the model is better by %s, more than 10¹² decisions would be needed to know.", short(x.Difference))
	}
	s := fmt.Sprintf("If the model is better by %s, that is known after about %s decisions with 80 %% chance", short(x.Difference),
		grouped(round(x.Every)))
	if x.AtEnd > 0 {
		s += fmt.Sprintf(", or %s if their number is fixed beforehand", grouped(round(x.AtEnd)))
	}
	if x.Time > 0 && x.Time < 1<<62 {
		s += fmt.Sprintf("; %s at the rate of these", lasting(time.Duration(x.Time)))
	}
	return s + "."
}
