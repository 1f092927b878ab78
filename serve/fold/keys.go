package fold

import (
	"time"

	"troupe/eventlog"
)

// KeyUse is the decision that an idempotency key made.
type KeyUse struct {
	Request [16]byte // hash of the request
	Event   eventlog.Event
	Seq     uint64 // entry of the decision
}

// closedKey is a key whose window is closed.
type closedKey struct {
	key [16]byte
	at  int64 // fold.clock then
}

// The promise about idempotency keys, and about event ids that callers choose: a key is remembered as
// long as the window of its event is open, and then for KeysFor by the times in the log, unless
// KeysKept others were closed after it. These bound the memory, about 170 MiB for closed keys; open
// ones are bounded by Limits.Open. They are constants because the state is a function of the log;
// tests lower the second one with History.KeysKept.
const (
	KeysFor  = 24 * time.Hour
	KeysKept = 1 << 20
)

// usedKeys are the idempotency keys that are remembered.
type usedKeys struct {
	keys   map[[16]byte]KeyUse
	closed []closedKey // of keys, in the order in which their windows were closed
	gone   int         // closed[:gone] were forgotten
}

// keysKept is KeysKept, but in tests.
func (f *Fold) keysKept() int {
	if f.past != nil && f.past.KeysKept != 0 {
		return max(0, f.past.KeysKept)
	}
	return KeysKept
}

// Key returns what became of an idempotency key, not ok when it is not remembered.
func (u *usedKeys) Key(key [16]byte) (use KeyUse, ok bool) {
	use, ok = u.keys[key]
	return use, ok
}

// Keys returns how many idempotency keys are remembered.
func (u *usedKeys) Keys() int { return len(u.keys) }

// OldestNeeded returns the oldest entry with a decision that a window or a remembered key needs, one past the
// fold when there is none.
func (f *Fold) OldestNeeded() uint64 {
	oldest := f.OldestOpen()
	for _, u := range f.keys {
		oldest = min(oldest, u.Seq)
	}
	return oldest
}

// remember keeps the key of the newest event of b; the first use of a key stays.
func (u *usedKeys) remember(b *OpenEntry, key [16]byte, use KeyUse) {
	if _, twice := u.keys[key]; twice {
		return
	}
	u.keys[key] = use
	if b.uses == nil {
		b.uses = make([][16]byte, len(b.events))
	}
	b.uses[len(b.events)-1] = key
}

// forget drops the keys that need not be remembered any more: but for kept of them, and those that are old by clock.
func (u *usedKeys) forget(kept int, clock int64) {
	for u.gone < len(u.closed) && (len(u.closed)-u.gone > kept || u.closed[u.gone].at+int64(KeysFor) <= clock) {
		delete(u.keys, u.closed[u.gone].key)
		u.gone++
	}
	if u.gone > 1024 && u.gone > len(u.closed)/2 {
		u.closed, u.gone = append([]closedKey(nil), u.closed[u.gone:]...), 0
	}
}
