package logged

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"troupe/feature"
	"troupe/spec"
)

// exportRow is a row of `troupe log export` (docs/formats.md): a decision with what became of it.
type exportRow struct {
	event, eventID, model, mode, state string
	time                               time.Time
	row, offered                       int
	propensity                         float64
	x, law                             []float64
	sparseRow                          []int32
	sparseHash                         []uint64
	sparseValue                        []float64
	active, expired                    bool
	rewards                            int
	reward                             map[string]float64 // reward_first, reward_sum, reward_last, reward
	defaulted                          float64
	hasDefault                         bool
	action, unit                       string
	costs                              []float64
	cost                               float64 // NaN: not known
	stopped                            bool
	positions                          int // of a list
	oneReward                          bool
	group, plays                       string // of a control group
	share                              float64
	hasShare                           bool
	outcomes                           []string // rewards with names
}

// exportKeys are the columns of an export.
var exportKeys = []string{"event", "event_id", "seq", "time", "model", "incarnation", "mode", "action", "index", "row",
	"offered", "num", "den",
	"propensity", "basis_seq", "x", "candidates", "active", "rewards", "reward_first", "reward_sum", "reward_last",
	"delay_seconds", "expired", "default",
	"law", "reward", "reward_state", "sparse_row", "sparse_hash", "sparse_value", "costs", "cost", "price", "stopped",
	"unit", "group", "control", "control_plays", "slots", "positions", "one_reward"}

// exported reads one row as JSON.
func (s *jsonlSource) exported(v value, e *Event) error {
	row := &s.row
	*row = exportRow{reward: row.reward, active: true, cost: math.NaN(), outcomes: row.outcomes[:0], sparseRow: row.sparseRow[:0],
		sparseHash: row.sparseHash[:0], sparseValue: row.sparseValue[:0]}
	if row.reward == nil {
		row.reward = map[string]float64{}
	}
	clear(row.reward)
	s.at = [kTargetListLaw + 1]int{}
	if bad := v.fields(func(key []byte, w value) *Error { return s.column(e, key, w) }); bad != nil {
		return s.jsonLines.at(bad)
	}
	if err := row.fill(s.r, e, &s.cut); err != nil {
		if fault, ok := err.(*Error); ok {
			return s.at2(fault)
		}
		return err
	}
	return nil
}

// column reads one column of a row.
func (s *jsonlSource) column(e *Event, key []byte, w value) (err *Error) {
	row := &s.row
	named, isNamed := bytes.CutPrefix(key, []byte(outcomePrefix))
	if isNamed {
		row.outcomes = append(row.outcomes, string(named))
	}
	if string(w.raw) == "null" {
		return nil
	}
	switch name := string(key); name {
	case "event":
		row.event, err = w.text(name)
	case "event_id":
		row.eventID, err = w.text(name)
	case "action":
		row.action, err = w.text(name)
	case "unit":
		row.unit, err = w.text(name)
	case "group":
		row.group, err = w.text(name)
	case "control_plays":
		row.plays, err = w.text(name)
	case "control":
		row.share, err = w.number(name)
		row.hasShare = true
	case "costs":
		row.costs, err = w.list(e, name)
	case "cost":
		row.cost, err = w.number(name)
	case "slots":
		err = s.slots(w, e)
	case "positions":
		row.positions, err = w.whole(name)
	case "one_reward":
		row.oneReward = string(w.raw) == "true"
	case "stopped":
		row.stopped = string(w.raw) == "true"
	case "model":
		row.model, err = w.text(name)
	case "mode":
		row.mode, err = w.text(name)
	case "reward_state":
		row.state, err = w.text(name)
	case "time":
		row.time, err = timeOf(w)
	case "row":
		row.row, err = w.whole(name)
		s.at[kAction] = w.at + 1
	case "offered":
		row.offered, err = w.whole(name)
	case "rewards":
		row.rewards, err = w.whole(name)
	case "propensity":
		row.propensity, err = w.number(name)
		s.at[kPropensity] = w.at + 1
	case "x":
		row.x, err = w.list(e, name)
	case "law":
		row.law, err = w.list(e, name)
		s.at[kLaw] = w.at + 1
	case "candidates":
		err = s.actions(w, e)
	case "sparse_row", "sparse_hash", "sparse_value":
		err = row.sparseList(name, w)
	case "active":
		row.active = string(w.raw) == "true"
	case "expired":
		row.expired = string(w.raw) == "true"
	case "reward_first", "reward_sum", "reward_last", "reward":
		row.reward[name], err = w.number(name)
		s.at[kReward] = w.at + 1
	case "default":
		row.defaulted, err = w.number(name)
		row.hasDefault = true
	default:
		if isNamed {
			row.reward[name], err = w.number(name)
			s.at[kReward] = w.at + 1
			return err
		}
		for _, known := range exportKeys {
			if known == name {
				return nil
			}
		}
		err = bad(shown(key), "an unknown column"+spec.Suggest(name, exportKeys), "")
		err.Column, err.Reason = w.at+1, "unknown key"
	}
	return err
}

// sparseList reads a list of the sparse candidates.
func (row *exportRow) sparseList(name string, w value) *Error {
	switch name {
	case "sparse_row":
		return w.each(func(_ int, x value) *Error {
			n, err := strconv.ParseInt(string(x.raw), 10, 32)
			if err != nil {
				return x.wrong(name, "a whole number")
			}
			row.sparseRow = append(row.sparseRow, int32(n))
			return nil
		})
	case "sparse_hash":
		return w.each(func(_ int, x value) *Error {
			text, bad := x.text(name)
			h, err := strconv.ParseUint(text, 16, 64)
			if bad == nil && err != nil {
				bad = x.wrong(name, "16 hexadecimal digits")
			}
			row.sparseHash = append(row.sparseHash, h)
			return bad
		})
	}
	return w.each(func(_ int, x value) *Error {
		v, bad := x.number(name)
		row.sparseValue = append(row.sparseValue, v)
		return bad
	})
}

// fill makes the event of a row. cut is set at the first decision whose window is open at the end of the log:
// it and all later ones are left out, whether or not they have a reward, because to keep those that were paid
// already would select on the outcome.
func (row *exportRow) fill(r *Reader, e *Event, cut *bool) error {
	switch {
	case r.o.Model != "" && row.model != r.o.Model:
		return errSkip("of another model")
	case r.model == "":
		r.model = row.model
	case r.model != row.model:
		return &Error{Field: "model", Found: fmt.Sprintf("rows of %q and of %q", r.model, row.model),
			Want: "--model NAME to choose one", fatal: true}
	}
	switch row.mode {
	case "online", "frozen", "":
	default:
		return errSkip("mode " + row.mode + ": a baseline was played")
	}
	if !row.active || row.state == "inactive" {
		return errSkip("inactive: deferred and never activated")
	}
	if row.state == "ignored" {
		return errSkip("ignored")
	}
	if row.state == "unknown" {
		return errSkip("decided before the base of the trimmed log")
	}
	name := "reward"
	if c := r.o.Columns["reward"]; len(c) == 1 {
		name = c[0]
	} else if r.o.Outcome != "" {
		if name = outcomePrefix + r.o.Outcome; !slices.Contains(row.outcomes, r.o.Outcome) {
			return noOutcome(r.o.Outcome, row.outcomes)
		}
	} else if row.state == "" {
		name = "reward_first"
	}
	if row.state == "" {
		r.warn("rewards are the column " + name +
			" of an export, which has late and repeated ones too; troupe evaluate DIR takes those that the model " +
			"learned from")
	}
	y, paid := row.reward[name]
	if name == "reward_first" && paid && row.state == "" {
		row.expired = true // the first reward closes the window
	}
	if open := *cut || row.state == "pending" || row.state == "" && !row.expired; open && !r.o.Open {
		*cut = true
		return errSkip("pending")
	}
	if !paid && !r.o.Open {
		switch {
		case row.hasDefault:
			y = row.defaulted
		default:
			r.warn("decisions without a reward and without a default count as reward 0")
		}
	}
	if e.ID = row.eventID; e.ID == "" {
		e.ID = row.event
	}
	e.Unit, e.Early = row.unit, row.state == "early"
	if len(row.outcomes) > 0 {
		e.Outcomes = len(row.outcomes) + 1 // with their weighted sum
	}
	var err error
	if e.Control, err = row.control(); err != nil {
		return err
	}
	e.Time, e.Propensity, e.Law, e.Chosen, e.Reward, e.K = row.time, row.propensity, row.law, row.row, y, row.offered
	if len(row.costs) > 0 {
		e.Money = &Money{Costs: row.costs, Cost: row.cost, Action: row.action, Stopped: row.stopped}
	}
	if err := row.sparse(e); err != nil {
		return err
	}
	if row.positions > 0 {
		if len(e.Slots) != row.positions {
			return &Error{Field: "positions", Found: fmt.Sprintf("a list of %d positions, %d of them are there", row.positions, len(e.Slots)),
				Want: "an export as JSON lines, a server, or its data directory: lists are not read from Parquet", fatal: true}
		}
		e.Chosen, e.Propensity, e.Law, e.Money, e.OneReward = 0, 0, nil, nil, row.oneReward
		if !row.oneReward {
			e.Reward = 0
		}
		return e.listCheck(&r.o)
	}
	if n := len(e.Actions); n > 0 && e.K != n {
		return bad("offered", strconv.Itoa(e.K), "%d, the number of candidates", n)
	}
	if err := r.lawful(e, 0); err != nil {
		return err
	}
	if err := e.checkControl(); err != nil {
		return err
	}
	if err := e.check(&r.o); err != nil {
		return err
	}
	return nil
}

// sparse gives the event its hashed features.
func (row *exportRow) sparse(e *Event) error {
	n := len(row.sparseRow)
	if len(row.sparseHash) != n || len(row.sparseValue) != n {
		return bad("sparse_hash", strconv.Itoa(len(row.sparseHash))+" and "+strconv.Itoa(len(row.sparseValue))+
			" values", "as many as sparse_row has, %d", n)
	}
	if n == 0 {
		return nil
	}
	if row.offered > MaxActions {
		return bad("offered", strconv.Itoa(row.offered), "at most %d", MaxActions)
	}
	e.Actions = make([]Action, row.offered)
	for i, at := range row.sparseRow {
		a := feature.Atom{Hash: row.sparseHash[i], Value: row.sparseValue[i]}
		switch {
		case a.Value-a.Value != 0:
			return bad("sparse_value", number(a.Value), "a finite number")
		case at == -1:
			e.Atoms = append(e.Atoms, a)
		case at >= 0 && int(at) < len(e.Actions):
			e.Actions[at].Atoms = append(e.Actions[at].Atoms, a)
		default:
			return bad("sparse_row", strconv.Itoa(int(at)), "-1 for the context, or a candidate from 0 to %d",
				row.offered-1)
		}
	}
	for i := range e.Actions {
		if e.Actions[i].Atoms == nil {
			return bad("sparse_row", "no feature of candidate "+strconv.Itoa(i), "one at least")
		}
	}
	return nil
}

// listCheck checks the list of an export.
func (e *Event) listCheck(o *Options) error {
	if n := len(e.Actions); n > 0 && e.K != n {
		return bad("offered", strconv.Itoa(e.K), "%d, the number of candidates", n)
	}
	for i := range e.Slots {
		if len(e.Slots[i].Allowed) == 0 {
			return bad("slots["+strconv.Itoa(i)+"].actions", "none", "the chosen one first")
		}
	}
	if err := e.check(o); err != nil {
		return err
	}
	return nil
}
