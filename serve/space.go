package serve

import (
	"context"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/timing"
)

// space is how many bytes the log has and may have, as it was asked last.
type space struct{ bytes, limit atomic.Uint64 }

// spaceEvery is how often the log is asked. A log fills over hours or days.
const spaceEvery = 15 * time.Second

func (p *space) set(info eventlog.Info) {
	p.bytes.Store(info.Bytes)
	p.limit.Store(info.Limit)
}

// loop asks again and again. An answer that does not come leaves what was known.
func (p *space) loop(ctx context.Context, log eventlog.Log, clock timing.Clock) {
	tick := clock.Ticker(spaceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if info, err := log.Info(ctx, 0); err == nil {
			p.set(info)
		}
	}
}
