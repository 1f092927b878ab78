package api

import (
	"context"
	"net/http"

	"troupe/eventlog"
	"troupe/serve"
)

// moveCalls move models between servers.
type moveCalls struct {
	moves   serve.MoveService // nil: the service moves none
	imports chan struct{}     // semaphore of arrive
}

// maxParcel bounds the body of arriveModel.
const maxParcel = 272 << 20

func newMoveCalls(svc serve.Service, imports chan struct{}) *moveCalls {
	return &moveCalls{serve.MovesOf(svc), imports}
}

type departBody struct {
	To string `json:"to" doc:"address of the other server, as clients reach it: http://HOST or https://HOST"`
}

type moveBody struct {
	Move  eventlog.ID `json:"move" doc:"number of the move"`
	Model eventlog.ID `json:"incarnation,omitzero" doc:"of turn: id of the model"`
}

type moveIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	RawBody []byte
}

type arriveIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	RawBody []byte `contentType:"application/octet-stream"`
}

// may checks the key, and that there are moves.
func (a *moveCalls) may(ctx context.Context, model string) error {
	if err := allow(ctx, Admin, model); err != nil {
		return err
	}
	if a.moves == nil {
		return problem("not_supported", "", "this server moves no models")
	}
	return nil
}

func (a *moveCalls) read(ctx context.Context, in *modelIn) (*reply[serve.MoveView], error) {
	if err := a.may(ctx, in.Model); err != nil {
		return nil, err
	}
	return answerMove(a.moves.Move(ctx, in.Model))
}

func answerMove(v serve.MoveView, err error) (*reply[serve.MoveView], error) {
	if err != nil {
		return nil, err
	}
	return &reply[serve.MoveView]{v}, nil
}

func (a *moveCalls) depart(ctx context.Context, in *moveIn) (*reply[serve.MoveView], error) {
	var b departBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	if err := a.may(ctx, in.Model); err != nil {
		return nil, err
	}
	if allowsModel(ctx, Admin) != nil { // clients follow with their own keys, which may be worth more than this one
		return nil, problem("forbidden", "to", "a model sends its callers, with their keys, where it goes: expected a key without patterns")
	}
	return answerMove(a.moves.Depart(ctx, in.Model, b.To, caller(ctx)))
}

func (a *moveCalls) parcel(ctx context.Context, in *modelIn) (*stateOut, error) {
	if err := a.may(ctx, in.Model); err != nil {
		return nil, err
	}
	b, err := a.moves.Parcel(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	return &stateOut{"application/octet-stream", b}, nil
}

func (a *moveCalls) arrive(ctx context.Context, in *arriveIn) (*reply[serve.MoveView], error) {
	if err := a.may(ctx, in.Model); err != nil {
		return nil, err
	}
	return answerMove(a.moves.Arrive(ctx, in.Model, in.RawBody, caller(ctx)))
}

// step is a call that needs the number of a move only.
func (a *moveCalls) step(do func(ctx context.Context, model string, b moveBody) (serve.MoveView, error)) func(context.Context, *moveIn) (*reply[serve.MoveView], error) {
	return func(ctx context.Context, in *moveIn) (*reply[serve.MoveView], error) {
		var b moveBody
		if err := decodeJSON(in.RawBody, &b); err != nil {
			return nil, err
		}
		if err := a.may(ctx, in.Model); err != nil {
			return nil, err
		}
		return answerMove(do(ctx, in.Model, b))
	}
}

func (a *moveCalls) gone(ctx context.Context, model string, b moveBody) (serve.MoveView, error) {
	return a.moves.Gone(ctx, model, b.Move, caller(ctx))
}

func (a *moveCalls) turn(ctx context.Context, model string, b moveBody) (serve.MoveView, error) {
	return a.moves.Turn(ctx, model, b.Model, b.Move, caller(ctx))
}

func (a *moveCalls) stay(ctx context.Context, model string, b moveBody) (serve.MoveView, error) {
	return a.moves.Stay(ctx, model, b.Move, caller(ctx))
}

// operations are the steps of troupe move.
func (a *moveCalls) operations() []op {
	const post = http.MethodPost
	return []op{
		{id: "getMove", method: "GET", path: "/v1/models/{model}/move", scope: Admin,
			summary: "Read how far the move of a model is",
			doc:     "troupe move makes these calls. They can be repeated. A cluster of several nodes moves no models (409).",
			route:   on(a.read)},
		{id: "departModel", method: post, path: "/v1/models/{model}:depart", scope: Admin, body: departBody{},
			summary: "Close a model that is to go to another server",
			doc: "Decisions and rewards are answered 503 leaving from now on, for as long as the move takes. What was answered before is " +
				"in the parcel. The key must have no patterns: callers follow the model with their keys.",
			route: on(a.depart)},
		{id: "getParcel", method: "GET", path: "/v1/models/{model}/parcel", scope: Admin,
			summary: "Read a closed model",
			doc: "Configuration, learned state, open windows, idempotency keys that are remembered, budget and counts. It is the same " +
				"as long as the model is closed.",
			route: on(a.parcel)},
		{id: "arriveModel", method: post, path: "/v1/models/{model}:arrive", scope: Admin, bytes: maxParcel, turns: a.imports,
			summary: "Take a model from another server",
			doc: "The body is the parcel. The model is there when the call is answered: with its id, its events, and the answers to " +
				"repeated calls. A parcel that was interrupted leaves nothing behind.",
			route: on(a.arrive)},
		{id: "goneModel", method: post, path: "/v1/models/{model}:gone", scope: Admin, body: moveBody{},
			summary: "Drop a closed model that has arrived at the other server",
			doc: "Calls for it and its events are answered 307 with the other server's address from now on, until the model is deleted " +
				"here or comes back.",
			route: on(a.step(a.gone))},
		{id: "turnModel", method: post, path: "/v1/models/{model}:turn", scope: Admin, body: moveBody{},
			summary: "Refuse a move for good, at the other server",
			doc:     "409 where it has arrived. Afterwards :stay undoes the move.",
			route:   on(a.step(a.turn))},
		{id: "stayModel", method: post, path: "/v1/models/{model}:stay", scope: Admin, body: moveBody{},
			summary: "Open a closed model again",
			doc:     "Only after :turn at the other server, which otherwise has the model too.",
			route:   on(a.step(a.stay))},
	}
}
