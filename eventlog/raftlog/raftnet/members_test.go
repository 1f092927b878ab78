package raftnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/eventlog/raftlog"
)

// TestMembers: a log of one node grows to three over TLS. Networks hear of the members from the log, also of one that joined through
// another node. A node that was removed loses its connections; the nodes of before a recovery are refused by the new cluster.
func TestMembers(t *testing.T) {
	ca, dir := newAuthority(), t.TempDir()
	type node struct {
		log *raftlog.Log
		net *Net
		m   raftlog.Member
	}
	open := func(cluster uint64, m raftlog.Member, listener net.Listener, make func(raftlog.Options) error) *node {
		t.Helper()
		n, err := New(Options{Cluster: eventlog.ID(cluster), ID: m.ID, Listener: listener, TLS: ca.tls(m.Name), Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		o := raftlog.Options{Dir: filepath.Join(dir, m.Name), Cluster: eventlog.ID(cluster), ID: m.ID, Reserve: -1, Network: n, Logf: t.Logf}
		if err := make(o); err != nil {
			t.Fatal(err)
		}
		l, err := raftlog.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		n.Serve(l)
		return &node{l, n, m}
	}
	var all []*node
	defer func() {
		for _, x := range all {
			if err := errors.Join(x.log.Close(), x.net.Close()); err != nil {
				t.Error(err)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for id := uint64(1); id <= 3; id++ {
		listener := listen(t)
		m := raftlog.Member{ID: id, Name: name(id), Addr: listener.Addr().String()}
		x := open(7, m, listener, func(o raftlog.Options) error {
			if len(all) == 0 {
				return raftlog.Create(o, m)
			}
			return raftlog.Join(o, all[len(all)-1].log.Status(0).Members...)
		})
		if len(all) > 0 {
			if err := all[len(all)-1].log.Add(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, x)
		for i := range 10 {
			if _, _, err := x.log.Append(ctx, 0, fmt.Sprintf("%d %d", id, i), eventlogtest.Payload(0, i, 100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	wait(t, "all are connected", func() bool {
		return all[0].net.Connected(3) && all[2].net.Connected(1) && all[1].net.Connected(1) && all[1].net.Connected(3)
	})
	if err := all[0].log.Remove(ctx, 3); err != nil {
		t.Fatal(err)
	}
	wait(t, "the node that was removed is alone", func() bool {
		return !all[0].net.Connected(3) && !all[1].net.Connected(3) && !all[2].net.Connected(1) && !all[2].net.Connected(2)
	})
	// Node 2 is lost, node 1 makes a new cluster, node 2 comes back.
	if err := errors.Join(all[0].log.Close(), all[0].net.Close()); err != nil {
		t.Fatal(err)
	}
	listener := listen(t)
	self := raftlog.Member{ID: 11, Name: name(1), Addr: listener.Addr().String()}
	all[0] = open(8, self, listener, func(o raftlog.Options) error {
		_, err := raftlog.Recover(o, 8, self)
		return err
	})
	for i, want := range []string{"1", "2"} { // what was acknowledged before is there
		seq, dup, err := all[0].log.Append(ctx, 0, want+" 0", nil)
		if err != nil || !dup || seq != uint64(10*i+1) {
			t.Errorf("a batch of before: %d, %v, %v", seq, dup, err)
		}
	}
	before := all[0].net.Refused()
	if err := all[1].net.SetPeers(raftlog.Member{ID: 1, Name: name(1), Addr: self.Addr}); err != nil { // where the old node 1 was, the new one is
		t.Fatal(err)
	}
	wait(t, "the new cluster refuses the old node", func() bool { return all[0].net.Refused() > before })
	if all[1].net.Connected(1) {
		t.Error("a node of the old cluster is connected")
	}
	if s := all[0].log.Status(0); !slices.Equal(s.Voters, []uint64{11}) {
		t.Errorf("members %+v", s)
	}
}
