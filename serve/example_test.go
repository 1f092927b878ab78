package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"troupe/serve"
)

// A model is made with a name and a length of its vectors, decides, and learns from a reward.
func Example() {
	dir, err := os.MkdirTemp("", "troupe")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	server, err := serve.Open(ctx, serve.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer server.Close(ctx)

	config := serve.DefaultConfig("news")
	config.Dim = 2
	if _, err := server.CreateModel(ctx, config, ""); err != nil {
		panic(err)
	}
	decision, err := server.Decide(ctx, "news", serve.DecideRequest{Actions: []serve.Action{
		{ID: "a", Features: json.RawMessage(`[0.6, 0.8]`)},
		{ID: "b", Features: json.RawMessage(`[1, 0]`)},
	}})
	if err != nil {
		panic(err)
	}
	reward, err := server.Reward(ctx, serve.RewardRequest{EventID: decision.EventID, Value: 0.5})
	if err != nil {
		panic(err)
	}
	model, err := server.GetModel(ctx, "news")
	if err != nil {
		panic(err)
	}
	fmt.Println("durable:", decision.Durable, "reward:", reward.Status, "learned:", model.Counts.Learned)
	// Output: durable: true reward: accepted learned: 1
}
