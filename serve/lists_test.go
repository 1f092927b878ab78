package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/logged"
	"troupe/serve/joined"
)

// listRequest asks for k of the actions with these names, in segment n mod 3.
func listRequest(n, k int, names ...string) DecideRequest {
	r := DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Choose: &k}
	for i, name := range names {
		r.Actions = append(r.Actions, Action{ID: name, Features: fmt.Appendf(nil, `{"topic": "t%d"}`, i%3)})
	}
	return r
}

// TestListRewards: by each rule the rewards of positions count as those of actions do, one position apart from another; a
// position that was not shown has none and gets no default; the model learns a list once, when all of its shown positions
// have theirs by a rule that settles, otherwise when the window closes.
func TestListRewards(t *testing.T) {
	ctx := context.Background()
	one := func(p int, y float64) RewardRequest { return RewardRequest{Position: &p, Value: y} }
	shown := func(n int, r RewardRequest) RewardRequest { r.Shown = &n; return r }
	values := func(y ...float64) RewardRequest { return RewardRequest{Values: y} }
	type step struct {
		r    RewardRequest
		want string // status, and those of positions; "!" and a text of an error
	}
	for _, c := range []struct {
		name    string
		rule    string
		dflt    Maybe
		steps   []step
		learned uint64 // before the window closes
		after   uint64 // and after it
		rewards string // of the positions in an export
	}{
		{"all at once", "first", Maybe{}, []step{{values(0, 1, 0), "accepted accepted,accepted,accepted"}, {values(1, 1, 1), "duplicate duplicate,duplicate,duplicate"},
			{one(1, 0), "duplicate"}}, 1, 1, "0 1 0"},
		{"one click, default 0", "first", Maybe{Set: true}, []step{{one(1, 1), "accepted"}, {one(1, 0), "duplicate"}}, 0, 1, "0 1 0"},
		{"one click, no default", "first", Maybe{Word: "none"}, []step{{one(2, 1), "accepted"}}, 0, 1, "- - 1"},
		{"one after the other", "first", Maybe{Set: true}, []step{{one(2, 1), "accepted"}, {one(0, 1), "accepted"}, {values(0, .5, 0), "accepted duplicate,accepted,duplicate"}},
			1, 1, "1 0.5 1"},
		{"two shown", "first", Maybe{Set: true}, []step{{shown(2, values(0, 1, 0)), "accepted accepted,accepted,ignored"}, {one(2, 1), "!2 positions were shown"}}, 1, 1, "0 1 hidden"},
		{"two shown, the click alone", "first", Maybe{Set: true, Value: .25}, []step{{shown(2, one(0, 1)), "accepted"}}, 0, 1, "1 0.25 hidden"},
		{"shown alone, the smallest wins", "first", Maybe{Set: true}, []step{{shown(2, RewardRequest{OnlyCost: true}), "accepted"},
			{shown(3, RewardRequest{OnlyCost: true}), "duplicate"}, {shown(1, RewardRequest{OnlyCost: true}), "accepted"}}, 0, 1, "0 hidden hidden"},
		{"nothing shown", "first", Maybe{Set: true}, []step{{shown(0, RewardRequest{OnlyCost: true}), "accepted"}}, 0, 0, "hidden hidden hidden"},
		{"nothing", "first", Maybe{Word: "none"}, nil, 0, 0, "- - -"},
		{"sum", "sum", Maybe{Set: true}, []step{{one(0, .5), "accepted"}, {one(0, .25), "accepted"}, {values(0, 1, 0), "accepted accepted,accepted,accepted"}}, 0, 1, "0.75 1 0"},
		{"sum with keys", "sum", Maybe{Word: "none"}, []step{{RewardRequest{Values: []float64{.5, .5, 0}, Key: "k"}, "accepted accepted,accepted,accepted"},
			{RewardRequest{Values: []float64{.5, .5, 0}, Key: "k"}, "duplicate duplicate,duplicate,duplicate"}, {RewardRequest{Values: []float64{.5, .5, 0}, Key: "l"}, "accepted accepted,accepted,accepted"}},
			0, 1, "1 1 0"},
		{"last", "last", Maybe{Word: "none"}, []step{{one(0, .5), "accepted"}, {one(0, .25), "accepted"}}, 0, 1, "0.25 - -"},
		{"refused", "first", Maybe{Set: true}, []step{{RewardRequest{Value: 1}, "!is for no position"}, {one(3, 1), "!expected 0 to 2"}, {one(-1, 1), "!expected 0 to 2"},
			{values(1, 0), "!expected 3 numbers"}, {RewardRequest{Slot: "hero", Value: 1}, "!is no slot"}, {RewardRequest{Action: "z", Value: 1}, "!is not in the list"},
			{shown(4, one(0, 1)), "!the positions of the list"}, {one(0, 2), "!in [0, 1]"}, {RewardRequest{Position: new(0), Values: []float64{1, 1, 1}}, "!beside another name"}}, 0, 1, "0 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
			s := open(t, log, clock)
			cfg := DefaultConfig("m")
			cfg.Reward.Rule, cfg.Reward.Default = Rule(c.rule), c.dflt
			cfg.Reward.Min, cfg.Reward.Max, cfg.Reward.Adapt = 0, 1, false
			must(s.CreateModel(ctx, cfg, ""))
			d := must(s.Decide(ctx, "m", listRequest(1, 3, "a", "b", "c", "d", "e")))
			must(s.progress.until(ctx, d.Seq)) // the fold has the decision
			for _, st := range c.steps {
				st.r.EventID = d.EventID
				got, err := s.Reward(ctx, st.r)
				if text, bad := strings.CutPrefix(st.want, "!"); bad {
					wantCode(t, err, Invalid, text)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				text := string(got.Status)
				for i, p := range got.Positions {
					text += map[bool]string{true: " ", false: ","}[i == 0] + string(p.Status)
				}
				if text != st.want {
					t.Errorf("%+v: %s, want %s", st.r, text, st.want)
				}
			}
			learned := func() uint64 { return must(s.GetModel(ctx, "m")).Counts.Learned }
			if n := learned(); n != c.learned {
				t.Errorf("%d lists are learned before the window closes, want %d", n, c.learned)
			}
			clock.forward(time.Hour)
			must(s.Expire(ctx))
			if n := learned(); n != c.after {
				t.Errorf("%d lists are learned after the window, want %d", n, c.after)
			}
			late := must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Position: new(0), Value: 1}))
			if late.Status != Late {
				t.Errorf("a reward after the window is %s", late.Status)
			}
			var rewards []string
			for x, err := range must(s.Decisions(ctx, "m", 0, 1000)).Decisions {
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range x.Positions {
					switch {
					case p.Hidden:
						rewards = append(rewards, "hidden")
					case p.Reward != p.Reward:
						rewards = append(rewards, "-")
					default:
						rewards = append(rewards, fmt.Sprint(p.Reward))
					}
				}
				e, err := joined.Event(x.Decided)
				if err != nil {
					t.Fatalf("as a logged event: %v", err)
				}
				if sets, n := e.Sets(); sets != logged.SetsShared || n != 5 {
					t.Errorf("the logged list has sets %v of %d", sets, n)
				}
			}
			if got := strings.Join(rewards, " "); got != c.rewards {
				t.Errorf("the rewards of the positions are %s, want %s", got, c.rewards)
			}
		})
	}
}

// TestListWhole: a model with one reward for a list takes it without a position, and refuses one with; the default is that
// of the list. Other models refuse to become such a one.
func TestListWhole(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
	cfg := DefaultConfig("m")
	cfg.List.Reward, cfg.Reward.Default = "list", Maybe{Set: true}
	must(s.CreateModel(ctx, cfg, ""))
	ask := listRequest(0, 2, "a", "b", "c")
	d := must(s.Decide(ctx, "m", ask))
	_, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Position: new(0), Value: 1})
	wantCode(t, err, Invalid, "one reward for the list")
	if r := must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 3.2})); r.Status != Accepted {
		t.Errorf("%+v", r)
	}
	if r := must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 3.2})); r.Status != Duplicate {
		t.Errorf("again: %+v", r)
	}
	must(s.Decide(ctx, "m", ask))
	clock.forward(time.Hour)
	must(s.Expire(ctx))
	if m := must(s.GetModel(ctx, "m")); m.Counts.Learned != 2 || m.Counts.Defaulted != 1 || m.Counts.RewardSum != 3.2 {
		t.Errorf("%+v", m.Counts)
	}
}

// TestListRequests: what a request for a list may not have is refused with its field, and nothing is recorded; slots have
// names, candidates of their own and exclusions; a repetition with a key has the same list.
func TestListRequests(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	must(s.CreateModel(ctx, vectors("v", 3), ""))
	capped := DefaultConfig("capped")
	capped.Caps = map[string]float64{"a": .5}
	must(s.CreateModel(ctx, capped, ""))
	of := named("a", "b", "c", "d")
	slots := func(n int, edit func(s []Slot)) DecideRequest {
		r := DecideRequest{Actions: of, Slots: make([]Slot, n)}
		edit(r.Slots)
		return r
	}
	own := func(sets ...string) DecideRequest {
		r := DecideRequest{}
		for _, set := range sets {
			r.Slots = append(r.Slots, Slot{Actions: named(strings.Split(set, "")...)})
		}
		return r
	}
	base := func(edit func(s []Slot)) DecideRequest {
		r := slots(2, edit)
		r.Mode = Apprentice
		return r
	}
	head := s.committer.Stats().Head.Seq
	for _, c := range []struct {
		model string
		r     DecideRequest
		code  Code
		want  string
	}{
		{"m", DecideRequest{Choose: new(3), Actions: of[:2]}, Invalid, "choose: 3 of 2 actions"},
		{"m", DecideRequest{Choose: new(0), Actions: of}, Invalid, "choose: expected the number of positions"},
		{"m", DecideRequest{Choose: new(51), Actions: of}, TooLarge, "choose"},
		{"m", DecideRequest{Choose: new(2), Slots: make([]Slot, 2), Actions: of}, Invalid, "choose: does not go with slots"},
		{"m", DecideRequest{Slots: []Slot{}, Actions: of}, Invalid, "slots: expected 1 to 50"},
		{"m", DecideRequest{Choose: new(2), Actions: of, Baseline: new(1)}, Invalid, "baseline"},
		{"m", DecideRequest{Choose: new(2), Actions: of, Numbers: []NumberAsk{{Name: "price"}}}, Invalid, "numbers"},
		{"m", DecideRequest{Choose: new(2), Actions: of, Mode: Guarded}, Invalid, "mode"},
		{"m", base(func(s []Slot) { s[1].Baseline = "z" }), Invalid, `slots[1].baseline: "z" is no action that may stand in the slot`},
		{"m", base(func(s []Slot) { s[0].Baseline, s[1].Baseline = "b", "b" }), Invalid, `slots[1].baseline: "b" is the baseline of slots[0] too`},
		{"m", base(func(s []Slot) { s[1].Baseline, s[1].Exclude = "b", []string{"b"} }), Invalid, "slots[1].baseline"},
		{"m", base(func(s []Slot) { s[0].Baseline, s[1].Exclude = "a", []string{"b", "c", "d"} }), Invalid, "slots[1].baseline: is missing, and the baselines"},
		{"m", base(func(s []Slot) { s[0].Baseline = "a\x00" }), Invalid, "slots[0].baseline"},
		{"m", DecideRequest{Mode: Shadow, Slots: []Slot{{Actions: named("a"), Baseline: "b"}, {Actions: named("b")}}}, Invalid, "slots[0].baseline"},
		{"m", DecideRequest{Mode: Shadow, Exclude: []string{"b"}, Actions: of, Slots: []Slot{{Baseline: "b"}, {}}}, Invalid, "slots[0].baseline"},
		{"m", slots(2, func(s []Slot) { s[0].ID, s[1].ID = "x", "x" }), Invalid, "slots[1].id"},
		{"m", slots(2, func(s []Slot) { s[1].Features = json.RawMessage(`{"size": 1}`) }), Invalid, "slots[1].features"},
		{"m", slots(2, func(s []Slot) { s[1].Exclude = []string{"z"} }), Invalid, "slots[1].exclude"},
		{"m", slots(2, func(s []Slot) { s[1].Exclude = []string{"a", "b", "c", "d"} }), Invalid, "slots[1].actions: position 1 has no candidate"},
		{"m", slots(7, func(s []Slot) {}), Invalid, "slots: 7 of 4 actions"},
		{"m", own("ab", "b", "ab"), Invalid, "slots[2].actions"},
		{"m", DecideRequest{Slots: []Slot{{Actions: of}, {}}, Actions: of}, Invalid, "slots[1].actions: all slots have candidates"},
		{"m", DecideRequest{Slots: []Slot{{Actions: of}}, Actions: of}, Invalid, "actions: do not go with slots"},
		{"m", DecideRequest{Slots: []Slot{{Actions: []Action{{Features: json.RawMessage(`{}`)}}}}}, Invalid, "slots[0].actions[0].id"},
		{"m", own("abcdefgh", "bcdefghi", "cdefghij", "defghijk", "efghijkl", "fghijklm", "ghijklmn"), Invalid, "overlap in part"},
		{"v", DecideRequest{Choose: new(2), Actions: actions(0, 4, 3)}, Invalid, "policy"},
		{"capped", DecideRequest{Choose: new(2), Actions: of}, Invalid, "caps"},
	} {
		_, err := s.Decide(ctx, c.model, c.r)
		if err == nil || CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %v with %q", err, c.code, c.want)
		}
	}
	if now := s.committer.Stats().Head.Seq; now != head {
		t.Errorf("the log has %d entries more", now-head)
	}
	for range 60 {
		d := must(s.Decide(ctx, "m", slots(3, func(s []Slot) { s[0].ID, s[1].Exclude, s[2].Exclude = "hero", []string{"d"}, []string{"a", "b"} })))
		if d.Action.ID != "" || d.Propensity.Den != 0 || len(d.List) != 3 || d.List[0].Slot != "hero" || d.List[1].Slot != "1" {
			t.Fatalf("%+v", d)
		}
		if d.List[1].ID == "d" || d.List[2].ID == "a" || d.List[2].ID == "b" {
			t.Fatalf("an excluded action was played: %+v", d.List)
		}
		d = must(s.Decide(ctx, "m", own("abc", "cd", "de")))
		for p, e := range d.List {
			if string([]string{"abc", "cd", "de"}[p][e.Index]) != e.ID || p > 0 && e.ID == d.List[p-1].ID {
				t.Fatalf("%+v", d.List)
			}
		}
	}
	keyed := listRequest(0, 3, "a", "b", "c", "d")
	keyed.IdempotencyKey = "k"
	first := must(s.Decide(ctx, "m", keyed))
	again := must(s.Decide(ctx, "m", keyed))
	if !again.Repeated || again.EventID != first.EventID || !slices.Equal(again.List, first.List) {
		t.Errorf("%+v, then %+v", first, again)
	}
	keyed.Choose = new(2)
	_, err := s.Decide(ctx, "m", keyed)
	wantCode(t, err, Conflict)
}

// TestListReplay: lists and their rewards are one entry of the log each; a server that folds the log anew, from its start or
// from a snapshot within open windows, is in the same state and plays the same; every list replays.
func TestListReplay(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	dir := t.TempDir()
	snap := func(o *Options) { o.Dir, o.SnapshotEvery = dir, 25 }
	s := open(t, log, clock, snap)
	cfg := DefaultConfig("m")
	cfg.Reward.Default = Maybe{Set: true}
	must(s.CreateModel(ctx, cfg, ""))
	whole := DefaultConfig("w")
	whole.List.Reward = "list"
	must(s.CreateModel(ctx, whole, ""))
	names := []string{"a", "b", "c", "d", "e", "f"}
	var ids []string
	for n := range 60 {
		before := s.committer.Stats().Head.Seq
		d := must(s.Decide(ctx, "m", listRequest(n, 3, names...)))
		ids = append(ids, d.EventID)
		y := make([]float64, 3)
		for p, e := range d.List {
			y[p] = float64((e.Index*(p+1) + n) % 3 / 2)
		}
		switch n % 4 {
		case 0:
			if n%8 == 0 {
				y[2] = 0 // it was not on the screen
			}
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Values: y, Shown: new(2 + n/4%2)}))
		case 1:
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Position: new(1), Value: y[1]}))
		case 2:
			must(s.RewardBatch(ctx, []RewardRequest{{EventID: d.EventID, Values: y}, {EventID: ids[0], Position: new(0), Value: 1}}))
		}
		if n%4 < 3 && s.committer.Stats().Head.Seq != before+2 {
			t.Fatalf("a list and its rewards are %d entries", s.committer.Stats().Head.Seq-before)
		}
		w := must(s.Decide(ctx, "w", listRequest(n, 2, names...)))
		ids = append(ids, w.EventID)
		if n%3 > 0 {
			must(s.Reward(ctx, RewardRequest{EventID: w.EventID, Value: float64(n % 5)}))
		}
		if n == 40 {
			clock.forward(11 * time.Minute)
			must(s.Expire(ctx))
		}
	}
	for _, id := range ids {
		r, err := s.Replay(ctx, id)
		if err != nil || !r.Equal {
			t.Fatalf("%s: %v, differs in %v", id, err, r.Differs)
		}
	}
	state := func(s *Server) string {
		must(s.progress.until(ctx, s.committer.Stats().Head.Seq))
		var b bytes.Buffer
		for _, name := range []string{"m", "w"} {
			v := must(s.State(ctx, name))
			fmt.Fprint(&b, v.Digest, v.Seq, must(s.GetModel(ctx, name)).Counts, " ")
		}
		return b.String()
	}
	want := state(s)
	ask := listRequest(1, 4, names...)
	must(0, s.Close(ctx))
	for _, name := range []string{"from its start", "from a snapshot"} {
		edit := func(*Options) {}
		if name == "from a snapshot" {
			edit = snap
		}
		again := open(t, log, clock, edit)
		if got := state(again); got != want {
			t.Errorf("%s: the state is %s, want %s", name, got, want)
		}
		must(again.Decide(ctx, "m", ask))
		if name == "from a snapshot" { // windows that were open go on
			if r := must(again.Reward(ctx, RewardRequest{EventID: ids[2*57], Position: new(1), Value: 1})); r.Status != Duplicate {
				t.Errorf("a position that was rewarded before the restart: %+v", r)
			}
			if r := must(again.Reward(ctx, RewardRequest{EventID: ids[2*57], Position: new(0), Value: 1})); r.Status != Accepted {
				t.Errorf("one that was not: %+v", r)
			}
		}
		must(0, again.Close(ctx))
		if name == "from its start" {
			want = state(open(t, log, clock)) // the log has one decision more
		}
	}
}

// TestListBaseline: in the modes apprentice and shadow the list of the caller is played, with probability 1 of each entry and of each prefix; slots
// without a baseline get the first action that is left for them. The answer, its repetition and the event say what the model would
// have played, with its law. A model in apprentice mode learns the list, one in shadow mode does not. The log replays
// it, and a server that folds it anew has the same state.
func TestListBaseline(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	for _, mode := range []Mode{Apprentice, Shadow} {
		cfg := DefaultConfig(string(mode))
		cfg.Mode, cfg.LogCandidates = string(mode), "full"
		must(s.CreateModel(ctx, cfg, ""))
	}
	of := named("a", "b", "c", "d", "e")
	type entry struct {
		slot, id string
		index    int
	}
	for _, c := range []struct {
		name string
		r    DecideRequest
		want []entry
	}{
		{"of slots", DecideRequest{Actions: of, Slots: []Slot{{ID: "hero", Baseline: "d"}, {Baseline: "b", Exclude: []string{"a"}}, {ID: "side", Baseline: "c"}}}, []entry{{"hero", "d", 3}, {"1", "b", 1}, {"side", "c", 2}}},
		{"of one slot", DecideRequest{Actions: of, Slots: []Slot{{}, {Baseline: "a"}, {}}}, []entry{{"0", "b", 1}, {"1", "a", 0}, {"2", "c", 2}}},
		{"of none", DecideRequest{Actions: of, Choose: new(3)}, []entry{{"", "a", 0}, {"", "b", 1}, {"", "c", 2}}},
		{"that are left", DecideRequest{Actions: of, Exclude: []string{"b"}, Slots: []Slot{{}, {}, {Exclude: []string{"c", "d", "e"}}}}, []entry{{"0", "c", 2}, {"1", "d", 3}, {"2", "a", 0}}},
		{"of their own", DecideRequest{Slots: []Slot{{Actions: named("x", "y"), Baseline: "y"}, {Actions: named("y", "z")}, {Actions: named("x", "w"), Baseline: "w"}}}, []entry{{"0", "y", 1}, {"1", "z", 1}, {"2", "w", 1}}},
	} {
		for _, mode := range []Mode{Apprentice, Shadow} {
			name, learns := fmt.Sprintf("%s, %s", c.name, mode), mode == Apprentice
			before := must(s.GetModel(ctx, string(mode))).Counts
			r := c.r
			r.IdempotencyKey = name
			d := must(s.Decide(ctx, string(mode), r))
			if d.Mode != mode || d.Would == nil || d.Would.Action != "" || len(d.Would.List) != 3 || len(d.List) != 3 {
				t.Fatalf("%s: %+v", name, d)
			}
			for p, e := range d.List {
				if (entry{e.Slot, e.ID, e.Index}) != c.want[p] || e.Propensity.Num != 1 || e.Propensity.Den != 1 || e.Position != p {
					t.Errorf("%s: position %d has %+v, want %v", name, p, e, c.want[p])
				}
				if w := d.Would.List[p]; w.Slot != e.Slot || w.Position != p || w.Propensity.Num == 0 || w.Propensity.Num >= w.Propensity.Den && c.name == "of slots" {
					t.Errorf("%s: the model would play %+v at position %d", name, w, p)
				}
			}
			again := must(s.Decide(ctx, string(mode), r))
			if !again.Repeated || again.EventID != d.EventID || !slices.Equal(again.List, d.List) || !slices.Equal(again.Would.List, d.Would.List) {
				t.Errorf("%s: %+v, repeated %+v", name, d, again)
			}
			if c.r.Slots != nil {
				r.Slots = slices.Clone(r.Slots)
				r.Slots[2].Baseline += "x"
				_, err := s.Decide(ctx, string(mode), r)
				wantCode(t, err, Conflict)
			}
			if v := must(s.Event(ctx, d.EventID)); !slices.Equal(v.List, d.List) || v.Decision.WouldList == nil {
				t.Errorf("%s: the event has %+v", name, v)
			}
			if x := must(s.Replay(ctx, d.EventID)); !x.Equal || x.Action != d.Would.List[0].ID {
				t.Errorf("%s: differs in %v", name, x.Differs)
			}
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Values: []float64{0, 1, 0}}))
			after := must(s.GetModel(ctx, string(mode))).Counts
			if n := after.Learned - before.Learned; learns != (n == 1) || after.Decisions != before.Decisions+1 {
				t.Errorf("%s: %d lists were learned, %d decisions were made", name, n, after.Decisions-before.Decisions)
			}
		}
	}
	// A request may name the mode, and an explanation is of the policy.
	r := listRequest(1, 3, "a", "b", "c", "d")
	r.Mode, r.Explain = Shadow, true
	d := must(s.Decide(ctx, "apprentice", r))
	if d.Mode != Shadow || len(d.Explain) != 4 || *d.List[2].Prefix != 1 || d.List[0].ID != "a" {
		t.Errorf("%+v", d)
	}
	// In other modes a baseline is not looked at.
	r = DecideRequest{Actions: of, Mode: Online, Slots: []Slot{{Baseline: "a"}, {Baseline: "a"}}}
	if d := must(s.Decide(ctx, "shadow", r)); d.Would != nil || len(d.List) != 2 {
		t.Errorf("%+v", d)
	}
	// What is read of the log: a baseline is no event of an evaluation, and its slots have the probability 1.
	n := 0
	for x, err := range must(s.Decisions(ctx, "apprentice", 0, 1000)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		n++
		for p, c := range joined.SlotColumns(x.Decided) {
			if c.Propensity != 1 || c.Prefix != 1 || c.Marginal != 1 || c.Marginals != nil || x.Played() || len(c.Actions) == 0 {
				t.Errorf("position %d of decision %d: %+v", p, n, c)
			}
		}
	}
	if n != 6 {
		t.Errorf("%d decisions were read", n)
	}
	state := func(s *Server) (out string) {
		must(s.progress.until(ctx, s.committer.Stats().Head.Seq))
		for _, name := range []string{"apprentice", "shadow"} {
			out += fmt.Sprint(must(s.State(ctx, name)).Digest, must(s.GetModel(ctx, name)).Counts, " ")
		}
		return out
	}
	want := state(s)
	must(0, s.Close(ctx))
	if got := state(open(t, log, clock)); got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
}
