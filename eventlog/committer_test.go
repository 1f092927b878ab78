package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// history is what callers were told about their events, each known by the Time of an Activate.
type history struct {
	mu      sync.Mutex
	next    int64
	acked   map[int64]Receipt
	unknown map[int64]bool
	refused map[int64]bool
}

func newHistory() *history {
	return &history{acked: map[int64]Receipt{}, unknown: map[int64]bool{}, refused: map[int64]bool{}}
}

func event(id int64) Record { return &Activate{Event: Event{1, 1, 0}, Time: id} }

// append sends one event and notes the answer.
func (h *history) append(ctx context.Context, c *Committer) error {
	h.mu.Lock()
	h.next++
	id := h.next
	h.mu.Unlock()
	r, err := c.Append(ctx, event(id))
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.acked[id] = r
	case errors.Is(err, ErrUnknown):
		h.unknown[id] = true
	default:
		h.refused[id] = true
	}
	return err
}

type place struct {
	seq uint64
	key Event
}

// contents reads and checks a whole shard.
func contents(ctx context.Context, l Log, shard uint16) (map[int64][]place, *Chain, error) {
	found := map[int64][]place{}
	info, err := l.Info(ctx, shard)
	if err != nil {
		return nil, nil, err
	}
	c := NewChain(shard, info.First)
	for d, err := range Replay(ctx, l, c, info.Last) {
		if err != nil {
			return nil, nil, err
		}
		if d.Repeat {
			continue
		}
		for i, r := range d.Events() {
			if a, ok := r.(*Activate); ok {
				found[a.Time] = append(found[a.Time], place{d.Seq, d.Key(i)})
			}
		}
	}
	return found, c, nil
}

// check is the promise: acknowledged is exactly once and where the receipt says, refused is never,
// unknown is at most once, and nothing else is there.
func (h *history) check(ctx context.Context, l Log) error {
	found, _, err := contents(ctx, l, 0)
	if err != nil {
		return err
	}
	for id, r := range h.acked {
		if at := found[id]; len(at) != 1 || at[0].key != r.Event {
			return fmt.Errorf("event %d was acknowledged at %d %v and is at %v", id, r.Seq, r.Event, at)
		}
	}
	for id, at := range found {
		_, acked := h.acked[id]
		if !acked && !h.unknown[id] || len(at) > 1 {
			return fmt.Errorf("event %d (refused: %v) is at %v", id, h.refused[id], at)
		}
	}
	return nil
}

func newCommitter(t failer, l Log, opt CommitterOptions) *Committer {
	t.Helper()
	chain, err := Tail(context.Background(), l, opt.Shard)
	if err != nil {
		t.Fatal(err)
	}
	opt.Head = chain.Head()
	c, err := NewCommitter(l, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCommitter: many callers, few batches, receipts that are true, both engines.
func TestCommitter(t *testing.T) {
	for name, e := range map[string]engine{"memory": &memoryEngine{}, "jetstream": newDiskEngine(t)} {
		t.Run(name, func(t *testing.T) {
			l := e.open(t, 64<<20)
			defer l.Close()
			h := newHistory()
			c := newCommitter(t, l, CommitterOptions{Now: func() time.Time { return time.Unix(5, 0) }})
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					for range 40 {
						if err := h.append(t.Context(), c); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			// Records of one call stay together.
			r, err := c.Append(t.Context(), event(-1), event(-2), event(-3))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Append(t.Context(), event(-4)); !errors.Is(err, ErrClosed) {
				t.Errorf("after close: %v", err)
			}
			found, chain, err := contents(t.Context(), l, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range int64(3) {
				want := place{r.Seq, Event{r.Event.Epoch, r.Event.Batch, r.Event.Index + uint32(i)}}
				if got := found[-1-i]; len(got) != 1 || got[0] != want {
					t.Errorf("record %d of one call is at %v, want %v", i, got, want)
				}
				h.unknown[-1-i] = true // for the check below
			}
			if err := h.check(t.Context(), l); err != nil {
				t.Error(err)
			}
			s := c.Stats()
			if s.Events != 2003 || s.Head != chain.Head() || s.Waiting != 0 || len(h.acked) != 2000 {
				t.Errorf("%+v, chain at %v", s, chain.Head())
			}
			t.Logf("%d events in %d batches", s.Events, s.Batches)
			for d, err := range Replay(t.Context(), l, NewChain(0, 1), 1) {
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
		m := &slowLog{Memory: NewMemory(MemoryOptions{Limit: 2000}), gate: block}
		c := newCommitter(t, m, CommitterOptions{Queue: 1000, Batch: 600})
		results := make(chan error, 100)
		big := &Control{Act: Create, Model: 1, Config: make([]byte, 400)}
		send := func(ctx context.Context, r ...Record) {
			go func() { _, err := c.Append(ctx, r...); results <- err }()
			synctest.Wait()
		}
		send(t.Context(), big) // under way
		send(t.Context(), big) // waits
		send(t.Context(), big) // waits
		if _, err := c.Append(t.Context(), big); !errors.Is(err, ErrBusy) {
			t.Errorf("queue full: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Append(gone, event(1)); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
			t.Errorf("cancelled before: %v", err)
		}
		soon, cancel2 := context.WithTimeout(t.Context(), time.Second)
		defer cancel2()
		if _, err := c.Append(soon, event(2)); !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled while waiting: %v", err)
		}
		for _, bad := range [][]Record{nil, {&Reward{}}, {&Loss{First: 1, Last: 1}}, {&Control{Act: Create, Model: 1, Config: make([]byte, MaxBatch)}}, slices.Repeat([]Record{event(3)}, MaxEvents+1)} {
			if _, err := c.Append(t.Context(), bad...); err == nil || errors.Is(err, ErrUnknown) {
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
			if _, err := c.Append(t.Context(), big); err != nil && !errors.Is(err, ErrFull) {
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
		if _, _, err := contents(t.Context(), m, 0); err != nil {
			t.Error(err)
		}
		for _, bad := range []CommitterOptions{{Batch: 10}, {Batch: MaxBatch + 1}, {Queue: 100}, {Head: Head{Seq: 3}}, {Patience: -1}} {
			if _, err := NewCommitter(m, bad); err == nil {
				t.Errorf("%+v was accepted", bad)
			}
		}
	})
}

// slowLog lets Append through when its gate is closed.
type slowLog struct {
	*Memory
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
		m := &slowLog{Memory: NewMemory(MemoryOptions{}), gate: make(chan struct{})}
		c := newCommitter(t, m, CommitterOptions{})
		start := time.Now()
		var first, second error
		var wg sync.WaitGroup
		wg.Go(func() { _, first = c.Append(t.Context(), event(1)) })
		synctest.Wait()
		wg.Go(func() { _, second = c.Append(t.Context(), event(2)) })
		wg.Wait()
		if !errors.Is(first, ErrUnknown) || !errors.Is(second, ErrUnsettled) || errors.Is(second, ErrUnknown) {
			t.Errorf("first %v, second %v", first, second)
		}
		if d := time.Since(start); d < 15*time.Second || d > 16*time.Second {
			t.Errorf("it took %v", d)
		}
		if _, err := c.Append(t.Context(), event(3)); !errors.Is(err, ErrUnsettled) || !errors.Is(c.Err(), ErrUnsettled) {
			t.Errorf("afterwards: %v, %v", err, c.Err())
		}
		time.Sleep(time.Hour)
		close(m.gate)
		time.Sleep(10 * time.Second)
		if err := c.Err(); err != nil {
			t.Errorf("the log answers again: %v", err)
		}
		if r, err := c.Append(t.Context(), event(4)); err != nil || r.Seq != 2 || r.Event != (Event{c.Epoch(), 2, 0}) {
			t.Errorf("%+v, error %v", r, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		found, _, err := contents(t.Context(), m, 0)
		if err != nil || len(found) != 2 || len(found[1]) != 1 || len(found[4]) != 1 {
			t.Errorf("found %v, error %v", found, err)
		}
		if s := c.Stats(); s.Batches != 2 || s.Retries == 0 {
			t.Errorf("%+v", s)
		}
	})
	for fault, want := range map[Fault]error{NoSpace: ErrUnsettled, WriteError: ErrStopped} {
		synctest.Test(t, func(t *testing.T) {
			m := NewMemory(MemoryOptions{Fault: func(n int, _ Step) Fault {
				if n == 3 {
					return fault
				}
				return NoFault
			}})
			c := newCommitter(t, m, CommitterOptions{})
			start := time.Now()
			if _, err := c.Append(t.Context(), event(1)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Append(t.Context(), event(2)); !errors.Is(err, ErrUnknown) || refused(err) || time.Since(start) > time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			synctest.Wait()
			if _, err := c.Append(t.Context(), event(3)); !errors.Is(err, want) || !errors.Is(c.Err(), want) || m.Err() == nil {
				t.Errorf("%v, %v, %v", err, c.Err(), m.Err())
			}
			if fault == WriteError {
				if <-c.Done(); c.Close(t.Context()) == nil {
					t.Error("no reason given")
				}
				return
			}
			m.Heal()
			time.Sleep(2 * time.Second)
			if _, err := c.Append(t.Context(), event(4)); err != nil || c.Err() != nil {
				t.Errorf("afterwards: %v, %v", err, c.Err())
			}
			// A failure between two batches refuses, and refuses nothing any more when it has passed.
			m.mu.Lock()
			m.down = true
			m.mu.Unlock()
			if _, err := c.Append(t.Context(), event(5)); !errors.Is(err, ErrDown) || c.Err() != nil {
				t.Errorf("down: %v, %v", err, c.Err())
			}
			m.Heal()
			if _, err := c.Append(t.Context(), event(6)); err != nil {
				t.Error(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			found, _, err := contents(t.Context(), m, 0)
			if err != nil || len(found) != 4 || len(found[2]) != 1 || found[3] != nil || found[5] != nil {
				t.Errorf("found %v, error %v", found, err)
			}
		})
	}
	// Close does not wait for ever for a log that does not answer.
	synctest.Test(t, func(t *testing.T) {
		m := &slowLog{Memory: NewMemory(MemoryOptions{}), gate: make(chan struct{})}
		c := newCommitter(t, m, CommitterOptions{})
		start := time.Now()
		go func() { _, _ = c.Append(t.Context(), event(1)) }()
		synctest.Wait()
		if err := c.Close(t.Context()); !errors.Is(err, ErrStopped) || time.Since(start) > 31*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	// Close with a context that ends gives up at once.
	synctest.Test(t, func(t *testing.T) {
		m := &slowLog{Memory: NewMemory(MemoryOptions{}), gate: make(chan struct{})}
		c := newCommitter(t, m, CommitterOptions{})
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = c.Append(t.Context(), event(1)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if cerr := c.Close(ctx); cerr == nil {
			t.Error("close gave up and said nothing")
		}
		if wg.Wait(); !errors.Is(err, ErrUnknown) {
			t.Errorf("the caller got %v", err)
		}
	})
}

var allFaults = []Fault{Full, LoseRequest, LateRequest, ForgetIDs, WriteError, ShortWrite, NoSpace, SyncError, LoseAck}

// script runs a small workload against a log with one fault, loses power, and returns what callers
// were told and the log that is found afterwards.
func script(t *testing.T, fault func(n int, s Step) Fault, keep func(uint16, int) int) (*history, *Memory, int) {
	h := newHistory()
	m := NewMemory(MemoryOptions{Fault: fault})
	c := newCommitter(t, m, CommitterOptions{})
	for range 25 {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = h.append(t.Context(), c) })
		}
		wg.Wait()
	}
	_ = c.Close(t.Context())
	steps := m.Steps()
	return h, m.Crash(keep, MemoryOptions{}), steps
}

func keepAll(_ uint16, n int) int { return n }

// TestFaultAtEveryStep: every fault at every step of the workload, then a loss of power that keeps
// nothing or everything that was not synced, then work goes on. What callers were told is true.
func TestFaultAtEveryStep(t *testing.T) {
	var total, acked, unknown, refusals int
	synctest.Test(t, func(t *testing.T) {
		_, _, steps := script(t, nil, nil)
		stride := 1
		if testing.Short() {
			stride = 7
		}
		for _, fault := range allFaults {
			for n := 1; n <= steps; n += stride {
				for _, keep := range []func(uint16, int) int{nil, keepAll} {
					at := func(k int, _ Step) Fault {
						if k == n || fault == ForgetIDs && k > n { // forgetful from here on
							return fault
						}
						if fault == ForgetIDs && k == n-1 {
							return LoseAck // so that there is a retry
						}
						return NoFault
					}
					h, m, _ := script(t, at, keep)
					if err := h.check(t.Context(), m); err != nil {
						t.Fatalf("fault %d at step %d: %v", fault, n, err)
					}
					c := newCommitter(t, m, CommitterOptions{})
					for range 3 {
						if err := h.append(t.Context(), c); err != nil {
							t.Fatalf("fault %d at step %d: after it: %v", fault, n, err)
						}
					}
					if err := errors.Join(c.Close(t.Context()), h.check(t.Context(), m)); err != nil {
						t.Fatalf("fault %d at step %d: after it: %v", fault, n, err)
					}
					total++
					acked, unknown, refusals = acked+len(h.acked), unknown+len(h.unknown), refusals+len(h.refused)
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
		lie := func(_ int, s Step) Fault {
			if s == StepSync {
				return LieSync
			}
			return NoFault
		}
		h, m, _ := script(t, lie, nil)
		if err := h.check(t.Context(), m); err == nil || !strings.Contains(err.Error(), "was acknowledged") {
			t.Errorf("an engine that never syncs passes: %v", err)
		}
		// Even half of it is not enough.
		h, m, _ = script(t, lie, func(_ uint16, n int) int { return n / 2 })
		if err := h.check(t.Context(), m); err == nil {
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
			h := newHistory()
			var plan []Fault
			fault := func(int, Step) Fault {
				if len(plan) == 0 {
					return NoFault
				}
				f := plan[0]
				plan = plan[1:]
				return f
			}
			m := NewMemory(MemoryOptions{Fault: fault, Limit: 20_000})
			var c *Committer
			open := func() {
				plan = nil
				c = newCommitter(t, m, CommitterOptions{Batch: 300, Queue: 600})
			}
			open()
			for range rapid.IntRange(1, 12).Draw(t, "actions") {
				switch rapid.IntRange(0, 6).Draw(t, "action") {
				case 0, 1, 2: // work
					plan = rapid.SliceOfN(rapid.SampledFrom(append([]Fault{NoFault, NoFault, NoFault, NoFault, NoFault, NoFault}, allFaults...)), 0, 12).Draw(t, "plan")
					var wg sync.WaitGroup
					for range rapid.IntRange(1, 8).Draw(t, "callers") {
						wg.Go(func() {
							cctx, cancel := context.WithTimeout(ctx, time.Minute)
							defer cancel()
							_ = h.append(cctx, c)
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
					m = m.Crash(func(_ uint16, n int) int { return min(n, kept) }, MemoryOptions{Fault: fault})
					open()
				case 4: // a clean restart
					_ = c.Close(ctx)
					m = m.Crash(keepAll, MemoryOptions{Fault: fault})
					open()
				case 5:
					if err := h.check(ctx, m); err != nil {
						t.Fatal(err)
					}
				case 6: // there is room again
					m.Heal()
					time.Sleep(2 * time.Second)
					if err := c.Err(); errors.Is(err, ErrUnsettled) && m.Err() == nil && len(plan) == 0 {
						t.Fatal(err)
					}
					if err := h.check(ctx, m); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = c.Close(ctx)
			m = m.Crash(nil, MemoryOptions{})
			if err := h.check(ctx, m); err != nil {
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
			if err := h.check(ctx, m); err == nil || !strings.Contains(err.Error(), fmt.Sprint(victim)) {
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
		m := NewMemory(MemoryOptions{Fault: func(k int, s Step) Fault {
			n++
			return []Fault{NoFault, LoseRequest, NoFault, LateRequest, LoseAck, NoFault, LoseAck}[n%7]
		}})
		c := newCommitter(t, m, CommitterOptions{Batch: 200})
		var mu sync.Mutex
		start := time.Now()
		clock := func() int64 { return time.Since(start).Nanoseconds() }
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
					time.Sleep(time.Microsecond)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+id%5)*4*time.Millisecond)
					_, err := c.Append(ctx, event(id))
					cancel()
					time.Sleep(time.Microsecond)
					switch {
					case err == nil:
						note(porcupine.Operation{ClientId: w, Input: input{id, true}, Call: call, Return: clock()})
					case errors.Is(err, ErrUnknown):
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
					time.Sleep(time.Microsecond)
					found, _, err := contents(t.Context(), m, 0)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Microsecond)
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
	if res := porcupine.CheckOperationsTimeout(model, ops, 20*time.Second); res != porcupine.Ok {
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
