package personalizer

import (
	"fmt"
	"net/http"
	"strings"

	"troupe/serve"
	"troupe/serve/api"
)

// Adapter is the API of Azure Personalizer in front of a service. It is an [api.Adapter].
type Adapter struct {
	model       string // behind /personalizer/v1.0
	edge        api.Edge
	models      models
	evaluations evaluationCalls
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

// Close implements [api.Adapter]: it ends the evaluations that are under way.
func (a *Adapter) Close() { a.evaluations.close() }
