//go:build unix

package sim

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time of this process so far, of user and system.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("sim: getrusage: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
