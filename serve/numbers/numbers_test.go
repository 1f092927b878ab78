package numbers

import (
	"errors"
	"math"
	"testing"

	"troupe/feature"
)

// TestCells: the cells of a range follow one another without gaps, Find is the inverse of Of, and the places of cyclic,
// logarithmic and stepped numbers lie in order.
func TestCells(t *testing.T) {
	for _, list := range [][]Range{
		{{Name: "a", Min: 1, Max: 20, Step: .5}},
		{{Name: "a", Min: -3, Max: 1e6}},
		{{Name: "a", Min: 1e-3, Max: 1e5, Log: true}},
		{{Name: "a", Min: 0, Max: 24, Step: .5, Cyclic: true}},
		{{Name: "a", Min: 0, Max: 1}, {Name: "b", Min: .1, Max: 10, Log: true}, {Name: "c", Min: 0, Max: .7, Step: .1}},
	} {
		if err := CheckAll(list); err != nil {
			t.Fatal(err)
		}
		for i := range list {
			r := &list[i]
			n := r.Cells(len(list))
			last := r.Min
			for c := range n {
				lo, hi := r.Bounds(c, n)
				if r.Step == 0 && (lo != last || hi <= lo) || r.Step > 0 && (lo != hi || c > 0 && lo <= last) {
					t.Fatalf("%+v: cell %d is [%v, %v] after %v", r, c, lo, hi, last)
				}
				if u := r.Place(hi); !(u >= 0 && u <= 1) || c > 0 && u <= r.Place(last) {
					t.Fatalf("%+v: the place of %v is %v", r, hi, u)
				}
				last = hi
			}
			if r.Step == 0 && last != r.Max {
				t.Fatalf("%+v: the cells end at %v", r, last)
			}
		}
		g := Whole(list)
		for c := range g.Cells(g.All()) {
			var v []float64
			for _, x := range g.Of(nil, g.All(), c) {
				v = append(v, x.At(.25))
			}
			if at, err := g.Find(g.All(), v); err != nil || at != c {
				t.Fatalf("%v lies in cell %d, found %d, %v", v, c, at, err)
			}
		}
	}
	if v := (&Range{Min: 0, Max: .7, Step: .1}).step(3); v != .3 {
		t.Errorf("step 3 of .1 is %v", v)
	}
	if n := (&Range{Min: 0, Max: 24, Step: .5, Cyclic: true}).Cells(1); n != 48 {
		t.Errorf("24 is 0 again, there are %d half hours", n)
	}
}

// TestExpand: candidates are the cells of the actions in turn, with the atoms of the action and the place of the middle of the
// cell; Exact replaces it by that of a value.
func TestExpand(t *testing.T) {
	g := Whole([]Range{{Name: "a", Min: 0, Max: 2, Step: 1}, {Name: "b", Min: 0, Max: 1}})
	actions := [][]feature.Atom{{{Hash: 1, Value: 1}}, {{Hash: 2, Value: 1}, {Hash: 9, Value: 7}}, {{Hash: 3, Value: 1}}}
	out, of := g.Expand(actions, []uint8{0b11, 0b01, 0})
	if len(out) != 3*16+3+1 || len(of) != len(out) || of[47] != 0 || of[48] != 1 || of[51] != 2 {
		t.Fatalf("%d candidates of the actions %v", len(out), of)
	}
	if a := out[17]; a[0].Hash != 1 || a[1].Value != .5 || a[2].Value != 1.5/16 {
		t.Errorf("candidate 17 is %v", a)
	}
	if a := out[50]; len(a) != 3 || a[1].Hash != 9 || a[2].Value != 1 {
		t.Errorf("candidate 50 is %v", a)
	}
	if a := g.Exact(out[17], 0b11, []float64{1, .1}); a[1].Value != .5 || a[2].Value != .1 || out[17][2].Value != 1.5/16 {
		t.Errorf("with its values candidate 17 is %v", a)
	}
}

// TestRangeErrors: NaN, infinities and ranges that no number has are refused.
func TestRangeErrors(t *testing.T) {
	for _, r := range []Range{
		{Name: "a", Min: math.NaN(), Max: 1}, {Name: "a", Min: 0, Max: math.Inf(1)}, {Name: "a", Min: 0, Max: 1, Step: math.NaN()},
		{Name: "a", Min: 0, Max: 1, Step: -1}, {Name: "a", Min: 1e9, Max: 1e9 + 1e-6}, {Name: "a", Min: 0, Max: 1, Step: 1e-300},
		{Name: "a", Min: -1e300, Max: 1e300}, {Min: 0, Max: 1},
	} {
		var e *Error
		if err := CheckAll([]Range{r}); !errors.As(err, &e) {
			t.Errorf("%+v is taken: %v", r, err)
		}
	}
}

// TestNarrow: what is left of a range lies within both bounds, of steps and of cells, which are cut.
func TestNarrow(t *testing.T) {
	g := Whole([]Range{{Name: "a", Min: 1, Max: 20, Step: .5}, {Name: "b", Min: 0, Max: 1}})
	if err := g.Narrow(0, 3.2, 5); err != nil {
		t.Fatal(err)
	}
	if err := g.Narrow(1, .1, .2); err != nil {
		t.Fatal(err)
	}
	if a, b := g.Cells(1), g.Cells(2); a != 4 || b != 3 { // 3.5 to 5; [.1, .125], [.125, .1875], [.1875, .2]
		t.Fatalf("%d steps and %d cells are left", a, b)
	}
	first, last := g.Of(nil, 3, 0), g.Of(nil, 3, 11)
	if first[0].Low != 3.5 || last[0].High != 5 || first[1].Low != .1 || last[1].High != .2 {
		t.Errorf("from %v to %v", first, last)
	}
	if err := g.Narrow(0, 5.1, 5.4); err == nil || g.Cells(1) != 4 {
		t.Errorf("no step lies in [5.1, 5.4]: %v, %d are left", err, g.Cells(1))
	}
}
