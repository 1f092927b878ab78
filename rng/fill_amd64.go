package rng

// The kernels of fill_amd64.s, which internal/gen writes. They are blocks.kernel, blocks.words
// and blocks.rows bit for bit; TestKernels holds them to it.

//go:noescape
func fillAVX512(dst *float64, stride int, b *blocks, n, law int)

//go:noescape
func fillAVX2(dst *float64, stride int, b *blocks, n, law int)

//go:noescape
func wordsAVX512(w *[4 * Lanes]uint32, b *blocks)

//go:noescape
func wordsAVX2(w *[4 * Lanes]uint32, b *blocks)

//go:noescape
func quantilesAVX512(x *float64, n int)

//go:noescape
func quantilesAVX2(x *float64, n int)

//go:noescape
func batchFillAVX512(dst *float64, stride int, b *batchBlocks, n, law int)

//go:noescape
func batchFillAVX2(dst *float64, stride int, b *batchBlocks, n, law int)

//go:noescape
func batchWordsAVX512(dst *uint64, b *batchBlocks, n int)

//go:noescape
func batchWordsAVX2(dst *uint64, b *batchBlocks, n int)

//go:noescape
func rowsAVX512(w *[4 * Lanes]uint32, b *blocks)

//go:noescape
func rowsAVX2(w *[4 * Lanes]uint32, b *blocks)

//go:noescape
func batchChoicesAVX512(members *int, signs *float64, words *uint64, n uint64, rounds int)

//go:noescape
func batchChoicesAVX2(members *int, signs *float64, words *uint64, n uint64, rounds int)

//go:noescape
func batchHalvesAVX512(dst *float64, words *uint64, rounds int)

//go:noescape
func batchHalvesAVX2(dst *float64, words *uint64, rounds int)

//go:noescape
func halvesAVX512(dst *float64, w *[4 * Lanes]uint32)

//go:noescape
func halvesAVX2(dst *float64, w *[4 * Lanes]uint32)
