package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/internal/lockstep"
	"troupe/rng"
)

// benchSpec is a configuration as an experiment of many replications.
const benchSpec = `name = "bench"
seed = %d
horizon = %d
replications = %d
checkpoints = [%[2]d]

[[environment]]
kind = "linear"
d = %[4]d
set = %[5]s

[[policy]]
kind = "ensemble"
m = %[6]d
symmetric = true
lambda = 5
init = "corrected"
scale = 1
`

// spec is the configuration as a spec file.
func (c benchCase) spec(seed int) string {
	set := `{ kind = "ball" }`
	if c.k > 0 {
		set = fmt.Sprintf(`{ kind = "random-sphere", arms = %d }`, c.k)
	}
	return fmt.Sprintf(benchSpec, seed, c.horizon, c.replications, c.d, set, c.m)
}

// runCommandTime plays the replications of a configuration by this program's own command run, in a process of its own,
// and returns nanoseconds a round: wall clock on all processors, or with alone processor time of one worker.
func runCommandTime(c benchCase, seed int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "troupe-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bench.toml")
	if err := os.WriteFile(file, []byte(c.spec(seed)), 0o600); err != nil {
		return 0, err
	}
	args := []string{"run", file, "--no-report", "-qq", "--out", filepath.Join(dir, "out")}
	if c.alone {
		args = append(args, "--workers", "1")
	}
	cmd := exec.Command(self, args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaint.String()))
	}
	if c.alone {
		return c.perRound(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), nil
	}
	return c.perRound(time.Since(start)), nil
}

// perRound spreads a time over all rounds of all replications.
func (c benchCase) perRound(t time.Duration) float64 {
	return float64(t.Nanoseconds()) / float64(c.horizon) / float64(c.replications)
}

// onAllCores calls f with the share of the replications of each processor, and returns nanoseconds of
// wall clock a round.
func (c benchCase) onAllCores(f func(core, replications int) error) (float64, error) {
	cores := min(runtime.GOMAXPROCS(0), c.replications)
	faults := make([]error, cores)
	var all sync.WaitGroup
	start := time.Now()
	for i := range cores {
		all.Go(func() { faults[i] = f(i, (c.replications+i)/cores) })
	}
	all.Wait()
	return c.perRound(time.Since(start)), errors.Join(faults...)
}

// measureRun is measure for a configuration of many replications: the wall clock of a whole command
// on all processors, against plain Go in as many goroutines and numpy in as many processes.
func measureRun(c benchCase, rounds int, p peers) (benchResult, error) {
	if _, err := runCommandTime(c, 0); err != nil { // warm
		return benchResult{}, err
	}
	design := ""
	if p.numpy != nil {
		var err error
		if _, design, err = p.numpy.measure(c, 0); err != nil {
			return benchResult{}, err
		}
	}
	r, err := turns(rounds, func(turn int) (sample, error) {
		var s sample
		var err error
		if s.own, err = runCommandTime(c, turn); err != nil {
			return s, err
		}
		if s.reference, err = c.onAllCores(func(core, replications int) error {
			for k := range replications {
				plainGo(c, 1000*turn+100*core+k, math.Inf(1))
			}
			return nil
		}); err != nil {
			return s, err
		}
		if p.gonum {
			if s.gonum, err = c.onAllCores(func(core, replications int) error {
				for k := range replications {
					gonumGo(c, 1000*turn+100*core+k, math.Inf(1))
				}
				return nil
			}); err != nil {
				return s, err
			}
		}
		if p.numpy != nil {
			s.numpy, err = c.onAllCores(func(core, replications int) error {
				return p.numpy.play(c, design, turn, core, replications)
			})
		}
		return s, err
	})
	if err != nil {
		return r, err
	}
	r.Config = c.name
	r.Engine, err = c.sideBySide()
	return r, err
}

// sideBySide names what the command run does with the replications: it plays eight at a time where the
// environment and the policy can, otherwise one by one.
func (c benchCase) sideBySide() (string, error) {
	var worlds []bandit.Environment
	var policies []bandit.Policy
	var keys []rng.Key
	var engine string
	world := c.world() // the same noise for all
	for i := range 2 {
		key := rng.NewKey(1).At(uint64(i))
		w, err := world.Build(key, new(dataset.Source))
		if err != nil {
			return "", err
		}
		p, err := c.policy(key)
		if err != nil {
			return "", err
		}
		engine = p.Engine()
		worlds, policies, keys = append(worlds, w), append(policies, p), append(keys, key)
	}
	if lockstep.New(worlds, policies, keys) != nil {
		return "lock-step", nil
	}
	return engine, nil
}
