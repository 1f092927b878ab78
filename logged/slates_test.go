package logged

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSlates reads a table of positions as lists, and refuses what is no list.
func TestSlates(t *testing.T) {
	head := "slate_id,action,position,reward,pscore,pscore_cascade,pscore_item_position,evaluation_policy_pscore_cascade\n"
	for _, c := range []struct{ text, want string }{
		{"7,2,1,0,0.1,0.1,0.3,0\n7,0,0,1,0.1,0.4,0.4,0.5\n8,1,0,0,0.3,0.3,0.3,0.5\n", ""},
		{"7,0,0,1,0.1,0.4,0.4,0.5\n7,0,1,0,0.1,0.1,0.3,0\n", "slots[1].action: 0, expected no action twice"},
		{"7,0,0,1,0.1,0.4,0.4,0.5\n7,1,0,0,0.1,0.1,0.3,0\n", "slots[1].position: 0, expected each position once"},
		{"7,0,0,1,0.1,0.4,0.4,0.5\n7,1,1,0,0.2,0.1,0.3,0\n", "pscore: 0.2, expected 0.1"},
		{"7,0,0,1,0.1,0.4,0.4,0.5\n7,1,1,0,0.5,0.5,0.6,0\n", "slots[1].prefix: 0.5, expected at most 0.4"},
		{"7,0,0,1,0.1,0.4,0.4,0.5\n7,1,1,0,0.1,0.1,0.05,0\n", "slots[1].marginal: 0.05, expected at least the prefix 0.1"},
		{"7,5,0,1,0.1,0.4,0.4,0.5\n", "slots[0].action: 5, expected an index from 0 to 2"},
		{"7,0,0,NaN,0.1,0.4,0.4,0.5\n", "reward"},
		{"7,0,0,1,0.4,0.4,0.4,1.5\n", "evaluation_policy_pscore_cascade: 1.5, expected a probability"},
	} {
		name := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(name, []byte(head+c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, _, err := readAll(name, Options{Actions: 3})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ":2:") {
				t.Errorf("%q: %v, want %q and line 2", c.text, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		a, b := got[0].Slots[0], got[0].Slots[1]
		if len(got) != 2 || a.Allowed[0] != 0 || len(a.Allowed) != 3 || b.Allowed[0] != 2 || len(b.Allowed) != 2 || a.Reward != 1 || b.Prefix != .1 ||
			b.Marginal != .3 || a.Target.Prefix != .5 || !math.IsNaN(a.Target.Marginal) {
			t.Errorf("%+v", got)
		}
	}
}
