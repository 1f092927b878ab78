package raftnet

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/timing"
)

// BenchmarkDurable is that of a single machine (package eventlog) on three nodes over TLS, all in this process: processor time is that of
// all three. The committer is at one node, whoever leads.
func BenchmarkDurable(b *testing.B) {
	record := &eventlog.Reward{Event: eventlog.Event{Epoch: 1, Batch: 1}, Model: 1, X: make([]float64, 32), Y: 1, Time: 1}
	for i := range record.X {
		record.X[i] = float64(i) / 32
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := &cluster{dir: b.TempDir(), ca: newAuthority()}
			l := c.open(b, 1<<30)
			defer l.Close()
			w := eventlogtest.NewCommitter(b, l, eventlog.CommitterOptions{})
			each := max(b.N/callers, 1)
			times := make([][]time.Duration, callers)
			cpu := processor(b)
			clock := timing.Clock{}
			b.ResetTimer()
			var wg sync.WaitGroup
			for k := range callers {
				wg.Go(func() {
					for range each {
						began := clock.Mark()
						if _, err := w.Append(b.Context(), record); err != nil {
							b.Error(err)
							return
						}
						times[k] = append(times[k], clock.Since(began))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			cpu = processor(b) - cpu
			all := slices.Concat(times...)
			slices.Sort(all)
			b.ReportMetric(float64(cpu.Microseconds())/float64(len(all)), "cpu-µs/event")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
			if err := w.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
