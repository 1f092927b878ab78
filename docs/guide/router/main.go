// Router is the example of docs/guide/choosing-models.md: a proxy for POST /v1/chat/completions that asks troupe which
// model answers, and tells it what the answer cost. It stores no keys and logs no prompts: the Authorization header
// goes on to the upstream as it came.
//
//	troupe serve --data troupe-data &
//	go run troupe/docs/guide/router --upstreams upstreams.json
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"troupe/client"
)

// Upstream is a model behind the OpenAI chat protocol. Prices are for a million tokens.
type Upstream struct {
	ID     string  `json:"id"`    // the action, and the model in the request
	URL    string  `json:"url"`   // such as http://127.0.0.1:9001/v1/chat/completions
	Input  float64 `json:"input"` // price
	Output float64 `json:"output"`
	Tokens float64 `json:"tokens"` // an answer has about so many, 300 when it is 0
}

// cost is the price of a request and an answer.
func (u *Upstream) cost(in, out float64) float64 { return (in*u.Input + out*u.Output) / 1e6 }

// router is the proxy.
type router struct {
	troupe    *client.Client
	model     string
	upstreams []Upstream
}

func main() {
	address := flag.String("listen", "127.0.0.1:8090", "address")
	troupe := flag.String("troupe", "http://127.0.0.1:8080", "address of troupe serve")
	model := flag.String("model", "router", "name of the model there")
	file := flag.String("upstreams", "upstreams.json", "a JSON list of upstreams")
	flag.Parse()
	text, err := os.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	r := router{model: *model}
	if err := json.Unmarshal(text, &r.upstreams); err != nil || len(r.upstreams) == 0 {
		log.Fatalf("%s: expected a list of upstreams: %v", *file, err)
	}
	if r.troupe, err = client.New(*troupe, client.Options{Key: os.Getenv("TROUPE_KEY")}); err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /v1/chat/completions", &r)
	log.Fatal(http.ListenAndServe(*address, nil))
}

// chat is what the router reads of a request.
type chat struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream bool `json:"stream"`
}

// features says what may matter, in a few words and numbers. The prompt itself does not leave the router.
func (c *chat) features() (map[string]any, float64) {
	var all, last string
	for _, m := range c.Messages {
		text := string(m.Content)
		if all += text; m.Role == "user" {
			last = text
		}
	}
	size := "short"
	switch n := len(last); {
	case n > 4000:
		size = "long"
	case n > 400:
		size = "medium"
	}
	return map[string]any{
		"size": size, "turns": min(len(c.Messages), 9), "code": strings.Contains(last, "```"), "question": strings.Contains(last, "?"),
		"ascii": !strings.ContainsFunc(last, func(r rune) bool { return r > 127 }),
	}, float64(len(all)) / 4 // tokens, about
}

// ServeHTTP asks troupe for a model, sends the request there, and says what it cost. When the model fails, that is a
// reward of 0 with its cost, and the others are tried in their order.
func (r *router) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, 4<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	var c chat
	var whole map[string]any
	if err := errors.Join(json.Unmarshal(body, &c), json.Unmarshal(body, &whole)); err != nil {
		http.Error(w, "the body is not a chat completion: "+err.Error(), http.StatusBadRequest)
		return
	}
	context, in := c.features()
	ask := client.DecideRequest{Context: context}
	for _, u := range r.upstreams {
		out := u.Tokens
		if out == 0 {
			out = 300
		}
		cost := u.cost(in, out)
		ask.Actions = append(ask.Actions, client.Action{ID: u.ID, Cost: &cost})
	}
	order, stated := slices.Clone(r.upstreams), 0.
	event := ""
	if d, err := r.troupe.Decide(q.Context(), r.model, ask); err != nil {
		log.Printf("troupe: %v; the first model answers", err) // a router that cannot choose still answers
	} else {
		event = d.EventID
		chosen := order[d.Action.Index]
		stated = *ask.Actions[d.Action.Index].Cost
		order = slices.Insert(slices.Delete(order, d.Action.Index, d.Action.Index+1), 0, chosen)
	}
	for i := range order {
		a, err := r.forward(w, q, &order[i], whole, c.Stream, event)
		if i == 0 && event != "" {
			r.report(q.Context(), event, a.cost(&order[i], stated), a.fault(err))
		}
		if err != nil {
			log.Printf("%s: %v", order[i].ID, err)
		}
		if err == nil || a.began {
			return
		}
	}
	http.Error(w, "no model answers", http.StatusBadGateway)
}

// report tells troupe the cost of the choice. The reward comes from the application, which knows whether the answer was
// good; a failure is known here.
func (r *router) report(ctx context.Context, event string, cost float64, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var err error
	if failed != nil {
		_, err = r.troupe.RewardCost(ctx, event, 0, cost)
	} else {
		_, err = r.troupe.Cost(ctx, event, cost)
	}
	if err != nil {
		log.Printf("troupe: %v", err)
	}
}

// answer is what is known of an answer when it ended.
type answer struct {
	began   bool  // a part of it went to the caller
	left    bool  // the caller did not wait for its end
	refused bool  // the upstream refused the request, which costs nothing
	usage   usage // what the upstream charges for
}

// cost is what an answer cost at an upstream. Where the upstream did not say, and may have charged, it is the cost that
// was stated for the decision: a cost of 0 would let the budget never bind.
func (a *answer) cost(u *Upstream, stated float64) float64 {
	if a.began && !a.refused && !a.usage.known {
		return stated
	}
	return u.cost(a.usage.in, a.usage.out)
}

// fault is the error of the upstream: a caller that left is none.
func (a *answer) fault(err error) error {
	if a.left {
		return nil
	}
	return err
}

// errNoUsage is the error of an answer whose cost is not known. The upstream is one that a budget cannot use.
var errNoUsage = errors.New("the answer has no usage with prompt_tokens and completion_tokens: its cost is taken to be as stated")

// forward sends the request to an upstream and its answer to the caller, as it comes.
func (r *router) forward(w http.ResponseWriter, q *http.Request, u *Upstream, whole map[string]any, stream bool,
	event string) (out answer, err error) {
	whole["model"] = u.ID
	if stream {
		whole["stream_options"] = map[string]any{"include_usage": true}
	}
	body, err := json.Marshal(whole)
	if err != nil {
		return out, err
	}
	up, err := http.NewRequestWithContext(q.Context(), http.MethodPost, u.URL, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	up.Header.Set("Content-Type", "application/json")
	if key := q.Header.Get("Authorization"); key != "" {
		up.Header.Set("Authorization", key)
	}
	res, err := http.DefaultClient.Do(up)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		return out, fmt.Errorf("status %d", res.StatusCode)
	}
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.Header().Set("Troupe-Event", event) // for the reward
	w.Header().Set("Troupe-Model", u.ID)
	w.WriteHeader(res.StatusCode)
	out.began, out.refused = true, res.StatusCode >= 400
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	m := meter{events: kind == "text/event-stream"}
	chunk := make([]byte, 1<<15)
	for {
		n, err := res.Body.Read(chunk)
		m.add(chunk[:n])
		if _, failed := w.Write(chunk[:n]); failed != nil {
			out.left = true
			return out, failed
		}
		if f, ok := w.(http.Flusher); ok && m.events {
			f.Flush()
		}
		if err == nil {
			continue
		}
		out.usage = m.end()
		out.left = q.Context().Err() != nil
		if err == io.EOF && (out.usage.known || out.refused) {
			return out, nil
		} else if err == io.EOF {
			return out, errNoUsage
		}
		return out, err
	}
}
