package sim

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mean is a policy in Python; its option is what an arm that was not played is worth.
const mean = `
from troupe.policy import Policy

class Mean(Policy):
    def begin(self):
        self.sums, self.counts = [0.0] * self.problem.arms, [0] * self.problem.arms

    def select(self, arms, draw):
        if draw.random.random() < 0.1:
            return draw.random.randrange(len(arms))
        means = [s / n if n else self.options["first"] for s, n in zip(self.sums, self.counts)]
        return means.index(max(means))

    def update(self, index, x, reward, draw):
        self.sums[index] += reward
        self.counts[index] += 1

Mean.main()
`

const meanSpec = `
horizon = 60
replications = 3

[[environment]]
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 5 }

[[policy]]
kind = "process"
name = "mean"
command = ["python3", "mean.py"]
options = { first = [0.0, 9.0] }
env = ["PYTHONPATH=MODULE", "PYTHONDONTWRITEBYTECODE=1"]

[[policy]]
kind = "uniform"
`

// A spec plays a program with the same bytes for any number of workers, sweeps its options, keeps its cells, plays them
// again when the program's file has changed, and leaves no program behind.
func TestProcess(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no python3")
	}
	module, err := filepath.Abs("../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("mean.py", mean)
	text := strings.Replace(meanSpec, "MODULE", module, 1)
	spec := write("spec.toml", text)
	run := func(o Options) (*Outcome, error) {
		t.Helper()
		x, err := Parse(spec, text, Kinds())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(x.Policies); n != 3 || x.Policies[1].Name != "mean(first=9)" {
			t.Fatalf("%d policies, the second is %q", n, x.Policies[1].Name)
		}
		return Run(context.Background(), x, o)
	}
	one, err := run(Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	many, err := run(Options{Workers: 8, Dir: out})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Results, many.Results) {
		t.Error("another number of workers gives other bytes")
	}
	if again, err := run(Options{Dir: out}); err != nil || again.Played != 0 {
		t.Errorf("the same program plays %d cells again, %v", again.Played, err)
	}
	write("mean.py", mean+"# changed\n")
	if again, err := run(Options{Dir: out, Force: true}); err != nil || again.Played != 6 {
		t.Errorf("a changed program plays %d cells, expected 6; %v", again.Played, err)
	}
	write("mean.py", strings.Replace(mean, "        self.counts[index] += 1", "        raise ValueError('no arm like that')", 1))
	if _, err := run(Options{}); err == nil || !strings.Contains(err.Error(), "ValueError: no arm like that") ||
		!strings.Contains(err.Error(), `policy "mean(first=0)"`) {
		t.Errorf("a program with a fault: %v", err)
	}

	// A program that fails with one of its options leaves all other cells alone, and is given up after three of its own.
	write("mean.py", strings.Replace(mean, "        self.counts[index] += 1", "        self.counts[index] += 1\n        assert self.options['first'] != 9, 'nine'", 1))
	text = strings.Replace(text, "replications = 3", "replications = 8", 1)
	for _, workers := range []int{1, 4} {
		got, err := run(Options{Workers: workers})
		var lost *LostError
		if !errors.As(err, &lost) || !strings.Contains(err.Error(), "AssertionError: nine") || !strings.Contains(err.Error(), "cells failed, of policy mean(first=9)") {
			t.Fatalf("a program that fails with one option: %v", err)
		}
		if n := len(lost.Cells); n < 3 || n > 2+workers || got.Manifest.Done != 16 || got.Manifest.Status != Interrupted {
			t.Errorf("%d workers: %d cells failed and %d were played, expected 3 and the 16 of the others", workers, n, got.Manifest.Done)
		}
	}
}
