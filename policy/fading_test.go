package policy

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"troupe/internal/paged"
	"troupe/rng"
	"troupe/spec"
)

func newForgetting(t testing.TB, seed uint64, h HalfLife) *Hashed {
	t.Helper()
	p, err := NewHashed(HashedOptions{Bits: 12, M: 4, Change: restarts, HalfLife: h},
		Problem{Dim: 3 << 12, Sigma: 1, Init: rng.NewKey(seed).Stream(rng.Init), Timed: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFadedBlock: a block that fades is the posterior of V ← gV + (1 − g)Λ and b ← gb + (1 − g)Λm, computed with dense
// matrices, through events, coefficients that come later, and shares from nearly all to nearly nothing.
func TestFadedBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	const d = 7
	priors := []float64{.07, .02, .02, .01, .05, .03, .6}
	b := &smallBlock{gen: 1, keys: []uint64{0}, pos: []int32{0}, last: []uint64{0}, mean: []float64{.4},
		cov: []float64{priors[0]}, prior: []float64{priors[0]}}
	lambda := mat.NewDiagDense(d, nil)
	v, right := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
	for i, p := range priors {
		lambda.SetDiag(i, 1/p)
		v.SetSym(i, i, 1/p)
	}
	right.SetVec(0, .4/priors[0])
	w := make([]float64, d)
	for n := range 200 {
		if n%9 == 5 {
			g := []float64{.98, .5, .03, 1e-7, 0}[n/9%5]
			m := .2 + .1*float64(n%4)
			b.fade(g, m, true)
			for i := range d {
				for j := range i + 1 {
					v.SetSym(i, j, g*v.At(i, j)+(1-g)*lambda.At(i, j))
				}
				right.SetVec(i, g*right.AtVec(i))
			}
			right.SetVec(0, right.AtVec(0)+(1-g)*m/priors[0])
		}
		phi := []term{{0, priors[0], 1, -1}}
		x := mat.NewVecDense(d, nil)
		x.SetVec(0, 1)
		for i := 1; i < min(d, 2+n/20); i++ {
			if r.IntN(2) == 0 {
				u := r.NormFloat64()
				x.SetVec(i, u)
				phi = append(phi, term{uint64(i), priors[i], u, -1})
			}
		}
		y, s2 := r.NormFloat64(), .1+r.Float64()
		b.locate(phi)
		z, _ := b.score(phi)
		b.grow(phi, 32, uint64(n))
		b.learn(phi, y-z, s2, w)
		v.SymRankOne(v, 1/s2, x)
		right.AddScaledVec(right, y/s2, x)
		mean, cov := posterior(t, v, right)
		for i := range d {
			p := b.find(uint64(i))
			if p < 0 {
				continue
			}
			if math.Abs(b.mean[p]-mean.AtVec(i)) > 1e-9 {
				t.Fatalf("event %d: mean %d is %v, want %v", n, i, b.mean[p], mean.AtVec(i))
			}
			for j := range i + 1 {
				if q := b.find(uint64(j)); q >= 0 && math.Abs(b.cov[packedAt(p, q)]-cov.At(i, j)) > 1e-10 {
					t.Fatalf("event %d: covariance (%d, %d) is %v, want %v", n, i, j, b.cov[packedAt(p, q)], cov.At(i, j))
				}
			}
		}
	}
}

// plainFold is a sparse model whose coordinates all fade at each event.
type plainFold struct{ w, a, g []float64 }

func (f *plainFold) fade(gamma, lambda float64) {
	for i := range f.w {
		f.w[i] *= gamma * (lambda + f.a[i]) / (lambda + gamma*f.a[i])
		f.a[i] *= gamma
		f.g[i] *= gamma
	}
}

// TestFadedFold: a sparse model that fades by one number is one in which every coordinate fades at each event, also
// after its table was written anew, and what was forgotten is not in the table any more.
func TestFadedFold(t *testing.T) {
	for _, logistic := range []bool{false, true} {
		r := rand.New(rand.NewPCG(7, 5))
		const lambda, half, n = .7, 20., 64
		f := &sparseFold{cells: paged.New(10), lambda: lambda, eta: .05, logistic: logistic, fades: true, scale: 1}
		want := plainFold{make([]float64, n), make([]float64, n), make([]float64, n)}
		gamma, clock, base := math.Exp(-math.Ln2/half), 0., 0.
		for e := range 3000 {
			clock++
			want.fade(gamma, lambda)
			f.scale = math.Exp(-math.Ln2 * (clock - base) / half)
			if clock-base > fadeRenew*half {
				f.renew()
				base = clock
			}
			at, x := []uint32{}, []float64{}
			for i := range uint32(n) {
				if r.IntN(8) == 0 && (i < n/2 || e < 500) {
					at, x = append(at, i), append(x, r.NormFloat64()/2)
				}
			}
			y := float64(r.IntN(2))
			z, q := 0., 0.
			one, root := 0., math.Sqrt(float64(len(at)))
			for k, i := range at {
				z += x[k] * want.w[i]
				q += x[k] * x[k] / (lambda + want.a[i])
				one += math.Abs(x[k])
			}
			if gz, gq := f.predict(at, x, 1, math.MaxUint32); math.Abs(gz-z) > 1e-9 || math.Abs(gq-q) > 1e-9 {
				t.Fatalf("event %d: predicted %v ± %v, want %v ± %v", e, gz, gq, z, q)
			}
			before := f.learn(at, x, 1, math.MaxUint32, y)
			kappa := 1.
			if logistic {
				s := z
				for range 200 {
					s -= (s - z - q*(y-1/(1+math.Exp(-s)))) / (1 + q/4)
				}
				kappa = 1 / (1 + math.Exp(-s)) / (1 + math.Exp(s))
			}
			for k, i := range at {
				g := (before - y) * x[k]
				want.g[i] = max(want.g[i], math.SmallestNonzeroFloat64)
				if want.a[i] == 0 {
					want.g[i] = firstG
				}
				want.g[i] += g * g * float64(len(at))
				want.w[i] -= .05 * g * root / math.Sqrt(want.g[i])
				want.a[i] += kappa * math.Abs(x[k]) * one
			}
			if e == 450 && f.cells.Touched() != n {
				t.Fatalf("%d coordinates, want %d", f.cells.Touched(), n)
			}
		}
		if f.cells.Touched() != n/2 {
			t.Errorf("%d coordinates in the table, want %d", f.cells.Touched(), n/2)
		}
	}
}

// TestFadesToPrior: what is known of an action that is not played for 40 half-lives is what is known of a new one.
func TestFadesToPrior(t *testing.T) {
	h, w := newForgetting(t, 1, HalfLife{Events: 50}), newMixtureWorld(t, 2)
	w.learn(t, h, 0, 400)
	s := h.mix.smalls[0]
	b := s.blocks[0]
	was := b.cov[0]
	for range 2000 { // nothing is known of which action is played: rewards without a list
		h.pass(h.numbers[h.clockAt()] + 1)
	}
	h.mix.fadeBlocks() // event 400 looks at the blocks 0, 50, …
	b = s.blocks[0]
	if was > .9*b.prior[0] || math.Abs(b.cov[0]-b.prior[0]) > 1e-9 || math.Abs(b.mean[0]-h.mix.offsetOf(&s.smallStart)) > 1e-9 {
		t.Errorf("variance %v, %v before, prior %v; mean %v, offset %v", b.cov[0], was, b.prior[0], b.mean[0],
			h.mix.offsetOf(&s.smallStart))
	}
	for k, f := range h.folds {
		f.cells.Each(func(i uint32, b, a, _ float64) {
			v, d := f.faded(b, a)
			if math.Abs(d/f.lambda-1) > 1e-9 || math.Abs(v) > 1e-9 {
				t.Fatalf("model %d, coordinate %d: weight %v, precision %v", k, i, v, d)
			}
		})
		if !f.logistic && math.Abs(f.sigma()-.5) > 1e-9 {
			t.Errorf("model %d: σ̂ is %v", k, f.sigma())
		}
	}
}

// forgotten is a policy that has learned with a half-life, by events or by time, with a change.
func forgotten(t testing.TB, h HalfLife) (*Hashed, *mixtureWorld) {
	t.Helper()
	p, w := newForgetting(t, 1, h), newMixtureWorld(t, 2)
	for n := range 500 {
		if n == 350 {
			w.turn = 2
		}
		p.Tick(int64(1_700_000_000+n) * 1e9)
		w.learn(t, p, n, 1)
	}
	return p, w
}

// TestFadingSnapshot: a restored policy has the same bytes and digest, chooses and learns the same, also after tables
// were written anew; so does one that adopts a shared state, and one that takes it back. None changes another one.
func TestFadingSnapshot(t *testing.T) {
	for _, half := range []HalfLife{{Events: 50}, {Time: 60 * time.Second}} {
		h, _ := forgotten(t, half)
		b := mustBytes(t, h)
		if string(b[:4]) != mixtureMagics[0][2] {
			t.Fatalf("the snapshot begins with %q", b[:4])
		}
		r, shared, takes := newForgetting(t, 1, half), newForgetting(t, 1, half), newForgetting(t, 1, half)
		if err := r.Restore(b); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*Hashed{shared, takes} {
			if err := p.Adopt(h.Share()); err != nil {
				t.Fatal(err)
			}
		}
		before := h.Share()
		var after []byte
		for i, p := range []*Hashed{h, r, shared, takes} {
			if i > 0 && (!bytes.Equal(mustBytes(t, p), b) || p.Dense() != takes.Dense()) {
				t.Fatalf("%v: policy %d has another state", half, i)
			}
			w := newMixtureWorld(t, 3)
			for n := range 300 {
				if p == takes {
					p.Share()
					p.Reclaim()
				}
				at := int64(1_700_000_500 + n)
				if n == 100 {
					at += 70 * 60 // some tables are written anew
				}
				p.Tick(at * 1e9)
				if n == 200 {
					p.pass(p.numbers[p.clockAt()] + 70*60)
				}
				w.learn(t, p, 500+n, 1)
			}
			got := mustBytes(t, p)
			if after == nil {
				after = got
			}
			if !bytes.Equal(got, after) || p.Digest() != h.Digest() || p.SteppedBack() != h.SteppedBack() {
				t.Errorf("%v: policy %d has learned otherwise", half, i)
			}
		}
		if err := r.Adopt(before); err != nil || !bytes.Equal(mustBytes(t, r), b) {
			t.Error("the shared state is another one", err)
		}
		if old := newRestarting(t, 1); old.Restore(b) == nil || r.Restore(mustBytes(t, old)) == nil {
			t.Error("a policy without a half-life and one with it took each other's snapshots")
		}
	}
}

// TestFadingBytes: 500 events with a change give the same state on every machine, as TestMixtureBytes says.
func TestFadingBytes(t *testing.T) {
	h, _ := forgotten(t, HalfLife{Events: 50})
	if got, want := fmt.Sprintf("%x", h.Digest()), "4f1d8d44cbf18de7374c731a69a31389"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// TestTick: a half-life in seconds is one in events where an event comes every second; the time is the largest so far,
// and what was before it is counted.
func TestTick(t *testing.T) {
	events, _ := forgotten(t, HalfLife{Events: 60})
	timed, _ := forgotten(t, HalfLife{Time: time.Minute})
	w := newMixtureWorld(t, 4)
	w.next(t)
	for i := range w.batch.Len() {
		at, x := w.batch.Nonzeros(i)
		if a, b := events.Estimate(at, x), timed.Estimate(at, x); math.Abs(a-b) > 1e-9 || a == .5 {
			t.Errorf("action %d: %v by events, %v by time", i, a, b)
		}
	}
	if n := timed.SteppedBack(); n != 0 {
		t.Errorf("%d steps back", n)
	}
	b := mustBytes(t, timed)
	clock := timed.numbers[timed.clockAt()]
	timed.Tick(0)
	if !bytes.Equal(mustBytes(t, timed), b) {
		t.Error("a time that is not known has changed the state")
	}
	timed.Tick(1_600_000_000e9)
	timed.Tick(1_600_000_001e9)
	if got := timed.numbers[timed.clockAt()]; got != clock || timed.SteppedBack() != 2 {
		t.Errorf("the time is %v, %v before; %d steps back", got, clock, timed.SteppedBack())
	}
	b = mustBytes(t, events)
	if events.Tick(1_600_000_000e9); !bytes.Equal(mustBytes(t, events), b) || events.SteppedBack() != 0 {
		t.Error("a half-life in events has heard a time")
	}
}

// TestHalfLifeOption: how it is written, what it is read as, and what is refused.
func TestHalfLifeOption(t *testing.T) {
	for v, want := range map[any]HalfLife{
		int64(1400): {Events: 1400}, 60.5: {Events: 60.5}, "7d": {Time: 7 * 24 * time.Hour}, "12h": {Time: 12 * time.Hour},
		"1d12h": {Time: 36 * time.Hour}, "0.5d": {Time: 12 * time.Hour}, "90s": {Time: 90 * time.Second}, int64(0): {},
	} {
		var h, again HalfLife
		if err := h.DecodeSpec(v, "half_life"); err != nil || h != want {
			t.Errorf("%v: %v, %v", v, h, err)
		}
		if h.Time > 0 {
			if err := again.DecodeSpec(h.String(), ""); err != nil || again != h {
				t.Errorf("%v is written %q, which is %v, %v", h, h, again, err)
			}
		}
	}
	for _, v := range []any{"7 days", "d", "-1d", "-1h", "0s", "", "1e9d", "NaNd", "Infd", "100000000h", true, -1.0, math.NaN(),
		math.Inf(1), spec.Raw{}} {
		var h HalfLife
		if err := h.DecodeSpec(v, "half_life"); err == nil || !strings.Contains(err.Error(), "half_life") || !h.IsZero() {
			t.Errorf("%v: %v, %v", v, h, err)
		}
	}
	for want, o := range map[string]HashedOptions{
		"half_life is 49, expected a number of events, at least 50": {Change: restarts, HalfLife: HalfLife{Events: 49}},
		`half_life is "7d", but nothing here says when`:             {Change: restarts, HalfLife: HalfLife{Time: 7 * 24 * time.Hour}},
		`half_life is 500, but change is "none"`:                    {HalfLife: HalfLife{Events: 500}},
		"half_life is NaN":                                          {Change: restarts, HalfLife: HalfLife{Events: math.NaN()}},
		`half_life is "1ms", expected a time of at least 1s`:        {Change: restarts, HalfLife: HalfLife{Time: time.Millisecond}},
	} {
		if _, err := NewHashed(o, Problem{Dim: 3 << 18}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestFadingDamage: numbers of a snapshot that cannot be are refused.
func TestFadingDamage(t *testing.T) {
	h, _ := forgotten(t, HalfLife{Events: 50})
	p := newForgetting(t, 1, HalfLife{Events: 50})
	start := mustBytes(t, p)
	c, block := h.clockAt(), h.mix.smalls[0].blocks[0]
	for _, x := range []struct {
		at *float64
		v  float64
	}{
		{&h.numbers[c], -1}, {&h.numbers[c], 1e6}, {&h.numbers[c+1], -1}, {&h.numbers[c+2], 1e6},
		{&h.numbers[c+3], -1}, {&block.prior[0], 0}, {&block.prior[0], math.NaN()}, {&block.faded, -1},
		{&block.faded, math.Inf(1)},
	} {
		old := *x.at
		*x.at = x.v
		if p.Restore(mustBytes(t, h)) == nil {
			t.Errorf("%v for %v was taken", x.v, old)
		}
		*x.at = old
	}
	if !bytes.Equal(mustBytes(t, p), start) {
		t.Error("an error changed the state")
	}
}

// FuzzFadingSnapshot is FuzzMixtureSnapshot with a half-life.
func FuzzFadingSnapshot(f *testing.F) {
	half := HalfLife{Events: 50}
	h, _ := forgotten(f, half)
	f.Add(mustBytes(f, h))
	p := newForgetting(f, 1, half)
	start := mustBytes(f, p)
	f.Add(start)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4 { // what is behind the checksum
			b = little.AppendUint32(slices.Clone(b[:len(b)-4]), crc32.Checksum(b[:len(b)-4], castagnoli))
		}
		restoredOrNot(t, p, newForgetting(t, 1, half), start, b)
	})
}
