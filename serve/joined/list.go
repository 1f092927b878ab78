package joined

import (
	"fmt"
	"math"
	"time"

	"troupe/eventlog"
	"troupe/logged"
	"troupe/serve/candidates"
	"troupe/serve/fold"
)

// list gives an event the positions of its decision.
func (e *decision) list(r *eventlog.Decision) {
	if r.List == nil {
		return
	}
	for range r.List.K() {
		e.Positions = append(e.Positions, Position{Reward: math.NaN()})
	}
}

// split reports whether the positions of a list have rewards of their own.
func (e *decision) split() bool { return e.Record.List != nil && !e.Record.List.Whole }

// see takes what the fold knows of the positions.
func (e *decision) see(f *fold.Fold) {
	p, ok := f.List(e.Key)
	if !ok {
		return
	}
	for i := range e.Positions {
		e.Positions[i].Hidden = i >= p.Shown
		if i < len(p.Given) && p.Given[i] {
			e.Positions[i].Reward = p.Y[i]
		}
	}
}

// close gives the positions that were shown and have no reward the default of a closed window.
func (e *decision) close(r *eventlog.Expire) {
	if !e.active || !r.Default {
		return
	}
	sum, any := 0., false
	for i := range e.Positions {
		p := &e.Positions[i]
		if p.Reward != p.Reward && !p.Hidden {
			p.Reward, p.Default = r.Y, true
		}
		if p.Reward == p.Reward && !p.Hidden {
			sum, any = sum+p.Reward, true
		}
	}
	if any {
		e.Reward, e.fallback = sum, !e.rewarded
	}
}

// final reports whether nothing more comes by a rule that settles: of a list every position that was shown has its reward.
func (e *decision) final() bool {
	if e.split() {
		for _, p := range e.Positions {
			if p.Reward != p.Reward && !p.Hidden {
				return false
			}
		}
	}
	return e.rewarded && !e.partial
}

// listEvent returns the decision of a list as a logged event. Missing rewards are 0.
func listEvent(e *Decided) (*logged.Event, error) {
	r, l := e.Record, e.Record.List
	out := &logged.Event{Time: time.Unix(0, r.Time).UTC(), K: int(r.Offered), Position: logged.NoPosition, OneReward: l.Whole}
	if l.Whole && e.Reward == e.Reward {
		out.Reward = e.Reward
	}
	set, err := candidates.Parse(r.Full)
	if err != nil {
		return nil, err
	}
	if set.Actions != nil {
		out.Atoms = set.Context
		for _, a := range set.Actions {
			out.Actions = append(out.Actions, logged.Action{Atoms: a})
		}
	}
	if r.Unit != 0 {
		out.Unit = r.Unit.String()
	}
	out.Slots = Slots(e)
	return out, out.Check()
}

// Slots are the positions of a list as they are logged: which candidates were left, and the probabilities of the entry.
// Marginals are those of all candidates where the record has their counts.
func Slots(e *Decided) []logged.Slot {
	r, l := e.Record, e.Record.List
	k, n := l.K(), int(r.Offered)
	sizes := map[uint32]uint64{}
	for _, g := range r.Groups {
		sizes[g]++
	}
	out := make([]logged.Slot, k)
	last := 1.
	used := map[int]bool{}
	for p := range out {
		s := &out[p]
		s.ID = fmt.Sprint(p)
		if len(l.Slots) > 0 {
			s.ID = l.Slots[p]
		}
		row := int(l.Rows[p])
		s.Allowed = append(s.Allowed, row)
		for i := range n {
			if i != row && !used[i] && l.Permits(i, p) {
				s.Allowed = append(s.Allowed, i)
			}
		}
		used[row] = true
		s.Prefix, _ = r.PrefixProb(p + 1).Float64()
		s.Marginal, _ = r.MarginalProb(p).Float64()
		s.Propensity, last = s.Prefix/last, s.Prefix
		if len(l.Votes) > 0 && r.WouldList == nil {
			for i := range n {
				alike := uint64(1)
				if len(r.Groups) > 0 {
					alike = sizes[r.Groups[i]]
				}
				q, _ := r.CandidateProb(i, p, alike).Float64()
				s.Marginals = append(s.Marginals, q)
			}
		}
		if p < len(e.Positions) {
			x := e.Positions[p]
			if s.Hidden = x.Hidden; x.Reward == x.Reward && !x.Hidden && !l.Whole {
				s.Reward = x.Reward
			}
		}
	}
	return out
}

// SlotColumn is a position of a list in an export, with the keys of a slot of JSON lines.
type SlotColumn struct {
	ID         string    `json:"id" parquet:"id" doc:"name of the position, or its place"`
	Action     string    `json:"action" parquet:"action" doc:"what was played there"`
	Actions    []int     `json:"actions" parquet:"actions,list" doc:"places of the candidates that could stand there, the one that was played first"`
	Reward     *float64  `json:"reward,omitempty" parquet:"reward,optional" doc:"what counts of the position; absent: nothing, or the list has one reward"`
	Propensity float64   `json:"propensity" parquet:"propensity" doc:"probability given the entries above"`
	Prefix     float64   `json:"prefix" parquet:"prefix" doc:"probability of the entries up to this one"`
	Marginal   float64   `json:"marginal" parquet:"marginal" doc:"probability of this action at this position"`
	Marginals  []float64 `json:"marginals,omitempty" parquet:"marginals,list,optional" doc:"that of every candidate; absent: not recorded"`
	Shown      bool      `json:"shown" parquet:"shown" doc:"it was on the screen"`
}

// SlotColumns are those of a decision, nil for an action.
func SlotColumns(d *Decided) []SlotColumn {
	l := d.Record.List
	if l == nil {
		return nil
	}
	var out []SlotColumn
	for p, s := range Slots(d) {
		c := SlotColumn{ID: s.ID, Action: l.IDs[p], Actions: s.Allowed, Propensity: s.Propensity, Prefix: s.Prefix, Marginal: s.Marginal,
			Marginals: s.Marginals, Shown: !s.Hidden}
		if !l.Whole && p < len(d.Positions) && d.Positions[p].Reward == d.Positions[p].Reward && !s.Hidden {
			c.Reward = &d.Positions[p].Reward
		}
		out = append(out, c)
	}
	return out
}
