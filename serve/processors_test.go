package serve

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestSpareProcessors: in a process of its own, for the setting is for good: two more threads than processors,
// not four after a second call; as many as before where GOMAXPROCS was set, or was lowered as Go does it for a
// share of the processors, or where this test itself runs with a share.
func TestSpareProcessors(t *testing.T) {
	if lowered := os.Getenv("TROUPE_TEST_PROCESSORS"); lowered != "" {
		if n, _ := strconv.Atoi(lowered); n > 0 {
			runtime.GOMAXPROCS(n)
		}
		one, two := SpareProcessors(), SpareProcessors()
		os.Stdout.WriteString(strings.Join([]string{"", strconv.Itoa(one), strconv.Itoa(two), strconv.Itoa(runtime.GOMAXPROCS(0)), ""}, "|"))
		return
	}
	n := runtime.NumCPU()
	raised := n + 2
	if limited() {
		raised = n
	}
	for _, c := range []struct {
		env     string
		lowered int
		want    int
	}{{"X=", 0, raised}, {"GOMAXPROCS=3", 0, 3}, {"GOMAXPROCS=" + strconv.Itoa(n), 0, n}, {"X=", max(n-1, 1), max(n-1, 1)}} {
		if c.lowered == n {
			continue // one processor: there is no share to see
		}
		cmd := exec.Command(os.Args[0], "-test.run", "^TestSpareProcessors$")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=", "GODEBUG=containermaxprocs=0", "TROUPE_TEST_PROCESSORS="+strconv.Itoa(c.lowered), c.env)
		out, err := cmd.Output()
		f := strings.Split(string(out), "|")
		if err != nil || len(f) < 5 {
			t.Fatalf("%s: %q, %v", c.env, out, err)
		}
		for _, got := range f[1:4] {
			if got != strconv.Itoa(c.want) {
				t.Errorf("%s, lowered to %d: %q, want %d each time", c.env, c.lowered, f[1:4], c.want)
				break
			}
		}
	}
}
