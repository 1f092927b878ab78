//go:build unix

package secret

import (
	"io/fs"
	"syscall"
)

// forbiddenBits are those that the mode of a secret file may not have.
func forbiddenBits(info fs.FileInfo) fs.FileMode {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid == 0 {
		return 0o037
	}
	return 0o077
}
