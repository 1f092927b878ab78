// Package scratch puts the temporary files of a package's tests into memory, and gives their servers ports.
package scratch

import (
	"io/fs"
	"os"
	"path/filepath"
)

// shared is where Linux has files in memory.
const shared = "/dev/shm"

// Enough is what must be free there for most packages, in bytes: a container often has 64 MB.
const Enough = 1 << 30

// Main is the TestMain of a package whose tests write many small files: to make one costs a disk more processor time
// than most of these tests compute.
func Main(m interface{ Run() int }) { os.Exit(Run(m, Enough)) }

// Run runs tests with their temporary files in a directory in memory that has enough bytes free, and removes it. It
// returns the exit code. The files stay on the disk with TROUPE_LONG, where TMPDIR or GOTMPDIR says where they go, and
// on a machine without so much memory for files. What is killed in a test is a process and never the machine, so the
// files of both are the same.
func Run(m interface{ Run() int }, enough uint64) int {
	if os.Getenv("TROUPE_LONG")+os.Getenv("TMPDIR")+os.Getenv("GOTMPDIR") == "" && free(shared) >= enough {
		dir, err := os.MkdirTemp(shared, "troupe-")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			err = os.Setenv("TMPDIR", dir)
		}
		if err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// Copy copies a directory, as os.CopyFS, with files that only their owner can read and write: a server refuses secrets
// that others can read.
func Copy(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Chmod(name, 0o600)
	})
}
