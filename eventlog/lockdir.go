package eventlog

import "io"

// ReplicaMarker is the file that makes a directory a node of a log of package raftlog. Programs of a single machine refuse it.
const ReplicaMarker = "troupe-replica"

// LockDir takes the directory of a log for this process until the lock is closed, or the process ends. A directory that
// another process has is a *LockedError; one on a network file system is refused, because its locks and syncs promise too little.
func LockDir(dir string) (io.Closer, error) {
	if err := refuseNetwork(dir); err != nil {
		return nil, err
	}
	return lockDir(dir, true)
}

// FreeBytes returns how many bytes this user may still write in a directory.
func FreeBytes(dir string) (uint64, error) { return diskFree(dir) }
