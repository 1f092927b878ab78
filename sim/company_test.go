package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/rng"
)

const drawnAnew = `seed = 5
horizon = 60
replications = 5
[[environment]]
name = "sphere"
kind = "linear"
d = 4
set = { kind = "random-sphere", arms = 10, redraw = true }
[[environment]]
name = "late"
kind = "correlated"
feedback = { batch = 7 }
[[environment]]
name = "fixed"
kind = "linear"
d = 3
[[policy]]
kind = "ensemble"
m = [3, 10]
[[policy]]
kind = "ts"
[[policy]]
kind = "greedy"
`

// TestCompany: a run writes the same bytes whether the policies of a replication share the sets that are drawn or, because the
// spec asks to record something, draw their own; for any number of workers, and when it goes on from any cells that are left.
func TestCompany(t *testing.T) {
	x := parseReal(t, drawnAnew)
	alone := run(t, parseReal(t, "record = ['actions']\n"+drawnAnew), Options{})
	for _, workers := range []int{1, 3, 50} {
		dir := filepath.Join(t.TempDir(), "out")
		out := run(t, x, Options{Dir: dir, Workers: workers})
		if !bytes.Equal(out.Results, alone.Results) {
			t.Fatalf("%d workers: other bytes than one by one", workers)
		}
		for _, p := range out.Manifest.Policies {
			if !(p.Seconds > 0) {
				t.Errorf("%d workers: policy %s took %v s", workers, p.Name, p.Seconds)
			}
		}
		if want := int64(x.Cells() * x.Horizon); out.Rounds != want {
			t.Errorf("%d workers: %d rounds, want %d", workers, out.Rounds, want)
		}
		var left []byte // some cells
		r := rand.New(rand.NewPCG(uint64(workers), 6))
		for _, line := range bytes.SplitAfter(read(t, dir, JournalFile), []byte("\n")) {
			if r.IntN(3) == 0 {
				left = append(left, line...)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, JournalFile), left, 0o666); err != nil {
			t.Fatal(err)
		}
		again := run(t, x, Options{Dir: dir, Workers: workers})
		if !bytes.Equal(again.Results, alone.Results) || again.Played != x.Cells()-bytes.Count(left, []byte("\n")) {
			t.Errorf("%d workers: the run that goes on played %d cells, or wrote other bytes", workers, again.Played)
		}
	}
}

// offers counts the sets that an environment offers.
type offers struct {
	bandit.Environment
	n int
}

// Offer implements bandit.Environment.
func (o *offers) Offer(draw rng.Source) (bandit.ActionSet, error) {
	o.n++
	return o.Environment.Offer(draw)
}

// TestOneOffer: the policies that play side by side are offered one set in each round.
func TestOneOffer(t *testing.T) {
	x := parseReal(t, drawnAnew)
	key := x.Key(1)
	world, err := x.Environments[0].Options.Build(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(x, Options{})
	r.facts.worlds = []worldFacts{{dim: 4, arms: 10}}
	for i, want := range []bool{true, true, false} {
		world, err := x.Environments[i].Options.Build(key, nil)
		if err != nil || r.x.shared(world) != want {
			t.Errorf("environment %s is shared: %v, %v", x.Environments[i].Name, !want, err)
		}
	}
	counted := &offers{Environment: world}
	seats, sums := make([]seat, len(x.Policies)), make([]sum, len(x.Policies))
	for i, c := range x.Policies {
		pol, err := c.Options.New(r.facts.problem(world, 0, key))
		if err != nil {
			t.Fatal(err)
		}
		seats[i] = seat{player: pol, observer: &sums[i]}
	}
	if _, err := r.player.playSeats(newGame(counted, key), seats, nil, [2]int{0, x.Horizon}, make([]time.Duration, 1+len(seats))); err != nil {
		t.Fatal(err)
	}
	if counted.n != x.Horizon {
		t.Errorf("%d sets are drawn in %d rounds", counted.n, x.Horizon)
	}
	for i, c := range x.Policies {
		pol, err := c.Options.New(r.facts.problem(world, 0, key))
		if err != nil {
			t.Fatal(err)
		}
		var alone sum
		if err := Play(world, pol, key, x.Horizon, &alone); err != nil || alone != sums[i] {
			t.Errorf("policy %s: %v side by side, %v alone, %v", c.Name, sums[i], alone, err)
		}
	}
}

// sum is the regret and the reward of all rounds.
type sum struct{ regret, reward float64 }

// Round implements Observer.
func (s *sum) Round(_ int, regret, reward float64) error {
	s.regret += regret
	s.reward += reward
	return nil
}

// TestCompanies: the policies of a replication are one job while every worker has something to do and the caches hold them; what
// the last turn has is cut again.
func TestCompanies(t *testing.T) {
	for _, c := range []struct {
		policies, replications, workers int
		bytes                           float64
		want                            string // cells of each job
	}{
		{4, 3, 1, 1e4, "[4 4 4]"}, {4, 4, 2, 1e4, "[4 4 4 4]"}, {4, 3, 2, 1e4, "[4 4 2 2]"}, {4, 3, 12, 1e4, "[1 1 1 1 1 1 1 1 1 1 1 1]"},
		{10, 1, 2, 1e4, "[5 5]"}, {10, 1, 3, 1e4, "[4 3 3]"}, {20, 1, 1, 1e4, "[10 10]"}, {4, 2, 1, 2 << 20, "[2 2 2 2]"}, {4, 1, 1, 1e9, "[1 1 1 1]"},
	} {
		policies := ""
		for i := range c.policies {
			policies += fmt.Sprintf("[[policy]]\nkind = 'greedy'\nname = '%d'\n", i)
		}
		x := parseReal(t, fmt.Sprintf("replications = %d\n[[environment]]\nkind = 'sphere-contexts'\n%s", c.replications, policies))
		r := newRunner(x, Options{Workers: c.workers})
		r.facts = rehearsal{x: x, shares: []bool{true}, bytes: make([]float64, c.policies)}
		for p := range r.facts.bytes {
			r.facts.bytes[p] = c.bytes
		}
		var sizes []int
		seen := make(map[cell]bool)
		for _, j := range r.jobs() {
			cells := []cell{{}}
			switch j := j.(type) {
			case company:
				cells = j
			case cell:
				cells[0] = j
			}
			for _, one := range cells {
				if seen[one] || one.r != cells[0].r {
					t.Errorf("%v: %v", c, cells)
				}
				seen[one] = true
			}
			sizes = append(sizes, len(cells))
		}
		if got := fmt.Sprint(sizes); got != c.want || len(seen) != x.Cells() {
			t.Errorf("%d policies, %d replications, %d workers: jobs of %s cells, want %s; %d cells", c.policies, c.replications, c.workers, got, c.want, len(seen))
		}
	}
}

// TestCompanyError: a cell that fails in company is the one that fails alone, with the same words.
func TestCompanyError(t *testing.T) {
	text := strings.Replace(drawnAnew, "redraw = true }\n", "redraw = true }\nnoise = { kind = 'student-t', df = 1.5, scale = 6e149 }\n", 1)
	_, want := Run(context.Background(), parseReal(t, "record = ['actions']\n"+text), Options{Workers: 1})
	_, err := Run(context.Background(), parseReal(t, "#\n"+text), Options{Workers: 1})
	var cell *CellError
	if !errors.As(err, &cell) || want == nil || err.Error() != want.Error() {
		t.Errorf("error %v; one by one %v", err, want)
	}
}
