package fold

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
	"math/bits"

	"troupe/eventlog"
)

// Sign appends the checksum of what begins at start.
func Sign(b []byte, start int) []byte {
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

// secrets are numbers that this process draws, so that no choice of keys makes long searches. What is found does not
// depend on them.
var secrets = func() [2]uint64 {
	seed := maphash.MakeSeed()
	return [2]uint64{maphash.String(seed, "a") | 1, maphash.String(seed, "b") | 1}
}()

// mixed is a hash of two numbers.
func mixed(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^secrets[0], b^secrets[1])
	hi, lo = bits.Mul64(hi^lo^secrets[1], secrets[0])
	return hi ^ lo
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Digest is two checksums with different polynomials: 64 bits against accidents, not against enemies.
func Digest(b []byte) eventlog.ID {
	return eventlog.ID(crc32.ChecksumIEEE(b))<<32 | eventlog.ID(crc32.Checksum(b, castagnoli))
}

// eventKey names an event for a policy.
func eventKey(key eventlog.Event) uint64 {
	b := binary.LittleEndian.AppendUint64(nil, uint64(key.Epoch))
	b = binary.LittleEndian.AppendUint64(b, key.Batch)
	return uint64(Digest(binary.LittleEndian.AppendUint32(b, key.Index)))
}
