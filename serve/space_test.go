package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

// TestSpace: the health says how full the log is, at most 15 s late, and at once after a restart.
func TestSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Limit: 1 << 20})
		keys := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}
		start := func() *Server { return must(Open(ctx, Options{Log: log, Keys: keys, ExpireEvery: -1})) }
		s := start()
		if h := s.Health(); h.LogBytes != 0 || h.LogLimit != 1<<20 {
			t.Errorf("a new log has %d of %d bytes", h.LogBytes, h.LogLimit)
		}
		must(s.CreateModel(ctx, vectors("m", 3, func(*ModelConfig) {}), ""))
		synctest.Wait()
		has := must(log.Info(ctx, 0)).Bytes
		await.Pass(spaceEvery + time.Second)
		if h := s.Health(); has == 0 || h.LogBytes != has {
			t.Errorf("after %v: %d bytes, the log has %d", spaceEvery, h.LogBytes, has)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		s = start()
		if h := s.Health(); h.LogBytes < has {
			t.Errorf("after a restart: %d bytes, the log has %d", h.LogBytes, has)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
