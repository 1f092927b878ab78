//go:build !unix

package eventlog

import (
	"errors"
	"os"
)

const lockFile = "lock"

var errNoLock = errors.New("eventlog: no file locks on this system; a log on disk needs one")

func lockDir(string, bool) (*os.File, error) { return nil, errNoLock }
func syncDir(string) error                   { return errNoLock }
