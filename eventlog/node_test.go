package eventlog

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/internal/await"
)

// oneNode is a node without others, and its log.
func oneNode(t *testing.T) (*Node, *Stream) {
	t.Helper()
	n, err := StartNode(t.Context(), NodeOptions{Dir: filepath.Join(t.TempDir(), "log"), Cluster: "c", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	l, err := OpenStream(t.Context(), n.Conn(), StreamOptions{Create: true, MaxBytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return n, l
}

// twoNodes are the nodes a and b of a cluster.
func twoNodes(t *testing.T) (nodes [2]*Node) {
	t.Helper()
	listen := freePorts(t, 2)
	for i := range nodes {
		n, err := StartNode(t.Context(), NodeOptions{Dir: t.TempDir(), Cluster: "c", Name: string(rune('a' + i)),
			Listen: listen[i], Routes: listen})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		nodes[i] = n
	}
	return nodes
}

// TestLostAnswers: what is asked of bases, and a trim, ends long before the time of the whole act when the engine does not answer. It may be done again.
func TestLostAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("an answer that is missing takes seconds")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	n, l := oneNode(t)
	b := Base{Seq: 3, Record: 4, Size: 1, Sum: sha256.Sum256([]byte("x"))}
	if err := l.PutBase(ctx, b, []byte("x")); err != nil {
		t.Fatal(err)
	}
	n.stop() // or it would start the engine again
	n.watched.Wait()
	n.srv.Load().Shutdown()
	begun := time.Now()
	var all sync.WaitGroup
	all.Go(func() { // nothing is known of the entry
		if _, err := l.Get(ctx, 0, 1); !errors.Is(err, ErrSilent) || errors.Is(err, ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
	})
	for name, act := range map[string]func() error{
		"PutBase":   func() error { return l.PutBase(ctx, b, []byte("x")) },
		"Bases":     func() error { _, err := l.Bases(ctx); return err },
		"GetBase":   func() error { _, err := l.GetBase(ctx, b); return err },
		"DropBases": func() error { return l.DropBases(ctx, 9) },
		"purge":     func() error { return purge(ctx, l.streams[0], jetstream.WithPurgeSequence(1)) },
	} {
		all.Go(func() {
			err := act()
			if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), fmt.Sprintf("no answer for %v", streamWait)) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took > 6*streamWait {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
	all.Wait()
}

// TestSeenEntry: that an entry is not in the log, which this process has been given, is the word of a server that leads no more. Get asks until another
// one has it, or says that there is no answer.
func TestSeenEntry(t *testing.T) {
	t.Parallel()
	_, l := oneNode(t)
	add := func(batch int) {
		if _, _, err := l.Append(t.Context(), 0, fmt.Sprint(batch), oneBatch(0, batch, 10)); err != nil {
			t.Error(err)
		}
	}
	add(1)
	if _, err := l.Get(t.Context(), 0, 2); !errors.Is(err, ErrNotFound) {
		t.Errorf("an entry that was not seen: %v", err)
	}
	l.seen[0].Store(2) // as if the leader of then had stored it
	hurry, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.Get(hurry, 0, 2); !errors.Is(err, ErrSilent) || errors.Is(err, ErrNotFound) {
		t.Errorf("an entry that was seen: %v", err)
	}
	var late sync.WaitGroup
	defer late.Wait()
	late.Go(func() { add(2) })
	if e, err := l.Get(t.Context(), 0, 2); err != nil || e.Seq != 2 {
		t.Errorf("an entry that comes back: %v", err)
	}
	l.seen[0].Store(0)
	for e, err := range l.Read(t.Context(), 0, 1) {
		if err != nil || e.Seq == 2 {
			break
		}
	}
	if seen := l.seen[0].Load(); seen != 2 {
		t.Errorf("a reader was given entry 2, and %d is noted", seen)
	}
}

// TestOneConnection: what two nodes say to each other goes over one connection, elections and batches, so a node that was cut off hears of its successor
// before it stores batches that are not for it.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	nodes := twoNodes(t)
	for note := range await.Tries(t) {
		if len(nodes[0].Peers())*len(nodes[1].Peers()) != 0 {
			break
		}
		note("the nodes are not connected")
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

// TestStartIsClosed: a server that begins takes no connection before it takes part in its cluster.
func TestStartIsClosed(t *testing.T) {
	listen := freePorts(t, 2)
	n, err := StartNode(t.Context(), NodeOptions{Dir: t.TempDir(), Cluster: "c", Name: "a", Listen: listen[0], Routes: listen})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	n.nc.Close() // or it would connect
	n.system.Close()
	stopServer(n)
	old := n.srv.Load()
	begun := make(chan error, 1)
	go func() { begun <- n.begin(t.Context()) }()
	for refused := 0; ; {
		alone := !n.srv.Load().JetStreamIsClustered()
		if c, err := n.InProcessConn(); err != nil {
			refused++
		} else if err := c.Close(); n.srv.Load() != old && alone || err != nil {
			t.Fatalf("a connection to a server that is not of a cluster yet (%v)", err)
		}
		select {
		case err := <-begun:
			if err != nil || refused == 0 {
				t.Errorf("%d connections refused: %v", refused, err)
			}
			return
		default:
		}
	}
}

// TestStartEnds: a start that is given up is over, and leaves neither a server nor the port to it.
func TestStartEnds(t *testing.T) {
	t.Parallel()
	listen := freePorts(t, 2)
	n, err := StartNode(t.Context(), NodeOptions{Dir: t.TempDir(), Cluster: "c", Name: "a", Listen: listen[0], Routes: listen})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	stopServer(n)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := n.begin(ctx); err != nil && (!errors.Is(err, context.Canceled) || n.srv.Load().Running()) {
			t.Fatalf("a start that is given up: %v, running %v", err, n.srv.Load().Running())
		}
		stopServer(n)
	}
	if err := n.begin(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTurnOfOneThatComesBack: a node whose engine is back from a rest, and which takes no questions yet, may still repair
// its files.
func TestTurnOfOneThatComesBack(t *testing.T) {
	t.Parallel()
	nodes := twoNodes(t)
	nodes[1].nc.Close()
	for note := range await.Tries(t) {
		_, _, err := nodes[0].askEntries(t.Context(), "b", entriesAsk{})
		if len(nodes[0].Peers()) > 0 && errors.Is(err, nats.ErrNoResponders) {
			break
		}
		note("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fillStart/10)
	defer cancel()
	if _, err := nodes[0].turn(ctx); !errors.Is(err, context.DeadlineExceeded) || nodes[0].intends.Load() {
		t.Errorf("the turn came: %v", err)
	}
}

// TestNoDoor: a node listens for other nodes and for nothing else. No port lets a client in, with no password, a wrong
// one, or the certificate of another cluster, and the connection of the process itself cannot delete the log.
func TestNoDoor(t *testing.T) {
	listen := freePorts(t, 2)
	ours, theirs := testTLS(t), testTLS(t)
	before := listening(t)
	node, err := StartNode(t.Context(), NodeOptions{Dir: filepath.Join(t.TempDir(), "log"), Cluster: "c", Name: "a",
		Listen: listen[0], Routes: listen, TLS: ours})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	ports := slices.DeleteFunc(listening(t), func(port int) bool { return slices.Contains(before, port) })
	if _, want, err := splitAddress(listen[0]); err != nil || !slices.Equal(ports, []int{want}) {
		t.Errorf("the node listens on %v, expected %s alone, the port of the nodes", ports, listen[0])
	}
	var all sync.WaitGroup
	for _, port := range ports {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		for name, option := range map[string]nats.Option{
			"no password": nats.Timeout(time.Second), "a wrong password": nats.UserInfo(logUser, "wrong"),
			"a certificate of another cluster": nats.Secure(&tls.Config{Certificates: theirs.Certificates, InsecureSkipVerify: true}),
			"a certificate of this cluster":    nats.Secure(&tls.Config{Certificates: ours.Certificates, InsecureSkipVerify: true}),
		} {
			all.Go(func() {
				nc, err := nats.Connect(address, option, nats.Timeout(time.Second), nats.IgnoreAuthErrorAbort())
				if err == nil {
					nc.Close()
					t.Errorf("port %d lets a client in, with %s", port, name)
				}
			})
		}
	}
	all.Wait()
}

// TestLogStays: the engine refuses to delete the streams of the log, an entry, and to put back an older stream.
func TestLogStays(t *testing.T) {
	beside(t)
	_, l := oneNode(t)
	if _, err := l.js.Publish(t.Context(), subjectName(0), []byte("an entry")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	for _, act := range []func() error{
		func() error { return l.js.DeleteStream(ctx, streamName(0)) },
		func() error { return l.streams[0].DeleteMsg(ctx, 1) },
	} {
		if act() == nil {
			t.Error("the log, or an entry, was deleted")
		}
	}
	if info, err := l.streams[0].Info(t.Context()); err != nil || info.State.Msgs != 1 || info.State.NumDeleted != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// testTLS is the configuration of a node in a cluster with an authority of its own.
func testTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
}

// listening returns the TCP ports that this process listens on.
func listening(t *testing.T) (ports []int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the ports of a process are found in /proc, which is Linux's")
	}
	sockets := map[string]bool{}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(name, "socket:[") {
			sockets[strings.TrimSuffix(strings.TrimPrefix(name, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !sockets[f[9]] { // 0A: it listens
				continue
			}
			port, err := strconv.ParseUint(f[1][strings.LastIndex(f[1], ":")+1:], 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, int(port))
		}
	}
	return ports
}
