package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"troupe/spec"
)

// Own is what an environment has for itself where its table, or a sweep in the head of the spec, says so.
type Own struct {
	Horizon     int     // 0: that of the experiment
	Seed        *uint64 // nil: that of the experiment
	Checkpoints []int   // of its own horizon; nil: those of the experiment
}

// HorizonOf returns the rounds of environment e. Experiment.Horizon is the largest.
func (x *Experiment) HorizonOf(e int) int {
	if own := x.Environments[e].Horizon; own > 0 {
		return own
	}
	return x.Horizon
}

// CheckpointsOf returns the checkpoints of environment e. Read only.
func (x *Experiment) CheckpointsOf(e int) []int {
	if own := x.Environments[e].Checkpoints; own != nil {
		return own
	}
	return x.Checkpoints
}

// SeedOf returns the seed of environment e.
func (x *Experiment) SeedOf(e int) uint64 {
	if own := x.Environments[e].Seed; own != nil {
		return *own
	}
	return x.Seed
}

// roundsOfCell is the mean number of rounds of a cell.
func (x *Experiment) roundsOfCell() float64 {
	var all float64
	for e := range x.Environments {
		all += float64(x.HorizonOf(e))
	}
	return all / float64(len(x.Environments))
}

// envOf is the environment of the cell at a place (Experiment.index).
func (t *cellTable) envOf(i int) int { return i / (len(t.x.Policies) * t.x.Replications) }

// marks is the number of checkpoints of the cell at a place.
func (r *cellTable) marks(i int) int { return len(r.x.CheckpointsOf(r.envOf(i))) }

// zipKey describes the key zip for listings.
var zipKey = spec.Option{Key: spec.ZipKey, Type: "[]string",
	Doc: "sweeps that go together, first values with first ones: [\"m\", \"scale.value\"]; a list of lists for " +
		"several groups"}

// ownKeys are the keys of an environment beside the options of its kind.
var ownKeys = []string{"feedback", "horizon", "seed"}

// inherit moves sweeps of the head into the environments: horizon = [1_000, 10_000] is that of every [[environment]]
// that has none. The head keeps the largest horizon, and the first seed.
func inherit(tree spec.Raw) error {
	for _, key := range []string{"horizon", "seed"} {
		list, ok := tree[key].([]any)
		if !ok {
			continue
		}
		if len(list) == 0 {
			return spec.Errorf(key, "is an empty list, expected a whole number or several")
		}
		best := list[0]
		for i, v := range list {
			n, err := ownNumber(v, spec.Element(key, i), key)
			if err != nil {
				return err
			}
			if first, _ := list[0].(int64); key == "horizon" && n > max(first, best.(int64)) {
				best = n
			}
			if slices.Contains(list[:i], v) {
				return spec.Errorf(spec.Element(key, i), "is %d, which stands in the list already", n)
			}
		}
		tree[key] = best
		tables, _ := tree["environment"].([]any)
		for _, t := range tables {
			if table, ok := t.(spec.Raw); ok && table[key] == nil {
				table[key] = slices.Clone(list)
			}
		}
	}
	return nil
}

// ownNumber reads a horizon or a seed.
func ownNumber(v any, at, key string) (int64, error) {
	n, ok := v.(int64)
	if !ok {
		return 0, spec.Errorf(at, "is %s, expected a whole number", spec.Show(v))
	}
	low, top := int64(1), int64(maxHorizon)
	if key == "seed" {
		low, top = 0, math.MaxInt64
	}
	if n < low || n > top {
		return 0, spec.Errorf(at, "is %d, expected a whole number from %d to %d", n, low, top)
	}
	return n, nil
}

// ownOf reads horizon and seed of an environment's table without sweeps.
func ownOf(table spec.Raw, at string) (own Own, err error) {
	if v, ok := table["horizon"]; ok {
		n, err := ownNumber(v, spec.Join(at, "horizon"), "horizon")
		if err != nil {
			return own, err
		}
		own.Horizon = int(n)
	}
	if v, ok := table["seed"]; ok {
		n, err := ownNumber(v, spec.Join(at, "seed"), "seed")
		if err != nil {
			return own, err
		}
		seed := uint64(n)
		own.Seed = &seed
	}
	return own, nil
}

// expandTable multiplies out the sweeps of a table [[key]]: those that zip binds first, then those of what stands
// beside the options of an environment, then those of the options.
func expandTable[T any](kinds spec.Registry[T], table spec.Raw, at, key string) ([]spec.Choice, error) {
	bound, err := spec.Zip(table, at)
	if err != nil {
		return nil, err
	}
	var out []spec.Choice
	for _, b := range bound {
		beside := []spec.Choice{{Value: b.Value}}
		if key == "environment" {
			beside = expandOwn(b.Value.(spec.Raw))
		}
		for _, o := range beside {
			for _, c := range spec.Expand(kinds, o.Value.(spec.Raw)) {
				c.Swept = slices.Concat(b.Swept, o.Swept, c.Swept)
				if out = append(out, c); len(out) > spec.MaxChoices {
					return out, nil
				}
			}
		}
	}
	return out, nil
}

// expandOwn multiplies out the sweeps of feedback, horizon and seed.
func expandOwn(table spec.Raw) []spec.Choice {
	choices := []spec.Choice{{Value: table}}
	for _, key := range ownKeys {
		var alts []spec.Choice
		switch v := table[key].(type) {
		case []any:
			for _, e := range v {
				inner := []spec.Choice{{Value: e}}
				if t, ok := e.(spec.Raw); ok && key == "feedback" {
					inner = spec.ExpandStruct(new(Feedback), t)
				}
				for _, c := range inner {
					alts = append(alts, spec.Choice{Value: c.Value, Swept: []spec.Setting{{Key: key, Value: c.Value}}})
				}
			}
		case spec.Raw:
			alts = spec.ExpandStruct(new(Feedback), v)
			for i := range alts {
				for j := range alts[i].Swept {
					alts[i].Swept[j].Key = spec.Join(key, alts[i].Swept[j].Key)
				}
			}
		}
		if len(alts) == 0 {
			continue
		}
		var next []spec.Choice
		for _, c := range choices {
			for _, a := range alts {
				t := maps.Clone(c.Value.(spec.Raw))
				t[key] = a.Value
				if next = append(next, spec.Choice{Value: t, Swept: slices.Concat(c.Swept,
					a.Swept)}); len(next) > spec.MaxChoices {
					return next
				}
			}
		}
		choices = next
	}
	return choices
}

// settleHorizons makes Horizon the largest of all environments, and writes the experiment's into those that have none
// where it is not the largest.
func (d decoder) settleHorizons() {
	most, stated := 0, d.x.Horizon
	for e := range d.x.Environments {
		most = max(most, d.x.HorizonOf(e))
	}
	if d.x.Horizon = most; most == stated {
		return
	}
	for e := range d.x.Environments {
		if c := &d.x.Environments[e]; c.Horizon == 0 && stated < most {
			c.Horizon = stated
		}
	}
}

// ownCheckpoints gives environments with a horizon of their own their checkpoints: those that are stated up to it, and
// it.
func (d decoder) ownCheckpoints(stated []int, given bool) {
	for e := range d.x.Environments {
		c := &d.x.Environments[e]
		switch {
		case c.Horizon == 0:
		case given:
			c.Checkpoints = nil
			for _, t := range stated {
				if t < c.Horizon {
					c.Checkpoints = append(c.Checkpoints, t)
				}
			}
			c.Checkpoints = append(c.Checkpoints, c.Horizon)
		case d.x.Episodic():
			c.Checkpoints = episodeCheckpoints(c.Horizon)
		default:
			c.Checkpoints = Checkpoints(c.Horizon)
		}
		d.x.stated = d.x.stated || c.Horizon > 0
	}
}

// withOwn returns options with what stands beside them.
func withOwn(options, feedback map[string]any, horizon int, seed *uint64) map[string]any {
	out := maps.Clone(options)
	if out == nil {
		out = map[string]any{}
	}
	if feedback != nil {
		out["feedback"] = feedback
	}
	if horizon > 0 {
		out["horizon"] = float64(horizon)
	}
	if seed != nil {
		out["seed"] = float64(*seed)
	}
	return out
}

// All returns the options of an environment with its feedback, horizon and seed, where it has its own.
func (e *EnvironmentRow) All() map[string]any {
	return withOwn(e.Options, e.Feedback, e.Horizon, e.Seed)
}

// feedbackText writes the value of feedback in a name.
func feedbackText(v any) string {
	t, ok := v.(spec.Raw)
	if !ok {
		return show(v, 4)
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %s", k, OptionText(t[k])))
	}
	return strings.Join(parts, " ")
}
