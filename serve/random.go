package serve

import (
	"crypto/rand"
	"encoding/binary"

	"troupe/eventlog"
	"troupe/rng"
)

// randomSeed returns the seed of a new model from the operating system.
func randomSeed() (k rng.Key) {
	for i := range k {
		var b [4]byte
		rand.Read(b[:]) // never fails: crypto/rand ends the program first
		k[i] = binary.LittleEndian.Uint32(b[:])
	}
	return k
}

// random returns a number from the operating system that is not 0.
func random() eventlog.ID {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails: crypto/rand ends the program first
		if id := eventlog.ID(binary.LittleEndian.Uint64(b[:])); id != 0 {
			return id
		}
	}
}
