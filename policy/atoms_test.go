package policy_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// computed is what Atoms and Lazy have in common.
type computed interface {
	bandit.Policy
	bandit.Prober
	bandit.Snapshotter
	Model(dst []float64, decision uint64, j int, sign float64)
	Scale() float64
	Root() policy.SquareRoot
}

// forms are the keys of Atoms, and Lazy.
var forms = []string{"decision", "epoch", "fixed", "round", "lazy"}

// newComputed returns one of the forms, with signs.
func newComputed(t testing.TB, form string, o policy.AtomsOptions, p policy.Problem) computed {
	t.Helper()
	var q computed
	var err error
	o.OneSided, o.Key = false, form
	if form == "lazy" {
		q, err = policy.NewLazy(policy.LazyOptions{M: o.M, Rho: o.Rho, Lambda: o.Lambda, Delta: o.Delta, Scale: o.Scale}, p)
	} else {
		q, err = policy.NewAtoms(o, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// keyOf returns e, the key of the members that Select draws from at decision 7.
func keyOf(p computed) uint64 {
	if l, ok := p.(*policy.Lazy); ok {
		return l.Epoch()
	}
	return p.(*policy.Atoms).Key(7)
}

// sums keeps V and b and solves with gonum: atoms written down a second time, from the formulas and
// without the square-root form.
type sums struct {
	v    *mat.SymDense
	b    *mat.VecDense
	chol mat.Cholesky
}

func newSums(d int, lambda float64) *sums {
	s := &sums{v: mat.NewSymDense(d, nil), b: mat.NewVecDense(d, nil)}
	for i := range d {
		s.v.SetSym(i, i, lambda)
	}
	s.chol.Factorize(s.v)
	return s
}

func (s *sums) add(x []float64, y float64) {
	xv := mat.NewVecDense(len(x), slices.Clone(x))
	s.v.SymRankOne(s.v, 1, xv)
	s.b.AddScaledVec(s.b, y, xv)
	s.chol.Factorize(s.v)
}

// hat returns θ̂.
func (s *sums) hat() []float64 {
	var x mat.VecDense
	if err := s.chol.SolveVecTo(&x, s.b); err != nil {
		panic(err)
	}
	return x.RawVector().Data
}

// triangular returns L⁻ᵀg.
func (s *sums) triangular(g []float64) []float64 {
	var u mat.TriDense
	s.chol.UTo(&u) // V = UᵀU: L⁻ᵀ is U⁻¹
	var x mat.VecDense
	if err := x.SolveVec(&u, mat.NewVecDense(len(g), g)); err != nil {
		panic(err)
	}
	return x.RawVector().Data
}

// symmetric returns V^{-1/2}g.
func (s *sums) symmetric(g []float64) []float64 {
	var e mat.EigenSym
	if !e.Factorize(s.v, true) {
		panic("no eigenvalues")
	}
	var q mat.Dense
	e.VectorsTo(&q)
	var w, x mat.VecDense
	w.MulVec(q.T(), mat.NewVecDense(len(g), g))
	for i, l := range e.Values(nil) {
		w.SetVec(i, w.AtVec(i)/math.Sqrt(l))
	}
	x.MulVec(&q, &w)
	return x.RawVector().Data
}

// TestAtomsAreTheirFormula replays 200 rounds from V, b and the counter stream: the key after each
// round, the scale, all members to 1e-9, and the arm that is played.
func TestAtomsAreTheirFormula(t *testing.T) {
	const d, m, n, lambda, rho = 4, 5, 200, 0.5, 1.7
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			w := newWorld(21, d, 9)
			p := newComputed(t, form, policy.AtomsOptions{M: m, Lambda: lambda, Rho: rho, Scale: policy.Scale{Kind: "beta", Value: 0.4}, OneSided: true}, w.problem(n))
			now, ref := newSums(d, lambda), newSums(d, lambda) // ref: V at lazy's last refresh
			var epoch uint64
			g, got := make([]float64, d), make([]float64, d)
			var a bandit.Action
			for round := range n + 1 {
				// The state after this many rounds.
				logDet := now.chol.LogDet() - d*math.Log(lambda)
				root := now
				var key uint64
				switch form {
				case "decision":
					key = uint64(round + 1)
				case "epoch":
					key = uint64(max(0, logDet) / math.Log(rho))
				case "round":
					key = uint64(round)
				case "lazy":
					if logDet >= ref.chol.LogDet()-d*math.Log(lambda)+math.Log(rho) {
						epoch++
						ref = newSums(d, lambda)
						ref.v.CopySym(now.v)
						ref.chol.Factorize(ref.v)
					}
					root, key = ref, epoch
				}
				at := keyOf(p)
				if form == "decision" {
					at = p.(*policy.Atoms).Key(uint64(round + 1))
				}
				if at != key {
					t.Fatalf("after round %d: key %d, want %d", round, at, key)
				}
				r := 0.4 * (math.Sqrt(lambda) + math.Sqrt(2*math.Log(10)+logDet))
				if math.Abs(p.Scale()-r) > 1e-9 {
					t.Fatalf("after round %d: scale %v, want %v", round, p.Scale(), r)
				}
				draw := w.key.Stream(rng.Select).Round(uint64(round + 1))
				drawn, sign := draw.Intn(0, m), draw.Sign(1)
				var want bandit.Action
				for j := range m {
					w.key.Stream(rng.Init).Sub(key).Round(uint64(j)).Normals(g, 0)
					member, theta := root.triangular(g), now.hat()
					linalg.Axpy(sign*r, member, theta)
					p.Model(got, uint64(round+1), j, sign)
					for i := range got {
						if math.Abs(got[i]-theta[i]) > 1e-9 {
							t.Fatalf("after round %d, member %d: %v, want %v", round, j, got, theta)
						}
					}
					if j == drawn {
						w.ArgMax(&want, theta)
					}
				}
				// The next round.
				if err := p.Select(&a, w, draw); err != nil {
					t.Fatal(err)
				}
				if a.Index != want.Index {
					t.Fatalf("round %d: arm %d, want %d", round+1, a.Index, want.Index)
				}
				y := linalg.Dot(a.X, w.theta) + w.key.Stream(rng.Reward).Round(uint64(round+1)).Normal(0)
				if err := p.Update(a, y, rng.Source{}); err != nil {
					t.Fatal(err)
				}
				now.add(a.X, y)
			}
			if form == "epoch" && keyOf(p) < 10 || form == "lazy" && epoch < 10 {
				t.Errorf("only %d epochs: the test has seen too little", keyOf(p))
			}
		})
	}
}

// TestAtomsTheorem: the preset takes m and r_t from theory (golden values of docs/papers/atoms.md).
func TestAtomsTheorem(t *testing.T) {
	w := newWorld(1, 10, 0)
	for key, m := range map[string]int{"fixed": 2363, "epoch": 2571, "round": 2771} {
		a, err := policy.NewAtoms(policy.AtomsOptions{Preset: "theorem", Key: key, Delta: 0.01, OneSided: true}, w.problem(10_000))
		if err != nil {
			t.Fatal(err)
		}
		if o := a.Options(); o.M != m || o.Scale != (policy.Scale{Kind: "beta", Value: 1.35}) {
			t.Errorf("%s: %+v, want m = %d and 1.35β", key, o, m)
		}
	}
}

// TestEpochBound: the key never passes log₂ det V/λ^d ≤ d log₂(1 + n/(λd)), so that there are at most
// 1 + d log₂(1 + n/(λd)) epochs, whoever chooses the actions; it never falls. Every sequence of
// vectors in the unit ball.
func TestEpochBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(t, "d")
		lambda := rapid.Float64Range(1e-3, 10).Draw(t, "lambda")
		rho := rapid.Float64Range(1.1, 8).Draw(t, "rho")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		key := rng.NewKey(rapid.Uint64().Draw(t, "seed"))
		for _, form := range []string{"epoch", "lazy"} {
			var p computed
			var err error
			prob := policy.Problem{Dim: d, Init: key.Stream(rng.Init)}
			if form == "lazy" {
				p, err = policy.NewLazy(policy.LazyOptions{M: 2, Lambda: lambda, Rho: rho, OneSided: true}, prob)
			} else {
				p, err = policy.NewAtoms(policy.AtomsOptions{Key: "epoch", M: 2, Lambda: lambda, Rho: rho}, prob)
			}
			if err != nil {
				t.Fatal(err)
			}
			x := make([]float64, d)
			var last uint64
			for i := range n {
				src := key.Stream(rng.Offer).Round(uint64(i))
				if rapid.Bool().Draw(t, "axis") {
					clear(x)
					x[i%d] = 1
				} else {
					src.Ball(x, 0)
				}
				if err := p.Update(bandit.Action{X: x, Index: bandit.NoIndex}, src.Normal(99), rng.Source{}); err != nil {
					t.Fatal(err)
				}
				limit := float64(d) * math.Log1p(float64(i+1)/(lambda*float64(d))) / math.Log(rho)
				if k := keyOf(p); k < last || float64(k) > limit+1e-9*(2+limit) {
					t.Fatalf("%s, update %d: key %d after %d, limit %v", form, i+1, k, last, limit)
				} else {
					last = k
				}
			}
		}
	})
}

// event is one line of a log.
type event struct {
	x bandit.Action
	y float64
}

// record plays p for n rounds and returns the log.
func record(t testing.TB, w *world, p bandit.Policy, n int) []event {
	var log []event
	w.play(t, p, n, func(_ int, a *bandit.Action, y float64) {
		log = append(log, event{bandit.Action{X: slices.Clone(a.X), Index: a.Index}, y})
	})
	return log
}

func feed(t testing.TB, p bandit.Policy, log []event) {
	t.Helper()
	for _, e := range log {
		if err := p.Update(e.x, e.y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAtomsMerge: two halves of a log, folded apart and added, and the log in another order, give
// θ̂ and all members of the log in order to 1e-9, because no determinant here is within 1e-9 of a
// boundary (checked). Lazy's state is a fold: after a merge it refreshes.
func TestAtomsMerge(t *testing.T) {
	const d, m, n = 6, 7, 400
	w := newWorld(5, d, 20)
	for _, form := range forms {
		make1 := func() computed { return newComputed(t, form, policy.AtomsOptions{M: m, OneSided: true}, w.problem(0)) }
		whole := make1()
		log := record(t, w, whole, n)
		if e := whole.Root().LogDetRatio() / math.Ln2; math.Abs(e-math.Round(e)) < 1e-9 {
			t.Fatal("the test log ends at a boundary: take another seed")
		}
		var even, odd []event
		for i, e := range log {
			if i%2 == 0 {
				even = append(even, e)
			} else {
				odd = append(odd, e)
			}
		}
		first, second, late := make1(), make1(), make1()
		feed(t, first, even)
		feed(t, second, odd)
		feed(t, late, append(slices.Clone(odd), even...))
		var err error
		if form == "lazy" {
			before := max(keyOf(first), keyOf(second))
			if err = first.(*policy.Lazy).Merge(second.(*policy.Lazy)); keyOf(first) != before+1 {
				t.Errorf("lazy: epoch %d after a merge of %d", keyOf(first), before)
			}
		} else {
			err = first.(*policy.Atoms).Merge(second.(*policy.Atoms))
		}
		if err != nil {
			t.Fatal(err)
		}
		if first.Root().Len() != n {
			t.Errorf("%s: %d updates after the merge", form, first.Root().Len())
		}
		want, got := make([]float64, d), make([]float64, d)
		for name, p := range map[string]computed{"merged": first, "late": late} {
			for i, v := range whole.Root().Theta() {
				if math.Abs(v-p.Root().Theta()[i]) > 1e-11 {
					t.Fatalf("%s %s: theta %v, want %v", form, name, p.Root().Theta(), whole.Root().Theta())
				}
			}
			if form == "lazy" {
				continue
			}
			for j := range m {
				whole.Model(want, 5, j, 1)
				p.Model(got, 5, j, 1)
				for i := range want {
					if math.Abs(want[i]-got[i]) > 1e-9 {
						t.Fatalf("%s %s: member %d is %v, want %v", form, name, j, got, want)
					}
				}
			}
		}
		other := newComputed(t, form, policy.AtomsOptions{M: m + 1, OneSided: true}, w.problem(0))
		if form == "lazy" {
			err = first.(*policy.Lazy).Merge(other.(*policy.Lazy))
		} else {
			err = first.(*policy.Atoms).Merge(other.(*policy.Atoms))
		}
		if err == nil || first.Root().Len() != n {
			t.Errorf("%s: merge with another m gives %v", form, err)
		}
	}
}

// TestAtomsRecovery loses the process after every event: a policy made anew and restored from the
// snapshot holds the same members bit for bit and goes on like one that never stopped. The snapshot
// of Atoms holds at most d² + d numbers and the count of events.
func TestAtomsRecovery(t *testing.T) {
	const d, m, n = 5, 4, 120
	for _, form := range forms {
		w := newWorld(6, d, 12)
		make1 := func() computed { return newComputed(t, form, policy.AtomsOptions{M: m, OneSided: true}, w.problem(0)) }
		steady, restored := make1(), make1()
		a, b := make([]float64, d), make([]float64, d)
		var snap []byte
		for _, e := range record(t, w, make1(), n) {
			feed(t, steady, []event{e})
			feed(t, restored, []event{e})
			var err error
			if snap, err = restored.AppendSnapshot(nil); err != nil {
				t.Fatal(err)
			}
			if again, _ := steady.AppendSnapshot(nil); !bytes.Equal(again, snap) {
				t.Fatalf("%s: the snapshots differ", form)
			}
			restored = make1()
			if err := restored.Restore(snap); err != nil {
				t.Fatal(err)
			}
			for j := range m {
				steady.Model(a, 9, j, -1)
				restored.Model(b, 9, j, -1)
				if !slices.Equal(a, b) {
					t.Fatalf("%s: member %d is %v after recovery, %v without", form, j, b, a)
				}
			}
		}
		// Magic, kind and checksum aside, a vector is its length and its numbers.
		numbers := 0
		for at := 4 + 2 + len("atoms") + 4; at < len(snap)-4; {
			k := int(binary.LittleEndian.Uint32(snap[at:]))
			numbers += k
			at += 4 + 8*k
		}
		if form != "lazy" && numbers > d*d+d+1 {
			t.Errorf("%s: %d numbers in a snapshot, want at most d² + d + 1 = %d", form, numbers, d*d+d+1)
		}
	}
}

// TestAtomsCount compares the law with the count over all models by the definition, model by model
// with the oracle, after every round, where arms are duplicated, differ by one unit in the last
// place, or by 1e-13: there the scores of the product cannot decide. 40 000 draws of Select (with TROUPE_LONG
// 10⁶, 10⁵ for the other forms than epoch) then match the law of the last state: Hoeffding for each arm, 1e-9
// over all.
func TestAtomsCount(t *testing.T) {
	const d, m = 5, 8
	for _, form := range forms {
		w := newWorld(9, d, 30)
		for i := range 8 {
			copy(w.arms[10+i], w.arms[i])
			if i > 2 {
				w.arms[10+i][0] = math.Nextafter(w.arms[i][0], 2)
			}
			if i > 5 {
				w.arms[10+i][1] += 1e-13
			}
		}
		p := newComputed(t, form, policy.AtomsOptions{M: m}, w.problem(0))
		sel := w.key.Child("draws").Stream(rng.Select)
		var law bandit.Law
		var a bandit.Action
		model := make([]float64, d)
		check := func(round int) {
			if err := p.Prob(&law, w, sel.Round(3)); err != nil {
				t.Fatal(err)
			}
			want := make([]uint64, len(w.arms))
			for j := range m {
				for _, sign := range []float64{1, -1} {
					p.Model(model, 3, j, sign)
					w.ArgMax(&a, model)
					want[a.Index]++
				}
			}
			for i, atom := range law.Atoms {
				if atom.Count != want[i] || law.Total != 2*m {
					t.Fatalf("%s, round %d: arm %d has count %d of %d, want %d", form, round, i, atom.Count, law.Total, want[i])
				}
			}
		}
		check(0)
		w.play(t, p, 150, func(round int, _ *bandit.Action, _ float64) { check(round - 1) })
		check(150)
		n := float64(sized(40_000, 100_000))
		if form == "epoch" {
			n = float64(sized(40_000, 1_000_000))
		}
		seen := make([]float64, len(w.arms))
		for i := range uint64(n) {
			if err := p.Select(&a, w, sel.Sub(i).Round(3)); err != nil {
				t.Fatal(err)
			}
			seen[a.Index]++
		}
		limit := math.Sqrt(n * math.Log(2*float64(len(w.arms)*len(forms))/1e-9) / 2)
		for i, atom := range law.Atoms {
			if math.Abs(seen[i]-n*atom.P) > limit {
				t.Errorf("%s: arm %d drawn %v times of %v, probability %v", form, i, seen[i], n, atom.P)
			}
		}
	}
}

// TestRoundKeyIsThompson: with key = "round", over the candidates and the draw, X_t has the law of
// Thompson sampling. Two samples of n = 20 000 from the same state, level 1e-4 in all: the scores
// ⟨x, θ⟩ of three directions by the two-sample Kolmogorov–Smirnov statistic, whose critical value is
// the Dvoretzky–Kiefer–Wolfowitz–Massart bound for each sample at half of its share, and the arms
// likewise by Hoeffding. The same test must tell a Thompson sampler with 1.3 times the scale.
func TestRoundKeyIsThompson(t *testing.T) {
	const d, n, level = 4, 20_000, 1e-4
	w := newWorld(13, d, 6)
	log := record(t, w, newComputed(t, "epoch", policy.AtomsOptions{OneSided: true}, w.problem(0)), 40)
	type sample struct {
		scores [3][]float64
		arms   [6]float64
	}
	draw := func(make1 func(p policy.Problem) bandit.Policy) *sample {
		s := new(sample)
		set := &listener{world: w}
		var a bandit.Action
		for i := range uint64(n) {
			prob := w.problem(0)
			prob.Init = w.key.Child("candidates").At(i).Stream(rng.Init)
			p := make1(prob)
			feed(t, p, log)
			if err := p.Select(&a, set, w.key.Child("choice").Stream(rng.Select).Round(i)); err != nil {
				t.Fatal(err)
			}
			s.arms[a.Index]++
			for k := range s.scores {
				s.scores[k] = append(s.scores[k], linalg.Dot(w.arms[k], set.theta))
			}
		}
		return s
	}
	thompson := func(scale float64) func(policy.Problem) bandit.Policy {
		// One policy is enough: its state is the log's and Select does not change it.
		p, err := policy.NewThompson(policy.ThompsonOptions{Scale: policy.Constant(scale)}, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		feed(t, p, log)
		return func(policy.Problem) bandit.Policy { return silent{p} }
	}
	shared := newComputed(t, "round", policy.AtomsOptions{M: 3, OneSided: true}, w.problem(0))
	feed(t, shared, log)
	snap, err := shared.AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	atoms := draw(func(p policy.Problem) bandit.Policy {
		a := newComputed(t, "round", policy.AtomsOptions{M: 3, OneSided: true}, p)
		if err := a.Restore(snap); err != nil {
			t.Fatal(err)
		}
		return silent{a}
	})
	const tests = 3 + 6
	differ := func(a, b *sample) (what string) {
		ks := 2 * math.Sqrt(math.Log(2*2*tests/level)/(2*n)) // each sample at level/(2·tests)
		for k := range a.scores {
			if dist := twoSample(a.scores[k], b.scores[k]); dist > ks {
				return "scores"
			}
		}
		limit := 2 * math.Sqrt(n*math.Log(2*2*tests/level)/2)
		for i := range a.arms {
			if math.Abs(a.arms[i]-b.arms[i]) > limit {
				return "arms"
			}
		}
		return ""
	}
	if what := differ(atoms, draw(thompson(1))); what != "" {
		t.Errorf("the %s of key = round are not those of Thompson sampling", what)
	}
	if differ(atoms, draw(thompson(1.3))) == "" {
		t.Error("the test does not tell a sampler with 1.3 times the scale")
	}
}

// TestDecisionKeyIsThompson: with key = "decision" the decisions between two updates are independent
// with the law of Thompson sampling: n = 20 000 decisions of one policy with m = 2, its candidates
// fixed by its stream. Null: each arm has Thompson's probability, and so has the event that the
// decisions 2i and 2i+1 agree. Both laws are estimated with n draws and compared by Hoeffding's
// inequality, level 1e-4 in all. With key = "round" two members decide everything, which the test
// must notice. A decision's choice does not depend on the decisions before it.
func TestDecisionKeyIsThompson(t *testing.T) {
	const d, n, level = 4, 20_000, 1e-4
	w := newWorld(13, d, 6)
	log := record(t, w, newComputed(t, "epoch", policy.AtomsOptions{}, w.problem(0)), 40)
	thompson, err := policy.NewThompson(policy.ThompsonOptions{}, w.problem(0))
	if err != nil {
		t.Fatal(err)
	}
	tally := func(p bandit.Policy, stream string) (share [7]float64) {
		feed(t, p, log)
		var a bandit.Action
		last := -1
		for i := range uint64(n) {
			if err := p.Select(&a, w, w.key.Child(stream).Stream(rng.Select).Round(i)); err != nil {
				t.Fatal(err)
			}
			share[a.Index] += 1.0 / n
			if i%2 == 1 && a.Index == last {
				share[6] += 2.0 / n
			}
			last = a.Index
		}
		return share
	}
	want := tally(thompson, "thompson")
	far := func(form string) (worst float64) {
		got := tally(newComputed(t, form, policy.AtomsOptions{M: 2}, w.problem(0)), "atoms")
		for i := range want {
			worst = max(worst, math.Abs(got[i]-want[i]))
		}
		return worst
	}
	limit := 2 * math.Sqrt(math.Log(2*2*7/level)/(2*n/2)) // pairs: n/2 of them
	if x := far("decision"); x > limit {
		t.Errorf("a share differs from Thompson sampling's by %v, limit %v", x, limit)
	}
	if x := far("round"); x <= limit {
		t.Errorf("the test does not notice that two members make all decisions: %v within %v", x, limit)
	}
}

// TestEpochsAtPowers: where det V is a power of ρ, the key does not depend on the order of the events
// or on how logs were merged. 1000 logs of d ≤ 5 and at most 24 events, λ = 1, ρ = 2: actions ±1/√d and
// √½·e_i, whose determinants are often powers of 2, and basis vectors.
func TestEpochsAtPowers(t *testing.T) {
	powers := 0
	for i := range uint64(1000) {
		src := rng.NewKey(i).Stream(rng.Instance).Round(0)
		d, n := 1+src.Intn(0, 5), 1+src.Intn(1, 24)
		new1 := func() *policy.Atoms {
			p := policy.Problem{Dim: d, Init: rng.NewKey(i).Stream(rng.Init)}
			return newComputed(t, "epoch", policy.AtomsOptions{M: 2}, p).(*policy.Atoms)
		}
		whole, back, first, second := new1(), new1(), new1(), new1()
		var log []bandit.Action
		for k := range n {
			a := bandit.Action{X: make([]float64, d), Index: bandit.NoIndex}
			at := src.Intn(2+10*k, d)
			switch i % 3 {
			case 0:
				for c := range a.X {
					a.X[c] = src.Sign(3+10*k+c) / math.Sqrt(float64(d))
				}
			case 1:
				a.X[at] = math.Sqrt(0.5)
			default:
				a.X[at] = 1
			}
			log = append(log, a)
		}
		for k, a := range log {
			half := first
			if k%2 == 1 {
				half = second
			}
			if whole.Update(a, 0, rng.Source{}) != nil || half.Update(a, 0, rng.Source{}) != nil ||
				back.Update(log[n-1-k], 0, rng.Source{}) != nil {
				t.Fatal("an update failed")
			}
		}
		if err := first.Merge(second); err != nil {
			t.Fatal(err)
		}
		if x := whole.Root().LogDetRatio() / math.Ln2; math.Abs(x-math.Round(x)) < 1e-12 && x > 0.5 {
			powers++
		}
		if whole.Key(0) != back.Key(0) || whole.Key(0) != first.Key(0) {
			t.Errorf("log %d (d = %d, %d events): key %d in order, %d backwards, %d merged", i, d, n, whole.Key(0), back.Key(0), first.Key(0))
		}
	}
	if powers < 30 {
		t.Errorf("only %d of 1000 determinants are powers of 2: the test has lost its cases", powers)
	}
}

// listener is a world that remembers the θ it was asked with.
type listener struct {
	*world
	theta []float64
}

func (p *listener) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	p.theta = append(p.theta[:0], theta...)
	return p.world.ArgMax(dst, theta)
}

// silent is a policy that has learnt already.
type silent struct{ bandit.Policy }

func (silent) Update(bandit.Action, float64, rng.Source) error { return nil }

// twoSample returns the two-sample statistic sup |F_a − F_b|. It sorts its arguments.
func twoSample(a, b []float64) float64 {
	slices.Sort(a)
	slices.Sort(b)
	var worst float64
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if a[i] <= b[j] {
			i++
		} else {
			j++
		}
		worst = max(worst, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return worst
}

// TestAtomsFloor: with two members most arms have no vote; mixed around atoms gives each of K arms
// at least ε/K, the votes scaled by 1 − ε, and probabilities that add up to 1.
func TestAtomsFloor(t *testing.T) {
	const k, epsilon = 30, 0.1
	w := newWorld(19, 4, k)
	decode := func(raw spec.Raw) bandit.Policy {
		o, err := spec.Decode(policy.Kinds, raw, "policy[0]")
		if err != nil {
			t.Fatal(err)
		}
		p, err := o.New(w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	base := spec.Raw{"kind": "atoms", "m": int64(2)}
	mixed := decode(spec.Raw{"kind": "mixed", "epsilon": epsilon, "base": base})
	w.play(t, mixed, 50, nil)
	var law bandit.Law
	if err := mixed.(bandit.Prober).Prob(&law, w, rng.Source{}); err != nil {
		t.Fatal(err)
	}
	sum, floor := 0.0, 0
	for i, a := range law.Atoms {
		sum += a.P
		if a.P < epsilon/k*(1-1e-12) {
			t.Errorf("arm %d has probability %v, below the floor %v", i, a.P, epsilon/k)
		}
		if a.P < epsilon/k*(1+1e-12) {
			floor++
		}
	}
	if math.Abs(sum-1) > 1e-12 || floor < k-4 {
		t.Errorf("probabilities add up to %v, %d arms at the floor, want 1 and at least %d", sum, floor, k-4)
	}
}

// TestFixedWarns: only atoms that are never redrawn need m ≥ 2d.
func TestFixedWarns(t *testing.T) {
	w := newWorld(1, 10, 0)
	for _, c := range []struct {
		key  string
		m    int
		warn bool
	}{{"", 2, false}, {"epoch", 2, false}, {"round", 2, false}, {"fixed", 20, false}, {"fixed", 19, true}} {
		a := newComputed(t, c.key, policy.AtomsOptions{M: c.m}, w.problem(0)).(*policy.Atoms)
		if got := strings.Join(a.Warnings(w.set()), " "); (got != "") != c.warn || c.warn && !strings.Contains(got, "2d = 20") {
			t.Errorf("%+v: warning %q", c, got)
		}
	}
}

// TestTheoremWarns: a smaller m than the theorem's is played and warned of.
func TestTheoremWarns(t *testing.T) {
	w := newWorld(1, 3, 5)
	for m, warn := range map[int]bool{0: false, 9: true} {
		a, err := policy.NewAtoms(policy.AtomsOptions{Preset: "theorem", M: m}, w.problem(500))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.Warnings(w.set()), " "); warn != strings.Contains(got, "is below the") || warn && !strings.Contains(got, "m = 9 is below") {
			t.Errorf("m = %d: warning %q", m, got)
		}
	}
}

// TestAtomsRefusals: each bad option is named with its value.
func TestAtomsRefusals(t *testing.T) {
	good := newWorld(1, 3, 4).problem(100)
	for want, c := range map[string]struct {
		o policy.Options
		p policy.Problem
	}{
		`key is "epok"; did you mean "epoch"?`:   {&policy.AtomsOptions{Key: "epok", OneSided: true}, good},
		"rho is 1, expected a number above 1":    {&policy.AtomsOptions{Rho: 1, OneSided: true}, good},
		"rho is NaN":                             {&policy.LazyOptions{Rho: math.NaN(), OneSided: true}, good},
		"m is -2":                                {&policy.AtomsOptions{M: -2, OneSided: true}, good},
		"m is -3":                                {&policy.LazyOptions{M: -3, OneSided: true}, good},
		"lambda is -1":                           {&policy.AtomsOptions{Lambda: -1, OneSided: true}, good},
		"delta is 3":                             {&policy.LazyOptions{Delta: 3, OneSided: true}, good},
		`preset is "paper"`:                      {&policy.AtomsOptions{Preset: "paper", OneSided: true}, good},
		"needs a known horizon":                  {&policy.AtomsOptions{Preset: "theorem", OneSided: true}, policy.Problem{Dim: 2}},
		"thm:atoms needs lambda >= 1":            {&policy.AtomsOptions{Preset: "theorem", Lambda: 0.1, OneSided: true}, good},
		"dimension is 0":                         {&policy.LazyOptions{OneSided: true}, policy.Problem{}},
		"scale.value is -1, expected a positive": {&policy.AtomsOptions{Scale: policy.Constant(-1), OneSided: true}, good},
	} {
		if _, err := c.o.New(c.p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c.o, err, want)
		}
	}
}
