package serve

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLimitedBy: a quota of the own cgroup, or of one above, is seen in both versions; none, and those of
// others, are not.
func TestLimitedBy(t *testing.T) {
	for _, c := range []struct {
		what, list string
		files      map[string]string
		want       bool
	}{
		{"nothing is mounted", "0::/\n", nil, false},
		{"root of a container", "0::/\n", map[string]string{"cpu.max": "150000 100000\n"}, true},
		{"no quota", "0::/a/b\n", map[string]string{"a/b/cpu.max": "max 100000\n", "a/cpu.max": "max 100000\n"}, false},
		{"own", "0::/a/b\n", map[string]string{"a/b/cpu.max": "50000 100000\n"}, true},
		{"above", "0::/a/b\n", map[string]string{"a/b/cpu.max": "max 100000\n", "a/cpu.max": "400000 100000\n"}, true},
		{"another's", "0::/a\n", map[string]string{"b/cpu.max": "50000 100000\n", "cpu/a/cpu.cfs_quota_us": "5\n"}, false},
		{"version 1", "5:memory:/a\n4:cpu,cpuacct:/a\n", map[string]string{"cpu/a/cpu.cfs_quota_us": "50000\n"}, true},
		{"version 1, none", "4:cpu,cpuacct:/a\n3:cpuset:/b\n", map[string]string{"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/b/cpu.cfs_quota_us": "5\n"}, false},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			name = filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := limitedBy(root, c.list); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
