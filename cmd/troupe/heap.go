package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// To collect a small heap takes a millisecond of each processor, and stops workers that were warm. A heap that
// begins at 4 MB is collected every few milliseconds of a run. So it grows to 16 MB before the first
// collection, which most commands never reach, and afterwards to five times what is alive, as long as that
// is no more than roomy; a large heap grows to twice what is alive, as everywhere.
const (
	seldom = 400
	often  = 100
	roomy  = 64 << 20 // bytes
)

// settled says that a command has a GOGC of its own.
var (
	settling sync.Mutex
	settled  bool
)

// collectSeldom puts off garbage collections while the heap is small. GOGC in the environment overrules it.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(seldom)
		watch(seldom)
	}
}

// collectAt sets GOGC for good, unless it is in the environment.
func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		settling.Lock()
		defer settling.Unlock()
		settled = true
		debug.SetGCPercent(percent)
	}
}

// watch looks at the heap after the next collection, and so on.
func watch(percent int) {
	runtime.AddCleanup(new([4]uintptr), func(percent int) {
		settling.Lock()
		defer settling.Unlock()
		if settled {
			return
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		next := percentFor(m.NextGC * 100 / uint64(100+percent))
		if next != percent {
			debug.SetGCPercent(next)
		}
		watch(next)
	}, percent)
}

// percentFor returns the GOGC for a heap with so many bytes alive.
func percentFor(alive uint64) int {
	return min(max(int(100*roomy/max(alive, 1<<20))-100, often), seldom)
}
