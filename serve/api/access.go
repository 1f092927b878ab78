package api

import (
	"context"

	"troupe/serve"
)

// allow checks the scope, and the pattern for the model when there is one.
func allow(ctx context.Context, s Scope, model string) error {
	info := requestOf(ctx)
	if model != "" {
		info.model = model
	}
	if !info.holder.may(s) {
		return problem("forbidden", "", "the key has no scope "+string(s))
	}
	if model != "" && !info.holder.sees(model) {
		return problem("forbidden", "", "the key has no pattern for this model")
	}
	return nil
}

// allowEvent checks the scope, and for a holder with patterns the event's model.
func allowEvent(ctx context.Context, svc serve.EventService, s Scope, eventID string) error {
	if err := allow(ctx, s, ""); err != nil {
		return err
	}
	allows := allowsModel(ctx, s)
	if allows == nil {
		return nil
	}
	owner, err := svc.Owner(ctx, eventID)
	if err != nil {
		return err
	}
	return allows(owner.Model)
}

// allowsModel returns the check of an event's model, nil for a holder without patterns. The scope is checked
// already.
func allowsModel(ctx context.Context, s Scope) func(model string) error {
	if len(requestOf(ctx).holder.models) == 0 {
		return nil
	}
	return func(model string) error {
		if model == "" {
			return problem("forbidden", "", "it is not known any more whose event it is")
		}
		return allow(ctx, s, model)
	}
}

// caller is the name that the log keeps.
func caller(ctx context.Context) string { return requestOf(ctx).holder.id }

func keyOf(info *request) string {
	if info.holder == nil {
		return ""
	}
	return info.holder.id
}
