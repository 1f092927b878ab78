package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestAvailable: what a run may take is known, and is not more than the memory of the machine.
func TestAvailable(t *testing.T) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Skip(err)
	}
	var total int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &total); err != nil || !strings.Contains(string(text), "MemAvailable:") {
		t.Skipf("this kernel does not say what is available: %v", err)
	}
	if got := available(); got < 1 || got > total<<10 {
		t.Errorf("%d bytes are available of %d", got, total<<10)
	}
}
