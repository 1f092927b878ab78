package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"troupe/timing"
)

// CutOffError is the error of a node that the network has cut off, so that its engine rests. The engine has no
// pre-vote: a follower that hears no leader calls for elections with rising terms, and when the network is back the
// others must answer it with an election of their own, in which nothing is stored for 4 to 9 s. An engine that rests
// calls for none.
type CutOffError struct {
	Since time.Time
	Why   string
}

// Error says in one line what is wrong.
func (e *CutOffError) Error() string {
	return fmt.Sprintf("this node %s since %s; it waits for the network and comes back by itself", e.Why,
		e.Since.UTC().Format(time.RFC3339))
}

// An engine calls for an election when it has heard no leader for 4 to 9 s, so a node that is cut off must have found
// it out before: heardFor after the last answer it asks the network, which has dialFor.
const (
	lookEvery  = 200 * time.Millisecond
	askEvery   = 500 * time.Millisecond // the engines of the others
	heardFor   = 1600 * time.Millisecond
	dialFor    = 700 * time.Millisecond
	restAtMost = 10 * time.Second // with one link down, see again whether the node behind it is still there
)

// contacts is what a node knows of the connections of the cluster, from answers of the other nodes' engines.
type contacts struct {
	mu    sync.Mutex
	since timing.Instant              // nothing is silent before heardFor has passed
	heard map[string]timing.Instant   // when a node has answered
	says  map[string]map[string]count // by node: what it has got from others
	kept  map[string]received         // by question: the answers to it, for those that wait for them
}

// count is how many messages a node has got from another one, and when that has grown.
type count struct {
	messages int64
	at       timing.Instant
}

// received is how many messages a node, the first key, has got from another one, the second.
type received map[string]map[string]int64

// view is what a node knows at one moment; the rest of the file decides on it.
type view struct {
	self  string
	size  int                 // nodes of the cluster
	leads []string            // the nodes that lead the log and the engine's own group, each empty while none does
	heard []string            // other nodes that have answered
	says  map[string][]string // by node of heard: the nodes that it hears
}

func (v view) majority() int { return v.size/2 + 1 }

// verdict is what a view leads to: the engine goes on, or it rests if the network does not reach all nodes.
type verdict struct {
	why  string // empty: it goes on
	lost string // the one node that is not heard; empty when the node hears no majority
}

// verdict decides whether the engine of this node must rest.
//
// No majority: it hears less than one, and no node that it hears hears one.
//
// One link: it does not hear one node, q, that every other node hears, and q stays because it leads the log, or the
// engine's own group or, when neither of the two leads, by its name. Without that both would call for elections, one
// after the other, as long as the link is down. Each pair of nodes without a link loses one node then: at most half of
// an odd number, rounded down, so those that stay are a majority. An even number may lose its majority, and there the
// rule is not used.
func (v view) verdict() verdict {
	if 1+len(v.heard) < v.majority() {
		for _, p := range v.heard {
			if 1+len(v.says[p]) >= v.majority() {
				return verdict{}
			}
		}
		return verdict{why: fmt.Sprintf("reaches %d of %d other nodes, no majority,", len(v.heard), v.size-1)}
	}
	if v.size%2 == 0 || len(v.heard) != v.size-2 {
		return verdict{}
	}
	q := ""
	for _, p := range v.heard {
		others := slices.DeleteFunc(slices.Clone(v.says[p]), func(n string) bool {
			return n == v.self || slices.Contains(v.heard, n)
		})
		if len(others) != 1 || q != "" && others[0] != q {
			return verdict{}
		}
		q = others[0]
	}
	stays := min(q, v.self)
	for _, leader := range slices.Backward(v.leads) {
		if leader == q || leader == v.self {
			stays = leader
		}
	}
	if stays == v.self {
		return verdict{}
	}
	return verdict{fmt.Sprintf("does not reach node %s, which all others reach,", q), q}
}

// stillHeard reports whether each of the nodes has got something from q between two questions.
func stillHeard(q string, nodes []string, before, after received) bool {
	for _, p := range nodes {
		was, know := before[p][q]
		is, knows := after[p][q]
		if !know || !knows || is <= was {
			return false
		}
	}
	return len(nodes) > 0
}

// reset forgets what was heard, when an engine has begun.
func (c *contacts) reset(now timing.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.heard, c.says = now, map[string]timing.Instant{}, map[string]map[string]count{}
	c.kept = map[string]received{}
}

// answer takes the answer of an engine to a question for its connections.
func (c *contacts) answer(question string, data []byte, now timing.Instant) {
	var a struct {
		Server struct{ Name string }
		Data   struct {
			Routes []struct {
				Name     string `json:"remote_name"`
				Messages int64  `json:"in_msgs"`
			}
		}
	}
	if json.Unmarshal(data, &a) != nil || a.Server.Name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	got, old, says := map[string]int64{}, c.says[a.Server.Name], map[string]count{}
	for _, r := range a.Data.Routes {
		got[r.Name] = r.Messages
		was, known := old[r.Name]
		if !known || r.Messages != was.messages {
			was = count{r.Messages, now}
		}
		says[r.Name] = was
	}
	c.says[a.Server.Name], c.heard[a.Server.Name] = says, now
	if kept := c.kept[question]; kept != nil {
		kept[a.Server.Name] = got
	}
}

// keep keeps the answers to a question until take takes them.
func (c *contacts) keep(question string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[question] = received{}
}

func (c *contacts) take(question string) received {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.kept[question]
	delete(c.kept, question)
	return kept
}

// view returns what is known now, and false while the engine has not run for heardFor.
func (c *contacts) view(self string, size int, now timing.Instant) (view, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := view{self: self, size: size, says: map[string][]string{}}
	if now.Sub(c.since) < heardFor {
		return v, false
	}
	for p, at := range c.heard {
		if p == self || now.Sub(at) >= heardFor {
			continue
		}
		v.heard = append(v.heard, p)
		for q, n := range c.says[p] {
			if q != p && now.Sub(n.at) < heardFor {
				v.says[p] = append(v.says[p], q)
			}
		}
	}
	slices.Sort(v.heard)
	return v, true
}

// unreached returns how many of the addresses the network does not reach. One that refuses is reached: the machine is
// there, and its process or engine is not. So a node goes on when the others are stopped, and nodes that all rest come
// back when the network does.
func unreached(ctx context.Context, addresses []string) int {
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	reached := make([]bool, len(addresses))
	var wg sync.WaitGroup
	for i, a := range addresses {
		wg.Go(func() {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", a)
			if err == nil {
				_ = c.Close()
			}
			reached[i] = err == nil || errors.Is(err, syscall.ECONNREFUSED)
		})
	}
	wg.Wait()
	n := 0
	for _, r := range reached {
		if !r {
			n++
		}
	}
	return n
}

// contact asks the engines of the others for their connections, and lets the engine of this node rest while the network
// has cut it off.
func (n *Node) contact(ctx context.Context) error {
	inbox := n.system.NewInbox() + "."
	sub, err := n.system.Subscribe(inbox+"*", func(m *nats.Msg) {
		n.contacts.answer(m.Subject[len(inbox):], m.Data, n.time.Mark())
	})
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	questions := 0
	ask := func(keep bool) (question string) {
		questions++
		question = strconv.Itoa(questions)
		if keep {
			n.contacts.keep(question)
		}
		_ = n.system.PublishRequest("$SYS.REQ.SERVER.PING.ROUTEZ", inbox+question, nil)
		return question
	}
	n.contacts.reset(n.time.Mark())
	var asked timing.Instant
	for n.time.Sleep(ctx, lookEvery) {
		if n.down.Load() != nil { // an engine without a disk calls for no election
			continue
		}
		if now := n.time.Mark(); asked == 0 || now.Sub(asked) >= askEvery {
			asked = now
			ask(false)
		}
		m := n.members.Load()
		v, known := n.contacts.view(n.name, m.size, n.time.Mark())
		if m.names != nil {
			v.heard = slices.DeleteFunc(v.heard, func(p string) bool { return !slices.Contains(m.names, p) })
		}
		if !known || len(v.heard) >= m.size-1 {
			continue
		}
		v.leads = n.leaders()
		if d := v.verdict(); d.why != "" && n.cutOff(ctx, v, d, ask) {
			if err := n.rest(ctx, d, v.majority()); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutOff asks the network whether a verdict is right. A process that stood still has heard nobody, too, but it reaches
// the others. A node that is cut off by itself is not heard by the others from then on; one behind a broken link is.
func (n *Node) cutOff(ctx context.Context, v view, d verdict, ask func(keep bool) string) bool {
	begun, first := n.time.Mark(), ask(true)
	others := n.members.Load().others
	lost := unreached(ctx, others)
	if d.lost == "" || lost == 0 {
		n.contacts.take(first)
		return lost > 0 && 1+len(others)-lost < v.majority() && ctx.Err() == nil
	}
	n.time.Sleep(ctx, dialFor-n.time.Since(begun)) // an address without a machine is refused at once
	second := ask(true)
	n.time.Sleep(ctx, lookEvery)
	before, after := n.contacts.take(first), n.contacts.take(second)
	return stillHeard(d.lost, v.heard, before, after) && ctx.Err() == nil
}

// rest stops the engine until the network reaches a majority or, when one link is down, all others or restAtMost has
// passed, and starts it again.
func (n *Node) rest(ctx context.Context, d verdict, majority int) error {
	n.restart.Lock()
	defer n.restart.Unlock()
	begun := n.time.Mark()
	n.cut.Store(&CutOffError{n.time.Now(), d.why})
	n.logf("the node %s and its engine rests, so that it disturbs no election of the others", d.why)
	old := n.srv.Load()
	old.Shutdown()
	old.WaitForShutdown()
	for n.time.Sleep(ctx, lookEvery) {
		others := n.members.Load().others
		lost := unreached(ctx, others)
		if lost == 0 || d.lost == "" && 1+len(others)-lost >= majority ||
			d.lost != "" && n.time.Since(begun) > restAtMost {
			break
		}
	}
	for {
		err := n.begin(ctx)
		if err == nil {
			break
		}
		n.logf("the engine does not start after its rest: %v", err)
		if !n.time.Sleep(ctx, lastRetry) {
			return ctx.Err()
		}
	}
	n.contacts.reset(n.time.Mark())
	n.cut.Store(nil)
	n.logf("the engine goes on after a rest of %v", n.time.Since(begun).Round(100*time.Millisecond))
	return nil
}

// leaders returns the names of the nodes that lead the log and the engine's own group, each empty while none does.
func (n *Node) leaders() []string {
	z, err := n.srv.Load().Jsz(&server.JSzOptions{Account: logAccount, Streams: true})
	if err != nil {
		return nil
	}
	out := []string{"", ""}
	for _, a := range z.AccountDetails {
		for _, s := range a.Streams {
			if s.Name == streamName(0) && s.Cluster != nil {
				out[0] = s.Cluster.Leader
			}
		}
	}
	if z.Meta != nil {
		out[1] = z.Meta.Leader
	}
	return out
}

// metaLeader returns the name of the node that leads the engine's own group, which makes streams and consumers; empty
// while there is none.
func (n *Node) metaLeader() string {
	z, err := n.srv.Load().Jsz(&server.JSzOptions{})
	if err != nil || z.Meta == nil {
		return ""
	}
	return z.Meta.Leader
}
