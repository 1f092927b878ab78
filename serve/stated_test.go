package serve

import (
	"context"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// TestStatedDigests: a record may state the digest of a model's state, and every reader of the log finds the same, also when a
// change of the configuration changes what the digest has beside the policy. A copy of such a model stopped the server once.
func TestStatedDigests(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name     string
		from, to model.Maybe
	}{
		{"remembers no more", model.Maybe{Word: "auto"}, model.Maybe{Set: true, Value: 0.25}},
		{"remembers from now on", model.Maybe{Word: "none"}, model.Maybe{Word: "auto"}},
		{"stays", model.Maybe{Word: "auto"}, model.Maybe{Word: "auto"}},
	} {
		for _, learned := range []bool{false, true} {
			for _, aside := range []bool{false, true} {
				log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
				dir := t.TempDir()
				s := open(t, log, clock, func(o *Options) { o.Dir, o.LayAside = dir, -1 })
				must(s.CreateModel(ctx, vectors("news", 3, func(m *ModelConfig) { m.Reward.Default = c.from }), ""))
				if learned {
					teach(t, s, s, 1)
				}
				early := s.progress.applied.Load()
				if aside {
					for range 2 {
						must(s.aside.layAside())
					}
				}
				config := must(s.GetModel(ctx, "news")).Config
				config.Reward.Default = c.to
				must(s.ConfigureModel(ctx, "news", 0, config, ""))
				same := func(when string) {
					t.Helper()
					s.mu.Lock()
					defer s.mu.Unlock()
					f, _, err := fold.Restore(must(s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1))), nil)
					if err != nil {
						t.Fatal(err)
					}
					for m := range s.fold.Models() {
						if own, other := must(m.State()).Digest(), must(f.Model(m.ID).State()).Digest(); own != other {
							t.Errorf("%s, learned %v, aside %v: %s: the digest is %v, that of the bytes %v", c.name, learned, aside, when, own, other)
						}
					}
				}
				same("after the change")
				must(s.CloneModel(ctx, CloneRequest{From: "news", Name: "copy"}))
				must(s.CloneModel(ctx, CloneRequest{From: "news", Name: "early", AtSeq: early}))
				same("after the copies")
				must(s.RollbackModel(ctx, RollbackRequest{Name: "news", ToSeq: s.progress.applied.Load()}))
				must(s.RollbackModel(ctx, RollbackRequest{Name: "news", ToSeq: early}))
				if _, err := s.CreateModelFrom(ctx, "imported", must(s.SaveModel(ctx, "news", 0)), ""); err != nil {
					t.Fatal(err)
				}
				same("after the rollbacks and the import")
				teach(t, s, s, 2)
				clock.forward(time.Hour)
				must(s.expiry.expire(ctx))
				if err := s.Close(ctx); err != nil {
					t.Fatal(err)
				}
				s = open(t, log, clock) // reads what the first server stated, and the states that it computed
				if h := s.Health(); !h.Ready {
					t.Fatal(h.Reason)
				}
			}
		}
	}
}
