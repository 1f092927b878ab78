package choose

import (
	"encoding/json"
	"fmt"

	"troupe/feature"
	"troupe/serve/model"
	"troupe/serve/numbers"
)

// Action is one candidate of a decision, or one entry of a model's catalogue.
type Action struct {
	// ID is stable and at most 256 bytes; no two candidates share one. Empty means the candidate's
	// place in the list, in decimal digits.
	ID string `json:"id,omitempty" doc:"name of the action, at most 256 bytes, each once in a request; without it its place in the list in decimal digits"`
	// Features is a JSON value in the forms of package feature: an object, a list of objects, a list
	// of numbers, packed numbers. Empty means those of the catalogue entry with this id; a model
	// without such an entry then reads an action without features.
	Features json.RawMessage `json:"features,omitempty" doc:"any JSON value that the model reads: an object, a list of objects or numbers, packed numbers; without it those of the catalogue entry with this id"`
	// Cost is what it costs to play the action, in units of money, from 0 to budget.Most; nil: that of the catalogue
	// entry with this id. All actions of a request have a cost or none has.
	Cost *float64 `json:"cost,omitempty" doc:"what playing the action costs, in units of money; all actions of a request have one, or none"`
	// Numbers names the numbers of the model that the action plays: nil for all, empty for none.
	Numbers []string `json:"numbers,omitzero" doc:"names of the numbers that the action plays; without it all of the model, empty none"`
}

// Request is the part of a request for a decision that chooses: serve.DecideRequest explains the fields.
type Request struct {
	Context   json.RawMessage
	Actions   []Action
	Packed    json.RawMessage
	IDs       []string
	Available []bool
	Exclude   []string
	Costs     []float64
	Numbers   []numbers.Ask

	// Late, if not nil, returns an error when the time of the request is over. Encode asks it from time to time, and gives
	// up with its error.
	Late func() error
}

// late asks Late at every 64th action.
func (r *Request) late(i int) error {
	if i%64 != 0 || r.Late == nil {
		return nil
	}
	return r.Late()
}

// Check refuses what is larger than the limits, before it is read.
func (r *Request) Check(l *feature.Limits) error {
	large := func(field string, b []byte) error {
		if len(b) > l.Bytes {
			return model.Invalid(field, len(b), "expected at most %d bytes", l.Bytes)
		}
		return nil
	}
	if n := len(r.Actions); n > l.Actions {
		return tooMany("actions", n, l.Actions)
	}
	if err := large("context", r.Context); err != nil {
		return err
	}
	if err := large("packed", r.Packed); err != nil {
		return err
	}
	for i := range r.Actions {
		if len(r.Actions[i].Features) > l.Bytes {
			return large(fmt.Sprintf("actions[%d].features", i), r.Actions[i].Features)
		}
	}
	return nil
}

func tooMany(field string, n, most int) error {
	return model.Invalid(field, n, "expected at most %d actions", most)
}
