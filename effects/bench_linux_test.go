package effects

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processor is what this thread has used.
func processor() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkPair is a decision with its reward: Votes, Decided and Learn with all estimates, in processor time: the mean
// of the first 1,000, and their 99th per cent in units of the median.
func BenchmarkPair(b *testing.B) {
	for _, size := range [][2]int{{4, 5}, {16, 5}, {16, 10}, {64, 20}, {256, 100}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			const events = 1000
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took []time.Duration
			for range b.N {
				p := newNumbers(size[0], size[1])
				for range events {
					began := processor()
					p.play()
					took = append(took, processor()-began)
				}
				b.ReportMetric(float64(p.m.Bytes())/1000, "kB")
			}
			var sum time.Duration
			for _, t := range took {
				sum += t
			}
			slices.Sort(took)
			b.ReportMetric(float64(sum.Nanoseconds())/1000/float64(len(took)), "µs/pair")
			b.ReportMetric(float64(took[len(took)*99/100])/float64(took[len(took)/2]), "p99/median")
			b.ReportMetric(0, "ns/op")
		})
	}
}
