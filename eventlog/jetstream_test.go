package eventlog

import (
	"testing"
)

// diskEngine opens the real engine in a temporary directory. Whatever a test does, what it leaves
// behind must verify.
type diskEngine struct{ dir string }

func newDiskEngine(t *testing.T) *diskEngine {
	e := &diskEngine{t.TempDir()}
	t.Cleanup(func() {
		r, err := Verify(e.dir)
		if err != nil {
			t.Errorf("verify: %v", err)
			return
		}
		for _, s := range r.Shards {
			for _, d := range s.Damage {
				t.Errorf("left behind: %v", d)
			}
		}
	})
	return e
}

func (e *diskEngine) open(t *testing.T, limit uint64) closingLog {
	t.Helper()
	l, err := OpenJetStream(t.Context(), e.dir, JetStreamOptions{Shards: 2, MaxBytes: int64(limit), Reserve: 1 << 20, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestJetStream(t *testing.T) {
	testLog(t, func(t *testing.T) engine { return newDiskEngine(t) })
}
