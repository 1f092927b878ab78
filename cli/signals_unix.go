//go:build unix

package cli

import (
	"os"
	"syscall"
)

// ending are the signals that end a run as Ctrl-C does: what schedulers send before they end a job.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGXCPU}
