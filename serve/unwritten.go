package serve

import (
	"log/slog"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/timing"
)

// unwritten counts the entries of a cluster's log that have no effect because no node has written them, and those that
// were declared void. The counts are those of the chain, so they survive a restart and are the same at every node.
type unwritten struct {
	time          timing.Clock
	count, newest atomic.Uint64
	declared      atomic.Uint64
	told          timing.Instant // when the newest line about it was logged; of the applier
	silent        uint64         // entries since then
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
	if u.time.Since(u.told) < unwrittenEvery {
		u.silent++
		return
	}
	logger.Error("an entry of the log has no effect, because no node of this cluster has written it: something "+
		"else can write to the log", "entry", d.Seq, "why", d.Unwritten, "entries", u.count.Load(),
		"since_last_line", u.silent)
	u.told, u.silent = u.time.Mark(), 0
}
