package decide

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/candidates"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// roomForLaw is a part of the room that candidates.MaxBytes leaves for what is not candidates.
const roomForLaw = 6000

// sizeOf returns about how many bytes the record of a decision takes.
func sizeOf(r *eventlog.Decision) int {
	n := len(r.Full) + 8*(len(r.X)+len(r.Costs)) + len(r.Atoms) + 4*len(r.Law) + 2*len(r.Groups) + 1024
	for _, l := range []*eventlog.List{r.List, r.WouldList} {
		if l == nil {
			continue
		}
		n += 3*len(l.Votes) + 10*len(l.All) + len(l.Allowed) + 100*l.K()
		for p := range l.IDs {
			n += len(l.IDs[p])
		}
		for p := range l.Slots {
			n += len(l.Slots[p])
		}
	}
	return n
}

// record returns the decision that a worker drew, or in the modes apprentice and shadow the caller's, and
// its record. Times are in ns since 1970; the window of the event ends its length after opens.
func record(w *choose.Worker, r *Request, c choose.Choice, now time.Time, opens int64) (Decision, *eventlog.Decision,
	error) {
	v, o := w.Version, &w.Offer
	config := &v.Compiled.Config
	mode := r.mode(config)
	if err := r.checkGuard(mode, config); err != nil {
		return Decision{}, nil, fault.Refused(err)
	}
	out := Decision{Mode: mode, BasisSeq: v.Seq, Durable: true, Propensity: choose.Fraction{Num: c.Num, Den: c.Den}}
	record := records.Get().(*eventlog.Decision)
	*record = eventlog.Decision{
		Full: record.Full, Model: v.ID, BasisSeq: v.Seq, BasisDigest: v.Digest, Member: c.Member,
		Negative: c.Negative, Num: c.Num, Den: c.Den,
		Mode: model.Modes[mode], Deferred: r.Deferred, Caller: r.Caller,
		Time: now.UnixNano(), Deadline: opens + int64(config.Reward.Window),
	}
	baseline := mode == model.Apprentice || mode == model.Shadow
	if mode == model.Guarded {
		at, err := o.Baseline(r.Baseline)
		if err != nil {
			return Decision{}, nil, fault.Refused(err)
		}
		if record.Baseline, baseline = uint32(at)+1, !v.Plays; baseline {
			record.Mode = eventlog.Apprentice
		}
	}
	if o.Plays() && (baseline || record.Baseline > 0) {
		return Decision{}, nil, fault.Refused(errNumberBaseline)
	}
	if baseline {
		played, err := o.Baseline(r.Baseline)
		if err != nil {
			return Decision{}, nil, fault.Refused(err)
		}
		out.Would = &Would{Action: o.IDs[o.Place(c.Index)], Propensity: out.Propensity}
		record.WouldAction, record.WouldNum = out.Would.Action, c.Num
		c.Index, record.Num = played, c.Den
		out.Propensity = choose.Fraction{Num: c.Den, Den: c.Den}
	}
	at := o.Place(c.Index)
	if !o.Alone() {
		out.Action = choose.Chosen{ID: o.IDs[at], Index: at}
	}
	record.Action, record.Index, record.Offered = out.Action.ID, uint32(c.Index), uint32(o.Count())
	if o.Plays() {
		record.Numbers = playedNumbers(o, c)
		record.Atoms = o.Exactly(c.Index, valuesOf(record.Numbers))
		out.tellNumbers(record)
	} else {
		record.X, record.Atoms = o.Features(c.Index)
	}
	record.Costs = slices.Clone(o.Costs())
	if context := r.context(); len(context) > 0 {
		record.Context = fold.Digest(context)
	}
	record.Unit, record.Span = w.Assigned()
	record.Full = o.AppendCandidates(record.Full[:0], true)
	record.Candidates = fold.Digest(record.Full)
	if config.LogCandidates != "full" {
		record.Full = o.AppendCandidates(record.Full[:0], false)
	}
	record.Law, record.Groups, record.Voters = w.Law()
	record.Floor = uint32(v.Compiled.FloorNum * (eventlog.FloorUnit / v.Compiled.FloorDen))
	record.Config = v.Number
	record.Price, record.Expects = c.Price, c.Expects
	if record.Group = c.Group; c.Group != eventlog.NoGroup {
		out.Group = c.Group.String()
		record.Control, record.ControlFirst = config.Control.Millionths(), config.Control.Plays == model.PlaysFirst
	}
	switch { // the law has the floor in it
	case c.Stopped:
		record.Play, record.Floor = eventlog.PlayStop, 0
	case c.Floored:
		record.Play, record.Floor = eventlog.PlayFloors, 0
	}
	if baseline && record.Baseline > 0 {
		record.Play = eventlog.PlayBaseline
	}
	if err := tooLong(len(record.Full) + len(record.Atoms) + max(0, 6*len(record.Law)-roomForLaw) + 8*len(record.Costs)); err != nil {
		return Decision{}, nil, err
	}
	return out, record, nil
}

// tooLong refuses candidates that take more bytes than a record holds.
func tooLong(n int) error {
	if n <= candidates.MaxBytes {
		return nil
	}
	return &fault.Error{Code: fault.TooLarge, Field: "actions", Value: fmt.Sprintf("%d bytes", n),
		Want: fmt.Sprintf("the features of the candidates take %d bytes, of which a record holds %d; send fewer "+
			"actions or float32, or set log_candidates = \"none\" and give up replay", n, candidates.MaxBytes)}
}

// fits refuses before the choice what record would refuse after it.
func fits(o *choose.Offer, c *model.Config) error {
	if c.LogCandidates != "full" || o.MostBytes() <= candidates.MaxBytes {
		return nil
	}
	return tooLong(len(o.AppendCandidates(nil, true)))
}

// checkGuard refuses what a guarded decision cannot do without, and the mode for a model without a guard.
func (r *Request) checkGuard(mode model.Mode, c *model.Config) error {
	switch {
	case mode != model.Guarded:
		return nil
	case c.Guard.IsZero():
		return model.Invalid("mode", mode, "needs a model with a guard: set guard of its configuration")
	case r.Baseline == nil:
		return model.Invalid("baseline", "", "is missing: a guarded model plays the caller's own choice until the policy cannot "+
			"have earned less by more than the margin")
	case r.Deferred:
		return model.Invalid("defer_activation", true, "does not go with a guard: what is not played has no baseline")
	}
	return nil
}

// Place returns the index of the chosen action among the actions of the request.
func Place(r *eventlog.Decision) (int, error) {
	set, err := candidates.Parse(r.Full)
	if err != nil {
		return 0, err
	}
	return set.Place(int(r.Index))
}

// records are decisions that are written and answered, for reuse. Their X and Atoms are not used again: a reward may have them.
var records = sync.Pool{New: func() any { return new(eventlog.Decision) }}

// recycle gives back a record to which there is no other reference.
func recycle(r *eventlog.Decision) {
	full := r.Full[:0]
	if cap(full) > 64<<10 {
		full = nil
	}
	*r = eventlog.Decision{Full: full}
	records.Put(r)
}
