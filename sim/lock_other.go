//go:build !unix

package sim

import (
	"errors"
	"os"
)

// tryLock returns an error: this system has no such lock.
func tryLock(*os.File) error { return errors.ErrUnsupported }
