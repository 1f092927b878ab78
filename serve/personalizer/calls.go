package personalizer

import (
	"context"
	"encoding/json"
	"net/http"

	"troupe/serve"
	"troupe/serve/api"
)

// call is a row of the table of routes. Its answer and its body are values of their types.
type call struct {
	doc    api.RouteDoc
	method string
	handle func(w http.ResponseWriter, r *http.Request, model string) error
}

// decider makes decisions and takes what became of them.
type decider interface {
	Decide(ctx context.Context, model string, r serve.DecideRequest) (serve.Decision, error)
	Reward(ctx context.Context, r serve.RewardRequest) (serve.RewardResult, error)
	RewardBatch(ctx context.Context, rs []serve.RewardRequest) ([]serve.RewardItem, error)
	Activate(ctx context.Context, eventID, caller string) (serve.ActivateResult, error)
	Owner(ctx context.Context, eventID string) (serve.Owner, error)
}

// models reads models and takes them back.
type models interface {
	GetModel(ctx context.Context, name string) (serve.Model, error)
	RollbackModel(ctx context.Context, r serve.RollbackRequest) (serve.Model, error)
	State(ctx context.Context, model string) (serve.StateView, error)
}

// history reads the decisions in the log.
type history interface {
	Decisions(ctx context.Context, model string, from uint64, entries int) (serve.DecisionPage, error)
}

// keyFinder is an optional ability of a service, for event ids that callers choose.
type keyFinder interface {
	// EventOfKey returns the id of the event that a decision with this idempotency key made,
	// NotFound when it does not remember one.
	EventOfKey(ctx context.Context, model, key string) (eventID string, err error)
}

// refuse refuses a field of a request.
func refuse(field, want string) error { return api.Refuse("invalid", field, want) }

// readCall checks the key of a call about a model and reads its body.
func readCall[B any](edge api.Edge, w http.ResponseWriter, r *http.Request, scope api.Scope, model string) (b B,
	raw []byte, err error) {
	if err := edge.Allow(r.Context(), scope, model); err != nil {
		return b, nil, err
	}
	raw, err = edge.Body(w, r, &b)
	return b, raw, err
}

// readModel checks the key of a call that reads a model, and reads it.
func readModel(edge api.Edge, models models, r *http.Request, model string) (serve.Model, error) {
	if err := edge.Allow(r.Context(), api.Read, model); err != nil {
		return serve.Model{}, err
	}
	return models.GetModel(r.Context(), model)
}

func answerJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // fails only when the client has left
	return nil
}
