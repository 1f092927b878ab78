package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

const (
	gcPercent = 400
	deadMost  = 128 << 20
	deadShare = 64 // of the memory
)

// CollectSeldom makes a process that serves collect garbage seldom, and returns at what size of the heap it
// does when almost nothing is alive: decisions wait for a collection, which takes one of two processors
// for some 10 ms, and a server's heap is small beside what it allocates in a second. The next collection
// comes when the heap is five times what was alive after the last one and 128 MiB besides, or a 64th of the
// memory where that is less: so after 640 MiB of garbage at least. The share is of GOMEMLIMIT where it is set,
// otherwise of the machine or of the container (Linux only); GOMEMLIMIT bounds the whole as always. GOGC,
// where it is set, overrules all this, and the result is 0.
//
// The 128 MiB are a slice that nobody touches: addresses, of which the system makes no memory, though the
// sizes of the heap that the runtime states count them. The first call counts, and belongs before the server is opened.
func CollectSeldom() (size int) {
	if os.Getenv("GOGC") != "" {
		return 0
	}
	collecting.Lock()
	defer collecting.Unlock()
	debug.SetGCPercent(gcPercent)
	if untouched != nil {
		return len(untouched) * (100 + gcPercent) / 100
	}
	dead := min(deadMost, int(min(uint64(debug.SetMemoryLimit(-1)), memory())/deadShare))
	untouched = make([]byte, dead)
	runtime.GC() // the collector learns of it at the end of a collection
	return dead * (100 + gcPercent) / 100
}

var (
	collecting sync.Mutex
	untouched  []byte
)
