package serve

import (
	"os"
	"path/filepath"
	"strings"
)

// limited says whether this process has a share of the processors: a quota of its cgroup or of one above, in
// version 2 or 1. Go lowers GOMAXPROCS to it, but never below 2.
func limited() bool {
	list, _ := os.ReadFile("/proc/self/cgroup")
	return limitedBy("/sys/fs/cgroup", string(list))
}

// limitedBy is limited for a mounted hierarchy and the lines of /proc/self/cgroup.
func limitedBy(root, list string) bool {
	for line := range strings.Lines(list) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(f) < 3 {
			continue
		}
		dir, file, none := root, "cpu.max", "max"
		if f[1] != "" {
			if f[1] != "cpu" && !strings.HasPrefix(f[1], "cpu,") && !strings.HasSuffix(f[1], ",cpu") {
				continue
			}
			dir, file, none = filepath.Join(root, "cpu"), "cpu.cfs_quota_us", "-1"
		}
		for at := filepath.Clean("/" + f[2]); ; at = filepath.Dir(at) {
			b, err := os.ReadFile(filepath.Join(dir, at, file))
			if quota := strings.Fields(string(b)); err == nil && len(quota) > 0 && quota[0] != none {
				return true
			}
			if at == "/" {
				break
			}
		}
	}
	return false
}
