package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/env/vw"
	"troupe/episode"
	"troupe/policy"
	"troupe/process"
	"troupe/spec"
)

// Catalogue is where the kinds that a spec file names are looked up, in its own tables and in nested ones: the
// base of a wrapper is a policy of the catalogue, too. A kind of one's own is one more entry:
//
//	kinds := sim.Kinds()
//	kinds.Policies["mine"] = func() policy.Options { return &MineOptions{C: 1} }
//
// Sets and Noise without entries are those of troupe.
type Catalogue struct {
	Environments spec.Registry[env.Options]
	Policies     spec.Registry[policy.Options]
	Problems     spec.Registry[episode.Options]      // environments that are played in episodes
	Agents       spec.Registry[episode.AgentOptions] // what plays them
	Sets         spec.Registry[actionset.Builder]    // set = { kind = "…" }
	Noise        spec.Registry[env.Law]              // noise = { kind = "…" }
	Recorders    map[string]Recorder                 // record = ["…"], beside Builtin
}

// Kinds returns the catalogue of troupe. Each call returns a copy, so kinds that a caller adds are in its copy only.
func Kinds() Catalogue {
	policies := maps.Clone(policy.Kinds)
	policies["process"] = func() policy.Options { return process.NewOptions() }
	environments := maps.Clone(env.Kinds)
	environments["vw"] = func() env.Options { return vw.New() }
	environments["process"] = func() env.Options { return process.NewWorldOptions() }
	return Catalogue{
		Environments: environments,
		Policies:     policies,
		Problems:     maps.Clone(episode.Environments),
		Agents:       maps.Clone(episode.Agents),
		Sets:         maps.Clone(actionset.Kinds),
		Noise:        maps.Clone(env.Laws),
		Recorders:    make(map[string]Recorder),
	}
}

// bind returns the catalogue with registries whose options look nested kinds up in it.
func (c Catalogue) bind() Catalogue {
	kinds := new(spec.Kinds)
	if len(c.Sets) > 0 {
		c.Sets = spec.Bind(kinds, c.Sets)
	}
	if len(c.Noise) > 0 {
		c.Noise = spec.Bind(kinds, c.Noise)
	}
	c.Environments = spec.Bind(kinds, c.Environments)
	c.Policies = spec.Bind(kinds, c.Policies)
	c.Problems = spec.Bind(kinds, c.Problems)
	c.Agents = spec.Bind(kinds, c.Agents)
	return c
}

// Recorder is a quantity of one's own, which a spec asks for by its name in record. Its columns stand in
// diagnostics.csv and on the page beside those of troupe.
type Recorder struct {
	Doc     string   // what it is, one line
	Who     string   // which environments and policies have it
	Columns []string // of diagnostics.csv: lower-case letters, digits and _, unlike those of other quantities

	// New returns what observes a cell, and nil where the cell does not have the quantity. It is called before
	// round 1, from several goroutines.
	New func(c RecordedCell) Probe
}

// RecordedCell is what a Recorder may look at. A probe reads them and changes nothing.
type RecordedCell struct {
	World   bandit.Environment
	Policy  bandit.Policy
	Set     bandit.ActionSet // that of round 1
	Horizon int
}

// Probe observes one cell from one goroutine.
type Probe interface {
	// Round is called in each round, after the choice and before the update.
	Round(r Round) error
	// Values stores the value of each column at the round that was observed last, a checkpoint. The values
	// must be finite.
	Values(dst []float64) error
}

// Round is what a Probe sees of a round. Set and Action belong to others; their content is good until Round
// returns.
type Round struct {
	T      int // from 1
	Set    bandit.ActionSet
	Action bandit.Action
	Regret float64 // pseudo-regret of the action
	Reward float64
}

// Quantity is something a spec can ask to record.
type Quantity struct {
	Name    string   `json:"name"`    // in record = [...]
	Columns []string `json:"columns"` // of diagnostics.csv
	Doc     string   `json:"doc"`     // one line
	Who     string   `json:"who"`     // the policy that has it
}

// Quantities is everything that record can name, in the order of the columns of diagnostics.csv: Builtin, then
// the recorders of the catalogue by name.
func (c Catalogue) Quantities() []Quantity {
	out := slices.Clone(Builtin)
	for _, name := range slices.Sorted(maps.Keys(c.Recorders)) {
		r := c.Recorders[name]
		out = append(out, Quantity{name, r.Columns, r.Doc, cmp.Or(r.Who, "what it finds something in")})
	}
	return out
}

var columnName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// checkRecord refuses names that are no quantity, names given twice and recorders that are wrong, and puts
// the names in the order of Quantities.
func (c Catalogue) checkRecord(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	all := c.Quantities()
	taken := map[string]string{"environment": "results.csv", "policy": "results.csv", "replication": "results.csv",
		"round": "results.csv"}
	var valid []string
	for i, q := range all {
		if slices.Contains(valid, q.Name) {
			return nil, fmt.Errorf("recorder %q: troupe has a quantity of this name", q.Name)
		}
		if i >= len(Builtin) && len(q.Columns) == 0 {
			return nil, fmt.Errorf("recorder %q: has no columns", q.Name)
		}
		for _, col := range q.Columns {
			if !columnName.MatchString(col) {
				return nil, fmt.Errorf("recorder %q: column %q, expected lower-case letters, digits and _", q.Name, col)
			}
			if who, ok := taken[col]; ok {
				return nil, fmt.Errorf("recorder %q: %s has a column %q, too", q.Name, who, col)
			}
			taken[col] = q.Name
		}
		valid = append(valid, q.Name)
	}
	for i, name := range names {
		switch {
		case !slices.Contains(valid, name):
			return nil, spec.Errorf(spec.Element("record", i), "is %q%s", name, spec.Suggest(name, valid))
		case slices.Contains(names[:i], name):
			return nil, spec.Errorf(spec.Element("record", i), "is %q for the second time", name)
		case c.Recorders[name].New == nil && !slices.ContainsFunc(Builtin,
			func(q Quantity) bool { return q.Name == name }):
			return nil, errors.New("recorder " + name + ": has no New")
		}
	}
	return slices.DeleteFunc(valid, func(name string) bool { return !slices.Contains(names, name) }), nil
}

// columns returns the columns of diagnostics.csv for the quantities named.
func (c Catalogue) columns(record []string) []string {
	var out []string
	for _, q := range c.Quantities() {
		if slices.Contains(record, q.Name) {
			out = append(out, q.Columns...)
		}
	}
	return out
}

// diagnosticsColumns returns the columns of diagnostics.csv.
func (x *Experiment) diagnosticsColumns() []string { return x.kinds.columns(x.Record) }

// recorded lists the recorders that the experiment asks for.
func (x *Experiment) recorded() []Quantity {
	var out []Quantity
	for _, q := range x.kinds.Quantities()[len(Builtin):] {
		if slices.Contains(x.Record, q.Name) {
			out = append(out, q)
		}
	}
	return out
}
