package model

import (
	"troupe/spec"
)

// Entered is an action that has entered a model after it was made, or has left it. The server writes the list: see
// [Config.Enter] and [Config.Leave].
type Entered struct {
	ID    string  `key:"id" doc:"of the action"`
	Times int     `key:"times" doc:"how often it has entered: what was learned of the id before the last time is not known of it"`
	Left  bool    `key:"left" doc:"it has left: requests that offer it are decided without it"`
	Floor float64 `key:"floor" doc:"it is played with this probability at least; at most 6 decimals"`
	Until int     `key:"until" doc:"the floor ends when the model has made this number of decisions"`
	Prior Prior   `key:"prior" doc:"{ mean, events }: it began as if this number of events without a context had this mean reward"`
}

// Prior is a guess of the mean reward of an action that enters.
type Prior struct {
	Mean   float64 `key:"mean" doc:"reward"`
	Events int     `key:"events" doc:"events that it counts as"`
}

// Bounds of Entered.
const (
	MaxEntered     = 1000
	MaxPriorEvents = 1000
	maxUntil       = 1 << 53
)

// DecodeSpec implements spec.Decoder.
func (e *Entered) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with id", spec.Show(v))
	}
	*e = Entered{}
	return spec.DecodeStruct(e, raw, path)
}

// ExpandSpec implements spec.Decoder: it has no sweeps.
func (e *Entered) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// DecodeSpec implements spec.Decoder.
func (p *Prior) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with mean and events", spec.Show(v))
	}
	*p = Prior{}
	return spec.DecodeStruct(p, raw, path)
}

// ExpandSpec implements spec.Decoder: it has no sweeps.
func (p *Prior) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (p *Prior) String() string { return "none" }

// table is the JSON form.
func (e *Entered) table() map[string]any {
	t := map[string]any{"id": e.ID, "times": e.Times}
	if e.Left {
		t["left"] = true
	}
	if e.Floor > 0 {
		t["floor"], t["until"] = e.Floor, e.Until
	}
	if e.Prior.Events > 0 {
		t["prior"] = map[string]any{"mean": e.Prior.Mean, "events": e.Prior.Events}
	}
	return t
}
