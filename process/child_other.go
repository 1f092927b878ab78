//go:build !linux

package process

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

func launch(cmd *exec.Cmd, _ int64) error { return cmd.Start() }

const boundsMemory = false

func slay(cmd *exec.Cmd) {
	cmd.Process.Kill() //nolint:errcheck // it may have ended
}

// isPipe reports whether a write failed because the program at the other end is gone: EPIPE, and on Windows
// ERROR_BROKEN_PIPE or ERROR_NO_DATA, which package syscall has no EPIPE for.
func isPipe(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) && (number == syscall.EPIPE || runtime.GOOS == "windows" && (number == 109 || number == 232))
}
