package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/internal/await"
	"troupe/timing"
)

// TestAskCheck: a node that is asked to read its files is waited for while its engine runs, also when it does not say so
// in time, and no longer: one whose engine has ended, or was started again, never answers.
func TestAskCheck(t *testing.T) {
	t.Parallel()
	nc := soleNode(t, t.TempDir()).Conn()
	for what, c := range map[string]struct {
		then func(engine *atomic.Pointer[string], alive *nats.Subscription, m *nats.Msg)
		want error
	}{
		"answers":       {func(_ *atomic.Pointer[string], _ *nats.Subscription, m *nats.Msg) { _ = m.Respond([]byte("{}")) }, nil},
		"starts again":  {func(e *atomic.Pointer[string], _ *nats.Subscription, _ *nats.Msg) { e.Store(new("2")) }, errEngineEnded},
		"ends for good": {func(_ *atomic.Pointer[string], s *nats.Subscription, _ *nats.Msg) { _ = s.Unsubscribe() }, errEngineEnded},
	} {
		clock := timing.NewFake(time.Unix(1e9, 0))
		n := &Node{nc: nc, time: clock.Clock()}
		var engine atomic.Pointer[string]
		engine.Store(new("1"))
		asked := make(chan struct{}, 100) // whether it still runs
		alive, err := nc.Subscribe(entriesSubject(what), func(m *nats.Msg) {
			b, _ := json.Marshal(entriesAnswer{Engine: *engine.Load()})
			_ = m.Respond(b)
			asked <- struct{}{}
		})
		if err != nil {
			t.Fatal(err)
		}
		reads := make(chan *nats.Msg, 1)
		if _, err := nc.Subscribe(checkSubject(what), func(m *nats.Msg) { reads <- m }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
		done := make(chan error, 1)
		go func() {
			_, err := n.askCheck(ctx, what)
			done <- err
		}()
		m := <-reads
		<-asked
		for range 3 { // it reads, and says that it runs
			clock.Waiting(1)
			clock.Advance(checkAlive)
			<-asked
		}
		select {
		case err := <-done:
			t.Fatalf("%s: %v while it reads", what, err)
		default:
		}
		clock.Waiting(1)
		c.then(&engine, alive, m)
		clock.Advance(checkAlive)
		if err := <-done; !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		cancel()
	}
}
