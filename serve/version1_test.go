package serve

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// unpack writes the files of a tar.gz below dir.
func unpack(t *testing.T, name, dir string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o777)
		} else if err = os.MkdirAll(filepath.Dir(to), 0o777); err == nil {
			b, e := io.ReadAll(r)
			err = errors.Join(e, os.WriteFile(to, b, 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestVersion1Log: a log of thirteen models that was written before the default key of atoms changed
// comes back with the same digests, and its decisions replay, because absent options keep the defaults
// of the time when the model was made. testdata/version1 has the log and what its server said of it.
func TestVersion1Log(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "testdata/version1/log.tar.gz", dir)
	b, err := os.ReadFile("testdata/version1/states.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Digest       string
		Seq, Learned uint64
		Events       []string
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != 13 {
		t.Fatalf("%d models in states.json, want 13", len(want))
	}
	ctx := context.Background()
	s, err := Open(ctx, Options{Dir: dir, SnapshotEvery: -1, SnapshotAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	for id, w := range want {
		st, err := s.State(ctx, id)
		if err != nil {
			t.Fatal(id, err)
		}
		if fmt.Sprint(st.Digest) != w.Digest || st.Learned != w.Learned {
			t.Errorf("%s: digest %v after %d rewards, want %s after %d", id, st.Digest, st.Learned, w.Digest, w.Learned)
		}
		for _, event := range w.Events {
			if r, err := s.Replay(ctx, event); err != nil || !r.Equal {
				t.Errorf("%s: event %s does not replay: %v, %v", id, event, r.Differs, err)
			}
		}
	}
	m := must(s.GetModel(ctx, "atoms"))
	if got := m.Config.Policy.Raw["key"]; got != "epoch" {
		t.Errorf("the key of atoms made in version 1 is %v, want epoch", got)
	}
	decode := func(text string) (c ModelConfig) {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	// The table as it was sent then is still the model's.
	c := m.Config
	c.Policy = decode(`{"id": "atoms", "policy": {"kind": "atoms"}}`).Policy
	m = must(s.ConfigureModel(ctx, "atoms", 0, c, ""))
	if got := m.Config.Policy.Raw["key"]; got != "epoch" {
		t.Errorf("after it was configured, the key is %v, want epoch", got)
	}
	// A new model has the new default, written out, through a restart too.
	m = must(s.CreateModel(ctx, decode(`{"id": "new", "dim": 2, "policy": {"kind": "mixed", "base": {"kind": "atoms"}}}`), ""))
	if got := fmt.Sprint(m.Config.Policy.Raw); got != "map[base:map[key:decision kind:atoms] kind:mixed]" {
		t.Errorf("a new model has the policy %v", got)
	}
	m.Config.Policy = decode(`{"id": "new", "policy": {"kind": "mixed", "base": {"kind": "atoms"}}}`).Policy
	must(s.ConfigureModel(ctx, "new", 0, m.Config, ""))
	m.Config.Policy = decode(`{"id": "new", "policy": {"kind": "mixed", "base": {"kind": "atoms", "key": "epoch"}}}`).Policy
	if _, err := s.ConfigureModel(ctx, "new", 0, m.Config, ""); err == nil {
		t.Error("the key of a model was changed")
	}
	d := must(s.Decide(ctx, "new", DecideRequest{Actions: []Action{{ID: "a", Features: []byte("[0.5, 0.1]")}, {ID: "b", Features: []byte("[-0.2, 0.5]")}}}))
	if r := must(s.Replay(ctx, d.EventID)); !r.Equal {
		t.Errorf("a decision with a key of its own does not replay: %v", r.Differs)
	}
}
