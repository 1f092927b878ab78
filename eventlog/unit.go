package eventlog

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Unit is Decision.Unit of a value: the first 8 bytes of HMAC-SHA-256(k, "troupe unit 1\n" ‖ model ‖ value), 1 where
// they are 0. k is the key with the smallest number that is not dropped: a rotation adds a key with a larger number and
// uses it, and units keep their hashes until the old one is dropped. model is the incarnation that a model begins with,
// so the hashes of one value at two models say nothing of each other. Keys that Check refuses panic.
func (k IDKeys) Unit(model ID, value []byte) ID {
	key := k.Keys[slices.Min(slices.Collect(maps.Keys(k.Keys)))]
	text := binary.LittleEndian.AppendUint64([]byte("troupe unit 1\n"), uint64(model))
	return max(1, ID(binary.LittleEndian.Uint64(hmacSum(key, append(text, value...)))))
}
