package bandittest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// SetOptions tells TestActionSet what the caller knows about a set. The zero value is ready: it
// asks for all that can be checked without knowledge.
type SetOptions struct {
	// Members are elements of the set; no answer may be worse than one of them. Members of a
	// bandit.Finite need not be given.
	Members [][]float64
	// Complete says that Members has every extreme point, so no answer may be better either.
	Complete bool
	// Contains reports whether x is within tol of the set. Default: the set's own method of that
	// name and type, if it has one.
	Contains func(x []float64, tol float64) bool
	// Rebuild makes a set of the same kind from a list of arms: permuting the arms must permute
	// the answers. Only for a bandit.Finite; nil leaves that check out.
	Rebuild func(arms [][]float64) (bandit.Finite, error)
	// Radius is the largest norm allowed; 0 stands for 1, the unit ball.
	Radius float64
	// Tolerance is the error allowed in a value, in units of ‖θ‖·Radius, and in an element, in
	// units of Radius; 0 stands for 1e-9.
	Tolerance float64
	// Directions is the number of random θ, besides the special ones; 0 stands for 40.
	Directions int
	// Seed chooses the random θ.
	Seed uint64
	// Allocates says that ArgMax allocates memory in the steady state, which is then not checked.
	Allocates bool
}

// TestActionSet checks that a set keeps the contract of bandit.ActionSet, and of bandit.Finite if
// it is one, and reports every violation to t:
//
//   - the value is ⟨x, θ⟩; x is finite, in the set, in the ball of the radius allowed, and no
//     member, no arm and no answer to another θ is better for θ;
//   - the value of c·θ is c times the value of θ, c > 0;
//   - equal θ give equal x, bit for bit: again, in another order, after the caller wrote over
//     earlier answers, from several goroutines at once; θ = 0 and other ties included;
//   - the action's index is the arm's, the lowest among equal arms, or bandit.NoIndex;
//   - dst.X is reused, nothing is allocated (not looked at under the race detector, which makes
//     pools forget), θ is not written to;
//   - a θ that is not finite is an error and leaves dst as it was; one of the wrong length panics;
//   - permuting the arms of a finite set permutes the answer, where Rebuild is given.
//
// It counts allocations, so do not call it from a parallel test.
func TestActionSet(t TB, set bandit.ActionSet, o SetOptions) {
	t.Helper()
	if o.Radius == 0 {
		o.Radius = 1
	}
	if o.Tolerance == 0 {
		o.Tolerance = 1e-9
	}
	if o.Directions == 0 {
		o.Directions = 40
	}
	if c, ok := set.(interface {
		Contains(x []float64, tol float64) bool
	}); ok && o.Contains == nil {
		o.Contains = c.Contains
	}
	s := &setTest{t: t, set: set, o: o, d: set.Dim()}
	if s.d < 1 {
		t.Errorf("Dim() is %d, want at least 1", s.d)
		return
	}
	for i, m := range o.Members {
		if len(m) != s.d {
			t.Errorf("Members[%d] has %d entries, but Dim() is %d", i, len(m), s.d)
			return
		}
	}
	s.finite, _ = set.(bandit.Finite)
	s.thetas = directions(s.d, o.Directions, o.Seed)

	for _, check := range []func(){
		s.arms, s.answers, s.comparisons, s.homogeneity, s.repetition, s.concurrency, s.storage,
		s.refusals, s.permutation,
	} {
		check()
		if s.failures > 0 {
			return // later checks would repeat the same fault in other words
		}
	}
}

// TB is the part of testing.TB that the suites need.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

type setTest struct {
	t        TB
	set      bandit.ActionSet
	finite   bandit.Finite // nil when it is not
	o        SetOptions
	d        int
	thetas   [][]float64
	got      []bandit.Action // answers to thetas
	values   []float64
	failures int
}

func (s *setTest) errorf(format string, args ...any) {
	s.t.Helper()
	if s.failures++; s.failures <= 5 {
		s.t.Errorf("%T: %s (seed %d)", s.set, fmt.Sprintf(format, args...), s.o.Seed)
	}
}

// directions returns n Gaussian θ and special ones: ties, zeros, signs, extreme sizes.
func directions(d, n int, seed uint64) [][]float64 {
	var list [][]float64
	add := func(f func(i int) float64) {
		theta := make([]float64, d)
		for i := range theta {
			theta[i] = f(i)
		}
		list = append(list, theta)
	}
	add(func(int) float64 { return 0 })
	add(func(int) float64 { return 1 })
	add(func(int) float64 { return -1 })
	add(func(i int) float64 { return float64(1 - 2*(i%2)) })
	for k := range min(d, 8) {
		for _, v := range []float64{1, -1} {
			add(func(i int) float64 {
				if i == k {
					return v
				}
				return 0
			})
		}
	}
	stream := rng.NewKey(seed).Child("directions").Stream(rng.Offer)
	for k := range n {
		src := stream.Round(uint64(k))
		switch {
		case k%4 == 3: // many ties
			add(func(i int) float64 { return float64(src.Intn(i, 3) - 1) })
		case k%16 == 4: // most coordinates 0
			add(func(i int) float64 {
				if src.Intn(d+i, 3) > 0 {
					return 0
				}
				return src.Normal(i)
			})
		case k%16 == 8:
			add(func(i int) float64 { return 1e-120 * src.Normal(i) })
		case k%16 == 12:
			add(func(i int) float64 { return 1e+120 * src.Normal(i) })
		case k%16 == 14: // coordinates of very different sizes
			add(func(i int) float64 { return src.Normal(i) * math.Pow(10, 6*src.Uniform(d+i)) })
		default:
			add(src.Normal)
		}
	}
	return list
}

// ask returns a fresh answer.
func (s *setTest) ask(theta []float64) (bandit.Action, float64, bool) {
	var a bandit.Action
	v, err := s.set.ArgMax(&a, theta)
	if err != nil {
		s.errorf("ArgMax(%v): %v", theta, err)
		return a, v, false
	}
	return a, v, true
}

// slack is the error allowed in a value for θ.
func (s *setTest) slack(theta []float64) float64 { return s.o.Tolerance * s.o.Radius * norm(theta) }

// arms checks the list of a finite set.
func (s *setTest) arms() {
	if s.finite == nil {
		return
	}
	if s.finite.Len() < 1 {
		s.errorf("Len() is %d, want at least 1", s.finite.Len())
		return
	}
	for i := range s.finite.Len() {
		if x := s.finite.At(i); len(x) != s.d {
			s.errorf("At(%d) has %d entries, want %d", i, len(x), s.d)
		} else if r := norm(x); !(r <= s.o.Radius+s.o.Tolerance) {
			s.errorf("At(%d) has norm %v, want at most %v", i, r, s.o.Radius)
		}
	}
}

// answers asks for every θ and looks at each answer alone.
func (s *setTest) answers() {
	for _, theta := range s.thetas {
		before := slices.Clone(theta)
		a, v, ok := s.ask(theta)
		if !ok {
			return
		}
		if !same(before, theta) {
			s.errorf("ArgMax(%v) changed theta", before)
		}
		s.got, s.values = append(s.got, a), append(s.values, v)
		if len(a.X) != s.d {
			s.errorf("ArgMax(%v) stored %d entries, want %d", theta, len(a.X), s.d)
			return
		}
		r := norm(a.X)
		if math.IsNaN(r) || math.IsInf(r, 0) || r > s.o.Radius+s.o.Tolerance {
			s.errorf("ArgMax(%v) = %v of norm %v, want at most %v", theta, a.X, r, s.o.Radius)
		}
		if w := dot(a.X, theta); !(math.Abs(w-v) <= s.slack(theta)) {
			s.errorf("ArgMax(%v) returned value %v for x = %v, but ⟨x, θ⟩ is %v", theta, v, a.X, w)
		}
		if s.o.Contains != nil && !s.o.Contains(a.X, s.o.Tolerance*s.o.Radius) {
			s.errorf("ArgMax(%v) = %v, which is not in the set", theta, a.X)
		}
		if s.finite == nil {
			if a.Index != bandit.NoIndex {
				s.errorf("ArgMax(%v) has index %d, want bandit.NoIndex: the set is not a bandit.Finite", theta, a.Index)
			}
			continue
		}
		if a.Index < 0 || a.Index >= s.finite.Len() {
			s.errorf("ArgMax(%v) has index %d, want 0 to %d", theta, a.Index, s.finite.Len()-1)
			return
		}
		if !same(a.X, s.finite.At(a.Index)) {
			s.errorf("ArgMax(%v) has index %d and x = %v, but At(%d) is %v", theta, a.Index, a.X, a.Index,
				s.finite.At(a.Index))
		}
		if norm(theta) == 0 && a.Index != 0 {
			s.errorf("ArgMax(0) has index %d, want 0, the lowest of equals", a.Index)
		}
		for i := range a.Index {
			if same(s.finite.At(i), a.X) {
				s.errorf("ArgMax(%v) has index %d, but arm %d is the same and lower", theta, a.Index, i)
			}
		}
	}
}

// comparisons holds every answer against members, arms and the other answers.
func (s *setTest) comparisons() {
	for k, theta := range s.thetas {
		v, slack := s.values[k], s.slack(theta)
		best := math.Inf(-1)
		for _, m := range s.o.Members {
			best = max(best, dot(m, theta))
			if dot(m, theta) > v+slack {
				s.errorf("ArgMax(%v) has value %v, but the member %v gives %v", theta, v, m, dot(m, theta))
			}
		}
		if s.o.Complete && v > best+slack {
			s.errorf("ArgMax(%v) has value %v, but the best member gives %v", theta, v, best)
		}
		if s.finite != nil {
			for i := range s.finite.Len() {
				if w := dot(s.finite.At(i), theta); w > v+slack {
					s.errorf("ArgMax(%v) has value %v, but arm %d gives %v", theta, v, i, w)
				}
			}
		}
		for j, a := range s.got {
			if w := dot(a.X, theta); w > v+slack {
				s.errorf("ArgMax(%v) has value %v, but %v, the answer to %v, gives %v", theta, v, a.X, s.thetas[j], w)
			}
		}
	}
}

// homogeneity checks J(c·θ) = c·J(θ).
func (s *setTest) homogeneity() {
	scaled := make([]float64, s.d)
	for k, theta := range s.thetas {
		for _, c := range []float64{0x1p-40, 3, 0x1p40} {
			for i, v := range theta {
				scaled[i] = c * v
			}
			if _, v, ok := s.ask(scaled); ok && !(math.Abs(v-c*s.values[k]) <= 2*c*s.slack(theta)) {
				s.errorf("the value of %v·%v is %v, want %v", c, theta, v, c*s.values[k])
			}
		}
	}
}

// repetition asks again, in reverse order, after writing over the earlier answers, with a copy of
// θ, into a destination that holds something else.
func (s *setTest) repetition() {
	for k := len(s.thetas) - 1; k >= 0; k-- {
		first := bandit.Action{X: slices.Clone(s.got[k].X), Index: s.got[k].Index}
		for i := range s.got[k].X {
			s.got[k].X[i] = math.Inf(1)
		}
		s.got[k].X = first.X
		dst := bandit.Action{X: slices.Repeat([]float64{math.NaN()}, s.d+3), Index: 77}
		v, err := s.set.ArgMax(&dst, slices.Clone(s.thetas[k]))
		switch {
		case err != nil:
			s.errorf("ArgMax(%v): %v the second time", s.thetas[k], err)
		case !same(dst.X, first.X) || dst.Index != first.Index || v != s.values[k]:
			s.errorf("ArgMax(%v) = %v (index %d, value %v), but the first time %v (index %d, value %v)",
				s.thetas[k], dst.X, dst.Index, v, first.X, first.Index, s.values[k])
		}
	}
}

// concurrency asks from several goroutines at once. Run it with -race.
func (s *setTest) concurrency() {
	const workers = 4
	faults := make([]string, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			var a bandit.Action
			for i := range s.thetas {
				k := (i + w*len(s.thetas)/workers) % len(s.thetas)
				v, err := s.set.ArgMax(&a, s.thetas[k])
				if err != nil || v != s.values[k] || !same(a.X, s.got[k].X) || a.Index != s.got[k].Index {
					faults[w] = fmt.Sprintf("ArgMax(%v) = %v (value %v, error %v), alone %v (value %v)", s.thetas[k],
						a.X, v, err, s.got[k].X, s.values[k])
				}
			}
		})
	}
	wait.Wait()
	for _, f := range faults {
		if f != "" {
			s.errorf("from %d goroutines at once: %s", workers, f)
		}
	}
}

// storage checks that dst.X is reused and nothing is allocated.
func (s *setTest) storage() {
	dst := bandit.Action{X: make([]float64, 0, s.d)}
	home := &dst.X[:1][0]
	for _, theta := range s.thetas {
		if _, err := s.set.ArgMax(&dst, theta); err != nil || &dst.X[0] != home {
			s.errorf("ArgMax moved dst.X, which had capacity d (error %v)", err)
			return
		}
	}
	if s.o.Allocates || raceDetector {
		return
	}
	if n := testing.AllocsPerRun(20, func() {
		for _, theta := range s.thetas {
			s.set.ArgMax(&dst, theta)
		}
	}); n > 0 {
		s.errorf("%d calls of ArgMax allocated %v times, want 0", len(s.thetas), n)
	}
}

// refusals hands in what is not allowed.
func (s *setTest) refusals() {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, i := range []int{0, s.d / 2, s.d - 1} {
			theta := slices.Repeat([]float64{0.5}, s.d)
			theta[i] = v
			x := slices.Repeat([]float64{7}, s.d)
			dst := bandit.Action{X: x, Index: 77}
			if _, err := s.set.ArgMax(&dst, theta); err == nil {
				s.errorf("ArgMax accepted theta[%d] = %v", i, v)
			}
			if dst.Index != 77 || len(dst.X) != s.d || &dst.X[0] != &x[0] ||
				!same(x, slices.Repeat([]float64{7}, s.d)) {
				s.errorf("ArgMax refused theta[%d] = %v, but changed dst to %v", i, v, dst)
			}
		}
	}
	for _, n := range []int{0, s.d - 1, s.d + 1} {
		if !panics(func() {
			var a bandit.Action
			s.set.ArgMax(&a, make([]float64, n))
		}) {
			s.errorf("ArgMax accepted a theta of length %d, want a panic: d is %d", n, s.d)
		}
	}
}

// permutation reverses and shuffles the arms. Where two arms are equally good, only the value has
// to agree.
func (s *setTest) permutation() {
	if s.finite == nil || s.o.Rebuild == nil {
		return
	}
	n := s.finite.Len()
	reversed, shuffled := make([]int, n), make([]int, n)
	src := rng.NewKey(s.o.Seed).Child("permutation").Stream(rng.Offer).Round(0)
	for i := range n {
		reversed[i] = n - 1 - i
		j := src.Intn(i, i+1)
		shuffled[i], shuffled[j] = shuffled[j], i
	}
	for _, perm := range [][]int{reversed, shuffled} { // arm i of the new set is arm perm[i]
		arms := make([][]float64, n)
		for i, p := range perm {
			arms[i] = s.finite.At(p)
		}
		other, err := s.o.Rebuild(arms)
		if err != nil {
			s.errorf("Rebuild: %v", err)
			return
		}
		for k, theta := range s.thetas {
			var a bandit.Action
			v, err := other.ArgMax(&a, theta)
			if err != nil {
				s.errorf("ArgMax(%v) with permuted arms: %v", theta, err)
				continue
			}
			if math.Abs(v-s.values[k]) > s.slack(theta) {
				s.errorf("ArgMax(%v) has value %v with permuted arms, %v without", theta, v, s.values[k])
			}
			ties := 0
			for i := range n {
				if dot(s.finite.At(i), theta) >= s.values[k]-s.slack(theta) {
					ties++
				}
			}
			if ties == 1 && perm[a.Index] != s.got[k].Index {
				s.errorf("ArgMax(%v) is arm %d, but %d with permuted arms", theta, s.got[k].Index, perm[a.Index])
			}
		}
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// same compares bit for bit, but for the sign of 0.
func same(x, y []float64) bool { return slices.Equal(x, y) }

func dot(x, y []float64) float64 {
	var s float64
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

func norm(x []float64) float64 {
	var r float64
	for _, v := range x {
		r = math.Hypot(r, v)
	}
	return r
}
