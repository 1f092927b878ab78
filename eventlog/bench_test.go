//go:build unix

package eventlog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkDurable measures durable events per second with many callers beside what the disk itself
// does at the same moment: appends of one small batch with fsync, one after the other.
func BenchmarkDurable(b *testing.B) {
	record := &Reward{Event: Event{1, 1, 0}, Model: 1, X: make([]float64, 32), Y: 1, Time: 1}
	for i := range record.X {
		record.X[i] = float64(i) / 32
	}
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			l, err := OpenDisk(b.Context(), b.TempDir(), DiskOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			c := newCommitter(b, l, CommitterOptions{})
			each := max(b.N/callers, 1)
			times := make([][]time.Duration, callers)
			cpu := cpuTime(b)
			b.ResetTimer()
			var wg sync.WaitGroup
			for k := range callers {
				wg.Go(func() {
					for range each {
						t0 := time.Now()
						if _, err := c.Append(b.Context(), record); err != nil {
							b.Error(err)
							return
						}
						times[k] = append(times[k], time.Since(t0))
					}
				})
			}
			wg.Wait()
			elapsed := b.Elapsed()
			b.StopTimer()
			cpu = cpuTime(b) - cpu
			all := slices.Concat(times...)
			slices.Sort(all)
			b.ReportMetric(float64(len(all))/elapsed.Seconds(), "events/s")
			b.ReportMetric(float64(cpu.Microseconds())/float64(len(all)), "cpu-µs/event")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
			s := c.Stats()
			b.ReportMetric(float64(s.Events)/float64(s.Batches), "events/batch")
			if err := c.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			rate, p50, p99 := diskSync(b)
			b.ReportMetric(rate, "disk-fsync/s")
			b.ReportMetric(p50, "disk-p50-µs")
			b.ReportMetric(p99, "disk-p99-µs")
		})
	}
}

// diskSync appends 600 bytes and syncs, for half a second.
func diskSync(b *testing.B) (rate, p50, p99 float64) {
	f, err := os.Create(b.TempDir() + "/sync")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var times []time.Duration
	start := time.Now()
	for time.Since(start) < 500*time.Millisecond {
		t0 := time.Now()
		if _, err := f.Write(make([]byte, 600)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(t0))
	}
	slices.Sort(times)
	return float64(len(times)) / time.Since(start).Seconds(), float64(times[len(times)/2].Microseconds()), float64(times[len(times)*99/100].Microseconds())
}

// benchLog writes n decisions and n rewards of an action with 32 features, 64 records in a batch, as
// 64 callers would, and returns the bytes of the batches. With candidates each decision keeps its 20
// actions in single precision.
func benchLog(b *testing.B, dir string, n int, candidates bool) (bytes uint64) {
	l, err := OpenDisk(b.Context(), dir, DiskOptions{noSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c := newCommitter(b, l, CommitterOptions{Batch: MaxBatch})
	rnd := rand.New(rand.NewPCG(7, 7))
	var full []byte
	if candidates {
		full = make([]byte, 20*32*4+20*32/8+4)
		for i := range full {
			full[i] = byte(rnd.Uint32())
		}
	}
	x := make([]float64, 32)
	for i := range x {
		x[i] = rnd.Float64() - 0.5
	}
	for no := uint64(1); no <= uint64(n/32); no++ {
		var records []Record
		for i := range uint32(32) {
			records = append(records,
				&Decision{Model: 1, BasisSeq: no, BasisDigest: 3, Member: i, Action: "action", X: x, Num: 5, Den: 64, Offered: 20, Context: 9,
					Candidates: 10, Full: full, Caller: "shop", Time: 1e18 + 1, Deadline: 1e18 + 2, Draw: 11},
				&Reward{Event: Event{c.Epoch(), max(1, no-1), 2 * i}, Model: 1, X: x, Y: 1, Source: "shop", Time: 1e18 + 3})
		}
		if _, err := c.Append(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	info, err := l.Info(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	return info.Bytes
}

// BenchmarkRestart takes apart what a restart costs eventlog, on logs of decisions and rewards
// (TROUPE_OPEN_EVENTS of each, default 64 000), with and without the candidates of the decisions:
// verify reads the files, open does so and starts the engine, replay reads through the engine, checks
// the chain again and decodes every record.
func BenchmarkRestart(b *testing.B) {
	n := rounds("TROUPE_OPEN_EVENTS", 64_000)
	for _, candidates := range []bool{false, true} {
		dir := b.TempDir()
		size := benchLog(b, dir, n, candidates)
		run := func(what string, f func(b *testing.B)) {
			b.Run(fmt.Sprintf("candidates=%v/%s", candidates, what), func(b *testing.B) {
				start := cpuTime(b)
				for b.Loop() {
					f(b)
				}
				b.SetBytes(int64(size))
				b.ReportMetric((cpuTime(b)-start).Seconds()/float64(b.N), "cpu-s/op")
				b.ReportMetric(float64(b.N)*float64(2*n)/b.Elapsed().Seconds(), "records/s")
			})
		}
		run("verify", func(b *testing.B) {
			if r, err := Verify(dir, nil); err != nil || !r.OK() {
				b.Fatal(err)
			}
		})
		run("open", func(b *testing.B) {
			l, err := OpenDisk(b.Context(), dir, DiskOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
		l, err := OpenDisk(b.Context(), dir, DiskOptions{})
		if err != nil {
			b.Fatal(err)
		}
		run("replay", func(b *testing.B) {
			records := 0
			for d, err := range Replay(b.Context(), l, NewChain(0, 1), l.shards[0].last.Load()) {
				if err != nil {
					b.Fatal(err)
				}
				for range d.Events() {
					records++
				}
			}
			if records != 2*n {
				b.Fatal(records)
			}
		})
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkEncode(b *testing.B) {
	r := &Reward{Event: Event{1, 1, 0}, Model: 1, X: make([]float64, 32), Y: 1, Time: 1}
	buf, err := AppendRecord(nil, r)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if buf, err = AppendRecord(buf[:0], r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := DecodeRecord(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
