package serve

import (
	"fmt"
	"slices"
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

// mark notes the digest of the state after entry seq, where the clock of the log went from before to clock.
func (s *member) mark(seq uint64, before, clock int64) error {
	n := s.nodes
	period := int64(2 * n.Every) // every node writes a checkpoint in each
	if s.fold.Nodes() == nil || before/period == clock/period {
		return nil
	}
	d, ok, err := s.fold.Combined()
	if err != nil || !ok { // a model lags: the next mark
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.digests.marks) == marksKept {
		n.digests.marks = slices.Delete(n.digests.marks, 0, 1)
	}
	n.digests.marks = append(n.digests.marks, mark{seq, map[string]eventlog.ID{n.Node: d}, s.fold.Prices()})
	return nil
}

// state returns what the next checkpoint states: the newest mark and the digest and the prices there, 0 and 0 for none.
func (n *nodes) state() (seq uint64, digest eventlog.ID, prices []eventlog.Price) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := len(n.digests.marks); k > 0 {
		m := n.digests.marks[k-1]
		return m.seq, m.said[n.Node], m.prices
	}
	return 0, 0, nil
}

// compare takes what a node states. An error means that this node has to stop. news is what the operator
// should know.
func (n *nodes) compare(r *eventlog.Checkpoint) (news string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := &n.digests
	i := slices.IndexFunc(g.marks, func(m mark) bool { return m.seq == r.Seq })
	if r.Combined == 0 || r.Node == n.Node || i < 0 || !slices.Contains(n.Nodes, r.Node) {
		return "", nil
	}
	m := g.marks[i]
	m.said[r.Node] = r.Combined
	own := m.said[n.Node]
	if g.differs == nil {
		g.differs = map[string]bool{}
	}
	if differs := r.Combined != own; differs != g.differs[r.Node] {
		g.differs[r.Node] = differs
		news = fmt.Sprintf("after entry %d the models of node %s have the digest %v, ours have %v", m.seq, r.Node,
			r.Combined, own)
		if !differs {
			news = fmt.Sprintf("after entry %d the models of node %s have our digest again", m.seq, r.Node)
		}
	}
	groups := map[eventlog.ID][]string{}
	for _, name := range n.Nodes {
		if d, ok := m.said[name]; ok {
			groups[d] = append(groups[d], name)
		}
	}
	majority := len(n.Nodes)/2 + 1
	for d, names := range groups {
		if len(names) < majority {
			continue
		}
		if d != own {
			g.stopped = &DifferError{m.seq, own, d, names}
			return news, g.stopped
		}
		if g.agreed = max(g.agreed, m.seq); g.doubt <= m.seq {
			g.doubt = 0
		}
		return news, nil
	}
	if len(groups) > 1 && m.seq > g.agreed {
		now := time.Since(n.opened)
		if g.doubt == 0 {
			g.refused = now + 3*n.Every // the others may not have stated theirs yet
		}
		if len(m.said) == len(n.Nodes) {
			g.refused = min(g.refused, now)
		}
		g.doubt = max(g.doubt, m.seq)
	}
	return news, nil
}

// doubtful is the error of calls while nothing says whose state is right.
func (n *nodes) doubtful() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := &n.digests
	if g.doubt == 0 || time.Since(n.opened) < g.refused {
		return nil
	}
	var others []string
	for _, name := range n.Nodes {
		if g.differs[name] {
			others = append(others, name)
		}
	}
	return &Error{Code: Unavailable, RetryAfter: time.Second, Want: fmt.Sprintf(
		"read-only: after entry %d the models of this node differ from those of %s, and no majority agrees", g.doubt,
		strings.Join(others, " and "))}
}

// verdict says how this node's digests compare: "agrees" with a majority, "differs" from one, "doubt" without one, or
// nothing when they were not compared yet. The caller holds mu.
func (n *nodes) verdict() string {
	switch g := &n.digests; {
	case g.stopped != nil:
		return "differs"
	case g.doubt != 0:
		return "doubt"
	case g.agreed != 0:
		return "agrees"
	}
	return ""
}
