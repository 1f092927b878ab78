package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/eventlog"
)

// entriesOf are n made-up entries from one on. Their bytes are no batches: a backup keeps what there is.
func entriesOf(first uint64, n int) (all []eventlog.Entry) {
	for i := range n {
		seq := first + uint64(i)
		all = append(all, eventlog.Entry{Seq: seq, Data: fmt.Appendf(nil, "entry %d %s", seq, strings.Repeat("x", int(seq%7)))})
	}
	return all
}

// filled is a backup of the entries 1 to 60 in six parts.
func filled(t *testing.T, dir string) {
	t.Helper()
	if err := Begin(dir, 1, 0, nil, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	goOn(t, dir)
}

// goOn seals what is missing up to entry 60, as another process does.
func goOn(t *testing.T, dir string) {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for d.Last() < 60 {
		if err := d.Seal(entriesOf(d.Last()+1, 10)); err != nil {
			t.Fatal(err)
		}
	}
}

// whole checks that all 60 entries are there as they were.
func whole(dir string) error {
	d, err := Open(dir)
	if err != nil {
		return err
	}
	want := entriesOf(1, 60)
	n := 0
	for e, err := range d.Entries(1, 60) {
		if err != nil {
			return err
		}
		if n == len(want) || e.Seq != want[n].Seq || string(e.Data) != string(want[n].Data) {
			return fmt.Errorf("entry %d is %q", e.Seq, e.Data)
		}
		n++
	}
	if n != len(want) {
		return fmt.Errorf("%d entries", n)
	}
	if keys, err := d.Keys(); err != nil || string(keys) != "{}" {
		return fmt.Errorf("keys %q, %w", keys, err)
	}
	return nil
}

// TestKilled: wherever a process is killed while it writes the index, with or without the files of a part that has no
// line, the next one goes on and all entries are there once.
func TestKilled(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	filled(t, full)
	index, err := os.ReadFile(filepath.Join(full, indexFile))
	if err != nil {
		t.Fatal(err)
	}
	head := strings.Index(string(index), "\n") + 1
	for cut := head; cut <= len(index); cut += 7 {
		dir := filepath.Join(t.TempDir(), "cut")
		if err := os.CopyFS(dir, os.DirFS(full)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, indexFile), index[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "entries-1-999.part.new"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		goOn(t, dir)
		if err := whole(dir); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	if err := os.WriteFile(filepath.Join(full, indexFile), index[:head-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(full); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("killed in the first line: %v", err)
	}
	if err := Begin(full, 1, 0, nil, []byte("{}")); err != nil { // begins again over its files
		t.Error(err)
	}
	goOn(t, full)
	if err := whole(full); err != nil {
		t.Error(err)
	}
}

// TestDamage: a changed byte anywhere is found and its file is named, or the entries are as they were.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	full := filepath.Join(t.TempDir(), "full")
	filled(t, full)
	files, err := os.ReadDir(full)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range 300 {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(full)); err != nil {
			t.Fatal(err)
		}
		name := files[i%len(files)].Name()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		at := r.IntN(len(data))
		data[at] ^= byte(1 << r.IntN(8))
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		err = whole(dir)
		switch {
		case err == nil && strings.HasSuffix(name, ".part"):
			t.Errorf("a bit of byte %d of %s is other, and nothing was found", at, name)
		case err != nil:
			found++
		}
		var damaged *DamagedError
		if errors.As(err, &damaged) && damaged.File == "" {
			t.Errorf("%v names no file", err)
		}
	}
	if found < 250 {
		t.Errorf("%d of 300 faults were found", found)
	}
}

// TestRefuses: what does not follow, or is not a backup, is refused.
func TestRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b")
	if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no backup: %v", err)
	}
	filled(t, dir)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for what, entries := range map[string][]eventlog.Entry{"a gap": entriesOf(62, 3), "again": entriesOf(60, 3),
		"a gap inside": append(entriesOf(61, 1), entriesOf(63, 1)...)} {
		if err := d.Seal(entries); err == nil {
			t.Errorf("%s was sealed", what)
		}
	}
	if err := whole(dir); err != nil {
		t.Error(err)
	}
	other, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := d.Seal(entriesOf(61, 1)); err != nil {
		t.Fatal(err)
	}
	if err := other.Seal(entriesOf(61, 2)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two writers: %v", err)
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Begin(strange, 1, 0, nil, nil); err == nil || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("a directory of something else: %v", err)
	}
}

// TestBase: the base comes back as it was, and a changed one is found.
func TestBase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b")
	if err := Begin(dir, 41, 45, []byte("state"), nil); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if seq, state, err := d.Base(); seq != 45 || string(state) != "state" || err != nil || d.First() != 41 || d.Last() != 40 {
		t.Errorf("%d, %q, %v", seq, state, err)
	}
	if keys, err := d.Keys(); keys != nil || err != nil {
		t.Errorf("%q, %v", keys, err)
	}
	if err := os.WriteFile(filepath.Join(dir, baseName(45)), []byte("stata"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Base(); !errors.As(err, new(*DamagedError)) {
		t.Errorf("another base: %v", err)
	}
}

// A backup of two entries, and of what came later.
func Example() {
	dir, err := os.MkdirTemp("", "backup")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := Begin(dir, 1, 0, nil, nil); err != nil {
		panic(err)
	}
	d, err := Open(dir)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	fmt.Println(d.Seal([]eventlog.Entry{{Seq: 1, Data: []byte("one")}, {Seq: 2, Data: []byte("two")}}))
	fmt.Println(d.Seal([]eventlog.Entry{{Seq: 3, Data: []byte("three")}}))
	for e, err := range d.Entries(2, 3) {
		fmt.Println(e.Seq, string(e.Data), err)
	}
	// Output:
	// <nil>
	// <nil>
	// 2 two <nil>
	// 3 three <nil>
}
