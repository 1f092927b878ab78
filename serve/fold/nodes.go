package fold

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"troupe/eventlog"
)

// In a cluster several nodes write to one log, and each of them folds it. What counts is decided here, from the log
// alone, so that all nodes find the same:
//
//   - a decision with an idempotency key that is known has no effect;
//   - a configuration that was not made from the present one is a conflict;
//   - the clock is the median of the nodes' clocks, so that one wrong clock neither forgets keys nor closes windows;
//   - a window closes only when that clock has passed its end.

// Node is a node of a cluster as the log knows it.
type Node struct {
	Name     string
	Time     int64  // its clock in its newest checkpoint, ns since 1970; 0 for none
	Seq      uint64 // entry of that checkpoint
	Applied  uint64 // the newest entry that the node had applied
	Readable uint32 // the highest log version that it reads
	// Keys are the fingerprints of its keys of event ids, first of the one that makes them.
	Keys []eventlog.ID
}

type nodes struct {
	list []Node // in the order of the members record
	keys eventlog.ID
}

// cluster is what the log says of its nodes, and of the time.
type cluster struct {
	nodes *nodes // nil on a single machine
	clock int64  // the latest time of a batch; in a cluster the median of the nodes' clocks
}

// tick takes the time of a batch, which is the clock of a single machine, and returns the time of the entry: in a
// cluster its clock.
func (c *cluster) tick(time int64) (now int64) {
	if c.nodes == nil {
		c.clock = max(c.clock, time)
		return time
	}
	return c.clock
}

// Nodes returns the nodes of the cluster, nil on a single machine.
func (c *cluster) Nodes() []Node {
	if c.nodes == nil {
		return nil
	}
	return slices.Clone(c.nodes.list)
}

// KeysOfNodes returns the fingerprint of the keys that sign the cluster's event ids, 0 before the first checkpoint.
func (c *cluster) KeysOfNodes() eventlog.ID {
	if c.nodes == nil {
		return 0
	}
	return c.nodes.keys
}

// Clock returns the time of the log, ns since 1970: the latest of a batch, in a cluster the median of the nodes'.
func (c *cluster) Clock() int64 { return c.clock }

// NamesDigest names a list of nodes, for the record that replaces it.
func NamesDigest(names []string) eventlog.ID {
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return eventlog.ID(binary.LittleEndian.Uint64(sum[:])) | 1
}

// members makes the log that of a cluster. The first record counts, and then one that names the list which it replaces:
// the log has become that of another cluster, or with an empty list of a single machine.
func (c *cluster) members(a *act) (Outcome, error) {
	r := a.r
	names := strings.Split(string(r.Data), "\n")
	var old []string
	for _, n := range c.Nodes() {
		old = append(old, n.Name)
	}
	switch {
	case c.nodes != nil && slices.Equal(old, names):
		return Duplicate, nil
	case c.nodes != nil && r.Digest != NamesDigest(old), c.nodes == nil && r.Digest != 0:
		return Conflict, nil
	case len(r.Data) == 0:
		c.nodes = nil
		return Accepted, nil
	}
	c.nodes = &nodes{}
	for _, name := range names {
		c.nodes.list = append(c.nodes.list, Node{Name: name})
	}
	return Accepted, nil
}

// heard takes what a checkpoint in entry seq says of its node.
func (c *cluster) heard(r *eventlog.Checkpoint, seq uint64) {
	if c.nodes == nil || r.Node == "" {
		return
	}
	i := slices.IndexFunc(c.nodes.list, func(n Node) bool { return n.Name == r.Node })
	if i < 0 {
		return
	}
	if c.nodes.keys == 0 {
		c.nodes.keys = r.Keys
	}
	c.nodes.list[i] = Node{r.Node, r.Time, seq, r.Applied, r.Readable, r.KeySet}
	// The lower median, with 0 for a node that was never heard: a majority has passed this time. It does not go back.
	times := make([]int64, len(c.nodes.list))
	for i, n := range c.nodes.list {
		times[i] = n.Time
	}
	slices.Sort(times)
	c.clock = max(c.clock, times[(len(times)-1)/2])
}

// seen returns what the node that writes entry seq had applied, by a checkpoint in it.
func (c *cluster) seen(seq uint64) (applied uint64, ok bool) {
	if c.nodes == nil {
		return 0, false
	}
	for _, n := range c.nodes.list {
		if n.Seq == seq {
			applied, ok = n.Applied, true
		}
	}
	return applied, ok
}

func (w *writer) nodes(n *nodes) {
	w.uint(uint64(len(n.list)))
	for _, x := range n.list {
		w.bytes([]byte(x.Name))
		w.fixed(uint64(x.Time))
		w.uint(x.Seq)
		w.uint(x.Applied)
		w.uint(uint64(x.Readable))
	}
	w.fixed(uint64(n.keys))
	for _, x := range n.list {
		w.uint(uint64(len(x.Keys)))
		for _, k := range x.Keys {
			w.fixed(uint64(k))
		}
	}
}

// nodes reads what writer.nodes wrote.
func (r *reader) nodes() *nodes {
	n := &nodes{}
	for range r.count() {
		n.list = append(n.list, Node{Name: string(r.bytes()), Time: int64(r.fixed()), Seq: r.uint(), Applied: r.uint(),
			Readable: uint32(r.uint())})
	}
	n.keys = eventlog.ID(r.fixed())
	for i := range n.list {
		for range r.count() {
			n.list[i].Keys = append(n.list[i].Keys, eventlog.ID(r.fixed()))
		}
	}
	return n
}
