package fold_test

import (
	"context"
	"encoding/json"
	"fmt"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/serve/fold"
)

// The outcome of each reward in the log of a server.
func ExampleFold_Apply() {
	ctx := context.Background()
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	play(ctx, log)

	f, chain := fold.New(nil), eventlog.NewChain(0, 1)
	info, err := log.Info(ctx, 0)
	if err != nil {
		panic(err)
	}
	for d, err := range eventlog.Replay(ctx, log, chain, info.Last) {
		if err != nil {
			panic(err)
		}
		outcomes, err := f.Apply(d)
		if err != nil {
			panic(err)
		}
		if d.Repeat {
			continue // an entry that was stored twice has no effect
		}
		for i, r := range d.Events() {
			if r, ok := r.(*eventlog.Reward); ok {
				fmt.Println(r.Y, outcomes[i] == fold.Accepted)
			}
		}
	}
	fmt.Println("learned:", f.Named("news").Counts.Learned)
	// Output:
	// 0.5 true
	// learned: 1
}

// play makes a model, a decision and a reward.
func play(ctx context.Context, log eventlog.Log) {
	keys := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}
	s, err := serve.Open(ctx, serve.Options{Log: log, Keys: keys})
	if err != nil {
		panic(err)
	}
	defer s.Close(ctx)
	config := serve.DefaultConfig("news")
	config.Dim = 1
	if _, err := s.CreateModel(ctx, config, ""); err != nil {
		panic(err)
	}
	d, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: []serve.Action{{ID: "a", Features: json.RawMessage(`[1]`)}}})
	if err != nil {
		panic(err)
	}
	if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: 0.5}); err != nil {
		panic(err)
	}
}
