//go:build unix

package sim

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkExtend measures what it costs to add replications, policies or rounds to a finished directory, and what the
// same number of rounds costs as a run of their own. The two take turns, and each turn has a directory of its own. The
// metrics are medians of the processor time of the process, user and system, and the ratio of the medians.
//
//	go test ./sim -run '^$' -bench Extend -benchtime 15x
func BenchmarkExtend(b *testing.B) {
	spec := func(replications, horizon, policies string) string {
		return "replications = " + replications + "\nhorizon = " + horizon + `
[[environment]]
kind = "linear"
d = 10
set = { kind = "random-sphere", arms = 20 }
` + policies
	}
	const ensemble, ts = "[[policy]]\nkind = 'ensemble'\nm = 20\n", "[[policy]]\nkind = 'ts'\n"
	for _, c := range []struct{ name, before, after, alone string }{
		{"replications", spec("16", "40_000", ensemble+ts), spec("32", "40_000", ensemble+ts), spec("16", "40_000", ensemble+ts)},
		{"policies", spec("16", "40_000", ensemble), spec("16", "40_000", ensemble+ts), spec("16", "40_000", ts)},
		{"horizon", spec("16", "40_000", ensemble+ts), spec("16", "80_000", ensemble+ts), spec("16", "40_000", ensemble+ts)},
		{"short", spec("16", "200", ensemble+ts), spec("16", "400", ensemble+ts), spec("16", "200", ensemble+ts)}, // what is paid once
		{"noise", "", spec("16", "40_000", ensemble+ts), spec("16", "40_000", ensemble+ts)},                       // both are the same
	} {
		b.Run(c.name, func(b *testing.B) {
			var extended, alone []float64
			for b.Loop() {
				dir := b.TempDir()
				both := []func(){
					func() { extended = append(extended, playsIn(b, filepath.Join(dir, "out"), c.after)) },
					func() { alone = append(alone, playsIn(b, filepath.Join(dir, "alone"), c.alone)) },
				}
				if c.before != "" {
					playsIn(b, filepath.Join(dir, "out"), c.before)
				}
				if len(alone)%2 == 1 {
					slices.Reverse(both)
				}
				both[0]()
				both[1]()
			}
			b.ReportMetric(median(extended)/median(alone), "extended/alone")
			b.ReportMetric(1e3*median(extended), "ms-extended")
			b.ReportMetric(1e3*median(alone), "ms-alone")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// playsIn returns the processor seconds of a run in a directory.
func playsIn(b *testing.B, dir, text string) float64 {
	x, err := Parse("x.toml", strings.TrimSpace(text), Kinds())
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC() // the garbage of the run before is not this one's
	before := processorTime(b)
	if _, err := Run(b.Context(), x, Options{Dir: dir, Workers: 1}); err != nil {
		b.Fatal(err)
	}
	return (processorTime(b) - before).Seconds()
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
