package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/recent"
)

// Cluster makes a server one of several that share a log. Each decides, takes rewards and folds the whole log; what
// counts is decided by the fold (package fold, nodes.go). Options.Log and Keys are needed.
type Cluster struct {
	Node  string   // name of this node
	Nodes []string // names of all nodes, in one order everywhere
	// Imported is the last entry that came from before the cluster: nodes that only it knows are replaced by these.
	Imported uint64
	// ImportedBase is the base that came with a log that was trimmed, its Seq 0 for none. It is in the store of the
	// log, and becomes a base that the log names.
	ImportedBase eventlog.Base
	// Trusted returns why the servers of the log cannot be relied on at present, nil when they can: then nothing is
	// written and the node is not ready. nil for servers of our own. Vouched is who vouches for them, empty when they
	// report themselves.
	Trusted func() error
	Vouched string
	// Replica is what the node does for the files of its replica; none where the log is at servers of others.
	Replica
	// Missing returns the nodes that this one has no connection to. It may be nil.
	Missing func() []string
	// SyncTime measures what the disk of the node's replica takes for a small write and its sync. A node that leads and
	// whose disk is slow lets another one lead. It may be nil.
	SyncTime func() (time.Duration, error)
	// Certified is until when the certificate that the node shows the others is valid; zero for none.
	Certified time.Time
	// Every is how often the node writes a checkpoint, which is its clock, its sign of life and its proof that it
	// reaches a majority; default 1 s.
	Every time.Duration
}

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

	opened    time.Time // for the monotonic clock
	mu        sync.Mutex
	leader    string // of the log, as it was known last
	elections uint64 // how often that was another one
	heard     map[string]heard
	replicas  []eventlog.Replica
	digests   digests
	agreed    agreed

	unsteady time.Duration // until when offsets do not count, since opened
}

// heard is when a node's newest checkpoint was applied here, and its clock less ours then. All nodes' checkpoints
// take the same way, so the differences of two offsets are those of two clocks, about.
type heard struct {
	at     time.Duration // since nodes.opened
	offset time.Duration
	steady bool      // the offset counts: the log took entries without a stop then
	base   fold.Base // the newest base of a trimmed log that it has, without its record

	readable uint16 // the highest log version that it can read
}

func newNodes(c Cluster, keys eventlog.IDKeys) (*nodes, error) {
	if c.Every == 0 {
		c.Every = time.Second
	}
	if len(c.Nodes) == 0 || !slices.Contains(c.Nodes, c.Node) {
		return nil, fmt.Errorf("serve: node %q is not one of the cluster's, which are %s", c.Node,
			strings.Join(c.Nodes, ", "))
	}
	n := &nodes{Cluster: c, print: fingerprint(keys), opened: time.Now(), heard: map[string]heard{},
		news: make(chan struct{}, 1), mend: make(chan struct{}, 1), met: make(chan struct{})}
	if err := n.Replica.check(); err != nil {
		return nil, err
	}
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

// fingerprint names the keys of event ids without telling them.
func fingerprint(k eventlog.IDKeys) eventlog.ID {
	h := sha256.New()
	h.Write([]byte("troupe keys\n"))
	for _, n := range slices.Sorted(maps.Keys(k.Keys)) {
		sum := sha256.Sum256(k.Keys[n])
		h.Write(append([]byte{n}, sum[:]...))
	}
	return eventlog.ID(binary.LittleEndian.Uint64(h.Sum(nil))) | 1
}

// member is this server as a node of a cluster. On a single machine its nodes are nil, and it does nothing.
type member struct {
	*lifetime
	*state
	*writer
	recent    *recent.Decisions
	unwritten *unwritten
	replica   replicaCheck
}

// fits returns why this node may not go on with the log, nil when it may.
func (s *member) fits() error {
	n := s.nodes
	names, old := s.namesOfLog()
	single := false // checkpoints name single keys
	for _, x := range s.fold.Nodes() {
		single = single || len(x.Keys) > 0
	}
	switch keys := s.fold.KeysOfNodes(); {
	case old:
		return nil
	case names != nil && !slices.Equal(names, n.Nodes):
		return fmt.Errorf("serve: the log is that of the nodes %s, this node has %s: give every node the same "+
			"cluster.toml, or the same --nats-nodes", strings.Join(names, ", "), strings.Join(n.Nodes, ", "))
	case !single && keys != 0 && keys != n.print:
		return fmt.Errorf("serve: the keys of this node have the fingerprint %v, the cluster's have %v: give every "+
			"node the same keys.json", n.print, keys)
	}
	return nil
}

// fitKeys returns why the keys of this node do not fit those of the others, nil when they do: each node must
// recognise the event ids of each other one. The files may differ while keys are rotated.
func (s *member) fitKeys() error {
	n := s.nodes
	if _, old := s.namesOfLog(); old { // of a cluster that was before the import
		return nil
	}
	for _, x := range s.fold.Nodes() {
		switch {
		case x.Name == n.Node || len(x.Keys) == 0:
		case !slices.Contains(n.keySet, x.Keys[0]):
			return fmt.Errorf("serve: node %s makes event ids with a key of fingerprint %v, which is not in "+
				"keys.json of this node: give every node the same keys.json", x.Name, x.Keys[0])
		case !slices.Contains(x.Keys, n.keySet[0]):
			return fmt.Errorf("serve: keys.json of this node makes event ids with key %d of fingerprint %v, which "+
				"node %s does not have: give every node the same keys.json; a new key must be on all nodes before "+
				"one uses it", n.numbers[0], n.keySet[0], x.Name)
		}
	}
	return nil
}

// namesOfLog returns the nodes that the log knows, and whether they are those of an imported log, which ours replace.
func (s *member) namesOfLog() (names []string, old bool) {
	newest := uint64(0)
	for _, x := range s.fold.Nodes() {
		names, newest = append(names, x.Name), max(newest, x.Seq)
	}
	return names, names != nil && s.nodes != nil && newest <= s.nodes.Imported && !slices.Equal(names, s.nodes.Nodes)
}

// leave makes the log of a cluster that of this single machine: the rules of package fold for clusters, and their
// clock, end here.
func (s *writer) leave(ctx context.Context, names []string) {
	r := &eventlog.Control{Act: eventlog.Members, Digest: fold.NamesDigest(names), Time: s.opt.Now().UnixNano()}
	if _, err := s.append(ctx, r); err != nil {
		s.opt.Logger.Warn("the log is still a cluster's, whose clock stands still: no window closes", "error",
			err.Error())
		return
	}
	s.opt.Logger.Info("the log of a cluster is that of a single machine now", "nodes", strings.Join(names, ", "))
}

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

// hear takes the records of an entry that another node, or this one, has written. An error means that this node may
// not go on.
func (s *member) hear(d eventlog.Delivery) error {
	if d.Repeat {
		return nil
	}
	concerns, first := false, false // the cluster; the first checkpoint of this process
	own := d.Epoch == s.committer.Epoch()
	if d.Version > s.committer.Version() { // another node has raised the log, because all can read it
		s.committer.Raise(d.Version)
		s.opt.Logger.Info("the log was raised; earlier programs cannot read it any more", "version", d.Version)
	}
	if own { // it was sealed by this clock
		n := s.nodes
		here := time.Since(n.opened) // before the clock is asked: the process may stand still in between
		age := max(0, s.opt.Now().Sub(time.Unix(0, d.Time)))
		n.reached(here - age)
	}
	for i, r := range d.Events() {
		switch r := r.(type) {
		case *eventlog.Checkpoint:
			if r.Node != "" {
				s.nodes.hear(r, s.opt.Now())
				concerns = true
				if own && r.Node == s.nodes.Node {
					first, s.nodes.said = !s.nodes.said, true
				}
				news, err := s.nodes.compare(r)
				if news != "" {
					s.opt.Logger.Warn("digests", "says", news)
				}
				if err != nil {
					return err
				}
			}
		case *eventlog.Control:
			concerns = concerns || r.Act == eventlog.Members
		case *eventlog.Decision:
			if own {
				continue
			}
			// A reward may come to any node. The memory of a delivery is used again.
			k := recent.Of(d.Seq, r)
			k.X, k.Atoms = slices.Clone(k.X), slices.Clone(k.Atoms)
			s.recent.Put(d.Key(i), k)
		}
	}
	if concerns {
		if err := s.fits(); err != nil {
			return err
		}
	}
	if first { // of two that started at once with other keys, the second one in the log stops
		return s.fitKeys()
	}
	return nil
}

// TwiceError is the error of a server of which a newer process has the name.
type TwiceError struct {
	Node string
	Seq  uint64 // the entry of the newer one that shows it
}

// Error says in one line what is wrong.
func (e *TwiceError) Error() string {
	return fmt.Sprintf("another process serves as node %s since entry %d, and began after this one: give each server "+
		"a name of its own, and stop this one", e.Node, e.Seq)
}

// superseded returns an error when an entry has a checkpoint of another process with the name of this one that knows
// the first checkpoint of this process, so it began later. What an earlier process has under way when this one begins
// does not know it. An entry is looked at before this process writes what knows it.
func (s *member) superseded(d eventlog.Delivery) error {
	n := s.nodes
	if d.Repeat || n.first > 0 && d.After < n.first {
		return nil
	}
	own := d.Epoch == s.committer.Epoch()
	if n.first > 0 && (own || d.Epoch == n.own) {
		n.own = d.Epoch
		return nil
	}
	for _, r := range d.Events() {
		c, ok := r.(*eventlog.Checkpoint)
		switch {
		case !ok || c.Node != n.Node:
		case n.first > 0:
			return &TwiceError{n.Node, d.Seq}
		case own:
			n.first, n.own = d.Seq, d.Epoch
		}
	}
	return nil
}

// leaderWait is how long a start waits for a leader that has what this node's newest snapshot has: one that was
// just elected may not have applied all that it knows to be stored.
const leaderWait = 30 * time.Second

// endOfLog returns what the log has at the start.
func (s *writer) endOfLog(ctx context.Context, files fold.Files) (eventlog.Info, error) {
	info, err := s.log.Info(ctx, 0)
	if s.nodes == nil || err != nil {
		return info, err
	}
	seqs, err := files.List()
	for since := time.Now(); err == nil && len(seqs) > 0 && seqs[0] > info.Last && time.Since(since) < leaderWait; {
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		info, err = s.log.Info(ctx, 0)
	}
	return info, err
}

func (n *nodes) hear(r *eventlog.Checkpoint, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, offset := time.Since(n.opened), time.Duration(r.Time-now.UnixNano())
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
	n.heard[r.Node] = heard{at, offset, at >= n.unsteady, baseIn(r), uint16(r.Readable)}
}

// slowCheckpoint is how long a checkpoint of this node's own takes at most while clocks can be compared. Its delay is
// the difference of two times of one clock.
const slowCheckpoint = time.Second

// live returns when the live nodes were heard of. The caller holds mu.
func (n *nodes) live() map[string]heard {
	out := map[string]heard{}
	now := time.Since(n.opened)
	for name, h := range n.heard {
		if now-h.at <= nodeLive {
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
	for _, name := range n.Nodes {
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
	if !ok || len(live) <= len(n.Nodes)/2 {
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
	limit := time.NewTimer(time.Second)
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
	return time.Since(n.opened) - time.Duration(contact)
}

// cutOff is the error of calls while the node has no contact to a majority.
func (n *nodes) cutOff() error {
	if n.drained.Load() {
		return errDrained
	}
	if err := n.trusted(); err != nil {
		return err
	}
	return n.stale()
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
	switch most := len(n.Nodes) / 2; {
	case len(missing) == 0:
		return ""
	case len(missing) > most:
		return "; it has no connection to " + names
	case silent > electionFor:
		return "; it has no connection to " + names + ", and a replica of the others is empty or lacks entries, so it does " +
			"not vote: the log needs the disk of " + names + "; start the server there. If that disk is gone, " +
			"docs/guide/operating-a-cluster.md says what to do: When something is gone"
	}
	return "; it has no connection to " + names
}

// nodeLoop makes the log the cluster's and writes checkpoints.
func (s *member) nodeLoop() {
	n := s.nodes
	tick := time.NewTicker(n.Every)
	defer tick.Stop()
	moved, again, news := time.Time{}, time.Duration(0), true // of the damage of its files, or of its slow disk
	slow := 0                                                 // checkpoints that a slow disk held up
	for {
		if err := s.progress.failure(); err != nil { // what it says of itself would stand still
			if differs := (*DifferError)(nil); errors.As(err, &differs) {
				_ = s.checkpoint() // the others are told its digest
			}
			return
		}
		at := time.Since(n.opened)
		if err := s.checkpoint(); err == nil {
			n.reached(at)
			s.raiseTogether()
		} else if s.ctx.Err() == nil && s.progress.failure() == nil {
			s.opt.Logger.Warn("no checkpoint was written", "error", err.Error())
		}
		took := time.Since(n.opened) - at
		if l, ok := s.log.(interface {
			Replicas(context.Context) ([]eventlog.Replica, error)
		}); ok {
			ctx, cancel := context.WithTimeout(s.ctx, nodeLive)
			if r, err := l.Replicas(ctx); err == nil {
				n.mu.Lock()
				if len(r) > 0 && r[0].Leader && r[0].Name != n.leader {
					if n.leader != "" {
						n.elections++
					}
					n.leader = r[0].Name
				}
				n.replicas = r
				n.mu.Unlock()
			}
			n.mu.Lock()
			leads := n.leader == n.Node
			n.mu.Unlock()
			slow = s.slowDisk(slow, leads, took)
			unfit := n.damaged.Load() != nil && (leads || news) || slow >= slowTwice
			// an election may have made it the leader again
			if n.drained.Load() || unfit && time.Since(moved) >= again {
				hctx, stop := context.WithTimeout(s.ctx, handOverFor)
				if err := s.handOver(hctx); err != nil {
					s.opt.Logger.Warn("no other node leads yet", "error", err.Error())
				}
				stop()
				// the others may be no better
				moved, again, news, slow = time.Now(), min(max(2*again, n.Every), lastAgain), false, 0
			} else if time.Since(moved) > 2*lastAgain {
				again = 0
			}
			cancel()
		}
		select {
		case <-n.Suspect:
			s.workers.Go(s.checkSuspect)
		case <-n.news:
			again, news = 0, true
		case <-s.ctx.Done():
			return
		case <-s.windows.stopped():
			return
		case <-tick.C:
		}
	}
}

// slowDisk returns how many checkpoints in a row the disk of this node has held up while it led, given how many before
// and how long the newest took. Everything that is written waits for the leader's disk, and the engine elects no other
// leader while it answers.
func (s *member) slowDisk(before int, leads bool, took time.Duration) int {
	if !leads || took < slowSync || s.nodes.SyncTime == nil {
		return 0
	}
	d, err := s.nodes.SyncTime()
	if err != nil || d < slowSync {
		return 0
	}
	if before++; before == slowTwice {
		s.opt.Logger.Warn("the disk of this node is slow, and all writes wait for it: it lets another node lead",
			"sync", d.Round(time.Millisecond))
	}
	return before
}

// drain is Server.Drain.
func (s *member) drain(ctx context.Context) error {
	if s.nodes == nil {
		return errorf(Conflict, "this server is no node of a cluster")
	}
	if err := s.handOver(ctx); err != nil {
		return &Error{Code: Unavailable, Want: "no other node leads yet", RetryAfter: time.Second, Err: err}
	}
	s.nodes.drained.Store(true)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.calls.n.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &Error{Code: Unavailable, Want: "calls are still under way", RetryAfter: time.Second, Err: ctx.Err()}
		}
	}
	return nil
}

// handOver lets another node lead.
func (s *member) handOver(ctx context.Context) error {
	if l, ok := s.log.(interface{ HandOver(context.Context) error }); ok {
		return l.HandOver(ctx)
	}
	return nil
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

// checkpoint writes one, and the members before the first, and waits until it is applied here.
func (s *member) checkpoint() error {
	n := s.nodes
	s.mu.RLock()
	names, old := s.namesOfLog()
	s.mu.RUnlock()
	now, applied := s.opt.Now().UnixNano(), s.progress.applied.Load()
	var records []eventlog.Record
	if names == nil || old {
		m := &eventlog.Control{Act: eventlog.Members, Data: []byte(strings.Join(n.Nodes, "\n")), Time: now}
		if old {
			m.Digest = fold.NamesDigest(names)
		}
		records = append(records, m)
	}
	receipt, err := s.append(s.ctx, append(records, n.checkpoint(now, applied))...)
	if err == nil {
		_, err = s.progress.until(s.ctx, receipt.Seq)
	}
	return err
}

// here waits until an entry that another node has answered is applied.
func (s *writer) here(ctx context.Context, seq uint64) error {
	if s.nodes == nil || seq <= s.progress.applied.Load() {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, s.opt.Wait)
	defer cancel()
	if _, err := s.progress.until(wait, seq); err != nil {
		return &Error{Code: Unavailable, Want: "the decision is not applied here yet", RetryAfter: time.Second,
			Err: err}
	}
	return nil
}

// errMeanwhile: the fold refused an act, because another one came first.
var errMeanwhile = errorf(Conflict, "the model has changed meanwhile")

// ClusterHealth is how a node sees its cluster.
type ClusterHealth struct {
	Node string `json:"node"`
	// Contact is how many seconds ago the node reached a majority; beyond 5 it is not ready.
	Contact float64 `json:"contact_seconds"`
	// Clock is how many seconds this node's clock is ahead of the median.
	Clock float64     `json:"clock_seconds"`
	Keys  eventlog.ID `json:"keys"` // fingerprint
	// KeyNumbers are the keys of event ids that the node recognises, first the one that it makes them with.
	KeyNumbers []int        `json:"key_numbers"`
	Nodes      []NodeHealth `json:"nodes"`
	// CertificateEnds is until when the certificate that the node shows the others is valid.
	CertificateEnds *time.Time `json:"certificate_ends,omitempty"`
	// Replicas are the servers that have the log, as its leader saw them last; none when nothing is known.
	Replicas []eventlog.Replica `json:"replicas,omitempty"`
	Void     uint64             `json:"void"` // batches of this node that were stored too late to count
	// Unwritten counts the entries of the log that have no effect because no node has written them; UnwrittenEntry is
	// the newest of them, 0 for none. They are the same at every node. Anything but 0 is an alarm.
	Unwritten      uint64 `json:"unwritten_entries"`
	UnwrittenEntry uint64 `json:"unwritten_entry,omitempty"`
	// Declared counts the entries that an operator has declared void, because no node could read them.
	Declared uint64 `json:"declared_void,omitempty"`
	// Digest says how the models of this node compare with those of the others: "agrees" with a majority; "differs"
	// from one, then the node has stopped; "doubt" while they differ and no majority agrees; empty before the first
	// comparison.
	Digest string `json:"digest,omitempty"`
	// Base is the entry whose state takes the place of what was trimmed, or is to be, 0 for none; Trim says what the
	// removal of the entries before it waits for, empty when nothing is to be removed.
	Base uint64 `json:"base,omitempty"`
	Trim string `json:"trim,omitempty"`
	// LogVersion is the version in which the node writes. It rises when every node can read a higher one
	// (NodeHealth.Readable).
	LogVersion uint16 `json:"log_version"`
	// Damage says what is wrong with the files of this node's replica, as far as they were read: what they do not give
	// comes from the others, and the node lets another one lead. Empty when nothing is known.
	Damage string `json:"replica_damage,omitempty"`
	// Unrepaired says why the damaged files are not made anew from the other nodes yet; the node tries again.
	Unrepaired string `json:"replica_unrepaired,omitempty"`
	// Repairs counts how often the files were made anew from the other nodes, over all starts; Repaired is when that was
	// last.
	Repairs  uint64     `json:"replica_repairs"`
	Repaired *time.Time `json:"replica_repaired,omitempty"`
	// Verified is when all files of the replica were read last and were whole, up to VerifiedEntry.
	Verified      *time.Time `json:"replica_verified,omitempty"`
	VerifiedEntry uint64     `json:"replica_verified_entry,omitempty"`
	// Elections is how often another node led the log than before, since this one started.
	Elections uint64 `json:"elections"`
	Drained   bool   `json:"drained,omitempty"`
	// Attested is what the servers of the log are trusted by, where they belong to others; nil where they are the
	// nodes.
	Attested *Attested `json:"attested,omitempty"`
}

// Attested says whether the servers of the log are known to keep what they acknowledge.
type Attested struct {
	// By is AttestedByServers when they report themselves, otherwise the name of who vouches for them.
	By string `json:"by"`
	Is bool   `json:"is"`
}

// AttestedByServers is Attested.By of servers that report themselves.
const AttestedByServers = "servers"

// NodeHealth is a node as its checkpoints say.
type NodeHealth struct {
	Name string `json:"name"`
	Live bool   `json:"live"`
	// Heard is how many seconds ago its newest checkpoint was applied here, -1 when none was.
	Heard    float64 `json:"heard_seconds"`
	Applied  uint64  `json:"applied"`
	Readable uint32  `json:"readable"`       // the highest log version that it reads
	Base     uint64  `json:"base,omitempty"` // entry of the newest base that it has
	Differs  bool    `json:"differs"`        // the digest of its models was not ours when they were compared last
	// Clock is how many seconds its clock was ahead of this node's when its newest checkpoint came.
	Clock float64 `json:"clock_seconds"`
}

func (s *member) clusterHealth() *ClusterHealth {
	n := s.nodes
	if n == nil {
		return nil
	}
	out := &ClusterHealth{
		Node: n.Node, Contact: n.silence().Seconds(), Clock: n.deviation().Seconds(), Keys: n.print,
		Void: s.committer.Stats().Void, Drained: n.drained.Load(),
		LogVersion: s.committer.Version(),
		Unwritten:  s.unwritten.count.Load(), UnwrittenEntry: s.unwritten.newest.Load(),
		Declared: s.unwritten.declared.Load(),
	}
	if !n.Certified.IsZero() {
		out.CertificateEnds = &n.Certified
	}
	if d := n.damaged.Load(); d != nil {
		out.Damage = *d
	}
	if why := n.unmended.Load(); why != nil && out.Damage != "" {
		out.Unrepaired = *why
	}
	if n.Care != nil {
		care := n.Care()
		out.Repairs, out.VerifiedEntry = care.Repairs, care.Entry
		if !care.Repaired.IsZero() {
			out.Repaired = &care.Repaired
		}
		if !care.Verified.IsZero() {
			out.Verified = &care.Verified
		}
	}
	if n.Trusted != nil {
		out.Attested = &Attested{cmp.Or(n.Vouched, AttestedByServers), n.Trusted() == nil}
	}
	for _, k := range n.numbers {
		out.KeyNumbers = append(out.KeyNumbers, int(k))
	}
	s.mu.RLock()
	list := s.fold.Nodes()
	s.mu.RUnlock()
	out.Base = s.based.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	out.Replicas, out.Digest, out.Elections = n.replicas, n.verdict(), n.elections
	if out.Base != n.agreed.done {
		out.Trim = cmp.Or(n.agreed.waits, "it begins")
	}
	for _, x := range list {
		h := NodeHealth{Name: x.Name, Heard: -1, Applied: x.Applied, Readable: x.Readable,
			Differs: n.digests.differs[x.Name] || x.Name == n.Node && n.digests.stopped != nil}
		if at, ok := n.heard[x.Name]; ok {
			d := time.Since(n.opened) - at.at
			h.Heard, h.Live, h.Clock = d.Seconds(), d <= nodeLive, at.offset.Seconds()
			h.Base = at.base.Seq
		}
		out.Nodes = append(out.Nodes, h)
	}
	return out
}
