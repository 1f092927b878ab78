package rng

import "math/bits"

// parity is Random123's SKEIN_KS_PARITY32.
const parity = 0x1BD11BDA

// Threefry4x32 is the Threefry-4x32 block function of Salmon et al. (SC 2011) with 20 rounds: a
// bijection of the 128-bit counter c for every 128-bit key k. It is the only source of
// randomness in this module; rng_test.go checks it against Random123's known-answer vectors.
//
// Cost: about 10 ns for four 32-bit words in portable Go.
func Threefry4x32(k, c [4]uint32) [4]uint32 {
	k4 := parity ^ k[0] ^ k[1] ^ k[2] ^ k[3]
	x0, x1, x2, x3 := c[0]+k[0], c[1]+k[1], c[2]+k[2], c[3]+k[3]

	// Five groups of four rounds. The rotations alternate between two tables of four, and after
	// group g the key schedule is rotated by g+1 words, with g+1 added to the last word.
	x0, x1, x2, x3 = even(x0, x1, x2, x3)
	x0, x1, x2, x3 = x0+k[1], x1+k[2], x2+k[3], x3+k4+1
	x0, x1, x2, x3 = odd(x0, x1, x2, x3)
	x0, x1, x2, x3 = x0+k[2], x1+k[3], x2+k4, x3+k[0]+2
	x0, x1, x2, x3 = even(x0, x1, x2, x3)
	x0, x1, x2, x3 = x0+k[3], x1+k4, x2+k[0], x3+k[1]+3
	x0, x1, x2, x3 = odd(x0, x1, x2, x3)
	x0, x1, x2, x3 = x0+k4, x1+k[0], x2+k[1], x3+k[2]+4
	x0, x1, x2, x3 = even(x0, x1, x2, x3)
	x0, x1, x2, x3 = x0+k[0], x1+k[1], x2+k[2], x3+k[3]+5
	return [4]uint32{x0, x1, x2, x3}
}

// even is four rounds with the first half of the rotation table.
func even(x0, x1, x2, x3 uint32) (uint32, uint32, uint32, uint32) {
	x0 += x1
	x1 = bits.RotateLeft32(x1, 10) ^ x0
	x2 += x3
	x3 = bits.RotateLeft32(x3, 26) ^ x2
	x0 += x3
	x3 = bits.RotateLeft32(x3, 11) ^ x0
	x2 += x1
	x1 = bits.RotateLeft32(x1, 21) ^ x2
	x0 += x1
	x1 = bits.RotateLeft32(x1, 13) ^ x0
	x2 += x3
	x3 = bits.RotateLeft32(x3, 27) ^ x2
	x0 += x3
	x3 = bits.RotateLeft32(x3, 23) ^ x0
	x2 += x1
	x1 = bits.RotateLeft32(x1, 5) ^ x2
	return x0, x1, x2, x3
}

// odd is four rounds with the second half of the rotation table.
func odd(x0, x1, x2, x3 uint32) (uint32, uint32, uint32, uint32) {
	x0 += x1
	x1 = bits.RotateLeft32(x1, 6) ^ x0
	x2 += x3
	x3 = bits.RotateLeft32(x3, 20) ^ x2
	x0 += x3
	x3 = bits.RotateLeft32(x3, 17) ^ x0
	x2 += x1
	x1 = bits.RotateLeft32(x1, 11) ^ x2
	x0 += x1
	x1 = bits.RotateLeft32(x1, 25) ^ x0
	x2 += x3
	x3 = bits.RotateLeft32(x3, 10) ^ x2
	x0 += x3
	x3 = bits.RotateLeft32(x3, 18) ^ x0
	x2 += x1
	x1 = bits.RotateLeft32(x1, 20) ^ x2
	return x0, x1, x2, x3
}

// schedule returns the numbers that two adds: the five words of a key, the last of which is the parity, and those of
// word 3 after groups 1, …, 5.
func schedule(k *[5]uint32) [10]uint32 {
	return [10]uint32{k[0], k[1], k[2], k[3], k[4], k[4] + 1, k[0] + 2, k[1] + 3, k[2] + 4, k[3] + 5}
}

// two is Threefry4x32 of the counters (x0, x1, c2, c3) and (y0, y1, c2, c3), side by side: the instructions of one
// block wait for each other. The order of the lines is the one of which the compiler makes the fewest copies.
func two(k *[10]uint32, x0, x1, y0, y1, c2, c3 uint32, z *[8]uint32) {
	x0, x1, x2, x3 := x0+k[0], x1+k[1], c2+k[2], c3+k[3]
	y0, y1, y2, y3 := y0+k[0], y1+k[1], x2, x3
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 10)^x0, bits.RotateLeft32(x3, 26)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 10)^y0, bits.RotateLeft32(y3, 26)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 11)^x0, bits.RotateLeft32(x1, 21)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 11)^y0, bits.RotateLeft32(y1, 21)^y2
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 13)^x0, bits.RotateLeft32(x3, 27)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 13)^y0, bits.RotateLeft32(y3, 27)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 23)^x0, bits.RotateLeft32(x1, 5)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 23)^y0, bits.RotateLeft32(y1, 5)^y2
	x0, x1, x2, x3 = x0+k[1], x1+k[2], x2+k[3], x3+k[5]
	y0, y1, y2, y3 = y0+k[1], y1+k[2], y2+k[3], y3+k[5]
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 6)^x0, bits.RotateLeft32(x3, 20)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 6)^y0, bits.RotateLeft32(y3, 20)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 17)^x0, bits.RotateLeft32(x1, 11)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 17)^y0, bits.RotateLeft32(y1, 11)^y2
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 25)^x0, bits.RotateLeft32(x3, 10)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 25)^y0, bits.RotateLeft32(y3, 10)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 18)^x0, bits.RotateLeft32(x1, 20)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 18)^y0, bits.RotateLeft32(y1, 20)^y2
	x0, x1, x2, x3 = x0+k[2], x1+k[3], x2+k[4], x3+k[6]
	y0, y1, y2, y3 = y0+k[2], y1+k[3], y2+k[4], y3+k[6]
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 10)^x0, bits.RotateLeft32(x3, 26)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 10)^y0, bits.RotateLeft32(y3, 26)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 11)^x0, bits.RotateLeft32(x1, 21)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 11)^y0, bits.RotateLeft32(y1, 21)^y2
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 13)^x0, bits.RotateLeft32(x3, 27)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 13)^y0, bits.RotateLeft32(y3, 27)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 23)^x0, bits.RotateLeft32(x1, 5)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 23)^y0, bits.RotateLeft32(y1, 5)^y2
	x0, x1, x2, x3 = x0+k[3], x1+k[4], x2+k[0], x3+k[7]
	y0, y1, y2, y3 = y0+k[3], y1+k[4], y2+k[0], y3+k[7]
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 6)^x0, bits.RotateLeft32(x3, 20)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 6)^y0, bits.RotateLeft32(y3, 20)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 17)^x0, bits.RotateLeft32(x1, 11)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 17)^y0, bits.RotateLeft32(y1, 11)^y2
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 25)^x0, bits.RotateLeft32(x3, 10)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 25)^y0, bits.RotateLeft32(y3, 10)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 18)^x0, bits.RotateLeft32(x1, 20)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 18)^y0, bits.RotateLeft32(y1, 20)^y2
	x0, x1, x2, x3 = x0+k[4], x1+k[0], x2+k[1], x3+k[8]
	y0, y1, y2, y3 = y0+k[4], y1+k[0], y2+k[1], y3+k[8]
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 10)^x0, bits.RotateLeft32(x3, 26)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 10)^y0, bits.RotateLeft32(y3, 26)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 11)^x0, bits.RotateLeft32(x1, 21)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 11)^y0, bits.RotateLeft32(y1, 21)^y2
	x0, x2 = x0+x1, x2+x3
	x1, x3 = bits.RotateLeft32(x1, 13)^x0, bits.RotateLeft32(x3, 27)^x2
	y0, y2 = y0+y1, y2+y3
	y1, y3 = bits.RotateLeft32(y1, 13)^y0, bits.RotateLeft32(y3, 27)^y2
	x0, x2 = x0+x3, x2+x1
	x3, x1 = bits.RotateLeft32(x3, 23)^x0, bits.RotateLeft32(x1, 5)^x2
	y0, y2 = y0+y3, y2+y1
	y3, y1 = bits.RotateLeft32(y3, 23)^y0, bits.RotateLeft32(y1, 5)^y2
	z[0], z[1], z[2], z[3] = x0+k[0], x1+k[1], x2+k[2], x3+k[9]
	z[4], z[5], z[6], z[7] = y0+k[0], y1+k[1], y2+k[2], y3+k[9]
}
