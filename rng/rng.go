// Package rng provides named, counter-based random streams with random access.
//
// Three nouns:
//
//   - a Key names an independent universe of numbers; it is derived from a seed by a path of
//     labels and numbers (experiment seed → replication → …);
//   - a Stream is one role in that universe; the roles are the σ-algebras of the paper
//     (instance, init, offer, select, reward, perturb);
//   - a Source is one round t of a stream: number j of it is computed from (key, stream, t, j),
//     never carried along.
//
// So results do not depend on the number of workers, two policies meet the same instance and the
// same noise, there is no generator state in a snapshot, and an ensemble member's targets can be
// computed when the member is drawn. All types are small values, safe to copy and to share.
//
// # Layout
//
// Every word is one 32-bit lane of Threefry4x32-20 under the stream's key. Two layouts cover all
// uses and cannot meet, because the top bit of counter word 2 tells them apart:
//
//	column: counter (j, ⌊t/4⌋ mod 2³², role,       ⌊t/2³⁴⌋), word t mod 4
//	row:    counter (⌊i/4⌋, t mod 2³², role | 2³¹, ⌊t/2³²⌋), word i mod 4
//
// The column layout (Source.Word, Columns) serves one number for each member of an ensemble: the
// four words of a block are four consecutive rounds of one member, so an eager or blocked update
// runs over members and wastes no word, and a lazy catch-up of one member runs over time. The row
// layout serves everything that needs several numbers in one round.
package rng

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"troupe/internal/cpu"
	"troupe/internal/logs"
)

// Role names what a stream's numbers are for. The roles are the σ-algebras of the paper's proof.
type Role uint32

const (
	Instance Role = 1 // θ* and fixed arms, drawn before round 1
	Init     Role = 2 // S_0^j: 𝒜'_0; the "round" is the member's number
	Offer    Role = 3 // 𝒳_t where it changes, given before X_t
	Select   Role = 4 // (ξ_t, J_t): 𝒜_t
	Reward   Role = 5 // Z_t: ℱ_t
	Perturb  Role = 6 // U_t^1, …, U_t^m: 𝒜'_t
	Resample Role = 7 // report: resampling of replications
)

const rowBit = 1 << 31

// Key is a 128-bit name of a universe of independent numbers.
type Key [4]uint32

// NewKey returns the root key of a seed.
func NewKey(seed uint64) Key {
	return Key{uint32(seed), uint32(seed >> 32), 0, 0}
}

// At returns the child key with number i. Children with different numbers, and children of
// different parents, are independent for all practical purposes (a block cipher's outputs).
func (k Key) At(i uint64) Key {
	return Key(Threefry4x32(k, [4]uint32{uint32(i), uint32(i >> 32), 0, math.MaxUint32}))
}

// Child returns the child key with a name. The name is folded in eight bytes at a time with its
// length, so different names give different keys.
func (k Key) Child(name string) Key {
	c := [4]uint32{uint32(len(name)), 0, 1, math.MaxUint32}
	k = Key(Threefry4x32(k, c))
	for len(name) > 0 {
		var w [8]byte
		n := copy(w[:], name)
		name = name[n:]
		lo := uint32(w[0]) | uint32(w[1])<<8 | uint32(w[2])<<16 | uint32(w[3])<<24
		hi := uint32(w[4]) | uint32(w[5])<<8 | uint32(w[6])<<16 | uint32(w[7])<<24
		k = Key(Threefry4x32(k, [4]uint32{lo, hi, 2, math.MaxUint32}))
	}
	return k
}

// Stream returns the stream of a role.
func (k Key) Stream(r Role) Stream { return Stream{key: k.pack(), role: r} }

// packed is a Key as two numbers: a struct of numbers travels in registers, an array does not.
type packed struct{ lo, hi uint64 }

func (k Key) pack() packed {
	return packed{uint64(k[0]) | uint64(k[1])<<32, uint64(k[2]) | uint64(k[3])<<32}
}

func (p packed) key() Key {
	return Key{uint32(p.lo), uint32(p.lo >> 32), uint32(p.hi), uint32(p.hi >> 32)}
}

// Stream is a sequence of rounds of random numbers for one role.
type Stream struct {
	key  packed
	role Role
}

// Round returns the numbers of round t.
func (s Stream) Round(t uint64) Source { return Source{key: s.key, role: s.role, t: t} }

// Sub returns an independent stream of the same role, for instance one for each restart.
func (s Stream) Sub(i uint64) Stream { return Stream{key: s.key.key().At(i).pack(), role: s.role} }

// Source is round t of a stream: a table of numbers, indexed from 0, computed on demand. Methods
// with equal arguments return equal numbers; methods of the row layout at the same index share
// bits, so a caller uses each index once.
type Source struct {
	key  packed
	role Role
	t    uint64
}

// At returns the source's round t.
func (s Source) At() uint64 { return s.t }

// Later returns round t+n of the same stream.
func (s Source) Later(n uint64) Source { return Source{key: s.key, role: s.role, t: s.t + n} }

// As returns the same round of the stream of another role.
func (s Source) As(r Role) Source { return Source{key: s.key, role: r, t: s.t} }

// Sub returns the same round of an independent stream of the same role, for a policy that is made
// of others.
func (s Source) Sub(i uint64) Source {
	return Source{key: s.key.key().At(i).pack(), role: s.role, t: s.t}
}

// Word returns the 32 bits of member j in the column layout.
func (s Source) Word(j uint32) uint32 {
	return s.column(j)[s.t&3]
}

// column returns the block of member j: its words for rounds 4⌊t/4⌋, …, 4⌊t/4⌋+3.
func (s Source) column(j uint32) [4]uint32 {
	return Threefry4x32(s.key.key(), [4]uint32{j, uint32(s.t >> 2), uint32(s.role), uint32(s.t >> 34)})
}

// Uint64 returns number i of the row layout: 64 bits, words 2i and 2i+1.
func (s Source) Uint64(i int) uint64 {
	b := s.row(uint32(i) >> 1)
	w := (i & 1) * 2
	return uint64(b[w]) | uint64(b[w+1])<<32
}

func (s Source) row(n uint32) [4]uint32 {
	return Threefry4x32(s.key.key(), [4]uint32{n, uint32(s.t), uint32(s.role) | rowBit, uint32(s.t >> 32)})
}

// Float64 returns number i as a uniform on the open interval (0, 1): (2k+1)/2⁵³ for a 52-bit k.
// It is never 0 or 1, and 1−u has the same law.
func (s Source) Float64(i int) float64 { return open01(s.Uint64(i)) }

func open01(w uint64) float64 { return float64(float64(w>>12<<1|1) * 0x1p-53) }

// Uniform returns number i as a uniform on (−1, 1), symmetric around 0.
func (s Source) Uniform(i int) float64 { return float64(2*s.Float64(i)) - 1 }

// Normal returns number i as a standard normal, by inversion of Float64(i). The smallest and largest
// values are ±8.13.
func (s Source) Normal(i int) float64 { return normal(s.Uint64(i)) }

func normal(w uint64) float64 { return quantile(half(w)) }

// Intn returns number i as a uniform on {0, …, n−1}; n must be positive. The high word of a 64 by
// 64 bit product: the bias is below n/2⁶⁴.
func (s Source) Intn(i, n int) int {
	return intn(s.Uint64(i), n)
}

// Intns fills dst with Intn(0, n), Intn(1, n), …, bit for bit. Cost: Threefry blocks, of two numbers each, are computed
// 16 at a time.
func (s Source) Intns(dst []int, n int) {
	b := s.blocks(uint32(s.role)|rowBit, uint32(s.t>>32))
	var w [4 * Lanes]uint32
	for from := 0; from < len(dst); from += 2 * Lanes {
		for i := range b.c1 {
			b.c0[i], b.c1[i] = uint32(from/2+i), uint32(s.t)
		}
		b.words(&w)
		for i := range min(2*Lanes, len(dst)-from) {
			k := i%2*2*Lanes + i/2
			dst[from+i] = intn(uint64(w[k])|uint64(w[k+Lanes])<<32, n)
		}
	}
}

func intn(w uint64, n int) int {
	if n <= 0 {
		panic("rng: Intn: n must be positive")
	}
	hi, _ := bits.Mul64(w, uint64(n))
	return int(hi)
}

// Sign returns number i as +1 or −1.
func (s Source) Sign(i int) float64 { return sign(s.Uint64(i)) }

// sign is ±1 by the top bit, without a branch that would be predicted wrongly half of the time.
func sign(w uint64) float64 { return math.Float64frombits(0x3ff0000000000000 | w&(1<<63)) }

// Normals fills dst with the normals number i0, i0+1, …. It is Normal, bit for bit.
//
// Cost: Threefry blocks, of two normals each, are computed 16 at a time where the machine has a
// kernel for that, and the inversion is vectorised.
func (s Source) Normals(dst []float64, i0 int) {
	s.halves(dst, i0)
	quantiles(dst)
}

// Uniforms fills dst with the uniforms number i0, i0+1, …. It is Uniform, bit for bit: no operation in it rounds.
func (s Source) Uniforms(dst []float64, i0 int) {
	s.halves(dst, i0)
	for i := range dst {
		dst[i] *= 2
	}
}

// halves fills dst with Float64(i) − ½ for i = i0, i0+1, ….
func (s Source) halves(dst []float64, i0 int) {
	if i0&1 != 0 && len(dst) > 0 {
		dst[0] = half(s.Uint64(i0))
		dst, i0 = dst[1:], i0+1
	}
	n := uint32(i0) >> 1 // the next row block
	if len(dst) >= 2*minLanes() {
		b := s.blocks(uint32(s.role)|rowBit, uint32(s.t>>32))
		for i := range b.c1 {
			b.c0[i], b.c1[i] = n+uint32(i), uint32(s.t)
		}
		var w [4 * Lanes]uint32
		for len(dst) >= 2*minLanes() {
			b.words(&w)
			k := min(len(dst), 2*Lanes)
			if k < 2*Lanes {
				var last [2 * Lanes]float64
				weave(&last, &w)
				copy(dst, last[:])
			} else {
				weave((*[2 * Lanes]float64)(dst), &w)
			}
			for i := range b.c0 {
				b.c0[i] += Lanes
			}
			dst, n = dst[k:], n+Lanes
		}
	}
	for ; len(dst) > 0; n++ {
		w := s.row(n)
		dst[0] = half(uint64(w[0]) | uint64(w[1])<<32)
		if len(dst) == 1 {
			return
		}
		dst[1] = half(uint64(w[2]) | uint64(w[3])<<32)
		dst = dst[2:]
	}
}

// weave stores half of the two numbers of each lane of w, lane after lane.
func weave(dst *[2 * Lanes]float64, w *[4 * Lanes]uint32) {
	switch cpu.Kernels() {
	case cpu.AVX512:
		halvesAVX512(&dst[0], w)
	case cpu.AVX2:
		halvesAVX2(&dst[0], w)
	default:
		for i := range Lanes {
			dst[2*i] = half(uint64(w[i]) | uint64(w[Lanes+i])<<32)
			dst[2*i+1] = half(uint64(w[2*Lanes+i]) | uint64(w[3*Lanes+i])<<32)
		}
	}
}

// minLanes is the number of row blocks from which on it pays to compute 16 together.
func minLanes() int {
	if cpu.Kernels() == cpu.Portable {
		return Lanes
	}
	return 3
}

// Sphere fills dst with a uniform draw from the unit sphere 𝕊^{d−1}, d = len(dst) ≥ 1, from the
// numbers i0, …, i0+d−1.
func (s Source) Sphere(dst []float64, i0 int) {
	if len(dst) == 0 {
		panic("rng: Sphere: empty vector")
	}
	s.Spheres(dst, len(dst), i0)
}

// Spheres fills dst, a list of rows of d ≥ 1 numbers, with independent uniform draws from 𝕊^{d−1}:
// row i is the Sphere of the numbers i0 + i·d, …, i0 + i·d + d−1, bit for bit.
func (s Source) Spheres(dst []float64, d, i0 int) {
	if d < 1 || len(dst)%d != 0 {
		panic("rng: Spheres: not a list of rows of d numbers")
	}
	s.Normals(dst, i0)
	// Normals are never 0 exactly, because Float64 is never ½. Four sums at a time, each in order.
	for ; len(dst) >= 4*d; dst = dst[4*d:] {
		r0, r1, r2, r3 := dst[:d], dst[d:][:d], dst[2*d:][:d], dst[3*d:][:d]
		var q0, q1, q2, q3 float64
		for i, v := range r0 {
			q0 += float64(v * v)
			q1 += float64(r1[i] * r1[i])
			q2 += float64(r2[i] * r2[i])
			q3 += float64(r3[i] * r3[i])
		}
		q0, q1, q2, q3 = 1/math.Sqrt(q0), 1/math.Sqrt(q1), 1/math.Sqrt(q2), 1/math.Sqrt(q3)
		for i := range r0 {
			r0[i] *= q0
			r1[i] *= q1
			r2[i] *= q2
			r3[i] *= q3
		}
	}
	for ; len(dst) > 0; dst = dst[d:] {
		row := dst[:d]
		var q float64
		for _, v := range row {
			q += float64(v * v)
		}
		c := 1 / math.Sqrt(q)
		for i := range row {
			row[i] *= c
		}
	}
}

// Ball fills dst with a uniform draw from the unit ball: a point of the sphere scaled by W^{1/d},
// W uniform; it uses the numbers i0, …, i0+d.
func (s Source) Ball(dst []float64, i0 int) {
	s.Sphere(dst, i0)
	c := logs.Root(s.Float64(i0+len(dst)), len(dst))
	for i := range dst {
		dst[i] *= c
	}
}

// Rand returns the row layout as a *rand.Rand, for code that is not ours. It starts at number 0.
func (s Source) Rand() *rand.Rand { return rand.New(&sequence{src: s}) }

type sequence struct {
	src Source
	i   uint32
	b   [4]uint32
}

func (q *sequence) Uint64() uint64 {
	if q.i&1 == 0 {
		q.b = q.src.row(q.i >> 1)
	}
	w := (q.i & 1) * 2
	q.i++
	return uint64(q.b[w]) | uint64(q.b[w+1])<<32
}

// UniformWord maps a word to (2k+1)/2²⁴, k the signed top 24 bits: a symmetric law on (−1, 1)
// with mean exactly 0 and variance (1 − 2⁻⁴⁸)/3, whose values are exact in float32 too.
func UniformWord(w uint32) float64 {
	return float64(int32(w)>>8<<1|1) * 0x1p-24
}

// SignWord maps a word to its top bit: +1 or −1.
func SignWord(w uint32) float64 {
	return 1 - 2*float64(w>>31)
}

// NormalWord maps a word to a standard normal by inversion of (2w+1)/2³³. The smallest and
// largest values are ±6.34.
func NormalWord(w uint32) float64 {
	return quantile(half32(w))
}
