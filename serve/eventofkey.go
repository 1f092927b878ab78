package serve

import (
	"context"
	"crypto/sha256"

	"troupe/eventlog"
)

// EventOfKey returns the id of the event that a decision with this idempotency key made: for callers
// who name their events themselves. NotFound when the key is none of the model's last 65,536.
func (s *Server) EventOfKey(ctx context.Context, model, key string) (eventID string, err error) {
	if err := checkID("idempotency_key", key); err != nil {
		return "", err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	if _, _, err := s.model(model); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(model + "\x00" + key))
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.fold.names[model]; m != nil {
		if use, ok := m.keys[[16]byte(sum[:16])]; ok {
			return s.keys.Format(eventlog.EventID{Event: use.event, Hint: use.seq}), nil
		}
	}
	return "", errorf(NotFound, "no decision with this key is remembered")
}
