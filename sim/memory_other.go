//go:build !linux

package sim

import (
	"math"
	"runtime/debug"
)

// available returns GOMEMLIMIT, or 0 without one: what else the process may take is not known here.
func available() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}
