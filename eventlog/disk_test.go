package eventlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"troupe/eventlog/segment"
	"troupe/internal/await"
	"troupe/timing"
)

// TestDiskOptions: what is fixed, what may change, what is refused.
func TestDiskOptions(t *testing.T) {
	dir := t.TempDir()
	open := func(opt DiskOptions) (*Disk, error) { return OpenDisk(t.Context(), dir, opt) }
	l, err := open(DiskOptions{Shards: 3, MaxBytes: 1 << 20, Reserve: math.MaxInt64 / 2})
	if err != nil {
		t.Fatal(err)
	}
	if l.Shards() != 3 || l.Err() != nil || l.ID() == 0 || l.ID() != must(LogID(dir)) {
		t.Errorf("%d shards, error %v, id %v", l.Shards(), l.Err(), l.ID())
	}
	// Less is free than what is reserved: refused, and only as long as that is so.
	if _, _, err := l.Append(t.Context(), 2, "a", oneBatch(2, 1, 10)); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "bytes are free") {
		t.Errorf("no reserve left: %v", err)
	}
	l.opt.Reserve = 1
	if _, _, err := l.Append(t.Context(), 2, "a", oneBatch(2, 1, 10)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := open(DiskOptions{Shards: 2}); err == nil || !strings.Contains(err.Error(), "has 3 shards, not 2") {
		t.Errorf("2 of 3 shards: %v", err)
	}
	l, err = open(DiskOptions{MaxBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := l.Info(t.Context(), 2); err != nil || info.Limit != 2<<20 || info.Last != 1 {
		t.Errorf("%+v, error %v", info, err)
	}
	// After a failed sync nothing is taken any more, reading goes on.
	_ = l.fail(&segment.SyncError{Err: syscall.EIO})
	if _, _, err := l.Append(t.Context(), 2, "b", oneBatch(2, 2, 10)); !errors.Is(err, ErrBroken) || l.Err() == nil {
		t.Errorf("after a failed sync: %v", err)
	}
	for e, err := range l.Read(t.Context(), 2, 1) {
		if err != nil || !bytes.Equal(e.Data, oneBatch(2, 1, 10)) {
			t.Errorf("after a failed sync: entry 1 differs, error %v", err)
		}
		break
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestUnfinishedTrim: the process died after the acknowledged end of a trim was written and before the files were
// removed. The next process finishes the trim.
func TestUnfinishedTrim(t *testing.T) {
	dir, dump := sampleLog(t, 40)
	group := filepath.Join(dir, segment.GroupDir(0))
	files := func() int { return len(must(filepath.Glob(group + "/*.seg"))) }
	before := files()
	w, err := segment.OpenAcked(segment.OS, group, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := w.End()
	end.First = 30
	if err := errors.Join(w.WriteBoth(end), w.Close()); err != nil {
		t.Fatal(err)
	}
	l, err := OpenDisk(t.Context(), dir, DiskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after := files(); before < 3 || after >= before || l.shards[0].store.Oldest() > 30 {
		t.Errorf("%d segments, then %d, from entry %d on", before, after, l.shards[0].store.Oldest())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if i := strings.Index(dump, `{"shard":0,"seq":30,`); mustDump(t, dir) != dump[i:] {
		t.Error("more or less than the first 29 entries is gone")
	}
}

// TestDamageWhileOpen: a bit rots in a file while the log is open. What is read is the old content or an error that
// names the place, never something else.
func TestDamageWhileOpen(t *testing.T) {
	original, _ := sampleLog(t, 60)
	outcomes := map[string]int{}
	names := must(filepath.Glob(filepath.Join(original, segment.GroupDir(0), "*")))
	for _, name := range names {
		size := len(must(os.ReadFile(name)))
		for at := 3; at < size; at += sized(3511, 307) {
			dir := copyDir(t, original)
			l, err := OpenDisk(t.Context(), dir, DiskOptions{})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, segment.GroupDir(0), filepath.Base(name))
			b := must(os.ReadFile(file))
			b[at] ^= 16
			f := must(os.OpenFile(file, os.O_WRONLY, 0)) // the same file, not a new one
			if _, err := f.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			last := l.shards[0].last.Load()
			n := uint64(0)
			for d, rerr := range Replay(t.Context(), l, NewChain(0, 1), last) {
				if err = rerr; err == nil {
					n = d.Seq
				}
			}
			var damaged *DamagedError
			switch {
			case err == nil && n == last:
				outcomes["same"]++ // it was no entry
			case errors.As(err, &damaged) && damaged.Report.All()[0].First == n+1 && strings.Contains(err.Error(), filepath.Base(name)[:20]):
				outcomes["stopped"]++
			default:
				t.Errorf("%s, byte %d: %d of %d entries, error %v", filepath.Base(name), at, n, last, err)
			}
			// One by one: the damage costs the one entry.
			lost := 0
			for seq := uint64(1); seq <= last; seq++ {
				if e, err := l.Get(t.Context(), 0, seq); err != nil {
					lost++
				} else if _, perr := ParseBatch(e.Data); perr != nil {
					t.Fatalf("%s, byte %d: entry %d is another one", filepath.Base(name), at, seq)
				}
			}
			if lost > 2 {
				t.Errorf("%s, byte %d: %d entries cannot be read", filepath.Base(name), at, lost)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if 3*outcomes["stopped"] < outcomes["same"] {
		t.Errorf("few damages were met")
	}
	t.Log(outcomes)
}

// TestWalk: the walk through the sealed segments finds a bit that rots in a file that nobody reads.
func TestWalk(t *testing.T) {
	dir, _ := sampleLog(t, 60)
	names := must(filepath.Glob(filepath.Join(dir, segment.GroupDir(0), "*.seg")))
	clock := timing.NewFake(time.Unix(1e9, 0))
	l := must(OpenDisk(t.Context(), dir, DiskOptions{VerifyEvery: time.Hour, Clock: clock.Clock(), Logf: t.Logf}))
	defer l.Close()
	round := func() {
		t.Helper()
		clock.Advance(time.Hour)
		for range names { // it waits after each of the sealed ones
			clock.Waiting(2)
			clock.Advance(time.Minute)
		}
	}
	clock.Waiting(2)
	if round(); l.Damaged() != nil {
		t.Fatalf("%v", l.Damaged())
	}
	f := must(os.OpenFile(names[1], os.O_RDWR, 0))
	if _, err := f.WriteAt([]byte{1}, 2000); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	await.Until(t, "the damage is found", func() bool {
		clock.Advance(time.Minute)
		return l.Damaged() != nil
	})
	if d := l.Damaged(); filepath.Base(d.File) != filepath.Base(names[1]) || d.First == 0 {
		t.Errorf("%+v", d)
	}
}

// TestOldDirectory: the log of an earlier program is refused in words that name the way, by everything that opens one.
func TestOldDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, markerFile), []byte(oldMarker+"id 0000000000000001\nshards 1\ncrc32c 00000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(way string) {
		t.Helper()
		was := fingerprint(t, dir)
		for what, f := range map[string]func() error{
			"open":   func() error { _, err := OpenDisk(t.Context(), dir, DiskOptions{}); return err },
			"verify": func() error { _, err := Verify(dir, nil); return err },
			"repair": func() error {
				_, err := Repair(t.Context(), dir, RepairOptions{AcceptLoss: true})
				return err
			},
		} {
			if err := f(); !errors.As(err, new(*OtherKindError)) || !strings.Contains(err.Error(), way) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if fingerprint(t, dir) != was {
			t.Error("something was changed")
		}
	}
	check("troupe backup")
	if err := errors.Join(os.Remove(filepath.Join(dir, markerFile)), os.Mkdir(filepath.Join(dir, oldDir), 0o700)); err != nil {
		t.Fatal(err)
	}
	check("without its marker")
}

// TestFollowKept: an entry that a reader looks at stays as it is, however many are stored meanwhile. One reader falls
// behind, one keeps up; both see everything, in order.
func TestFollowKept(t *testing.T) {
	beside(t)
	l := must(OpenDisk(t.Context(), t.TempDir(), DiskOptions{MaxBytes: 64 << 20, Reserve: -1}))
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	const n, slowOnes = 100, 5
	full := func(seq uint64) []byte { return bytes.Repeat([]byte{byte(seq), byte(seq >> 8), 'x'}, 300+int(seq)%50) }
	check := func(d Delivery) error {
		for _, r := range d.Events() {
			if d := r.(*Decision); d.BasisSeq != d.Den || !bytes.Equal(d.Full, full(d.Den)) || d.X[0] != float64(d.Den) {
				return fmt.Errorf("entry %d has %d, %v and %.20q…", d.Den, d.BasisSeq, d.X, d.Full)
			}
		}
		return nil
	}
	look := make(chan bool) // the slow reader has an entry; let him look again
	read := func(slow bool) error {
		want := uint64(1)
		for d, err := range Follow(ctx, l, NewChain(0, 1)) {
			switch {
			case err != nil:
				return err
			case d.Seq != want:
				return fmt.Errorf("entry %d after %d", d.Seq, want-1)
			}
			if err := check(d); err != nil {
				return err
			}
			if slow && d.Seq%(n/slowOnes) == 1 {
				look <- true
				<-look
				if err := check(d); err != nil {
					return fmt.Errorf("after others were stored: %w", err)
				}
			}
			if want++; want > n {
				return nil
			}
		}
		return errors.New("the log ended")
	}
	var wg sync.WaitGroup
	for _, slow := range []bool{true, false} {
		wg.Go(func() {
			if err := read(slow); err != nil {
				t.Errorf("slow: %v: %v", slow, err)
				cancel()
			}
		})
	}
	c := newCommitter(t, l, CommitterOptions{})
	for seq := uint64(1); seq <= n; seq++ {
		r := &Decision{Model: 1, BasisSeq: seq, Den: seq, X: []float64{float64(seq)}, Full: full(seq)}
		if _, err := c.Append(ctx, r); err != nil {
			t.Fatal(err)
		}
		if seq%(n/slowOnes) == 1 { // the slow reader has this one in hand while the next 19 are stored
			select {
			case <-look:
			case <-ctx.Done():
				t.Fatal("the slow reader has given up")
			}
		}
		if seq%(n/slowOnes) == 0 {
			look <- true
		}
	}
	wg.Wait()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// FuzzBlock: the reader of block files takes any bytes, does not panic, stays inside them, and finds
// the records of a good block again whatever stands before.
func FuzzBlock(f *testing.F) {
	var good []byte // as the engine writes it
	hh := blockSum(streamName(0), 1)
	for i := range 3 {
		le := binary.LittleEndian
		data := oneBatch(0, i, 20)
		b := le.AppendUint32(nil, uint32(blockHead+len(subjectName(0))+len(data)+blockHash))
		b = le.AppendUint64(b, uint64(i+1))
		b = le.AppendUint64(b, 1e18)
		b = le.AppendUint16(b, uint16(len(subjectName(0))))
		b = append(append(b, subjectName(0)...), data...)
		b = append(b, make([]byte, blockHash)...)
		copy(b[len(b)-blockHash:], recordSum(hh, b))
		good = append(good, b...)
	}
	f.Add([]byte{}, 0)
	f.Add(good, 0)
	f.Add(good[:100], 50)
	f.Fuzz(func(t *testing.T, junk []byte, at int) {
		if len(junk) > 1<<16 {
			return
		}
		b := append(bytes.Clone(junk), good...)
		var end int64
		whole := 0
		scanBlock(b, streamName(0), 1, subjectName(0), func(r blockRecord) {
			if r.offset != end || r.at < r.offset || r.at+int64(len(r.data)) > r.offset+r.size || !bytes.Equal(b[r.at:r.at+int64(len(r.data))], r.data) {
				t.Fatalf("record %+v after byte %d", r, end)
			}
			end = r.offset + r.size
			if r.offset >= int64(len(junk)) {
				whole++
			}
		}, func(from, to int64) {
			if from != end || to <= from {
				t.Fatalf("damage %d to %d after byte %d", from, to, end)
			}
			end = to
		})
		if end != int64(len(b)) || whole < 3 && len(junk) == 0 {
			t.Fatalf("%d of %d bytes, %d records", end, len(b), whole)
		}
		// A whole record can only be missed where the junk itself is a record that swallows it, which
		// takes a checksum.
		if whole < 2 {
			t.Fatalf("%d of 3 records found behind %x", whole, junk)
		}
	})
}

func FuzzMarker(f *testing.F) {
	f.Add(marker{7, 8, 3}.text())
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := parseMarker(text); err == nil && m.text() != text {
			t.Fatalf("%q is read as %+v", text, m)
		}
	})
}
