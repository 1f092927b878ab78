package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// segments is an environment in Python: each round shows the arms of a segment; its option is the noise.
const segments = `
from troupe.policy import Environment

class Segments(Environment):
    dim, largest_regret = 3, 2.0

    def begin(self):
        self.sigma = self.options["sigma"]
        x = [self.draw.random.gauss(0, 1) for _ in range(3)]
        norm = sum(v * v for v in x) ** 0.5
        self.theta = [v / norm for v in x]

    def mean(self, x):
        return sum(float(a) * b for a, b in zip(x, self.theta))

    def offer(self, draw):
        k = draw.random.randrange(2)
        self.arms = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [0.6, 0.8, 0]][k:]
        return self.arms

    def reward(self, index, x, draw):
        return self.mean(x) + self.sigma * draw.random.gauss(0, 1)

    def regret(self, index, x):
        return max(self.mean(a) for a in self.arms) - self.mean(x)

if __name__ == "__main__":
    Segments.main()
`

const segmentsSpec = `
horizon = 30
replications = 3
record = ["actions"]

[[environment]]
kind = "process"
name = "segments"
command = ["python3", "segments.py"]
options = { sigma = [0.1, 1.0] }
env = ["PYTHONPATH=MODULE", "PYTHONDONTWRITEBYTECODE=1"]

[[policy]]
kind = "ensemble"
m = 6

[[policy]]
kind = "linucb"

[[policy]]
kind = "process"
name = "mean"
command = ["python3", "mean.py"]
options = { first = 1.0 }
env = ["PYTHONPATH=MODULE", "PYTHONDONTWRITEBYTECODE=1"]
`

// A spec plays an environment that is a program with the same bytes for any number of workers, beside a policy that is
// one, records what it records elsewhere, sweeps its options, keeps its cells, plays them again when its file has
// changed, and says what a fault was.
func TestProcessEnvironment(t *testing.T) {
	dir, fill, write := pythonFiles(t)
	write("segments.py", segments)
	write("mean.py", strings.NewReplacer("self.problem.arms", "4", "zip(self.sums, self.counts)]", "zip(self.sums, self.counts)][:len(arms)]").Replace(mean))
	text := fill(segmentsSpec)
	command := strings.NewReplacer(`"`, "", ",", "").Replace(fill(`"python3", "segments.py"`))
	file := filepath.Join(dir, "spec.toml")
	write("spec.toml", text)
	play := func(o Options, text string) (*Outcome, error) {
		t.Helper()
		x, err := Parse(file, text, Kinds())
		if err != nil {
			t.Fatal(err)
		}
		return Run(context.Background(), x, o)
	}
	run := func(o Options) (*Outcome, error) {
		t.Helper()
		x, err := Parse(file, text, Kinds())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(x.Environments); n != 2 || x.Environments[1].Name != "segments(sigma=1)" {
			t.Fatalf("%d environments, the second is %q", n, x.Environments[1].Name)
		}
		if c := x.Commands(1, 0); len(c) != 1 || c[0] != command {
			t.Errorf("cells of a built-in policy start %q", c)
		}
		return Run(context.Background(), x, o)
	}
	one, err := run(Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	many, err := run(Options{Workers: manyWorkers(6), Dir: out})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Results, many.Results) {
		t.Error("another number of workers gives other bytes")
	}
	if again, err := run(Options{Dir: out}); err != nil || again.Played != 0 {
		t.Errorf("the same program plays %d cells again, %v", again.Played, err)
	}
	write("segments.py", segments+"# changed\n")
	if again, err := run(Options{Dir: out, Force: true}); err != nil || again.Played != 18 {
		t.Errorf("a changed program plays %d cells, expected 18; %v", again.Played, err)
	}
	// Each fault with one cell.
	small, _, _ := strings.Cut(text, "[[policy]]\nkind = \"linucb\"")
	small = strings.Replace(strings.Replace(small, "replications = 3", "replications = 1", 1), "[0.1, 1.0]", "1.0", 1)
	const pays = "        return self.mean(x) + self.sigma * draw.random.gauss(0, 1)"
	const costs = "        return max(self.mean(a) for a in self.arms) - self.mean(x)"
	for _, c := range []struct{ from, to, want string }{
		{pays, "        raise ValueError('no money')", "ValueError: no money"},
		{pays, "        return float('nan')", "ValueError: reward nan, regret"},
		{costs, "        return -1.0", "its regret is -1, expected at least 0"},
		{costs, "        return 3.0", "its regret is 3, above its largest_regret 2"},
		{"[0.6, 0.8, 0]", "[0.6, 0.9, 0]", "unit ball"},
		{"[0.6, 0.8, 0]", "[0.6, 0.8]", "length"},
		{"dim, largest_regret = 3, 2.0", "dim, largest_regret = 2, 2.0", "its arms have 3 numbers, expected 2"},
		{"dim, largest_regret = 3, 2.0", "dim, largest_regret = 0, 2.0", "dim 0, expected 1 to 20000"},
		{"        k = draw", "        print('hello', flush=True)\n        import os; os.write(1, b'x\\n')\n        k = draw", "is no message of the protocol"},
		{"Segments.main()", "from troupe.policy import Policy; Policy.main()", `it is a policy, expected a program that answers role "environment"`},
	} {
		broken := strings.Replace(segments, c.from, c.to, 1)
		if broken == segments {
			t.Fatalf("the program has no %q", c.from)
		}
		write("segments.py", broken)
		if _, err := play(Options{Workers: 1}, small); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.to, err, c.want)
		}
	}
	// In the middle of a run: the cells fail, and the run says which.
	write("segments.py", strings.Replace(segments, pays, "        if draw.round > 20 and self.sigma == 1: raise ValueError('late')\n"+pays, 1))
	text, _, _ = strings.Cut(text, "[[policy]]\nkind = \"linucb\"")
	got, err := play(Options{Workers: 1}, text)
	var lost *LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "ValueError: late") {
		t.Fatalf("an environment that fails late: %v", err)
	}
	if got.Manifest.Done != 3 {
		t.Errorf("%d cells were played, expected the 3 of the other environment", got.Manifest.Done)
	}
}

// suicidal makes a class of a program kill its process with SIGKILL at a message: when a file names it, and the count
// in the file, which its processes share, has come down to 0.
const suicidal = `
import mmap, os, signal

def deadly(name, cls):
    file = "kill-" + name
    if not os.path.exists(file):
        return
    with open(file, "r+b") as f:
        left = memoryview(mmap.mmap(f.fileno(), 8)).cast("q")
    def counted(method):
        def call(self, *args):
            left[0] -= 1
            if left[0] == -1:
                os.remove(file)
                os.kill(os.getpid(), signal.SIGKILL)
            return method(self, *args)
        return call
    for name_of in ("offer", "reward", "regret", "select", "update"):
        if name_of in cls.__dict__:
            setattr(cls, name_of, counted(cls.__dict__[name_of]))
`

// countdown is the text of a file for suicidal.
func countdown(messages int) string {
	return string(binary.NativeEndian.AppendUint64(nil, uint64(messages)))
}

// TestProgramKilled: a run whose environment or policy is killed with SIGKILL at a random message names the cell that
// failed, writes no wrong number, and ends with the bytes of an undisturbed run when it is started again. 2 places
// of each program, 4 with TROUPE_LONG, 50 with TROUPE_RECORD.
func TestProgramKilled(t *testing.T) {
	dir, fill, write := pythonFiles(t)
	write("deadly.py", suicidal)
	write("segments.py", strings.Replace(segments, "if __name__", "import deadly; deadly.deadly('segments', Segments)\nif __name__", 1))
	write("mean.py", strings.NewReplacer("self.problem.arms", "4", "zip(self.sums, self.counts)]", "zip(self.sums, self.counts)][:len(arms)]",
		"Mean.main()", "import deadly; deadly.deadly('mean', Mean)\nMean.main()").Replace(mean))
	_, policies, _ := strings.Cut(segmentsSpec, "[[policy]]\nkind = \"linucb\"")
	world, _, _ := strings.Cut(segmentsSpec, "[[policy]]")
	text := fill(strings.Replace(world, "record = [\"actions\"]\n", "", 1) + policies)
	play := func(o Options) (*Outcome, error) {
		t.Helper()
		x, err := Parse(filepath.Join(dir, "spec.toml"), text, Kinds())
		if err != nil {
			t.Fatal(err)
		}
		return Run(context.Background(), x, o)
	}
	write("spec.toml", text)
	want, err := play(Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	places, place := 2, rand.New(rand.NewPCG(32, 50))
	switch {
	case os.Getenv("TROUPE_RECORD") != "":
		places = 50
	case os.Getenv("TROUPE_LONG") != "":
		places = 4
	}
	for _, name := range []string{"segments", "mean"} {
		for range places {
			// 6 cells of 30 rounds with two calls or more for each program: the count always comes down, after the rehearsal.
			at, out := 10+place.IntN(300), filepath.Join(t.TempDir(), "out")
			write("kill-"+name, countdown(at))
			got, err := play(Options{Workers: 1, Dir: out})
			var lost *LostError
			if !errors.As(err, &lost) || len(lost.Cells) != 1 || !strings.Contains(err.Error(), "signal: killed") {
				t.Fatalf("%s killed at message %d: %v", name, at, err)
			}
			if got.Manifest.Done != 5 {
				t.Errorf("%s killed at message %d: %d cells were played, expected the 5 others", name, at, got.Manifest.Done)
			}
			again, err := play(Options{Workers: 1, Dir: out})
			if err != nil || again.Played != 1 || !bytes.Equal(again.Results, want.Results) {
				t.Fatalf("%s killed at message %d, then started again: %d cells played, %v, or other bytes", name, at, again.Played, err)
			}
		}
	}
}
