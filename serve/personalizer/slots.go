package personalizer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"troupe/serve"
	"troupe/serve/api"
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

// slotCalls are rankCalls for several places on a page.
type slotCalls struct {
	edge    api.Edge
	decider decider
	models  models
	finder  keyFinder // nil when the service does not find events by their keys
}

type slotsBody struct {
	ContextFeatures json.RawMessage `json:"contextFeatures" required:"false" doc:"list of objects with the features of the context"`
	Actions         []rankAction    `json:"actions" doc:"the actions to choose from, at least as many as slots"`
	Slots           []slotBody      `json:"slots" doc:"the slots to fill, in order"`
	EventID         string          `json:"eventId" required:"false" doc:"id of the event; without it the server makes one"`
	DeferActivation bool            `json:"deferActivation" required:"false" doc:"the event counts only after it is activated"`
}

type slotBody struct {
	ID              string            `json:"id" doc:"name of the slot"`
	Features        []json.RawMessage `json:"features" required:"false" doc:"list of objects with the features of the slot"`
	ExcludedActions []string          `json:"excludedActions" required:"false" doc:"names of actions that may not stand in the slot"`
	BaselineAction  string            `json:"baselineAction" required:"false" doc:"name of the action that the application would show"`
}

type slotsAnswer struct {
	Slots   []slotAnswer `json:"slots" doc:"the action of each slot"`
	EventID string       `json:"eventId" doc:"id of the event: send it with the rewards"`
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

// slotKey is the idempotency key of one slot of a call.
func slotKey(eventID string, slot int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "slot %d of %s", slot, eventID))
	return "slot-" + hex.EncodeToString(sum[:])
}

func (a *slotCalls) rank(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, _, err := readCall[slotsBody](a.edge, w, r, api.Decide, model)
	if err != nil {
		return err
	}
	one := rankBody{Actions: b.Actions, EventID: b.EventID, DeferActivation: b.DeferActivation}
	base, err := one.request(ctx, a.edge, a.finder != nil)
	if err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	m, err := a.models.GetModel(ctx, model)
	if err != nil {
		return err
	}
	if m.Config.Mode == string(serve.Guarded) {
		return refuse("slots", "do not go with a guarded model: what one slot plays may be the baseline of another; "+
			"rank for each slot")
	}
	baseline := playsBaseline(m)
	if b.EventID == "" {
		b.EventID = rand.Text()
	}
	out := slotsAnswer{EventID: b.EventID}
	taken, allowed := map[int]bool{}, b.allowed()
	for i, slot := range b.Slots {
		req := base
		req.IdempotencyKey, req.Slot, req.Explain = slotKey(b.EventID, i), slot.ID, false
		if req.Context, err = slotContext(b.ContextFeatures, slot); err != nil {
			return err
		}
		// A slot may have what it does not exclude, what is not taken, and what no later slot needs.
		later, ok := needed(allowed[i+1:], taken)
		free := make([]bool, len(b.Actions))
		for _, k := range allowed[i] {
			free[k] = ok && !taken[k] && !later[k]
		}
		if !slices.Contains(free, true) {
			return refuse(fmt.Sprintf("slots[%d].excludedActions", i), "leaves no action for each slot")
		}
		req.Exclude, req.Available = nil, free
		if baseline {
			at := slices.IndexFunc(b.Actions, func(x rankAction) bool { return x.ID == slot.BaselineAction })
			if at < 0 || !free[at] {
				return refuse(fmt.Sprintf("slots[%d].baselineAction", i), "is not an action that this slot may have")
			}
			req.Baseline = &at
		}
		d, err := a.decider.Decide(ctx, model, req)
		if err != nil {
			return err
		}
		taken[d.Action.Index] = true
		out.Slots = append(out.Slots, slotAnswer{slot.ID, d.Action.ID})
	}
	return answerJSON(w, http.StatusCreated, out)
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

// allowed lists, for each slot, the places of the actions that it does not exclude.
func (b *slotsBody) allowed() [][]int {
	out := make([][]int, len(b.Slots))
	for i, slot := range b.Slots {
		not := map[string]bool{}
		for _, id := range slot.ExcludedActions {
			not[id] = true
		}
		for k, x := range b.Actions {
			if !not[x.ID] {
				out[i] = append(out[i], k)
			}
		}
	}
	return out
}

// needed finds the actions that the slots cannot do without: when one of them goes, no longer every
// slot can have an action of its own among those that are not taken. ok is false when that is so
// already. Only the slots with few actions matter, the others find one whatever happens; those are
// matched by augmenting paths, and an action of the matching is needed when there is no path round it.
func needed(allowed [][]int, taken map[int]bool) (out map[int]bool, ok bool) {
	var tight [][]int
	for _, all := range allowed {
		free := slices.DeleteFunc(slices.Clone(all), func(k int) bool { return taken[k] })
		if len(free) <= len(allowed) {
			tight = append(tight, free)
		}
	}
	has := map[int]int{} // which slot an action is given to
	var give func(slot int, tried map[int]bool) bool
	give = func(slot int, tried map[int]bool) bool {
		for _, k := range tight[slot] {
			if tried[k] {
				continue
			}
			tried[k] = true
			if other, used := has[k]; !used || give(other, tried) {
				has[k] = slot
				return true
			}
		}
		return false
	}
	for slot := range tight {
		if !give(slot, map[int]bool{}) {
			return nil, false
		}
	}
	out = map[int]bool{}
	for k := range maps.Clone(has) { // every matching has what is needed, so this one has
		before := maps.Clone(has)
		slot, used := has[k]
		if !used {
			continue // the matching of the moment does without
		}
		delete(has, k)
		if !give(slot, map[int]bool{k: true}) {
			out[k], has = true, before
		}
	}
	return out, true
}

// slotContext is the context of the call with the slot's id and features.
func slotContext(context json.RawMessage, slot slotBody) (json.RawMessage, error) {
	var all []json.RawMessage
	switch context = notNull(context); {
	case len(context) > 0 && context[0] == '[':
		if err := json.Unmarshal(context, &all); err != nil {
			return nil, refuse("contextFeatures", "cannot be read")
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

// events returns the events of a call by the ids of their slots, not_found when there are none.
func (a *slotCalls) events(ctx context.Context, model, eventID string) (map[string]string, error) {
	if len(eventID) > 256 {
		return nil, refuse("eventId", "has more than 256 bytes")
	}
	out := map[string]string{}
	for i := 0; a.finder != nil && i < maxSlots; i++ {
		id, err := a.finder.EventOfKey(ctx, model, slotKey(eventID, i))
		if serve.CodeOf(err) == serve.NotFound && i > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		owner, err := a.decider.Owner(ctx, id)
		if err != nil {
			return nil, err
		}
		out[owner.Slot] = id
	}
	if len(out) == 0 {
		return nil, api.Refuse("not_found", "eventId", "there is no such event")
	}
	return out, nil
}

func (a *slotCalls) reward(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, _, err := readCall[slotRewards](a.edge, w, r, api.Reward, model)
	if err != nil {
		return err
	}
	events, err := a.events(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	if n := len(b.Reward); n == 0 || n > maxSlots {
		return refuse("reward", fmt.Sprintf("has %d entries, expected 1 to %d", n, maxSlots))
	}
	var rs []serve.RewardRequest
	for i, x := range b.Reward {
		at := fmt.Sprintf("reward[%d].", i)
		switch {
		case x.Value == nil:
			return refuse(at+"value", "is missing, expected a number")
		case events[x.SlotID] == "":
			return refuse(at+"slotId", "is not a slot of this event")
		}
		if err := theirRange(ctx, a.models, model, at+"value", *x.Value); err != nil {
			return err
		}
		rs = append(rs, serve.RewardRequest{EventID: events[x.SlotID], Value: *x.Value, Caller: a.edge.Caller(ctx)})
	}
	items, err := a.decider.RewardBatch(ctx, rs)
	if err != nil {
		return err
	}
	for _, item := range items {
		a.edge.Rewarded(item.Result.Status, item.Err)
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

func (a *slotCalls) activate(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	if err := a.edge.Allow(ctx, api.Decide, model); err != nil {
		return err
	}
	events, err := a.events(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	for _, id := range events {
		if _, err := a.decider.Activate(ctx, id, a.edge.Caller(ctx)); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
