package feature

import (
	"fmt"
	"math"
)

// VW hashes features as Vowpal Wabbit does: MurmurHash3 (32 bits) of a feature's name, seeded with the hash
// of its namespace, and FNV for interactions. With equal bits a feature has the weight index that VW's
// --audit shows.
type VW struct {
	Bits int  // of a weight index, 1 to 32: VW's -b
	All  bool // --hash all: names that are whole numbers are hashed too; otherwise they are their value
}

// VWConstant is the hash of VW's intercept.
const VWConstant = 11650396

// fnvPrime combines the indices of an interaction.
const fnvPrime = 16777619

// Namespace returns the seed of the features of a namespace. VW's default namespace, without a name, has 0.
func (VW) Namespace(name []byte) uint32 {
	if len(name) == 0 || len(name) == 1 && name[0] == ' ' {
		return 0
	}
	return vwString(name, 0)
}

// Feature returns the hash of a feature of the namespace with this seed. A name that is a whole number is
// that number, plus the seed, unless All is set.
func (v VW) Feature(namespace uint32, name []byte) uint32 {
	if v.All {
		return murmur3(name, namespace)
	}
	return vwString(name, namespace)
}

// Value returns the hash of a feature with a text as its value (name:text, or name=text in VW's chained
// form): that of the text, seeded with that of the name.
func (v VW) Value(namespace uint32, name, text []byte) uint32 {
	return v.Feature(v.Feature(namespace, name), text)
}

// vwString is VW's hashstring: blanks around a name are left out.
func vwString(s []byte, seed uint32) uint32 {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	var n uint32
	for _, c := range s {
		if c < '0' || c > '9' {
			return murmur3(s, seed)
		}
		n = 10*n + uint32(c-'0')
	}
	return n + seed
}

// Index returns the weight index of a hash.
func (v VW) Index(hash uint32) uint32 { return uint32(uint64(hash) & v.mask()) }

func (v VW) mask() uint64 {
	if v.Bits < 1 || v.Bits > 32 {
		panic("feature: VW: bits outside 1 to 32")
	}
	return 1<<v.Bits - 1
}

// Interaction returns the weight index of the product of two or more features with these hashes, in the order
// of the interaction's namespaces (-q ab, --cubic abc, --interactions abcd).
func (v VW) Interaction(hashes ...uint32) uint32 {
	if len(hashes) < 2 {
		panic("feature: VW: an interaction of fewer than two features")
	}
	mask := v.mask()
	h := uint64(0)
	for i, f := range hashes {
		if i > 0 {
			h *= fnvPrime
		}
		h ^= uint64(f) & mask
	}
	return uint32(h & mask)
}

// Nonzeros collects the features of one action in VW's spaces: a feature that is given twice is added, and
// counted. It is scratch space.
type Nonzeros struct {
	At     []uint32
	X      []float64
	Twice  int // features that were given more than once
	bits   int
	places map[uint32]int
}

// MaxNonzeros is the largest number of nonzeros of one action.
const MaxNonzeros = 65_536

// Reset empties the vector for 2^bits coordinates, 10 to 28.
func (a *Nonzeros) Reset(bits int) error {
	if bits < 10 || bits > 28 {
		return &Error{Code: Value, Path: "bits", Value: fmt.Sprint(bits), Problem: "expected 10 to 28"}
	}
	a.At, a.X, a.Twice, a.bits = a.At[:0], a.X[:0], 0, bits
	clear(a.places)
	if a.places == nil {
		a.places = map[uint32]int{}
	}
	return nil
}

// Add adds value x at index i. name is for errors: a value that is not finite or beyond 1e18, an index beyond
// 2^bits, more than MaxNonzeros nonzeros.
func (a *Nonzeros) Add(name string, i uint32, x float64) error {
	switch {
	case !(math.Abs(x) <= 1e18):
		return &Error{Code: Value, Path: name, Value: fmt.Sprint(x), Problem: "expected a number of at most 1e18"}
	case int64(i) >= 1<<a.bits:
		return &Error{Code: Value, Path: name, Value: fmt.Sprint(i), Problem: expected("an index below 2^%d", a.bits)}
	}
	if k, twice := a.places[i]; twice {
		a.Twice++
		a.X[k] += x
		return nil
	}
	if len(a.At) >= MaxNonzeros {
		return &Error{Code: Limit, Path: name, Problem: expected("at most %d features in an action", MaxNonzeros)}
	}
	a.places[i] = len(a.At)
	a.At, a.X = append(a.At, i), append(a.X, x)
	return nil
}
