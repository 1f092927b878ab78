package serve

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/timing"
)

// ledLog is a log whose replicas have a leader.
type ledLog struct {
	eventlog.Log
	mu     sync.Mutex
	leader string
	moved  int
}

func (l *ledLog) Replicas(context.Context) ([]eventlog.Replica, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return []eventlog.Replica{{Name: l.leader, Leader: true}}, nil
}

func (l *ledLog) HandOver(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader == "a" {
		l.leader, l.moved = "b", l.moved+1
	}
	return nil
}

var (
	_ eventlog.Replicated = (*ledLog)(nil)
	_ eventlog.HandsOver  = (*ledLog)(nil)
)

func (l *ledLog) lead(name string) { l.mu.Lock(); l.leader = name; l.mu.Unlock() }
func (l *ledLog) moves() int       { l.mu.Lock(); defer l.mu.Unlock(); return l.moved }

// TestDamagedReplica: a node that finds its files damaged, because it was asked to look or because an entry was not there, lets another node lead, again when it
// leads again, and says so; it serves on. One whose files are whole goes on leading.
func TestDamagedReplica(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := &ledLog{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), leader: "a"}
	var mu sync.Mutex
	var damage []eventlog.Damage
	suspect := make(chan struct{}, 1)
	s, err := openNode(t, l, 0, &nodeClock{}, func(o *Options) {
		o.Cluster.Suspect = suspect
		o.Cluster.Check = func() (*eventlog.ReplicaReport, error) {
			mu.Lock()
			defer mu.Unlock()
			return &eventlog.ReplicaReport{First: 1, Last: 7, Damage: slices.Clone(damage)}, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	check := func(want string, d ...eventlog.Damage) {
		t.Helper()
		mu.Lock()
		damage = d
		mu.Unlock()
		s.member.replica.mu.Lock()
		s.member.replica.under = nil // a check is kept for a while
		s.member.replica.mu.Unlock()
		if r, err := s.CheckReplica(ctx); err != nil || !r.Done || len(r.Damage) != len(d) {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := s.Health().Cluster.Damage; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("the health says %q, want %q", got, want)
		}
	}
	written := func() { // checkpoints, after which leadership would have moved
		from := s.committer.Stats().Batches
		eventually(t, func() bool { return s.committer.Stats().Batches > from+5 })
	}
	check("")
	written()
	if l.moves() != 0 {
		t.Error("a node whose files are whole lets another one lead")
	}
	check("2.blk at byte 17", eventlog.Damage{File: "2.blk", Offset: 17, What: "bad"})
	eventually(t, func() bool { return l.moves() == 1 })
	l.lead("a")
	eventually(t, func() bool { return l.moves() == 2 })
	if h := s.Health(); !h.Ready {
		t.Errorf("a node with damaged files is not ready: %s", h.Reason)
	}
	check("")
	l.lead("a")
	written()
	if l.moves() != 2 {
		t.Error("a node whose files are whole again lets another one lead")
	}
	mu.Lock()
	damage = []eventlog.Damage{{File: "3.blk", What: "bad"}}
	mu.Unlock()
	s.member.replica.mu.Lock()
	s.member.replica.ended = timing.Instant(1 - time.Hour)
	s.member.replica.mu.Unlock()
	suspect <- struct{}{}
	eventually(t, func() bool { return l.moves() == 3 && strings.Contains(s.Health().Cluster.Damage, "3.blk") })

	// What the start found counts from the first moment.
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	l.lead("a")
	again, err := openNode(t, l, 0, &nodeClock{}, func(o *Options) { o.Cluster.Damage = "1.blk" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close(context.Background()) })
	eventually(t, func() bool { return l.moves() == 4 && again.Health().Cluster.Damage == "1.blk" })
}

// TestMend: a node whose files are damaged makes them anew, tries again while it cannot and says why, and counts from
// what the start found.
func TestMend(t *testing.T) {
	t.Parallel()
	l := &ledLog{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), leader: "a"}
	var mu sync.Mutex
	var fault error
	var tries atomic.Uint64
	s, err := openNode(t, l, 0, &nodeClock{}, func(o *Options) {
		o.Cluster.Damage = "1.blk"
		o.Cluster.Repair = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			tries.Add(1)
			return fault
		}
		o.Cluster.Care = func() eventlog.Care { return eventlog.Care{Repairs: tries.Load(), Entry: 5} }
		fault = &eventlog.NotRepairedError{Why: context.DeadlineExceeded}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	eventually(t, func() bool {
		h := s.Health().Cluster
		return h.Damage == "1.blk" && strings.Contains(h.Unrepaired, "deadline") && l.moves() > 0
	})
	mu.Lock()
	fault = nil
	mu.Unlock()
	eventually(t, func() bool { h := s.Health().Cluster; return h.Damage == "" && h.Unrepaired == "" })
	if n := tries.Load(); n < 2 || s.Health().Cluster.VerifiedEntry != 5 {
		t.Errorf("%d tries, %+v", n, s.Health().Cluster)
	}
	s.member.replica.note([]string{"2.blk"})
	eventually(t, func() bool { return s.Health().Cluster.Damage == "" })
}

// TestReplicaWalk: the files are read when that was done long ago, and what such a read finds is looked at again.
func TestReplicaWalk(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	walks, checks, cares, care := 0, 0, 0, eventlog.Care{} // cares are looks at how long ago the last walk was
	l := &ledLog{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), leader: "b"}
	s, err := openNode(t, l, 0, &nodeClock{}, func(o *Options) {
		o.Cluster.WalkEvery = 20 * time.Millisecond
		o.Cluster.Care = func() eventlog.Care { mu.Lock(); defer mu.Unlock(); cares++; return care }
		o.Cluster.Check = func() (*eventlog.ReplicaReport, error) {
			mu.Lock()
			defer mu.Unlock()
			checks++
			return &eventlog.ReplicaReport{First: 1, Last: 7}, nil
		}
		o.Cluster.Walk = func(_ context.Context, share float64) (*eventlog.ReplicaReport, error) {
			mu.Lock()
			defer mu.Unlock()
			if share != 0.1 {
				t.Errorf("a share of %v", share)
			}
			if walks++; walks == 3 {
				care.Verified = time.Now().Add(time.Hour)
			}
			return &eventlog.ReplicaReport{Damage: []eventlog.Damage{{File: "1.blk"}}}, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return walks == 3 && checks > 0 })
	if d := s.Health().Cluster.Damage; d != "" {
		t.Errorf("what a second look did not find is damage: %q", d)
	}
	mu.Lock()
	cares = 0
	mu.Unlock()
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return cares > 3 })
	mu.Lock()
	defer mu.Unlock()
	if walks != 3 {
		t.Errorf("%d walks, and the last one was not long ago", walks)
	}
	for _, o := range []Replica{{WalkShare: -1}, {WalkShare: 2}, {WalkEvery: -1}} {
		if o.check() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
