package choose

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/effects"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/rng"
	"troupe/serve/model"
)

// lists are all lists that a shape permits.
func lists(n int, shape *Shape) (all [][]int) {
	list := make([]int, 0, shape.K)
	var next func()
	next = func() {
		l := len(list)
		if l == shape.K {
			all = append(all, slices.Clone(list))
			return
		}
		for i := range n {
			if shape.Permits(i, l) && !slices.Contains(list, i) {
				list = append(list, i)
				next()
				list = list[:l]
			}
		}
	}
	next()
	return all
}

// shapes are those of a test: shared candidates, sets of their own, sets that overlap, and exclusions.
func shapes(r *rand.Rand, n, k, kind int) *Shape {
	s := &Shape{K: k}
	if kind == 0 {
		return s
	}
	s.Restrict(n)
	for i := range n {
		for l := range k {
			switch kind {
			case 1: // each position its own
				s.Permit(i, l, i%k == l)
			case 2: // an exclusion here and there
				s.Permit(i, l, r.IntN(8) > 0 || i == l)
			default: // sets that overlap
				s.Permit(i, l, r.IntN(2) > 0 || i == l)
			}
		}
	}
	return s
}

// TestListLaw: with random members on n ≤ 7 candidates at k ≤ 4 positions, shared and of each position's own, overlapping and
// with exclusions, with candidates that are alike and a floor, enumeration in rational numbers gives the probabilities of the
// record: of every prefix of every list, of every candidate at every position. Those of all lists sum to 1.
func TestListLaw(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for round := range 400 {
		kind := round % 4
		n := 2 + r.IntN(6)
		k := 1 + r.IntN(min(n, 4))
		if kind == 1 {
			n = max(n, k)
		}
		shape := shapes(r, n, k, kind)
		c, err := newCounter(n, shape)
		if err != nil {
			t.Fatalf("kind %d, n %d, k %d: %v", kind, n, k, err)
		}
		all := lists(n, shape)
		o := &Offer{}
		for i := range n {
			same := i
			if r.IntN(3) > 0 {
				same = i % 3 // alike, where they may stand at the same positions
			}
			o.sparse.actions = append(o.sparse.actions, []feature.Atom{{Hash: uint64(same + 1), Value: 1}})
		}
		g := listGroups(o, shape)
		d := &effects.ListDraw{}
		for range effects.ListDraws {
			for _, i := range all[min(r.IntN(len(all)), r.IntN(len(all)))] {
				d.Lists = append(d.Lists, int32(i))
			}
		}
		floor := uint32(r.IntN(3) * 50_000)
		// The law by enumeration: each member plays the orders of its groups with one probability each.
		law := make([]*big.Rat, len(all))
		at := map[string]int{}
		for x, list := range all {
			law[x] = big.NewRat(int64(floor), int64(eventlog.FloorUnit)*int64(len(all)))
			at[fmt.Sprint(list)] = x
		}
		for j := range effects.ListDraws {
			pattern := d.Lists[j*k : (j+1)*k]
			var same []int
			for x, list := range all {
				agrees := true
				for l, i := range list {
					agrees = agrees && g.of[i] == g.of[pattern[l]]
				}
				if agrees {
					same = append(same, x)
				}
			}
			p := big.NewRat(int64(eventlog.FloorUnit-floor), eventlog.FloorUnit*effects.ListDraws*int64(len(same)))
			for _, x := range same {
				law[x].Add(law[x], p)
			}
		}
		sum := new(big.Rat)
		for x, list := range all {
			rec := &eventlog.Decision{Floor: floor, List: c.record(d, g, list, shape, true)}
			for l := range k + 1 {
				want := new(big.Rat)
				for y, other := range all {
					if slices.Equal(other[:l], list[:l]) {
						want.Add(want, law[y])
					}
				}
				if got := rec.PrefixProb(l); got.Cmp(want) != 0 {
					t.Fatalf("kind %d, n %d, k %d, list %v: prefix %d has %v, want %v", kind, n, k, list, l, got, want)
				}
			}
			sum.Add(sum, rec.PrefixProb(k))
			if x > 0 {
				continue
			}
			for l := range k {
				for i := range n {
					want := new(big.Rat)
					for y, other := range all {
						if other[l] == i {
							want.Add(want, law[y])
						}
					}
					if got := rec.CandidateProb(i, l, uint64(g.size[g.of[i]])); got.Cmp(want) != 0 {
						t.Fatalf("kind %d, n %d, k %d: candidate %d at %d has %v, want %v", kind, n, k, i, l, got, want)
					}
					if list[l] == i {
						f := MarginalOf(rec.List, l, uint64(floor), eventlog.FloorUnit)
						if got := rec.MarginalProb(l); got.Cmp(want) != 0 || new(big.Rat).SetFrac(natural(f.Num), natural(f.Den)).Cmp(want) != 0 {
							t.Fatalf("kind %d: the entry at %d has %v and %v, want %v", kind, l, got, f, want)
						}
					}
				}
			}
		}
		if sum.Cmp(big.NewRat(1, 1)) != 0 {
			t.Fatalf("kind %d, n %d, k %d: the law sums to %v", kind, n, k, sum)
		}
	}
}

// TestListDraws: a million draws from fixed members have the law of the record: by χ² over all lists, at the level 10⁻⁶ for
// each of the four kinds of shapes. A member that is drawn too often, an order of alike candidates or a floor that prefers
// some lists is seen.
func TestListDraws(t *testing.T) {
	draws := 1_000_000
	if testing.Short() {
		draws = 100_000
	}
	r := rand.New(rand.NewPCG(7, 6))
	for kind := range 4 {
		n, k := 5, 3
		shape := shapes(r, n, k, kind)
		c, err := newCounter(n, shape)
		if err != nil {
			t.Fatal(err)
		}
		all := lists(n, shape)
		o := &Offer{}
		for i := range n {
			o.sparse.actions = append(o.sparse.actions, []feature.Atom{{Hash: uint64(max(1, i)), Value: 1}}) // 0 and 1 are alike
		}
		g := listGroups(o, shape)
		d := &effects.ListDraw{}
		for range effects.ListDraws {
			for _, i := range all[r.IntN(1+len(all)/2)] {
				d.Lists = append(d.Lists, int32(i))
			}
		}
		at := map[[3]int]int{}
		law := make([]float64, len(all))
		for x, list := range all {
			at[[3]int(list)] = x
			law[x], _ = (&eventlog.Decision{Floor: 100_000, List: c.record(d, g, list, shape, false)}).PrefixProb(k).Float64()
		}
		counts := make([]float64, len(all))
		stream := rng.NewKey(uint64(kind)).Stream(rng.Select)
		for i := range draws {
			source := stream.Round(uint64(i))
			rows, _, _ := c.draw(d, g, source, source, 1, 10)
			counts[at[[3]int(rows)]]++
		}
		var chi2 float64
		for x, p := range law {
			e := p * float64(draws)
			chi2 += (counts[x] - e) * (counts[x] - e) / e
		}
		// Wilson and Hilferty: the cube root of χ²/d is nearly normal. 4.76 is the quantile of 10⁻⁶.
		d9 := 2 / (9 * float64(len(all)-1))
		if z := (math.Cbrt(chi2/float64(len(all)-1)) - 1 + d9) / math.Sqrt(d9); z > 4.76 {
			t.Errorf("kind %d: χ² = %.1f with %d degrees of freedom, z = %.2f", kind, chi2, len(all)-1, z)
		}
	}
}

// TestListChoice: what a worker draws is a permitted list with the probabilities of its record, the same for the same nonce,
// and for candidates in another order the same ids.
func TestListChoice(t *testing.T) {
	w := united(t, "effects", "", func(c *model.Config) { c.Unit = "" })
	seen := map[string]int{}
	for nonce := range eventlog.ID(300) {
		shape := &Shape{K: 3}
		l := must(w.ChooseList(nonce+1, shape, true, nil))
		again := must(w.ChooseList(nonce+1, shape, true, nil))
		if !slices.Equal(l.Rows, again.Rows) || l.Member != again.Member {
			t.Fatalf("nonce %d: %v, then %v", nonce+1, l.Rows, again.Rows)
		}
		seen[fmt.Sprint(l.Rows)]++
		for p, f := range l.Marginals {
			if f.Num == 0 || f.Num > f.Den {
				t.Fatalf("position %d has the probability %v", p, f)
			}
		}
		for p := range 3 {
			sum := new(big.Rat)
			for _, x := range w.ExplainList(l) {
				sum.Add(sum, new(big.Rat).SetFrac(natural(x.Marginals[p].Num), natural(x.Marginals[p].Den)))
			}
			if sum.Cmp(big.NewRat(1, 1)) != 0 {
				t.Fatalf("the candidates at position %d have %v together", p, sum)
			}
		}
	}
	if len(seen) < 20 { // of 24
		t.Errorf("a new model played %d of 24 lists in 300 draws", len(seen))
	}
	if _, err := w.ChooseList(1, shapes(rand.New(rand.NewPCG(1, 1)), 4, 3, 1), false, nil); err != nil {
		t.Error(err)
	}
	none := &Shape{K: 2}
	none.Restrict(4)
	none.Permit(0, 0, true)
	none.Permit(0, 1, true) // the same candidate for both
	if _, err := w.ChooseList(1, none, false, nil); err == nil || err.Error() != "position 1 has no candidate that is left" {
		t.Errorf("%v", err)
	}
}

// TestListComplete: a baseline with holes becomes the first list, in the order of the candidates, that has its entries, whatever the
// sets of the positions; where there is none, the error names a position that has no entry.
func TestListComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	done, none := 0, 0
	for round := range 600 {
		n := 2 + r.IntN(5)
		k := 1 + r.IntN(min(n, 4))
		shape := shapes(r, n, k, round%4)
		c, err := newCounter(n, shape)
		if err != nil {
			continue
		}
		rows := make([]int, k)
		for p := range rows {
			if i := r.IntN(n); r.IntN(2) > 0 && shape.Permits(i, p) && !slices.Contains(rows[:p], i) {
				rows[p] = i
			} else {
				rows[p] = -1
			}
		}
		given := slices.Clone(rows)
		var want []int
		for _, list := range lists(n, shape) {
			same := true
			for p, i := range list {
				same = same && (given[p] < 0 || given[p] == i)
			}
			if same && want == nil {
				want = list
			}
		}
		err = (&List{counter: c}).Complete(rows)
		if want == nil {
			var e *NoListError
			if none++; !errors.As(err, &e) || given[e.Position] >= 0 {
				t.Fatalf("%v of %d candidates at %d positions: %v, %v", given, n, k, rows, err)
			}
			continue
		}
		if done++; err != nil || !slices.Equal(rows, want) {
			t.Fatalf("%v of %d candidates at %d positions: %v, %v, want %v", given, n, k, rows, err, want)
		}
	}
	if done < 300 || none < 5 {
		t.Errorf("%d baselines were completed, %d could not be", done, none)
	}
}
