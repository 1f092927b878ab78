package shards

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"troupe/internal/golden"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{"1/1": "1/1", "3/16": "3/16", "1000000/1000000": "1000000/1000000",
		"0/16": `the part is "0"`, "17/16": `the part is "17"`, "3/0": `the number of parts is "0"`, "x/y": `the number of parts is "y"`,
		"3": "expected I/N", "": "expected I/N", "-1/4": `the part is "-1"`, "03/16": `the part is "03"`, "3/16/2": `"16/2"`,
		"1/1000001": `the number of parts is "1000001"`, "+3/16": `the part is "+3"`, "99999999999999999999/3": "the part is"} {
		p, err := Parse(text)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) && !strings.Contains(got, want) {
			t.Errorf("%q: %s, expected %s", text, got, want)
		}
	}
	for name, ok := range map[string]bool{"3-of-16": true, "16-of-16": true, "17-of-16": false, "03-of-16": false, "3-of-16x": false, "3": false} {
		if _, got := FromDir(name); got != ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestList(t *testing.T) {
	for want, in := range map[string][]int{"": nil, "3,7,12-14": {14, 3, 7, 12, 13, 3}, "1,2": {2, 1}, "1-3": {1, 2, 3}} {
		if got := List(in); got != want {
			t.Errorf("%v: %q, expected %q", in, got, want)
		}
	}
}

// TestLayout: every cell has one part; the largest has at most 1.25 times the mean where there are four cells for each
// part, and one more than the smallest where there are not; blocks of eight stay together where there are enough of them,
// and then every part has of each pair as many blocks as any other, or one more.
func TestLayout(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		e, p, r, n := 1+draw.IntN(4), 1+draw.IntN(12), 1+draw.IntN(200), 1+draw.IntN(64)
		owner := Layout(e, p, r, n)
		cells := e * p * r
		sizes := make([]int, n)
		for _, part := range owner {
			sizes[part-1]++
		}
		least, most := cells, 0
		for _, s := range sizes {
			least, most = min(least, s), max(most, s)
		}
		if cells >= 4*n && 4*most*n > 5*cells {
			t.Errorf("%d × %d × %d in %d: the largest part has %d, the mean is %.1f", e, p, r, n, most, float64(cells)/float64(n))
		}
		if cells < 4*n && most-least > 1 && 4*most*n > 5*cells {
			t.Errorf("%d × %d × %d in %d: %d to %d", e, p, r, n, least, most)
		}
		if r%8 != 0 || e*p*r/8 < 4*n {
			continue
		}
		for pair := range e * p {
			count := make([]int, n)
			for b := 0; b < r; b += 8 {
				for i := range 8 {
					if owner[pair*r+b+i] != owner[pair*r+b] {
						t.Fatalf("%d × %d × %d in %d: a block is divided", e, p, r, n)
					}
				}
				count[owner[pair*r+b]-1]++
			}
			low, high := r, 0
			for _, c := range count {
				low, high = min(low, c), max(high, c)
			}
			if high-low > 1 {
				t.Errorf("%d × %d × %d in %d: of one pair a part has %d blocks, another %d", e, p, r, n, low, high)
			}
		}
	}
}

// TestAuto reads the variables that schedulers set, from testdata/NAME.env: their
// sources stand there, and what is expected.
func TestAuto(t *testing.T) {
	files, err := filepath.Glob("testdata/*.env")
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		vars := make(map[string]string)
		cases, source := 0, false
		for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
			line := in.Text()
			if strings.HasPrefix(line, "# Source:") {
				source = true
			}
			if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
				vars[key] = value
			}
			rest, ok := strings.CutPrefix(line, "# expect ")
			if !ok {
				if line == "" {
					clear(vars)
				}
				continue
			}
			arg, want, _ := strings.Cut(rest, ": ")
			cases++
			p, guessed, err := Find(arg, func(key string) string { return vars[key] })
			got := fmt.Sprintf("%v", p)
			if guessed {
				got += " guessed"
			}
			if err != nil {
				got = "error " + err.Error()
			}
			if strings.HasPrefix(want, "error ") && err != nil {
				if !strings.Contains(got, strings.TrimPrefix(want, "error ")) {
					t.Errorf("%s: %s with %v: %s, expected %s", name, arg, vars, got, want)
				}
			} else if got != want {
				t.Errorf("%s: %s with %v: %s, expected %s", name, arg, vars, got, want)
			}
		}
		if cases == 0 || !source {
			t.Errorf("%s: %d cases, source named: %v", name, cases, source)
		}
	}
}

func TestAgain(t *testing.T) {
	sge := map[string]string{"SGE_TASK_ID": "3"}
	if got := Again(func(k string) string { return sge[k] }, 130); got != 99 {
		t.Errorf("under SGE: %d, expected 99", got)
	}
	if got := Again(func(string) string { return "" }, 130); got != 130 {
		t.Errorf("alone: %d, expected 130", got)
	}
}

// TestScripts: words that need quotes have them, no place is left open, and bash reads the scripts.
func TestScripts(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for _, kind := range Kinds {
		text, err := Script(kind, Job{Name: "big", Run: []string{"troupe", "run", "it's big.toml", "-o", "/scratch/a b"},
			Merge: []string{"troupe", "merge", "/scratch/a b"}, N: 16})
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(^|[^$])\{[A-Z]+\}`).MatchString(text) {
			t.Errorf("%s: a place was not filled:\n%s", kind, text)
		}
		if kind == "kubernetes" {
			_, list, _ := strings.Cut(text, "command: ")
			list, _, _ = strings.Cut(list, "\n")
			var words []string
			if err := json.Unmarshal([]byte(list), &words); err != nil || words[2] != "it's big.toml" {
				t.Errorf("%s: %v: %s", kind, err, list)
			}
			continue
		}
		c := exec.Command(bash, "-n")
		c.Stdin = strings.NewReader(text)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", kind, err, out, text)
		}
	}
	for _, j := range []Job{{N: 0}, {N: Most + 1}} {
		if _, err := Script("slurm", j); err == nil {
			t.Errorf("%d parts were taken", j.N)
		}
	}
	if _, err := Script("cron", Job{N: 1}); err == nil {
		t.Error("cron was taken")
	}
}

// TestKubernetesManifest: the manifest that deploy/kubernetes checks against the types of Kubernetes is the script.
func TestKubernetesManifest(t *testing.T) {
	text, err := Script("kubernetes", Job{Name: "big", Run: []string{"troupe", "run", "/mnt/big.toml", "-o", "/mnt/big"},
		Merge: []string{"troupe", "merge", "/mnt/big"}, N: 16})
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../deploy/kubernetes/experiment.yaml", text)
}

func Example() {
	p, _ := Parse("3/4")
	owner := Layout(1, 2, 16, p.Of) // one environment, two policies, 16 replications
	n := 0
	for _, part := range owner {
		if int(part) == p.Index {
			n++
		}
	}
	fmt.Println(p.Words(), "has", n, "of", len(owner), "cells")
	// Output: part 3 of 4 has 8 of 32 cells
}
