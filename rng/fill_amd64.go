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
func octetFillAVX512(dst *float64, stride int, b *octetBlocks, n, law int)

//go:noescape
func octetFillAVX2(dst *float64, stride int, b *octetBlocks, n, law int)

//go:noescape
func octetWordsAVX512(dst *uint64, b *octetBlocks, n int)

//go:noescape
func octetWordsAVX2(dst *uint64, b *octetBlocks, n int)

//go:noescape
func rowsAVX512(w *[4 * Lanes]uint32, b *blocks)

//go:noescape
func rowsAVX2(w *[4 * Lanes]uint32, b *blocks)

//go:noescape
func octetChoicesAVX512(members *int, signs *float64, words *uint64, n uint64, rounds int)

//go:noescape
func octetChoicesAVX2(members *int, signs *float64, words *uint64, n uint64, rounds int)

//go:noescape
func octetHalvesAVX512(dst *float64, words *uint64, rounds int)

//go:noescape
func octetHalvesAVX2(dst *float64, words *uint64, rounds int)
