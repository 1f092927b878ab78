package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// defaultDuplicates is how long an engine remembers message ids where nothing else is said.
const defaultDuplicates = 2 * time.Minute

// streamConfig is what the stream of a shard must be. Only Trim ever removes something.
func streamConfig(shard uint16, maxBytes int64, duplicates time.Duration) jetstream.StreamConfig {
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	return jetstream.StreamConfig{
		Name:        streamName(shard),
		Subjects:    []string{subjectName(shard)},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    maxBytes,
		MaxMsgSize:  MaxBatch + batchHeaders,
		Replicas:    1,
		Duplicates:  duplicates,
		AllowDirect: true,
		DenyDelete:  true,
	}
}

// configDiff names the settings that matter and differ.
func configDiff(want, have jetstream.StreamConfig) string {
	var d []string
	diff := func(name string, want, have any) {
		if fmt.Sprint(want) != fmt.Sprint(have) {
			d = append(d, fmt.Sprintf("%s is %v, want %v", name, have, want))
		}
	}
	diff("subjects", want.Subjects, have.Subjects)
	diff("retention", want.Retention, have.Retention)
	diff("storage", want.Storage, have.Storage)
	diff("discard", want.Discard, have.Discard)
	diff("max_msgs", int64(-1), have.MaxMsgs)
	diff("max_age", want.MaxAge, have.MaxAge)
	diff("max_msgs_per_subject", int64(-1), have.MaxMsgsPerSubject)
	diff("max_msg_size", want.MaxMsgSize, have.MaxMsgSize)
	diff("num_replicas", want.Replicas, have.Replicas)
	diff("compression", want.Compression, have.Compression)
	diff("allow_direct", want.AllowDirect, have.AllowDirect)
	diff("deny_delete", want.DenyDelete, have.DenyDelete)
	diff("persist_mode", want.PersistMode, have.PersistMode)
	return strings.Join(d, ", ")
}

// publishError sorts the errors of a publish into refusals, which stored nothing, and unknown outcomes.
func publishError(ctx, bctx context.Context, err error) error {
	var api *jetstream.APIError
	switch {
	// a full stream has the code of all failures to store (10077): only its words tell it apart, see TestStreamLimit
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

// engineLogger passes the engine's warnings and errors on.
type engineLogger struct{ logf func(level, text string) }

func (l engineLogger) Noticef(string, ...any)         {}
func (l engineLogger) Debugf(string, ...any)          {}
func (l engineLogger) Tracef(string, ...any)          {}
func (l engineLogger) Warnf(format string, v ...any)  { l.logf("warning", fmt.Sprintf(format, v...)) }
func (l engineLogger) Errorf(format string, v ...any) { l.logf("error", fmt.Sprintf(format, v...)) }
func (l engineLogger) Fatalf(format string, v ...any) { l.logf("fatal", fmt.Sprintf(format, v...)) }
