package await

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that fails: it keeps the text and ends the goroutine, as a test does.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestPassElsewhere: time of the machine does not pass.
func TestPassElsewhere(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Pass waits for a time of the machine")
		}
	}()
	Pass(time.Hour)
}

// TestTries: a loop that is left goes on; one that is not fails the test with its last note after Limit, and not before.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, n := time.Now(), 0
		for note := range Tries(t) {
			if n++; time.Since(begun) > Limit-time.Second {
				break
			}
			note("%d tries", n)
		}
		if passed := time.Since(begun); passed > Limit || n < int(Limit/longest)-30 || n > int(Limit/longest)+10 {
			t.Errorf("left after %v and %d tries", passed, n)
		}
		Until(t, "a second has passed", func() bool { return time.Since(begun) > Limit+time.Second })
		if !Poll(func() bool { return time.Since(begun) > Limit+2*time.Second }) || Poll(func() bool { return false }) {
			t.Error("Poll does not return what the condition is")
		}
		begun = time.Now()
		time.AfterFunc(time.Hour, func() { n = 0 })
		if Pass(time.Hour); time.Since(begun) != time.Hour || n != 0 {
			t.Errorf("%v have passed", time.Since(begun))
		}
		for want, wait := range map[string]func(Test){
			"after 4m0s: the condition does not hold": func(t Test) {
				for range Tries(t) {
				}
			},
			"after 4m0s: 3 of 5": func(t Test) {
				for note := range Tries(t) {
					note("%d of %d", 3, 5)
				}
			},
			"after 4m0s, and not: ready": func(t Test) { Until(t, "ready", func() bool { return false }) },
		} {
			f, over := &failing{TB: t}, make(chan struct{})
			begun := time.Now()
			go func() {
				defer close(over)
				wait(f)
				f.text = "goes on"
			}()
			<-over
			if passed := time.Since(begun); !strings.Contains(f.text, want) || passed < Limit || passed > Limit+longest {
				t.Errorf("%q after %v, want %q", f.text, passed, want)
			}
		}
	})
}
