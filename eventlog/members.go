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
	"github.com/nats-io/nats.go"
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
	id string
	jetstream.PeerInfo
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

// ownGroup is the engine's own group, which makes streams and consumers, as its servers see it.
type ownGroup struct {
	peers map[string]peer // by id, as the leader sees them; nil while no server leads
	sizes map[string]int  // how many servers each one that answered counts, by name
}

// groupFor is how long the servers that are there have for an answer; while none of them leads they have streamWait.
const groupFor = time.Second

// group asks the servers of the engine's own group for what they see. Servers that are away do not answer.
func (n *Node) group(ctx context.Context) (*ownGroup, error) {
	g := &ownGroup{sizes: map[string]int{}}
	err := n.askServers(ctx, "JSZ", []byte("{}"), func(data []byte) error { return g.answer(data) }, func(long bool) bool {
		all := !slices.ContainsFunc(n.members.Load().names, func(name string) bool { return g.sizes[name] == 0 })
		return g.peers != nil && (all || long)
	})
	return g, err
}

// askServers puts a question to the servers of the engine, and gives the answers to answer until enough says so, which
// is told whether groupFor has passed, or streamWait has passed.
func (n *Node) askServers(ctx context.Context, what string, question []byte, answer func(data []byte) error,
	enough func(long bool) bool) error {
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	answers := make(chan *nats.Msg, 64)
	inbox := n.system.NewInbox()
	sub, err := n.system.ChanSubscribe(inbox, answers)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }()
		err = n.system.PublishRequest("$SYS.REQ.SERVER.PING."+what, inbox, question)
	}
	if err != nil {
		return fmt.Errorf("engine's group: %w", err)
	}
	tick := n.time.Ticker(lookEvery)
	defer tick.Stop()
	for begun := n.time.Mark(); !enough(n.time.Since(begun) > groupFor); {
		select {
		case m := <-answers:
			if err := answer(m.Data); err != nil {
				return err
			}
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// answer takes the answer of one server.
func (g *ownGroup) answer(data []byte) error {
	var a struct {
		Server struct{ Name string }
		Data   *server.JSInfo
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return fmt.Errorf("engine's group: %w", err)
	}
	if a.Data == nil || a.Data.Meta == nil {
		return nil
	}
	m := a.Data.Meta
	g.sizes[a.Server.Name] = m.Size
	if m.Leader != a.Server.Name {
		return nil
	}
	g.peers = map[string]peer{peerID(m.Leader): {peerID(m.Leader), jetstream.PeerInfo{Name: m.Leader, Current: true}}}
	for _, r := range m.Replicas {
		g.peers[r.Peer] = peer{r.Peer, jetstream.PeerInfo{Name: r.Name, Current: r.Current, Offline: r.Offline,
			Active: r.Active, Lag: r.Lag}}
	}
	return nil
}

// InGroup returns why this node's server does not take part in the engine's own group yet, nil when it does. The engine
// takes a name that was removed from the group again after five minutes.
func (n *Node) InGroup(ctx context.Context) error {
	g, err := n.group(ctx)
	if err != nil {
		return err
	}
	if g.peers == nil {
		return errNoLeader
	}
	if _, ok := g.peers[peerID(n.name)]; !ok {
		return errors.New("the engine has not taken this node into its group yet; a name that was removed it takes " +
			"again after five minutes")
	}
	return nil
}

var errNoLeader = errors.New("engine's group: it has no leader")

// strayAfter is how long a server that is no node of the cluster stays in the engine's group after it was heard last. A
// node that is to be one is there before the log says so.
const strayAfter = 2 * time.Minute

// A replica that is not current is behind when it lacks more than a busy log writes in a moment, or is silent.
const (
	fewEntries = 256
	nodeSilent = 2 * time.Second
)

// lacking says why a majority with a replica would wait for it, as the leader of its group sees it, empty when it would
// not. It may lack few entries while the group is busy.
func lacking(r *jetstream.PeerInfo, few uint64) string {
	switch {
	case r.Offline:
		return "does not run"
	case r.Current:
		return ""
	case r.Lag == 0 && r.Active == 0:
		return "has no part in it yet"
	case r.Lag > few && r.Lag == 1:
		return "is one entry behind"
	case r.Lag > few:
		return fmt.Sprintf("is %d entries behind", r.Lag)
	case r.Active > nodeSilent:
		return fmt.Sprintf("was not heard of for %.0f s", r.Active.Seconds())
	}
	return ""
}

// Behind says which of the nodes in names a majority would wait for in one of the engine's groups beside that of shard
// 0 (see Replicas), and why: in its own group, which makes streams and consumers, and in the stream of the bases. A
// node that is not in the answer is as current as the others. It is an error when one of these groups has no leader.
func (l *Stream) Behind(ctx context.Context, names []string) (map[string]string, error) {
	if l.opt.Node == nil {
		return nil, nil
	}
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer end()
	g, err := l.opt.Node.group(both)
	if err == nil && g.peers == nil {
		err = errNoLeader
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	note := func(name, why, group string) {
		if why != "" && out[name] == "" {
			out[name] = why + " in " + group
		}
	}
	for _, name := range names {
		p, ok := g.peers[peerID(name)]
		why := lacking(&p.PeerInfo, 0)
		if !ok {
			why = "has no part yet"
		}
		note(name, why, "the engine's own group")
	}
	bases, err := l.bases(both, false)
	if err != nil || bases == nil {
		return out, err
	}
	info := bases.CachedInfo().Cluster
	if info == nil || info.Leader == "" {
		return nil, errors.New("the stream of the bases has no leader")
	}
	for _, name := range names {
		i := slices.IndexFunc(info.Replicas, func(r *jetstream.PeerInfo) bool { return r.Name == name })
		why := "has no part yet"
		if name == info.Leader {
			why = ""
		} else if i >= 0 {
			why = lacking(info.Replicas[i], 0)
		}
		note(name, why, "the group of the bases")
	}
	return out, nil
}

// Fit brings the engine a step closer to the nodes in names: its own group and the replicas of all streams are to be
// these. A server that is none of them is removed from the group when it does not run: one in gone at once, another one
// after two minutes. It returns what it waits for, nothing when all is as it is to be, which is when each of the names
// has what the others have in every group; call it again until then. Several nodes may call it at once. The caller
// makes sure that a majority of names runs.
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
	if g.peers == nil {
		if n.leaderless.long(n.time.Mark()) {
			err = n.rescue(both, names, gone)
		}
		return "the engine's own group has no leader", err
	}
	n.leaderless.led()
	ids := map[string]string{}
	for _, name := range names {
		ids[peerID(name)] = name
	}
	for id, p := range g.peers {
		left := slices.ContainsFunc(gone, func(name string) bool { return peerID(name) == id })
		switch {
		case ids[id] != "":
		case p.Offline && (left || p.Active > strayAfter):
			if err := n.removePeer(both, id); err != nil {
				return "", err
			}
			waits = "the engine removes a server that is no node"
		case left:
			waits = "a node that was removed still runs: stop it"
		}
	}
	for id, name := range ids {
		if _, ok := g.peers[id]; !ok {
			return "the engine has not taken " + name + " into its group yet", nil
		}
	}
	if waits == "" {
		waits = g.unheard(names)
	}
	if waits != "" {
		return waits, nil
	}
	for _, name := range names { // one that has nothing has no vote, should another one be lost
		p := g.peers[peerID(name)]
		if why := lacking(&p.PeerInfo, 0); why != "" && waits == "" {
			waits = name + " " + why + " in the engine's own group"
		}
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
	if waits == "" {
		return n.unheardLog(both, names)
	}
	return waits, nil
}

// unheardLog returns which of the nodes counts other servers of the log than there are nodes, for the reason of
// unheard.
func (n *Node) unheardLog(ctx context.Context, names []string) (waits string, err error) {
	sizes := map[string][]int{} // of each group of the log, by name of the server
	question, err := json.Marshal(server.RaftzOptions{AccountFilter: logAccount})
	if err != nil {
		return "", err
	}
	err = n.askServers(ctx, "RAFTZ", question, func(data []byte) error {
		var a struct {
			Server struct{ Name string }
			Data   server.RaftzStatus
		}
		if err := json.Unmarshal(data, &a); err != nil {
			return fmt.Errorf("groups of the log: %w", err)
		}
		sizes[a.Server.Name] = []int{}
		for _, g := range a.Data[logAccount] {
			sizes[a.Server.Name] = append(sizes[a.Server.Name], g.Size)
		}
		return nil
	}, func(long bool) bool {
		return long || !slices.ContainsFunc(names, func(name string) bool { return sizes[name] == nil })
	})
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if sizes[name] == nil { // it is away
			continue
		}
		if len(sizes[name]) == 0 {
			return name + " has no replica of the log yet", nil
		}
		for _, size := range sizes[name] {
			if size != len(names) {
				return fmt.Sprintf("%s has not heard yet that the log has %d replicas", name, len(names)), nil
			}
		}
	}
	return "", nil
}

// unheard returns which of the nodes counts other servers than the leader. A change of the group is safe when all nodes
// know it: if the leader is lost before, the others elect by the old count, with servers that are gone among those that
// must agree.
func (g *ownGroup) unheard(names []string) string {
	for _, name := range names {
		if size, ok := g.sizes[name]; ok && size != len(g.peers) {
			return fmt.Sprintf("%s has not heard yet that the engine's group has %d servers", name, len(g.peers))
		}
	}
	return ""
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
		} else if !r.Current && lacking(r, fewEntries) != "" {
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
