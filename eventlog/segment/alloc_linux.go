package segment

import (
	"errors"
	"os"
	"syscall"
)

// allocate makes room in a file for n bytes from an offset on, which are read as zeros. ok is false where the file
// system cannot, or has no room for so much.
func allocate(f *os.File, at, n int64) (ok bool) {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, at, n)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil
		}
	}
}

// datasync makes the bytes of a file durable, and its length.
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
