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
	"troupe/env"
	"troupe/internal/cpu"
	"troupe/internal/lockstep"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// replications builds n replications of an environment and an ensemble.
func replications(t testing.TB, n int, world, pol spec.Raw) (worlds []bandit.Environment, policies []bandit.Policy, keys []rng.Key) {
	t.Helper()
	w, err := spec.DecodeTable(env.Kinds, world, "environment")
	if err != nil {
		t.Fatal(err)
	}
	p, err := spec.DecodeTable(policy.Kinds, pol, "policy")
	if err != nil {
		t.Fatal(err)
	}
	for l := range n {
		key := rng.NewKey(7).At(uint64(l + 1))
		e, err := w.Build(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		q, err := p.New(policy.Problem{Dim: e.Dim(), Horizon: 10_000, Sigma: 1, Init: key.Stream(rng.Init)})
		if err != nil {
			t.Fatal(err)
		}
		worlds, policies, keys = append(worlds, e), append(policies, q), append(keys, key)
	}
	return worlds, policies, keys
}

const sideBySide = `seed = 5
horizon = 300
replications = 19
[[environment]]
name = "ten"
kind = "linear"
d = 4
set = { kind = "random-sphere", arms = 10 }
[[environment]]
name = "signs"
kind = "linear"
d = 9
set = { kind = "random-sphere", arms = 3 }
noise = { kind = "rademacher" }
[[policy]]
kind = "ensemble"
m = [3, 10]
symmetric = true
[[policy]]
kind = "ts"
`

// lockStepped counts the cells of a journal that were played in lock-step: those of one batch have taken
// equal shares of its time. Two cells may do that by chance.
func lockStepped(t *testing.T, dir string) int {
	t.Helper()
	cells, _, err := readJournal(filepath.Join(dir, JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	times, n := map[float64]int{}, 0
	for _, c := range cells {
		times[c.Seconds]++
	}
	for _, k := range times {
		if k > 2 {
			n += k
		}
	}
	return n
}

// TestLockStep: a run writes the same bytes whether its replications are played in lock-step or, because
// the spec asks to record something, one by one; for any number of workers, at every level of kernels,
// with other policies beside them, and when it goes on from any cells that are left.
func TestLockStep(t *testing.T) {
	x := parseReal(t, sideBySide)
	alone := run(t, parseReal(t, "record = ['actions']\n"+sideBySide), Options{})
	for level := cpu.Portable; level <= cpu.Best(); level++ {
		func() {
			defer cpu.Force(level)()
			for _, workers := range []int{1, 2, 3, 50} {
				dir := filepath.Join(t.TempDir(), "out")
				out := run(t, x, Options{Dir: dir, Workers: workers})
				if !bytes.Equal(out.Results, alone.Results) {
					t.Fatalf("%v, %d workers: other bytes than one by one", level, workers)
				}
				together := 0
				if level > cpu.Portable {
					together = 2 * 2 * 19
				}
				// With three workers or less there are eight to an batch: 8, 8 and 3 of 19.
				if got := lockStepped(t, dir); workers <= 3 && got != together || level == cpu.Portable && got != 0 {
					t.Errorf("%v, %d workers: %d cells were played in lock-step, want %d", level, workers, got, together)
				}
				// Leave some cells, and go on.
				lines := bytes.SplitAfter(read(t, dir, JournalFile), []byte("\n"))
				var left []byte
				r := rand.New(rand.NewPCG(uint64(workers), 6))
				for _, line := range lines {
					if r.IntN(3) == 0 {
						left = append(left, line...)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, JournalFile), left, 0o666); err != nil {
					t.Fatal(err)
				}
				again := run(t, x, Options{Dir: dir, Workers: workers})
				if !bytes.Equal(again.Results, alone.Results) || again.Played != x.Cells()-bytes.Count(left, []byte("\n")) {
					t.Errorf("%v, %d workers: the run that goes on played %d cells, or wrote other bytes", level, workers, again.Played)
				}
			}
		}()
	}
}

// cellsOf lists the cells of a job.
func cellsOf(j job) []cell {
	if l, ok := j.(lanes); ok {
		return l
	}
	return []cell{j.(cell)}
}

// TestJobs: batchs are as wide as lanes while every worker has something to do, and hold what is left.
func TestJobs(t *testing.T) {
	x := parseReal(t, strings.Replace(sideBySide, "replications = 19", "replications = 20", 1))
	for _, c := range []struct {
		workers int
		done    []int  // cells of the first pair that are there
		want    string // widths of the jobs of the first pair
	}{
		{1, nil, "[8 8 4]"}, {2, nil, "[8 8 4]"}, {15, nil, "[8 8 4]"}, {30, nil, "[4 4 4 4 4]"},
		{103, nil, "[2 2 2 2 2 2 2 2 2 2]"}, {200, nil, "[1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1]"},
		{2, []int{0, 3, 4, 5, 9, 19}, "[8 6]"},
	} {
		r := newRunner(x, Options{Workers: c.workers})
		r.facts = rehearsal{together: make([]bool, 6)}
		r.facts.together[0] = true
		for _, i := range c.done {
			r.table.set(i, entry{Regret: []float64{1}})
		}
		var widths []int
		seen := map[cell]bool{}
		last := 0
		for _, j := range r.jobs() {
			job := cellsOf(j)
			if job[0].r < last {
				t.Errorf("%d workers: replication %d comes after %d", c.workers, job[0].r+1, last+1)
			}
			last = job[0].r
			for _, cell := range job {
				if seen[cell] || len(r.table.cells[x.index(cell.e, cell.p, cell.r)].Regret) > 0 {
					t.Errorf("%d workers: %v is played twice", c.workers, cell)
				}
				seen[cell] = true
			}
			if job[0].e == 0 && job[0].p == 0 {
				widths = append(widths, len(job))
			} else if len(job) != 1 {
				t.Errorf("%d workers: %v are put side by side", c.workers, job)
			}
		}
		if got := fmt.Sprint(widths); got != c.want || len(seen) != x.Cells()-len(c.done) {
			t.Errorf("%d workers: batchs of %s, want %s; %d cells", c.workers, got, c.want, len(seen))
		}
	}
}

// TestLastJobs: where the last turn would leave workers without a job, its cells are handed out one by one.
func TestLastJobs(t *testing.T) {
	for _, c := range []struct {
		replications, workers int
		want                  string
	}{
		{20, 1, "[8 8 4]"}, {20, 2, "[8 8 1 1 1 1]"}, {24, 2, "[8 8 8]"}, {21, 2, "[8 8 5]"}, {18, 3, "[6 6 6]"}, {17, 2, "[8 8 1]"}, {36, 4, "[8 8 8 8 1 1 1 1]"},
		{41, 4, "[8 8 8 8 8 1]"},
	} {
		x := parseReal(t, fmt.Sprintf("replications = %d\n[[environment]]\nkind = 'linear'\nd = 3\nset = { kind = 'random-sphere', arms = 4 }\n[[policy]]\nkind = 'ensemble'", c.replications))
		r := newRunner(x, Options{Workers: c.workers})
		r.facts = rehearsal{together: []bool{true}}
		var widths []int
		next := 0
		for _, j := range r.jobs() {
			job := cellsOf(j)
			widths = append(widths, len(job))
			for _, cell := range job {
				if cell.r != next {
					t.Errorf("replication %d comes where %d should", cell.r+1, next+1)
				}
				next++
			}
		}
		if got := fmt.Sprint(widths); got != c.want || next != c.replications {
			t.Errorf("%d replications, %d workers: batchs of %s, want %s", c.replications, c.workers, got, c.want)
		}
	}
}

// TestLockStepError: a replication that fails is the one that fails alone, with the same words, and what
// comes before it is kept.
func TestLockStepError(t *testing.T) {
	// Rewards of 1e200 make models that no set looks at; of 1e308 some are infinite.
	for _, scale := range []string{"1e149", "1e200", "1e308"} {
		text := strings.Replace(sideBySide, "[[environment]]\nname = \"signs\"", "noise = { kind = 'student-t', df = 1.5, scale = "+scale+" }\n[[environment]]\nname = \"signs\"", 1)
		text = strings.Replace(text, "symmetric = true\n[[policy]]\nkind = \"ts\"", "scale = 1.0", 1)
		alone, want := Run(context.Background(), parseReal(t, "record = ['actions']\n"+text), Options{Workers: 1})
		out, err := Run(context.Background(), parseReal(t, "#\n"+text), Options{Workers: 1})
		var cell *CellError
		if !errors.As(err, &cell) || want == nil || err.Error() != want.Error() {
			t.Errorf("error %v; one by one %v", err, want)
		}
		if out == nil || alone == nil {
			continue
		}
		kept := cell.Replication - 1 // of the first pair, whose batch is the first job
		if cpu.Kernels() == cpu.Portable {
			kept = alone.Played // there are no batchs, and the replications of all pairs alternate
		}
		if out.Played != kept {
			t.Errorf("%d cells are kept, want %d: replication %d failed", out.Played, kept, cell.Replication)
		}
	}
}

// TestLockStepAbandoned: an batch that takes longer than the grace is abandoned.
func TestLockStepAbandoned(t *testing.T) {
	x := parseReal(t, strings.Replace(sideBySide, "300", "1_000_000_000", 1))
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, x, Options{Grace: time.Millisecond, Progress: func(p Progress) {
		if p.Rounds > 0 {
			cancel()
		}
	}})
	if !errors.Is(err, ErrInterrupted) || out.Played != 0 {
		t.Errorf("error %v, %d cells played", err, out.Played)
	}
}

func parseReal(t *testing.T, text string) *Experiment {
	t.Helper()
	x, err := Parse("x.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

type silent struct{}

func (silent) Round(int, float64, float64) error { return nil }

// BenchmarkLockStep plays a replication alone and eight in lock-step, in turns of 500 rounds. The metrics
// are the shortest turns: processor time of one round of one replication, which a busy machine moves
// little.
//
//	go test ./sim -run xxx -bench LockStep
func BenchmarkLockStep(b *testing.B) {
	const horizon = 500
	for l := cpu.Best(); ; l-- {
		for _, c := range []struct{ d, k, m int }{
			{5, 10, 10}, {10, 10, 20}, {10, 50, 20}, {10, 100, 20}, {10, 400, 20}, {10, 10, 100}, {10, 50, 100}, {10, 50, 400}, {20, 20, 50}, {20, 50, 50},
			{20, 100, 50}, {20, 100, 100}, {20, 400, 50}, {20, 10, 200}, {40, 20, 80}, {40, 100, 80}, {64, 10, 64}, {100, 10, 40}, {100, 100, 40},
		} {
			world := spec.Raw{"kind": "linear", "d": int64(c.d), "set": spec.Raw{"kind": "random-sphere", "arms": int64(c.k)}}
			pol := spec.Raw{"kind": "ensemble", "m": int64(c.m)}
			b.Run(fmt.Sprintf("d=%d/K=%d/m=%d/%v", c.d, c.k, c.m, l), func(b *testing.B) {
				defer cpu.Force(l)()
				worlds, policies, keys := replications(b, 1, world, pol)
				batch := lockstep.New(replications(b, 8, world, pol))
				if batch == nil {
					b.Skip("lock-step would not pay at this size")
				}
				one, eight := time.Hour, time.Hour
				for b.Loop() {
					start := time.Now()
					if err := Play(worlds[0], policies[0], keys[0], horizon, silent{}); err != nil {
						b.Fatal(err)
					}
					middle := time.Now()
					if err := batch.Play(0, horizon, func(int, *[8]float64, *[8]float64) error { return nil }); err != nil {
						b.Fatal(err)
					}
					one, eight = min(one, middle.Sub(start)), min(eight, time.Since(middle))
				}
				b.ReportMetric(float64(one)/horizon, "ns/alone")
				b.ReportMetric(float64(eight)/8/horizon, "ns/lockstep")
				b.ReportMetric(8*float64(one)/float64(eight), "ratio")
			})
		}
		if l == cpu.Portable {
			return
		}
	}
}
