package decide

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
)

// hash is what makes two requests the same.
func (r *Request) hash() (h [16]byte) {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(string(r.context()))
	text(string(r.Packed))
	for _, n := range r.Numbers {
		b = append(b, 10)
		text(n.Name)
		for _, x := range []*float64{n.Min, n.Max, n.Step} {
			if b = append(b, 0); x != nil {
				b[len(b)-1] = 1
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*x))
			}
		}
		for _, x := range []*bool{n.Cyclic, n.Log} {
			switch {
			case x == nil:
				b = append(b, 0)
			case *x:
				b = append(b, 1)
			default:
				b = append(b, 2)
			}
		}
	}
	for _, a := range r.Actions {
		b = append(b, 1)
		text(a.ID)
		if a.Numbers != nil {
			b = append(b, 11)
			for _, n := range a.Numbers {
				b = append(b, 12)
				text(n)
			}
		}
		text(string(a.Features))
		if a.Cost != nil {
			b = binary.LittleEndian.AppendUint64(append(b, 7), math.Float64bits(*a.Cost))
		}
	}
	for _, id := range r.IDs {
		b = append(b, 2)
		text(id)
	}
	for _, ok := range r.Available {
		if b = append(b, 3, 0); ok {
			b[len(b)-1] = 1
		}
	}
	for _, id := range r.Exclude {
		b = append(b, 4)
		text(id)
	}
	for _, c := range r.Costs {
		b = binary.LittleEndian.AppendUint64(append(b, 8), math.Float64bits(c))
	}
	if r.Baseline != nil {
		b = binary.AppendVarint(append(b, 5), int64(*r.Baseline))
	}
	if r.Deferred {
		b = append(b, 6)
	}
	if r.unit.path != "" {
		b = binary.LittleEndian.AppendUint64(append(b, 9), uint64(r.unit.hash))
	}
	b = r.appendList(b)
	text(string(r.Mode))
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}

// appendList appends what tells lists apart to the hash of a request.
func (r *Request) appendList(b []byte) []byte {
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	if r.Choose != nil {
		b = binary.AppendVarint(append(b, 20), int64(*r.Choose))
	}
	for i := range r.Slots {
		s := &r.Slots[i]
		b = append(b, 21)
		text(s.ID)
		for _, a := range s.Actions {
			b = append(b, 22)
			text(a.ID)
			text(string(a.Features))
			if a.Cost != nil {
				b = append(b, fmt.Sprint(*a.Cost)...)
			}
		}
		for _, id := range s.Exclude {
			b = append(b, 23)
			text(id)
		}
		if s.Baseline != "" {
			b = append(b, 24)
			text(s.Baseline)
		}
	}
	return b
}
