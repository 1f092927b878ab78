package choose

import (
	"time"

	"troupe/policy"
	"troupe/serve/model"
	"troupe/serve/numbers"
)

// Load returns the sizes of a request to a model: the values are counted in the JSON, without reading it. A text counts as
// many values as it has words.
func (r *Request) Load(c *model.Compiled) policy.Load {
	l := policy.Load{Actions: len(r.Actions), Context: model.Values(r.Context)}
	switch {
	case len(r.Packed) > 0: // four characters of base64 hold three bytes, of which a number takes four at least
		l.Own = len(r.Packed) * 3 / 16
		if l.Actions = len(r.IDs); l.Actions == 0 && c.Atoms == nil {
			l.Actions = l.Own/c.Dim + 1
		}
		l.Actions = max(l.Actions, 1)
	case l.Actions == 0:
		l.Actions, l.Own = len(c.Config.Actions), c.Values
	default:
		for i := range r.Actions {
			f := r.Actions[i].Features
			if n, ok := c.Catalogue[r.Actions[i].ID]; ok && len(f) == 0 {
				f = c.Config.Actions[n].Features
			}
			l.Own += model.Values(f)
		}
	}
	if list := c.Config.Numbers; len(list) > 0 {
		l.Actions, l.Numbers = max(l.Actions, 1), len(list)
		g := numbers.Whole(list)
		l.Cells = min(l.Actions*g.Cells(g.All()), numbers.MaxCells)
	}
	return l
}

// Work returns about how long a decision takes on a processor, from the sizes of the request and of the model.
func (r *Request) Work(c *model.Compiled, explain bool) time.Duration {
	work := c.Work(r.Load(c))
	if explain { // each candidate once more
		work *= 2
	}
	return work
}
