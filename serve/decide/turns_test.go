package decide_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"troupe/eventlog"
	"troupe/serve/decide"
)

// TestTurns: the models take turns, so that one with many callers does not keep another waiting; long decisions leave the
// places of short ones alone; who leaves the line is not waited for.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, ctx := decide.NewTurns(2), context.Background()
		enter := func(model eventlog.ID, work time.Duration) func() {
			leave, err := turns.Enter(ctx, model, work)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		const long = 50 * time.Millisecond
		busy := enter(1, long)
		var mu sync.Mutex
		var order []eventlog.ID
		var all sync.WaitGroup
		wait := func(model eventlog.ID) {
			all.Go(func() {
				leave := enter(model, long)
				mu.Lock()
				order = append(order, model)
				mu.Unlock()
				leave()
			})
			synctest.Wait()
		}
		for range 5 {
			wait(1)
		}
		ended, cancel := context.WithCancel(ctx)
		all.Go(func() {
			if _, err := turns.Enter(ended, 3, long); err == nil {
				t.Error("it has entered after its time")
			}
		})
		synctest.Wait()
		wait(2)
		wait(2)
		for _, leave := range []func(){enter(1, 0), enter(2, 0)} { // short ones do not wait for the long one
			defer leave()
		}
		cancel()
		synctest.Wait()
		busy()
		all.Wait()
		if want := []eventlog.ID{1, 2, 1, 2, 1, 1, 1}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
		enter(1, long)() // every place was given back
	})
}
