package sim

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// interpreter is the file that python3 is: what is found by that name may be a script that looks for it.
var interpreter = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// pythonFiles returns a directory for programs in Python, what makes a spec out of a text with MODULE in it, and what
// writes a file and returns its path. A machine without Python skips the test; CI has one. With TROUPE_LONG programs
// start as those of users do. Otherwise python3 leaves out what is installed, and the module is its one file for
// programs, compiled once: most of what these tests do is to start programs, and one starts in a fifth of the time.
func pythonFiles(t *testing.T) (dir string, fill func(spec string) string, write func(name, text string) string) {
	t.Helper()
	python, err := interpreter()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no python3")
	}
	t.Setenv("PATH", filepath.Dir(python)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	module, err := filepath.Abs("../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write = func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	words := []string{"MODULE", module}
	if os.Getenv("TROUPE_LONG") == "" {
		if err := os.Mkdir(filepath.Join(dir, "troupe"), 0o777); err != nil {
			t.Fatal(err)
		}
		write("troupe/__init__.py", "")
		write("troupe/policy.py", string(read(t, module, "troupe", "policy.py")))
		words = []string{"MODULE", dir, `"python3", `, `"python3", "-S", `, `, "PYTHONDONTWRITEBYTECODE=1"`, ""}
	}
	return dir, strings.NewReplacer(words...).Replace, write
}

// manyWorkers is how many workers play a program, which each of them starts: three, n with TROUPE_LONG.
func manyWorkers(n int) int {
	if os.Getenv("TROUPE_LONG") == "" {
		return 3
	}
	return n
}

// A spec plays a program with the same bytes for any number of workers, sweeps its options, keeps its cells, plays them
// again when the program's file has changed, and leaves no program behind.
func TestProcess(t *testing.T) {
	dir, fill, write := pythonFiles(t)
	write("mean.py", mean)
	text := fill(meanSpec)
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
	many, err := run(Options{Workers: manyWorkers(8), Dir: out})
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

// TestTurns: cells of a program that take turns on a worker have the bytes of cells that are played alone, share one
// process, and are played again when another cell's fault ends it: only cells that fail alone are lost, and a program
// that is killed once costs none.
func TestTurns(t *testing.T) {
	dir, fill, write := pythonFiles(t)
	text := strings.Replace(fill(meanSpec), "[0.0, 9.0]", "1.0", 1)
	write("spec.toml", text)
	play := func(spec string, o Options) (*Outcome, error) {
		t.Helper()
		x, err := Parse(filepath.Join(dir, "spec.toml"), spec, Kinds())
		if err != nil {
			t.Fatal(err)
		}
		return Run(context.Background(), x, o)
	}
	// Each process writes a line to the file starts, each begin one to the file begins.
	counted := strings.Replace(mean, "        self.sums, self", "        open('begins', 'a').write('x')\n        self.sums, self", 1)
	counted = strings.Replace(counted, "class Mean", "open('starts', 'a').write('x')\nclass Mean", 1)
	lines := func(name string) int {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	write("mean.py", counted)
	one, err := play(strings.Replace(text, "replications = 3", "replications = 1", 1), Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	lines("starts")
	lines("begins")
	many := strings.Replace(text, "replications = 3", "replications = 17", 1)
	want, err := play(many, Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n, begins := lines("starts"), lines("begins"); n != 1 || begins != 18 { // one of them in the rehearsal
		t.Errorf("%d processes played %d cells, expected 1 and 18", n, begins)
	}
	if got, want := want.Curve(0, 0)[0], one.Curve(0, 0)[0]; !slices.Equal(got, want) {
		t.Errorf("by turns %v, alone %v", got, want)
	}
	redrawn := strings.Replace(many, "arms = 5", "arms = 5, redraw = true", 1)
	lone, err := play(strings.Replace(redrawn, "replications = 17", "replications = 1", 1), Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	together, err := play(redrawn, Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	for p := range 2 {
		if got, want := together.Curve(0, p)[0], lone.Curve(0, p)[0]; !slices.Equal(got, want) {
			t.Errorf("new arms in every round, policy %d: by turns %v, alone %v", p, got, want)
		}
	}
	// A fault of one cell, in its last rounds: it is lost, and no other.
	fault := "        self.counts[index] += 1\n        assert not (draw.round == 50 and FAULT), 'unlucky'"
	seeded := strings.Replace(mean, "    def select", "    def __init__(self, problem, options, draw):\n        open('seeds', 'a').write(f'{draw.seed}\\n')\n        super().__init__(problem, options, draw)\n\n    def select", 1)
	write("mean.py", seeded)
	if _, err := play(many, Options{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "seeds"))
	if err != nil {
		t.Fatal(err)
	}
	seeds := strings.Fields(string(b))
	write("mean.py", strings.Replace(mean, "        self.counts[index] += 1", strings.Replace(fault, "FAULT", "self.draw.seed == "+seeds[6], 1), 1))
	got, err := play(many, Options{Workers: 1})
	var lost *LostError
	if !errors.As(err, &lost) || len(lost.Cells) != 1 || !strings.Contains(err.Error(), "unlucky") || got.Manifest.Done != 33 {
		t.Fatalf("one cell fails: %v", err)
	}
	if want := int64(33 * 60); got.Rounds != want {
		t.Errorf("%d rounds were played, expected %d", got.Rounds, want)
	}
	// A program that is killed: its cells are played again.
	write("deadly.py", suicidal)
	write("mean.py", strings.Replace(mean, "Mean.main()", "import deadly; deadly.deadly('mean', Mean)\nMean.main()", 1))
	places, place := 4, rand.New(rand.NewPCG(32, 51))
	if os.Getenv("TROUPE_RECORD") != "" {
		places = 50
	}
	for range places {
		at, out := 10+place.IntN(17*60*2-20), filepath.Join(t.TempDir(), "out")
		write("kill-mean", countdown(at))
		got, err := play(many, Options{Workers: 1, Dir: out})
		if err != nil || !bytes.Equal(got.Results, want.Results) {
			t.Errorf("killed at message %d: %v, or other bytes", at, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "kill-mean")); err == nil {
			t.Errorf("nothing was killed at message %d", at)
		}
	}
}
