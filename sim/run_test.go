package sim

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

func parse(t *testing.T, text string) *Experiment {
	t.Helper()
	x, err := Parse("x.toml", text, fakes)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func run(t *testing.T, x *Experiment, o Options) *Outcome {
	t.Helper()
	out, err := Run(context.Background(), x, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, name ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const mixed = `seed = 5
horizon = 700
replications = 9
[[environment]]
name = "three"
kind = "arms"
[[environment]]
name = "five, with a comma"
kind = "arms"
k = 5
[[policy]]
kind = "random"
weight = [1.0, 2.5, 0.3]
`

// The numbers of a cell are those of the loop written out by hand: the streams are the ones that
// the package comment names, and the sums are sums.
func TestResultsAreThePlay(t *testing.T) {
	x := parse(t, mixed)
	rows, err := csv.NewReader(bytes.NewReader(run(t, x, Options{}).Results)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != "environment,policy,replication,round,regret,reward" {
		t.Fatalf("header %s", got)
	}
	rows = rows[1:]
	if want := x.Cells() * len(x.Checkpoints); len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	i := 0
	for _, env := range x.Environments {
		for _, pol := range x.Policies {
			weight := pol.Options.(*randomPolicy).Weight
			for rep := 1; rep <= x.Replications; rep++ {
				key := rng.NewKey(5).At(uint64(rep))
				built, err := env.Options.Build(key, nil)
				if err != nil {
					t.Fatal(err)
				}
				w := built.(*arms)
				var regret, reward float64
				for round := 1; round <= x.Horizon; round++ {
					k := len(w.mean)
					arm := int(key.Stream(rng.Select).Round(uint64(round)).Float64(0)*weight*float64(k)) % k
					regret += w.best - w.mean[arm]
					reward += w.mean[arm] + key.Stream(rng.Reward).Round(uint64(round)).Uniform(0)
					if at, _ := strconv.Atoi(rows[min(i, len(rows)-1)][3]); at != round {
						continue
					}
					want := []string{env.Name, pol.Name, strconv.Itoa(rep), strconv.Itoa(round),
						strconv.FormatFloat(regret, 'g', -1, 64), strconv.FormatFloat(reward, 'g', -1, 64)}
					if got := strings.Join(rows[i], "|"); got != strings.Join(want, "|") {
						t.Fatalf("row %d is %s, want %s", i, got, strings.Join(want, "|"))
					}
					i++
				}
			}
		}
	}
	if i != len(rows) {
		t.Errorf("%d of %d rows were expected", i, len(rows))
	}
}

// One worker and eight give the same bytes, in memory and on disk.
func TestWorkersDoNotMatter(t *testing.T) {
	x := parse(t, mixed)
	one := run(t, x, Options{Workers: 1})
	dir := filepath.Join(t.TempDir(), "out")
	eight := run(t, x, Options{Workers: 8, Dir: dir})
	if !bytes.Equal(one.Results, eight.Results) {
		t.Error("eight workers give other results than one")
	}
	if !bytes.Equal(one.Results, read(t, dir, ResultsFile)) {
		t.Error("the file differs from the results in memory")
	}
	m, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Status != Complete || m.Done != 54 || m.Cells != 54 || m.ResultsSHA != hash(one.Results) ||
		m.Spec != mixed || m.Policies[0].Rounds != 2*9*700 || m.Policies[0].Seconds <= 0 || m.Environments[1].Dim != 5 {
		t.Errorf("manifest %+v", m)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

// Adding a policy or an environment, in front, changes no other's numbers: every line of the
// smaller experiment is a line of the larger one.
func TestPoliciesDoNotDisturbEachOther(t *testing.T) {
	before := run(t, parse(t, mixed), Options{}).Results
	larger := strings.Replace(mixed, "[[environment]]", "[[environment]]\nkind='arms'\nk=7\n[[environment]]", 1) + "law = 'other'\n"
	larger = strings.Replace(larger, "[[policy]]", "[[policy]]\nname='new'\nkind='random'\nweight=9\n[[policy]]\nname='random'", 1)
	after := string(run(t, parse(t, larger), Options{}).Results)
	for _, line := range strings.SplitAfter(string(before), "\n") {
		if !strings.Contains(after, line) {
			t.Fatalf("the line %q is gone", line)
		}
	}
	if len(after) < len(before)*3/2 {
		t.Error("nothing was added: the test is wrong")
	}
}

// A run that is killed at any byte of its journal, with the other files lost or kept, goes on and
// ends with the same bytes; cells that are in the journal are not played again.
func TestResume(t *testing.T) {
	x := parse(t, mixed)
	dir := filepath.Join(t.TempDir(), "out")
	want := run(t, x, Options{Dir: dir}).Results
	journal := read(t, dir, JournalFile)
	for _, cut := range []int{0, 1, 9, len(journal) / 3, len(journal)/2 + 1, len(journal) - 1, len(journal)} {
		for _, keep := range []bool{true, false} {
			dir := filepath.Join(t.TempDir(), "out")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, JournalFile), journal[:cut], 0o644); err != nil {
				t.Fatal(err)
			}
			if keep {
				m := Manifest{Identity: x.Identity(), Status: Interrupted, Done: 3, Seconds: 100}
				if err := writeManifest(dir, &m); err != nil {
					t.Fatal(err)
				}
			}
			out := run(t, x, Options{Dir: dir, Workers: 2})
			whole := bytes.Count(journal[:cut], []byte("\n"))
			if out.Reused != whole || out.Played != 54-whole {
				t.Errorf("cut at %d: %d cells reused, %d played, want %d and %d", cut, out.Reused, out.Played, whole, 54-whole)
			}
			if !bytes.Equal(out.Results, want) || !bytes.Equal(read(t, dir, ResultsFile), want) {
				t.Errorf("cut at %d: other results", cut)
			}
			if keep && whole > 0 && out.Manifest.Seconds < 100 {
				t.Errorf("cut at %d: %v s in all sessions, want more than 100", cut, out.Manifest.Seconds)
			}
			again := run(t, x, Options{Dir: dir})
			if again.Played != 0 || !bytes.Equal(again.Results, want) || again.Manifest.Started != out.Manifest.Started {
				t.Errorf("cut at %d: a third call plays %d cells", cut, again.Played)
			}
		}
	}
}

// A journal with a flipped byte in every place gives the right results all the same: the checksum
// finds the damage, it is reported with its offset, and the cell is played again.
func TestDamagedJournal(t *testing.T) {
	x := parse(t, strings.NewReplacer("700", "7", "replications = 9", "replications = 2").Replace(mixed))
	dir := filepath.Join(t.TempDir(), "out")
	want := run(t, x, Options{Dir: dir}).Results
	journal := read(t, dir, JournalFile)
	stride := 47
	if os.Getenv("TROUPE_LONG") != "" {
		stride = 7
	}
	for i := 0; i < len(journal); i += stride {
		bad := bytes.Clone(journal)
		bad[i] ^= 1
		dir := filepath.Join(t.TempDir(), "out")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, JournalFile), bad, 0o644); err != nil {
			t.Fatal(err)
		}
		var remarks []string
		out := run(t, x, Options{Dir: dir, Note: func(s string) { remarks = append(remarks, s) }})
		if !bytes.Equal(out.Results, want) {
			t.Fatalf("byte %d flipped: other results", i)
		}
		if len(remarks) == 0 || !strings.Contains(remarks[0], "offset") || out.Played == 0 {
			t.Fatalf("byte %d flipped: remarks %q, %d cells played", i, remarks, out.Played)
		}
		if _, again, _ := readJournal(filepath.Join(dir, JournalFile)); len(again) > 0 {
			t.Fatalf("byte %d flipped: the journal of the complete run is not clean: %q", i, again)
		}
	}
}

// A new line never continues a torn one.
func TestJournalAfterATear(t *testing.T) {
	name := filepath.Join(t.TempDir(), JournalFile)
	for _, torn := range []string{"", "0000", "12345678 {\"cell\":\"x\"}"} {
		whole, err := entry{Cell: "a", Regret: []float64{1}, Reward: []float64{2}}.line()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(whole, torn...), 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.append(entry{Cell: "b"}); err != nil {
			t.Fatal(err)
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
		cells, remarks, err := readJournal(name)
		if err != nil || len(cells) != 2 || len(remarks) > 0 {
			t.Errorf("after the tear %q: %d cells, remarks %q, %v", torn, len(cells), remarks, err)
		}
		if torn == "" {
			continue
		}
		if err := os.WriteFile(name, append(whole, torn...), 0o644); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s, offset %d: the last line is incomplete", name, len(whole))
		if cells, remarks, err := readJournal(name); err != nil || len(cells) != 1 || len(remarks) != 1 || !strings.HasPrefix(remarks[0], want) {
			t.Errorf("with the tear %q: %d cells, remarks %q, %v; want %q", torn, len(cells), remarks, err, want)
		}
	}
}

// A context that is done keeps what is finished; the next call ends with the same bytes.
func TestInterrupt(t *testing.T) {
	x := parse(t, mixed)
	want := run(t, x, Options{}).Results
	dir := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, x, Options{Dir: dir, Workers: 2, Progress: func(p Progress) {
		if p.Done == 20 {
			cancel()
		}
	}})
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("error %v, want ErrInterrupted", err)
	}
	if out.Played < 20 || out.Played > 22 || out.Manifest.Status != Interrupted || out.Manifest.Done != out.Played {
		t.Errorf("%d cells played, status %s, want the 20 and at most the two under way", out.Played, out.Manifest.Status)
	}
	if got := bytes.Count(read(t, dir, ResultsFile), []byte("\n")); got != 1+out.Played*len(x.Checkpoints) {
		t.Errorf("results.csv has %d lines for %d cells", got, out.Played)
	}
	if got := run(t, x, Options{Dir: dir}); got.Reused != out.Played || !bytes.Equal(got.Results, want) {
		t.Error("the run that goes on ends with other bytes")
	}
}

// A cell that takes longer than the grace is abandoned: this one would take longer than a test may.
func TestAbandon(t *testing.T) {
	x := parse(t, strings.Replace(mixed, "700", "1_000_000_000", 1))
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, x, Options{Grace: time.Millisecond, Progress: func(p Progress) {
		if p.Rounds > 0 { // a cell is under way
			cancel()
		}
	}})
	if !errors.Is(err, ErrInterrupted) || out.Played != 0 {
		t.Errorf("error %v, %d cells played", err, out.Played)
	}
}

func TestCellError(t *testing.T) {
	x := parse(t, mixed+"[[policy]]\nname='weak'\nkind='break'\nround=300\n")
	dir := filepath.Join(t.TempDir(), "out")
	_, err := Run(context.Background(), x, Options{Dir: dir, Workers: 1})
	const want = `environment "three", policy "weak", replication 1: round 300, the policy's update: a spring is broken`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	if !errors.Is(err, errBroken) {
		t.Error("the cause is hidden")
	}
	if m, err := ReadManifest(dir); err != nil || m.Status != Interrupted || m.Done != 3 {
		t.Errorf("manifest %+v, %v; want the three finished cells kept", m, err)
	}
}

// What cannot work is refused before the first cell, at the line of its table.
func TestRehearsal(t *testing.T) {
	for _, c := range []struct{ policy, want string }{
		{"[[policy]]\nkind='stingy'", `x.toml:12:3: policy "stingy" on environment "three": not supported on this action set`},
		{"[[policy]]\nkind='random'\nm=-3", `x.toml:14:1: policy "random" on environment "three": m is -3, expected at least 0`},
	} {
		text := mixed[:strings.Index(mixed, "[[policy]]")] + "\n" + c.policy
		_, err := Run(context.Background(), parse(t, text), Options{})
		if err == nil || err.Error() != c.want {
			t.Errorf("error %v\nwant  %s", err, c.want)
		}
	}
	text := strings.Replace(mixed, "k = 5", "k = 0", 1)
	const want = `x.toml:10:1: k is 0, expected at least 1`
	if _, err := Run(context.Background(), parse(t, text), Options{}); err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

func TestNotes(t *testing.T) {
	var heard []string
	out := run(t, parse(t, mixed+"m = 13\n"), Options{Note: func(s string) { heard = append(heard, s) }})
	if len(heard) != 6 || len(out.Manifest.Notes) != 6 || heard[0] != "policy random(weight=1) on environment three: m = 13 brings bad luck" {
		t.Errorf("notes %q, in the manifest %q", heard, out.Manifest.Notes)
	}
}

// A directory with something else in it is refused; more replications of the same are welcome.
func TestClaim(t *testing.T) {
	x := parse(t, mixed)
	dir := filepath.Join(t.TempDir(), "out")
	run(t, x, Options{Dir: dir})

	more := parse(t, strings.Replace(mixed, "replications = 9", "replications = 11", 1))
	out := run(t, more, Options{Dir: dir})
	if out.Reused != 54 || !bytes.Equal(out.Results, run(t, more, Options{}).Results) {
		t.Errorf("more replications reuse %d cells, want 54", out.Reused)
	}
	for _, c := range []struct{ from, to, want string }{
		{"seed = 5", "seed = 6", "another seed (5, not 6)"},
		{"replications = 9", "replications = 8", "holds 18 finished cells that this run would drop: they are beyond the 8 replications asked for"},
		{"horizon = 700", "horizon = 70", "a longer horizon (700, not 70)"},
		{"weight = [1.0,", "weight = [1.1,", "another spec, which has policy random(weight=1)"},
		{"k = 5", "k = 6", "another spec, which has environment five, with a comma"},
	} {
		other := parse(t, strings.Replace(mixed, c.from, c.to, 1))
		_, err := Run(context.Background(), other, Options{Dir: dir})
		var refused *DirError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.to, err, c.want)
		}
	}
	other := parse(t, strings.Replace(strings.Replace(mixed, "weight = [1.0,", "weight = [1.1,", 1), "replications = 9", "replications = 11", 1))
	out = run(t, other, Options{Dir: dir, Force: true})
	if out.Reused != 44 {
		t.Errorf("a changed policy reuses %d cells, want the 44 of the others", out.Reused)
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "letter.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), x, Options{Dir: strange}); err == nil || !strings.Contains(err.Error(), "is not empty (letter.txt)") {
		t.Errorf("a directory with a letter in it: error %v", err)
	}
	for _, in := range []string{"letter.txt", filepath.Join("letter.txt", "in", "it")} {
		var refused *DirError
		_, err := Run(context.Background(), x, Options{Dir: filepath.Join(strange, in), Force: true})
		if !errors.As(err, &refused) || !refused.None || !strings.Contains(err.Error(), "letter.txt") {
			t.Errorf("results in a file, %s: error %v", in, err)
		}
	}
	killed := t.TempDir()
	if err := os.WriteFile(filepath.Join(killed, ".results.csv.123"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, x, Options{Dir: killed})
}

// Cells of another program are not believed: they are refused, and with force replaced when the new
// ones are complete, not before.
func TestProgram(t *testing.T) {
	x := parse(t, mixed)
	dir := filepath.Join(t.TempDir(), "out")
	want := run(t, x, Options{Dir: dir, Program: "one"}).Results
	var refused *DirError
	if _, err := Run(context.Background(), x, Options{Dir: dir, Program: "two"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "54 finished cells that this run would drop: they were computed by one, this is two") {
		t.Errorf("error %v", err)
	}
	var heard []string
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, x, Options{Dir: dir, Program: "two", Force: true, Workers: 1, Note: func(s string) { heard = append(heard, s) }, Progress: func(p Progress) {
		if p.Done == 20 {
			cancel()
		}
	}})
	if !errors.Is(err, ErrInterrupted) || len(heard) != 1 || !strings.Contains(heard[0], "go when the new results are complete") {
		t.Errorf("error %v, notes %q", err, heard)
	}
	if m, err := ReadManifest(dir); err != nil || m.Status != Complete || m.Program != "one" || !bytes.Equal(read(t, dir, ResultsFile), want) {
		t.Errorf("the finished results are gone: manifest %+v, error %v", m, err)
	}
	out := run(t, x, Options{Dir: dir, Program: "two", Force: true})
	if out.Reused < 20 || out.Manifest.Program != "two" || bytes.Count(read(t, dir, JournalFile), []byte("\n")) != 54 {
		t.Errorf("the run that goes on reuses %d cells, and the journal has %d lines, expected 54", out.Reused,
			bytes.Count(read(t, dir, JournalFile), []byte("\n")))
	}
	if cells, _, err := readJournal(filepath.Join(dir, JournalFile)); err != nil || len(cells) != 54 {
		t.Errorf("the journal has %d cells, error %v", len(cells), err)
	}
	if out := run(t, x, Options{Dir: dir, Program: "two"}); out.Played != 0 {
		t.Errorf("%d cells are played again", out.Played)
	}
}

// Without a word about it, built-in kinds are kept by the engine version and outside kinds by the
// executable.
func TestProgramOf(t *testing.T) {
	var o Options
	real := parseReal(t, sideBySide)
	for kind, mk := range policy.Kinds {
		if p, err := o.programOf(real.Environments[0].Options, mk(), nil); err != nil || p != "engine 1" && !strings.HasPrefix(p, "engine ") {
			t.Errorf("policy %s is computed by %q, error %v", kind, p, err)
		}
	}
	worlds := Kinds().Environments
	delete(worlds, "process") // a program computes its numbers
	for kind, mk := range worlds {
		if p, err := o.programOf(mk(), real.Policies[0].Options, nil); err != nil || !strings.HasPrefix(p, "engine ") {
			t.Errorf("environment %s is computed by %q, error %v", kind, p, err)
		}
	}
	fake := parse(t, mixed)
	if p, err := o.programOf(fake.Environments[0].Options, real.Policies[0].Options, nil); err != nil || len(p) != 64 {
		t.Errorf("an outside environment is computed by %q, error %v", p, err)
	}
	nested := &policy.MixedOptions{Base: policy.Base{Options: fake.Policies[0].Options}}
	if p, err := o.programOf(real.Environments[0].Options, nested, nil); err != nil || len(p) != 64 {
		t.Errorf("an outside policy inside a built-in one is computed by %q, error %v", p, err)
	}
}

// What only adds cells needs no force: policies, environments, replications.
func TestExtend(t *testing.T) {
	x := parse(t, mixed)
	dir := filepath.Join(t.TempDir(), "out")
	run(t, x, Options{Dir: dir})
	larger := parse(t, strings.Replace(mixed, "replications = 9", "replications = 12", 1)+"[[policy]]\nname='new'\nkind='random'\nweight=9\n[[environment]]\nkind='arms'\nk=7\n")
	var heard []string
	out := run(t, larger, Options{Dir: dir, Note: func(s string) { heard = append(heard, s) }})
	if out.Reused != 54 || !bytes.Equal(out.Results, run(t, larger, Options{}).Results) {
		t.Errorf("%d cells are reused", out.Reused)
	}
	if len(heard) != 1 || !strings.Contains(heard[0], "is extended: 54 cells are there, 90 are new") {
		t.Errorf("notes %q", heard)
	}
	stated := parse(t, strings.Replace(mixed, "seed = 5", "seed = 5\nhypothesis = 'after the fact'", 1))
	if _, err := Run(context.Background(), stated, Options{Dir: dir}); err == nil {
		t.Error("a hypothesis is accepted after the run")
	}
}

// Two runs in one directory at the same time: the second waits, says for which process, and plays
// nothing.
func TestTwoRuns(t *testing.T) {
	x := parse(t, mixed)
	dir := filepath.Join(t.TempDir(), "out")
	second := make(chan *Outcome)
	var heard atomic.Value
	started := false
	out := run(t, x, Options{Dir: dir, Workers: 1, Manifest: Manifest{Command: "the first"}, Progress: func(p Progress) {
		if p.Done < 5 || started {
			return
		}
		started = true
		waiting := make(chan bool)
		go func() {
			out, err := Run(context.Background(), x, Options{Dir: dir, Note: func(s string) { heard.Store(s); close(waiting) }})
			if err != nil {
				t.Error(err)
			}
			second <- out
		}()
		<-waiting
	}})
	other := <-second
	if other.Played != 0 || !bytes.Equal(out.Results, other.Results) {
		t.Errorf("the second run plays %d cells", other.Played)
	}
	if want := fmt.Sprintf("waiting for process %d (the first), which writes to %s", os.Getpid(), dir); heard.Load() != want {
		t.Errorf("the second says %q, want %q", heard.Load(), want)
	}
}

// The leader board is on complete replications only, and its figures are those of results.csv.
func TestBoard(t *testing.T) {
	x := parse(t, mixed)
	var last Progress
	seen := 0
	run(t, x, Options{Workers: 2, Progress: func(p Progress) {
		if p.Done < seen || p.Replications > p.Done/6 {
			t.Errorf("%d cells, %d complete replications", p.Done, p.Replications)
		}
		seen = p.Done
		if (p.Board() == nil) != (p.Replications == 0) {
			t.Errorf("a board on %d replications: %v", p.Replications, p.Board())
		}
		last = p
	}})
	board := last.Board()
	if last.Replications != 9 || len(board) != 6 || last.Rounds != 54*700 || last.AllRounds != 54*700 {
		t.Fatalf("the last progress is %+v with %d standings", last, len(board))
	}
	out := run(t, x, Options{})
	rows, _ := csv.NewReader(bytes.NewReader(out.Results)).ReadAll()
	final := map[string][]float64{}
	for _, row := range rows {
		if row[3] == "700" {
			v, _ := strconv.ParseFloat(row[4], 64)
			final[row[0]+row[1]] = append(final[row[0]+row[1]], v)
		}
	}
	for i, s := range board {
		v := final[s.Environment+s.Policy]
		var sum, sq, behind float64
		lead := board[i/3*3]
		for k, y := range v {
			sum += y
			sq += y * y
			if y > final[lead.Environment+lead.Policy][k] {
				behind++
			}
		}
		mean := sum / 9
		se := math.Sqrt((sq/9 - mean*mean) / 8)
		if math.Abs(s.Mean-mean) > 1e-9*mean || math.Abs(s.SE-se) > 1e-6*se || math.Abs(s.Behind-behind/9) > 1e-12 {
			t.Errorf("%+v, want mean %v, s.e. %v, behind %v", s, mean, se, behind/9)
		}
		if i%3 > 0 && s.Mean < board[i-1].Mean {
			t.Error("the board is not in order")
		}
	}
}

// Every role draws from its own stream, in its own round, of the replication's key. A policy and a
// world that check what they are handed see it.
func TestStreams(t *testing.T) {
	key := rng.NewKey(9).At(4)
	w := &witness{t: t, key: key, arms: arms{mean: []float64{1}, best: 1, set: standardBasis(1)}}
	if err := Play(w, (*witnessPolicy)(w), key, 25, nothing{}); err != nil {
		t.Fatal(err)
	}
	if w.heard != 4*25 {
		t.Errorf("%d draws in 25 rounds, want one for each of four roles", w.heard)
	}
}

type witness struct {
	arms
	t            *testing.T
	key          rng.Key
	round, heard int
}

func (w *witness) hear(role rng.Role, draw rng.Source) {
	w.t.Helper()
	w.heard++
	if draw != w.key.Stream(role).Round(uint64(w.round)) {
		w.t.Errorf("round %d: role %d has the source %+v", w.round, role, draw)
	}
}

func (w *witness) Offer(draw rng.Source) (bandit.ActionSet, error) {
	w.round++
	w.hear(rng.Offer, draw)
	return w.arms.Offer(draw)
}

func (w *witness) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	w.hear(rng.Reward, draw)
	return w.arms.Reward(a, draw)
}

type witnessPolicy witness

func (p *witnessPolicy) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	(*witness)(p).hear(rng.Select, draw)
	dst.Set([]float64{1}, 0)
	return nil
}

func (p *witnessPolicy) Update(_ bandit.Action, _ float64, draw rng.Source) error {
	(*witness)(p).hear(rng.Perturb, draw)
	return nil
}

// A reward that is not finite ends the play, whoever made it.
func TestNotFinite(t *testing.T) {
	env := &arms{mean: []float64{math.NaN()}, set: standardBasis(1)}
	err := Play(env, &randomPlayer{weight: 1}, rng.NewKey(1), 10, &recorder{at: []int{10}})
	var round *RoundError
	if !errors.As(err, &round) || round.Round != 1 || !errors.Is(err, bandit.ErrNotFinite) {
		t.Errorf("error %v", err)
	}
}

// A round allocates nothing.
func TestPlayAllocatesNothing(t *testing.T) {
	key := rng.NewKey(1)
	world, err := (&armsWorld{K: 4}).Build(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &randomPlayer{weight: 1}
	short := testing.AllocsPerRun(10, func() { Play(world, p, key, 10, nothing{}) })
	long := testing.AllocsPerRun(10, func() { Play(world, p, key, 1000, nothing{}) })
	if long > short {
		t.Errorf("%v allocations in 1000 rounds, %v in 10", long, short)
	}
}

type nothing struct{}

func (nothing) Round(int, float64, float64) error { return nil }

func FuzzJournal(f *testing.F) {
	line, _ := entry{Cell: "a", Regret: []float64{1}, Reward: []float64{2}}.line()
	f.Add(line[:len(line)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := parseEntry(b); err == nil {
			for _, v := range e.Regret {
				if !finite(v) {
					t.Error("a sum that is not finite was let in")
				}
			}
		}
	})
}

// The loop itself: a round of a policy and a world that cost next to nothing.
func BenchmarkPlay(b *testing.B) {
	key := rng.NewKey(1)
	world, err := (&armsWorld{K: 4}).Build(key, nil)
	if err != nil {
		b.Fatal(err)
	}
	w := &recorder{at: []int{b.N + 1}, rounds: new(atomic.Int64)}
	b.ReportAllocs()
	if err := Play(world, &randomPlayer{weight: 1}, key, b.N, w); err != nil {
		b.Fatal(err)
	}
}

// TestCellKeys: the key of a cell is the hash of one JSON object, so journals of other builds stay readable.
func TestCellKeys(t *testing.T) {
	for _, record := range []string{"", "record = [\"actions\"]\n"} {
		x := parse(t, record+mixed)
		keys := make([]string, x.Replications)
		if err := cellKeys(x, keys, 1, 2, "program", "data"); err != nil {
			t.Fatal(err)
		}
		world, pol := x.Environments[1], x.Policies[2]
		for r, key := range keys {
			var text []string
			field := func(name string, v any) {
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, strconv.Quote(name)+":"+string(b))
			}
			field("Format", 1)
			field("Program", "program")
			field("Environment", struct {
				Kind, Table, Data any
			}{world.Kind, world.Table, "data"})
			field("Policy", struct{ Kind, Table any }{pol.Kind, pol.Table})
			field("Seed", 5)
			field("Replication", r+1)
			field("Checkpoints", x.Checkpoints)
			field("Horizon", 700)
			if record != "" {
				field("Record", []string{"actions"})
			}
			if want := hash([]byte("{" + strings.Join(text, ",") + "}"))[:32]; key != want {
				t.Fatalf("record %q, replication %d: key %s, want %s", record, r+1, key, want)
			}
		}
	}
}
