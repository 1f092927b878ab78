package cli

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"troupe/internal/await"
)

func TestPercentFor(t *testing.T) {
	const all = 1 << 50
	for _, c := range []struct {
		alive, pointers uint64
		want            int
	}{
		{0, 0, 400}, {1 << 20, all, 400}, {12 << 20, 0, 400}, {16 << 20, 0, 300}, {smallHeap / 2, 0, 100},
		{smallHeap / 2, all, 100}, {3 * smallHeap / 4, 0, 33}, {3 * smallHeap / 4, all, 100}, {smallHeap, 0, 25},
		{smallHeap, smallHeap / 2, 50}, {smallHeap, all, 100}, {1 << 40, 0, 25}, {1 << 40, 1 << 39, 50},
		{1 << 40, 1 << 40, 100},
	} {
		if got := percentFor(c.alive, c.pointers); got != c.want {
			t.Errorf("%d bytes alive, %d with pointers: GOGC %d, want %d", c.alive, c.pointers, got, c.want)
		}
	}
}

// TestTuneHeap runs in processes of their own, because the setting is for the life of a process: GOGC is 400 while
// the heap is small, 25 when it is large without pointers, 400 again afterwards; and GOGC in the environment stays.
func TestTuneHeap(t *testing.T) {
	if os.Getenv("TROUPE_TEST_HEAP") != "" {
		tuneHeap()
		large := make([]byte, 4*smallHeap)
		first := awaitPercent("TROUPE_TEST_LARGE")
		runtime.KeepAlive(large)
		large = nil
		os.Stdout.WriteString("|" + first + "|" + awaitPercent("TROUPE_TEST_SMALL") + "|")
		return
	}
	for _, c := range []struct{ gogc, large, small string }{{"", "25", "400"}, {"77", "77", "77"}} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestTuneHeap$")
		cmd.Env = append(os.Environ(), "TROUPE_TEST_HEAP=1", "GOGC="+c.gogc, "TROUPE_TEST_LARGE="+c.large, "TROUPE_TEST_SMALL="+c.small)
		out, err := cmd.Output()
		if got := strings.Split(string(out), "|"); err != nil || len(got) < 4 || got[1] != c.large || got[2] != c.small {
			t.Errorf("GOGC=%s: %q, %v, want %s and %s", c.gogc, out, err, c.large, c.small)
		}
	}
}

// awaitPercent collects garbage until GOGC is the value of a variable, and returns it.
func awaitPercent(variable string) string {
	gogc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	percent := ""
	await.Poll(func() bool {
		runtime.GC()
		runtime.Gosched() // for the goroutine of the cleanups
		metrics.Read(gogc)
		percent = strconv.FormatUint(gogc[0].Value.Uint64(), 10)
		return percent == os.Getenv(variable)
	})
	return percent
}
