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

// two is Threefry4x32 of the counters x and y, side by side: the instructions of one block wait for each
// other. k has the parity as fifth word.
func two(k *[5]uint32, x, y *[4]uint32) {
	k0, k1, k2, k3, k4 := k[0], k[1], k[2], k[3], k[4]
	x0, x1, x2, x3 := x[0]+k0, x[1]+k1, x[2]+k2, x[3]+k3
	y0, y1, y2, y3 := y[0]+k0, y[1]+k1, y[2]+k2, y[3]+k3
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 10)^x0, bits.RotateLeft32(x3, 26)^x2
	y1, y3 = bits.RotateLeft32(y1, 10)^y0, bits.RotateLeft32(y3, 26)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 11)^x0, bits.RotateLeft32(x1, 21)^x2
	y3, y1 = bits.RotateLeft32(y3, 11)^y0, bits.RotateLeft32(y1, 21)^y2
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 13)^x0, bits.RotateLeft32(x3, 27)^x2
	y1, y3 = bits.RotateLeft32(y1, 13)^y0, bits.RotateLeft32(y3, 27)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 23)^x0, bits.RotateLeft32(x1, 5)^x2
	y3, y1 = bits.RotateLeft32(y3, 23)^y0, bits.RotateLeft32(y1, 5)^y2
	x0, x1, x2, x3 = x0+k1, x1+k2, x2+k3, x3+k4+1
	y0, y1, y2, y3 = y0+k1, y1+k2, y2+k3, y3+k4+1
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 6)^x0, bits.RotateLeft32(x3, 20)^x2
	y1, y3 = bits.RotateLeft32(y1, 6)^y0, bits.RotateLeft32(y3, 20)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 17)^x0, bits.RotateLeft32(x1, 11)^x2
	y3, y1 = bits.RotateLeft32(y3, 17)^y0, bits.RotateLeft32(y1, 11)^y2
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 25)^x0, bits.RotateLeft32(x3, 10)^x2
	y1, y3 = bits.RotateLeft32(y1, 25)^y0, bits.RotateLeft32(y3, 10)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 18)^x0, bits.RotateLeft32(x1, 20)^x2
	y3, y1 = bits.RotateLeft32(y3, 18)^y0, bits.RotateLeft32(y1, 20)^y2
	x0, x1, x2, x3 = x0+k2, x1+k3, x2+k4, x3+k0+2
	y0, y1, y2, y3 = y0+k2, y1+k3, y2+k4, y3+k0+2
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 10)^x0, bits.RotateLeft32(x3, 26)^x2
	y1, y3 = bits.RotateLeft32(y1, 10)^y0, bits.RotateLeft32(y3, 26)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 11)^x0, bits.RotateLeft32(x1, 21)^x2
	y3, y1 = bits.RotateLeft32(y3, 11)^y0, bits.RotateLeft32(y1, 21)^y2
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 13)^x0, bits.RotateLeft32(x3, 27)^x2
	y1, y3 = bits.RotateLeft32(y1, 13)^y0, bits.RotateLeft32(y3, 27)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 23)^x0, bits.RotateLeft32(x1, 5)^x2
	y3, y1 = bits.RotateLeft32(y3, 23)^y0, bits.RotateLeft32(y1, 5)^y2
	x0, x1, x2, x3 = x0+k3, x1+k4, x2+k0, x3+k1+3
	y0, y1, y2, y3 = y0+k3, y1+k4, y2+k0, y3+k1+3
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 6)^x0, bits.RotateLeft32(x3, 20)^x2
	y1, y3 = bits.RotateLeft32(y1, 6)^y0, bits.RotateLeft32(y3, 20)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 17)^x0, bits.RotateLeft32(x1, 11)^x2
	y3, y1 = bits.RotateLeft32(y3, 17)^y0, bits.RotateLeft32(y1, 11)^y2
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 25)^x0, bits.RotateLeft32(x3, 10)^x2
	y1, y3 = bits.RotateLeft32(y1, 25)^y0, bits.RotateLeft32(y3, 10)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 18)^x0, bits.RotateLeft32(x1, 20)^x2
	y3, y1 = bits.RotateLeft32(y3, 18)^y0, bits.RotateLeft32(y1, 20)^y2
	x0, x1, x2, x3 = x0+k4, x1+k0, x2+k1, x3+k2+4
	y0, y1, y2, y3 = y0+k4, y1+k0, y2+k1, y3+k2+4
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 10)^x0, bits.RotateLeft32(x3, 26)^x2
	y1, y3 = bits.RotateLeft32(y1, 10)^y0, bits.RotateLeft32(y3, 26)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 11)^x0, bits.RotateLeft32(x1, 21)^x2
	y3, y1 = bits.RotateLeft32(y3, 11)^y0, bits.RotateLeft32(y1, 21)^y2
	x0, x2 = x0+x1, x2+x3
	y0, y2 = y0+y1, y2+y3
	x1, x3 = bits.RotateLeft32(x1, 13)^x0, bits.RotateLeft32(x3, 27)^x2
	y1, y3 = bits.RotateLeft32(y1, 13)^y0, bits.RotateLeft32(y3, 27)^y2
	x0, x2 = x0+x3, x2+x1
	y0, y2 = y0+y3, y2+y1
	x3, x1 = bits.RotateLeft32(x3, 23)^x0, bits.RotateLeft32(x1, 5)^x2
	y3, y1 = bits.RotateLeft32(y3, 23)^y0, bits.RotateLeft32(y1, 5)^y2
	x[0], x[1], x[2], x[3] = x0+k0, x1+k1, x2+k2, x3+k3+5
	y[0], y[1], y[2], y[3] = y0+k0, y1+k1, y2+k2, y3+k3+5
}
