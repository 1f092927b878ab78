package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// This file is all that troupe sets of the Go runtime. GOGC in the environment overrules it; GOMEMLIMIT and
// GOMAXPROCS mean what they mean in every Go program.
//
// Go collects a heap of a few megabytes every few milliseconds of a run, and each collection takes a millisecond
// of each processor. So the heap grows to 16 MiB before the first collection, which most commands never reach,
// and afterwards to five times what is alive, as long as that is at most smallHeap. A larger heap grows to twice
// what is alive, Go's default.
const (
	firstPercent = 400
	goPercent    = 100
	smallHeap    = 64 << 20 // bytes
)

// tuneHeap sets the rule above for the life of the process.
func tuneHeap() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(firstPercent)
		afterNextCollection(firstPercent)
	}
}

// afterNextCollection sets GOGC anew after the next collection of garbage, and after each one that follows. percent
// is the present GOGC.
func afterNextCollection(percent int) {
	runtime.AddCleanup(new([4]uintptr), func(percent int) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		next := percentFor(m.NextGC * 100 / uint64(100+percent))
		if next != percent {
			debug.SetGCPercent(next)
		}
		afterNextCollection(next)
	}, percent)
}

// percentFor returns the GOGC for a heap with so many bytes alive.
func percentFor(alive uint64) int {
	return min(max(int(100*smallHeap/max(alive, 1<<20))-100, goPercent), firstPercent)
}
