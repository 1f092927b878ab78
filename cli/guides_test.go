package cli

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"troupe/internal/words"
	"troupe/sim"
)

// shellOf returns the commands of a page: its blocks that begin with ```sh, in order.
func shellOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range strings.Split(string(text), "```sh\n")[1:] {
		block, _, closed := strings.Cut(block, "\n```")
		if !closed {
			t.Fatalf("%s: a block is not closed", page)
		}
		script.WriteString(block + "\n")
	}
	return script.String()
}

// userPages are the guides and the pages of reference, whose commands are run or at least checked.
func userPages(t *testing.T) (pages []string) {
	t.Helper()
	for _, dir := range []string{"guide", "reference"} {
		found, err := filepath.Glob("../docs/" + dir + "/*.md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// withoutPages are lines of a guide whose pages and figures nobody looks at later, and what is left out there without
// TROUPE_LONG: --no-report, --no-figures, or a size; what is put in their place may be fewer replications.
var withoutPages = map[string][][2]string{"docs/guide/experiments.md": {
	{"troupe run first.toml", " --no-report"},
	{"troupe run first.toml --replications 80", " --no-report"},
	{"troupe run first.toml --seed 2 --out runs/first-2", " --no-report"},
	{"troupe report runs/first --lower-bound", " --no-figures"},
	{"troupe run sweeps.toml", " --no-report --replications 5"},
	{"troupe report runs/sweeps --only ts --only 'ensemble(m=16*' --only '*batch=64*' --out sixteen", " --no-figures"},
	{"troupe report runs/first runs/first-2 --together --out both", " --no-figures"},
	{"troupe report runs/first --size column,slide", " --size column"},
	{"troupe run rivals-tuned.toml", " --no-report"},
	{"troupe run inside.toml", " --no-report"},
	{"troupe merge parts", " --no-report"},
	{"troupe run first.toml --shard 1/3 -o parts", " --replications 12"},
	{"troupe run first.toml --shard 2/3 -o parts", " --replications 12"},
	{"troupe run first.toml --shard 3/3 -o parts", " --replications 12"},
	{"troupe run first.toml -o whole", " --no-report --replications 12"},
}, "docs/guide/choosing.md": {
	{"troupe run members.toml", " --no-report --replications 10"},
}, "docs/guide/playground.md": {
	{"troupe run playground.toml", " --no-report"},
}}

// TestGuides: the commands of the guides and of the README work as written, in the order of the
// page, in an empty directory; without TROUPE_LONG some of them write no page and play fewer replications. Pages with a server
// of their own are in TestPagesWork.
func TestGuides(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	need(t, "curl")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{"serving.md": true, "lists-and-numbers.md": true, "migrating-from-personalizer.md": true, "cluster.md": true} // TestPagesWork, TestClusterGuide
	defer func() {
		for _, page := range userPages(t) {
			if !covered[filepath.Base(page)] && shellOf(t, page) != "" {
				t.Errorf("%s has commands that no test runs: add it to TestGuides", page)
			}
		}
	}()
	for _, g := range []struct {
		page  string
		wants []string // in what the commands print
	}{
		{"README.md", []string{`"status":"accepted"`, `"kind":"decision"`}},
		{"docs/guide/experiments.md", []string{"80 replications", "figures/column/regret.pdf", "lower bound 20 arms: "}},
		{"docs/reference/results.md", []string{"ts - es: ", "over 50 replications"}},
		{"docs/guide/choosing.md", []string{"ensemble(m=64)", "39,400"}},
		{"docs/guide/deep.md", []string{"river-swim", "ensemble(m=20)", "Regret after 300 episodes"}},
		{"docs/guide/control-group.md", []string{"the model earns", `"settled":"better"`, `"by_unit":{`, "verdict   less click; "}},
		{"docs/guide/backup.md", []string{"the state of that moment is back", "in 2 parts; it is whole", "verdict  whole"}},
		{"docs/guide/library.md", []string{"arm 1: "}},
		{"docs/guide/playground.md", []string{"open page/index.html", "greedy", "99.3"}},
		{"docs/guide/own-policies.md", []string{"runs/decay/report.html", "runs/tuned/report.html", `"equal": true`, "decay learned", "verdict", "environment,policy,replication,round,switches"}},
	} {
		covered[filepath.Base(g.page)] = true
		t.Run(filepath.Base(g.page), func(t *testing.T) {
			t.Parallel()
			if g.page == "docs/guide/own-policies.md" && !long() {
				t.Skip("compiles a module of its own")
			}
			script := shellOf(t, filepath.Join(root, g.page))
			for _, l := range withoutPages[g.page] {
				if strings.Count(script, l[0]+"\n") != 1 {
					t.Fatalf("%s has not the line %q: change withoutPages", g.page, l[0])
				}
				if command, _, _ := strings.Cut(l[0], " --size"); !long() {
					script = strings.Replace(script, l[0]+"\n", command+l[1]+"\n", 1)
				}
			}
			// The program is there already: it is this test.
			script = strings.ReplaceAll(script, "go build -o troupe ./cmd/troupe\n", "cp \"$(command -v troupe)\" troupe\n")
			c := exec.Command("sh", "-eu", "-c", script)
			c.Dir = t.TempDir()
			c.Env = append(os.Environ(), "TROUPE="+root, "GOPROXY=off", "GOSUMDB=off", "GOWORK=", "LC_ALL=C.UTF-8")
			if g.page == "docs/guide/control-group.md" { // its numbers are those of one server, which is started once
				c.Env = append(c.Env, seedVariable+"=1")
			}
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			if err := c.Run(); err != nil {
				t.Fatalf("%s: %v\n%s", g.page, err, &out)
			}
			for _, want := range g.wants {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s: nothing printed has %q:\n%s", g.page, want, &out)
				}
			}
		})
	}
}

// hasPandas ends with 0 if pandas and matplotlib are there; it imports neither of them, which takes a second.
const hasPandas = `import sys; from importlib.util import find_spec; sys.exit(not (find_spec("pandas") and find_spec("matplotlib")))`

// TestPandas: the pandas lines of docs/reference/results.md run on the results of its spec, and give what the
// program of the standard library gives. .ci/run installs python3-pandas; without it there is nothing to test.
func TestPandas(t *testing.T) {
	t.Parallel()
	pythons := []string{"python3", "/usr/bin/python3"} // the second is Debian's, where another is in front of it
	python := slices.IndexFunc(pythons, func(p string) bool { return exec.Command(p, "-c", hasPandas).Run() == nil })
	if python < 0 {
		t.Skip("no python3 has pandas and matplotlib")
	}
	page := filepath.Join("..", "docs", "reference", "results.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "## pandas\n")
	section, _, more := strings.Cut(section, "\n## ")
	if !ok || !more {
		t.Fatal("results.md has no section on pandas")
	}
	var program strings.Builder
	for _, block := range strings.Split(section, "```python\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		program.WriteString(block)
	}
	program.WriteString("print(list(r.columns), len(r))\n")
	c := exec.Command("sh", "-eu", "-c", shellOf(t, page)+pythons[python]+" pandas_lines.py\n")
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MPLBACKEND=Agg")
	if err := os.WriteFile(filepath.Join(c.Dir, "pandas_lines.py"), []byte(program.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	var warnings bytes.Buffer // of libraries at their first import
	c.Stderr = &warnings
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, &warnings)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%s", out, &warnings)
		}
	}()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var alone, pandas, se float64
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, "ts - es: "); ok {
			fmt.Sscan(rest, &alone)
		}
	}
	if _, err := fmt.Sscan(lines[len(lines)-2], &pandas, &se); err != nil || math.Abs(pandas-alone) > 0.06 || !(se > 0) {
		t.Errorf("pandas says %v ± %v, the standard library %v, error %v", pandas, se, alone, err)
	}
	if !strings.Contains(lines[len(lines)-1], "'regret', 'reward', 'kind'") {
		t.Errorf("the table with options is %s", lines[len(lines)-1])
	}
}

// TestGuideCommands: every line of a page that calls troupe names a command that exists, with flags that
// it has, also where no test can run it (a system's service, a backup).
func TestGuideCommands(t *testing.T) {
	block := regexp.MustCompile("(?ms)^\\s*```(?:sh)?\n(.*?)^\\s*```")
	lines := 0
	for _, page := range append(userPages(t), "../README.md", "../CONTRIBUTING.md", "../docs/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
				line = strings.TrimPrefix(strings.TrimSpace(line), "./")
				if !strings.HasPrefix(line, "troupe ") {
					continue
				}
				line, _, _ = strings.Cut(line, " #")
				line = regexp.MustCompile(`\s(\||>>?|2>|&)(\s.*)?$`).ReplaceAllString(line, "")
				lines++
				root := rootCommand("troupe", sim.Kinds())
				words := strings.Fields(strings.NewReplacer(`'`, "", `"`, "").Replace(line))[1:]
				found, rest, err := root.Find(words)
				if err != nil || found == root {
					t.Errorf("%s: %q is no command: %v", filepath.Base(page), line, err)
				} else if err := found.ParseFlags(rest); err != nil {
					t.Errorf("%s: %q: %v", filepath.Base(page), line, err)
				}
			}
		}
	}
	if lines < 40 {
		t.Errorf("only %d lines call troupe", lines)
	}
}

// TestHelpWords: the help text of every command keeps the rules of words. Its short texts and flags are in
// docs/reference/options.md, which TestWords reads.
func TestHelpWords(t *testing.T) {
	n, columns := 0, regexp.MustCompile(`(?m)^  +(.*)$`) // a line of a list in a help text is one of its own
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		n++
		for _, f := range words.Faults(columns.ReplaceAllString(c.Long, "\n$1\n")) {
			t.Errorf("%s: %s", c.CommandPath(), f)
		}
		for _, below := range c.Commands() {
			look(below)
		}
	}
	look(rootCommand("troupe", sim.Kinds()))
	if n < 40 {
		t.Errorf("only %d commands were read", n)
	}
}
