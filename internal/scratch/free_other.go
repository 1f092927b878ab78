//go:build !linux

package scratch

// free: no other system has files in memory at a place that is known.
func free(string) uint64 { return 0 }
