package serve

import (
	"context"

	"troupe/eventlog"
)

// EventOfKey returns the id of the event that a decision with this idempotency key made: for callers
// who name their events themselves. NotFound when the model has no such key, or its event's window
// was closed so long ago that the key is forgotten (DecideRequest.IdempotencyKey says when).
func (s *Server) EventOfKey(ctx context.Context, model, key string) (eventID string, err error) {
	if err := checkID("idempotency_key", key); err != nil {
		return "", err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	_, v, err := s.model(model)
	if err != nil {
		return "", err
	}
	s.mu.RLock()
	use, ok := s.fold.keys[useKey(v.root, key)]
	s.mu.RUnlock()
	if !ok {
		return "", errorf(NotFound, "no decision with this key is remembered")
	}
	return s.keys.Format(eventlog.EventID{Event: use.event, Hint: use.seq}), nil
}
