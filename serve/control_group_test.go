package serve

import (
	"errors"
	"math"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/joined"
	"troupe/serve/model"
)

// controlled returns the groups that the records of a model have, checked: exact laws, and the same law and propensity in
// what readers of logs see.
func controlled(t *testing.T, s *Server) (groups map[eventlog.Group]int, units map[eventlog.ID]eventlog.Group) {
	t.Helper()
	groups, units = map[eventlog.Group]int{}, map[eventlog.ID]eventlog.Group{}
	for d, err := range must(s.Decisions(t.Context(), "m", 0, 1_000_000)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		r := d.Record
		if groups[r.Group]++; r.Unit != 0 {
			if was, is := units[r.Unit]; is && was != r.Group {
				t.Fatalf("entry %d: unit %v is in %v, before in %v", d.Seq, r.Unit, r.Group, was)
			}
			units[r.Unit] = r.Group
		}
		if law := joined.Law(r); math.Abs(law[r.Index]-float64(r.Num)/float64(r.Den)) > 1e-12 {
			t.Fatalf("entry %d: the law has %v, the propensity is %d/%d", d.Seq, law[r.Index], r.Num, r.Den)
		}
		if _, err := joined.Event(d.Decided); err != nil {
			t.Fatal(err)
		}
	}
	return groups, units
}

// TestControlGroup: decisions are drawn into groups, the record has the draw, replay gives it back after a restart and after
// a change of the share, both groups teach the model, the caller is told, a baseline has no group, and a clone goes on with
// a draw of its own.
func TestControlGroup(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir, log, clock := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	edit := func(o *Options) { o.Dir, o.SnapshotAfter = dir, 50 }
	s := open(t, log, clock, edit)
	c := DefaultConfig("m")
	c.Control = model.Control{Share: .3, Plays: model.PlaysFirst}
	must(s.CreateModel(ctx, c, ""))
	ds := visit(t, 0, 200, 12, s)
	groups, _ := controlled(t, s)
	if groups[eventlog.GroupControl] < 35 || groups[eventlog.GroupControl] > 90 || groups[eventlog.NoGroup] > 0 {
		t.Fatalf("groups of 200 decisions with a control of .3: %v", groups)
	}
	for _, d := range ds {
		r := must(s.Event(ctx, d.EventID)).Decision
		if d.Group != r.Group.String() || d.Group == "control" && d.Action.Index != 0 {
			t.Fatalf("the answer says %q and plays %d, the record %v", d.Group, d.Action.Index, r.Group)
		}
	}
	if m := must(s.GetModel(ctx, "m")); m.Counts.Learned != 200 {
		t.Errorf("the model has learned from %d of 200 decisions", m.Counts.Learned)
	}
	again := must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b", "c"), IdempotencyKey: "key-3",
		Context: []byte(`{"user": {"id": "ann-3", "tier": "t0"}, "hour": "h1"}`)}))
	if !again.Repeated || again.Group != ds[3].Group {
		t.Errorf("a repetition says %+v, first %+v", again, ds[3])
	}
	replayAll(t, s, s, "at first")
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock, edit)
	replayAll(t, s, open(t, log, clock), "after a restart, and from the log alone")

	m := must(s.GetModel(ctx, "m"))
	c = m.Config
	c.Control = model.Control{Share: .5, Plays: model.PlaysUniform}
	must(s.ConfigureModel(ctx, "m", m.ConfigVersion, c, ""))
	visit(t, 200, 260, 12, s)
	replayAll(t, s, s, "after another control")
	r := must(s.Event(ctx, must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b"), Mode: model.Apprentice})).EventID)).Decision
	if r.Group != eventlog.NoGroup || r.Control != 0 {
		t.Errorf("a baseline is in a group: %+v", r)
	}
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy"}))
	if k := must(s.GetModel(ctx, "copy")).Config.Control; k != c.Control {
		t.Errorf("the clone has the control %+v", k)
	}
	m = must(s.GetModel(ctx, "m"))
	c.Control = model.Control{}
	must(s.ConfigureModel(ctx, "m", m.ConfigVersion, c, ""))
	if d := must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b")})); d.Group != "" {
		t.Errorf("without a control the group is %q", d.Group)
	}
}

// TestControlOnThreeNodes: a unit is in one group at every node, and nodes replay one another.
func TestControlOnThreeNodes(t *testing.T) {
	t.Parallel()
	_, nodes, _ := three(t)
	c := DefaultConfig("m")
	united(&c)
	c.Control = model.Control{Share: .4, Plays: model.PlaysUniform}
	must(nodes[0].CreateModel(t.Context(), c, ""))
	until := func() {
		for _, s := range nodes {
			must(s.progress.until(t.Context(), nodes[0].Health().Log))
		}
	}
	until()
	visit(t, 0, 120, 15, nodes...)
	until()
	if groups, units := controlled(t, nodes[2]); len(units) != 15 || groups[eventlog.GroupControl] == 0 || groups[eventlog.GroupModel] == 0 {
		t.Errorf("15 users are %d units in %v", len(units), groups)
	}
	replayAll(t, nodes[1], nodes[2], "at another node")
	agree(t, nodes...)
}

// TestControlRefused: what a control group would break is refused by field.
func TestControlRefused(t *testing.T) {
	base := DefaultConfig("m")
	base.Control = model.Control{Share: .1, Plays: model.PlaysUniform}
	for want, edit := range map[string]func(*ModelConfig){
		"does not go with a guard": func(c *ModelConfig) {
			c.Reward.Adapt, c.Guard = false, model.Guard{Margin: .1, Confidence: .95}
		},
		"does not go with caps":   func(c *ModelConfig) { c.Caps = model.Shares{"a": .2} },
		"does not go with floors": func(c *ModelConfig) { c.Floors = model.Shares{"a": .2} },
	} {
		c := base
		edit(&c)
		_, err := c.Admit(model.DefaultLimits)
		var u *model.Error
		if !errors.As(err, &u) || u.Field != "config.control.share" || u.Want == "" {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
