package serve

import (
	"fmt"
	"math"
	"strings"

	"troupe/feature"
	"troupe/policy"
	"troupe/serve/fold"
)

const (
	maxParts    = 50
	enoughFound = 100 // rewards before a sentence
	leastShare  = .05 // a field with less has nothing that can be seen yet
)

// explainedOf returns what a model has found out, nil for one that does not tell.
func explainedOf(m *fold.Model, seen *observed) *ExplainedView {
	e := m.Explanation()
	if len(e.Parts) == 0 {
		return nil
	}
	var names map[uint32]string
	if seen != nil {
		names = seen.fields()
	}
	if list := m.Compiled.Config.Numbers; len(list) > 0 {
		if names == nil {
			names = map[uint32]string{}
		}
		for i := range list {
			names[feature.PlayedField(list[i].Name)] = "numbers." + list[i].Name
		}
	}
	name := func(n uint32) string {
		if s := names[n]; s != "" {
			return s
		}
		return fmt.Sprintf("field %d", n)
	}
	out := &ExplainedView{Share: e.Share, Far: e.Far, Parts: []PartView{}}
	for _, p := range e.Parts {
		v := PartView{Name: "action", Share: p.Share}
		switch {
		case p.A != 0 && p.B != 0:
			v.Name = name(p.A) + " with " + name(p.B)
		case p.A != 0:
			v.Name = name(p.A)
		case p.B != 0: // what an id has of its own
			v.Name = "action with " + name(p.B)
		}
		if len(out.Parts) == maxParts {
			out.More++
			continue
		}
		out.Parts = append(out.Parts, v)
	}
	out.Text = out.sentence(e)
	out.positions(e)
	return out
}

// positions says what is known of the positions of lists.
func (v *ExplainedView) positions(e policy.Explanation) {
	if len(e.Positions) < 2 { // of one position, and of lists with one reward, there is nothing to say
		return
	}
	between := func(x, sd float64) *[2]float64 { return &[2]float64{max(0, x-1.96*sd), x + 1.96*sd} }
	for _, p := range e.Positions {
		x := ExaminedView{From: p.From, Examination: p.Scale, Rewards: p.Rewards, BelowRewards: p.RewBelow}
		if p.To >= 0 {
			x.To = &p.To
		}
		if p.From > 0 {
			x.Interval = between(p.Scale, p.Sd)
		}
		if p.RewBelow > 0 {
			x.Below, x.BelowInterval = &p.Below, between(p.Below, p.SdBelow)
		}
		v.Positions = append(v.Positions, x)
	}
	v.ItemsAtPositions = &GateView{Plays: e.Places, Nats: e.Nats}
}

// sentence says what matters, and what does not yet.
func (v *ExplainedView) sentence(e policy.Explanation) string {
	if e.Events < enoughFound {
		return ""
	}
	var found, none []string
	for _, p := range v.Parts {
		what := "`" + p.Name + "`"
		if p.Name == "action" {
			what = "the action itself"
		}
		if p.Share < leastShare {
			none = append(none, what)
			continue
		}
		found = append(found, fmt.Sprintf("%s explains %.0f%%", what, 100*p.Share))
	}
	text := strings.Join(found, ", ") + " of what differs between decisions"
	if len(found) == 0 {
		text = "nothing that matters can be seen yet"
	}
	if len(none) > 0 && len(none) <= 5 {
		text += "; in " + strings.Join(none, ", ") + " there is nothing that can be seen yet"
	}
	return fmt.Sprintf("%s. All of it explains %.0f%% of the rewards' variance; the rest is chance or not in the requests.",
		text, 100*v.Share)
}

// farText warns of rewards that are far from all others.
func farText(far []float64) string {
	parts := make([]string, len(far))
	for i, y := range far {
		parts[i] = fmt.Sprint(math.Round(y*1e6) / 1e6)
	}
	return fmt.Sprintf("a reward (%s) is far from all others: it counts as their mean until a second one like it comes; "+
		"look whether the client sends one unit", strings.Join(parts, ", "))
}
