package fold

import (
	"strings"
	"testing"

	"troupe/eventlog"
)

// TestTables: every kind of record and every act that a log may have has its row. One without a row would end the fold.
func TestTables(t *testing.T) {
	kinds := 0
	for k := eventlog.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		if kinds++; int(k) >= len(recordTable) || recordTable[k] == nil {
			t.Errorf("%v has no row", k)
		}
	}
	acts := 0
	for a := eventlog.Act(1); !strings.HasPrefix(a.String(), "act "); a++ {
		if acts++; int(a) >= len(actTable) || actTable[a] == nil {
			t.Errorf("%v has no row", a)
		}
	}
	if kinds < 9 || acts < 13 {
		t.Errorf("%d kinds and %d acts were looked at", kinds, acts)
	}
}
