//go:build !amd64

package linalg

// On other machines cpu.Kernels is always cpu.Portable.

func dotAVX512(a, b *float64, n int) float64              { panic("linalg: no such kernel") }
func dotAVX2(a, b *float64, n int) float64                { panic("linalg: no such kernel") }
func dotsAVX512(x, a, b *float64, n int) (xa, xb float64) { panic("linalg: no such kernel") }
func mulPaddedAVX512(dst, a, x *float64, d, ld int)       { panic("linalg: no such kernel") }
func mulPaddedAVX2(dst, a, x *float64, d, ld int)         { panic("linalg: no such kernel") }
func mulShiftAVX512(dst, a, x *float64, d, ld, step int, c float64, hat *float64) {
	panic("linalg: no such kernel")
}
func stepShiftAVX512(dst, a, x *float64, d, ld, step int, c float64, hat *float64, s float64, k *float64) {
	panic("linalg: no such kernel")
}
func rankOneAVX512(a *float64, s float64, k *float64, d, ld int) { panic("linalg: no such kernel") }
func moveByAVX512(dst *float64, s float64, k *float64, ld int, e float64, theta *float64) {
	panic("linalg: no such kernel")
}
func mulShiftAVX2(dst, a, x *float64, d, ld, step int, c float64, hat *float64) {
	panic("linalg: no such kernel")
}
func stepShiftAVX2(dst, a, x *float64, d, ld, step int, c float64, hat *float64, s float64, k *float64) {
	panic("linalg: no such kernel")
}
func rankOneAVX2(a *float64, s float64, k *float64, d, ld int) { panic("linalg: no such kernel") }
func moveByAVX2(dst *float64, s float64, k *float64, ld int, e float64, theta *float64) {
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
func screenAVX512(x *float32, block, blocks, d int, theta *float32, least, slack float32) (at int, mask uint64) {
	panic("linalg: no such kernel")
}
func screenAVX2(x *float32, block, blocks, d int, theta *float32, least, slack float32) (at int, mask uint64) {
	panic("linalg: no such kernel")
}
func leadsAVX512(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64) {
	panic("linalg: no such kernel")
}
func stepLeadsAVX512(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, w, h *float64) {
	panic("linalg: no such kernel")
}
func leadsAVX2(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64) {
	panic("linalg: no such kernel")
}
func stepLeadsAVX2(p *float64, arms int, base *float64, c float64, out *Leads, mask uint64, w, h *float64) {
	panic("linalg: no such kernel")
}
