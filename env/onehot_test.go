package env_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/rng"
)

// TestOneHot: an action has one nonzero for the intercept, each column and each pair of columns, at coordinates
// that depend on the row's levels and on the arm; the right class pays.
func TestOneHot(t *testing.T) {
	o := env.NewOneHot()
	o.Data = filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(o.Data, []byte("a,b,class\nx,1.5,p\ny,2.5,q\nx,2.5,q\ny,1.5,p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, data := rng.NewKey(1), &dataset.Source{}
	e, err := o.Build(key, data)
	if err != nil {
		t.Fatal(err)
	}
	if n := e.(env.Noted).Notes(); len(n) != 2 || n[1] != "9 features of 2 arms on 18 of 2^18 coordinates: 0 collide with another" {
		t.Errorf("notes %q", n)
	}
	seen := map[uint32]bool{}
	for round := uint64(1); round <= 4; round++ {
		set, err := e.Offer(key.Stream(rng.Offer).Round(round))
		if err != nil {
			t.Fatal(err)
		}
		s := set.(bandit.Sparse)
		if s.Len() != 2 || s.Dim() != 1<<18 {
			t.Fatalf("%d arms of dimension %d", s.Len(), s.Dim())
		}
		paid := 0.0
		for i := range 2 {
			at, x := s.Nonzeros(i)
			var q float64
			for k, c := range at {
				seen[c] = true
				q += x[k] * x[k]
			}
			if len(at) != 4 || math.Abs(q-1) > 1e-15 {
				t.Errorf("%d nonzeros with squares %v", len(at), q)
			}
			y, err := e.Reward(bandit.Action{At: at, X: x, Index: i}, rng.Source{})
			if err != nil {
				t.Fatal(err)
			}
			paid += y
		}
		if paid != 1 {
			t.Errorf("the classes pay %v together", paid)
		}
	}
	if len(seen) != 18 {
		t.Errorf("%d coordinates, expected 18", len(seen))
	}
	for want, change := range map[string]func(*env.OneHotOptions){
		"bits: is 9, expected 10 to 28":      func(o *env.OneHotOptions) { o.Bits = 9 },
		"bins: is 1, expected 2 to 1000":     func(o *env.OneHotOptions) { o.Bins = 1 },
		"class: column \"colour\" is not in": func(o *env.OneHotOptions) { o.Class = "colour" },
	} {
		bad := *o
		change(&bad)
		if _, err := bad.Build(key, data); err == nil {
			t.Errorf("%+v was accepted, expected %s", bad, want)
		} else if !strings.HasPrefix(want, "class") && err.Error() != want {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
}

// TestCorrelated: over 2000 arms two features have the declared correlation within 0.03, which without the arms
// brought back to the sphere has a level below 1e-9 at ρ = 0.95.
func TestCorrelated(t *testing.T) {
	o := env.NewCorrelated()
	o.Arms = 2000
	key := rng.NewKey(2)
	e, err := o.Build(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := e.Offer(key.Stream(rng.Offer).Round(1))
	if err != nil {
		t.Fatal(err)
	}
	f := set.(bandit.Finite)
	var xy, xx, yy float64
	for i := range f.Len() {
		a, b := f.At(i)[3], f.At(i)[11]
		xy, xx, yy = xy+a*b, xx+a*a, yy+b*b
	}
	if r := xy / math.Sqrt(xx*yy); math.Abs(r-0.95) > 0.03 {
		t.Errorf("correlation %v, expected 0.95", r)
	}
	var sum float64
	for _, v := range e.(env.Truth).Theta() {
		sum += v
	}
	if math.Abs(sum) > 1e-12 {
		t.Errorf("the coordinates of θ* add up to %v", sum)
	}
	for _, change := range []func(*env.CorrelatedOptions){
		func(o *env.CorrelatedOptions) { o.Correlation = 1 }, func(o *env.CorrelatedOptions) { o.D = 1 },
		func(o *env.CorrelatedOptions) { o.Arms = 0 }, func(o *env.CorrelatedOptions) { o.Correlation = math.NaN() },
	} {
		bad := *o
		change(&bad)
		if _, err := bad.Build(key, nil); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
