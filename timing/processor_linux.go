package timing

import (
	"time"

	"golang.org/x/sys/unix"
)

// Processor returns the processor time that the calling thread has used; on other systems than Linux, the time that has passed.
// A caller that takes the difference of two stays on its thread between them (runtime.LockOSThread). Cost: a system call.
func Processor() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return time.Since(started)
	}
	return time.Duration(t.Nano())
}
