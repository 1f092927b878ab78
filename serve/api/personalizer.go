package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/serve"
)

// The adapter for clients of Azure Personalizer, which was discontinued. A client changes its base URL, to
// this server for the model Options.Personalizer or to …/v1/models/NAME for another one, and sends
// what it always sent. docs/guide/migrating-from-personalizer.md is the user's page.
//
// Their event ids are names that the caller chose. Such a name becomes the idempotency key of the
// decision, and EventOfKey finds the event again; a rank without one is answered with an id of ours.

// keyFinder is an optional ability of a service, for event ids that callers choose.
type keyFinder interface {
	// EventOfKey returns the id of the event that a decision with this idempotency key made,
	// NotFound when it does not remember one.
	EventOfKey(ctx context.Context, model, key string) (eventID string, err error)
}

// PersonalizerConfig returns a model with the defaults of that service: a fifth of the traffic
// explores uniformly, a missing reward is 0, the first reward within ten minutes counts.
func PersonalizerConfig(name string) serve.ModelConfig {
	c := serve.DefaultConfig(name)
	c.Floor = 0.2
	c.Reward.Default = serve.Maybe{Set: true}
	return c
}

type rankBody struct {
	ContextFeatures json.RawMessage `json:"contextFeatures" required:"false"`
	Actions         []rankAction    `json:"actions"`
	ExcludedActions []string        `json:"excludedActions" required:"false"`
	EventID         string          `json:"eventId" required:"false"`
	DeferActivation bool            `json:"deferActivation" required:"false"`
}

type rankAction struct {
	ID       string          `json:"id"`
	Features json.RawMessage `json:"features" required:"false"`
}

type rankAnswer struct {
	Ranking        []ranked `json:"ranking"`
	EventID        string   `json:"eventId"`
	RewardActionID string   `json:"rewardActionId"`
}

// ranked has no probability in the answer to a repeated call, except that of the chosen action.
type ranked struct {
	ID          string   `json:"id"`
	Probability *float64 `json:"probability,omitempty"`
}

type rankReward struct {
	Value *float64 `json:"value"`
}

// serviceConfig is the body of configurations/service. The last fields are taken and have no
// meaning here: models are published after each batch of the log, and the log is kept.
type serviceConfig struct {
	RewardWaitTime        string  `json:"rewardWaitTime"`
	DefaultReward         float64 `json:"defaultReward" required:"false"`
	RewardAggregation     string  `json:"rewardAggregation" required:"false"`
	ExplorationPercentage float64 `json:"explorationPercentage" required:"false"`
	LearningMode          string  `json:"learningMode,omitempty"`

	ModelExportFrequency       string `json:"modelExportFrequency" required:"false"`
	LogRetentionDays           int    `json:"logRetentionDays" required:"false"`
	LogMirrorEnabled           bool   `json:"logMirrorEnabled" required:"false"`
	LogMirrorSasURI            string `json:"logMirrorSasUri,omitempty"`
	LastConfigurationEditDate  string `json:"lastConfigurationEditDate,omitempty"`
	IsAutoOptimizationEnabled  bool   `json:"isAutoOptimizationEnabled" required:"false"`
	AutoOptimizationFrequency  string `json:"autoOptimizationFrequency,omitempty"`
	AutoOptimizationStartDate  string `json:"autoOptimizationStartDate,omitempty"`
	LatestLearningSettings     string `json:"latestLearningSettings,omitempty"`
	LatestLearningSettingsDate string `json:"latestLearningSettingsDate,omitempty"`
}

var (
	aggregations  = [][2]string{{"first", "earliest"}, {"sum", "sum"}}
	learningModes = [][2]string{{"online", "Online"}, {"apprentice", "Apprentice"}, {"shadow", "LoggingOnly"}}
)

// theirs and ours translate a word; an unknown one stays as it is.
func theirs(table [][2]string, word string) string { return translate(table, word, 0, 1) }
func ours(table [][2]string, word string) string   { return translate(table, word, 1, 0) }

// known reports whether a table has their word.
func known(table [][2]string, word string) bool {
	return slices.ContainsFunc(table, func(row [2]string) bool { return strings.EqualFold(row[1], word) })
}

func translate(table [][2]string, word string, from, to int) string {
	for _, row := range table {
		if strings.EqualFold(row[from], word) {
			return row[to]
		}
	}
	return word
}

// personalizerPrefixes are where the routes are: for the model Options.Personalizer, and for each model.
var personalizerPrefixes = []string{"/personalizer/{version}", "/v1/models/{model}/personalizer/{version}"}

func (a *API) personalizerRoutes() {
	for _, p := range []struct {
		o      op
		handle func(http.ResponseWriter, *http.Request, string) error
		answer any
	}{
		{op{id: "rank", method: "POST", path: "/rank", scope: Decide, status: 201, body: rankBody{}, summary: "Rank"},
			a.rank, rankAnswer{}},
		{op{id: "rankReward", method: "POST", path: "/events/{event}/reward", scope: Reward, status: 204,
			body: rankReward{}, summary: "Reward"}, a.rankReward, nil},
		{op{id: "rankActivate", method: "POST", path: "/events/{event}/activate", scope: Decide, status: 204,
			summary: "Activate"}, a.rankActivate, nil},
		{op{id: "multiSlotRank", method: "POST", path: "/multislot/rank", scope: Decide, status: 201, body: slotsBody{},
			summary: "Rank several slots",
			doc:     "No action is given to two slots."}, a.multiSlotRank, slotsAnswer{}},
		{op{id: "multiSlotReward", method: "POST", path: "/multislot/events/{event}/reward", scope: Reward, status: 204,
			body:    slotRewards{},
			summary: "Reward slots"}, a.multiSlotReward, nil},
		{op{id: "multiSlotActivate", method: "POST", path: "/multislot/events/{event}/activate", scope: Decide,
			status: 204, summary: "Activate all slots"}, a.multiSlotActivate, nil},
		{op{id: "getServiceConfig", method: "GET", path: "/configurations/service", scope: Read,
			summary: "Read the service configuration"}, a.getServiceConfig, serviceConfig{}},
		{op{id: "putServiceConfig", method: "PUT", path: "/configurations/service", scope: Admin, body: serviceConfig{},
			summary: "Change the service configuration"}, a.putServiceConfig, serviceConfig{}},
		{op{id: "getPolicy", method: "GET", path: "/configurations/policy", scope: Read,
			summary: "Read the policy's kind and options"}, a.getPolicy, policyAnswer{}},
		{op{id: "putPolicy", method: "PUT", path: "/configurations/policy", scope: Admin, body: policyAnswer{},
			summary: "Send the policy's kind and options back",
			doc:     "A model keeps its policy: another one is answered 501 not_supported."}, a.putPolicy,
			policyAnswer{}},
		{op{id: "resetPolicy", method: "DELETE", path: "/configurations/policy", scope: Admin,
			summary: "Go back to the policy that the model was made with",
			doc:     "No call changes it, so this reads it."}, a.resetPolicy, policyAnswer{}},
		{op{id: "getPolicyState", method: "GET", path: "/model", scope: Read, summary: "Read the policy's snapshot"},
			a.getPolicyState, nil},
		{op{id: "resetModel", method: "DELETE", path: "/model", scope: Admin, status: 204,
			summary: "Take the model back to its beginning",
			doc:     "A rollback: the log keeps what came after, and rewards that are still to come count."},
			a.resetModel, nil},
		{op{id: "getModelProperties", method: "GET", path: "/model/properties", scope: Read,
			summary: "Read when the model was made and changed"}, a.getModelProperties, modelProperties{}},
		{op{id: "getLogProperties", method: "GET", path: "/logs/properties", scope: Read,
			summary: "Read the time of the first and the last decision"}, a.getLogProperties, logProperties{}},
		{op{id: "listEvaluations", method: "GET", path: "/evaluations", scope: Read,
			summary: "List the evaluations of the log",
			doc:     "They are kept in memory: until the server stops, the newest 16 of a model."}, a.listEvaluations,
			[]evaluationAnswer{}},
		{op{id: "createEvaluation", method: "POST", path: "/evaluations", scope: Admin, status: 201,
			body: evaluationBody{}, summary: "Evaluate the log",
			doc: "What the policy that ran, the first candidate and uniform play earned or would have earned. It " +
				"runs beside the requests, one at a time."}, a.createEvaluation, evaluationAnswer{}},
		{op{id: "getEvaluation", method: "GET", path: "/evaluations/{evaluation}", scope: Read,
			summary: "Read an evaluation"}, a.getEvaluation, evaluationAnswer{}},
		{op{id: "deleteEvaluation", method: "DELETE", path: "/evaluations/{evaluation}", scope: Admin, status: 204,
			summary: "Delete an evaluation",
			doc:     "One that is under way ends."}, a.deleteEvaluation, nil},
	} {
		for _, prefix := range personalizerPrefixes {
			a.mux.HandleFunc(p.o.method+" "+prefix+p.o.path, func(w http.ResponseWriter, r *http.Request) {
				a.servePersonalizer(w, r, p.handle)
			})
		}
		a.describe(p.o, "/v1/models/{model}/personalizer/v1.0", "personalizer", p.answer, theirError{})
	}
	a.manageRoutes(personalizerPrefixes)
}

// servePersonalizer finds the model of a call and answers errors in that service's form.
func (a *API) servePersonalizer(w http.ResponseWriter, r *http.Request,
	handle func(http.ResponseWriter, *http.Request, string) error) {
	model := r.PathValue("model")
	named := model != ""
	if !named {
		model = a.opts.Personalizer
	}
	var err error = problem("not_found", "", "this version of the API is not here; v1.0 is")
	if v := r.PathValue("version"); v == "v1.0" || v == "v1.1" || strings.HasPrefix(v, "v1.1-preview.") {
		err = handle(w, r, model)
	}
	if !named && serve.CodeOf(err) == serve.NotFound {
		if _, none := a.svc.GetModel(r.Context(), model); serve.CodeOf(none) == serve.NotFound {
			err = problem("not_found", "", fmt.Sprintf("there is no model %q; troupe serve --personalizer NAME puts "+
				"a model behind these routes", model))
		}
	}
	if err != nil {
		p := problemOf(err)
		a.explain(r.Context(), p, err)
		a.fail(w, r, p)
	}
}

// readCall checks the key of a call about a model and reads its body.
func readCall[B any](a *API, w http.ResponseWriter, r *http.Request, scope Scope, model string) (b B, raw []byte,
	err error) {
	if err := a.allow(r.Context(), scope, model); err != nil {
		return b, nil, err
	}
	if raw, err = a.readBody(w, r); err == nil {
		err = decodeJSON(raw, &b)
	}
	return b, raw, err
}

func (a *API) rank(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, _, err := readCall[rankBody](a, w, r, Decide, model)
	if err != nil {
		return err
	}
	req, err := b.request(a, caller(ctx))
	if err != nil {
		return err
	}
	if err := a.firstFree(ctx, model, &req); err != nil {
		return err
	}
	d, err := a.svc.Decide(ctx, model, req)
	if err != nil {
		return err
	}
	out := rankAnswer{Ranking: b.ranking(&d), EventID: b.EventID, RewardActionID: d.Action.ID}
	if out.EventID == "" {
		out.EventID = d.EventID
	}
	return answerJSON(w, http.StatusCreated, out)
}

// firstFree makes the first action that is not excluded the baseline of a model that plays one.
func (a *API) firstFree(ctx context.Context, model string, r *serve.DecideRequest) error {
	at := slices.IndexFunc(r.Actions, func(x serve.Action) bool { return !slices.Contains(r.Exclude, x.ID) })
	if at <= 0 {
		return nil
	}
	m, err := a.svc.GetModel(ctx, model)
	if err == nil && (m.Config.Mode == string(serve.Apprentice) || m.Config.Mode == string(serve.Shadow)) {
		r.Baseline = &at
	}
	return err
}

// request translates a rank into a decision.
func (b *rankBody) request(a *API, caller string) (serve.DecideRequest, error) {
	none := serve.DecideRequest{}
	if len(b.Actions) == 0 {
		return none, &fieldError{Field: "actions", Want: "is empty, expected at least one action"}
	}
	if n := len(b.Actions); n > a.opts.MaxActions {
		return none, problem("too_large", "actions", fmt.Sprintf("has %d entries, at most %d are allowed", n,
			a.opts.MaxActions))
	}
	if len(b.EventID) > 256 {
		return none, &fieldError{Field: "eventId", Want: "has more than 256 bytes"}
	}
	if _, ok := a.svc.(keyFinder); !ok && b.EventID != "" {
		return none, &fieldError{Field: "eventId",
			Want: "cannot be chosen with this service; leave it out and use the one in the answer"}
	}
	req := serve.DecideRequest{
		Context: notNull(b.ContextFeatures), Exclude: b.ExcludedActions, Deferred: b.DeferActivation,
		IdempotencyKey: b.EventID, Explain: true, Caller: caller,
	}
	for i, x := range b.Actions {
		if x.ID == "" {
			return none, &fieldError{Field: fmt.Sprintf("actions[%d].id", i), Want: "is missing"}
		}
		if err := cleanID(fmt.Sprintf("actions[%d].id", i), x.ID); err != nil {
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
func (a *API) eventOf(ctx context.Context, model, id string) (string, error) {
	if len(id) > 256 {
		return "", &fieldError{Field: "eventId", Want: "has more than 256 bytes"}
	}
	finder, ok := a.svc.(keyFinder)
	if !ok {
		return id, nil
	}
	found, err := finder.EventOfKey(ctx, model, id)
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
		return problem("not_found", "eventId", "there is no such event")
	}
	return err
}

func (a *API) rankReward(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, _, err := readCall[rankReward](a, w, r, Reward, model)
	if err != nil {
		return err
	}
	if b.Value == nil {
		return &fieldError{Field: "value", Want: "is missing, expected a number"}
	}
	if err := a.theirRange(ctx, model, "value", *b.Value); err != nil {
		return err
	}
	id, err := a.eventOf(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	result, err := a.svc.Reward(ctx, serve.RewardRequest{EventID: id, Value: *b.Value, Caller: caller(ctx),
		Allow: a.allowsModel(ctx, Reward)})
	a.metrics.reward(result.Status, err)
	if err != nil {
		return noEvent(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// theirRange refuses a reward outside [−1, 1], as that service did, unless the model declares a range: a range
// that the data widen would take it, and one wrong reward would change the scale of all others.
func (a *API) theirRange(ctx context.Context, model, field string, y float64) error {
	if y >= -1 && y <= 1 {
		return nil
	}
	m, err := a.svc.GetModel(ctx, model)
	if err != nil {
		return err
	}
	if m.Config.Reward.Adapt {
		return &fieldError{Field: field, Want: "expected a number in [-1, 1]; for others make the model with " +
			"reward.min and reward.max"}
	}
	return nil
}

func (a *API) rankActivate(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	if err := a.allow(ctx, Decide, model); err != nil {
		return err
	}
	id, err := a.eventOf(ctx, model, r.PathValue("event"))
	if err != nil {
		return err
	}
	if err := a.allowEvent(ctx, Decide, id); err != nil {
		return noEvent(err)
	}
	if _, err := a.svc.Activate(ctx, id, caller(ctx)); err != nil {
		return noEvent(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) getServiceConfig(w http.ResponseWriter, r *http.Request, model string) error {
	if err := a.allow(r.Context(), Read, model); err != nil {
		return err
	}
	m, err := a.svc.GetModel(r.Context(), model)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, configOf(m))
}

func configOf(m serve.Model) serviceConfig {
	c := m.Config
	return serviceConfig{
		RewardWaitTime: isoDuration(time.Duration(c.Reward.Window)), DefaultReward: c.Reward.Default.Value,
		RewardAggregation: theirs(aggregations, string(c.Reward.Rule)), ExplorationPercentage: c.Floor,
		LearningMode: theirs(learningModes, c.Mode), ModelExportFrequency: "PT5M", LogRetentionDays: -1,
		LastConfigurationEditDate: m.Changed.Time.UTC().Format(time.RFC3339),
	}
}

func (a *API) putServiceConfig(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, raw, err := readCall[serviceConfig](a, w, r, Admin, model)
	if err != nil {
		return err
	}
	// What is left out stays: a 0 for it would end exploration, and give rewards where there are none.
	var given struct{ ExplorationPercentage, DefaultReward *float64 }
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	wait, ok := parseISODuration(b.RewardWaitTime)
	switch {
	case b.RewardAggregation != "" && !known(aggregations, b.RewardAggregation):
		return &fieldError{Field: "rewardAggregation", Want: "expected earliest or sum"}
	case b.LearningMode != "" && !known(learningModes, b.LearningMode):
		return &fieldError{Field: "learningMode", Want: "expected Online, Apprentice or LoggingOnly"}
	case !ok:
		return &fieldError{Field: "rewardWaitTime", Want: "is not an ISO 8601 duration such as PT10M"}
	case b.LogMirrorEnabled:
		return &fieldError{Field: "logMirrorEnabled",
			Want: "cannot be true here; export the log with troupe log export"}
	case b.IsAutoOptimizationEnabled:
		return &fieldError{Field: "isAutoOptimizationEnabled",
			Want: "cannot be true here; there are no learning settings to optimise"}
	}
	m, err := a.edit(ctx, model, 0, func(c *serve.ModelConfig) error {
		c.Reward.Window = serve.Duration(wait)
		if given.DefaultReward != nil {
			c.Reward.Default = serve.Maybe{Set: true, Value: *given.DefaultReward}
		}
		if given.ExplorationPercentage != nil {
			c.Floor = *given.ExplorationPercentage
		}
		if b.RewardAggregation != "" {
			c.Reward.Rule = serve.Rule(ours(aggregations, b.RewardAggregation))
		}
		if b.LearningMode != "" {
			c.Mode = ours(learningModes, b.LearningMode)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, configOf(m))
}

// getPolicy answers what that service called learning settings: here the policy's kind and options.
func (a *API) getPolicy(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := a.readModel(r, model)
	if err != nil {
		return err
	}
	p, err := policyOf(m)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, p)
}

func policyOf(m serve.Model) (policyAnswer, error) {
	options, err := json.Marshal(m.Config.Policy.Raw)
	return policyAnswer{m.Name, string(options)}, err
}

type policyAnswer struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"JSON: kind and options"`
}

// getPolicyState answers the policy's snapshot, that service's model file.
func (a *API) getPolicyState(w http.ResponseWriter, r *http.Request, model string) error {
	if err := a.allow(r.Context(), Read, model); err != nil {
		return err
	}
	s, err := a.svc.State(r.Context(), model)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(s.Snapshot) // fails only when the client has left
	return nil
}

func (a *API) getModelProperties(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := a.readModel(r, model)
	if err != nil {
		return err
	}
	last := m.Changed.Time
	if m.Counts.Last.After(last) {
		last = m.Counts.Last
	}
	return answerJSON(w, http.StatusOK, modelProperties{m.Created.Time.UTC(), last.UTC()})
}

type modelProperties struct {
	Creation time.Time `json:"creationTime"`
	Modified time.Time `json:"lastModifiedTime"`
}

func (a *API) getLogProperties(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := a.readModel(r, model)
	if err != nil {
		return err
	}
	s := dateRange{m.Created.Time.UTC(), m.Created.Time.UTC()}
	if m.Counts.Last.After(s.To) {
		s.To = m.Counts.Last.UTC()
	}
	return answerJSON(w, http.StatusOK, logProperties{s})
}

type (
	dateRange struct {
		From time.Time `json:"from"`
		To   time.Time `json:"to"`
	}
	logProperties struct {
		DateRange dateRange `json:"dateRange"`
	}
)

func (a *API) readModel(r *http.Request, model string) (serve.Model, error) {
	if err := a.allow(r.Context(), Read, model); err != nil {
		return serve.Model{}, err
	}
	return a.svc.GetModel(r.Context(), model)
}

func answerJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, err = w.Write(b)
	if err != nil {
		return nil // the client has left
	}
	return nil
}

// writePersonalizerError writes a problem in the form of that service.
func writePersonalizerError(w http.ResponseWriter, p *Problem) {
	status := p.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	code := map[int]string{
		http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden",
		http.StatusNotFound: "ResourceNotFound", http.StatusConflict: "Conflict",
		http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
		http.StatusTooManyRequests:       "TooManyRequests", http.StatusInternalServerError: "InternalServerError",
		http.StatusServiceUnavailable: "ServiceUnavailable",
	}[status]
	if code == "" {
		code = strings.ReplaceAll(http.StatusText(status), " ", "")
	}
	message, field := p.Title, theirField(p.Field)
	if p.Detail != "" {
		message = p.Detail
	}
	if field != "" {
		message = field + ": " + p.Detail
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(theirError{theirFault{code, message, field, []string{}, theirInner{p.Code}}})
}

// theirFields are what that service calls the fields of ours.
var theirFields = map[string]string{
	"floor": "explorationPercentage", "reward.window": "rewardWaitTime", "reward.default": "defaultReward",
	"reward.rule": "rewardAggregation", "mode": "learningMode", "header.Idempotency-Key": "eventId",
	"exclude": "excludedActions",
	"context": "contextFeatures",
}

func theirField(field string) string {
	if rest, ok := strings.CutPrefix(field, "context."); ok {
		return "contextFeatures." + rest
	}
	if word, ok := theirFields[field]; ok {
		return word
	}
	return field
}

type (
	theirError struct {
		Error theirFault `json:"error"`
	}
	theirFault struct {
		Code       string     `json:"code"`
		Message    string     `json:"message"`
		Target     string     `json:"target,omitempty" doc:"the field that is wrong"`
		Details    []string   `json:"details"`
		InnerError theirInner `json:"innerError"`
	}
	theirInner struct {
		Code string `json:"code" doc:"the code of Problem"`
	}
)

var isoForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^P(?:(\d{1,4})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?$`)
})

// parseISODuration reads days, hours, minutes and seconds of ISO 8601.
func parseISODuration(s string) (time.Duration, bool) {
	m := isoForm().FindStringSubmatch(s)
	if m == nil || strings.HasSuffix(s, "P") || strings.HasSuffix(s, "T") {
		return 0, false
	}
	var d time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.ParseInt("0"+m[i+1], 10, 64)
		d += time.Duration(n) * unit
	}
	if m[5] != "" {
		n, _ := strconv.ParseInt((m[5] + "000000000")[:9], 10, 64)
		d += time.Duration(n)
	}
	return d, true
}

// isoDuration writes a duration like PT1H30M.
func isoDuration(d time.Duration) string {
	if d == 0 {
		return "PT0S"
	}
	s := "PT"
	if h := d / time.Hour; h > 0 {
		s += fmt.Sprintf("%dH", h)
	}
	if m := d % time.Hour / time.Minute; m > 0 {
		s += fmt.Sprintf("%dM", m)
	}
	if sec := (d % time.Minute).Seconds(); sec > 0 {
		s += strconv.FormatFloat(sec, 'f', -1, 64) + "S"
	}
	return s
}
