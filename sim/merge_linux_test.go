package sim

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"troupe/shards"
)

// TestMergeOnFullDisk: a merge that finds no room is an error, and what was there stays as it was; with room it succeeds. It needs root, for a
// disk of its own.
func TestMergeOnFullDisk(t *testing.T) {
	parts := filepath.Join(t.TempDir(), "parts")
	for i := range 2 {
		playInto(t, shardSpecs[1], parts, shards.Part{Index: i + 1, Of: 2})
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		if os.Getuid() == 0 && os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	out := filepath.Join(disk, "out")
	if _, err := mergeTo(parts, out, false); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, out)
	want := before[ResultsFile]
	if err := os.WriteFile(filepath.Join(out, ResultsFile), append(bytes.Clone(want), '\n'), 0o644); err != nil { // so that there is something to write
		t.Fatal(err)
	}
	before = filesOf(t, out)
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	filler.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := mergeTo(parts, out, false); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("merging on a full disk: %v", err)
	}
	after := filesOf(t, out)
	for name, text := range before {
		if !bytes.Equal(after[name], text) {
			t.Errorf("%s was changed", name)
		}
	}
	for name := range after {
		if before[name] == nil {
			t.Errorf("%s is left", name)
		}
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := mergeTo(parts, out, false); err != nil {
		t.Fatal(err)
	}
	if got := filesOf(t, out)[ResultsFile]; !bytes.Equal(got, want) {
		t.Error("with room the results are others")
	}
}

// filesOf are the files of a directory.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = append(text, 0)[:len(text)]
	}
	return all
}
