//go:build !linux

package cli

func inMemory() string { return "" }
