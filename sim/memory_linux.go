package sim

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// available returns the bytes that the process may still take: the least of what the kernel reports as
// available, the limit of the control group, that of the address space (ulimit -v) and GOMEMLIMIT. 0 means
// that it is not known.
func available() int64 {
	least := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			var kb int64
			if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); n == 1 {
				least = min(least, kb<<10)
			}
		}
	}
	if limit, used := fileNumber("/sys/fs/cgroup/memory.max"), fileNumber("/sys/fs/cgroup/memory.current"); limit > 0 &&
		used >= 0 {
		least = min(least, max(1, limit-used))
	}
	var space syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &space) == nil && space.Cur < math.MaxInt64 {
		if text, err := os.ReadFile("/proc/self/statm"); err == nil {
			pages, _, _ := bytes.Cut(text, []byte(" "))
			used, _ := strconv.ParseInt(string(pages), 10, 64)
			least = min(least, max(1, int64(space.Cur)-used*int64(os.Getpagesize())))
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		least = min(least, limit)
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// fileNumber reads a file with one number; -1 when there is none.
func fileNumber(name string) int64 {
	text, err := os.ReadFile(name)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
