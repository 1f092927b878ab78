package eventlogtest

import (
	"testing"

	"troupe/eventlog"
	"troupe/internal/future"
)

// NextVersion lets this process read and write batches of the log version after eventlog.LogVersion, whose records are
// those of LogVersion, until back is called or the test ends. It is for tests of programs of two versions with one log,
// and not for those that run beside others.
func NextVersion(t testing.TB) (version uint16, back func()) {
	back = func() { future.Versions.Store(0) }
	t.Cleanup(back)
	future.Versions.Store(1)
	return eventlog.LogVersion + 1, back
}
