package fold_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"troupe/eventlog"
)

// TestOpenBytes: what a fold takes for an open event. The bounds are half of what it took when entries were objects of
// the heap; a server has 24 bytes more for the end of each window.
func TestOpenBytes(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		name  string
		each  int // decisions of an entry
		keyed bool
		most  float64
	}{
		{"alone", 1, false, 95},
		{"alone, with a key", 1, true, 165},
		{"eight together", 8, false, 62},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.entry(controlOf(t, eventlog.Create, 1, configOf(t, "m", "auto", nil), true))
			for i := range n / c.each {
				records := make([]eventlog.Record, c.each)
				for k := range records {
					d := decided(1, 0.5, 0)
					if c.keyed {
						d.Idempotency = binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i*c.each+k+1))[:32]
						copy(d.Idempotency, d.Idempotency[24:])
					}
					records[k] = d
				}
				s.entry(records...)
				s.f.TakeOpened() // as a server does
			}
			if s.f.Waiting() != n || s.f.Keys() != map[bool]int{true: n}[c.keyed] {
				t.Fatalf("%d events wait, %d keys", s.f.Waiting(), s.f.Keys())
			}
			with := alive()
			runtime.KeepAlive(s.f)
			s.f = nil
			each := float64(with-alive()) / n
			if t.Logf("%.1f bytes an event", each); each > c.most || each < 40 {
				t.Errorf("%.1f bytes an event, want at most %v", each, c.most)
			}
		})
	}
}

// alive returns the bytes of the heap that are in use.
func alive() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
