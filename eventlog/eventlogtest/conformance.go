package eventlogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
)

// Log is a log that can be closed.
type Log interface {
	eventlog.Log
	Close() error
}

// Engine is a place where logs are opened, closed and opened again.
type Engine interface {
	// Open opens the log of this place, with room for limit bytes in each of 2 shards.
	Open(t *testing.T, limit uint64) Log
}

// MemoryEngine is the place of a Memory. Each Open after the first loses what was not synced.
type MemoryEngine struct{ m *Memory }

// Open implements Engine.
func (e *MemoryEngine) Open(_ *testing.T, limit uint64) Log {
	if e.m == nil {
		e.m = NewMemory(MemoryOptions{Shards: 2, Limit: limit})
	} else {
		e.m = e.m.Crash(nil, MemoryOptions{})
	}
	return e.m
}

// Payload is a whole batch of a little more than n bytes, by a writer of its own, different for every
// i. An engine may store any bytes, but Verify wants whole batches.
func Payload(shard uint16, i, n int) []byte {
	b, err := eventlog.AppendBatch(nil, eventlog.Header{Shard: shard, Epoch: eventlog.ID(i + 1), No: 1},
		&eventlog.Control{Act: eventlog.Create, Model: 1, Config: bytes.Repeat([]byte{byte(i)}, n)})
	if err != nil {
		panic(err)
	}
	return b
}

func mustAppend(t *testing.T, l eventlog.Log, shard uint16, id string, data []byte) uint64 {
	t.Helper()
	seq, dup, err := l.Append(t.Context(), shard, id, data)
	if err != nil || dup {
		t.Fatalf("append %s: seq %d, dup %v, error %v", id, seq, dup, err)
	}
	return seq
}

// collect reads n entries from a sequence.
func collect(t *testing.T, l eventlog.Log, shard uint16, from uint64, n int) [][]byte {
	t.Helper()
	var got [][]byte
	if n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for e, err := range l.Read(ctx, shard, from) {
		if err != nil {
			t.Fatalf("after %d entries: %v", len(got), err)
		}
		if e.Seq != from+uint64(len(got)) {
			t.Fatalf("entry %d, want %d", e.Seq, from+uint64(len(got)))
		}
		if got = append(got, e.Data); len(got) == n {
			break
		}
	}
	return got
}

func readError(ctx context.Context, l eventlog.Log, shard uint16, from uint64) error {
	for _, err := range l.Read(ctx, shard, from) {
		return err
	}
	return nil
}

// limit is how many bytes a shard may have.
const limit = 1 << 20

// TestLog is the conformance suite: what every eventlog.Log promises. fresh returns an empty place.
func TestLog(t *testing.T, fresh func(*testing.T) Engine) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Engine, Log)
	}{
		{"empty", testEmpty},
		{"order", testOrder},
		{"same id", testSameId},
		{"read waits", testReadWaits},
		{"close ends read", testCloseEndsRead},
		{"trim", testTrim},
		{"full", testFull},
		{"misuse", testMisuse},
		{"many callers", testManyCallers},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := fresh(t)
			l := e.Open(t, limit)
			defer func() { _ = l.Close() }()
			c.test(t, e, l)
		})
	}
}

// testEmpty: an empty log has no entries, and readers wait.
func testEmpty(t *testing.T, _ Engine, l Log) {
	info, err := l.Info(t.Context(), 1)
	if err != nil || info.First != 1 || info.Last != 0 || info.Limit != limit || info.Sync == "" {
		t.Errorf("info %+v, error %v", info, err)
	}
	if _, err := l.Get(t.Context(), 0, 1); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if err := l.Trim(t.Context(), 0, 1); !errors.Is(err, eventlog.ErrTrim) {
		t.Errorf("trim: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := readError(ctx, l, 0, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	// A replay up to the end of an empty log is over at once; one that follows it waits.
	for d, err := range eventlog.Replay(t.Context(), l, eventlog.NewChain(0, 1), 0) {
		t.Errorf("replay of nothing: %+v, error %v", d, err)
	}
	for d, err := range eventlog.Follow(ctx, l, eventlog.NewChain(0, 1)) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("follow: %+v, error %v", d, err)
		}
	}
}

// testOrder: entries come back in order, with their bytes, also after a restart.
func testOrder(t *testing.T, e Engine, l Log) {
	var want [][]byte
	for i := range 40 {
		data := Payload(0, i, 100+1000*(i%7))
		want = append(want, bytes.Clone(data))
		if seq := mustAppend(t, l, 0, fmt.Sprint("a", i), data); seq != uint64(i+1) {
			t.Fatalf("sequence %d, want %d", seq, i+1)
		}
		clear(data) // the log has its own
		if i%10 == 0 {
			mustAppend(t, l, 1, fmt.Sprint("b", i), Payload(1, 1000+i, 10))
		}
	}
	check := func() {
		t.Helper()
		for _, from := range []int{1, 2, 25, 40} {
			for i, got := range collect(t, l, 0, uint64(from), 41-from) {
				if !bytes.Equal(got, want[from+i-1]) {
					t.Fatalf("entry %d differs", from+i)
				}
				clear(got) // the receiver's
			}
		}
		for _, seq := range []uint64{1, 17, 40} {
			e, err := l.Get(t.Context(), 0, seq)
			if err != nil || e.Seq != seq || !bytes.Equal(e.Data, want[seq-1]) {
				t.Fatalf("get %d: %d, error %v", seq, e.Seq, err)
			}
		}
		for shard, last := range []uint64{40, 4} {
			info, err := l.Info(t.Context(), uint16(shard))
			if err != nil || info.First != 1 || info.Last != last {
				t.Fatalf("info %+v, error %v", info, err)
			}
		}
		for _, seq := range []uint64{0, 41} {
			if _, err := l.Get(t.Context(), 0, seq); !errors.Is(err, eventlog.ErrNotFound) {
				t.Fatalf("get %d: %v", seq, err)
			}
		}
	}
	check()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = e.Open(t, limit)
	defer l.Close()
	check()
}

// testSameId: a batch whose id is known is not stored again, also after a restart.
func testSameId(t *testing.T, e Engine, l Log) {
	mustAppend(t, l, 0, "x", Payload(0, 1, 10))
	mustAppend(t, l, 0, "y", Payload(0, 2, 10))
	again := func() {
		t.Helper()
		for range 2 {
			seq, dup, err := l.Append(t.Context(), 0, "x", []byte("other bytes, same id"))
			if seq != 1 || !dup || err != nil {
				t.Fatalf("seq %d, dup %v, error %v", seq, dup, err)
			}
		}
		if got := collect(t, l, 0, 1, 2); !bytes.Equal(got[0], Payload(0, 1, 10)) ||
			!bytes.Equal(got[1], Payload(0, 2, 10)) {
			t.Fatalf("%q", got)
		}
		if info, _ := l.Info(t.Context(), 0); info.Last != 2 {
			t.Fatalf("%+v", info)
		}
	}
	again()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = e.Open(t, limit)
	defer l.Close()
	again()
	// Ids belong to a shard.
	mustAppend(t, l, 1, "x", Payload(1, 3, 10))
}

// testReadWaits: a reader at the end gets each entry as it is stored.
func testReadWaits(t *testing.T, _ Engine, l Log) {
	const last = 7
	var wg sync.WaitGroup
	reached := map[uint64]chan bool{1: make(chan bool, last), 3: make(chan bool, last)}
	for from, got := range reached {
		wg.Go(func() {
			defer close(got)
			for e, err := range l.Read(t.Context(), 1, from) {
				if err != nil || !bytes.Equal(e.Data, Payload(1, int(e.Seq), 50)) {
					t.Errorf("entry %d differs, error %v", e.Seq, err)
					return
				}
				if got <- true; e.Seq == last {
					return
				}
			}
		})
	}
	for i := uint64(1); i <= last; i++ {
		mustAppend(t, l, 1, fmt.Sprint(i), Payload(1, int(i), 50))
		for from, got := range reached { // the next one is stored when both have asked for it
			if from <= i && !<-got {
				t.Fatalf("the reader from %d ended at %d", from, i)
			}
		}
	}
	wg.Wait()
}

// testCloseEndsRead: Close ends a waiting reader, and later calls return ErrClosed.
func testCloseEndsRead(t *testing.T, _ Engine, l Log) {
	mustAppend(t, l, 0, "first", Payload(0, 1, 10))
	reached, done := make(chan bool), make(chan error)
	go func() {
		var end error
		for _, err := range l.Read(t.Context(), 0, 1) {
			if end = err; err == nil {
				close(reached)
			}
		}
		done <- end
	}()
	<-reached
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, eventlog.ErrClosed) {
		t.Fatalf("read: %v", err)
	}
	_, _, err := l.Append(t.Context(), 0, "late", []byte("late"))
	_, err2 := l.Info(t.Context(), 0)
	_, err3 := l.Get(t.Context(), 0, 1)
	if !errors.Is(err, eventlog.ErrClosed) || !errors.Is(err2, eventlog.ErrClosed) ||
		!errors.Is(err3, eventlog.ErrClosed) || !errors.Is(l.Trim(t.Context(), 0, 1), eventlog.ErrClosed) {
		t.Errorf("after close: %v, %v, %v", err, err2, err3)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// testTrim: Trim removes from the front and keeps sequences, also after a restart.
func testTrim(t *testing.T, e Engine, l Log) {
	for i := 1; i <= 10; i++ {
		mustAppend(t, l, 0, fmt.Sprint(i), Payload(0, i, 100))
	}
	if err := l.Trim(t.Context(), 0, 10); !errors.Is(err, eventlog.ErrTrim) {
		t.Fatalf("the last: %v", err)
	}
	for _, upTo := range []uint64{4, 4, 2, 0} {
		if err := l.Trim(t.Context(), 0, upTo); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		if info, err := l.Info(t.Context(), 0); err != nil || info.First != 5 || info.Last != 10 {
			t.Fatalf("%+v, error %v", info, err)
		}
		if got := collect(t, l, 0, 5, 6); !bytes.Equal(got[0], Payload(0, 5, 100)) {
			t.Fatal("entry 5 differs")
		}
		if _, err := l.Get(t.Context(), 0, 4); !errors.Is(err, eventlog.ErrNotFound) {
			t.Fatalf("get 4: %v", err)
		}
		var gap *eventlog.GapError
		if err := readError(t.Context(), l, 0, 2); !errors.As(err, &gap) || gap.First != 2 || gap.Last != 4 {
			t.Fatalf("read from 2: %v", err)
		}
	}
	check()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = e.Open(t, limit)
	defer l.Close()
	check()
	if seq := mustAppend(t, l, 0, "next", Payload(0, 11, 10)); seq != 11 {
		t.Fatalf("next sequence %d", seq)
	}
}

// testFull: a full log refuses, keeps what it has, and takes more after a trim.
func testFull(t *testing.T, e Engine, l Log) {
	const size = 50_000
	var last uint64
	var err error
	for i := 1; i <= 40 && err == nil; i++ {
		if _, _, err = l.Append(t.Context(), 0, fmt.Sprint(i), Payload(0, i, size)); err == nil {
			last++
		}
	}
	if !errors.Is(err, eventlog.ErrFull) || last < limit/size-3 || last > limit/size {
		t.Fatalf("%d entries of %d bytes, error %v", last, size, err)
	}
	if info, err := l.Info(t.Context(), 0); err != nil || info.Last != last || info.Bytes > limit {
		t.Fatalf("%+v, error %v", info, err)
	}
	// A batch that is there is there, also when there is no room.
	if seq, dup, err := l.Append(t.Context(), 0, "1", Payload(0, 1, size)); seq != 1 || !dup || err != nil {
		t.Fatalf("retry: %d %v %v", seq, dup, err)
	}
	mustAppend(t, l, 1, "elsewhere", Payload(1, 1, size))
	for i, got := range collect(t, l, 0, 1, int(last)) {
		if !bytes.Equal(got, Payload(0, i+1, size)) {
			t.Fatalf("entry %d differs", i+1)
		}
	}
	if err := l.Trim(t.Context(), 0, 3); err != nil {
		t.Fatal(err)
	}
	if seq := mustAppend(t, l, 0, "room", Payload(0, 99, size)); seq != last+1 {
		t.Fatalf("sequence %d after a refusal, want %d", seq, last+1)
	}
}

// testMisuse: wrong arguments are errors and store nothing.
func testMisuse(t *testing.T, _ Engine, l Log) {
	if _, _, err := l.Append(t.Context(), 2, "x", []byte("x")); !errors.Is(err, eventlog.ErrShard) {
		t.Errorf("shard 2 of 2: %v", err)
	}
	if _, err := l.Info(t.Context(), 2); !errors.Is(err, eventlog.ErrShard) {
		t.Errorf("shard 2 of 2: %v", err)
	}
	if err := readError(t.Context(), l, 2, 1); !errors.Is(err, eventlog.ErrShard) {
		t.Errorf("shard 2 of 2: %v", err)
	}
	if _, _, err := l.Append(t.Context(), 0, "x", make([]byte, eventlog.MaxBatch+1)); !errors.Is(err,
		eventlog.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Append(ctx, 0, "x", []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if info, err := l.Info(t.Context(), 0); err != nil || info.Last != 0 {
		t.Errorf("%+v, error %v", info, err)
	}
	mustAppend(t, l, 0, "big", Payload(0, 1, eventlog.MaxBatch/2))
}

// testManyCallers: concurrent callers get different sequences, each the place of their batch.
func testManyCallers(t *testing.T, _ Engine, l Log) {
	const callers, each = 8, 20
	var mu sync.Mutex
	seqs := map[uint64][]byte{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			last := uint64(0)
			for i := range each {
				data := Payload(0, c*each+i, 60)
				seq, dup, err := l.Append(t.Context(), 0, fmt.Sprint(c, "/", i), data)
				if err != nil || dup || seq <= last {
					t.Errorf("caller %d: seq %d after %d, dup %v, error %v", c, seq, last, dup, err)
					return
				}
				last = seq
				mu.Lock()
				seqs[seq] = data
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seqs) != callers*each {
		t.Fatalf("%d sequences for %d batches", len(seqs), callers*each)
	}
	for i, got := range collect(t, l, 0, 1, callers*each) {
		if !bytes.Equal(got, seqs[uint64(i+1)]) {
			t.Fatalf("entry %d differs from what its caller was told", i+1)
		}
	}
}
