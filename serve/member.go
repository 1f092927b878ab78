package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/recent"
	"troupe/timing"
)

// member is this server as a node of a cluster. On a single machine its nodes are nil, and it does nothing.
type member struct {
	*lifetime
	*state
	*writer
	recent    *recent.Decisions
	unwritten *unwritten
	replica   *replica
	glances   *glances
}

// fits returns why this node may not go on with the log, nil when it may.
func (s *member) fits() error {
	n := s.nodes
	names, old := s.namesOfLog()
	if !old && names != nil {
		if !slices.Equal(names, n.list()) {
			if err := s.followNodes(names); err != nil {
				return err
			}
		}
		n.known.Store(true)
	}
	single := false // checkpoints name single keys
	for _, x := range s.fold.Nodes() {
		single = single || len(x.Keys) > 0
	}
	switch keys := s.fold.KeysOfNodes(); {
	case old:
		return nil
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
	return names, names != nil && s.nodes != nil && newest <= s.nodes.Imported && !slices.Equal(names, s.nodes.list())
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
		here := n.passed() // before the clock is asked: the process may stand still in between
		age := max(0, s.opt.Clock.Now().Sub(time.Unix(0, d.Time)))
		n.reached(here - age)
	}
	for i, r := range d.Events() {
		switch r := r.(type) {
		case *eventlog.Checkpoint:
			if r.Node != "" {
				s.nodes.hear(r, d.Seq, s.opt.Clock.Now())
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

// nodeLoop makes the log the cluster's and writes checkpoints.
func (s *member) nodeLoop() {
	n := s.nodes
	tick := s.opt.Clock.Ticker(n.Every)
	defer tick.Stop()
	moved, again, news := timing.Instant(0), time.Duration(0), true // of the damage of its files, or of its slow disk
	slow := 0                                                       // checkpoints that a slow disk held up
	for {
		if err := s.progress.failure(); err != nil { // what it says of itself would stand still
			if differs := (*DifferError)(nil); errors.As(err, &differs) {
				_ = s.checkpoint() // the others are told its digest
			}
			return
		}
		at := n.passed()
		if err := s.checkpoint(); err == nil {
			n.reached(at)
			s.raiseTogether()
		} else if s.ctx.Err() == nil && s.progress.failure() == nil {
			s.opt.Logger.Warn("no checkpoint was written", "error", err.Error())
		}
		took := n.passed() - at
		if l, ok := s.log.(eventlog.Replicated); ok {
			ctx, cancel := context.WithTimeout(s.ctx, nodeLive)
			if r, err := l.Replicas(ctx); err == nil {
				n.mu.Lock()
				if len(r) > 0 && r[0].Leader && r[0].Name != n.leader {
					if n.leader != "" {
						n.elections++
					}
					n.leader = r[0].Name
				}
				n.replicas, n.asked = r, n.passed()
				n.mu.Unlock()
			}
			n.mu.Lock()
			leads := n.leader == n.Node
			n.mu.Unlock()
			slow = s.slowDisk(slow, leads, took)
			unfit := n.damaged.Load() != nil && (leads || news) || slow >= slowTwice
			// an election may have made it the leader again
			if n.drained.Load() || unfit && s.opt.Clock.Since(moved) >= again {
				hctx, stop := context.WithTimeout(s.ctx, handOverFor)
				if err := s.handOver(hctx); err != nil {
					s.opt.Logger.Warn("no other node leads yet", "error", err.Error())
				}
				stop()
				// the others may be no better
				moved, again, news, slow = s.opt.Clock.Mark(), min(max(2*again, n.Every), lastAgain), false, 0
			} else if s.opt.Clock.Since(moved) > 2*lastAgain {
				again = 0
			}
			cancel()
		}
		select {
		case <-n.Suspect:
			s.workers.Go(s.replica.suspect)
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
	if why := s.clusterHealth().needed(); why != "" {
		return &Error{Code: Needed, Want: why}
	}
	if err := s.handOver(ctx); err != nil {
		return &Error{Code: Unavailable, Want: "no other node leads yet", RetryAfter: time.Second, Err: err}
	}
	s.nodes.drained.Store(true)
	tick := s.opt.Clock.Ticker(5 * time.Millisecond)
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

// askNeeded is how often a node that is needed looks whether it still is.
const askNeeded = 100 * time.Millisecond

// awaitStop is Server.AwaitStop.
func (s *member) awaitStop(ctx context.Context, says func(why string)) (why string) {
	if s.nodes == nil {
		return ""
	}
	tick := s.opt.Clock.Ticker(askNeeded)
	defer tick.Stop()
	for first := true; ; first = false {
		if why = s.clusterHealth().needed(); why == "" || ctx.Err() != nil {
			return why
		}
		if first {
			says(why)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// handOver lets another node lead.
func (s *member) handOver(ctx context.Context) error {
	if l, ok := s.log.(eventlog.HandsOver); ok {
		return l.HandOver(ctx)
	}
	return nil
}

// checkpoint writes one, and the members before the first, and waits until it is applied here.
func (s *member) checkpoint() error {
	n := s.nodes
	s.mu.RLock()
	names, old := s.namesOfLog()
	s.mu.RUnlock()
	now, applied := s.opt.Clock.Now().UnixNano(), s.progress.applied.Load()
	var records []eventlog.Record
	if (names == nil || old) && !n.Joins {
		m := &eventlog.Control{Act: eventlog.Members, Data: []byte(strings.Join(n.list(), "\n")), Time: now}
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

// clusterHealth is what Health says of a cluster. It answers while the applier waits for the log.
func (s *member) clusterHealth() *ClusterHealth {
	if s.nodes == nil {
		return nil
	}
	return s.healthOf(s.glances.take().nodes)
}

// healthOf is clusterHealth where the log knows the nodes as list.
func (s *member) healthOf(list []fold.Node) *ClusterHealth {
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
	out.Base = s.based.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	out.Replicas, out.Digest, out.Elections, out.Change = n.present(), n.verdict(), n.elections, n.change
	if n.Engine != nil && out.Change == "" && n.judged.Load() != n.members.Load() {
		out.Change = "it begins"
	}
	out.Settled = n.settled && out.Change == ""
	if out.Base != n.agreed.done {
		out.Trim = cmp.Or(n.agreed.waits, "it begins")
	}
	for _, x := range list {
		h := NodeHealth{Name: x.Name, Heard: -1, Applied: x.Applied, Readable: x.Readable,
			Differs: n.digests.differs[x.Name] || x.Name == n.Node && n.digests.stopped != nil}
		if at, ok := n.heard[x.Name]; ok {
			d := n.passed() - at.at
			h.Heard, h.Live, h.Clock = d.Seconds(), d <= nodeLive, at.offset.Seconds()
			h.Base, h.Lag = at.base.Seq, at.lag
		}
		out.Nodes = append(out.Nodes, h)
	}
	return out
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

// raiseTogether raises the log of a cluster when every node is live and its newest checkpoint says that it can read the
// higher version. The first live node does it; the others write in that version when they have applied its record.
// Until then each node may go back to an earlier program.
func (s *member) raiseTogether() {
	n, version := s.nodes, s.committer.Version()
	readable, behind := n.readableByAll()
	switch {
	case readable > version && n.rank() == 0:
		s.committer.Raise(readable)
		s.raiseLog(s.ctx, readable)
	case n.readable > version && len(behind) > 0 && !n.toldBehind:
		n.toldBehind = true
		s.opt.Logger.Info("the log is not raised before every node can read the higher version", "version", version,
			"to", n.readable, "waits for", strings.Join(behind, ", "))
	}
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

// RemovedError is the error of a node that is not on the list of the log.
type RemovedError struct {
	Node  string
	Nodes []string // of the list
}

// Error says in one line what is wrong.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("serve: node %s was removed from the cluster, whose nodes are %s: to take it in again, "+
		"troupe cluster add, and an empty --data directory", e.Node, strings.Join(e.Nodes, ", "))
}

// isWithin reports whether b has all of a.
func isWithin(a, b []string) bool {
	return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

// followNodes takes another list of nodes from the log. That of the node's own file may be older or newer.
func (s *member) followNodes(names []string) error {
	n := s.nodes
	list := n.list()
	switch is := slices.Contains(names, n.Node); {
	case n.Engine == nil || !isWithin(names, list) && !isWithin(list, names):
		return fmt.Errorf("serve: the log is that of the nodes %s, this node has %s: give every node the same "+
			"cluster.toml, or the same --nats-nodes", strings.Join(names, ", "), strings.Join(list, ", "))
	case is:
		n.joined.Store(true)
	case !n.Joins || n.joined.Load():
		return &RemovedError{n.Node, names}
	}
	n.mu.Lock()
	for _, name := range list {
		if !slices.Contains(names, name) && name != n.Node {
			n.gone = append(n.gone, name)
		}
	}
	n.gone = slices.DeleteFunc(n.gone, func(x string) bool { return slices.Contains(names, x) })
	n.mu.Unlock()
	n.members.Store(&names)
	s.opt.Logger.Info("the nodes of the cluster", "are", strings.Join(names, ", "))
	return nil
}

// groupsLoop asks which nodes are behind in the engine's other groups. It is no part of nodeLoop, whose checkpoints do
// not wait for a group without a leader.
func (s *member) groupsLoop() {
	n := s.nodes
	l, ok := s.log.(eventlog.Grouped)
	if !ok {
		return
	}
	n.mu.Lock()
	n.groups = true
	n.mu.Unlock()
	tick := s.opt.Clock.Ticker(groupsEvery)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(s.ctx, nodeLive)
		behind, err := l.Behind(ctx, n.list())
		cancel()
		if err == nil {
			n.mu.Lock()
			n.behind, n.behindAt = behind, n.passed()
			n.mu.Unlock()
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.windows.stopped():
			return
		case <-tick.C:
		}
	}
}
