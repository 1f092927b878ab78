package serve

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

const childDir = "TROUPE_SERVE_CHILD"

// child is the process that TestKill kills: a server with eight users who say on standard output what
// was acknowledged.
func child() bool {
	dir := os.Getenv(childDir)
	if dir == "" {
		return false
	}
	ctx := context.Background()
	s, err := Open(ctx, Options{Dir: dir, SnapshotEvery: 300, ExpireEvery: 10 * time.Millisecond, LayAside: 3 * time.Millisecond})
	if err != nil {
		fmt.Println("E", err)
		os.Exit(1)
	}
	if _, err := s.GetModel(ctx, "m"); err != nil {
		if _, err := s.CreateModel(ctx, killModel(), ""); err != nil {
			fmt.Println("E", err)
			os.Exit(1)
		}
		c := DefaultConfig("h")
		c.Reward.Window, c.Unit = Duration(20*time.Millisecond), "context.user"
		if _, err := s.CreateModel(ctx, c, ""); err != nil {
			fmt.Println("E", err)
			os.Exit(1)
		}
		c = DefaultConfig("l")
		c.Reward.Window, c.Reward.Default = Duration(200*time.Millisecond), Maybe{Word: "none"}
		if _, err := s.CreateModel(ctx, c, ""); err != nil {
			fmt.Println("E", err)
			os.Exit(1)
		}
		for _, o := range killOptions {
			if _, err := s.CreateModel(ctx, o.config(), ""); err != nil {
				fmt.Println("E", err)
				os.Exit(1)
			}
		}
	}
	go hashedUser(ctx, s)
	go lateUser(ctx, s)
	for _, o := range killOptions {
		go o.user(ctx, s)
	}
	var mu sync.Mutex
	say := func(format string, a ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", a...)
	}
	for u := range 8 {
		go func() {
			for n := u; ; n += 8 {
				d, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 4, 3)})
				if err != nil {
					say("E %v", err)
					return
				}
				say("D %s %s %d", d.EventID, d.Action.ID, d.Propensity.Num)
				if n%3 == 0 {
					continue
				}
				r, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(n%5)/4 - 0.5})
				if err != nil {
					say("E %v", err)
					return
				}
				say("R %s %s %d", d.EventID, r.Status, n%5)
			}
		}()
	}
	select {}
}

// killOption is a model with options, beside those of child: whatever moment the process is killed at, its state is that
// of the log, and its decisions replay.
type killOption struct {
	name   string
	policy spec.Raw
	edit   func(*ModelConfig)
	ask    func(n int) DecideRequest
}

var killOptions = []killOption{
	{"half-life", spec.Raw{"kind": "effects", "half_life": int64(50)}, guardedAs, func(n int) DecideRequest {
		return DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Actions: named("a", "b", "c"), Baseline: new(n % 3)}
	}},
	{"half-life-time", spec.Raw{"kind": "effects", "half_life": "1s"}, func(*ModelConfig) {}, func(n int) DecideRequest {
		return DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Actions: named("a", "b", "c")}
	}},
	{"half-life-vectors", spec.Raw{"kind": "auto", "change": "restarts", "half_life": "1s"}, func(c *ModelConfig) { c.Dim, c.Unit = 3, "context.user" },
		func(n int) DecideRequest {
			return DecideRequest{Context: fmt.Appendf(nil, `{"user": "ann-%d"}`, n%9), Actions: actions(n, 4, 3)}
		}},
	{"lists", spec.Raw{"kind": "effects"}, func(c *ModelConfig) { c.Reward.Default = Maybe{Set: true} },
		func(n int) DecideRequest { return listRequest(n, 3, "a", "b", "c", "d", "e") }},
}

// guardedAs makes a model guarded, with a margin of .2 of rewards in [0, 1].
func guardedAs(c *ModelConfig) {
	c.Mode, c.Guard, c.Floor = string(Guarded), model.Guard{Margin: .2, Confidence: .95}, .2
	c.Reward.Min, c.Reward.Max, c.Reward.Adapt = 0, 1, false
}

func (o *killOption) config() ModelConfig {
	c := DefaultConfig(o.name)
	if err := c.Policy.DecodeSpec(o.policy, "policy"); err != nil {
		panic(err)
	}
	c.Reward.Window = Duration(20 * time.Millisecond)
	o.edit(&c)
	return c
}

// user decides ten times at once, and rewards three of four decisions.
func (o *killOption) user(ctx context.Context, s *Server) {
	for n := 0; ; n += 10 {
		var requests []DecideRequest
		for k := range 10 {
			requests = append(requests, o.ask(n+k))
		}
		decided, err := s.DecideBatch(ctx, o.name, requests)
		var paid []RewardRequest
		for k, d := range decided {
			if err == nil {
				err = d.Err
			}
			if (n+k)%4 > 0 {
				r := RewardRequest{EventID: d.Decision.EventID, Value: float64((n + k) % 2)}
				if requests[k].Choose != nil && n%3 > 0 {
					r.Value, r.Values = 0, []float64{0, float64(k % 2), 1}
				} else if requests[k].Choose != nil {
					r.Position = new(k % 3)
				}
				paid = append(paid, r)
			}
		}
		if err == nil {
			_, err = s.RewardBatch(ctx, paid)
		}
		if err != nil {
			fmt.Println("E", err)
			return
		}
	}
}

// replayEvery is of how many entries the decisions of one are replayed, each from the log: 64, with TROUPE_LONG 16.
func replayEvery() uint64 {
	if long() {
		return 16
	}
	return 64
}

// check looks at the state of the model, which was recovered from snapshots again and again, and at its decisions.
func (o *killOption) check(t *testing.T, s *Server) {
	if m := checkFolded(t, s, o.name); m.Counts.Learned < 50 {
		t.Logf("%s has learned %d events only: this machine was too slow to show much", o.name, m.Counts.Learned)
	}
	for d, err := range must(s.Decisions(t.Context(), o.name, 0, 1<<30)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		if d.Seq%replayEvery() == 0 {
			if r := must(s.Replay(t.Context(), d.EventID)); !r.Equal {
				t.Errorf("%s: the decision of entry %d replays with other %v", o.name, d.Seq, r.Differs)
			}
		}
	}
}

// hashedUser sends numbers to a model of which little more than the name is given, and rewards for successes only, so
// that what it keeps beside its policy changes all the time.
func hashedUser(ctx context.Context, s *Server) {
	for n := 0; ; n++ {
		var list []Action
		for k := range 6 {
			list = append(list, Action{ID: fmt.Sprint(k), Features: fmt.Appendf(nil, `{"price": %d}`, (n+5*k)%41)})
		}
		d, err := s.Decide(ctx, "h", DecideRequest{Context: fmt.Appendf(nil, `{"city": "Oslo", "user": %d}`, n%7), Actions: list})
		if err == nil && d.Action.Index > 1 {
			_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 3})
		}
		if err != nil {
			fmt.Println("E", err)
			return
		}
	}
}

// lateUser sends a number in which rewards are linear. Some rewards come after many other decisions, or after the window
// has closed, and some never, so that there are always decisions that are not settled.
func lateUser(ctx context.Context, s *Server) {
	var late []RewardRequest
	for n := 0; ; n += 10 {
		var requests []DecideRequest
		for k := range 10 {
			requests = append(requests, DecideRequest{Context: fmt.Appendf(nil, `{"x": %d}`, (n+7*k)%11), Actions: named("a", "b")})
		}
		decided, err := s.DecideBatch(ctx, "l", requests)
		var paid []RewardRequest
		for k, d := range decided {
			if err == nil {
				err = d.Err
			}
			if r := (RewardRequest{EventID: d.Decision.EventID, Value: float64((n+7*k)%11)/20 + 0.2}); k == 0 {
				late = append(late, r)
			} else if k < 8 {
				paid = append(paid, r)
			}
		}
		if len(late) > 5 {
			paid, late = append(paid, late[0]), late[1:]
		}
		if err == nil {
			_, err = s.RewardBatch(ctx, paid)
		}
		if err != nil {
			fmt.Println("E", err)
			return
		}
	}
}

// checkHashed looks at the state of h and of l, which were recovered from snapshots again and again.
func checkHashed(t *testing.T, s *Server) {
	got := checkFolded(t, s, "h")
	if got.Memory.Seen < 24 {
		t.Logf("h has learned %d rewards only: this machine was too slow to show much", got.Memory.Seen)
	} else if got.Memory.High != 4 || !got.Memory.Adopted || got.Counts.Defaulted == 0 {
		t.Errorf("h has not met a wider range and a default reward: %+v", got.Memory)
	}
	units := map[eventlog.ID]bool{} // of seven users, through all kills
	for d, err := range must(s.Decisions(t.Context(), "h", 0, 1<<30)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		units[d.Record.Unit] = true
		if d.Seq%replayEvery() == 0 {
			if r := must(s.Replay(t.Context(), d.EventID)); !r.Equal {
				t.Errorf("h: the decision of entry %d replays with other %v", d.Seq, r.Differs)
			}
		}
	}
	if len(units) > 7 || units[0] {
		t.Errorf("seven users are %d units: %v", len(units), units)
	}
	if l := checkFolded(t, s, "l"); l.Counts.Learned == 0 || l.Counts.Expired == 0 || l.Untaken.Refused != 0 {
		t.Errorf("l has learned %d rewards, and %d windows closed: %s", l.Counts.Learned, l.Counts.Expired, l.Untaken.Why)
	}
}

// snapshotOf returns the bytes of a model's policy, with the decisions that are not settled.
func snapshotOf(m *fold.Model) []byte {
	if p := m.Policy(); p != nil {
		return must(p.AppendSnapshot(nil))
	}
	return must(must(m.State()).Bytes())
}

// checkFolded compares the state of a model with the fold of the whole log.
func checkFolded(t *testing.T, s *Server, name string) *fold.Model {
	past := &fold.History{Log: logReader{s.ctx, s.log}, Nearest: func(uint64) []byte { return nil }}
	past.First.Store(1)
	var got *fold.Model
	differ := ""
	for again := true; again; { // until no window was closed meanwhile
		s.mu.RLock()
		seq := s.fold.Seq()
		s.mu.RUnlock()
		f, _, err := past.Fold(nil, seq)
		if err != nil {
			t.Fatal(err)
		}
		s.mu.RLock()
		if again = s.fold.Seq() != seq; again {
			s.mu.RUnlock()
			continue
		}
		got = s.fold.Named(name)
		want := f.Named(name)
		a, b := must(got.State()), must(want.State())
		differ = ""
		if a.Digest() != b.Digest() || !bytes.Equal(snapshotOf(got), snapshotOf(want)) || got.Memory != want.Memory || guardOf(got) != guardOf(want) || got.Counts != want.Counts {
			differ = fmt.Sprintf("%+v %+v %s, its log says %+v %+v %s", got.Memory, got.Counts, guardOf(got), want.Memory, want.Counts, guardOf(want))
		}
		s.mu.RUnlock()
	}
	if differ != "" {
		t.Errorf("the recovered state of %s is %s", name, differ)
	}
	return got
}

// guardOf writes down the state of a guard.
func guardOf(m *fold.Model) string {
	g := m.Guard
	if g == nil {
		return "no guard"
	}
	return fmt.Sprintf("%d decisions, %d of the policy, %d open, at least %v", g.N, g.Played, g.Open(), g.Lower())
}

func killModel() ModelConfig {
	return vectors("m", 3, func(c *ModelConfig) { c.Reward.Window = Duration(time.Hour) })
}

// long says whether a test runs on all levels and sizes.
func long() bool { return os.Getenv("TROUPE_LONG") != "" }

// TestKill: null: whatever moment the process is killed at, every acknowledged decision and reward is
// in the log once, and the state is that of the rewards in the log. 20 rounds, or as many as
// TROUPE_KILL_ROUNDS says; each begins where the one before was killed. Five rounds with -short.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 5
	if long() {
		rounds = 20
	}
	if v := os.Getenv("TROUPE_KILL_ROUNDS"); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	crash(t, t.TempDir(), rounds, func(int) {})
}

// crash kills a server under load in every round, calls after, and looks for what was acknowledged.
func crash(t *testing.T, dir string, rounds int, after func(round int)) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	decided, paid := map[string]string{}, map[string]string{} // by event id
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		var timer *time.Timer
		fresh := map[string]bool{}
		for lines.Scan() {
			if timer == nil {
				timer = time.AfterFunc(time.Duration(10+random.IntN(150))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			}
			f := strings.Fields(lines.Text())
			switch {
			case len(f) == 4 && f[0] == "D":
				decided[f[1]], fresh[f[1]] = f[2]+" "+f[3], true
			case len(f) == 4 && f[0] == "R":
				if f[2] != string(Accepted) {
					t.Fatalf("round %d: a first reward was %s", round, f[2])
				}
				paid[f[1]] = f[3]
			case len(f) > 0 && f[0] == "E":
				t.Errorf("round %d: %s", round, lines.Text())
			}
		}
		_ = cmd.Wait()
		if timer == nil {
			t.Fatalf("round %d: the child said nothing", round)
		}
		after(round)
		checkKilled(t, dir, round, decided, paid, fresh, round == rounds-1)
		if t.Failed() {
			t.Fatalf("round %d of %d, %d decisions and %d rewards acknowledged so far", round, rounds, len(decided), len(paid))
		}
	}
	t.Logf("%d rounds: %d decisions and %d rewards acknowledged, all there once", rounds, len(decided), len(paid))
}

// checkKilled opens what a killed process left behind and looks for what it acknowledged.
func checkKilled(t *testing.T, dir string, round int, decided, paid map[string]string, fresh map[string]bool, all bool) {
	ctx := context.Background()
	s, err := Open(ctx, Options{Dir: dir, SnapshotEvery: -1})
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}()
	for id, want := range decided {
		if !all && !fresh[id] {
			continue
		}
		e, err := s.Event(ctx, id)
		if err != nil {
			t.Errorf("round %d: acknowledged decision %s: %v", round, id, err)
			continue
		}
		if got := fmt.Sprintf("%s %d", e.Action.ID, e.Decision.Num); got != want {
			t.Errorf("round %d: decision %s is %s, acknowledged was %s", round, id, got, want)
		}
		if y, ok := paid[id]; ok {
			n, _ := strconv.Atoi(y)
			if e.Status != "rewarded" || *e.Value != float64(n)/4-0.5 {
				t.Errorf("round %d: decision %s is %s, acknowledged was reward %s", round, id, e.Status, y)
			}
		}
	}
	c := must(s.GetModel(ctx, "m")).Counts
	// What was under way and not acknowledged may be there: at most eight a round.
	if n := uint64(8 * (round + 1)); c.Decisions < uint64(len(decided)) || c.Decisions > uint64(len(decided))+n || c.Rewards < uint64(len(paid)) || c.Rewards > uint64(len(paid))+n {
		t.Errorf("round %d: %d decisions and %d rewards in the state, %d and %d were acknowledged", round, c.Decisions, c.Rewards, len(decided), len(paid))
	}
	if !all {
		return
	}
	checkHashed(t, s)
	for _, o := range killOptions {
		o.check(t, s)
	}
	// A second opinion: the policy, taught by the rewards as they stand in the log.
	m := s.fold.Named("m")
	p, err := m.Compiled.NewPolicy(m.Seed)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[eventlog.Event]bool{}
	for d, err := range eventlog.Replay(ctx, s.log, eventlog.NewChain(0, 1), s.fold.Seq()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Events() {
			if r, ok := r.(*eventlog.Reward); ok && !d.Repeat && r.Model == m.ID {
				if seen[r.Event] {
					t.Errorf("event %v was paid twice", r.Event)
				}
				seen[r.Event] = true
				if err := p.Update(bandit.Action{X: r.X}, r.Y, m.Targets(r.Event)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := must(s.State(ctx, "m")).Snapshot; !bytes.Equal(got, must(p.AppendSnapshot(nil))) {
		t.Error("the state is not that of the rewards in the log")
	}
}
