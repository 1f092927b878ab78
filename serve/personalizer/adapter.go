package personalizer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"troupe/serve"
	"troupe/serve/api"
)

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

// Adapter is the API of Azure Personalizer in front of a service. It is an [api.Adapter].
type Adapter struct {
	model       string // behind /personalizer/v1.0
	edge        api.Edge
	decider     decider
	models      models
	history     history
	finder      keyFinder // nil when the service does not find events by their keys
	evaluations evaluations
}

// New returns an adapter whose routes under /personalizer/v1.0 are for the model of this name, "personalizer" when it
// is empty. Those under /v1/models/NAME/personalizer/v1.0 are for every model.
func New(model string) *Adapter {
	if model == "" {
		model = "personalizer"
	}
	return &Adapter{model: model}
}

// Tag implements [api.Adapter].
func (a *Adapter) Tag() (tag, title string) { return "personalizer", "Azure Personalizer" }

// Owns implements [api.Adapter].
func (a *Adapter) Owns(path string) bool {
	return strings.HasPrefix(path, "/personalizer/") ||
		strings.HasPrefix(path, "/v1/models/") && strings.Contains(path, "/personalizer/")
}

// Class implements [api.Adapter].
func (a *Adapter) Class(path string) api.Class {
	switch path[strings.LastIndexAny(path, "/:")+1:] {
	case "rank":
		return api.Deciding
	case "reward", "activate":
		return api.Feedback
	}
	return api.Other
}

// Config returns a model with the defaults of that service: a fifth of the traffic explores uniformly, a missing reward
// is 0, the first reward within ten minutes counts.
func Config(name string) serve.ModelConfig {
	c := serve.DefaultConfig(name)
	c.Floor = 0.2
	c.Reward.Default = serve.Maybe{Set: true}
	return c
}

// serve finds the model of a call and answers errors in that service's form.
func (a *Adapter) serve(w http.ResponseWriter, r *http.Request,
	handle func(w http.ResponseWriter, r *http.Request, model string) error) {
	model := r.PathValue("model")
	named := model != ""
	if !named {
		model = a.model
	}
	var err error = api.Refuse("not_found", "", "this version of the API is not here; v1.0 is")
	if v := r.PathValue("version"); v == "v1.0" || v == "v1.1" || strings.HasPrefix(v, "v1.1-preview.") {
		err = handle(w, r, model)
	}
	if !named && serve.CodeOf(err) == serve.NotFound {
		if _, none := a.models.GetModel(r.Context(), model); serve.CodeOf(none) == serve.NotFound {
			err = api.Refuse("not_found", "", fmt.Sprintf("there is no model %q; troupe serve --personalizer NAME puts "+
				"a model behind these routes", model))
		}
	}
	if err != nil {
		a.edge.Fail(w, r, err)
	}
}

// refuse refuses a field of a request.
func refuse(field, want string) error { return api.Refuse("invalid", field, want) }

// readCall checks the key of a call about a model and reads its body.
func readCall[B any](a *Adapter, w http.ResponseWriter, r *http.Request, scope api.Scope, model string) (b B,
	raw []byte, err error) {
	if err := a.edge.Allow(r.Context(), scope, model); err != nil {
		return b, nil, err
	}
	raw, err = a.edge.Body(w, r, &b)
	return b, raw, err
}

func (a *Adapter) readModel(r *http.Request, model string) (serve.Model, error) {
	if err := a.edge.Allow(r.Context(), api.Read, model); err != nil {
		return serve.Model{}, err
	}
	return a.models.GetModel(r.Context(), model)
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
