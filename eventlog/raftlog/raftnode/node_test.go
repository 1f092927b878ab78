package raftnode

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/eventlog/raftlog"
	"troupe/internal/await"
	"troupe/internal/scratch"
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// trio is the places of three nodes.
type trio struct {
	t     *testing.T
	dir   string
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	pool  *x509.CertPool
	all   []raftlog.Member
	nodes [3]*Node
}

func newTrio(t *testing.T) *trio {
	r := &trio{t: t, dir: t.TempDir(), key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), pool: x509.NewCertPool()}
	own := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), KeyUsage: x509.KeyUsageCertSign}
	r.cert = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, own, own, &r.key.PublicKey, r.key))))
	r.pool.AddCert(r.cert)
	for i, port := range must(scratch.Ports(3)) {
		r.all = append(r.all, raftlog.Member{Name: string(rune('a' + i)), Addr: "127.0.0.1:" + port})
	}
	t.Cleanup(func() {
		for i := range r.nodes {
			r.close(i)
		}
	})
	return r
}

func (r *trio) tls(name string) *tls.Config {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	x := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der := must(x509.CreateCertificate(rand.Reader, x, r.cert, &key.PublicKey, r.key))
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: r.pool, ClientCAs: r.pool}
}

func (r *trio) data(i int) string { return filepath.Join(r.dir, r.all[i].Name) }

func (r *trio) options(i int, self raftlog.Member) Options {
	return Options{Dir: filepath.Join(r.data(i), "log"), Bases: filepath.Join(r.data(i), "bases"), Cluster: 7, Self: self, Founds: i == 0, Most: 5,
		Peers: slices.DeleteFunc(slices.Clone(r.all), func(m raftlog.Member) bool { return m.Name == self.Name }), TLS: r.tls(self.Name), Logf: r.t.Logf}
}

// open starts a node. Its Open ends on the channel.
func (r *trio) open(i int) <-chan error {
	r.t.Helper()
	n, err := New(r.options(i, r.all[i]))
	if err != nil {
		r.t.Fatal(err)
	}
	r.nodes[i] = n
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(r.t.Context(), await.Limit)
	go func() { defer cancel(); done <- n.Open(ctx) }()
	return done
}

func (r *trio) close(i int) {
	if n := r.nodes[i]; n != nil {
		if err := n.Close(); err != nil {
			r.t.Error(err)
		}
		r.nodes[i] = nil
	}
}

func (r *trio) until(what string, f func() bool) {
	r.t.Helper()
	for note := range await.Tries(r.t) {
		if f() {
			return
		}
		note("%s", what)
	}
}

// starts starts all nodes.
func (r *trio) starts() {
	r.t.Helper()
	var all []<-chan error
	for i := range r.nodes {
		all = append(all, r.open(i))
	}
	for i, done := range all {
		if err := <-done; err != nil {
			r.t.Fatalf("node %s: %v", r.all[i].Name, err)
		}
	}
}

func (r *trio) append(i int, id string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), await.Limit)
	defer cancel()
	if _, _, err := r.nodes[i].Append(ctx, 0, id, eventlogtest.Payload(0, i, 100)); err != nil {
		r.t.Fatalf("%s at %s: %v", id, r.all[i].Name, err)
	}
}

// TestFounds: two of three nodes with empty directories make no log; three make one, of which all are voters. Started again they have
// what was stored.
func TestFounds(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	a, b := r.open(0), r.open(1)
	r.until("a does not say that it waits for c", func() bool { return strings.Contains(r.nodes[0].Waits(), "c does not answer") })
	if _, _, err := raftlog.Identity(filepath.Join(r.data(0), "log")); !errors.Is(err, eventlog.ErrNoLog) {
		t.Fatalf("a log was made without c: %v", err)
	}
	c := r.open(2)
	for i, done := range []<-chan error{a, b, c} {
		if err := <-done; err != nil {
			t.Fatalf("node %s: %v", r.all[i].Name, err)
		}
	}
	for i, n := range r.nodes {
		if s := n.log.Load().Status(0); len(s.Voters) != 3 {
			t.Errorf("node %s answers with the voters %v", r.all[i].Name, s.Voters)
		}
		r.append(i, fmt.Sprint("first ", i))
	}
	for i := range r.nodes {
		r.close(i)
	}
	r.starts()
	r.append(1, "second")
	for i, n := range r.nodes {
		r.until("a node lacks entries", func() bool { info, err := n.Info(t.Context(), 0); return err == nil && info.Last == 4 })
		if _, dup, err := n.Append(t.Context(), 0, fmt.Sprint("first ", i), nil); err != nil || !dup {
			t.Errorf("a batch of before at %s: %v, %v", r.all[i].Name, dup, err)
		}
	}
}

// TestEmptyDisk: a node that has lost its disk comes back under another id, in the place of the one with its name, also the one that
// made the log; what was stored without it stays. While it is connected no other process takes its name.
func TestEmptyDisk(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.starts()
	r.append(1, "first")
	for _, i := range []int{2, 0} {
		before := r.nodes[i].id
		if i == 2 {
			r.until("a is not connected to c", func() bool { return r.nodes[0].net.Connected(before) })
			other := raftlog.Member{ID: raftlog.NewID(), Name: "c", Addr: "127.0.0.1:1"}
			if err := r.nodes[0].takeIn(t.Context(), r.nodes[0].log.Load(), "c", other); err == nil || !strings.Contains(err.Error(), "another process is node c") {
				t.Errorf("a second node c: %v", err)
			}
			if err := r.nodes[0].takeIn(t.Context(), r.nodes[0].log.Load(), "b", other); err == nil || !strings.Contains(err.Error(), "asks as c") {
				t.Errorf("c, asked for by b: %v", err)
			}
		}
		r.close(i)
		r.append(1, fmt.Sprint("without ", i))
		if err := os.RemoveAll(r.data(i)); err != nil {
			t.Fatal(err)
		}
		if err := <-r.open(i); err != nil {
			t.Fatal(err)
		}
		if r.nodes[i].id == before {
			t.Error("the node has the id of before")
		}
		s := r.nodes[i].log.Load().Status(0)
		if len(s.Members) != 3 || len(s.Voters) != 3 || !slices.Contains(s.Removed, before) {
			t.Errorf("members %v, voters %v, removed %v", s.Members, s.Voters, s.Removed)
		}
	}
	info, err := r.nodes[0].Info(t.Context(), 0)
	if err != nil || info.Last != 3 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestAway: a node that was removed while it was away says so; one that was away while another one came takes part again.
func TestAway(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.starts()
	r.append(0, "first")
	r.close(0)
	r.close(2)
	old := filepath.Join(r.dir, "old")
	if err := os.Rename(r.data(2), old); err != nil {
		t.Fatal(err)
	}
	// c comes with an empty disk while b is alone: it cannot be taken in before a is back, which has never heard of it.
	c := r.open(2)
	r.until("c is not refused", func() bool { return r.nodes[2].Waits() != "" })
	if err := <-r.open(0); err != nil {
		t.Fatal(err)
	}
	if err := <-c; err != nil {
		t.Fatal(err)
	}
	r.append(2, "second")
	r.close(2)
	if err := errors.Join(os.RemoveAll(r.data(2)), os.Rename(old, r.data(2))); err != nil {
		t.Fatal(err)
	}
	if err := <-r.open(2); !errors.Is(err, raftlog.ErrRemoved) {
		t.Errorf("a node that was removed starts with %v", err)
	}
}

// TestLeads: any node knows how far the others are, and the one that leads lets another one lead.
func TestLeads(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.starts()
	r.append(0, "first")
	leads := func(i int) (name string) {
		all, err := r.nodes[i].Replicas(t.Context())
		if err != nil || len(all) != 3 || slices.ContainsFunc(all, func(x eventlog.Replica) bool { return x.Behind != "" }) {
			return ""
		}
		return all[0].Name
	}
	for i := range r.nodes {
		r.until("a node does not know of the others", func() bool { return leads(i) != "" })
	}
	was := leads(0)
	for i, n := range r.nodes { // where it does not lead it does nothing
		if r.all[i].Name != was {
			if err := n.HandOver(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	at := slices.IndexFunc(r.all, func(m raftlog.Member) bool { return m.Name == was })
	if err := r.nodes[at].HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until("no other node leads", func() bool { now := leads(at); return now != "" && now != was })
	other := (at + 1) % 3
	r.close(other)
	r.until("no node says who is away", func() bool {
		all, err := r.nodes[at].Replicas(t.Context())
		return err == nil && slices.ContainsFunc(all, func(x eventlog.Replica) bool { return x.Name == r.all[other].Name && x.Behind != "" && x.Offline })
	})
	if missing := r.nodes[at].Missing([]string{"a", "b", "c", "d"}); !slices.Equal(missing, []string{r.all[other].Name, "d"}) {
		t.Errorf("missing %v", missing)
	}
}

// TestBases: a base that one node has stored is read at another one, in pieces, and not believed.
func TestBases(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.starts()
	data := bytes.Repeat([]byte("state "), basePiece/3)
	b := eventlog.Base{Seq: 10, Record: 12, Sum: sha256.Sum256(data)}
	if err := r.nodes[1].PutBase(t.Context(), b, data[1:]); err == nil {
		t.Error("another base was stored")
	}
	for _, x := range []eventlog.Base{{Seq: 5, Record: 6, Sum: sha256.Sum256(nil)}, b} {
		if err := r.nodes[1].PutBase(t.Context(), x, map[bool][]byte{true: data}[x == b]); err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.nodes[2].Bases(t.Context())
	if err != nil || len(all) != 2 || all[0].Seq != 10 || all[0].Sum != b.Sum || all[0].Record != 12 {
		t.Fatalf("%v, %v", all, err)
	}
	if m := r.nodes[2].members(); len(m) != 3 || slices.ContainsFunc(m, func(m raftlog.Member) bool { return m.ID == 0 }) {
		t.Errorf("members %v after a look for bases", m)
	}
	if got, err := r.nodes[2].GetBase(t.Context(), all[0]); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := os.WriteFile(r.nodes[1].baseFile(b), data[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.nodes[2].GetBase(t.Context(), all[0]); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("a base that is not what the log says: %v", err)
	}
	if err := r.nodes[1].DropBases(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if all, err := r.nodes[1].Bases(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}
