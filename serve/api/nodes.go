package api

import (
	"context"
	"sync/atomic"

	"troupe/serve"
)

// nodeCalls are about a node of a cluster.
type nodeCalls struct {
	svc     serve.NodeService
	drained *atomic.Bool // the node is about to stop
}

func (a *nodeCalls) drain(ctx context.Context, _ *struct{}) (*struct{}, error) {
	if err := allow(ctx, Admin, ""); err != nil {
		return nil, err
	}
	err := a.svc.Drain(ctx)
	if err == nil {
		a.drained.Store(true)
	}
	return nil, err
}

type nodeIn struct {
	Node string `path:"node" maxLength:"64" doc:"name of the node"`
}

func (a *nodeCalls) remove(ctx context.Context, in *nodeIn) (*struct{}, error) {
	if err := allow(ctx, Admin, ""); err != nil {
		return nil, err
	}
	return nil, a.svc.RemoveNode(ctx, in.Node)
}
