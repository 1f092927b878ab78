//go:build !amd64

package linalg

// On other machines MachineLimits has no loops.

func multiplyAVX512(n int)            { panic("linalg: no such kernel") }
func multiplyAVX2(n int)              { panic("linalg: no such kernel") }
func readAVX512(x *float64, n int)    { panic("linalg: no such kernel") }
func readAVX2(x *float64, n int)      { panic("linalg: no such kernel") }
func rewriteAVX512(x *float64, n int) { panic("linalg: no such kernel") }
func rewriteAVX2(x *float64, n int)   { panic("linalg: no such kernel") }
