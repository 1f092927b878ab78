package eventlog_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

const healed = 40 // entries in the logs of the tests of repairs

// rotting is a trio whose log has so many entries in several block files.
func rotting(t *testing.T) *trio {
	const n = healed
	c := newTrio(t, 1, 120_000) // block files of 32 kB
	c.repair = true
	for i := range 3 {
		c.start(i)
	}
	for i := range 3 {
		c.open(i)
	}
	w, err := eventlog.NewCommitter(c.logs[0], eventlog.CommitterOptions{Format: eventlog.Format3,
		Keys: eventlogtest.Keys})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float64, 200)
	for i := range n {
		for k := range x {
			x[k] = 1 / float64(1+i+k)
		}
		if _, err := w.Append(t.Context(), &eventlog.Reward{Event: eventlog.Event{Epoch: 1, Batch: uint64(i + 1)},
			Model: 1, X: x}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.whole(i, uint64(n))
	}
	return c
}

// parts plays the parts of a test with a rotting trio, one after the other with the same nodes, or where tests run wide each
// with nodes of its own, since most of the time they wait for elections.
func parts(t *testing.T, all ...func(*testing.T, *trio)) {
	t.Parallel()
	if !eventlog.Wide() {
		c := rotting(t)
		for _, part := range all {
			part(t, c)
		}
		return
	}
	for i, part := range all {
		t.Run(fmt.Sprint("part ", i+1), func(t *testing.T) {
			t.Parallel()
			part(t, rotting(t))
		})
	}
}

// whole waits until the files of a node are whole and have the entries up to last.
func (c *trio) whole(i int, last uint64) {
	c.t.Helper()
	for note := range await.Tries(c.t) {
		r, err := c.nodes[i].Check()
		if err == nil && r.Last == last && len(r.Damage) == 0 {
			return
		}
		note("the files of node %d: %+v, %v", i, r, err)
	}
}

// rot changes the first block file of a node.
func (c *trio) rot(i int, change func([]byte) []byte) {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(c.dirs[i], "jetstream", "*", "streams", "TROUPE_EV_0", "msgs", "*.blk"))
	if err != nil || len(names) < 2 {
		c.t.Fatalf("%v, %v", names, err)
	}
	b, err := os.ReadFile(names[0])
	if err == nil {
		err = os.WriteFile(names[0], change(b), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// repaired repairs a node, whatever the others are doing at first.
func (c *trio) repaired(i int) {
	c.t.Helper()
	if err := c.tryRepair(i); err != nil {
		c.t.Fatal(err)
	}
}

func (c *trio) tryRepair(i int) (err error) {
	await.Poll(func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second) // an engine that rests does not answer
		defer cancel()
		if err = c.logs[i].HandOver(ctx); err == nil {
			err = c.nodes[i].Repair(c.t.Context())
		}
		return err == nil
	})
	return err
}

func flipMiddle(b []byte) []byte { b[len(b)/2] ^= 1; return b }

// TestHeal: a node whose files are damaged while it runs makes them anew from the others, and so does one that finds
// them damaged when it starts, also when it was stopped in between. While another node is away it takes single entries
// from those that have them. An entry that is damaged at all nodes stays so, and is named with the command; then its files
// are as they were. It counts what it did, over starts.
func TestHeal(t *testing.T) {
	parts(t, healOthers, healSelf)
}

// healOthers: all have the same damage, and another node is away.
func healOthers(t *testing.T, c *trio) {
	const n, bad = healed, 2
	if c.repaired(bad); c.nodes[bad].Care().Repairs != 0 {
		t.Fatalf("a node that is whole: %+v", c.nodes[bad].Care())
	}

	// All have the same damage.
	for i := range 3 {
		c.rot(i, flipMiddle)
	}
	for note := range await.Tries(t) {
		_ = c.logs[bad].HandOver(t.Context())
		err := c.nodes[bad].Repair(t.Context())
		var not *eventlog.NotRepairedError
		if !errors.As(err, &not) {
			t.Fatalf("repair: %v", err)
		}
		if text := err.Error(); strings.Contains(text, " are damaged, too: jetstream/") &&
			regexp.MustCompile(`; entries \d+ are whole neither here nor at (a and b|b and a); troupe cluster export DIR --until \d+ `).
				MatchString(text) {
			break
		}
		note("%v", err)
	}
	if r, err := c.nodes[bad].Check(); err != nil || len(r.Damage) == 0 || c.nodes[bad].Err() != nil {
		t.Fatalf("after a repair that was refused: %+v, %v, %v", r, err, c.nodes[bad].Err())
	}
	c.rot(0, flipMiddle) // back
	c.rot(1, flipMiddle)

	// Another node is away.
	c.stop(0)
	c.repaired(bad)
	c.whole(bad, n)
	if care := c.nodes[bad].Care(); care.Repairs != 1 || care.Repaired.IsZero() || c.nodes[bad].Err() != nil {
		t.Errorf("after a repair with another node away: %+v, %v", care, c.nodes[bad].Err())
	}
	c.start(0)
	c.open(0)
	c.whole(0, n)
}

// healSelf: a node whose files are damaged while it runs, while it is stopped, and while it makes them anew.
func healSelf(t *testing.T, c *trio) {
	const n, bad = healed, 2
	before := c.nodes[bad].Care().Repairs

	c.rot(bad, flipMiddle)
	// While it runs.
	c.repaired(bad)
	c.whole(bad, n)
	// What was wrong is the block, or what the engine made of it: when it reads the block it begins the stream anew, and
	// files of the stream are not there meanwhile.
	care := c.nodes[bad].Care()
	if care.Repairs != before+1 || care.Repaired.IsZero() || !(strings.Contains(care.Damage, ".blk at byte") || strings.Contains(care.Damage, "meta.")) ||
		c.nodes[bad].Err() != nil || c.nodes[bad].Unfinished() != "" {
		t.Errorf("after a repair: %+v, %v", care, c.nodes[bad].Err())
	}

	// At the start; the process ends before the new files are whole, and goes on at the next start.
	c.stop(bad)
	c.rot(bad, func(b []byte) []byte { return b[:len(b)/2] })
	c.start(bad)
	why, err := c.nodes[bad].Unfinished(), c.nodes[bad].Err()
	switch care := c.nodes[bad].Care(); {
	case why != "" && errors.As(err, new(*eventlog.RepairingError)):
		c.stop(bad)
		c.start(bad)
	case care.Repairs != before+2: // on a busy machine all may be done before this line
		t.Fatalf("a start with damaged files: %q, %v, %+v", why, err, care)
	}
	c.open(bad)
	c.repaired(bad)
	c.whole(bad, n)
	if care := c.nodes[bad].Care(); care.Repairs != before+2 {
		t.Errorf("after two more repairs than %d: %+v", before, care)
	}
	chain, err := eventlog.Tail(t.Context(), c.logs[bad], 0, eventlogtest.Keys)
	if err != nil || chain.Last() != n {
		t.Errorf("the log ends with %d: %v", chain.Last(), err)
	}

	// The engine does not start with a damaged snapshot of its own group.
	const group = "_meta_"
	for note := range await.Tries(t) {
		c.stop(bad)
		names, err := filepath.Glob(filepath.Join(c.dirs[bad], "jetstream", "*", "_js_", group, "snapshots", "snap.*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 {
			b, err := os.ReadFile(names[0])
			if err == nil {
				err = os.WriteFile(names[0], flipMiddle(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		note("the engine has no snapshot") // it writes one when it stops
		c.start(bad)
		c.open(bad)
	}
	c.start(bad)
	if what := c.nodes[bad].Unfinished(); !strings.Contains(what, "snapshots/snap.") {
		t.Fatalf("a start with a damaged snapshot: %q", what)
	}
	c.open(bad)
	c.repaired(bad)
	c.whole(bad, n)

	// A walk takes its time.
	begun := time.Now()
	if _, err := c.nodes[bad].Walk(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	quick := time.Since(begun)
	ctx, cancel := context.WithTimeout(t.Context(), 20*quick)
	defer cancel()
	if r, err := c.nodes[bad].Walk(ctx, 1e-9); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a walk at a billionth of the time: %+v, %v", r, err)
	}
	if care := c.nodes[bad].Care(); care.Entry != n || time.Since(care.Verified) > time.Minute {
		t.Errorf("after a walk: %+v", care)
	}
	for _, share := range []float64{0, -1, 1.5} {
		if _, err := c.nodes[bad].Walk(t.Context(), share); err == nil {
			t.Errorf("a walk with the share %v", share)
		}
	}
}

// TestHealAnywhere: places of one node's files of every kind are changed, half of them while it runs. Then the node has
// the log, by itself or by a repair, or does not start and says why; the log that it reads has never other bytes.
func TestHealAnywhere(t *testing.T) {
	t.Parallel()
	rounds := eventlog.Sized(3, 6)
	if os.Getenv("TROUPE_RECORD") != "" {
		rounds = 100
	}
	const n, bad = healed, 2
	c := rotting(t)
	want, err := eventlog.Tail(t.Context(), c.logs[0], 0, eventlogtest.Keys)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := want.Rolling()
	r := rand.New(rand.NewPCG(34, 3))
	var places, by [3]int // by: itself, a repair, a start that made the files anew
	for round := range rounds {
		running := round%2 == 0
		if !running {
			c.stop(bad)
		}
		for range 10 {
			name, b := c.anyFile(r, bad)
			if len(b) == 0 {
				continue
			}
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			places[round%2]++
		}
		if running && round%4 == 0 { // it is found while it runs; otherwise at the next start
			found, err := c.nodes[bad].Check()
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Damage) > 0 {
				by[1]++
				c.repaired(bad)
			}
		}
		if c.nodes[bad] != nil {
			c.stop(bad)
		}
		c.start(bad)
		if c.nodes[bad].Unfinished() != "" {
			by[2]++
		} else {
			by[0]++
		}
		c.open(bad)
		c.repaired(bad)
		c.whole(bad, n)
		chain, err := eventlog.Tail(t.Context(), c.logs[bad], 0, eventlogtest.Keys)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if got, _ := chain.Rolling(); got != end {
			t.Fatalf("round %d: the log ends with %v, it was %v", round, got, end)
		}
	}
	t.Logf("%d places while it ran and %d while it was stopped, in %d rounds: %d repairs while it ran, %d at a start, "+
		"%d starts with files that were whole", places[0], places[1], rounds, by[1], by[2], by[0])
}

// anyFile reads a file of a node's engine, each with the same chance.
func (c *trio) anyFile(r *rand.Rand, i int) (name string, b []byte) {
	c.t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(c.dirs[i], "jetstream"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, p)
		}
		return nil
	})
	if err != nil || len(names) == 0 {
		c.t.Fatalf("no files: %v", err)
	}
	name = names[r.IntN(len(names))]
	if b, err = os.ReadFile(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	return name, b
}

// tryStart is start for nodes that start at the same time and wait for each other.
func (c *trio) tryStart(nodes ...int) {
	c.t.Helper()
	errs := make([]error, 3)
	for note := range await.Tries(c.t) {
		var all sync.WaitGroup
		for _, i := range nodes {
			if c.nodes[i] == nil {
				all.Go(func() {
					c.nodes[i], errs[i] = eventlog.StartNode(context.Background(), c.options(i))
				})
			}
		}
		all.Wait()
		if !slices.ContainsFunc(nodes, func(i int) bool { return c.nodes[i] == nil }) {
			return
		}
		note("%v", errors.Join(errs...))
	}
}

// rotAt changes one place of a node's block files: of the log in three parts the part that is given, so that two nodes
// with different parts do not lack the same entry.
//
// The newest entries are left out: bytes behind the last record are a write that was cut off, until another record stands
// behind them.
func (c *trio) rotAt(r *rand.Rand, i, part int) (kind string) {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(c.dirs[i], "jetstream", "*", "streams", "TROUPE_EV_0", "msgs", "*.blk"))
	if err != nil {
		c.t.Fatal(err)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	var files [][]byte
	size := 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			c.t.Fatal(err)
		}
		files, size = append(files, b), size+len(b)
	}
	const most = 6000 // bytes that are changed; a record has some 1,800
	size -= most
	at := part*size/3 + most/2 + r.IntN(size/3-2*most)
	for k, b := range files {
		if at >= len(b) {
			at -= len(b)
			continue
		}
		switch kind = []string{"a bit", "a bit", "zeros", "noise"}[r.IntN(4)]; kind {
		case "a bit":
			b[at] ^= 1 << r.IntN(8)
		default:
			for j := range b[at:min(len(b), at+1+r.IntN(most))] {
				if b[at+j] = 0; kind == "noise" {
					b[at+j] = byte(r.Uint32())
				}
			}
		}
		if err := os.WriteFile(names[k], b, 0o600); err != nil {
			c.t.Fatal(err)
		}
		break
	}
	return kind
}

// repairing asks each node for the repair under way.
func (c *trio) repairing() (all [3]*eventlog.RepairingError) {
	for i, n := range c.nodes {
		errors.As(n.Err(), &all[i])
	}
	return all
}

// onePauses sees to it that two nodes do not repair their files at once, until done is closed. One whose engine rests for
// more than ten seconds, as on a machine that is very busy, is no longer waited for: the others cannot tell it from one
// that is gone.
func (c *trio) onePauses(done <-chan struct{}) {
	begun := time.Now()
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
		var under []int
		first := c.repairing()
		for i, again := range c.repairing() { // one may end and another one begin while they are asked
			if again != nil && again == first[i] {
				under = append(under, i)
			}
		}
		if len(under) == 0 {
			begun = time.Now()
		}
		if len(under) > 1 && time.Since(begun) < 8*time.Second {
			c.t.Errorf("nodes %v repair their files at once", under)
			return
		}
	}
}

// TestHealTogether: the files of two nodes, or of all three, are damaged at once at different places, while they run and
// while they are stopped. Each takes the entries that it lacks from whichever node has them, and all have the log again.
func TestHealTogether(t *testing.T) {
	rounds := []int{0, 1, 4} // that of three stopped nodes waits half a minute for an election
	if eventlog.Sized(0, 1) == 1 {
		rounds = []int{0, 1, 2, 3, 4, 5}
	}
	if os.Getenv("TROUPE_RECORD") != "" {
		rounds = rounds[:0]
		for round := range 210 {
			rounds = append(rounds, round)
		}
	}
	var mu sync.Mutex
	var running, stopped [4]int // rounds by nodes
	kinds := map[string]int{}
	t.Cleanup(func() {
		t.Logf("%d rounds while they ran (two nodes %d, three %d), %d while they were stopped (%d, %d); places %v",
			running[2]+running[3], running[2], running[3], stopped[2]+stopped[3], stopped[2], stopped[3], kinds)
	})
	var all []func(*testing.T, *trio)
	for _, round := range rounds {
		all = append(all, func(t *testing.T, c *trio) {
			begun := time.Now()
			bad, places := healTogether(t, c, round)
			mu.Lock()
			defer mu.Unlock()
			if round%2 == 1 {
				stopped[len(bad)]++
			} else {
				running[len(bad)]++
			}
			for _, kind := range places {
				kinds[kind]++
			}
			t.Logf("round %d, nodes %v: %v", round, bad, time.Since(begun).Round(100*time.Millisecond))
		})
	}
	parts(t, all...)
}

// healTogether is a round of TestHealTogether. It returns the nodes that were damaged, and how.
func healTogether(t *testing.T, c *trio, round int) (bad []int, kinds []string) {
	want, err := eventlog.Tail(t.Context(), c.logs[0], 0, eventlogtest.Keys)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := want.Rolling()
	r := rand.New(rand.NewPCG(34, uint64(round)))
	split := r.Perm(3)
	bad = r.Perm(3)[:2+round/2%3/2] // every third time all
	if round%2 == 1 {
		for _, i := range bad {
			c.stop(i)
		}
	}
	for _, i := range bad {
		kinds = append(kinds, c.rotAt(r, i, split[i]))
	}
	if round%2 == 1 {
		c.tryStart(bad...)
		for _, i := range bad {
			c.open(i)
		}
	}
	var all, watch sync.WaitGroup
	done := make(chan struct{})
	if round%2 == 0 { // one engine rests at a time
		watch.Go(func() { c.onePauses(done) })
	}
	errs := make([]error, 3)
	for _, i := range bad { // all at once
		all.Go(func() { errs[i] = c.tryRepair(i) })
	}
	all.Wait()
	close(done)
	watch.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("round %d, nodes %v: %v", round, bad, err)
	}
	for i := range 3 {
		c.whole(i, healed)
		chain, err := eventlog.Tail(t.Context(), c.logs[i], 0, eventlogtest.Keys)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if got, _ := chain.Rolling(); got != end {
			t.Fatalf("round %d: the log of node %d ends with %v, it was %v", round, i, got, end)
		}
	}
	return bad, kinds
}
