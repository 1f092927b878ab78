package serve

import (
	"context"
	"os"
	"reflect"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/powerfs"
	"troupe/timing"
)

// TestTrimLosesPower: the disk fails at the n-th call of a trim and power is lost then. The next start
// finds the state that was there, in a log that is whole or whose base is there, and goes on.
func TestTrimLosesPower(t *testing.T) {
	t.Parallel()
	p := powerfs.Mount(t)
	ctx := context.Background()
	clock := &fakeClock{}
	edit := func(o *Options) {
		o.Log, o.Dir, o.TrimEvery, o.Keep, o.SnapshotAfter, o.Disk.Reserve = nil, p.Dir+"/data", -1, time.Hour, -1, -1
		o.Committer = eventlog.CommitterOptions{Try: 5 * time.Second, Patience: time.Minute} // a busy machine syncs slowly
	}
	trimmed, whole := 0, 0
	run := func(at int, fault powerfs.Fault) (calls int) {
		p.Clear(t)
		s := open(t, nil, clock, edit)
		must(s.CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) { c.Reward.Rule = "sum" }), ""))
		for n := range 24 {
			clock.forward(5 * time.Minute)
			d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 3, 3)}))
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}))
			must(s.Expire(ctx))
		}
		want, model := must(s.State(ctx, "m")), must(s.GetModel(ctx, "m"))
		p.Fail(func(op powerfs.Op) powerfs.Fault {
			if op.N < at || at == 0 {
				return powerfs.None
			}
			return fault
		})
		_, err := s.Trim(ctx)
		if calls = p.Fail(nil); at == 0 && err != nil {
			t.Fatal(err)
		}
		p.Fail(func(powerfs.Op) powerfs.Fault { return powerfs.EIO })
		closing, cancel := context.WithTimeout(ctx, time.Second)
		_ = s.Close(closing)
		cancel()
		p.Lose(t, nil)
		s, err = Open(ctx, func() Options {
			o := Options{Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: -1, Wait: time.Minute}
			edit(&o)
			return o
		}())
		if err != nil {
			t.Fatalf("call %d of the trim fails: %v", at, err)
		}
		got, again := must(s.State(ctx, "m")), must(s.GetModel(ctx, "m"))
		if got.Digest != want.Digest || got.Learned != want.Learned || !reflect.DeepEqual(again.Counts, model.Counts) {
			t.Errorf("call %d of the trim fails: another state", at)
		}
		if s.past.First.Load() > 1 {
			trimmed++
		} else {
			whole++
		}
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 3, 3)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
		if _, err := s.Trim(ctx); err != nil {
			t.Errorf("call %d of the trim fails: the next one: %v", at, err)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		return calls
	}
	calls := run(0, powerfs.None)
	step := 3
	if os.Getenv("TROUPE_LONG") != "" {
		step = 1
	}
	for at := 1; at <= calls; at += step {
		run(at, powerfs.EIO)
	}
	t.Logf("a trim has %d calls of the disk; afterwards %d logs were trimmed and %d whole", calls, trimmed, whole)
	if trimmed == 0 || whole == 0 {
		t.Error("every loss came at the same moment")
	}
}
