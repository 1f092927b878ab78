package personalizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"troupe/serve"
	"troupe/serve/api"
)

// The multi-slot routes of Azure Personalizer: one call chooses an action for each of several places on a page, no action twice. Here a
// call is one event, a list with these slots: one draw plays all of them, each has its exact probability and its own reward, and what a slot is looked at
// is learned. The caller's event id is its idempotency key, as that of a rank is.

// maxSlots bounds the slots of a call.
const maxSlots = 50

// slotCalls are rankCalls for several places on a page.
type slotCalls struct{ ranks *rankCalls }

type slotsBody struct {
	ContextFeatures json.RawMessage `json:"contextFeatures" required:"false" doc:"list of objects with the features of the context"`
	Actions         []rankAction    `json:"actions" doc:"the actions to choose from, at least as many as slots"`
	Slots           []slotBody      `json:"slots" doc:"the slots to fill, in order"`
	EventID         string          `json:"eventId" required:"false" doc:"id of the event; without it the server makes one"`
	DeferActivation bool            `json:"deferActivation" required:"false" doc:"the event counts only after it is activated"`
}

type slotBody struct {
	ID              string            `json:"id" doc:"name of the slot"`
	Features        []json.RawMessage `json:"features" required:"false" doc:"list of objects with the features of the slot: not read, because what slots differ in is learned of each"`
	ExcludedActions []string          `json:"excludedActions" required:"false" doc:"names of actions that may not stand in the slot"`
	BaselineAction  string            `json:"baselineAction" required:"false" doc:"name of the action that the application would show: played in Apprentice and LoggingOnly, which need it; otherwise checked, and not played"`
}

type slotsAnswer struct {
	Slots   []slotAnswer `json:"slots" doc:"the action of each slot"`
	EventID string       `json:"eventId" doc:"id of the event: send it with the rewards"`
	Notes   []string     `json:"notes,omitempty" doc:"a field of our own: what was not read of the request, and warnings of its decision"`
}

type slotAnswer struct {
	ID             string `json:"id" doc:"name of the slot"`
	RewardActionID string `json:"rewardActionId" doc:"the action to show in the slot"`
}

type slotRewards struct {
	Reward []slotReward `json:"reward" doc:"rewards of slots"`
}

type slotReward struct {
	SlotID string   `json:"slotId" doc:"name of the slot"`
	Value  *float64 `json:"value" doc:"its reward"`
}

// unread is what an answer says to slots with features.
const unread = "features of slots are not read: what slots differ in is learned of each; put what changes from call to call into contextFeatures"

func (a *slotCalls) rank(w http.ResponseWriter, r *http.Request, model string) error {
	ctx, x := r.Context(), a.ranks
	b, _, err := readCall[slotsBody](x.edge, w, r, api.Decide, model)
	if err != nil {
		return err
	}
	one := rankBody{ContextFeatures: b.ContextFeatures, Actions: b.Actions, EventID: b.EventID, DeferActivation: b.DeferActivation}
	req, err := one.request(ctx, x.edge, x.finder != nil)
	if err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	m, err := x.models.GetModel(ctx, model)
	switch {
	case err != nil:
		return err
	case m.Config.Mode == string(serve.Guarded):
		return refuse("slots", "do not go with a guarded model: rank for each slot")
	case m.Config.List.Whole():
		return refuse("slots", "do not go with a model whose lists have one reward (list.reward): make a model without it")
	}
	if playsBaseline(m) {
		for i, s := range b.Slots {
			if s.BaselineAction == "" {
				return refuse(fmt.Sprintf("slots[%d].baselineAction", i), fmt.Sprintf("is missing: the learning mode %s plays it", theirs(learningModes, m.Config.Mode)))
			}
		}
	}
	req.Explain, req.Slots = false, b.slots()
	d, err := x.decider.Decide(ctx, model, req)
	if err != nil {
		return slotError(err, len(b.Slots))
	}
	out := slotsAnswer{EventID: b.EventID, Notes: d.Warnings}
	if out.EventID == "" {
		out.EventID = d.EventID
	}
	if slices.ContainsFunc(b.Slots, func(s slotBody) bool { return len(s.Features) > 0 }) {
		out.Notes = append(out.Notes, unread)
	}
	for _, e := range d.List {
		out.Slots = append(out.Slots, slotAnswer{e.Slot, e.ID})
	}
	return answerJSON(w, http.StatusCreated, out)
}

// slots are the positions of the list. Excluded names that no action has exclude nothing, as in a rank.
func (b *slotsBody) slots() (out []serve.Slot) {
	names := map[string]bool{}
	for _, x := range b.Actions {
		names[x.ID] = true
	}
	for _, s := range b.Slots {
		slot := serve.Slot{ID: s.ID, Baseline: s.BaselineAction}
		for _, id := range s.ExcludedActions {
			if names[id] && !slices.Contains(slot.Exclude, id) {
				slot.Exclude = append(slot.Exclude, id)
			}
		}
		out = append(out, slot)
	}
	return out
}

// slotError gives an error about the candidates or the baseline of one of n slots the field of this API.
func slotError(err error, n int) error {
	var e *serve.Error
	if !errors.As(err, &e) {
		return err
	}
	for i := range n {
		c, at := *e, fmt.Sprintf("slots[%d].", i)
		switch e.Field {
		case at + "actions":
			c.Field = at + "excludedActions"
			return &c
		case at + "baseline":
			c.Field = at + "baselineAction"
			return &c
		}
	}
	return err
}

// check looks at the slots before anything is decided.
func (b *slotsBody) check() error {
	switch n := len(b.Slots); {
	case n == 0:
		return refuse("slots", "is empty, expected at least one slot")
	case n > maxSlots:
		return api.Refuse("too_large", "slots", fmt.Sprintf("has %d entries, at most %d are allowed", n, maxSlots))
	case n > len(b.Actions):
		return refuse("slots", fmt.Sprintf("has %d entries, more than the %d actions", n,
			len(b.Actions)))
	}
	seen := map[string]bool{}
	for i, slot := range b.Slots {
		at := fmt.Sprintf("slots[%d].", i)
		if err := api.CleanID(at+"id", slot.ID); err != nil {
			return err
		}
		switch {
		case slot.ID == "":
			return refuse(at+"id", "is missing")
		case len(slot.ID) > 256:
			return refuse(at+"id", "has more than 256 bytes")
		case seen[slot.ID]:
			return refuse(at+"id", "is there twice")
		case slot.BaselineAction != "" && !slices.ContainsFunc(b.Actions,
			func(x rankAction) bool { return x.ID == slot.BaselineAction }):
			return refuse(at+"baselineAction", "is not one of the actions")
		case slices.Contains(slot.ExcludedActions, slot.BaselineAction) && slot.BaselineAction != "":
			return refuse(at+"baselineAction", "is excluded")
		}
		seen[slot.ID] = true
	}
	return nil
}

// event finds the event of an id, that the key of the call may touch, and the names of its slots.
func (a *slotCalls) event(ctx context.Context, scope api.Scope, model, id string) (event string, slots []string, err error) {
	x := a.ranks
	if event, err = x.eventOf(ctx, model, id); err != nil {
		return "", nil, err
	}
	if err := x.edge.AllowEvent(ctx, scope, event); err != nil {
		return "", nil, noEvent(err)
	}
	owner, err := x.decider.Owner(ctx, event)
	return event, owner.Slots, noEvent(err)
}

func (a *slotCalls) reward(w http.ResponseWriter, r *http.Request, model string) error {
	ctx, x := r.Context(), a.ranks
	b, _, err := readCall[slotRewards](x.edge, w, r, api.Reward, model)
	if err != nil {
		return err
	}
	event, slots, err := a.event(ctx, api.Reward, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	if n := len(b.Reward); n == 0 || n > maxSlots {
		return refuse("reward", fmt.Sprintf("has %d entries, expected 1 to %d", n, maxSlots))
	}
	var rs []serve.RewardRequest
	for i, y := range b.Reward {
		at := fmt.Sprintf("reward[%d].", i)
		switch {
		case y.Value == nil:
			return refuse(at+"value", "is missing, expected a number")
		case !slices.Contains(slots, y.SlotID):
			return refuse(at+"slotId", "is not a slot of this event")
		}
		if err := theirRange(ctx, x.models, model, at+"value", *y.Value); err != nil {
			return err
		}
		rs = append(rs, serve.RewardRequest{EventID: event, Slot: y.SlotID, Value: *y.Value, Caller: x.edge.Caller(ctx), Allow: x.edge.AllowsModel(ctx, api.Reward)})
	}
	items, err := x.decider.RewardBatch(ctx, rs)
	if err != nil {
		return err
	}
	for _, item := range items {
		x.edge.Rewarded(item.Result.Status, item.Err)
		if err == nil {
			err = item.Err // the others are recorded; a repetition of the call does no harm to them
		}
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
