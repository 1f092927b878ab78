package eventlog

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// genList gives a decision a list of one to all of its candidates.
func genList(t *rapid.T, r *Decision) {
	n := int(r.Offered)
	k := rapid.IntRange(1, n).Draw(t, "k")
	rows := rapid.Permutation(func() (all []uint64) {
		for i := range n {
			all = append(all, uint64(i))
		}
		return all
	}()).Draw(t, "rows")[:k]
	l := &List{Rows: rows, Voters: 256, Whole: rapid.Bool().Draw(t, "whole")}
	named, counted, full := rapid.Bool().Draw(t, "named"), rapid.Bool().Draw(t, "counted"), rapid.Bool().Draw(t, "full")
	l.Apart = !counted && rapid.Bool().Draw(t, "apart")
	last := uint64(256)
	for p, i := range rows {
		last = rapid.Uint64Range(0, last).Draw(t, "prefix")
		l.Prefix, l.Marginal = append(l.Prefix, last), append(l.Marginal, rapid.Uint64Range(last, 256).Draw(t, "marginal"))
		l.IDs, l.Index = append(l.IDs, genText(t)), append(l.Index, i)
		size := uint64(n)
		if l.Apart || counted {
			size = rapid.Uint64Range(1, size).Draw(t, "size")
		}
		l.Sizes = append(l.Sizes, size)
		if named {
			l.Slots = append(l.Slots, genText(t))
			l.Free, l.Alike = append(l.Free, uint64(1+p%n)), append(l.Alike, uint64(n))
		}
	}
	if counted {
		l.Ways = []uint64{1000}
		for range k {
			l.Ways, l.Placed = append(l.Ways, 7), append(l.Placed, 9)
		}
	}
	if full {
		l.Votes = make([]uint64, n*k)
		for i := range l.Votes {
			l.Votes[i] = uint64(i % 3)
		}
		l.Allowed = []byte(strings.Repeat("\xff", (n*k+7)/8))
	}
	r.List, r.Index, r.Action = l, uint32(rows[0]), l.IDs[0]
	if r.Mode == Apprentice || r.Mode == Shadow {
		would := *l
		would.Votes, would.Allowed, would.Slots, would.Whole = nil, nil, nil, false
		would.Rows = slices.Clone(l.Rows)
		slices.Reverse(would.Rows)
		would.IDs = slices.Clone(l.IDs)
		would.IDs[0] = genText(t)
		r.WouldList, r.WouldAction = &would, would.IDs[0]
	}
}

// TestListRefused: a list whose parts do not fit together is neither written nor read, and the error names the part.
func TestListRefused(t *testing.T) {
	whole := func() *Decision {
		return &Decision{Model: 1, Num: 1, Den: 4, Offered: 4, Index: 2, Action: "c", Floor: 10_000, List: &List{
			IDs: []string{"c", "a"}, Index: []uint64{2, 0}, Rows: []uint64{2, 0}, Voters: 256, Sizes: []uint64{4, 4},
			Prefix: []uint64{97, 20}, Marginal: []uint64{97, 35}}}
	}
	if _, err := AppendRecord(nil, whole()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(d *Decision, l *List){
		"0 positions":             func(_ *Decision, l *List) { l.Rows = nil },
		"another length":          func(_ *Decision, l *List) { l.IDs = l.IDs[:1] },
		"rows[1] = 4":             func(_ *Decision, l *List) { l.Rows[1] = 4 },
		"stands at positions":     func(_ *Decision, l *List) { l.Rows[1] = 2 },
		"prefix[1] = 98":          func(_ *Decision, l *List) { l.Prefix[1], l.Marginal[1] = 98, 99 },
		"marginal[0] = 96":        func(_ *Decision, l *List) { l.Marginal[0] = 96 },
		"sizes[0] = 3":            func(_ *Decision, l *List) { l.Sizes[0] = 3 },
		"a table has another":     func(_ *Decision, l *List) { l.Votes = []uint64{1} },
		"0 voters":                func(_ *Decision, l *List) { l.Voters = 0 },
		"may not stand":           func(_ *Decision, l *List) { l.Allowed = []byte{0} },
		"ways and placed":         func(_ *Decision, l *List) { l.Ways = []uint64{3} },
		`the first is "b"`:        func(d *Decision, _ *List) { d.Action = "b" },
		"an optional part":        func(_ *Decision, l *List) { l.Free = []uint64{1} },
		"256 voters, and a law":   func(d *Decision, _ *List) { d.Law, d.Voters = []uint64{1, 0, 0, 0}, 1 },
		"group at position 1 has": func(_ *Decision, l *List) { l.Alike = []uint64{1, 0} },
	} {
		d := whole()
		change(d, d.List)
		if _, err := AppendRecord(nil, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	baseline := func() *Decision {
		d := whole()
		would := *d.List
		would.IDs, would.Rows = []string{"a", "c"}, []uint64{0, 2}
		d.Mode, d.WouldAction, d.WouldList = Shadow, "a", &would
		return d
	}
	if _, err := AppendRecord(nil, baseline()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(d *Decision, l *List){
		"would_list: is missing":            func(d *Decision, _ *List) { d.WouldList = nil },
		"would_list: without a baseline":    func(d *Decision, _ *List) { d.Mode = Online },
		"would_list: without a baseline th": func(d *Decision, _ *List) { d.List = nil },
		"would_list: has other positions":   func(_ *Decision, l *List) { l.Rows = l.Rows[:1] },
		"or parts that the list has":        func(_ *Decision, l *List) { l.Slots = []string{"x", "y"} },
		`the first is "x"`:                  func(d *Decision, _ *List) { d.WouldAction = "x" },
		"stands at positions":               func(_ *Decision, l *List) { l.Rows[1] = 0 },
	} {
		d := baseline()
		change(d, d.WouldList)
		if _, err := AppendRecord(nil, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, r := range map[string]*Reward{
		"2 positions and 1 values": {Positions: []uint64{0, 1}, Ys: []float64{1}},
		"positions[1] = 0":         {Positions: []uint64{0, 0}, Ys: []float64{1, 2}},
		"positions[0] = 50":        {Positions: []uint64{50}, Ys: []float64{1}},
		"y = 1 beside values":      {Positions: []uint64{0}, Ys: []float64{1}, Y: 1},
		"shown = 52":               {Shown: 52},
	} {
		r.Event, r.Model = Event{1, 1, 0}, 1
		if _, err := AppendRecord(nil, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestListProbabilities: the fractions of the example in the documentation, with floor .01. A baseline has probability 1, whatever the law says of
// it, and the policy's list that of its law.
func TestListProbabilities(t *testing.T) {
	d := &Decision{Floor: 10_000, Offered: 4, List: &List{Rows: []uint64{2, 0, 1}, Voters: 256, Sizes: []uint64{4, 4, 4},
		Prefix: []uint64{97, 20, 11}, Marginal: []uint64{97, 35, 68}}}
	for p, want := range []*big.Rat{big.NewRat(9667, 25600), big.NewRat(3529, 25600), big.NewRat(6796, 25600)} {
		if got := d.MarginalProb(p); got.Cmp(want) != 0 {
			t.Errorf("position %d: %v, want %v", p, got, want)
		}
	}
	// .99·20/256 + .01/12
	if got, want := d.PrefixProb(2), new(big.Rat).Add(big.NewRat(99*20, 25600), big.NewRat(1, 1200)); got.Cmp(want) != 0 {
		t.Errorf("two entries: %v, want %v", got, want)
	}
	if d.Would() != nil {
		t.Error("a list of the policy has another one that it would play")
	}
	b := &Decision{Floor: d.Floor, Offered: 4, WouldList: d.List, List: &List{Rows: []uint64{3, 1, 0}, Voters: 256, Sizes: []uint64{4, 4, 4},
		Prefix: []uint64{9, 0, 0}, Marginal: []uint64{9, 0, 5}}}
	one := big.NewRat(1, 1)
	for p := range 3 {
		if b.MarginalProb(p).Cmp(one) != 0 || b.PrefixProb(p+1).Cmp(one) != 0 {
			t.Errorf("position %d of a baseline: %v, and %v from the top", p, b.MarginalProb(p), b.PrefixProb(p+1))
		}
		if w := b.Would(); w.MarginalProb(p).Cmp(d.MarginalProb(p)) != 0 || w.PrefixProb(p+1).Cmp(d.PrefixProb(p+1)) != 0 {
			t.Errorf("position %d of the policy's list: %v", p, w.MarginalProb(p))
		}
	}
}
