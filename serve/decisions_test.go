package serve

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
	"troupe/timing"
)

// TestDecisions: pages of any size have the decisions of the model with what became of them, as one page has them; and a model
// as it was after an entry has the state of then. What is too early or too late is refused with the first possible sequence.
func TestDecisions(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(1_800_000_000, 0)
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := must(Open(ctx, Options{Log: log, Keys: eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}, ExpireEvery: -1, Clock: timing.At(func() time.Time { return now })}))
	defer s.Close(ctx)
	must(s.CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) { c.Reward.Window, c.Reward.Rule = Duration(time.Minute), "sum" }), ""))
	must(s.CreateModel(ctx, vectors("other", 3, func(*ModelConfig) {}), ""))
	var want []string
	var digests []eventlog.ID
	var seqs []uint64
	for n := range 30 {
		now = now.Add(10 * time.Second)
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 4, 3), Deferred: n%7 == 3}))
		must(s.Decide(ctx, "other", DecideRequest{Actions: actions(n, 4, 3)}))
		line := d.EventID + " none NaN"
		switch {
		case n >= 28:
			line = d.EventID + " pending NaN"
		case n%7 == 3:
			line = d.EventID + " inactive NaN"
		case n%3 == 0:
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.25, Key: "a"}))
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.25, Key: "a"}))
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5, Key: "b"}))
			line = d.EventID + " paid 0.75"
		}
		want = append(want, line)
		if n == 27 {
			now = now.Add(time.Minute)
		}
		must(s.Expire(ctx))
		st := must(s.State(ctx, "m"))
		digests, seqs = append(digests, st.Digest), append(seqs, st.Seq)
	}
	for _, size := range []int{1_000_000, 7, 1} {
		var got []string
		for from := uint64(0); ; {
			page, err := s.Decisions(ctx, "m", from, size)
			if err != nil {
				t.Fatal(err)
			}
			for d, err := range page.Decisions {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %s %g", d.EventID, d.State, d.Reward))
			}
			if from = page.Next; from > page.Applied {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d entries:\n%q\nwant\n%q", size, got, want)
		}
	}
	for i, seq := range seqs {
		saved := must(fold.ReadSaved(must(s.SaveModel(ctx, "m", seq))))
		if fold.Digest(saved.Policy) != digests[i] && !saved.Compiled.Remembers() || saved.Origin.Seq != seq {
			t.Errorf("after entry %d the saved policy has the digest %v, expected %v", seq, fold.Digest(saved.Policy), digests[i])
		}
	}
	if a, b := must(fold.ReadSaved(must(s.SaveModel(ctx, "m", seqs[10])))), must(fold.ReadSaved(must(s.SaveModel(ctx, "m", 0)))); a.Learned >= b.Learned {
		t.Errorf("it had learned %d then, %d now", a.Learned, b.Learned)
	}
	s.past.Base.Store(seqs[20])
	if _, err := s.SaveModel(ctx, "m", seqs[2]); CodeOf(err) != Gone {
		t.Errorf("a state before the base: %v", err)
	}
	if _, err := s.Decisions(ctx, "m", seqs[20], 10); CodeOf(err) != Gone {
		t.Errorf("decisions before the base: %v", err)
	}
	s.past.Base.Store(0)
	if _, err := s.SaveModel(ctx, "m", 1_000_000); CodeOf(err) != Invalid {
		t.Errorf("a state of the future: %v", err)
	}
}

// entriesRead counts the entries that are read of a log.
type entriesRead struct {
	fold.Log
	entries int
}

func (c *entriesRead) Replay(chain *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error {
	return c.Log.Replay(chain, until, func(d eventlog.Delivery) error { c.entries++; return f(d) })
}

// TestDecisionsFromSnapshot: a page is computed from the nearest snapshot before it, not from the beginning, with windows that were open then,
// and reads on only until its own windows are over.
func TestDecisionsFromSnapshot(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(1_800_000_000, 0)
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := must(Open(ctx, Options{Log: log, Keys: eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}, ExpireEvery: -1, Clock: timing.At(func() time.Time { return now })}))
	defer s.Close(ctx)
	must(s.CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) { c.Reward.Window, c.Reward.Rule = Duration(time.Minute), "sum" }), ""))
	for n := range 200 {
		now = now.Add(10 * time.Second)
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 4, 3)}))
		if n%3 == 0 {
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.25}))
		}
		must(s.Expire(ctx))
	}
	end := must(s.State(ctx, "m")).Seq
	read := func(from uint64, entries int) (rows []string, looked int) {
		c := &entriesRead{Log: s.past.Log}
		s.past.Log = c
		defer func() { s.past.Log = c.Log }()
		page, err := s.Decisions(ctx, "m", from, entries)
		if err != nil {
			t.Fatal(err)
		}
		for d, err := range page.Decisions {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, fmt.Sprintf("%s %s %g", d.EventID, d.State, d.Reward))
		}
		return rows, c.entries
	}
	from := end * 3 / 4
	want, all := read(from, 20)
	f, chain, err := s.past.Fold(nil, from-5)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := must(f.AppendState(nil, chain))
	s.past.Nearest = func(seq uint64) []byte {
		if seq < from-5 {
			return nil
		}
		return snapshot
	}
	got, few := read(from, 20)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("from a snapshot:\n%q\nwant\n%q", got, want)
	}
	if few > 80 || all < int(from) {
		t.Errorf("%d entries were read from a snapshot 5 entries before a page of 20, %d without one", few, all)
	}
}
