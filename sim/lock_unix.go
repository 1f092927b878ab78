//go:build unix

package sim

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of an open directory, which goes with the file descriptor: also when the
// process is killed.
func tryLock(d *os.File) error {
	err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// unlock closes a directory and gives its lock back, also where a child process that is just being started has a copy
// of the descriptor, which would keep the lock until it executes its program.
func unlock(d *os.File) {
	_ = syscall.Flock(int(d.Fd()), syscall.LOCK_UN)
	_ = d.Close()
}
