package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"troupe/client"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/serve/api"
)

// A client makes a model, asks for a decision and sends its reward. The server here is one in memory; yours
// has an address such as http://127.0.0.1:8080.
func Example() {
	ctx := context.Background()
	address, stop := server(ctx)
	defer stop()

	c, err := client.New(address, client.Options{})
	if err != nil {
		panic(err)
	}
	if err := c.CreateModel(ctx, map[string]any{"id": "news", "dim": 2}); err != nil {
		panic(err)
	}
	d, err := c.Decide(ctx, "news", client.DecideRequest{Actions: []client.Action{
		{ID: "a", Features: []float64{0.6, 0.8}},
		{ID: "b", Features: []float64{1, 0}},
	}})
	if err != nil {
		panic(err)
	}
	r, err := c.Reward(ctx, d.EventID, 0.5)
	if err != nil {
		panic(err)
	}
	fmt.Println("durable:", d.Durable, "reward:", r.Status)
	// Output: durable: true reward: accepted
}

// server returns the address of a server in memory.
func server(ctx context.Context) (address string, stop func()) {
	keys := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}
	s, err := serve.Open(ctx, serve.Options{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Keys: keys})
	if err != nil {
		panic(err)
	}
	edge, err := api.New(s, api.Options{})
	if err != nil {
		panic(err)
	}
	h := httptest.NewServer(edge)
	return h.URL, func() { h.Close(); s.Close(ctx) }
}
