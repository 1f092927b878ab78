package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/serve/api"
)

// The API is an http.Handler in front of a service.
func Example() {
	ctx := context.Background()
	keys := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}
	s, err := serve.Open(ctx, serve.Options{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Keys: keys})
	if err != nil {
		panic(err)
	}
	defer s.Close(ctx)
	edge, err := api.New(s, api.Options{})
	if err != nil {
		panic(err)
	}
	h := httptest.NewServer(edge)
	defer h.Close()

	post := func(path, body string) {
		r, err := http.Post(h.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		defer r.Body.Close()
		answer, _ := io.ReadAll(r.Body)
		fmt.Println(r.StatusCode, strings.Contains(string(answer), `"durable":true`))
	}
	post("/v1/models", `{"id": "news", "dim": 1}`)
	post("/v1/models/news:decide", `{"actions": [{"id": "a", "features": [1]}, {"id": "b", "features": [0.5]}]}`)
	// Output:
	// 201 false
	// 200 true
}
