package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/sim"
)

// choice is what a run is a part of: the run with all policies and environments, and the places of those that are
// shown.
type choice struct {
	of           *Run
	environments []int
	policies     []int
}

// Only returns the run with some of its policies and environments, for pages and figures that show these alone. A
// pattern is a name, in which * stands for any text: it chooses policies, environments, or both where it names both;
// with "policy=" or "environment=" before it, these only. Where no pattern names a policy all are shown, and likewise
// for environments. Intervals and verdicts hold for everything in the run, as on its own page: what is shown was chosen
// when the results were there. A pattern that names nothing is an error.
func (run *Run) Only(patterns []string) (*Run, error) {
	m := &run.Manifest
	var policies, environments []string
	for _, p := range m.Policies {
		policies = append(policies, p.Name)
	}
	for _, e := range m.Environments {
		environments = append(environments, e.Name)
	}
	inPolicies, inEnvironments := make([]bool, len(policies)), make([]bool, len(environments))
	for _, pattern := range patterns {
		kind, text := "", pattern
		for _, k := range []string{"policy", "environment"} {
			if rest, ok := strings.CutPrefix(pattern, k+"="); ok {
				kind, text = k, rest
			}
		}
		found := kind != "environment" && choose(inPolicies, policies, text)
		found = kind != "policy" && choose(inEnvironments, environments, text) || found
		if !found {
			return nil, fmt.Errorf("%q names nothing in this run; policies: %s; environments: %s", pattern,
				strings.Join(policies, ", "), strings.Join(environments, ", "))
		}
	}
	c := &choice{of: run, policies: chosen(inPolicies), environments: chosen(inEnvironments)}
	return c.make(), nil
}

// choose marks the names that a pattern matches, and reports whether there are any.
func choose(in []bool, names []string, pattern string) (found bool) {
	for i, n := range names {
		if matches(n, strings.Split(pattern, "*")) {
			in[i], found = true, true
		}
	}
	return found
}

// matches reports whether a name consists of the parts with any text between them.
func matches(name string, parts []string) bool {
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	for _, p := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, p)
		if at < 0 {
			return false
		}
		rest = rest[at+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// chosen lists the places that are marked, all where none is.
func chosen(in []bool) (at []int) {
	all := !slices.Contains(in, true)
	for i, yes := range in {
		if yes || all {
			at = append(at, i)
		}
	}
	return at
}

// make builds the run that is shown.
func (c *choice) make() *Run {
	run := &Run{Dir: c.of.Dir, Manifest: c.of.Manifest, choice: c, apart: c.of.apart}
	m := &run.Manifest
	m.Policies, m.Environments, m.Claims = nil, nil, nil
	shown := map[string]bool{}
	for _, p := range c.policies {
		m.Policies = append(m.Policies, c.of.Manifest.Policies[p])
		shown[c.of.Manifest.Policies[p].Name] = true
	}
	if !shown[m.Reference] {
		m.Reference = ""
	}
	for _, e := range c.environments {
		m.Environments = append(m.Environments, c.of.Manifest.Environments[e])
		was, all := &c.of.Envs[e], prepare(c.of, e)
		data := EnvData{Rounds: was.Rounds}
		for _, p := range c.policies {
			cells := make([]*CellRun, len(was.Cells[p]))
			if all != nil {
				for _, r := range all.Reps { // intervals are of the replications that all policies have finished
					cells[r] = was.Cells[p][r]
				}
			}
			data.Cells = append(data.Cells, cells)
			if was.Also != nil {
				data.Also = append(data.Also, was.Also[p])
			}
		}
		run.Envs = append(run.Envs, data)
	}
	m.Notes = append(slices.Clone(m.Notes), fmt.Sprintf("Shown are %d of %d policies and %d of %d environments. "+
		"Intervals and "+
		"verdicts hold for all of them.", len(m.Policies), len(c.of.Manifest.Policies), len(m.Environments),
		len(c.of.Manifest.Environments)))
	return run
}

// family takes the intervals of what is shown from those of everything.
func (c *choice) family(run *Run) *family {
	all := c.of.family()
	f := &family{pairs: all.pairs, byEnv: map[int]map[[2]int]infer.Interval{}, factor: map[int]float64{}}
	for e, was := range c.environments {
		a, full := prepare(run, e), prepare(c.of, was)
		if a == nil {
			continue
		}
		if v, ok := all.factor[was]; ok {
			f.factor[e] = v
		}
		f.byEnv[e] = map[[2]int]infer.Interval{}
		for i := range a.Policies {
			for j := range i {
				x, y := full.index(a.Label(i)), full.index(a.Label(j))
				if v, ok := all.byEnv[was][[2]int{x, y}]; ok {
					f.byEnv[e][[2]int{i, j}] = v
				}
			}
		}
	}
	return f
}

// beforeChoice is the analysis with all policies of the run; nil where this one has them.
func (a *Analysis) beforeChoice() *Analysis {
	c := a.Run.choice
	if c == nil {
		return nil
	}
	return Analyze(c.of, c.environments[a.Env])
}

// looks assigns a look to each policy of the run; those of a choice keep the looks that they have among all.
func (run *Run) looks() (looks []chart.Look, repeats bool) {
	if run.choice == nil {
		return looksOf(run.Manifest.Policies)
	}
	all, repeats := run.choice.of.looks()
	for _, p := range run.choice.policies {
		looks = append(looks, all[p])
	}
	return looks, repeats
}

// Together returns one run of two, with the policies of both in the environments that both have, so that a figure can
// draw from both. Policies of one name are called NAME (A) and NAME (B). Environments of one name must be the same in
// their options, feedback, horizon and data; the checkpoints are those of both. Replications are paired by number;
// where the seeds differ, they are of different instances, which pairing does not harm.
func Together(a, b *Run) (*Run, error) {
	if a.estimand() != b.estimand() {
		return nil, fmt.Errorf("the runs fix different estimands, %v and %v", a.estimand(), b.estimand())
	}
	if a.Manifest.Episodic != b.Manifest.Episodic {
		return nil, fmt.Errorf("one run is of episodes, the other one of rounds")
	}
	run := &Run{Dir: a.Dir, Manifest: a.Manifest}
	m := &run.Manifest
	m.Experiment = a.Manifest.Experiment + " and " + b.Manifest.Experiment
	m.Spec = "# A\n" + a.Manifest.Spec + "\n# B\n" + b.Manifest.Spec
	m.SpecSHA256, m.ResultsSHA, m.Diagnostics, m.Values, m.Record, m.Recorders = "", "", "", "", nil, nil
	m.Hypothesis, m.Claims, m.Reference, m.Until, m.Environments, m.Policies = "", nil, "", "", nil, nil
	m.Notes, m.Rounding = nil, nil
	m.Replications = max(a.Manifest.Replications, b.Manifest.Replications)
	m.Cells, m.Done = a.Manifest.Cells+b.Manifest.Cells, a.Manifest.Done+b.Manifest.Done
	if a.Manifest.Status != sim.Complete || b.Manifest.Status != sim.Complete {
		m.Status = sim.Interrupted
	}
	names := [2]map[string]string{{}, {}} // as they are called together
	for side, r := range []*Run{a, b} {
		other := []*Run{b, a}[side]
		for _, p := range r.Manifest.Policies {
			was := p.Name
			if slices.ContainsFunc(other.Manifest.Policies, func(q sim.PolicyRow) bool { return q.Name == p.Name }) {
				p.Name += [2]string{" (A)", " (B)"}[side]
			}
			names[side][was] = p.Name
			m.Policies = append(m.Policies, p)
		}
		for _, pair := range r.Manifest.Rounding {
			m.Rounding = append(m.Rounding, sim.Pair{Environment: pair.Environment, Policy: names[side][pair.Policy]})
		}
	}
	if err := checkManifestNames(m.Policies); err != nil {
		return nil, err
	}
	var left []string
	for e, row := range a.Manifest.Environments {
		at := slices.IndexFunc(b.Manifest.Environments, func(r sim.EnvironmentRow) bool { return r.Name == row.Name })
		if at < 0 {
			left = append(left, row.Name)
			continue
		}
		if x, y := worldText(a, e), worldText(b, at); x != y {
			return nil, fmt.Errorf("environment %q is not the same in both runs: %s in A, %s in B", row.Name, x, y)
		}
		m.Environments = append(m.Environments, row)
		run.Envs = append(run.Envs, joined(&a.Envs[e], &b.Envs[at], m.Replications))
	}
	if len(m.Environments) == 0 {
		return nil, fmt.Errorf("the runs have no environment in common")
	}
	m.Horizon = 0
	for _, e := range run.Envs {
		if n := len(e.Rounds); n > 0 {
			m.Horizon = max(m.Horizon, e.Rounds[n-1])
		}
	}
	if m.Horizon == 0 {
		return nil, fmt.Errorf("the runs have no checkpoint in common")
	}
	m.Notes = append(m.Notes, fmt.Sprintf("Two runs: A is %s, B is %s.", a.Dir, b.Dir))
	if run.apart = a.Manifest.Seed != b.Manifest.Seed; run.apart {
		m.Notes = append(m.Notes, fmt.Sprintf("The seeds differ (%d and %d), so policies of A and B did not meet "+
			"the same instances.",
			a.Manifest.Seed, b.Manifest.Seed))
	}
	if left != nil {
		m.Notes = append(m.Notes, "In one run only, and left out: "+strings.Join(left, ", ")+".")
	}
	return run, nil
}

// checkManifestNames refuses policies of one name.
func checkManifestNames(policies []sim.PolicyRow) error {
	seen := map[string]bool{}
	for _, p := range policies {
		if seen[p.Name] {
			return fmt.Errorf("two policies would be called %q", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// worldText is what an environment of a run is.
func worldText(run *Run, e int) string {
	row := run.Manifest.Environments[e]
	b, err := json.Marshal(struct {
		Kind    string
		Options map[string]any
		Data    string `json:",omitempty"`
	}{row.Kind, row.All(), row.Data.SHA256})
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// joined returns the cells of both at the checkpoints that both have.
func joined(a, b *EnvData, replications int) EnvData {
	var out EnvData
	var at [2][]int
	for k, t := range a.Rounds {
		if n, ok := slices.BinarySearch(b.Rounds, t); ok {
			out.Rounds, at[0], at[1] = append(out.Rounds, t), append(at[0], k), append(at[1], n)
		}
	}
	for side, data := range []*EnvData{a, b} {
		for _, cells := range data.Cells {
			row := make([]*CellRun, replications)
			for r, c := range cells {
				if c == nil || len(out.Rounds) == 0 {
					continue
				}
				row[r] = &CellRun{}
				for _, k := range at[side] {
					row[r].Regret, row[r].Reward = append(row[r].Regret, c.Regret[k]), append(row[r].Reward,
						c.Reward[k])
				}
			}
			out.Cells = append(out.Cells, row)
		}
	}
	return out
}
