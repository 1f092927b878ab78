//go:build linux

package serve

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/internal/powerfs"
	"troupe/internal/scratch"
	"troupe/serve/fold"
)

func init() {
	children = append(children, scriptChild)
	processorTime = func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
}

// number returns an environment variable, or what stands for it.
func number(t *testing.T, name string, otherwise int) int {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestPowerLoss: null: when the whole data directory (log, witness, snapshots, keys) loses what was not
// synced, at any moment under load, every acknowledged decision and reward is there once and the state
// is that of the log. Every second time a random half of the pages survives. 4 rounds, or as many as
// TROUPE_POWER_ROUNDS says; each begins where the one before ended.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	p := powerfs.Mount(t)
	random := rand.New(rand.NewPCG(5, 6))
	crash(t, p.Dir+"/data", number(t, "TROUPE_POWER_ROUNDS", 4), func(round int) {
		if round%2 == 0 {
			p.Lose(t, nil)
		} else {
			p.Lose(t, random)
		}
	})
}

// TestPowerLossControl: the same on a disk whose syncs of the log do nothing. It must lose acknowledged
// decisions or be refused as damaged, or the harness does not work.
func TestPowerLossControl(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := powerfs.Mount(t)
	dir := p.Dir + "/data"
	p.Fail(func(op powerfs.Op) powerfs.Fault {
		if op.Kind == powerfs.Sync && strings.HasSuffix(op.Name, ".seg") {
			return powerfs.Lie
		}
		return powerfs.None
	})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if f := strings.Fields(lines.Text()); f[0] == "D" {
			if ids = append(ids, f[1]); len(ids) == 50 {
				_ = cmd.Process.Kill()
			}
		}
	}
	_ = cmd.Wait()
	if len(ids) < 50 {
		t.Fatalf("%d decisions were acknowledged", len(ids))
	}
	p.Lose(t, nil)
	s, err := Open(ctx, Options{Dir: dir, SnapshotEvery: -1})
	if err != nil {
		t.Logf("%d decisions acknowledged; then: %v", len(ids), err)
		return
	}
	defer func() { _ = s.Close(ctx) }()
	for _, id := range ids {
		if _, err := s.Event(ctx, id); err != nil {
			return
		}
	}
	t.Error("nothing was synced, and all decisions are there: the harness does not lose anything")
}

const scriptDir = "TROUPE_SERVE_SCRIPT"

// scriptChild runs a fixed script on a directory and says what was acknowledged: one model, a dozen
// decisions with keys and rewards, snapshots between, a second model, and Close. It goes on after
// errors.
func scriptChild() bool {
	dir := os.Getenv(scriptDir)
	if dir == "" {
		return false
	}
	ctx := context.Background()
	say := func(format string, a ...any) {
		fmt.Println(strings.ReplaceAll(fmt.Sprintf(format, a...), "\n", " "))
	}
	s, err := Open(ctx, scriptOptions(dir))
	if err != nil {
		say("O %v", err)
		return true
	}
	for range 2 {
		if _, err := s.CreateModel(ctx, killModel(), ""); err == nil || CodeOf(err) == Conflict {
			break
		}
	}
	for n := range 12 {
		d, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 4, 3), IdempotencyKey: fmt.Sprint("k", n)})
		if err != nil {
			say("E decide %d %v", n, err)
			continue
		}
		say("D %s %s %d %d", d.EventID, d.Action.ID, d.Propensity.Num, n)
		r, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(n%5)/4 - 0.5})
		if err != nil {
			say("E reward %d %v", n, err)
			continue
		}
		say("R %s %s %d", d.EventID, r.Status, n%5)
		if n%5 == 4 {
			s.snapshots.wait() // so that the calls of the disk come in one order
		}
	}
	if os.Getenv(scriptDir+"_KILL") != "" {
		_, err := s.CreateModel(ctx, vectors("other", 2), "")
		say("K %v", err)
		select {}
	}
	closing, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	say("C %v", s.Close(closing))
	return true
}

func scriptOptions(dir string) Options {
	return Options{
		Dir: dir, SnapshotEvery: 8, SnapshotAfter: -1, ExpireEvery: -1, Wait: time.Second, Disk: eventlog.DiskOptions{Reserve: -1},
		Committer: eventlog.CommitterOptions{Try: 200 * time.Millisecond, Patience: 400 * time.Millisecond},
	}
}

// said is what a script was promised.
type said struct {
	decided, paid, keys map[string]string // by event id; keys: number of the decision
	unknown             int               // errors: each may be in the log
	opened, closed      bool
	hung                bool // it had to be killed
	lines               []string
}

// script runs the script in a child process.
func script(t *testing.T, dir string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), scriptDir+"="+dir)
	out, err := cmd.Output()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("the script ended with %v: %s", err, out)
	}
	a := listen(t, out)
	a.hung = err != nil
	return a
}

// scriptTime is when a script is killed. Without faults it takes a tenth of a second; an engine that
// cannot make its directories gives up after 30 s.
const scriptTime = await.Limit

func listen(t *testing.T, out []byte) said {
	t.Helper()
	a := said{decided: map[string]string{}, paid: map[string]string{}, keys: map[string]string{}, opened: true}
	a.lines = strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range a.lines {
		f := strings.Fields(line + " -")
		switch f[0] {
		case "O":
			a.opened = false
		case "C":
			a.closed = line == "C <nil>"
		case "E":
			a.unknown++
		case "D":
			a.decided[f[1]], a.keys[f[1]] = f[2]+" "+f[3], f[4]
		case "R":
			if f[2] != string(Accepted) && f[2] != string(Duplicate) {
				t.Fatalf("a first reward was %s", f[2])
			}
			a.paid[f[1]] = f[3]
		}
	}
	return a
}

// check says what is wrong with the state of a server that was promised a. The state must be that of the
// log, folded from its first entry without snapshots.
func (a *said) check(s *Server) (wrong []string) {
	ctx := context.Background()
	bad := func(format string, v ...any) { wrong = append(wrong, fmt.Sprintf(format, v...)) }
	for _, id := range slices.Sorted(maps.Keys(a.decided)) {
		e, err := s.Event(ctx, id)
		if err != nil {
			bad("acknowledged decision %s: %v", id, err)
			continue
		}
		if got := fmt.Sprintf("%s %d", e.Action.ID, e.Decision.Num); got != a.decided[id] {
			bad("decision %s is %s, acknowledged was %s", id, got, a.decided[id])
		}
		if y, ok := a.paid[id]; ok {
			n, _ := strconv.Atoi(y)
			if e.Status != "rewarded" || *e.Value != float64(n)/4-0.5 {
				bad("decision %s is %s, acknowledged was reward %s", id, e.Status, y)
			}
		}
		if again, err := s.EventOfKey(ctx, "m", "k"+a.keys[id]); err != nil || again != id {
			bad("the key of %s gives %q, %v", id, again, err)
		}
	}
	m, err := s.GetModel(ctx, "m")
	c := m.Counts
	switch n := uint64(len(a.decided)); {
	case err != nil && n > 0:
		bad("%v", err)
	case c.Decisions < n || c.Decisions > n+uint64(a.unknown):
		bad("%d decisions, %d were acknowledged and %d calls failed", c.Decisions, n, a.unknown)
	case c.Rewards < uint64(len(a.paid)) || c.Rewards > uint64(len(a.paid)+a.unknown) || c.Learned != c.Rewards:
		bad("%d rewards and %d lessons, %d were acknowledged and %d calls failed", c.Rewards, c.Learned, len(a.paid), a.unknown)
	}
	zero := fold.New(s.past)
	for d, err := range eventlog.Replay(ctx, s.log, eventlog.NewChain(0, 1), s.fold.Seq()) {
		if err == nil {
			_, err = zero.Apply(d)
		}
		if err != nil {
			bad("the log again: %v", err)
			return wrong
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chain := eventlog.NewChain(0, s.fold.Seq()+1)
	if !bytes.Equal(must(zero.AppendState(nil, chain)), must(s.fold.AppendState(nil, chain))) {
		bad("the state is not that of the log")
	}
	return wrong
}

// TestDiskFaults: null: whatever call of the disk fails in a script, and whether the power goes
// afterwards or not, the next server has every acknowledged decision and reward once and the state of
// the log, or refuses to start and says why. Each fault is tried at every 131st call, with TROUPE_LONG
// at every 37th, or at every k-th with TROUPE_DISK_STEP=k.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := powerfs.Mount(t)
	dir := p.Dir + "/data"
	p.Fail(nil)
	a := script(t, dir)
	calls := p.Fail(nil)
	if !a.closed || len(a.paid) != 12 || a.unknown != 0 {
		t.Fatalf("without a fault: %q", a.lines)
	}
	first := func(f powerfs.Fault) func(n int) powerfs.Fault {
		return func(n int) powerfs.Fault {
			if n == 0 {
				return f
			}
			return powerfs.None
		}
	}
	faults := []struct {
		name string
		at   func(n int) powerfs.Fault // n calls after the first that fails
	}{
		{"EIO once", first(powerfs.EIO)},
		{"EIO from then on", func(int) powerfs.Fault { return powerfs.EIO }},
		{"full from then on", func(int) powerfs.Fault { return powerfs.Full }},
		{"half a write, then full", func(n int) powerfs.Fault {
			if n == 0 {
				return powerfs.Short
			}
			return powerfs.Full
		}},
	}
	step := number(t, "TROUPE_DISK_STEP", usually(37, 131))
	for _, f := range faults {
		var runs, right, refused, unopened, hurt, decided int
		for at := 1; at <= calls; at += step {
			for _, power := range []bool{false, true} {
				p.Clear(t)
				var call powerfs.Op
				p.Fail(func(op powerfs.Op) powerfs.Fault {
					if op.N < at {
						return powerfs.None
					}
					if op.N == at {
						call = op
					}
					return f.at(op.N - at)
				})
				a := script(t, dir)
				p.Fail(nil)
				runs++
				decided += len(a.decided) + len(a.paid)
				if !a.opened {
					unopened++
				}
				if a.unknown > 0 {
					hurt++
				}
				if power {
					p.Lose(t, nil)
				}
				where := fmt.Sprintf("%s at call %d of %d, %v %s, power lost: %v", f.name, at, calls, call.Kind, call.Name, power)
				if a.hung {
					t.Errorf("%s: no end after %v; it said %q", where, scriptTime, a.lines)
				}
				s, err := Open(ctx, scriptOptions(dir))
				if err != nil {
					refused++
					t.Logf("%s: refused: %v", where, err)
					continue
				}
				if wrong := a.check(s); len(wrong) > 0 {
					t.Errorf("%s:\n%s\nthe script said %q", where, strings.Join(wrong, "\n"), a.lines)
				} else {
					right++
				}
				if _, err := s.GetModel(ctx, "m"); err == nil {
					if d, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(99, 4, 3)}); err != nil {
						t.Errorf("%s: afterwards: %v", where, err)
					} else if _, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0}); err != nil {
						t.Errorf("%s: afterwards: %v", where, err)
					}
				}
				if err := s.Close(ctx); err != nil {
					t.Errorf("%s: close: %v", where, err)
				}
			}
		}
		t.Logf("%s: %d runs (%d did not open, in %d calls failed), %d acknowledged; afterwards %d right, %d refused with a reason", f.name, runs, unopened, hurt, decided, right, refused)
	}
}

// TestBitFlips: null: with one bit of one file of a data directory changed, or with a file cut or gone,
// a server has the state of before and knows every acknowledged event, or refuses to start. Every 3989th
// byte is tried, with TROUPE_LONG every 997th, or every k-th with TROUPE_FLIP_STEP=k.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	base := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), scriptDir+"="+base, scriptDir+"_KILL=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text = append(append(text, lines.Bytes()...), '\n'); strings.HasPrefix(lines.Text(), "K") {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	a := listen(t, text)
	if len(a.paid) != 12 || a.unknown != 0 {
		t.Fatalf("the script said %q", a.lines)
	}
	copies := t.TempDir()
	state := func(dir string) ([]byte, []string, error) {
		o := scriptOptions(dir)
		o.SnapshotEvery = -1
		s, err := Open(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		wrong := a.check(s)
		s.mu.Lock()
		b := must(s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1)))
		s.mu.Unlock()
		if err := s.Close(ctx); err != nil {
			wrong = append(wrong, err.Error())
		}
		return b, wrong, nil
	}
	copied := 0
	fresh := func() string {
		copied++
		dir := filepath.Join(copies, strconv.Itoa(copied))
		if err := scratch.Copy(dir, base); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := fresh()
	want, wrong, err := state(dir)
	if err != nil || len(wrong) > 0 {
		t.Fatalf("unharmed: %v %v", err, wrong)
	}
	type tally struct{ runs, right, refused int }
	table := map[string]*tally{}
	kind := func(name string) string {
		switch {
		case strings.HasPrefix(name, "snapshots/"):
			return "snapshots"
		case strings.HasSuffix(name, ".seg"):
			return "log/….seg"
		}
		return name
	}
	try := func(name, what string, harm func(path string) error) {
		dir := fresh()
		defer os.RemoveAll(dir)
		if err := harm(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		row := table[kind(name)]
		if row == nil {
			row = &tally{}
			table[kind(name)] = row
		}
		row.runs++
		got, wrong, err := state(dir)
		switch {
		case err != nil:
			row.refused++
		case len(wrong) > 0:
			t.Errorf("%s: %s: started, and\n%s", name, what, strings.Join(wrong, "\n"))
		case !bytes.Equal(got, want):
			t.Errorf("%s: %s: started with another state", name, what)
		default:
			row.right++
		}
	}
	step := number(t, "TROUPE_FLIP_STEP", usually(997, 3989))
	err = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name := strings.TrimPrefix(path, base+"/")
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for at := min(step, len(b)) / 2; at < len(b); at += step {
			bit := byte(1) << (at % 8)
			try(name, fmt.Sprintf("bit %d of byte %d of %d", at%8, at, len(b)), func(path string) error {
				c := bytes.Clone(b)
				c[at] ^= bit
				return os.WriteFile(path, c, 0o600)
			})
		}
		try(name, "cut in half", func(path string) error { return os.Truncate(path, int64(len(b)/2)) })
		try(name, "gone", os.Remove)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range slices.Sorted(maps.Keys(table)) {
		t.Logf("%-22s %4d harmed: %4d right, %4d refused", k, table[k].runs, table[k].right, table[k].refused)
	}
}
