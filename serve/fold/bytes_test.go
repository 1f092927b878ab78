package fold_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/model"
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

// TestNewBytes: what a fold takes for a model of the default kind that has learned nothing, before and after a restart.
// Such models are laid aside, and have nothing to say.
func TestNewBytes(t *testing.T) {
	const n = 300
	s := newScript(t)
	for i := range n {
		c, err := model.Default(fmt.Sprint("m", i)).Admit(model.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		s.entry(controlOf(t, eventlog.Create, eventlog.ID(i+1), c.Config, true))
	}
	b, err := s.f.AppendState(nil, s.chain)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := fold.Restore(b, s.past)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]**fold.Fold{"new": &s.f, "restored": &again} {
		one, two := (*f).Model(1), (*f).Model(n)
		for _, m := range []*fold.Model{one, two} {
			if e := m.Explanation(); !m.HasPolicy() || m.Awake() || e.Events > 0 || len(e.Parts) > 0 || e.Share != 0 || len(e.Far) > 0 {
				t.Errorf("%s: a new model is awake, or says %+v", name, e)
			}
		}
		(*f).TakeChanged()
		with := alive()
		*f = nil
		each := float64(with-alive()) / n
		if t.Logf("%s: %.0f bytes a model", name, each); each > 3000 || each < 500 {
			t.Errorf("%s: %.0f bytes a model", name, each)
		}
	}
}
