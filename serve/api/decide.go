package api

import (
	"context"
	"encoding/json"
	"fmt"

	"troupe/serve"
)

// decideBody asks for an action.
type decideBody struct {
	Context         json.RawMessage   `json:"context,omitempty" doc:"features of the situation: an object, a list of objects or numbers"`
	Actions         []serve.Action    `json:"actions,omitempty" doc:"candidates: an id and features, or the id of a catalogue entry; without actions and packed, the whole catalogue"`
	Packed          json.RawMessage   `json:"packed,omitempty" doc:"rows of numbers, one for each candidate: {\"dtype\": \"float32\" or \"float64\", \"shape\": [K, d], \"data\": base64 of little-endian numbers}"`
	IDs             []string          `json:"ids,omitempty" doc:"an id for each row of packed"`
	Available       []bool            `json:"available,omitempty" doc:"a truth value for each candidate"`
	Costs           []*float64        `json:"costs,omitempty" doc:"what it costs to play each row of packed, or each entry of the catalogue, in units of money; actions have their own cost"`
	Numbers         []serve.NumberAsk `json:"numbers,omitempty" maxItems:"3" doc:"numbers to play: the first request with them fixes the ranges of the model, later ones may narrow them; without actions the numbers alone are played"`
	Exclude         []string          `json:"exclude,omitempty" doc:"ids that may not be chosen"`
	Baseline        *int              `json:"baseline,omitempty" minimum:"0" doc:"index of the caller's own choice, for apprentice, shadow and guarded, which needs one"`
	Mode            serve.Mode        `json:"mode,omitempty" enum:"online,apprentice,shadow,frozen,guarded" doc:"instead of the model's mode"`
	DeferActivation bool              `json:"defer_activation,omitempty" doc:"the event counts only after :activate or its first reward"`
	MinSeq          uint64            `json:"min_seq,omitempty" doc:"decide on a state that has at least this sequence number: read your writes"`
	Choose          *int              `json:"choose,omitempty" minimum:"1" doc:"a list of so many of the actions in an order, at most 50: one event, whose positions are rewarded"`
	Slots           []serve.Slot      `json:"slots,omitempty" doc:"a list with these positions, in the order in which they are shown; choose is short for slots without names"`
	Explain         string            `json:"explain,omitempty" enum:"full" doc:"full: every candidate's propensity, votes and score"`
}

type decideBatchBody struct {
	Requests []decideBody `json:"requests" minItems:"1" maxItems:"256" doc:"the decisions to make, in order"`
}

// batchAnswer is one answer of a batch: a decision or a problem.
type batchAnswer struct {
	Decision *serve.Decision `json:"decision,omitempty"`
	Problem  *Problem        `json:"problem,omitempty"`
}

type batchAnswers struct {
	Results []batchAnswer `json:"results" doc:"in the order of the requests"`
}

// request checks what the edge knows better than the service: shapes and counts.
func (b *decideBody) request(most int, field, key, caller string) (serve.DecideRequest, error) {
	for name, n := range map[string]int{"costs": len(b.Costs), "actions": len(b.Actions), "ids": len(b.IDs),
		"available": len(b.Available), "exclude": len(b.Exclude)} {
		if n > most {
			return serve.DecideRequest{}, problem("too_large", field+name,
				fmt.Sprintf("has %d entries, at most %d are allowed (--max-actions of the server)", n, most))
		}
	}
	switch {
	case b.Explain != "" && b.Explain != "full":
		return serve.DecideRequest{}, &fieldError{Field: field + "explain", Want: "is neither absent nor full"}
	case len(key) > 256:
		return serve.DecideRequest{}, &fieldError{Field: field + "idempotency_key", Want: "has more than 256 bytes"}
	}
	if err := cleanIDs(field+"actions", b.Actions, func(x serve.Action) string { return x.ID }); err != nil {
		return serve.DecideRequest{}, err
	}
	for i := range b.Slots {
		at := fmt.Sprintf("%sslots[%d]", field, i)
		if err := CleanID(at+".id", b.Slots[i].ID); err != nil {
			return serve.DecideRequest{}, err
		}
		if n := max(len(b.Slots[i].Actions), len(b.Slots[i].Exclude)); n > most {
			return serve.DecideRequest{}, problem("too_large", at+".actions",
				fmt.Sprintf("has %d entries, at most %d are allowed (--max-actions of the server)", n, most))
		}
		if err := cleanIDs(at+".actions", b.Slots[i].Actions, func(x serve.Action) string { return x.ID }); err != nil {
			return serve.DecideRequest{}, err
		}
	}
	for i, id := range b.IDs {
		if err := CleanID(fmt.Sprintf("%sids[%d]", field, i), id); err != nil {
			return serve.DecideRequest{}, err
		}
	}
	var costs []float64
	if b.Costs != nil {
		costs = make([]float64, len(b.Costs))
	}
	for i, c := range b.Costs {
		if c == nil {
			return serve.DecideRequest{}, &fieldError{Field: fmt.Sprintf("%scosts[%d]", field, i),
				Want: "is null, expected a number"}
		}
		costs[i] = *c
	}
	return serve.DecideRequest{
		Context: b.Context, Actions: b.Actions, Packed: b.Packed, IDs: b.IDs, Available: b.Available,
		Exclude: b.Exclude, Costs: costs, Numbers: b.Numbers,
		Baseline: b.Baseline, Mode: b.Mode, Deferred: b.DeferActivation, MinSeq: b.MinSeq, IdempotencyKey: key,
		Explain: b.Explain == "full", Caller: caller, Choose: b.Choose, Slots: b.Slots,
	}, nil
}

type decideIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	Key     string `header:"Idempotency-Key" maxLength:"256" doc:"a repetition with the same key and body gets the same decision"`
	Timeout int    `header:"Request-Timeout-Ms" minimum:"1" maximum:"999999999" doc:"milliseconds that the client waits; what cannot begin in that time is answered 429 and not decided"`
	RawBody []byte
}

// decisionCalls decide.
type decisionCalls struct {
	svc    serve.DecisionService
	most   int // candidates of a decision
	faults *faults
}

func (a *decisionCalls) decide(ctx context.Context, in *decideIn) (*reply[serve.Decision], error) {
	if err := allow(ctx, Decide, in.Model); err != nil {
		return nil, err
	}
	var b decideBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	r, err := b.request(a.most, "", in.Key, caller(ctx))
	if err != nil {
		return nil, err
	}
	d, err := a.svc.Decide(ctx, in.Model, r)
	return &reply[serve.Decision]{d}, err
}

type decideBatchIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	Key     string `header:"Idempotency-Key" maxLength:"252" doc:"item i has the key KEY/i, counted from 0"`
	Timeout int    `header:"Request-Timeout-Ms" minimum:"1" maximum:"999999999" doc:"milliseconds that the client waits; what cannot begin in that time is answered 429 and not decided"`
	RawBody []byte
}

func (a *decisionCalls) batch(ctx context.Context, in *decideBatchIn) (*reply[batchAnswers], error) {
	if err := allow(ctx, Decide, in.Model); err != nil {
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
		r, err := b.Requests[i].request(a.most, fmt.Sprintf("requests[%d].", i), key, caller(ctx))
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
	items, err := a.svc.DecideBatch(ctx, in.Model, rs)
	if err != nil {
		return nil, err
	}
	out := &reply[batchAnswers]{batchAnswers{make([]batchAnswer, len(items))}}
	for i, item := range items {
		if item.Err != nil {
			out.Body.Results[i].Problem = a.faults.problem(ctx, item.Err)
			continue
		}
		out.Body.Results[i].Decision = &items[i].Decision
	}
	return out, nil
}
