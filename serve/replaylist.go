package serve

import (
	"bytes"
	"slices"

	"troupe/eventlog"
	"troupe/serve/candidates"
	"troupe/serve/choose"
)

// replayList draws the list of a record once more, with a worker in the state of that time that has the recorded
// candidates, and compares.
func replayList(out Replayed, r *eventlog.Decision, v *choose.Version, w *choose.Worker, set *candidates.Set) (Replayed, error) {
	l := r.List
	shape := &choose.Shape{K: l.K()}
	if len(l.Allowed) > 0 {
		shape.Restrict(set.K)
		for i := range set.K {
			for p := range l.K() {
				shape.Permit(i, p, l.Permits(i, p))
			}
		}
	}
	w.Assign(r.Unit)
	_, span := w.Assigned()
	w.Reassign(r.Unit, r.Span)
	c, err := w.ChooseList(r.Draw, shape, len(l.Votes) > 0, nil)
	if err != nil {
		return out, &Error{Code: Internal, Want: "the model cannot decide", Err: err}
	}
	first := c.Marginals[0]
	out.Digest, out.Index, out.Num, out.Den, out.Member = v.Digest, c.Rows[0], first.Num, first.Den, c.Member
	differ := func(name string, same bool) {
		if !same {
			out.Differs = append(out.Differs, name)
		}
	}
	again := c.Record
	differ("digest", out.Digest == r.BasisDigest)
	differ("member", out.Member == r.Member)
	differ("num", out.Num == r.Num)
	differ("den", out.Den == r.Den)
	differ("span", span == r.Span)
	if out.Index == int(r.Index) {
		out.Action = r.Action
	}
	differ("list", slices.Equal(again.Rows, l.Rows))
	differ("law", slices.Equal(again.Prefix, l.Prefix) && slices.Equal(again.Marginal, l.Marginal) && slices.Equal(again.Votes, l.Votes) &&
		slices.Equal(again.Free, l.Free) && slices.Equal(again.Alike, l.Alike) && slices.Equal(again.Sizes, l.Sizes) &&
		slices.Equal(again.Ways, l.Ways) && slices.Equal(again.Placed, l.Placed) && slices.Equal(again.All, l.All) &&
		again.Voters == l.Voters && again.Apart == l.Apart && slices.Equal(c.Groups, r.Groups))
	rows := make([]int, len(l.Rows))
	for i, x := range l.Rows {
		rows[i] = int(x)
	}
	differ("x", bytes.Equal(w.Offer.ListFeatures(rows), r.Atoms))
	out.Equal = len(out.Differs) == 0
	return out, nil
}
