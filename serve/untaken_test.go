package serve

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/recent"
)

// TestRewardSums: a reward is refused where the sum of its event would leave what the model takes, so that no accepted reward
// stops a model.
func TestRewardSums(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
	for name, c := range map[string]struct {
		min, max float64
		adapt    bool
		values   []float64
		refused  string // words of the refusal of the last one
	}{
		"declared":    {0, 1, false, []float64{1, 1}, "makes 2 of the rewards of this event by the rule sum, expected a number in [0, 1], the range of the model (reward.min, reward.max)"},
		"half":        {0, 1, false, []float64{0.5, 0.25, 0.5}, "makes 1.25"},
		"negative":    {-1, 0, false, []float64{-0.75, -0.75}, "makes -1.5"},
		"fits":        {0, 1, false, []float64{0.5, 0.25, 0.25}, ""},
		"adapts":      {0, 1, true, []float64{9e99, 9e99}, "makes 1.8e+100"},
		"adapts down": {0, 1, true, []float64{-9e99, -9e99}, "expected a reward in [-1e+100, 1e+100]"},
		"adapts fits": {0, 1, true, []float64{9e99, -9e99, 9e99}, ""},
	} {
		config := DefaultConfig("m")
		config.Reward = model.Reward{Min: c.min, Max: c.max, Adapt: c.adapt, Rule: model.Sum, Window: Duration(time.Minute)}
		must(s.CreateModel(ctx, config, ""))
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a"}, {ID: "b"}}}))
		for i, v := range c.values {
			_, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: v, Key: string(rune('a' + i))})
			if i == len(c.values)-1 && c.refused != "" {
				wantCode(t, err, Invalid, "value", c.refused)
			} else if err != nil {
				t.Errorf("%s: reward %d: %v", name, i, err)
			}
		}
		clock.forward(2 * time.Minute)
		must(s.expiry.expire(ctx))
		must(s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a"}, {ID: "b"}}}))
		if m := must(s.GetModel(ctx, "m")); m.Counts.Learned != 1 || m.Untaken != nil {
			t.Errorf("%s: %+v, %+v", name, m.Counts, m.Untaken)
		}
		if err := s.DeleteModel(ctx, "m", ""); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUntaken: a log that holds what the door refuses today is folded: rewards count as the nearest that the model takes, events
// without a vector teach nothing, both are counted, and the model decides, also after it was laid aside and after a restart. A
// server that folds from the log and one that begins with a snapshot agree.
func TestUntaken(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		config func() ModelConfig
		values []float64
		want   Untaken // without its entry and its words
	}{
		{"declared", func() ModelConfig { c := DefaultConfig("m"); c.Reward.Adapt = false; return c }, []float64{2, 1e300, -5, 0.5}, Untaken{Clamped: 3}},
		{"adapts", func() ModelConfig { return DefaultConfig("m") }, []float64{1.8e100, -math.MaxFloat64, 1e100, 0}, Untaken{Clamped: 2}},
		{"sums", func() ModelConfig { c := DefaultConfig("m"); c.Reward.Rule = model.Sum; return c }, []float64{9e99, 1e308}, Untaken{Clamped: 2}},
		{"vectors", func() ModelConfig { return vectors("m", 3) }, []float64{7, 0.5, 1e300, -1e200}, Untaken{Clamped: 2}},
		{"other vectors", func() ModelConfig { return vectors("m", 3) }, []float64{0.5, math.NaN(), 0.5}, Untaken{Refused: 1}},
	} {
		clock, log, dir := &fakeClock{}, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), t.TempDir()
		edit := func(o *Options) { o.LayAside, o.Dir = -1, dir }
		s := open(t, log, clock, edit)
		must(s.CreateModel(ctx, c.config(), ""))
		request := DecideRequest{Actions: actions(1, 4, 3)}
		for _, v := range c.values {
			d := must(s.Decide(ctx, "m", request))
			id, known, err := s.recent.Find(ctx, d.EventID)
			if err != nil {
				t.Fatal(err)
			}
			r := rewardOf(id, known, v)
			if math.IsNaN(v) { // stands for a vector of another length
				r.Y, r.X = 0.5, []float64{1}
			}
			s.applyNow(t, r)
			if c.name == "sums" {
				s.applyNow(t, rewardOf(id, known, v))
			}
		}
		clock.forward(time.Hour)
		if n := must(s.expiry.expire(ctx)); n != len(c.values) {
			t.Errorf("%s: %d windows are closed, want %d", c.name, n, len(c.values))
		}
		look := func(s *Server, when string) Model {
			t.Helper()
			for range 2 {
				must(s.aside.layAside())
			}
			must(s.Decide(ctx, "m", request))
			m := must(s.GetModel(ctx, "m"))
			if u := m.Untaken; u == nil || u.Clamped != c.want.Clamped || u.Refused != c.want.Refused || u.Seq == 0 || (u.Why != "") != (u.Refused > 0) ||
				len(m.Warnings) == 0 || m.Failed != "" {
				t.Fatalf("%s, %s: %+v, want %+v; warnings %v", c.name, when, u, c.want, m.Warnings)
			}
			return m
		}
		was := look(s, "live")
		digest := must(s.State(ctx, "m")).Digest
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{"the snapshot", "the log"} {
			if from == "the log" {
				dir = t.TempDir()
			}
			s := open(t, log, clock, edit)
			if m := look(s, from); m.Counts.Learned != was.Counts.Learned || must(s.State(ctx, "m")).Digest != digest {
				t.Errorf("%s, from %s: %+v, want %+v", c.name, from, m.Counts, was.Counts)
			}
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func rewardOf(id eventlog.EventID, d recent.Known, y float64) *eventlog.Reward {
	return &eventlog.Reward{Event: id.Event, Model: d.Model, X: d.X, Atoms: d.Atoms, Y: y, Time: 1}
}

// TestEnterBounds: the guess of an action that enters is a reward that the model takes. A configuration of an old log with
// another one is folded, and windows close afterwards.
func TestEnterBounds(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock, func(o *Options) { o.LayAside = -1; o.Dir = t.TempDir() })
	m := must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	must(s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a"}, {ID: "b"}}}))
	for _, mean := range []float64{1.1e100, -1e101, 1e307} {
		c, err := m.Config.Enter("z", 0, 0, model.Prior{Mean: mean, Events: 3}, 0)
		if err == nil {
			_, err = s.ConfigureModel(ctx, "m", 0, c, "")
		}
		wantCode(t, refused(err), Invalid, "expected a reward in [-1e+100, 1e+100]")
	}
	for range 2 {
		must(s.aside.layAside())
	}
	c := m.Config
	c.Entered = []model.Entered{{ID: "z", Times: 1, Prior: model.Prior{Mean: 1.1e100, Events: 3}}}
	cfg := must(c.Compile(model.DefaultLimits))
	b := must(fold.ControlConfig(cfg.Config, nil))
	s.applyNow(t, &eventlog.Control{Act: eventlog.Configure, Model: m.Incarnation, Name: "m", Config: b, Time: 1})
	clock.forward(time.Hour)
	for range 3 {
		must(s.aside.layAside())
		must(s.expiry.expire(ctx))
		must(s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a"}, {ID: "z"}}}))
		clock.forward(time.Hour)
	}
	if m := must(s.GetModel(ctx, "m")); m.Untaken == nil || m.Untaken.Clamped != 3 {
		t.Errorf("%+v", m.Untaken)
	}
}

// applyNow writes a record that no call would, and waits until it is applied.
func (s *Server) applyNow(t *testing.T, r eventlog.Record) {
	t.Helper()
	receipt, err := s.append(context.Background(), r)
	if err == nil {
		_, err = s.progress.until(context.Background(), receipt.Seq)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAsideUnchanged: a model that was built from its bytes on the shelf and learned nothing has them still when it is laid aside
// again. They were once replaced by none, and the next reward stopped the server.
func TestAsideUnchanged(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) { o.LayAside = -1; o.Dir = t.TempDir() })
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	must(s.CreateModel(ctx, DefaultConfig("h"), ""))
	request := DecideRequest{Actions: actions(1, 4, 3)}
	hashed := must(s.Decide(ctx, "h", request))
	_, other, err := s.recent.Find(ctx, hashed.EventID)
	if err != nil {
		t.Fatal(err)
	}
	first, second := must(s.Decide(ctx, "m", request)), must(s.Decide(ctx, "m", request))
	aside := func() {
		t.Helper()
		for range 2 {
			must(s.aside.layAside())
		}
		if h := s.Health(); h.Awake != 0 {
			t.Fatalf("%d models are awake", h.Awake)
		}
	}
	aside()
	id, known, err := s.recent.Find(ctx, first.EventID)
	if err != nil {
		t.Fatal(err)
	}
	r := rewardOf(id, known, 1)
	r.X, r.Atoms = nil, other.Atoms // as of a decision with hashed features, whose request was not kept
	s.applyNow(t, r)
	if m := must(s.GetModel(ctx, "m")); m.Counts.Ignored != 1 || m.Counts.Learned != 0 {
		t.Fatalf("%+v", m.Counts)
	}
	aside()
	must(s.Reward(ctx, RewardRequest{EventID: second.EventID, Value: 1}))
	must(s.Decide(ctx, "m", request))
	if m := must(s.GetModel(ctx, "m")); m.Counts.Learned != 1 {
		t.Errorf("%+v", m.Counts)
	}
}

// TestModelFailed: a policy that cannot decide is an error of its own, which nobody is asked to repeat, and which has the call that
// mends it; the model and the server say so until a decision is made again.
func TestModelFailed(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	e, v, err := s.control.model("m")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err = e.Broken(v, bandit.ErrNumerical)
	}
	wantCode(t, err, ModelFailed, "its policy fails", "POST /v1/models/m:rollback", "to_seq below")
	var x *Error
	if !errors.As(err, &x) || x.RetryAfter != 0 {
		t.Errorf("%+v", x)
	}
	if m, h := must(s.GetModel(ctx, "m")), s.Health(); m.Failed == "" || !slices.Equal(h.Failed, []string{"m"}) || !h.Ready {
		t.Errorf("%q, %+v", m.Failed, h)
	}
	must(s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a"}}}))
	if m, h := must(s.GetModel(ctx, "m")), s.Health(); m.Failed != "" || h.Failed != nil {
		t.Errorf("%q, %+v", m.Failed, h)
	}
	e.Broken(v, bandit.ErrNumerical)
	if err := s.DeleteModel(ctx, "m", ""); err != nil {
		t.Fatal(err)
	}
	if h := s.Health(); h.Failed != nil || s.state.broken.Load() != 0 {
		t.Errorf("%+v", h)
	}
}
