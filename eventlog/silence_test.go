package eventlog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestSilence: only errors that say nothing about an entry are ErrSilent, and each keeps its cause.
func TestSilence(t *testing.T) {
	noLeader := &jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}
	noStream := &jetstream.APIError{Code: 404, ErrorCode: jetstream.JSErrCodeStreamNotFound, Description: "stream not found"}
	for _, x := range []struct {
		err    error
		silent bool
	}{
		{context.DeadlineExceeded, true},
		{nats.ErrNoResponders, true},
		{nats.ErrConnectionClosed, true},
		{nats.ErrTimeout, true},
		{fmt.Errorf("engine: %w", noLeader), true},
		{fmt.Errorf("%w: %w", ErrDown, errors.New("no space left on device")), true},
		{fmt.Errorf("engine: %w", noStream), false},
		{fmt.Errorf("%w: %w", ErrBroken, context.DeadlineExceeded), false},
		{context.Canceled, false},
		{ErrNotFound, false},
		{&GapError{0, 3, 3}, false},
		{&ChainError{Seq: 3}, false},
		{errors.New("unexpected end of JSON input"), false},
	} {
		err := entryError(2, 7, x.err)
		if errors.Is(err, ErrSilent) != x.silent || !errors.Is(err, x.err) {
			t.Errorf("%v: silent is not %v, or the cause is lost", err, x.silent)
		}
	}
}

// TestGetIsSilent: a call whose time is over says nothing about an entry; a log that has stopped still reads.
func TestGetIsSilent(t *testing.T) {
	l, err := OpenDisk(t.Context(), t.TempDir(), DiskOptions{MaxBytes: 1 << 20, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, _, err := l.Append(t.Context(), 0, "a", oneBatch(0, 1, 10)); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
	defer cancel()
	if _, err := l.Get(over, 0, 1); !errors.Is(err, ErrSilent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer: %v", err)
	}
	if _, err := l.Get(t.Context(), 0, 2); !errors.Is(err, ErrNotFound) || errors.Is(err, ErrSilent) {
		t.Errorf("an entry that is not there: %v", err)
	}
	_ = l.fail(errors.New("input/output error"))
	if _, err := l.Get(t.Context(), 0, 1); err != nil {
		t.Errorf("a log that has stopped: %v", err)
	}
}
