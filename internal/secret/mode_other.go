//go:build !unix

package secret

import "io/fs"

// forbiddenBits is 0: the system has no such modes.
func forbiddenBits(fs.FileInfo) fs.FileMode { return 0 }
