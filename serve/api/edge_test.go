package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
	"troupe/serve"
)

// A key with patterns gets the metrics of its models only, however many others are in front of them in the
// alphabet; the name of the scheme may be written in any case.
func TestMetricsOfPatterns(t *testing.T) {
	f := newFake("news-1", "zoo")
	for i := range maxModelLabels + 5 {
		must(f.CreateModel(t.Context(), serve.DefaultConfig(fmt.Sprintf("a%03d", i)), ""))
	}
	secret, table, err := NewKey("k", []string{"read"}, []string{"news-*"})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys("keys.toml", table, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newEdge(t, f, Options{Keys: keys})
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
		a := e.do("GET", "/metrics", "", "Authorization", scheme+secret)
		a.want(t, scheme, 200, `troupe_model_decisions_total{model="news-1"}`, `troupe_model_failed{model="news-1"}`, "troupe_ready 1")
		if n := strings.Count(a.body, "model="); n != len(modelNumbers)+len(noteNumbers)+2 {
			t.Errorf("%d series have a model, want those of news-1: %d", n, len(modelNumbers)+len(noteNumbers)+2)
		}
	}
	e.do("GET", "/metrics", "", "Authorization", "Bearerx "+secret).want(t, "another scheme", 401)
	e.do("GET", "/metrics", "", "Authorization", secret).want(t, "no scheme", 401)
	all := newEdge(t, f, Options{}).do("GET", "/metrics", "").body
	if n := strings.Count(all, "troupe_model_failed{"); n != maxModelLabels {
		t.Errorf("%d models are shown, want %d", n, maxModelLabels)
	}
}

// Behind a body with Content-Length and Transfer-Encoding a second request may be hidden: it is never
// answered. A body with a length keeps its connection.
func TestSmuggledRequest(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	addr := e.serveOn(t)
	const hidden = "GET /v1/models/hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		name, head, body string
		answers          int
	}{
		{"both", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", 1},
		{"chunked", "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", 1},
		{"length", "Content-Length: 2\r\n", "{}", 2},
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/models/news:decide HTTP/1.1\r\nHost: x\r\n%s\r\n%s%s", c.head, c.body, hidden)
		conn.SetReadDeadline(time.Now().Add(await.Limit / 2))
		in, answers := bufio.NewReader(conn), 0
		for {
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				break
			}
			r.Body.Close()
			if answers++; answers == 2 { // not before: a server that sees the end has nobody to answer
				conn.(*net.TCPConn).CloseWrite()
			}
		}
		conn.Close()
		if answers != c.answers {
			t.Errorf("%s: %d answers, want %d", c.name, answers, c.answers)
		}
	}
}

// Ids with control characters are refused wherever a new one comes in, by their field and without the id; a
// model that has such an id already can still be changed.
func TestControlCharacters(t *testing.T) {
	f := newFake("news")
	e := newEdge(t, f, Options{})
	for _, bad := range []string{`a\u0000b`, `a\u202eb`, `a\u001b[2J`, `\u2066`, `a\u0085`, `\u2028`} {
		for _, c := range [][3]string{
			{"POST", "/v1/models/news:decide", `{"actions":[{"id":"ok"},{"id":"%s"}]}`},
			{"POST", "/v1/models/news:decideBatch", `{"requests":[{"actions":[{"id":"ok"},{"id":"%s"}]}]}`},
			{"POST", "/v1/models/news/actions", `{"actions":[{"id":"ok"},{"id":"%s"}]}`},
			{"POST", "/v1/models", `{"id":"m","actions":[{"id":"ok"},{"id":"%s"}]}`},
			{"PUT", "/v1/models/news", `{"id":"news","actions":[{"id":"ok"},{"id":"%s"}]}`},
			{"PATCH", "/v1/models/news", `{"actions":[{"id":"ok"},{"id":"%s"}]}`},
		} {
			a := e.do(c[0], c[1], fmt.Sprintf(c[2], bad), "If-Match", "*")
			a.want(t, c[0]+" "+c[1]+" "+bad, 422, "actions[1].id", "the control character U+")
		}
		e.do("POST", "/v1/models/news:decide", fmt.Sprintf(`{"ids":["%s"],"packed":{}}`, bad)).want(t, "ids", 422, "ids[0]")
	}
	if len(f.decides) > 0 || len(f.models) != 1 {
		t.Errorf("refused requests reached the service: %d decisions, %d models", len(f.decides), len(f.models))
	}
	// Joiners and other scripts are no control characters.
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"👩`+"\u200d"+`🚀"},{"id":"می`+"\u200c"+`خواهم"},{"id":"é 日本"}]}`).want(t, "joiners", 200)
	f.models["news"].Config.Actions = []serve.Entry{{ID: "a\x00b"}}
	e.do("PATCH", "/v1/models/news", `{"floor":0.1}`, "If-Match", "*").want(t, "an old id", 200)
	e.do("DELETE", "/v1/models/news/actions/a%00b", "").want(t, "delete an old id", 200)
}

// Candidates that a model cannot tell apart, and values that change their type, are counted in the metrics.
func TestMetricsOfNotes(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id":"m"}`).want(t, "create", 201)
	var last uint64
	for _, x := range []string{`{"age":30}`, `{"age":31}`, `{"age":"32"}`} {
		a := e.do("POST", "/v1/models/m:decide", `{"context":`+x+`,"actions":[{"features":{"price":0.5}},{"features":{"price":0.5}}]}`)
		a.want(t, "decide", 200)
		last = field[uint64](t, a, "seq")
	}
	e.do("POST", "/v1/models/m:decide", fmt.Sprintf(`{"min_seq":%d,"actions":[{"id":"a"}]}`, last)).want(t, "when they are applied", 200)
	e.do("GET", "/metrics", "").want(t, "metrics", 200, `troupe_model_alike_candidates_total{model="m"} 3`, `troupe_model_mistyped_features_total{model="m"} 1`)
}

// TestCloneWithPolicy: a copy with another policy over HTTP; what is wrong in it is named with its path.
func TestCloneWithPolicy(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id":"v","dim":2,"policy":{"kind":"ensemble","m":8}}`).want(t, "create", 201)
	for range 5 {
		var d struct {
			ID string `json:"event_id"`
		}
		json.Unmarshal([]byte(e.do("POST", "/v1/models/v:decide", `{"actions":[{"id":"a","features":[0.5,0]},{"id":"b","features":[0,0.5]}]}`).body), &d)
		e.do("POST", "/v1/events/"+d.ID+":reward", `{"value":1}`).want(t, "reward", 200)
	}
	for body, want := range map[string]string{
		`{"name":"w","policy":{"kind":"autos"}}`:                                                       `"field":"policy.kind"`,
		`{"name":"w","policy":{"kind":"auto","mm":3}}`:                                                 `"field":"policy.mm"`,
		`{"name":"w","policy":{"kind":"hashed"}}`:                                                      "leave policy out",
		`{"name":"w","features":{"model":"hashed"}}`:                                                   "leave features out",
		`{"name":"w","features":{"features":[{"feature":"id","kind":"category","levels":["a","b"]}]}}`: "not the requests",
		`{"name":"w","sigma":-1}`:                                                                      `"field":"sigma"`,
		`{"name":"w","policy":{"kind":"ensemble","m":8}}`:                                              "is what the model has",
		`{"name":"w","policy":{"kind":"auto"},"floor":0.1}`:                                            "floor",
	} {
		e.do("POST", "/v1/models/v:clone", body).want(t, body, 422, want)
	}
	e.do("POST", "/v1/models/v:clone", `{"name":"w","policy":{"kind":"auto"}}`).want(t, "clone", 201, `"kind":"auto"`, `"learned":5`)
	e.do("POST", "/v1/models/w:decide", `{"actions":[{"id":"a","features":[0.5,0]},{"id":"b","features":[0,0.5]}]}`).want(t, "decide", 200)
}

// TestSchemaNotes: what a schema ignores or clamps is in the answer, in the model, in the metrics, on its page, and in the
// first line of the status page.
func TestSchemaNotes(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id":"s","features":{"unknown":"ignore","features":[{"feature":"action.price","kind":"number","range":[0,1],"outside":"clamp"}]}}`).want(t, "create", 201)
	var last struct{ Seq uint64 }
	decide := func(price string) answer {
		a := e.do("POST", "/v1/models/s:decide", `{"min_seq":`+fmt.Sprint(last.Seq)+`,"context":{"city":"Oslo"},"actions":[{"id":"a","features":{"price":0.5}},{"id":"b","features":{"price":`+price+`}}]}`)
		json.Unmarshal([]byte(a.body), &last)
		return a
	}
	for range 9 {
		decide("0.7").want(t, "decide", 200, `the schema does not name it`, `(seen in \"context.city\")`)
	}
	decide("7").want(t, "decide", 200, `the schema does not name it`, `clamped`, `(seen in \"action.price\")`)
	decide(`"7"`).want(t, "a declared schema is strict", 422, "expected a number")
	if a := decide("0.7"); strings.Contains(a.body, "does not name it") {
		t.Errorf("after ten decisions the answer still warns: %s", a.body)
	}
	e.do("POST", "/v1/models/s:decide", `{"min_seq":`+fmt.Sprint(last.Seq)+`,"actions":[{"id":"a","features":{"price":0.5}}]}`).want(t, "after the eleven", 200)
	e.do("GET", "/v1/models/s", "").want(t, "model", 200, `"notes":{"clamped":1,"ignored":11}`, "a feature or a level was ignored")
	e.do("GET", "/metrics", "").want(t, "metrics", 200, `troupe_model_ignored_features_total{model="s"} 11`, `troupe_model_clamped_features_total{model="s"} 1`)
	e.do("GET", "/models/s", "").want(t, "page", 200, "a feature or a level was ignored", "context.city", "Decisions by what encoding met: clamped 1, ignored 11.")
	e.do("GET", "/", "").want(t, "status page", 200, "One model, no decision in the last hour. One model has a warning.")
}

// Without a key, a server that has keys says whether it is ready and nothing of the other nodes: no name, version or
// fingerprint, also not in the reason. A server without keys tells everybody.
func TestReadyzTellsStrangersLittle(t *testing.T) {
	secrets, list := map[string]string{}, ""
	for _, s := range []string{"decide", "reward", "read", "admin", "backup"} {
		secret, table, err := NewKey(s, []string{s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		secrets[s], list = secret, list+table
	}
	keys, err := ParseKeys("keys.toml", list, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.health.Cluster = &serve.ClusterHealth{Node: "node-a", LogVersion: 3, Digest: "agrees", Nodes: []serve.NodeHealth{{Name: "node-a"}, {Name: "node-b"}}}
	f.health.Failed = []string{"broken-model"}
	private := []string{"broken-model", "node-a", "node-b", "log_version", "keys", "digest"}
	e := newEdge(t, f, Options{Keys: keys})
	for _, ready := range []bool{true, false} {
		f.health.Ready, f.health.Reason = ready, ""
		status := 200
		if !ready {
			status, f.health.Reason = 503, "this node has not reached node-b for 34 s"
		}
		for name, secret := range map[string]string{"": "", "unknown": "troupe_x_00", "decide": secrets["decide"], "reward": secrets["reward"]} {
			a := e.do("GET", "/readyz", "", "X-API-Key", secret)
			a.want(t, "readyz with the key "+name, status, `"ready":`+fmt.Sprint(ready), `"durability":"majority"`)
			for _, word := range private {
				if strings.Contains(a.body, word) {
					t.Errorf("key %q: /readyz tells %s: %s", name, word, a.body)
				}
			}
		}
		for _, name := range []string{"read", "admin", "backup"} {
			e.do("GET", "/readyz", "", "X-API-Key", secrets[name]).want(t, "readyz with the key "+name, status, `"node":"node-a"`, f.health.Reason)
		}
		newEdge(t, f, Options{}).do("GET", "/readyz", "").want(t, "readyz of a server without keys", status, `"node":"node-a"`, f.health.Reason)
	}
}

// TestDepartWide: a key with patterns does not send the callers of its models, with their keys, to another server.
func TestDepartWide(t *testing.T) {
	secret, table, err := NewKey("k", []string{"admin"}, []string{"news-*"})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys("keys.toml", table, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := must(serve.Open(t.Context(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	defer s.Close(context.Background())
	e := &edge{API: must(New(s, Options{Keys: keys})), t: t}
	auth := []string{"Authorization", "Bearer " + secret}
	e.do("POST", "/v1/models", `{"id": "news-1"}`, auth...).want(t, "create", 201)
	e.do("POST", "/v1/models/news-1:depart", `{"to": "https://b.example"}`, auth...).want(t, "depart", 403, "expected a key without patterns")
	e.do("GET", "/v1/models/news-1/move", "", auth...).want(t, "how far it is", 200, `"state":"here"`)
	for _, to := range []string{"https://b.example?x", "https://u@b.example", "https://b.example#x", "ftp://b.example"} {
		if _, err := serve.MovesOf(s).Depart(t.Context(), "news-1", to, ""); serve.CodeOf(err) != serve.Invalid {
			t.Errorf("to %s: %v", to, err)
		}
	}
}
