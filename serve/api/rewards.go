package api

import (
	"context"
	"fmt"

	"troupe/serve"
)

type rewardBody struct {
	Value    *float64            `json:"value,omitempty" doc:"within the model's range; may be left out where cost is given"`
	Reward   map[string]*float64 `json:"reward,omitempty" doc:"of a model with rewards, in place of value: one value or more by name; what is not named stays as it is"`
	Cost     *float64            `json:"cost,omitempty" doc:"what the decision cost, in units of money, when it is known now; of several the rule of the rewards makes one"`
	Key      string              `json:"key,omitempty" maxLength:"256" doc:"makes repetitions harmless under the rules sum and last"`
	Position *int                `json:"position,omitempty" minimum:"0" doc:"of a list: the position that value is for, from 0"`
	Slot     string              `json:"slot,omitempty" maxLength:"256" doc:"of a list: the slot that value is for"`
	Action   string              `json:"action,omitempty" maxLength:"256" doc:"of a list: the entry that value is for, by the id of the action"`
	Values   []float64           `json:"values,omitempty" maxItems:"50" doc:"of a list: a reward for each position, in place of value"`
	Shown    *int                `json:"shown,omitempty" minimum:"0" doc:"of a list: how many positions were on the screen; the others teach nothing and get no default"`
}

type rewardItemBody struct {
	EventID  string              `json:"event_id" doc:"id of the event, as decide answered it"`
	Value    *float64            `json:"value,omitempty" doc:"the reward, which must be there"`
	Reward   map[string]*float64 `json:"reward,omitempty" doc:"of a model with rewards, in place of value: one value or more by name; what is not named stays as it is"`
	Cost     *float64            `json:"cost,omitempty" doc:"what the decision cost, in units of money"`
	Key      string              `json:"key,omitempty" maxLength:"256" doc:"idempotency key of this reward"`
	Position *int                `json:"position,omitempty" minimum:"0" doc:"of a list: the position that value is for, from 0"`
	Slot     string              `json:"slot,omitempty" maxLength:"256" doc:"of a list: the slot that value is for"`
	Action   string              `json:"action,omitempty" maxLength:"256" doc:"of a list: the entry that value is for, by the id of the action"`
	Values   []float64           `json:"values,omitempty" maxItems:"50" doc:"of a list: a reward for each position, in place of value"`
	Shown    *int                `json:"shown,omitempty" minimum:"0" doc:"of a list: how many positions were on the screen; the others teach nothing and get no default"`
}

// one refuses a body with several rewards, or with none and nothing else; at is where its fields are.
func (b *rewardBody) one(at string) error {
	return oneReward(at, b.Value, b.Values, b.Reward, b.Cost, b.Shown)
}
func (b *rewardItemBody) one(at string) error {
	return oneReward(at, b.Value, b.Values, b.Reward, b.Cost, b.Shown)
}

func oneReward(at string, value *float64, values []float64, reward map[string]*float64, cost *float64, shown *int) error {
	switch {
	case value != nil && values != nil:
		return &fieldError{Field: at + "values", Want: "stands beside value, expected one of them"}
	case reward != nil && (value != nil || values != nil):
		return &fieldError{Field: at + "reward", Want: "stands beside another reward, expected one of value, values and reward"}
	case value == nil && values == nil && reward == nil && cost == nil && shown == nil:
		return &fieldError{Field: at + "value", Want: "is missing, expected a number"}
	}
	for _, name := range sortedKeys(reward) {
		if reward[name] == nil {
			return &fieldError{Field: at + "reward." + name, Want: "is null, expected a number; leave out what is not known"}
		}
	}
	return nil
}

// byName returns the values of a reward with names, of which none is nil.
func byName(reward map[string]*float64) map[string]float64 {
	if reward == nil {
		return nil
	}
	out := make(map[string]float64, len(reward))
	for name, v := range reward {
		out[name] = *v
	}
	return out
}

type rewardBatchBody struct {
	Rewards []rewardItemBody `json:"rewards" minItems:"1" maxItems:"10000" doc:"the rewards to send, in order"`
}

type rewardAnswer struct {
	Result  *serve.RewardResult `json:"result,omitempty"`
	Problem *Problem            `json:"problem,omitempty"`
}

type rewardAnswers struct {
	Results []rewardAnswer `json:"results" doc:"in the order of the rewards"`
}

type rewardIn struct {
	Event   string `path:"event" maxLength:"256" doc:"id of the event, as decide answered it"`
	Key     string `header:"Idempotency-Key" maxLength:"256" doc:"the same as the field key"`
	RawBody []byte
}

// rewardCalls take rewards.
type rewardCalls struct {
	svc     serve.DecisionService
	metrics *metrics
	faults  *faults
}

func (a *rewardCalls) reward(ctx context.Context, in *rewardIn) (*reply[serve.RewardResult], error) {
	var b rewardBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	if err := b.one(""); err != nil {
		return nil, err
	}
	if b.Key == "" {
		b.Key = in.Key
	}
	if err := allow(ctx, Reward, ""); err != nil {
		return nil, err
	}
	r, err := a.svc.Reward(ctx, serve.RewardRequest{EventID: in.Event, Value: orZero(b.Value), Cost: b.Cost,
		OnlyCost: b.Value == nil && b.Values == nil && b.Reward == nil, Key: b.Key, Caller: caller(ctx), Allow: allowsModel(ctx, Reward),
		Position: b.Position, Slot: b.Slot, Action: b.Action, Values: b.Values, Shown: b.Shown, Rewards: byName(b.Reward)})
	a.metrics.reward(r.Status, err)
	return &reply[serve.RewardResult]{r}, err
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func (a *rewardCalls) batch(ctx context.Context, in *bodyIn) (*reply[rewardAnswers], error) {
	if err := allow(ctx, Reward, ""); err != nil {
		return nil, err
	}
	var b rewardBatchBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	if n := len(b.Rewards); n == 0 || n > 10_000 {
		return nil, &fieldError{Field: "rewards", Want: fmt.Sprintf("has %d entries, expected 1 to 10000", n)}
	}
	out := &reply[rewardAnswers]{rewardAnswers{make([]rewardAnswer, len(b.Rewards))}}
	var rs []serve.RewardRequest
	allow := allowsModel(ctx, Reward)
	var place []int // of rs[i] in the answer
	for i, r := range b.Rewards {
		if err := r.one(fmt.Sprintf("rewards[%d].", i)); err != nil {
			out.Body.Results[i].Problem = problemOf(err)
			continue
		}
		rs = append(rs, serve.RewardRequest{EventID: r.EventID, Value: orZero(r.Value), Cost: r.Cost,
			OnlyCost: r.Value == nil && r.Values == nil && r.Reward == nil, Key: r.Key, Caller: caller(ctx), Allow: allow,
			Position: r.Position, Slot: r.Slot, Action: r.Action, Values: r.Values, Shown: r.Shown, Rewards: byName(r.Reward)})
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
			answer.Problem = a.faults.problem(ctx, item.Err)
			continue
		}
		answer.Result = &items[i].Result
	}
	return out, nil
}
