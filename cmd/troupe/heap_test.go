package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		alive uint64
		want  int
	}{{0, seldom}, {1 << 20, seldom}, {12 << 20, seldom}, {16 << 20, 300}, {roomy / 2, often}, {roomy, often}, {1 << 40, often}} {
		if got := percentFor(c.alive); got != c.want {
			t.Errorf("%d bytes alive: GOGC %d, want %d", c.alive, got, c.want)
		}
	}
}

// TestWatch: a heap that has become large is collected as everywhere, one that is small again is
// collected seldom again, and a command that has decided is left alone.
func TestWatch(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(seldom))
	defer func() {
		settling.Lock()
		defer settling.Unlock()
		settled = false
	}()
	await := func(want uint64) {
		t.Helper()
		gogc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for range 500 {
			runtime.GC()
			if metrics.Read(gogc); gogc[0].Value.Uint64() == want {
				return
			}
			time.Sleep(10 * time.Millisecond) // for the goroutine of the cleanups
		}
		t.Fatalf("GOGC is %d, want %d", gogc[0].Value.Uint64(), want)
	}
	watch(seldom)
	large := make([]byte, 2*roomy)
	await(often)
	runtime.KeepAlive(large)
	large = nil
	await(seldom)
	collectAt(often)
	await(often)
}
