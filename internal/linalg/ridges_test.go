package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"troupe/internal/cpu"
)

// lane returns the numbers of one lane of a list of batches.
func lane(x []float64, l int) []float64 {
	var out []float64
	for i := l; i < len(x); i += Eight {
		out = append(out, x[i])
	}
	return out
}

// checkBatches runs every kernel of ridges.go on random numbers, at every level, and compares each lane
// with the kernel for one problem. Slices are cut out of longer ones, at any offset.
func checkBatches(t *testing.T, seed uint64, d, rows, n int) {
	r := numbers{rand.New(rand.NewPCG(seed, 2))}
	off := int(seed % 5)
	cut := func(x []float64) []float64 {
		y := make([]float64, off+len(x)+8)
		for i := range y {
			y[i] = 1.25e77
		}
		return y[off : off+copy(y[off:], x) : len(y)]
	}
	intact := func(x []float64) []float64 {
		for _, v := range x[len(x):cap(x)] {
			if v != 1.25e77 {
				t.Fatal("a kernel wrote beyond its slice")
			}
		}
		return x
	}
	oct := func(x []float64) *[Eight]float64 { return (*[Eight]float64)(x) }
	ld := Padded(d)

	a, x, hat, k := cut(r.slice(d*d*Eight)), cut(r.slice(d*Eight)), cut(r.slice(d*Eight)), cut(r.slice(d*Eight))
	for l := range Eight { // symmetric in every lane
		for i := range d {
			for j := range i {
				a[(i*d+j)*Eight+l] = a[(j*d+i)*Eight+l]
			}
		}
	}
	c, s, y, growth := r.slice(Eight), r.slice(Eight), r.slice(Eight), r.slice(Eight)
	one := func(l int) []float64 { // the matrix of a lane, rows padded
		m := make([]float64, d*ld)
		for i := range d {
			copy(m[i*ld:], lane(a[i*d*Eight:(i+1)*d*Eight], l))
		}
		return m
	}
	product := everyLevel(t, "batchMul", func() []float64 {
		dst := cut(make([]float64, d*Eight))
		batchMul(dst, a, x, d)
		return intact(dst)
	})
	both := everyLevel(t, "batchStep", func() []float64 {
		m, dst := cut(a), cut(make([]float64, d*Eight))
		batchStep(dst, m, x, d, oct(c), hat, oct(s), k)
		return append(intact(dst)[:d*Eight:d*Eight], intact(m)...)
	})
	pad := func(v []float64) []float64 { return append(v, make([]float64, ld-d)...) }
	for l := range Eight {
		dst, m := make([]float64, ld), one(l)
		mulPadded(dst, m, lane(x, l))
		sameBits(t, "batchMul", lane(product, l), dst[:d])
		rankOne(m, s[l], pad(lane(k, l)), d)
		mulPadded(dst, m, lane(x, l))
		for i, v := range lane(hat, l) {
			dst[i] = math.FMA(c[l], dst[i], v)
		}
		sameBits(t, "batchStep: product", lane(both[:d*Eight], l), dst[:d])
		for i := range d {
			sameBits(t, "batchStep: matrix", lane(both[(d+i*d)*Eight:(d+(i+1)*d)*Eight], l), m[i*ld:i*ld+d])
		}
	}

	// The first turn is one that nothing hinders: A is small and positive on its diagonal. In the second
	// some lane must be refused, or fold.
	for turn := range 2 {
		if turn == 0 {
			for i := range a {
				a[i] *= 0x1p-20
			}
			for i := range d {
				for l := range Eight {
					a[(i*d+i)*Eight+l] = 1 / (64 * float64(d))
				}
			}
			for l := range Eight {
				growth[l] = math.Abs(growth[l]) / 8
			}
		} else {
			y[seed%Eight] = []float64{math.NaN(), math.Inf(1), 0.5}[seed/8%3]
			a[seed/3%Eight] = []float64{math.NaN(), math.Inf(-1), -1e200, 1e300, 30}[seed/5%5]
			x[seed/3%Eight] = 2
			growth[seed/7%Eight] = 1.5
		}
		weighed := everyLevel(t, "batchLearn", func() []float64 {
			var q, e, s [Eight]float64
			to, theta, g := cut(k), cut(hat), cut(growth)
			bad, fold := batchLearn(to, a, x, theta, oct(y), d, oct(g), &q, &e, &s)
			for i := range q {
				if bad>>i&1 != 0 { // a NaN has many forms
					q[i], e[i], s[i] = 0, 0, 0
					for j := i; j < len(to); j += Eight {
						to[j] = 0
					}
				}
			}
			out := append(append(append([]float64{float64(bad), float64(fold)}, q[:]...), e[:]...), s[:]...)
			return append(append(append(out, intact(to)...), intact(theta)...), intact(g)...)
		})
		bad, fold := int(weighed[0]), int(weighed[1])
		if turn == 0 && bad|fold != 0 {
			t.Fatalf("batchLearn: bad %08b, fold %08b where nothing hinders", bad, fold)
		}
		rest := weighed[2+3*Eight:]
		for l := range Eight {
			kl := make([]float64, ld)
			mulPadded(kl, one(l), lane(x, l))
			kl = kl[:d]
			q, mean := Dot(lane(x, l), kl), Dot(lane(x, l), lane(hat, l))
			e := y[l] - mean
			refused := !(q >= 0) || q-q != 0 || e-e != 0
			if refused != (bad>>l&1 != 0) {
				t.Fatalf("batchLearn: q %v, e %v in lane %d, bad %08b", q, e, l, bad)
			}
			if !refused {
				sameBits(t, "batchLearn", []float64{weighed[2+l], weighed[10+l], weighed[18+l]}, []float64{q, e, 1 / (1 + q)})
				sameBits(t, "batchLearn: k", lane(rest[:d*Eight], l), kl)
				if (q > 1 || growth[l] > 1) != (fold>>l&1 != 0) {
					t.Fatalf("batchLearn: q %v, growth %v in lane %d, fold %08b", q, growth[l], l, fold)
				}
			}
			theta, g := lane(hat, l), growth[l]
			if bad|fold == 0 {
				for i, v := range kl {
					theta[i] = math.FMA(e, 1/(1+q)*v, theta[i])
				}
				g = math.FMA(1+g, q, g)
			}
			sameBits(t, "batchLearn: θ̂ and growth", append(lane(rest[d*Eight:2*d*Eight], l), rest[2*d*Eight+l]), append(theta, g))
		}
	}
	e, q := r.slice(Eight), r.slice(Eight)
	moved := everyLevel(t, "batchMove", func() []float64 {
		theta, g := cut(hat), cut(growth)
		batchMove(theta, k, d, oct(s), oct(e), oct(g), oct(q))
		return append(intact(theta)[:d*Eight:d*Eight], intact(g)...)
	})
	for l := range Eight {
		theta := lane(hat, l)
		for i, v := range lane(k, l) {
			theta[i] = math.FMA(e[l], s[l]*v, theta[i])
		}
		sameBits(t, "batchMove", lane(moved, l), append(theta, math.FMA(1+growth[l], q[l], growth[l])))
	}

	table, theta := cut(r.slice(rows*d*Eight)), cut(r.slice(d*Eight))
	if rows > 2 { // equal rows: the first wins
		copy(table[(rows-1)*d*Eight:], table[:d*Eight])
	}
	if seed%3 == 0 {
		table[seed%uint64(len(table))] = math.NaN()
	}
	var at [Eight]int
	everyLevel(t, "BatchArgMax", func() []float64 {
		if !BatchArgMax(&at, table, theta) {
			t.Fatal("BatchArgMax refuses tame numbers")
		}
		for l := range Eight {
			if want, _ := argMax(lane(table, l), lane(theta, l)); at[l] != want {
				t.Fatalf("BatchArgMax: row %d in lane %d, want %d", at[l], l, want)
			}
		}
		return nil
	})
	for _, wild := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0x1p500, -0x1p500} {
		far := cut(theta)
		far[seed%uint64(len(far))] = wild
		everyLevel(t, "BatchArgMax", func() []float64 {
			if BatchArgMax(new([Eight]int), table, far) {
				t.Fatalf("BatchArgMax accepts %v", wild)
			}
			return nil
		})
	}
	picked := everyLevel(t, "BatchPick", func() []float64 {
		dst := cut(make([]float64, d*Eight))
		BatchPick(dst, table, &at)
		return intact(dst)
	})
	for l := range Eight {
		sameBits(t, "BatchPick", lane(picked, l), lane(table[at[l]*d*Eight:(at[l]+1)*d*Eight], l))
	}

	late := int(seed % 6)
	lag, far := r.slice(late*(rows+1)*Eight), r.slice(late*(d+1)*Eight)
	member := everyLevel(t, "BatchMember", func() []float64 {
		dst := cut(make([]float64, d*Eight))
		BatchMember(dst, table, &at, lag, rows+1, far, d+1, late)
		return intact(dst)
	})
	for l := range Eight {
		want := lane(table[at[l]*d*Eight:(at[l]+1)*d*Eight], l)
		for k := range late {
			for i := range want {
				want[i] = math.FMA(lag[(k*(rows+1)+at[l])*Eight+l], far[(k*(d+1)+i)*Eight+l], want[i])
			}
		}
		sameBits(t, "BatchMember", lane(member, l), want)
	}

	square := r.slice((d + 1) * d * Eight)
	pairs := r.slice(n * (d + 1) * Eight)
	for level := cpu.Portable; level <= cpu.Best(); level++ {
		restore := cpu.Force(level)
		to, full := cut(square), cut(square)
		batchAdd(to, d, pairs, d+1, pairs, d+1, n, 1)
		BatchAdd(full, d, pairs, d+1, pairs, d+1, n)
		restore()
		intact(to)
		for i := range d + 1 {
			for j := range min(i+1, d) {
				sameBits(t, "batchAdd below the diagonal", to[(i*d+j)*Eight:(i*d+j+1)*Eight], full[(i*d+j)*Eight:(i*d+j+1)*Eight])
			}
		}
	}

	sums, u, steps := r.slice(rows*d*Eight), r.slice(n*(rows+2)*Eight), r.slice(n*(d+1)*Eight)
	added := everyLevel(t, "BatchAdd", func() []float64 {
		to := cut(sums)
		BatchAdd(to, d, u, rows+2, steps, d+1, n)
		return intact(to)
	})
	for l := range Eight {
		for j := range rows {
			want := lane(sums[j*d*Eight:(j+1)*d*Eight], l)
			for k := range n {
				for i := range want {
					want[i] = math.FMA(u[(k*(rows+2)+j)*Eight+l], steps[(k*(d+1)+i)*Eight+l], want[i])
				}
			}
			sameBits(t, "BatchAdd", lane(added[j*d*Eight:(j+1)*d*Eight], l), want)
		}
	}
}

func TestBatches(t *testing.T) {
	seed := uint64(0)
	for d := 1; d <= 19; d++ {
		for _, rows := range []int{1, 2, 3, 9} {
			seed++
			checkBatches(t, seed, d, rows, 1+int(seed*7%9))
		}
	}
	checkBatches(t, 100, 33, 5, 4)
}

func FuzzBatches(f *testing.F) {
	f.Add(uint64(1), uint8(9), uint8(4), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, d, rows, n uint8) {
		checkBatches(t, seed, 1+int(d)%40, 1+int(rows)%20, 1+int(n)%9)
	})
}

// TestRidges: eight regressions side by side against each alone, bit for bit, at every level: models
// between updates, updates without a question between, parting and going on, fewer than eight, a λ so
// small that V⁻¹ drifts, or one that is damaged, so that it is computed anew (which must happen, and in
// some lanes only), and steps that are refused.
func TestRidges(t *testing.T) {
	levels := func(f func()) {
		for l := cpu.Portable; l <= cpu.Best(); l++ {
			restore := cpu.Force(l)
			f()
			restore()
		}
	}
	for _, c := range []struct {
		d, lanes, rounds int
		lambda           float64
		narrow           bool // actions that make V ill-conditioned in the odd lanes
		drifts           bool
	}{
		{1, 8, 40, 1, false, false}, {3, 5, 300, 0.5, false, true}, {10, 8, 600, 1, false, false},
		{20, 1, 70, 5, false, false}, {6, 7, 1100, 1e-10, true, true},
	} {
		levels(func() {
			r := rand.New(rand.NewPCG(uint64(c.d), 3))
			mk := func() []*Ridge {
				out := make([]*Ridge, c.lanes)
				for l := range out {
					out[l] = NewRidge(c.d, c.lambda)
				}
				return out
			}
			alone, together := mk(), mk()
			vector := func(l int) []float64 {
				x := make([]float64, c.d)
				for i := range x {
					x[i] = r.NormFloat64()
					if c.narrow && l%2 == 1 && i > 0 {
						x[i] *= 1e-3
					}
				}
				return x
			}
			// A few steps alone first: a batch need not begin at round 1.
			for range 5 {
				for l := range alone {
					x := vector(l)
					alone[l].Update(x, 1)
					together[l].Update(x, 1)
				}
			}
			if c.d == 3 { // V⁻¹ of one lane is no longer positive definite, which its first update repairs
				for _, r := range []*Ridge{alone[2], together[2]} {
					r.pay()
					for i := range r.inv {
						r.inv[i] = -r.inv[i]
					}
				}
			}
			g := NewRidges(together)
			same := func(when string) {
				t.Helper()
				for l := range alone {
					a, b := alone[l].State(), together[l].State()
					for i := range a {
						sameBits(t, fmt.Sprintf("d=%d lane %d: vector %d of the state %s", c.d, l, i, when), b[i], a[i])
					}
					if alone[l].Rebuilt() != together[l].Rebuilt() {
						t.Fatalf("d=%d lane %d: V⁻¹ was computed anew %d times, alone %d", c.d, l, together[l].Rebuilt(), alone[l].Rebuilt())
					}
				}
			}
			s, dst := batches(c.d), batches(c.d)
			var y, shift [Eight]float64
			model := make([]float64, c.d, Padded(c.d))
			for n, k := 0, 1; n < c.rounds; n, k = n+1, (k+1)%4 {
				if n%61 == 60 { // a row that is not the next one
					g.Settle()
					k = n % 4
				}
				x := g.Steps(k)[:c.d*Eight]
				for l := range Eight {
					v, w := vector(l), vector(l)
					for i := range v {
						x[i*Eight+l], s[i*Eight+l] = v[i], w[i]
						if l >= c.lanes { // fillers copy lane 0
							x[i*Eight+l], s[i*Eight+l] = x[i*Eight], s[i*Eight]
						}
					}
					y[l], shift[l] = r.NormFloat64(), r.NormFloat64()
				}
				for range n % 3 {
					g.SolveShift(dst, s, &shift)
					for l := range alone {
						alone[l].SolveShift(model, lane(s, l), 1, shift[l])
						sameBits(t, fmt.Sprintf("d=%d round %d lane %d: a model", c.d, n, l), lane(dst, l), model)
						if g.LogDetRatio(l) != alone[l].LogDetRatio() {
							t.Fatalf("log det is %v, alone %v", g.LogDetRatio(l), alone[l].LogDetRatio())
						}
					}
				}
				if n%97 == 13 {
					good := y
					y[n%c.lanes] = math.NaN()
					if g.Update(k, &y) {
						t.Fatal("a reward that is no number was accepted")
					}
					y = good
				}
				if !g.Update(k, &y) {
					t.Fatalf("d=%d round %d: refused", c.d, n)
				}
				for l := range alone {
					if _, ok := alone[l].Update(lane(x, l), y[l]); !ok {
						t.Fatalf("d=%d round %d: refused alone", c.d, n)
					}
				}
				if n%50 == 7 {
					g.Part()
					same(fmt.Sprint("after round ", n))
				}
			}
			g.Part()
			same("at the end")
			rebuilt := 0
			for _, r := range together {
				if r.Rebuilt() > 0 {
					rebuilt++
				}
			}
			if c.drifts != (rebuilt > 0) || rebuilt == c.lanes {
				t.Errorf("d=%d: V⁻¹ was computed anew in %d of %d lanes", c.d, rebuilt, c.lanes)
			}
		})
	}
}

// TestBatchMemberRefuses: a row that is not there is refused at every level, whichever lane names it, and
// nothing is written.
func TestBatchMemberRefuses(t *testing.T) {
	table := make([]float64, 5*3*Eight)
	for level := cpu.Portable; level <= cpu.Best(); level++ {
		for l := range Eight {
			for _, row := range []int{-1, 5, math.MinInt, math.MaxInt} {
				func() {
					defer cpu.Force(level)()
					dst := []float64{0: 7, 3*Eight - 1: 7}
					var at [Eight]int
					at[l] = row
					defer func() {
						if recover() == nil || dst[0] != 7 || dst[len(dst)-1] != 7 {
							t.Errorf("%v: row %d of lane %d of a list of 5: no panic, or too late", level, row, l)
						}
					}()
					BatchPick(dst, table, &at)
				}()
			}
		}
	}
}
