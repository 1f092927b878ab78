package decide

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"time"

	"troupe/eventlog"
	"troupe/feature"
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
	// Baseline is the caller's own choice, an index into the candidates as they were given; nil
	// means 0. Only the modes Apprentice and Shadow look at it.
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
	// Slot names the place that the action is for, at most 256 bytes, when one of the caller's requests
	// chooses for several. It is recorded and changes nothing.
	Slot   string
	Caller string
	// Choose asks for a list of so many positions, Slots for one with these: one event, with a reward for each position, or
	// one for all where the model says so. One of the two may be there.
	Choose *int
	Slots  []Slot

	unit  unit
	union []choose.Action // of the slots' own
}

// Decision answers a Request.
type Decision struct {
	EventID    string          `json:"event_id" doc:"id of the event: send it with the reward"`
	Action     choose.Chosen   `json:"action,omitzero" doc:"what is played; absent where numbers alone are"`
	Propensity choose.Fraction `json:"propensity,omitzero" doc:"probability of what is played; absent where density is there"` // 1 for a baseline
	// Numbers are the numbers that are played. Where one of them has no steps the decision has a density in place of a
	// propensity.
	Numbers  map[string]float64 `json:"numbers,omitempty" doc:"the numbers that are played, by name"`
	Density  *Density           `json:"density,omitempty"`
	Mode     model.Mode         `json:"mode" doc:"how the action was chosen"`
	Seq      uint64             `json:"seq" doc:"log entry that holds the decision"`
	BasisSeq uint64             `json:"basis_seq" doc:"last entry of the log that the deciding state had learned from"`
	Durable  bool               `json:"durable" doc:"always true: the decision is on the disk"`
	// Repeated: an earlier call with the same idempotency key made this decision.
	Repeated bool `json:"repeated,omitempty" doc:"an earlier call with the same Idempotency-Key made this decision"`
	// Group is that of a model with a control group, "" otherwise.
	Group string `json:"group,omitempty" enum:"model,control" doc:"of a model with a control group: whether the model chose, or the control group; the propensity is that of both together"`
	// Would is what the policy would have played, in modes Apprentice and Shadow.
	Would *Would `json:"would,omitempty"`
	// Warnings say what the model could not use of this request; only the first affected decisions have them.
	Warnings []string `json:"warnings,omitempty" doc:"what the model could not use of this request; only the first affected decisions have them"`
	// List is the entries of a list, in place of Action and Propensity.
	List []ListEntry `json:"list,omitempty" doc:"of a list, its entries in place of action and propensity"`
	// Explain has one entry for each available candidate, when asked for. Repeated decisions have
	// none.
	Explain []choose.Explained `json:"explain,omitempty" doc:"one entry for each available action, where it was asked for"`
}

// Density is the probability of the cell in which numbers without steps lie. Within it they are uniform, so the density at the
// numbers is Num/Den divided by the product of the widths of the cell.
type Density struct {
	Num  uint64                `json:"num" doc:"numerator of the probability of the cell"`
	Den  uint64                `json:"den" doc:"denominator, greater than 0"`
	Cell map[string][2]float64 `json:"cell" doc:"bounds of the cell, of each number without steps; the density is num/den divided by the product of the widths"`
}

// Would is a choice of the policy that was not played.
type Would struct {
	Action     string          `json:"action" doc:"name of the action"`
	Propensity choose.Fraction `json:"propensity"`
}

// Item is one answer of Batch: a decision or an error.
type Item struct {
	Decision Decision
	Err      error
}

// check refuses what can be refused before a worker is taken: the mode, texts and sizes.
func (r *Request) check(l *feature.Limits) error {
	q := r.candidates()
	if r.Baseline != nil && *r.Baseline < 0 { // also where no mode looks at it
		return fault.Refused(model.Invalid("baseline", *r.Baseline, "expected the place of an action, from 0"))
	}
	if err := r.checkList(l); err != nil {
		return err
	}
	return fault.Refused(cmp.Or(model.CheckMode(r.Mode), model.CheckText("caller", r.Caller),
		model.CheckText("slot", r.Slot), q.Check(l), model.CheckText("idempotency_key", r.IdempotencyKey)))
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

// hash is what makes two requests the same.
func (r *Request) hash() (h [16]byte) {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(string(r.context()))
	text(string(r.Packed))
	for _, n := range r.Numbers {
		b = append(b, 10)
		text(n.Name)
		for _, x := range []*float64{n.Min, n.Max, n.Step} {
			if b = append(b, 0); x != nil {
				b[len(b)-1] = 1
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*x))
			}
		}
		for _, x := range []*bool{n.Cyclic, n.Log} {
			switch {
			case x == nil:
				b = append(b, 0)
			case *x:
				b = append(b, 1)
			default:
				b = append(b, 2)
			}
		}
	}
	for _, a := range r.Actions {
		b = append(b, 1)
		text(a.ID)
		if a.Numbers != nil {
			b = append(b, 11)
			for _, n := range a.Numbers {
				b = append(b, 12)
				text(n)
			}
		}
		text(string(a.Features))
		if a.Cost != nil {
			b = binary.LittleEndian.AppendUint64(append(b, 7), math.Float64bits(*a.Cost))
		}
	}
	for _, id := range r.IDs {
		b = append(b, 2)
		text(id)
	}
	for _, ok := range r.Available {
		if b = append(b, 3, 0); ok {
			b[len(b)-1] = 1
		}
	}
	for _, id := range r.Exclude {
		b = append(b, 4)
		text(id)
	}
	for _, c := range r.Costs {
		b = binary.LittleEndian.AppendUint64(append(b, 8), math.Float64bits(c))
	}
	if r.Baseline != nil {
		b = binary.AppendVarint(append(b, 5), int64(*r.Baseline))
	}
	if r.Deferred {
		b = append(b, 6)
	}
	if r.unit.path != "" {
		b = binary.LittleEndian.AppendUint64(append(b, 9), uint64(r.unit.hash))
	}
	b = r.appendList(b)
	text(string(r.Mode))
	if r.Slot != "" {
		text(r.Slot)
	}
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}
