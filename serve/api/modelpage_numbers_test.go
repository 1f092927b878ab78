package api

import (
	"strings"
	"testing"

	"troupe/serve"
)

// TestEndsText: a range is to be widened where more than a fifth of the decisions lie at one end of it, unless it is cyclic or few
// were made.
func TestEndsText(t *testing.T) {
	r := &serve.NumberRange{Name: "price", Min: 1, Max: 20, Step: .5}
	for _, x := range []struct {
		ends [2]int
		n    int
		want string
	}{{[2]int{10, 50}, 200, "larger max"}, {[2]int{41, 0}, 200, "smaller min"}, {[2]int{40, 40}, 200, ""}, {[2]int{0, 9}, 10, ""}} {
		if got := endsText(r, x.ends, x.n); (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%v of %d: %q, want %q", x.ends, x.n, got, x.want)
		}
	}
	r = &serve.NumberRange{Name: "hour", Min: 0, Max: 24, Cyclic: true}
	if got := endsText(r, [2]int{100, 100}, 200); got != "" {
		t.Errorf("of a cyclic number: %q", got)
	}
}
