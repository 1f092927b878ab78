package serve

import (
	"maps"
	"math/rand/v2"
	"testing"

	"troupe/serve/fold"
)

// usually returns what a test does with TROUPE_LONG, or what it does without.
func usually(inLong, otherwise int) int {
	if long() {
		return inLong
	}
	return otherwise
}

// trimWorld is a cluster on which stage and next are played: a log of trim records and statements, entries that are
// there from first on, a store of bases, and nodes that have applied the log up to a place of their own. Nothing of
// Server is in it.
type trimWorld struct {
	t     *testing.T
	r     *rand.Rand
	seed  uint64
	log   []trimEntry
	first uint64
	store map[uint64]bool
	nodes []*trimNode
	done  int // removals
}

// trimEntry is a trim record, or a node's statement that it has a base.
type trimEntry struct {
	node int // -1: a trim record
	base uint64
}

type trimNode struct {
	applied int
	agreed  agreed
	files   map[uint64]bool
	lost    map[uint64]bool // files that went with its disk
}

// upTo is the last entry that a base lets go: windows that were open then need a few before it.
func trimUpTo(base uint64) uint64 { return base - base%7 }

// sees returns the newest base that a node knows of, and the base that each node has stated as it knows.
func (w *trimWorld) sees(n *trimNode) (base uint64, stated []uint64) {
	stated = make([]uint64, len(w.nodes))
	for _, e := range w.log[:n.applied] {
		if e.node >= 0 {
			stated[e.node] = e.base
		} else {
			base = max(base, e.base)
		}
	}
	return base, stated
}

// obtain makes the file of a base: from the whole log, or from it or one before it, in a file or in the store.
func (w *trimWorld) obtain(n *trimNode, base uint64) bool {
	whole := w.first == 1
	for _, have := range []map[uint64]bool{n.files, w.store} {
		for from := range have {
			whole = whole || from <= base && w.first <= from+1
		}
	}
	if !whole {
		return false
	}
	n.files[base] = true
	n.agreed.held, n.agreed.upTo = fold.Base{Seq: base}, trimUpTo(base)
	return true
}

// tend is one action of a node that believes to have a rank.
func (w *trimWorld) tend(i, rank int) {
	n := w.nodes[i]
	base, stated := w.sees(n)
	missing := false
	for _, b := range stated {
		missing = missing || b != base
	}
	switch n.agreed.next(n.agreed.stage(fold.Base{Seq: base}, 0), w.first, missing, rank, true) {
	case trimObtain:
		if newest := w.newestStored(); !w.obtain(n, base) && !(newest > base) {
			w.t.Fatalf("seed %d: node %d cannot have the base %d: the log begins with %d", w.seed, i, base, w.first)
		}
	case trimRemove:
		for j, m := range w.nodes {
			if !m.files[base] && !m.lost[base] {
				w.t.Fatalf("seed %d: node %d removes entries up to %d, and node %d does not have the base %d", w.seed,
					i,
					trimUpTo(base), j, base)
			}
		}
		w.store[base] = true
		w.done++
		w.first = max(w.first, trimUpTo(base)+1)
		for b := range w.store {
			if b < base {
				delete(w.store, b)
			}
		}
		n.agreed.done = base
	case trimFinish:
		if w.first <= trimUpTo(base) {
			w.t.Fatalf("seed %d: node %d is done with the base %d, and the log begins with %d", w.seed, i, base,
				w.first)
		}
		n.agreed.done = base
		for b := range n.files {
			if b < base {
				delete(n.files, b)
			}
		}
	case trimRestore:
		w.store[base] = true
	}
}

func (w *trimWorld) newestStored() (newest uint64) {
	for b := range w.store {
		newest = max(newest, b)
	}
	return newest
}

// loseDisk starts a node with an empty disk: on the whole log, or on the newest base in the store.
func (w *trimWorld) loseDisk(i int) {
	n := w.nodes[i]
	lost := n.lost
	maps.Copy(lost, n.files)
	*n = trimNode{files: map[uint64]bool{}, lost: lost}
	if w.first == 1 {
		return
	}
	base := w.newestStored()
	if base+1 < w.first {
		w.t.Fatalf("seed %d: a node with an empty disk has nothing to begin with: the log begins with %d, the newest "+
			"base "+
			"is %d", w.seed, w.first, base)
	}
	n.files[base] = true
	for k, e := range w.log {
		if e.node < 0 && e.base == base {
			n.applied = k + 1
		}
	}
}

func (w *trimWorld) step() {
	i := w.r.IntN(len(w.nodes))
	n := w.nodes[i]
	switch k := w.r.IntN(100); {
	case k < 40:
		if n.applied < len(w.log) {
			n.applied++
		}
	case k < 75:
		w.tend(i, w.r.IntN(2))
	case k < 92:
		w.log = append(w.log, trimEntry{i, n.agreed.held.Seq})
	case k < 96: // the log takes a proposal beyond the base that it names; another one is refused there
		base, _ := w.sees(n)
		if s := n.agreed.stage(fold.Base{Seq: base}, 0); s == trimNone || s == trimDone {
			to := base + 10 + w.r.Uint64N(20)
			for _, e := range w.log[n.applied:] {
				if e.node < 0 {
					return
				}
			}
			n.files[to] = true
			w.log = append(w.log, trimEntry{-1, to})
		}
	case k < 99:
		n.agreed = agreed{} // a restart
	default:
		w.loseDisk(i)
	}
}

// TestTrimModel plays random orders of applying, stating, acting, proposing, restarts and lost disks on three and five
// nodes, with nodes that are wrong about who is first. No entry is removed while a node lacks the base, unless it has
// lost its disk, and then the store has the base; a node that begins anew can always begin; and when all are heard, all
// are done.
func TestTrimModel(t *testing.T) {
	worlds := uint64(usually(20_000, 400))
	removals := 0
	for seed := range worlds {
		w := &trimWorld{t: t, r: rand.New(rand.NewPCG(seed, 27)), seed: seed, first: 1, store: map[uint64]bool{}}
		for range 3 + 2*(seed%2) {
			w.nodes = append(w.nodes, &trimNode{files: map[uint64]bool{}, lost: map[uint64]bool{}})
		}
		for range 300 {
			w.step()
		}
		for range 8 { // all live, all heard, one is first
			for i, n := range w.nodes {
				n.applied = len(w.log)
				w.tend(i, i)
			}
			for i, n := range w.nodes {
				w.log = append(w.log, trimEntry{i, n.agreed.held.Seq})
			}
		}
		for i, n := range w.nodes {
			n.applied = len(w.log)
			base, _ := w.sees(n)
			if s := n.agreed.stage(fold.Base{Seq: base}, 0); base > 0 && (s != trimDone || w.first != trimUpTo(base)+
				1) {
				t.Fatalf("seed %d: node %d is in stage %d with the base %d, the log begins with %d", seed, i, s, base,
					w.first)
			}
		}
		removals += w.done
	}
	t.Logf("%d worlds, %d orders, %d removals", worlds, 300*worlds, removals)
	if removals < int(worlds) {
		t.Errorf("%d removals in %d worlds: the model does not get there", removals, worlds)
	}
}

// TestTrimStages: each stage by what it stands for, in the order in which they are looked at.
func TestTrimStages(t *testing.T) {
	base := fold.Base{Seq: 20, Record: 25, Sum: [32]byte{1}}
	other := base
	other.Sum[0] = 2
	for _, c := range []struct {
		a        agreed
		base     fold.Base
		imported uint64
		want     trimStage
	}{
		{agreed{}, fold.Base{}, 0, trimNone},
		{agreed{}, fold.Base{}, 7, trimUnnamed},
		{agreed{done: 5}, base, 30, trimUnnamed},
		{agreed{}, base, 20, trimNamed},
		{agreed{done: 10, held: fold.Base{Seq: 10}}, base, 0, trimNamed},
		{agreed{held: other}, base, 0, trimNamed}, // the same entry, other bytes
		{agreed{differs: 20}, base, 0, trimDiffers},
		{agreed{differs: 20, held: base}, base, 0, trimHeld}, // the store had the right bytes
		{agreed{held: base, done: 20}, base, 0, trimDone},
	} {
		if got := c.a.stage(c.base, c.imported); got != c.want {
			t.Errorf("%+v with %d and %d: stage %d, want %d", c.a, c.base.Seq, c.imported, got, c.want)
		}
	}
}

// TestTrimActions: the action in each stage, where one thing is different from the line before.
func TestTrimActions(t *testing.T) {
	a := agreed{held: fold.Base{Seq: 20}, upTo: 14}
	for _, c := range []struct {
		stage   trimStage
		first   uint64
		missing bool
		rank    int
		check   bool
		want    trimAction
	}{
		{trimNone, 1, true, 0, true, trimRest},
		{trimUnnamed, 5, true, 2, true, trimName},
		{trimNamed, 1, false, 0, true, trimObtain},
		{trimDiffers, 1, false, 0, true, trimObtain},
		{trimHeld, 1, true, 0, true, trimAwait},
		{trimHeld, 1, false, 0, true, trimRemove},
		{trimHeld, 1, false, 1, true, trimYield},
		{trimHeld, 14, false, 0, true, trimRemove}, // one entry is left
		{trimHeld, 15, true, 1, true, trimFinish},
		{trimDone, 15, false, 0, true, trimRestore},
		{trimDone, 15, false, 0, false, trimRest},
		{trimDone, 15, false, 1, true, trimRest},
	} {
		if got := a.next(c.stage, c.first, c.missing, c.rank, c.check); got != c.want {
			t.Errorf("%+v: action %d", c, got)
		}
	}
}
