package eventlog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// membership is what a node knows of the cluster that it belongs to. The log has the names; where the nodes are stands
// in a file of the operator's, so an address may be missing for a while.
type membership struct {
	names  []string // of all nodes; nil while only addresses are known
	routes []string // host:port of every node whose address is known
	others []string // without this one's
	size   int      // nodes of the cluster
}

func (o *NodeOptions) membership() *membership {
	m := &membership{routes: slices.Clone(o.Routes)}
	m.others = slices.DeleteFunc(slices.Clone(o.Routes), func(a string) bool { return a == o.Listen })
	m.size = 1 + len(m.others)
	return m
}

// SetMembers tells a node that runs which nodes the cluster has, and where they are: host:port of each whose address is
// known, its own among them. The engines of new nodes connect to this one by themselves.
func (n *Node) SetMembers(names, addresses []string) {
	o := NodeOptions{Listen: n.listen, Routes: addresses}
	m := o.membership()
	m.names, m.size = slices.Clone(names), len(names)
	n.members.Store(m)
}

// peer is a server of the engine's own group, as the group's leader sees it.
type peer struct {
	id      string
	offline bool
	silent  time.Duration // since it was heard of
}

// peerID returns the name by which the engine's groups know a server: the engine's own function is not exported.
func peerID(name string) string {
	const digits, size = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 8
	sum := sha256.Sum256([]byte(name))
	b := sum[:size]
	for i := range b {
		b[i] = digits[int(b[i])%len(digits)]
	}
	return string(b)
}

// group asks the leader of the engine's own group, which makes streams and consumers, for its servers, and returns them
// by id.
func (n *Node) group(ctx context.Context) (map[string]peer, error) {
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	request, err := json.Marshal(server.JSzOptions{LeaderOnly: true})
	if err != nil {
		return nil, err
	}
	m, err := n.system.RequestWithContext(ctx, "$SYS.REQ.SERVER.PING.JSZ", request)
	if err != nil {
		return nil, fmt.Errorf("engine's group: %w", err)
	}
	var answer struct {
		Data *server.JSInfo `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, fmt.Errorf("engine's group: %w", err)
	}
	if answer.Data == nil || answer.Data.Meta == nil || answer.Data.Meta.Leader == "" {
		return nil, errors.New("engine's group: it has no leader")
	}
	out := map[string]peer{peerID(answer.Data.Meta.Leader): {id: peerID(answer.Data.Meta.Leader)}}
	for _, r := range answer.Data.Meta.Replicas {
		out[r.Peer] = peer{r.Peer, r.Offline, r.Active}
	}
	return out, nil
}

// InGroup returns why this node's server does not take part in the engine's own group yet, nil when it does. The engine
// takes a name that was removed from the group again after five minutes.
func (n *Node) InGroup(ctx context.Context) error {
	g, err := n.group(ctx)
	if err != nil {
		return err
	}
	if _, ok := g[peerID(n.name)]; !ok {
		return errors.New("the engine has not taken this node into its group yet; a name that was removed it takes " +
			"again after five minutes")
	}
	return nil
}

// strayAfter is how long a server that is no node of the cluster stays in the engine's group after it was heard last. A
// node that is to be one is there before the log says so.
const strayAfter = 2 * time.Minute

// A replica that is not current is behind when it lacks more than a busy log writes in a moment, or is silent.
const (
	fewEntries = 256
	nodeSilent = 2 * time.Second
)

// Fit brings the engine a step closer to the nodes in names: its own group and the replicas of all streams are to be
// these. A server that is none of them is removed from the group when it does not run: one in gone at once, another one
// after two minutes. It returns what it waits for, nothing when all is as it is to be; call it again until then. Several
// nodes may call it at once. The caller makes sure that a majority of names runs.
func (l *Stream) Fit(ctx context.Context, names, gone []string) (waits string, err error) {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return "", err
	}
	defer end()
	n := l.opt.Node
	if n == nil {
		return "", errors.New("the servers of the log are not the nodes")
	}
	g, err := n.group(both)
	if err != nil {
		return "", err
	}
	ids := map[string]string{}
	for _, name := range names {
		ids[peerID(name)] = name
	}
	for id, p := range g {
		left := slices.ContainsFunc(gone, func(name string) bool { return peerID(name) == id })
		switch {
		case ids[id] != "":
		case p.offline && (left || p.silent > strayAfter):
			if err := n.removePeer(both, id); err != nil {
				return "", err
			}
			waits = "the engine removes a server that is no node"
		case left:
			waits = "a node that was removed still runs: stop it"
		}
	}
	for id, name := range ids {
		if _, ok := g[id]; !ok {
			return "the engine has not taken " + name + " into its group yet", nil
		}
	}
	if waits != "" {
		return waits, nil
	}
	streams := []string{baseStream}
	for shard := range l.streams {
		streams = append(streams, streamName(uint16(shard)))
	}
	for _, name := range streams {
		w, err := l.fitStream(both, name, names)
		if err != nil {
			return "", fmt.Errorf("stream %s: %w", name, err)
		}
		if waits == "" {
			waits = w
		}
	}
	return waits, nil
}

// fitStream gives a stream a replica at each of the nodes. The engine lets a new replica take what the log has before
// it counts for a majority.
func (l *Stream) fitStream(ctx context.Context, name string, names []string) (waits string, err error) {
	s, err := asked(ctx, func(ctx context.Context) (jetstream.Stream, error) { return l.js.Stream(ctx, name) })
	if name == baseStream && errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	info := s.CachedInfo()
	if info.Config.Replicas != len(names) {
		cfg := info.Config
		cfg.Replicas = len(names)
		if _, err := asked(ctx, func(ctx context.Context) (jetstream.Stream, error) {
			return l.js.UpdateStream(ctx, cfg)
		}); err != nil {
			return "", err
		}
		return "the replicas change", nil
	}
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return "no node leads", nil
	}
	have, behind := []string{info.Cluster.Leader}, []string{}
	for _, r := range info.Cluster.Replicas {
		if have = append(have, r.Name); !slices.Contains(names, r.Name) {
			waits = "the replica of " + r.Name + " is not removed yet"
		} else if !r.Current && (r.Offline || r.Lag > fewEntries || r.Active > nodeSilent) {
			behind = append(behind, r.Name)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(have, n) })
	switch {
	case len(missing) > 0:
		waits = "there is no replica yet at " + strings.Join(missing, " and ")
	case waits == "" && len(behind) > 0:
		waits = "the replica is behind at " + strings.Join(behind, " and ")
	}
	return waits, nil
}

// removePeer removes a server that does not run from the engine's own group and from all streams.
func (n *Node) removePeer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	request, err := json.Marshal(map[string]string{"peer_id": id})
	if err != nil {
		return err
	}
	m, err := n.system.RequestWithContext(ctx, server.JSApiRemoveServer, request)
	if err != nil {
		return fmt.Errorf("remove a server from the engine's group: %w", err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("remove a server from the engine's group: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("remove a server from the engine's group: %w", answer.Error)
	}
	return nil
}

// others returns how many other nodes the cluster has.
func (n *Node) others() int { return n.members.Load().size - 1 }
