// Package coin draws what choosing earns against a coin: cost against reward, for the page of an evaluation and for
// that of a served model.
package coin

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"troupe/internal/decimal"
	"troupe/ope"
	"troupe/report/chart"
)

// Sizes of the picture, in units of its view box.
const (
	width, height            = 720.0, 360.0
	left, right, top, bottom = 56.0, 24.0, 22.0, 52.0
	mostPoints               = 40 // actions that are drawn
	letter                   = 7  // about the width of one
)

// picture places a comparison on the paper.
type picture struct {
	strings.Builder
	logs           bool // costs on a logarithmic axis
	x0, x1, y0, y1 float64
}

// Picture returns the comparison as SVG: each fixed action that has a point with its interval, the frontier of the
// coins between them, and the decisions with theirs. Costs stand on a logarithmic axis where they differ by more than
// ten. It takes its colours from the variables --ink, --soft, --rule, --link and --paper of the page, loads nothing and
// has no script. "" where nothing was compared. At most 40 actions are drawn, the cheapest first.
func Picture(r *ope.CoinResult) template.HTML {
	var points []ope.CoinPoint
	if r != nil {
		for _, p := range r.Actions {
			if p.Lacking == 0 {
				points = append(points, p)
			}
		}
	}
	if len(points) == 0 || r.Events == 0 {
		return ""
	}
	slices.SortFunc(points, func(a, b ope.CoinPoint) int { return cmp.Compare(a.Cost, b.Cost) })
	points = points[:min(len(points), mostPoints)]
	p := &picture{}
	p.scale(append(slices.Clone(points), r.Policy))
	fmt.Fprintf(p, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" style="display:block;width:100%%;max-width:%.0fpx;`+
		`height:auto;margin:20px 0 0" font-size="12.5" fill="var(--soft)">`, width, height, template.HTMLEscapeString(Words(r)), width)
	p.axes()
	if f := frontier(points); len(f) > 0 {
		p.frontier(f)
	}
	for _, q := range points {
		p.point(q, "var(--soft)", 4)
	}
	p.point(r.Policy, "var(--link)", 6)
	p.labels(points, r.Policy)
	p.WriteString("</svg>")
	return template.HTML(p.String())
}

// Words says what the picture shows.
func Words(r *ope.CoinResult) string {
	return fmt.Sprintf("Mean reward against mean cost of %s decisions and of always playing each action, with intervals; the line is "+
		"the best coin between two actions. %s.", chart.Count(r.Events), r.Sentence)
}

func (p *picture) scale(points []ope.CoinPoint) {
	lo, hi := math.Inf(1), math.Inf(-1)
	p.y0, p.y1 = math.Inf(1), math.Inf(-1)
	for _, q := range points {
		lo, hi = min(lo, q.Cost), max(hi, q.Cost)
		p.y0, p.y1 = min(p.y0, q.Lower), max(p.y1, q.Upper)
	}
	if !(p.y1 > p.y0) {
		p.y0, p.y1 = p.y0-.5, p.y1+.5
	}
	p.logs = lo > 0 && hi > 10*lo
	if p.logs {
		p.x0, p.x1 = math.Log(lo), math.Log(hi)
	} else {
		p.x0, p.x1 = lo, hi
	}
	if !(p.x1 > p.x0) {
		p.x0, p.x1 = p.x0-.5*max(math.Abs(p.x0), 1e-9), p.x1+.5*max(math.Abs(p.x1), 1e-9)
	}
	w := .04 * (p.x1 - p.x0)
	p.x0, p.x1 = p.x0-w, p.x1+w
}

func (p *picture) x(cost float64) float64 {
	if p.logs {
		cost = math.Log(cost)
	}
	return left + (width-left-right)*(cost-p.x0)/(p.x1-p.x0)
}

func (p *picture) y(reward float64) float64 {
	return height - bottom - (height-top-bottom)*(reward-p.y0)/(p.y1-p.y0)
}

func (p *picture) axes() {
	var costs []chart.Tick
	if p.logs {
		costs = chart.Within(chart.LogTicks(math.Exp(p.x0), math.Exp(p.x1)), math.Exp(p.x0), math.Exp(p.x1))
	} else {
		costs = chart.Within(chart.LinearTicks(p.x0, p.x1, 5), p.x0, p.x1)
	}
	last := math.Inf(-1)
	for _, t := range costs {
		if t.Minor || p.x(t.At)-last < 64 {
			continue
		}
		last = p.x(t.At)
		fmt.Fprintf(p, `<path d="M%.1f %.1fv5" stroke="var(--soft)"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, last,
			height-bottom, last, height-bottom+20, t.Label)
	}
	for _, t := range chart.Within(chart.LinearTicks(p.y0, p.y1, 5), p.y0, p.y1) {
		fmt.Fprintf(p, `<path d="M%.1f %.1fH%.1f" stroke="var(--rule)"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left,
			p.y(t.At), width-right, left-8, p.y(t.At)+4, t.Label)
	}
	fmt.Fprintf(p, `<path d="M%.1f %.1fH%.1f" stroke="var(--soft)"/><text x="%.1f" y="%.1f" text-anchor="middle">mean cost`+
		`</text><text x="4" y="12">mean reward</text>`, left, height-bottom, width-right, (left+width-right)/2, height-10)
}

// frontier returns the upper left hull: the points that no coin of at most their cost beats.
func frontier(points []ope.CoinPoint) (out []ope.CoinPoint) {
	for _, q := range points { // costs ascend
		if q.Reward == nil {
			continue
		}
		if n := len(out); n > 0 && *q.Reward <= *out[n-1].Reward {
			continue
		}
		for n := len(out); n > 0; n-- {
			a := out[n-1]
			if a.Cost == q.Cost || n > 1 && (*a.Reward-*out[n-2].Reward)*(q.Cost-out[n-2].Cost) <=
				(*q.Reward-*out[n-2].Reward)*(a.Cost-out[n-2].Cost) {
				out = out[:n-1]
				continue
			}
			break
		}
		out = append(out, q)
	}
	return out
}

// frontier draws the coins between neighbours of the hull; on a logarithmic axis they bend.
func (p *picture) frontier(f []ope.CoinPoint) {
	fmt.Fprintf(p, `<path fill="none" stroke="var(--soft)" stroke-width="1.5" stroke-dasharray="6 4" d="M%.1f %.1f`, p.x(f[0].Cost),
		p.y(*f[0].Reward))
	for i, q := range f[1:] {
		const steps = 16
		for k := 1; k <= steps; k++ {
			s := float64(k) / steps
			a := f[i]
			cost := a.Cost + s*(q.Cost-a.Cost)
			if p.logs {
				cost = a.Cost * math.Pow(q.Cost/a.Cost, s)
			}
			share := (cost - a.Cost) / (q.Cost - a.Cost)
			fmt.Fprintf(p, "L%.1f %.1f", p.x(cost), p.y(*a.Reward+share*(*q.Reward-*a.Reward)))
		}
	}
	fmt.Fprintf(p, "H%.1f\"/>", width-right) // a dearer coin needs no more than the best action
}

// point draws the interval of an action, and its point where it has one.
func (p *picture) point(q ope.CoinPoint, color string, r float64) {
	x := p.x(q.Cost)
	reward := ""
	if q.Reward != nil {
		reward = fmt.Sprintf("%.3f, ", *q.Reward)
	}
	title := "<title>" + template.HTMLEscapeString(fmt.Sprintf("%s: cost %s, reward %sbetween %.3f and %.3f",
		cmp.Or(q.Action, "the decisions"), decimal.Short(q.Cost, 3), reward, q.Lower, q.Upper)) + "</title>"
	fmt.Fprintf(p, `<path d="M%.1f %.1fV%.1fM%.1f %.1fh8M%.1f %.1fh8" stroke="%s" stroke-width="1.5" fill="none">`, x, p.y(q.Lower),
		p.y(q.Upper), x-4, p.y(q.Lower), x-4, p.y(q.Upper), color)
	if q.Reward == nil {
		p.WriteString(title + "</path>")
		return
	}
	fmt.Fprintf(p, `</path><circle cx="%.1f" cy="%.1f" r="%.0f" fill="%s">%s</circle>`, x, p.y(*q.Reward), r, color, title)
}

// labels writes the names beside the points, each where no other one stands.
func (p *picture) labels(points []ope.CoinPoint, policy ope.CoinPoint) {
	type box struct{ x0, x1, y float64 }
	var taken []box
	put := func(q ope.CoinPoint, name, style string) {
		name = chart.Shorten(name, 24)
		w := float64(letter * len([]rune(name)))
		x, anchor := p.x(q.Cost)+10, "start"
		if x+w > width {
			x, anchor = p.x(q.Cost)-10, "end"
		}
		from := x
		if anchor == "end" {
			from -= w
		}
		y := p.y((q.Lower+q.Upper)/2) + 4 // beside the interval, where there is no point
		if q.Reward != nil {
			y = p.y(*q.Reward) + 4
		}
		for moved := true; moved; {
			moved = false
			for _, b := range taken {
				if b.x0 < from+w && from < b.x1 && math.Abs(b.y-y) < 14 {
					y, moved = b.y+14, true
				}
			}
		}
		taken = append(taken, box{from, from + w, y})
		fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s" paint-order="stroke" stroke="var(--paper)" stroke-width="4" %s>%s</text>`,
			x, y, anchor, style, template.HTMLEscapeString(name))
	}
	put(policy, "the decisions", `fill="var(--link)" font-weight="600"`)
	for _, q := range points {
		put(q, q.Action, `fill="var(--ink)"`)
	}
}
