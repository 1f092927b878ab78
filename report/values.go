package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"troupe/report/chart"
	"troupe/sim"
)

// memberValues is what values.csv holds of one agent in one environment before one episode.
type memberValues struct {
	env, agent, episode int
	models              [][]float64 // by model: V_h of the state on the way to the treasure, by step
	visits              []int       // of these states, by step
}

// loadValues reads values.csv of a directory, where the manifest says that there is one.
func (run *Run) loadValues() error {
	want := run.Manifest.Values
	if want == "" {
		return nil
	}
	path := filepath.Join(run.Dir, sim.ValuesFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("%s: SHA-256 is %.12s…, manifest.json says %.12s…: the file was changed after the run", path,
			got, want)
	}
	return run.parseValues(path, data)
}

// parseValues reads values.csv; an error names the line.
func (run *Run) parseValues(path string, data []byte) error {
	r := csv.NewReader(bytes.NewReader(data))
	head, err := r.Read()
	if err != nil || strings.Join(head, ",") != sim.ValuesHeader {
		return fmt.Errorf("%s: line 1: expected %q", path, sim.ValuesHeader)
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := run.addValue(row); err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("%s: line %d: %w", path, line, err)
		}
	}
}

// addValue takes one line: the next step of the same model, the first of the next model, or the first of another list.
func (run *Run) addValue(row []string) error {
	e := slices.IndexFunc(run.Manifest.Environments, func(c sim.EnvironmentRow) bool { return c.Name == row[0] })
	p := slices.IndexFunc(run.Manifest.Policies, func(c sim.PolicyRow) bool { return c.Name == row[1] })
	if e < 0 || p < 0 {
		return fmt.Errorf("environment %q, agent %q: not in the manifest", row[0], row[1])
	}
	var n [4]int // episode, model, step, visits
	for i, at := range []int{3, 4, 5, 7} {
		v, err := strconv.Atoi(row[at])
		if err != nil || v < 0 {
			return fmt.Errorf("column %d is %q, expected a whole number from 0 on", at+1, row[at])
		}
		n[i] = v
	}
	v, err := strconv.ParseFloat(row[6], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("the value is %q, expected a finite number", row[6])
	}
	if k := len(run.values) - 1; k < 0 || run.values[k].env != e || run.values[k].agent != p ||
		run.values[k].episode != n[0] {
		run.values = append(run.values, &memberValues{env: e, agent: p, episode: n[0]})
	}
	m := run.values[len(run.values)-1]
	if n[2] == 0 {
		m.models = append(m.models, nil)
	}
	last := len(m.models) - 1
	if last < 0 || n[1] != len(m.models) || n[2] != len(m.models[last]) {
		return fmt.Errorf("model %d, step %d: expected the lines of a model one after the other, models from 1, "+
			"steps from 0", n[1], n[2])
	}
	m.models[last] = append(m.models[last], v)
	if last == 0 {
		m.visits = append(m.visits, n[3])
	} else if n[2] >= len(m.visits) {
		return fmt.Errorf("model %d has more steps than the first", n[1])
	}
	return nil
}

// valuedAgents is how many agents the figure of values has rows for.
const valuedAgents = 3

// valuesFigure shows what the members of agents think of the states on the way to the treasure, before the first and the
// last recorded episode of each agent: the median member, 10 to 90 % of them, and one of them. It is nil without values of
// the environment.
func (run *Run) valuesFigure(e int) *chart.Figure {
	var agents []int
	first, last := map[int]*memberValues{}, map[int]*memberValues{}
	for _, v := range run.values {
		if v.env != e || len(v.visits) < 2 {
			continue
		}
		if first[v.agent] == nil {
			if len(agents) == valuedAgents {
				continue
			}
			agents = append(agents, v.agent)
			first[v.agent] = v
		}
		if v.episode < first[v.agent].episode {
			first[v.agent] = v
		}
		if last[v.agent] == nil || v.episode > last[v.agent].episode {
			last[v.agent] = v
		}
	}
	var all []*memberValues
	for _, p := range agents {
		all = append(all, first[p])
		if last[p] != first[p] {
			all = append(all, last[p])
		}
	}
	if all == nil {
		return nil
	}
	f := &chart.Figure{ID: "values-" + slug(run.Manifest.Environments[e].Name),
		Title: "Why: what the members hope for, " + run.Manifest.Environments[e].Name,
		How: "Before the first and the last recorded episode of replication 1: the value V(s) of the state of step h on the way to the " +
			"treasure, the median member, 10 to 90% of all members, and one of them (dotted). The optimum is near 1. " +
			"Left of the vertical line lie the states that were visited: there a member hands back what it hopes for beyond."}
	lo, hi := 0.0, 1.0
	for _, v := range all {
		p := v.panel(run.Manifest.Policies[v.agent].Name)
		for _, m := range p.Marks {
			for _, list := range [][]float64{m.Y, m.Lo, m.Hi} {
				if len(list) > 0 && m.Kind != chart.ZeroX {
					lo, hi = min(lo, slices.Min(list)), max(hi, slices.Max(list))
				}
			}
		}
		f.Panels = append(f.Panels, p)
	}
	for _, p := range f.Panels {
		p.Y = chart.Axis{Caption: "Value", Lo: lo, Hi: hi, Ticks: chart.Within(chart.LinearTicks(lo, hi, 4), lo, hi)}
	}
	return f
}

// panel draws the values before an episode.
func (v *memberValues) panel(agent string) *chart.Panel {
	end := float64(len(v.visits) - 1)
	p := &chart.Panel{Title: fmt.Sprintf("%s, episode %s", agent, chart.Count(v.episode)), Look: v.agent,
		X: chart.Axis{Caption: "Step h", Lo: 0, Hi: end, Ticks: chart.Within(chart.LinearTicks(0, end, 4), 0, end)}}
	band := chart.Mark{Kind: chart.Band, Look: v.agent, Name: "10 to 90% of the members"}
	median := chart.Mark{Kind: chart.Line, Look: v.agent, Name: "median member"}
	for h := range v.visits {
		var at []float64
		for _, m := range v.models {
			if h < len(m) {
				at = append(at, m[h])
			}
		}
		if len(at) == 0 {
			continue
		}
		slices.Sort(at)
		x := float64(h)
		band.X, band.Lo, band.Hi = append(band.X, x), append(band.Lo, quantile(at, 0.1)), append(band.Hi, quantile(at, 0.9))
		median.X, median.Y = append(median.X, x), append(median.Y, quantile(at, 0.5))
	}
	one := chart.Mark{Kind: chart.Fit, Look: v.agent, Name: "member 1", Y: v.models[0]}
	for h := range one.Y {
		one.X = append(one.X, float64(h))
	}
	p.Marks = append(p.Marks, band, median, one)
	if n := slices.Index(append(slices.Clone(v.visits), 0), 0); n > 0 { // a state is reached through the one before
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.ZeroX, Look: -1, Name: "visited", X: []float64{float64(n - 1)}})
	}
	return p
}
