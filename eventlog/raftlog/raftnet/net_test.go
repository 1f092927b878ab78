package raftnet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"troupe/eventlog/eventlogtest"
	"troupe/eventlog/raftlog"
	"troupe/internal/await"
	"troupe/timing"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("RAFTNET_PROCESS"); dir != "" {
		process(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// authority vouches for certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority() *authority {
	a := &authority{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), pool: x509.NewCertPool()}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), KeyUsage: x509.KeyUsageCertSign}
	a.cert = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, t, t, &a.key.PublicKey, a.key))))
	a.pool.AddCert(a.cert)
	return a
}

// tls is the configuration of a node with a name, which trusts the authority.
func (a *authority) tls(name string) *tls.Config {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	t := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der := must(x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key))
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: a.pool, ClientCAs: a.pool}
}

func name(id uint64) string { return fmt.Sprintf("node-%d", id) }

func listen(t testing.TB) net.Listener {
	t.Helper()
	return must(net.Listen("tcp", "127.0.0.1:0"))
}

// cluster is a place with three nodes that speak over TLS.
type cluster struct {
	dir  string
	ca   *authority
	made bool
}

type clusterLog struct {
	*raftlog.Log
	logs []*raftlog.Log
	nets []*Net
}

func (l *clusterLog) Close() error {
	var errs []error
	for i := range l.logs {
		errs = append(errs, l.logs[i].Close(), l.nets[i].Close())
	}
	return errors.Join(errs...)
}

func (c *cluster) Open(t *testing.T, limit uint64) eventlogtest.Log { return c.open(t, limit) }

func (c *cluster) open(t testing.TB, limit uint64) *clusterLog {
	t.Helper()
	var peers []raftlog.Member
	where := map[string]net.Listener{} // the log keeps the addresses of the first time
	for id := uint64(1); id <= 3; id++ {
		peers = append(peers, raftlog.Member{ID: id, Name: name(id), Addr: name(id) + ":1"})
		where[name(id)] = listen(t)
	}
	dial := func(ctx context.Context, m raftlog.Member) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", where[m.Name].Addr().String())
	}
	l := &clusterLog{}
	for _, p := range peers {
		n, err := New(Options{Cluster: 7, ID: p.ID, Listener: where[p.Name], TLS: c.ca.tls(p.Name), Dial: dial, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		o := raftlog.Options{Dir: filepath.Join(c.dir, p.Name), Cluster: 7, ID: p.ID, Shards: 2, MaxBytes: int64(limit), Reserve: 1 << 20, Network: n,
			Logf: t.Logf}
		if !c.made {
			if err := raftlog.Create(o, peers...); err != nil {
				t.Fatal(err)
			}
		}
		log, err := raftlog.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		n.Serve(log)
		l.logs, l.nets = append(l.logs, log), append(l.nets, n)
	}
	c.made, l.Log = true, l.logs[1]
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	for shard := range uint16(2) {
		if err := l.Ready(ctx, shard); err != nil {
			t.Fatalf("shard %d: %v", shard, err)
		}
	}
	return l
}

// TestLog: three nodes over TLS are a log.
func TestLog(t *testing.T) {
	ca := newAuthority()
	eventlogtest.TestLog(t, func(t *testing.T) eventlogtest.Engine { return &cluster{dir: t.TempDir(), ca: ca} })
}

// sink takes messages and has one file.
type sink struct {
	mu   sync.Mutex
	got  []*pb.Message
	file []byte
}

func (s *sink) Receive(_ uint16, m *pb.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, m)
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

func (s *sink) File(group uint16, first uint64, b []byte, at int64) error {
	if group != 3 || first != 5 || at < 0 || at+int64(len(b)) > int64(len(s.file)) {
		return errors.New("none")
	}
	copy(b, s.file[at:])
	return nil
}

// wait waits for a condition.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, what, ok)
}

func message(from, to uint64, data int) *pb.Message {
	m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &from, To: &to}
	if data > 0 {
		m.Type = pb.MsgApp.Enum()
		m.Entries = []*pb.Entry{{Data: bytes.Repeat([]byte{7}, data)}}
	}
	return m
}

// pair is two nodes; through is where the first one dials the second one, its own address when empty.
func pair(t *testing.T, ca *authority, through string, check func(raftlog.Member, *x509.Certificate) error) (a, b *Net, sb *sink) {
	t.Helper()
	la, lb := listen(t), listen(t)
	if through == "" {
		through = lb.Addr().String()
	}
	sa := &sink{}
	sb = &sink{file: []byte("0123456789")}
	a = must(New(Options{Cluster: 7, ID: 1, Listener: la, TLS: ca.tls(name(1)), Logf: t.Logf}, raftlog.Member{ID: 2, Name: name(2), Addr: through}))
	b = must(New(Options{Cluster: 7, ID: 2, Listener: lb, TLS: ca.tls(name(2)), Check: check, Logf: t.Logf}, raftlog.Member{ID: 1, Name: name(1), Addr: la.Addr().String()}))
	a.Serve(sa)
	b.Serve(sb)
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return a, b, sb
}

// TestMessages: messages arrive, small ones and those with a batch of 1 MiB; parts of files are fetched.
func TestMessages(t *testing.T) {
	a, _, sb := pair(t, newAuthority(), "", nil)
	wait(t, "connected", func() bool { return a.Connected(2) })
	for _, n := range []int{0, 100, 1 << 20} {
		before := sb.count()
		a.Send(3, message(1, 2, n))
		wait(t, "the message", func() bool { return sb.count() == before+1 })
		if m := sb.got[before]; n > 0 && len(m.Entries[0].Data) != n || m.GetFrom() != 1 || m.GetTo() != 2 {
			t.Errorf("%d bytes arrive as %v of node %d", n, m.GetType(), m.GetFrom())
		}
	}
	b := make([]byte, 4)
	if err := a.Fetch(t.Context(), 3, 2, 5, b, 3); err != nil || string(b) != "3456" {
		t.Errorf("%q, %v", b, err)
	}
	if err := a.Fetch(t.Context(), 3, 2, 6, b, 3); err == nil {
		t.Error("a file that is not there was fetched")
	}
	if err := a.Fetch(t.Context(), 3, 2, 5, b, 0); err != nil || string(b) != "0123" {
		t.Errorf("after an error: %q, %v", b, err)
	}
	if err := a.Fetch(t.Context(), 3, 9, 5, b, 0); err == nil {
		t.Error("a file of a node that is not known was fetched")
	}
}

// TestRefused: who has no certificate of this authority, or one of another name, or speaks for another node or of another cluster,
// is refused, and nothing that it sends arrives.
func TestRefused(t *testing.T) {
	ca := newAuthority()
	_, b, sb := pair(t, ca, "", nil)
	good := hello{laneControl, 7, 1, 2}
	for _, c := range []struct {
		what  string
		tls   *tls.Config
		hello hello
		then  *pb.Message
	}{
		{"another authority", newAuthority().tls(name(1)), good, nil},
		{"no certificate", &tls.Config{}, good, nil},
		{"another name", ca.tls("node-3"), good, nil},
		{"another node", ca.tls(name(1)), hello{laneControl, 7, 3, 2}, nil},
		{"another cluster", ca.tls(name(1)), hello{laneControl, 8, 1, 2}, nil},
		{"to another node", ca.tls(name(1)), hello{laneControl, 7, 1, 3}, nil},
		{"no lane", ca.tls(name(1)), hello{9, 7, 1, 2}, nil},
		{"a message of another node", ca.tls(name(1)), good, message(3, 2, 0)},
		{"a message to another node", ca.tls(name(1)), good, message(1, 3, 0)},
	} {
		before := b.Refused()
		conf := c.tls.Clone()
		conf.InsecureSkipVerify, conf.MinVersion = true, tls.VersionTLS13
		conn, err := tls.Dial("tcp", b.opt.Listener.Addr().String(), conf)
		if err == nil {
			_, err = writeFrame(conn, nil, frameHello, c.hello.encode())
			if c.then != nil && err == nil {
				var kind byte
				if kind, _, err = readFrame(conn, nil); err != nil || kind != frameWelcome {
					t.Fatalf("%s: %v", c.what, err)
				}
				text := append([]byte{0, 0}, must(marshal(c.then))...)
				_, err = writeFrame(conn, nil, frameMessage, text)
			}
			if err == nil {
				_, _, err = readFrame(conn, nil)
			}
			_ = conn.Close()
		}
		if err == nil {
			t.Errorf("%s: the connection was taken", c.what)
		}
		wait(t, c.what, func() bool { return b.Refused() > before })
	}
	if n := sb.count(); n > 0 {
		t.Errorf("%d messages have arrived", n)
	}
}

// proxy passes connections on until it is told to hold their bytes.
type proxy struct {
	l    net.Listener
	to   atomic.Value // address
	hold atomic.Bool
	mu   sync.Mutex
	all  []net.Conn
	work sync.WaitGroup
}

func newProxy(t *testing.T) *proxy {
	p := &proxy{l: listen(t)}
	p.to.Store("127.0.0.1:1")
	p.work.Go(func() {
		for {
			c, err := p.l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", p.to.Load().(string))
			if err != nil {
				_ = c.Close()
				continue
			}
			p.mu.Lock()
			p.all = append(p.all, c, d)
			p.mu.Unlock()
			for _, way := range [][2]net.Conn{{c, d}, {d, c}} {
				p.work.Go(func() {
					defer way[0].Close()
					defer way[1].Close()
					b := make([]byte, 4096)
					for {
						n, err := way[0].Read(b)
						if err != nil {
							return
						}
						for p.hold.Load() {
							(timing.Clock{}).Sleep(context.Background(), 10*time.Millisecond)
						}
						if _, err := way[1].Write(b[:n]); err != nil {
							return
						}
					}
				})
			}
		}
	})
	t.Cleanup(func() {
		p.hold.Store(false)
		_ = p.l.Close()
		p.mu.Lock()
		for _, c := range p.all {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	})
	return p
}

// TestHang: a connection that hangs is noticed long before the system gives it up, and made anew when that works. What waited for more than a second
// has been thrown away.
func TestHang(t *testing.T) {
	p := newProxy(t)
	a, b, sb := pair(t, newAuthority(), p.l.Addr().String(), nil)
	p.to.Store(b.opt.Listener.Addr().String())
	wait(t, "connected", func() bool { return a.Connected(2) })
	clock := timing.Clock{}
	p.hold.Store(true)
	began := clock.Mark()
	wait(t, "noticed", func() bool { return !a.Connected(2) })
	noticed := clock.Since(began)
	before := sb.count()
	for range 20 {
		a.Send(0, message(1, 2, 0)) // old when the connection is there again
	}
	clock.Sleep(t.Context(), 1200*time.Millisecond)
	p.hold.Store(false)
	began = clock.Mark()
	wait(t, "connected again", func() bool { return a.Connected(2) })
	again := clock.Since(began)
	a.Send(0, message(1, 2, 50))
	wait(t, "the new message", func() bool { return sb.count() > before })
	clock.Sleep(t.Context(), 100*time.Millisecond)
	if n := sb.count() - before; n != 1 {
		t.Errorf("%d messages arrive after the hang, want the new one alone", n)
	}
	t.Logf("noticed after %v, connected again after %v", noticed, again) // 1 s and .2 s on a quiet machine
	// Without pings the system would notice after minutes.
	if noticed > 30*time.Second {
		t.Errorf("the hang was noticed after %v", noticed)
	}
}

// TestRevoked: a certificate that Check refuses later loses its connections, and does not get new ones.
func TestRevoked(t *testing.T) {
	var revoked atomic.Bool
	a, b, sb := pair(t, newAuthority(), "", func(p raftlog.Member, _ *x509.Certificate) error {
		if revoked.Load() && p.ID == 1 {
			return errors.New("revoked")
		}
		return nil
	})
	wait(t, "connected", func() bool { return a.Connected(2) && b.Connected(1) })
	revoked.Store(true)
	b.Recheck()
	wait(t, "closed", func() bool { return !a.Connected(2) && !b.Connected(1) })
	before, refused := sb.count(), b.Refused()
	a.Send(0, message(1, 2, 0))
	wait(t, "refused again", func() bool { return b.Refused() > refused })
	if sb.count() != before || a.Connected(2) {
		t.Error("a revoked certificate speaks on")
	}
}

// TestPeers: a node that is a member no more has no connections, and wrong options are refused.
func TestPeers(t *testing.T) {
	ca := newAuthority()
	a, b, _ := pair(t, ca, "", nil)
	wait(t, "connected", func() bool { return a.Connected(2) && b.Connected(1) })
	if err := b.SetPeers(); err != nil {
		t.Fatal(err)
	}
	wait(t, "closed", func() bool { return !a.Connected(2) })
	if b.Connected(1) {
		t.Error("a node that is no member is connected")
	}
	for _, p := range [][]raftlog.Member{{{ID: 0, Name: "a", Addr: "b"}}, {{ID: 1, Name: "", Addr: "b"}}, {{ID: 1, Name: "a", Addr: ""}},
		{{ID: 1, Name: "a", Addr: "b"}, {ID: 1, Name: "c", Addr: "d"}}} {
		if err := a.SetPeers(p...); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
	for _, o := range []Options{{}, {Cluster: 7, ID: 1}, {Cluster: 7, ID: 1, Listener: a.opt.Listener}, {Cluster: 7, ID: 1, Listener: a.opt.Listener, TLS: &tls.Config{}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// FuzzFrame: bytes of a network are a frame or an error, and no more memory is taken than the largest frame.
func FuzzFrame(f *testing.F) {
	for _, c := range [][]byte{hello{laneEntries, 7, 1, 2}.encode(), fetch{3, 5, 9, 100}.encode(), nil} {
		b, err := writeFrame(io.Discard, nil, frameHello, c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, content, err := readFrame(bytes.NewReader(b), nil)
		if err != nil {
			return
		}
		again, err := writeFrame(io.Discard, nil, kind, content)
		if err != nil || !bytes.Equal(again, b[:len(again)]) {
			t.Fatalf("%x comes back as %x, %v", b, again, err)
		}
		if h, ok := parseHello(content); ok && !bytes.Equal(h.encode(), content) {
			t.Fatalf("hello %x", content)
		}
		if x, ok := parseFetch(content); ok && !bytes.Equal(x.encode(), content) {
			t.Fatalf("fetch %x", content)
		}
	})
}

func marshal(m *pb.Message) ([]byte, error) { return proto.Marshal(m) }

// printer prints the first message that arrives.
type printer struct {
	once *sync.Once
	done chan bool
}

func (p printer) Receive(group uint16, m *pb.Message) {
	p.once.Do(func() {
		fmt.Printf("group %d: %v of node %d\n", group, m.GetType(), m.GetFrom())
		close(p.done)
	})
}

func (printer) File(uint16, uint64, []byte, int64) error { return errors.New("none") }

// Two nodes with certificates of one authority; in a program the nodes are *raftlog.Log.
func ExampleNew() {
	ca := newAuthority()
	l1, l2 := must(net.Listen("tcp", "127.0.0.1:0")), must(net.Listen("tcp", "127.0.0.1:0"))
	peers := []raftlog.Member{{ID: 1, Name: "node-1", Addr: l1.Addr().String()}, {ID: 2, Name: "node-2", Addr: l2.Addr().String()}}
	a := must(New(Options{Cluster: 7, ID: 1, Listener: l1, TLS: ca.tls("node-1")}, peers...))
	defer a.Close()
	b := must(New(Options{Cluster: 7, ID: 2, Listener: l2, TLS: ca.tls("node-2")}, peers...))
	defer b.Close()
	p := printer{&sync.Once{}, make(chan bool)}
	b.Serve(p)
	from, to := uint64(1), uint64(2)
	for again := true; again; { // a network may lose messages
		a.Send(0, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &from, To: &to})
		select {
		case <-p.done:
			again = false
		case <-(timing.Clock{}).After(100 * time.Millisecond):
		}
	}
	// Output: group 0: MsgHeartbeat of node 1
}
