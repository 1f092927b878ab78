package serve

import (
	"crypto/sha256"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/timing"
)

// agreed is how far a node is with the newest base that the log names. nodes.mu guards it. The stage follows from it
// and that base; next says what to do in it.
type agreed struct {
	held    fold.Base      // from trimHeld on: the newest base that is in a file of this node, verified
	upTo    uint64         // with held: the entries up to it may go when all have it
	done    uint64         // in trimDone: that base; before, the one before it or 0
	differs uint64         // in trimDiffers: that base
	waits   string         // before trimDone: why the entries before the newest base are still there
	tried   timing.Instant // when the newest trim record was applied here
}

// trimStage is a stage of a node's work on the newest base. It goes from one to the next; a new trim record in the log
// leads from trimNone or trimDone to trimNamed.
type trimStage int

const (
	trimNone    trimStage = iota // the log was not trimmed
	trimUnnamed                  // it came with a base that it does not name yet
	trimNamed                    // it names a base that this node has not verified
	trimDiffers                  // this node computes other bytes for it; it tries again
	trimHeld                     // the base is in a file of this node
	trimDone                     // and the entries that it stands for are gone
)

// stage returns the stage with a base, the newest that the log names, and the entry of the base that the log came with.
func (a *agreed) stage(base fold.Base, imported uint64) trimStage {
	switch {
	case imported > base.Seq:
		return trimUnnamed
	case base.Seq == 0:
		return trimNone
	case a.done == base.Seq:
		return trimDone
	case a.held == base:
		return trimHeld
	case a.differs == base.Seq:
		return trimDiffers
	}
	return trimNamed
}

// trimAction is what a node does next.
type trimAction int

const (
	trimRest    trimAction = iota
	trimName               // write the record of the base that came with the log; the first live node does
	trimObtain             // make the file of the base
	trimAwait              // other nodes have not stated that they have it
	trimYield              // another node removes the entries
	trimRemove             // store the base, remove the entries, finish
	trimFinish             // the entries are gone: say so, and remove files that nothing needs
	trimRestore            // look whether the base is still stored for a node that loses its disk
)

// next returns the action in a stage. first is where the log begins, missing whether a node has not stated the base,
// rank 0 of the first live node, check whether it is time to look at the store.
func (a *agreed) next(stage trimStage, first uint64, missing bool, rank int, check bool) trimAction {
	switch stage {
	case trimUnnamed:
		return trimName
	case trimNamed, trimDiffers:
		return trimObtain
	case trimHeld:
		switch {
		case first > a.upTo:
			return trimFinish
		case missing:
			return trimAwait
		case rank > 0:
			return trimYield
		}
		return trimRemove
	case trimDone:
		if check && rank == 0 {
			return trimRestore
		}
	}
	return trimRest
}

// baseIn returns the base that a node states.
func baseIn(r *eventlog.Checkpoint) (b fold.Base) {
	if b.Seq = r.BaseSeq; b.Seq > 0 {
		b.Sum = [sha256.Size]byte(r.Base)
	}
	return b
}
