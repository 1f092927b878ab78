//go:build !amd64

package rng

// On other machines cpu.Kernels is always cpu.Portable.

func fillAVX512(dst *float64, stride int, b *blocks, n, law int) { panic("rng: no such kernel") }
func fillAVX2(dst *float64, stride int, b *blocks, n, law int)   { panic("rng: no such kernel") }
func wordsAVX512(w *[4 * Lanes]uint32, b *blocks)                { panic("rng: no such kernel") }
func wordsAVX2(w *[4 * Lanes]uint32, b *blocks)                  { panic("rng: no such kernel") }
func quantilesAVX512(x *float64, n int)                          { panic("rng: no such kernel") }
func quantilesAVX2(x *float64, n int)                            { panic("rng: no such kernel") }

func octetFillAVX512(dst *float64, stride int, b *octetBlocks, n, law int) {
	panic("rng: no such kernel")
}
func octetFillAVX2(dst *float64, stride int, b *octetBlocks, n, law int) {
	panic("rng: no such kernel")
}
func octetWordsAVX512(dst *uint64, b *octetBlocks, n int) { panic("rng: no such kernel") }
func octetWordsAVX2(dst *uint64, b *octetBlocks, n int)   { panic("rng: no such kernel") }
func rowsAVX512(w *[4 * Lanes]uint32, b *blocks)          { panic("rng: no such kernel") }
func rowsAVX2(w *[4 * Lanes]uint32, b *blocks)            { panic("rng: no such kernel") }
func octetChoicesAVX512(members *int, signs *float64, words *uint64, n uint64, rounds int) {
	panic("rng: no such kernel")
}
func octetChoicesAVX2(members *int, signs *float64, words *uint64, n uint64, rounds int) {
	panic("rng: no such kernel")
}
func octetHalvesAVX512(dst *float64, words *uint64, rounds int) { panic("rng: no such kernel") }
func octetHalvesAVX2(dst *float64, words *uint64, rounds int)   { panic("rng: no such kernel") }
