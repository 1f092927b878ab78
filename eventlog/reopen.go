package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
)

// condition is what the log can do at present. A new one takes its place when that changes.
type condition struct {
	engine *engine       // nil while there is none
	err    error         // why nothing is stored: it wraps ErrDown or ErrBroken
	change chan struct{} // closed when there is a new one
}

// state returns the engine, a channel that is closed when it or the error changes, and why nothing is
// stored if so. An engine that has failed is returned until reopen has looked at it.
func (l *JetStream) state() (*engine, <-chan struct{}, error) {
	now := l.now.Load()
	return now.engine, now.change, now.err
}

// set makes a condition the present one. Only reopen calls it, and OpenJetStream before it.
func (l *JetStream) set(e *engine, err error) {
	if old := l.now.Swap(&condition{e, err, make(chan struct{})}); old != nil {
		close(old.change)
	}
}

// up returns the engine if it stores, otherwise why it does not.
func (l *JetStream) up() (*engine, error) {
	e, _, err := l.state()
	if err == nil && e.failed() {
		if err = fmt.Errorf("%w: %s", ErrBroken, e.cause); transient(e.cause) {
			err = fmt.Errorf("%w: %s", ErrDown, e.cause)
		}
	}
	return e, err
}

// replaced returns whether an engine has failed in a way that passes, so that another one takes its place.
// An error that it returned is then not an error of the log.
func (l *JetStream) replaced(e *engine) bool {
	now, _, _ := l.state()
	return now != e || e.failed() && transient(e.cause)
}

// transient returns whether the cause of a failure leaves no doubt about what the engine had stored
// before: a write that the system refused for want of room or handles. A failed sync is not transient:
// the system may have dropped what was written and still show it, and no reader of the files can see
// that. A cause that is not on the list is not transient.
func transient(cause string) bool {
	if strings.Contains(cause, "sync ") {
		return false
	}
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
		io.ErrShortWrite} {
		if strings.Contains(cause, e.Error()) {
			return true
		}
	}
	return false
}

// Pauses between two tries to open the log again. A try reads all files.
const (
	firstPause  = 50 * time.Millisecond
	lastPause   = 30 * time.Second
	resetsAfter = time.Minute // of good work
)

// reopen waits until the engine fails. When the failure is transient it opens the log again under the
// same lock, as often as it takes. Whether the batch under way was stored is then certain, and its
// committer finds out by sending it again.
func (l *JetStream) reopen() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.work.Go(func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	})
	pause := firstPause
	for e, _, _ := l.state(); e != nil; {
		since := l.opt.Clock.Mark()
		select {
		case <-ctx.Done():
			return
		case <-e.broken:
		}
		if l.opt.Clock.Since(since) > resetsAfter {
			pause = firstPause
		}
		if !transient(e.cause) {
			l.opt.Logf("the log has stopped: %s", e.cause)
			l.set(e, fmt.Errorf("%w: %s", ErrBroken, e.cause)) // what it has can still be read
			return
		}
		e = l.replace(ctx, e, &pause)
	}
}

// replace takes a new engine in the place of one that has failed, and returns it. It returns nil when
// ctx is done or the log cannot be opened any more. pause is how long it waits before the next try.
func (l *JetStream) replace(ctx context.Context, e *engine, pause *time.Duration) *engine {
	l.opt.Logf("the log is opened again: %s", e.cause)
	err := downError(e.cause)
	l.set(e, err) // it is still read from, until there is room to try
	for ; ; *pause = min(2**pause, lastPause) {
		t := l.opt.Clock.Timer(*pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		if err := l.room(0); err != nil {
			l.set(e, fmt.Errorf("%w: %w", ErrDown, err))
			continue
		}
		if e != nil {
			l.set(nil, err)
			e.stop()
			e = nil
		}
		next, err := l.open(ctx)
		var damaged *DamagedError
		switch {
		case err == nil:
			l.opt.Logf("the log is open again")
			l.set(next, nil)
			*pause = min(2**pause, lastPause)
			return next
		case errors.As(err, &damaged), errors.Is(err, ErrBroken):
			l.opt.Logf("the log cannot be opened again: %v", err)
			l.set(nil, fmt.Errorf("%w: %w", ErrBroken, err))
			return nil
		default:
			l.set(nil, fmt.Errorf("%w: %w", ErrDown, err))
		}
	}
}

// downError is ErrDown with its cause; it is ErrFull, too, when the disk had no room.
func downError(cause string) error {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if strings.Contains(cause, e.Error()) {
			return fmt.Errorf("%w: %w: %s", ErrDown, ErrFull, cause)
		}
	}
	return fmt.Errorf("%w: %s", ErrDown, cause)
}

// room refuses when a batch of n bytes would take the disk below its reserve.
func (l *JetStream) room(n int) error {
	if l.opt.Reserve <= 0 {
		return nil
	}
	free, err := diskFree(l.dir)
	if err != nil {
		return fmt.Errorf("%w: free space of %s: %v", ErrFull, l.dir, err)
	}
	if free < uint64(l.opt.Reserve)+uint64(n) {
		return fmt.Errorf("%w: %d bytes are free on the disk of %s, %d are reserved", ErrFull, free, l.dir,
			l.opt.Reserve)
	}
	return nil
}
