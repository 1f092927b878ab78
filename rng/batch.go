package rng

import (
	"math"
	"math/bits"

	"troupe/internal/cpu"
)

// Eight is the number of streams of a Batch: one for each float64 of a vector of 64 bytes.
const Eight = 8

// Batch is eight streams of one role, read side by side in consecutive rounds: what replications draw
// that are played in lock-step. Number l of every answer is that of stream l, bit for bit what the
// stream's own Source gives. It is a cache and changes no number. Not safe for concurrent use.
type Batch struct {
	blocks  batchBlocks
	streams [Eight]Stream

	first   uint64 // of the 16 rounds in numbers
	valid   bool
	numbers [16][2][Eight]uint64 // numbers 0 and 1 of the row layout
	normals [16 * Eight]float64  // number 0 as a normal
	inverse bool                 // normals are there
	members [16][Eight]int       // number 0 as a uniform on {0, …, n−1}
	signs   [16][Eight]float64   // number 1 as ±1
	n       int                  // 0 when members and signs are not there
}

// NewBatch returns the streams side by side. They have one role; fewer than eight are filled up with
// the first one. It panics without any.
func NewBatch(streams []Stream) *Batch {
	if len(streams) < 1 || len(streams) > Eight {
		panic("rng: NewBatch: one to eight streams")
	}
	o := new(Batch)
	for l := range o.streams {
		s := streams[0]
		if l < len(streams) {
			s = streams[l]
		}
		if s.role != streams[0].role {
			panic("rng: NewBatch: the streams differ in role")
		}
		o.streams[l] = s
		k := s.key.key()
		key := [5]uint32{k[0], k[1], k[2], k[3], parity ^ k[0] ^ k[1] ^ k[2] ^ k[3]}
		for _, i := range []int{l, l + Eight} {
			for w := range key {
				o.blocks.key[w][i] = key[w]
				o.blocks.last[w][i] = key[(w+4)%5] + uint32(w+1)
			}
		}
	}
	return o
}

// batchBlocks are the counters of 16 Threefry blocks; lanes l and l + 8 are under the key of stream l.
type batchBlocks struct {
	c            [4][Lanes]uint32 // counter words
	key          [5][Lanes]uint32 // the fifth word is the parity of the others
	last         [5][Lanes]uint32 // what word 3 is added after group g = 1, …, 5: key word g+3 mod 5, and g
	step0, step1 [Lanes]uint32    // added to words 0 and 1 of the counter from pass to pass
}

// set stores the counters of the first pass: words 0 and 1 differ by above0 and above1 between the lanes of
// a stream, and grow by step0 and step1 from pass to pass. All but c1 is the same for one layout, which word 2
// tells.
func (b *batchBlocks) set(above0, step0, c1, above1, step1, c2, c3 uint32) {
	for i := range Eight {
		b.c[1][i], b.c[1][i+Eight] = c1, c1+above1
	}
	if b.c[2][0] == c2 && b.c[3][0] == c3 { // a role is not 0
		return
	}
	for i := range Lanes {
		b.c[0][i], b.c[2][i], b.c[3][i] = 0, c2, c3
		if i >= Eight {
			b.c[0][i] = above0
		}
		b.step0[i], b.step1[i] = step0, step1
	}
}

// Fill stores the targets of members 0, …, m−1 in the four rounds of the column layout that hold round
// t: those of member j in round 4⌊t/4⌋+k are dst[(k·stride + j)·8 + l] for stream l. stride counts
// members, is even and at least m; dst has 4·stride·8 numbers. Member m is filled too where m is odd.
//
// Cost: 4m words for each stream, without waste.
func (o *Batch) Fill(dst []float64, stride, m int, t uint64, law Law) {
	if m < 1 || stride < m || stride%2 != 0 || len(dst) < 4*stride*Eight {
		panic("rng: Batch: no room")
	}
	quad, b := t>>2, &o.blocks
	b.set(1, 2, uint32(quad), 0, 0, uint32(o.streams[0].role), uint32(quad>>32))
	passes := (m + 1) / 2
	switch cpu.Kernels() {
	case cpu.AVX512:
		batchFillAVX512(&dst[0], stride*Eight, b, passes, int(law))
	case cpu.AVX2:
		batchFillAVX2(&dst[0], stride*Eight, b, passes, int(law))
	default:
		for p := range passes {
			for i := range Lanes {
				for k, w := range b.block(i, uint32(p)) {
					dst[k*stride*Eight+p*Lanes+i] = law.Of(w)
				}
			}
		}
		return
	}
	if law == NormalLaw { // the kernel left int32(w)
		for k := range 4 {
			row := dst[k*stride*Eight : (k*stride+2*passes)*Eight]
			for i, v := range row {
				row[i] = (v - math.Copysign(1<<31, v) + 0.5) * 0x1p-32 // half32(w)
			}
			quantiles(row)
		}
	}
}

// block computes the block of a lane in a pass.
func (b *batchBlocks) block(lane int, pass uint32) [4]uint32 {
	key := [4]uint32{b.key[0][lane], b.key[1][lane], b.key[2][lane], b.key[3][lane]}
	return Threefry4x32(key, [4]uint32{b.c[0][lane] + pass*b.step0[lane], b.c[1][lane] + pass*b.step1[lane],
		b.c[2][lane], b.c[3][lane]})
}

// at makes the numbers of round t available and returns its place among the 16.
func (o *Batch) at(t uint64) int {
	if !o.valid || t^o.first >= 16 {
		o.first, o.valid, o.inverse, o.n = t&^15, true, false, 0
		b := &o.blocks
		b.set(0, 0, uint32(o.first), 1, 2, uint32(o.streams[0].role)|rowBit, uint32(o.first>>32)) // 16 divides 2³²
		switch cpu.Kernels() {
		case cpu.AVX512:
			batchWordsAVX512(&o.numbers[0][0][0], b, 8)
		case cpu.AVX2:
			batchWordsAVX2(&o.numbers[0][0][0], b, 8)
		default:
			for p := range 8 {
				for i := range Lanes {
					w := b.block(i, uint32(p))
					for n := range 2 {
						o.numbers[2*p+i/Eight][n][i%Eight] = uint64(w[2*n]) | uint64(w[2*n+1])<<32
					}
				}
			}
		}
	}
	return int(t & 15)
}

// Choice returns number 0 of round t as uniforms on {0, …, n−1}, Source.Intn, and number 1 as ±1, Source.Sign.
// They belong to the batch and are valid until the next call.
func (o *Batch) Choice(t uint64, n int) (members *[Eight]int, signs *[Eight]float64) {
	k := o.at(t)
	if o.n != n || n <= 0 {
		o.choose(n)
	}
	return &o.members[k], &o.signs[k]
}

// choose fills members and signs for the 16 rounds.
func (o *Batch) choose(n int) {
	if n <= 0 {
		panic("rng: Choice: n must be positive")
	}
	o.n = n
	level := cpu.Kernels()
	if uint64(n) >= 1<<32 {
		level = cpu.Portable
	}
	switch level {
	case cpu.AVX512:
		batchChoicesAVX512(&o.members[0][0], &o.signs[0][0], &o.numbers[0][0][0], uint64(n), len(o.numbers))
	case cpu.AVX2:
		batchChoicesAVX2(&o.members[0][0], &o.signs[0][0], &o.numbers[0][0][0], uint64(n), len(o.numbers))
	default:
		for k := range o.numbers {
			for l := range Eight {
				hi, _ := bits.Mul64(o.numbers[k][0][l], uint64(n))
				o.members[k][l], o.signs[k][l] = int(hi), sign(o.numbers[k][1][l])
			}
		}
	}
}

// Normals returns number 0 of round t as standard normals: Source.Normal. They belong to the batch
// and are valid until the next call.
func (o *Batch) Normals(t uint64) *[Eight]float64 {
	k := o.at(t)
	if !o.inverse {
		switch cpu.Kernels() {
		case cpu.AVX512:
			batchHalvesAVX512(&o.normals[0], &o.numbers[0][0][0], len(o.numbers))
		case cpu.AVX2:
			batchHalvesAVX2(&o.normals[0], &o.numbers[0][0][0], len(o.numbers))
		default:
			for i := range o.numbers {
				row := (*[Eight]float64)(o.normals[i*Eight:])
				for l, w := range &o.numbers[i][0] {
					row[l] = half(w)
				}
			}
		}
		quantiles(o.normals[:])
		o.inverse = true
	}
	return (*[Eight]float64)(o.normals[k*Eight:])
}
