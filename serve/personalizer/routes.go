package personalizer

import (
	"embed"
	"net/http"
	"slices"

	"troupe/serve"
	"troupe/serve/api"
)

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
	finder, _ := svc.(keyFinder)
	a.edge, a.models = e, svc
	a.evaluations.edge, a.evaluations.models, a.evaluations.history = e, svc, svc
	events := eventCalls(&rankCalls{e, svc, svc, finder})
	settings := &settingCalls{e, svc}
	add := func(method, path string, doc *api.RouteDoc,
		handle func(w http.ResponseWriter, r *http.Request, model string) error) {
		r := api.Route{Method: method, Doc: doc,
			Serve: func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, handle) }}
		for _, prefix := range prefixes {
			r.Patterns = append(r.Patterns, prefix+path)
		}
		out = append(out, r)
	}
	for _, c := range slices.Concat(events, configurationCalls(settings), readCalls(settings), a.evaluations.calls()) {
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

func eventCalls(c *rankCalls) []call {
	slots := &slotCalls{c}
	return []call{
		{api.RouteDoc{ID: "rank", Path: "/rank", Scope: api.Decide, Status: 201, Body: rankBody{},
			Answer: rankAnswer{}, Summary: "Rank"}, "POST", c.rank},
		{api.RouteDoc{ID: "rankReward", Path: "/events/{event}/reward", Scope: api.Reward, Status: 204,
			Body: rankReward{}, Summary: "Reward"}, "POST", c.reward},
		{api.RouteDoc{ID: "rankActivate", Path: "/events/{event}/activate", Scope: api.Decide, Status: 204,
			Summary: "Activate"}, "POST", c.activate},
		{api.RouteDoc{ID: "multiSlotRank", Path: "/multislot/rank", Scope: api.Decide, Status: 201, Body: slotsBody{},
			Answer: slotsAnswer{}, Summary: "Rank several slots", Text: "No action is given to two slots. The call is one event, a list with a reward for each slot."},
			"POST", slots.rank},
		{api.RouteDoc{ID: "multiSlotReward", Path: "/multislot/events/{event}/reward", Scope: api.Reward, Status: 204,
			Body: slotRewards{}, Summary: "Reward slots"}, "POST", slots.reward},
		{api.RouteDoc{ID: "multiSlotActivate", Path: "/multislot/events/{event}/activate", Scope: api.Decide,
			Status: 204, Summary: "Activate all slots"}, "POST", c.activate},
	}
}

func configurationCalls(c *settingCalls) []call {
	return []call{
		{api.RouteDoc{ID: "getServiceConfig", Path: "/configurations/service", Scope: api.Read, Answer: serviceConfig{},
			Summary: "Read the service configuration"}, "GET", c.getConfig},
		{api.RouteDoc{ID: "putServiceConfig", Path: "/configurations/service", Scope: api.Admin, Body: serviceConfig{},
			Answer: serviceConfig{}, Summary: "Change the service configuration"}, "PUT", c.putConfig},
		{api.RouteDoc{ID: "getPolicy", Path: "/configurations/policy", Scope: api.Read, Answer: policyAnswer{},
			Summary: "Read the policy's kind and options"}, "GET", c.getPolicy},
		{api.RouteDoc{ID: "putPolicy", Path: "/configurations/policy", Scope: api.Admin, Body: policyAnswer{},
			Answer: policyAnswer{}, Summary: "Send the policy's kind and options back",
			Text: "A model keeps its policy: another one is answered 501 not_supported."}, "PUT", c.putPolicy},
		{api.RouteDoc{ID: "resetPolicy", Path: "/configurations/policy", Scope: api.Admin, Answer: policyAnswer{},
			Summary: "Go back to the policy that the model was made with",
			Text:    "No call changes it, so this reads it."}, "DELETE", c.resetPolicy},
	}
}

func readCalls(c *settingCalls) []call {
	return []call{
		{api.RouteDoc{ID: "getPolicyState", Path: "/model", Scope: api.Read, Summary: "Read the policy's snapshot"},
			"GET", c.getState},
		{api.RouteDoc{ID: "resetModel", Path: "/model", Scope: api.Admin, Status: 204,
			Summary: "Take the model back to its beginning",
			Text:    "A rollback: the log keeps what came after, and rewards that are still to come count."},
			"DELETE", c.resetModel},
		{api.RouteDoc{ID: "getModelProperties", Path: "/model/properties", Scope: api.Read, Answer: modelProperties{},
			Summary: "Read when the model was made and changed"}, "GET", c.getModelProperties},
		{api.RouteDoc{ID: "getLogProperties", Path: "/logs/properties", Scope: api.Read, Answer: logProperties{},
			Summary: "Read the time of the first and the last decision"}, "GET", c.getLogProperties},
	}
}

func (c *evaluationCalls) calls() []call {
	return []call{
		{api.RouteDoc{ID: "listEvaluations", Path: "/evaluations", Scope: api.Read, Answer: []evaluationAnswer{},
			Summary: "List the evaluations of the log",
			Text:    "They are kept in memory: until the server stops, the newest 16 of a model."},
			"GET", c.list},
		{api.RouteDoc{ID: "createEvaluation", Path: "/evaluations", Scope: api.Admin, Status: 201,
			Body: evaluationBody{}, Answer: evaluationAnswer{}, Summary: "Evaluate the log",
			Text: "What the policy that ran, the first candidate and uniform play earned or would have earned. It " +
				"runs beside the requests, one at a time."}, "POST", c.create},
		{api.RouteDoc{ID: "getEvaluation", Path: "/evaluations/{evaluation}", Scope: api.Read,
			Answer: evaluationAnswer{}, Summary: "Read an evaluation"}, "GET", c.get},
		{api.RouteDoc{ID: "deleteEvaluation", Path: "/evaluations/{evaluation}", Scope: api.Admin, Status: 204,
			Summary: "Delete an evaluation", Text: "One that is under way ends."}, "DELETE", c.delete},
	}
}
