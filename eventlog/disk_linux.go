package eventlog

import (
	"fmt"
	"syscall"
)

// diskFree returns the bytes that this user may still write in a directory.
func diskFree(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// refuseNetwork returns an error for network file systems: their locks and syncs promise too little.
func refuseNetwork(dir string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return err
	}
	switch uint32(s.Type) { // numbers of statfs(2)
	case 0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x01021997, 0x00C36400:
		return fmt.Errorf("%s is on a network file system (type %#x): its locks and syncs promise too little for a log",
			dir, uint32(s.Type))
	}
	return nil
}
