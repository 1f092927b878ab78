package serve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
	"troupe/serve/fold"
	"troupe/timing"
)

// errUnheard is what a log says while its engine gives no answer.
var errUnheard = fmt.Errorf("%w: %w", eventlog.ErrSilent, context.DeadlineExceeded)

// silentLog is a log that gives no entry while it is silent: Get fails, and Read ends. Each such call says so in asked, if anything listens.
type silentLog struct {
	eventlog.Log
	silent atomic.Bool
	asked  chan uint64
}

func newSilentLog() *silentLog {
	return &silentLog{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), asked: make(chan uint64)}
}

func (l *silentLog) tell(seq uint64) {
	select {
	case l.asked <- seq:
	default:
	}
}

func (l *silentLog) Get(ctx context.Context, shard uint16, seq uint64) (eventlog.Entry, error) {
	switch {
	case ctx.Err() != nil:
		return eventlog.Entry{}, ctx.Err()
	case l.silent.Load():
		l.tell(seq)
		return eventlog.Entry{}, fmt.Errorf("entry %d: %w", seq, errUnheard)
	}
	return l.Log.Get(ctx, shard, seq)
}

// summing is a model whose events are learned when their windows close.
func summing(c *ModelConfig) { c.Reward.Window, c.Reward.Rule = Duration(time.Minute), "sum" }

// stalled brings a server to an entry in whose middle the fold needs entry seq, of a log that is silent then. ended gets the number of windows that were
// closed.
func stalled(t *testing.T, s *Server, log *silentLog, clock *fakeClock) (d Decision, ended chan int) {
	t.Helper()
	t.Cleanup(func() { log.silent.Store(false) }) // before the server is closed
	ctx := t.Context()
	must(s.CreateModel(ctx, vectors("m", 3, summing), ""))
	d = must(s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 4, 3)}))
	must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}))
	s.recent.Forget()
	s.Health()
	clock.forward(2 * time.Minute)
	log.silent.Store(true)
	ended = make(chan int, 1)
	go func() {
		n, _ := s.Expire(context.Background())
		ended <- n
	}()
	for range 2 { // before the second question the answer to the first one was noted
		soon(t, "the fold", func() {
			if seq := <-log.asked; seq != d.Seq {
				t.Errorf("the fold asks for entry %d, want %d", seq, d.Seq)
			}
		})
	}
	return d, ended
}

// soon fails when f does not come back: it hangs on a lock then, which nothing ends.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	back := make(chan struct{})
	go func() { defer close(back); f() }()
	select {
	case <-back:
	case <-time.After(await.Limit):
		t.Fatalf("%s: nothing comes", what)
	}
}

// TestApplierWaits: a server whose log gives no answer in the middle of an entry says which entry it waits for, refuses calls at once, and goes on when the
// log answers, with the state that any other reader of the log has. Its end meanwhile leaves no half-applied snapshot.
func TestApplierWaits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, closes := range []bool{false, true} {
		log, clock, dir := newSilentLog(), &fakeClock{}, t.TempDir()
		edit := func(o *Options) { o.Dir, o.Wait = dir, time.Minute }
		s := open(t, log, clock, edit)
		d, ended := stalled(t, s, log, clock)
		words := fmt.Sprintf("the state waits for entry %d of the log", d.Seq)
		soon(t, "Health", func() {
			if h := s.Health(); h.Ready || !strings.Contains(h.Reason, words) || !strings.Contains(h.Reason, context.DeadlineExceeded.Error()) || h.Lag != 1 || h.ModelBytes == 0 {
				t.Errorf("health while it waits: %+v", h)
			}
		})
		for what, call := range map[string]func() error{
			"Decide":      func() error { _, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(2, 4, 3)}); return err },
			"Reward":      func() error { _, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}); return err },
			"CreateModel": func() error { _, err := s.CreateModel(ctx, vectors("n", 3), ""); return err },
			"GetModel":    func() error { _, err := s.GetModel(ctx, "m"); return err },
			"Event":       func() error { _, err := s.Event(ctx, d.EventID); return err },
		} {
			soon(t, what, func() {
				if err := call(); CodeOf(err) != Unavailable || !strings.Contains(err.Error(), words) {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		if closes {
			over, end := context.WithCancel(ctx)
			end()
			soon(t, "Close", func() { _ = s.Close(over) })
			if files := must(s.snapshots.files.List()); len(files) > 0 {
				t.Errorf("a fold that ended in the middle of an entry was written to %v", files)
			}
			log.silent.Store(false)
			<-ended
			s = open(t, log, clock, edit)
		} else {
			log.silent.Store(false)
			if n := <-ended; n != 1 {
				t.Errorf("%d windows closed, want 1", n)
			}
		}
		if h := s.Health(); !h.Ready || h.Lag != 0 {
			t.Errorf("health after it: %+v", h)
		}
		if k := must(s.GetModel(ctx, "m")).Counts; k.Learned != 1 {
			t.Errorf("counts %+v", k)
		}
		got := must(s.State(ctx, "m")).Digest
		other := open(t, log, clock)
		if want := must(other.State(ctx, "m")).Digest; got != want {
			t.Errorf("closed %v: digest %v, another reader of the log has %v", closes, got, want)
		}
	}
}

// TestOpenWaits: a server that opens waits for the log too, for a minute.
func TestOpenWaits(t *testing.T) {
	t.Parallel()
	log, clock := newSilentLog(), &fakeClock{}
	s := open(t, log, clock)
	d, ended := stalled(t, s, log, clock)
	log.silent.Store(false)
	<-ended
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		o := Options{Log: log, Keys: testKeys, ExpireEvery: -1, SnapshotEvery: -1}
		log.asked = make(chan uint64)
		log.silent.Store(true)
		begun := time.Now()
		if _, err := Open(t.Context(), o); !errors.Is(err, eventlog.ErrSilent) || !strings.Contains(err.Error(), fmt.Sprintf("entry %d", d.Seq)) || time.Since(begun) < openFor {
			t.Errorf("a log that is silent for %v: %v", time.Since(begun), err)
		}
		time.AfterFunc(openFor/2, func() { log.silent.Store(false) })
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatalf("a log that answers after %v: %v", openFor/2, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSilentReads: a caller that reads the log hears at once that it does not answer; the event is not lost.
func TestSilentReads(t *testing.T) {
	ctx, log := t.Context(), newSilentLog()
	s := open(t, log, &fakeClock{})
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 4, 3), IdempotencyKey: "k"}))
	must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}))
	s.recent.Forget()
	log.silent.Store(true)
	t.Cleanup(func() { log.silent.Store(false) })
	for what, call := range map[string]func() error{
		"Event":  func() error { _, err := s.Event(ctx, d.EventID); return err },
		"Replay": func() error { _, err := s.Replay(ctx, d.EventID); return err },
		"Owner":  func() error { _, err := s.Owner(ctx, d.EventID); return err },
		"Reward": func() error { _, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}); return err },
		"Decide": func() error {
			_, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 4, 3), IdempotencyKey: "k"})
			return err
		},
	} {
		soon(t, what, func() {
			if err := call(); CodeOf(err) != Unavailable || !errors.Is(err, eventlog.ErrSilent) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	if h := s.Health(); !h.Ready || h.Missing != 0 {
		t.Errorf("health %+v", h)
	}
	log.silent.Store(false)
	must(s.Event(ctx, d.EventID))
}

// mute is a log that gives no answer to the first questions, and in Read none behind entry ends.
type mute struct {
	eventlog.Log
	silent int
	err    error
	ends   uint64
}

func (m *mute) Get(ctx context.Context, shard uint16, seq uint64) (eventlog.Entry, error) {
	if ctx.Err() != nil {
		return eventlog.Entry{}, ctx.Err()
	}
	if m.silent--; m.silent >= 0 {
		return eventlog.Entry{}, m.err
	}
	return eventlog.Entry{Seq: seq}, nil
}

func (m *mute) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range m.Log.Read(ctx, shard, from) {
			if m.silent > 0 && e.Seq > m.ends {
				m.silent--
				yield(eventlog.Entry{}, m.err)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// patient returns a reader of a log, with its progress.
func patient(ctx context.Context, log eventlog.Log) *patientReader {
	return &patientReader{ctx: ctx, log: log, progress: &progress{}, logger: slog.New(slog.DiscardHandler)}
}

// TestPatientReader: a read that gets no answer is asked again, and what it waits for is known meanwhile; other errors end it at once, and so does the end
// of the server, which is no clean one.
func TestPatientReader(t *testing.T) {
	late := fmt.Errorf("shard 0: entry 3: %w", errUnheard)
	for _, x := range []struct {
		log  mute
		want error
	}{
		{mute{silent: 1000, err: late}, nil},
		{mute{silent: 1, err: eventlog.ErrNotFound}, eventlog.ErrNotFound},
		{mute{silent: 1, err: &eventlog.GapError{}}, &eventlog.GapError{}},
		{mute{silent: 1, err: context.DeadlineExceeded}, context.DeadlineExceeded}, // without a word about whose
	} {
		synctest.Test(t, func(t *testing.T) {
			p := patient(t.Context(), &x.log)
			var at atomic.Pointer[lack]
			time.AfterFunc(openFor+readPause/2, func() { at.Store(p.progress.lack.Load()) })
			e, err := p.Get(3)
			if fmt.Sprint(err) != fmt.Sprint(x.want) || err == nil && e.Seq != 3 {
				t.Errorf("entry %d, %v, want %v", e.Seq, err, x.want)
			}
			if waited := at.Load(); x.want == nil && (waited == nil || waited.seq != 3 || waited.err != late) {
				t.Errorf("it waited for %+v", waited)
			}
			if p.progress.lack.Load() != nil {
				t.Error("it still waits")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		p := patient(ctx, &mute{silent: 1 << 30, err: late})
		time.AfterFunc(time.Hour, end)
		if _, err := p.Get(3); err == nil || errors.Is(err, context.Canceled) || p.clock.Since(0) < time.Hour {
			t.Errorf("at the end of the server: %v", err)
		}
	})
}

// TestPatientReplay: after a silence the log is read on behind the last entry, and an error of the reader's own ends the reading.
func TestPatientReplay(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := open(t, memory, &fakeClock{})
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	for i := range 5 {
		must(s.Decide(ctx, "m", DecideRequest{Actions: actions(i, 4, 3)}))
	}
	until := must(memory.Info(ctx, 0)).Last
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	p := patient(ctx, &mute{Log: memory, silent: 2, err: errUnheard, ends: 3})
	var seqs []uint64
	note := func(d eventlog.Delivery) error {
		seqs = append(seqs, d.Seq)
		return nil
	}
	if err := p.Replay(eventlog.NewChain(0, 1), until, note); err != nil || len(seqs) != int(until) {
		t.Errorf("entries %d of %d, %v", seqs, until, err)
	}
	calls := 0
	if err := p.Replay(eventlog.NewChain(0, 1), until, func(eventlog.Delivery) error { calls++; return errUnheard }); err != errUnheard || calls != 1 {
		t.Errorf("an error of the reader: %v after %d calls", err, calls)
	}
	if p.progress.lack.Load() != nil {
		t.Error("it still waits")
	}
}

var _ fold.Log = &patientReader{}

// TestUntilAnswered: what a start asks of the other nodes is asked again while there is no answer, for a time; any answer ends it.
func TestUntilAnswered(t *testing.T) {
	none, damaged := errUnheard, errors.New("damaged")
	for _, x := range []struct {
		answers []error
		calls   int
		want    error
	}{
		{[]error{none, none, none, nil}, 4, nil},
		{[]error{none, damaged, nil}, 2, damaged},
		{[]error{none}, int(openFor/readPause) + 1, none},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := untilAnswered(t.Context(), timing.Clock{}, openFor, func() error {
				calls++
				return x.answers[min(calls, len(x.answers))-1]
			})
			if calls != x.calls || !errors.Is(err, x.want) {
				t.Errorf("%v: %d calls, %v; want %d, %v", x.answers, calls, err, x.calls, x.want)
			}
		})
	}
}
