package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"troupe/serve"
)

// decideBody asks for an action.
type decideBody struct {
	Context         json.RawMessage `json:"context,omitempty" doc:"features of the situation: an object, a list of objects or numbers"`
	Actions         []serve.Action  `json:"actions,omitempty" doc:"candidates: an id and features, or the id of a catalogue entry; without actions and packed, the whole catalogue"`
	Packed          json.RawMessage `json:"packed,omitempty" doc:"rows of numbers, one for each candidate: {\"dtype\": \"float32\" or \"float64\", \"shape\": [K, d], \"data\": base64 of little-endian numbers}"`
	IDs             []string        `json:"ids,omitempty" doc:"an id for each row of packed"`
	Available       []bool          `json:"available,omitempty" doc:"a truth value for each candidate"`
	Exclude         []string        `json:"exclude,omitempty" doc:"ids that may not be chosen"`
	Baseline        *int            `json:"baseline,omitempty" minimum:"0" doc:"index of the caller's own choice, for apprentice and shadow"`
	Mode            serve.Mode      `json:"mode,omitempty" enum:"online,apprentice,shadow,frozen" doc:"instead of the model's mode"`
	DeferActivation bool            `json:"defer_activation,omitempty" doc:"the event counts only after :activate or its first reward"`
	MinSeq          uint64          `json:"min_seq,omitempty" doc:"decide on a state that has at least this sequence number: read your writes"`
	Explain         string          `json:"explain,omitempty" enum:"full" doc:"full: every candidate's propensity, votes and score"`
}

type decideBatchBody struct {
	Requests []decideBody `json:"requests" minItems:"1" maxItems:"256"`
}

// batchAnswer is one answer of a batch: a decision or a problem.
type batchAnswer struct {
	Decision *serve.Decision `json:"decision,omitempty"`
	Problem  *Problem        `json:"problem,omitempty"`
}

type batchAnswers struct {
	Results []batchAnswer `json:"results" doc:"in the order of the requests"`
}

type rewardBody struct {
	Value *float64 `json:"value" doc:"within the model's range"`
	Key   string   `json:"key,omitempty" maxLength:"256" doc:"makes repetitions harmless under the rules sum and last"`
}

type rewardItemBody struct {
	EventID string   `json:"event_id"`
	Value   *float64 `json:"value"`
	Key     string   `json:"key,omitempty" maxLength:"256"`
}

type rewardBatchBody struct {
	Rewards []rewardItemBody `json:"rewards" minItems:"1" maxItems:"10000"`
}

type rewardAnswer struct {
	Result  *serve.RewardResult `json:"result,omitempty"`
	Problem *Problem            `json:"problem,omitempty"`
}

type rewardAnswers struct {
	Results []rewardAnswer `json:"results" doc:"in the order of the rewards"`
}

// request checks what the edge knows better than the service: shapes and counts.
func (b *decideBody) request(a *API, field, key, caller string) (serve.DecideRequest, error) {
	for name, n := range map[string]int{"actions": len(b.Actions), "ids": len(b.IDs), "available": len(b.Available), "exclude": len(b.Exclude)} {
		if n > a.opts.MaxActions {
			return serve.DecideRequest{}, problem("too_large", field+name, fmt.Sprintf("has %d entries, at most %d are allowed", n, a.opts.MaxActions))
		}
	}
	switch {
	case b.Explain != "" && b.Explain != "full":
		return serve.DecideRequest{}, &fieldError{Field: field + "explain", Want: "is neither absent nor full"}
	case len(key) > 256:
		return serve.DecideRequest{}, &fieldError{Field: field + "idempotency_key", Want: "has more than 256 bytes"}
	}
	return serve.DecideRequest{
		Context: b.Context, Actions: b.Actions, Packed: b.Packed, IDs: b.IDs, Available: b.Available, Exclude: b.Exclude,
		Baseline: b.Baseline, Mode: b.Mode, Deferred: b.DeferActivation, MinSeq: b.MinSeq, IdempotencyKey: key,
		Explain: b.Explain == "full", Caller: caller,
	}, nil
}

type decideIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	Key     string `header:"Idempotency-Key" maxLength:"256" doc:"a repetition with the same key and body gets the same decision"`
	RawBody []byte
}

func (a *API) decideRoutes() {
	register(a, op{id: "decide", method: "POST", path: "/v1/models/{model}:decide", scope: Decide, body: decideBody{},
		example: `{"context": {"user": {"city": "Oslo", "age": 31}}, "actions": [{"id": "a", "features": {"price": 0.4}}, {"id": "b", "features": {"price": 0.9}}], "explain": "full"}`,
		answer:  `{"event_id": "0402frnxfjrs0y001g00r5rdx6r4apmbsg", "action": {"id": "a", "index": 0}, "propensity": {"num": 1600, "den": 3200}, "mode": "online", "seq": 3, "basis_seq": 2, "durable": true}`,
		summary: "Choose an action",
		doc: "The answer has the event's id, the action, its exact propensity as a quotient of integers, and the log entry that " +
			"holds it. 200 means durable."},
		func(ctx context.Context, in *decideIn) (*struct{ Body serve.Decision }, error) {
			if err := a.allow(ctx, Decide, in.Model); err != nil {
				return nil, err
			}
			var b decideBody
			if err := decodeJSON(in.RawBody, &b); err != nil {
				return nil, err
			}
			r, err := b.request(a, "", in.Key, caller(ctx))
			if err != nil {
				return nil, err
			}
			d, err := a.svc.Decide(ctx, in.Model, r)
			return &struct{ Body serve.Decision }{d}, err
		})
	register(a, op{id: "decideBatch", method: "POST", path: "/v1/models/{model}:decideBatch", scope: Decide, body: decideBatchBody{},
		example: `{"requests": [{"context": {"user": {"city": "Oslo", "age": 31}}, "actions": [{"id": "a", "features": {"price": 0.4}}, {"id": "b", "features": {"price": 0.9}}]}, {"context": {"user": {"city": "Bergen", "age": 20}}, "actions": [{"id": "a", "features": {"price": 0.3}}, {"id": "b", "features": {"price": 0.9}}]}]}`,
		summary: "Choose many actions on one state", doc: "At most 256. A bad request among them gets a problem of its own. With the header Idempotency-Key " +
			"item i has the key KEY/i, so a repeated batch makes no new decisions."},
		func(ctx context.Context, in *struct {
			Model   string `path:"model" maxLength:"64" doc:"name of the model"`
			Key     string `header:"Idempotency-Key" maxLength:"252" doc:"item i has the key KEY/i, counted from 0"`
			RawBody []byte
		}) (*struct{ Body batchAnswers }, error) {
			if err := a.allow(ctx, Decide, in.Model); err != nil {
				return nil, err
			}
			var b decideBatchBody
			if err := decodeJSON(in.RawBody, &b); err != nil {
				return nil, err
			}
			if n := len(b.Requests); n == 0 || n > 256 {
				return nil, &fieldError{Field: "requests", Want: fmt.Sprintf("has %d entries, expected 1 to 256", n)}
			}
			var rs []serve.DecideRequest
			for i := range b.Requests {
				key := ""
				if in.Key != "" {
					key = fmt.Sprintf("%s/%d", in.Key, i)
				}
				r, err := b.Requests[i].request(a, fmt.Sprintf("requests[%d].", i), key, caller(ctx))
				if err != nil {
					return nil, err
				}
				rs = append(rs, r)
			}
			items, err := a.svc.DecideBatch(ctx, in.Model, rs)
			if err != nil {
				return nil, err
			}
			out := &struct{ Body batchAnswers }{batchAnswers{make([]batchAnswer, len(items))}}
			for i, item := range items {
				if item.Err != nil {
					out.Body.Results[i].Problem = problemOf(item.Err)
					a.explain(ctx, out.Body.Results[i].Problem, item.Err)
					continue
				}
				out.Body.Results[i].Decision = &items[i].Decision
			}
			return out, nil
		})
	register(a, op{id: "reward", method: "POST", path: "/v1/events/{event}:reward", scope: Reward, body: rewardBody{},
		example: `{"value": 1}`,
		answer:  `{"status": "accepted", "seq": 4}`,
		summary: "Send a reward",
		doc: "status: accepted; duplicate (the event has its reward); late (the window is closed; recorded, does not count); " +
			"ignored (recorded, does not count). Repeating a call is safe."},
		func(ctx context.Context, in *struct {
			Event   string `path:"event" maxLength:"256" doc:"id of the event, as decide answered it"`
			Key     string `header:"Idempotency-Key" maxLength:"256" doc:"the same as the field key"`
			RawBody []byte
		}) (*struct{ Body serve.RewardResult }, error) {
			var b rewardBody
			if err := decodeJSON(in.RawBody, &b); err != nil {
				return nil, err
			}
			if b.Value == nil {
				return nil, &fieldError{Field: "value", Want: "is missing, expected a number"}
			}
			if b.Key == "" {
				b.Key = in.Key
			}
			if err := a.allowEvent(ctx, Reward, in.Event); err != nil {
				return nil, err
			}
			r, err := a.svc.Reward(ctx, serve.RewardRequest{EventID: in.Event, Value: *b.Value, Key: b.Key, Caller: caller(ctx)})
			a.metrics.reward(r.Status, err)
			return &struct{ Body serve.RewardResult }{r}, err
		})
	register(a, op{id: "rewardBatch", method: "POST", path: "/v1/rewards:batch", scope: Reward, body: rewardBatchBody{},
		example: `{"rewards": [{"event_id": "0402frnxfjrs0y001g00r5rdx6r4apmbsg", "value": 1}]}`,
		summary: "Send many rewards", doc: "At most 10,000, each with its own result or problem."},
		func(ctx context.Context, in *bodyIn) (*struct{ Body rewardAnswers }, error) {
			if err := a.allow(ctx, Reward, ""); err != nil {
				return nil, err
			}
			var b rewardBatchBody
			if err := decodeJSON(in.RawBody, &b); err != nil {
				return nil, err
			}
			if n := len(b.Rewards); n == 0 || n > 10_000 {
				return nil, &fieldError{Field: "rewards", Want: fmt.Sprintf("has %d entries, expected 1 to 10000", n)}
			}
			out := &struct{ Body rewardAnswers }{rewardAnswers{make([]rewardAnswer, len(b.Rewards))}}
			var rs []serve.RewardRequest
			var place []int // of rs[i] in the answer
			for i, r := range b.Rewards {
				var err error
				switch {
				case r.Value == nil:
					err = &fieldError{Field: fmt.Sprintf("rewards[%d].value", i), Want: "is missing, expected a number"}
				default:
					err = a.allowEvent(ctx, Reward, r.EventID)
				}
				if err != nil {
					out.Body.Results[i].Problem = problemOf(err)
					continue
				}
				rs = append(rs, serve.RewardRequest{EventID: r.EventID, Value: *r.Value, Key: r.Key, Caller: caller(ctx)})
				place = append(place, i)
			}
			if len(rs) == 0 {
				return out, nil
			}
			items, err := a.svc.RewardBatch(ctx, rs)
			if err != nil {
				return nil, err
			}
			for i, item := range items {
				a.metrics.reward(item.Result.Status, item.Err)
				answer := &out.Body.Results[place[i]]
				if item.Err != nil {
					answer.Problem = problemOf(item.Err)
					a.explain(ctx, answer.Problem, item.Err)
					continue
				}
				answer.Result = &items[i].Result
			}
			return out, nil
		})
	register(a, op{id: "activate", method: "POST", path: "/v1/events/{event}:activate", scope: Decide,
		summary: "Activate a deferred decision", doc: "From now on the event counts and its window runs to its end."},
		func(ctx context.Context, in *eventIn) (*struct{ Body serve.ActivateResult }, error) {
			if err := a.allowEvent(ctx, Decide, in.Event); err != nil {
				return nil, err
			}
			r, err := a.svc.Activate(ctx, in.Event, caller(ctx))
			return &struct{ Body serve.ActivateResult }{r}, err
		})
	register(a, op{id: "getEvent", method: "GET", path: "/v1/events/{event}", scope: Read, summary: "Read what is recorded of a decision"},
		func(ctx context.Context, in *eventIn) (*struct{ Body serve.EventView }, error) {
			if err := a.allowEvent(ctx, Read, in.Event); err != nil {
				return nil, err
			}
			e, err := a.svc.Event(ctx, in.Event)
			return &struct{ Body serve.EventView }{e}, err
		})
	register(a, op{id: "replay", method: "POST", path: "/v1/events/{event}:replay", scope: Admin,
		summary: "Decide once more and compare", doc: "Folds the log up to the state that decided; it may take seconds. Nothing is recorded."},
		func(ctx context.Context, in *eventIn) (*struct{ Body serve.Replayed }, error) {
			if err := a.allowEvent(ctx, Admin, in.Event); err != nil {
				return nil, err
			}
			r, err := a.svc.Replay(ctx, in.Event)
			return &struct{ Body serve.Replayed }{r}, err
		})
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(a.openapi)
	})
}
