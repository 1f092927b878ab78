package personalizer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"troupe/serve"
	"troupe/serve/api"
)

// The calls of Azure Personalizer that change settings, models and logs. Those with a counterpart here do it;
// each of the others is answered 501 with the words of unsupported, because a bare 404 would look like a wrong address.

// unsupported are the calls without a counterpart and what to do instead.
var unsupported = []struct {
	method, path string
	scope        api.Scope
	instead      string
}{
	{"PUT", "/model", api.Admin, "models of that service are not read; POST /v1/models/NAME:createFrom makes a model " +
		"from a file of this server or of troupe train, :clone copies a model with its state, :rollback goes back to " +
		"an earlier state"},
	{"DELETE", "/logs", api.Admin, "the log is not deleted by a call, because models are computed from it; troupe serve " +
		"--keep 720h lets go of what is older"},
	{"POST", "/logs/interactions", api.Decide, "decisions that were made elsewhere are not taken into the log; ask for " +
		"each with rank, or decide in the learning mode LoggingOnly"},
	{"POST", "/logs/observations", api.Reward, "rewards in a file are not taken; send each to events/{eventId}/reward, " +
		"or up to 10,000 to /v1/rewards:batch"},
	{"POST", "/configurations/applyFromEvaluation", api.Admin,
		"a model keeps its policy; make another one with the policy that troupe evaluate found better: POST " +
			"/v1/models/NAME:clone with policy, or troupe train and POST /v1/models/NAME:createFrom"},
}

// putPolicy takes the policy that the model has, as a client does that copies its settings, and no other.
func (a *settingCalls) putPolicy(w http.ResponseWriter, r *http.Request, model string) error {
	b, _, err := readCall[policyAnswer](a.edge, w, r, api.Admin, model)
	if err != nil {
		return err
	}
	m, err := a.models.GetModel(r.Context(), model)
	if err != nil {
		return err
	}
	var given map[string]any
	if err := json.Unmarshal([]byte(b.Arguments), &given); err != nil || given == nil {
		return refuse("arguments",
			"is not a policy's kind and options in JSON, as GET answers them; learning settings of Vowpal "+
				"Wabbit have no meaning here")
	}
	now, err := policyOf(m)
	if err != nil {
		return err
	}
	var current map[string]any
	if err := json.Unmarshal([]byte(now.Arguments), &current); err != nil {
		return err
	}
	if !reflect.DeepEqual(given, current) {
		return api.Refuse("not_supported", "arguments",
			"a model keeps its policy, because its state belongs to it; make another model with this policy, with "+
				"POST /v1/models")
	}
	return answerJSON(w, http.StatusOK, now)
}

// resetPolicy answers the policy: it is the one that the model was made with, because no call changes it.
func (a *settingCalls) resetPolicy(w http.ResponseWriter, r *http.Request, model string) error {
	if err := a.edge.Allow(r.Context(), api.Admin, model); err != nil {
		return err
	}
	m, err := a.models.GetModel(r.Context(), model)
	if err != nil {
		return err
	}
	now, err := policyOf(m)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, now)
}

// resetModel takes the model back to its beginning, that service's empty model. The log keeps everything, and so the
// reset can be taken back too, by another rollback or a clone.
func (a *settingCalls) resetModel(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	if err := a.edge.Allow(ctx, api.Admin, model); err != nil {
		return err
	}
	m, err := a.models.GetModel(ctx, model)
	if err != nil {
		return err
	}
	if _, err := a.models.RollbackModel(ctx, serve.RollbackRequest{Name: model, ToSeq: m.Created.Seq, KeepLater: true,
		Caller: a.edge.Caller(ctx)}); err != nil {
		return fmt.Errorf("reset of the model: %w", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
