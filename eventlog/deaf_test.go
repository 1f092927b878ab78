package eventlog_test

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/await"
)

// oneWay is a proxy on loopback that holds what comes back from its target while it is held.
type oneWay struct {
	net.Listener
	mu   sync.Mutex
	cond *sync.Cond
	held bool
}

func newOneWay(t *testing.T, target string) *oneWay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &oneWay{Listener: l}
	w.cond = sync.NewCond(&w.mu)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			open.Go(func() { // it ends when in is closed
				_, _ = io.Copy(out, in)
				in.Close()
				out.Close()
			})
			open.Go(func() {
				_, _ = io.Copy(in, gate{out, w})
				in.Close()
				out.Close()
			})
		}
	})
	t.Cleanup(func() { // after the nodes are stopped
		l.Close()
		w.hold(false)
		open.Wait()
	})
	return w
}

func (w *oneWay) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	w.cond.Broadcast()
}

type gate struct {
	io.Reader
	w *oneWay
}

func (g gate) Read(b []byte) (int, error) {
	n, err := g.Reader.Read(b)
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	for g.w.held {
		g.w.cond.Wait()
	}
	return n, err
}

// TestDeaf: the network passes what a node sends and nothing that is for it. Both ends close their connections within seconds, so
// the node, when it leads, is not heard either, and the others elect; without the questions of routePing they are open for more than a minute.
// The connections come back with the network.
func TestDeaf(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: connections are silent for seconds")
	}
	t.Parallel()
	addresses := eventlog.FreePorts(t, 2)
	w := newOneWay(t, addresses[1])
	nodes := make([]*eventlog.Node, 2)
	for i, routes := range [][]string{{w.Addr().String()}, {addresses[1]}} { // the second one dials itself only
		n, err := eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: t.TempDir(), Cluster: "c", Name: string(rune('a' + i)), Listen: addresses[i], Routes: routes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		nodes[i] = n
	}
	connected := func(peers int) {
		t.Helper()
		for note := range await.Tries(t) {
			if len(nodes[0].Peers()) == peers && len(nodes[1].Peers()) == peers {
				break
			}
			note("the nodes are connected with %v and %v, want %d each", nodes[0].Peers(), nodes[1].Peers(), peers)
		}
	}
	connected(1)
	w.hold(true)
	begun := time.Now()
	connected(0)
	t.Logf("closed after %v", time.Since(begun).Round(10*time.Millisecond))
	w.hold(false)
	connected(1)
}
