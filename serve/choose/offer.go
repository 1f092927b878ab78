package choose

import (
	"fmt"
	"slices"

	"troupe/feature"
	"troupe/serve/candidates"
	"troupe/serve/model"
	"troupe/serve/numbers"
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
	places   places             // which of the actions the candidates are; empty: all, in order
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

// places are those of the available actions among the actions of a request; empty: all, in order.
type places []int

// of returns the place of an available action.
func (p places) of(i int) int {
	if len(p) == 0 {
		return i
	}
	return p[i]
}

// find is the inverse of of: −1 when that action is not available.
func (p places) find(given int) int {
	if len(p) == 0 {
		return given
	}
	return slices.Index(p, given)
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
	return o.places.of(i)
}

// Candidate is the inverse of Place: −1 when that action is not available.
func (o *Offer) Candidate(given int) int {
	return o.places.find(given)
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

// Alone reports whether the request has no actions and plays numbers only.
func (o *Offer) Alone() bool { return o.alone }

// Plays reports whether numbers are played.
func (o *Offer) Plays() bool { return o.played.grid != nil }

// Grid returns the numbers that are played, nil without.
func (o *Offer) Grid() *numbers.Grid { return o.played.grid }

// Cells returns the cell of each number in candidate i. It is valid until the next call.
func (o *Offer) Cells(i int) []numbers.Cell {
	p := &o.played
	_, at := p.share(i)
	p.cells = p.grid.Of(p.cells[:0], p.masks[p.of[i]], at)
	return p.cells
}

// Values appends the numbers that are played at a point of candidate i, in the order of the model's.
func (o *Offer) Values(dst []float64, i int, p Point) []float64 {
	for _, c := range o.Cells(i) {
		dst = append(dst, c.At(p[c.Number]))
	}
	return dst
}

// Exactly returns the atoms of candidate i with these values of its numbers.
func (o *Offer) Exactly(i int, values []float64) []byte {
	a := o.played.grid.Exact(o.sparse.actions[i], o.played.masks[o.played.of[i]], values)
	return feature.AppendAtoms(feature.AppendAtoms(nil, o.sparse.context), a)
}

// cheapest is the first candidate with the smallest cost.
func cheapest(costs []float64) int {
	best := 0
	for i, c := range costs {
		if c < costs[best] {
			best = i
		}
	}
	return best
}
