package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/internal/await"
)

// wire is the network from one node to another: a proxy on loopback that passes on what it reads, or holds it, each
// direction by itself. What was held arrives later, as with TCP that sends again.
type wire struct {
	l      net.Listener
	target string
	mu     sync.Mutex
	cond   *sync.Cond
	held   [2]bool // from the node that dials, and to it
	closed bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{l: l, target: target}
	w.cond = sync.NewCond(&w.mu)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(in)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		w.mu.Lock()
		w.closed = true
		w.cond.Broadcast()
		w.mu.Unlock()
	})
	return w
}

func (w *wire) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer out.Close()
	end := make(chan struct{}, 2)
	for direction, pair := range [2][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			w.pass(pair[0], pair[1], direction)
			end <- struct{}{}
		}()
	}
	<-end
}

func (w *wire) pass(from io.Reader, to io.Writer, direction int) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		for w.held[direction] && !w.closed {
			w.cond.Wait()
		}
		w.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) hold(direction int, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[direction] = held
	w.cond.Broadcast()
}

// newWiredCluster is a cluster with a proxy between every two nodes: wires[i][j] is what node i dials to reach node j. A node tells the others
// where it has found one, as the address of their connection with the port that the one listens at, and they dial that too. That address is
// always 127.0.0.1, that of the proxies. Node j listens at 127.0.0.(2+j), so it cannot be reached around them; its certificate holds for both.
func newWiredCluster(t *testing.T) (c *realCluster, wires [3][3]*wire) {
	t.Helper()
	hosts := [3]string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}
	c = newRealClusterAt(t, hosts)
	c.env = []string{wiresVariable + "=1"}
	c.hosts = [3]string{"127.0.0.1", "127.0.0.1", "127.0.0.1"} // see below
	ca, caKey := makeCertificate(t, c.dir, "ca", nil, nil)
	for i, name := range c.names {
		folder := filepath.Dir(c.file(i))
		makeCertificate(t, folder, name, ca, caKey, net.ParseIP(hosts[i]))
		for to, from := range map[string]string{caFile: filepath.Join(c.dir, "ca.pem"), certFile: filepath.Join(folder, name+".pem"), keyFile: filepath.Join(folder, name+".key")} {
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, to), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(c.file(i))
		if err != nil {
			t.Fatal(err)
		}
		replace := func(old, by string) {
			if strings.Count(string(text), old) != 1 {
				t.Fatalf("%s has no %s", c.file(i), old)
			}
			text = []byte(strings.Replace(string(text), old, by, 1))
		}
		for j, host := range hosts {
			replace("http://"+host, "http://127.0.0.1") // callers
			if i != j {
				wires[i][j] = newWire(t, host+":"+c.ports[j])
				replace(fmt.Sprintf("address = %q", host+":"+c.ports[j]), fmt.Sprintf("address = %q", wires[i][j].l.Addr()))
			}
		}
		if err := os.WriteFile(c.file(i), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c, wires
}

// alone holds all that goes from and to a node, or lets it go.
func alone(wires [3][3]*wire, i int, held bool) {
	for j := range wires {
		if j != i {
			cut(wires, i, j, held)
			cut(wires, j, i, held)
		}
	}
}

// cut holds what goes from node i to node j, whichever of the two has dialled.
func cut(wires [3][3]*wire, i, j int, held bool) {
	wires[i][j].hold(0, held)
	wires[j][i].hold(1, held)
}

// decisions returns how many decisions of the model news a node has applied.
func (c *realCluster) decisions(i int) (n int, status int) {
	var m struct{ Counts struct{ Decisions int } }
	status, _ = c.call(i, "GET", "/v1/models/news", nil, &m)
	return m.Counts.Decisions, status
}

// sleeps stops a node for a while. What it answers when it goes on is not older than 5 s: questions that wait for it then, and those that come
// afterwards, are answered 503 while nothing arrives from the others, and later until it has caught up.
func (c *realCluster) sleeps(l *clusterLoad, wires [3][3]*wire, i int, long time.Duration) {
	c.t.Helper()
	if err := freeze(c.procs[i].Process); err != nil {
		c.t.Fatal(err)
	}
	begun := time.Now()
	c.up[i].Store(false)
	l.more(c.t, 20)
	least, status := c.decisions((i + 1) % 3)
	for status != 200 {
		least, status = c.decisions((i + 1) % 3)
	}
	known := time.Now()
	l.more(c.t, 20)
	time.Sleep(max(long-time.Since(begun), 5*time.Second+100*time.Millisecond-time.Since(known))) // the fault itself takes time
	var mu sync.Mutex
	answers := map[int]int{}
	ask := func() {
		n, status := c.decisions(i)
		mu.Lock()
		defer mu.Unlock()
		if answers[status]++; status == 200 && n < least {
			c.t.Errorf("node %s was stopped for %v and has %d decisions, of more than 5 s ago; there were %d", c.names[i], time.Since(begun), n, least)
		}
	}
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(ask)
	}
	time.Sleep(100 * time.Millisecond) // they are in its socket
	alone(wires, i, true)
	if err := thaw(c.procs[i].Process); err != nil {
		c.t.Fatal(err)
	}
	for range 50 {
		ask()
	}
	waiting.Wait()
	if answers[503] != 60 {
		c.t.Errorf("node %s has slept for %v and has heard nothing since: answers %v, want 503 to all 60", c.names[i], long, answers)
	}
	alone(wires, i, false)
	for range 50 {
		ask()
	}
	c.up[i].Store(true)
}

// cutOff waits until a node answers 503 to writes and reads, and is not ready.
func (c *realCluster) cutOff(l *clusterLoad, i int) {
	c.t.Helper()
	for note := range await.Tries(c.t) {
		write, _ := c.call(i, "POST", "/v1/models/news:decide", map[string]any{"actions": []map[string]any{{"id": "x"}}}, nil)
		_, read := c.decisions(i)
		ready, _ := c.call(i, "GET", "/readyz", nil, nil)
		l.mu.Lock()
		l.unknown++ // some of these wait for a majority, and are stored when there is one
		l.mu.Unlock()
		if write == 503 && read == 503 && ready == 503 {
			return
		}
		note("node %s is cut off and answers %d, %d and %d", c.names[i], write, read, ready)
	}
}

// TestClusterFaults: nodes that stand still and networks that pass nothing, with real processes under load. Every answered
// event is there once afterwards, and all nodes have the same state.
func TestClusterFaults(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("partitions and frozen processes take minutes; TestStaleReads of package serve is short")
	}
	t.Parallel()
	c, wires := newWiredCluster(t)
	for i := range c.names {
		c.start(i)
	}
	leader := c.ready(3)
	c.makeModel()
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	for _, what := range []string{"leader sleeps", "follower sleeps", "leader alone", "follower alone", "bridge", "leader is not heard", "leader does not hear"} {
		l.bulk.more(7)
		end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
		l.more(t, 50)
		l.begin()
		a, b := (leader+1)%3, (leader+2)%3
		var held [][2]int // directions
		minority := -1
		switch what {
		case "leader sleeps":
			c.sleeps(l, wires, leader, 15*time.Second)
		case "follower sleeps":
			c.sleeps(l, wires, a, 15*time.Second)
		case "leader alone":
			held, minority = [][2]int{{leader, a}, {a, leader}, {leader, b}, {b, leader}}, leader
		case "follower alone":
			held, minority = [][2]int{{leader, a}, {a, leader}, {a, b}, {b, a}}, a
		case "bridge": // only b is connected with both
			held = [][2]int{{leader, a}, {a, leader}}
		case "leader is not heard":
			held = [][2]int{{leader, a}, {leader, b}}
		case "leader does not hear":
			held = [][2]int{{a, leader}, {b, leader}}
		}
		for _, x := range held {
			cut(wires, x[0], x[1], true)
		}
		if held != nil {
			l.more(t, 100) // a majority goes on
			if minority >= 0 {
				c.cutOff(l, minority)
			}
			l.more(t, 50)
		}
		gap := l.since()
		for _, x := range held {
			cut(wires, x[0], x[1], false)
		}
		leader = c.ready(3)
		l.more(t, 50)
		l.bulk.reach()
		end()
		t.Logf("%s: longest time without an answer %v", what, gap.Round(10*time.Millisecond))
		c.level()
		c.check(l)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d events with a key, %d without, %d of unknown outcome", len(l.events), l.unkeyed, l.unknown)
	c.whole(l)
}
