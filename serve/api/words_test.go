package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"troupe/internal/await"
)

// TestRefusalsSayWhatToSend: a refusal says what stands there, what is expected and how to go on. Each row once said something
// else, or was taken.
func TestRefusalsSayWhatToSend(t *testing.T) {
	e, _ := newReal(t, Options{MaxActions: 4})
	e.do("POST", "/v1/models", `{"id":"m"}`).want(t, "create", 201)
	const decide = "/v1/models/m:decide"
	for _, c := range []struct {
		method, path, body string
		status             int
		field, detail      string
	}{
		{"POST", decide, `null`, 422, "", "is null, expected a JSON object"},
		{"POST", decide, ` null `, 422, "", "is null, expected a JSON object"},
		{"POST", "/v1/models", `null`, 422, "", "is null, expected a table"},
		{"POST", decide, `{"actions":[null]}`, 422, "actions[0]", "is null, expected an object"},
		{"POST", decide, `{"actions":[{"id":"a"},null]}`, 422, "actions[1]", "is null, expected an object"},
		{"POST", "/v1/models/m:decideBatch", `{"requests":[null]}`, 422, "requests[0]", "is null, expected an object"},
		{"POST", "/v1/models/m:decideBatch", `{"requests":[{"actions":[{"id":"a"},null]}]}`, 422, "requests[0].actions[1]", "is null, expected an object"},
		{"POST", decide, `{"actions":[{"id":"a"}],"exclude":[null]}`, 422, "exclude[0]", "is null, expected a string"},
		{"POST", decide, `{"actions":[{"id":"a"}],"available":[null]}`, 422, "available[0]", "is null, expected true or false"},
		{"POST", decide, `{"packed":{},"costs":[1,null]}`, 422, "costs[1]", "is null, expected a number"},
		{"POST", "/v1/rewards:batch", `{"rewards":[null]}`, 422, "rewards[0]", "is null, expected an object"},
		{"POST", decide, `{"actions":[{"id":""},{"id":"b"}]}`, 422, "actions[0].id", "is empty, expected an id"},
		{"POST", decide, `{"actions":[{"id":1}]}`, 422, "actions[0].id", "is a number, expected a string"},
		{"POST", decide, `{"actions":{"id":1}}`, 422, "actions", "is an object, expected a list"},
		{"POST", "/v1/models/m/actions", `{"actions":[{"id":"a","cost":-1},{"id":"a"}]}`, 422, "actions[1].id", "is the id of two actions"},
		{"POST", decide, `{"actions":[{"id":"a"}],"baseline":-1}`, 422, "baseline", "expected the place of an action, from 0"},
		{"POST", decide, `{"context":[1,null],"actions":[{"id":"a"}]}`, 200, "", ""},
		{"POST", decide, `{"context":{"id":"","x":[{"id":""}]},"actions":[{"features":{"id":""}}]}`, 200, "", ""},
		{"POST", decide, `{"context":null,"actions":[{"id":"a","features":null}],"baseline":null}`, 200, "", ""},
		{"POST", decide, `{"actions":[{},{},{},{},{}]}`, 413, "actions", "has 5 entries, at most 4 are allowed (--max-actions of the server)"},
		{"POST", "/v1/models", `{"id":"x","floor":null}`, 422, "floor", "is null, expected a number"},
		{"POST", "/v1/models", `{"id":"x","mode":null}`, 422, "mode", "is null, expected a string"},
		{"POST", "/v1/models", `{"id":"x","budget":{"mean":0}}`, 422, "budget.mean", "is 0, expected money"},
		{"POST", "/v1/models", `{"id":"x","budget":{"total":0}}`, 422, "budget.total", "is 0, expected money"},
		{"POST", "/v1/models", `{"id":"x","budget":{}}`, 422, "budget", "is empty"},
		{"POST", "/v1/models", `{"id":"x","budget":{"mean":-1}}`, 422, "budget.mean", "is -1, expected money for a decision, from 1e-15 to 1e+15"},
		{"POST", "/v1/models", `{"id":"x","budget":{"mean":1e16}}`, 422, "budget.mean", "is 1e+16, expected money for a decision"},
		{"POST", "/v1/models", `{"id":"x","budget":{"total":-2}}`, 422, "budget.total", "is -2, expected money for a day"},
		{"POST", "/v1/models", `{"id":"x","budget":{"mean":1,"total":2}}`, 422, "budget.total", "is 2 beside mean = 1, expected one of them"},
		{"POST", "/v1/models", `{"id":"x","budget":{"mean":1,"carry":true}}`, 422, "budget.carry", "goes with total"},
		{"POST", "/v1/models", `{"id":"x","reward":{"min":-1e308,"max":1e308}}`, 422, "reward.max", "is 1e+308, too far from min"},
		{"POST", "/v1/models", `{"id":"x","policy":{"kind":"x"}}`, 422, "policy.kind", `unknown kind "x"; expected one of `},
		{"POST", "/v1/models", `{"id":"x","policy":{"kind":"efects"}}`, 422, "policy.kind", `did you mean "effects"?`},
		{"POST", "/v1/models", `{"id":"x","policy":{"kind":"hashed"}}`, 422, "policy.kind", `which is not there any more: leave policy out`},
		{"POST", "/v1/models", `{"id":"x","features":{"model":"hashed"}}`, 422, "features.model", `which is not there any more: leave features out`},
		{"POST", "/v1/models", `{"id":"x","policy":{"kind":"sparse"}}`, 422, "policy.kind", `give features (a schema) or dim, or leave policy out`},
		{"POST", "/v1/models", `{"id":"x","policy":{"kind":"nothing"}}`, 422, "policy.kind", `unknown kind "nothing"; expected one of `},
		{"POST", "/v1/models", `{"id":"x","dim":2,"policy":{"kind":"ensemble","lambda":1e-308}}`, 422, "policy", "cannot decide with these options"},
		{"POST", "/v1/models", `{"id":"x","dim":2,"policy":{"kind":"ensemble","lambda":1e-30}}`, 422, "policy.lambda", "expected 0 or a number whose size is from 1e-15 to 1e15"},
		{"PATCH", "/v1/models/m", `{"policy":{"kind":"sparse"}}`, 422, "policy", "cannot change; clone the model with another policy"},
		{"PATCH", "/v1/models/m", `{"reward":{"min":0,"max":1}}`, 422, "reward", "the range cannot change from [0, 1], which a reward outside of it widens; the policy"},
		{"PUT", "/v1/models/m", `{"reward":{"min":0,"max":1}}`, 422, "reward", "make another model with this range"},
	} {
		a := e.do(c.method, c.path, c.body, "If-Match", "*")
		var p Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil {
			t.Fatal(err)
		}
		if a.status != c.status || p.Field != c.field || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s %s: %d, field %q: %s; want %d, field %q: %s", c.path, c.body, a.status, p.Field, p.Detail, c.status, c.field, c.detail)
		}
		if strings.Contains(p.Detail, `"ts"`) {
			t.Errorf("%s: a kind is proposed that would be refused: %s", c.body, p.Detail)
		}
	}
}

// TestBodiesOfTheWire: a body that never comes is 408, one whose length is too large is 413 before it is sent, one that is not
// as its headers say is 400; no fault of a client is a line of level ERROR.
func TestBodiesOfTheWire(t *testing.T) {
	var log bytes.Buffer
	serves := func(limit time.Duration) string {
		o := Options{MaxBody: 1 << 20, Timeout: limit, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		return newEdge(t, newFake("m"), o).serveOn(t)
	}
	const limit = 300 * time.Millisecond
	short, patient := serves(limit), serves(await.Limit)
	for _, path := range []string{"/v1/models/m:decide", "/v1/events/e:reward", "/v1/models", "/v1/models/m:createFrom"} {
		for _, c := range []struct {
			name, rest string
			status     int
			atOnce     bool
		}{
			{"nothing comes", "Content-Length: 100\r\n\r\n{", 408, false},
			{"nothing comes in chunks", "Transfer-Encoding: chunked\r\n\r\n5\r\n", 408, false},
			{"a length of 9e18", "Content-Length: 9000000000000000000\r\n\r\n{", 413, true},
			{"one byte above", "Content-Length: 1048577\r\n\r\n{", 413, true},
			{"no size of a chunk", "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400, true},
			{"a wrong size of a chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n0\r\n\r\n", 400, true},
			{"a negative size of a chunk", "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n", 400, true},
		} {
			large := path == "/v1/models/m:createFrom"
			if large && c.name == "one byte above" {
				continue // up to 64 MiB
			}
			t.Run(path+" "+c.name, func(t *testing.T) {
				address := short
				if c.atOnce {
					address = patient
				}
				begin := time.Now()
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(await.Limit / 2))
				kind := "application/json"
				if large {
					kind = "application/octet-stream"
				}
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n%s", path, address, kind, c.rest)
				line := make([]byte, len("HTTP/1.1 200"))
				if _, err := conn.Read(line); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); !c.atOnce && took < limit {
					t.Errorf("answered after %v, want the time that a body has, %v", took, limit)
				}
				if string(line) != fmt.Sprintf("HTTP/1.1 %d", c.status) {
					t.Errorf("%s, want %d", line, c.status)
				}
			})
		}
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the faults of clients are errors of the server:\n%s", log.String())
	}
}
