package fold

import (
	"strings"
	"testing"

	"troupe/eventlog"
)

// TestTables: every kind of record and every act that a log may have has its row. One without a row would end the fold.
func TestTables(t *testing.T) {
	kinds := 0
	for k := range eventlog.Kind(64) {
		if strings.HasPrefix(k.String(), "kind ") {
			continue
		}
		if kinds++; int(k) >= len(recordTable) || recordTable[k] == nil {
			t.Errorf("%v has no row", k)
		}
	}
	acts := 0
	for a := range eventlog.Act(64) {
		if strings.HasPrefix(a.String(), "act ") {
			continue
		}
		if acts++; int(a) >= len(actTable) || actTable[a] == nil {
			t.Errorf("%v has no row", a)
		}
	}
	if kinds < 8 || acts < 12 {
		t.Errorf("%d kinds and %d acts were looked at", kinds, acts)
	}
}
