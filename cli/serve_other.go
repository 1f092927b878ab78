//go:build !unix

package cli

// openFiles is how many files this process may have open: this system has no such limit to ask for.
func openFiles() int { return 1 << 20 }
