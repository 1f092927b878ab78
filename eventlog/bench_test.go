package eventlog

import (
	"fmt"
	"os"
	"slices"
	"sync"
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
			l, err := OpenJetStream(b.Context(), b.TempDir(), JetStreamOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			c := newCommitter(b, l, CommitterOptions{})
			each := max(b.N/callers, 1)
			times := make([][]time.Duration, callers)
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
			all := slices.Concat(times...)
			slices.Sort(all)
			b.ReportMetric(float64(len(all))/elapsed.Seconds(), "events/s")
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

// benchLog writes n batches of 256 rewards.
func benchLog(b *testing.B, dir string, n int) (events int) {
	l, err := OpenJetStream(b.Context(), dir, JetStreamOptions{noSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c := newCommitter(b, l, CommitterOptions{})
	records := make([]Record, 256)
	for i := range records {
		records[i] = &Reward{Event: Event{1, 1, uint32(i)}, Model: 1, X: make([]float64, 32), Y: 1, Time: 1}
	}
	for range n {
		if _, err := c.Append(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return n * len(records)
}

// BenchmarkReplay reads a log of 256 000 events (77 MB) through the engine, checks the chain and
// decodes every record; BenchmarkVerify reads its files; BenchmarkOpen does so and starts the engine.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	events := benchLog(b, dir, 1000)
	l, err := OpenJetStream(b.Context(), dir, JetStreamOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		n := 0
		for d, err := range Replay(b.Context(), l, NewChain(0, 1), 1000) {
			if err != nil {
				b.Fatal(err)
			}
			for range d.Events() {
				n++
			}
		}
		if n != events {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	benchLog(b, dir, 1000)
	var r *Report
	var err error
	for b.Loop() {
		if r, err = Verify(dir); err != nil || !r.OK() {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(r.Shards[0].Bytes))
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	benchLog(b, dir, 1000)
	for b.Loop() {
		l, err := OpenJetStream(b.Context(), dir, JetStreamOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
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
