//go:build !amd64

package cpu

const best = Portable
