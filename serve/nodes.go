package serve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/timing"
)

const (
	nodeLive   = 3 * time.Second // a node without a checkpoint for longer is not live
	contactFor = 5 * time.Second // without a checkpoint of its own for longer, a node is cut off
	closeWait  = 2 * time.Second // for what a node has not stored when it closes
	clockOff   = time.Second     // from the median of the live nodes; beyond it a node is not ready
	// between two times that a node with damaged files or a slow disk lets another one lead, at most
	lastAgain   = time.Minute
	slowSync    = time.Second / 2  // of a disk that is slow
	handOverFor = 10 * time.Second // a slow disk makes the engine slow
	slowTwice   = 2                // checkpoints of a leader with a slow disk before it lets another one lead
)

// nodes is what a server knows of its cluster beside the fold. It is no state.
type nodes struct {
	Cluster
	print   eventlog.ID                   // of the keys
	keySet  []eventlog.ID                 // of each of them, that of the current one first
	numbers []byte                        // of the keys, in that order
	rolling atomic.Pointer[eventlog.Head] // the newest entry that was applied
	clock   atomic.Int64                  // of the log, as far as it was applied
	contact atomic.Int64                  // when the newest checkpoint that came back was written, ns of opened; noContact

	// the highest log version that this node may write, which its checkpoints say; set before they begin
	readable   uint16
	toldBehind bool // that others cannot read it; of nodeLoop

	drained atomic.Bool
	damaged atomic.Pointer[string] // what is wrong with the files of its replica, nil when nothing is known
	news    chan struct{}          // damaged has changed
	mend    chan struct{}          // it is damaged
	// why its files are still damaged, nil when nothing was tried
	unmended atomic.Pointer[string]

	met   chan struct{} // closed with the first contact
	said  bool          // a checkpoint of this process is applied, so the others know its keys; of the applier
	first uint64        // entry of that checkpoint; of the applier
	own   eventlog.ID   // the writer of this process in its newest checkpoint; of the applier

	time      timing.Clock
	opened    timing.Instant
	mu        sync.Mutex
	leader    string // of the log, as it was known last
	elections uint64 // how often that was another one
	heard     map[string]heard
	replicas  []eventlog.Replica
	asked     time.Duration     // when these were asked for, since opened
	groups    bool              // the engine has other groups, which are asked for
	behind    map[string]string // in these, by node
	behindAt  time.Duration
	digests   digests
	agreed    agreed

	members atomic.Pointer[[]string] // see list
	known   atomic.Bool              // the log has that list
	joined  atomic.Bool              // this node was on it
	gone    []string                 // nodes that were removed while this process ran; mu
	change  string                   // what a change of the nodes waits for; mu
	judged  atomic.Pointer[[]string] // the list for which change is
	settled bool                     // this node has brought the engine to its list; mu

	unsteady time.Duration // until when offsets do not count, since opened
}

// heard is when a node's newest checkpoint was applied here, and its clock less ours then. All nodes' checkpoints
// take the same way, so the differences of two offsets are those of two clocks, about.
type heard struct {
	at     time.Duration // since nodes.opened
	offset time.Duration
	lag    uint64    // entries that it had not applied when it wrote its checkpoint
	steady bool      // the offset counts: the log took entries without a stop then
	base   fold.Base // the newest base of a trimmed log that it has, without its record

	readable uint16 // the highest log version that it can read
}

func newNodes(c Cluster, keys eventlog.IDKeys, clock timing.Clock) (*nodes, error) {
	if c.Every == 0 {
		c.Every = time.Second
	}
	if len(c.Nodes) == 0 || !slices.Contains(c.Nodes, c.Node) {
		return nil, fmt.Errorf("serve: node %q is not one of the cluster's, which are %s", c.Node,
			strings.Join(c.Nodes, ", "))
	}
	n := &nodes{Cluster: c, print: fingerprint(keys), time: clock, opened: clock.Mark(), heard: map[string]heard{},
		news: make(chan struct{}, 1), mend: make(chan struct{}, 1), met: make(chan struct{})}
	if err := n.Replica.check(); err != nil {
		return nil, err
	}
	n.members.Store(&c.Nodes)
	if c.Damage != "" {
		n.damaged.Store(&c.Damage)
		n.mend <- struct{}{}
	}
	n.numbers = append([]byte{keys.Current}, slices.DeleteFunc(slices.Sorted(maps.Keys(keys.Keys)),
		func(k byte) bool { return k == keys.Current })...)
	for _, k := range n.numbers {
		n.keySet = append(n.keySet, KeyFingerprint(k, keys.Keys[k]))
	}
	return n, nil
}

// passed is how long ago this process began: what heard and contact count by. It never steps back.
func (n *nodes) passed() time.Duration { return n.time.Since(n.opened) }

// chain returns a chain that begins in the middle of the log; n is nil on a single machine.
func (n *nodes) chain(past *fold.History, seq uint64) *eventlog.Chain {
	c := past.Chain(seq)
	if n != nil && seq > 1 && seq > n.Imported {
		c.Several()
	}
	return c
}

// appliedHead is the head that the committer's batches name.
func (n *nodes) appliedHead() eventlog.Head { return *n.rolling.Load() }

// advance notes the end of what was applied, and the clock of the log there.
func (n *nodes) advance(c *eventlog.Chain, clock int64) {
	n.clock.Store(clock)
	if h, ok := c.Rolling(); ok {
		n.rolling.Store(&h)
	}
}

// hear notes a checkpoint, which is in entry seq.
func (n *nodes) hear(r *eventlog.Checkpoint, seq uint64, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, offset := n.passed(), time.Duration(r.Time-now.UnixNano())
	if r.Node == n.Node && -offset > slowCheckpoint {
		// The way of this checkpoint was an election, or the log stood still: that is no sign of a clock. Others that
		// came in the meantime, or come with it, were held up too.
		n.unsteady = at + slowCheckpoint
		for name, h := range n.heard {
			if h.at > at+offset {
				h.steady = false
				n.heard[name] = h
			}
		}
	}
	lag := seq - min(seq, r.Applied+1)
	n.heard[r.Node] = heard{at, offset, lag, at >= n.unsteady, baseIn(r), uint16(r.Readable)}
}

// slowCheckpoint is how long a checkpoint of this node's own takes at most while clocks can be compared. Its delay is
// the difference of two times of one clock.
const slowCheckpoint = time.Second

// live returns when the live nodes were heard of. The caller holds mu.
func (n *nodes) live() map[string]heard {
	out := map[string]heard{}
	now := n.passed()
	list := n.list()
	for name, h := range n.heard {
		if now-h.at <= nodeLive && (name == n.Node || slices.Contains(list, name)) {
			out[name] = h
		}
	}
	return out
}

// rank is how many live nodes come before this one; the node with rank 0 closes windows.
func (n *nodes) rank() (rank int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	live := n.live()
	for _, name := range n.list() {
		if name == n.Node {
			break
		}
		if _, ok := live[name]; ok {
			rank++
		}
	}
	return rank
}

// deviation is how far this node's clock is from the median of the live nodes', 0 when less than a majority is live.
// Only offsets count that were taken while the log had a leader.
func (n *nodes) deviation() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	live := n.live()
	maps.DeleteFunc(live, func(_ string, h heard) bool { return !h.steady })
	own, ok := live[n.Node]
	if !ok || len(live) <= len(n.list())/2 {
		return 0
	}
	offsets := []time.Duration{}
	for _, h := range live {
		offsets = append(offsets, h.offset)
	}
	slices.Sort(offsets)
	median := offsets[len(offsets)/2]
	if len(offsets)%2 == 0 { // of two clocks, neither is right
		median = (median + offsets[len(offsets)/2-1]) / 2
	}
	return own.offset - median
}

// reached notes that what this node wrote at a time since opened has come back.
func (n *nodes) reached(at time.Duration) {
	for old := n.contact.Load(); int64(max(0, at)) > old; old = n.contact.Load() {
		if n.contact.CompareAndSwap(old, int64(max(0, at))) {
			if old == noContact {
				close(n.met)
			}
			return
		}
	}
}

// await waits until this node has reached a majority, at most for a moment: a node in a cluster that is up is ready
// when Open returns, and one in a cluster that is not up says so itself.
func (n *nodes) await(ctx context.Context) {
	limit := n.time.Timer(time.Second)
	defer limit.Stop()
	select {
	case <-n.met:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// noContact is the contact of a node from its start until a checkpoint of its own comes back: what it has may be old.
const noContact = -1

// silence is how long ago this node wrote the newest checkpoint that came back, or how long ago it began.
func (n *nodes) silence() time.Duration {
	contact := n.contact.Load()
	if contact == noContact {
		contact = 0
	}
	return n.passed() - time.Duration(contact)
}

// cutOff is the error of calls while the node has no contact to a majority.
func (n *nodes) cutOff() error {
	if n.drained.Load() {
		return errDrained
	}
	if err := n.trusted(); err != nil {
		return err
	}
	return cmp.Or(n.stale(), n.notYet())
}

// trusted is the error of calls that write while the servers of the log cannot be relied on.
func (n *nodes) trusted() error {
	if n.Trusted == nil {
		return nil
	}
	if err := n.Trusted(); err != nil {
		return &Error{Code: Unavailable, Want: "read-only: " + err.Error(), RetryAfter: time.Second, Err: err}
	}
	return nil
}

// stale is the error of every call, also of one that only reads, while the node may be more than contactFor behind: its
// newest checkpoint that it has applied is older. A process that was stopped for a while finds itself here.
func (n *nodes) stale() error {
	if d := n.silence(); n.contact.Load() == noContact {
		return &Error{Code: Unavailable, Want: fmt.Sprintf("this node has begun %.0f s ago and has not reached a "+
			"majority of the cluster since%s", d.Seconds(), n.why(d)), RetryAfter: time.Second}
	} else if d > contactFor {
		return &Error{Code: Unavailable, Want: fmt.Sprintf("this node has not reached a majority of the cluster for "+
			"%.0f s%s", d.Seconds(), n.why(d)), RetryAfter: time.Second}
	}
	return nil
}

// electionFor is how long an election takes at most while the nodes that make a majority are connected.
const electionFor = 20 * time.Second

// why says what keeps this node from a majority, as far as it knows: who is missing; and where those that are here are
// enough, that some of them do not vote, because their replicas are empty or behind.
func (n *nodes) why(silent time.Duration) string {
	if n.Cluster.Missing == nil {
		return ""
	}
	missing := n.Cluster.Missing()
	names := strings.Join(missing, " and ")
	switch most := len(n.list()) / 2; {
	case len(missing) == 0:
		return ""
	case len(missing) > most:
		return "; it has no connection to " + names
	case silent > electionFor:
		return "; it has no connection to " + names + ", and a replica of the others is empty or lacks entries, so it does " +
			"not vote: the log needs the disk of " + names + "; start the server there. If that disk is gone, " +
			"docs/reference/cluster.md says what to do"
	}
	return "; it has no connection to " + names
}

var errDrained = &Error{Code: Unavailable, Want: "this node is drained and may be stopped; call another one",
	RetryAfter: time.Second}

// checkpoint returns the record of one.
func (n *nodes) checkpoint(now int64, applied uint64) *eventlog.Checkpoint {
	c := &eventlog.Checkpoint{Time: now, Node: n.Node, Applied: applied, Readable: uint32(n.readable), Keys: n.print,
		KeySet: n.keySet, Vouched: n.Vouched}
	c.Seq, c.Combined, c.Prices = n.state()
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.agreed.held; b.Seq > 0 {
		c.Base, c.BaseSeq = b.Sum[:], b.Seq
	}
	return c
}

// noteTrim notes that the log names another base now. On a single machine there is nothing to note.
func (n *nodes) noteTrim() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agreed.tried = n.time.Mark()
}

// trimmedLately reports whether a node has written the record of a trim for less than Options.TrimEvery.
func (n *nodes) trimmedLately(every time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agreed.tried != 0 && n.time.Since(n.agreed.tried) < every*9/10
}

// readableByAll returns the highest log version that every node has said it can read, 0 while one is not live, and the
// live nodes that cannot read what this one can.
func (n *nodes) readableByAll() (version uint16, behind []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	live := n.live()
	version = n.readable
	for _, name := range n.list() {
		h, ok := live[name]
		if version = min(version, h.readable); !ok {
			version = 0
		}
		if ok && h.readable < n.readable {
			behind = append(behind, name)
		}
	}
	return version, behind
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
	if r.Combined == 0 || r.Node == n.Node || i < 0 || !slices.Contains(n.list(), r.Node) {
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
	for _, name := range n.list() {
		if d, ok := m.said[name]; ok {
			groups[d] = append(groups[d], name)
		}
	}
	majority := len(n.list())/2 + 1
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
		now := n.passed()
		if g.doubt == 0 {
			g.refused = now + 3*n.Every // the others may not have stated theirs yet
		}
		if len(m.said) == len(n.list()) {
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
	if g.doubt == 0 || n.passed() < g.refused {
		return nil
	}
	var others []string
	for _, name := range n.list() {
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

// list returns the nodes, in the order of the log.
func (n *nodes) list() []string { return *n.members.Load() }

// outside returns why this node is not on the list yet, empty when it is.
func (n *nodes) outside() string {
	if slices.Contains(n.list(), n.Node) {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	text := "this node is not one of the cluster's yet"
	if n.change != "" {
		text += ": " + n.change
	}
	return text
}

// notYet is the error of calls at a node that is not on the list yet.
func (n *nodes) notYet() error {
	if text := n.outside(); text != "" {
		return &Error{Code: Unavailable, Want: text, RetryAfter: time.Second}
	}
	return nil
}

// others returns which of the nodes beside this one are live, and which are not.
func (n *nodes) others(names []string) (live, silent []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	here := n.live()
	for _, name := range names {
		if name == n.Node {
			continue
		}
		if _, ok := here[name]; ok {
			live = append(live, name)
		} else {
			silent = append(silent, name)
		}
	}
	return live, silent
}
