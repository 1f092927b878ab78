package fold

import (
	"math"
	"strings"
	"testing"
)

// TestTryDecides: a learned model takes over when it has the smaller errors on what was played and, with weights that are
// cut at √n, on all candidates.
func TestTryDecides(t *testing.T) {
	often := func(n int, hashed, learned float64) []judged {
		out := make([]judged, n)
		for i := range out {
			out[i] = judged{1. / 3, hashed, learned}
		}
		return out
	}
	for name, c := range map[string]struct {
		events []judged
		took   bool
		words  string
	}{
		"better on both": {append(often(500, .01, .001), judged{100, .5, .1}), true, "also with more weight"},
		"better on what was played, wrong on four rare actions": {append(often(500, .01, .0001),
			judged{100, .01, 1}, judged{100, .01, 1}, judged{100, .01, 1}, judged{100, .01, 1}), false, "but not with more weight"},
		"better on rare actions only":               {append(often(500, .01, .02), judged{100, 1, .1}), false, "is not below"},
		"a rare action that is cut does not decide": {append(often(300, .2, .1), judged{1e12, 0, .5}), true, "also"},
		"nor one whose probability is 0":            {append(often(300, .2, .1), judged{math.Inf(1), 0, .5}), true, "also"},
		"equal":                                     {often(20, .1, .1), false, "is not below"},
	} {
		try := Try{Rewards: 2 * len(c.events)}
		try.decide(c.events)
		if try.TookOver != c.took || !strings.Contains(try.Why, c.words) {
			t.Errorf("%s: took over %v, %s", name, try.TookOver, try.Why)
		}
	}
}
