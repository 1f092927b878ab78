package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"troupe/serve"
)

// The multi-slot routes of Azure Personalizer: one call chooses an action for each of several places on
// a page, no action twice. Here each slot is a decision of the model, one after the other: its context
// is the call's with the slot's features under "slot", its candidates are the actions that no slot
// before it took. So each propensity is exact given the slots before, each slot has its own reward, and
// what the model learns in one slot helps in the others.
//
// The events of a call are found again by keys made of the call's event id and the slot's number; the
// record of each names its slot.

// maxSlots bounds the slots of a call. Each costs a decision.
const maxSlots = 50

type slotsBody struct {
	ContextFeatures json.RawMessage `json:"contextFeatures"`
	Actions         []rankAction    `json:"actions"`
	Slots           []slotBody      `json:"slots"`
	EventID         string          `json:"eventId"`
	DeferActivation bool            `json:"deferActivation"`
}

type slotBody struct {
	ID              string            `json:"id"`
	Features        []json.RawMessage `json:"features"`
	ExcludedActions []string          `json:"excludedActions"`
	BaselineAction  string            `json:"baselineAction"`
}

type slotsAnswer struct {
	Slots   []slotAnswer `json:"slots"`
	EventID string       `json:"eventId"`
}

type slotAnswer struct {
	ID             string `json:"id"`
	RewardActionID string `json:"rewardActionId"`
}

type slotRewards struct {
	Reward []struct {
		SlotID string   `json:"slotId"`
		Value  *float64 `json:"value"`
	} `json:"reward"`
}

// slotKey is the idempotency key of one slot of a call.
func slotKey(eventID string, slot int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "slot %d of %s", slot, eventID))
	return "slot-" + hex.EncodeToString(sum[:])
}

func (a *API) multiSlotRank(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	if err := a.allow(ctx, Decide, model); err != nil {
		return err
	}
	raw, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	var b slotsBody
	if err := decodeJSON(raw, &b); err != nil {
		return err
	}
	one := rankBody{Actions: b.Actions, EventID: b.EventID, DeferActivation: b.DeferActivation}
	base, err := one.request(a, caller(ctx))
	if err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	m, err := a.svc.GetModel(ctx, model)
	if err != nil {
		return err
	}
	baseline := m.Config.Mode == string(serve.Apprentice) || m.Config.Mode == string(serve.Shadow)
	if b.EventID == "" {
		b.EventID = rand.Text()
	}
	out := slotsAnswer{EventID: b.EventID}
	taken := map[string]bool{}
	for i, slot := range b.Slots {
		req := base
		req.IdempotencyKey, req.Slot, req.Explain = slotKey(b.EventID, i), slot.ID, false
		if req.Context, err = slotContext(b.ContextFeatures, slot); err != nil {
			return err
		}
		req.Exclude = nil
		for _, x := range b.Actions {
			// What this slot may not have, what is taken, and what a later slot cannot do without.
			if slices.Contains(slot.ExcludedActions, x.ID) || taken[x.ID] || !b.fits(i+1, taken, x.ID) {
				req.Exclude = append(req.Exclude, x.ID)
			}
		}
		if len(req.Exclude) == len(b.Actions) {
			return &fieldError{Field: fmt.Sprintf("slots[%d].excludedActions", i), Want: "leaves no action for each slot"}
		}
		if baseline {
			at := slices.IndexFunc(b.Actions, func(x rankAction) bool { return x.ID == slot.BaselineAction })
			if at < 0 || slices.Contains(req.Exclude, slot.BaselineAction) {
				return &fieldError{Field: fmt.Sprintf("slots[%d].baselineAction", i), Want: "is not an action that this slot may have"}
			}
			req.Baseline = &at
		}
		d, err := a.svc.Decide(ctx, model, req)
		if err != nil {
			return err
		}
		taken[d.Action.ID] = true
		out.Slots = append(out.Slots, slotAnswer{slot.ID, d.Action.ID})
	}
	return answerJSON(w, http.StatusCreated, out)
}

// check looks at the slots before anything is decided.
func (b *slotsBody) check() error {
	switch n := len(b.Slots); {
	case n == 0:
		return &fieldError{Field: "slots", Want: "is empty, expected at least one slot"}
	case n > maxSlots:
		return problem("too_large", "slots", fmt.Sprintf("has %d entries, at most %d are allowed", n, maxSlots))
	case n > len(b.Actions):
		return &fieldError{Field: "slots", Want: fmt.Sprintf("has %d entries, more than the %d actions", n, len(b.Actions))}
	}
	seen := map[string]bool{}
	for i, slot := range b.Slots {
		at := fmt.Sprintf("slots[%d].", i)
		switch {
		case slot.ID == "":
			return &fieldError{Field: at + "id", Want: "is missing"}
		case len(slot.ID) > 256:
			return &fieldError{Field: at + "id", Want: "has more than 256 bytes"}
		case seen[slot.ID]:
			return &fieldError{Field: at + "id", Want: "is there twice"}
		case slot.BaselineAction != "" && !slices.ContainsFunc(b.Actions, func(x rankAction) bool { return x.ID == slot.BaselineAction }):
			return &fieldError{Field: at + "baselineAction", Want: "is not one of the actions"}
		case slices.Contains(slot.ExcludedActions, slot.BaselineAction) && slot.BaselineAction != "":
			return &fieldError{Field: at + "baselineAction", Want: "is excluded"}
		}
		seen[slot.ID] = true
	}
	return nil
}

// fits reports whether the slots from number from on can have an action each when those taken and one
// more are gone: a matching, by augmenting paths.
func (b *slotsBody) fits(from int, taken map[string]bool, more string) bool {
	has := map[string]int{} // which slot an action is given to
	var give func(slot int, tried map[string]bool) bool
	give = func(slot int, tried map[string]bool) bool {
		for _, x := range b.Actions {
			if taken[x.ID] || x.ID == more || tried[x.ID] || slices.Contains(b.Slots[slot].ExcludedActions, x.ID) {
				continue
			}
			tried[x.ID] = true
			if other, ok := has[x.ID]; !ok || give(other, tried) {
				has[x.ID] = slot
				return true
			}
		}
		return false
	}
	for slot := from; slot < len(b.Slots); slot++ {
		if !give(slot, map[string]bool{}) {
			return false
		}
	}
	return true
}

// slotContext is the context of the call with the slot's id and features.
func slotContext(context json.RawMessage, slot slotBody) (json.RawMessage, error) {
	var all []json.RawMessage
	switch context = notNull(context); {
	case len(context) > 0 && context[0] == '[':
		if err := json.Unmarshal(context, &all); err != nil {
			return nil, &fieldError{Field: "contextFeatures", Want: "cannot be read"}
		}
	case len(context) > 0:
		all = append(all, context)
	}
	all = slices.DeleteFunc(all, func(v json.RawMessage) bool { return string(v) == "null" })
	add := func(name string, v any) error {
		b, err := json.Marshal(map[string]any{name: v})
		all = append(all, b)
		return err
	}
	if err := add("slot_id", slot.ID); err != nil {
		return nil, err
	}
	for _, f := range slot.Features {
		if string(f) == "null" {
			continue
		}
		if err := add("slot", f); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// slotEvents returns the events of a call by the ids of their slots, not_found when there are none.
func (a *API) slotEvents(ctx context.Context, model, eventID string) (map[string]string, error) {
	if len(eventID) > 256 {
		return nil, &fieldError{Field: "eventId", Want: "has more than 256 bytes"}
	}
	out := map[string]string{}
	finder, ok := a.svc.(keyFinder)
	for i := 0; ok && i < maxSlots; i++ {
		id, err := finder.EventOfKey(ctx, model, slotKey(eventID, i))
		if serve.CodeOf(err) == serve.NotFound && i > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		owner, err := a.svc.Owner(ctx, id)
		if err != nil {
			return nil, err
		}
		out[owner.Slot] = id
	}
	if len(out) == 0 {
		return nil, problem("not_found", "eventId", "there is no such event")
	}
	return out, nil
}

func (a *API) multiSlotReward(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	if err := a.allow(ctx, Reward, model); err != nil {
		return err
	}
	raw, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	var b slotRewards
	if err := decodeJSON(raw, &b); err != nil {
		return err
	}
	events, err := a.slotEvents(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	if n := len(b.Reward); n == 0 || n > maxSlots {
		return &fieldError{Field: "reward", Want: fmt.Sprintf("has %d entries, expected 1 to %d", n, maxSlots)}
	}
	var rs []serve.RewardRequest
	for i, x := range b.Reward {
		at := fmt.Sprintf("reward[%d].", i)
		switch {
		case x.Value == nil:
			return &fieldError{Field: at + "value", Want: "is missing, expected a number"}
		case events[x.SlotID] == "":
			return &fieldError{Field: at + "slotId", Want: "is not a slot of this event"}
		}
		rs = append(rs, serve.RewardRequest{EventID: events[x.SlotID], Value: *x.Value, Caller: caller(ctx)})
	}
	items, err := a.svc.RewardBatch(ctx, rs)
	if err != nil {
		return err
	}
	for _, item := range items {
		a.metrics.reward(item.Result.Status, item.Err)
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

func (a *API) multiSlotActivate(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	if err := a.allow(ctx, Decide, model); err != nil {
		return err
	}
	events, err := a.slotEvents(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	for _, id := range events {
		if _, err := a.svc.Activate(ctx, id, caller(ctx)); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
