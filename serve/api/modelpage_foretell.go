package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/eventlog"
	"troupe/serve"
)

const (
	foretoldContexts = 3   // the most frequent ones, for which the page shows what the model expects
	foretoldCells    = 128 // of a curve
	foretoldLists    = 500 // of a context, whose actions are asked for
)

// foretoldCurve is what the model expects of a number in a frequent context.
type foretoldCurve struct {
	Context, Text string
	Curve         *curve
}

// bestRow is the list that the model expects most of in a frequent context.
type bestRow struct{ Context, Share, List, Expected string }

// grouping are the newest decisions by what they have in common, the largest group first.
type grouping struct {
	ids  []string // of events
	last []int    // places of decisions, the newest first
}

// groups returns the largest groups of decisions with one key among n; key is false for one that does not count.
func groups(n int, key func(i int) (string, bool), id func(i int) string) (out []*grouping, all int) {
	of := map[string]*grouping{}
	for i := n - 1; i >= 0; i-- {
		k, ok := key(i)
		if !ok {
			continue
		}
		g := of[k]
		if g == nil {
			g = &grouping{}
			of[k], out = g, append(out, g)
		}
		g.ids, g.last = append(g.ids, id(i)), append(g.last, i)
		all++
	}
	slices.SortStableFunc(out, func(a, b *grouping) int { return cmp.Compare(len(b.last), len(a.last)) })
	return out[:min(len(out), foretoldContexts)], all
}

// contextOf is the context of a group as it was sent, where the server remembers one of its requests, and otherwise the hash that the log has.
func (g *grouping) contextOf(requests []serve.RequestView, hash eventlog.ID) string {
	if hash == 0 {
		return "no context"
	}
	for _, r := range slices.Backward(requests) {
		if r.Context != "" && slices.Contains(g.ids, r.EventID) {
			return clipped(r.Context, 100)
		}
	}
	return "context " + hash.String()
}

// curvesOf asks for the curves of a number in the most frequent contexts.
func curvesOf(ctx context.Context, s serve.Foretelling, m *serve.Model, h *modelHistory, number string) (out []foretoldCurve) {
	r := &m.Config.Numbers[slices.IndexFunc(m.Config.Numbers, func(r serve.NumberRange) bool { return r.Name == number })]
	n := r.Cells(1)
	each := max(1, (n+foretoldCells-1)/foretoldCells)
	var u []float64
	for c := 0; c < n; c += each {
		lo, hi := r.Bounds(c, n)
		if r.Step > 0 {
			hi = lo
		}
		u = append(u, (r.Place(lo)+r.Place(hi))/2)
	}
	list, all := groups(len(h.decisions), func(i int) (string, bool) {
		d := h.decisions[i]
		has := slices.ContainsFunc(d.numbers, func(x played) bool { return x.name == r.Name })
		return d.context.String() + " " + d.action, has && d.features != nil && d.policy()
	}, func(i int) string { return h.decisions[i].id })
	for _, g := range list {
		d := h.decisions[g.last[0]]
		c, err := s.Curve(ctx, d.features, r.Name, u)
		if err != nil || c == nil {
			continue
		}
		text := g.contextOf(m.Requests, d.context)
		if d.action != "" {
			text = d.action + ", " + text
		}
		for _, x := range d.numbers {
			if x.name != r.Name {
				text += fmt.Sprintf(", %s %s", x.name, short(x.value))
			}
		}
		best := 0
		for i, y := range c.Mean {
			if y > c.Mean[best] {
				best = i
			}
		}
		between := func(i int) string {
			return fmt.Sprintf("%s (%s to %s)", short(c.Mean[i]), short(c.Mean[i]-1.96*c.SD[i]), short(c.Mean[i]+1.96*c.SD[i]))
		}
		f := foretoldCurve{Context: fmt.Sprintf("%s%% of decisions: %s", percent(len(g.last), all), text), Curve: drawExpected(c, u)}
		f.Text = fmt.Sprintf("The model expects most at %s: %s.", short(valueAt(r, u[best])), between(best))
		f.Curve.From, f.Curve.To = short(r.Min), short(r.Max)
		f.Curve.Label = fmt.Sprintf("What the model expects by %s. %s At %s it expects %s, at %s %s.", r.Name, f.Text, short(valueAt(r, u[0])), between(0),
			short(valueAt(r, u[len(u)-1])), between(len(u)-1))
		out = append(out, f)
	}
	return out
}

// valueAt is the value at a place of a range.
func valueAt(r *serve.NumberRange, u float64) float64 {
	if r.Log {
		return math.Exp(math.Log(r.Min) + u*(math.Log(r.Max)-math.Log(r.Min)))
	}
	return r.Min + u*(r.Max-r.Min)
}

// drawExpected draws a learned curve with its band.
func drawExpected(e *serve.LearnedCurve, u []float64) *curve {
	lo, hi := math.Inf(1), math.Inf(-1)
	for i, y := range e.Mean {
		lo, hi = min(lo, y-1.96*e.SD[i]), max(hi, y+1.96*e.SD[i])
	}
	if hi-lo < 1e-9*max(1, math.Abs(hi)) {
		lo, hi = lo-.5, hi+.5
	}
	y := func(v float64) float64 { return 1000 * (hi - v) / (hi - lo) }
	path := func(first rune, off float64, order func(i int) int) string {
		var b strings.Builder
		for i := range u {
			k := order(i)
			fmt.Fprintf(&b, "%c%.0f %.0f", first, 1000*u[k], y(e.Mean[k]+float64(off*e.SD[k])))
			first = 'L'
		}
		return b.String()
	}
	up := func(i int) int { return i }
	c := &curve{Line: path('M', 0, up)}
	c.Band = path('M', -1.96, up) + path('L', 1.96, func(i int) int { return len(u) - 1 - i }) + "Z"
	for i := range 3 {
		v := hi - float64(i)/2*(hi-lo)
		c.Ticks = append(c.Ticks, tick{fmt.Sprintf("%.1f", y(v)/10), axis(v, hi-lo), math.Round(y(v))})
	}
	return c
}

// bestLists asks for the best lists of the most frequent contexts. text says what they are.
func bestLists(ctx context.Context, s serve.Foretelling, m *serve.Model, h *modelHistory) (rows []bestRow, text string) {
	list, all := groups(len(h.lists), func(i int) (string, bool) {
		l := h.lists[i]
		return fmt.Sprint(l.places[0].context.String(), len(l.places), l.slots), l.features != nil && !l.places[0].inactive
	}, func(i int) string { return h.lists[i].places[0].id })
	approximate := false
	for _, g := range list {
		var lists []serve.PlayedList
		for _, i := range g.last[:min(len(g.last), foretoldLists)] {
			x := serve.PlayedList{Features: h.lists[i].features}
			for _, d := range h.lists[i].places {
				x.Actions = append(x.Actions, d.action)
			}
			lists = append(lists, x)
		}
		b, err := s.BestList(ctx, lists)
		if err != nil || b == nil {
			continue
		}
		approximate = approximate || b.Approximate
		newest := h.lists[g.last[0]]
		row := bestRow{Context: g.contextOf(m.Requests, newest.places[0].context), Share: percent(len(g.last), all)}
		var names []string
		sum := 0.
		for i, id := range b.Actions {
			name := clipped(id, 60)
			if i < len(newest.slots) && newest.slots[i] != "" {
				name = clipped(newest.slots[i], 60) + ": " + name
			}
			if newest.one == nil {
				name += " " + short(b.Expected[i])
			}
			names, sum = append(names, name), sum+b.Expected[i]
		}
		row.List, row.Expected = strings.Join(names, ", "), short(sum)
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, ""
	}
	text = "What the model would play for its expected rewards alone, from the top, with the expected reward of each entry where none above it has one; of the actions that stood at each position in these lists."
	if approximate {
		text += " Categories repeat among the actions, so the best list was searched and may have been missed."
	}
	return rows, text
}
