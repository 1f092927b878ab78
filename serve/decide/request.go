package decide

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/model"
	"troupe/serve/numbers"
)

// Request asks for an action. The candidates are Actions, or the rows of Packed, or, when both are empty, the
// whole catalogue in its order. Its slices belong to the caller again when the call returns without an error.
type Request struct {
	Context json.RawMessage // a JSON value, may be empty
	Actions []choose.Action
	// Packed is a JSON object of packed numbers with one row for each candidate, see
	// feature.Unpack, for models whose action is one vector. IDs, if any, has an id for each row.
	Packed json.RawMessage
	IDs    []string
	// Available, if any, has a truth value for each candidate; Exclude lists ids. What is not
	// available or is excluded is not a candidate. At least one must remain.
	Available []bool
	Exclude   []string
	// Costs, if any, has the cost of each row of Packed, or of each entry of the catalogue, in units of money. Actions
	// have their own.
	Costs []float64
	// Numbers declares the numbers that are played for a model without any, or narrows those that it has for this decision.
	// Without actions the model's numbers alone are played.
	Numbers []numbers.Ask
	// NoNumbers refuses the decision where the model plays numbers: the caller's answer has no place for them.
	NoNumbers bool
	// OneReward refuses the decision where the rewards of the model have names: the caller sends one number.
	OneReward bool
	// Baseline is the caller's own choice, an index into the candidates as they were given; nil
	// means 0. Only the modes Apprentice and Shadow look at it. Those of a list are in Slots.
	Baseline *int
	// Mode overrides the model's when not empty.
	Mode model.Mode
	// Deferred: the event counts only after Activate, or after its first reward.
	Deferred bool
	// MinSeq: decide on a state that has at least this sequence. The server waits for it for a
	// moment, then answers Unavailable.
	MinSeq uint64
	// IdempotencyKey, at most 256 bytes: a repetition of the same request with the same key gets
	// the same decision, also after a restart; the same key with another request is a Conflict. A
	// key is remembered as long as the window of its event is open and for 24 hours after it was
	// closed, by the clock of the log; when more than 1,048,576 keys of the server wait for the end
	// of these 24 hours, the oldest of them is forgotten early. A forgotten key makes a new decision.
	IdempotencyKey string
	// Explain asks for Decision.Explain.
	Explain bool
	Caller  string
	// Choose asks for a list of so many positions, Slots for one with these: one event, with a reward for each position, or
	// one for all where the model says so. One of the two may be there.
	Choose *int
	Slots  []Slot

	unit  unit
	union []choose.Action // of the slots' own
}

// Slot is a position of a list. All slots of a request have candidates of their own, or none has: then all choose from
// those of the request.
type Slot struct {
	// ID names the position, at most 256 bytes, each once; empty means its place in decimal digits.
	ID string `json:"id,omitempty" doc:"name of the position; without it its place in decimal digits"`
	// Actions are the slot's own candidates. An id that stands in two slots is played at most once.
	Actions []choose.Action `json:"actions,omitempty" doc:"the slot's own candidates: all slots have some, or none has"`
	// Exclude lists ids that may not stand here.
	Exclude []string `json:"exclude,omitempty" doc:"ids that may not stand here"`
	// Baseline is the id of the caller's own choice for this position. Only the modes Apprentice and Shadow look at it; empty means the
	// first candidate that may stand here and that no other position has.
	Baseline string `json:"baseline,omitempty" doc:"id of the caller's own choice for this position, for apprentice and shadow; without it the first candidate that may stand here and that no other position has"`
	// Features are refused: what positions differ in is learned of each.
	Features json.RawMessage `json:"features,omitempty" doc:"not read yet, and refused: what positions differ in is learned of each"`
}

func (s *Slot) name(at int) string {
	if s.ID == "" {
		return strconv.Itoa(at)
	}
	return s.ID
}

// mode returns what holds for the request: its own mode, or that of the model.
func (r *Request) mode(c *model.Config) model.Mode {
	if r.Mode != "" {
		return r.Mode
	}
	return model.Mode(c.Mode)
}

// candidates returns the part of a request that package choose reads.
func (r *Request) candidates() choose.Request {
	if r.own() {
		return choose.Request{Context: r.context(), Actions: r.ownActions(), Exclude: r.Exclude}
	}
	return choose.Request{Context: r.context(), Actions: r.Actions, Packed: r.Packed, IDs: r.IDs, Available: r.Available,
		Exclude: r.Exclude, Costs: r.Costs, Numbers: r.Numbers}
}

// IsList reports whether a request asks for a list.
func (r *Request) IsList() bool { return r.Choose != nil || r.Slots != nil }

// positions is k, 1 for a request that asks for no list.
func (r *Request) positions() int {
	switch {
	case r.Slots != nil:
		return max(1, len(r.Slots))
	case r.Choose != nil:
		return max(1, *r.Choose)
	}
	return 1
}

// own reports whether the slots have candidates of their own.
func (r *Request) own() bool { return len(r.Slots) > 0 && r.Slots[0].Actions != nil }

// ownActions are the candidates of all slots, each id once, in the order of the slots.
func (r *Request) ownActions() []choose.Action {
	if r.union != nil {
		return r.union
	}
	seen := map[string]int{}
	for s := range r.Slots {
		for i, a := range r.Slots[s].Actions {
			if a.ID == "" {
				a.ID = fmt.Sprintf("%d/%d", s, i) // refused by checkList
			}
			if _, ok := seen[a.ID]; !ok {
				seen[a.ID] = len(r.union)
				r.union = append(r.union, a)
			}
		}
	}
	return r.union
}

// unit is what a request says of the unit of its model, the zero value for a model without one.
type unit struct {
	path string // the model's
	hash eventlog.ID
	rest json.RawMessage // the context without the value
}

// assign reads the unit of a request: its value becomes a keyed hash, and nothing else that is recorded, hashed or
// learned from has it. A context of more than most bytes is left to check.
func (r *Request) assign(v *choose.Version, most int, keys eventlog.IDKeys) error {
	r.unit = unit{}
	path := v.Compiled.UnitPath()
	if path == nil {
		return nil
	}
	name := v.Compiled.Config.Unit
	if len(r.Context) > most {
		return nil
	}
	u := unitReader{dec: json.NewDecoder(bytes.NewReader(r.Context)), text: r.Context, path: path, name: name}
	if err := u.object(0); err != nil {
		return fault.Refused(err)
	}
	value, err := u.canonical()
	if err != nil {
		return fault.Refused(err)
	}
	rest := append(append(make([]byte, 0, len(r.Context)), r.Context[:u.from]...), r.Context[u.to:]...)
	r.unit = unit{name, keys.Unit(v.Root, value), rest}
	return nil
}

// sameUnit refuses to decide on a version whose unit is another one than was read: its configuration has changed
// meanwhile.
func (r *Request) sameUnit(v *choose.Version) error {
	if v.Compiled.Config.Unit == r.unit.path {
		return nil
	}
	return &fault.Error{Code: fault.Unavailable, Field: "unit", RetryAfter: time.Second,
		Want: "the unit of the model has changed meanwhile; send the request again"}
}

// context returns what may be read of the context: all of it but the value of the unit.
func (r *Request) context() json.RawMessage {
	if r.unit.path != "" {
		return r.unit.rest
	}
	return r.Context
}
