package sim

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/dataset"
	"troupe/episode"
	"troupe/internal/golden"
	"troupe/policy"
	"troupe/spec"
)

// engineSpecs returns a small experiment for every built-in kind, by name, and others that have
// the nested kinds: sets, noises, laws.
func engineSpecs(t *testing.T) map[string]string {
	t.Helper()
	const arms = "[[environment]]\nkind = 'linear'\nd = 4\nset = { kind = 'random-sphere', arms = 6 }\n"
	const ball = "[[environment]]\nkind = 'linear'\nd = 3\n"
	const contexts = "[[environment]]\nkind = 'sphere-contexts'\n"
	extra := map[string]string{"classification": "data = 'engine.csv'\n", "linear": "d = 4\n"}
	specs := make(map[string]string)
	for _, kind := range spec.Names(policy.Kinds) {
		for name, world := range map[string]string{"arms": arms, "ball": ball, "contexts": contexts} {
			specs["policy "+kind+" on "+name] = world + "[[policy]]\nkind = '" + kind + "'\n"
		}
	}
	worlds := Kinds().Environments
	delete(worlds, "process") // a program computes its numbers
	for _, kind := range spec.Names(worlds) {
		specs["environment "+kind] = "[[environment]]\nkind = '" + kind + "'\n" + extra[kind] + "[[policy]]\nkind = 'ensemble'\nm = 6\n[[policy]]\nkind = 'ts'\n"
	}
	for _, options := range []string{"engine = 'exact-law'\ntargets = 'gaussian'", "engine = 'lazy'", "engine = 'blocked'", "select = 'max'", "symmetric = false", "combine = 'pair'", "m = 'grow'"} {
		specs["ensemble "+strings.ReplaceAll(options, "\n", " ")] = arms + "[[policy]]\nkind = 'ensemble'\n" + options + "\n"
	}
	more := map[string]string{"linear": "features = 'one-hot'\nmethod = 'atoms'\n",
		"table": "transitions = [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]]\nrewards = [[0.0, 0.1], [1.0, 0.0]]\n"}
	for _, kind := range spec.Names(episode.Agents) {
		specs["agent "+kind] = "[[environment]]\nkind = 'deep-sea-stochastic'\nsize = 5\n[[agent]]\nkind = '" + kind + "'\n" + more[kind]
	}
	for _, kind := range spec.Names(episode.Environments) {
		specs["problem "+kind] = "[[environment]]\nkind = '" + kind + "'\n" + more[kind] + "[[agent]]\nkind = 'ensemble'\nm = 6\n"
	}
	specs["problem random-mdp with features"] = "[[environment]]\nkind = 'random-mdp'\nrank = 3\n[[agent]]\nkind = 'linear'\n"
	files, err := filepath.Glob("testdata/engine/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		specs[filepath.Base(name)] = string(read(t, name))
	}
	return specs
}

// enginePlay is an experiment of engineSpecs, played to round 70, or the refusal.
type enginePlay struct {
	out *Outcome
	err error
}

var enginePlays map[string]enginePlay

// playEngine plays the experiments of engineSpecs, once for all tests.
func playEngine(t *testing.T) map[string]enginePlay {
	t.Helper()
	if enginePlays != nil {
		return enginePlays
	}
	plays := make(map[string]enginePlay)
	for name, text := range engineSpecs(t) {
		o := Options{Data: &dataset.Source{Override: "testdata/engine"}, Memory: 1 << 40} // whatever this machine has free
		out, err := Run(context.Background(), sized(t, text, "70"), o)
		plays[name] = enginePlay{out, err}
	}
	enginePlays = plays
	return plays
}

// TestEngine holds Engine against the bytes of results.csv of every built-in kind: when they change,
// Engine goes up; when they do not, it stays. Cells of earlier engines are not believed, so users lose
// what they have played each time.
//
//	go test ./sim -run TestEngine -update
func TestEngine(t *testing.T) {
	const file = "testdata/engine/results.txt"
	lines := []string{}
	for name, play := range playEngine(t) {
		line := name + ": "
		out, err := play.out, play.err
		if err != nil {
			line += "refused"
			t.Logf("%s: %v", name, err) // shown where the test fails
		} else {
			rows, err := csv.NewReader(bytes.NewReader(out.Results)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			var numbers strings.Builder // names may change
			for _, row := range rows {
				fmt.Fprintln(&numbers, row[2:])
			}
			line += hash([]byte(numbers.String()))[:16]
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	got := fmt.Sprintf("engine %d\n%s\n", Engine, strings.Join(lines, "\n"))
	b, err := os.ReadFile(file)
	if err != nil && !golden.Update() {
		t.Fatal(err)
	}
	want := string(b)
	head, body, _ := strings.Cut(want, "\n")
	_, mine, _ := strings.Cut(got, "\n")
	old := make(map[string]string)
	for line := range strings.Lines(body) {
		name, sum, _ := strings.Cut(strings.TrimSpace(line), ": ")
		old[name] = sum
	}
	changed, added := []string{}, []string{}
	for line := range strings.Lines(mine) {
		name, sum, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch was, ok := old[name]; {
		case !ok:
			added = append(added, name)
		case was != sum:
			changed = append(changed, name)
		}
	}
	same := head == fmt.Sprintf("engine %d", Engine)
	switch {
	case len(changed) > 0 && same:
		t.Fatalf("%s, after Engine is raised, which is still %d: the results of %q have other bytes", golden.Command, Engine, changed)
	case len(changed) == 0 && !same && want != "":
		t.Fatalf("no bytes changed, but Engine is %d and was %q: leave it, so that users keep their cells", Engine, head)
	}
	if golden.Update() {
		golden.Write(t, file, []byte(got))
		return
	}
	if len(added) > 0 {
		t.Errorf("%s: %q are new", golden.Command, added)
	}
}
