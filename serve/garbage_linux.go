package serve

import (
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// memory returns the bytes that the machine has, or that its container may use.
func memory() uint64 {
	size := uint64(math.MaxUint64)
	var i syscall.Sysinfo_t
	if err := syscall.Sysinfo(&i); err == nil {
		size = uint64(i.Totalram) * uint64(i.Unit)
	}
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(name)
		if limit, bad := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil && bad == nil {
			size = min(size, limit)
		}
	}
	return size
}
