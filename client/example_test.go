package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"troupe/client"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/contract"
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
	if err := c.CreateModel(ctx, map[string]any{"id": "news"}); err != nil {
		panic(err)
	}
	d, err := c.Decide(ctx, "news", client.DecideRequest{
		Context: map[string]any{"city": "Oslo", "age": 31},
		Actions: []client.Action{{ID: "a", Features: map[string]any{"price": 0.4}}, {ID: "b"}},
	})
	if err != nil {
		panic(err)
	}
	r, err := c.Reward(ctx, d.EventID, 0.5)
	if err != nil {
		panic(err)
	}
	m, err := c.Model(ctx, "news")
	if err != nil {
		panic(err)
	}
	fmt.Println("durable:", d.Durable, "reward:", r.Status)
	fmt.Println("features:", m.Kind, "warnings:", len(m.Warnings))
	// Output:
	// durable: true reward: accepted
	// features: requests warnings: 0
}

// A client of a cluster has the addresses of all nodes. One of them is gone here; the call goes to the next one.
func ExampleNew_cluster() {
	ctx := context.Background()
	gone, stop := server(ctx)
	stop()
	there, stop := server(ctx)
	defer stop()

	c, err := client.New(gone+","+there, client.Options{})
	if err != nil {
		panic(err)
	}
	if err := c.CreateModel(ctx, map[string]any{"id": "news"}); err != nil {
		panic(err)
	}
	d, err := c.Decide(ctx, "news", client.DecideRequest{Actions: []client.Action{{ID: "a"}, {ID: "b"}}})
	if err != nil {
		panic(err)
	}
	fmt.Println("durable:", d.Durable)
	// Output: durable: true
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
	document, err := contract.Read(edge.OpenAPI())
	if err != nil {
		panic(err)
	}
	h := httptest.NewServer(document.Handler(edge, func(err error) { panic(err) }))
	return h.URL, func() { h.Close(); s.Close(ctx) }
}
