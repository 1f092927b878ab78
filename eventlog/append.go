package eventlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Append implements Log.
func (l *JetStream) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool,
	err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	s, err := l.begin(shard)
	if err != nil {
		return 0, false, err
	}
	defer l.calls.Done()
	if len(batch) > MaxBatch {
		return 0, false, fmt.Errorf("batch of %d bytes: %w", len(batch), ErrTooLarge)
	}
	e, down := l.up()
	if errors.Is(down, ErrBroken) {
		return 0, false, down
	}
	if err := l.room(len(batch)); err != nil {
		return 0, false, err
	}
	if down != nil {
		return 0, false, down
	}
	bctx, cancel := l.bound(ctx, e.broken)
	defer cancel()
	msg := &nats.Msg{Subject: subjectName(shard), Data: batch}
	ack, err := e.js.PublishMsg(bctx, msg, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, false, publishError(ctx, bctx, err)
	}
	if ack.Stream != streamName(shard) || ack.Sequence == 0 {
		return 0, false, fmt.Errorf("%w: the engine answers for stream %q, sequence %d", ErrUnknown, ack.Stream,
			ack.Sequence)
	}
	if err := s.acknowledge(ack.Sequence, batch); err != nil {
		// The entry is durable, so this call succeeds. Without its acknowledged-end record no later one may.
		l.opt.Logf("%v: %v", ackedName(shard), err)
		e.fail(err.Error())
	}
	return ack.Sequence, ack.Duplicate, nil
}

// publishError sorts the errors of a publish into refusals, which stored nothing, and unknown outcomes.
func publishError(ctx, bctx context.Context, err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && (strings.Contains(api.Description, "maximum bytes exceeded") ||
		api.ErrorCode == 10047 || api.ErrorCode == 10023):
		return fmt.Errorf("%w: engine: %s", ErrFull, api.Description)
	case errors.As(err, &api) && api.ErrorCode == 10054, errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: engine: %v", ErrTooLarge, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case bctx.Err() != nil: // closed or broken while it was under way
		return fmt.Errorf("%w: %v", ErrUnknown, context.Cause(bctx))
	}
	return fmt.Errorf("%w: engine: %v", ErrUnknown, err)
}

// acknowledge notes that the entry at seq is durable and wakes the readers.
func (s *streamShard) acknowledge(seq uint64, batch []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq <= s.last.Load() {
		return nil
	}
	s.acked = ackedEnd{s.acked.First, seq, crc32.Checksum(batch, castagnoli)}
	err := s.file.write(s.acked)
	s.keep(seq, batch)
	s.grow(seq)
	return err
}

// syncAcked makes the acknowledged-end records durable once a second.
func (l *JetStream) syncAcked() {
	tick := l.opt.Clock.Ticker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		for _, s := range l.shards {
			// The sync is outside of the mutex, because an Append must not wait for it. What is written
			// meanwhile is synced in a second.
			s.mu.Lock()
			dirty := s.file.dirty
			s.file.dirty = false
			s.mu.Unlock()
			if !dirty {
				continue
			}
			if err := s.file.f.Sync(); err != nil {
				l.opt.Logf("%v: %v", ackedName(s.n), err)
				if e, _, _ := l.state(); e != nil {
					e.fail(err.Error())
				} else { // sync again when there is an engine to stop
					s.mu.Lock()
					s.file.dirty = true
					s.mu.Unlock()
				}
			}
		}
	}
}
