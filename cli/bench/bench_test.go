package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/internal/cpu"
	"troupe/rng"
)

// run runs one command line of bench.
func run(ctx context.Context, out, notes io.Writer, args ...string) error {
	c := Command()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(out)
	c.SetErr(notes)
	c.SetArgs(args)
	return c.ExecuteContext(ctx)
}

// TestBench plays the smallest configuration once and reads what comes out.
func TestBench(t *testing.T) {
	var out, notes bytes.Buffer
	if err := run(t.Context(), &out, &notes, "a", "--rounds", "1", "--json", "--against", "gonum"); err != nil {
		t.Fatalf("%v: %s", err, notes.String())
	}
	var results []map[string]any
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	r := results[0]
	if r["config"] != "A" || r["engine"] != "eager" || !(r["ns_per_round"].(float64) > 10) || !(r["ratio_reference"].(float64) > 0) ||
		!(r["ratio_gonum"].(float64) > 0) || r["ratio_numpy"] != nil {
		t.Errorf("result: %v", r)
	}
	if limit, ok := r["ratio_limit"].(float64); ok != (cpu.Kernels() != cpu.Portable) || ok && !(limit > 1) {
		t.Errorf("ratio to the limits of the machine: %v", r["ratio_limit"])
	}
	if _, ok := r["spread"]; !ok {
		t.Errorf("result has no spread: %v", r)
	}
}

// TestBenchRefuses: names and numbers that make no sense are misuse.
func TestBenchRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		`no configuration is called "Z"`: {"Z"},
		"rounds is 0":                    {"A", "--rounds", "0"},
		`against is "julia"`:             {"A", "--against", "numpy,julia"},
		`engine is "fast"`:               {"A", "--engine", "fast"},
	} {
		var out, notes bytes.Buffer
		err := run(t.Context(), &out, &notes, args...)
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%v: %v, %s", args, err, out.String())
		}
	}
}

// TestMedianAndSpread on numbers small enough to see.
func TestMedianAndSpread(t *testing.T) {
	if m := median([]float64{5, 1, 3}); m != 3 {
		t.Errorf("median %v", m)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if s := spread([]float64{9, 10, 11, 8, 12}); s != 0.1 {
		t.Errorf("spread %v", s)
	}
	if s := spread([]float64{7}); s != 0 {
		t.Errorf("spread of one number %v", s)
	}
}

// TestBenchBound computes what a machine allows, one on which every number is easy: 1 operation in a
// nanosecond, a target in 1 ns, 8 bytes read and 16 rewritten in a nanosecond, half of that beyond 1 MB.
func TestBenchBound(t *testing.T) {
	speed := func(bytesInNs float64) func(int) float64 {
		return func(size int) float64 {
			if size > 1<<20 {
				return 1e9 * bytesInNs / 2
			}
			return 1e9 * bytesInNs
		}
	}
	l := &limits{flops: 1e9, target: 1e-9, read: speed(8), rewrite: speed(16)}
	fast := *l
	fast.flops = math.Inf(1) // what bytes alone cost
	half := fast
	half.triangle = true
	for _, c := range []struct {
		l      *limits
		c      benchCase
		engine string
		want   float64 // ns
		hidden float64 // what an overlap of targets and members could hide
	}{
		// d = 8, K = 10, m = 20. Bytes: V⁻¹ is 64 numbers, read in 64 ns and rewritten in 64, the arms are
		// 80 and S 160. Operations: 2·64, 4·64, 2·80 and 2·160. 20 targets. V and b: 8·9/2 + 8 multiply-adds, and
		// 36 numbers in every 64th round. Blocked: 31½ rounds that are missing, each 8 numbers and a target.
		{l, benchCase{d: 8, k: 10, m: 20, horizon: 100}, "eager", 128 + 256 + 160 + 20 + 320 + 88, 20},
		{&fast, benchCase{d: 8, k: 10, m: 20, horizon: 100}, "eager", 64 + 64 + 80 + 20 + 160 + 36./64, 20},
		{&fast, benchCase{d: 8, k: 10, m: 20, horizon: 100}, "blocked", 64 + 64 + 80 + 20 + 2.5 + 36./64 + 31.5*(1+8), 2.5},
		// 64 arms and 64 features: a prefilter, a quarter of the bytes and of the operations. The 8192·64
		// numbers of S are in the slow memory.
		{&fast, benchCase{d: 64, k: 64, m: 8192, horizon: 100}, "blocked", 4096 + 4096 + 1024 + 8192 + 2*8192 + 65./2 + 31.5*(1+64), 8192},
		{l, benchCase{d: 64, k: 64, m: 8192, horizon: 100}, "blocked", 2*4096 + 4*4096 + 2048 + 8192 + 2*64*8192 + 64*65 + 2*64 + 31.5*(1+2*64), 8192},
		// The same with one triangle of V⁻¹: 64·64/2 numbers and 64·8.
		{&half, benchCase{d: 64, k: 64, m: 8192, horizon: 100}, "blocked", 2560 + 2560 + 1024 + 8192 + 2*8192 + 65./2 + 31.5*(1+64), 8192},
		// Half as many rounds as members: of 1000 member-steps 1 − (1 − e^{−1/2})/(1/2) happen.
		{l, benchCase{d: 8, m: 1000, horizon: 500}, "lazy", 128 + 256 + 88 + 1000*(1-2*(1-math.Exp(-0.5)))*17, 1000 * (1 - 2*(1-math.Exp(-0.5)))},
		// 10 arms and 24 lanes of members: 240 numbers of 8 bytes.
		{&fast, benchCase{d: 8, k: 10, m: 20, prob: true}, "eager", 240, 0},
		{l, benchCase{d: 8, k: 10, m: 20, prob: true}, "eager", 6 * 200, 0},
		// 64 arms: 1536 numbers in every 16th round, 192 of how far arms are behind in each.
		{&fast, benchCase{d: 8, k: 64, m: 20, prob: true}, "eager", 96 + 192, 0},
		{l, benchCase{d: 8, k: 64, m: 20, prob: true}, "eager", (2+4./16)*64*20 + 192, 0},
		{l, benchCase{d: 8, m: 1000, horizon: 500}, "exact-law", 0, 0},
		{nil, benchCase{d: 8, m: 1000, horizon: 500}, "eager", 0, 0},
	} {
		sum, overlapped := c.l.bound(c.c, c.engine)
		if math.Abs(1e9*sum-c.want) > 1e-6*c.want || math.Abs(1e9*(sum-overlapped)-c.hidden) > 1e-6*c.want {
			t.Errorf("%+v, %s: %v ns, %v overlapped, want %v, %v", c.c, c.engine, 1e9*sum, 1e9*overlapped, c.want, c.want-c.hidden)
		}
	}
}

// TestBenchPeers: the two programs in Go play the algorithm that they are compared with. Null: mean
// regret over 300 rounds of configuration A, and of a ball in five dimensions, is the same as ours; 200
// replications each, a two-sided test of the difference in units of its standard error, level 10⁻⁴ for
// all four (|z| ≤ 4.22; the seeds are fixed). A peer whose U is twice as
// large has z > 5 on the arms.
func TestBenchPeers(t *testing.T) {
	const n = 200
	for _, c := range []benchCase{{d: 10, k: 10, m: 20, horizon: 300}, {d: 5, m: 30, horizon: 300}} {
		mean := func(f func(seed int) float64) (mean, variance float64) {
			var sum, squares float64
			for seed := range n {
				v := f(seed)
				sum, squares = sum+v, squares+v*v
			}
			mean = sum / n
			return mean, (squares/n - mean*mean) / (n - 1)
		}
		m0, v0 := mean(func(seed int) float64 {
			p, err := playOnce(c, rng.NewKey(uint64(seed)))
			if err != nil {
				t.Fatal(err)
			}
			return p.regret
		})
		for name, peer := range map[string]func(benchCase, int, float64) (float64, float64){"plain Go": plainGo, "gonum": gonumGo} {
			m1, v1 := mean(func(seed int) float64 {
				_, regret := peer(c, seed, math.Inf(1))
				return regret
			})
			if z := (m1 - m0) / math.Sqrt(v0+v1); !(math.Abs(z) < 4.22) {
				t.Errorf("%s, d = %d: mean regret %.2f, ours %.2f: z = %.1f", name, c.d, m1, m0, z)
			}
		}
	}
}

// TestNumpyEnvironment: the peer runs on one thread and with OpenBLAS's own choice of kernels.
func TestNumpyEnvironment(t *testing.T) {
	got := numpyEnvironment([]string{"HOME=/x", "OPENBLAS_CORETYPE=Haswell", "OMP_NUM_THREADS=8", "OPENBLAS_L2_SIZE=512"})
	want := []string{"HOME=/x", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBenchShares: replications are dealt to all processors and none is lost.
func TestBenchShares(t *testing.T) {
	c := benchCase{horizon: 1, replications: 7}
	shares := make(chan int, 64)
	if _, err := c.onAllCores(func(_, replications int) error { shares <- replications; return nil }); err != nil {
		t.Fatal(err)
	}
	close(shares)
	var sum int
	for n := range shares {
		sum += n
	}
	if sum != 7 {
		t.Errorf("%d of 7 replications are played", sum)
	}
	if _, err := c.onAllCores(func(core, _ int) error { return fmt.Errorf("core %d", core) }); err == nil {
		t.Error("a fault is lost")
	}
}

// TestBenchGrowth plays sets that are new in every round and finds a time for each, and none of the columns that do not apply.
func TestBenchGrowth(t *testing.T) {
	for _, c := range growthCases {
		if c.k > 1000 || c.d >= 1000 {
			continue // seconds
		}
		c.horizon = 20
		want := "eager"
		if c.sets == disjoint {
			want = "lazy, blocked" // so many coordinates, so few rounds
		}
		for _, kernels := range []cpu.Level{cpu.Portable, cpu.Best()} {
			restore := cpu.Force(kernels)
			ns, engine, err := ours(c, 1, 0)
			restore()
			if err != nil || !(ns > 100) || engine != want {
				t.Errorf("%s: %v ns, engine %s, %v", c.name, ns, engine, err)
			}
		}
	}
	chosen, err := chooseCases([]string{"A", "growth", "NEW-20"})
	if err != nil || len(chosen) != len(growthCases)+2 || chosen[len(chosen)-1].name != "new-20" {
		t.Errorf("%v, %v", chosen, err)
	}
}
