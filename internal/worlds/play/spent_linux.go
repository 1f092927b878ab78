package main

import (
	"syscall"
	"time"
)

// spent returns the processor time of this thread, so that other work on the machine is not counted.
func spent() time.Duration {
	const thisThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		panic(err) // the arguments are valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
