package choose

import (
	"math/bits"

	"troupe/eventlog"
)

// floorUnit is the unit of floors and caps: they are multiples of 1/floorUnit.
const floorUnit = eventlog.FloorUnit

// product returns x·y, 0 where it is above 2⁶³.
func product(x, y uint64) uint64 {
	if hi, lo := bits.Mul64(x, y); hi == 0 && lo <= 1<<63 {
		return lo
	}
	return 0
}

// lcm returns the least common multiple of numbers above 0, 0 where it is too large.
func lcm(a, b uint64) uint64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return product(a/x, b)
}

// less reports a·b < c·d.
func less(a, b, c, d uint64) bool {
	h1, l1 := bits.Mul64(a, b)
	h2, l2 := bits.Mul64(c, d)
	return h1 < h2 || h1 == h2 && l1 < l2
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

const fibonacci = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio

func mix(h, v uint64) uint64 {
	h = (h ^ v) * fibonacci
	return h ^ h>>29
}
