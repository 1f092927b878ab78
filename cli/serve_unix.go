//go:build unix

package cli

import "syscall"

// openFiles is how many files this process may have open, sockets among them.
func openFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1 << 20
	}
	return int(min(uint64(l.Cur), 1<<20))
}
