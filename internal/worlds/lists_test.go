package worlds

import (
	"errors"
	"math"
	"testing"

	"troupe/rng"
)

// TestListBounds: where a world computes its best and uniform list in closed form, enumeration finds the same; and what is paid has the mean Value, by a
// normal bound of 5 standard errors (each of some 40 checks fails with 6e-7 where all is well).
func TestListBounds(t *testing.T) {
	for _, k := range ListKinds() {
		if k.Name == "shelf" { // 97 million lists
			continue
		}
		w := k.New(3)
		draw := rng.NewKey(1).Child(k.Name).Stream(rng.Select)
		for i := range 3 {
			d := w.Next()
			best, uniform := w.Bounds(&d)
			top, sum, n := math.Inf(-1), 0., 0
			var list []int
			w.each(func(l []int) {
				v := w.Value(&d, l)
				top, sum, n = max(top, v), sum+v, n+1
				if list == nil || draw.Round(uint64(n)).Float64(i) < .01 {
					list = append(list[:0], l...)
				}
			})
			if math.Abs(best-top) > 1e-9 || math.Abs(uniform-sum/float64(n)) > 1e-9 {
				t.Errorf("%s: bounds %v and %v, enumerated %v and %v", k.Name, best, uniform, top, sum/float64(n))
			}
			var mean, square float64
			const plays = 4000
			for range plays {
				var y float64
				for _, v := range w.Pay(&d, list) {
					y += v
				}
				mean, square = mean+y/plays, square+y*y/plays
			}
			if sd := math.Sqrt((square-mean*mean)/plays) + 1e-3; math.Abs(mean-w.Value(&d, list)) > 5*sd {
				t.Errorf("%s: list %v paid %v ± %v in the mean, its value is %v", k.Name, list, mean, sd, w.Value(&d, list))
			}
		}
	}
}

// fixed plays the first actions, or fails.
type fixed struct {
	w     *ListWorld
	until int
}

var errFixed = errors.New("no more")

func (f *fixed) Decide(*ListDecision) (list []int, err error) {
	if f.until--; f.until < 0 {
		return nil, errFixed
	}
	from := 0
	for l := range f.w.K {
		list = append(list, from)
		from++
		if f.w.Sets != nil {
			from += f.w.Sets[l] - 1
		}
	}
	return list, nil
}

func (*fixed) Reward(*ListDecision, []int, []float64) error { return nil }

// TestPlayLists: the share is that of the values; the table learns on every kind, is the same again, and a player that fails ends a world.
func TestPlayLists(t *testing.T) {
	for _, k := range ListKinds() {
		last := func(seed uint64) (share float64) {
			w := k.New(seed)
			var first, recent float64
			err := PlayLists(w, NewListTable(w, seed), []int{100, 1000}, func(n int, s, r float64) {
				if n == 100 {
					first = s
				}
				share, recent = s, r
			})
			if err != nil || math.Abs(100*first+900*recent-1000*share) > 300 { // the possible differs between decisions
				t.Errorf("%s: %v; shares %v, %v, %v", k.Name, err, first, recent, share)
			}
			return share
		}
		a := last(5)
		if !(a > -.5 && a < 1) || k.Name != "place" && k.Name != "rare" && k.Name != "shelf" && a < .1 {
			t.Errorf("%s: the table has the share %v", k.Name, a)
		}
		if b := last(5); a != b {
			t.Errorf("%s: %v, again %v", k.Name, a, b)
		}
	}
	k, ok := ListKindOf("place")
	if _, no := ListKindOf("plaice"); !ok || no {
		t.Fatal("kinds by name")
	}
	w, got := k.New(9), 0.
	err := PlayLists(w, &fixed{w, 60}, []int{50, 100}, func(_ int, share, recent float64) { got = share })
	if !errors.Is(err, errFixed) {
		t.Errorf("a player that fails: %v", err)
	}
	var sum [3]float64
	w = k.New(9)
	f := fixed{w, 50}
	for range 50 {
		d := w.Next()
		list, _ := f.Decide(&d)
		best, uniform := w.Bounds(&d)
		sum[0], sum[1], sum[2] = sum[0]+w.Value(&d, list), sum[1]+best, sum[2]+uniform
	}
	if want := (sum[0] - sum[2]) / (sum[1] - sum[2]); math.Abs(got-want) > 1e-12 {
		t.Errorf("share %v, want %v", got, want)
	}
}
