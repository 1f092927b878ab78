package eventlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// DamagedReplicaError is the error of starting a node whose files are not what was written. Nothing was started.
type DamagedReplicaError struct {
	Dir    string
	Damage []Damage
}

// Error says in one line what is wrong.
func (e *DamagedReplicaError) Error() string {
	return fmt.Sprintf("the replica in %s is damaged: %v", e.Dir, e.Damage[0])
}

// Check reads the block files of the node while it runs and says what is wrong with them: CheckReplica for a node that
// runs.
func (n *Node) Check() (*ReplicaReport, error) { return n.Walk(context.Background(), 1) }

// SetAsideReplica moves the files of a node that is stopped into the directory damaged-1, damaged-2, … beside them,
// with those named in also, and returns its name, empty when there is nothing to move. dir holds the directory log. A
// directory that a process uses is a *LockedError, one that is not of this node an *OtherKindError.
func SetAsideReplica(dir string, o NodeOptions, also ...string) (aside string, err error) {
	log := filepath.Join(dir, "log")
	if !exists(log) {
		return "", nil
	}
	lock, err := lockDir(log, true)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	o.Dir = log
	if err := o.openNodeDir(); err != nil {
		return "", err
	}
	number := 1
	for exists(filepath.Join(dir, asideName(number))) {
		number++
	}
	aside = filepath.Join(dir, asideName(number))
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return "", err
	}
	for _, name := range append(also, "log") { // the log last: without it the others do no harm
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(aside, name)); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			return aside, err
		}
	}
	return aside, errors.Join(syncDir(aside), syncDir(dir))
}

func asideName(n int) string { return "damaged-" + strconv.Itoa(n) }
