package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"troupe/client"
)

// TestUsage: the tokens of an answer are found in every layout of JSON and of a stream, whatever the pieces in which it comes.
func TestUsage(t *testing.T) {
	const u = `"usage":{"prompt_tokens":1000,"completion_tokens":500}`
	found, none := usage{1000, 500, true}, usage{}
	for _, c := range []struct {
		name   string
		events bool
		answer string
		want   usage
	}{
		{"one line", false, `{"choices":[],` + u + `}`, found},
		{"indented", false, "{\n  \"choices\": [],\n  \"usage\": {\n    \"prompt_tokens\": 1000,\n    \"completion_tokens\": 500\n  }\n}\n", found},
		{"carriage returns", false, "{\r\n\"usage\":\r\n{\"completion_tokens\":500,\r\n\"prompt_tokens\":1.0e3}}", found},
		{"usage in a text", false, `{"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}"}}],` + u + `}`, found},
		{"only in a text", false, `{"choices":[{"message":{"content":"\n{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n"}}]}`, none},
		{"a line of the text is JSON", false, "{\"a\":\n{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n}", none},
		{"null", false, `{"usage":null}`, none},
		{"half", false, `{"usage":{"prompt_tokens":1000}}`, none},
		{"zeros", false, `{"usage":{"prompt_tokens":0,"completion_tokens":0}}`, none},
		{"negative", false, `{"usage":{"prompt_tokens":-1,"completion_tokens":5}}`, none},
		{"cut off", false, `{` + u, none},
		{"empty", false, ``, none},
		{"stream", true, "data: {\"choices\":[],\"usage\":null}\n\ndata: {" + u + "}\n\ndata: [DONE]\n\n", found},
		{"stream with carriage returns", true, "data: {}\r\n\r\ndata: {" + u + "}\r\n\r\ndata: [DONE]\r\n\r\n", found},
		{"no blank after the colon", true, "data:{" + u + "}\n\ndata:[DONE]\n\n", found},
		{"an event over lines", true, "event: chunk\ndata: {\"usage\":\ndata: {\"prompt_tokens\":1000,\ndata: \"completion_tokens\":500}}\n\n", found},
		{"comments", true, ": ping\n\ndata: {" + u + "}\n: ping\n\n", found},
		{"without an end", true, "data: {" + u + "}", found},
		{"told in each part", true, "data: {\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":1}}\n\ndata: {" + u + "}\n\n", found},
		{"stream without usage", true, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", none},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			m := meter{events: c.events}
			for b := []byte(c.answer); len(b) > 0; b = b[min(size, len(b)):] {
				m.add(b[:min(size, len(b))])
			}
			if got := m.end(); got != c.want {
				t.Errorf("%s, in pieces of %d bytes: %+v, want %+v", c.name, size, got, c.want)
			}
		}
	}
}

// TestNoUsage: an answer without usage goes to the caller, and the server hears of a failure that cost what was stated; one that
// was refused cost nothing.
func TestNoUsage(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		status       int
		cost         float64 // as a share of the stated cost
		failed       bool
	}{
		{"indented", "{\n\"usage\":\n{\"prompt_tokens\":3,\n\"completion_tokens\":300}}", 200, 1, false},
		{"without usage", `{"choices":[]}`, 200, 1, true},
		{"no JSON", `hello`, 200, 1, true},
		{"refused", `{"error":{"message":"too long"}}`, 400, 0, false},
	} {
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			w.Write([]byte(c.answer))
		}))
		var reward struct{ Value, Cost *float64 }
		var stated float64
		troupe := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, ":decide") {
				var q struct{ Actions []struct{ Cost float64 } }
				if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
					t.Error(err)
				}
				stated = q.Actions[0].Cost
				w.Write([]byte(`{"event_id":"e","action":{"id":"a","index":0}}`))
				return
			}
			if err := json.NewDecoder(r.Body).Decode(&reward); err != nil {
				t.Error(err)
			}
			w.Write([]byte(`{"status":"accepted"}`))
		}))
		cl, err := client.New(troupe.URL, client.Options{Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		proxy := httptest.NewServer(&router{troupe: cl, model: "router", upstreams: []Upstream{{ID: "a", URL: upstream.URL, Input: 1, Output: 1}}})
		a, err := http.Post(proxy.URL, "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"0123456789"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		proxy.Close() // after the report
		troupe.Close()
		upstream.Close()
		if reward.Cost == nil || *reward.Cost != c.cost*stated || stated != 303e-6 || (reward.Value != nil) != c.failed ||
			a.StatusCode != c.status {
			t.Errorf("%s: status %d, reward %v, cost %v, stated %v", c.name, a.StatusCode, reward.Value, reward.Cost, stated)
		}
	}
}

// TestCallerLeft: a caller that does not wait is no fault of the upstream, and the stated cost stands.
func TestCallerLeft(t *testing.T) {
	u := &Upstream{Input: 1, Output: 1}
	a := answer{began: true, left: true}
	if a.fault(errors.New("broken pipe")) != nil || a.cost(u, 5) != 5 {
		t.Errorf("%v, %v", a.fault(errors.New("broken pipe")), a.cost(u, 5))
	}
}
