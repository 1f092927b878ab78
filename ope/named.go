package ope

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/logged"
	"troupe/spec"
)

// Named plays by one law over the ids of actions, whatever the context and whatever their places: P[id] is the probability
// of that action. An event must offer every action that has a positive one.
type Named struct {
	Label string
	P     map[string]float64
}

// NewNamed checks the law.
func NewNamed(label string, p map[string]float64) (*Named, error) {
	s := 0.0
	for _, id := range slices.Sorted(maps.Keys(p)) {
		if v := p[id]; !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("%s is %v, expected a probability", id, v)
		}
		s += p[id]
	}
	if math.Abs(s-1) > logged.Tolerance {
		return nil, fmt.Errorf("p sums to %v, expected 1", s)
	}
	return &Named{label, maps.Clone(p)}, nil
}

// Name implements Target.
func (n *Named) Name() string { return n.Label }

// Law implements Target.
func (n *Named) Law(dst []float64, e *logged.Event, _ []float64) error {
	clear(dst)
	found := 0
	for i := range min(len(dst), len(e.Actions)) {
		if v, ok := n.P[e.Actions[i].ID]; ok {
			dst[i] = v
			found++
		}
	}
	if found == len(n.P) {
		return nil
	}
	var offered []string
	for i := range e.Actions {
		if id := e.Actions[i].ID; id != "" {
			offered = append(offered, id)
		}
	}
	if len(offered) == 0 {
		return fmt.Errorf("the actions of the log are numbers, expected the ids that the target names (action = 0 takes a " +
			"number, --actions NAME,NAME,… gives them names)")
	}
	for _, id := range slices.Sorted(maps.Keys(n.P)) {
		if n.P[id] > 0 && !slices.Contains(offered, id) {
			if len(offered) > 10 {
				offered = append(offered[:10], "…")
			}
			return fmt.Errorf("no action %q, expected one of %s", id, strings.Join(offered, ", "))
		}
	}
	return nil
}

// Numbered plays the action with one number, whatever the context.
type Numbered struct {
	Label  string
	Action int
}

// Name implements Target.
func (n *Numbered) Name() string { return n.Label }

// Law implements Target.
func (n *Numbered) Law(dst []float64, _ *logged.Event, _ []float64) error {
	if n.Action >= len(dst) {
		return fmt.Errorf("%d actions, expected more than %d, the target's action", len(dst), n.Action)
	}
	clear(dst)
	dst[n.Action] = 1
	return nil
}

// namedTarget reads a table of kind "fixed" that names actions: action = "news", action = 3 or p = { news = 0.7, … }.
// ok is false for one that does not.
func namedTarget(raw spec.Raw, label string) (t Target, ok bool, _ error) {
	only := func(key string) error {
		for k := range raw {
			if k != key && k != "kind" && k != "name" {
				return spec.Errorf(k, "unknown key %q beside %s%s", k, key, spec.Suggest(k, []string{"kind", "name", key}))
			}
		}
		return nil
	}
	if v, is := raw["action"]; is {
		if err := only("action"); err != nil {
			return nil, true, err
		}
		switch v := v.(type) {
		case string:
			n, err := NewNamed(label, map[string]float64{v: 1})
			return n, true, err
		case int64:
			if v >= 0 && v < logged.MaxActions {
				return &Numbered{label, int(v)}, true, nil
			}
		}
		return nil, true, spec.Errorf("action", "is %s, expected the id of an action or its number from 0", spec.Show(v))
	}
	table, is := raw["p"].(map[string]any)
	if !is {
		return nil, false, nil
	}
	if err := only("p"); err != nil {
		return nil, true, err
	}
	p := map[string]float64{}
	for id, v := range table {
		switch v := v.(type) {
		case float64:
			p[id] = v
		case int64:
			p[id] = float64(v)
		default:
			return nil, true, spec.Errorf("p."+strconv.Quote(id), "is %s, expected a probability", spec.Show(v))
		}
	}
	n, err := NewNamed(label, p)
	if err != nil {
		return nil, true, spec.Errorf("p", "%v", err)
	}
	return n, true, nil
}
