package policy_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// TestMarginal: between two arms Thompson sampling takes the first with probability Φ(δ/s), δ the difference
// of the estimated means and s² = (x − y)ᵀV⁻¹(x − y). The marginal law of atoms with 3 members is that, by
// Hoeffding's inequality over 3·4000 independent pairs at level 1e-9, and with a floor of 0.2 around them it
// is mixed; conditional laws are far from it. The keys without a decision come back as they are.
func TestMarginal(t *testing.T) {
	const d, n = 3, 4000
	w := newWorld(14, d, 2)
	log := record(t, w, newComputed(t, "epoch", policy.AtomsOptions{}, w.problem(0)), 8)
	a := newComputed(t, "decision", policy.AtomsOptions{M: 3}, w.problem(0))
	feed(t, a, log)
	s := newSums(d, 1)
	for _, e := range log {
		s.add(e.x.X, e.y)
	}
	diff := make([]float64, d)
	for i := range diff {
		diff[i] = w.arms[0][i] - w.arms[1][i]
	}
	var v mat.VecDense
	if err := s.chol.SolveVecTo(&v, mat.NewVecDense(d, diff)); err != nil {
		t.Fatal(err)
	}
	want := 0.5 * math.Erfc(-linalg.Dot(diff, s.hat())/math.Sqrt(2*mat.Dot(&v, mat.NewVecDense(d, diff))))
	if want < 0.1 || want > 0.9 {
		t.Fatalf("the first arm has probability %v: take another seed", want)
	}
	draw := w.key.Child("marginal").Stream(rng.Select).Round(5)
	limit := math.Sqrt(math.Log(2/1e-9) / (2 * 3 * n))
	var law bandit.Law
	if err := policy.Marginal(&law, a, w, n, draw); err != nil {
		t.Fatal(err)
	}
	if math.Abs(law.Atoms[0].P-want) > limit || law.Total != 6*n {
		t.Errorf("the marginal probability is %v of %d, want %v ± %v", law.Atoms[0].P, law.Total, want, limit)
	}
	far := 0.0
	for i := range uint64(20) {
		if err := a.Prob(&law, w, draw.Later(i)); err != nil {
			t.Fatal(err)
		}
		far = max(far, math.Abs(law.Atoms[0].P-want))
	}
	if far < 5*limit {
		t.Errorf("conditional laws are within %v: the test tells nothing", far)
	}
	mixed, err := policy.Mix(a, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.Marginal(&law, mixed, w, n, draw); err != nil {
		t.Fatal(err)
	}
	if got, want := law.Atoms[0].P, 0.8*want+0.1; math.Abs(got-want) > limit || law.Total != 0 {
		t.Errorf("with a floor the marginal probability is %v, want %v", got, want)
	}
	var own bandit.Law
	epoch := newComputed(t, "epoch", policy.AtomsOptions{M: 3}, w.problem(0))
	feed(t, epoch, log)
	if err := errors.Join(policy.Marginal(&law, epoch, w, 7, draw), epoch.Prob(&own, w, draw)); err != nil {
		t.Fatal(err)
	}
	if law.Atoms[0].P != own.Atoms[0].P || law.Total != 42 {
		t.Errorf("key = epoch: marginal %v of %d, law %v", law.Atoms[0].P, law.Total, own.Atoms[0].P)
	}
	ball, err := actionset.NewBall(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.Marginal(&law, a, ball, 3, draw); !errors.Is(err, bandit.ErrUnsupported) {
		t.Errorf("on the ball: %v", err)
	}
	if err := policy.Marginal(&law, a, w, 0, draw); err == nil {
		t.Error("0 decisions were accepted")
	}
}

func ExampleMarginal() {
	// The recorded propensity is conditional on the candidates of the decision, a multiple of 1/2m. The
	// marginal one, over candidates and draw, is that of Thompson sampling: ½ here, by symmetry.
	p, _ := policy.NewAtoms(policy.AtomsOptions{M: 2}, policy.Problem{Dim: 2, Init: rng.NewKey(1).Stream(rng.Init)})
	set, _ := actionset.NewFinite([][]float64{{1, 0}, {0, 1}})
	draw := rng.NewKey(1).Stream(rng.Select).Round(7)
	var law bandit.Law
	if err := p.Prob(&law, set, draw); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("given the candidates: %d/%d\n", law.Atoms[0].Count, law.Total)
	if err := policy.Marginal(&law, p, set, 10_000, draw); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("over candidates too:  %.2f\n", law.Atoms[0].P)
	// Output:
	// given the candidates: 2/4
	// over candidates too:  0.50
}
