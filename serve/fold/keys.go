package fold

import (
	"encoding/binary"
	"time"

	"troupe/eventlog"
	"troupe/internal/compact"
)

// KeyUse is the decision that an idempotency key made.
type KeyUse struct {
	Request [16]byte // hash of the request
	Event   eventlog.Event
	Seq     uint64 // entry of the decision
}

// usedKey is a KeyUse as it is kept, in 56 bytes.
type usedKey struct {
	key, request [16]byte
	no, seq      uint64
	epoch        uint32 // its place
	index        uint32
}

// closedKey is a key whose window is closed.
type closedKey struct {
	at  int64  // fold.clock then
	key uint32 // place of the key
}

// The promise about idempotency keys, and about event ids that callers choose: a key is remembered as
// long as the window of its event is open, and then for KeysFor by the times in the log, unless
// KeysKept others were closed after it. These bound the memory, about 80 MiB for closed keys; open
// ones are bounded by Limits.Open. They are constants because the state is a function of the log;
// tests lower the second one with History.KeysKept.
const (
	KeysFor  = 24 * time.Hour
	KeysKept = 1 << 20
)

// usedKeys are the idempotency keys that are remembered.
type usedKeys struct {
	used   compact.Arena[usedKey]
	keys   compact.Index
	closed compact.Deque[closedKey] // in the order in which their windows were closed
	epochs *epochs
}

func hashKey(key [16]byte) uint64 {
	return mixed(binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:]))
}

// place returns where a key is kept.
func (u *usedKeys) place(key [16]byte) (uint32, bool) {
	return u.keys.Find(hashKey(key), func(at uint32) bool { return u.used.At(at).key == key })
}

// use returns what the key at a place was used for.
func (u *usedKeys) use(at uint32) KeyUse {
	k := u.used.At(at)
	return KeyUse{k.request, batchKey{u.epochs.ids[k.epoch], k.no}.event(k.index), k.seq}
}

// Key returns what became of an idempotency key, not ok when it is not remembered.
func (u *usedKeys) Key(key [16]byte) (use KeyUse, ok bool) {
	at, ok := u.place(key)
	if !ok {
		return KeyUse{}, false
	}
	return u.use(at), true
}

// Keys returns how many idempotency keys are remembered.
func (u *usedKeys) Keys() int { return u.keys.Len() }

// oldest returns the oldest entry with a decision that a remembered key needs, none when there is no older one.
func (u *usedKeys) oldest(none uint64) uint64 {
	for at := range u.keys.All() {
		none = min(none, u.used.At(at).seq)
	}
	return none
}

// remember keeps the key of a new event and returns 1 + its place, 0 where the key was used before: the first use
// stays.
func (u *usedKeys) remember(key [16]byte, use KeyUse) uint32 {
	if _, twice := u.place(key); twice {
		return 0
	}
	at, k := u.used.New()
	*k = usedKey{key: key, request: use.Request, no: use.Event.Batch, seq: use.Seq,
		epoch: u.epochs.hold(use.Event.Epoch), index: use.Event.Index}
	u.keys.Add(at)
	return at + 1
}

// dropKey forgets the key at a place.
func dropKey(u *usedKeys, at uint32) {
	u.keys.Remove(at)
	u.epochs.release(u.used.At(at).epoch)
	u.used.Free(at)
}

// forget drops the keys that need not be remembered any more: but for kept of them, and those that are old by clock.
func (u *usedKeys) forget(kept int, clock int64) {
	for u.closed.Len() > 0 && (u.closed.Len() > kept || u.closed.At(0).at+int64(KeysFor) <= clock) {
		dropKey(u, u.closed.Shift().key)
	}
}
