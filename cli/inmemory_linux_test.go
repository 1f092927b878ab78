package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// inMemory makes a directory for the files of the tests in a file system that is in memory and has 2 GiB left; it is ""
// without one. What is killed here is a process and never the machine, so the files of both are the same; only the time
// of thousands of small files and of fsync goes. With TROUPE_LONG, or with a TMPDIR of the caller, they are on a disk.
func inMemory() string {
	const shared = "/dev/shm"
	var s unix.Statfs_t
	if long() || os.Getenv("TMPDIR") != "" || unix.Statfs(shared, &s) != nil || s.Type != unix.TMPFS_MAGIC ||
		s.Bavail*uint64(s.Bsize) < 2<<30 {
		return ""
	}
	dir, err := os.MkdirTemp(shared, "troupe-cli-")
	if err != nil {
		return ""
	}
	return dir
}
