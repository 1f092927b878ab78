//go:build !amd64

package linalg

// On other machines cpu.Kernels is always cpu.Portable.

func dotAVX512(a, b *float64, n int) float64                        { panic("linalg: no such kernel") }
func dotAVX2(a, b *float64, n int) float64                          { panic("linalg: no such kernel") }
func mulPaddedAVX512(dst, a, x *float64, d, ld int)                 { panic("linalg: no such kernel") }
func mulPaddedAVX2(dst, a, x *float64, d, ld int)                   { panic("linalg: no such kernel") }
func learnHalfAVX512(c *core, x *float64, y float64) (s, q float64) { panic("linalg: no such kernel") }
func mulShiftHalfAVX512(c *core, dst, x *float64, by float64)       { panic("linalg: no such kernel") }
func stepShiftHalfAVX512(c *core, dst, x *float64, by float64)      { panic("linalg: no such kernel") }
func learnAVX512(c *core, x *float64, y float64) (s, q float64)     { panic("linalg: no such kernel") }
func mulShift1AVX512(c *core, dst, x *float64, by float64)          { panic("linalg: no such kernel") }
func mulShift8AVX512(c *core, dst, x *float64, by float64)          { panic("linalg: no such kernel") }
func stepShift1AVX512(c *core, dst, x *float64, by float64)         { panic("linalg: no such kernel") }
func stepShift8AVX512(c *core, dst, x *float64, by float64)         { panic("linalg: no such kernel") }
func learnAVX2(c *core, x *float64, y float64) (s, q float64)       { panic("linalg: no such kernel") }
func mulShift1AVX2(c *core, dst, x *float64, by float64)            { panic("linalg: no such kernel") }
func mulShift8AVX2(c *core, dst, x *float64, by float64)            { panic("linalg: no such kernel") }
func stepShift1AVX2(c *core, dst, x *float64, by float64)           { panic("linalg: no such kernel") }
func stepShift8AVX2(c *core, dst, x *float64, by float64)           { panic("linalg: no such kernel") }
func rankOneAVX512(a *float64, s float64, k *float64, d, ld int)    { panic("linalg: no such kernel") }
func rankOneAVX2(a *float64, s float64, k *float64, d, ld int)      { panic("linalg: no such kernel") }
func prefetch(*float64, int)                                        {}
func gaussianAVX512(a *float64, d, ld int, groups, steps, least, z *float64) {
	panic("linalg: no such kernel")
}
func gaussianAVX2(a *float64, d, ld int, groups, steps, least, z *float64) {
	panic("linalg: no such kernel")
}
func argMaxAVX512(x *float64, rows, d int, theta *float64) (at int, value float64) {
	panic("linalg: no such kernel")
}
func argMaxAVX2(x *float64, rows, d int, theta *float64) (at int, value float64) {
	panic("linalg: no such kernel")
}
func addPanelsAVX512(s *float64, panels, d int, u, x *float64) { panic("linalg: no such kernel") }
func addPanelsAVX2(s *float64, panels, d int, u, x *float64)   { panic("linalg: no such kernel") }
func addTileAVX512(s *float64, d int, u, x *float64, n, size, wide, narrow int) {
	panic("linalg: no such kernel")
}
func addTileAVX2(s *float64, d int, u, x *float64, n, size, wide, narrow int) {
	panic("linalg: no such kernel")
}
func addStepsAVX512(row *float64, d int, u *float64, first, n int, x *float64) {
	panic("linalg: no such kernel")
}
func addStepsAVX2(row *float64, d int, u *float64, first, n int, x *float64) {
	panic("linalg: no such kernel")
}
func divideAVX512(x *float64, n int, by float64) { panic("linalg: no such kernel") }
func divideAVX2(x *float64, n int, by float64)   { panic("linalg: no such kernel") }
func prefilterAVX512(x *int16, blocks, d int, theta *float64, by float64, top, slack int32, masks *uint64) (hit uint64,
	best int32) {
	panic("linalg: no such kernel")
}
func prefilterAVX2(x *int16, blocks, d int, theta *float64, by float64, top, slack int32, masks *uint64) (hit uint64,
	best int32) {
	panic("linalg: no such kernel")
}
func leadsAVX512(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int) {
	panic("linalg: no such kernel")
}
func stepLeadsAVX512(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int, w, u *float64,
	at int) {
	panic("linalg: no such kernel")
}
func leadsAVX2(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int) {
	panic("linalg: no such kernel")
}
func stepLeadsAVX2(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int, w, u *float64,
	at int) {
	panic("linalg: no such kernel")
}
func armsAVX512(p *float64, blocks, d int, theta *float64, most float64, x, dst *float64) (at int, value float64) {
	panic("linalg: no such kernel")
}
func armsAVX2(p *float64, blocks, d int, theta *float64, most float64, x, dst *float64) (at int, value float64) {
	panic("linalg: no such kernel")
}
func batchMulAVX512(dst, a, x *float64, d int) {
	panic("linalg: no such kernel")
}
func batchMulAVX2(dst, a, x *float64, d int) {
	panic("linalg: no such kernel")
}
func batchStepAVX512(dst, a, x *float64, d int, c, hat, s, k *float64) {
	panic("linalg: no such kernel")
}
func batchStepAVX2(dst, a, x *float64, d int, c, hat, s, k *float64) {
	panic("linalg: no such kernel")
}
func batchLearnAVX512(k, a, x, theta, y *float64, d int, growth, q, e, s *float64) (bad, fold int) {
	panic("linalg: no such kernel")
}
func batchLearnAVX2(k, a, x, theta, y *float64, d int, growth, q, e, s *float64) (bad, fold int) {
	panic("linalg: no such kernel")
}
func batchMoveAVX512(theta, k *float64, d int, s, e, growth, q *float64) {
	panic("linalg: no such kernel")
}
func batchMoveAVX2(theta, k *float64, d int, s, e, growth, q *float64) {
	panic("linalg: no such kernel")
}
func batchArgMaxAVX512(x *float64, rows int, theta *float64, d int, at *int) (wild int) {
	panic("linalg: no such kernel")
}
func batchArgMaxAVX2(x *float64, rows int, theta *float64, d int, at *int) (wild int) {
	panic("linalg: no such kernel")
}
func batchPickAVX512(dst, table *float64, at *int, rows, d int, u *float64, ustep int, x *float64, xstep,
	n int) (bad int) {
	panic("linalg: no such kernel")
}
func batchPickAVX2(dst, table *float64, at *int, rows, d int, u *float64, ustep int, x *float64, xstep,
	n int) (bad int) {
	panic("linalg: no such kernel")
}
func batchAddOneAVX512(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int) {
	panic("linalg: no such kernel")
}
func batchAddOneAVX2(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int) {
	panic("linalg: no such kernel")
}
func batchAddFourAVX512(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int) {
	panic("linalg: no such kernel")
}
func batchAddFourAVX2(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int) {
	panic("linalg: no such kernel")
}

func shortlistPassAVX512(now *float64, list *uint64, size *int, room int, w, base *float64, c float64, out *Leads,
	mask uint64, panels int, h *float64, even, odd int, begin, deficit, rise *float64, ld int, slack float64,
	limit *float64) (wanted uint64) {
	panic("linalg: no such kernel")
}

func shortlistTakeAVX512(p *float64, arms int, along *float64, n int, h, u *float64, panels int) (most float64) {
	panic("linalg: no such kernel")
}

func shortlistBehindAVX512(deficit, p, base *float64, arms int, c float64, begin *float64) {
	panic("linalg: no such kernel")
}

func shortlistJoinAVX512(deficit, rise *float64, ld int, limit float64, list *uint64, now *float64, size, room int, p,
	w *float64, arms int, h *float64, n int, base *float64, c float64, out *Leads, mask uint64) (to int) {
	panic("linalg: no such kernel")
}

func shortlistPassAVX2(now *float64, list *uint64, size *int, room int, w, base *float64, c float64, out *Leads,
	mask uint64, panels int, h *float64, even, odd int, begin, deficit, rise *float64, ld int, slack float64,
	limit *float64) (wanted uint64) {
	panic("linalg: no such kernel")
}

func shortlistTakeAVX2(p *float64, arms int, along *float64, n int, h, u *float64, panels int) (most float64) {
	panic("linalg: no such kernel")
}

func shortlistBehindAVX2(deficit, p, base *float64, arms int, c float64, begin *float64) {
	panic("linalg: no such kernel")
}

func shortlistRiseAVX512(w *float64, n int, most float64, swing, base, base0 *float64, by float64, rise *float64) {
	panic("linalg: no such kernel")
}

func withinAVX512(x *float64, n int, limit float64) (beyond int) {
	panic("linalg: no such kernel")
}

func maxAbsAVX512(x *float64, n int) float64 {
	panic("linalg: no such kernel")
}

func shortlistRiseAVX2(w *float64, n int, most float64, swing, base, base0 *float64, by float64, rise *float64) {
	panic("linalg: no such kernel")
}

func withinAVX2(x *float64, n int, limit float64) (beyond int) {
	panic("linalg: no such kernel")
}

func maxAbsAVX2(x *float64, n int) float64 {
	panic("linalg: no such kernel")
}

func countLeadsAVX512(counts *uint32, last *uint64, leads *Leads, panels int, gap float64, members, signs, nobody int,
	mask uint64, unsure *uint8) (any uint64) {
	panic("linalg: no such kernel")
}

func addAbsAVX512(dst, w *float64, n int, by, more float64) {
	panic("linalg: no such kernel")
}

func addAbsAVX2(dst, w *float64, n int, by, more float64) {
	panic("linalg: no such kernel")
}

func axpyAVX512(alpha float64, x, y *float64, n int) { panic("linalg: no such kernel") }
func axpyAVX2(alpha float64, x, y *float64, n int)   { panic("linalg: no such kernel") }
