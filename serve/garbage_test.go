package serve

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
)

// TestCollectSeldom: in a process of its own, for the setting is for good: the goal of the heap is what the
// function says, again after a second call; a limit of the memory makes it smaller; and GOGC overrules it.
func TestCollectSeldom(t *testing.T) {
	if os.Getenv("TROUPE_TEST_COLLECT") != "" {
		want, again := CollectSeldom(), CollectSeldom()
		goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(goal)
		resident := 0
		if b, err := os.ReadFile("/proc/self/statm"); err == nil {
			pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
			resident = pages * os.Getpagesize()
		}
		os.Stdout.WriteString(strings.Join([]string{"", strconv.Itoa(want), strconv.Itoa(again), strconv.FormatUint(goal[0].Value.Uint64(), 10),
			strconv.Itoa(debug.SetGCPercent(100)), strconv.Itoa(resident), ""}, "|"))
		runtime.KeepAlive(untouched)
		return
	}
	for _, c := range []struct {
		env       string
		size, gcp int
	}{{"X=", int(min(deadMost, memory()/deadShare)) * 5, 400}, {"GOMEMLIMIT=512MiB", 40 << 20, 400}, {"GOGC=77", 0, 77}} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestCollectSeldom$")
		cmd.Env = append(os.Environ(), "TROUPE_TEST_COLLECT=1", "GOGC=", c.env)
		out, err := cmd.Output()
		f := strings.Split(string(out), "|")
		if err != nil || len(f) < 7 {
			t.Fatalf("%s: %q, %v", c.env, out, err)
		}
		var n [5]int
		for i := range n {
			n[i], _ = strconv.Atoi(f[i+1])
		}
		if n[0] != c.size || n[1] != c.size || n[3] != c.gcp {
			t.Errorf("%s: %d, again %d, GOGC %d; want %d and %d", c.env, n[0], n[1], n[3], c.size, c.gcp)
		}
		if c.size > 0 && (n[2] < c.size || n[2] > c.size+64<<20) {
			t.Errorf("%s: the heap may grow to %d, want %d and a little", c.env, n[2], c.size)
		}
		if n[4] > 100<<20 {
			t.Errorf("%s: %d bytes are resident: the memory was touched", c.env, n[4])
		}
	}
}
