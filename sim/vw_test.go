package sim

import (
	"context"
	"math"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/dataset"
	"troupe/rng"
)

// logWorld has two actions in each round; the log took action t mod 2 with probability 0.8 or 0.4, and
// the reward was t.
type logWorld struct {
	set *actionset.Sparse
	t   uint64
}

func (w *logWorld) Dim() int { return 1024 }
func (w *logWorld) Offer(draw rng.Source) (bandit.ActionSet, error) {
	w.t = draw.At()
	return w.set, nil
}
func (w *logWorld) Reward(bandit.Action, rng.Source) (float64, error) { panic("not asked") }
func (w *logWorld) Regret(bandit.Action) (float64, error)             { panic("not asked") }
func (w *logWorld) Logged(dst *bandit.Action) (reward, loss, propensity float64) {
	i := int(w.t % 2)
	at, x := w.set.Nonzeros(i)
	dst.SetSparse(at, x, i)
	return float64(w.t), 10 - float64(w.t), []float64{0.8, 0.4}[i]
}

// logPlayer plays action 1; with an exact law it plays it with probability ¾.
type logPlayer struct {
	exact bool
	saw   []float64
	arms  []int
}

func (p *logPlayer) Select(dst *bandit.Action, set bandit.ActionSet, _ rng.Source) error {
	at, x := set.(bandit.Sparse).Nonzeros(1)
	dst.SetSparse(at, x, 1)
	return nil
}

func (p *logPlayer) Update(a bandit.Action, y float64, _ rng.Source) error {
	if a.At == nil {
		panic("a dense action")
	}
	p.saw, p.arms = append(p.saw, y), append(p.arms, a.Index)
	return nil
}

func (p *logPlayer) Prob(dst *bandit.Law, _ bandit.ActionSet, _ rng.Source) error {
	if !p.exact {
		return bandit.ErrUnsupported
	}
	dst.Atoms = []bandit.Atom{{P: 0.25}, {P: 0.75}}
	return nil
}

type logSums struct{ reward, regret []float64 }

func (s *logSums) Round(_ int, regret, reward float64) error {
	s.regret, s.reward = append(s.regret, regret), append(s.reward, reward)
	return nil
}

// TestPlayLogged: rewards are weighed by the law of the policy over the logged probability, and the logged
// action is learned, whatever the policy chose; also through the wrapper of late rewards.
func TestPlayLogged(t *testing.T) {
	set, err := actionset.SparseOf(1024, []int{0, 1, 2}, []uint32{3, 900}, []float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		exact  bool
		weight [2]float64 // of action 0 and 1
	}{{true, [2]float64{0.25 / 0.8, 0.75 / 0.4}}, {false, [2]float64{0, 1 / 0.4}}} {
		for _, batch := range []int{0, 2} {
			p := &logPlayer{exact: c.exact}
			var player bandit.Policy = p
			if batch > 0 {
				player = newLate(p, &Feedback{Batch: batch}, rng.NewKey(1))
			}
			var s logSums
			if err := Play(&logWorld{set: set}, player, rng.NewKey(1), 4, &s); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				y, w := float64(i+1), c.weight[(i+1)%2]
				if math.Abs(s.reward[i]-w*y) > 1e-12 || math.Abs(s.regret[i]-w*(10-y)) > 1e-12 {
					t.Errorf("exact law %v, round %d: reward %v, regret %v; the weight is %v", c.exact, i+1, s.reward[i], s.regret[i], w)
				}
				if p.saw[i] != y || p.arms[i] != (i+1)%2 {
					t.Errorf("round %d: learned reward %v of action %d", i+1, p.saw[i], p.arms[i])
				}
			}
		}
	}
}

// TestOnePass: a log is played once; a longer horizon is refused, and without one it is the length.
func TestOnePass(t *testing.T) {
	const text = "[[environment]]\nkind = 'vw'\ndata = 'engine.vw'\n[[policy]]\nkind = 'sparse'\n"
	data := &dataset.Source{Override: "testdata/engine"}
	x, err := Parse("x.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := x.OnePass(data); n != 70 || err != nil {
		t.Errorf("one pass has %d rounds, %v; expected 70", n, err)
	}
	for horizon, want := range map[string]string{"70": "", "71": "must not be shown twice"} {
		x, err := Parse("x.toml", "replications = 1\nhorizon = "+horizon+"\n"+text, Kinds())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := x.OnePass(data); n != 0 || err != nil {
			t.Errorf("a horizon of the spec became %d (%v)", n, err)
		}
		_, err = Run(context.Background(), x, Options{Data: data})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("horizon %s: %v, expected %q", horizon, err, want)
		}
	}
}
