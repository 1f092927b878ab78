package bench

import (
	"fmt"
	"math"

	"troupe/internal/cpu"
	"troupe/internal/linalg"
	"troupe/rng"
)

// limits are what this machine can do at most, measured now, at the level at which kernels run.
type limits struct {
	flops  float64 // fused multiply-adds of float64 in registers: operations in a second
	target float64 // seconds for a perturbation target from the generator, many at a time

	// Bytes in a second of a loop over a memory of so many bytes. Rewriting counts a byte that is read
	// and written twice.
	read, rewrite func(bytes int) float64

	triangle bool // V⁻¹ is kept as one triangle where that pays
}

// newLimits measures; it is nil at the portable level, whose loops the compiler limits.
func newLimits() *limits {
	loops, ok := linalg.MachineLimits()
	if !ok {
		return nil
	}
	var members [rng.Lanes]uint32
	for i := range members {
		members[i] = uint32(i)
	}
	src, targets := rng.NewKey(1).Stream(rng.Perturb).Round(0), make([]float64, 64*rng.Lanes)
	perSecond := most(func() float64 {
		for range 16 {
			src.FillMembers(targets, rng.Lanes, &members, 16, rng.UniformLaw)
		}
		return 16 * float64(len(targets))
	})
	return &limits{
		flops:   most(func() float64 { return loops.Multiply(20_000) }),
		target:  1 / perSecond,
		read:    bandwidth(loops.Read, 1),
		rewrite: bandwidth(loops.Rewrite, 2),

		triangle: cpu.Kernels() == cpu.AVX512,
	}
}

// most returns the highest of a few measurements of units in a second of processor time: a limit is
// what is reached when nothing is in the way. A look at the clock takes up to a microsecond, so there is one in
// a hundred.
func most(f func() (units float64)) float64 {
	const stretches, length, pause = 5, 1e-3, 1e-4
	f() // warm
	calls := 1
	for {
		start := processTime()
		for range calls {
			f()
		}
		if processTime()-start >= pause {
			break
		}
		calls *= 2
	}
	var top float64
	for range stretches {
		var units, spent float64
		for start := processTime(); spent < length; spent = processTime() - start {
			for range calls {
				units += f()
			}
		}
		top = max(top, units/spent)
	}
	return top
}

// bandwidth returns a function that measures a loop over a memory of so many bytes, rounded up to whole
// loops, once for each size. The loop moves every byte so many times.
func bandwidth(loop func([]float64), times float64) func(bytes int) float64 {
	known := make(map[int]float64)
	return func(bytes int) float64 {
		n := (max(bytes, 1<<12) + 511) / 512 * 64
		if v, ok := known[n]; ok {
			return v
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = 1 // memory that was never written is one page of zeros, many times
		}
		passes := max(1, 1<<17/n)
		known[n] = most(func() float64 {
			for range passes {
				loop(x)
			}
			return times * 8 * float64(n*passes)
		})
		return known[n]
	}
}

// String is a line for people.
func (l *limits) String() string {
	s := fmt.Sprintf("limits: %.0f GF, %.2f ns a target, read/rewrite GB/s:", 1e-9*l.flops, 1e9*l.target)
	for _, m := range []struct {
		name  string
		bytes int
	}{{"32 KiB", 32 << 10}, {"512 KiB", 512 << 10}, {"8 MiB", 8 << 20}, {"64 MiB", 64 << 20}} {
		s += fmt.Sprintf(" %s %.0f/%.0f", m.name, 1e-9*l.read(m.bytes), 1e-9*l.rewrite(m.bytes))
	}
	return s
}

// bound is the time of a round that the machine allows the design of an engine, in seconds, or 0 where
// none is defined: a sum over the parts of a round, each of which takes as long as its bytes or its
// multiply-adds take, whichever is longer,
//
//	V⁻¹      k = V⁻¹X: read d·d̄·8 bytes, 2d² operations; the step of V⁻¹ and V⁻¹S^J: rewrite d·d̄·8 bytes,
//	         4d² operations; d̄ is d rounded up to 8
//	         (from d = 32 on with AVX-512 half of the bytes and 64·d̄: one triangle, in blocks of 16 columns)
//	arms     read K·d·8 bytes (·2 where a prefilter of 16-bit numbers goes first), 2Kd operations (four times
//	         as fast)
//	V, b     exact sums, of V one triangle: rewrite 4·d(d+1) bytes in every 64th round,
//	         d² + 3d operations
//	drawn    blocked: the 31½ rounds that a drawn member lacks on average: as many targets, read 31½·d·8
//	         bytes, 31½·2d operations
//	targets  one number of the generator for each member-step, by its own speed
//	members  2d operations for each member-step; rewrite 8md bytes, every round (eager) or every 64
//	         rounds (blocked)
//	scores   P asks for nothing but this: rewrite K·m̄·8 bytes, 6Km operations; m̄ is m rounded up to 8. From 24
//	         arms on these bytes and 4Km of the operations in every 16th round, in every round the other 2Km, and an eighth of
//	         the bytes read: how far arms are behind. The arms on lists are left out, as their number depends on the run
//
// with m member-steps a round, or m(1 − (1 − e^{−r})/r), r = T/m, for the lazy engine: the steps up to
// each member's last draw, so that what a drawn member lacks is among them. V⁻¹ and arms (and, eager, the
// members; blocked, 64 rounds) share the caches: their bandwidth is that of a memory of their common size. Left
// out is what a round does beyond that: draws, the environment, the loop, what a prefilter lets through, rows of
// members that are copied.
//
// A kernel that makes targets while it multiplies can be faster than the sum; overlapped counts the
// longer of targets and members only, which no processor reaches whose units share ports.
func (l *limits) bound(c benchCase, engine string) (sum, overlapped float64) {
	if l == nil {
		return 0, 0
	}
	d, k, m := float64(c.d), float64(c.k), float64(c.m)
	part := func(bytes, bandwidth, operations float64) float64 {
		return max(bytes/bandwidth, operations/l.flops)
	}
	if c.prob {
		size := 8 * c.k * ((c.m + 7) &^ 7)
		if c.k < linalg.ShortlistArms {
			sum = part(2*float64(size), l.rewrite(size), 6*k*m)
		} else {
			sum = part(2*float64(size)/linalg.ShortlistSteps, l.rewrite(size), (2+4./linalg.ShortlistSteps)*k*m) +
				part(float64(size)/8, l.read(size/8), 0)
		}
		return sum, sum
	}
	inverse := 8 * c.d * linalg.Padded(c.d)
	if l.triangle && c.d >= 32 {
		inverse = inverse/2 + 64*linalg.Padded(c.d)
	}
	arms, speed := 8*c.k*c.d, 1.0
	if c.k*c.d >= 4096 && c.k >= 64 { // actionset prefilters such a list
		arms, speed = 2*((c.d+1)&^1)*((c.k+63)&^63), 4
	}
	triangle := 4 * c.d * (c.d + 1)
	sums, memberSteps, every, lacking := 8*c.m*c.d, m, 1.0, 0.0
	size, sumsAre := inverse+arms, sums
	switch engine {
	case "eager":
		size += sums
		sumsAre = size // in one memory with the others
	case "blocked":
		every, lacking = 64, 31.5
		size += 64 * 8 * c.d
	case "lazy":
		r := float64(c.horizon) / m
		memberSteps, every = m*(1-(1-math.Exp(-r))/r), math.Inf(1)
	default:
		return 0, 0
	}
	rest := part(float64(inverse), l.read(size), 2*d*d) + part(2*float64(inverse), l.rewrite(size), 4*d*d) +
		part(float64(arms), l.read(size), 2*k*d/speed) + part(2*float64(triangle)/64, l.rewrite(size), d*d+3*d) +
		lacking*l.target + part(8*d*lacking, l.read(size), 2*d*lacking)
	targets := memberSteps * l.target
	members := part(2*float64(sums)/every, l.rewrite(sumsAre), 2*d*memberSteps)
	return rest + targets + members, rest + max(targets, members)
}
