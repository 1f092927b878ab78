// Command inflation draws the figure of docs/papers/inflation.md and prints the page's tables, from the results of paper/inflation and its siblings:
//
//	go run ./internal/inflation -o docs/papers/inflation.svg RUNS
//
// RUNS is a directory with the result directories inflation, inflation-long, inflation-beta, inflation-arms, inflation-unit and inflation-random; what
// is missing is left out. It is for developers.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"troupe/internal/stats"
	"troupe/report"
	"troupe/report/chart"
	"troupe/theory"
)

func main() {
	out := flag.String("o", "inflation.svg", "the figure")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/inflation -o FILE RUNS")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), *out); err != nil {
		fmt.Fprintln(os.Stderr, "inflation:", err)
		os.Exit(1)
	}
}

func write(dir, out string) error {
	runs := map[string]*report.Run{}
	for _, name := range []string{"inflation", "inflation-long", "inflation-beta", "inflation-arms", "inflation-unit", "inflation-random"} {
		run, err := report.Load(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		runs[name] = run
	}
	w := bufio.NewWriter(os.Stdout)
	if run := runs["inflation"]; run != nil {
		balls(w, run)
	}
	if run := runs["inflation-arms"]; run != nil {
		smallest(w, run)
	}
	verdicts(w, runs)
	if err := w.Flush(); err != nil {
		return err
	}
	if runs["inflation"] == nil || runs["inflation-arms"] == nil {
		return errors.New("the figure needs the results of inflation and inflation-arms")
	}
	if x, _ := sample(runs["inflation"], ball(32), "ts(scale=4)", 0); len(x) < 2 {
		return errors.New("the figure needs two replications of inflation")
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	err = figure(runs).WriteSVG(f, looks, chart.Sizes[2])
	return errors.Join(err, f.Close())
}

// looks are those of lines, from light to dark, and of the policies of the third panel.
var looks = []chart.Look{chart.BlueRamp(0, 4), chart.BlueRamp(1, 4), chart.BlueRamp(2, 4), chart.BlueRamp(3, 4), chart.Rivals[0], chart.Rivals[1],
	chart.Rivals[2], chart.Rivals[3], chart.Baseline, chart.Teals[1]}

// sample returns the regrets of a policy in an environment after t rounds, by replication that is there, 0 for the horizon; nil without one.
func sample(run *report.Run, env, policy string, t int) (x []float64, reps []int) {
	for e, row := range run.Manifest.Environments {
		if row.Name != env || e >= len(run.Envs) {
			continue
		}
		data := run.Envs[e]
		k := len(data.Rounds) - 1
		for i, r := range data.Rounds {
			if r == t {
				k = i
			}
		}
		if k < 0 || t != 0 && data.Rounds[k] != t {
			return nil, nil
		}
		for p, row := range run.Manifest.Policies {
			if row.Name != policy {
				continue
			}
			for r, c := range data.Cells[p] {
				if c != nil {
					x, reps = append(x, c.Regret[k]), append(reps, r)
				}
			}
		}
	}
	return x, reps
}

// both are the replications that two samples share.
func both(x []float64, xr []int, y []float64, yr []int) (a, b []float64) {
	at := map[int]float64{}
	for i, r := range yr {
		at[r] = y[i]
	}
	for i, r := range xr {
		if v, ok := at[r]; ok {
			a, b = append(a, x[i]), append(b, v)
		}
	}
	return a, b
}

// ratio is the quotient of two policies' mean regrets after t rounds with its pointwise 95 % interval.
func ratio(run *report.Run, env, of, over string, t int) (stats.Ratio, bool) {
	x, xr := sample(run, env, of, t)
	y, yr := sample(run, env, over, t)
	a, b := both(x, xr, y, yr)
	if len(a) < 2 {
		return stats.Ratio{}, false
	}
	r := stats.Fieller(a, b, 1.96)
	return r, r.OK
}

func ball(d int) string { return fmt.Sprintf("ball, d = %d", d) }

// sizes are the members that were played, by name of the policy.
func sizes(run *report.Run, prefix string) (m []int) {
	for _, p := range run.Manifest.Policies {
		var k int
		if n, err := fmt.Sscanf(p.Name, prefix+"(m=%d)", &k); n == 1 && err == nil {
			m = append(m, k)
		}
	}
	return m
}

// balls prints m*, the exponents and ρ of Thompson sampling.
func balls(w *bufio.Writer, run *report.Run) {
	T := run.Manifest.Horizon
	fmt.Fprintf(w, "\n| d | m\\*, of %s rounds | ratio to TS at m = d | at 2d | ρ at r = 1 | q̂, TS r = 1 |\n| --- | --- | --- | --- | --- | --- |\n", chart.Count(T))
	for _, d := range []int{2, 4, 8, 16, 32, 64} {
		least := "none played"
		for _, m := range sizes(run, "frozen") {
			if r, ok := ratio(run, ball(d), fmt.Sprintf("frozen(m=%d)", m), "ts(scale=1)", T); ok && r.Hi <= 1.25 {
				least = fmt.Sprint(m)
				break
			}
		}
		at := func(m int) string {
			r, ok := ratio(run, ball(d), fmt.Sprintf("frozen(m=%d)", m), "ts(scale=1)", T)
			return interval(r, ok)
		}
		x, reps := sample(run, ball(d), "ts(scale=1)", T)
		y, yr := sample(run, ball(d), "ts(scale=1)", T/10)
		a, b := both(x, reps, y, yr)
		rho, q := "–", "–"
		if len(a) > 1 {
			unit := float64(d-1) * math.Sqrt(float64(T))
			rho = fmt.Sprintf("%.2f ± %.2f", stats.Mean(a)/unit, stats.StdErr(a)/unit)
			if r := stats.Fieller(a, b, 1.96); r.OK {
				q = fmt.Sprintf("%.3f [%.3f, %.3f]", math.Log10(r.Value), math.Log10(r.Lo), math.Log10(r.Hi))
			}
		}
		fmt.Fprintf(w, "| %d | %s | %s | %s | %s | %s |\n", d, least, at(d), at(2*d), rho, q)
	}
	for _, r := range []string{"0.5", "1", "2", "4"} {
		var logs, values, ses []float64
		for _, d := range []int{4, 8, 16, 32, 64} {
			if x, _ := sample(run, ball(d), "ts(scale="+r+")", T); len(x) > 1 {
				logs, values, ses = append(logs, math.Log(float64(d-1))), append(values, math.Log(stats.Mean(x))), append(ses, stats.StdErr(x)/stats.Mean(x))
			}
		}
		if len(logs) < 2 {
			continue
		}
		// Of independent points the slope's variance is Σ w²s², w the weights of the least squares.
		mean, square, v := stats.Mean(logs), 0.0, 0.0
		for _, x := range logs {
			square += (x - mean) * (x - mean)
		}
		for i, x := range logs {
			v += math.Pow((x-mean)/square*ses[i], 2)
		}
		fmt.Fprintf(w, "\np̂ of Thompson sampling at r = %s, d = 4 to 64: %.3f ± %.3f", r, stats.Slope(logs, values), math.Sqrt(v))
	}
	fmt.Fprintln(w)
}

func interval(r stats.Ratio, ok bool) string {
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", r.Value, r.Lo, r.Hi)
}

// kinds are the policies of the third panel.
var kinds = []struct {
	name, policy string
	look         int
	law          func(w theory.ThreeArms, t float64) float64
}{
	{"TS", "ts(scale=%g)", 9, func(w theory.ThreeArms, t float64) float64 { return w.Thompson(t) }},
	{"m = 16", "frozen(m=16, scale=%g)", 4, func(w theory.ThreeArms, _ float64) float64 { return w.Frozen(16) }},
	{"m = 64", "frozen(m=64, scale=%g)", 5, func(w theory.ThreeArms, _ float64) float64 { return w.Frozen(64) }},
	{"m = 256", "frozen(m=256, scale=%g)", 6, func(w theory.ThreeArms, _ float64) float64 { return w.Frozen(256) }},
	{"EATS", "ats(scale=%g)", 7, func(w theory.ThreeArms, t float64) float64 { return w.Absolute(16, t) }},
	{"UCB", "linucb(scale=%g)", 8, nil},
}

var scales = []float64{1, 1.5, 2, 3, 4, 5, 6}

// lostIn is the share of runs that did not find the third arm in half of the rounds: their regret is above half of the rounds' regret.
func lostIn(run *report.Run, m float64, policy string) (k, n int) {
	x, _ := sample(run, fmt.Sprintf("M = %g", m), policy, 0)
	for _, v := range x {
		if v > float64(run.Manifest.Horizon)*m/math.Sqrt(3)/2 {
			k++
		}
	}
	return k, len(x)
}

// smallest prints r*, the smallest scale that was played at which at most 5 % of the runs are lost, beside that of the law.
func smallest(w *bufio.Writer, run *report.Run) {
	half := float64(run.Manifest.Horizon) / 2
	fmt.Fprintf(w, "\n| M | | %s | r\\*, of the grid | r\\* of the law |\n| --- | --- |%s --- | --- |\n", strings.Join(strings.Fields("1 1.5 2 3 4 5 6"), " | "), strings.Repeat(" --- |", len(scales)))
	for _, m := range []float64{16, 32} {
		for _, k := range kinds {
			fmt.Fprintf(w, "| %g | %s |", m, k.name)
			star := "above 6"
			for i := len(scales) - 1; i >= 0; i-- {
				lost, n := lostIn(run, m, fmt.Sprintf(k.policy, scales[i]))
				if n > 0 && float64(lost) <= 0.05*float64(n) && (star != "above 6" || i == len(scales)-1) {
					star = fmt.Sprint(scales[i])
				} else if star != "above 6" {
					break
				}
			}
			for _, r := range scales {
				lost, n := lostIn(run, m, fmt.Sprintf(k.policy, r))
				switch {
				case n == 0:
					fmt.Fprint(w, " – |")
				case k.law == nil:
					fmt.Fprintf(w, " %.3f |", float64(lost)/float64(n))
				default:
					fmt.Fprintf(w, " %.3f (%.3f) |", float64(lost)/float64(n), k.law(theory.ThreeArms{M: m, R: r}, half))
				}
			}
			law := "–"
			if k.law != nil {
				lo, hi := 0.1, 100.0
				for range 60 {
					if mid := math.Sqrt(lo * hi); k.law(theory.ThreeArms{M: m, R: mid}, half) > 0.05 {
						lo = mid
					} else {
						hi = mid
					}
				}
				law = fmt.Sprintf("%.2f", hi)
			}
			fmt.Fprintf(w, " %s | %s |\n", star, law)
		}
	}
}

// verdicts prints how many ranges of each claim hold, and those that are contradicted.
func verdicts(w *bufio.Writer, runs map[string]*report.Run) {
	fmt.Fprintf(w, "\n| Spec | Replications | Claim | Holds | Contradicted | Open |\n| --- | --- | --- | --- | --- | --- |\n")
	var against []string
	for _, name := range []string{"inflation", "inflation-long", "inflation-beta", "inflation-arms", "inflation-unit"} {
		run := runs[name]
		if run == nil {
			continue
		}
		var labels []string
		n := map[string][3]int{}
		least := math.MaxInt
		for _, c := range run.Claims() {
			if _, met := n[c.Label]; !met {
				labels = append(labels, c.Label)
			}
			v := n[c.Label]
			for _, x := range c.Ranges {
				least = min(least, x.R)
				switch x.Answer {
				case "holds":
					v[0]++
				case "is contradicted":
					v[1]++
					against = append(against, fmt.Sprintf("* %s, %s: %s", name, c.Label, c.Say(0)))
				default:
					v[2]++
				}
			}
			n[c.Label] = v
		}
		for _, l := range labels {
			fmt.Fprintf(w, "| %s | %d | %s | %d | %d | %d |\n", name, least, l, n[l][0], n[l][1], n[l][2])
		}
	}
	fmt.Fprintf(w, "\n%s\n", strings.Join(against, "\n"))
}

// figure is the page's figure: three panels.
func figure(runs map[string]*report.Run) *chart.Figure {
	last := runs["inflation"].Manifest.Horizon
	f := &chart.Figure{ID: "inflation", Title: "How much inflation, how many members", Panels: []*chart.Panel{
		scalePanel(runs["inflation"]), membersPanel(runs["inflation"]), armsPanel(runs["inflation-arms"])}}
	for i, label := range []string{"d = 4 · T = " + chart.PowerLabel(float64(last/100)), "8 · " + chart.PowerLabel(float64(last/10)),
		"16 · " + chart.PowerLabel(float64(last)), "32"} {
		f.Legend = append(f.Legend, chart.RowLabel{Look: i, Label: label})
	}
	for _, k := range kinds {
		f.Legend = append(f.Legend, chart.RowLabel{Look: k.look, Label: k.name})
	}
	return f
}

func ticks(at ...float64) (t []chart.Tick) {
	for _, v := range at {
		t = append(t, chart.Tick{At: v, Label: fmt.Sprintf("%g", v)})
	}
	return t
}

// scalePanel is set A: regret of Thompson sampling over (d − 1)√T against r, and the law √((1 + r²)/2).
func scalePanel(run *report.Run) *chart.Panel {
	p := &chart.Panel{Title: "TS: regret / ((d−1)√T)", Look: -1, X: chart.Axis{Caption: "scale r", Log: true, Lo: 0.45, Hi: 4.5, Ticks: ticks(0.5, 1, 2, 4)},
		Y: chart.Axis{Caption: "regret / ((d−1)√T)", Log: true, Lo: 0.7, Hi: 5, Ticks: ticks(0.7, 1, 2, 3, 5)}}
	r := []float64{0.5, 1, 2, 4}
	for i, d := range []int{4, 8, 16, 32} {
		m := chart.Mark{Kind: chart.Line, Look: i, Name: ball(d), X: r}
		in := chart.Mark{Kind: chart.Interval, Look: i, Name: ball(d), X: r}
		for _, r := range r {
			x, _ := sample(run, ball(d), fmt.Sprintf("ts(scale=%g)", r), 0)
			unit := float64(d-1) * math.Sqrt(float64(run.Manifest.Horizon))
			v, e := stats.Mean(x)/unit, 1.96*stats.StdErr(x)/unit
			m.Y, in.Y = append(m.Y, v), append(in.Y, v)
			in.Lo, in.Hi = append(in.Lo, v-e), append(in.Hi, v+e)
		}
		p.Marks = append(p.Marks, m, in)
	}
	law := chart.Mark{Kind: chart.Guide, Look: -1, Name: "law"}
	for x := 0.45; x < 4.5; x *= 1.1 {
		law.X, law.Y = append(law.X, x), append(law.Y, math.Sqrt((1+x*x)/2))
	}
	p.Marks = append(p.Marks, law)
	return p
}

// membersPanel is set A, d = 16, r = 1: regret over that of Thompson sampling against m/d, and the law of m < d.
func membersPanel(run *report.Run) *chart.Panel {
	const d = 16
	p := &chart.Panel{Title: "m members / TS, d = 16", Look: -1, X: chart.Axis{Caption: "members m/d", Log: true, Lo: 0.055, Hi: 18, Ticks: ticks(0.1, 0.5, 1, 2, 8)},
		Y: chart.Axis{Caption: "regret / regret of TS", Log: true, Lo: 0.7, Hi: 40, Ticks: ticks(1, 2, 5, 10, 20)}}
	last := run.Manifest.Horizon
	for i, T := range []int{last / 100, last / 10, last} {
		m := chart.Mark{Kind: chart.Line, Look: i, Name: fmt.Sprintf("T = %d", T)}
		in := chart.Mark{Kind: chart.Interval, Look: i, Name: m.Name}
		for _, k := range sizes(run, "frozen") {
			r, ok := ratio(run, ball(d), fmt.Sprintf("frozen(m=%d)", k), "ts(scale=1)", T)
			if !ok {
				continue
			}
			x := float64(k) / d
			m.X, m.Y = append(m.X, x), append(m.Y, r.Value)
			in.X, in.Y, in.Lo, in.Hi = append(in.X, x), append(in.Y, r.Value), append(in.Lo, r.Lo), append(in.Hi, r.Hi)
		}
		p.Marks = append(p.Marks, m, in)
	}
	ts, _ := sample(run, ball(d), "ts(scale=1)", last)
	law := chart.Mark{Kind: chart.Guide, Look: -1, Name: "law"}
	for k := 1; k < d; k++ {
		law.X, law.Y = append(law.X, float64(k)/d), append(law.Y, math.Max(0.7, theory.SpanLoss(k, d)*float64(last)/stats.Mean(ts)))
	}
	p.Marks = append(p.Marks, law, chart.Mark{Kind: chart.Zero, Look: -1, Y: []float64{1}})
	return p
}

// armsPanel is set B at M = 16: the share of lost runs against r√10/M.
func armsPanel(run *report.Run) *chart.Panel {
	const m = 16.0
	p := &chart.Panel{Title: "Three arms: lost runs", Look: -1, X: chart.Axis{Caption: "r√10/M", Log: true, Lo: 0.18, Hi: 1.3, Ticks: ticks(0.2, 0.4, 0.6, 1)},
		Y: chart.Axis{Caption: "share of lost runs", Lo: 0, Hi: 1, Ticks: ticks(0, 0.25, 0.5, 0.75, 1)}}
	unit := math.Sqrt(10) / m
	half := float64(run.Manifest.Horizon) / 2
	for _, k := range kinds {
		in := chart.Mark{Kind: chart.Interval, Look: k.look, Name: k.name}
		for _, r := range scales {
			lost, n := lostIn(run, m, fmt.Sprintf(k.policy, r))
			if n == 0 {
				continue
			}
			lo, hi := stats.ClopperPearson(lost, n, 0.05)
			in.X, in.Y = append(in.X, r*unit), append(in.Y, float64(lost)/float64(n))
			in.Lo, in.Hi = append(in.Lo, lo), append(in.Hi, hi)
		}
		law := chart.Mark{Kind: chart.Line, Look: k.look, Name: k.name}
		for r := 0.95; r < 6.5 && k.law != nil; r *= 1.04 {
			law.X, law.Y = append(law.X, r*unit), append(law.Y, k.law(theory.ThreeArms{M: m, R: r}, half))
		}
		if k.law == nil {
			law.X, law.Y = in.X, in.Y
		}
		p.Marks = append(p.Marks, law, in)
	}
	return p
}
