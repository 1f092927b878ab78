package raftlog

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog/segment"
)

// noNet is a network without other nodes.
type noNet struct{}

func (noNet) Send(uint16, *pb.Message) {}

func (noNet) Fetch(context.Context, uint16, uint64, uint64, []byte, int64) error {
	return errors.New("no node")
}

// TestIntroduceEmpty: a node that joins, and has no entries yet, is told of another node and goes on; after a start it knows it.
func TestIntroduceEmpty(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), Cluster: 7, ID: 2, Reserve: -1, Network: noNet{}}
	if err := Join(o, Member{1, "a", "host:1"}); err != nil {
		t.Fatal(err)
	}
	more := Member{3, "c", "host:3"}
	for range 2 {
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Introduce(t.Context(), more); err != nil {
			t.Error(err)
		}
		if err := errors.Join(l.Err(), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	o.fs = segment.OS
	m, err := readMembers(o.store(0))
	if err != nil || !slices.Contains(m.known, more) {
		t.Errorf("known are %v, %v", m.known, err)
	}
}
