package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"troupe/client"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/serve/api"
)

// stub speaks the chat protocol: 40 tokens in, 100 out, whole or as a stream; without an answer it fails.
func stub(t *testing.T, answer string) string {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model   string
			Stream  bool
			Options struct {
				Usage bool `json:"include_usage"`
			} `json:"stream_options"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%+v, %v, %q", q, err, r.Header.Get("Authorization"))
		}
		if answer == "" {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		const usage = `"usage":{"prompt_tokens":40,"completion_tokens":100}`
		if !q.Stream {
			fmt.Fprintf(w, `{"model":%q,"choices":[{"message":{"content":%q}}],%s}`, q.Model, answer, usage)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range strings.Fields(answer) {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", word)
			w.(http.Flusher).Flush()
		}
		if q.Options.Usage {
			fmt.Fprintf(w, "data: {\"choices\":[],%s}\n\n", usage)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(h.Close)
	return h.URL
}

// TestRouter: requests are answered by the model that troupe chose, whole and as streams; what they cost is paid; a model that fails
// gets a reward of 0 and another one answers; without troupe the first one answers.
func TestRouter(t *testing.T) {
	ctx := t.Context()
	s, err := serve.Open(ctx, serve.Options{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}),
		Keys: eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	edge, err := api.New(s, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	troupe := httptest.NewServer(edge)
	defer troupe.Close()
	c, err := client.New(troupe.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var config serve.ModelConfig
	if err := json.Unmarshal([]byte(`{"id": "router", "budget": {"mean": 0.003}, "reward": {"window": "1h"}}`), &config); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateModel(ctx, config, ""); err != nil {
		t.Fatal(err)
	}
	r := &router{troupe: c, model: "router", upstreams: []Upstream{
		{ID: "small", URL: stub(t, "a short answer"), Input: .1, Output: .4},
		{ID: "large", URL: stub(t, "a long and good answer"), Input: 2, Output: 8},
		{ID: "broken", URL: stub(t, ""), Input: .1, Output: .4},
	}}
	proxy := httptest.NewServer(r)
	defer proxy.Close()
	ask := func(stream bool) (text, event, model string) {
		t.Helper()
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, proxy.URL, strings.NewReader(fmt.Sprintf(
			`{"messages":[{"role":"user","content":"how are you?"}],"stream":%v,"temperature":0}`, stream)))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer secret")
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != 200 {
			t.Fatalf("status %d, %v: %s", a.StatusCode, err, b)
		}
		return string(b), a.Header.Get("Troupe-Event"), a.Header.Get("Troupe-Model")
	}
	want, answered := 0., map[string]int{}
	price := map[string]float64{"small": (40*.1 + 100*.4) / 1e6, "large": (40*2 + 100*8) / 1e6, "broken": 0}
	for i := range 60 {
		text, event, model := ask(i%2 == 0)
		word := map[string]string{"small": "short", "large": "good"}[model]
		if !strings.Contains(text, word) || i%2 == 0 && !strings.HasSuffix(text, "data: [DONE]\n\n") || event == "" {
			t.Fatalf("%s answered %q for %q", model, text, event)
		}
		v, err := s.Event(ctx, event)
		if err != nil || v.Cost == nil || *v.Cost != price[v.Action.ID] {
			t.Fatalf("%s was chosen: %+v, %v; want the cost %v", v.Action.ID, v.Cost, err, price[v.Action.ID])
		}
		want += *v.Cost
		answered[v.Action.ID]++
		if failed := v.Action.ID == "broken"; failed != (v.Value != nil && *v.Value == 0) || !failed && v.Action.ID != model {
			t.Fatalf("%s was chosen, %s answered; the reward is %v", v.Action.ID, model, v.Value)
		}
		if v.Value == nil {
			if _, err := c.Reward(ctx, event, map[string]float64{"small": .3, "large": 1}[model]); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err := s.GetModel(ctx, "router")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Budget.Spent; got < want*.999999 || got > want*1.000001 || answered["broken"] > 40 {
		t.Errorf("spent %v, want %v; chosen %v", got, want, answered)
	}
	troupe.Close()
	if text, event, model := ask(false); model != "small" || event != "" || !strings.Contains(text, "short") {
		t.Errorf("without troupe %s answered %q for %q", model, text, event)
	}
}
