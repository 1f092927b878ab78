package effects

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTails: values without a coordinate are found by their keys, however many there are, and a vector that is read again
// begins without any.
func TestTails(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var x tails
	for range 300 {
		var list []loose
		for range r.IntN(400) {
			key := mix(r.Uint64N(200))
			want := slices.IndexFunc(list, func(l loose) bool { return l.key == key })
			if got := x.find(list, key); got != want {
				t.Fatalf("%d, want %d of %d", got, want, len(list))
			}
			if want < 0 {
				list = append(list, loose{key: key})
				x.add(list)
			}
		}
		x.reset(len(list))
	}
}
