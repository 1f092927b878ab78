package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/report/chart"
	"troupe/sim"
)

// option finds an option by its path, such as "scale.value".
func option(o map[string]any, path string) (any, bool) {
	var v any = o
	for _, key := range strings.Split(path, ".") {
		t, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = t[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// without returns a canonical text of the options but for some paths, to tell whether two policies
// differ in these options alone.
func without(o map[string]any, paths ...string) string {
	for _, path := range paths {
		o = strip(o, path)
	}
	b, err := json.Marshal(o) // sorts keys
	if err != nil {
		return fmt.Sprint(o)
	}
	return string(b)
}

// strip returns a copy of the options without one path.
func strip(o map[string]any, path string) map[string]any {
	key, rest, nested := strings.Cut(path, ".")
	c := map[string]any{}
	for k, v := range o {
		switch {
		case k != key:
			c[k] = v
		case nested:
			if t, ok := v.(map[string]any); ok {
				c[k] = strip(t, rest)
			}
		}
	}
	return c
}

// bound returns the swept paths that go together with one of them, itself first: each of its values comes with one
// value of theirs, and the other way round (zip).
func bound(path string, paths []string, items []int, options func(i int) map[string]any) []string {
	out := []string{path}
	for _, other := range paths {
		there, back := map[string]string{}, map[string]string{}
		together := other != path
		for _, i := range items {
			v, ok1 := option(options(i), path)
			w, ok2 := option(options(i), other)
			x, y := fmt.Sprint(v), fmt.Sprint(w)
			if was, met := there[x]; ok1 != ok2 || met && was != y {
				together = false
			}
			if was, met := back[y]; met && was != x {
				together = false
			}
			there[x], back[y] = y, x
		}
		if together && len(there) > 1 {
			out = append(out, other)
		}
	}
	return out
}

// setting is one value of a swept option and the policies that have it.
type setting struct {
	value any
	who   int
}

// series is a set of policies, or environments, that differ in one option alone.
type series struct {
	label    string
	settings []setting
}

// sweepOf collects the series of option path among items of one kind, of which the sweeps vary paths.
func sweepOf(path string, paths []string, items []int, options func(i int) map[string]any) []series {
	together := bound(path, paths, items, options)
	var keys []string
	groups := map[string][]setting{}
	first := map[string]int{}
	for _, i := range items {
		v, ok := option(options(i), path)
		if !ok {
			continue
		}
		k := without(options(i), together...)
		if _, ok := groups[k]; !ok {
			keys = append(keys, k)
			first[k] = i
		}
		groups[k] = append(groups[k], setting{v, i})
	}
	var out []series
	for _, k := range keys {
		if len(groups[k]) < 2 {
			continue
		}
		out = append(out, series{settings: groups[k]})
	}
	// A series is named by the options in which the series differ.
	for n := range out {
		out[n].label = differing(options(out[n].settings[0].who), together, func(yield func(map[string]any) bool) {
			for _, s := range out {
				if !yield(options(s.settings[0].who)) {
					return
				}
			}
		})
	}
	return out
}

// differing lists the options of o, but for paths, that are not the same in all others.
func differing(o map[string]any, paths []string, all func(func(map[string]any) bool)) string {
	var in []string
	for _, key := range sortedPaths(o, "") {
		if slices.Contains(paths, key) {
			continue
		}
		v, _ := option(o, key)
		same := true
		all(func(other map[string]any) bool {
			w, ok := option(other, key)
			same = ok && fmt.Sprint(w) == fmt.Sprint(v)
			return same
		})
		if !same {
			in = append(in, fmt.Sprintf("%s=%v", key, v))
		}
	}
	return strings.Join(in, ", ")
}

func sortedPaths(o map[string]any, prefix string) []string {
	var out []string
	for k, v := range o {
		if t, ok := v.(map[string]any); ok {
			out = append(out, sortedPaths(t, prefix+k+".")...)
		} else {
			out = append(out, prefix+k)
		}
	}
	slices.Sort(out)
	return out
}

// sweptAxis places the values of a swept option: numbers on a linear or, from a factor of four on, a
// log axis; anything else at 0, 1, 2, … in the order of the spec.
func sweptAxis(path string, all []series) (ax chart.Axis, at func(any) float64) {
	var nums []float64
	numeric := true
	var labels []string
	for _, s := range all {
		for _, x := range s.settings {
			v, ok := x.value.(float64)
			numeric = numeric && ok
			nums = append(nums, v)
			if l := valueLabel(x.value); !slices.Contains(labels, l) {
				labels = append(labels, l)
			}
		}
	}
	if !numeric {
		ax = chart.Axis{Caption: path, Lo: -0.4, Hi: float64(len(labels)) - 0.6}
		for i, l := range labels {
			ax.Ticks = append(ax.Ticks, chart.Tick{At: float64(i), Label: l})
		}
		return ax, func(v any) float64 { return float64(slices.Index(labels, valueLabel(v))) }
	}
	slices.Sort(nums)
	nums = slices.Compact(nums)
	lo, hi := nums[0], nums[len(nums)-1]
	ax = chart.Axis{Caption: path}
	if lo > 0 && hi >= 4*lo {
		ax.Log, ax.Caption = true, path+" (log)"
		ax.Lo, ax.Hi = lo/math.Pow(hi/lo, 0.04), hi*math.Pow(hi/lo, 0.04)
	} else {
		pad := 0.05 * max(hi-lo, 1e-12)
		ax.Lo, ax.Hi = lo-pad, hi+pad
	}
	if len(nums) <= 12 { // the values themselves are the best ticks
		for _, v := range nums {
			ax.Ticks = append(ax.Ticks, chart.Tick{At: v, Label: valueLabel(v)})
		}
		// Drop labels that would stand on each other.
		last := math.Inf(-1)
		for i := range ax.Ticks {
			p := ax.At(ax.Ticks[i].At)
			if p-last < 0.05 {
				ax.Ticks[i].Minor = true
			} else {
				last = p
			}
		}
		ax.Ticks = slices.DeleteFunc(ax.Ticks, func(t chart.Tick) bool { return t.Minor })
	} else if ax.Log {
		ax.Ticks = chart.LogTicks(ax.Lo, ax.Hi)
	} else {
		ax.Ticks = chart.Within(chart.LinearTicks(ax.Lo, ax.Hi, 6), ax.Lo, ax.Hi)
	}
	return ax, func(v any) float64 { f, _ := v.(float64); return f }
}

// valueLabel writes an option's value.
func valueLabel(v any) string {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e7 {
			return chart.Number(v, 0)
		}
		return strings.ReplaceAll(fmt.Sprintf("%.4g", v), "-", chart.Minus)
	case map[string]any:
		kind, _ := v["kind"].(string)
		return options(kind, v)
	}
	return fmt.Sprint(v)
}

// sweepPoint is a mean with its pointwise interval.
type sweepPoint struct{ x, mean, half float64 }

// sweepPanel draws series of points; each wears look looks[i]. The axis reaches down to lines across, whose heights are
// given, and up to those below farOut times its top. It begins at 0, or where the data do if that is above half of
// where they end: then it is broken.
func sweepPanel(ax chart.Axis, labels []string, looks []int, points [][]sweepPoint, ycap string,
	across ...float64) *chart.Panel {
	lo, hi, low := math.Inf(1), 0.0, math.Inf(1)
	for _, s := range points {
		for _, p := range s {
			if p.mean > 0 {
				lo = min(lo, p.mean)
			}
			low, hi = min(low, p.mean-p.half), max(hi, p.mean+p.half)
		}
	}
	top := hi
	for _, v := range across {
		low = min(low, v)
		if v < farOut*hi {
			top = max(top, v)
		}
	}
	if hi <= 0 {
		hi, top = 1, 1
	}
	p := &chart.Panel{Look: -1, X: ax}
	if !math.IsInf(lo, 1) && hi > 12*lo {
		lo, hi = chart.LogRange(lo*0.95, top)
		p.Y = chart.Axis{Caption: ycap + " (log)", Log: true, Lo: lo, Hi: hi, Ticks: chart.LogTicks(lo, hi)}
	} else {
		from := 0.0
		if low > hi/2 {
			from = low
		}
		t := chart.LinearTicks(from, top, 4)
		p.Y = chart.Axis{Caption: ycap, Lo: t[0].At, Hi: t[len(t)-1].At, Ticks: t, Broken: t[0].At > 0}
	}
	for i, s := range points {
		m := chart.Mark{Kind: chart.Interval, Look: looks[i], Name: labels[i], Aside: aside(i, len(points))}
		l := chart.Mark{Kind: chart.Line, Look: looks[i], Name: labels[i]}
		for _, q := range s {
			m.X, m.Y = append(m.X, q.x), append(m.Y, q.mean)
			m.Lo, m.Hi = append(m.Lo, q.mean-q.half), append(m.Hi, q.mean+q.half)
		}
		l.X, l.Y = m.X, m.Y
		p.Marks = append(p.Marks, l, m)
		if labels[i] != "" {
			p.Ends = append(p.Ends, chart.End{Look: looks[i], Y: s[len(s)-1].mean, Label: labels[i]})
		}
	}
	return p
}

// aside places series i of n beside the others at the same x, so that no interval hides another: steps of 0.7 % of the
// width, and less for many.
func aside(i, n int) float64 {
	step := min(0.007, 0.04/float64(max(n-1, 1)))
	return float64(step * (float64(i) - float64(n-1)/2))
}

// kindsOf lists the kinds in the order of the spec with the paths that any of their members sweeps.
func kindsOf(n int, kind func(i int) string, swept func(i int) []string) (kinds []string, items map[string][]int,
	paths map[string][]string) {
	items, paths = map[string][]int{}, map[string][]string{}
	for i := range n {
		k := kind(i)
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
		items[k] = append(items[k], i)
		for _, p := range swept(i) {
			if !slices.Contains(paths[k], p) {
				paths[k] = append(paths[k], p)
			}
		}
	}
	return kinds, items, paths
}

// swept draws the sweeps of an analysis: what its policies differ in.
type swept struct{ a *Analysis }

// sweepFigures returns regret at T against each swept option of the policies, and for two swept
// numbers a map of their combinations.
func (sw swept) sweepFigures(id string) (figures []*chart.Figure, heats map[*chart.Figure]*chart.Heat) {
	pol := func(i int) sim.PolicyRow { return sw.a.Run.Manifest.Policies[sw.a.Policies[i]] }
	kinds, items, paths := kindsOf(len(sw.a.Policies), func(i int) string { return pol(i).Kind },
		func(i int) []string { return pol(i).Swept })
	heats = map[*chart.Figure]*chart.Heat{}
	for _, kind := range kinds {
		for _, path := range paths[kind] {
			all := sweepOf(path, paths[kind], items[kind], func(i int) map[string]any { return pol(i).Options })
			if len(all) == 0 {
				continue
			}
			f := &chart.Figure{ID: id + "sweep-" + slug(kind+"-"+path), Title: fmt.Sprintf("Regret against %s", path),
				Low: true,
				How: fmt.Sprintf("Mean regret of %s after %s rounds with pointwise 95%% intervals; the other "+
					"policies as lines across.", kind, chart.Count(sw.a.T))}
			var out []int
			for _, part := range sw.parts(all, path, paths[kind]) {
				p, hidden := sw.sweptPanel(kind, path, part.all)
				p.Title = part.title
				f.Panels = append(f.Panels, p)
				for _, i := range hidden {
					if !slices.Contains(out, i) {
						out = append(out, i)
					}
				}
			}
			if len(out) > 0 {
				var names []string
				for _, i := range out {
					names = append(names, fmt.Sprintf("%s at %s", sw.a.Label(i), chart.Number(sw.a.Summary[i].Mean, sw.a.Dec)))
				}
				f.How += " Without a line: " + strings.Join(names, ", ") + "."
			}
			if len(f.Panels) > 1 {
				shareY(f.Panels)
				legendOf(f)
			}
			figures = append(figures, f)
			if h := sw.heat(f.ID, kind, path, paths[kind], items[kind]); h != nil {
				heats[f] = h
			}
		}
	}
	return figures, heats
}

// part is a panel's share of the series of a figure.
type part struct {
	title string
	all   []series
}

// parts divides many series into panels, by the values of the swept option other than path that has the fewest.
func (sw swept) parts(all []series, path string, paths []string) []part {
	if len(all) <= maxEnds || len(paths) < 3 {
		return []part{{all: all}}
	}
	pol := func(s series) map[string]any {
		return sw.a.Run.Manifest.Policies[sw.a.Policies[s.settings[0].who]].Options
	}
	var best []part
	for _, by := range paths {
		if by == path {
			continue
		}
		var in []part
		for _, s := range all {
			v, ok := option(pol(s), by)
			if !ok {
				continue
			}
			title := by + " = " + valueLabel(v)
			// the label is made of "option=value" by package sim; what is left out of it stands in the part's title
			s.label = strings.Join(slices.DeleteFunc(strings.Split(s.label, ", "),
				func(o string) bool { return strings.HasPrefix(o, by+"=") }), ", ")
			i := slices.IndexFunc(in, func(p part) bool { return p.title == title })
			if i < 0 {
				i, in = len(in), append(in, part{title: title})
			}
			in[i].all = append(in[i].all, s)
		}
		if len(in) > 1 && (best == nil || len(in) < len(best)) {
			best = in
		}
	}
	if best == nil {
		return []part{{all: all}}
	}
	return best
}

// legendOf puts the labels of small multiples above them, once. What has one label wears one look in all panels.
func legendOf(f *chart.Figure) {
	look := map[string]int{}
	for _, p := range f.Panels {
		for _, e := range p.Ends {
			if _, ok := look[e.Label]; !ok {
				look[e.Label] = e.Look
				f.Legend = append(f.Legend, chart.RowLabel{Look: e.Look, Label: e.Label})
			}
		}
		for i := range p.Marks {
			if l, ok := look[p.Marks[i].Name]; ok {
				p.Marks[i].Look = l
			}
		}
		p.Ends = nil
	}
}

// sweptPanel draws series of one kind of policy against a swept option, and the other policies as lines across. It
// returns those that have none, because their means are off the axis or there are too many.
func (sw swept) sweptPanel(kind, path string, all []series) (p *chart.Panel, hidden []int) {
	pol := func(i int) sim.PolicyRow { return sw.a.Run.Manifest.Policies[sw.a.Policies[i]] }
	ax, at := sweptAxis(path, all)
	var labels []string
	var looks []int
	var points [][]sweepPoint
	for _, s := range all {
		var pts []sweepPoint
		for _, x := range s.settings {
			pts = append(pts, sweepPoint{at(x.value), sw.a.Summary[x.who].Mean, 1.96 * sw.a.Summary[x.who].SE})
		}
		slices.SortStableFunc(pts, func(p, q sweepPoint) int { return cmp.Compare(p.x, q.x) })
		labels, points = append(labels, sw.seriesName(s, kind)), append(points, pts)
		// A line that joins several looks wears the middle one.
		looks = append(looks, sw.a.Policies[s.settings[len(s.settings)/2].who])
	}
	var across []float64
	for _, i := range sw.a.Order {
		if pol(i).Kind != kind {
			across = append(across, sw.a.Summary[i].Mean)
		}
	}
	p = sweepPanel(ax, labels, looks, points, "Regret after "+many(sw.a.T, sw.a.Run.Manifest.Unit()), across...)
	for _, i := range sw.a.Order {
		if pol(i).Kind == kind {
			continue
		}
		v := sw.a.Summary[i].Mean
		if v > p.Y.Hi || p.Y.Log && v < p.Y.Lo || len(p.Ends) >= maxEnds {
			hidden = append(hidden, i)
			continue
		}
		p.Marks = append([]chart.Mark{{Kind: chart.Line, Look: sw.a.Policies[i], Name: sw.a.Label(i),
			X: []float64{ax.Lo, ax.Hi}, Y: []float64{v, v}}}, p.Marks...)
		p.Ends = append(p.Ends, chart.End{Look: sw.a.Policies[i], Y: v, Label: sw.a.Label(i)})
	}
	return p, hidden
}

// heat maps the means over path and the next swept path of the kind, when both have at least two
// values and each pair is met by one policy.
func (sw swept) heat(id, kind, path string, paths []string, items []int) *chart.Heat {
	n := slices.Index(paths, path)
	if n+1 >= len(paths) {
		return nil
	}
	other := paths[n+1]
	h := &chart.Heat{ID: id + "-map", Title: fmt.Sprintf("Mean regret of %s by %s and %s: %s", kind, path, other,
		sw.a.Name), Rows: path, Columns: other, Dec: sw.a.Dec}
	type at struct{ r, c int }
	where := map[at]int{}
	for _, i := range items {
		o := sw.a.Run.Manifest.Policies[sw.a.Policies[i]].Options
		v, ok1 := option(o, path)
		w, ok2 := option(o, other)
		if !ok1 || !ok2 {
			continue
		}
		place := func(list *[]string, l string) int {
			k := slices.Index(*list, l)
			if k < 0 {
				k = len(*list)
				*list = append(*list, l)
			}
			return k
		}
		p := at{place(&h.RowVal, valueLabel(v)), place(&h.ColVal, valueLabel(w))}
		if _, twice := where[p]; twice {
			return nil // a third option varies: a map would hide it
		}
		where[p] = i
	}
	if len(h.RowVal) < 2 || len(h.ColVal) < 2 {
		return nil
	}
	for r := range h.RowVal {
		h.Cell, h.Has = append(h.Cell, make([]float64, len(h.ColVal))), append(h.Has, make([]bool, len(h.ColVal)))
		for c := range h.ColVal {
			if i, ok := where[at{r, c}]; ok {
				h.Cell[r][c], h.Has[r][c] = sw.a.Summary[i].Mean, true
			}
		}
	}
	return h
}

// acrossFigures returns the figures over several environments: regret against a swept option of
// the environment, one curve for each policy; and regret against a swept option of a policy, one
// curve for each environment.
func acrossFigures(run *Run, all []*Analysis) []*chart.Figure {
	var out []*chart.Figure
	env := func(i int) sim.EnvironmentRow { return run.Manifest.Environments[all[i].Env] }
	kinds, items, paths := kindsOf(len(all), func(i int) string { return env(i).Kind },
		func(i int) []string { return env(i).Swept })
	for _, kind := range kinds {
		for _, path := range paths[kind] {
			groups := sweepOf(path, paths[kind], items[kind], func(i int) map[string]any {
				row := env(i)
				return row.All()
			})
			for n, g := range groups {
				ax, at := sweptAxis(path, []series{g})
				var labels []string
				var looks []int
				var points [][]sweepPoint
				title := fmt.Sprintf("Regret against %s", path)
				if g.label != "" {
					title += ", " + g.label
				}
				for p, m := range run.Manifest.Policies {
					var pts []sweepPoint
					for _, s := range g.settings {
						a := all[s.who]
						if i := slices.Index(a.Policies, p); i >= 0 {
							pts = append(pts, sweepPoint{at(s.value), a.Summary[i].Mean, 1.96 * a.Summary[i].SE})
						}
					}
					if len(pts) < 2 {
						continue
					}
					slices.SortStableFunc(pts, func(p, q sweepPoint) int { return cmp.Compare(p.x, q.x) })
					labels, looks, points = append(labels, m.Name), append(looks, p), append(points, pts)
				}
				if len(points) == 0 {
					continue
				}
				suffix := ""
				if n > 0 {
					suffix = fmt.Sprintf("-%d", n+1)
				}
				panel := sweepPanel(ax, labels, looks, points, "Regret")
				after := many(all[0].T, run.Manifest.Unit())
				if horizons(&run.Manifest) != chart.Count(run.Manifest.Horizon) {
					after = "the rounds of its environment"
				}
				how := fmt.Sprintf("Mean regret after %s with pointwise 95%% intervals, one point for each "+
					"environment.", after)
				if n := thinEnds(run, panel); n > 0 {
					how += fmt.Sprintf(" %s without a label.", many(n, "curve"))
				}
				out = append(out, &chart.Figure{ID: "environment-" + slug(path) + suffix, Title: title, Low: true,
					How: how, Panels: []*chart.Panel{panel}})
			}
		}
	}
	return out
}

// endRoom is the share of a chart's height that a label at the end of a curve takes.
const endRoom = 0.08

// thinEnds removes labels from a panel with more curves than maxEnds, and returns how many: the rivals keep theirs, and
// of the larger families the lowest, the highest, and those between that have room where their curves end.
func thinEnds(run *Run, p *chart.Panel) int {
	if len(p.Ends) <= maxEnds {
		return 0
	}
	size := map[string]int{}
	for _, m := range run.Manifest.Policies {
		size[m.Kind]++
	}
	var kept, family []chart.End
	for _, e := range p.Ends {
		if size[run.Manifest.Policies[e.Look].Kind] > 3 {
			family = append(family, e)
		} else {
			kept = append(kept, e)
		}
	}
	slices.SortStableFunc(family, func(a, b chart.End) int { return cmp.Compare(a.Y, b.Y) })
	for i, e := range family {
		near := func(k chart.End) bool { return math.Abs(p.Y.At(e.Y)-p.Y.At(k.Y)) < endRoom }
		end := i == 0 || i == len(family)-1
		if end || len(kept) < maxEnds-1 && !near(family[len(family)-1]) && !slices.ContainsFunc(kept, near) {
			kept = append(kept, e)
		}
	}
	n := len(p.Ends) - len(kept)
	p.Ends = kept
	return n
}

// shareY gives panels the axis of the one that reaches highest; with logs among them, all are log.
func shareY(panels []*chart.Panel) {
	lo, hi, from, log := math.Inf(1), 0.0, math.Inf(1), false
	for _, p := range panels {
		log = log || p.Y.Log
		hi, from = max(hi, p.Y.Hi), min(from, p.Y.Lo)
		for _, m := range p.Marks {
			if m.Kind == chart.Line {
				for _, v := range m.Y {
					if v > 0 {
						lo = min(lo, v)
					}
				}
			}
		}
	}
	y := panels[0].Y
	if log {
		lo, hi = chart.LogRange(lo*0.95, hi)
		y = chart.Axis{Caption: "Regret (log)", Log: true, Lo: lo, Hi: hi, Ticks: chart.LogTicks(lo, hi)}
	} else if len(panels) > 1 {
		t := chart.LinearTicks(from, hi, 4)
		y = chart.Axis{Caption: "Regret", Lo: t[0].At, Hi: t[len(t)-1].At, Ticks: t, Broken: t[0].At > 0}
	}
	if len(panels) > 1 {
		for _, p := range panels {
			p.Y = y
		}
	}
}
