package linalg

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"troupe/internal/cpu"
)

// everyLevel returns what f returns at each level of this machine; they must be the same bits.
func everyLevel(t *testing.T, what string, f func() []float64) []float64 {
	t.Helper()
	var first []float64
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		restore := cpu.Force(l)
		got := f()
		restore()
		if l == cpu.Portable {
			first = got
			continue
		}
		for i, v := range got {
			if math.Float64bits(v) != math.Float64bits(first[i]) {
				t.Fatalf("%s: number %d is %v (%x) at %v, %v (%x) in portable Go", what, i,
					v, math.Float64bits(v), l, first[i], math.Float64bits(first[i]))
			}
		}
	}
	return first
}

// numbers draws finite numbers of mixed size, ±0 and subnormal ones among them.
type numbers struct{ *rand.Rand }

func (r numbers) one() float64 {
	switch r.IntN(12) {
	case 0:
		return 0
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return r.NormFloat64() * 5e-324 * 100
	case 3:
		return r.NormFloat64() * 1e-160
	case 4:
		return float64(r.IntN(3) - 1)
	}
	return r.NormFloat64()
}

func (r numbers) slice(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.one()
	}
	return x
}

// checkKernels runs every kernel on random numbers of a shape. The slices are cut out of longer
// ones, at any offset, and what lies around them must survive.
func checkKernels(t *testing.T, seed uint64, d, rows, n, panels, first int) {
	r := numbers{rand.New(rand.NewPCG(seed, 1))}
	const guard = 1.25e77
	fenced := func(x []float64) []float64 { // a copy with fences around it
		off := 1 + int(seed%7)
		y := make([]float64, off+len(x)+9)
		for i := range y {
			y[i] = guard
		}
		return y[off : off+copy(y[off:], x) : len(y)]
	}
	intact := func(x []float64) []float64 {
		for _, v := range x[len(x):cap(x)] {
			if v != guard {
				t.Fatal("a kernel wrote beyond its slice")
			}
		}
		return x
	}

	a, b := fenced(r.slice(d)), fenced(r.slice(d))
	everyLevel(t, "Dot", func() []float64 { return []float64{Dot(a, b)} })

	ld := Padded(d)
	v, k := make([]float64, d*ld), make([]float64, ld)
	for i := range d {
		k[i] = r.one()
		for j := range i + 1 {
			v[i*ld+j] = r.one()
			v[j*ld+i] = v[i*ld+j]
		}
	}
	sym := fenced(v)
	dots := everyLevel(t, "mulPadded", func() []float64 {
		dst := fenced(make([]float64, ld))
		mulPadded(dst, sym, a)
		return intact(dst)
	})
	for i := range d {
		sameBits(t, "mulPadded against Dot", dots[i:i+1], []float64{Dot(sym[i*ld:i*ld+d], a)})
	}
	hat := make([]float64, ld)
	copy(hat, r.slice(d))
	sum := everyLevel(t, "rankOne", func() []float64 {
		m := fenced(v)
		rankOne(m, 0.3, k, d)
		return intact(m)
	})
	// A Ridge with such an inverse and θ̂, everything behind fences; in turns, the lower triangle serves.
	defer func(old int) { halfDim = old }(halfDim)
	halfDim = 1 + 1000*int(seed%2)
	var below []float64 // inv and the rows of zeros that its kernels may read
	ridge := func(held int) *Ridge {
		x := newWhole(d, 1)
		x.queue()
		below = fenced(append(slices.Clone(v), make([]float64, (ld-d)*ld)...))
		x.inv = below[: d*ld : d*ld]
		x.k, x.theta, x.gain, x.wait = fenced(k), fenced(hat), fenced(x.gain), fenced(x.wait)
		if x.tile != nil {
			x.tile = fenced(x.tile)
		}
		x.point()
		x.core.held, x.core.s = held, 0.3
		return x
	}
	state := func(x *Ridge, more ...float64) []float64 {
		if x.half {
			x.fillUpper()
		}
		for _, v := range intact(below)[d*ld:] {
			if v != 0 {
				t.Fatal("a kernel wrote into the rows of zeros")
			}
		}
		for _, y := range [][]float64{x.inv, x.k, x.theta, x.gain, x.wait, x.tile} {
			intact(y)
			more = append(more, y...)
		}
		return more
	}
	for _, step := range []int{1, 8} {
		far := fenced(make([]float64, (d-1)*step+1))
		for i := range d {
			far[i*step] = a[i]
		}
		for _, owed := range []bool{false, true} {
			m := v
			if owed {
				m = sum
			}
			got := everyLevel(t, "SolveShift", func() []float64 {
				x, dst := ridge(0), fenced(make([]float64, ld))
				x.owed = owed
				x.SolveShift(dst[:d], far, step, -0.7)
				return state(x, intact(dst)...)
			})
			for i := range d {
				sameBits(t, "SolveShift against Dot", got[i:i+1], []float64{math.FMA(-0.7, Dot(m[i*ld:i*ld+d], a), hat[i])})
			}
			sameBits(t, "SolveShift against rankOne", got[ld:ld+d*ld], m)
		}
	}
	// learn is what its parts are: the order of sums of Dot, and one multiply-add.
	for i, y := range []float64{0.7, math.Inf(1), math.NaN()} {
		held := int((seed + 31*uint64(i)) % waiting)
		got := everyLevel(t, "learn", func() []float64 {
			x := ridge(held)
			s, q := x.learn(a, y)
			return state(x, s, q)
		})
		q, want := Dot(a, dots[:d]), ridge(held)
		copy(want.k, dots)
		copy(want.wait[held*d:], a)
		if want.tile != nil {
			copy(want.tile[held*Members:], a)
		}
		s := 0.0
		if e := y - Dot(a, hat[:d]); q >= 0 && q-q == 0 && e-e == 0 {
			s = 1 / (1 + q)
			for i, v := range dots {
				want.gain[i] = s * v
				want.theta[i] = math.FMA(e, s*v, hat[i])
			}
		}
		sameBits(t, fmt.Sprintf("learn, q = %v, y = %v", q, y), got, state(want, s, q))
	}
	for i := range d {
		for j := range ld {
			if j < d && sum[i*ld+j] != sum[j*ld+i] || j >= d && sum[i*ld+j] != 0 {
				t.Fatalf("rankOne: entry (%d, %d) is not symmetric, or padding is not 0", i, j)
			}
		}
	}

	x := r.slice(rows * d)
	if rows > 2 && d > 0 { // equal rows: the first must win
		copy(x[(rows-1)*d:], x[:d])
		copy(x[rows/2*d:rows/2*d+d], x[:d])
	}
	list := fenced(x)
	everyLevel(t, "ArgMax", func() []float64 {
		at, value := ArgMax(list, a)
		return []float64{float64(at), value}
	})

	want := everyLevel(t, "ArgMax", func() []float64 {
		at, value := ArgMax(list, a)
		return []float64{float64(at), value}
	})
	if arms := NewArms(list, d); arms != nil {
		sameBits(t, "Arms against ArgMax", everyLevel(t, "Arms", func() []float64 {
			dst := fenced(make([]float64, d))
			at, value := arms.ArgMax(dst, a, 1e9)
			return slices.Concat([]float64{float64(at), value}, intact(dst)[:d])
		}), slices.Concat(want, list[int(want[0])*d:int(want[0])*d+d]))
		at, value := arms.rough(a)
		sameBits(t, "rough scores against ArgMax", []float64{float64(at), value}, want)
		for _, bad := range []float64{math.NaN(), math.Inf(-1), math.Nextafter(1e9, 2e9)} {
			theta := slices.Clone(a)
			theta[int(seed%uint64(d))] = bad
			everyLevel(t, "Arms of a bad theta", func() []float64 {
				dst := fenced(make([]float64, d))
				if at, _ := arms.ArgMax(dst, fenced(theta)[:d], 1e9); at != -1 {
					t.Fatalf("theta[%d] = %v is taken at %v", seed%uint64(d), bad, cpu.Kernels())
				}
				sameBits(t, "dst of a bad theta", intact(dst), make([]float64, d))
				return nil
			})
		}
	}

	s, u := r.slice(panels*8*d), fenced(r.slice(panels*8))
	everyLevel(t, "AddPanels", func() []float64 {
		s := fenced(s)
		AddPanels(s, u, a)
		return intact(s)
	})

	tile, ut, xt := r.slice(Members*d), fenced(r.slice(n*Members)), fenced(r.slice(n*d))
	want = everyLevel(t, "AddTile", func() []float64 {
		s := fenced(tile)
		AddTile(s, ut, xt, d)
		return intact(s)
	})
	// The same one step after the other, as AddPanels does, and one member after the other, as
	// AddSteps does: bit for bit.
	steps := slices.Clone(tile)
	for k := range n {
		AddPanels(steps, ut[k*Members:(k+1)*Members], xt[k*d:(k+1)*d])
	}
	sameBits(t, "AddPanels against AddTile", steps, want)
	if n <= 64-first {
		for j := range Members {
			row, one := make([]float64, d), make([]float64, d)
			for i := range d {
				row[i], one[i] = tile[(j/8*d+i)*8+j%8], want[(j/8*d+i)*8+j%8]
			}
			var uj [64]float64
			for k := range n {
				uj[(first+k)%4*16+(first+k)/4] = ut[k*Members+j]
			}
			got := everyLevel(t, "AddSteps", func() []float64 {
				row := fenced(row)
				AddSteps(row, &uj, first, xt)
				return intact(row)
			})
			sameBits(t, "AddSteps against AddTile", got, one)
		}
	}
}

func sameBits(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestKernels goes through the shapes around every block of the kernels.
func TestKernels(t *testing.T) {
	seed := uint64(1)
	for d := 1; d <= 40; d++ {
		for _, rows := range []int{1, 3, 4, 7, 8, 9, 15, 16, 17, 30} {
			checkKernels(t, seed, d, rows, (rows*7+d)%65, d%4, (d*5)%64)
			seed++
		}
	}
	for _, d := range []int{63, 64, 65, 96, 100, 129} {
		checkKernels(t, seed, d, 21, 64, 3, 0)
		seed++
	}
}

// FuzzKernels looks for a shape or numbers at which two levels differ.
func FuzzKernels(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, 13)...)
		seed := binary.LittleEndian.Uint64(b)
		checkKernels(t, seed, 1+int(b[8]%70), 1+int(b[9]%50), int(b[10]%65), int(b[11]%6), int(b[12]%64))
	})
}

// TestDotIsRight: the order of sums is free, the value is not. Against exact rational arithmetic the
// error is at most (d/8 + 4) roundings of Σ|a_i b_i|.
func TestDotIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for d := range 70 {
		a, b := make([]float64, d), make([]float64, d)
		sum, size := new(big.Float).SetPrec(2000), 0.0
		for i := range d {
			a[i], b[i] = r.NormFloat64(), r.NormFloat64()
			x := new(big.Float).SetPrec(200).SetFloat64(a[i])
			sum.Add(sum, x.Mul(x, new(big.Float).SetFloat64(b[i])))
			size += math.Abs(a[i] * b[i])
		}
		got := everyLevel(t, "Dot", func() []float64 { return []float64{Dot(a, b)} })[0]
		want, _ := sum.Float64()
		if limit := float64(d/8+5) * 0x1p-53 * size; math.Abs(got-want) > limit {
			t.Errorf("d = %d: %v, want %v ± %g", d, got, want, limit)
		}
	}
}

// TestNoNegativeZero: a sum over features that underflows to −0 is 0, so that padding with zeros
// changes no bit.
func TestNoNegativeZero(t *testing.T) {
	for d := 1; d < 20; d++ {
		a, b, m := make([]float64, d), make([]float64, d), make([]float64, d*Padded(d))
		for i := range a {
			a[i], b[i] = 1e-200, -1e-200
			for j := range d {
				m[i*Padded(d)+j] = -1e-200
			}
		}
		got := everyLevel(t, "sums that underflow", func() []float64 {
			dst := make([]float64, Padded(d))
			mulPadded(dst, m, a)
			_, value := ArgMax(b, a)
			return append(dst, Dot(a, b), value)
		})
		sameBits(t, "sums that underflow", got, make([]float64, Padded(d)+2))
	}
}

// TestArgMax: the definition, with NaN, infinities and ties between every two rows.
func TestArgMax(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		scores []float64
		at     int
		value  float64
	}{
		{[]float64{1, 2, 3, 3, 2, 1, 3, 3, 3}, 2, 3},
		{[]float64{nan, -1, nan, -2, nan, nan, nan, nan, nan, -1}, 1, -1},
		{[]float64{nan, nan, nan, nan, nan, nan, nan, nan, nan}, 0, -inf},
		{[]float64{-inf, -inf, -5, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -5}, 2, -5},
		{[]float64{-1, math.Copysign(0, -1), 0, 0, 0, 0, 0, 0, 0}, 1, 0},
		{[]float64{0, 0, 0, 0, 0, 0, inf, 0, 0, 0, 0, 0, 0, inf}, 6, inf},
	} {
		got := everyLevel(t, "ArgMax", func() []float64 {
			at, v := ArgMax(c.scores, []float64{1})
			return []float64{float64(at), v}
		})
		sameBits(t, fmt.Sprint("ArgMax of ", c.scores), got, []float64{float64(c.at), c.value})
		for more := range 25 { // one block and several
			list := append(slices.Repeat([]float64{nan}, more), c.scores...)
			arms := NewArms(list, 1)
			if arms == nil {
				continue
			}
			everyLevel(t, "Arms", func() []float64 {
				want, value := ArgMax(list, []float64{1})
				at, v := arms.ArgMax([]float64{0}, []float64{1}, 1)
				sameBits(t, fmt.Sprint("Arms of ", list), []float64{float64(at), v}, []float64{float64(want), value})
				return []float64{float64(at), v}
			})
		}
	}
	for rows := 1; rows < 40; rows++ {
		x := make([]float64, rows)
		for i := range rows {
			for j := i; j < rows; j++ {
				clear(x)
				x[i], x[j] = 1, 1
				got := everyLevel(t, "ArgMax", func() []float64 {
					at, v := ArgMax(x, []float64{2})
					return []float64{float64(at), v}
				})
				if arms := NewArms(x, 1); arms != nil {
					sameBits(t, "Arms", everyLevel(t, "Arms", func() []float64 {
						at, v := arms.ArgMax([]float64{0}, []float64{2}, 2)
						return []float64{float64(at), v}
					}), got)
				}
				if got[0] != float64(i) || got[1] != 2 {
					t.Fatalf("%d rows, ties at %d and %d: row %v, value %v", rows, i, j, got[0], got[1])
				}
			}
		}
	}
}

// TestLeads: the leads of every level are the same bits, and against sorting they are right up to the
// resolution, with ties; the scores after a step are right bit for bit.
func TestLeads(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	const panels = 3
	for arms := 1; arms < 40; arms++ {
		p, base, w := make([]float64, 8*arms*panels), make([]float64, arms), make([]float64, arms)
		u, played := make([]float64, 8*panels), r.IntN(arms)
		for i := range p {
			p[i] = float64(r.IntN(5)) - 2
		}
		for i := range base {
			base[i], w[i] = float64(r.IntN(3))-1, r.NormFloat64()*float64(i%2)
		}
		for i := range u {
			u[i] = r.NormFloat64()
		}
		for _, step := range []bool{false, true} {
			var l [panels]Leads
			flat := func() []float64 {
				var out []float64
				for n := range l {
					for k := range 2 {
						for i := range 8 {
							out = append(out, l[n].First[k][i], l[n].Second[k][i], float64(l[n].Arm(l[n].First[k][i])))
						}
					}
				}
				return out
			}
			var moved []float64
			got := everyLevel(t, "Leads", func() []float64 {
				l = [panels]Leads{}
				q := slices.Clone(p)
				if step {
					StepLeads(l[:], q, w, u, played, base, 0.5)
				} else {
					FindLeads(l[:], q, base, 0.5)
				}
				moved = q
				return append(flat(), q...)
			})
			for j := range 8 * panels {
				panel, i := j/8*8*arms, j%8
				for k, sign := range []float64{0.5, -0.5} {
					values := make([]float64, arms)
					for a := range arms {
						v := p[panel+8*a+i]
						if step {
							v = math.FMA(w[a], u[j]-p[panel+8*played+i], v)
						}
						if math.Float64bits(v) != math.Float64bits(moved[panel+8*a+i]) {
							t.Fatalf("%d arms: score (%d, %d) is %v, want %v", arms, a, j, moved[panel+8*a+i], v)
						}
						values[a] = math.FMA(sign, v, base[a])
					}
					slices.SortFunc(values, func(a, b float64) int { return cmp.Compare(b, a) })
					lead := got[3*(16*(j/8)+8*k+i):][:3]
					off := Resolution(arms) * (3 + math.Abs(values[0]) + math.Abs(values[min(1, arms-1)]))
					arm := int(lead[2])
					v := math.FMA(sign, moved[panel+8*arm+i], base[arm])
					if math.Abs(lead[0]-values[0]) > off || math.Abs(v-values[0]) > off || arms > 1 && math.Abs(lead[1]-values[1]) > off {
						t.Fatalf("%d arms, member %d, sign %v: %v of value %v, want the first of %v", arms, j, sign, lead, v, values)
					}
				}
			}
		}
	}
}

// checkPrefilter compares a prefilter, and the whole scores of portable Go, with ArgMax on rows of which many are
// nearly or exactly the best.
func checkPrefilter(t *testing.T, seed uint64, d, rows int) {
	r := rand.New(rand.NewPCG(seed, 3))
	theta := make([]float64, d)
	for i := range theta {
		theta[i] = r.NormFloat64()
	}
	x := make([]float64, rows*d)
	size := math.Ldexp(1, r.IntN(500)-250)
	near := 2e-5
	if seed%2 == 0 {
		near = 4e-8
	}
	for i := range rows {
		row := x[i*d : i*d+d]
		switch kind := r.IntN(6); {
		case seed%7 == 2: // the smallest score that there is, then the largest
			for j := range row {
				row[j] = math.Copysign(theta[j]*size, float64(i)-53.5) * math.Copysign(1, theta[j])
			}
		case seed%5 == 1: // all nearly parallel to theta, apart by less than the rounding of a prefilter
			for j := range row {
				row[j] = theta[j] * (1 + r.NormFloat64()*near) * size
			}
		case kind == 0 && i > 0: // the same, or differing by little
			copy(row, x[r.IntN(i)*d:][:d])
			row[r.IntN(d)] *= 1 + float64(r.IntN(3))*0x1p-50
		case kind == 1 && i > 0:
			copy(row, x[r.IntN(i)*d:][:d])
			row[r.IntN(d)] *= 1 + r.NormFloat64()*1e-7
		default:
			for j := range row {
				row[j] = r.NormFloat64() * size
			}
			if seed%3 == 0 && Dot(row, theta) > 0 { // all scores negative
				for j := range row {
					row[j] = -row[j]
				}
			}
		}
	}
	stretch := math.Ldexp(1, r.IntN(300)-150)
	for i := range theta {
		theta[i] *= stretch
	}
	arms := &Arms{x: x, d: d}
	for i := 0; i < len(x); i += d {
		arms.radius = max(arms.radius, Norm(x[i:i+d]))
	}
	if arms.pack(); arms.words == nil {
		t.Fatalf("no words for %d rows of %d numbers of size %v", rows, d, size)
	}
	wantAt, want := ArgMax(x, theta)
	if at, got := arms.packed(theta, make([]float64, d)); at != wantAt || math.Float64bits(got) != math.Float64bits(want) {
		t.Fatalf("words: %d rows, d = %d, seed %d: row %d with %v, ArgMax says %d with %v", rows, d, seed, at, got, wantAt, want)
	}
	for l := cpu.AVX2; l <= cpu.Best(); l++ {
		restore := cpu.Force(l)
		s := NewPrefilter(x, d)
		if s == nil {
			t.Fatalf("no prefilter for %d rows of %d numbers of size %v", rows, d, size)
		}
		at, got, ok := s.ArgMax(theta)
		restore()
		if !ok || at != wantAt || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%v: %d rows, d = %d, seed %d: row %d with %v, ArgMax says %d with %v", l, rows, d, seed, at, got, wantAt, want)
		}
	}
}

// TestDivide: every level divides as Go does, zeros, subnormals, infinities and NaN included.
func TestDivide(t *testing.T) {
	r := numbers{rand.New(rand.NewPCG(21, 4))}
	special := []float64{0, math.Copysign(0, -1), 5e-324, 1e-310, math.MaxFloat64, math.Inf(1), math.NaN()}
	for n := range 40 {
		x := make([]float64, n+2)
		for i := range x {
			x[i] = r.NormFloat64() * math.Ldexp(1, r.IntN(200)-100)
			if r.IntN(8) == 0 {
				x[i] = special[r.IntN(len(special))]
			}
		}
		by := r.NormFloat64()
		everyLevel(t, fmt.Sprintf("Divide, %d numbers", n), func() []float64 {
			got := slices.Clone(x)
			Divide(got[1:n+1], by)
			for i, v := range x {
				want := v
				if i > 0 && i <= n {
					want /= by
				}
				if math.Float64bits(got[i]) != math.Float64bits(want) && !(math.IsNaN(got[i]) && math.IsNaN(want)) {
					t.Fatalf("%v of %d by %v is %v, want %v", x[i], n, by, got[i], want)
				}
			}
			return nil
		})
	}
}

// TestRough: nearly parallel rows, whose scores differ by roundings, and products that underflow, are
// where a rough score misleads; the answer is that of ArgMax. With a slack of 0 this test fails.
func TestRough(t *testing.T) {
	r := numbers{rand.New(rand.NewPCG(12, 12))}
	for k := range 3000 {
		d, rows := 1+k%70, 1+r.IntN(40)
		size := math.Ldexp(1, -(k%3)*520)
		one, theta, x := make([]float64, d), make([]float64, d), make([]float64, 0, rows*d)
		for i := range d {
			one[i], theta[i] = r.NormFloat64(), r.NormFloat64()*size
		}
		for range rows {
			for _, v := range one {
				x = append(x, v*(1+float64(r.IntN(5)-2)*0x1p-52)*size)
			}
		}
		everyLevel(t, "rough", func() []float64 {
			arms := &Arms{x: x, d: d}
			for i := 0; i < len(x); i += d {
				arms.radius = max(arms.radius, Norm(x[i:i+d]))
			}
			at, value := arms.rough(theta)
			wantAt, want := ArgMax(x, theta)
			sameBits(t, fmt.Sprintf("rough, d = %d, %d rows, size %g", d, rows, size), []float64{float64(at), value}, []float64{float64(wantAt), want})
			return nil
		})
	}
}

// TestWords: the whole scores are what whole numbers give, also where they are as large as they can be, and the
// bound of their error holds and is nearly reached.
func TestWords(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	closest := 0.0
	for k := range 400 {
		d, rows := 1+k%prefilterDim, packRows*packWords
		theta, x := make([]float64, d), make([]float64, rows*d)
		for j := range theta {
			theta[j] = r.NormFloat64()
			if k%4 == 1 {
				theta[j] = 1
			}
		}
		for i := range rows {
			for j := range d {
				switch x[i*d+j] = theta[j]; {
				case i%3 == 1:
					x[i*d+j] = -theta[j]
				case i%5 == 4:
					x[i*d+j] = r.NormFloat64()
				}
			}
		}
		a := &Arms{x: x, d: d}
		for i := range rows {
			a.radius = max(a.radius, Norm(x[i*d:i*d+d]))
		}
		a.pack()
		e := packSize(d) / Norm(theta)
		whole := make([]float64, d)
		var size float64
		for j, v := range theta {
			whole[j] = math.RoundToEven(v * e)
			size += math.Abs(whole[j])
		}
		var sums [packWords]int64
		if !pack6(&sums, a.words, whole, 2*packTop*packOnes-1) {
			t.Fatal("a bias that sets every top bit is not seen")
		}
		for i := range rows {
			var want int64
			var exact float64
			for j, v := range x[i*d : i*d+d] {
				want += int64(math.RoundToEven(v*a.scale)) * int64(whole[j])
				exact += v * a.scale * theta[j] * e
			}
			w := sums[i/packRows]
			for range i % packRows {
				w = (w - w<<(64-packBits)>>(64-packBits)) >> packBits
			}
			if got := w << (64 - packBits) >> (64 - packBits); got != want || want <= packLeast || want >= -packLeast {
				t.Fatalf("d = %d, row %d: %d, whole numbers give %d", d, i, got, want)
			}
			part := math.Abs(float64(want)-exact) / ((a.spread + size) / 2)
			if part > 1 {
				t.Fatalf("d = %d, row %d: the error is %v of its bound", d, i, part)
			}
			closest = max(closest, part)
		}
	}
	if closest < 0.3 {
		t.Errorf("no error was above %v of its bound: the test is too easy", closest)
	}
}

// TestWordsOfEqualRows: rows of equal products and different whole scores; the first is the answer.
func TestWordsOfEqualRows(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 200 {
		rows := 1 + r.IntN(50)
		x := make([]float64, 0, 2*rows)
		for range rows {
			v := math.Ldexp(float64(r.IntN(1<<20)), -20)
			x = append(x, v, 2-v)
		}
		a := &Arms{x: x, d: 2, radius: 2.5}
		a.pack()
		if at, v := a.packed([]float64{3, 3}, make([]float64, 2)); at != 0 || v != 6 {
			t.Fatalf("%d rows: row %d with %v, expected the first with 6", rows, at, v)
		}
	}
}

// TestPrefilter goes through shapes around the blocks of 64 rows and pairs of features.
func TestPrefilter(t *testing.T) {
	seed := uint64(0)
	for d := 1; d < 30; d += 1 + d/9 {
		for _, rows := range []int{1, 2, 7, 63, 64, 65, 128, 130, 300} {
			for range 5 {
				checkPrefilter(t, seed, d, rows)
				seed++
			}
		}
	}
	for k, rows := range []int{1023, 1024, 1025, 1088, 1089, 2100, 3000} { // more than one call of the kernel
		for d := range uint64(6) {
			checkPrefilter(t, seed+8*uint64(k)+d, 1+int(d*d), rows)
		}
	}
	checkPrefilter(t, seed, 512, 70)
	for k := range uint64(2000) { // nearly parallel rows, where the bound is nearly reached
		checkPrefilter(t, 5*k+1, 1+int(k%3), 150)
	}

	x := []float64{0, 0, 0, 0}
	if NewPrefilter(x, 2) != nil {
		t.Error("a prefilter of zeros")
	}
	if NewPrefilter(make([]float64, 1026), 513) != nil {
		t.Error("a prefilter of dimension 513")
	}
	defer cpu.Force(cpu.Portable)()
	if NewPrefilter([]float64{1, 2}, 2) != nil {
		t.Error("a prefilter in portable Go")
	}
}

// TestPrefilterStack: the kernel of a prefilter has 5 KiB on the stack, more than a goroutine begins with. It is asked
// from many new ones at many depths, while the collector walks through their stacks; a stack that is not
// understood there ends the program.
func TestPrefilterStack(t *testing.T) {
	const d, rows = 20, 200
	r := numbers{rand.New(rand.NewPCG(8, 9))}
	x, theta := r.slice(rows*d), r.slice(d)
	s := NewPrefilter(x, d)
	if s == nil {
		t.Skip("there is no prefilter in portable Go")
	}
	wantAt, want := ArgMax(x, theta)
	var deep func(n int)
	deep = func(n int) {
		if n > 0 {
			deep(n - 1)
			return
		}
		if at, value, ok := s.ArgMax(theta); !ok || at != wantAt || value != want {
			t.Errorf("row %d with %v, ArgMax says %d with %v", at, value, wantAt, want)
		}
	}
	done := make(chan struct{})
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range 10 {
		var all sync.WaitGroup
		for k := range 200 {
			all.Go(func() { deep(k) })
		}
		all.Wait()
	}
	close(done)
	<-collected
}

// FuzzPrefilter looks for rows on which a prefilter differs from ArgMax.
func FuzzPrefilter(f *testing.F) {
	f.Add(uint64(1), uint8(10), uint16(100))
	f.Fuzz(func(t *testing.T, seed uint64, d uint8, rows uint16) {
		checkPrefilter(t, seed, 1+int(d%80), 1+int(rows%1500))
	})
}

// TestGenerated runs the generator again and compares. It needs avo from the module proxy or cache.
func TestGenerated(t *testing.T) { generated(t, "linalg", "kernels_amd64.s") }

func generated(t *testing.T, which, file string) {
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".", which)
	cmd.Dir = "../gen"
	cmd.Env = append(os.Environ(), "GOARCH=", "GOOS=") // of the machine that compiles, whatever this test was built for
	var stderr strings.Builder
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil {
		if strings.Contains(stderr.String(), "github.com/mmcloughlin/avo") {
			t.Skip("avo is neither cached nor available through the module proxy:", stderr.String())
		}
		t.Fatal(err, stderr.String())
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what internal/gen writes: run go run . %s > ../linalg/%[1]s there", file, which)
	}
}

// BenchmarkKernels measures every kernel of this package at every level; GF counts a multiply-add as two.
func BenchmarkKernels(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64() * 1e-3
		}
		return x
	}
	run := func(name string, flops int, f func()) {
		for l := cpu.Portable; l <= cpu.Best(); l++ {
			b.Run(name+"/"+l.String(), func(b *testing.B) {
				defer cpu.Force(l)()
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(flops)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GF")
			})
		}
	}
	for _, d := range []int{10, 20, 50, 100} {
		x, y, m, k := fill(d), fill(Padded(d))[:d], make([]float64, d*Padded(d)), make([]float64, Padded(d))
		run(fmt.Sprint("Dot/d=", d), 2*d, func() { Dot(x, y) })
		run(fmt.Sprint("mulPadded/d=", d), 2*d*d, func() { mulPadded(k, m, x) })
		ridge, far := newWhole(d, 1), fill(8*d)
		run(fmt.Sprint("learn/d=", d), 2*d*d, func() { ridge.learn(x, 0.5) })
		run(fmt.Sprint("SolveShift/settled/d=", d), 2*d*d, func() { ridge.SolveShift(y, x, 1, 1) })
		run(fmt.Sprint("SolveShift/d=", d), 5*d*d, func() {
			ridge.core.s, ridge.owed = 1e-9, true
			ridge.SolveShift(y, far, 8, 1)
		})
		run(fmt.Sprint("rankOne/d=", d), 3*d*d, func() { rankOne(m, 1e-9, k, d) })
		work, full, least := make([]float64, GaussianWork(d)), make([]float64, len(m)), make([]float64, d)
		for i := range d {
			full[i*(Padded(d)+1)] = 1 + float64(i)
		}
		run(fmt.Sprint("AddGaussian/d=", d), d*d*d/2, func() {
			copy(m, full)
			clear(y)
			AddGaussian(y, m, least, x, work)
		})
		s, u, xs := fill(Members*d), fill(64*Members), fill(64*d)
		run(fmt.Sprint("AddTile/d=", d), 2*64*Members*d, func() { AddTile(s, u, xs, d) })
		var one [64]float64
		run(fmt.Sprint("AddSteps/d=", d), 2*64*d, func() { AddSteps(x, &one, 0, xs) })
	}
	for _, c := range []struct{ rows, d int }{{10, 10}, {100, 20}, {100, 100}, {1000, 50}} {
		x, theta := fill(c.rows*c.d), fill(c.d)
		run(fmt.Sprintf("ArgMax/%dx%d", c.rows, c.d), 2*c.rows*c.d, func() { ArgMax(x, theta) })
		if a, dst := NewArms(x, c.d), make([]float64, c.d); a != nil {
			run(fmt.Sprintf("Arms/%dx%d", c.rows, c.d), 2*c.rows*c.d, func() { a.ArgMax(dst, theta, 1e9) })
		}
		if s := NewPrefilter(x, c.d); s != nil {
			run(fmt.Sprintf("Prefilter/%dx%d", c.rows, c.d), 2*c.rows*c.d, func() { s.ArgMax(theta) })
		}
	}
	for _, c := range []struct{ m, arms int }{{24, 10}, {1000, 100}} {
		p, base, w, u := fill(8*c.arms*c.m/8), fill(c.arms), make([]float64, c.arms), fill(c.m)
		l := make([]Leads, c.m/8)
		run(fmt.Sprintf("Leads/%dx%d", c.m, c.arms), 4*c.m*c.arms, func() {
			FindLeads(l, p, base, 1)
		})
		run(fmt.Sprintf("StepLeads/%dx%d", c.m, c.arms), 6*c.m*c.arms, func() {
			StepLeads(l, p, w, u, 0, base, 1)
		})
	}
	for _, c := range []struct{ m, arms int }{{1000, 100}, {200, 1000}} { // steps and looks on lists of a tenth of the arms
		t, w, u := NewShortlist(c.arms, c.m, 2), fill(c.arms), fill((c.m+Members-1)/Members*Members)
		for pair := range (c.m + Members - 1) / Members {
			copy(t.Scores(pair), fill(Members*c.arms))
		}
		t.Restart()
		base := fill(c.arms)
		for a := range w {
			w[a] *= 1e-3
			base[a] *= 3
		}
		counts, arm := NewCounts(c.arms, c.m), 0
		var unsure [2 * LeadPanels]uint8
		run(fmt.Sprintf("Shortlist/%dx%d", c.m, c.arms), 6*c.m*c.arms, func() {
			arm = (arm + 1) % c.arms
			t.Step(w, u, arm)
			if err := t.Look(base, 1, 1e-12, 100, func(first int, leads []Leads) error {
				counts.Set(first, leads, c.m-8*first, 2, 1e-12, &unsure)
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		})
	}
	for _, c := range []struct{ m, d int }{{24, 10}, {104, 20}} {
		s, u, x := fill(c.m*c.d), fill(c.m), fill(c.d)
		run(fmt.Sprintf("AddPanels/%dx%d", c.m, c.d), 2*c.m*c.d, func() { AddPanels(s, u, x) })
	}
	for _, c := range []struct{ d, arms, m int }{{10, 10, 20}, {20, 100, 50}} { // eight replications each
		ridges := make([]*Ridge, Eight)
		for l := range ridges {
			ridges[l] = newWhole(c.d, 1)
		}
		g, size := NewRidges(ridges), Eight*c.d
		x, theta, s, arms, u := fill(size), fill(size), fill(size), fill(c.arms*size), fill(4*c.m*Eight)
		var y [Eight]float64
		var at [Eight]int
		members := fill(c.m * size)
		for k := range 4 {
			copy(g.Steps(k), x)
		}
		k := 0
		run(fmt.Sprint("Ridges/Update/d=", c.d), 2*Eight*c.d*c.d, func() { g.Update(k, &y); k = (k + 1) % 4 })
		run(fmt.Sprint("Ridges/UpdateSolve/d=", c.d), 7*Eight*c.d*c.d, func() {
			g.Update(k, &y)
			k = (k + 1) % 4
			g.SolveShift(theta, s, &y)
		})
		run(fmt.Sprintf("BatchArgMax/%dx%d", c.arms, c.d), 2*Eight*c.arms*c.d, func() { BatchArgMax(&at, arms, theta) })
		run(fmt.Sprintf("BatchPick/%dx%d", c.arms, c.d), Eight*c.d, func() { BatchPick(x, arms, &at) })
		run(fmt.Sprintf("BatchAdd/%dx%d", c.m, c.d), 2*4*Eight*c.m*c.d, func() { BatchAdd(members, c.d, u, c.m, arms, c.d, 4) })
	}
}
