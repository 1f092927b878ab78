package sim

import (
	"maps"
	"slices"

	"troupe/dataset"
	"troupe/policy"
	"troupe/spec"
)

// Grid returns the cases that the tune table of policy p stands for: its own options with every
// combination of the values tried. A grid that cannot be built is an error at its place in the file.
func (x *Experiment) Grid(p int) ([]PolicyCase, error) {
	c := &x.Policies[p]
	at := spec.Join(c.path, "tune")
	raw := maps.Clone(c.Table)
	raw["kind"] = c.Kind
	for k, v := range c.Tune {
		raw[k] = v
	}
	choices := x.expandPolicy(raw)
	if len(choices) > maxCases {
		return nil, x.src.Locate(spec.Errorf(at, "makes more than %d combinations", maxCases))
	}
	var grid []PolicyCase
	for _, choice := range choices {
		table := choice.Value.(spec.Raw)
		g := PolicyCase{path: c.path, chosen: choice.Swept, Swept: []string{}}
		var err error
		if g.Options, err = x.decodePolicy(table, at); err != nil {
			return nil, x.src.Locate(err)
		}
		g.Kind, g.Table = c.Kind, maps.Clone(table)
		delete(g.Table, "kind")
		for _, s := range g.chosen {
			g.Swept = append(g.Swept, s.Key)
		}
		grid = append(grid, g)
	}
	if len(grid) < 2 {
		return nil, x.src.Locate(spec.Errorf(at, "has one combination, expected at least two to choose from"))
	}
	return grid, nameCases(grid, "policy")
}

// expandPolicy multiplies out the sweeps of a table of a policy or an agent.
func (x *Experiment) expandPolicy(raw spec.Raw) []spec.Choice {
	if x.Episodic() {
		return spec.Expand(x.bound.Agents, raw)
	}
	return spec.Expand(x.bound.Policies, raw)
}

// decodePolicy decodes a table of a policy or an agent.
func (x *Experiment) decodePolicy(table spec.Raw, at string) (policy.Options, error) {
	if !x.Episodic() {
		return spec.Decode(x.bound.Policies, table, at)
	}
	o, err := spec.Decode(x.bound.Agents, table, at)
	if err != nil {
		return nil, err
	}
	return agentOf{o}, nil
}

// Chosen lists what a sweep or a grid chose for the case: paths of options and their values.
func (c *Case[T]) Chosen() []spec.Setting { return slices.Clone(c.chosen) }

// Of returns the experiment with other policies, replications and stream, to be played in memory.
func (x *Experiment) Of(policies []PolicyCase, replications int, stream string) *Experiment {
	y := *x
	y.Policies, y.Replications, y.Stream = policies, replications, stream
	y.Record, y.Reference, y.Hypothesis, y.Estimand, y.Claims = nil, "", "", "", nil
	y.Checkpoints = []int{x.Horizon}
	y.Environments = slices.Clone(x.Environments)
	for e := range y.Environments {
		if c := &y.Environments[e]; c.Horizon > 0 {
			c.Checkpoints = []int{c.Horizon}
		}
	}
	return &y
}

// Rehearse builds every environment and policy of the experiment and lets each choose once, as Run does
// before its first cell. The error is at its place in the file.
func (x *Experiment) Rehearse(data *dataset.Source) error {
	return newRunner(x, Options{Data: data}).facts.play()
}

// Place returns the path of the case's table in the spec: policy[1].
func (c *Case[T]) Place() string { return c.path }
