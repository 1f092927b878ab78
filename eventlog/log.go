package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Entry is one stored batch. Data belongs to the receiver.
type Entry struct {
	Seq  uint64
	Data []byte
}

// Info is the state of one shard.
type Info struct {
	First uint64 // sequence of the oldest entry; Last+1 when there is none
	Last  uint64 // sequence of the newest entry, 0 when nothing was ever stored
	Bytes uint64 // stored, about
	Limit uint64 // Bytes never exceeds it
	// Sync is what an acknowledgement means: "fsync" or "memory".
	Sync string
}

// Log keeps the batches of numbered shards, each in one order that never changes. Its methods may be
// called from many goroutines. An implementation may fail, slowly or often, but only in the ways
// described here. A Chain checks what it returns. eventlogtest.TestLog is its conformance suite.
type Log interface {
	// Append stores a batch at the end of a shard and returns its sequence once it is durable. A
	// batch whose id is stored already is not stored again: dup is true and seq is the first one's.
	// ErrFull, ErrTooLarge, ErrClosed, ErrShard, ErrDown and ErrBroken mean that this call stored
	// nothing and never will. After any other error it may or may not be, now or later; sending it again with the
	// same id is the way to find out. One Append in flight per shard keeps the order of the calls.
	// batch is not used after Append has returned.
	Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error)
	// Read yields the entries from sequence from in order, without gaps, and waits at the end for
	// more until ctx is done. It ends after yielding an error: ctx's, a *GapError when an entry that
	// should exist does not, or another.
	Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error]
	// Get returns one entry, an error that wraps ErrNotFound, or one that wraps ErrSilent where the engine said nothing
	// about the entry. Other errors say that the entry cannot be given.
	Get(ctx context.Context, shard uint16, seq uint64) (Entry, error)
	// Trim removes the entries up to a sequence, which must be before the last one: the first batch of
	// the next writer names an entry.
	Trim(ctx context.Context, shard uint16, upTo uint64) error
	// Info returns the state of a shard.
	Info(ctx context.Context, shard uint16) (Info, error)
}

// Errors that say a batch is not in the log and never will be.
var (
	// ErrFull: the shard has reached its limit, or the disk its reserve. It passes when there is
	// room again.
	ErrFull = errors.New("log is full")
	// ErrTooLarge: a record or a batch is larger than MaxBatch.
	ErrTooLarge = errors.New("too large for a batch")
	// ErrClosed: the log or the committer was closed before.
	ErrClosed = errors.New("log is closed")
	// ErrShard: there is no such shard.
	ErrShard = errors.New("no such shard")
	// ErrDown: the engine has failed in a way that leaves no doubt about what is stored, and is being
	// opened again. It passes by itself, or becomes ErrBroken. When it failed for want of room the
	// error is ErrFull, too.
	ErrDown = errors.New("log is being opened again")
	// ErrBroken: after an error of the disk it is not certain what is stored, and the log stores nothing
	// any more. Look at the disk, close the log and open it again.
	ErrBroken = errors.New("log has stopped after a write error")
)

// Other errors.
var (
	// ErrVersion: this code does not write batches of that log version.
	ErrVersion = errors.New("another log version")
	// ErrUnknown: it is not known whether the batch is in the log.
	ErrUnknown = errors.New("outcome unknown")
	// ErrNotFound: no entry has this sequence.
	ErrNotFound = errors.New("no such entry")
	// ErrSilent: the engine has not said whether it has an entry: it gave no answer in time, has no leader, is being
	// opened again or cannot be reached. It says nothing about the entry, and asking again may help. The error of the
	// engine is wrapped too.
	ErrSilent = errors.New("the log does not answer")
	// ErrTrim: Trim would remove the last entry.
	ErrTrim = errors.New("the last entry must stay")
)

// refused returns whether an error means that the batch is not stored and never will be.
func refused(err error) bool {
	for _, e := range []error{ErrFull, ErrTooLarge, ErrClosed, ErrShard, ErrDown, ErrBroken} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// GapError is the error of Read when the engine does not have what it should have.
type GapError struct {
	Shard       uint16
	First, Last uint64 // the missing sequences
}

// Error says in one line what is wrong.
func (e *GapError) Error() string {
	return fmt.Sprintf("shard %d: entries %s are missing", e.Shard, span(e.First, e.Last))
}

func span(first, last uint64) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d–%d", first, last)
}

func notFound(shard uint16, seq uint64) error {
	return fmt.Errorf("shard %d: entry %d: %w", shard, seq, ErrNotFound)
}

func trimError(shard uint16, upTo, last uint64) error {
	return fmt.Errorf("shard %d: trim up to %d, the last entry is %d: %w", shard, upTo, last, ErrTrim)
}
