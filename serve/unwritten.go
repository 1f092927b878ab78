package serve

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"troupe/eventlog"
)

// unwritten counts the entries of a cluster's log that have no effect because no node has written them, and those that
// were declared void. The counts are those of the chain, so they survive a restart and are the same at every node.
type unwritten struct {
	count, newest atomic.Uint64
	declared      atomic.Uint64
	told          time.Time // when the newest line about it was logged; of the applier
	silent        uint64    // entries since then
}

// unwrittenEvery is the least time between two lines about such entries: there may be many.
const unwrittenEvery = time.Second

// note takes the counts of the chain.
func (u *unwritten) note(c *eventlog.Chain) {
	n, at := c.Unwritten()
	u.count.Store(n)
	u.newest.Store(at)
	u.declared.Store(c.Declared())
}

// tell counts an entry that has no effect, and says so.
func (u *unwritten) tell(c *eventlog.Chain, d eventlog.Delivery, logger *slog.Logger) {
	u.note(c)
	if d.Declared > 0 {
		logger.Warn("an entry of the log has no effect, because an operator has declared it void", "entry", d.Seq,
			"why", d.Unwritten)
		return
	}
	if time.Since(u.told) < unwrittenEvery {
		u.silent++
		return
	}
	logger.Error("an entry of the log has no effect, because no node of this cluster has written it: something "+
		"else can write to the log", "entry", d.Seq, "why", d.Unwritten, "entries", u.count.Load(),
		"since_last_line", u.silent)
	u.told, u.silent = time.Now(), 0
}

// lostKey returns why the keys of this process do not fit a cluster's log: it lacks one that entries may stand under.
// Of a key that is missing nothing else can tell: the batches under it would have no effect here and count elsewhere.
func (s *member) lostKey(mine eventlog.IDKeys) error {
	have := map[eventlog.ID]bool{}
	for _, keys := range []map[byte][]byte{mine.Keys, mine.Dropped} {
		for n, key := range keys {
			have[KeyFingerprint(n, key)] = true
		}
	}
	for _, x := range s.fold.Nodes() {
		used := x.Keys[:min(1, len(x.Keys))] // others may have one already that this node will get
		if s.nodes == nil || x.Name == s.nodes.Node {
			used = x.Keys
		}
		for _, k := range used {
			if !have[k] {
				return fmt.Errorf("serve: keys.json lacks a key of fingerprint %v, which node %s has had: what stands "+
					"in the log under it would have no effect here; give every node the same keys.json, with the keys "+
					"that were dropped", k, x.Name)
			}
		}
	}
	return nil
}
