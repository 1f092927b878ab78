//go:build !linux

package serve

// limited: shares of processors are known on Linux only.
func limited() bool { return false }
