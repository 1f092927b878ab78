package linalg

// The kernels of kernels_amd64.s, which internal/gen writes; kernels.go says what they do.

//go:noescape
func dotAVX512(a, b *float64, n int) float64

//go:noescape
func dotAVX2(a, b *float64, n int) float64

//go:noescape
func mulPaddedAVX512(dst, a, x *float64, d, ld int)

//go:noescape
func mulPaddedAVX2(dst, a, x *float64, d, ld int)

//go:noescape
func learnHalfAVX512(c *core, x *float64, y float64) (s, q float64)

//go:noescape
func mulShiftHalfAVX512(c *core, dst, x *float64, by float64)

//go:noescape
func stepShiftHalfAVX512(c *core, dst, x *float64, by float64)

//go:noescape
func learnAVX512(c *core, x *float64, y float64) (s, q float64)

//go:noescape
func mulShift1AVX512(c *core, dst, x *float64, by float64)

//go:noescape
func mulShift8AVX512(c *core, dst, x *float64, by float64)

//go:noescape
func stepShift1AVX512(c *core, dst, x *float64, by float64)

//go:noescape
func stepShift8AVX512(c *core, dst, x *float64, by float64)

//go:noescape
func learnAVX2(c *core, x *float64, y float64) (s, q float64)

//go:noescape
func mulShift1AVX2(c *core, dst, x *float64, by float64)

//go:noescape
func mulShift8AVX2(c *core, dst, x *float64, by float64)

//go:noescape
func stepShift1AVX2(c *core, dst, x *float64, by float64)

//go:noescape
func stepShift8AVX2(c *core, dst, x *float64, by float64)

//go:noescape
func rankOneAVX512(a *float64, s float64, k *float64, d, ld int)

//go:noescape
func rankOneAVX2(a *float64, s float64, k *float64, d, ld int)

//go:noescape
func prefetch(x *float64, n int)

//go:noescape
func gaussianAVX512(a *float64, d, ld int, groups, steps, least, z *float64)

//go:noescape
func gaussianAVX2(a *float64, d, ld int, groups, steps, least, z *float64)

//go:noescape
func argMaxAVX512(x *float64, rows, d int, theta *float64) (at int, value float64)

//go:noescape
func argMaxAVX2(x *float64, rows, d int, theta *float64) (at int, value float64)

//go:noescape
func addPanelsAVX512(s *float64, panels, d int, u, x *float64)

//go:noescape
func addPanelsAVX2(s *float64, panels, d int, u, x *float64)

//go:noescape
func addTileAVX512(s *float64, d int, u, x *float64, n, size, wide, narrow int)

//go:noescape
func addTileAVX2(s *float64, d int, u, x *float64, n, size, wide, narrow int)

//go:noescape
func addStepsAVX512(row *float64, d int, u *float64, first, n int, x *float64)

//go:noescape
func addStepsAVX2(row *float64, d int, u *float64, first, n int, x *float64)

//go:noescape
func divideAVX512(x *float64, n int, by float64)

//go:noescape
func divideAVX2(x *float64, n int, by float64)

//go:noescape
func prefilterAVX512(x *int16, blocks, d int, theta *float64, by float64, top, slack int32, masks *uint64) (hit uint64,
	best int32)

//go:noescape
func prefilterAVX2(x *int16, blocks, d int, theta *float64, by float64, top, slack int32, masks *uint64) (hit uint64,
	best int32)

//go:noescape
func leadsAVX512(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int)

//go:noescape
func stepLeadsAVX512(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int, w, u *float64,
	at int)

//go:noescape
func leadsAVX2(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int)

//go:noescape
func stepLeadsAVX2(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, panels int, w, u *float64,
	at int)

//go:noescape
func armsAVX512(p *float64, blocks, d int, theta *float64, most float64, x, dst *float64) (at int, value float64)

//go:noescape
func batchMulAVX512(dst, a, x *float64, d int)

//go:noescape
func batchMulAVX2(dst, a, x *float64, d int)

//go:noescape
func batchStepAVX512(dst, a, x *float64, d int, c, hat, s, k *float64)

//go:noescape
func batchStepAVX2(dst, a, x *float64, d int, c, hat, s, k *float64)

//go:noescape
func batchLearnAVX512(k, a, x, theta, y *float64, d int, growth, q, e, s *float64) (bad, fold int)

//go:noescape
func batchLearnAVX2(k, a, x, theta, y *float64, d int, growth, q, e, s *float64) (bad, fold int)

//go:noescape
func batchMoveAVX512(theta, k *float64, d int, s, e, growth, q *float64)

//go:noescape
func batchMoveAVX2(theta, k *float64, d int, s, e, growth, q *float64)

//go:noescape
func batchArgMaxAVX512(x *float64, rows int, theta *float64, d int, at *int) (wild int)

//go:noescape
func batchArgMaxAVX2(x *float64, rows int, theta *float64, d int, at *int) (wild int)

//go:noescape
func batchPickAVX512(dst, table *float64, at *int, rows, d int, u *float64, ustep int, x *float64, xstep,
	n int) (bad int)

//go:noescape
func batchPickAVX2(dst, table *float64, at *int, rows, d int, u *float64, ustep int, x *float64, xstep, n int) (bad int)

//go:noescape
func batchAddOneAVX512(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int)

//go:noescape
func batchAddOneAVX2(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int)

//go:noescape
func batchAddFourAVX512(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int)

//go:noescape
func batchAddFourAVX2(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int)

//go:noescape
func armsAVX2(p *float64, blocks, d int, theta *float64, most float64, x, dst *float64) (at int, value float64)

//go:noescape
func shortlistPassAVX512(now *float64, list *uint64, size *int, room int, w, base *float64, c float64, out *Leads,
	mask uint64, panels int, h *float64, even, odd int, begin, deficit, rise *float64, ld int, slack float64,
	limit *float64) (wanted uint64)

//go:noescape
func shortlistTakeAVX512(p *float64, arms int, along *float64, n int, h, u *float64, panels int) (most float64)

//go:noescape
func shortlistBehindAVX512(deficit, p, base *float64, arms int, c float64, begin *float64)

//go:noescape
func shortlistJoinAVX512(deficit, rise *float64, ld int, limit float64, list *uint64, now *float64, size, room int, p,
	w *float64, arms int, h *float64, n int, base *float64, c float64, out *Leads, mask uint64) (to int)

//go:noescape
func shortlistPassAVX2(now *float64, list *uint64, size *int, room int, w, base *float64, c float64, out *Leads,
	mask uint64, panels int, h *float64, even, odd int, begin, deficit, rise *float64, ld int, slack float64,
	limit *float64) (wanted uint64)

//go:noescape
func shortlistTakeAVX2(p *float64, arms int, along *float64, n int, h, u *float64, panels int) (most float64)

//go:noescape
func shortlistBehindAVX2(deficit, p, base *float64, arms int, c float64, begin *float64)

//go:noescape
func shortlistRiseAVX512(w *float64, n int, most float64, swing, base, base0 *float64, by float64, rise *float64)

//go:noescape
func withinAVX512(x *float64, n int, limit float64) (beyond int)

//go:noescape
func maxAbsAVX512(x *float64, n int) float64

//go:noescape
func shortlistRiseAVX2(w *float64, n int, most float64, swing, base, base0 *float64, by float64, rise *float64)

//go:noescape
func withinAVX2(x *float64, n int, limit float64) (beyond int)

//go:noescape
func maxAbsAVX2(x *float64, n int) float64

//go:noescape
func countLeadsAVX512(counts *uint32, last *uint64, leads *Leads, panels int, gap float64, members, signs, nobody int,
	mask uint64, unsure *uint8) (any uint64)

//go:noescape
func addAbsAVX512(dst, w *float64, n int, by, more float64)

//go:noescape
func addAbsAVX2(dst, w *float64, n int, by, more float64)

//go:noescape
func axpyAVX512(alpha float64, x, y *float64, n int)

//go:noescape
func axpyAVX2(alpha float64, x, y *float64, n int)
