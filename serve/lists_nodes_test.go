package serve

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
)

// TestListsAndNumbersOnThreeNodes: callers play lists and numbers at three nodes at once, and pay at other nodes than those that decided. A list is one
// record of the log. The probabilities that an answer explains sum to 1, and that of what was played is the one that the record states. Each node
// has the same digests, replays what the others decided, and repeats a list by its key.
func TestListsAndNumbersOnThreeNodes(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	_, nodes, _ := three(t)
	must(nodes[0].CreateModel(ctx, DefaultConfig("m"), ""))
	whole := DefaultConfig("w")
	whole.List.Reward = "list"
	must(nodes[1].CreateModel(ctx, whole, ""))
	must(nodes[2].CreateModel(ctx, DefaultConfig("shop"), ""))
	for _, s := range nodes {
		for _, name := range []string{"m", "w", "shop"} {
			eventually(t, func() bool { _, err := s.GetModel(ctx, name); return err == nil || ctx.Err() != nil })
		}
	}
	price := playing("price", 1, 20, .5)
	must(nodes[0].Decide(ctx, "shop", DecideRequest{Numbers: []NumberAsk{price}})) // fixes the range
	var mu sync.Mutex
	events, lists, numbers := map[string]int{}, 0, 1 // positions by event
	decided := func(d Decision) {
		mu.Lock()
		defer mu.Unlock()
		if events[d.EventID] = len(d.List); d.List != nil {
			lists++
		} else {
			numbers++
		}
	}
	const callers, rounds = 6, 8
	names := []string{"a", "b", "c", "d", "e"}
	play := func(caller int) error {
		for i := range rounds {
			n := caller*rounds + i
			at, other := nodes[n%3], nodes[(n+1)%3]
			// A list, with alike candidates at times, and with slots at times.
			r := listRequest(n, 3, names...)
			if n%4 == 1 {
				r.Actions[3].ID = ""
				r.Actions[4] = r.Actions[3]
			}
			if n%4 == 2 {
				r.Choose, r.Slots = nil, []Slot{{ID: "hero"}, {ID: "side", Exclude: []string{"a"}}}
			}
			r.Explain, r.IdempotencyKey = true, fmt.Sprint("list ", n)
			d, err := at.Decide(ctx, "m", r)
			if err != nil {
				return err
			}
			decided(d)
			if err := explainedList(&d); err != nil {
				return fmt.Errorf("list %d: %w", n, err)
			}
			r.MinSeq = d.Seq
			again, err := other.Decide(ctx, "m", r)
			if err != nil || !again.Repeated || again.EventID != d.EventID || fmt.Sprint(again.List[0].ID, again.List[1].ID) != fmt.Sprint(d.List[0].ID, d.List[1].ID) {
				return fmt.Errorf("repeated at another node: %+v, %w", again, err)
			}
			if n%5 == 0 {
				_, err = other.Reward(ctx, RewardRequest{EventID: d.EventID, Position: new(1), Value: 1})
			} else {
				y := make([]float64, len(d.List))
				for p, e := range d.List {
					y[p] = float64((e.Index*(p+1) + n) % 2)
				}
				_, err = other.Reward(ctx, RewardRequest{EventID: d.EventID, Values: y})
			}
			if err != nil {
				return err
			}
			// A list with one reward, and a number.
			if d, err = other.Decide(ctx, "w", listRequest(n, 2, names...)); err != nil {
				return err
			}
			decided(d)
			if _, err = at.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(n % 3)}); err != nil {
				return err
			}
			if d, err = at.Decide(ctx, "shop", DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%2), Numbers: []NumberAsk{price}, Explain: true}); err != nil {
				return err
			}
			decided(d)
			if err := explainedNumber(&d, "price"); err != nil {
				return fmt.Errorf("number %d: %w", n, err)
			}
			if _, err = other.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1 - d.Numbers["price"]/40}); err != nil {
				return err
			}
		}
		return nil
	}
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			if err := play(caller); err != nil {
				t.Errorf("caller %d: %v", caller, err)
			}
		})
	}
	if group.Wait(); t.Failed() {
		return
	}
	if lists != 2*callers*rounds || numbers != callers*rounds+1 {
		t.Errorf("%d lists and %d numbers", lists, numbers)
	}
	for _, s := range nodes {
		must(s.progress.until(ctx, nodes[0].Health().Log))
	}
	for _, name := range []string{"m", "w", "shop"} {
		n := 0
		for d, err := range must(nodes[1].Decisions(ctx, name, 0, 1_000_000)).Decisions {
			if err != nil {
				t.Fatal(err)
			}
			k, known := events[d.EventID]
			if n++; !known && n > 1 || name != "shop" && (d.Record.List == nil || d.Record.List.K() != k || len(d.Positions) != k) {
				t.Errorf("%s: entry %d has the list %v, want %d positions", name, d.Seq, d.Record.List, k)
			}
			delete(events, d.EventID)
			if n%7 != 0 {
				continue
			}
			for i, s := range nodes {
				if r := must(s.Replay(ctx, d.EventID)); !r.Equal {
					t.Errorf("%s: at node %d entry %d replays with other %v", name, i, d.Seq, r.Differs)
				}
			}
		}
		if want := map[string]int{"m": callers * rounds, "w": callers * rounds, "shop": callers*rounds + 1}[name]; n != want {
			t.Errorf("%s has %d decisions, want %d", name, n, want)
		}
	}
	for _, name := range []string{"m", "w", "shop"} {
		var want eventlog.ID
		for i, s := range nodes {
			v := must(s.State(ctx, name))
			if want == 0 {
				want = v.Digest
			}
			if v.Digest != want || v.Learned == 0 {
				t.Errorf("%s: node %d has the digest %v after %d, node 0 %v", name, i, v.Digest, v.Learned, want)
			}
		}
	}
	agree(t, nodes...)
}

// explainedList checks the law of a list that an answer explains: of each position it sums to 1, and of the entry it is the propensity. Here an entry's index is that of a candidate.
func explainedList(d *Decision) error {
	for p, e := range d.List {
		sum, seen := new(big.Rat), false
		for _, x := range d.Explain {
			q := new(big.Rat).SetFrac(new(big.Int).SetUint64(x.Marginals[p].Num), new(big.Int).SetUint64(x.Marginals[p].Den))
			sum.Add(sum, q)
			if x.Index == e.Index {
				seen = x.Marginals[p] == e.Propensity
			}
		}
		if sum.Cmp(big.NewRat(1, 1)) != 0 || !seen {
			return fmt.Errorf("at position %d the marginals sum to %v, that of %s is its propensity %v: %t", p, sum, e.ID, e.Propensity, seen)
		}
	}
	return nil
}

// explainedNumber checks the law of one number with steps.
func explainedNumber(d *Decision, name string) error {
	sum, seen := new(big.Rat), false
	own := new(big.Rat).SetFrac(new(big.Int).SetUint64(d.Propensity.Num), new(big.Int).SetUint64(d.Propensity.Den))
	for _, x := range d.Explain {
		q := new(big.Rat).SetFrac(new(big.Int).SetUint64(x.Propensity.Num), new(big.Int).SetUint64(x.Propensity.Den))
		sum.Add(sum, q)
		if x.Numbers[name] == d.Numbers[name] {
			seen = q.Cmp(own) == 0
		}
	}
	if sum.Cmp(big.NewRat(1, 1)) != 0 || !seen {
		return fmt.Errorf("the cells sum to %v, that of %v has its propensity %v: %t", sum, d.Numbers[name], d.Propensity, seen)
	}
	return nil
}
