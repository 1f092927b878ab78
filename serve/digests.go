package serve

import (
	"fmt"
	"strings"
	"time"

	"troupe/eventlog"
)

// Nodes compare their states. Where the clock of the log enters a new period stands a mark: the same entry for every
// node, because the clock is a part of the fold. Each node computes the digest of all its models there and states it in
// its next checkpoint. A node that differs from a majority whose digests are equal stops for good. Where no majority
// has equal digests nothing says who is right, and all become read-only until one has.

// digests are what the nodes have stated. nodes.mu guards it.
type digests struct {
	marks   []mark          // oldest first, at most marksKept
	differs map[string]bool // nodes whose newest digest was not ours

	agreed  uint64        // the newest mark at which a majority agrees with this node, 0 for none
	doubt   uint64        // a mark at which digests differ and no majority agrees, 0 for none
	refused time.Duration // from when on the node is read-only because of it, after nodes.opened
	stopped *DifferError
}

// mark is an entry after which states are compared.
type mark struct {
	seq  uint64
	said map[string]eventlog.ID // by node, our own too
	// of the budgets there
	prices []eventlog.Price
}

const marksKept = 64

// DifferError is the error of a node whose state is not that of the majority. It has served wrong
// probabilities since some entry; what it recorded is right, because the log says what happened and not the state.
type DifferError struct {
	Seq      uint64 // the entry after which the states were compared
	Own      eventlog.ID
	Majority eventlog.ID
	Nodes    []string // that agree with each other
}

// Error says in one line what is wrong.
func (e *DifferError) Error() string {
	return fmt.Sprintf("the models of this node have the digest %v after entry %d, those of %s have %v: it serves "+
		"nothing more and keeps its files; start it again, it computes its state anew from the log",
		e.Own, e.Seq, strings.Join(e.Nodes, " and "), e.Majority)
}
