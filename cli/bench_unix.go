//go:build unix

package cli

import "syscall"

// processTime returns the processor time of this process in seconds.
func processTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("troupe: getrusage: " + err.Error())
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) * 1e-9
}
