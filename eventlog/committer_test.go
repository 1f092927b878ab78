package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

// TestCommitter: many callers, few batches, receipts that are true, both engines.
func TestCommitter(t *testing.T) {
	for name, e := range map[string]eventlogtest.Engine{"memory": &eventlogtest.MemoryEngine{}, "jetstream": newDiskEngine(t)} {
		t.Run(name, func(t *testing.T) {
			l := e.Open(t, 64<<20)
			defer l.Close()
			h := eventlogtest.NewHistory()
			c := eventlogtest.NewCommitter(t, l, eventlog.CommitterOptions{Now: func() time.Time { return time.Unix(5, 0) }})
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					for range 40 {
						if err := h.Append(t.Context(), c); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			// Records of one call stay together.
			r, err := c.Append(t.Context(), eventlogtest.Event(-1), eventlogtest.Event(-2), eventlogtest.Event(-3))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Append(t.Context(), eventlogtest.Event(-4)); !errors.Is(err, eventlog.ErrClosed) {
				t.Errorf("after close: %v", err)
			}
			found, chain, err := eventlogtest.Contents(t.Context(), l, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range int64(3) {
				want := eventlogtest.Place{Seq: r.Seq, Key: eventlog.Event{Epoch: r.Event.Epoch, Batch: r.Event.Batch, Index: r.Event.Index + uint32(i)}}
				if got := found[-1-i]; len(got) != 1 || got[0] != want {
					t.Errorf("record %d of one call is at %v, want %v", i, got, want)
				}
				h.Unknown[-1-i] = true // for the check below
			}
			if err := h.Check(t.Context(), l); err != nil {
				t.Error(err)
			}
			s := c.Stats()
			if s.Events != 2003 || s.Head != chain.Head() || s.Waiting != 0 || len(h.Acked) != 2000 {
				t.Errorf("%+v, chain at %v", s, chain.Head())
			}
			t.Logf("%d events in %d batches", s.Events, s.Batches)
			for d, err := range eventlog.Replay(t.Context(), l, eventlog.NewChain(0, 1), 1) {
				if err != nil || d.Time != 5e9 {
					t.Errorf("time %d, error %v", d.Time, err)
				}
			}
		})
	}
}

// TestCommitterRefusals: what is refused and why; nothing of it reaches the log.
func TestCommitterRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		m := &slowLog{Memory: eventlogtest.NewMemory(eventlogtest.MemoryOptions{Limit: 2000}), gate: block}
		c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{Queue: 1000, Batch: 600})
		results := make(chan error, 100)
		big := &eventlog.Control{Act: eventlog.Create, Model: 1, Config: make([]byte, 400)}
		send := func(ctx context.Context, r ...eventlog.Record) {
			go func() { _, err := c.Append(ctx, r...); results <- err }()
			synctest.Wait()
		}
		send(t.Context(), big) // under way
		send(t.Context(), big) // waits
		send(t.Context(), big) // waits
		if _, err := c.Append(t.Context(), big); !errors.Is(err, eventlog.ErrBusy) {
			t.Errorf("queue full: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Append(gone, eventlogtest.Event(1)); !errors.Is(err, context.Canceled) || errors.Is(err, eventlog.ErrUnknown) {
			t.Errorf("cancelled before: %v", err)
		}
		soon, cancel2 := context.WithTimeout(t.Context(), time.Second)
		defer cancel2()
		if _, err := c.Append(soon, eventlogtest.Event(2)); !errors.Is(err, eventlog.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled while waiting: %v", err)
		}
		for _, bad := range [][]eventlog.Record{nil, {&eventlog.Reward{}}, {&eventlog.Loss{First: 1, Last: 1}}, {&eventlog.Control{Act: eventlog.Create, Model: 1, Config: make([]byte, eventlog.MaxBatch)}}, slices.Repeat([]eventlog.Record{eventlogtest.Event(3)}, eventlog.MaxEvents+1)} {
			if _, err := c.Append(t.Context(), bad...); err == nil || errors.Is(err, eventlog.ErrUnknown) {
				t.Errorf("%d bad records: %v", len(bad), err)
			}
		}
		close(block)
		synctest.Wait()
		for range 3 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		// The log is full now; it says so, and takes small ones again after a trim.
		for range 3 {
			if _, err := c.Append(t.Context(), big); err != nil && !errors.Is(err, eventlog.ErrFull) {
				t.Errorf("full: %v", err)
			}
		}
		if s := c.Stats(); s.Refused == 0 {
			t.Errorf("%+v", s)
		}
		if err := m.Trim(t.Context(), 0, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Append(t.Context(), big); err != nil {
			t.Errorf("after a trim: %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, _, err := eventlogtest.Contents(t.Context(), m, 0); err != nil {
			t.Error(err)
		}
		for _, bad := range []eventlog.CommitterOptions{{Batch: 10}, {Batch: eventlog.MaxBatch + 1}, {Queue: 100}, {Head: eventlog.Head{Seq: 3}}, {Patience: -1}} {
			if _, err := eventlog.NewCommitter(m, bad); err == nil {
				t.Errorf("%+v was accepted", bad)
			}
		}
	})
}

// slowLog lets Append through when its gate is closed.
type slowLog struct {
	*eventlogtest.Memory
	gate chan struct{}
}

func (l *slowLog) Append(ctx context.Context, shard uint16, id string, b []byte) (uint64, bool, error) {
	select {
	case <-l.gate:
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	return l.Memory.Append(ctx, shard, id, b)
}

// TestCommitterUnsettled: an engine that does not answer, or has failed for a while. Callers learn
// after Patience, or at once, that the outcome of the batch under way is unknown; those behind it are
// refused. When the log answers again the batch is in it, once, and work goes on; with an engine that
// has failed for good the committer stops.
func TestCommitterUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slowLog{Memory: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), gate: make(chan struct{})}
		c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
		start := time.Now()
		var first, second error
		var wg sync.WaitGroup
		wg.Go(func() { _, first = c.Append(t.Context(), eventlogtest.Event(1)) })
		synctest.Wait()
		wg.Go(func() { _, second = c.Append(t.Context(), eventlogtest.Event(2)) })
		wg.Wait()
		if !errors.Is(first, eventlog.ErrUnknown) || !errors.Is(second, eventlog.ErrUnsettled) || errors.Is(second, eventlog.ErrUnknown) {
			t.Errorf("first %v, second %v", first, second)
		}
		if d := time.Since(start); d < 15*time.Second || d > 16*time.Second {
			t.Errorf("it took %v", d)
		}
		if _, err := c.Append(t.Context(), eventlogtest.Event(3)); !errors.Is(err, eventlog.ErrUnsettled) || !errors.Is(c.Err(), eventlog.ErrUnsettled) {
			t.Errorf("afterwards: %v, %v", err, c.Err())
		}
		await.Pass(time.Hour)
		close(m.gate)
		await.Pass(10 * time.Second)
		if err := c.Err(); err != nil {
			t.Errorf("the log answers again: %v", err)
		}
		if r, err := c.Append(t.Context(), eventlogtest.Event(4)); err != nil || r.Seq != 2 || r.Event != (eventlog.Event{c.Epoch(), 2, 0}) {
			t.Errorf("%+v, error %v", r, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		found, _, err := eventlogtest.Contents(t.Context(), m, 0)
		if err != nil || len(found) != 2 || len(found[1]) != 1 || len(found[4]) != 1 {
			t.Errorf("found %v, error %v", found, err)
		}
		if s := c.Stats(); s.Batches != 2 || s.Retries == 0 {
			t.Errorf("%+v", s)
		}
	})
	for fault, want := range map[eventlogtest.Fault]error{eventlogtest.NoSpace: eventlog.ErrUnsettled, eventlogtest.WriteError: eventlog.ErrStopped} {
		synctest.Test(t, func(t *testing.T) {
			m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(n int, _ eventlogtest.Step) eventlogtest.Fault {
				if n == 3 {
					return fault
				}
				return eventlogtest.NoFault
			}})
			c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
			start := time.Now()
			if _, err := c.Append(t.Context(), eventlogtest.Event(1)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Append(t.Context(), eventlogtest.Event(2)); !errors.Is(err, eventlog.ErrUnknown) || eventlog.Refused(err) || time.Since(start) > time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			synctest.Wait()
			if _, err := c.Append(t.Context(), eventlogtest.Event(3)); !errors.Is(err, want) || !errors.Is(c.Err(), want) || m.Err() == nil {
				t.Errorf("%v, %v, %v", err, c.Err(), m.Err())
			}
			if fault == eventlogtest.WriteError {
				if <-c.Done(); c.Close(t.Context()) == nil {
					t.Error("no reason given")
				}
				return
			}
			m.Heal()
			await.Pass(2 * time.Second)
			if _, err := c.Append(t.Context(), eventlogtest.Event(4)); err != nil || c.Err() != nil {
				t.Errorf("afterwards: %v, %v", err, c.Err())
			}
			// A failure between two batches refuses, and refuses nothing any more when it has passed.
			m.Down()
			if _, err := c.Append(t.Context(), eventlogtest.Event(5)); !errors.Is(err, eventlog.ErrDown) || c.Err() != nil {
				t.Errorf("down: %v, %v", err, c.Err())
			}
			m.Heal()
			if _, err := c.Append(t.Context(), eventlogtest.Event(6)); err != nil {
				t.Error(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			found, _, err := eventlogtest.Contents(t.Context(), m, 0)
			if err != nil || len(found) != 4 || len(found[2]) != 1 || found[3] != nil || found[5] != nil {
				t.Errorf("found %v, error %v", found, err)
			}
		})
	}
	// Close does not wait for ever for a log that does not answer.
	synctest.Test(t, func(t *testing.T) {
		m := &slowLog{Memory: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), gate: make(chan struct{})}
		c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
		start := time.Now()
		go func() { _, _ = c.Append(t.Context(), eventlogtest.Event(1)) }()
		synctest.Wait()
		if err := c.Close(t.Context()); !errors.Is(err, eventlog.ErrStopped) || time.Since(start) > 31*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	// Close with a context that ends gives up at once.
	synctest.Test(t, func(t *testing.T) {
		m := &slowLog{Memory: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), gate: make(chan struct{})}
		c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = c.Append(t.Context(), eventlogtest.Event(1)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if cerr := c.Close(ctx); cerr == nil {
			t.Error("close gave up and said nothing")
		}
		if wg.Wait(); !errors.Is(err, eventlog.ErrUnknown) {
			t.Errorf("the caller got %v", err)
		}
	})
}

// backLog acknowledges every batch with the sequence of the first one.
type backLog struct{ *eventlogtest.Memory }

func (l backLog) Append(ctx context.Context, shard uint16, id string, b []byte) (uint64, bool, error) {
	_, dup, err := l.Memory.Append(ctx, shard, id, b)
	return 1, dup, err
}

// TestCommitterSeqWentBack: a log that acknowledges with an old sequence has lost its end or uses sequences
// again. The caller does not get a receipt, and the committer stops.
func TestCommitterSeqWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
		c := eventlogtest.NewCommitter(t, backLog{m}, eventlog.CommitterOptions{})
		if _, err := c.Append(t.Context(), eventlogtest.Event(1)); err != nil {
			t.Fatal(err)
		}
		if r, err := c.Append(t.Context(), eventlogtest.Event(2)); !errors.Is(err, eventlog.ErrUnknown) || !strings.Contains(err.Error(), "1 after 1") {
			t.Errorf("receipt %+v, error %v", r, err)
		}
		<-c.Done()
		if _, err := c.Append(t.Context(), eventlogtest.Event(3)); !errors.Is(err, eventlog.ErrStopped) {
			t.Errorf("afterwards: %v", err)
		}
		if err := c.Close(t.Context()); !errors.Is(err, eventlog.ErrStopped) {
			t.Errorf("close: %v", err)
		}
	})
}

// TestCommitterVersion: batches have the version of this program; no other one is written.
func TestCommitterVersion(t *testing.T) {
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	if v, err := eventlog.NewestVersion(t.Context(), m, 0, nil); v != 0 || err != nil {
		t.Errorf("an empty log has version %d, error %v", v, err)
	}
	c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
	if _, err := c.Append(t.Context(), eventlogtest.Event(1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := eventlog.NewestVersion(t.Context(), m, 0, nil); v != eventlog.LogVersion || err != nil {
		t.Errorf("the newest batch has version %d, error %v", v, err)
	}
	for _, version := range []uint16{eventlog.LogVersion - 1, eventlog.LogVersion + 1} {
		if _, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{Version: version}); err == nil {
			t.Errorf("version %d is written", version)
		}
	}
}

var allFaults = []eventlogtest.Fault{eventlogtest.Full, eventlogtest.LoseRequest, eventlogtest.LateRequest, eventlogtest.ForgetIDs, eventlogtest.WriteError, eventlogtest.ShortWrite, eventlogtest.NoSpace, eventlogtest.SyncError, eventlogtest.LoseAck}

// script runs a small workload against a log with one fault, loses power, and returns what callers
// were told and the log that is found afterwards.
func script(t *testing.T, fault func(n int, s eventlogtest.Step) eventlogtest.Fault, keep func(uint16, int) int) (*eventlogtest.History, *eventlogtest.Memory, int) {
	h := eventlogtest.NewHistory()
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: fault})
	c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
	for range 25 {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = h.Append(t.Context(), c) })
		}
		wg.Wait()
	}
	_ = c.Close(t.Context())
	steps := m.Steps()
	return h, m.Crash(keep, eventlogtest.MemoryOptions{}), steps
}

func keepAll(_ uint16, n int) int { return n }

// TestFaultAtEveryStep: every fault at every step of the workload (every seventh without TROUPE_LONG), then
// a loss of power that keeps nothing or everything that was not synced, then work goes on. What callers
// were told is true.
func TestFaultAtEveryStep(t *testing.T) {
	eventlog.Beside(t)
	var total, acked, unknown, refusals int
	synctest.Test(t, func(t *testing.T) {
		_, _, steps := script(t, nil, nil)
		stride := eventlog.Sized(7, 1)
		for _, fault := range allFaults {
			for n := 1; n <= steps; n += stride {
				for _, keep := range []func(uint16, int) int{nil, keepAll} {
					at := func(k int, _ eventlogtest.Step) eventlogtest.Fault {
						if k == n || fault == eventlogtest.ForgetIDs && k > n { // forgetful from here on
							return fault
						}
						if fault == eventlogtest.ForgetIDs && k == n-1 {
							return eventlogtest.LoseAck // so that there is a retry
						}
						return eventlogtest.NoFault
					}
					h, m, _ := script(t, at, keep)
					if err := h.Check(t.Context(), m); err != nil {
						t.Fatalf("fault %d at step %d: %v", fault, n, err)
					}
					c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
					for range 3 {
						if err := h.Append(t.Context(), c); err != nil {
							t.Fatalf("fault %d at step %d: after it: %v", fault, n, err)
						}
					}
					if err := errors.Join(c.Close(t.Context()), h.Check(t.Context(), m)); err != nil {
						t.Fatalf("fault %d at step %d: after it: %v", fault, n, err)
					}
					total++
					acked, unknown, refusals = acked+len(h.Acked), unknown+len(h.Unknown), refusals+len(h.Refused)
				}
			}
		}
	})
	t.Logf("%d runs: %d events acknowledged, %d unknown, %d refused", total, acked, unknown, refusals)
	if unknown == 0 || refusals == 0 {
		t.Error("the faults did nothing")
	}
}

// TestControlWithoutSync: the same harness, with an engine that acknowledges without syncing. It
// must find lost acknowledgements, or it finds nothing at all.
func TestControlWithoutSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lie := func(_ int, s eventlogtest.Step) eventlogtest.Fault {
			if s == eventlogtest.StepSync {
				return eventlogtest.LieSync
			}
			return eventlogtest.NoFault
		}
		h, m, _ := script(t, lie, nil)
		if err := h.Check(t.Context(), m); err == nil || !strings.Contains(err.Error(), "was acknowledged") {
			t.Errorf("an engine that never syncs passes: %v", err)
		}
		// Even half of it is not enough.
		h, m, _ = script(t, lie, func(_ uint16, n int) int { return n / 2 })
		if err := h.Check(t.Context(), m); err == nil {
			t.Error("an engine that never syncs passes with half of its writes kept")
		}
	})
}

// bubbleTB hides Deadline, which may not be called in a bubble.
type bubbleTB struct{ rapid.TB }

// TestModel: random workloads with random faults, power losses and damage against the simplest
// model there is, the three sets of the history.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbleTB{t}, func(t *rapid.T) {
			ctx := context.Background()
			h := eventlogtest.NewHistory()
			var plan []eventlogtest.Fault
			fault := func(int, eventlogtest.Step) eventlogtest.Fault {
				if len(plan) == 0 {
					return eventlogtest.NoFault
				}
				f := plan[0]
				plan = plan[1:]
				return f
			}
			m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: fault, Limit: 20_000})
			var c *eventlog.Committer
			open := func() {
				plan = nil
				c = eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{Batch: 300, Queue: 600})
			}
			open()
			for range rapid.IntRange(1, 12).Draw(t, "actions") {
				switch rapid.IntRange(0, 6).Draw(t, "action") {
				case 0, 1, 2: // work
					plan = rapid.SliceOfN(rapid.SampledFrom(append([]eventlogtest.Fault{eventlogtest.NoFault, eventlogtest.NoFault, eventlogtest.NoFault, eventlogtest.NoFault, eventlogtest.NoFault, eventlogtest.NoFault}, allFaults...)), 0, 12).Draw(t, "plan")
					var wg sync.WaitGroup
					for range rapid.IntRange(1, 8).Draw(t, "callers") {
						wg.Go(func() {
							cctx, cancel := context.WithTimeout(ctx, time.Minute)
							defer cancel()
							_ = h.Append(cctx, c)
						})
					}
					wg.Wait()
				case 3: // power loss
					cctx, cancel := context.WithCancel(ctx)
					if rapid.Bool().Draw(t, "hard") {
						cancel()
					}
					_ = c.Close(cctx)
					cancel()
					kept := rapid.IntRange(0, 3).Draw(t, "kept")
					m = m.Crash(func(_ uint16, n int) int { return min(n, kept) }, eventlogtest.MemoryOptions{Fault: fault})
					open()
				case 4: // a clean restart
					_ = c.Close(ctx)
					m = m.Crash(keepAll, eventlogtest.MemoryOptions{Fault: fault})
					open()
				case 5:
					if err := h.Check(ctx, m); err != nil {
						t.Fatal(err)
					}
				case 6: // there is room again
					m.Heal()
					await.Pass(2 * time.Second)
					if err := c.Err(); errors.Is(err, eventlog.ErrUnsettled) && m.Err() == nil && len(plan) == 0 {
						t.Fatal(err)
					}
					if err := h.Check(ctx, m); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = c.Close(ctx)
			m = m.Crash(nil, eventlogtest.MemoryOptions{})
			if err := h.Check(ctx, m); err != nil {
				t.Fatal(err)
			}
			// One of the stored batches is damaged: the check must say so, whichever it is. Only the
			// newest may vanish unseen; that is the witness's business.
			info, _ := m.Info(ctx, 0)
			if info.Last < 2 {
				return
			}
			victim := rapid.Uint64Range(1, info.Last-1).Draw(t, "victim")
			m.Damage(0, victim, func(b []byte) []byte {
				if rapid.Bool().Draw(t, "hide") {
					return nil
				}
				b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
				return b
			})
			if err := h.Check(ctx, m); err == nil || !strings.Contains(err.Error(), fmt.Sprint(victim)) {
				t.Fatalf("entry %d of %d damaged: %v", victim, info.Last, err)
			}
		})
	})
}

// TestLinearizable: appenders and readers at the same time, under faults. For each event the log is
// a register that goes from absent to present once; porcupine looks for an order of all operations
// that fits what every caller saw and when. Unknown appends may take effect at any later time.
func TestLinearizable(t *testing.T) {
	type input struct {
		id     int64
		append bool
	}
	model := porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byID := map[int64][]porcupine.Operation{}
			for _, op := range history {
				byID[op.Input.(input).id] = append(byID[op.Input.(input).id], op)
			}
			var parts [][]porcupine.Operation
			for _, ops := range byID {
				parts = append(parts, ops)
			}
			return parts
		},
		Init: func() any { return false },
		Step: func(state, in, out any) (bool, any) {
			if in.(input).append {
				return !state.(bool), true
			}
			return state.(bool) == out.(bool), state
		},
	}
	var ops []porcupine.Operation
	synctest.Test(t, func(t *testing.T) {
		const events = 120
		n := 0
		m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(k int, s eventlogtest.Step) eventlogtest.Fault {
			n++
			return []eventlogtest.Fault{eventlogtest.NoFault, eventlogtest.LoseRequest, eventlogtest.NoFault, eventlogtest.LateRequest, eventlogtest.LoseAck, eventlogtest.NoFault, eventlogtest.LoseAck}[n%7]
		}})
		c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{Batch: 200})
		var mu sync.Mutex
		var calls atomic.Int64
		clock := func() int64 { return calls.Add(1) } // the order of calls and returns
		note := func(op porcupine.Operation) { mu.Lock(); ops = append(ops, op); mu.Unlock() }
		var wg sync.WaitGroup
		var ids int64
		stop := make(chan struct{})
		for w := range 6 {
			wg.Go(func() {
				for range events / 6 {
					mu.Lock()
					ids++
					id := ids
					mu.Unlock()
					call := clock()
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+id%5)*4*time.Millisecond)
					_, err := c.Append(ctx, eventlogtest.Event(id))
					cancel()
					switch {
					case err == nil:
						note(porcupine.Operation{ClientId: w, Input: input{id, true}, Call: call, Return: clock()})
					case errors.Is(err, eventlog.ErrUnknown):
						note(porcupine.Operation{ClientId: 100 + int(id), Input: input{id, true}, Call: call, Return: 1 << 60})
					}
				}
			})
		}
		var readers sync.WaitGroup
		for r := range 2 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(3 * time.Millisecond):
					}
					call := clock()
					found, _, err := eventlogtest.Contents(t.Context(), m, 0)
					if err != nil {
						t.Error(err)
						return
					}
					ret := clock()
					for id := range int64(events) {
						note(porcupine.Operation{ClientId: 10 + r, Input: input{id + 1, false}, Output: len(found[id+1]) == 1, Call: call, Return: ret})
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		readers.Wait()
		_ = c.Close(t.Context())
	})
	if res := porcupine.CheckOperationsTimeout(model, ops, await.Limit); res != porcupine.Ok {
		t.Errorf("%d operations: %v", len(ops), res)
	}
	// The control: an acknowledged event that a later reader does not see.
	bad := append(slices.Clone(ops),
		porcupine.Operation{ClientId: 1, Input: input{1 << 40, true}, Call: 1, Return: 2},
		porcupine.Operation{ClientId: 2, Input: input{1 << 40, false}, Output: false, Call: 3, Return: 4})
	if porcupine.CheckOperations(model, bad) {
		t.Error("a lost event passes")
	}
}
