//go:build !unix

package sim

import (
	"errors"
	"os"
)

// tryLock returns an error: this system has no such lock.
func tryLock(*os.File) error { return errors.ErrUnsupported }

func unlock(d *os.File) { _ = d.Close() }
