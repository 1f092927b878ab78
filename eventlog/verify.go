package eventlog

import (
	"errors"
	"fmt"
	"strings"

	"troupe/eventlog/segment"
)

// Damage is a place where a data directory is not what was acknowledged.
type Damage struct {
	File   string `json:"file"`            // relative to the directory
	Offset int64  `json:"offset"`          // in the file
	Shard  uint16 `json:"shard"`           //
	First  uint64 `json:"first,omitempty"` // the entries concerned, 0 when none in particular
	Last   uint64 `json:"last,omitempty"`
	What   string `json:"what"`
}

// String says in one line where the damage is and what it is.
func (d Damage) String() string {
	s := d.File
	if d.Offset > 0 {
		s += fmt.Sprintf(" at byte %d", d.Offset)
	}
	if d.First > 0 {
		s += fmt.Sprintf(": shard %d, entries %s", d.Shard, span(d.First, d.Last))
	}
	return s + ": " + d.What
}

// ShardReport is what Verify found in one shard.
type ShardReport struct {
	Shard   uint16 `json:"shard"`
	First   uint64 `json:"first"`   // oldest entry; Last+1 when empty
	Last    uint64 `json:"last"`    // newest entry
	Acked   uint64 `json:"acked"`   // newest entry of the acknowledged end
	Batches uint64 `json:"batches"` // entries that were checked
	Events  uint64 `json:"events"`  // records in them, repeats not counted
	Repeats uint64 `json:"repeats"` // entries stored twice, harmless
	Writers uint64 `json:"writers"` // beginnings of a writer
	// Unwritten are entries of a cluster's log that none of its nodes wrote, Declared those that an operator has
	// declared void. They have no effect.
	Unwritten uint64 `json:"unwritten,omitempty"`
	Declared  uint64 `json:"declared_void,omitempty"`
	Bytes     uint64 `json:"bytes"` // of the batches
	Torn      int64  `json:"torn"`  // bytes of an unfinished, never acknowledged write at the end
	Lost      []Loss `json:"lost,omitempty"`
	// Damage is empty when everything that was acknowledged is there.
	Damage []Damage `json:"damage,omitempty"`

	acked  segment.Acked // what the files were compared with, zero when there is none
	voided *voided
}

// Report is what Verify found.
type Report struct {
	Dir    string        `json:"dir"`
	ID     ID            `json:"id"`
	Shards []ShardReport `json:"shards"`
	Damage []Damage      `json:"damage,omitempty"` // of the directory itself
}

// OK returns whether everything that was acknowledged is there and whole. Losses that were declared by
// Repair do not count against it; they are in the report, and in the log.
func (r *Report) OK() bool { return len(r.All()) == 0 }

// All returns every damage.
func (r *Report) All() []Damage {
	all := r.Damage
	for _, s := range r.Shards {
		all = append(all[:len(all):len(all)], s.Damage...)
	}
	return all
}

// DamagedError is the error of opening a directory in which something is missing or changed. Nothing
// was written to it.
type DamagedError struct{ Report *Report }

// Error says in one line what is wrong.
func (e *DamagedError) Error() string {
	all := e.Report.All()
	lines := []string{fmt.Sprintf("%s is damaged:", e.Report.Dir)}
	for i, d := range all {
		if i == 5 {
			lines = append(lines, fmt.Sprintf("and %d more places", len(all)-i))
			break
		}
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n  ")
}

// LockedError is the error of opening a directory that another process uses.
type LockedError struct {
	Dir    string
	Holder string // what the other one wrote about itself
}

// Error says in one line what is wrong.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by %s", e.Dir, e.Holder)
}

// ErrNoLog: the directory holds no event log.
var ErrNoLog = errors.New("no event log here")

// Verify reads a whole data directory, without writing, and reports what is
// there and what is damaged. The error is about the attempt: no such log, in use (*LockedError), a
// file that cannot be read. A damaged log is a report whose OK is false. keys are those of the cluster that the log was
// written by, and are not needed for that of a single machine.
func Verify(dir string, keys *BatchKeys) (*Report, error) { return scanLocked(dir, hooks{keys: keys}) }

// Scan gives f every batch of a data directory that the chain accepts, shard after shard in the order
// of the log, each once. It reads the files itself, as Verify does, and changes nothing; the report
// says what is damaged. When f returns an error, f is not called again and Scan returns that error
// after the file that it is reading. keys are as in Verify.
func Scan(dir string, keys *BatchKeys, f func(Delivery) error) (*Report, error) {
	var failed error
	r, err := scanLocked(dir, hooks{keys: keys, stop: func() error { return failed }, batch: func(d Delivery) {
		if failed == nil && !d.Repeat {
			failed = f(d)
		}
	}})
	if err == nil {
		err = failed
	}
	return r, err
}

// scanLocked is scan with the directory's lock, or without one for a copy that has no lock file.
func scanLocked(dir string, h hooks) (*Report, error) {
	lock, err := lockDir(dir, false)
	if err != nil {
		return nil, err
	}
	if lock != nil {
		defer lock.Close()
	}
	return scan(dir, h)
}
