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

// rankCalls decide, and take what became of the decisions.
type rankCalls struct {
	edge    api.Edge
	decider decider
	models  models
	finder  keyFinder // nil when the service does not find events by their keys
}

type rankBody struct {
	ContextFeatures json.RawMessage `json:"contextFeatures" required:"false" doc:"list of objects with the features of the context"`
	Actions         []rankAction    `json:"actions" doc:"the actions to choose from"`
	ExcludedActions []string        `json:"excludedActions" required:"false" doc:"names of actions that are ranked and not chosen"`
	EventID         string          `json:"eventId" required:"false" doc:"id of the event; without it the server makes one"`
	DeferActivation bool            `json:"deferActivation" required:"false" doc:"the event counts only after it is activated"`
}

type rankAction struct {
	ID       string          `json:"id" doc:"name of the action"`
	Features json.RawMessage `json:"features" required:"false" doc:"list of objects with the features of the action"`
}

type rankAnswer struct {
	Ranking        []ranked `json:"ranking" doc:"all actions with their probabilities, in the order of the request"`
	EventID        string   `json:"eventId" doc:"id of the event: send it with the reward"`
	RewardActionID string   `json:"rewardActionId" doc:"the action to show"`
}

// ranked has no probability in the answer to a repeated call, except that of the chosen action.
type ranked struct {
	ID          string   `json:"id" doc:"name of the action"`
	Probability *float64 `json:"probability,omitempty" doc:"probability with which the action was chosen"`
}

type rankReward struct {
	Value *float64 `json:"value" doc:"the reward"`
}

func (a *rankCalls) rank(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, _, err := readCall[rankBody](a.edge, w, r, api.Decide, model)
	if err != nil {
		return err
	}
	req, err := b.request(ctx, a.edge, a.finder != nil)
	if err != nil {
		return err
	}
	if err := a.firstFree(ctx, model, &req); err != nil {
		return err
	}
	d, err := a.decider.Decide(ctx, model, req)
	if req.Baseline == nil && wantsBaseline(err) { // of a guarded model it is the first action
		req.Baseline = new(0)
		d, err = a.decider.Decide(ctx, model, req)
	}
	if err != nil {
		return err
	}
	out := rankAnswer{Ranking: b.ranking(&d), EventID: b.EventID, RewardActionID: d.Action.ID}
	if out.EventID == "" {
		out.EventID = d.EventID
	}
	return answerJSON(w, http.StatusCreated, out)
}

// playsBaseline reports whether a model may play a baseline.
func playsBaseline(m serve.Model) bool {
	return m.Config.Mode == string(serve.Apprentice) || m.Config.Mode == string(serve.Shadow) ||
		m.Config.Mode == string(serve.Guarded)
}

// wantsBaseline reports whether a decision was refused because it has no baseline, or is another one than was recorded
// for its id, perhaps by that.
func wantsBaseline(err error) bool {
	var e *serve.Error
	return errors.As(err, &e) && (e.Code == serve.Invalid && e.Field == "baseline" || e.Code == serve.Conflict)
}

// firstFree makes the first action that is not excluded the baseline of a model that plays one, unless it is the first
// of all: that is what a request without a baseline means in the modes apprentice and shadow.
func (a *rankCalls) firstFree(ctx context.Context, model string, r *serve.DecideRequest) error {
	at := slices.IndexFunc(r.Actions, func(x serve.Action) bool { return !slices.Contains(r.Exclude, x.ID) })
	if at <= 0 {
		return nil
	}
	m, err := a.models.GetModel(ctx, model)
	if err == nil && playsBaseline(m) {
		r.Baseline = &at
	}
	return err
}

// request translates a rank of the caller that ctx has into a decision. keyed: events are found by the caller's ids.
func (b *rankBody) request(ctx context.Context, edge api.Edge, keyed bool) (serve.DecideRequest, error) {
	none := serve.DecideRequest{}
	if len(b.Actions) == 0 {
		return none, refuse("actions", "is empty, expected at least one action")
	}
	if n := len(b.Actions); n > edge.MaxActions() {
		return none, api.Refuse("too_large", "actions",
			fmt.Sprintf("has %d entries, at most %d are allowed (--max-actions of the server)", n, edge.MaxActions()))
	}
	if len(b.EventID) > 256 {
		return none, refuse("eventId", "has more than 256 bytes")
	}
	if !keyed && b.EventID != "" {
		return none, refuse("eventId", "cannot be chosen with this service; leave it out and use the one in the answer")
	}
	req := serve.DecideRequest{
		Context: notNull(b.ContextFeatures), Exclude: b.ExcludedActions, Deferred: b.DeferActivation,
		IdempotencyKey: b.EventID, Explain: true, NoNumbers: true, OneReward: true, Caller: edge.Caller(ctx),
	}
	for i, x := range b.Actions {
		if x.ID == "" {
			return none, refuse(fmt.Sprintf("actions[%d].id", i), "is missing")
		}
		if err := api.CleanID(fmt.Sprintf("actions[%d].id", i), x.ID); err != nil {
			return none, err
		}
		req.Actions = append(req.Actions, serve.Action{ID: x.ID, Features: notNull(x.Features)})
	}
	return req, nil
}

func notNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// ranking orders the actions by their probability; excluded ones keep their places with
// probability 0, as they did there. With a baseline that is played, the baseline has all of it.
func (b *rankBody) ranking(d *serve.Decision) []ranked {
	p := map[string]*float64{}
	number := func(v float64) *float64 { return &v }
	switch {
	case d.Would != nil:
		for _, x := range b.Actions {
			p[x.ID] = number(0)
		}
	case len(d.Explain) > 0:
		for _, x := range d.Explain {
			p[x.ID] = number(x.Propensity.Float())
		}
	}
	for _, id := range b.ExcludedActions {
		p[id] = number(0)
	}
	p[d.Action.ID] = number(d.Propensity.Float())
	value := func(id string) float64 {
		if p[id] == nil {
			return 0
		}
		return *p[id]
	}
	var free []string
	for _, x := range b.Actions {
		if !slices.Contains(b.ExcludedActions, x.ID) {
			free = append(free, x.ID)
		}
	}
	slices.SortStableFunc(free, func(x, y string) int {
		switch {
		case value(x) > value(y):
			return -1
		case value(x) < value(y):
			return 1
		}
		return 0
	})
	var out []ranked
	for _, x := range b.Actions {
		id := x.ID
		if !slices.Contains(b.ExcludedActions, id) {
			id, free = free[0], free[1:]
		}
		out = append(out, ranked{id, p[id]})
	}
	return out
}

// eventOf finds the event of an id that is the caller's or ours.
func (a *rankCalls) eventOf(ctx context.Context, model, id string) (string, error) {
	if len(id) > 256 {
		return "", refuse("eventId", "has more than 256 bytes")
	}
	if a.finder == nil {
		return id, nil
	}
	found, err := a.finder.EventOfKey(ctx, model, id)
	switch {
	case err == nil:
		return found, nil
	case serve.CodeOf(err) == serve.NotFound:
		return id, nil
	}
	return "", err
}

// noEvent answers 404 to an unknown event id, as these clients expect.
func noEvent(err error) error {
	if err != nil && serve.CodeOf(err) == serve.BadEventID {
		return api.Refuse("not_found", "eventId", "there is no such event")
	}
	return err
}

func (a *rankCalls) reward(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, _, err := readCall[rankReward](a.edge, w, r, api.Reward, model)
	if err != nil {
		return err
	}
	if b.Value == nil {
		return refuse("value", "is missing, expected a number")
	}
	if err := theirRange(ctx, a.models, model, "value", *b.Value); err != nil {
		return err
	}
	id, err := a.eventOf(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	result, err := a.decider.Reward(ctx, serve.RewardRequest{EventID: id, Value: *b.Value, Caller: a.edge.Caller(ctx),
		Allow: a.edge.AllowsModel(ctx, api.Reward)})
	a.edge.Rewarded(result.Status, err)
	if err != nil {
		return noEvent(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// theirRange refuses a reward outside [−1, 1], as that service did, unless the model declares a range: a range
// that the data widen would take it, and one wrong reward would change the scale of all others.
func theirRange(ctx context.Context, models models, model, field string, y float64) error {
	if y >= -1 && y <= 1 {
		return nil
	}
	m, err := models.GetModel(ctx, model)
	if err != nil {
		return err
	}
	if m.Config.Reward.Adapt {
		return refuse(field, "expected a number in [-1, 1]; for others make the model with "+
			"reward.min and reward.max")
	}
	return nil
}

func (a *rankCalls) activate(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	if err := a.edge.Allow(ctx, api.Decide, model); err != nil {
		return err
	}
	id, err := a.eventOf(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	if err := a.edge.AllowEvent(ctx, api.Decide, id); err != nil {
		return noEvent(err)
	}
	if _, err := a.decider.Activate(ctx, id, a.edge.Caller(ctx)); err != nil {
		return noEvent(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
