package serve

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
	"troupe/serve/fold"
	"troupe/timing"
)

// stateBytes are the bytes of a server's state, its chain included.
func stateBytes(t *testing.T, s *Server) []byte {
	t.Helper()
	applied(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.fold.AppendState(nil, s.applier.chain)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTrim: a log is trimmed while the server works, by age and by size, on the real engine and in
// memory. What windows, keys, clones and rollbacks need stays. A server that starts from the base alone
// has the same state, byte for byte; what lies before is refused with the reason; without any base the
// log is not opened.
func TestTrim(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, by := range []string{"age", "size"} {
		t.Run(by, func(t *testing.T) {
			dir, clock := t.TempDir(), &fakeClock{}
			var log eventlog.Log
			edit := func(o *Options) {
				if o.Dir, o.TrimEvery = dir, -1; by == "age" {
					o.Keep = time.Hour
				} else {
					o.KeepBytes, o.Disk.Reserve = 8000, -1
				}
			}
			if by == "age" {
				log = eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
			}
			s := open(t, log, clock, edit)
			must(s.CreateModel(ctx, vectors("first", 3), ""))
			must(s.CreateModel(ctx, vectors("sum", 3, func(c *ModelConfig) {
				c.Reward.Rule, c.Reward.Default = "sum", Maybe{Set: true, Value: 0.1}
			}), ""))
			var ids []string
			work := func(n int) {
				t.Helper()
				for range n {
					clock.forward(time.Minute)
					for _, m := range []string{"first", "sum"} {
						d := must(s.Decide(ctx, m, DecideRequest{Actions: actions(len(ids), 3, 3)}))
						if ids = append(ids, d.EventID); len(ids)%3 > 0 {
							must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}))
						}
					}
					must(s.Expire(ctx))
				}
			}
			trim := func() uint64 {
				t.Helper()
				first := must(s.Trim(ctx))
				if info := must(s.log.Info(ctx, 0)); info.First != first {
					t.Fatalf("the log begins with %d, Trim says %d", info.First, first)
				}
				return first
			}
			refused := func(seq uint64) {
				t.Helper()
				_, err := s.RollbackModel(ctx, RollbackRequest{Name: "first", ToSeq: seq})
				wantCode(t, err, Invalid, fmt.Sprintf("expected a sequence from %d, where the log that is kept begins", s.past.Base.Load()))
				_, err = s.CloneModel(ctx, CloneRequest{From: "sum", Name: "late", AtSeq: seq})
				wantCode(t, err, Invalid, "where the log that is kept begins")
			}

			// A key is remembered for a day, so its decision stays.
			keyed := DecideRequest{Actions: actions(0, 3, 3), IdempotencyKey: "k"}
			k := must(s.Decide(ctx, "first", keyed))
			work(150)
			if first := trim(); first > k.Seq {
				t.Fatalf("trimmed to %d, a key needs %d", first, k.Seq)
			}
			if again := must(s.Decide(ctx, "first", keyed)); again.EventID != k.EventID {
				t.Fatalf("the key's decision is %+v", again)
			}
			clock.forward(25 * time.Hour)
			work(20)

			// A clone that was made of a state stays computable as long as its own record is kept.
			at := must(s.Event(ctx, ids[len(ids)-10])).Seq
			must(s.CloneModel(ctx, CloneRequest{From: "sum", Name: "clone", AtSeq: at}))
			clock.forward(40 * time.Minute)
			work(3)
			if by == "age" {
				clock.forward(14 * time.Minute) // the clone's record is young, what it looks at is not
			}
			first := trim()
			base := s.past.Base.Load()
			if first < 100 || by == "age" && base > at || first > base+1 {
				t.Fatalf("first %d, base %d, the clone began at %d", first, base, at)
			}
			refused(base - 1)
			if r, err := s.Replay(ctx, ids[len(ids)-1]); err != nil || !r.Equal {
				t.Fatalf("replay of what is kept: %+v, %v", r, err)
			}
			_, err := s.Event(ctx, ids[0])
			wantCode(t, err, Gone, "no longer kept")
			// A reward that nobody needs to look up is late; otherwise its decision is gone.
			if r, err := s.Reward(ctx, RewardRequest{EventID: ids[0], Value: 0}); r.Status != Late && CodeOf(err) != Gone {
				t.Fatalf("a reward for what was trimmed: %+v, %v", r, err)
			}
			must(s.RollbackModel(ctx, RollbackRequest{Name: "first", ToSeq: base, KeepLater: true}))
			work(100)
			clock.forward(time.Hour)
			work(100)
			if later := trim(); later <= first || s.past.Base.Load() <= at {
				t.Fatalf("the clone's record is old: first %d after %d, base %d", later, first, s.past.Base.Load())
			}
			work(5)
			want := stateBytes(t, s)
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}

			// From the base alone, and from its neighbours when it is damaged.
			base = s.past.Base.Load()
			snaps := filepath.Join(dir, "snapshots")
			baseFile := filepath.Join(snaps, fold.FileName(base))
			all := must(s.snapshots.files.List())
			if !slices.Contains(all, base) || all[len(all)-1] != base || len(all) < 2 {
				t.Fatalf("snapshots %v, base %d", all, base)
			}
			aside := t.TempDir()
			for _, seq := range all[:len(all)-1] {
				if err := os.Rename(filepath.Join(snaps, fold.FileName(seq)), filepath.Join(aside, fold.FileName(seq))); err != nil {
					t.Fatal(err)
				}
			}
			s = open(t, log, clock, edit)
			if got := stateBytes(t, s); !bytes.Equal(got, want) {
				t.Fatal("from the base comes another state")
			}
			if s.recovery.Snapshot != base || s.past.Base.Load() != base {
				t.Fatalf("begun with %d, base %d, want %d", s.recovery.Snapshot, s.past.Base.Load(), base)
			}
			refused(base - 1)
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}
			b := must(os.ReadFile(baseFile))
			b[len(b)/2] ^= 1
			if err := os.WriteFile(baseFile, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s = open(t, log, clock, edit) // Close has written another one
			if got := stateBytes(t, s); !bytes.Equal(got, want) || s.past.Base.Load() <= base {
				t.Fatalf("with a damaged base comes another state, or base %d", s.past.Base.Load())
			}
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}
			for _, seq := range must(s.snapshots.files.List()) {
				if seq != base {
					if err := os.Remove(filepath.Join(snaps, fold.FileName(seq))); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := os.Stat(baseFile); err != nil { // pruned: put it back, damaged
				if err := os.WriteFile(baseFile, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o := Options{Log: log, Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: -1}
			edit(&o)
			if _, err = Open(ctx, o); err == nil || !strings.Contains(err.Error(), "the log was trimmed") || !strings.Contains(err.Error(), fold.FileName(base)+": wrong checksum") {
				t.Fatalf("without a base: %v", err)
			}
		})
	}
}

// TestTrimUnderLoad: decisions, rewards, clones and rollbacks go on while the log is trimmed, over and
// over. Nothing fails but what looks back too far, and that with the reason; the next start finds the
// same state. The clock runs with the work.
func TestTrimUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir, clock, log := t.TempDir(), &fakeClock{}, eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	edit := func(o *Options) {
		o.Wait = 10 * time.Second
		o.Dir, o.TrimEvery, o.Keep, o.SnapshotEvery, o.SnapshotAfter = dir, -1, time.Minute, 100, -1
		o.Limits.Models = 1 << 20
	}
	s := open(t, log, clock, edit)
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var looked, refused atomic.Int64
	for w := range 3 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				clock.forward(time.Second)
				d, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 3, 3)})
				if err == nil {
					_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})
				}
				if err == nil && w == 0 {
					_, err = s.Expire(ctx)
				}
				if err == nil && w == 1 && n%500 == 250 { // each looks at a past with others in it: few
					back := uint64(n*7919) % 300
					if n%1000 == 750 {
						back = 6000
					}
					if seq := s.Health().Applied; seq > back+10 {
						if n%1500 == 250 {
							_, err = s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: seq - back, KeepLater: true})
						} else {
							_, err = s.CloneModel(ctx, CloneRequest{From: "m", Name: fmt.Sprint("c", n), AtSeq: seq - back})
						}
						looked.Add(1)
						if CodeOf(err) == Invalid && strings.Contains(err.Error(), "begins") || CodeOf(err) == Invalid && strings.Contains(err.Error(), "began") {
							refused.Add(1)
							err = nil
						}
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	trims, last := 0, uint64(1)
	await.Until(t, "eight trims, and a look back that is refused", func() bool {
		if first := must(s.Trim(ctx)); first > last {
			last = first
			trims++
		}
		return trims >= 8 && refused.Load() > 0 || t.Failed()
	})
	close(stop)
	wg.Wait()
	want := stateBytes(t, s)
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, seq := range must(s.snapshots.files.List()) {
		if seq != s.past.Base.Load() {
			if err := os.Remove(filepath.Join(dir, "snapshots", fold.FileName(seq))); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = open(t, log, clock, edit)
	if got := stateBytes(t, s); !bytes.Equal(got, want) {
		t.Error("from the base comes another state")
	}
	if trims == 0 || looked.Load() == refused.Load() {
		t.Errorf("%d trims, %d looks back, %d refused", trims, looked.Load(), refused.Load())
	}
	t.Logf("%d trims up to entry %d of %d; %d looks back, %d of them refused", trims, last, s.Health().Applied, looked.Load(), refused.Load())
}
