package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/serve/shelf"
	"troupe/timing"
)

// shelfFile opens the file of the models that are laid aside of a server on dir once more. It has no name.
func shelfFile(t *testing.T, dir string) *os.File {
	t.Helper()
	for _, fd := range must(os.ReadDir("/proc/self/fd")) {
		name := "/proc/self/fd/" + fd.Name()
		if to, err := os.Readlink(name); err == nil && to == filepath.Join(dir, shelf.FileName)+" (deleted)" {
			f := must(os.OpenFile(name, os.O_RDWR, 0))
			t.Cleanup(func() { f.Close() })
			return f
		}
	}
	t.Fatal("the server has no file without a name")
	return nil
}

// TestShelf: what is laid aside is in a file that has no name, so that a process that is killed leaves nothing behind. A
// byte that changes there is found by the next reward: the server stops to write, and says where and what to do. The
// next start has the state of the log.
func TestShelf(t *testing.T) {
	ctx, dir, clock := t.Context(), t.TempDir(), &fakeClock{}
	start := func() *Server {
		return must(Open(ctx, Options{Dir: dir, Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: -1, SnapshotEvery: -1, LayAside: -1}))
	}
	s := start()
	defer func() { s.Close(ctx) }()
	var ids []string
	for i := range 4 {
		m := vectors(fmt.Sprint("m", i), 6)
		if i%2 == 0 {
			m = DefaultConfig(m.ID)
			m.Dim = 6
		}
		must(s.CreateModel(ctx, m, ""))
		d := must(s.Decide(ctx, m.ID, DecideRequest{Actions: actions(i, 3, 6)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
		ids = append(ids, must(s.Decide(ctx, m.ID, DecideRequest{Actions: actions(i, 3, 6)})).EventID)
	}
	before := stateBytes(t, s)
	for range 2 {
		must(s.aside.layAside())
	}
	if h := s.Health(); h.Awake != 0 || s.aside.shelf.Status().Used == 0 {
		t.Fatalf("%d models are awake, the shelf has %+v", h.Awake, s.aside.shelf.Status())
	}
	if !bytes.Equal(stateBytes(t, s), before) {
		t.Error("the state has other bytes when its models are laid aside")
	}
	for _, f := range must(os.ReadDir(dir)) {
		if strings.HasPrefix(f.Name(), "aside") {
			t.Errorf("%s has a name", f.Name())
		}
	}
	f := shelfFile(t, dir)
	all := must(io.ReadAll(f))
	for i := range all {
		all[i] ^= 1
	}
	must(f.WriteAt(all, 0))
	_, err := s.Reward(ctx, RewardRequest{EventID: ids[0], Value: 1})
	if err == nil {
		t.Error("a reward of a model whose state is damaged was learned")
	}
	var damage *shelf.DamageError
	if err := s.stopped(); !errors.As(err, &damage) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "start again") {
		t.Fatalf("the server goes on after damage on its shelf: %v", err)
	}
	_, err = s.Decide(ctx, "m1", DecideRequest{Actions: actions(1, 3, 6)})
	if err == nil {
		t.Error("a model whose state is damaged decides")
	}
	s.Close(ctx) // without a snapshot
	s = start()
	for _, id := range ids[1:] {
		must(s.Reward(ctx, RewardRequest{EventID: id, Value: 1}))
	}
	for range 2 {
		must(s.aside.layAside())
	}
	aside := stateBytes(t, s)
	whole, chain, err := s.past.Fold(nil, s.fold.Seq())
	if err != nil || !bytes.Equal(must(whole.AppendState(nil, chain)), aside) {
		t.Errorf("a fold of the log in memory has other bytes (%v)", err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = start()
	if s.recovery.Snapshot == 0 || !bytes.Equal(stateBytes(t, s), aside) {
		t.Error("a start from the snapshot has other bytes")
	}
}
