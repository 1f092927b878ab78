//go:build !linux

package segment

import "os"

func allocate(*os.File, int64, int64) (ok bool) { return false }

func datasync(f *os.File) error { return f.Sync() }
