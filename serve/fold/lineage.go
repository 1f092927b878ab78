package fold

import (
	"troupe/eventlog"
)

// Lineage is where an incarnation of a model comes from, and which one goes on from it.
type Lineage struct {
	Since  uint64 // entry that began this incarnation
	Parent eventlog.ID
	Root   eventlog.ID // the incarnation that was created or cloned; rollbacks keep it
	// A rollback made Successor of this one. Rewards of decisions up to entry Cut go there, and of later
	// decisions when KeepLater is set.
	Successor eventlog.ID
	Cut       uint64
	KeepLater bool
}

// present reports whether the incarnation is the newest one.
func (l *Lineage) present() bool { return l.Successor == 0 }

// takes reports whether the successor learns from a decision of entry seq.
func (l *Lineage) takes(seq uint64) bool { return seq <= l.Cut || l.KeepLater }
