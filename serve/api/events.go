package api

import (
	"context"

	"troupe/serve"
)

// eventCalls are about one decision.
type eventCalls struct {
	svc interface {
		serve.EventService
		serve.DecisionService
	}
}

func (a *eventCalls) activate(ctx context.Context, in *eventIn) (*reply[serve.ActivateResult], error) {
	if err := allowEvent(ctx, a.svc, Decide, in.Event); err != nil {
		return nil, err
	}
	r, err := a.svc.Activate(ctx, in.Event, caller(ctx))
	return &reply[serve.ActivateResult]{r}, err
}

func (a *eventCalls) get(ctx context.Context, in *eventIn) (*reply[serve.EventView], error) {
	if err := allowEvent(ctx, a.svc, Read, in.Event); err != nil {
		return nil, err
	}
	e, err := a.svc.Event(ctx, in.Event)
	return &reply[serve.EventView]{e}, err
}

func (a *eventCalls) replay(ctx context.Context, in *eventIn) (*reply[serve.Replayed], error) {
	if err := allowEvent(ctx, a.svc, Admin, in.Event); err != nil {
		return nil, err
	}
	r, err := a.svc.Replay(ctx, in.Event)
	return &reply[serve.Replayed]{r}, err
}
