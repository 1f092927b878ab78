package eventlog

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/timing"
)

// NodeOptions configure StartNode.
type NodeOptions struct {
	Dir     string   // of this node's replica; made if need be
	Cluster string   // name of the cluster
	Name    string   // of this node
	Listen  string   // host:port for the other nodes; empty for a node that is alone
	Routes  []string // host:port of every node
	// TLS is for the connections between nodes. Both sides must show a certificate. nil is no TLS, for tests.
	TLS *tls.Config
	// Keys are those of the cluster's batches.
	Keys *BatchKeys
	// Damaged is asked whether the node may start with damaged block files: nil is yes. Without Damaged it may not.
	Damaged func(*DamagedReplicaError) error
	// Repair makes a damaged replica anew from those of the others where Damaged says that the node may not start. The
	// node should call Repair then, until it returns nil; see Unfinished.
	Repair bool
	// Logf gets the engine's warnings and errors. It may be nil.
	Logf func(format string, a ...any)
	// Clock is the machine's when it is not set.
	Clock timing.Clock
}

// Node is a server of NATS JetStream inside this process that keeps a replica of a cluster's log. Every file is synced
// before the replica counts for a majority. For clients it listens on loopback only, with a random password that it
// gives to none.
type Node struct {
	dir     string
	name    string
	listen  string // host:port for the other nodes
	members atomic.Pointer[membership]
	keys    *BatchKeys
	logf    func(format string, a ...any)
	time    timing.Clock
	options func() (*server.Options, error) // of a server that starts
	srv     atomic.Pointer[server.Server]   // another one after a disk that was full
	serving atomic.Pointer[server.Server]   // srv, once it has begun
	failed  atomic.Pointer[string]          // the newest error of writing a file
	down    atomic.Pointer[ReplicaDownError]
	cut     atomic.Pointer[CutOffError]
	restart sync.Mutex // held while another server takes the place of one

	repairs   sync.Mutex  // one at a time
	intends   atomic.Bool // the node repairs its files, or is about to
	repairing atomic.Pointer[RepairingError]
	caring    sync.Mutex // guards care
	care      Care

	nc      *nats.Conn
	system  *nats.Conn // of the engine's system account
	lock    *dirLock
	stop    context.CancelFunc // of watch and contact
	watched sync.WaitGroup

	contacts   contacts
	leaderless leaderless
}

// ReplicaDownError is the error of a node whose engine has stopped using its disk. What is a majority goes on without
// it.
type ReplicaDownError struct {
	What string // the engine's words
	Full bool   // it is used again when there is room
}

// Error says in one line what is wrong.
func (e *ReplicaDownError) Error() string {
	if e.Full {
		return "the disk of this node is full; it goes on by itself when there is room: " + e.What
	}
	return "the disk of this node has failed; the node keeps no replica of the log until it is started again: " + e.What
}

// Err returns nil while the node has a replica of the log and takes part, otherwise a *ReplicaDownError, a *CutOffError
// or a *RepairingError.
func (n *Node) Err() error {
	if e := n.down.Load(); e != nil {
		return e
	}
	if e := n.cut.Load(); e != nil {
		return e
	}
	if e := n.repairing.Load(); e != nil {
		return e
	}
	return nil
}

// InProcessConn connects to the present server, and is an error while that starts: a server that starts answers as if it
// had no cluster, and finds no log. It makes a Node the nats.InProcessConnProvider of its own connections, which try again.
func (n *Node) InProcessConn() (net.Conn, error) {
	srv := n.serving.Load()
	if srv == nil {
		return nil, errors.New("the engine is being started")
	}
	return srv.InProcessConn()
}

// nodeMarker is the file that makes a directory the replica of a cluster's node, joinedMarker the one that says
// that the cluster had a log when the node was there.
const (
	nodeMarker   = "troupe-node"
	nodeFormat   = "troupe cluster node, format " // its first line, with a number
	joinedMarker = "troupe-joined"
)

func (o *NodeOptions) marker() string {
	s := fmt.Sprintf("%s2\ncluster %s\nnode %s\n", nodeFormat, o.Cluster, o.Name)
	return s + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(s), castagnoli))
}

// OtherKindError is the error of opening a directory that holds a log of another kind. The engine would delete
// the log of a single machine when a cluster's node opens it, so nothing was started.
type OtherKindError struct{ Dir, Holds string }

// Error says in one line what is wrong.
func (e *OtherKindError) Error() string { return fmt.Sprintf("%s holds %s", e.Dir, e.Holds) }

// refuseNode refuses the directory of a cluster's node, and that of a server on a NATS cluster.
func refuseNode(dir string) error {
	if exists(filepath.Join(dir, ForeignMarker)) {
		return &OtherKindError{dir, "what a server keeps of a log on a NATS cluster, not the log of a single machine"}
	}
	if exists(filepath.Join(dir, ReplicaMarker)) {
		return &OtherKindError{dir, "a node of a replicated log, not the log of a single machine"}
	}
	text, err := os.ReadFile(filepath.Join(dir, nodeMarker))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	lines := strings.Split(string(text), "\n")
	return &OtherKindError{dir, fmt.Sprintf("a replica of a cluster's log (%s), not the log of a single machine",
		strings.Join(lines[1:min(3, len(lines))], ", "))}
}

// engineAnswers is how long the engine in this process may take to answer a new connection. The client's own limit of 2
// s passes on a machine that is busy.
const engineAnswers = 30 * time.Second

// openNodeDir checks the marker of a node's directory, or makes it in one that is empty.
func (o *NodeOptions) openNodeDir() error {
	files, err := os.ReadDir(o.Dir)
	if err != nil {
		return err
	}
	empty := true
	for _, f := range files {
		switch f.Name() {
		case lockFile, nodeMarker + ".tmp":
		case nodeMarker:
			text, err := os.ReadFile(filepath.Join(o.Dir, nodeMarker))
			if err == nil && strings.HasPrefix(string(text), nodeFormat+"1\n") {
				return &OtherKindError{o.Dir,
					"a replica in format 1, which programs before 0.2.0 wrote and this one does not read; " +
						"export it with the program that wrote it: troupe cluster export --data"}
			}
			if err == nil && string(text) != o.marker() {
				lines := strings.Split(string(text), "\n")
				err = &OtherKindError{o.Dir, fmt.Sprintf("a replica of another node (%s), not of cluster %s, node %s",
					strings.Join(lines[1:min(3, len(lines))], ", "), o.Cluster, o.Name)}
			}
			return err
		case markerFile:
			return &OtherKindError{o.Dir, "the log of a single machine, which a cluster would delete; give the node " +
				"an empty --data directory"}
		case ForeignMarker:
			return &OtherKindError{o.Dir, "what a server keeps of a log on a NATS cluster; give the node an empty " +
				"--data directory"}
		default:
			empty = false
		}
	}
	if !empty {
		return &OtherKindError{o.Dir, "files that are no replica of a cluster's log"}
	}
	return writeMarkerFile(o.Dir, nodeMarker, o.marker())
}

// writeMarkerFile makes a file that is there as a whole or not at all.
func writeMarkerFile(dir, name, text string) error {
	tmp := filepath.Join(dir, name+".tmp")
	if err := writeFileSync(tmp, []byte(text)); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

// StartNode starts the server of a node and connects to it. It does not wait for other nodes. A directory of
// another kind is an *OtherKindError, one that another process uses a *LockedError, one with damaged block files a
// *DamagedReplicaError; nothing was started then.
func StartNode(ctx context.Context, o NodeOptions) (_ *Node, err error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := refuseNetwork(o.Dir); err != nil {
		return nil, err
	}
	n := &Node{dir: o.Dir, name: o.Name, listen: o.Listen, keys: o.Keys, logf: o.Logf, time: o.Clock}
	n.members.Store(o.membership())
	n.leaderless.after = rescueAfter
	if n.lock, err = lockDir(o.Dir, true); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = n.Close()
		}
	}()
	if err = o.openNodeDir(); err != nil {
		return nil, err
	}
	n.readCare()
	found, err := readReplica(o.Dir, o.Keys, nil)
	if err != nil {
		return nil, err
	}
	if len(found.Damage) == 0 && found.Last >= found.First {
		n.noteVerified(found)
	}
	var refused error // a start as it is
	if len(found.Damage) > 0 {
		bad := &DamagedReplicaError{o.Dir, found.Damage}
		if refused = bad; o.Damaged != nil {
			refused = o.Damaged(bad)
		}
		if refused != nil && !o.Repair {
			return nil, refused
		}
	}
	secret, err := randomID()
	if err != nil {
		return nil, err
	}
	password := secret.String() + ID(n.time.Now().UnixNano()).String()
	n.options = func() (*server.Options, error) {
		o.Routes = n.members.Load().routes
		return o.server(password)
	}
	fills := len(found.Damage) > 0 && refused == nil && o.Repair
	if err := n.beginWith(ctx, refused == nil && !fills); err != nil {
		return nil, err
	}
	for user, nc := range map[string]**nats.Conn{logUser: &n.nc, systemUser: &n.system} {
		*nc, err = nats.Connect("", nats.InProcessServer(n), nats.UserInfo(user, password),
			nats.Timeout(engineAnswers), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
		if err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
	}
	watching, stop := context.WithCancel(context.Background())
	n.stop = stop
	if err := errors.Join(n.answerChecks(watching), n.answerEntries()); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if refused != nil {
		if err := n.startAnew(ctx, found.Damage[0].String()); err != nil {
			return nil, fmt.Errorf("%w; %w", refused, err)
		}
	} else if fills {
		if err := n.startFilled(ctx, found.Damage[0].String()); err != nil {
			return nil, err
		}
	}
	if what := n.Unfinished(); what != "" && n.repairing.Load() == nil {
		n.repairing.Store(&RepairingError{n.time.Now(), what})
	}
	n.watched.Go(func() { n.watch(watching) })
	if n.members.Load().size > 1 {
		n.watched.Go(func() {
			if err := n.contact(watching); err != nil && watching.Err() == nil {
				n.logf("the node does not look after its connections any more: %v", err)
			}
		})
	}
	return n, nil
}

// server returns the options of the engine. It listens for other nodes only, never for clients: this process connects
// from inside. The log has an account of its own, and no account has a user without a password. Without an account of
// its own the engine would make such a user by itself. Nothing may delete the log's streams or single entries; a trim
// purges from the beginning.
func (o *NodeOptions) server(password string) (*server.Options, error) {
	opts := &server.Options{}
	err := opts.ProcessConfigString(fmt.Sprintf(`
accounts {
  %s { jetstream: enabled, users: [ { user: %q, password: %q, permissions: { publish: { deny: [
    "$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.MSG.DELETE.>", "$JS.API.STREAM.RESTORE.>" ] } } } ] }
  %s { users: [ { user: %q, password: %q } ] }
}
system_account: %[4]s
`, logAccount, logUser, password, systemAccount, systemUser, password))
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	opts.ServerName, opts.DontListen, opts.NoSigs = o.Name, true, true
	opts.JetStream, opts.StoreDir, opts.SyncAlways = true, o.Dir, true
	opts.JetStreamMaxStore, opts.JetStreamMaxMemory = math.MaxInt64/4, 64<<20
	opts.MaxPayload, opts.MaxPending = MaxBatch+64<<10, 64<<20
	opts.ConnectErrorReports, opts.ReconnectErrorReports = 60, 60 // about once a second for each connection
	if o.Listen != "" {
		host, port, err := splitAddress(o.Listen)
		if err != nil {
			return nil, err
		}
		opts.Cluster = server.ClusterOpts{Name: o.Cluster, Host: host, Port: port, NoAdvertise: true, TLSConfig: o.TLS,
			TLSTimeout: 10, AuthTimeout: 15,
			PingInterval: routePing, MaxPingsOut: routePings, PoolSize: onePool}
		for _, r := range o.Routes {
			if _, _, err := splitAddress(r); err != nil {
				return nil, err
			}
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: r})
		}
	}
	return opts, nil
}

// begin starts a server. The engine's own start of the connections to other nodes waits for a port for clients, which
// there is none of, so begin makes that call. The engine counts it for the one that waits, which stays for the life of
// the process.
func (n *Node) begin(ctx context.Context) error { return n.beginWith(ctx, true) }

// beginWith starts a server, with an engine or without: one without reaches the engines of the others.
func (n *Node) beginWith(ctx context.Context, engine bool) error {
	opts, err := n.options()
	if err != nil {
		return err
	}
	opts.JetStream = engine
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	n.serving.Store(nil)
	n.srv.Store(srv)
	fatal := make(chan string, 1)
	var failed atomic.Bool
	var stale atomic.Int64 // instant; when a route that the other end has closed was logged
	// The engine has no value for what these lines say: two are left out, and one is kept for what useDisk says. A line with
	// other words reaches our log.
	srv.SetLogger(engineLogger{func(level, text string) {
		if strings.HasPrefix(text, "Plaintext passwords detected") { // that of this process alone, drawn above
			return
		}
		// of each route of a pool, and again with each attempt of the other node
		if strings.Contains(text, "Stale Connection") {
			if at, last := n.time.Mark(), stale.Load(); last != 0 && at.Sub(timing.Instant(last)) < staleEvery ||
				!stale.CompareAndSwap(last, int64(at)) {
				return
			}
		}
		if strings.Contains(text, "Critical write error: ") {
			n.failed.Store(&text)
		}
		if n.logf("engine: %s: %s", level, text); level == "fatal" {
			failed.Store(true)
			select {
			case fatal <- text:
			default:
			}
		}
	}}, false, false)
	started := make(chan struct{})
	go func() {
		defer close(started)
		srv.Start() // returns when all but the connections to other nodes has begun
		if opts.Cluster.Port != 0 && !failed.Load() {
			routes := make(chan struct{})
			close(routes)
			srv.StartRouting(routes)
		}
	}()
	end := func(err error) error { // a server that is stopped in the middle of its start panics
		<-started
		srv.Shutdown()
		srv.WaitForShutdown()
		return err
	}
	for start := n.time.Mark(); !srv.ReadyForConnections(20 * time.Millisecond); {
		select {
		case text := <-fatal:
			return end(fmt.Errorf("engine: %s", text))
		case <-ctx.Done():
			return end(ctx.Err())
		default:
			if n.time.Since(start) > 30*time.Second {
				return end(errors.New("engine: not ready after 30 s"))
			}
		}
	}
	n.serving.Store(srv)
	return nil
}

const (
	watchEvery = 500 * time.Millisecond
	probeBytes = 4 << 20 // there is room when so much can be written
)

// watch sees the engine stop to use the disk, which it does for good after any error of a write, as a whole or for the
// log. When the disk was full and has room again, another server takes the place of this one, as with a new start of
// the process. After other errors nothing says what the disk has, and the node stays without a replica.
func (n *Node) watch(ctx context.Context) {
	for n.time.Sleep(ctx, watchEvery) {
		if !n.restart.TryLock() { // the engine rests
			continue
		}
		err := n.useDisk(ctx)
		n.restart.Unlock()
		if err != nil {
			n.logf("the disk has room again, and the node does not go on: %v", err)
			n.down.Store(&ReplicaDownError{What: err.Error()})
			return
		}
	}
}

// useDisk is one look of watch. Its error is why the node stays without a replica.
func (n *Node) useDisk(ctx context.Context) error {
	what, enabled := "the engine does not say why", n.srv.Load().JetStreamEnabled()
	if text := n.failed.Load(); text != nil {
		what = *text
	} else if enabled {
		return nil
	}
	// the engine gives the error as text alone: with other words a full disk is one that failed, and the replica stays down
	full := strings.Contains(what, "write error: write ") && strings.HasSuffix(what, syscall.ENOSPC.Error())
	if full && enabled { // it is about to stop
		return nil
	}
	e := &ReplicaDownError{what, full}
	if n.down.Swap(e) == nil {
		n.logf("%v", e)
	}
	if !full || n.probe() != nil {
		return nil
	}
	if found, err := readReplica(n.dir, n.keys, nil); err != nil {
		return err
	} else if len(found.Damage) > 0 {
		return &DamagedReplicaError{n.dir, found.Damage}
	}
	old := n.srv.Load()
	old.Shutdown()
	old.WaitForShutdown()
	if err := n.begin(ctx); err != nil {
		n.logf("the disk has room again, and the engine does not start: %v", err)
		return nil
	}
	n.contacts.reset(n.time.Mark())
	n.failed.Store(nil)
	n.down.Store(nil)
	n.logf("the disk has room again, and the node goes on")
	return nil
}

// probe reports whether the disk has room.
func (n *Node) probe() error {
	name := filepath.Join(n.dir, "probe.tmp")
	err := writeFileSync(name, make([]byte, probeBytes))
	return errors.Join(err, os.Remove(name))
}

// SyncTime measures what the disk takes for a small write and its sync.
func (n *Node) SyncTime() (time.Duration, error) {
	name := filepath.Join(n.dir, "sync.tmp")
	start := n.time.Mark()
	err := writeFileSync(name, make([]byte, 512))
	took := n.time.Since(start)
	return took, errors.Join(err, os.Remove(name))
}

// The accounts of a node's engine, each with one user. Their names are those of every node.
const (
	logAccount    = "TROUPE"
	logUser       = "troupe"
	systemAccount = "SYS"
	systemUser    = "troupe-system"

	nodeStorePrefix = "jetstream/" + logAccount + "/streams"
)

// onePool puts all that two nodes say to each other on one connection. By default the engine has four, one of them for
// its elections. After a partition they are made again one by one: a leader that another node has replaced meanwhile
// heard batches a second before it heard of its successor, and stored a hundred of them, which the engine takes back
// one by one, each in up to 2 s.
const onePool = -1

// A connection to another node is closed when that many questions in a row, one each routePing, have no answer: after 2
// to 3 s. Without that a leader whose packets arrive, and that hears none of the others, would lead on for 20 s and
// longer, because the others hear its heartbeats and do not elect. A connection that was closed for nothing, because a
// process stood still, is made again after a second.
const (
	routePing  = time.Second
	routePings = 2
	staleEvery = time.Minute // between two lines of the log about that
)

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("address %q: expected host:port", address)
	}
	return host, port, nil
}

// Conn returns the connection to the node's server, for OpenStream.
func (n *Node) Conn() *nats.Conn { return n.nc }

// Fresh reports whether Joined was never called: then, and only then, the node may make the log (StreamOptions.Create).
func (n *Node) Fresh() bool { return !exists(filepath.Join(n.dir, joinedMarker)) }

// Joined notes that the cluster has a log.
func (n *Node) Joined() error {
	if !n.Fresh() {
		return nil
	}
	return writeMarkerFile(n.dir, joinedMarker, "the cluster has a log\n")
}

// Peers returns the names of the other nodes that this one is connected to.
func (n *Node) Peers() []string {
	z, err := n.srv.Load().Routez(&server.RoutezOptions{})
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	var out []string
	for _, r := range z.Routes {
		if r.RemoteName != "" && !seen[r.RemoteName] {
			seen[r.RemoteName] = true
			out = append(out, r.RemoteName)
		}
	}
	return out
}

// Leads reports whether the node leads the engine's own group.
func (n *Node) Leads() bool { return n.srv.Load().JetStreamIsLeader() }

// handOver lets another node lead the engine's own group when this one does, and waits until one does.
func (n *Node) handOver(ctx context.Context, preferred string) error {
	if !n.Leads() {
		return nil
	}
	if err := stepDown(ctx, n.system, "$JS.API.META.LEADER.STEPDOWN", preferred); err != nil {
		return fmt.Errorf("engine's group: %w", err)
	}
	for n.Leads() || n.metaLeader() == "" || n.metaLeader() == n.srv.Load().Name() {
		if !n.time.Sleep(ctx, stepEvery) {
			return fmt.Errorf("engine's group: no other node leads: %w", ctx.Err())
		}
	}
	return nil
}

// stepDown asks the leader of a group to let another server lead, which must be current: one that is not loses the
// election, and the next one comes after seconds.
func stepDown(ctx context.Context, nc *nats.Conn, subject, preferred string) error {
	var request []byte
	if preferred != "" {
		var err error
		if request, err = json.Marshal(map[string]any{"placement": map[string]string{"preferred": preferred}}); err != nil {
			return err
		}
	}
	m, err := nc.RequestWithContext(ctx, subject, request)
	if err != nil {
		return fmt.Errorf("step down: %w", err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Success bool                `json:"success"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("step down: engine: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("step down: engine: %w", answer.Error)
	}
	return nil
}

// Close stops the server and releases the directory. Let another node lead before (Stream.HandOver): the stop of
// a leader is no hand-over, and the others elect for some seconds.
func (n *Node) Close() error {
	if n.stop != nil {
		n.stop()
		n.watched.Wait()
	}
	for _, nc := range []*nats.Conn{n.nc, n.system} {
		if nc != nil {
			nc.Close()
		}
	}
	if srv := n.srv.Load(); srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	return n.lock.Close()
}
