package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// TestMain is also the program of the tests: a follower of the leader that reads lines of JSON, with a fault where
// PROCESS_FAULT names one.
func TestMain(m *testing.M) {
	switch os.Getenv("PROCESS_ANSWERS") {
	case "linucb":
		answerLinUCB()
		return
	case "world":
		answerWrongly(os.Getenv("PROCESS_FAULT"))
		return
	}
	if os.Getenv("PROCESS_CHILD") != "" {
		follow(os.Getenv("PROCESS_FAULT"))
		return
	}
	os.Exit(m.Run())
}

// leader is the state of a cell of the test's program.
type leader struct {
	Sums, Counts []float64
}

func (l *leader) best() int {
	at := 0
	for i := range l.Sums {
		if l.Counts[i] == 0 {
			return i
		}
		if l.Sums[i]*l.Counts[at] > l.Sums[at]*l.Counts[i] {
			at = i
		}
	}
	return at
}

func follow(fault string) {
	in := bufio.NewReader(os.Stdin)
	say := func(v any) {
		b, _ := json.Marshal(v)
		os.Stdout.Write(append(b, '\n'))
	}
	cells := make(map[uint32]*leader)
	if _, err := readLine(in); err != nil {
		return
	}
	switch fault {
	case "protocol":
		say(hello{Type: "hello", Protocol: 9})
	case "greeting":
		fmt.Println("Welcome to my policy!")
	case "field":
		fmt.Println(`{"type":"hello","protocol":1,"colour":"red"}`)
	default:
		say(hello{Type: "hello", Protocol: Protocol, Name: "leader", Versions: map[string]string{"go": "1"}, Snapshot: true,
			Law: true, Turns: os.Getenv("PROCESS_TURNS") != ""})
	}
	for {
		line, err := readLine(in)
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		l := cells[r.Cell]
		late := r.Type == "select" && r.Round >= 3
		switch {
		case fault == "die" && late:
			fmt.Fprintln(os.Stderr, "out of cheese")
			os.Exit(3)
		case fault == "hang" && late:
			time.Sleep(time.Hour) // the fault: it does not answer
		case fault == "print" && late:
			fmt.Println("debug: round", r.Round)
		case fault == "says" && late:
			say(answer{Type: "error", Cell: r.Cell, Message: "matrix is singular"})
			continue
		case fault == "order" && late:
			say(answer{Type: "action", Cell: r.Cell + 1, Index: new(int)})
			continue
		}
		switch r.Type {
		case "init":
			cells[r.Cell] = &leader{make([]float64, r.Problem.Arms), make([]float64, r.Problem.Arms)}
			say(answer{Type: "ready", Cell: r.Cell})
		case "end":
			delete(cells, r.Cell)
		case "select":
			i := l.best()
			if fault == "index" && late {
				i = 99
			}
			say(answer{Type: "action", Cell: r.Cell, Index: &i})
		case "law":
			p := make([]float64, len(l.Sums))
			p[l.best()] = 1
			if fault == "law" {
				p[0] += 0.5
			}
			say(answer{Type: "law", Cell: r.Cell, Law: p})
		case "update":
			if r.Index != nil {
				l.Sums[*r.Index] += *r.Reward
				l.Counts[*r.Index]++
			}
		case "snapshot":
			b, _ := json.Marshal(l)
			say(map[string]any{"type": "state", "cell": r.Cell, "state": b})
		case "restore":
			var raw struct{ State []byte }
			s := new(leader)
			if json.Unmarshal(line, &raw) != nil || json.Unmarshal(raw.State, s) != nil || len(s.Sums) != len(l.Sums) {
				say(answer{Type: "error", Cell: r.Cell, Message: "no state of mine"})
				continue
			}
			cells[r.Cell] = s
			say(answer{Type: "ready", Cell: r.Cell})
		}
	}
}

// program returns options that play the test's program.
func program(t *testing.T, fault string) *Options {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := NewOptions()
	o.Command = []string{self}
	o.Env = []string{"PROCESS_CHILD=1", "PROCESS_FAULT=" + fault}
	t.Cleanup(func() { o.Close() })
	return o
}

func arms(t testing.TB) bandit.Finite {
	set, err := actionset.NewFinite([][]float64{{1, 0}, {0, 1}, {0.6, 0.7}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The suite of policies: Select reads, Update writes, snapshots are exact, laws are laws.
func TestConformance(t *testing.T) {
	o := program(t, "")
	set := arms(t)
	bandittest.TestPolicy(t, func() bandit.Policy {
		p, err := o.New(policy.Problem{Dim: 2, Arms: 3, Sigma: 1, Init: rng.NewKey(1).Stream(rng.Init)})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, bandittest.PolicyConfig{
		Sets: []bandit.ActionSet{set},
		Exempt: map[bandittest.PolicyCheck]string{
			bandittest.PermutedAction: "it knows arms by number",
			bandittest.PermutedLaw:    "it knows arms by number",
			bandittest.Allocations:    "messages are encoded",
		},
	})
}

// play plays rounds with rewards that depend on the arm, and returns the arms.
func play(p bandit.Policy, set bandit.ActionSet, from, to int) (chosen []int, err error) {
	key := rng.NewKey(7)
	var a bandit.Action
	for t := from; t <= to; t++ {
		if err := p.Select(&a, set, key.Stream(rng.Select).Round(uint64(t))); err != nil {
			return chosen, err
		}
		chosen = append(chosen, a.Index)
		y := float64(a.Index) + key.Stream(rng.Reward).Round(uint64(t)).Normal(0)
		if err := p.Update(a, y, key.Stream(rng.Perturb).Round(uint64(t))); err != nil {
			return chosen, err
		}
	}
	return chosen, nil
}

// Every fault of a program is an error that says what it was and what the program wrote last; the options go on with
// another program.
func TestFaults(t *testing.T) {
	for fault, want := range map[string][]string{
		"protocol": {"protocol 9, expected 1"},
		"greeting": {`"Welcome to my policy!" on standard output is no message`},
		"field":    {`unknown field "colour"`},
		"die":      {"select of round 3", "exit status 3", "out of cheese"},
		"hang":     {"no answer within 200ms"},
		"print":    {`"debug: round 3" on standard output is no message`},
		"says":     {"it says: matrix is singular"},
		"order":    {"for cell 2, expected 1"},
		"index":    {"index 99, expected one from 0 to 2"},
	} {
		t.Run(fault, func(t *testing.T) {
			o := program(t, fault)
			if fault == "hang" {
				o.Timeout = "200ms"
			}
			p, err := o.New(policy.Problem{Dim: 2, Arms: 3})
			if err == nil {
				_, err = play(p, arms(t), 1, 5)
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\ndoes not say %s", err, w)
				}
			}
		})
	}
	p, err := program(t, "law").New(policy.Problem{Dim: 2, Arms: 3})
	if err != nil {
		t.Fatal(err)
	}
	var law bandit.Law
	err = p.(bandit.Prober).Prob(&law, arms(t), rng.NewKey(1).Stream(rng.Select).Round(1))
	if err == nil || !strings.Contains(err.Error(), "3 probabilities with sum 1") {
		t.Errorf("a law with sum 1.5: %v", err)
	}
}

// Options that cannot be are refused with the key and its value.
func TestOptionsRefused(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Command = nil }, "command"},
		{func(o *Options) { o.Command = []string{"no-such-program-of-troupe"} }, "does not start"},
		{func(o *Options) { o.Timeout = "soon" }, `timeout is "soon"`},
		{func(o *Options) { o.Timeout = "-1s" }, `timeout is "-1s"`},
		{func(o *Options) { o.Memory = "12" }, `memory is "12"`},
		{func(o *Options) { o.Env = []string{"=1"} }, `env is "=1"`},
	} {
		o := program(t, "")
		c.change(o)
		if _, err := o.New(policy.Problem{Dim: 2, Arms: 3}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
	var table Table
	if err := table.DecodeSpec(spec.Raw{"a": spec.Raw{"b": []any{time.Now()}}}, "policy[0].options"); err == nil ||
		!strings.Contains(err.Error(), "policy[0].options.a.b[0]") {
		t.Errorf("a date: %v", err)
	}
}

// A program that is killed fails the cell, at whatever place; another play of the same cell has the same arms.
func TestKilled(t *testing.T) {
	want, err := play(mustNew(t, program(t, "")), arms(t), 1, 60)
	if err != nil {
		t.Fatal(err)
	}
	o := program(t, "")
	for i := range 50 {
		p := mustNew(t, o)
		if _, err := play(p, arms(t), 1, 1+i); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(p.(*keeper).c.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		got, err := play(p, arms(t), 2+i, 60)
		if err == nil {
			t.Fatalf("killed after round %d: the cell ends with %v", 1+i, got)
		}
		if err := p.Update(bandit.Action{X: []float64{1, 0}}, 1, rng.NewKey(1).Stream(rng.Perturb).Round(1)); err == nil {
			t.Fatal("a failed cell goes on")
		}
	}
	got, err := play(mustNew(t, o), arms(t), 1, 60)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after the kills %v %v, expected %v", got, err, want)
	}
}

func mustNew(t *testing.T, o *Options) bandit.Policy {
	p, err := o.New(policy.Problem{Dim: 2, Arms: 3})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// One program plays many cells, one after the other and side by side, and Close ends it.
func TestPool(t *testing.T) {
	o := program(t, "")
	a, b := mustNew(t, o), mustNew(t, o)
	for i := 1; i <= 20; i++ { // in turns
		for _, p := range []bandit.Policy{a, b} {
			if _, err := play(p, arms(t), i, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	pid := a.(*keeper).c.cmd.Process.Pid
	a.(*keeper).Close()
	b.(*keeper).Close()
	c := mustNew(t, o)
	if _, err := play(c, arms(t), 1, 5); err != nil {
		t.Fatal(err)
	}
	if other := c.(*keeper).c.cmd.Process.Pid; other != pid && len(o.idle) != 1 {
		t.Errorf("a third program was started: %d", other)
	}
	c.(*keeper).Close()
	o.Close()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the program runs after Close")
	}
}

// The identity follows the files that the command names and the versions that the program reports.
func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	identity := func(text string) string {
		if err := os.WriteFile(filepath.Join(dir, "weights.txt"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		o := program(t, "")
		o.Locate(dir)
		o.Files = []string{"weights.txt"}
		id, err := o.Identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	one := identity("1")
	if one != identity("1") || one == identity("2") {
		t.Errorf("%s and %s for the same file, %s for another", one, identity("1"), identity("2"))
	}
	o := program(t, "")
	o.Files = []string{"missing.txt"}
	if _, err := o.Identity(); err == nil || !strings.Contains(err.Error(), `files is "missing.txt"`) {
		t.Errorf("a missing file: %v", err)
	}
}

// alone returns a directory with the module's one file for programs, which the first of them compiles.
func alone(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "troupe"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"__init__.py": nil, "policy.py": text} {
		if err := os.WriteFile(filepath.Join(dir, "troupe", name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// python returns options that play a program of testdata with the module of clients/python. With TROUPE_LONG it starts
// as those of users do; otherwise without what is installed, and with a module that is compiled once.
func python(t testing.TB, file string, lines bool) *Options {
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no python3")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	o := NewOptions()
	o.Command, o.Lines = []string{"python3", file}, lines
	module := filepath.Join(here, "..", "clients", "python")
	if os.Getenv("TROUPE_LONG") != "" {
		o.Env = []string{"PYTHONPATH=" + module, "PYTHONDONTWRITEBYTECODE=1"}
	} else {
		o.Command = []string{"python3", "-S", file}
		o.Env = []string{"PYTHONPATH=" + alone(t, filepath.Join(module, "troupe", "policy.py"))}
	}
	o.Locate(filepath.Join(here, "testdata"))
	t.Cleanup(func() { o.Close() })
	return o
}

// A Python class plays the same actions over frames and over lines, on arms and on the ball.
func TestPython(t *testing.T) {
	t.Parallel()
	var runs [2]string
	for i, lines := range []bool{false, true} {
		o := python(t, "mean.py", lines)
		p := mustNew(t, o)
		got, err := play(p, arms(t), 1, 40)
		if err != nil {
			t.Fatal(err)
		}
		var law bandit.Law
		draw := rng.NewKey(7).Stream(rng.Select).Round(41)
		if err := p.(bandit.Prober).Prob(&law, arms(t), draw); err != nil {
			t.Fatal(err)
		}
		state, err := p.(bandit.Snapshotter).AppendSnapshot(nil)
		if err != nil {
			t.Fatal(err)
		}
		q := mustNew(t, o)
		if err := q.(bandit.Snapshotter).Restore(state); err != nil {
			t.Fatal(err)
		}
		first, err := play(p, arms(t), 41, 60)
		if err != nil {
			t.Fatal(err)
		}
		again, err := play(q, arms(t), 41, 60)
		if err != nil || fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("restored: %v %v, expected %v", again, err, first)
		}
		r := mustNew(t, o)
		ball, err := actionset.NewBall(2)
		if err != nil {
			t.Fatal(err)
		}
		var a bandit.Action
		if err := r.Select(&a, ball, draw); err != nil {
			t.Fatal(err)
		}
		runs[i] = fmt.Sprint(got, law.Atoms, first, a)
	}
	if runs[0] != runs[1] {
		t.Errorf("frames: %s\nlines:  %s", runs[0], runs[1])
	}
}
