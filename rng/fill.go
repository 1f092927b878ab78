package rng

import (
	"math"

	"troupe/internal/cpu"
)

// Law is a law of the targets U_t^j: what one 32-bit word of the column layout becomes.
type Law uint8

const (
	UniformLaw Law = iota // UniformWord
	SignLaw               // SignWord
	NormalLaw             // NormalWord
)

// Of returns the value of a word.
func (l Law) Of(word uint32) float64 {
	switch l {
	case UniformLaw:
		return UniformWord(word)
	case SignLaw:
		return SignWord(word)
	}
	return NormalWord(word)
}

// Lanes is the number of blocks that are computed together: members in FillMembers, groups of four
// rounds in FillRounds, rounds in Rows.
const Lanes = 16

// FillMembers stores the targets of 16 members in the rounds 4q, …, 4q+4n−1, q = ⌊t/4⌋: member i of the list in round
// 4q+k goes to dst[k·stride+i]. It is what an update of the whole ensemble needs. Members at the end of the list that
// repeat the one before cost less in portable Go. dst must have (4n−1)·stride + 16 numbers.
func (s Source) FillMembers(dst []float64, stride int, members *[Lanes]uint32, n int, law Law) {
	if n < 1 || stride < Lanes || len(dst) < (4*n-1)*stride+Lanes {
		panic("rng: FillMembers: no room")
	}
	b := s.blocks(uint32(s.role), uint32(s.t>>34))
	b.c0 = *members
	quad := s.t >> 2
	for n > 0 {
		// Word 1 of the counter is q mod 2³², word 3 its high part: a call stays on one side.
		k := int(min(uint64(n), 1<<32-quad&math.MaxUint32))
		for i := range b.c1 {
			b.c1[i] = uint32(quad)
		}
		b.c3 = uint32(quad >> 32)
		b.fill(dst, stride, k, law)
		n, quad = n-k, quad+uint64(k)
		dst = dst[4*k*stride*min(n, 1):]
	}
}

// FillRound stores the targets of listed members in round t: dst[i] is that of members[i], law.Of(s.Word(members[i]))
// bit for bit. dst has as many numbers as members. Cost: a block of four words for each member.
func (s Source) FillRound(dst []float64, members []uint32, law Law) {
	if len(dst) != len(members) {
		panic("rng: FillRound: dst and members differ in length")
	}
	b := s.blocks(uint32(s.role), uint32(s.t>>34))
	for i := range b.c1 {
		b.c1[i] = uint32(s.t >> 2)
	}
	k := int(s.t & 3)
	all := dst
	var w [4 * Lanes]uint32
	for len(members) > 0 {
		n := copy(b.c0[:], members)
		b.words(&w)
		for i, word := range w[k*Lanes : k*Lanes+n] {
			if law == NormalLaw {
				dst[i] = half32(word)
			} else {
				dst[i] = law.Of(word)
			}
		}
		dst, members = dst[n:], members[n:]
	}
	if law == NormalLaw {
		quantiles(all)
	}
}

// FillRounds stores the targets of one member in the 64 rounds 4q, …, 4q+63, q = ⌊t/4⌋: round
// 4(q+i)+k goes to dst[16k+i]. It is what catching up with the past of a member needs.
func (s Source) FillRounds(dst *[4 * Lanes]float64, member uint32, law Law) {
	quad := s.t >> 2
	if uint32(quad) > math.MaxUint32-Lanes+1 { // the high part changes inside
		for i := range uint64(Lanes) {
			for k, w := range (Source{s.key, s.role, (quad + i) << 2}).column(member) {
				dst[k*Lanes+int(i)] = law.Of(w)
			}
		}
		return
	}
	b := s.blocks(uint32(s.role), uint32(quad>>32))
	for i := range b.c1 {
		b.c0[i], b.c1[i] = member, uint32(quad)+uint32(i)
	}
	b.fill(dst[:], Lanes, 1, law)
}

// Counter says how a kernel elsewhere computes the words of the column layout: member j has word t mod 4
// of the block with counter (j, c₁, c₂, c₃) under the key, of which the fifth word is the parity. The
// next four rounds have c₁ + 1, unless that is 0.
func (s Source) Counter() (c [3]uint32, key [5]uint32) {
	b := s.blocks(uint32(s.role), uint32(s.t>>34))
	return [3]uint32{uint32(s.t >> 2), b.c2, b.c3}, b.key
}

// blocks are the counters of 16 Threefry blocks under one key; words 2 and 3 are common.
type blocks struct {
	c0, c1 [Lanes]uint32
	c2, c3 uint32
	key    [5]uint32 // the fifth word is the parity of the others
}

func (s Source) blocks(c2, c3 uint32) blocks {
	k := s.key.key()
	return blocks{c2: c2, c3: c3, key: [5]uint32{k[0], k[1], k[2], k[3], parity ^ k[0] ^ k[1] ^ k[2] ^ k[3]}}
}

// fill computes the blocks, adds 1 to word 1 of every counter, and so on n times. Word k of lane i
// in pass p becomes dst[(4p+k)·stride + i].
func (b *blocks) fill(dst []float64, stride, n int, law Law) {
	if law != NormalLaw {
		b.kernel(dst, stride, n, law)
		return
	}
	var w [4 * Lanes]uint32
	for p := range n {
		b.words(&w)
		for k := range 4 {
			row := dst[(4*p+k)*stride : (4*p+k)*stride+Lanes]
			for i, word := range w[k*Lanes : k*Lanes+Lanes] {
				row[i] = half32(word)
			}
			quantiles(row)
		}
		for i := range b.c1 {
			b.c1[i]++
		}
	}
}

// kernel is fill for the laws that a vector of words turns into without a function.
func (b *blocks) kernel(dst []float64, stride, n int, law Law) {
	_ = dst[(4*n-1)*stride+Lanes-1]
	switch cpu.Kernels() {
	case cpu.AVX512:
		fillAVX512(&dst[0], stride, b, n, int(law))
	case cpu.AVX2:
		fillAVX2(&dst[0], stride, b, n, int(law))
	default:
		lanes, key := b.distinct(), schedule(&b.key)
		var z [8]uint32
		for p := range n {
			q := dst[4*p*stride:]
			r0, r1 := (*[Lanes]float64)(q), (*[Lanes]float64)(q[stride:])
			r2, r3 := (*[Lanes]float64)(q[2*stride:]), (*[Lanes]float64)(q[3*stride:])
			for i := 1; i < lanes && i < Lanes; i += 2 {
				two(&key, b.c0[i-1], b.c1[i-1]+uint32(p), b.c0[i], b.c1[i]+uint32(p), b.c2, b.c3, &z)
				if law == UniformLaw {
					r0[i-1], r0[i] = UniformWord(z[0]), UniformWord(z[4])
					r1[i-1], r1[i] = UniformWord(z[1]), UniformWord(z[5])
					r2[i-1], r2[i] = UniformWord(z[2]), UniformWord(z[6])
					r3[i-1], r3[i] = UniformWord(z[3]), UniformWord(z[7])
					continue
				}
				r0[i-1], r0[i] = SignWord(z[0]), SignWord(z[4])
				r1[i-1], r1[i] = SignWord(z[1]), SignWord(z[5])
				r2[i-1], r2[i] = SignWord(z[2]), SignWord(z[6])
				r3[i-1], r3[i] = SignWord(z[3]), SignWord(z[7])
			}
			for i := lanes; i < Lanes; i++ {
				r0[i], r1[i], r2[i], r3[i] = r0[lanes-1], r1[lanes-1], r2[lanes-1], r3[lanes-1]
			}
		}
	}
}

// words stores word k of lane i in w[16k+i].
func (b *blocks) words(w *[4 * Lanes]uint32) {
	switch cpu.Kernels() {
	case cpu.AVX512:
		wordsAVX512(w, b)
	case cpu.AVX2:
		wordsAVX2(w, b)
	default:
		key := schedule(&b.key)
		var z [8]uint32
		for i := 0; i < Lanes; i += 2 {
			two(&key, b.c0[i], b.c1[i], b.c0[i+1], b.c1[i+1], b.c2, b.c3, &z)
			for k := range 4 {
				w[k*Lanes+i], w[k*Lanes+i+1] = z[k], z[k+4]
			}
		}
	}
}

// distinct returns an even number of lanes after which all lanes repeat the last one.
func (b *blocks) distinct() int {
	n := Lanes
	for n > 2 && b.c0[n-2] == b.c0[n-3] && b.c0[n-1] == b.c0[n-3] && b.c1[n-2] == b.c1[n-3] && b.c1[n-1] == b.c1[n-3] {
		n -= 2
	}
	return n
}

// Columns serves the words of members 0, …, m−1 round after round and keeps the four rounds of a
// block, so that consecutive rounds cost one Threefry block for each member and four rounds. The
// zero value is ready; it is a cache and changes no number. Not safe for concurrent use.
type Columns struct {
	key   packed
	role  Role
	quad  uint64
	m     int
	valid bool
	words [4][]uint32
}

// Words returns the words of members 0, …, m−1 in the source's round. The slice belongs to the
// cache and is valid until the next call.
func (c *Columns) Words(s Source, m int) []uint32 {
	if quad := s.t >> 2; !c.valid || c.quad != quad || c.m < m || c.role != s.role || c.key != s.key {
		if room := (m + Lanes - 1) / Lanes * Lanes; cap(c.words[0]) < room {
			for i := range c.words {
				c.words[i] = make([]uint32, room)
			}
		}
		b := s.blocks(uint32(s.role), uint32(quad>>32))
		for i := range b.c0 {
			b.c0[i], b.c1[i] = uint32(i), uint32(quad)
		}
		var w [4 * Lanes]uint32
		for j := 0; j < m; j += Lanes {
			b.words(&w)
			for i := range c.words {
				copy(c.words[i][j:j+Lanes], w[i*Lanes:])
			}
			for i := range b.c0 {
				b.c0[i] += Lanes
			}
		}
		c.key, c.role, c.quad, c.m, c.valid = s.key, s.role, quad, m, true
	}
	return c.words[s.t&3][:m]
}

// rows stores word k of lane i in w[16k+i] for the 16 blocks whose counters have c0[0], c1[0] + i, c2
// and c3.
func (b *blocks) rows(w *[4 * Lanes]uint32) {
	switch cpu.Kernels() {
	case cpu.AVX512:
		rowsAVX512(w, b)
	case cpu.AVX2:
		rowsAVX2(w, b)
	default:
		for i := range b.c1 {
			b.c0[i], b.c1[i] = b.c0[0], b.c1[0]+uint32(i)
		}
		b.words(w)
	}
}

// Rows serves the numbers 0 and 1 of the row layout round after round, 16 rounds at a time: what a
// policy draws before it acts, or an environment for its noise. The zero value is ready; it is a
// cache and changes no number. Not safe for concurrent use.
type Rows struct {
	first   Source  // of 16 rounds, its round a multiple of 16
	valid   bool    // the rest belongs to first
	normals [2]bool // are in normal
	words   [4 * Lanes]uint32
	normal  [2][Lanes]float64
}

const badRow = "rng: Rows: number 0 or 1"

// at makes the words of the source's round available and returns its place among the 16.
func (r *Rows) at(s Source) uint64 {
	k := s.t - r.first.t
	if k >= Lanes || s.key != r.first.key || s.role != r.first.role || !r.valid {
		k = r.compute(s)
	}
	return k % Lanes
}

func (r *Rows) compute(s Source) uint64 {
	r.first = Source{s.key, s.role, s.t &^ (Lanes - 1)}
	k := s.key.key()
	var b blocks
	// 16 divides 2³²: no carry among the 16
	b.c1[0], b.c2, b.c3 = uint32(r.first.t), uint32(s.role)|rowBit, uint32(s.t>>32)
	b.key = [5]uint32{k[0], k[1], k[2], k[3], parity ^ k[0] ^ k[1] ^ k[2] ^ k[3]}
	b.rows(&r.words)
	r.valid, r.normals = true, [2]bool{}
	return s.t % Lanes
}

// word returns number i of round k of the 16.
func (r *Rows) word(i int, k uint64) uint64 {
	w := r.words[2*i*Lanes:][:2*Lanes]
	return uint64(w[k%Lanes]) | uint64(w[Lanes+k%Lanes])<<32
}

// Uint64 returns s.Uint64(i) for i = 0 or 1.
func (r *Rows) Uint64(s Source, i int) uint64 {
	if i&^1 != 0 {
		panic(badRow)
	}
	return r.word(i, r.at(s))
}

// IntnSign returns s.Intn(0, n) and s.Sign(1): a member and ξ.
func (r *Rows) IntnSign(s Source, n int) (int, float64) {
	k := r.at(s)
	return intn(r.word(0, k), n), sign(r.word(1, k))
}

// Intn returns s.Intn(i, n) for i = 0 or 1.
func (r *Rows) Intn(s Source, i, n int) int { return intn(r.Uint64(s, i), n) }

// Normal returns s.Normal(i) for i = 0 or 1.
func (r *Rows) Normal(s Source, i int) float64 {
	if i&^1 != 0 {
		panic(badRow)
	}
	k := r.at(s)
	if !r.normals[i] {
		for k := range r.normal[i] {
			r.normal[i][k] = half(r.word(i, uint64(k)))
		}
		quantiles(r.normal[i][:])
		r.normals[i] = true
	}
	return r.normal[i][k]
}
