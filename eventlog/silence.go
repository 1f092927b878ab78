package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// noAnswer are the errors of the engine and its client that tell of the way to the engine only.
var noAnswer = []error{
	context.DeadlineExceeded, ErrDown, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers, nats.ErrDisconnected,
	nats.ErrStaleConnection, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrConnectionDraining,
	nats.ErrReconnectBufExceeded,
}

// silence returns err, which ended a read, and wraps ErrSilent too where it says nothing about what was asked for. An
// end that the caller asks for (context.Canceled) is no silence, and neither is a log that has stopped (ErrBroken).
func silence(err error) error {
	var api *jetstream.APIError
	answered := errors.As(err, &api) && refusedByEngine(err)
	way := api != nil || slices.ContainsFunc(noAnswer, func(e error) bool { return errors.Is(err, e) })
	if answered || !way || errors.Is(err, ErrBroken) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSilent, err)
}

// entryError is the error of a read of an entry that err ended, see silence.
func entryError(shard uint16, seq uint64, err error) error {
	return fmt.Errorf("shard %d: entry %d: %w", shard, seq, silence(err))
}
