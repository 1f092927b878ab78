package decide

import (
	"cmp"
	"fmt"
	"strconv"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/fault"
	"troupe/serve/model"
)

// check refuses what can be refused before a worker is taken: the mode, texts and sizes.
func (r *Request) check(l *feature.Limits) error {
	q := r.candidates()
	if r.Baseline != nil && *r.Baseline < 0 { // also where no mode looks at it
		return fault.Refused(model.Invalid("baseline", *r.Baseline, "expected the place of an action, from 0"))
	}
	if err := r.checkList(l); err != nil {
		return err
	}
	return fault.Refused(cmp.Or(model.CheckMode(r.Mode), model.CheckText("caller", r.Caller),
		q.Check(l), model.CheckText("idempotency_key", r.IdempotencyKey)))
}

// checkList refuses what can be refused of a list before a worker is taken.
func (r *Request) checkList(l *feature.Limits) error {
	if !r.IsList() {
		return nil
	}
	most := func(field string, k int) error {
		if k > eventlog.MaxPositions {
			return &fault.Error{Code: fault.TooLarge, Field: field, Value: strconv.Itoa(k),
				Want: fmt.Sprintf("has %d positions, at most %d are allowed", k, eventlog.MaxPositions)}
		}
		return nil
	}
	refuse := func(field string, value any, format string, a ...any) error {
		return fault.Refused(model.Invalid(field, value, format, a...))
	}
	switch {
	case r.Choose != nil && r.Slots != nil:
		return refuse("choose", *r.Choose, "does not go with slots: choose is short for slots without names")
	case r.Choose != nil && *r.Choose < 1:
		return refuse("choose", *r.Choose, "expected the number of positions, 1 to %d", eventlog.MaxPositions)
	case r.Slots != nil && len(r.Slots) == 0:
		return refuse("slots", 0, "expected 1 to %d slots", eventlog.MaxPositions)
	case len(r.Numbers) > 0:
		return refuse("numbers", len(r.Numbers), "do not go with a list, which has no numbers; make one decision for each")
	case len(r.Packed) > 0:
		return refuse("packed", "", "does not go with a list: send actions")
	case r.Baseline != nil:
		return refuse("baseline", *r.Baseline, "does not go with a list: slots have a baseline each, slots[i].baseline")
	}
	if r.Choose != nil {
		return most("choose", *r.Choose)
	}
	if err := most("slots", len(r.Slots)); err != nil {
		return err
	}
	own, seen, count := r.own(), map[string]int{}, 0
	features := map[string]string{}
	for s := range r.Slots {
		x := &r.Slots[s]
		field := fmt.Sprintf("slots[%d]", s)
		if err := cmp.Or(model.CheckText(field+".id", x.ID), model.CheckText(field+".baseline", x.Baseline)); err != nil {
			return fault.Refused(err)
		}
		name := x.name(s)
		if at, twice := seen[name]; twice {
			return refuse(field+".id", name, "is the id of slots[%d] too", at)
		}
		seen[name] = s
		switch {
		case len(x.Features) > 0:
			return refuse(field+".features", "", "are not read yet: what positions differ in is learned of each, so leave them out, or put "+
				"what all positions share into the context")
		case own != (x.Actions != nil):
			return refuse(field+".actions", "", "all slots have candidates of their own, or none has")
		case own && len(x.Actions) == 0:
			return refuse(field+".actions", 0, "expected at least one action")
		}
		inSlot := map[string]bool{}
		for i, a := range x.Actions {
			at := fmt.Sprintf("%s.actions[%d]", field, i)
			if err := model.CheckText(at+".id", a.ID); err != nil {
				return fault.Refused(err)
			}
			text := string(a.Features)
			had, known := features[a.ID]
			switch {
			case a.ID == "":
				return refuse(at+".id", "", "is missing: actions of slots need an id, which is played at most once")
			case inSlot[a.ID]:
				return refuse(at+".id", a.ID, "is the id of two actions of the slot")
			case known && had != text:
				return refuse(at+".features", a.ID, "differ from those of the same action in another slot")
			}
			inSlot[a.ID], features[a.ID] = true, text
		}
		count += len(x.Actions)
	}
	switch {
	case own && len(r.Actions) > 0:
		return refuse("actions", len(r.Actions), "do not go with slots that have actions of their own")
	case own && (len(r.Available) > 0 || len(r.Costs) > 0):
		return refuse("available", "", "and costs do not go with slots that have actions of their own: use exclude, and the cost of the action")
	case count > l.Actions:
		return refuse("slots", count, "have more than %d actions in all", l.Actions)
	}
	return nil
}
