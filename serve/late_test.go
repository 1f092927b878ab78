package serve

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/timing"
)

// TestTooLate: when choosing takes longer than a request may, the answer says so and not that the log does not answer,
// nothing is recorded, and a batch stops to choose.
func TestTooLate(t *testing.T) {
	clock := &fakeClock{}
	var now func()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock, func(o *Options) {
		of := o.Clock
		o.Clock = timing.At(func() time.Time {
			if now != nil {
				now()
			}
			return of.Now()
		})
	})
	must(s.CreateModel(context.Background(), DefaultConfig("m"), ""))
	head := s.committer.Stats().Head.Seq
	late := func(err error) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Code != Unavailable || e.Unknown || e.RetryAfter == 0 || !strings.Contains(e.Want, "the time of the request was over") {
			t.Errorf("%v, want that the time was over", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	chosen := 0
	now = func() { // once for each record
		if chosen++; chosen == 3 {
			cancel()
		}
	}
	items := must(s.DecideBatch(ctx, "m", []DecideRequest{{Actions: named("a")}, {Actions: named("a", "b")}, {Actions: named("a", "b")}, {Actions: named("a", "b")}, {Actions: named("a", "b")}}))
	for _, x := range items {
		late(x.Err)
	}
	if chosen > 4 { // a decision asks the clock at most twice
		t.Errorf("the batch went on after its time was over")
	}
	now = nil
	var leave []func() // other requests choose
	for range min(runtime.GOMAXPROCS(0), runtime.NumCPU()) {
		leave = append(leave, must(s.turns.Enter(context.Background(), 1, 0)))
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b")})
	late(err)
	for _, f := range leave {
		f()
	}
	if got := s.committer.Stats().Head.Seq; got != head {
		t.Errorf("the log ends with entry %d, want %d", got, head)
	}
	must(s.Decide(context.Background(), "m", DecideRequest{Actions: named("a", "b")}))
}
