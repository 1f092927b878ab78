package rng

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestThreefryKnownAnswers holds the block function against Random123's kat_vectors for
// threefry4x32 with 20 rounds.
func TestThreefryKnownAnswers(t *testing.T) {
	const f = 0xffffffff
	for _, c := range []struct{ ctr, key, want [4]uint32 }{
		{
			[4]uint32{}, [4]uint32{},
			[4]uint32{0x9c6ca96a, 0xe17eae66, 0xfc10ecd4, 0x5256a7d8},
		},
		{
			[4]uint32{f, f, f, f}, [4]uint32{f, f, f, f},
			[4]uint32{0x2a881696, 0x57012287, 0xf6c7446e, 0xa16a6732},
		},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89},
			[4]uint32{0x59cd1dbb, 0xb8879579, 0x86b5d00c, 0xac8b6d84},
		},
	} {
		if got := Threefry4x32(c.key, c.ctr); got != c.want {
			t.Errorf("Threefry4x32(%x, %x) = %x, want %x", c.key, c.ctr, got, c.want)
		}
	}
}

// TestLayout pins the counters of both layouts to the package comment: stored experiments depend
// on them.
func TestLayout(t *testing.T) {
	k := NewKey(0x0123456789abcdef)
	if k != (Key{0x89abcdef, 0x01234567, 0, 0}) {
		t.Fatalf("NewKey = %x", k)
	}
	for _, round := range []uint64{0, 1, 2, 3, 4, 1<<34 + 5, math.MaxUint64} {
		s := k.Stream(Perturb).Round(round)
		col := Threefry4x32(k, [4]uint32{7, uint32(round >> 2), uint32(Perturb), uint32(round >> 34)})
		if got := s.Word(7); got != col[round%4] {
			t.Errorf("round %d: Word = %x, want %x", round, got, col[round%4])
		}
		row := Threefry4x32(k, [4]uint32{3, uint32(round), uint32(Perturb) | 1<<31, uint32(round >> 32)})
		if got, want := s.Uint64(7), uint64(row[2])|uint64(row[3])<<32; got != want {
			t.Errorf("round %d: Uint64 = %x, want %x", round, got, want)
		}
	}
}

// TestColumns compares the cache with random access, in and out of order.
func TestColumns(t *testing.T) {
	st := NewKey(5).Stream(Perturb)
	var c Columns
	for _, x := range []struct {
		round uint64
		m     int
	}{{1, 3}, {2, 3}, {3, 3}, {4, 3}, {1, 3}, {1, 9}, {2, 5}, {1 << 40, 9}} {
		for name, s := range map[string]Source{"a": st.Round(x.round), "b": st.Sub(1).Round(x.round)} {
			words := c.Words(s, x.m)
			if len(words) != x.m {
				t.Fatalf("%d words, want %d", len(words), x.m)
			}
			for j, w := range words {
				if want := s.Word(uint32(j)); w != want {
					t.Fatalf("%s round %d member %d: %x, want %x", name, x.round, j, w, want)
				}
			}
		}
	}
}

// TestStreamsDiffer: no two of many (key, role, round, index) share a 64-bit number. By the birthday
// bound a false alarm has probability below n²/2⁶⁵ < 1e-9 for n = 2·10⁵.
func TestStreamsDiffer(t *testing.T) {
	seen := make(map[uint64]bool)
	add := func(v uint64) {
		if seen[v] {
			t.Fatalf("number %x twice", v)
		}
		seen[v] = true
	}
	root := NewKey(1)
	keys := []Key{root, root.At(0), root.At(1), root.At(1 << 32), root.Child(""), root.Child("a"),
		root.Child("b"), root.Child("a\x00"), root.Child("abcdefgh"), root.Child("abcdefghi"), NewKey(2)}
	for _, k := range keys {
		for r := Instance; r <= Resample; r++ {
			for round := range uint64(40) {
				for i := range 40 {
					add(k.Stream(r).Round(round).Uint64(i))
				}
			}
		}
	}
}

// TestUniformLaws is a Kolmogorov–Smirnov test of each continuous law at n = 10⁵. The critical value
// is the Dvoretzky–Kiefer–Wolfowitz bound √(log(2/α)/(2n)) with α = 1e-9; a shift of the mean by
// 1 % of the standard deviation of the uniform law is caught.
func TestLaws(t *testing.T) {
	const n = 100_000
	limit := math.Sqrt(math.Log(2/1e-9) / (2 * n))
	phi := distuv.UnitNormal.CDF
	st := NewKey(99).Stream(Reward)
	for name, c := range map[string]struct {
		draw func(i int) float64
		cdf  func(float64) float64
	}{
		"Float64, over indices": {func(i int) float64 { return st.Round(1).Float64(i) }, func(x float64) float64 { return x }},
		"Float64, over rounds":  {func(i int) float64 { return st.Round(uint64(i)).Float64(0) }, func(x float64) float64 { return x }},
		"Uniform":               {func(i int) float64 { return st.Round(2).Uniform(i) }, func(x float64) float64 { return (x + 1) / 2 }},
		"Normal":                {func(i int) float64 { return st.Round(3).Normal(i) }, phi},
		"UniformWord, members":  {func(i int) float64 { return UniformWord(st.Round(4).Word(uint32(i))) }, func(x float64) float64 { return (x + 1) / 2 }},
		"UniformWord, rounds":   {func(i int) float64 { return UniformWord(st.Round(uint64(i)).Word(3)) }, func(x float64) float64 { return (x + 1) / 2 }},
		"NormalWord":            {func(i int) float64 { return NormalWord(st.Round(5).Word(uint32(i))) }, phi},
		"Rand":                  {func() func(int) float64 { r := st.Round(6).Rand(); return func(int) float64 { return r.Float64() } }(), func(x float64) float64 { return x }},
		"Sphere, d=3":           {func(i int) float64 { x := make([]float64, 3); st.Round(uint64(i)).Sphere(x, 0); return x[1] }, func(x float64) float64 { return (x + 1) / 2 }}, // Archimedes
		"Ball radius, d=3": {func(i int) float64 {
			x := make([]float64, 3)
			st.Round(uint64(i)).Ball(x, 8)
			return x[0]*x[0] + x[1]*x[1] + x[2]*x[2]
		}, func(q float64) float64 { return math.Pow(q, 1.5) }},
	} {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = c.draw(i)
		}
		slices.Sort(xs)
		var worst float64
		for i, x := range xs {
			p := c.cdf(x)
			worst = max(worst, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
		}
		if worst > limit {
			t.Errorf("%s: Kolmogorov distance %.5f, limit %.5f (level 1e-9)", name, worst, limit)
		}
	}
}

// TestIntnAndSign: counts over 10⁶ draws against Hoeffding at level 1e-9 each.
func TestIntnAndSign(t *testing.T) {
	const n = 1_000_000
	limit := math.Sqrt(n * math.Log(2/1e-9) / 2)
	count := make([]float64, 7)
	var plus float64
	for i := range n {
		s := NewKey(4).Stream(Select).Round(uint64(i))
		count[s.Intn(0, 7)]++
		plus += (s.Sign(1) + 1) / 2
	}
	for k, c := range count {
		if math.Abs(c-n/7.0) > limit {
			t.Errorf("Intn gave %d %v times of %d", k, c, n)
		}
	}
	if math.Abs(plus-n/2) > limit {
		t.Errorf("Sign gave + %v times of %d", plus, n)
	}
}

// TestWordLaws enumerates what the doc comments promise of the words' images.
func TestWordLaws(t *testing.T) {
	var sum, sq float64
	for k := range 1 << 12 { // the top 12 bits decide all but the last digits
		u := UniformWord(uint32(k)<<20 | 0x80000)
		if float64(float32(u)) != u {
			t.Fatalf("UniformWord(%x) = %v is not exact in float32", k<<20, u)
		}
		sum += u
		sq += u * u
	}
	if math.Abs(sum) > 1 || math.Abs(sq/(1<<12)-1.0/3) > 1e-6 {
		t.Errorf("mean %v, mean square %v", sum/(1<<12), sq/(1<<12))
	}
	for _, w := range []uint32{0, 1, 1 << 31, math.MaxUint32, 12345} {
		for name, f := range map[string]func(uint32) float64{"uniform": UniformWord, "normal": NormalWord, "sign": SignWord} {
			if a, b := f(w), f(^w); a != -b {
				t.Errorf("%s law is not symmetric: %v and %v", name, a, b)
			}
		}
	}
	if v := NormalWord(0); math.Abs(v+6.338) > 0.01 {
		t.Errorf("NormalWord(0) = %v", v)
	}
	if open01(0) <= 0 || open01(math.MaxUint64) >= 1 || bits.Len64(uint64(open01(math.MaxUint64)*(1<<53))) != 53 {
		t.Error("Float64 leaves (0, 1)")
	}
}

// TestQuantile holds quantile against Φ in 400-bit arithmetic. With p = ½ + q exactly, the true
// quantile is x − (Φ(x) − p)/φ(x) to first order, and the second order is below 1e-30 here; the
// relative error must be below 6e-16, five units of 2⁻⁵³ (Wichura says "about 1 part in 10¹⁶" in exact
// arithmetic). Goes through the middle, both tails, the joints, and the ends of all words.
func TestQuantile(t *testing.T) {
	qs := []float64{open01(0) - 0.5, open01(math.MaxUint64) - 0.5, 0x1p-53, -0x1p-53, 1e-9, 0.425,
		math.Nextafter(0.425, 1), 0x1p-33 - 0.5, 0.5 - math.Exp(-25), math.Nextafter(0.5-math.Exp(-25), 0)}
	s := NewKey(8).Stream(Instance).Round(1)
	for i := range 2000 {
		q := s.Float64(i) - 0.5
		qs = append(qs, q, q*0x1p-20, math.Copysign(0.5-math.Exp(-36*s.Float64(5000+i)-math.Ln2), q))
	}
	var worst, at float64
	for _, q := range qs {
		x := quantile(q)
		if x != -quantile(-q) {
			t.Fatalf("quantile is not odd at %v", q)
		}
		diff := new(big.Float).Sub(phiLessHalf(x), new(big.Float).SetFloat64(q))
		e, _ := diff.Float64()
		e /= math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) * x
		if e = math.Abs(e); !(e <= worst) {
			worst, at = e, q
		}
	}
	if !(worst < 6e-16) {
		t.Errorf("relative error %.3g at q = %v", worst, at)
	}
	t.Logf("largest relative error %.3g, at q = %v", worst, at)
}

// phiLessHalf returns Φ(x) − ½ = Σ_n (−1)ⁿ x^{2n+1} / (2ⁿ n! (2n+1)) / √(2π), which converges for all x;
// for |x| < 8.3 the terms stay below e^{35}, so 400 bits leave more than 300.
func phiLessHalf(x float64) *big.Float {
	const bits = 400
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(v) }
	sq := number(x)
	sq.Mul(sq, number(-x))
	power, sum := number(x), number(0) // (−1)ⁿ x^{2n+1} / (2ⁿ n!)
	for n := 0.0; ; n++ {
		term := number(0).Quo(power, number(2*n+1))
		sum.Add(sum, term)
		if term.Sign() == 0 || n > x*x && term.MantExp(nil) < sum.MantExp(nil)-200 {
			break
		}
		power.Mul(power, sq)
		power.Quo(power, number(2*n+2))
	}
	twoPi, _ := new(big.Float).SetPrec(bits).SetString("6.28318530717958647692528676655900576839433879875021164194988918461563281257")
	return sum.Quo(sum, twoPi.Sqrt(twoPi))
}

// TestNormals: Normals is Normal and Uniforms is Uniform, for every length and start around the 16 blocks, on each kernel.
func TestNormals(t *testing.T) {
	levels(t, func(t *testing.T) {
		s := NewKey(6).Stream(Offer).Round(1<<35 + 3)
		for length := range 75 {
			for _, i0 := range []int{0, 1, 2, 31, 64, 1<<20 + 1} {
				dst := make([]float64, length)
				s.Normals(dst, i0)
				for i, v := range dst {
					if want := s.Normal(i0 + i); v != want {
						t.Fatalf("%d numbers from %d: number %d is %v, want %v", length, i0, i, v, want)
					}
				}
				s.Uniforms(dst, i0)
				for i, v := range dst {
					if want := s.Uniform(i0 + i); v != want {
						t.Fatalf("%d uniforms from %d: number %d is %v, want %v", length, i0, i, v, want)
					}
				}
			}
		}
	})
}

// TestIntns: Intns is Intn, for every length around the 16 blocks, on each kernel.
func TestIntns(t *testing.T) {
	levels(t, func(t *testing.T) {
		for length := range 75 {
			s, dst := NewKey(8).Stream(Resample).Round(1<<35+uint64(length)), make([]int, length)
			s.Intns(dst, 1+length*length)
			for i, got := range dst {
				if want := s.Intn(i, 1+length*length); got != want {
					t.Fatalf("%d numbers: number %d is %d, want %d", length, i, got, want)
				}
			}
		}
	})
}

// TestSpheres: a list of rows is one Sphere after the other.
func TestSpheres(t *testing.T) {
	s := NewKey(7).Stream(Offer).Round(9)
	for _, d := range []int{1, 2, 3, 10, 33} {
		rows, row := make([]float64, 7*d), make([]float64, d)
		s.Spheres(rows, d, 5)
		for i := range 7 {
			s.Sphere(row, 5+i*d)
			if !slices.Equal(row, rows[i*d:(i+1)*d]) {
				t.Errorf("d = %d, row %d: %v, want %v", d, i, rows[i*d:(i+1)*d], row)
			}
		}
	}
}

func BenchmarkNormals(b *testing.B) {
	for _, n := range []int{2, 10, 50, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			dst := make([]float64, n)
			st := NewKey(1).Stream(Offer)
			t := uint64(0)
			for b.Loop() {
				st.Round(t).Normals(dst, 0)
				t++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/number")
		})
	}
}

func BenchmarkThreefry(b *testing.B) {
	var c [4]uint32
	k := NewKey(1)
	for b.Loop() {
		c = Threefry4x32(k, c)
	}
}

func BenchmarkColumns(b *testing.B) {
	st := NewKey(1).Stream(Perturb)
	var c Columns
	t := uint64(0)
	for b.Loop() {
		c.Words(st.Round(t), 20)
		t++
	}
}

func BenchmarkNormal(b *testing.B) {
	st := NewKey(1).Stream(Reward)
	t := uint64(0)
	for b.Loop() {
		st.Round(t).Normal(0)
		t++
	}
}
