package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

// follower applies a log and says how far it is, as a server does.
type follower struct {
	head atomic.Pointer[eventlog.Head]
	done chan error
	stop context.CancelFunc
}

func follow(t *testing.T, l eventlog.Log) *follower {
	f := &follower{done: make(chan error, 1)}
	f.head.Store(&eventlog.Head{})
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	c := eventlog.NewChain(0, 1).Trust(eventlogtest.Keys)
	go func() {
		for _, err := range eventlog.Follow(ctx, l, c) {
			if err != nil {
				f.done <- err
				return
			}
			h, _ := c.Rolling()
			f.head.Store(&h)
		}
		f.done <- nil
	}()
	return f
}

func (f *follower) applied() eventlog.Head { return *f.head.Load() }

// TestManyWriters: several committers write to one log of which requests and answers are lost, each with its own
// follower; every acknowledged event is there once, and all followers agree.
func TestManyWriters(t *testing.T) {
	var faults atomic.Int64
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(n int, s eventlogtest.Step) eventlogtest.Fault {
		switch {
		case n%17 == 0 && s == eventlogtest.StepSync:
			faults.Add(1)
			return eventlogtest.LoseAck
		case n%23 == 0 && s == eventlogtest.StepWrite:
			return eventlogtest.LateRequest
		case n%31 == 0 && s == eventlogtest.StepWrite:
			return eventlogtest.LoseRequest
		}
		return eventlogtest.NoFault
	}})
	h := eventlogtest.NewHistory()
	var followers []*follower
	var wg sync.WaitGroup
	for range 3 {
		f := follow(t, m)
		followers = append(followers, f)
		c, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys, Applied: f.applied})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					for range 25 {
						if err := h.Append(t.Context(), c); err != nil {
							t.Error(err)
						}
					}
				})
			}
			callers.Wait()
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := h.Check(t.Context(), m); err != nil {
		t.Error(err)
	}
	if len(h.Acked) != 300 || faults.Load() == 0 {
		t.Errorf("%d events acknowledged, %d answers lost", len(h.Acked), faults.Load())
	}
	chain, err := eventlog.Tail(t.Context(), m, 0, eventlogtest.Keys)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := chain.Rolling()
	for _, f := range followers {
		await.Until(t, "a writer has what the log has, or has ended", func() bool { return f.applied().Seq == want.Seq || len(f.done) > 0 })
		if got := f.applied(); got != want {
			t.Errorf("a follower is at %v, the log at %v", got, want)
		}
		f.stop()
		if err := <-f.done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestWriterCutOff: a writer that has not read what the others wrote is told that its records do not count, and
// they do not; under another epoch it goes on. So does a writer that was silent for long.
func TestWriterCutOff(t *testing.T) {
	eventlog.Beside(t)
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	busy, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys, Batch: eventlog.HeaderSize})
	if err != nil {
		t.Fatal(err)
	}
	cut := atomic.Pointer[eventlog.Head]{}
	cut.Store(&eventlog.Head{})
	late, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys, Applied: func() eventlog.Head { return *cut.Load() }})
	if err != nil {
		t.Fatal(err)
	}
	first := late.Epoch()
	write := func(n int) {
		t.Helper()
		for i := range n {
			if _, err := busy.Append(t.Context(), eventlogtest.Event(int64(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(eventlog.VoidAfter - 1)
	if _, err := late.Append(t.Context(), eventlogtest.Event(-1)); err != nil {
		t.Fatalf("the last entry that counts: %v", err)
	}
	if _, err := late.Append(t.Context(), eventlogtest.Event(-2)); !errors.Is(err, eventlog.ErrVoid) {
		t.Fatalf("one entry later: %v", err)
	}
	chain, err := eventlog.Tail(t.Context(), m, 0, eventlogtest.Keys)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := chain.Rolling()
	cut.Store(&end)
	r, err := late.Append(t.Context(), eventlogtest.Event(-3))
	if err != nil || r.Event.Batch != 1 || r.Event.Epoch == first || late.Epoch() != r.Event.Epoch {
		t.Fatalf("after it has read the log: %v, error %v", r, err)
	}
	if s := late.Stats(); s.Void != 1 || s.Batches != 2 || s.Events != 2 {
		t.Errorf("%+v", s)
	}
	found, chain, err := eventlogtest.Contents(t.Context(), m, 0)
	if err != nil || len(found[-1]) != 1 || len(found[-2]) != 0 || len(found[-3]) != 1 || chain.Last() != end.Seq+1 {
		t.Fatalf("%v %v %v, last %d, error %v", found[-1], found[-2], found[-3], chain.Last(), err)
	}
	// The other one has not seen these: it is no only writer any more, and says so.
	if _, err := busy.Append(t.Context(), eventlogtest.Event(0)); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("a writer that believes that it is alone: %v", err)
	}
	for _, c := range []*eventlog.Committer{late, busy} {
		_ = c.Close(t.Context())
	}
}

// An exported log of a cluster goes on with one writer in format 3.
func ExampleCommitterOptions_format() {
	ctx := context.Background()
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	for range 2 {
		chain, err := eventlog.Tail(ctx, m, 0, eventlogtest.Keys)
		if err != nil {
			panic(err)
		}
		head, known := chain.Rolling()
		c, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys, Head: head})
		if err != nil {
			panic(err)
		}
		r, err := c.Append(ctx, eventlogtest.Event(1))
		fmt.Println(known, r.Seq, err)
		if err := c.Close(ctx); err != nil {
			panic(err)
		}
	}
	// Output:
	// true 1 <nil>
	// true 2 <nil>
}
