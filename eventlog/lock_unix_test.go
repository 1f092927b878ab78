//go:build unix

package eventlog

import (
	"errors"
	"syscall"
	"testing"
)

// TestLockIsGivenBack: a child that is being started has a copy of every descriptor for a moment. A closed lock is free
// all the same. A lock that is held refuses a second one.
func TestLockIsGivenBack(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDir(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	var taken *LockedError
	if _, err := lockDir(dir, true); !errors.As(err, &taken) {
		t.Errorf("a second lock: %v, want a *LockedError", err)
	}
	child, err := syscall.Dup(int(lock.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
