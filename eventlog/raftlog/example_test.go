package raftlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog/raftlog"
)

// alone is the network of a node that has no others.
type alone struct{}

func (alone) Send(uint16, *pb.Message) {}
func (alone) Fetch(context.Context, uint16, uint64, uint64, []byte, int64) error {
	return errors.New("no other node")
}

// A log of one node. More nodes join it (Log.Add), with a network between them.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "raftlog")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	o := raftlog.Options{Dir: dir, Cluster: 1, ID: 1, Network: alone{}}
	if err := raftlog.Create(o, raftlog.Member{ID: 1, Name: "node-1", Addr: "node-1:7700"}); err != nil {
		panic(err)
	}
	l, err := raftlog.Open(o)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	seq, dup, err := l.Append(ctx, 0, "id", []byte("a batch"))
	fmt.Println("entry", seq, dup, err)
	seq, dup, err = l.Append(ctx, 0, "id", []byte("a batch")) // sent again
	fmt.Println("entry", seq, dup, err)
	for e, err := range l.Read(ctx, 0, 1) {
		fmt.Printf("%d: %s %v\n", e.Seq, e.Data, err)
		break
	}
	if err := l.Close(); err != nil {
		panic(err)
	}
	// Output:
	// entry 1 false <nil>
	// entry 1 true <nil>
	// 1: a batch <nil>
}
