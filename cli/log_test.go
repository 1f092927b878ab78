package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/eventlog"
	"troupe/internal/scratch"
	"troupe/serve"
	"troupe/serve/model"
)

// TestLogCommand: verify, dump and repair on a log made here, whole and damaged.
func TestLogCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l, err := eventlog.OpenDisk(t.Context(), dir, eventlog.DiskOptions{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := eventlog.NewCommitter(l, eventlog.CommitterOptions{Epoch: 0xabc})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r := &eventlog.Reward{Event: eventlog.Event{Epoch: 1, Batch: 1, Index: uint32(i)}, Model: 7, X: []float64{1, 2}, Y: 0.5}
		if _, err := c.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	run := func(code int, want string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(t.Context(), args, &out, &errs); got != code {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, got, code, &out, &errs)
		}
		if all := out.String() + errs.String(); !strings.Contains(all, want) {
			t.Errorf("%v: want %q in\n%s", args, want, all)
		}
		return out.String()
	}
	run(1, "is in use by process", "log", "verify", dir)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := scratch.Copy(backup, dir); err != nil {
		t.Fatal(err)
	}

	run(0, "entries 1 to 20, 20 events, 1 writers", "log", "verify", dir)
	run(0, `"last": 20`, "log", "verify", "--json", dir)
	run(0, "nothing to repair", "log", "repair", dir)
	whole := run(0, `{"shard":0,"seq":20,"key":{"epoch":"0000000000000abc","batch":20,"index":0},"kind":"reward","record":{"event":{"epoch":"0000000000000001","batch":1,"index":19},"model":"0000000000000007","x":[1,2],"y":0.5}}`, "log", "dump", dir)
	if n := strings.Count(run(0, `"seq":15`, "log", "dump", dir, "--from", "15"), "\n"); n != 6 {
		t.Errorf("%d lines from 15 on", n)
	}
	run(2, "no event log here", "log", "verify", t.TempDir())
	run(2, "troupe log verify", "log", "verify", "a", "b")

	blocks, err := filepath.Glob(filepath.Join(dir, "g0000/*.seg"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	run(1, "damaged  g0000/00000000000000000001.seg at byte", "log", "verify", dir)
	run(1, `"kind":"damage"`, "log", "dump", dir)
	run(1, "one entry cannot be saved", "log", "repair", dir)
	lossy := filepath.Join(t.TempDir(), "lossy")
	if err := scratch.Copy(lossy, dir); err != nil {
		t.Fatal(err)
	}
	run(0, "lost     shard 0, entries 1", "log", "repair", lossy, "--accept-loss")
	run(0, "given up in a repair", "log", "verify", lossy)
	run(0, `"kind":"loss"`, "log", "dump", lossy)
	run(0, "1 of them from a copy", "log", "repair", dir, "--from", backup)
	if got := run(0, "", "log", "dump", dir); got != whole {
		t.Error("repaired from the backup, and different")
	}
}

// TestLogVerifyKeys: a data directory is whole only with the keys without which a server would not start on it.
func TestLogVerifyKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := serve.Open(t.Context(), serve.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateModel(t.Context(), model.Default("m"), ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, serve.KeyFile)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(from, to string) []byte { return []byte(strings.Replace(string(good), from, to, 1)) }
	for _, c := range []struct {
		what string
		keys []byte // nil: no file
		ok   bool
	}{
		{"whole", good, true}, {"missing", nil, false}, {"empty", []byte{}, false}, {"cut", good[:len(good)/2], false},
		{"zeros", make([]byte, len(good)), false}, {"another number", changed(`"current":1`, `"current":2`), false},
		{"another check", changed(`"check":"`, `"check":"f`), false}, {"no JSON", []byte("hello"), false},
		{"another member", changed(`"current"`, `"curent"`), false}, {"new keys are asked for", []byte("{}\n"), true},
	} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if c.keys != nil {
			if err := os.WriteFile(name, c.keys, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs, asJSON bytes.Buffer
		code, want := command(t.Context(), []string{"log", "verify", dir}, &out, &errs), 1
		if c.ok {
			want = 0
		}
		if code != want || c.ok != strings.Contains(out.String(), "verdict  whole") || !c.ok && !strings.Contains(out.String(), "damaged  ../keys.json") {
			t.Errorf("%s: exit code %d\n%s%s", c.what, code, &out, &errs)
		}
		if code := command(t.Context(), []string{"log", "verify", "--json", dir}, &asJSON, &errs); code != want {
			t.Errorf("%s: exit code %d with --json\n%s", c.what, code, &asJSON)
		}
		if s, err := serve.Open(t.Context(), serve.Options{Dir: dir}); (err == nil) != c.ok { // as a start does
			t.Errorf("%s: a start: %v", c.what, err)
		} else if err == nil {
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if c.keys == nil {
			if err := os.WriteFile(name, nil, 0o600); err != nil { // for the next
				t.Fatal(err)
			}
		}
	}
}
