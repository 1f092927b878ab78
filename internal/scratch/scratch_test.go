package scratch

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

// TestFree: a directory on a disk and one that is missing have no room in memory; where there is some, a test has its
// files there.
func TestFree(t *testing.T) {
	for _, dir := range []string{".", "missing"} {
		if n := free(dir); n != 0 {
			t.Errorf("%s has %d bytes of memory", dir, n)
		}
	}
	if strings.HasPrefix(os.TempDir(), shared) && free(t.TempDir()) == 0 {
		t.Error("the files of this test are not in memory")
	}
}
