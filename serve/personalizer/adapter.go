package personalizer

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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

// call is a row of the table of routes. Its answer and its body are values of their types.
type call struct {
	doc    api.RouteDoc
	method string
	handle func(w http.ResponseWriter, r *http.Request, model string) error
}

// prefixes are where the routes are: for the adapter's model, and for each model.
var prefixes = []string{"/personalizer/{version}", "/v1/models/{model}/personalizer/{version}"}

// parameters are the names in the paths.
var parameters = map[string]string{"model": "name of the model",
	"event": "the caller's id of the event, or the one of the answer", "evaluation": "id of the evaluation"}

// examples are the bodies in the OpenAPI document, ID.request.json. A test sends each of them to a server.
//
//go:embed testdata/examples/*.json
var examples embed.FS

// Routes implements [api.Adapter].
func (a *Adapter) Routes(e api.Edge, svc serve.Service) (out []api.Route) {
	a.edge, a.decider, a.models, a.history = e, svc, svc, svc
	a.finder, _ = svc.(keyFinder)
	add := func(method, path string, doc *api.RouteDoc,
		handle func(w http.ResponseWriter, r *http.Request, model string) error) {
		r := api.Route{Method: method, Doc: doc,
			Serve: func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, handle) }}
		for _, prefix := range prefixes {
			r.Patterns = append(r.Patterns, prefix+path)
		}
		out = append(out, r)
	}
	for _, c := range slices.Concat(a.rankCalls(), a.configurationCalls(), a.readCalls(), a.evaluationCalls()) {
		path := c.doc.Path
		c.doc.Path = "/v1/models/{model}/personalizer/v1.0" + path
		c.doc.Fault = theirError{}
		if b, err := examples.ReadFile("testdata/examples/" + c.doc.ID + ".request.json"); err == nil {
			c.doc.Example = b
		}
		c.doc.Parameters = parameters
		add(c.method, path, &c.doc, c.handle)
	}
	for _, u := range unsupported {
		add(u.method, u.path, nil, func(_ http.ResponseWriter, r *http.Request, model string) error {
			if err := a.edge.Allow(r.Context(), u.scope, model); err != nil {
				return err
			}
			return api.Refuse("not_supported", "", u.instead)
		})
	}
	return out
}

func (a *Adapter) rankCalls() []call {
	return []call{
		{api.RouteDoc{ID: "rank", Path: "/rank", Scope: api.Decide, Status: 201, Body: rankBody{},
			Answer: rankAnswer{}, Summary: "Rank"}, "POST", a.rank},
		{api.RouteDoc{ID: "rankReward", Path: "/events/{event}/reward", Scope: api.Reward, Status: 204,
			Body: rankReward{}, Summary: "Reward"}, "POST", a.rankReward},
		{api.RouteDoc{ID: "rankActivate", Path: "/events/{event}/activate", Scope: api.Decide, Status: 204,
			Summary: "Activate"}, "POST", a.rankActivate},
		{api.RouteDoc{ID: "multiSlotRank", Path: "/multislot/rank", Scope: api.Decide, Status: 201, Body: slotsBody{},
			Answer: slotsAnswer{}, Summary: "Rank several slots", Text: "No action is given to two slots."},
			"POST", a.multiSlotRank},
		{api.RouteDoc{ID: "multiSlotReward", Path: "/multislot/events/{event}/reward", Scope: api.Reward, Status: 204,
			Body: slotRewards{}, Summary: "Reward slots"}, "POST", a.multiSlotReward},
		{api.RouteDoc{ID: "multiSlotActivate", Path: "/multislot/events/{event}/activate", Scope: api.Decide,
			Status: 204, Summary: "Activate all slots"}, "POST", a.multiSlotActivate},
	}
}

func (a *Adapter) configurationCalls() []call {
	return []call{
		{api.RouteDoc{ID: "getServiceConfig", Path: "/configurations/service", Scope: api.Read, Answer: serviceConfig{},
			Summary: "Read the service configuration"}, "GET", a.getServiceConfig},
		{api.RouteDoc{ID: "putServiceConfig", Path: "/configurations/service", Scope: api.Admin, Body: serviceConfig{},
			Answer: serviceConfig{}, Summary: "Change the service configuration"}, "PUT", a.putServiceConfig},
		{api.RouteDoc{ID: "getPolicy", Path: "/configurations/policy", Scope: api.Read, Answer: policyAnswer{},
			Summary: "Read the policy's kind and options"}, "GET", a.getPolicy},
		{api.RouteDoc{ID: "putPolicy", Path: "/configurations/policy", Scope: api.Admin, Body: policyAnswer{},
			Answer: policyAnswer{}, Summary: "Send the policy's kind and options back",
			Text: "A model keeps its policy: another one is answered 501 not_supported."}, "PUT", a.putPolicy},
		{api.RouteDoc{ID: "resetPolicy", Path: "/configurations/policy", Scope: api.Admin, Answer: policyAnswer{},
			Summary: "Go back to the policy that the model was made with",
			Text:    "No call changes it, so this reads it."}, "DELETE", a.resetPolicy},
	}
}

func (a *Adapter) readCalls() []call {
	return []call{
		{api.RouteDoc{ID: "getPolicyState", Path: "/model", Scope: api.Read, Summary: "Read the policy's snapshot"},
			"GET", a.getPolicyState},
		{api.RouteDoc{ID: "resetModel", Path: "/model", Scope: api.Admin, Status: 204,
			Summary: "Take the model back to its beginning",
			Text:    "A rollback: the log keeps what came after, and rewards that are still to come count."},
			"DELETE", a.resetModel},
		{api.RouteDoc{ID: "getModelProperties", Path: "/model/properties", Scope: api.Read, Answer: modelProperties{},
			Summary: "Read when the model was made and changed"}, "GET", a.getModelProperties},
		{api.RouteDoc{ID: "getLogProperties", Path: "/logs/properties", Scope: api.Read, Answer: logProperties{},
			Summary: "Read the time of the first and the last decision"}, "GET", a.getLogProperties},
	}
}

func (a *Adapter) evaluationCalls() []call {
	return []call{
		{api.RouteDoc{ID: "listEvaluations", Path: "/evaluations", Scope: api.Read, Answer: []evaluationAnswer{},
			Summary: "List the evaluations of the log",
			Text:    "They are kept in memory: until the server stops, the newest 16 of a model."},
			"GET", a.listEvaluations},
		{api.RouteDoc{ID: "createEvaluation", Path: "/evaluations", Scope: api.Admin, Status: 201,
			Body: evaluationBody{}, Answer: evaluationAnswer{}, Summary: "Evaluate the log",
			Text: "What the policy that ran, the first candidate and uniform play earned or would have earned. It " +
				"runs beside the requests, one at a time."}, "POST", a.createEvaluation},
		{api.RouteDoc{ID: "getEvaluation", Path: "/evaluations/{evaluation}", Scope: api.Read,
			Answer: evaluationAnswer{}, Summary: "Read an evaluation"}, "GET", a.getEvaluation},
		{api.RouteDoc{ID: "deleteEvaluation", Path: "/evaluations/{evaluation}", Scope: api.Admin, Status: 204,
			Summary: "Delete an evaluation", Text: "One that is under way ends."}, "DELETE", a.deleteEvaluation},
	}
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
