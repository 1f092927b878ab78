package timing_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"troupe/timing"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// A clock that is set back: its time of day steps, what has passed does not.
func ExampleFake() {
	f := timing.NewFake(noon)
	c := f.Clock()
	begun := c.Mark()
	limit := c.Timer(time.Minute)

	f.Advance(40 * time.Second)
	f.Set(noon.Add(-time.Hour))
	fmt.Println(c.Now().Format("15:04:05"), c.Since(begun))

	f.Advance(30 * time.Second)
	fmt.Println((<-limit.C).Format("15:04:05"), c.Since(begun))
	// Output:
	// 11:00:00 40s
	// 11:00:20 1m10s
}

func ExampleAt() {
	day := noon
	c := timing.At(func() time.Time { return day })
	day = day.AddDate(0, 0, 1)
	fmt.Println(c.Now().Format(time.DateOnly))
	// Output: 2026-11-27
}

// TestFake plays timers, tickers and functions of a fake clock against a list of when each has to fire.
func TestFake(t *testing.T) {
	f := timing.NewFake(noon)
	c := f.Clock()
	var mu sync.Mutex
	var calls []time.Duration
	for _, d := range []time.Duration{30, 10, 20, 10} {
		var done sync.WaitGroup
		done.Add(1)
		timer := c.AfterFunc(d*time.Second, func() {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, d)
			done.Done()
		})
		if d == 20 {
			if !timer.Stop() || timer.Stop() {
				t.Error("a timer that runs was stopped once, and only once")
			}
			continue
		}
		defer done.Wait()
	}
	tick := c.Ticker(15 * time.Second)
	f.Advance(9 * time.Second)
	if len(calls) > 0 {
		t.Errorf("after 9 s %v were called", calls)
	}
	f.Advance(6 * time.Second)
	if at := <-tick.C; !at.Equal(noon.Add(15 * time.Second)) {
		t.Errorf("the first tick was at %v", at)
	}
	f.Advance(45 * time.Second) // three more, of which two are dropped
	if at := <-tick.C; !at.Equal(noon.Add(30 * time.Second)) {
		t.Errorf("the second tick was at %v", at)
	}
	select {
	case at := <-tick.C:
		t.Errorf("a tick that was to be dropped, at %v", at)
	default:
	}
	tick.Stop()
	f.Advance(time.Hour)
	select {
	case at := <-tick.C:
		t.Errorf("a ticker that was stopped ticks at %v", at)
	default:
	}
	if at := <-c.After(0); !at.Equal(noon.Add(time.Hour + time.Minute)) {
		t.Errorf("a timer of 0 fires at %v", at)
	}
	if c.Since(0) < 1<<62 || c.Since(c.Mark()+1) != 0 {
		t.Error("since 0 it is for ever, and never negative")
	}
}

// TestSleep: a sleeper wakes when its time has passed, and returns false when its context ends.
func TestSleep(t *testing.T) {
	f := timing.NewFake(noon)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan bool)
	for range 2 {
		go func() { woken <- f.Clock().Sleep(ctx, time.Minute) }()
		f.Waiting(1)
		f.Advance(time.Minute)
		if !<-woken {
			t.Error("the sleep was cut short")
		}
	}
	go func() { woken <- f.Clock().Sleep(ctx, time.Minute) }()
	f.Waiting(1)
	cancel()
	if <-woken {
		t.Error("a sleep whose context has ended says that its time passed")
	}
}

// TestMachine: the clock of the machine does what package time does, here in a bubble of testing/synctest, where both
// have to agree to the nanosecond.
func TestMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c timing.Clock
		begun, mark := time.Now(), c.Mark()
		var mu sync.Mutex
		var got []time.Duration
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, time.Since(begun))
		}
		c.AfterFunc(time.Second, note)
		tick := c.Ticker(2 * time.Second)
		<-tick.C
		note()
		<-tick.C
		tick.Stop()
		note()
		<-c.After(time.Second)
		note()
		if !c.Sleep(t.Context(), time.Second) {
			t.Error("the sleep was cut short")
		}
		note()
		want := []time.Duration{1, 2, 4, 5, 6}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(got, want) || c.Since(mark) != 6*time.Second || !c.Now().Equal(time.Now()) {
			t.Errorf("at %v, expected %v; since the mark %v", got, want, c.Since(mark))
		}
		if day := timing.At(func() time.Time { return noon }); !day.Now().Equal(noon) || day.Since(day.Mark()) != 0 {
			t.Error("a clock with a time of day of its own")
		}
		timer := c.Timer(time.Hour)
		if !timer.Stop() {
			t.Error("a timer that runs was not stopped")
		}
	})
}
