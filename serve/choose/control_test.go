package choose

import (
	"math"
	"math/big"
	"testing"

	"troupe/eventlog"
	"troupe/serve/model"
)

// TestControlExact: the law of both groups is (1 − s)·π + s·c in whole numbers, sums to 1, and is how often actions are
// played; without the control it is the model's.
func TestControlExact(t *testing.T) {
	for name, plays := range map[string]model.Plays{"uniform": model.PlaysUniform, "first": model.PlaysFirst} {
		for _, kind := range []string{"atoms", "effects"} {
			w := united(t, kind, "", func(c *model.Config) {
				c.Unit, c.Floor, c.Control = "", .01, model.Control{Share: .123456, Plays: plays}
			})
			const n = 20_000
			var counts, expected [4]float64
			controlled := 0.0
			var law [4]*big.Rat
			for nonce := range eventlog.ID(n) {
				c := w.Group(nonce+1, must(w.Choose(nonce+1, true)))
				if counts[c.Index]++; c.Group == eventlog.GroupControl {
					if controlled++; plays == model.PlaysFirst && c.Index != 0 {
						t.Fatalf("%s %s: the control plays %d", name, kind, c.Index)
					}
				}
				for i := range expected {
					num, den := w.Propensity(i)
					expected[i] += float64(num) / float64(den)
				}
				if nonce > 0 {
					continue
				}
				sum, share := new(big.Rat), big.NewRat(123456, 1_000_000)
				for i := range law {
					num, den := w.law.propensity(i)
					want := new(big.Rat).Mul(new(big.Rat).Sub(big.NewRat(1, 1), share), rat(num, den))
					own := big.NewRat(1, 4)
					if plays == model.PlaysFirst {
						own = big.NewRat(int64(max(0, 1-i)), 1)
					}
					want.Add(want, new(big.Rat).Mul(share, own))
					law[i] = rat(w.Propensity(i))
					if want.Cmp(law[i]) != 0 && den < 1<<40 {
						t.Fatalf("%s %s: action %d has %v, want %v", name, kind, i, law[i], want)
					}
					sum.Add(sum, law[i])
				}
				if off, _ := new(big.Rat).Sub(sum, big.NewRat(1, 1)).Float64(); math.Abs(off) > 1e-15 {
					t.Fatalf("%s %s: the law sums to 1 and %v", name, kind, off)
				}
				if num, den := w.Propensity(c.Index); num != c.Num || den != c.Den {
					t.Fatalf("%s %s: the choice says %d/%d, the law %d/%d", name, kind, c.Num, c.Den, num, den)
				}
			}
			for i, x := range counts {
				if math.Abs(x-expected[i]) > 5*math.Sqrt(n/4) {
					t.Errorf("%s %s: action %d was played %v times of %d, %v expected", name, kind, i, x, n, expected[i])
				}
			}
			if math.Abs(controlled/n-.123456) > 5*math.Sqrt(.11/n) {
				t.Errorf("%s %s: %v of %d in the control", name, kind, controlled, n)
			}
		}
	}
}

func rat(num, den uint64) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
}

// TestControlUnit: a unit stays in its group, through rollbacks, and in the control when the share grows; a clone draws anew.
func TestControlUnit(t *testing.T) {
	groups := func(share float64, id, root eventlog.ID) (out []eventlog.Group) {
		w := united(t, "effects", "", func(c *model.Config) { c.Control = model.Control{Share: share, Plays: model.PlaysUniform} })
		v := *w.Version
		v.ID, v.Root = id, root
		w = must(v.Worker(nil))
		var q Request
		for i := range 4 {
			q.Actions = append(q.Actions, Action{ID: string(rune('a' + i))})
		}
		must(0, w.Offer.Encode(&q))
		for unit := range eventlog.ID(2000) {
			w.Assign(unit + 1)
			g := w.Group(1, must(w.Choose(1, true))).Group
			for nonce := range eventlog.ID(3) {
				if again := w.Group(nonce+2, must(w.Choose(nonce+2, true))).Group; again != g {
					t.Fatalf("unit %d is in %v and in %v", unit, g, again)
				}
			}
			out = append(out, g)
		}
		return out
	}
	count := func(gs []eventlog.Group) (n int) {
		for _, g := range gs {
			if g == eventlog.GroupControl {
				n++
			}
		}
		return n
	}
	small, large, back, clone := groups(.1, 3, 3), groups(.3, 3, 3), groups(.1, 9, 3), groups(.1, 9, 9)
	if n := count(small); n < 130 || n > 270 {
		t.Errorf("%d of 2000 units are in the control of a tenth", n)
	}
	same := 0
	for i := range small {
		if small[i] == eventlog.GroupControl && large[i] != eventlog.GroupControl {
			t.Fatalf("unit %d left the control when its share grew", i)
		}
		if small[i] != back[i] {
			t.Fatalf("a rollback changed the group of unit %d", i)
		}
		if small[i] == eventlog.GroupControl && clone[i] == eventlog.GroupControl {
			same++
		}
	}
	if same > 45 {
		t.Errorf("%d units are in the control of the clone, too, about 20 expected", same)
	}
}
