package serve

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// TestTrimWaitsForBackup: what a backup that follows does not have stays in the log of a single machine, until it has
// not asked for an hour, or the log is nearly full; then that is said once. Names are bounded.
func TestTrimWaitsForBackup(t *testing.T) {
	ctx, clock, said := t.Context(), &fakeClock{}, &lines{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock, func(o *Options) {
		o.Dir, o.TrimEvery, o.Keep = t.TempDir(), -1, time.Hour
		o.Logger = slog.New(slog.NewTextHandler(said, nil))
	})
	must(s.CreateModel(ctx, vectors("first", 3), ""))
	work := func() {
		for i := range 20 {
			clock.forward(time.Minute)
			d := must(s.Decide(ctx, "first", DecideRequest{Actions: actions(i, 3, 3)}))
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}))
		}
		clock.forward(50 * time.Minute)
		must(s.Expire(ctx))
		clock.forward(5 * time.Minute)
	}
	work()
	work()
	s.Following("h:/b", 9)
	s.Following("h:/other", 1_000_000)
	trim := func() (base uint64) { // windows that were open there keep some of what is before it
		t.Helper()
		if first := must(s.Trim(ctx)); first > s.past.Base.Load()+1 {
			t.Fatalf("the log begins with %d and its base is %d", first, s.past.Base.Load())
		}
		return s.past.Base.Load()
	}
	first := trim()
	if first == 0 || first > 8 {
		t.Fatalf("the base is that of entry %d, and the backup has entries up to 8", first)
	}
	if list := s.Health().Followers; len(list) != 2 || list[0].Name != "h:/b" || list[0].Last != 8 || !list[0].Waited {
		t.Errorf("the followers: %+v", list)
	}
	s.Following("h:/b", 21)
	if again := trim(); again <= first || again > 20 {
		t.Errorf("the base is that of entry %d, before it was %d, and the backup has entries up to 20", again, first)
	}
	if strings.Contains(said.text(), "lacks") {
		t.Errorf("a trim that waits says %s", said.text())
	}

	// It does not ask for an hour.
	work()
	if list := s.Health().Followers; list[0].Waited {
		t.Errorf("an hour later: %+v", list)
	}
	if again := trim(); again <= 20 {
		t.Errorf("the base is that of entry %d an hour after the backup asked", again)
	}
	if text := said.text(); strings.Count(text, "begin another one") != 1 || !strings.Contains(text, "h:/b") || !strings.Contains(text, `lacks="21 to `) {
		t.Errorf("the log of the server: %s", text)
	}

	// The log is nearly full.
	s.Following("h:/b", 30)
	s.space.set(eventlog.Info{Bytes: 91, Limit: 100})
	if _, waits := s.trimmer.needs.hold(50); waits != "" {
		t.Errorf("a log that is nearly full waits: %s", waits)
	}
	s.space.set(eventlog.Info{Bytes: 89, Limit: 100})
	if most, waits := s.trimmer.needs.hold(50); most != 29 || waits != "the backup h:/b has entries up to 29" {
		t.Errorf("a log with room: %d, %q", most, waits)
	}
	for i := range 100 {
		s.Following(fmt.Sprint(i), 5)
	}
	if n := len(s.Health().Followers); n != followMost {
		t.Errorf("%d followers are kept", n)
	}
	clock.forward(25 * time.Hour)
	if n := len(s.Health().Followers); n != 0 {
		t.Errorf("%d followers a day later", n)
	}
}

// TestTrimOfNodesWaitsForBackup: a node that a backup follows holds up the trim that another node has proposed, and the
// others say for whom they wait.
func TestTrimOfNodesWaitsForBackup(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m, nodes, clocks := three(t, trimming(dir))
	begin(t, nodes)
	pairs(t, nodes, 30)
	later(t, nodes, clocks, time.Hour)
	nodes[2].Following("h:/b", 5)
	eventually(t, func() bool { _, _ = nodes[0].Trim(ctx); return nodes[0].Health().Cluster.Base > 5 })
	base := nodes[0].Health().Cluster.Base
	eventually(t, func() bool {
		return nodes[0].Health().Cluster.Trim == fmt.Sprintf("the base of entry %d is not known to be at c", base) &&
			nodes[2].Health().Cluster.Trim == "the backup h:/b has entries up to 4"
	})
	if _, err := nodes[2].Trim(context.Background()); err == nil {
		t.Error("another trim begins")
	}
	if first := must(m.Info(ctx, 0)).First; first != 1 {
		t.Errorf("the log begins with %d while a backup has entries up to 4", first)
	}
	nodes[2].Following("h:/b", base+1)
	for _, s := range nodes {
		eventually(t, func() bool { return s.Health().Cluster.Trim == "" })
	}
	if first := must(m.Info(ctx, 0)).First; first == 1 {
		t.Error("nothing was removed when the backup had it")
	}
}
