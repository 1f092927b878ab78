package eventlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// A batch of format 3 ends with
//
//	id of the key u64 | the first 16 bytes of HMAC-SHA-256(key, SHA-256(all before))
//
// The MAC is over a hash because a reader hashes each batch anyway (Batch.Hash): one pass does for both. It is cut to
// 128 bits, as Hash is: to forge one takes 2^127 tries on average, each of which is an entry in the log, and each batch
// carries 16 bytes less.
const (
	batchMACSize = 16
	trailerSize  = 8 + batchMACSize
)

// BatchKeys are the keys under which the nodes of a cluster vouch for their batches: one for each of the keys of event
// ids, from which it is derived, so that a cluster has one file of secrets. Batches are written under the current one
// and accepted under all, those of keys that were dropped too. It may be used by many goroutines; nil knows no key.
type BatchKeys struct {
	current ID
	secrets map[ID][]byte
}

// Batches returns the keys of batches that belong to keys of event ids.
func (k IDKeys) Batches() *BatchKeys {
	out := &BatchKeys{secrets: map[ID][]byte{}}
	for _, keys := range []map[byte][]byte{k.Dropped, k.Keys} {
		for n, key := range keys {
			secret := hmacSum(key, []byte("troupe batch 1\n"))
			sum := sha256.Sum256(append([]byte("troupe batch key\n"), secret...))
			id := ID(binary.LittleEndian.Uint64(sum[:])) | 1
			if out.secrets[id] = secret; n == k.Current {
				out.current = id
			}
		}
	}
	return out
}

func hmacSum(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return h.Sum(nil)
}

// mark is what is known of who has written an entry.
type mark uint8

const (
	unmarked   mark = iota // it is not of format 3
	unchecked              // it is, and there are no keys
	marked                 // it has a right MAC
	wrongMAC               //
	unknownKey             // its MAC is of a key that is not here
)

func (m mark) String() string {
	return [...]string{"it has no MAC", "its MAC was not checked: keys.json is not beside the log", "its MAC is right",
		"its MAC is not right", "its MAC is of a key that keys.json does not have"}[m]
}

// check compares the MAC of an entry, and returns its hash.
func (k *BatchKeys) check(b []byte) (mark, Hash) {
	end := len(b) - trailerSize
	switch {
	case end < HeaderSize || [4]byte(b[:4]) != magic || binary.LittleEndian.Uint16(b[4:]) != Format3:
		return unmarked, HashBatch(b)
	case k == nil:
		return unchecked, HashBatch(b)
	}
	secret, ok := k.secrets[ID(binary.LittleEndian.Uint64(b[end:]))]
	if !ok {
		return unknownKey, HashBatch(b)
	}
	mac, hash := batchMAC(secret, b)
	if !hmac.Equal(mac, b[len(b)-batchMACSize:]) {
		return wrongMAC, hash
	}
	return marked, hash
}

// batchMAC returns the MAC that a batch must have and the hash of the batch with the one that it has.
func batchMAC(secret, b []byte) (mac []byte, hash Hash) {
	h := sha256.New()
	h.Write(b[:len(b)-batchMACSize])
	mac = hmacSum(secret, h.Sum(nil))[:batchMACSize]
	h.Write(b[len(b)-batchMACSize:])
	copy(hash[:], h.Sum(nil))
	return mac, hash
}

// sign fills in the MAC of a batch under the current key and returns its hash.
func (k *BatchKeys) sign(b []byte) (hash Hash) {
	h := sha256.New()
	h.Write(b[:len(b)-batchMACSize])
	mac := hmacSum(k.secrets[k.current], h.Sum(nil))[:batchMACSize]
	copy(b[len(b)-batchMACSize:], mac)
	h.Write(mac)
	copy(hash[:], h.Sum(nil))
	return hash
}
