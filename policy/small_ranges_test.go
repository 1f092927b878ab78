package policy

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRangesOf: a number belongs to at most two neighbouring ranges, with shares that have the sum 1; in the middle of a
// range it belongs to that one, and beyond the outer middles to the outer ranges alone.
func TestRangesOf(t *testing.T) {
	shares := func(z float64) (out [rangeCount]float64) {
		i, v := rangesOf(z)
		out[i], out[i+1] = 1-v, v
		return out
	}
	for z, want := range map[float64][rangeCount]float64{
		-3: {1}, -1.2: {1}, -.8: {.5, .5}, -.4: {0, 1}, 0: {0, .5, .5}, .2: {0, .25, .75}, .4: {0, 0, 1}, .8: {0, 0, .5, .5},
		1.2: {0, 0, 0, 1}, 3: {0, 0, 0, 1},
	} {
		for i, v := range shares(z) {
			if math.Abs(v-want[i]) > 1e-12 {
				t.Errorf("%v has the shares %v, want %v", z, shares(z), want)
				break
			}
		}
	}
	for z := -3.; z <= 3; z += 1. / 64 {
		for i, v := range shares(z) {
			if v < 0 || v > 1 || math.Abs(v-shares(z + 1./64)[i]) > 1./64/rangeWidth+1e-12 {
				t.Fatalf("share %d of %v is %v: expected one in [0, 1] that is continuous", i, z, v)
			}
		}
	}
}

// numberFields is a request with so many numbers in its context, and in its action, each by draw.
func numberFields(draw func() float64, context, action int) (string, string) {
	write := func(name string, n int) string {
		var fields []string
		for i := range n {
			fields = append(fields, fmt.Sprintf(`"%s%d":%.3f`, name, i, 100*draw()))
		}
		return "{" + strings.Join(fields, ",") + "}"
	}
	return write("c", context), write("p", action)
}

// TestRangesModels: which models read ranges, by how many numbers there are, and how many coefficients of a request they
// have; rules 2 have none of them. −1 is no model.
func TestRangesModels(t *testing.T) {
	type models struct{ range1, ranges, grid int }
	for numbers, want := range map[[2]int]models{
		{0, 1}: {-1, -1, -1},
		{1, 0}: {-1, 3, -1},      // the action's mean, and a share in two ranges
		{2, 0}: {3, 5, -1},       // models of one number beside the one of all
		{4, 0}: {3, 9, -1},       //
		{5, 0}: {-1, -1, -1},     // too many numbers
		{1, 1}: {-1, 3, 1 + 1*4}, // the id, and two ranges × two
		{2, 2}: {3, 5, 1 + 4*4},  // four pairs of numbers
		{3, 2}: {3, 7, -1},       // too many pairs
		{1, 5}: {-1, 3, -1},
	} {
		for rules := 2; rules <= 3; rules++ {
			w := newFieldsWorld(t, newRules(t, rules))
			r := rand.New(rand.NewPCG(7, 8))
			for range 70 {
				context, action := numberFields(r.Float64, numbers[0], numbers[1])
				w.learn(t, context, action, float64(r.IntN(2)))
			}
			context, action := numberFields(func() float64 { return .47 }, numbers[0], numbers[1])
			got := models{w.reads(t, smallRange, context, action), w.reads(t, smallRanges, context, action),
				w.reads(t, smallGrid, context, action)}
			if rules == 2 {
				want := models{-1, -1, -1}
				if got != want {
					t.Errorf("rules 2, numbers %v: %+v", numbers, got)
				}
				continue
			}
			if got != want {
				t.Errorf("numbers %v: %+v, want %+v", numbers, got, want)
			}
		}
	}
}

// TestRangesLeave: models that read ranges leave when a fifth number comes, and do not come back.
func TestRangesLeave(t *testing.T) {
	w := newFieldsWorld(t, newRules(t, 3))
	r := rand.New(rand.NewPCG(9, 8))
	gone := func() (n int) {
		for _, m := range w.h.Models() {
			if (m.Reads == "range" || m.Reads == "ranges") && m.Left {
				n++
			}
		}
		return n
	}
	for n := range 300 {
		numbers := 4
		if n >= 100 {
			numbers = 5
		}
		context, _ := numberFields(r.Float64, numbers, 0)
		w.learn(t, context, "", float64(r.IntN(2)))
		if n == 99 && gone() != 0 {
			t.Fatalf("%d models have left before the fifth number", gone())
		}
	}
	w.h.mix.returnSmalls()
	if gone() != 5 {
		t.Errorf("%d models have left, expected 5: of each of four numbers, and of all", gone())
	}
}

// peak is a world in which a reward is likely where the number of the context lies in the middle of its range, and, for
// a request with a price, where that is near the number.
func peak(t testing.TB, h *Hashed, price bool, n int) *fieldsWorld {
	t.Helper()
	w := newFieldsWorld(t, h)
	r := rand.New(rand.NewPCG(3, 5))
	for range n {
		x, p := 100*r.Float64(), 100*r.Float64()
		context, action, y := fmt.Sprintf(`{"x":%.2f}`, x), "", 0.
		if price {
			action = fmt.Sprintf(`{"p":%.2f}`, p)
			x += 50 - p
		}
		if x > 25 && x < 75 {
			y = 1
		}
		w.learn(t, context, action, y)
	}
	return w
}

// TestRangesLearn: what no slope can say, a reward in the middle of a number, is learned by "ranges", and one where a
// price is near a number by "grid": the model predicts it better than the others do.
func TestRangesLearn(t *testing.T) {
	for name, price := range map[string]bool{"ranges": false, "grid": true} {
		w := peak(t, newRules(t, 3), price, 1500)
		var weight float64
		for _, m := range w.h.Models() {
			if m.Reads == name {
				weight = m.Weight
			}
		}
		if weight < .5 {
			t.Errorf("%s plays %.2f of the decisions: %+v", name, weight, w.h.Models())
		}
		for _, c := range []struct {
			context, action string
			low, high       float64
		}{{`{"x":50}`, `{"p":50}`, .75, 1.2}, {`{"x":95}`, `{"p":5}`, -.2, .25}, {`{"x":5}`, `{"p":95}`, -.2, .25}} {
			if !price {
				c.action = ""
			}
			a := w.action(t, c.context, c.action)
			if got := w.h.Estimate(a.At, a.X); got < c.low || got > c.high {
				t.Errorf("%s expects %.2f of %s and %s, want %v to %v", name, got, c.context, c.action, c.low, c.high)
			}
		}
	}
}

// TestRangesState: models of ranges are the same after a snapshot and after a copy, and learn the same from there, also
// with a half-life; and a snapshot of rules 2 cannot have them.
func TestRangesState(t *testing.T) {
	for _, half := range []float64{0, 200} {
		h := newFadingRules(t, 3, half)
		peak(t, h, true, 400)
		snapshot := mustBytes(t, h)
		restored, copied := newFadingRules(t, 3, half), newFadingRules(t, 3, half)
		if err := restored.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		if err := copied.Adopt(h.Share()); err != nil {
			t.Fatal(err)
		}
		for name, p := range map[string]*Hashed{"restored": restored, "copied": copied} {
			if p.Digest() != h.Digest() || !bytes.Equal(mustBytes(t, p), snapshot) {
				t.Errorf("half-life %v: the %s policy has another state", half, name)
			}
		}
		for _, p := range []*Hashed{h, restored, copied} {
			peak(t, p, true, 100)
		}
		if want := h.Digest(); restored.Digest() != want || copied.Digest() != want {
			t.Errorf("half-life %v: digests %x, restored %x, copied %x", half, want, restored.Digest(), copied.Digest())
		}
	}
	r := &byteReader{b: mustSmall(t)}
	if r.small(true, 2); !r.bad {
		t.Error("a model of ranges was read from a snapshot of rules 2")
	}
	r = &byteReader{b: mustSmall(t)}
	if r.small(true, 3); r.bad {
		t.Error("a model of ranges was not read from a snapshot of rules 3")
	}
}

// mustSmall returns the bytes of a model of ranges.
func mustSmall(t testing.TB) []byte {
	t.Helper()
	h := newRules(t, 3)
	peak(t, h, false, 60)
	for _, s := range h.mix.smalls {
		if s.kind == smallRanges {
			return s.append(nil)
		}
	}
	t.Fatal("no model of ranges")
	return nil
}

// TestRangesBytes: the same events give the same models of ranges on every machine.
func TestRangesBytes(t *testing.T) {
	h := newRules(t, 3)
	peak(t, h, true, 300)
	if got, want := fmt.Sprintf("%x", h.Digest()), "f3ea8be2956cc76dc0723f89dd62b68c"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}
