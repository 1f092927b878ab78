package sim

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// counted counts the arms that are paid, and keeps what they paid.
type counted struct {
	bandit.Environment
	arms [4]int
	paid []float64
}

func (c *counted) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	y, err := c.Environment.Reward(a, draw)
	c.arms[a.Index]++
	c.paid = append(c.paid, y)
	return y, err
}

// consistent is a policy that must learn the index that it chose.
type consistent struct {
	bandit.Policy
	index int
}

func (c *consistent) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := c.Policy.Select(dst, set, draw)
	c.index = dst.Index
	return err
}

func (c *consistent) Update(a bandit.Action, y float64, draw rng.Source) error {
	if a.Index != c.index {
		return fmt.Errorf("learns index %d, chose %d", a.Index, c.index)
	}
	return c.Policy.Update(a, y, draw)
}

const (
	equalArms = `arms = [[0.6, 0.0], [0.0, 0.5], [0.6, -0.0], [0.6, 0.0]]`
	eachOnce  = `arms = [[0.6, 0.0], [0.0, 0.5]]`
)

func tiedWorld(set string) string {
	return "[[environment]]\nname = 'tied'\nkind = 'linear'\ntheta = 'given'\nvalue = [0.9, 0.4]\nset = { kind = 'finite', " + set + " }\n"
}

// TestTiesShare: with ties = "share" each of three equal arms has a third of the rounds of their group, by an exact bound
// of Hoeffding at level 1e-6 for each of 3 × 2 counts, and the policy plays and is paid as on the list of the
// different arms. Without it the first of them is played.
func TestTiesShare(t *testing.T) {
	const horizon = 6000
	for _, kind := range []policy.Options{&policy.EnsembleOptions{M: 8}, &policy.EpsilonGreedyOptions{Lambda: 1, Epsilon: 0.2}, &policy.UniformOptions{}} {
		play := func(set string) *counted {
			x := parseReal(t, "horizon = 6000\n"+tiedWorld(set)+"[[policy]]\nkind = 'uniform'\n")
			key := x.Key(3)
			world, err := x.Environments[0].Options.Build(key, nil)
			if err != nil {
				t.Fatal(err)
			}
			arms := 2
			if !strings.Contains(set, "share") && set != eachOnce {
				arms = 4
			}
			p, err := kind.New(policy.Problem{Dim: 2, Arms: arms, Horizon: horizon, Sigma: 1, Init: key.Stream(rng.Init)})
			if err != nil {
				t.Fatal(err)
			}
			c := &counted{Environment: world}
			if err := Play(c, &consistent{Policy: p}, key, horizon, nothing{}); err != nil {
				t.Fatal(err)
			}
			return c
		}
		shared, once, unset := play(equalArms+", ties = 'share'"), play(eachOnce), play(equalArms)
		if shared.arms[1] != once.arms[1] || once.arms[0] < 1000 {
			t.Errorf("%T: arms %v, on the different arms %v", kind, shared.arms, once.arms)
		}
		for i := range once.paid {
			if shared.paid[i] != once.paid[i] {
				t.Fatalf("%T, round %d: the reward is %v, on the different arms %v", kind, i+1, shared.paid[i], once.paid[i])
			}
		}
		n := float64(once.arms[0])
		room := math.Sqrt(n * math.Log(2*6/1e-6) / 2)
		for _, arm := range []int{0, 2, 3} {
			if off := math.Abs(float64(shared.arms[arm]) - n/3); off > room {
				t.Errorf("%T: arm %d was played %d times of %v, expected a third ± %.0f", kind, arm, shared.arms[arm], n, room)
			}
		}
		if _, ok := kind.(*policy.EnsembleOptions); ok && (unset.arms[2] > 0 || unset.arms[3] > 0) {
			t.Errorf("without ties: arms %v, expected none of those that equal the first", unset.arms)
		}
	}
}

// TestTiesRun: a run with ties = "share" has the bytes of one on the different arms, for any number of workers, without
// lock-step, with late rewards and recorders; a list without equal arms has the bytes that it has without the
// option; and the option changes the keys of the cells only where it is given.
func TestTiesRun(t *testing.T) {
	const policies = "[[policy]]\nkind = 'ensemble'\nm = [3, 10]\n[[policy]]\nkind = 'lee-oh'\n[[policy]]\nkind = 'epsilon-greedy'\n"
	const head = "horizon = 200\nreplications = 9\n"
	late := strings.Replace(tiedWorld(equalArms+", ties = 'share'"), "'tied'", "'late'", 1) + "feedback = { batch = 7 }\n"
	lateOnce := strings.Replace(tiedWorld(eachOnce), "'tied'", "'late'", 1) + "feedback = { batch = 7 }\n"
	shared := parseReal(t, head+tiedWorld(equalArms+", ties = 'share'")+late+policies)
	want := run(t, parseReal(t, head+tiedWorld(eachOnce)+lateOnce+policies), Options{}).Results
	for _, workers := range []int{1, 2, 9} {
		dir := filepath.Join(t.TempDir(), "out")
		out := run(t, shared, Options{Dir: dir, Workers: workers})
		if !bytes.Equal(out.Results, want) {
			t.Errorf("%d workers: other bytes than on the different arms", workers)
		}
		if n := lockStepped(t, dir); n > 0 {
			t.Errorf("%d workers: %d cells were played in lock-step, which knows no groups", workers, n)
		}
	}
	plain := run(t, parseReal(t, head+tiedWorld(eachOnce)+policies), Options{}).Results
	if !bytes.Equal(run(t, parseReal(t, head+tiedWorld(eachOnce+", ties = 'share'")+policies), Options{}).Results, plain) {
		t.Error("ties = share changed a list without equal arms")
	}
	if !bytes.Equal(run(t, parseReal(t, head+tiedWorld(equalArms+", ties = 'first'")+policies), Options{}).Results, run(t, parseReal(t, head+tiedWorld(equalArms)+policies), Options{}).Results) {
		t.Error("ties = first is not the default")
	}
	keys := func(set string) string {
		x := parseReal(t, head+tiedWorld(set)+policies)
		k := make([]string, x.Replications)
		if err := cellKeys(x, k, 0, 0, "program", ""); err != nil {
			t.Fatal(err)
		}
		return k[0]
	}
	if keys(equalArms) == keys(equalArms+", ties = 'share'") || keys(equalArms) != "d4741aef7a7785bedba43a4815caed36" { // as before there were ties
		t.Errorf("key %s without ties, %s with", keys(equalArms), keys(equalArms+", ties = 'share'"))
	}

	kinds := Kinds()
	var seen [4]int
	kinds.Recorders["arms"] = Recorder{Doc: "arms", Columns: []string{"arm"}, New: func(c RecordedCell) Probe {
		return armsProbe{c, &seen}
	}}
	x, err := Parse("x.toml", "record = ['arms', 'actions']\n"+head+tiedWorld(equalArms+", ties = 'share'")+policies, kinds)
	if err != nil {
		t.Fatal(err)
	}
	if out := run(t, x, Options{Workers: 1}); !bytes.Equal(out.Results, plain) {
		t.Error("recording changed results.csv")
	}
	for _, n := range seen {
		if n == 0 {
			t.Errorf("a recorder saw the arms %v", seen)
		}
	}
}

// armsProbe sees all arms of a set, not its groups.
type armsProbe struct {
	cell RecordedCell
	seen *[4]int
}

func (p armsProbe) Round(r Round) error {
	if list := r.Set.(bandit.Finite); list.Len() != 4 || p.cell.Set != r.Set || list.At(r.Action.Index)[1] != r.Action.X[1] {
		return bandit.ErrUnsupported
	}
	p.seen[r.Action.Index]++
	return nil
}

func (p armsProbe) Values(dst []float64) error { dst[0] = 1; return nil }
