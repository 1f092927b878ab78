package feature

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// murmur3 is MurmurHash3_x86_32 of b, the hash of Vowpal Wabbit: four bytes a step, well mixed in
// every bit, defined by published vectors. It is not secret: the author of a text can choose its
// bucket.
func murmur3(b []byte, seed uint32) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	h, n := seed, uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * c1
		h ^= bits.RotateLeft32(k, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	var k uint32
	for i := len(b) - 1; i >= 0; i-- {
		k = k<<8 | uint32(b[i])
	}
	h ^= bits.RotateLeft32(k*c1, 15) * c2
	h ^= n
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return h
}

// bucket adds ±v to one entry of block: the low 31 bits of the hash choose the entry, the top bit
// the sign. The sign makes the inner product of two hashed blocks an unbiased estimate of the
// unhashed one (Weinberger et al. 2009, arXiv 0902.2206).
func bucket(block []float64, h uint32, v float64) {
	if h>>31 != 0 {
		v = -v
	}
	block[int(h&(1<<31-1))%len(block)] += v
}

// shave is a little less than 1: more than the rounding of a norm over 1024 coordinates.
const shave = 1 - 1.0/(1<<40)

// squares returns Σ v².
func squares(block []float64) (q float64) {
	for _, v := range block {
		q += float64(v * v)
	}
	return q
}

// shrink divides a block that is longer than 1 by its length.
func shrink(block []float64) {
	q := squares(block)
	if q <= 1 {
		return
	}
	f := shave / math.Sqrt(q)
	for i := range block {
		block[i] *= f
	}
}

// words appends the words of text in lower case to buf, each followed by separator, and calls
// found with the start and the end of each. A word is a maximal run of letters, digits and marks;
// an ideograph or kana, from scripts that do not separate words, is a word of its own. No
// normalisation: é as one and as two code points are different words. text is valid UTF-8.
func words(buf, text []byte, found func(buf []byte, start, end int)) []byte {
	start := len(buf)
	end := func() {
		if len(buf) > start {
			found(buf, start, len(buf))
			buf = append(buf, separator)
			start = len(buf)
		}
	}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			i++
			switch {
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
				buf = append(buf, c)
			case 'A' <= c && c <= 'Z':
				buf = append(buf, c+'a'-'A')
			default:
				end()
			}
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			end()
			buf = utf8.AppendRune(buf, r)
			end()
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			buf = utf8.AppendRune(buf, unicode.ToLower(r))
		default:
			end()
		}
	}
	end()
	return buf
}

// separator stands after every word; no word contains it.
const separator = 0x1f
