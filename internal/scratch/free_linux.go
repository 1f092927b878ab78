package scratch

import "syscall"

// free returns the bytes that are free in a directory in memory, 0 where it is none or cannot be written.
func free(dir string) uint64 {
	const tmpfs, write = 0x01021994, 2
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Type != tmpfs || syscall.Access(dir, write) != nil {
		return 0
	}
	return s.Bavail * uint64(s.Bsize) //nolint:gosec // a size of blocks is not negative
}
