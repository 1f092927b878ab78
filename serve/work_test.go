package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/policy"
	"troupe/serve/model"
	"troupe/spec"
)

// TestWorkIsBounded: what takes too long is refused from its sizes, before anything of it is read, with the figures and with
// what is allowed: one decision, a batch whose items are small, one over the catalogue, and a policy of which one event takes
// too long.
func TestWorkIsBounded(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("requests"), ""))
	must(s.CreateModel(ctx, vectors("vectors", 200, func(c *ModelConfig) {
		c.Policy = PolicySpec{Raw: spec.Raw{"kind": "sparse", "m": int64(1000)}, Options: &policy.SparseOptions{M: 1000}}
	}), ""))
	features := func(n int) json.RawMessage {
		return json.RawMessage(`{"a0":1` + strings.Repeat(`,"a":1`, n-1) + `}`) // names that repeat are refused where they are read
	}
	many := func(k, n int) (all []Action) {
		for i := range k {
			all = append(all, Action{ID: fmt.Sprint(i), Features: features(n)})
		}
		return all
	}
	large := func(err error, field string, words ...string) {
		t.Helper()
		wantCode(t, err, TooLarge, append(words, field, "of a processor", "100ms are allowed (--max-work of the server)")...)
	}
	_, err := s.Decide(ctx, "requests", DecideRequest{Context: features(20), Actions: many(1000, 40)})
	large(err, "actions", "1000 actions with 40000 values in all and 20 in the context")
	_, err = s.Decide(ctx, "requests", DecideRequest{Context: features(20), Actions: many(10, 40)})
	wantCode(t, err, Invalid) // small enough to be read
	_, err = s.Decide(ctx, "vectors", DecideRequest{Actions: many(1000, 200)})
	large(err, "actions", "1000 actions of 200 numbers")
	if _, err = s.Decide(ctx, "requests", DecideRequest{Context: features(20), Actions: many(700, 20), Explain: true}); err == nil {
		t.Error("explained decisions take twice as long")
	}
	batch := make([]DecideRequest, 256)
	for i := range batch {
		batch[i] = DecideRequest{Actions: many(100, 20), Context: features(5)}
	}
	_, err = s.DecideBatch(ctx, "requests", batch)
	large(err, "requests", "256 choices", "send at most ")
	batch[7].Actions = many(1000, 60)
	_, err = s.DecideBatch(ctx, "requests", batch)
	large(err, "requests[7].actions", "1000 actions with 60000 values")
	catalogue := DefaultConfig("catalogue")
	for i := range 1000 {
		catalogue.Actions = append(catalogue.Actions, model.Entry{ID: fmt.Sprint(i), Features: json.RawMessage(`{"x":1,"y":2,"z":3}`)})
	}
	must(s.CreateModel(ctx, catalogue, ""))
	must(s.DecideBatch(ctx, "catalogue", make([]DecideRequest, 4)))
	_, err = s.DecideBatch(ctx, "catalogue", make([]DecideRequest, 256))
	large(err, "requests", "256 choices")
	slow := vectors("slow", 1000, func(c *ModelConfig) {
		c.Policy = PolicySpec{Raw: spec.Raw{"kind": "bag", "m": int64(1000)}, Options: &policy.BagOptions{M: 1000}}
	})
	_, err = s.CreateModel(ctx, slow, "")
	wantCode(t, err, Invalid, "config.policy", "s of a processor with 1000 numbers", "100ms are allowed")
}

// TestLateWhileReading: the time of a request ends while its actions are read.
func TestLateWhileReading(t *testing.T) {
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(context.Background(), DefaultConfig("m"), ""))
	var all []Action
	for i := range 200 {
		all = append(all, Action{ID: fmt.Sprint(i)})
	}
	all[199].Features = json.RawMessage(`{`) // an error of what is not read any more
	ctx := &ending{Context: context.Background(), left: 3}
	var e *Error
	if _, err := s.Decide(ctx, "m", DecideRequest{Actions: all}); !errors.As(err, &e) || e.Code != Unavailable || !strings.Contains(e.Want, "the time of the request was over") {
		t.Errorf("%v, want that the time was over", err)
	}
}

// TestLateWhileChoosing: the time of a request ends while the policy looks at its actions, of which the estimate of the work is said to
// know nothing. The policy gives up, the model has not failed, and the next request is decided.
func TestLateWhileChoosing(t *testing.T) {
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(context.Background(), DefaultConfig("m"), ""))
	var all []Action
	for i := range 300 {
		all = append(all, Action{ID: fmt.Sprint(i), Features: json.RawMessage(fmt.Sprintf(`{"x":%d}`, i))})
	}
	asked := &ending{Context: context.Background(), left: 1 << 30}
	must(s.Decide(asked, "m", DecideRequest{Actions: all}))
	needs := 1<<30 - asked.left
	if needs < 300/64+300/16 {
		t.Fatalf("a decision asks %d times whether its time is over", needs)
	}
	for left := range needs - 2 { // at the end of the decision it is too late to give up
		ctx := &ending{Context: context.Background(), left: left}
		_, err := s.Decide(ctx, "m", DecideRequest{Actions: all})
		var e *Error
		if err != context.DeadlineExceeded && (!errors.As(err, &e) || e.Code != Unavailable) { // before it began, and after
			t.Fatalf("after %d of %d questions: %v, want that the time was over", left, needs, err)
		}
	}
	if m := must(s.GetModel(context.Background(), "m")); m.Failed != "" || m.Counts.Decisions != 1 {
		t.Errorf("after late requests: failed %q, %d decisions", m.Failed, m.Counts.Decisions)
	}
	must(s.Decide(context.Background(), "m", DecideRequest{Actions: all}))
}

// ending is a context that ends after it was asked a few times.
type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestRewardsAreBounded: a batch of rewards is taken until what is learned of it has taken the time of a request; the rewards
// behind are TooBusy with what to do, nothing of them is recorded, and repetitions of what was left take all of it, once each.
// Rewards that change nothing take no time of learning.
func TestRewardsAreBounded(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) {
		o.Limits.Work = 2 * time.Millisecond
	})
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	numbers := func(n, salt int) json.RawMessage {
		m := map[string]float64{}
		for i := range n {
			m[fmt.Sprint("n", i)] = float64((i*7+salt*3)%10) / 3
		}
		return must(json.Marshal(m))
	}
	var left []RewardRequest
	for i := range 300 {
		d := must(s.Decide(ctx, "m", DecideRequest{Context: numbers(12, i), Actions: []Action{
			{ID: "a", Features: numbers(8, i+1)}, {ID: "b", Features: numbers(8, i+2)}}}))
		left = append(left, RewardRequest{EventID: d.EventID, Value: float64(i % 2)})
	}
	all := left
	calls, learned := 0, uint64(0)
	for ; len(left) > 0; calls++ {
		items := must(s.RewardBatch(ctx, left))
		var again []RewardRequest
		for i, item := range items {
			switch {
			case item.Err != nil:
				wantCode(t, item.Err, TooBusy, fmt.Sprintf("rewards[%d]", i), "was not taken", "take 3ms of a processor",
					"one and a half times --max-work", "send it again")
				again = append(again, left[i])
			case len(again) > 0:
				t.Fatalf("call %d: reward %d was taken, and one before it was not", calls, i)
			case item.Result.Status != Accepted:
				t.Fatalf("call %d: reward %d: %v", calls, i, item.Result.Status)
			default:
				learned++
			}
		}
		if len(again) == len(left) {
			t.Fatalf("call %d took none of %d", calls, len(left))
		}
		if m := must(s.GetModel(ctx, "m")); m.Counts.Learned != learned || m.Counts.Rewards != learned {
			t.Fatalf("call %d: %d rewards, %d learned, expected %d", calls, m.Counts.Rewards, m.Counts.Learned, learned)
		}
		left = again
	}
	if calls < 2 {
		t.Errorf("one call took all %d", len(all))
	}
	s.opt.Limits.Work = 100 * time.Millisecond
	for i, item := range must(s.RewardBatch(ctx, all)) {
		if item.Err != nil || item.Result.Status != Duplicate {
			t.Fatalf("repetition of %d: %v, %v", i, item.Result.Status, item.Err)
		}
	}
}
