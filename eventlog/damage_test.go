package eventlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"troupe/eventlog/segment"
	"troupe/internal/future"
)

// sampleLog makes a log of two shards in several segments and returns its directory and its dump.
func sampleLog(t *testing.T, batches int) (dir, dump string) {
	t.Helper()
	dir = t.TempDir()
	opt := DiskOptions{Shards: 2, Reserve: -1, segment: 8000}
	l, err := OpenDisk(t.Context(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range uint16(2) {
		for range 2 { // two writers, one after the other
			c := newCommitter(t, l, CommitterOptions{Shard: shard})
			for i := range batches / 2 {
				x := make([]float64, 100)
				x[i%100] = float64(i)
				if _, err := c.Append(t.Context(), &Reward{Event: Event{1, uint64(i + 1), 0}, Model: 1, X: x, Y: float64(i)}, event(int64(i))); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if shard == 1 {
			if err := l.Trim(t.Context(), shard, 3); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, mustDump(t, dir)
}

func mustDump(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	r, err := Dump(&b, dir, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		t.Fatalf("%v", &DamagedError{r})
	}
	return b.String()
}

func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// fingerprint is of all files but the lock.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	for _, name := range filesOf(t, dir) {
		if name == lockFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// judge says whether a damaged directory is fine (same content) or stopped with a named place. The
// one thing it must never be is different without complaint.
func judge(t *testing.T, dir, dump, file string) (stopped bool) {
	t.Helper()
	var b bytes.Buffer
	r, err := Dump(&b, dir, nil, 0)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if r.OK() {
		if b.String() != dump {
			t.Fatalf("%s: different content without complaint", file)
		}
		return false
	}
	for _, d := range r.All() {
		if file == "" || d.File == file || d.First > 0 || strings.Contains(d.What, filepath.Base(file)) {
			return true
		}
	}
	t.Fatalf("%s: stopped, but nothing names it: %v", file, &DamagedError{r})
	return true
}

// opened opens a damaged directory and returns what became of it: the content that dump has, read entry by entry and in
// turn; a refusal that changed nothing; or an end of reading at the place of the damage. Anything else is an error.
func opened(t *testing.T, dir, dump, file string) string {
	t.Helper()
	was := fingerprint(t, dir)
	l, err := OpenDisk(t.Context(), dir, DiskOptions{Reserve: -1, segment: 8000})
	if err != nil {
		if !errors.As(err, new(*DamagedError)) || fingerprint(t, dir) != was {
			t.Fatalf("%s: %v, or a refused directory was changed", file, err)
		}
		return "refused"
	}
	defer l.Close()
	var all bytes.Buffer
	for shard := range l.Shards() {
		info, err := l.Info(t.Context(), shard)
		if err != nil {
			t.Fatal(err)
		}
		for d, err := range Replay(t.Context(), l, NewChain(shard, info.First), info.Last) {
			if err != nil {
				var damaged *DamagedError
				if !errors.As(err, &damaged) || damaged.Report.All()[0].First == 0 {
					t.Fatalf("%s: reading ended with %v", file, err)
				}
				return "stopped"
			}
			for i, r := range d.Events() {
				line := Line{Shard: shard, Seq: d.Seq, Time: d.Time, Kind: r.Kind().String(), Record: r}
				key := d.Key(i)
				line.Event = &key
				if err := json.NewEncoder(&all).Encode(line); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if all.String() != dump {
		t.Fatalf("%s: opened, and different", file)
	}
	return "same"
}

// TestCorruptionSweep: one bit flipped at every k-th byte of every file; truncated, deleted, swapped, zeroed files.
// Verify must see it or have the same content. Opened, the log must be refused and unchanged, have the same content, or
// stop at the place when it is read. k is 401, or 53 with TROUPE_LONG, or TROUPE_SWEEP.
func TestCorruptionSweep(t *testing.T) {
	beside(t)
	k := sized(401, 53) // no divisor of any record's length
	if n, err := strconv.Atoi(os.Getenv("TROUPE_SWEEP")); err == nil {
		k = n
	}
	dir, dump := sampleLog(t, 60)
	before := fingerprint(t, dir)
	work := filepath.Join(t.TempDir(), "work")
	segments, stops, same := 0, 0, 0
	outcomes := map[string]int{}
	for _, file := range filesOf(t, dir) {
		if file == lockFile {
			continue
		}
		if strings.HasSuffix(file, ".seg") {
			segments++
		}
		name := filepath.Join(dir, filepath.FromSlash(file))
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		put := func(b []byte) {
			t.Helper()
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		look := func() {
			t.Helper()
			seen := judge(t, dir, dump, file)
			if seen {
				stops++
			} else {
				same++
			}
			if err := errors.Join(os.RemoveAll(work), os.CopyFS(work, os.DirFS(dir))); err != nil {
				t.Fatal(err)
			}
			switch got := opened(t, work, dump, file); {
			case !seen && got != "same":
				t.Errorf("%s: nothing was damaged, and it was %s", file, got)
			case seen && got == "same" && !strings.HasSuffix(file, ".end") && !strings.Contains(file, ".seg"):
				t.Errorf("%s: damaged, and opened", file)
			default:
				outcomes[got]++
			}
		}
		try := func(b []byte) {
			t.Helper()
			put(b)
			look()
		}
		for i := 0; i < len(good); i += k {
			b := bytes.Clone(good)
			b[i] ^= 1 << (i / k % 8)
			try(b)
		}
		for _, n := range []int{0, 1, len(good) / 3, len(good) - 9, len(good) - 1} {
			if n >= 0 && n < len(good) {
				try(good[:n])
			}
		}
		if n := len(good); n > 5000 { // zeroed tail, swapped pages, appended garbage
			try(append(bytes.Clone(good[:n-3000]), make([]byte, 3000)...))
			b := bytes.Clone(good)
			copy(b[:1000], good[3000:4000])
			copy(b[3000:4000], good[:1000])
			try(b)
		}
		try(append(bytes.Clone(good), "garbage at the end"...))
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		look()
		put(good)
	}
	if segments < 8 {
		t.Fatalf("only %d segments", segments)
	}
	// Two segments change places, of one shard and of two, and two shards.
	s0, s1 := filepath.Join(dir, segment.GroupDir(0)), filepath.Join(dir, segment.GroupDir(1))
	seg0, seg1 := must(filepath.Glob(s0+"/*.seg")), must(filepath.Glob(s1+"/*.seg"))
	for _, pair := range [][2]string{{seg0[0], seg0[1]}, {seg0[0], seg1[0]}, {s0, s1}} {
		swap := func() {
			tmp := filepath.Join(dir, "swap")
			for _, r := range [][2]string{{pair[0], tmp}, {pair[1], pair[0]}, {tmp, pair[1]}} {
				if err := os.Rename(r[0], r[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		swap()
		if !judge(t, dir, dump, "") {
			t.Errorf("%v swapped and nobody noticed", pair)
		}
		swap()
	}
	if fingerprint(t, dir) != before || mustDump(t, dir) != dump {
		t.Error("the test did not put everything back")
	}
	t.Logf("every %d bytes: %d damages: %d stops, %d without effect; opened: %v", k, stops+same, stops, same, outcomes)
	if same > stops/4 {
		t.Errorf("%d of %d damages had no effect", same, stops+same)
	}
}

// TestRepair: of damages all over the directory, with a copy everything comes back; without one what
// is whole is kept, every lost sequence has a Loss, and the loss has to be accepted first. Then the
// log works.
func TestRepair(t *testing.T) {
	beside(t)
	original, dump := sampleLog(t, 40)
	group := segment.GroupDir(0)
	names := must(filepath.Glob(filepath.Join(original, group, "*.seg")))
	first, last := group+"/"+filepath.Base(names[0]), group+"/"+filepath.Base(names[len(names)-1])
	inFirst := 0
	_, err := scan(original, hooks{entry: func(_ uint16, _ uint64, at entryRef, _ []byte) {
		if at.file == names[0] {
			inFirst++
		}
	}})
	if err != nil || inFirst < 5 || inFirst > 39 {
		t.Fatalf("%d entries in the first segment, error %v", inFirst, err)
	}
	edit := func(name string, f func([]byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), f(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 4; return b }
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		lost   int // entries
	}{
		{"bit flip", edit(first, flip(5000)), 1},
		{"length flip", edit(first, flip(65)), 1},
		{"tail cut", edit(last, func(b []byte) []byte { return b[:len(b)-100] }), 1},
		{"header damaged", edit(first, flip(9)), 0},
		{"first segment deleted", remove(first), inFirst},
		{"end file damaged", edit(strings.Replace(first, ".seg", ".end", 1), flip(10)), 0},
		{"segments of a shard deleted", func(t *testing.T, dir string) {
			for _, name := range must(filepath.Glob(filepath.Join(dir, segment.GroupDir(1), "*.[se]*"))) {
				remove(segment.GroupDir(1)+"/"+filepath.Base(name))(t, dir)
			}
		}, 37},
		{"acknowledged end deleted", remove(segment.GroupDir(0) + "/" + segment.AckedName), 0},
		{"marker damaged", edit(markerFile, flip(30)), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			damaged := copyDir(t, original)
			c.damage(t, damaged)
			was := fingerprint(t, damaged)
			if r, err := Verify(damaged, nil); err != nil || r.OK() {
				t.Fatalf("the damage is not one: %v", err)
			}

			// Without a copy.
			dir := copyDir(t, damaged)
			_, err := Repair(t.Context(), dir, RepairOptions{})
			var loss *LossError
			if c.lost > 0 {
				if !errors.As(err, &loss) || fingerprint(t, dir) != was {
					t.Fatalf("a loss without consent: %v, or files were changed", err)
				}
				if _, err = Repair(t.Context(), dir, RepairOptions{AcceptLoss: true, Time: 77}); err != nil {
					t.Fatal(err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			r, err := Verify(dir, nil)
			if err != nil || !r.OK() {
				t.Fatalf("after the repair: %v %v", err, r)
			}
			lost := map[string]bool{}
			for _, s := range r.Shards {
				for _, l := range s.Lost {
					if l.Reason == "" || l.Time != 77 {
						t.Errorf("a loss without reason or time: %+v", l)
					}
					for seq := l.First; seq <= l.Last; seq++ {
						lost[fmt.Sprintf(`{"shard":%d,"seq":%d,`, s.Shard, seq)] = true
					}
				}
			}
			if len(lost) != c.lost {
				t.Errorf("%d entries lost, want %d", len(lost), c.lost)
			}
			// Every line of the original is there or stands under a lost sequence.
			now := mustDump(t, dir)
			for line := range strings.Lines(dump) {
				head := line[:strings.Index(line, `"key"`)]
				if lost[head] == strings.Contains(now, line) {
					t.Fatalf("lost %v: %s", lost[head], line)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "repair-1.json")); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "damaged-1")); err != nil {
				t.Error(err)
			}
			// It works, and a second repair has nothing to do.
			works(t, dir)
			if again, err := Repair(t.Context(), dir, RepairOptions{}); err != nil || again.PutAside != "" {
				t.Errorf("a second repair: %+v, %v", again, err)
			}

			// With a copy nothing is lost.
			dir = copyDir(t, damaged)
			rep, err := Repair(t.Context(), dir, RepairOptions{From: []string{original}})
			if err != nil {
				t.Fatal(err)
			}
			if got := mustDump(t, dir); got != dump {
				t.Error("repaired from a copy, and different")
			}
			if n := rep.Shards[0].FromCopy + rep.Shards[1].FromCopy; n != uint64(c.lost) {
				t.Errorf("%d entries from the copy, want %d", n, c.lost)
			}
			works(t, dir)
		})
	}
}

// TestRepairInterrupted: a crash after any step of the swap is finished by the next repair.
func TestRepairInterrupted(t *testing.T) {
	beside(t)
	original, dump := sampleLog(t, 40)
	rebuilt := copyDir(t, original)
	if err := os.Remove(must(filepath.Glob(filepath.Join(rebuilt, segment.GroupDir(0), "*.seg")))[0]); err != nil {
		t.Fatal(err)
	}
	// Build the new log and stop before the swap: what finishRepair would begin with.
	entries := map[uint16]map[uint64][]entryRef{0: {}, 1: {}}
	collect := hooks{entry: func(s uint16, seq uint64, at entryRef, _ []byte) { entries[s][seq] = append(entries[s][seq], at) }}
	found, err := scan(rebuilt, collect)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scan(original, collect); err != nil {
		t.Fatal(err)
	}
	var plans []*plan
	for i := range found.Shards {
		p, err := makePlan(&found.Shards[i], entries[uint16(i)], nil)
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, p)
	}
	if err := rebuild(t.Context(), rebuilt, found, plans, &RepairReport{}); err != nil {
		t.Fatal(err)
	}
	moves := []string{markerFile, segment.GroupDir(0), segment.GroupDir(1)}
	for steps := 0; steps <= 2*len(moves); steps++ {
		dir := copyDir(t, rebuilt)
		if err := os.MkdirAll(filepath.Join(dir, "damaged-1"), 0o700); err != nil {
			t.Fatal(err)
		}
		for s := range steps {
			name := moves[s/2]
			from, to := filepath.Join(dir, name), filepath.Join(dir, "damaged-1", name)
			if s%2 == 1 {
				from, to = filepath.Join(dir, repairDir, name), filepath.Join(dir, name)
			}
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		if l, err := OpenDisk(t.Context(), dir, DiskOptions{}); err == nil {
			_ = l.Close()
			t.Fatalf("after step %d a log in the middle of a repair was opened", steps)
		}
		if _, err := Repair(t.Context(), dir, RepairOptions{}); err != nil {
			t.Fatalf("after step %d: %v", steps, err)
		}
		if mustDump(t, dir) != dump {
			t.Fatalf("after step %d: different", steps)
		}
	}
}

// TestForkedTail: the newest entry is whole, fits the chain, and is not the one that was acknowledged
// (a segment of another copy that went its own way). Only the acknowledged end can show it.
func TestForkedTail(t *testing.T) {
	beside(t)
	ours, _ := sampleLog(t, 20)
	theirs := copyDir(t, ours)
	works(t, ours)
	works(t, theirs)
	newest := must(filepath.Glob(filepath.Join(theirs, segment.GroupDir(0), "*.seg")))
	name := filepath.Base(newest[len(newest)-1])
	if err := os.Rename(filepath.Join(theirs, segment.GroupDir(0), name), filepath.Join(ours, segment.GroupDir(0), name)); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := r.All(); len(d) != 1 || d[0].First != 21 || d[0].Last != 21 || d[0].What != "it is not the entry that was acknowledged" {
		t.Errorf("damage %v", d)
	}
}

// TestLaterLog: a log that a later program has raised is no damage. No program of before opens it, calls it damaged or repairs it.
func TestLaterLog(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	future.Versions.Store(1)
	defer future.Versions.Store(0)
	js := must(OpenDisk(t.Context(), dir, DiskOptions{}))
	c := newCommitter(t, js, CommitterOptions{})
	if c.Raise(LogVersion - 1); c.Version() != LogVersion {
		t.Errorf("version %d", c.Version())
	}
	before := must(c.Append(t.Context(), event(100)))
	if c.Raise(LogVersion + 5); c.Version() != LogVersion+1 {
		t.Errorf("version %d", c.Version())
	}
	after := must(c.Append(t.Context(), event(101)))
	for seq, want := range map[uint64]uint16{before.Seq: LogVersion, after.Seq: LogVersion + 1} {
		if h := must(ParseHeader(must(js.Get(t.Context(), 0, seq)).Data)); h.Version != want {
			t.Errorf("entry %d has version %d, want %d", seq, h.Version, want)
		}
	}
	if err := errors.Join(c.Close(t.Context()), js.Close()); err != nil {
		t.Fatal(err)
	}
	if r := must(Verify(dir, nil)); !r.OK() {
		t.Fatalf("%v", r.All())
	}
	future.Versions.Store(0)
	files := fingerprint(t, dir)
	for what, f := range map[string]func() error{
		"verify": func() error { _, err := Verify(dir, nil); return err },
		"repair": func() error { _, err := Repair(t.Context(), dir, RepairOptions{AcceptLoss: true}); return err },
	} {
		var later *VersionError
		if err := f(); !errors.As(err, &later) || later.Seq != after.Seq || later.Version != LogVersion+1 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if fingerprint(t, dir) != files {
		t.Error("files were changed")
	}
	js = must(OpenDisk(t.Context(), dir, DiskOptions{}))
	defer js.Close()
	if _, err := Tail(t.Context(), js, 0, nil); !errors.As(err, new(*VersionError)) {
		t.Errorf("read: %v", err)
	}
}
