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

// keysKept is KeysKept, but in tests.
func (f *Fold) keysKept() int {
	if f.past != nil && f.past.KeysKept != 0 {
		return max(0, f.past.KeysKept)
	}
	return KeysKept
}

// Key returns what became of an idempotency key, not ok when it is not remembered.
func (f *Fold) Key(key [16]byte) (use KeyUse, ok bool) {
	use, ok = f.keys[key]
	return use, ok
}

// Keys returns how many idempotency keys are remembered.
func (f *Fold) Keys() int { return len(f.keys) }

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
func (f *Fold) remember(b *OpenEntry, key [16]byte, use KeyUse) {
	if _, twice := f.keys[key]; twice {
		return
	}
	f.keys[key] = use
	if b.uses == nil {
		b.uses = make([][16]byte, len(b.events))
	}
	b.uses[len(b.events)-1] = key
}

// forget drops the keys that need not be remembered any more.
func (f *Fold) forget() {
	kept := f.keysKept()
	for f.gone < len(f.closed) && (len(f.closed)-f.gone > kept || f.closed[f.gone].at+int64(KeysFor) <= f.clock) {
		delete(f.keys, f.closed[f.gone].key)
		f.gone++
	}
	if f.gone > 1024 && f.gone > len(f.closed)/2 {
		f.closed, f.gone = append([]closedKey(nil), f.closed[f.gone:]...), 0
	}
}
