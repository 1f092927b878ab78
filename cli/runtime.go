package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// This file is all that troupe sets of the Go runtime. GOGC in the environment overrules it; GOMEMLIMIT and
// GOMAXPROCS mean what they mean in every Go program.
//
// Go collects a heap of a few megabytes every few milliseconds of a run, and each collection takes a millisecond
// of each processor. So the heap grows to 16 MiB before the first collection, which most commands never reach,
// and afterwards to five times what is alive, as long as that is at most smallHeap. A larger heap grows by the part of
// what is alive that a collection has to read, because it has pointers, but by a quarter of all at least: of a server
// with many open windows, or of a simulation with large matrices, most has none. So a collection costs as much for each
// byte that is allocated as with Go's default, twice what is alive, where everything has pointers.
const (
	firstPercent = 400
	goPercent    = 100
	leastPercent = 25
	smallHeap    = 64 << 20 // bytes
)

// freeStart gives back what a server took to start beside what it keeps: the bytes of its state, and what they were
// read with. Cost: one collection.
func freeStart() { debug.FreeOSMemory() }

// giveBack returns a function that is told of bytes of the heap that are not needed any more, and returns the memory to the
// system once they are a part of what is alive that is worth a collection. Without it the runtime collects after two
// minutes, when nothing is allocated, and keeps what it expects to need again.
func giveBack() func(bytes int64) {
	freed := int64(0)
	return func(bytes int64) {
		m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(m)
		if freed += bytes; freed >= max(leastFreed, int64(m[0].Value.Uint64()/8)) {
			freed = 0
			debug.FreeOSMemory()
		}
	}
}

// leastFreed is for how many bytes a collection pays.
const leastFreed = 8 << 20

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
		m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
		metrics.Read(m)
		next := percentFor(m[0].Value.Uint64(), m[1].Value.Uint64())
		if next != percent {
			debug.SetGCPercent(next)
		}
		afterNextCollection(next)
	}, percent)
}

// percentFor returns the GOGC for a heap with so many bytes alive, some of them in objects with pointers.
func percentFor(alive, pointers uint64) int {
	alive = max(alive, 1<<20)
	small := int(100*smallHeap/alive) - 100
	large := min(max(int(100*pointers/alive), leastPercent), goPercent)
	return min(max(small, large), firstPercent)
}
