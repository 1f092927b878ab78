package choose

import (
	"fmt"
	"slices"

	"troupe/feature"
	"troupe/serve/candidates"
	"troupe/serve/model"
)

// Offer is what a request, or a record, offers to a model: the actions, which of them are candidates, and their
// features and costs in the form that the policy reads. Candidates are the actions that are available and have not
// left. They have numbers of their own, 0 to Count()−1; Place and Candidate go from one number to the other. Read,
// Encode and Recorded fill it. What it returns without a copy is valid until it is filled again. It belongs to one
// Worker and is not safe for concurrent use.
type Offer struct {
	IDs []string  // of the actions of the request
	X   []float64 // the candidates, K×d; none with hashed features

	compiled *model.Compiled
	batch    *feature.Batch     // nil with hashed features
	hashed   *feature.AtomBatch // nil with a schema
	places   []int              // which of the actions the candidates are; empty: all, in order
	sparse   sparse             // the candidates with hashed features
	costs    []float64          // of the candidates; none where the request has none
	each     bool               // the actions of the request have their own costs
	played   played
	alone    bool // the request has no actions: it plays numbers only
}

// newOffer returns an offer to a model, without candidates.
func newOffer(c *model.Compiled) Offer {
	o := Offer{compiled: c}
	if h := c.Atoms; h != nil {
		o.hashed = feature.NewAtomBatch(h)
	} else {
		o.batch = feature.NewBatch(c.Encoder)
	}
	return o
}

// sparse are the candidates with hashed features. What it holds belongs to a batch, or to a record.
type sparse struct {
	context []feature.Atom
	actions [][]feature.Atom // of each candidate
	at      [][]uint32
	x       [][]float64
}

func (s *sparse) clear() {
	s.actions, s.at, s.x = s.actions[:0], s.at[:0], s.x[:0]
}

// read takes the actions of a batch at these places.
func (s *sparse) read(b *feature.AtomBatch, places []int) {
	s.clear()
	s.context = b.Context()
	for _, i := range places {
		at, x := b.Nonzeros(i)
		s.actions, s.at, s.x = append(s.actions, b.Action(i)), append(s.at, at), append(s.x, x)
	}
}

// Recorded takes the candidates of a record in place of those of a request.
func (o *Offer) Recorded(set *candidates.Set) error {
	h := o.compiled.Atoms
	switch {
	case h == nil && set.D == o.compiled.Dim:
		o.X = set.X
		return nil
	case h == nil || set.Actions == nil:
		return fmt.Errorf("the candidates do not fit the model")
	}
	o.played.recorded(set)
	o.sparse.clear()
	o.sparse.context = set.Context
	for _, a := range set.Actions {
		at, x := h.AppendVector(nil, nil, set.Context, a)
		o.sparse.actions, o.sparse.at, o.sparse.x = append(o.sparse.actions, a), append(o.sparse.at, at),
			append(o.sparse.x, x)
	}
	return nil
}

// Batch returns the batch of a model with hashed features, nil otherwise.
func (o *Offer) Batch() *feature.AtomBatch { return o.hashed }

// ID returns the hash of the id of candidate i, with hashed features, and the id.
func (o *Offer) ID(i int) (atom uint64, id string) {
	return o.sparse.actions[i][0].Hash, o.IDs[o.Place(i)]
}

// Schema returns the batch of a model with a schema, nil otherwise.
func (o *Offer) Schema() *feature.Batch { return o.batch }

// Place returns the place of candidate i among the actions of the request.
func (o *Offer) Place(i int) int {
	if o.played.grid != nil {
		i = int(o.played.of[i])
	}
	return o.place(i)
}

// place is that of an available action.
func (o *Offer) place(i int) int {
	if len(o.places) == 0 {
		return i
	}
	return o.places[i]
}

// Candidate is the inverse of Place: −1 when that action is not available.
func (o *Offer) Candidate(given int) int {
	if len(o.places) == 0 {
		return given
	}
	return slices.Index(o.places, given)
}

// Count returns K, the number of candidates.
func (o *Offer) Count() int {
	if o.hashed != nil {
		return len(o.sparse.actions)
	}
	return len(o.X) / o.compiled.Dim
}

// Costs returns those of the candidates, none where the request states none. They are valid until the next request.
func (o *Offer) Costs() []float64 { return o.costs }

// SetCosts replaces them, for the candidates of a record.
func (o *Offer) SetCosts(costs []float64) { o.costs = append(o.costs[:0], costs...) }

// Features returns the vector of candidate i, or its atoms.
func (o *Offer) Features(i int) (x []float64, atoms []byte) {
	if o.hashed != nil {
		return nil, feature.AppendAtoms(feature.AppendAtoms(nil, o.sparse.context), o.sparse.actions[i])
	}
	d := o.compiled.Dim
	return slices.Clone(o.X[i*d : (i+1)*d]), nil
}

// ListFeatures returns the atoms of the context and of each candidate of a list, one behind the other.
func (o *Offer) ListFeatures(rows []int) []byte {
	b := feature.AppendAtoms(nil, o.sparse.context)
	for _, i := range rows {
		b = feature.AppendAtoms(b, o.sparse.actions[i])
	}
	return b
}

// MostBytes is at least as many bytes as AppendCandidates appends.
func (o *Offer) MostBytes() int {
	n := len(o.sparse.context)
	for _, a := range o.sparse.actions {
		n += len(a) + 1
	}
	return 64 + 20*n + 9*len(o.X) + 10*len(o.places)
}

// AppendCandidates appends the form of the candidates that a record keeps, without features unless full.
func (o *Offer) AppendCandidates(b []byte, full bool) []byte {
	switch {
	case !full:
		return candidates.Append(b, o.places, nil, 1)
	case o.Plays():
		return candidates.AppendNumbers(b, o.places, o.sparse.context, o.played.actions, o.played.grid, o.played.masks)
	case o.hashed != nil:
		return candidates.AppendAtoms(b, o.places, o.sparse.context, o.sparse.actions)
	}
	return candidates.Append(b, o.places, o.X, o.compiled.Dim)
}

// Baseline returns the candidate that the caller plays in the modes apprentice and shadow, by its
// place among the candidates as they were given; nil means the first.
func (o *Offer) Baseline(place *int) (candidate int, err error) {
	given := 0
	if place != nil {
		given = *place
	}
	candidate = -1
	if given >= 0 && given < len(o.IDs) {
		candidate = o.Candidate(given)
	}
	if candidate < 0 {
		return 0, model.Invalid("baseline", given, "expected the place of an available action, 0 to %d", len(o.IDs)-1)
	}
	return candidate, nil
}

// cheapest is the first candidate with the smallest cost.
func (o *Offer) cheapest() int {
	best := 0
	for i, c := range o.costs {
		if c < o.costs[best] {
			best = i
		}
	}
	return best
}
