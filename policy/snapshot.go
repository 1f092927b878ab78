package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// A snapshot is: "TRP1", kind (u16 length, bytes), number of vectors (u32), for each its length
// (u32) and its float64s, then CRC-32C of all before. Everything is little-endian. docs/reference/formats.md
// describes it.
const snapshotMagic = "TRP1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendSnapshot appends the state made of vectors.
func appendSnapshot(b []byte, kind string, vectors [][]float64) []byte {
	start, numbers := len(b), 0
	for _, v := range vectors {
		numbers += len(v)
	}
	b = slices.Grow(b, snapshotSize(kind, len(vectors), numbers))
	b = append(b, snapshotMagic...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(kind)))
	b = append(b, kind...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(vectors)))
	for _, v := range vectors {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// snapshotSize is the number of bytes of a snapshot.
func snapshotSize(kind string, vectors, numbers int) int {
	return len(snapshotMagic) + 2 + len(kind) + 4 + 4*vectors + 8*numbers + 4
}

// readSnapshot reads a snapshot of the kind into fresh vectors and refuses one whose vectors do not
// have the given lengths (−1: any length) or hold a number that is not finite.
func readSnapshot(b []byte, kind string, lengths []int) ([][]float64, error) {
	return readInto(nil, b, kind, lengths)
}

// readInto is readSnapshot into the vectors that it returned before, where they have room.
func readInto(vectors [][]float64, b []byte, kind string, lengths []int) ([][]float64, error) {
	if len(b) < 4 || string(b[:4]) != snapshotMagic {
		return nil, errors.New("policy: not a snapshot")
	}
	if len(b) < 8 {
		return nil, errors.New("policy: snapshot is cut short")
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errors.New("policy: snapshot is damaged (checksum)")
	}
	body = body[4:]
	take := func(n int) []byte {
		if n > len(body) {
			return nil
		}
		out := body[:n]
		body = body[n:]
		return out
	}
	short := errors.New("policy: snapshot is cut short")
	h := take(2)
	if h == nil {
		return nil, short
	}
	if k := take(int(binary.LittleEndian.Uint16(h))); string(k) != kind {
		return nil, fmt.Errorf("policy: snapshot is of a policy of kind %q, expected %q", k, kind)
	}
	h = take(4)
	if h == nil {
		return nil, short
	}
	if n := binary.LittleEndian.Uint32(h); int64(n) != int64(len(lengths)) {
		return nil, fmt.Errorf("policy: snapshot has %d vectors, expected %d", n, len(lengths))
	}
	for len(vectors) < len(lengths) {
		vectors = append(vectors, nil)
	}
	for i, want := range lengths {
		h := take(4)
		if h == nil {
			return nil, short
		}
		n := int(binary.LittleEndian.Uint32(h))
		if want >= 0 && n != want {
			return nil, fmt.Errorf("policy: snapshot vector %d has %d numbers, expected %d", i, n, want)
		}
		raw := take(8 * n)
		if raw == nil && n > 0 {
			return nil, short
		}
		v := slices.Grow(vectors[i][:0], n)[:n]
		for j := range v {
			v[j] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*j:]))
			if v[j]-v[j] != 0 {
				return nil, fmt.Errorf("policy: snapshot vector %d holds %v", i, v[j])
			}
		}
		vectors[i] = v
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("policy: snapshot has %d bytes too many", len(body))
	}
	return vectors, nil
}

// lengthsOf lists the lengths of vectors, for readSnapshot.
func lengthsOf(vectors [][]float64) []int {
	n := make([]int, len(vectors))
	for i, v := range vectors {
		n[i] = len(v)
	}
	return n
}
