package serve

import (
	"os"
	"runtime"
)

// spareProcessors are for goroutines that are not computing: one in a sync of the disk, and one that has
// returned from it.
const spareProcessors = 2

// SpareProcessors makes a process that serves run goroutines on two threads more than the machine has
// processors (GOMAXPROCS), and returns on how many it does. Go has as many threads as processors, and takes no
// notice at first of one that waits for the disk; who comes back from a sync, and whoever passes the answer on,
// then queues behind the callers that the last batch has woken, because Go's scheduler takes what is near before
// what is old. With a thread to spare the system's scheduler shares the processors, and the log does not queue.
// How much a decision gains, and what it costs: docs/record/0.1.0/server.md.
//
// GOMAXPROCS in the environment overrules this, and so does a container or service with a share of the processors:
// with more threads it would use it up sooner, and be stopped. The first call counts, and belongs before the
// server is opened. Go does not follow later changes of the share or of the affinity then.
func SpareProcessors() (threads int) {
	n := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") != "" || n != runtime.NumCPU() || limited() {
		return n
	}
	runtime.GOMAXPROCS(n + spareProcessors)
	return n + spareProcessors
}
