package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/scratch"
	"troupe/timing"
)

// Whichever entry of the log is lost and given up: the server starts, decides and learns, and the state is
// the same with and without snapshots. The log has all kinds of records, rollbacks and clones among them,
// which say with what state they began: what comes after the loss is not what it was.
func TestAnyLostEntry(t *testing.T) {
	t.Parallel()
	ctx, clock := context.Background(), &fakeClock{}
	base := t.TempDir()
	start := func(dir string) (*Server, error) {
		return Open(ctx, Options{Dir: dir, Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: -1, SnapshotEvery: -1, Wait: time.Minute})
	}
	s := must(start(base))
	must(s.CreateModel(ctx, vectors("v", 3, func(c *ModelConfig) { c.Reward.Default = Maybe{Set: true, Value: 0.1} }), ""))
	must(s.CreateModel(ctx, DefaultConfig("n"), ""))
	named := []Action{{ID: "a", Features: json.RawMessage(`{"p":1}`)}, {ID: "b", Features: json.RawMessage(`{"p":0}`)}}
	play := func() uint64 {
		d := must(s.Decide(ctx, "n", DecideRequest{Actions: named, Context: json.RawMessage(`{"u":"x"}`)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
		d = must(s.Decide(ctx, "v", DecideRequest{Actions: actions(1, 4, 3), Deferred: true, IdempotencyKey: fmt.Sprint(clock.ns.Load())}))
		must(s.Activate(ctx, d.EventID, ""))
		items := must(s.DecideBatch(ctx, "v", []DecideRequest{{Actions: actions(2, 4, 3)}, {Actions: actions(3, 4, 3)}}))
		return must(s.RewardBatch(ctx, []RewardRequest{{EventID: items[0].Decision.EventID, Value: 0.5}, {EventID: items[1].Decision.EventID, Value: -0.5}}))[0].Result.Seq
	}
	play()
	seq := play()
	clock.forward(11 * time.Minute)
	must(s.Expire(ctx))
	play()
	must(s.RollbackModel(ctx, RollbackRequest{Name: "v", ToSeq: seq}))
	must(s.CloneModel(ctx, CloneRequest{From: "n", Name: "c", AtSeq: seq}))
	play()
	must(s.RollbackModel(ctx, RollbackRequest{Name: "v", ToSeq: seq + 2, KeepLater: true}))
	m := must(s.GetModel(ctx, "c"))
	m.Config.Floor = 0.1
	must(s.ConfigureModel(ctx, "c", 0, m.Config, ""))
	must(s.PauseModel(ctx, "c", ""))
	must(s.ResumeModel(ctx, "c", ""))
	play()
	if err := s.Close(ctx); err != nil { // writes a snapshot
		t.Fatal(err)
	}
	last := s.progress.applied.Load()
	var entries [][]byte
	log := must(eventlog.OpenDisk(ctx, filepath.Join(base, "log"), eventlog.DiskOptions{}))
	for n := uint64(1); n <= last; n++ {
		entries = append(entries, must(log.Get(ctx, 0, n)).Data)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	state := func(dir string, work bool) ([]byte, error) {
		s, err := start(dir)
		if err != nil {
			return nil, err
		}
		defer s.Close(ctx)
		for _, m := range must2(s.ListModels(ctx, "", 10)) {
			if m.Paused || !work {
				continue
			}
			as := named
			if m.Config.Dim != 0 {
				as = actions(5, 4, 3)
			}
			d, err := s.Decide(ctx, m.Name, DecideRequest{Actions: as})
			if err != nil {
				return nil, fmt.Errorf("decide: %w", err)
			}
			if r, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}); err != nil || r.Status != Accepted {
				return nil, fmt.Errorf("reward: %v %w", r, err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1))
	}
	for i, e := range entries {
		if !long() && i%3 != 1 {
			continue
		}
		dir := filepath.Join(t.TempDir(), "d")
		if err := scratch.Copy(dir, base); err != nil {
			t.Fatal(err)
		}
		files := must(filepath.Glob(filepath.Join(dir, "log", "g0000", "*.seg")))
		hit := false
		for _, file := range files {
			b := must(os.ReadFile(file))
			if at := bytes.Index(b, e); at >= 0 {
				b[at+len(e)/2] ^= 4
				hit = true
				if err := os.WriteFile(file, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !hit {
			t.Fatalf("entry %d is in none of %v", i+1, files)
		}
		if _, err := start(dir); err == nil {
			t.Fatalf("entry %d is damaged, and the server starts", i+1)
		}
		if _, err := Repair(ctx, dir, eventlog.RepairOptions{AcceptLoss: true}); err != nil {
			t.Fatalf("entry %d: %v", i+1, err)
		}
		with, err := state(dir, true)
		if err != nil {
			t.Errorf("entry %d is lost: %v", i+1, err)
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
			t.Fatal(err)
		}
		without, err := state(dir, false)
		if err != nil {
			t.Errorf("entry %d is lost, without snapshots: %v", i+1, err)
		} else if !bytes.Equal(with, without) {
			t.Errorf("entry %d is lost: another state with snapshots than without", i+1)
		}
	}
	if testing.Verbose() {
		t.Logf("%d entries", len(entries))
	}
}

func must2[T, U any](v T, _ U, err error) T { return must(v, err) }
