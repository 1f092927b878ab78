package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/shards"
)

// shardSpecs are what the parts of the tests are of: lock-step and companies, more than results, episodes.
var shardSpecs = []string{`
horizon = 40
replications = 20
[[environment]]
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 5 }
[[environment]]
kind = "sphere-contexts"
d = 3
[[policy]]
kind = "ensemble"
m = [4, 6]
[[policy]]
kind = "ts"
`, `
horizon = 60
replications = 13
record = ["actions", "coverage"]
[[environment]]
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 5 }
[[policy]]
kind = "ensemble"
m = 4
[[policy]]
kind = "linucb"
`, `
horizon = 30
replications = 9
record = ["solved"]
[[environment]]
kind = "deep-sea"
size = [3, 4]
[[agent]]
kind = "ensemble"
m = 4
[[agent]]
kind = "optimism"
`}

// playPart plays a part of a spec; stop ends it after so many cells, 0 never.
func playPart(t *testing.T, text, dir string, part shards.Part, stop int) (*Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := Options{Dir: dir, Shard: part, Workers: 2, Grace: time.Nanosecond}
	if stop > 0 {
		o.Progress = func(p Progress) {
			if p.Done-p.Reused >= stop {
				cancel()
			}
		}
	}
	return Run(ctx, parseReal(t, text), o)
}

func mergeTo(dir, out string, partial bool) (*Merged, error) {
	return Merge(context.Background(), MergeOptions{Sources: []string{dir}, Dir: out, Partial: partial, Kinds: Kinds()})
}

// TestShardRounds: parts in random order, some never begun, ended at random places, killed, doubled, cut, shuffled, copied and damaged, give
// the bytes of one machine when they are merged, or an error and the parts that lack cells: those, played, give the bytes. Four
// rounds, ten with TROUPE_LONG; TROUPE_RECORD plays 200 and prints what happened. TROUPE_ARM64 is a command that plays with a program of arm64.
func TestShardRounds(t *testing.T) {
	if dir := os.Getenv("TROUPE_SHARD_DIR"); dir != "" { // the process that is killed
		saveEvery = time.Millisecond
		part, err := shards.Parse(os.Getenv("TROUPE_SHARD"))
		if err != nil {
			t.Fatal(err)
		}
		playPart(t, os.Getenv("TROUPE_SHARD_SPEC"), dir, part, 0) //nolint:errcheck // it is killed
		return
	}
	rounds := 4
	if os.Getenv("TROUPE_LONG") != "" {
		rounds = 10
	}
	if os.Getenv("TROUPE_RECORD") != "" {
		rounds = 200
	}
	var whole [3]*Outcome
	for i, text := range shardSpecs {
		var err error
		if whole[i], err = Run(context.Background(), parseReal(t, text), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	count := make(map[string]int)
	for round := range rounds {
		draw := rand.New(rand.NewPCG(33, uint64(round)))
		k := draw.IntN(len(shardSpecs))
		g := &shardRound{t: t, draw: draw, text: shardSpecs[k], want: whole[k], dir: filepath.Join(t.TempDir(), "r"),
			n: 1 + draw.IntN(64), count: count}
		g.play()
		g.spoil()
		g.settle()
		if t.Failed() {
			t.Fatalf("round %d: spec %d in %d parts", round, k, g.n)
		}
	}
	t.Logf("%d rounds: %v", rounds, count)
	if count["complete at once"] == rounds || count["cells missing"] == 0 {
		t.Errorf("no round lacked cells: %v", count)
	}
}

// shardRound is one round of TestShardRounds.
type shardRound struct {
	t     *testing.T
	draw  *rand.Rand
	text  string
	want  *Outcome
	dir   string
	n     int
	count map[string]int
}

// play plays the parts, in a random order, each in one of several ways.
func (g *shardRound) play() {
	careful := g.draw.IntN(4) == 0 // a round in which nothing goes wrong
	for _, i := range g.draw.Perm(g.n) {
		part := shards.Part{Index: i + 1, Of: g.n}
		way := g.draw.IntN(20)
		if careful {
			way = 19
		}
		switch {
		case way == 0:
			g.count["part never begun"]++
			continue
		case way < 3:
			g.count["part ended early"]++
			if _, err := playPart(g.t, g.text, g.dir, part, 1+g.draw.IntN(6)); err != nil && !errors.Is(err, ErrInterrupted) {
				g.t.Error(err)
			}
			continue
		case way == 3 && g.count["process killed"] < 40:
			g.count["process killed"]++
			g.kill(part)
			continue
		case way == 4:
			g.count["part played twice"]++
			done := make(chan error, 2)
			for range 2 {
				go func() {
					_, err := Run(context.Background(), parseReal(g.t, g.text), Options{Dir: g.dir, Shard: part, Workers: 1})
					done <- err
				}()
			}
			for range 2 {
				if err := <-done; err != nil && !strings.Contains(err.Error(), "is played already") {
					g.t.Error(err)
				}
			}
			continue
		}
		if arm := os.Getenv("TROUPE_ARM64"); arm != "" && way < 7 {
			g.count["part on arm64"]++
			g.foreign(strings.Fields(arm), part)
			continue
		}
		out, err := playPart(g.t, g.text, g.dir, part, 0)
		if err != nil || out.Manifest.Status != Complete {
			g.t.Error(part, err)
		}
	}
}

// kill plays a part in a process and kills it.
func (g *shardRound) kill(part shards.Part) {
	c := exec.Command(os.Args[0], "-test.run=^TestShardRounds$")
	c.Env = append(os.Environ(), "TROUPE_SHARD_DIR="+g.dir, "TROUPE_SHARD="+part.String(), "TROUPE_SHARD_SPEC="+g.text)
	if err := c.Start(); err != nil {
		g.t.Fatal(err)
	}
	journal := filepath.Join(g.dir, ShardsDir, part.Dir(), JournalFile)
	for range g.draw.IntN(200) {
		if info, err := os.Stat(journal); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(time.Millisecond) // it is killed anywhere
	}
	c.Process.Kill() //nolint:errcheck // it may have ended
	c.Wait()         //nolint:errcheck // it was killed
}

// foreign plays a part with another program.
func (g *shardRound) foreign(command []string, part shards.Part) {
	spec := filepath.Join(g.t.TempDir(), "spec.toml")
	if err := os.WriteFile(spec, []byte(g.text), 0o644); err != nil {
		g.t.Fatal(err)
	}
	c := exec.Command(command[0], append(command[1:], "run", spec, "-qq", "-o", g.dir, "--shard", part.String())...)
	if out, err := c.CombinedOutput(); err != nil {
		g.t.Errorf("%v: %v: %s", part, err, out)
	}
}

// spoil cuts, shuffles, doubles and damages journals, and copies parts.
func (g *shardRound) spoil() {
	dirs, err := PartDirs(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, dir := range dirs {
		name := filepath.Join(dir, JournalFile)
		data, err := os.ReadFile(name)
		if err != nil || len(data) == 0 {
			continue
		}
		lines := bytes.SplitAfter(data, []byte("\n"))
		switch way := g.draw.IntN(24); way {
		case 0:
			g.count["journal cut"]++
			data = data[:g.draw.IntN(len(data))]
		case 1, 2, 3, 4:
			g.count["journal shuffled"]++
			g.draw.Shuffle(len(lines)-1, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
			data = bytes.Join(lines, nil)
		case 5:
			g.count["journal doubled"]++
			data = append(data, data...)
		case 6:
			g.count["byte changed"]++
			data[g.draw.IntN(len(data))] ^= byte(1 + g.draw.IntN(255))
		case 7:
			g.count["part copied"]++
			to := filepath.Join(g.dir, ShardsDir, shards.Part{Index: 1, Of: 65 + g.draw.IntN(9)}.Dir())
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil && !errors.Is(err, os.ErrExist) {
				g.t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			g.t.Fatal(err)
		}
	}
}

// settle merges, plays what is missing, and merges again.
func (g *shardRound) settle() {
	for turn := range 3 {
		m, err := mergeTo(g.dir, g.dir, false)
		var none *NoSource
		switch {
		case err == nil:
			if turn == 0 {
				g.count["complete at once"]++
			}
			g.check(m)
			return
		case errors.As(err, &none) && turn == 0: // no part was begun
		case !errors.Is(err, ErrMissing) || turn == 2:
			g.t.Error(turn, err)
			return
		}
		g.count["cells missing"]++
		if _, err := os.Stat(filepath.Join(g.dir, ResultsFile)); err == nil {
			g.t.Error("a merge that lacked cells wrote results")
		}
		n := g.n
		var missing []int
		if m != nil && g.draw.IntN(3) > 0 {
			missing = m.Missing(n)
		} else { // another division
			n = 1 + g.draw.IntN(16)
			if m != nil {
				missing = m.Missing(n)
			}
			for i := range n {
				if m == nil {
					missing = append(missing, i+1)
				}
			}
		}
		for _, i := range missing {
			if _, err := playPart(g.t, g.text, g.dir, shards.Part{Index: i, Of: n}, 0); err != nil {
				g.t.Error(i, n, err)
			}
		}
	}
}

// check compares a merged directory with one machine, merges again, and plays it: there is nothing to do.
func (g *shardRound) check(m *Merged) {
	for name, want := range map[string][]byte{ResultsFile: g.want.Results, DiagnosticsFile: g.want.Also,
		ValuesFile: g.want.Values} {
		if got, err := os.ReadFile(filepath.Join(g.dir, name)); want != nil && (err != nil || !bytes.Equal(got, want)) {
			g.t.Errorf("%s differs from that of one machine: %v", name, err)
		}
	}
	if !bytes.Equal(m.Outcome.Values, g.want.Values) {
		g.t.Errorf("%d bytes of values, expected %d", len(m.Outcome.Values), len(g.want.Values))
	}
	if m.Outcome.Manifest.Status != Complete || m.Outcome.Manifest.Shard != nil {
		g.t.Errorf("status %s", m.Outcome.Manifest.Status)
	}
	if m, err := mergeTo(g.dir, g.dir, false); err != nil || !m.Unchanged {
		g.t.Errorf("merged again: %v", err)
	}
	out, err := Run(context.Background(), parseReal(g.t, g.text), Options{Dir: g.dir})
	if err != nil || out.Played != 0 || !bytes.Equal(out.Results, g.want.Results) {
		g.t.Errorf("run on the merged directory: %v", err)
	}
}

// changed writes the journal of a part anew with another digit in its first cell, under a right checksum.
func changed(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, JournalFile)
	data := read(t, name)
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	e, err := parseEntry(first)
	if err != nil {
		t.Fatal(err)
	}
	e.Regret[0] += 1e-9
	line, err := e.line()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(line, rest...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// remanifest changes the manifest of a part.
func remanifest(t *testing.T, dir string, change func(*Manifest)) {
	t.Helper()
	m, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	change(m)
	if err := writeManifest(dir, m); err != nil {
		t.Fatal(err)
	}
}

// TestMergeRefuses: what is not one experiment, computed in one way, is refused in words, and nothing is written.
func TestMergeRefuses(t *testing.T) {
	text := shardSpecs[1]
	tests := []struct {
		name, want string
		spoil      func(dir string)
	}{
		{"a digit changed, with a copy", "has different numbers in", func(dir string) {
			if err := os.CopyFS(filepath.Join(dir, ShardsDir, "1-of-5"), os.DirFS(filepath.Join(dir, ShardsDir, "1-of-4"))); err != nil {
				t.Fatal(err)
			}
			changed(t, filepath.Join(dir, ShardsDir, "1-of-5"))
		}},
		{"a digit changed, alone", "are not those that the part wrote", func(dir string) { changed(t, filepath.Join(dir, ShardsDir, "2-of-4")) }},
		{"another engine", "computed by different programs", func(dir string) {
			remanifest(t, filepath.Join(dir, ShardsDir, "2-of-4"), func(m *Manifest) { m.Program = "engine 1" })
		}},
		{"another data file", "data file of environment", func(dir string) {
			remanifest(t, filepath.Join(dir, ShardsDir, "2-of-4"), func(m *Manifest) { m.Environments[0].Data.SHA256 = "00" })
		}},
		{"another seed", "another seed (7, not 1)", func(dir string) {
			playInto(t, "seed = 7\n"+text, dir, shards.Part{Index: 2, Of: 4})
		}},
		{"another horizon", "another horizon (61, not 60)", func(dir string) {
			playInto(t, strings.Replace(text, "= 60", "= 61", 1), dir, shards.Part{Index: 2, Of: 4})
		}},
		{"another policy", "which has policy linucb", func(dir string) {
			playInto(t, strings.Replace(text, `"linucb"`, `"ts"`, 1), dir, shards.Part{Index: 2, Of: 4})
		}},
		{"no manifest", "cannot be read", func(dir string) {
			if err := os.WriteFile(filepath.Join(dir, ShardsDir, "2-of-4", ManifestFile), []byte("{"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
	}
	base := filepath.Join(t.TempDir(), "base")
	for i := range 4 {
		playInto(t, text, base, shards.Part{Index: i + 1, Of: 4})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			if tt.name == "another policy" { // the part that has the other one is the first
				os.RemoveAll(filepath.Join(dir, ShardsDir, "2-of-4"))
			}
			tt.spoil(dir)
			out := filepath.Join(t.TempDir(), "out")
			_, err := mergeTo(dir, out, true)
			if err == nil || !strings.Contains(err.Error(), tt.want) && tt.name != "another policy" {
				t.Errorf("%v, expected %q", err, tt.want)
			}
			var mixed *MixedError
			var none *NoSource
			if !errors.As(err, &mixed) && !errors.As(err, &none) { // the program ends with 2 for these
				t.Errorf("%T", err)
			}
			if _, err := os.Stat(filepath.Join(out, ResultsFile)); err == nil {
				t.Error("results were written")
			}
		})
	}
}

// playInto plays a part whatever the directory holds.
func playInto(t *testing.T, text, dir string, part shards.Part) {
	t.Helper()
	if _, err := Run(context.Background(), parseReal(t, text), Options{Dir: dir, Shard: part, Force: true}); err != nil {
		t.Fatal(err)
	}
}

// TestPartsOfArchitectures: parts of two architectures are merged where ADR 8 covers the spec, otherwise the environment is named.
func TestPartsOfArchitectures(t *testing.T) {
	for more, why := range map[string]string{"": "", "drift = 0.1\n": "drift", "misspecification = 0.1\n": "misspecification",
		"noise = { kind = \"student-t\" }\n": "Student noise"} {
		text := strings.Replace(shardSpecs[1], "arms = 5 }\n", "arms = 5 }\n"+more, 1)
		dir := filepath.Join(t.TempDir(), "x")
		for i := range 2 {
			playInto(t, text, dir, shards.Part{Index: i + 1, Of: 2})
		}
		remanifest(t, filepath.Join(dir, ShardsDir, "2-of-2"), func(m *Manifest) { m.Arch = "another" })
		_, err := mergeTo(dir, dir, false)
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), `environment "linear" (`+why+")")) {
			t.Errorf("%q: %v", more, err)
		}
	}
}

// TestMergeKeeps: a merge that cannot write leaves the old results, a partial one is continued by Run, and a division that
// changes plays no cell twice.
func TestMergeKeeps(t *testing.T) {
	text := shardSpecs[0]
	whole, err := Run(context.Background(), parseReal(t, text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "x")
	for i := range 2 {
		playInto(t, text, dir, shards.Part{Index: i + 1, Of: 4})
	}
	if m, err := mergeTo(dir, dir, true); err != nil || m.Outcome.Manifest.Status != Interrupted || !slices.Equal(m.Missing(4), []int{3, 4}) {
		t.Fatal(err)
	}
	half := read(t, filepath.Join(dir, ResultsFile))
	var again int
	for i := range 3 {
		out, err := playPart(t, text, dir, shards.Part{Index: i + 1, Of: 3}, 0)
		if err != nil {
			t.Fatal(err)
		}
		again += out.Played
	}
	if again != parseReal(t, text).Cells()-countLines(half)/len(whole.x.Checkpoints) {
		t.Errorf("%d cells were played in three parts after two of four", again)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		if _, err := mergeTo(dir, dir, false); err == nil || !bytes.Equal(half, read(t, filepath.Join(dir, ResultsFile))) {
			t.Errorf("a directory that cannot be written: %v", err)
		}
		os.Chmod(dir, 0o755)
	}
	m, err := mergeTo(dir, dir, false)
	if err != nil || !bytes.Equal(m.Outcome.Results, whole.Results) {
		t.Fatal(err)
	}
	// More replications: what is there counts, and the complete results stay.
	longer := strings.Replace(text, "= 20", "= 24", 1)
	out, err := playPart(t, longer, dir, shards.Part{Index: 1, Of: 2}, 0)
	if err != nil || out.Played > 2*3*4 {
		t.Fatal(out.Played, err)
	}
	if m, err := mergeTo(dir, dir, true); err == nil && m.Done < m.Cells {
		t.Error("a partial merge replaced complete results")
	}
	if !bytes.Equal(whole.Results, read(t, filepath.Join(dir, ResultsFile))) {
		t.Error("the complete results are gone")
	}
}

func countLines(csv []byte) int { return bytes.Count(csv, []byte("\n")) - 1 }

// TestEmptyPart: more parts than cells.
func TestEmptyPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	out, err := playPart(t, shardSpecs[1], dir, shards.Part{Index: 1, Of: 100}, 0)
	if err != nil {
		t.Fatal(err)
	}
	empty := out.Manifest.Shard.Cells == 0
	for i := 2; !empty && i <= 100; i++ {
		if out, err = playPart(t, shardSpecs[1], dir, shards.Part{Index: i, Of: 100}, 0); err != nil {
			t.Fatal(err)
		}
		empty = out.Manifest.Shard.Cells == 0
	}
	if !empty || out.Manifest.Status != Complete || out.Played != 0 {
		b, _ := json.Marshal(out.Manifest.Shard)
		t.Errorf("%s", b)
	}
}

// TestOtherSpecInPart: a part of a spec that changed since the first part is refused before anything is played.
func TestOtherSpecInPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	playInto(t, shardSpecs[1], dir, shards.Part{Index: 1, Of: 2})
	for _, change := range [][2]string{{"horizon = 60", "horizon = 59"}, {"m = 4", "m = 5"}, {"horizon = 60", "seed = 9\nhorizon = 60"}} {
		_, err := playPart(t, strings.Replace(shardSpecs[1], change[0], change[1], 1), dir, shards.Part{Index: 2, Of: 2}, 0)
		var refused *DirError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", change[1], err)
		} else {
			t.Log(err)
		}
	}
	if _, err := Run(context.Background(), parseReal(t, shardSpecs[1]), Options{Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), "merge them first") {
		t.Error(err)
	}
}
