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
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	// Damaged is asked whether the node may start with damaged block files: nil is yes. Without Damaged it may not.
	Damaged func(*DamagedReplicaError) error
	// Logf gets the engine's warnings and errors. It may be nil.
	Logf func(format string, a ...any)
}

// Node is a server of NATS JetStream inside this process that keeps a replica of a cluster's log. Every file is
// synced before the replica counts for a majority. For clients it listens on loopback only, with a random password that it
// gives to none.
type Node struct {
	dir    string
	srv    *server.Server
	nc     *nats.Conn
	system *nats.Conn // of the engine's system account
	lock   *os.File
}

// nodeMarker is the file that makes a directory the replica of a cluster's node, joinedMarker the one that says
// that the cluster had a log when the node was there.
const (
	nodeMarker   = "troupe-node"
	joinedMarker = "troupe-joined"
)

func (o *NodeOptions) marker() string {
	s := fmt.Sprintf("troupe cluster node, format 1\ncluster %s\nnode %s\n", o.Cluster, o.Name)
	return s + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(s), castagnoli))
}

// OtherKindError is the error of opening a directory that holds a log of another kind. The engine would delete
// the log of a single machine when a cluster's node opens it, so nothing was started.
type OtherKindError struct{ Dir, Holds string }

func (e *OtherKindError) Error() string { return fmt.Sprintf("%s holds %s", e.Dir, e.Holds) }

// refuseNode refuses the directory of a cluster's node, and that of a server on a NATS cluster.
func refuseNode(dir string) error {
	if exists(filepath.Join(dir, remoteMarker)) {
		return &OtherKindError{dir, "what a server keeps of a log on a NATS cluster, not the log of a single machine"}
	}
	text, err := os.ReadFile(filepath.Join(dir, nodeMarker))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	lines := strings.Split(string(text), "\n")
	return &OtherKindError{dir, fmt.Sprintf("a replica of a cluster's log (%s), not the log of a single machine", strings.Join(lines[1:min(3, len(lines))], ", "))}
}

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
			if err == nil && string(text) != o.marker() {
				lines := strings.Split(string(text), "\n")
				err = &OtherKindError{o.Dir, fmt.Sprintf("a replica of another node (%s), not of cluster %s, node %s", strings.Join(lines[1:min(3, len(lines))], ", "), o.Cluster, o.Name)}
			}
			return err
		case markerFile:
			return &OtherKindError{o.Dir, "the log of a single machine, which a cluster would delete; give the node an empty --data directory"}
		case remoteMarker:
			return &OtherKindError{o.Dir, "what a server keeps of a log on a NATS cluster; give the node an empty --data directory"}
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
	n := &Node{dir: o.Dir}
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
	if found, err := readReplica(o.Dir, nil); err != nil {
		return nil, err
	} else if len(found.Damage) > 0 {
		err := error(&DamagedReplicaError{o.Dir, found.Damage})
		if o.Damaged != nil {
			err = o.Damaged(&DamagedReplicaError{o.Dir, found.Damage})
		}
		if err != nil {
			return nil, err
		}
	}
	secret, err := randomID()
	if err != nil {
		return nil, err
	}
	password := secret.String() + ID(time.Now().UnixNano()).String()
	system := server.NewAccount(server.DEFAULT_SYSTEM_ACCOUNT)
	opts := &server.Options{
		ServerName: o.Name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		Users:    []*server.User{{Username: "troupe", Password: password}, {Username: systemUser, Password: password, Account: system}},
		Accounts: []*server.Account{system}, SystemAccount: system.Name,
		JetStream: true, StoreDir: o.Dir, SyncAlways: true, JetStreamMaxStore: math.MaxInt64 / 4, JetStreamMaxMemory: 64 << 20,
		MaxPayload: MaxBatch + 64<<10, MaxPending: 64 << 20,
		ConnectErrorReports: 60, ReconnectErrorReports: 60, // it tries about once a second for each connection of its pool
	}
	if o.Listen != "" {
		host, port, err := splitAddress(o.Listen)
		if err != nil {
			return nil, err
		}
		opts.Cluster = server.ClusterOpts{Name: o.Cluster, Host: host, Port: port, NoAdvertise: true, TLSConfig: o.TLS, TLSTimeout: 10, AuthTimeout: 15}
		for _, r := range o.Routes {
			if _, _, err := splitAddress(r); err != nil {
				return nil, err
			}
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: r})
		}
	}
	if n.srv, err = server.NewServer(opts); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	fatal := make(chan string, 1)
	n.srv.SetLogger(engineLogger{func(level, text string) {
		if strings.HasPrefix(text, "Plaintext passwords detected") { // that of this process alone, drawn above
			return
		}
		if o.Logf("engine: %s: %s", level, text); level == "fatal" {
			select {
			case fatal <- text:
			default:
			}
		}
	}}, false, false)
	go n.srv.Start()
	for start := time.Now(); !n.srv.ReadyForConnections(20 * time.Millisecond); {
		select {
		case text := <-fatal:
			return nil, fmt.Errorf("engine: %s", text)
		case <-ctx.Done():
			return nil, ctx.Err()
		default:
			if time.Since(start) > 30*time.Second {
				return nil, errors.New("engine: not ready after 30 s")
			}
		}
	}
	for user, nc := range map[string]**nats.Conn{"troupe": &n.nc, systemUser: &n.system} {
		*nc, err = nats.Connect("", nats.InProcessServer(n.srv), nats.UserInfo(user, password), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
		if err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
	}
	return n, nil
}

const systemUser = "troupe-system"

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
	z, err := n.srv.Routez(&server.RoutezOptions{})
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

// metaLeader returns the name of the node that leads the engine's own group, which makes streams and consumers; empty
// while there is none.
func (n *Node) metaLeader() string {
	z, err := n.srv.Jsz(&server.JSzOptions{})
	if err != nil || z.Meta == nil {
		return ""
	}
	return z.Meta.Leader
}

// Leads reports whether the node leads the engine's own group.
func (n *Node) Leads() bool { return n.srv.JetStreamIsLeader() }

// handOver lets another node lead the engine's own group when this one does, and waits until one does.
func (n *Node) handOver(ctx context.Context, preferred string) error {
	if !n.Leads() {
		return nil
	}
	if err := stepDown(ctx, n.system, "$JS.API.META.LEADER.STEPDOWN", preferred); err != nil {
		return fmt.Errorf("engine's group: %w", err)
	}
	for n.Leads() || n.metaLeader() == "" || n.metaLeader() == n.srv.Name() {
		if !pause(ctx, stepEvery) {
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
	for _, nc := range []*nats.Conn{n.nc, n.system} {
		if nc != nil {
			nc.Close()
		}
	}
	if n.srv != nil {
		n.srv.Shutdown()
		n.srv.WaitForShutdown()
	}
	return n.lock.Close()
}
