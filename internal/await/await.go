// Package await is for tests: it waits for a condition, and never for a time of the machine. A test that waits says what it waits
// for, and has minutes for it: a long limit costs nothing when the condition comes, and a short one fails on a machine that others
// use.
//
//	for note := range await.Tries(t) {
//		s := c.status()
//		if s.Ready {
//			break
//		}
//		note("the node is not ready: %+v", s)
//	}
package await

import (
	"fmt"
	"iter"
	"testing/synctest"
	"time"
)

// Limit is how long a test waits for a condition.
const Limit = 4 * time.Minute

// The pause between two looks at a condition grows from shortest to longest.
const shortest, longest = time.Millisecond, 50 * time.Millisecond

// Test is what *testing.T, *testing.B and *rapid.T have in common.
type Test interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Note keeps what a try found, for the failure of the test.
type Note func(format string, args ...any)

// Tries yields until the loop is left. After Limit it fails the test with the last note.
func Tries(t Test) iter.Seq[Note] {
	return func(yield func(Note) bool) {
		t.Helper()
		format, args := "the condition does not hold", []any(nil)
		note := func(f string, a ...any) { format, args = f, a }
		if held := tries(func() bool { return !yield(note) }); !held {
			t.Fatalf("after %v: %s", Limit, fmt.Sprintf(format, args...))
		}
	}
}

// Until waits until holds returns true. After Limit it fails the test: what is the condition in words.
func Until(t Test, what string, holds func() bool) {
	t.Helper()
	if !tries(holds) {
		t.Fatalf("after %v, and not: %s", Limit, what)
	}
}

// Poll waits until holds returns true, and returns false after Limit. It is for code that has no test.
func Poll(holds func() bool) bool { return tries(holds) }

// Pass lets time pass in a bubble of synctest, and waits until all of its other goroutines wait. Elsewhere it panics: time that
// passes is no condition.
func Pass(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

func tries(holds func() bool) bool {
	pause := shortest
	for since := time.Now(); ; time.Sleep(pause) {
		if holds() {
			return true
		}
		if time.Since(since) > Limit {
			return false
		}
		pause = min(2*pause, longest)
	}
}
