package linalg

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/internal/cpu"
)

// wholeAndSplit makes a state twice: the whole matrix, and by blocks whatever they cost.
func wholeAndSplit[T any](build func() T) (whole, split T) {
	restore := ForceBlocks(math.MaxInt)
	whole = build()
	restore()
	defer ForceBlocks(1)()
	return whole, build()
}

// newWhole is NewRidge without blocks, for tests of the matrices.
func newWhole(d int, lambda float64) *Ridge {
	r := NewRidge(d, lambda)
	if r.split != nil {
		r.join()
	}
	return r
}

// blockActions draws actions of layouts that differ in where their nonzero numbers lie.
func blockActions(r *rand.Rand, d int) func() []float64 {
	layout, p, size := r.IntN(4), 1+r.IntN(d), 1.0
	if r.IntN(4) == 0 {
		size = 1e-9 // b changes and V does not
	}
	return func() []float64 {
		x := make([]float64, d)
		from, n := 0, p
		switch layout {
		case 0: // blocks of one length
			from = r.IntN(d) / p * p
		case 1: // any stretch up to a length: they join
			from, n = r.IntN(d), 1+r.IntN(max(1, p/4))
		case 2: // one coordinate
			from, n = r.IntN(d), 1
		case 3: // blocks of two lengths, with a gap that is never used
			if from = 1; r.IntN(2) == 0 {
				from, n = min(d-1, p+2), d
			}
		}
		for i := from; i < min(d, from+n); i++ {
			x[i] = size * r.NormFloat64() / math.Sqrt(float64(n))
			if r.IntN(5) == 0 {
				x[i] = 0
			}
		}
		return x
	}
}

// same compares bits, but for the sign of a zero.
func same(t *testing.T, what string, a, b []float64) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%s has %d numbers, by blocks %d", what, len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("%s[%d] is %v, by blocks %v", what, i, a[i], b[i])
		}
	}
}

// The regression by blocks has the numbers of the whole matrix, with all kernels, also where V⁻¹ drifts and is
// computed anew, and its snapshots are the same. 20 sequences, 60 with TROUPE_LONG.
func TestRidgeBlocks(t *testing.T) {
	defer ForceBlocks(1)()
	for level := cpu.Portable; level <= cpu.Best(); level++ {
		defer cpu.Force(level)()
		joined, kept := 0, 0
		for seed := range uint64(sized(20, 60)) {
			r := rand.New(rand.NewPCG(seed, 7))
			d := 1 + r.IntN(90)
			whole, split := wholeAndSplit(func() *Ridge { return NewRidge(d, 0.1+float64(seed%3)) })
			next := blockActions(r, d)
			dst := [2][]float64{make([]float64, d, Padded(d)), make([]float64, d, Padded(d))}
			s := make([]float64, 8*d)
			for step := range 300 {
				for i := range s {
					s[i] = r.NormFloat64()
				}
				x, y := next(), r.NormFloat64()
				ask := func() {
					stride := 1 + 7*r.IntN(2)
					whole.SolveShift(dst[0], s, stride, 0.7)
					split.SolveShift(dst[1], s, stride, 0.7)
					same(t, "θ̂ + cV⁻¹s", dst[0], dst[1])
				}
				switch r.IntN(8) {
				case 0, 1, 2:
					ask()
				case 3:
					if a, b := whole.Width2(x), split.Width2(x); a != b {
						t.Fatalf("‖x‖² is %v, by blocks %v", a, b)
					}
					z := s[:d]
					if a, b := whole.Width2(z), split.Width2(z); a != b {
						t.Fatalf("‖z‖² is %v, by blocks %v", a, b)
					}
					if a, b := whole.Norm2(z), split.Norm2(z); a != b {
						t.Fatalf("zᵀVz is %v, by blocks %v", a, b)
					}
				case 4:
					whole.Solve(dst[0], s[:d])
					split.Solve(dst[1], s[:d])
					same(t, "V⁻¹s", dst[0], dst[1])
				}
				if step%67 == 66 {
					if ok := [2]bool{whole.refactor(), split.refactor()}; ok != [2]bool{true, true} {
						t.Fatal("V is not positive definite")
					}
				}
				if step%50 == 49 {
					bad := slices.Clone(x)
					bad[r.IntN(d)] = math.Inf(1)
					_, a := whole.Update(bad, y)
					_, b := split.Update(bad, y)
					_, c := whole.Update(x, math.NaN())
					_, e := split.Update(x, math.NaN())
					if a || b || c || e {
						t.Fatal("learned what is not finite")
					}
				}
				g, ok := whole.Update(x, y)
				h, also := split.Update(x, y)
				if !ok || !also {
					t.Fatal("an update was refused")
				}
				same(t, "gain", g, h)
				same(t, "θ̂", whole.Theta(), split.Theta())
				if a, b := whole.LogDetRatio(), split.LogDetRatio(); a != b {
					t.Fatalf("log det is %v, by blocks %v", a, b)
				}
				if step%100 != 99 {
					continue
				}
				if split.split != nil {
					kept++
				} else {
					joined++
				}
				if a, b, norm := whole.NormInv(), split.NormInv(), Norm(whole.Inv()); !(a >= norm && b >= norm && b < norm*(1+1e-9)) {
					t.Fatalf("‖V⁻¹‖ is %v, bounded by %v, by blocks by %v", norm, a, b)
				}
				packed := [2][]float64{make([]float64, d*(d+1)/2), make([]float64, d*(d+1)/2)}
				whole.PackV(packed[0])
				split.PackV(packed[1])
				same(t, "V packed", packed[0], packed[1])
				a, b := whole.State(), split.State()
				for i := range a {
					same(t, "state", a[i], b[i])
				}
				back := NewRidge(d, split.lambda)
				back.Restore(b)
				for i, v := range back.State() {
					same(t, "state", a[i], v)
				}
				if split.split != nil && back.split == nil {
					t.Fatalf("d = %d: blocks were not found again", d)
				}
				if split = back; step > 150 { // into one that has learned something else
					split.Update(next(), 1)
					split.Restore(a)
				}
				ask()
			}
		}
		if joined == 0 || kept < 20 {
			t.Errorf("%v: %d states were by blocks at last, %d whole", level, kept, joined)
		}
	}
}

// The same for the factor, and the regression in square-root form around it.
func TestRootBlocks(t *testing.T) {
	defer ForceBlocks(1)()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 8))
		d := 1 + r.IntN(90)
		whole, split := wholeAndSplit(func() *Root { return NewRoot(d, 0.1+float64(seed%3)) })
		next := blockActions(r, d)
		z := [2][]float64{make([]float64, 11*d), make([]float64, 11*d)}
		compare := func() {
			t.Helper()
			same(t, "θ̂", whole.Theta(), split.Theta())
			same(t, "L", whole.L(), split.L())
			if a, b := whole.LogDetRatio(), split.LogDetRatio(); a != b {
				t.Fatalf("log det is %v, by blocks %v", a, b)
			}
			v, b := [2][]float64{make([]float64, d*d), make([]float64, d*d)}, [2][]float64{make([]float64, d), make([]float64, d)}
			whole.Gram(v[0], b[0])
			split.Gram(v[1], b[1])
			same(t, "V", v[0], v[1])
			same(t, "b", b[0], b[1])
		}
		for step := range 60 {
			x, y := next(), r.NormFloat64()
			if step%10 == 9 && seed%2 == 0 {
				if !whole.Forget(0.9, x, y) || !split.Forget(0.9, x, y) {
					t.Fatal("an update was refused")
				}
				compare()
			}
			a, ok := whole.UpdateResidual(x, y)
			b, also := split.UpdateResidual(x, y)
			if a != b || !ok || !also {
				t.Fatalf("the growth of the residual sum is %v, by blocks %v", a, b)
			}
			n := d * r.IntN(12)
			for i := range n {
				z[0][i] = r.NormFloat64()
			}
			copy(z[1], z[0])
			f, g := whole.Factor(), split.Factor()
			switch step % 4 {
			case 0:
				f.SolveLTRows(z[0][:n])
				g.SolveLTRows(z[1][:n])
				same(t, "L⁻ᵀz", z[0][:n], z[1][:n])
			case 1:
				f.Solve(z[0][:d])
				g.Solve(z[1][:d])
				same(t, "V⁻¹z", z[0][:d], z[1][:d])
			case 2:
				f.MulL(z[0][:d], z[0][d:2*d])
				g.MulL(z[1][:d], z[1][d:2*d])
				same(t, "Lz", z[0][:d], z[1][:d])
			}
			if step%20 != 19 {
				continue
			}
			compare()
			s, back := whole.State(), NewRoot(d, split.lambda)
			for i, v := range split.State() {
				same(t, "state", s[i], v)
			}
			if !back.Restore(s) || split.f.split && !back.f.split {
				t.Fatal("blocks were not found again")
			}
			other := NewBlockFactor(d, 1)
			if other.Copy(split.f); !slices.Equal(other.L(), split.L()) {
				t.Fatal("a copy differs")
			}
			split = back
			compare()
			if step == 39 {
				var seen [2][]float64
				score := func(i int) func(logDet, explained float64) float64 {
					return func(logDet, explained float64) float64 {
						seen[i] = append(seen[i], logDet, explained)
						return explained - logDet
					}
				}
				one, two := whole.NewReweigh([]float64{2, 0.5, 1e-3}, score(0)), split.NewReweigh([]float64{2, 0.5, 1e-3}, score(1))
				if !one.Apply() || !two.Apply() {
					t.Fatal("no λ was chosen")
				}
				same(t, "the determinants and bᵀV⁻¹b of the grid", seen[0], seen[1])
				compare()
				if !whole.Merge(whole) || !split.Merge(split) {
					t.Fatal("a merge was refused")
				}
				compare()
			}
		}
	}
}

// Support finds the first and the last number that is not 0, NaN and subnormal numbers among them.
func TestSupport(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	values := []float64{1, -1e-320, math.NaN(), math.Inf(-1)}
	for range 20_000 {
		x := make([]float64, r.IntN(40))
		for i := range x {
			x[i] = math.Copysign(0, r.Float64()-0.5)
		}
		from, to := 0, 0
		for range r.IntN(3) * min(1, len(x)) {
			i := r.IntN(len(x))
			x[i] = values[r.IntN(len(values))]
			if from == to {
				from, to = i, i
			}
			from, to = min(from, i), max(to, i+1)
		}
		if a, b := Support(x); a != from && from < to || b != to || from == to && a != b {
			t.Fatalf("the support of %v is %d to %d, want %d to %d", x, a, b, from, to)
		}
	}
}

// Memory is that of the blocks, and a step in a known block takes none.
func TestBlocksMemory(t *testing.T) {
	const p, n = 17, 26
	r, f := NewRidge(n*p, 1), NewRoot(n*p, 1)
	x := make([][]float64, n)
	for k := range x {
		x[k] = make([]float64, n*p)
		for i := range p {
			x[k][k*p+i] = 1 / float64(1+i+k)
		}
		r.Update(x[k], 1)
		f.Update(x[k], 1)
	}
	if r.split == nil || len(r.split.parts) != n || !f.f.split || len(f.f.parts) != n {
		t.Fatal("the blocks were not found")
	}
	if f.NewReweigh([]float64{2, 0.5}, func(logDet, explained float64) float64 { return explained - logDet }).Apply(); !f.f.split {
		t.Error("the choice of λ makes the factor whole")
	}
	if r.inv != nil || r.v != nil || f.f.l != nil || f.f.square != nil {
		t.Error("there is a matrix of d² numbers")
	}
	dst, k := make([]float64, n*p, Padded(n*p)), 0
	if got := testing.AllocsPerRun(100, func() {
		r.SolveShift(dst, x[k%n], 1, 1)
		r.Update(x[k%n], 1)
		f.Update(x[k%n], 1)
		f.Factor().SolveLT(dst)
		k++
	}); got != 0 {
		t.Errorf("a round allocates %v times", got)
	}
	// Where a stretch joins nearly all of them the matrix is whole.
	all := make([]float64, n*p)
	all[0], all[n*p-1] = 1, 1
	r.Update(all, 1)
	f.Update(all, 1)
	if r.split != nil || f.f.split {
		t.Error("blocks that do not pay are kept")
	}
}
