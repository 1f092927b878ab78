// Package scratch puts the temporary files of a package's tests into memory.
package scratch

import "os"

// shared is where Linux has files in memory.
const shared = "/dev/shm"

// enough is what must be free there: a container often has 64 MB.
const enough = 1 << 30

// Main is the TestMain of a package whose tests write many small files: to make one costs a disk more processor time
// than most of these tests compute. The files stay on the disk with TROUPE_LONG, where TMPDIR or GOTMPDIR says where
// they go, and on a machine without 1 GB of memory for files.
func Main(m interface{ Run() int }) {
	named := os.Getenv("TROUPE_LONG") + os.Getenv("TMPDIR") + os.Getenv("GOTMPDIR")
	if named == "" && free(shared) >= enough {
		if err := os.Setenv("TMPDIR", shared); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
