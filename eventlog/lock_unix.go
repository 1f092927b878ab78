//go:build unix

package eventlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const lockFile = "lock"

// dirLock is the lock of a directory.
type dirLock struct{ file *os.File }

// lockDir takes the directory for this process, until the file is closed. The engine takes no lock
// of its own, and two engines on one directory lose acknowledged entries. The kernel releases the
// lock when the process dies, however it dies. With write false nothing is written, and a directory
// without a lock file (a copy) needs no lock.
func lockDir(dir string, write bool) (*dirLock, error) {
	name := filepath.Join(dir, lockFile)
	flags := os.O_RDONLY
	if write {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		if !write && errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 256))
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &LockedError{dir, strings.TrimSpace(string(holder))}
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	if write {
		host, _ := os.Hostname()
		text := fmt.Sprintf("process %d on %s: %s\n", os.Getpid(), host, filepath.Base(os.Args[0]))
		err := f.Truncate(0)
		if err == nil {
			_, err = f.WriteAt([]byte(text), 0)
		}
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
	}
	return &dirLock{f}, nil
}

// Close gives the lock back, also where a child process that is just being started still has a copy of the descriptor,
// which would keep the lock until it executes its program.
func (l *dirLock) Close() error {
	if l == nil {
		return nil
	}
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.file.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
