package api

import (
	"net/http"
	"slices"
	"sync/atomic"

	"troupe/serve"
)

// calls are those under /v1, by what they need.
type calls struct {
	models    *modelCalls
	catalogue *catalogueCalls
	decisions *decisionCalls
	rewards   *rewardCalls
	events    *eventCalls
	records   *recordCalls
	copies    *copyCalls
	nodes     *nodeCalls
	coins     *coinCalls
	controls  *controlCalls
	moves     *moveCalls
}

func newCalls(svc serve.Service, most int, m *metrics, f *faults, exports chan struct{}, drained *atomic.Bool) *calls {
	models := &modelCalls{svc, make(chan struct{}, maxImports)}
	return &calls{models, &catalogueCalls{models, svc}, &decisionCalls{svc, most, f}, &rewardCalls{svc, m, f},
		&eventCalls{svc}, &recordCalls{svc, exports, f}, &copyCalls{svc}, &nodeCalls{svc, drained}, &coinCalls{svc, exports},
		&controlCalls{svc, exports}, newMoveCalls(svc, models.imports)}
}

// operations are those under /v1.
func (c *calls) operations() []op {
	return slices.Concat(c.modelOperations(), c.catalogueOperations(), c.decisionOperations(), c.serverOperations(),
		c.recordOperations(), c.moves.operations())
}

// modelOperations make, change and read models.
func (c *calls) modelOperations() []op {
	return []op{
		{id: "createModel", method: "POST", path: "/v1/models", scope: Admin, status: http.StatusCreated,
			body:    configDoc{},
			summary: "Create a model",
			doc:     "Only the id is needed: the model then reads any request and learns from what is sent.",
			route:   on(c.models.create)},
		{id: "listModels", method: "GET", path: "/v1/models", scope: Read,
			summary: "List the models",
			doc:     "In the order of their names, without their catalogues; a key sees the models of its patterns.",
			route:   on(c.models.list)},
		{id: "getModel", method: "GET", path: "/v1/models/{model}", scope: Read,
			summary: "Read a model",
			doc:     "The ETag names the configuration; a change sends it back in If-Match.",
			route:   on(c.models.get)},
		{id: "replaceModel", method: "PUT", path: "/v1/models/{model}", scope: Admin, body: configDoc{},
			summary: "Replace a configuration",
			doc:     "What shapes the state (id, policy, features, dim, sigma) cannot change.",
			route:   on(c.models.replace)},
		{id: "changeModel", method: "PATCH", path: "/v1/models/{model}", scope: Admin, body: patchDoc{},
			summary: "Change a configuration",
			doc:     "The body is a merge patch (RFC 7396): what it does not name stays, null takes away.",
			route:   on(c.models.change)},
		{id: "deleteModel", method: "DELETE", path: "/v1/models/{model}", scope: Admin, status: http.StatusNoContent,
			summary: "Delete a model",
			doc:     "Rewards of its decisions are ignored from now on. The name is free.",
			route:   on(c.models.delete)},
		{id: "pauseModel", method: "POST", path: "/v1/models/{model}:pause", scope: Admin,
			summary: "Pause a model",
			doc:     "Decisions are answered 409 paused; rewards still count.",
			route:   on(c.models.pause)},
		{id: "resumeModel", method: "POST", path: "/v1/models/{model}:resume", scope: Admin,
			summary: "Resume a model",
			doc:     "Ends a pause.",
			route:   on(c.models.resume)},
		{id: "cloneModel", method: "POST", path: "/v1/models/{model}:clone", scope: Admin, status: http.StatusCreated,
			body:    cloneBody{},
			summary: "Copy a model",
			doc: "A new model with the configuration and the state, now or at a sequence number. With policy, " +
				"features or sigma the copy has " +
				"another policy, which learns from all events of the model's log until then; that takes as long as a " +
				"restart without a " +
				"snapshot, also when the caller leaves, and needs a log that was not trimmed (410).",
			route: on(c.models.clone)},
		{id: "createModelFrom", method: "POST", path: "/v1/models/{model}:createFrom", scope: Admin,
			status: http.StatusCreated, bytes: maxImport, turns: c.models.imports,
			summary: "Create a model that starts from a saved one",
			doc: "The body is a file of troupe train, or what getState answers with format=model: configuration, " +
				"seed and state. The model " +
				"has the name in the path. It is there when the call is answered 201; an import that was interrupted " +
				"leaves nothing behind.",
			route: on(c.models.createFrom)},
		{id: "rollbackModel", method: "POST", path: "/v1/models/{model}:rollback", scope: Admin, body: rollbackBody{},
			summary: "Take a model back to an earlier state",
			doc:     "The log keeps what came after; the state forgets it.",
			route:   on(c.models.rollback)},
		{id: "getState", method: "GET", path: "/v1/models/{model}/state", scope: Read,
			summary: "Read the state of the policy",
			doc: "The estimate with the names of its coordinates, with format=binary the policy's snapshot, with " +
				"format=model what createFrom takes.",
			route: on(c.models.state)},
		{id: "getCoin", method: "GET", path: "/v1/models/{model}/coin", scope: Read,
			summary: "Read whether choosing pays",
			doc: "For requests with costs: the newest decisions against the best coin between two actions of the same mean " +
				"cost, with an interval that holds at every look, and one sentence.",
			route: on(c.coins.get)},
		{id: "getControl", method: "GET", path: "/v1/models/{model}/control", scope: Read,
			summary: "Read whether the model pays, against its control group",
			doc: "What a decision of the model earns, what one of the control group earns, and the difference, each with an interval " +
				"that holds at every look and one for a number of decisions that was fixed beforehand; and one sentence. With share " +
				"how many decisions a control group would need, before there is one.",
			route: on(c.controls.get)},
	}
}

// catalogueOperations are about the actions that a model knows.
func (c *calls) catalogueOperations() []op {
	return []op{
		{id: "listActions", method: "GET", path: "/v1/models/{model}/actions", scope: Read,
			summary: "Read the catalogue of actions",
			route:   on(c.catalogue.list)},
		{id: "putActions", method: "POST", path: "/v1/models/{model}/actions", scope: Admin, body: actionsBody{},
			summary: "Add or replace actions of the catalogue",
			doc:     "Afterwards a decision may send ids instead of features.",
			route:   on(c.catalogue.put)},
		{id: "deleteAction", method: "DELETE", path: "/v1/models/{model}/actions/{action}", scope: Admin,
			summary: "Take an action out of the catalogue",
			route:   on(c.catalogue.delete)},
		{id: "enterAction", method: "POST", path: "/v1/models/{model}/actions:enter", scope: Admin, body: enterBody{},
			summary: "Let an action enter, as if it were new",
			doc:     "What was learned of its id is not known of it any more, and nothing changes for others.",
			route:   on(c.catalogue.enter)},
		{id: "leaveAction", method: "POST", path: "/v1/models/{model}/actions:leave", scope: Admin, body: leaveBody{},
			summary: "Decide without an action until it enters",
			route:   on(c.catalogue.leave)},
	}
}

// decisionOperations decide and learn.
func (c *calls) decisionOperations() []op {
	return []op{
		hotOperations[hotDecide].by(on(c.decisions.decide)),
		hotOperations[hotDecides].by(on(c.decisions.batch)),
		hotOperations[hotReward].by(on(c.rewards.reward)),
		hotOperations[hotRewards].by(on(c.rewards.batch)),
		{id: "activate", method: "POST", path: "/v1/events/{event}:activate", scope: Decide,
			summary: "Activate a deferred decision",
			doc:     "From now on the event counts and its window runs to its end.",
			route:   on(c.events.activate)},
	}
}

// serverOperations are about the server and its log as a whole.
func (c *calls) serverOperations() []op {
	return []op{
		{id: "drain", method: "POST", path: "/v1/cluster:drain", scope: Admin, status: http.StatusNoContent,
			summary: "Prepare a node for its stop",
			doc: "Another node leads the log, new calls are answered 503, those under way are answered before this " +
				"one is. 409 needed, and nothing changes, while the others cannot go on at once without the node: detail " +
				"says what they lack. 409 conflict on a single machine.",
			route: on(c.nodes.drain)},
		{id: "removeNode", method: "DELETE", path: "/v1/cluster/nodes/{node}", scope: Admin,
			status:  http.StatusNoContent,
			summary: "Remove a node that is stopped",
			doc: "The log names the nodes from then on without it, and its replicas are removed. At least three " +
				"nodes stay. 409 changing while nodes that were added have no replica. 409 conflict while it runs, " +
				"where the others are no majority, and on a single machine.",
			route: on(c.nodes.remove)},
		{id: "checkReplica", method: "GET", path: "/v1/cluster/replica", scope: Admin,
			summary: "Check the files of a node's replica",
			doc: "Reads the block files of this node and checks every entry. done is false while that is under " +
				"way: ask again. 409 on a single machine.",
			route: on(c.copies.check)},
		{id: "exportEntries", method: "GET", path: "/v1/log/entries", scope: Backup,
			summary: "Read the log as it is stored",
			doc: "Entries from one on, up to what this node has applied, a few megabytes: for each its sequence (8 " +
				"bytes), its length (4 bytes), " +
				"both little-endian, and its bytes (docs/reference/eventlog.md). Ask again behind the last one until " +
				"Log-Applied is reached. troupe cluster " +
				"export does that, and checks and stores what it gets; troupe backup --follow does it with follower.",
			route: on(c.copies.entries)},
		{id: "exportBase", method: "GET", path: "/v1/log/base", scope: Backup,
			summary: "Read the base of a log that was trimmed",
			doc: "The state from which what is left of the log is folded, as a snapshot file; Log-Base is its entry. " +
				"404 while the log is whole. " +
				"troupe cluster export asks for it.",
			route: on(c.copies.base)},
	}
}

// recordOperations read what is recorded.
func (c *calls) recordOperations() []op {
	return []op{
		{id: "getEvent", method: "GET", path: "/v1/events/{event}", scope: Read,
			summary: "Read what is recorded of a decision",
			route:   on(c.events.get)},
		{id: "replay", method: "POST", path: "/v1/events/{event}:replay", scope: Admin,
			summary: "Decide once more and compare",
			doc:     "Folds the log up to the state that decided; it may take seconds. Nothing is recorded.",
			route:   on(c.events.replay)},
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
			route: on(c.records.log)},
		{id: "exportDecisions", method: "GET", path: "/v1/models/{model}/decisions", scope: Read,
			summary: "Read decisions with what became of them",
			doc: "The decisions of the model in at most page_size entries of the log, one a line, or as Parquet by " +
				"Accept: action, exact propensity, " +
				"law, features of the candidates, and the reward that counts by the model's rule. Decisions whose " +
				"window is open are pending. The " +
				"columns are those of troupe log export. The header Log-Next is where to go on.",
			route: on(c.records.decisions)},
	}
}
