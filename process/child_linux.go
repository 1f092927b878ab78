package process

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// starts are done by one thread that lives as long as this process: the kernel kills a child when the thread that
// started it ends.
var starts = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// launch starts a program in a process group of its own, which ends with this process, and bounds its memory where
// bytes is positive.
func launch(cmd *exec.Cmd, bytes int64) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	starts() <- func() { done <- cmd.Start() }
	if err := <-done; err != nil || bytes == 0 {
		return err
	}
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &limit, nil); err != nil {
		slay(cmd)
		return errors.Join(err, cmd.Wait())
	}
	return nil
}

const boundsMemory = true

// slay kills the program and what it started.
func slay(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
}

func isPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
