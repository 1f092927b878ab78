package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog"
	"troupe/eventlog/raftlog"
	"troupe/eventlog/raftlog/raftnet"
	"troupe/eventlog/segment"
	"troupe/timing"
)

// Options say which node this is.
type Options struct {
	Dir     string // of the log
	Bases   string // directory of the bases of a trimmed log, and of notes about checks of the files
	Cluster eventlog.ID
	// Self is this node, and Peers are the others that the operator's file names, with the names in their certificates and their
	// addresses. Ids are not in it.
	Self  raftlog.Member
	Peers []raftlog.Member
	// Founds says that this node makes the log when no node has one.
	Founds bool
	// Most is how many members a log may have before a node of another name is not taken in.
	Most     int
	MaxBytes int64
	TLS      *tls.Config                                             // see raftnet.Options
	Dial     func(context.Context, raftlog.Member) (net.Conn, error) // see raftnet.Options
	Clock    timing.Clock
	Logf     func(format string, a ...any) // may be nil
}

const (
	askAgain  = 250 * time.Millisecond // while the log is not there
	askWithin = 2 * time.Second
	awayFor   = 30 * time.Second // a member that is not on the list and has no connection for so long is removed
	readyFor  = 500 * time.Millisecond
	takeInFor = 4 * time.Second // a node that asks to be taken in asks again, and gets the log meanwhile
)

// Node is a node of a replicated log. Its methods may be called from many goroutines; those of an eventlog.Log after Open has returned.
type Node struct {
	opt   Options
	id    uint64
	fresh atomic.Bool // the directory has no log
	net   *raftnet.Net
	log   atomic.Pointer[raftlog.Log]
	waits atomic.Pointer[string]

	mu   sync.Mutex
	away map[uint64]timing.Instant // members that are not on the list and have no connection
	care eventlog.Care
}

var (
	_ eventlog.Stops      = (*Node)(nil)
	_ eventlog.Replicated = (*Node)(nil)
	_ eventlog.HandsOver  = (*Node)(nil)
	_ eventlog.KeepsBases = (*Node)(nil)
	_ eventlog.TrimsOwn   = (*Node)(nil)
	_ raftnet.Answers     = (*Node)(nil)
)

// New listens at the node's address, and answers the others. Close must be called.
func New(o Options) (*Node, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	n := &Node{opt: o, away: map[uint64]timing.Instant{}}
	cluster, id, err := raftlog.Identity(o.Dir)
	switch {
	case errors.Is(err, eventlog.ErrNoLog):
		n.fresh.Store(true)
		id = raftlog.NewID()
	case err != nil:
		return nil, err
	case cluster != o.Cluster:
		return nil, fmt.Errorf("raftnode: %s is of cluster %v, want %v", o.Dir, cluster, o.Cluster)
	}
	n.id, n.opt.Self.ID = id, id
	if n.care, err = readCare(o.Bases); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.Self.Addr)
	if err != nil {
		return nil, err
	}
	n.net, err = raftnet.New(raftnet.Options{Cluster: o.Cluster, ID: id, Listener: listener, TLS: o.TLS, Dial: o.Dial, Clock: o.Clock,
		Logf: o.Logf})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	n.net.Serve(n)
	return n, nil
}

// Open waits until this node is a voter of the log and has all that was committed, at most until ctx ends. A log without entries is
// not there before all nodes of the operator's file are voters: what is acknowledged then is at a majority of them. Waits says
// meanwhile what is missing.
func (n *Node) Open(ctx context.Context) error {
	if n.fresh.Load() {
		if err := n.begin(ctx); err != nil {
			return err
		}
	}
	l, err := n.start(ctx)
	if err != nil {
		return err
	}
	n.log.Store(l)
	for {
		why, err := n.takePart(ctx, l)
		if err != nil || why == "" {
			n.say("")
			return err
		}
		n.say(why)
		if !n.opt.Clock.Sleep(ctx, askAgain) {
			return ctx.Err()
		}
	}
}

// begin makes the directory: of a node that joins, or of the first node of a log.
func (n *Node) begin(ctx context.Context) error {
	o := n.options()
	for {
		states, missing := n.ask(ctx)
		for _, s := range states {
			if len(s.Members) > 0 {
				n.fresh.Store(false)
				return raftlog.Join(o, slices.DeleteFunc(s.Members, func(m raftlog.Member) bool { return m.ID == n.id })...)
			}
		}
		all := len(missing) == 0 && !slices.ContainsFunc(states, func(s state) bool { return !s.Fresh })
		if n.opt.Founds && all {
			n.fresh.Store(false)
			return raftlog.Create(o, n.opt.Self)
		}
		switch {
		case len(missing) > 0:
			n.say("no node that answers has a log, and " + strings.Join(missing, ", ") + " does not answer")
		case n.opt.Founds:
			n.say("another node is being started")
		default:
			n.say("the first node of the list makes the log")
		}
		if !n.opt.Clock.Sleep(ctx, askAgain) {
			return ctx.Err()
		}
	}
}

func (n *Node) options() raftlog.Options {
	return raftlog.Options{Dir: n.opt.Dir, Cluster: n.opt.Cluster, ID: n.id, MaxBytes: n.opt.MaxBytes, Network: n.net, Clock: n.opt.Clock,
		Logf: n.opt.Logf}
}

// start opens the directory. Damaged sealed segments are fetched from the others first.
func (n *Node) start(ctx context.Context) (*raftlog.Log, error) {
	l, err := raftlog.Open(n.options())
	if bad := (*segment.DamageError)(nil); errors.As(err, &bad) {
		n.opt.Logf("the files of the log are damaged, and fetched from the other nodes: %v", err)
		done, mend := raftlog.Repair(ctx, n.options())
		if len(done) == 0 {
			return nil, errors.Join(err, mend)
		}
		n.note(func(c *eventlog.Care) { c.Repairs, c.Repaired, c.Damage = c.Repairs+1, n.opt.Clock.Now(), bad.Error() })
		l, err = raftlog.Open(n.options())
	}
	return l, err
}

// takePart does what is left until this node is a voter that has all that was committed, and returns what it waits for.
func (n *Node) takePart(ctx context.Context, l *raftlog.Log) (why string, err error) {
	if err := l.Err(); err != nil {
		return "", err
	}
	now := l.Status(0)
	if slices.Contains(now.Voters, n.id) && slices.Contains(now.Members, n.opt.Self) {
		within, cancel := context.WithTimeout(ctx, readyFor)
		err := l.Ready(within, 0)
		cancel()
		if err == nil {
			return n.founded(ctx, l)
		}
	}
	states, missing := n.ask(ctx)
	var errs []string
	why = "the nodes elect one that leads"
	for _, s := range states {
		if slices.Contains(s.Removed, n.id) {
			return "", fmt.Errorf("%w: %w", eventlog.ErrBroken, raftlog.ErrRemoved)
		}
		if len(s.Members) == 0 {
			continue
		}
		if err := l.Introduce(ctx, slices.DeleteFunc(slices.Clone(s.Members), func(m raftlog.Member) bool { return m.ID == n.id })...); err != nil {
			return "", err
		}
		if slices.Contains(s.Voters, n.id) && slices.Contains(s.Members, n.opt.Self) {
			continue
		}
		if _, err := n.call(ctx, s.from, question{Do: doJoin, Member: n.opt.Self}); err != nil {
			errs = append(errs, err.Error())
			continue
		}
		errs = nil
		break
	}
	if len(missing) > 0 {
		why = strings.Join(missing, ", ")
	}
	if len(errs) > 0 {
		why = strings.Join(errs, "; ")
	}
	return why, nil
}

// founded returns which nodes are not voters of a log without entries yet.
func (n *Node) founded(ctx context.Context, l *raftlog.Log) (why string, err error) {
	info, err := l.Info(ctx, 0)
	if err != nil || info.Last > 0 {
		return "", err
	}
	now := l.Status(0)
	var missing []string
	for _, p := range n.opt.Peers {
		if i := slices.IndexFunc(now.Members, func(m raftlog.Member) bool { return m.Name == p.Name }); i < 0 ||
			!slices.Contains(now.Voters, now.Members[i].ID) {
			missing = append(missing, p.Name)
		}
	}
	return strings.Join(missing, ", "), nil
}

func (n *Node) say(text string) { n.waits.Store(&text) }

// Waits says what Open waits for, empty when it does not.
func (n *Node) Waits() string {
	if w := n.waits.Load(); w != nil {
		return *w
	}
	return ""
}

// Missing returns the names of the members that this node has no connection to, and of nodes in names that are no members.
func (n *Node) Missing(names []string) (missing []string) {
	members := n.members()
	for _, name := range names {
		if name == n.opt.Self.Name {
			continue
		}
		if i := slices.IndexFunc(members, func(m raftlog.Member) bool { return m.Name == name }); i < 0 || !n.net.Connected(members[i].ID) {
			missing = append(missing, name)
		}
	}
	return missing
}

func (n *Node) members() []raftlog.Member {
	if l := n.log.Load(); l != nil {
		return l.Status(0).Members
	}
	return nil
}

// Receive implements raftnet.Node.
func (n *Node) Receive(group uint16, m *pb.Message) {
	if l := n.log.Load(); l != nil {
		l.Receive(group, m)
	}
}

// File implements raftnet.Node.
func (n *Node) File(group uint16, first uint64, b []byte, at int64) error {
	l := n.log.Load()
	if l == nil {
		return segment.ErrNotFound
	}
	return l.File(group, first, b, at)
}

// Append implements eventlog.Log.
func (n *Node) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error) {
	return n.log.Load().Append(ctx, shard, id, batch)
}

// Read implements eventlog.Log.
func (n *Node) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[eventlog.Entry, error] {
	return n.log.Load().Read(ctx, shard, from)
}

// Get implements eventlog.Log.
func (n *Node) Get(ctx context.Context, shard uint16, seq uint64) (eventlog.Entry, error) {
	return n.log.Load().Get(ctx, shard, seq)
}

// Trim implements eventlog.Log, for the files of this node.
func (n *Node) Trim(ctx context.Context, shard uint16, upTo uint64) error {
	return n.log.Load().Trim(ctx, shard, upTo)
}

// Info implements eventlog.Log.
func (n *Node) Info(ctx context.Context, shard uint16) (eventlog.Info, error) {
	return n.log.Load().Info(ctx, shard)
}

// Err implements eventlog.Stops. A disk without room, or that has failed, is an *eventlog.ReplicaDownError.
func (n *Node) Err() error {
	l := n.log.Load()
	if err := l.Blocked(); err != nil {
		return &eventlog.ReplicaDownError{What: err.Error(), Full: true}
	}
	err := l.Err()
	var system syscall.Errno
	if sync := (*segment.SyncError)(nil); errors.As(err, &sync) || errors.As(err, &system) {
		return &eventlog.ReplicaDownError{What: err.Error()}
	}
	return err
}

// TrimsOwn implements eventlog.TrimsOwn.
func (n *Node) TrimsOwn() {}

// HandOver implements eventlog.HandsOver.
func (n *Node) HandOver(ctx context.Context) error {
	l := n.log.Load()
	if l == nil {
		return nil
	}
	return l.HandOver(ctx)
}

// Close ends the node. The log must not be used any more.
func (n *Node) Close() error {
	var errs []error
	if l := n.log.Load(); l != nil {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, n.net.Close())...)
}
