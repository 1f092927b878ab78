package serve

import (
	"context"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/timing"
)

// TestFakeClock: on a clock that only the test moves, a server that does by itself what it does by the clock lays a model
// aside after a minute without calls, closes a window when it is over on that clock, and writes a snapshot with the next
// entry a minute after the start. A step of the time of day closes windows, which have dates, although a
// second has passed; a step back opens none.
func TestFakeClock(t *testing.T) {
	ctx := context.Background()
	const window = 24 * time.Hour
	begin := time.Unix(1_800_000_000, 0)
	f := timing.NewFake(begin)
	s := must(Open(ctx, Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Keys: testKeys,
		Clock: f.Clock()}))
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	must(s.CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) { c.Reward.Window = Duration(window) }), ""))
	decide := func() string {
		id := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 2, 3)})).EventID
		applied(s)
		return id
	}
	must(s.Reward(ctx, RewardRequest{EventID: decide(), Value: 1}))
	if h := s.Health(); h.Open != 1 || h.Awake != 1 || h.Snapshot != 0 || !h.Started.Equal(begin) {
		t.Fatalf("at the start: %+v", h)
	}
	eventually(t, func() bool { // the loop has to look twice, each time a minute later
		f.Advance(time.Minute)
		return s.Health().Awake == 0
	})
	if passed := f.Now().Sub(begin); passed < 2*time.Minute || passed < window && s.Health().Open != 1 {
		t.Errorf("after %v: %+v", passed, s.Health())
	}
	f.Advance(window)
	eventually(t, func() bool { h := s.Health(); return h.Open == 0 && h.Awake == 0 && h.Snapshot > 0 })

	late := decide()
	day := f.Now()
	f.Set(day.Add(window + time.Minute))
	f.Advance(time.Second)
	eventually(t, func() bool { return s.Health().Open == 0 })
	f.Set(day)
	if r := must(s.Reward(ctx, RewardRequest{EventID: late, Value: 1})); r.Status != "late" {
		t.Errorf("after a step back: %+v", r)
	}
}
