package api

import (
	"context"

	"troupe/serve"
)

func (a *API) activate(ctx context.Context, in *eventIn) (*reply[serve.ActivateResult], error) {
	if err := a.allowEvent(ctx, Decide, in.Event); err != nil {
		return nil, err
	}
	r, err := a.svc.Activate(ctx, in.Event, caller(ctx))
	return &reply[serve.ActivateResult]{r}, err
}

func (a *API) getEvent(ctx context.Context, in *eventIn) (*reply[serve.EventView], error) {
	if err := a.allowEvent(ctx, Read, in.Event); err != nil {
		return nil, err
	}
	e, err := a.svc.Event(ctx, in.Event)
	return &reply[serve.EventView]{e}, err
}

func (a *API) replay(ctx context.Context, in *eventIn) (*reply[serve.Replayed], error) {
	if err := a.allowEvent(ctx, Admin, in.Event); err != nil {
		return nil, err
	}
	r, err := a.svc.Replay(ctx, in.Event)
	return &reply[serve.Replayed]{r}, err
}
