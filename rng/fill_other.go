//go:build !amd64

package rng

// On other machines cpu.Kernels is always cpu.Portable.

func fillAVX512(dst *float64, stride int, b *blocks, n, law int) { panic("rng: no such kernel") }
func fillAVX2(dst *float64, stride int, b *blocks, n, law int)   { panic("rng: no such kernel") }
func wordsAVX512(w *[4 * Lanes]uint32, b *blocks)                { panic("rng: no such kernel") }
func wordsAVX2(w *[4 * Lanes]uint32, b *blocks)                  { panic("rng: no such kernel") }
func quantilesAVX512(x *float64, n int)                          { panic("rng: no such kernel") }
func quantilesAVX2(x *float64, n int)                            { panic("rng: no such kernel") }

func batchFillAVX512(dst *float64, stride int, b *batchBlocks, n, law int) {
	panic("rng: no such kernel")
}
func batchFillAVX2(dst *float64, stride int, b *batchBlocks, n, law int) {
	panic("rng: no such kernel")
}
func batchWordsAVX512(dst *uint64, b *batchBlocks, n int) { panic("rng: no such kernel") }
func batchWordsAVX2(dst *uint64, b *batchBlocks, n int)   { panic("rng: no such kernel") }
func rowsAVX512(w *[4 * Lanes]uint32, b *blocks)          { panic("rng: no such kernel") }
func rowsAVX2(w *[4 * Lanes]uint32, b *blocks)            { panic("rng: no such kernel") }
func batchChoicesAVX512(members *int, signs *float64, words *uint64, n uint64, rounds int) {
	panic("rng: no such kernel")
}
func batchChoicesAVX2(members *int, signs *float64, words *uint64, n uint64, rounds int) {
	panic("rng: no such kernel")
}
func batchHalvesAVX512(dst *float64, words *uint64, rounds int) { panic("rng: no such kernel") }
func batchHalvesAVX2(dst *float64, words *uint64, rounds int)   { panic("rng: no such kernel") }
func halvesAVX512(dst *float64, w *[4 * Lanes]uint32)           { panic("rng: no such kernel") }
func halvesAVX2(dst *float64, w *[4 * Lanes]uint32)             { panic("rng: no such kernel") }
