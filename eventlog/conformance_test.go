package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain: no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	if childMain() { // the child process of the kill and lock tests
		return
	}
	goleak.VerifyTestMain(m)
}

// engine is a place where logs are opened, closed and opened again.
type engine interface {
	// open opens what is there, with room for limit bytes in each of 2 shards.
	open(t *testing.T, limit uint64) closingLog
}

type closingLog interface {
	Log
	Close() error
}

type memoryEngine struct{ m *Memory }

func (e *memoryEngine) open(_ *testing.T, limit uint64) closingLog {
	if e.m == nil {
		e.m = NewMemory(MemoryOptions{Shards: 2, Limit: limit})
	} else {
		e.m = e.m.Crash(nil, MemoryOptions{})
	}
	return e.m
}

func TestMemory(t *testing.T) {
	testLog(t, func(*testing.T) engine { return &memoryEngine{} })
}

// payload is a whole batch of a little more than n bytes, by a writer of its own, different for every
// i. An engine need not care what it stores; the check of a data directory does.
func payload(shard uint16, i, n int) []byte {
	b, err := AppendBatch(nil, Header{Shard: shard, Epoch: ID(i + 1), No: 1},
		&Control{Act: Create, Model: 1, Config: bytes.Repeat([]byte{byte(i)}, n)})
	if err != nil {
		panic(err)
	}
	return b
}

func mustAppend(t *testing.T, l Log, shard uint16, id string, data []byte) uint64 {
	t.Helper()
	seq, dup, err := l.Append(t.Context(), shard, id, data)
	if err != nil || dup {
		t.Fatalf("append %s: seq %d, dup %v, error %v", id, seq, dup, err)
	}
	return seq
}

// collect reads n entries from a sequence.
func collect(t *testing.T, l Log, shard uint16, from uint64, n int) [][]byte {
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

func readError(ctx context.Context, l Log, shard uint16, from uint64) error {
	for _, err := range l.Read(ctx, shard, from) {
		return err
	}
	return nil
}

// testLog is the conformance suite: what every Log promises, told once.
func testLog(t *testing.T, fresh func(*testing.T) engine) {
	const limit = 1 << 20
	run := func(name string, f func(t *testing.T, e engine, l closingLog)) {
		t.Run(name, func(t *testing.T) {
			e := fresh(t)
			l := e.open(t, limit)
			defer func() { _ = l.Close() }()
			f(t, e, l)
		})
	}

	run("empty", func(t *testing.T, _ engine, l closingLog) {
		info, err := l.Info(t.Context(), 1)
		if err != nil || info.First != 1 || info.Last != 0 || info.Limit != limit || info.Sync == "" {
			t.Errorf("info %+v, error %v", info, err)
		}
		if _, err := l.Get(t.Context(), 0, 1); !errors.Is(err, ErrNotFound) {
			t.Errorf("get: %v", err)
		}
		if err := l.Trim(t.Context(), 0, 1); !errors.Is(err, ErrTrim) {
			t.Errorf("trim: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := readError(ctx, l, 0, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		// A replay up to the end of an empty log is over at once; one that follows it waits.
		for d, err := range Replay(t.Context(), l, NewChain(0, 1), 0) {
			t.Errorf("replay of nothing: %+v, error %v", d, err)
		}
		for d, err := range Follow(ctx, l, NewChain(0, 1)) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("follow: %+v, error %v", d, err)
			}
		}
	})

	run("order", func(t *testing.T, e engine, l closingLog) {
		var want [][]byte
		for i := range 40 {
			data := payload(0, i, 100+1000*(i%7))
			want = append(want, bytes.Clone(data))
			if seq := mustAppend(t, l, 0, fmt.Sprint("a", i), data); seq != uint64(i+1) {
				t.Fatalf("sequence %d, want %d", seq, i+1)
			}
			clear(data) // the log has its own
			if i%10 == 0 {
				mustAppend(t, l, 1, fmt.Sprint("b", i), payload(1, 1000+i, 10))
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
				if _, err := l.Get(t.Context(), 0, seq); !errors.Is(err, ErrNotFound) {
					t.Fatalf("get %d: %v", seq, err)
				}
			}
		}
		check()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = e.open(t, limit)
		defer l.Close()
		check()
	})

	run("same id", func(t *testing.T, e engine, l closingLog) {
		mustAppend(t, l, 0, "x", payload(0, 1, 10))
		mustAppend(t, l, 0, "y", payload(0, 2, 10))
		again := func() {
			t.Helper()
			for range 2 {
				seq, dup, err := l.Append(t.Context(), 0, "x", []byte("other bytes, same id"))
				if seq != 1 || !dup || err != nil {
					t.Fatalf("seq %d, dup %v, error %v", seq, dup, err)
				}
			}
			if got := collect(t, l, 0, 1, 2); !bytes.Equal(got[0], payload(0, 1, 10)) || !bytes.Equal(got[1], payload(0, 2, 10)) {
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
		l = e.open(t, limit)
		defer l.Close()
		again()
		// Ids belong to a shard.
		mustAppend(t, l, 1, "x", payload(1, 3, 10))
	})

	run("read waits", func(t *testing.T, _ engine, l closingLog) {
		var wg sync.WaitGroup
		for _, from := range []uint64{1, 3} {
			wg.Go(func() {
				for i, got := range collect(t, l, 1, from, 5) {
					if want := payload(1, int(from)+i, 50); !bytes.Equal(got, want) {
						t.Errorf("entry %d differs", int(from)+i)
					}
				}
			})
		}
		for i := 1; i <= 7; i++ {
			time.Sleep(2 * time.Millisecond)
			mustAppend(t, l, 1, fmt.Sprint(i), payload(1, i, 50))
		}
		wg.Wait()
	})

	run("close ends read", func(t *testing.T, _ engine, l closingLog) {
		done := make(chan error)
		go func() { done <- readError(t.Context(), l, 0, 1) }()
		time.Sleep(5 * time.Millisecond)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Fatalf("read: %v", err)
		}
		_, _, err := l.Append(t.Context(), 0, "late", []byte("late"))
		_, err2 := l.Info(t.Context(), 0)
		_, err3 := l.Get(t.Context(), 0, 1)
		if !errors.Is(err, ErrClosed) || !errors.Is(err2, ErrClosed) || !errors.Is(err3, ErrClosed) || !errors.Is(l.Trim(t.Context(), 0, 1), ErrClosed) {
			t.Errorf("after close: %v, %v, %v", err, err2, err3)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})

	run("trim", func(t *testing.T, e engine, l closingLog) {
		for i := 1; i <= 10; i++ {
			mustAppend(t, l, 0, fmt.Sprint(i), payload(0, i, 100))
		}
		if err := l.Trim(t.Context(), 0, 10); !errors.Is(err, ErrTrim) {
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
			if got := collect(t, l, 0, 5, 6); !bytes.Equal(got[0], payload(0, 5, 100)) {
				t.Fatal("entry 5 differs")
			}
			if _, err := l.Get(t.Context(), 0, 4); !errors.Is(err, ErrNotFound) {
				t.Fatalf("get 4: %v", err)
			}
			var gap *GapError
			if err := readError(t.Context(), l, 0, 2); !errors.As(err, &gap) || gap.First != 2 || gap.Last != 4 {
				t.Fatalf("read from 2: %v", err)
			}
		}
		check()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = e.open(t, limit)
		defer l.Close()
		check()
		if seq := mustAppend(t, l, 0, "next", payload(0, 11, 10)); seq != 11 {
			t.Fatalf("next sequence %d", seq)
		}
	})

	run("full", func(t *testing.T, e engine, l closingLog) {
		const size = 50_000
		var last uint64
		var err error
		for i := 1; i <= 40 && err == nil; i++ {
			if _, _, err = l.Append(t.Context(), 0, fmt.Sprint(i), payload(0, i, size)); err == nil {
				last++
			}
		}
		if !errors.Is(err, ErrFull) || last < limit/size-3 || last > limit/size {
			t.Fatalf("%d entries of %d bytes, error %v", last, size, err)
		}
		if info, err := l.Info(t.Context(), 0); err != nil || info.Last != last || info.Bytes > limit {
			t.Fatalf("%+v, error %v", info, err)
		}
		// A batch that is there is there, also when there is no room.
		if seq, dup, err := l.Append(t.Context(), 0, "1", payload(0, 1, size)); seq != 1 || !dup || err != nil {
			t.Fatalf("retry: %d %v %v", seq, dup, err)
		}
		mustAppend(t, l, 1, "elsewhere", payload(1, 1, size))
		for i, got := range collect(t, l, 0, 1, int(last)) {
			if !bytes.Equal(got, payload(0, i+1, size)) {
				t.Fatalf("entry %d differs", i+1)
			}
		}
		if err := l.Trim(t.Context(), 0, 3); err != nil {
			t.Fatal(err)
		}
		if seq := mustAppend(t, l, 0, "room", payload(0, 99, size)); seq != last+1 {
			t.Fatalf("sequence %d after a refusal, want %d", seq, last+1)
		}
	})

	run("misuse", func(t *testing.T, _ engine, l closingLog) {
		if _, _, err := l.Append(t.Context(), 2, "x", []byte("x")); !errors.Is(err, ErrShard) {
			t.Errorf("shard 2 of 2: %v", err)
		}
		if _, err := l.Info(t.Context(), 2); !errors.Is(err, ErrShard) {
			t.Errorf("shard 2 of 2: %v", err)
		}
		if err := readError(t.Context(), l, 2, 1); !errors.Is(err, ErrShard) {
			t.Errorf("shard 2 of 2: %v", err)
		}
		if _, _, err := l.Append(t.Context(), 0, "x", make([]byte, MaxBatch+1)); !errors.Is(err, ErrTooLarge) {
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
		mustAppend(t, l, 0, "big", payload(0, 1, MaxBatch/2))
	})

	run("many callers", func(t *testing.T, _ engine, l closingLog) {
		const callers, each = 8, 20
		var mu sync.Mutex
		seqs := map[uint64][]byte{}
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				last := uint64(0)
				for i := range each {
					data := payload(0, c*each+i, 60)
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
	})
}
