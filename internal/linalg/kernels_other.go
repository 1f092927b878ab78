//go:build !amd64

package linalg

// On other machines cpu.Kernels is always cpu.Portable.

func dotAVX512(a, b *float64, n int) float64 { panic("linalg: no such kernel") }
func dotAVX2(a, b *float64, n int) float64   { panic("linalg: no such kernel") }
func mulSymAVX512(dst, a, x *float64, d int) { panic("linalg: no such kernel") }
func mulSymAVX2(dst, a, x *float64, d int)   { panic("linalg: no such kernel") }
func addOuterAVX512(a, l, r *float64, d int) { panic("linalg: no such kernel") }
func addOuterAVX2(a, l, r *float64, d int)   { panic("linalg: no such kernel") }
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
