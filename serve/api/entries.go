package api

import (
	"context"
	"encoding/binary"
	"strings"
	"unicode"

	"troupe/serve"
)

// entriesBytes bounds an answer of entries, but for its last entry.
const entriesBytes = 4 << 20

type entriesIn struct {
	From     uint64 `query:"from" doc:"first log entry; default is the beginning"`
	Follower string `query:"follower" maxLength:"200" doc:"name of a backup that follows the log and has what is before from: the log is not trimmed there for an hour, unless it is nearly full"`
}

// copyCalls copy the log as it is stored, and check the files of a replica.
type copyCalls struct {
	svc interface {
		serve.LogService
		serve.NodeService
	}
}

type entriesOut struct {
	ContentType string `header:"Content-Type"`
	First       uint64 `header:"Log-First" doc:"the oldest entry of the log"`
	Applied     uint64 `header:"Log-Applied" doc:"the end of the log"`
	Body        []byte
}

// entries answers with entries as they are stored.
func (a *copyCalls) entries(ctx context.Context, in *entriesIn) (*entriesOut, error) {
	if err := allow(ctx, Backup, ""); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(in.Follower, unicode.IsControl) {
		return nil, &serve.Error{Code: serve.Invalid, Field: "follower", Want: "a name without control characters"}
	}
	if in.Follower != "" && in.From > 0 {
		a.svc.Following(in.Follower, in.From)
	}
	e, err := a.svc.Entries(ctx, in.From, entriesBytes)
	if err != nil {
		return nil, err
	}
	out := &entriesOut{ContentType: "application/octet-stream", First: e.First, Applied: e.Applied}
	for _, x := range e.Entries {
		out.Body = binary.LittleEndian.AppendUint64(out.Body, x.Seq)
		out.Body = binary.LittleEndian.AppendUint32(out.Body, uint32(len(x.Data)))
		out.Body = append(out.Body, x.Data...)
	}
	return out, nil
}

type baseOut struct {
	ContentType string `header:"Content-Type"`
	Seq         uint64 `header:"Log-Base" doc:"the entry after which the state is"`
	Body        []byte
}

// base answers with the base of a log that was trimmed.
func (a *copyCalls) base(ctx context.Context, _ *struct{}) (*baseOut, error) {
	if err := allow(ctx, Backup, ""); err != nil {
		return nil, err
	}
	b, err := a.svc.LogBase(ctx)
	if err != nil {
		return nil, err
	}
	return &baseOut{"application/octet-stream", b.Seq, b.Bytes}, nil
}

type replicaOut struct{ Body serve.ReplicaCheck }

// check answers with the state of the node's files.
func (a *copyCalls) check(ctx context.Context, _ *struct{}) (*replicaOut, error) {
	if err := allow(ctx, Admin, ""); err != nil {
		return nil, err
	}
	r, err := a.svc.CheckReplica(ctx)
	if err != nil {
		return nil, err
	}
	return &replicaOut{r}, nil
}
