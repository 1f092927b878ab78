package api

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"slices"

	stdjson "encoding/json"
)

// op is one operation: a row of the OpenAPI document and the route that serves it.
type op struct {
	id, method, path string
	summary          string
	doc              string
	scope            Scope
	body             any   // value of the type of the body, nil for none
	bytes            int64 // the body is that many bytes at most, not JSON
	status           int   // of success, default 200
	route            func(*API, op)
}

// reply is an answer with a body and no headers.
type reply[T any] struct{ Body T }

// on makes the route of an operation with a handler.
func on[I, O any](handle func(context.Context, *I) (*O, error)) func(*API, op) {
	return func(a *API, o op) { register(a, o, handle) }
}

// examples are the bodies and answers in the OpenAPI document, ID.request.json and ID.answer.json. A test
// sends each of them to a server.
//
//go:embed testdata/examples/*.json
var examples embed.FS

// example returns the example of an operation, nil when there is none. kind is request or answer.
func (o *op) example(kind string) stdjson.RawMessage {
	b, err := examples.ReadFile(fmt.Sprintf("testdata/examples/%s.%s.json", o.id, kind))
	if err != nil {
		return nil
	}
	return b
}

// hotOperations are those that a running application calls all the time. Both ways to serve them (hot.go) take them
// from here.
var hotOperations = [...]op{
	hotDecide: {id: "decide", method: "POST", path: "/v1/models/{model}:decide", scope: Decide, body: decideBody{},
		summary: "Choose an action",
		doc: "The answer has the event's id, the action, its exact propensity as a quotient of integers, and the " +
			"log entry that holds it. 200 means durable."},
	hotDecides: {id: "decideBatch", method: "POST", path: "/v1/models/{model}:decideBatch", scope: Decide,
		body:    decideBatchBody{},
		summary: "Choose many actions on one state",
		doc: "At most 256. A bad request among them gets a problem of its own. With the header Idempotency-Key " +
			"item i has the key KEY/i, so a repeated batch makes no new decisions."},
	hotReward: {id: "reward", method: "POST", path: "/v1/events/{event}:reward", scope: Reward, body: rewardBody{},
		summary: "Send a reward",
		doc: "status: accepted; duplicate (the event has its reward); late (the window is closed; recorded, does " +
			"not count); ignored (recorded, does not count). Repeating a call is safe."},
	hotRewards: {id: "rewardBatch", method: "POST", path: "/v1/rewards:batch", scope: Reward, body: rewardBatchBody{},
		summary: "Send many rewards",
		doc:     "At most 10,000, each with its own result or problem."},
}

// by returns an operation with its route.
func (o op) by(route func(*API, op)) op {
	o.route = route
	return o
}

// operations are those under /v1.
func (a *API) operations() []op {
	return slices.Concat(a.modelOperations(), a.catalogueOperations(), a.decisionOperations(), a.serverOperations(),
		a.recordOperations())
}

// modelOperations make, change and read models.
func (a *API) modelOperations() []op {
	return []op{
		{id: "createModel", method: "POST", path: "/v1/models", scope: Admin, status: http.StatusCreated,
			body:    configDoc{},
			summary: "Create a model",
			doc:     "Only the id is needed: the model then reads any request and learns from what is sent.",
			route:   on(a.createModel)},
		{id: "listModels", method: "GET", path: "/v1/models", scope: Read,
			summary: "List the models",
			doc:     "In the order of their names, without their catalogues; a key sees the models of its patterns.",
			route:   on(a.listModels)},
		{id: "getModel", method: "GET", path: "/v1/models/{model}", scope: Read,
			summary: "Read a model",
			doc:     "The ETag names the configuration; a change sends it back in If-Match.",
			route:   on(a.getModel)},
		{id: "replaceModel", method: "PUT", path: "/v1/models/{model}", scope: Admin, body: configDoc{},
			summary: "Replace a configuration",
			doc:     "What shapes the state (id, policy, features, dim, sigma) cannot change.",
			route:   on(a.replaceModel)},
		{id: "changeModel", method: "PATCH", path: "/v1/models/{model}", scope: Admin, body: configDoc{},
			summary: "Change a configuration",
			doc:     "The body is a merge patch (RFC 7396): what it does not name stays, null takes away.",
			route:   on(a.changeModel)},
		{id: "deleteModel", method: "DELETE", path: "/v1/models/{model}", scope: Admin, status: http.StatusNoContent,
			summary: "Delete a model",
			doc:     "Rewards of its decisions are ignored from now on. The name is free.",
			route:   on(a.deleteModel)},
		{id: "pauseModel", method: "POST", path: "/v1/models/{model}:pause", scope: Admin,
			summary: "Pause a model",
			doc:     "Decisions are answered 409 paused; rewards still count.",
			route:   on(a.pauseModel)},
		{id: "resumeModel", method: "POST", path: "/v1/models/{model}:resume", scope: Admin,
			summary: "Resume a model",
			doc:     "Ends a pause.",
			route:   on(a.resumeModel)},
		{id: "cloneModel", method: "POST", path: "/v1/models/{model}:clone", scope: Admin, status: http.StatusCreated,
			body:    cloneBody{},
			summary: "Copy a model",
			doc: "A new model with the configuration and the state, now or at a sequence number. With policy, " +
				"features or sigma the copy has " +
				"another policy, which learns from all events of the model's log until then; that takes as long as a " +
				"restart without a " +
				"snapshot, also when the caller leaves, and needs a log that was not trimmed (410).",
			route: on(a.cloneModel)},
		{id: "createModelFrom", method: "POST", path: "/v1/models/{model}:createFrom", scope: Admin,
			status: http.StatusCreated, bytes: maxImport,
			summary: "Create a model that starts from a saved one",
			doc: "The body is a file of troupe train, or what getState answers with format=model: configuration, " +
				"seed and state. The model " +
				"has the name in the path. It is there when the call is answered 201; an import that was interrupted " +
				"leaves nothing behind.",
			route: on(a.createModelFrom)},
		{id: "rollbackModel", method: "POST", path: "/v1/models/{model}:rollback", scope: Admin, body: rollbackBody{},
			summary: "Take a model back to an earlier state",
			doc:     "The log keeps what came after; the state forgets it.",
			route:   on(a.rollbackModel)},
		{id: "getState", method: "GET", path: "/v1/models/{model}/state", scope: Read,
			summary: "Read the state of the policy",
			doc: "The estimate with the names of its coordinates, with format=binary the policy's snapshot, with " +
				"format=model what createFrom takes.",
			route: on(a.getState)},
		{id: "getCoin", method: "GET", path: "/v1/models/{model}/coin", scope: Read,
			summary: "Read whether choosing pays",
			doc: "For requests with costs: the newest decisions against the best coin between two actions of the same mean " +
				"cost, with an interval that holds at every look, and one sentence.",
			route: on(a.getCoin)},
	}
}

// catalogueOperations are about the actions that a model knows.
func (a *API) catalogueOperations() []op {
	return []op{
		{id: "listActions", method: "GET", path: "/v1/models/{model}/actions", scope: Read,
			summary: "Read the catalogue of actions",
			route:   on(a.listActions)},
		{id: "putActions", method: "POST", path: "/v1/models/{model}/actions", scope: Admin, body: actionsBody{},
			summary: "Add or replace actions of the catalogue",
			doc:     "Afterwards a decision may send ids instead of features.",
			route:   on(a.putActions)},
		{id: "deleteAction", method: "DELETE", path: "/v1/models/{model}/actions/{action}", scope: Admin,
			summary: "Take an action out of the catalogue",
			route:   on(a.deleteAction)},
		{id: "enterAction", method: "POST", path: "/v1/models/{model}/actions:enter", scope: Admin, body: enterBody{},
			summary: "Let an action begin anew",
			doc:     "What was learned of its id is not known of it any more, and nothing changes for others.",
			route:   on(a.enterAction)},
		{id: "leaveAction", method: "POST", path: "/v1/models/{model}/actions:leave", scope: Admin, body: leaveBody{},
			summary: "Decide without an action until it enters",
			route:   on(a.leaveAction)},
	}
}

// decisionOperations decide and learn.
func (a *API) decisionOperations() []op {
	return []op{
		hotOperations[hotDecide].by(on(a.decide)),
		hotOperations[hotDecides].by(on(a.decideBatch)),
		hotOperations[hotReward].by(on(a.reward)),
		hotOperations[hotRewards].by(on(a.rewardBatch)),
		{id: "activate", method: "POST", path: "/v1/events/{event}:activate", scope: Decide,
			summary: "Activate a deferred decision",
			doc:     "From now on the event counts and its window runs to its end.",
			route:   on(a.activate)},
	}
}

// serverOperations are about the server and its log as a whole.
func (a *API) serverOperations() []op {
	return []op{
		{id: "drain", method: "POST", path: "/v1/cluster:drain", scope: Admin, status: http.StatusNoContent,
			summary: "Prepare a node for its stop",
			doc: "Another node leads the log, new calls are answered 503, those under way are answered before this " +
				"one is. " +
				"409 on a single machine.",
			route: on(a.drain)},
		{id: "removeNode", method: "DELETE", path: "/v1/cluster/nodes/{node}", scope: Admin,
			status:  http.StatusNoContent,
			summary: "Remove a node that is stopped",
			doc: "The log names the nodes from then on without it, and its replicas are removed. At least three " +
				"nodes stay. 409 while it runs, where the others are no majority, and on a single machine.",
			route: on(a.removeNode)},
		{id: "checkReplica", method: "GET", path: "/v1/cluster/replica", scope: Admin,
			summary: "Check the files of a node's replica",
			doc: "Reads the block files of this node and checks every entry. done is false while that is under " +
				"way: ask again. 409 on a single machine.",
			route: on(a.checkReplica)},
		{id: "exportEntries", method: "GET", path: "/v1/log/entries", scope: Backup,
			summary: "Read the log as it is stored",
			doc: "Entries from one on, up to what this node has applied, a few megabytes: for each its sequence (8 " +
				"bytes), its length (4 bytes), " +
				"both little-endian, and its bytes (docs/reference/eventlog.md). Ask again behind the last one until " +
				"Log-Applied is reached. troupe cluster " +
				"export does that, and checks and stores what it gets; troupe backup --follow does it with follower.",
			route: on(a.exportEntries)},
		{id: "exportBase", method: "GET", path: "/v1/log/base", scope: Backup,
			summary: "Read the base of a log that was trimmed",
			doc: "The state from which what is left of the log is folded, as a snapshot file; Log-Base is its entry. " +
				"404 while the log is whole. " +
				"troupe cluster export asks for it.",
			route: on(a.exportBase)},
	}
}

// recordOperations read what is recorded.
func (a *API) recordOperations() []op {
	return []op{
		{id: "getEvent", method: "GET", path: "/v1/events/{event}", scope: Read,
			summary: "Read what is recorded of a decision",
			route:   on(a.getEvent)},
		{id: "replay", method: "POST", path: "/v1/events/{event}:replay", scope: Admin,
			summary: "Decide once more and compare",
			doc:     "Folds the log up to the state that decided; it may take seconds. Nothing is recorded.",
			route:   on(a.replay)},
		{id: "exportLog", method: "GET", path: "/v1/models/{model}/log", scope: Read,
			summary: "Read the log of a model",
			doc: "The records of decisions, rewards, activations, closed windows and changes of the model, in the " +
				"order of the log, " +
				"one a line, or as Parquet by Accept. At most page_size entries of the log are looked at (an entry " +
				"has many records, " +
				"of all models). The header Log-Next is where to go on: ask again from there, and again later for " +
				"what was added. " +
				"A page without records is not the end: that is where Log-Next is beyond Log-Applied. " +
				"A page never changes. An answer that breaks off is not whole: ask for it again.",
			route: on(a.exportLog)},
		{id: "exportDecisions", method: "GET", path: "/v1/models/{model}/decisions", scope: Read,
			summary: "Read decisions with what became of them",
			doc: "The decisions of the model in at most page_size entries of the log, one a line, or as Parquet by " +
				"Accept: action, exact propensity, " +
				"law, features of the candidates, and the reward that counts by the model's rule. Decisions whose " +
				"window is open are pending. The " +
				"columns are those of troupe log export. The header Log-Next is where to go on.",
			route: on(a.exportDecisions)},
	}
}
