//go:build !unix

package cli

import (
	"os"
	"syscall"
)

// ending are the signals that end a run as Ctrl-C does.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM}
