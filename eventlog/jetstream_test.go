package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestJetStreamOptions: what is fixed, what may change, what is refused.
func TestJetStreamOptions(t *testing.T) {
	dir := t.TempDir()
	open := func(opt JetStreamOptions) (*JetStream, error) { return OpenJetStream(t.Context(), dir, opt) }
	l, err := open(JetStreamOptions{Shards: 3, MaxBytes: 1 << 20, Reserve: math.MaxInt64 / 2})
	if err != nil {
		t.Fatal(err)
	}
	if l.Shards() != 3 || l.Err() != nil || !l.Report().OK() {
		t.Errorf("%d shards, error %v, report %+v", l.Shards(), l.Err(), l.Report())
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
	if _, err := open(JetStreamOptions{Shards: 2}); err == nil || !strings.Contains(err.Error(), "has 3 shards, not 2") {
		t.Errorf("2 of 3 shards: %v", err)
	}
	l, err = open(JetStreamOptions{MaxBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := l.Info(t.Context(), 2); err != nil || info.Limit != 2<<20 || info.Last != 1 {
		t.Errorf("%+v, error %v", info, err)
	}
	// A write error, which the engine tells only its log: nothing is taken any more, reading goes on.
	l.engineSays(l.now.Load().engine, "error", "Critical write error: input/output error")
	if _, _, err := l.Append(t.Context(), 2, "b", oneBatch(2, 2, 10)); !errors.Is(err, ErrBroken) || l.Err() == nil {
		t.Errorf("after a write error: %v", err)
	}
	for e, err := range l.Read(t.Context(), 2, 1) {
		if err != nil || !bytes.Equal(e.Data, oneBatch(2, 1, 10)) {
			t.Errorf("after a write error: entry 1 differs, error %v", err)
		}
		break
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestUnfinishedTrim: the process died after the acknowledged-end record of a trim was written and before
// the engine purged. The next process finishes the trim.
func TestUnfinishedTrim(t *testing.T) {
	beside(t)
	dir, dump := sampleLog(t, 20)
	w, err := openAcked(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := w.end
	end.First = 6
	if err := errors.Join(w.writeBoth(end), w.close()); err != nil {
		t.Fatal(err)
	}
	l, err := OpenJetStream(t.Context(), dir, JetStreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := l.now.Load().engine.streams[0].Info(t.Context())
	if err != nil || info.State.FirstSeq != 6 {
		t.Errorf("the engine begins at %d, error %v", info.State.FirstSeq, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if i := strings.Index(dump, `{"shard":0,"seq":6,`); mustDump(t, dir) != dump[i:] {
		t.Error("more or less than the first five entries is gone")
	}
}

// TestDamageWhileOpen: a bit rots in a file while the engine runs. What is read is the old content or
// an error that names the place, never something else, and the next open refuses.
func TestDamageWhileOpen(t *testing.T) {
	beside(t)
	original, _ := sampleLog(t, 60)
	outcomes := map[string]int{}
	for at := 700; at < 30_000; at += sized(8700, 2900) {
		dir := copyDir(t, original)
		l, err := OpenJetStream(t.Context(), dir, JetStreamOptions{})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, storePrefix, "TROUPE_EV_0/msgs/1.blk")
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], int64(at)); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 16
		if _, err := f.WriteAt(b[:], int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		last := l.shards[0].last.Load()
		n, raw := uint64(0), uint64(0)
		var rawErr error
		for e, rerr := range l.Read(t.Context(), 0, 1) { // the engine alone: no sequence is skipped
			if rawErr = rerr; rerr != nil || e.Seq != raw+1 {
				break
			}
			if raw = e.Seq; raw == last {
				break
			}
		}
		var rawGap *GapError
		if raw != last && (!errors.As(rawErr, &rawGap) || rawGap.First != raw+1) {
			t.Errorf("byte %d: read %d of %d entries, error %v", at, raw, last, rawErr)
		}
		for d, rerr := range Replay(t.Context(), l, NewChain(0, 1), last) {
			if err = rerr; err == nil {
				n = d.Seq
			}
		}
		var gap *GapError
		var chain *ChainError
		switch {
		case err == nil && n == last:
			outcomes["same"]++ // it was in memory
		case errors.As(err, &gap) && gap.First == n+1, errors.As(err, &chain) && chain.Seq == n+1:
			outcomes["stopped"]++
		default:
			t.Errorf("byte %d: %d of %d entries, error %v", at, n, last, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var damaged *DamagedError
		if _, err := OpenJetStream(t.Context(), dir, JetStreamOptions{}); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "msgs/1.blk") {
			t.Errorf("byte %d: opened again: %v", at, err)
		}
	}
	t.Log(outcomes)
}

// TestFollowKept: who follows the log gets what was just stored from memory, and an entry that he looks at
// stays as it is, however many are stored meanwhile. One falls behind by more than what is kept and reads on
// from the engine, one keeps up; both see everything, in order.
func TestFollowKept(t *testing.T) {
	beside(t)
	l := must(OpenJetStream(t.Context(), t.TempDir(), JetStreamOptions{MaxBytes: 64 << 20, Reserve: -1}))
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
	until(func() bool { // both are there
		l.shards[0].mu.Lock()
		defer l.shards[0].mu.Unlock()
		return l.shards[0].followers == 2
	})
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

// TestStored: a long replay reads the block files beside the engine. It yields what the engine yields,
// from any place, also behind a trim and while more is written; and when a file is damaged, cut or gone
// since the log was opened, it is the same entries or an error at the place, never others.
func TestStored(t *testing.T) {
	beside(t)
	original := t.TempDir()
	small, err := OpenJetStream(t.Context(), original, JetStreamOptions{MaxBytes: 120_000, Reserve: -1}) // blocks of 32 kB
	if err != nil {
		t.Fatal(err)
	}
	writer := newCommitter(t, small, CommitterOptions{})
	for i := range 560 {
		if _, err := writer.Append(t.Context(), event(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Close(t.Context()), small.Close()); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) *JetStream {
		t.Helper()
		l, err := OpenJetStream(t.Context(), dir, JetStreamOptions{Reserve: -1})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open(copyDir(t, original))
	last := l.shards[0].last.Load()
	hashes := map[uint64]Hash{}
	for e, err := range l.Read(t.Context(), 0, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if hashes[e.Seq] = HashBatch(e.Data); e.Seq == last {
			break
		}
	}
	n := uint64(0)
	for p := range l.stored(t.Context(), 0, 1, last, nil) {
		if n++; p.seq != n || p.bad != nil || p.batch.Hash != hashes[n] {
			t.Fatalf("entry %d: %+v", n, p)
		}
	}
	if n != last || last < 2*window {
		t.Fatalf("%d of %d entries are read from the files", n, last)
	}
	c := newCommitter(t, l, CommitterOptions{})
	for i := range 20 { // behind what was there at the opening
		if _, err := c.Append(t.Context(), event(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Trim(t.Context(), 0, 50); err != nil {
		t.Fatal(err)
	}
	n = 50
	for d, err := range Replay(t.Context(), l, NewChain(0, 51), last+20) {
		if n++; err != nil || d.Seq != n || n <= last && d.Hash != hashes[n] {
			t.Fatalf("entry %d: %+v, %v", n, d, err)
		}
	}
	if n != last+20 {
		t.Fatalf("%d of %d entries", n, last+20)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	block := filepath.Join(storePrefix, "TROUPE_EV_0/msgs/2.blk")
	size := int64(len(must(os.ReadFile(filepath.Join(original, block)))))
	for at := int64(100); at < size; at += size / int64(sized(3, 12)) {
		for _, harm := range []string{"flip", "cut", "remove"} {
			dir := copyDir(t, original)
			l := open(dir)
			name := filepath.Join(dir, block)
			b := must(os.ReadFile(name))
			var err error
			switch harm {
			case "flip":
				b[at] ^= 8
				err = os.WriteFile(name, b, 0o600)
			case "cut":
				err = os.Truncate(name, at)
			case "remove":
				err = os.Remove(name)
			}
			if err != nil {
				t.Fatal(err)
			}
			n := uint64(0)
			for d, rerr := range Replay(t.Context(), l, NewChain(0, 1), last) {
				if err = rerr; err == nil {
					if n++; d.Seq != n || d.Hash != hashes[n] {
						t.Fatalf("%s at %d: entry %d is another one", harm, at, n)
					}
				}
			}
			var gap *GapError
			var chain *ChainError
			switch {
			case err == nil && n == last:
				outcomes[harm+": same"]++ // the engine had it in memory
			case errors.As(err, &gap) && gap.First == n+1, errors.As(err, &chain) && chain.Seq == n+1:
				outcomes[harm+": stopped"]++
			default:
				t.Errorf("%s at %d: %d of %d entries, error %v", harm, at, n, last, err)
			}
			_ = l.Close()
		}
	}
	t.Log(outcomes)
}

// FuzzBlock: the reader of block files takes any bytes, does not panic, stays inside them, and finds
// the records of a good block again whatever stands before.
func FuzzBlock(f *testing.F) {
	dir := f.TempDir()
	l, err := OpenJetStream(f.Context(), dir, JetStreamOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		if _, _, err := l.Append(f.Context(), 0, fmt.Sprint(i), oneBatch(0, i, 20)); err != nil {
			f.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, storePrefix, "TROUPE_EV_0/msgs/1.blk"))
	if err != nil {
		f.Fatal(err)
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

func FuzzAcked(f *testing.F) {
	b := make([]byte, slotStride+slotSize)
	appendSlot(b[:0], 3, 7, ackedEnd{2, 9, 11})
	appendSlot(b[:slotStride], 3, 8, ackedEnd{2, 10, 12})
	if count, t, err := parseAcked(b, 3); err != nil || count != 8 || t != (ackedEnd{2, 10, 12}) {
		f.Fatal(count, t, err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		count, said, err := parseAcked(b, 3)
		if err != nil {
			return
		}
		slot := appendSlot(nil, 3, count, said)
		if !bytes.HasPrefix(b, slot) && !(len(b) > slotStride && bytes.HasPrefix(b[slotStride:], slot)) {
			t.Fatalf("%+v is in no slot", said)
		}
	})
}

func FuzzMarker(f *testing.F) {
	f.Add(marker{7, 3}.text())
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := parseMarker(text); err == nil && m.text() != text {
			t.Fatalf("%q is read as %+v", text, m)
		}
	})
}
