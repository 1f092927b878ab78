package choose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"troupe/budget"
	"troupe/feature"
	"troupe/serve/candidates"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// Action is one candidate of a decision, or one entry of a model's catalogue.
type Action struct {
	// ID is stable and at most 256 bytes; no two candidates share one. Empty means the candidate's
	// place in the list, in decimal digits.
	ID string `json:"id,omitempty"`
	// Features is a JSON value in the forms of package feature: an object, a list of objects, a list
	// of numbers, packed numbers. Empty means those of the catalogue entry with this id; a model
	// without such an entry then reads an action without features.
	Features json.RawMessage `json:"features,omitempty"`
	// Cost is what it costs to play the action, in units of money, from 0 to budget.Most; nil: that of the catalogue
	// entry with this id. All actions of a request have a cost or none has.
	Cost *float64 `json:"cost,omitempty"`
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

// encoder is what Encode needs of feature.Batch and feature.HashedBatch.
type encoder interface {
	Begin(context []byte) error
	Add(id string, features []byte) error
	AddPacked(ids []string, packed []byte) error
	Len() int
}

func (w *Worker) encoder() encoder {
	if w.hashed != nil {
		return w.hashed
	}
	return w.batch
}

// CheckCount refuses more actions than the limit, of a catalogue or packed, which Check cannot count.
func (w *Worker) CheckCount(r *Request, most int) error {
	if n := w.encoder().Len(); n > most {
		if len(r.Packed) > 0 {
			return tooMany("packed", n, most)
		}
		return tooMany("actions", n, most)
	}
	return nil
}

// Encode reads the candidates of a request into the worker. A request that the model cannot read is a
// *model.Error.
func (w *Worker) Encode(r *Request) error {
	b, cfg := w.encoder(), w.Version.Compiled
	if w.hashed != nil {
		w.hashed.Enter(cfg.Times())
	}
	if err := b.Begin(r.Context); err != nil {
		return model.FeatureError(err)
	}
	w.IDs = w.IDs[:0]
	switch {
	case len(r.Packed) > 0:
		if len(r.Actions) > 0 {
			return model.Invalid("packed", "", "expected either actions or packed")
		}
		if err := b.AddPacked(r.IDs, r.Packed); err != nil {
			return packedError(err)
		}
		w.IDs = append(w.IDs, r.IDs...)
	case len(r.IDs) > 0:
		return model.Invalid("ids", "", "goes with packed; actions have their own id")
	case len(r.Actions) == 0:
		if len(cfg.Config.Actions) == 0 {
			return model.Invalid("actions", "", "expected at least one action: the model has no catalogue")
		}
		for _, a := range cfg.Config.Actions {
			if err := b.Add(a.ID, a.Features); err != nil {
				return model.FeatureError(err)
			}
			w.IDs = append(w.IDs, a.ID)
		}
	default:
		for i, a := range r.Actions {
			f := a.Features
			if len(f) == 0 || string(f) == "null" {
				n, ok := cfg.Catalogue[a.ID]
				switch {
				case ok:
					f = cfg.Config.Actions[n].Features
				case len(cfg.Catalogue) > 0:
					return model.Invalid(fmt.Sprintf("actions[%d].features", i), a.ID,
						"is missing, and the catalogue has no action of this id")
				case cfg.Config.Dim != 0:
					return model.Invalid(fmt.Sprintf("actions[%d].features", i), a.ID,
						"is missing, expected a list of %d numbers", cfg.Dim)
				}
			}
			if err := b.Add(a.ID, f); err != nil {
				return model.FeatureError(err)
			}
			w.IDs = append(w.IDs, a.ID)
		}
	}
	if err := w.nameActions(b.Len(), len(r.Packed) > 0); err != nil {
		return err
	}
	if err := w.readCosts(r); err != nil {
		return err
	}
	return w.mask(r)
}

// nameActions checks the ids of the k given actions; an action without one is named by its place.
func (w *Worker) nameActions(k int, packed bool) error {
	field := func(i int) string {
		if packed {
			return fmt.Sprintf("ids[%d]", i)
		}
		return fmt.Sprintf("actions[%d].id", i)
	}
	for len(w.IDs) < k {
		w.IDs = append(w.IDs, "")
	}
	named := false
	for i, id := range w.IDs {
		if id == "" {
			w.IDs[i] = strconv.Itoa(i)
		} else if named = true; len(id) > model.MaxText || model.CheckText("", id) != nil {
			return model.CheckText(field(i), id)
		}
	}
	if !named {
		return nil
	}
	if k <= 32 {
		for i, id := range w.IDs {
			if slices.Contains(w.IDs[:i], id) {
				return model.Invalid(field(i), id, "is the id of two actions")
			}
		}
		return nil
	}
	seen := make(map[string]bool, k)
	for i, id := range w.IDs {
		if seen[id] {
			return model.Invalid(field(i), id, "is the id of two actions")
		}
		seen[id] = true
	}
	return nil
}

// readCosts reads the costs of all actions of a request into w.costs, none where the request and the catalogue have
// none.
func (w *Worker) readCosts(r *Request) error {
	k, cfg := w.encoder().Len(), w.Version.Compiled
	w.costs, w.each = w.costs[:0], len(r.Actions) > 0
	field := func(i int) string {
		if w.each {
			return fmt.Sprintf("actions[%d].cost", i)
		}
		return fmt.Sprintf("costs[%d]", i)
	}
	switch {
	case r.Costs != nil && len(r.Actions) > 0:
		return model.Invalid("costs", "", "goes with packed or with the catalogue; actions have their own cost")
	case r.Costs != nil && len(r.Costs) != k:
		return model.Invalid("costs", len(r.Costs), "expected %d numbers, one for each action", k)
	case r.Costs != nil:
		w.costs = append(w.costs, r.Costs...)
	default:
		missing := -1
		for i := range k {
			c := cfg.Cost(w.IDs[i])
			if len(r.Actions) > 0 && r.Actions[i].Cost != nil {
				c = r.Actions[i].Cost
			}
			if c == nil {
				missing = i
			} else {
				w.costs = append(w.costs, *c)
			}
			if missing >= 0 && len(w.costs) > 0 {
				return model.Invalid(field(missing), "", "is missing: all actions have a cost or none has")
			}
		}
	}
	for i, c := range w.costs {
		if err := budget.Cost(c); err != nil {
			return model.Invalid(field(i), c, "is %v, expected a cost from 0 to %v", c, budget.Most)
		}
	}
	return nil
}

// mask leaves out what is not available.
func (w *Worker) mask(r *Request) error {
	k := w.encoder().Len()
	if r.Available != nil && len(r.Available) != k {
		return model.Invalid("available", len(r.Available), "expected %d truth values, one for each action", k)
	}
	w.places = w.places[:0]
	for i := range k {
		if (r.Available == nil || r.Available[i]) && !slices.Contains(r.Exclude, w.IDs[i]) &&
			!w.Version.Compiled.HasLeft(w.IDs[i]) {
			w.places = append(w.places, i)
		}
	}
	if len(w.places) == 0 {
		return model.Invalid("actions", "", "expected at least one action that is available and has not left")
	}
	all := len(w.places) == k
	for to, i := range w.places[:min(len(w.places), len(w.costs))] { // none of them without costs
		w.costs[to] = w.costs[i] + 0 // −0 is 0
	}
	w.costs = w.costs[:min(len(w.places), len(w.costs))]
	if w.hashed != nil {
		w.sparse.read(w.hashed, w.places)
	}
	if all {
		w.places = w.places[:0]
	}
	if w.hashed != nil {
		return nil
	}
	if all {
		w.X = append(w.X[:0], w.batch.X()...)
		return nil
	}
	w.X = w.X[:0]
	for _, i := range w.places {
		w.X = append(w.X, w.batch.Row(i)...)
	}
	return nil
}

// Kept returns the form of the request that was encoded in which a decision keeps it, at most limit bytes: nil when it
// is larger, and for packed numbers. candidate is the one that was chosen.
func (w *Worker) Kept(r *Request, candidate, limit int) []byte {
	if len(r.Packed) > 0 {
		return nil
	}
	out := fold.Request{Context: r.Context, Actions: make([]fold.RequestAction, w.Count())}
	if string(out.Context) == "null" {
		out.Context = nil
	}
	config := &w.Version.Compiled.Config
	for i := range out.Actions {
		at := w.Place(i)
		a := &out.Actions[i]
		if len(r.Actions) == 0 {
			a.ID, a.Features = config.Actions[at].ID, config.Actions[at].Features
			continue
		}
		a.ID, a.Features = r.Actions[at].ID, r.Actions[at].Features
		if len(a.Features) == 0 || string(a.Features) == "null" {
			a.Features = nil
			if n, ok := w.Version.Compiled.Catalogue[a.ID]; ok {
				a.Features = config.Actions[n].Features
			}
		}
	}
	return out.Bytes(candidate, limit)
}

// Places returns the places of the candidates among the actions of the request, none when all are
// candidates.
func (w *Worker) Places() []int { return w.places }

// Place returns the place of candidate i among the actions of the request.
func (w *Worker) Place(i int) int {
	if len(w.places) == 0 {
		return i
	}
	return w.places[i]
}

// Candidate is the inverse of Place: −1 when that action is not available.
func (w *Worker) Candidate(given int) int {
	if len(w.places) == 0 {
		return given
	}
	return slices.Index(w.places, given)
}

// Count returns K, the number of candidates.
func (w *Worker) Count() int {
	if w.hashed != nil {
		return len(w.sparse.actions)
	}
	return len(w.X) / w.Version.Compiled.Dim
}

// Costs returns those of the candidates, none where the request states none. They are valid until the next request.
func (w *Worker) Costs() []float64 { return w.costs }

// SetCosts replaces them, for the candidates of a record.
func (w *Worker) SetCosts(costs []float64) { w.costs = append(w.costs[:0], costs...) }

// Features returns the vector of candidate i, or its atoms.
func (w *Worker) Features(i int) (x []float64, atoms []byte) {
	if w.hashed != nil {
		return nil, feature.AppendAtoms(feature.AppendAtoms(nil, w.sparse.context), w.sparse.actions[i])
	}
	d := w.Version.Compiled.Dim
	return slices.Clone(w.X[i*d : (i+1)*d]), nil
}

// AppendCandidates appends the form of the candidates that a record keeps, without features unless full.
func (w *Worker) AppendCandidates(b []byte, full bool) []byte {
	switch {
	case !full:
		return candidates.Append(b, w.places, nil, 1)
	case w.hashed != nil:
		return candidates.AppendAtoms(b, w.places, w.sparse.context, w.sparse.actions)
	}
	return candidates.Append(b, w.places, w.X, w.Version.Compiled.Dim)
}

// packedError is model.FeatureError for a packed matrix and its ids.
func packedError(err error) error {
	e := model.FeatureError(err)
	row, rest, _ := strings.Cut(strings.TrimPrefix(e.Field, "actions"), "]")
	switch {
	case rest == ".id":
		e.Field = "ids" + row + "]"
	case row != "":
		e.Field, e.Want = "packed", "row "+row[1:]+": "+e.Want
	default:
		e.Field = "packed"
	}
	return e
}

// Baseline returns the candidate that the caller plays in the modes apprentice and shadow, by its
// place among the candidates as they were given; nil means the first.
func (w *Worker) Baseline(place *int) (candidate int, err error) {
	given := 0
	if place != nil {
		given = *place
	}
	candidate = -1
	if given >= 0 && given < len(w.IDs) {
		candidate = w.Candidate(given)
	}
	if candidate < 0 {
		return 0, model.Invalid("baseline", given, "expected the place of an available action, 0 to %d", len(w.IDs)-1)
	}
	return candidate, nil
}
