package cli

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/eventlog/raftlog"
	"troupe/eventlog/raftlog/raftnode"
	"troupe/serve"
)

// What replicates the log of a cluster.
const (
	engineStream = "jetstream" // servers in the nodes, the default
	engineRaft   = "raft"
)

// raftServer is a node of a cluster whose log is one of package raftlog.
type raftServer struct {
	config *clusterConfig
	flags  *serveFlags
	keys   eventlog.IDKeys
	node   *raftnode.Node
	logger *slog.Logger
	names  atomic.Pointer[[]string] // of the nodes, as the log has them
}

// raftDial makes the connections to other nodes, nil to dial their addresses. Tests give one.
var raftDial func(ctx context.Context, c *clusterConfig, to raftlog.Member) (net.Conn, error)

// newRaftServer listens where the other nodes reach this one.
func newRaftServer(c *clusterConfig, keys eventlog.IDKeys, f *serveFlags, logger *slog.Logger) (*raftServer, error) {
	conf, err := c.tls()
	if err != nil {
		return nil, err
	}
	r := &raftServer{config: c, flags: f, keys: keys, logger: logger}
	o := raftnode.Options{
		Dir: filepath.Join(f.data, "log"), Bases: filepath.Join(f.data, "bases"), Cluster: c.raftCluster(),
		Founds: c.Nodes[0].Name == c.Node && !c.Join, Most: mostNodes, MaxBytes: f.maxLog, TLS: conf, Clock: serverClock,
		Logf: engineSays(logger),
	}
	if raftDial != nil {
		o.Dial = func(ctx context.Context, m raftlog.Member) (net.Conn, error) { return raftDial(ctx, c, m) }
	}
	for _, n := range c.Nodes {
		m := raftlog.Member{Name: n.Name, Addr: n.Address}
		if n.Name == c.Node {
			o.Self = m
		} else {
			o.Peers = append(o.Peers, m)
		}
	}
	if r.node, err = raftnode.New(o); err != nil {
		return nil, fmt.Errorf("node %s at %s: %w", c.Node, o.Self.Addr, err)
	}
	return r, nil
}

// raftCluster is the number of the cluster, from its name.
func (c *clusterConfig) raftCluster() eventlog.ID {
	sum := sha256.Sum256([]byte(c.Cluster))
	return max(1, eventlog.ID(binary.LittleEndian.Uint64(sum[:])))
}

// open waits until the node is a voter of the log and has what was committed.
func (c *raftServer) open(ctx context.Context, o *serve.Options) error {
	told, stop := context.WithCancel(ctx)
	go func() {
		for serverClock.Sleep(told, 3*time.Second) {
			c.logger.Info("waiting", "for", c.waits())
		}
	}()
	err := c.node.Open(ctx)
	stop()
	o.Log, o.Keys = c.node, c.keys
	o.Cluster = &serve.Cluster{Node: c.config.Node, Nodes: c.config.names(), Missing: c.missing, Engine: raftEngine{c.node, c},
		Joins: c.config.Join, Certified: c.config.certified, Replica: serve.Replica{
			Check: c.node.Check, Walk: c.node.Walk, Repair: c.node.Repair, Care: c.node.Care,
			WalkEvery: c.flags.verifyEvery, WalkShare: c.flags.verifyShare}}
	return err
}

// raftEngine is the engine of a node, for the server, which tells the node the list of the log.
type raftEngine struct {
	*raftnode.Node
	of *raftServer
}

var _ serve.Engine = raftEngine{}

// Changed takes the names of the nodes from the log.
func (e raftEngine) Changed(names []string) { e.of.names.Store(&names) }

// missing are the nodes that this one has no connection to.
func (c *raftServer) missing() []string {
	if names := c.names.Load(); names != nil {
		return c.node.Missing(*names)
	}
	return c.node.Missing(c.config.names())
}

func (c *raftServer) name() string { return c.config.Node }

func (c *raftServer) waits() string { return c.node.Waits() }

func (c *raftServer) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // without a majority there is none to hand over to
	defer cancel()
	if err := c.node.HandOver(ctx); err != nil {
		c.logger.Warn("no other node leads yet", "error", err.Error())
	}
}

func (c *raftServer) close() error { return c.node.Close() }

// onlyStream refuses a command that works on the files or the protocol of the other engine. instead says what to do.
func (c *clusterConfig) onlyStream(instead string) error {
	if c.Engine != engineRaft {
		return nil
	}
	return term.Misuse(fmt.Errorf("%s is a cluster of the engine %s, for which this command is not there; %s", c.Cluster, engineRaft, instead))
}

// engines are the names that --engine takes.
var engines = []string{engineStream, engineRaft}

func isEngine(name string) bool { return slices.Contains(engines, name) }
