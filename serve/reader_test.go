package serve

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/timing"
)

// mute is a log that does not answer the first questions for an entry.
type mute struct {
	eventlog.Log
	silent int
	err    error
}

func (m *mute) Get(ctx context.Context, shard uint16, seq uint64) (eventlog.Entry, error) {
	if m.silent--; m.silent >= 0 {
		return eventlog.Entry{}, m.err
	}
	return eventlog.Entry{Seq: seq}, nil
}

// TestReaderAsksAgain: a log that does not answer for a while does not end what reads it; other errors do at once, and an
// end of the server does.
func TestReaderAsksAgain(t *testing.T) {
	late := fmt.Errorf("shard 0: entry 3: %w", context.DeadlineExceeded)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, x := range []struct {
		ctx  context.Context
		log  *mute
		want error
	}{
		{t.Context(), &mute{silent: 3, err: late}, nil},
		{t.Context(), &mute{silent: 1, err: eventlog.ErrNotFound}, eventlog.ErrNotFound},
		{ended, &mute{silent: 1 << 30, err: late}, context.DeadlineExceeded},
	} {
		x.log.Log = eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
		begun := time.Now()
		e, err := logReader{x.ctx, x.log, timing.Clock{}}.Get(3)
		if !errors.Is(err, x.want) || err == nil && e.Seq != 3 || time.Since(begun) > readAgain {
			t.Errorf("entry %d, %v, want %v", e.Seq, err, x.want)
		}
	}
}
