package eventlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// damageSnapshots flips a bit in the newest snapshot of each of the engine's groups at a node that is stopped, and returns
// how many there were.
func (c *trio) damageSnapshots(i int) (n int) {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(c.dirs[i], "jetstream", "*", "_js_", "*", "snapshots", "snap.*"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, flipMiddle(b), 0o600)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		n++
	}
	return n
}

// TestHealSnapshots: the engine's snapshots of its groups are damaged at two of three nodes that are stopped; they take
// those of the third, and all three have the log. Where no node that answers has one, the node does not start and says
// which command helps, and its files are as they were.
func TestHealSnapshots(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	all := []func(*testing.T, *trio){snapshotsLonger}
	if os.Getenv("TROUPE_LONG") != "" { // a node that starts alone waits for others, and then all three elect
		all = []func(*testing.T, *trio){snapshotsOfThird, snapshotsLonger}
	}
	parts(t, all...)
}

func snapshotsOfThird(t *testing.T, c *trio) {
	const n = healed
	c.damaged = func(*eventlog.DamagedReplicaError) error { return nil } // the others are no majority
	for i := range 3 {
		c.stop(i)
	}
	for i := range 2 {
		if c.damageSnapshots(i) < 2 {
			t.Fatal("the engine has other snapshots than that of its own group and that of the log")
		}
	}

	before, err := eventlog.CheckReplica(c.dirs[0], eventlogtest.Keys, nil)
	if err != nil || len(before.Damage) == 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	_, err = eventlog.StartNode(t.Context(), c.options(0))
	if text := fmt.Sprint(err); !strings.Contains(text, "/snapshots/snap.") ||
		!strings.Contains(text, "which is damaged, and no other node that answers has it whole. Start the other nodes") ||
		!strings.Contains(text, "troupe cluster rebuild a") {
		t.Errorf("a node alone: %v", err)
	}
	if after, err := eventlog.CheckReplica(c.dirs[0], eventlogtest.Keys, nil); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the files of a node that did not start: %+v, they were %+v, error %v", after, before, err)
	}

	c.tryStart(0, 1, 2)
	for i := range 3 {
		c.open(i)
	}
	for i := range 3 {
		c.whole(i, n)
	}
	for i := range 2 {
		// Once; on a busy machine two nodes were seen to make theirs anew twice.
		if care := c.nodes[i].Care(); care.Repairs < 1 || care.Repairs > 2 || !strings.Contains(care.Damage, "snapshots/snap.") {
			t.Errorf("node %d: %+v", i, care)
		}
	}
	if chain, err := eventlog.Tail(t.Context(), c.logs[0], 0, eventlogtest.Keys); err != nil || chain.Last() != n {
		t.Errorf("the log ends with %d: %v", chain.Last(), err)
	}
	appendMany(t, c.logs[1], "after", 5)
	for i := range 3 {
		c.whole(i, n+5)
	}
}

func snapshotsLonger(t *testing.T, c *trio) {
	all, err := c.nodes[0].Check()
	if err != nil {
		t.Fatal(err)
	}

	// The third one goes on for longer, so its snapshots are newer; but where it had not heard that the last entry of a
	// group counts, that of the second one is, and then its replica is made anew when the others are a majority.
	var tries sync.Map
	c.damaged = func(e *eventlog.DamagedReplicaError) error {
		if _, again := tries.LoadOrStore(e.Dir, true); again {
			return e
		}
		return nil
	}
	c.stop(0)
	appendMany(t, c.logs[1], "longer", 30)
	c.stop(1)
	c.stop(2)
	c.damageSnapshots(0)
	c.damageSnapshots(1)
	c.tryStart(0, 1, 2)
	for i := range 3 {
		c.open(i)
	}
	for i := range 2 {
		c.repaired(i)
	}
	for i := range 3 {
		c.whole(i, all.Last+30)
	}
}
