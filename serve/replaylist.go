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
	rows := make([]int, len(l.Rows))
	for i, x := range l.Rows {
		rows[i] = int(x)
	}
	differ := func(name string, same bool) {
		if !same {
			out.Differs = append(out.Differs, name)
		}
	}
	again, drawn, num, action := c.Record, l, r.Num, r.Action
	if r.WouldList != nil { // the policy's list was not played
		again, drawn, num, action = c.Counts(rows, len(l.Votes) > 0), r.WouldList, r.WouldNum, r.WouldAction
		differ("would", sameCounts(c.Record, drawn))
	}
	differ("digest", out.Digest == r.BasisDigest)
	differ("member", out.Member == r.Member)
	differ("num", out.Num == num)
	differ("den", out.Den == r.Den)
	differ("span", span == r.Span)
	if out.Index == int(drawn.Rows[0]) {
		out.Action = action
	}
	differ("list", slices.Equal(c.Record.Rows, drawn.Rows))
	differ("law", sameCounts(again, l) && slices.Equal(again.Votes, l.Votes) && slices.Equal(again.All, l.All) && slices.Equal(c.Groups, r.Groups))
	differ("x", bytes.Equal(w.Offer.ListFeatures(rows), r.Atoms))
	out.Equal = len(out.Differs) == 0
	return out, nil
}

// sameCounts reports whether two records of a list have the same law of its entries.
func sameCounts(a, b *eventlog.List) bool {
	return slices.Equal(a.Prefix, b.Prefix) && slices.Equal(a.Marginal, b.Marginal) && slices.Equal(a.Free, b.Free) &&
		slices.Equal(a.Alike, b.Alike) && slices.Equal(a.Sizes, b.Sizes) && slices.Equal(a.Ways, b.Ways) && slices.Equal(a.Placed, b.Placed) &&
		a.Voters == b.Voters && a.Apart == b.Apart
}
