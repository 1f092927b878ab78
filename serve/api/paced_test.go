package api

import (
	"fmt"
	"testing"

	"troupe/timing"
)

// TestPaced: of calls that are refused for one reason one line a second is written, which says how many are left out; other
// reasons have lines of their own, and numbers in a reason make no other one.
func TestPaced(t *testing.T) {
	var p paced
	now := timing.Instant(1)
	lines, left := 0, uint64(0)
	for i := range 5000 { // five seconds
		if n, ok := p.tell(fmt.Sprintf("no majority for %d s", i/1000), now+timing.Instant(i)*1e6); ok {
			lines, left = lines+1, left+n
		}
	}
	if lines != 5 || left != 4*999 {
		t.Errorf("%d lines, %d left out before them, want 5 and 3996", lines, left)
	}
	if _, ok := p.tell("the log is full", now); !ok {
		t.Error("another reason has no line")
	}
	if _, ok := p.tell("the log is full", now+timing.Instant(pacedEvery)); !ok {
		t.Error("a second later nothing is written")
	}
	for i := range 10 * pacedReasons {
		p.tell(fmt.Sprintf("reason %c%c", 'a'+i%26, 'a'+i/26), now)
	}
	if len(p.of) > pacedReasons {
		t.Errorf("%d reasons are remembered, at most %d", len(p.of), pacedReasons)
	}
}
