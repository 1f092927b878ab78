package eventlog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// TestLostAnswers: what is asked of bases, and a trim, ends long before the time of the whole act when the engine does not answer. It may be done again.
func TestLostAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("an answer that is missing takes seconds")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := StartNode(ctx, NodeOptions{Dir: filepath.Join(t.TempDir(), "log"), Cluster: "c", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	l, err := OpenStream(ctx, n.Conn(), StreamOptions{Create: true, MaxBytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := Base{Seq: 3, Record: 4, Size: 1, Sum: sha256.Sum256([]byte("x"))}
	if err := l.PutBase(ctx, b, []byte("x")); err != nil {
		t.Fatal(err)
	}
	n.stop() // or it would start the engine again
	n.watched.Wait()
	n.srv.Load().Shutdown()
	begun := time.Now()
	var all sync.WaitGroup
	for name, act := range map[string]func() error{
		"PutBase":   func() error { return l.PutBase(ctx, b, []byte("x")) },
		"Bases":     func() error { _, err := l.Bases(ctx); return err },
		"GetBase":   func() error { _, err := l.GetBase(ctx, b); return err },
		"DropBases": func() error { return l.DropBases(ctx, 9) },
		"purge":     func() error { return purge(ctx, l.streams[0], jetstream.WithPurgeSequence(1)) },
	} {
		all.Go(func() {
			err := act()
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no answer for %v", streamWait)) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took > 6*streamWait {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
	all.Wait()
}

// TestOneConnection: what two nodes say to each other goes over one connection, elections and batches, so a node that was cut off hears of its successor
// before it stores batches that are not for it.
func TestOneConnection(t *testing.T) {
	var nodes [2]*Node
	listen := freePorts(t, 2)
	for i := range nodes {
		n, err := StartNode(t.Context(), NodeOptions{Dir: t.TempDir(), Cluster: "c", Name: string(rune('a' + i)), Listen: listen[i], Routes: listen})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		nodes[i] = n
	}
	for since := time.Now(); len(nodes[0].Peers())*len(nodes[1].Peers()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(since) > time.Minute {
			t.Fatal("the nodes are not connected")
		}
	}
	z, err := nodes[0].srv.Load().Routez(&server.RoutezOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range z.Routes {
		if len(z.Routes) != 1 || r.Account != "" {
			t.Errorf("%d connections, this one is that of the account %q: %+v", len(z.Routes), r.Account, r)
		}
	}
}
