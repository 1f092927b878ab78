package linalg

// The loops of limits_amd64.s, which internal/gen writes; limits.go says what they do.

//go:noescape
func multiplyAVX512(n int)

//go:noescape
func multiplyAVX2(n int)

//go:noescape
func readAVX512(x *float64, n int)

//go:noescape
func readAVX2(x *float64, n int)

//go:noescape
func rewriteAVX512(x *float64, n int)

//go:noescape
func rewriteAVX2(x *float64, n int)
