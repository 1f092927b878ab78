package choose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"troupe/budget"
	"troupe/serve/model"
	"troupe/serve/numbers"
)

// encoder is what Encode needs of feature.Batch and feature.AtomBatch.
type encoder interface {
	Begin(context []byte) error
	Add(id string, features []byte) error
	AddPacked(ids []string, packed []byte) error
	Len() int
}

func (o *Offer) encoder() encoder {
	if o.hashed != nil {
		return o.hashed
	}
	return o.batch
}

// Read is Encode for a decision. It also refuses what no decision can keep: more actions than most, under a budget an
// action without a cost, or a cheapest one that costs more than the whole budget, and caps that sum to less than 1. The
// error is a *model.Error with the path.
func (o *Offer) Read(r *Request, most int) error {
	if err := o.Encode(r); err != nil {
		return err
	}
	if err := checkCount(r, o.encoder().Len(), most); err != nil {
		return err
	}
	if err := o.checkCosts(); err != nil {
		return err
	}
	return o.checkCaps()
}

// Readable reads a request as a model with this configuration would.
func Readable(c *model.Compiled, r *Request, most int) error {
	o := newOffer(c)
	return o.Read(r, most)
}

// checkCount refuses a request of n actions, more than the limit, of a catalogue or packed, which Request.Check cannot count.
func checkCount(r *Request, n, most int) error {
	if n > most {
		if len(r.Packed) > 0 {
			return tooMany("packed", n, most)
		}
		return tooMany("actions", n, most)
	}
	return nil
}

// checkCosts refuses a request to a model with a budget in which an action has no cost, or the cheapest one costs more
// than the whole budget.
func (o *Offer) checkCosts() error {
	b := o.compiled.Config.Budget
	if b.IsZero() {
		return nil
	}
	at := 0
	if len(o.costs) > 0 {
		at = cheapest(o.costs)
	}
	field := fmt.Sprintf("costs[%d]", o.Place(at))
	if o.each {
		field = fmt.Sprintf("actions[%d].cost", o.Place(at))
	}
	if len(o.costs) == 0 {
		return model.Invalid(field, "", "is missing: the model has a budget, so every action needs a cost")
	}
	return b.Below(field, o.IDs[o.Place(at)], o.costs[at])
}

// checkCaps refuses a request whose actions have caps that sum to less than 1: no law keeps them.
func (o *Offer) checkCaps() error {
	bounds := o.compiled.Limits()
	if len(bounds) == 0 || o.hashed == nil {
		return nil
	}
	sum := uint64(0)
	for i := range o.sparse.actions {
		b, ok := bounds[o.sparse.actions[i][0].Hash]
		if sum += b.High; !ok || sum >= floorUnit {
			return nil
		}
	}
	_, first := o.ID(0)
	more := ""
	if n := o.Count() - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return model.Invalid("actions", o.Count(), "the caps of all actions that may be played, %q%s, sum to %v: "+
		"expected 1 at least, so offer an action without a cap", first, more, float64(sum)/floorUnit)
}

// Encode reads the candidates of a request into the offer. A request that the model cannot read is a
// *model.Error.
func (o *Offer) Encode(r *Request) error {
	b, cfg := o.encoder(), o.compiled
	if o.hashed != nil {
		o.hashed.Enter(cfg.Times())
	}
	if err := b.Begin(r.Context); err != nil {
		return model.FeatureError(err)
	}
	o.IDs, o.alone = o.IDs[:0], false
	switch {
	case len(r.Packed) > 0:
		if len(r.Actions) > 0 {
			return model.Invalid("packed", "", "expected either actions or packed")
		}
		if err := b.AddPacked(r.IDs, r.Packed); err != nil {
			return packedError(err)
		}
		o.IDs = append(o.IDs, r.IDs...)
	case len(r.IDs) > 0:
		return model.Invalid("ids", "", "goes with packed; actions have their own id")
	case len(r.Actions) == 0 && len(cfg.Config.Actions) == 0 && len(cfg.Config.Numbers) > 0:
		o.hashed.AddAlone()
		o.IDs, o.alone = append(o.IDs, ""), true
	case len(r.Actions) == 0:
		if len(cfg.Config.Actions) == 0 {
			return model.Invalid("actions", "", "expected at least one action: the model has no catalogue")
		}
		for i, a := range cfg.Config.Actions {
			if err := r.late(i); err != nil {
				return err
			}
			if err := b.Add(a.ID, a.Features); err != nil {
				return model.FeatureError(err)
			}
			o.IDs = append(o.IDs, a.ID)
		}
	default:
		for i, a := range r.Actions {
			if err := r.late(i); err != nil {
				return err
			}
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
			o.IDs = append(o.IDs, a.ID)
		}
	}
	var err error
	if o.IDs, err = nameActions(o.IDs, b.Len(), len(r.Packed) > 0); err != nil {
		return err
	}
	if err := o.readCosts(r); err != nil {
		return err
	}
	return o.mask(r)
}

// nameActions completes and checks the ids of the k given actions; an action without one is named by its place.
func nameActions(ids []string, k int, packed bool) ([]string, error) {
	field := func(i int) string {
		if packed {
			return fmt.Sprintf("ids[%d]", i)
		}
		return fmt.Sprintf("actions[%d].id", i)
	}
	for len(ids) < k {
		ids = append(ids, "")
	}
	named := false
	for i, id := range ids {
		if id == "" {
			ids[i] = strconv.Itoa(i)
		} else if named = true; len(id) > model.MaxText || model.CheckText("", id) != nil {
			return ids, model.CheckText(field(i), id)
		}
	}
	if !named {
		return ids, nil
	}
	if k <= 32 {
		for i, id := range ids {
			if slices.Contains(ids[:i], id) {
				return ids, model.Invalid(field(i), id, "is the id of two actions")
			}
		}
		return ids, nil
	}
	seen := make(map[string]bool, k)
	for i, id := range ids {
		if seen[id] {
			return ids, model.Invalid(field(i), id, "is the id of two actions")
		}
		seen[id] = true
	}
	return ids, nil
}

// readCosts reads the costs of all actions of a request into o.costs, none where the request and the catalogue have
// none.
func (o *Offer) readCosts(r *Request) error {
	k, cfg := o.encoder().Len(), o.compiled
	o.costs, o.each = o.costs[:0], len(r.Actions) > 0
	field := func(i int) string {
		if o.each {
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
		o.costs = append(o.costs, r.Costs...)
	default:
		missing := -1
		for i := range k {
			c := cfg.Cost(o.IDs[i])
			if len(r.Actions) > 0 && r.Actions[i].Cost != nil {
				c = r.Actions[i].Cost
			}
			if c == nil {
				missing = i
			} else {
				o.costs = append(o.costs, *c)
			}
			if missing >= 0 && len(o.costs) > 0 {
				return model.Invalid(field(missing), "", "is missing: all actions have a cost or none has")
			}
		}
	}
	for i, c := range o.costs {
		if err := budget.Cost(c); err != nil {
			return model.Invalid(field(i), c, "is %v, expected a cost from 0 to %v", c, budget.Most)
		}
	}
	return nil
}

// mask leaves out what is not available.
func (o *Offer) mask(r *Request) error {
	k := o.encoder().Len()
	if r.Available != nil && len(r.Available) != k {
		return model.Invalid("available", len(r.Available), "expected %d truth values, one for each action", k)
	}
	o.places = o.places[:0]
	for i := range k {
		if (r.Available == nil || r.Available[i]) && !slices.Contains(r.Exclude, o.IDs[i]) &&
			!o.compiled.HasLeft(o.IDs[i]) {
			o.places = append(o.places, i)
		}
	}
	if len(o.places) == 0 {
		return model.Invalid("actions", "", "expected at least one action that is available and has not left")
	}
	all := len(o.places) == k
	for to, i := range o.places[:min(len(o.places), len(o.costs))] { // none of them without costs
		o.costs[to] = o.costs[i] + 0 // −0 is 0
	}
	o.costs = o.costs[:min(len(o.places), len(o.costs))]
	if o.hashed != nil {
		o.sparse.read(o.hashed, o.places)
	}
	if all {
		o.places = o.places[:0]
	}
	if o.hashed != nil {
		return o.numbers(r)
	}
	if len(r.Numbers) > 0 {
		return model.Invalid("numbers", len(r.Numbers), "go with models that read requests as they come")
	}
	if all {
		o.X = append(o.X[:0], o.batch.X()...)
		return nil
	}
	o.X = o.X[:0]
	for _, i := range o.places {
		o.X = append(o.X, o.batch.Row(i)...)
	}
	return nil
}

// numbers makes the cells of the actions the candidates, where the model or the request has numbers.
func (o *Offer) numbers(r *Request) error {
	p := &o.played
	p.grid = nil
	list := o.compiled.Config.Numbers
	if len(list) == 0 {
		if len(r.Numbers) > 0 {
			return model.Invalid("numbers", len(r.Numbers), "the model does not have them yet; send the request again")
		}
		for i := range r.Actions {
			if len(r.Actions[i].Numbers) > 0 {
				return model.Invalid(fmt.Sprintf("actions[%d].numbers[0]", i), r.Actions[i].Numbers[0], "is no number of the model, which has none").Told()
			}
		}
		return nil
	}
	g, err := numbers.Asked(list, r.Numbers)
	if err != nil {
		return model.NumberError("numbers", err)
	}
	p.grid, p.masks = g, p.masks[:0]
	cells := 0
	for i := range o.sparse.actions {
		at := o.places.of(i)
		mask := g.All()
		if names := namesOf(o.compiled, r, at, o.IDs[at]); names != nil {
			if mask, err = maskOf(list, names, at); err != nil {
				return err
			}
		}
		p.masks = append(p.masks, mask)
		cells += g.Cells(mask)
	}
	if cells > numbers.MaxCells {
		return model.Invalid("actions", len(p.masks), "have %d cells together, and %d are allowed: offer fewer actions, or narrow the numbers", cells, numbers.MaxCells)
	}
	p.expand(&o.sparse, o.compiled.Atoms)
	if len(o.costs) > 0 {
		costs := slices.Clone(o.costs)
		o.costs = o.costs[:0]
		for _, a := range p.of {
			o.costs = append(o.costs, costs[a])
		}
	}
	return nil
}

// namesOf are the numbers that an action of a request plays by what it says, or the catalogue where it says nothing: nil is
// all. at is its place among the actions.
func namesOf(c *model.Compiled, r *Request, at int, id string) []string {
	if at < len(r.Actions) && r.Actions[at].Numbers != nil {
		return r.Actions[at].Numbers
	}
	if n, ok := c.Catalogue[id]; ok {
		return c.Config.Actions[n].Numbers
	}
	return nil
}

// maskOf is the mask of the numbers that an action plays.
func maskOf(list []numbers.Range, names []string, action int) (mask uint8, err error) {
	for k, name := range names {
		at := slices.IndexFunc(list, func(r numbers.Range) bool { return r.Name == name })
		field := fmt.Sprintf("actions[%d].numbers[%d]", action, k)
		switch {
		case at < 0:
			return 0, model.Invalid(field, name, "is no number of the model, which has %s", numbers.Names(list)).Told()
		case mask>>at&1 != 0:
			return 0, model.Invalid(field, name, "is given twice").Told()
		}
		mask |= 1 << at
	}
	return mask, nil
}

// packedError is model.FeatureError for a packed matrix and its ids.
func packedError(err error) error {
	e := model.FeatureError(err) // its path is read as its parts, and only the name of the field depends on them
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
