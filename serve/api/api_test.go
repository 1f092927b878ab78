package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unique"

	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/serve"
	"troupe/timing"
)

// A model from its creation to its end, with the preconditions on the way.
func TestModels(t *testing.T) {
	e := newEdge(t, newFake(), Options{})
	a := e.do("POST", "/v1/models", `{"id":"news","reward":{"min":0,"max":1}}`)
	a.want(t, "create", 201, `"name":"news"`, `"config_version":1`)
	if a.header.Get("ETag") != `"1"` || a.header.Get("Location") != "/v1/models/news" {
		t.Errorf("create: ETag %s, Location %s", a.header.Get("ETag"), a.header.Get("Location"))
	}
	if strings.Contains(a.body, "$schema") {
		t.Errorf("create: the answer has a $schema link: %s", a.body)
	}
	e.do("POST", "/v1/models", `{"id":"news"}`).want(t, "create again", 409, `"code":"conflict"`)
	e.do("GET", "/v1/models/news", "").want(t, "get", 200, `"news"`)
	e.do("GET", "/v1/models/nothing", "").want(t, "get another", 404, `"code":"not_found"`)

	e.do("PATCH", "/v1/models/news", `{"floor":0.1}`).want(t, "change without If-Match", 428, "precondition_required")
	e.do("PATCH", "/v1/models/news", `{"floor":0.1}`, "If-Match", `"7"`).want(t, "change of another version", 412, "precondition_failed")
	e.do("PATCH", "/v1/models/news", `{"floor":0.1}`, "If-Match", `7`).want(t, "change with a bad ETag", 412, "precondition_failed")
	a = e.do("PATCH", "/v1/models/news", `{"floor":0.1,"reward":{"rule":"sum"}}`, "If-Match", `"1"`)
	a.want(t, "change", 200, `"floor":0.1`)
	if c := e.fake.models["news"].Config; c.Reward.Min != 0 || c.Reward.Rule != "sum" || c.Floor != 0.1 {
		t.Errorf("a merge patch left %+v: it must keep what it does not name", c.Reward)
	}
	e.do("PATCH", "/v1/models/news", `{"flor":0.1}`, "If-Match", "*").want(t, "change of an unknown field", 422, "flor", "floor")
	e.do("PUT", "/v1/models/news", `{"id":"news"}`, "If-Match", a.header.Get("ETag")).want(t, "replace", 200, `"floor":0`)
	e.do("PUT", "/v1/models/news", `{"id":"other"}`, "If-Match", "*").want(t, "replace the id", 422, `"field":"id"`)
	e.do("PUT", "/v1/models/news", `{"floor":0.2}`, "If-Match", "*").want(t, "replace without the id", 200, `"floor":0.2`)

	e.do("POST", "/v1/models/news:pause", "").want(t, "pause", 200, `"paused":true`)
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`).want(t, "decide of a paused model", 409, `"code":"paused"`)
	e.do("POST", "/v1/models/news%3Aresume", "").want(t, "resume with %3A", 200, `"paused":false`)
	e.do("POST", "/v1/models/news:clone", `{"name":"copy","at_seq":3}`).want(t, "clone", 201, `"name":"copy"`)
	e.do("POST", "/v1/models/news:rollback", `{"to_seq":3,"keep_later":true}`).want(t, "roll back", 200)
	if r := e.fake.rollback; r.ToSeq != 3 || !r.KeepLater || r.Name != "news" {
		t.Errorf("roll back asked for %+v", r)
	}
	e.do("GET", "/v1/models/news/state", "").want(t, "state", 200, `"theta":[1,2]`)
	if a := e.do("GET", "/v1/models/news/state?format=binary", ""); a.body != "\x00\x01\x02" || a.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("state in binary: %q, %s", a.body, a.header.Get("Content-Type"))
	}
	e.do("GET", "/v1/models/news/state?format=xml", "").want(t, "state in xml", 422, `"field":"query.format"`)
	e.do("GET", "/v1/models/news/state?foo=1", "").want(t, "an unknown parameter", 422, `"field":"query.foo"`)
	e.do("DELETE", "/v1/models/news", "").want(t, "delete", 204)
	e.do("DELETE", "/v1/models/news", "").want(t, "delete again", 404)
}

// The catalogue is edited entry by entry, whatever is in an id.
func TestCatalogue(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	e.do("POST", "/v1/models/news/actions", `{"actions":[{"id":"b:reward","features":{"p":1}},{"id":"a"}]}`).want(t, "add", 200, `"config_version":2`)
	e.do("POST", "/v1/models/news/actions", `{"actions":[{"id":"a","features":{"p":2}},{"id":"c"}]}`).want(t, "replace", 200)
	e.do("GET", "/v1/models/news/actions?page_size=2", "").want(t, "list", 200, `{"actions":[{"id":"a","features":{"p":2}},{"id":"b:reward","features":{"p":1}}],"next_page_token":`)
	if a := e.do("GET", "/v1/models", ""); a.status != 200 || strings.Contains(a.body, `"actions"`) {
		t.Errorf("the list of models has catalogues in it: %s", a.body)
	}
	e.do("GET", "/v1/models/news", "").want(t, "the model has it", 200, `"actions":[`)
	e.do("POST", "/v1/models/news/actions", `{"actions":[{"features":{"p":2}}]}`).want(t, "no id", 422, `"field":"actions[0].id"`)
	e.do("POST", "/v1/models/news/actions", `{"actions":[{"id":"d"}]}`, "If-Match", `"1"`).want(t, "old version", 412)
	e.do("DELETE", "/v1/models/news/actions/b:reward", "").want(t, "delete", 200)
	e.do("DELETE", "/v1/models/news/actions/b:reward", "").want(t, "delete again", 404)
	if n := len(e.fake.models["news"].Config.Actions); n != 2 {
		t.Errorf("%d entries are left, want 2", n)
	}
}

// Pages of a list follow each other without holes; a key sees its own models only, in full pages.
func TestPages(t *testing.T) {
	f := newFake()
	for i := range 25 {
		kind := "news"
		if i%2 == 1 {
			kind = "mail"
		}
		name := fmt.Sprintf("%02d-%s", i, kind)
		f.models[name] = &serve.Model{Name: name, Config: serve.DefaultConfig(name)}
	}
	secret, table, err := NewKey("k", []string{"read"}, []string{"*-news"})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys("keys.toml", table, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys *Keys
		want int
	}{{nil, 25}, {keys, 13}} {
		e := newEdge(t, f, Options{Keys: c.keys})
		seen, token := map[string]bool{}, ""
		for pages := 0; ; pages++ {
			a := e.do("GET", "/v1/models?page_size=4&page_token="+token, "", "Authorization", "Bearer "+secret)
			var l struct {
				Models        []struct{ Name string }
				NextPageToken string `json:"next_page_token"`
			}
			if err := json.Unmarshal([]byte(a.body), &l); err != nil || a.status != 200 {
				t.Fatalf("status %d, %v: %s", a.status, err, a.body)
			}
			for _, m := range l.Models {
				if seen[m.Name] || c.keys != nil && !strings.HasSuffix(m.Name, "news") {
					t.Errorf("the list has %s", m.Name)
				}
				seen[m.Name] = true
			}
			token = l.NextPageToken
			if token == "" {
				break
			}
			if len(l.Models) != 4 || pages > 10 {
				t.Fatalf("page %d has %d models and is not the last", pages, len(l.Models))
			}
		}
		if len(seen) != c.want {
			t.Errorf("%d models were listed, want %d", len(seen), c.want)
		}
	}
	e := newEdge(t, f, Options{})
	e.do("GET", "/v1/models?page_token=%21", "").want(t, "a bad token", 422, "query.page_token")
	e.do("GET", "/v1/models?page_size=1001", "").want(t, "a large page", 422, "query.page_size")
}

// A decision reaches the service as it was sent, and its reward too.
func TestDecideAndReward(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	a := e.do("POST", "/v1/models/news:decide", `{"context":{"user":{"city":"Oslo","age":31}},
		"actions":[{"id":"a","features":{"price":0.4}},{"id":"b","features":{"price":0.9}}],
		"exclude":["x"],"available":[true,true],"baseline":1,"mode":"frozen","defer_activation":true,"min_seq":3,"explain":"full"}`,
		"Idempotency-Key", "once", "Content-Type", "application/x-www-form-urlencoded")
	a.want(t, "decide", 200, `"event_id":"EVENT1"`, `"propensity":{"num":3,"den":8}`, `"durable":true`, `"explain":[`)
	r := e.fake.decides[0]
	if string(r.Context) != `{"user":{"city":"Oslo","age":31}}` || string(r.Actions[1].Features) != `{"price":0.9}` || *r.Baseline != 1 ||
		r.Mode != serve.Frozen || !r.Deferred || r.MinSeq != 3 || !r.Explain || r.IdempotencyKey != "once" || r.Exclude[0] != "x" || len(r.Available) != 2 {
		t.Errorf("the service was asked for %+v", r)
	}
	e.do("POST", "/v1/events/EVENT1:reward", `{"value":1}`).want(t, "reward", 200, `{"status":"accepted","seq":6}`)
	e.do("POST", "/v1/events/EVENT1:reward", `{"value":0.5,"key":"k"}`).want(t, "reward with a key", 200)
	if r := e.fake.rewards; r[0].Value != 1 || r[1].Key != "k" || r[0].EventID != "EVENT1" {
		t.Errorf("rewards = %+v", r)
	}
	e.do("POST", "/v1/events/EVENT1:reward", `{"value":7}`).want(t, "reward out of range", 422, `"field":"value"`, "[-1, 1]")
	e.do("POST", "/v1/events/EVENT1:reward", `{}`).want(t, "reward without value", 422, `"field":"value"`)
	e.do("POST", "/v1/events/EVENT1:reward", `{"value":null}`).want(t, "reward null", 422, `"field":"value"`)
	e.do("POST", "/v1/events/EVENT9:reward", `{"value":1}`).want(t, "reward of a forged id", 400, "bad_event_id")
	e.do("POST", "/v1/events/EVENT1:activate", "").want(t, "activate", 200, `"accepted"`)
	e.do("GET", "/v1/events/EVENT1", "").want(t, "event", 200, `"model":"news"`)
	e.do("POST", "/v1/events/EVENT1:replay", "").want(t, "replay", 200, `"equal":true`)

	e.do("POST", "/v1/models/news:decideBatch", `{"requests":[{"actions":[{"id":"a"}]},{"actions":[]}]}`).want(t, "batch", 200,
		`{"results":[{"decision":{"event_id":"EVENT2"`, `"problem":{"type":"/docs#invalid"`)
	e.do("POST", "/v1/models/news:decideBatch", `{"requests":[]}`).want(t, "empty batch", 422, `"field":"requests"`)
	e.do("POST", "/v1/models/news:decideBatch", `{"requests":[{"actions":[{"id":"a"}]},{"actions":[{"id":"b"}]}]}`, "Idempotency-Key", "page").want(t, "keyed batch", 200)
	if e.fake.keys["page/0"] == "" || e.fake.keys["page/1"] == "" {
		t.Errorf("keys of a batch: %v", e.fake.keys)
	}
	e.do("POST", "/v1/rewards:batch", `{"rewards":[{"event_id":"EVENT2","value":1},{"event_id":"EVENT8","value":1},{"event_id":"EVENT1"}]}`).want(t, "rewards", 200,
		`{"results":[{"result":{"status":"accepted","seq":6}},{"problem":{`, "bad_event_id", `"field":"rewards[2].value"`)
}

// What the reader of bodies refuses: each case with its status, code and field, and none repeats
// what was sent.
func TestRefusedBodies(t *testing.T) {
	var log bytes.Buffer
	e := newEdge(t, newFake("news"), Options{MaxActions: 3, MaxBody: 4000, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for _, c := range []struct {
		name, body  string
		status      int
		code, field string
	}{
		{"nothing", ``, 400, "malformed", ""}, // TestDetails has the words
		{"not JSON", `SECRET`, 400, "malformed", ""},
		{"half", `{"context":{"SECRET":1}`, 400, "malformed", ""},
		{"a list", `[1]`, 422, "invalid", ""},
		{"unknown", `{"contxt":"SECRET"}`, 422, "unknown_field", "contxt"},
		{"unknown below", `{"actions":[{"id":"a","feature":"SECRET"}]}`, 422, "unknown_field", "actions[0].feature"},
		{"other case", `{"Actions":[]}`, 422, "unknown_field", "Actions"},
		{"twice", `{"mode":"SECRET","mode":"frozen"}`, 400, "malformed", "mode"},
		{"twice in a feature", `{"context":{"SECRET":1,"SECRET":2}}`, 400, "malformed", ""},
		{"more behind", `{} {"SECRET":1}`, 400, "malformed", ""},
		{"NaN", `{"context":{"age":NaN}}`, 400, "malformed", "context.age"},
		{"infinity", `{"min_seq":1e999}`, 422, "invalid", "min_seq"},
		{"wrong type", `{"actions":"SECRET"}`, 422, "invalid", "actions"},
		{"wrong type below", `{"actions":[{"id":7}]}`, 422, "invalid", "actions[0].id"},
		{"negative", `{"min_seq":-1}`, 422, "invalid", "min_seq"},
		{"fraction", `{"baseline":0.5}`, 422, "invalid", "baseline"},
		{"explain", `{"explain":"SECRET"}`, 422, "invalid", "explain"},
		{"not UTF-8", "{\"ids\":[\"SECRET\xff\"]}", 400, "malformed", "ids[0]"},
		{"deep", `{"context":` + strings.Repeat(`[`, 40) + `"SECRET"` + strings.Repeat(`]`, 40) + `}`, 422, "too_deep", ""},
		{"many actions", `{"actions":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"SECRET"}]}`, 413, "too_large", "actions"},
		{"long", `{"context":{"SECRET":"` + strings.Repeat("x", 5000) + `"}}`, 413, "too_large", ""},
	} {
		a := e.do("POST", "/v1/models/news:decide", c.body)
		var p Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: no problem+json: %v, %s, %s", c.name, err, a.header.Get("Content-Type"), a.body)
		}
		if a.status != c.status || p.Status != c.status || p.Code != c.code || c.field != "" && p.Field != c.field {
			t.Errorf("%s: %d %s of field %q (%s), want %d %s of %q", c.name, a.status, p.Code, p.Field, p.Detail, c.status, c.code, c.field)
		}
		if c.name != "twice in a feature" && strings.Contains(a.body, "SECRET") {
			t.Errorf("%s: the problem repeats the request: %s", c.name, a.body)
		}
	}
	if len(e.fake.decides) > 0 {
		t.Errorf("the service was asked %d times", len(e.fake.decides))
	}
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"SECRET"}],"context":{"city":"SECRET"}}`, "Idempotency-Key", "SECRET").want(t, "decide", 200)
	if log.Len() == 0 || strings.Contains(log.String(), "SECRET") {
		t.Errorf("the log is empty or repeats a request: %s", log.String())
	}
	e.do("POST", "/v1/models", `{"id":"x","policy":{"kind":"ensembel"}}`).want(t, "kind", 422, `"field":"policy.kind"`)
}

// What huma refuses says as much as what we refuse.
func TestDetails(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{MaxBody: 100})
	e.do("POST", "/v1/models/news:decide", "").want(t, "no body", 400, "the body is empty, expected a JSON object")
	e.do("POST", "/v1/models/news:clone", "").want(t, "no body", 400, "the body is empty, expected a JSON object")
	e.do("POST", "/v1/models/news:decide", strings.Repeat(" ", 101)).want(t, "long", 413, "the body has more than 100 bytes")
	e.do("GET", "/v1/models/news/log?from=-1", "").want(t, "negative", 422, `"detail":"expected a whole number that fits","field":"query.from"`)
	a := e.do("POST", "/v1/models/news:decide", "\x1f\x8b", "Content-Encoding", "gzip")
	if a.want(t, "compressed", 415, `"field":"header.Content-Encoding"`, "without compression"); a.header.Get("Accept-Encoding") != "identity" {
		t.Errorf("Accept-Encoding %q", a.header.Get("Accept-Encoding"))
	}
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`, "Content-Encoding", "identity").want(t, "as it is", 200)
	e.fake.err = &serve.Error{Code: serve.Conflict, Field: "idempotency_key", Want: "words"}
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`).want(t, "a key", 409, `"field":"header.Idempotency-Key"`)
}

// Each code of the service has its status, and waiting times travel.
func TestServiceErrors(t *testing.T) {
	f := newFake("news")
	e := newEdge(t, f, Options{})
	for code, status := range map[serve.Code]int{
		serve.NotFound: 404, serve.BadEventID: 400, serve.Invalid: 422, serve.Conflict: 409, serve.Paused: 409,
		serve.Needed: 409, serve.Changing: 409,
		serve.Gone: 410, serve.TooBusy: 429, serve.Unavailable: 503, serve.Full: 507, serve.Internal: 500,
	} {
		f.err = fmt.Errorf("wrapped: %w", &serve.Error{Code: code, Field: "f", Value: "SECRET", Want: "words", RetryAfter: 1500 * time.Millisecond, Unknown: true, Err: errors.New("SECRET")})
		a := e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`)
		a.want(t, string(code), status, `"code":"`+string(code)+`"`)
		if strings.Contains(a.body, "SECRET") {
			t.Errorf("%s: the problem shows values or causes: %s", code, a.body)
		}
		if code != serve.Internal && (a.header.Get("Retry-After") != "2" || !strings.Contains(a.body, `"unknown_outcome":true`)) {
			t.Errorf("%s: Retry-After %q, body %s; want 2 and unknown_outcome", code, a.header.Get("Retry-After"), a.body)
		}
	}
	f.err = &serve.Error{Code: serve.Full}
	if a := e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`); a.header.Get("Retry-After") == "" {
		t.Error("507 without Retry-After")
	}
	f.err = errors.New("SECRET")
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`).want(t, "a strange error", 500, `"code":"internal"`)
	f.err = context.DeadlineExceeded
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`).want(t, "a deadline", 503, `"unknown_outcome":true`)
	e.do("GET", "/v1/nothing", "").want(t, "no route", 404, `"code":"not_found"`)
	if a := e.do("DELETE", "/v1/events/E:reward", ""); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Errorf("a wrong method: %d, Allow %q", a.status, a.header.Get("Allow"))
	}
}

// TestDrainNeeded: a node that may not be stopped now answers why, and takes calls as before.
func TestDrainNeeded(t *testing.T) {
	f := newFake("news")
	e := newEdge(t, f, Options{})
	f.err = &serve.Error{Code: serve.Needed, Want: "b is 17 entries behind"}
	e.do("POST", "/v1/cluster:drain", "").want(t, "a node that is needed", 409, `"code":"needed"`,
		`"detail":"b is 17 entries behind"`)
	f.err = nil
	if a := e.do("GET", "/v1/models", ""); a.status != 200 || a.header.Get("Connection") == "close" {
		t.Errorf("after a drain that was refused: %d, Connection %q", a.status, a.header.Get("Connection"))
	}
}

// Keys: scopes, patterns, three headers, Basic for browsers, rates, and a list of refusals.
func TestKeys(t *testing.T) {
	var list strings.Builder
	secrets := map[string]string{}
	for _, k := range []struct {
		id     string
		scopes []string
		models []string
	}{{"decider", []string{"decide"}, []string{"news*"}}, {"payer", []string{"reward"}, []string{"news"}}, {"reader", []string{"read"}, nil}, {"boss", []string{"admin", "read"}, nil}} {
		secret, table, err := NewKey(k.id, k.scopes, k.models)
		if err != nil {
			t.Fatal(err)
		}
		secrets[k.id] = secret
		list.WriteString(table)
	}
	if strings.Contains(list.String(), strings.Split(secrets["boss"], "_")[2]) {
		t.Error("the list of keys has a secret in it")
	}
	keys, err := ParseKeys("keys.toml", list.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := newFake("news", "news-2", "mail")
	e := newEdge(t, f, Options{Keys: keys})
	decide := `{"actions":[{"id":"a"}]}`
	for i, c := range []struct {
		key, method, path, body string
		status                  int
	}{
		{"decider", "POST", "/v1/models/news:decide", decide, 200}, // EVENT1
		{"decider", "POST", "/v1/models/news-2:decide", decide, 200},
		{"decider", "POST", "/v1/models/mail:decide", decide, 403},
		{"decider", "GET", "/v1/models/news", "", 403},
		{"decider", "POST", "/v1/events/EVENT1:reward", `{"value":1}`, 403},
		{"decider", "POST", "/v1/events/EVENT1:activate", "", 200},
		{"payer", "POST", "/v1/events/EVENT1:reward", `{"value":1}`, 200},
		{"payer", "POST", "/v1/events/EVENT2:reward", `{"value":1}`, 403}, // of news-2
		{"payer", "POST", "/v1/models/news:decide", decide, 403},
		{"reader", "GET", "/v1/models/mail", "", 200},
		{"reader", "GET", "/", "", 200},
		{"reader", "GET", "/metrics", "", 200},
		{"reader", "DELETE", "/v1/models/mail", "", 403},
		{"reader", "PATCH", "/v1/models/mail", `{}`, 403},
		{"reader", "POST", "/v1/models/mail:pause", "", 403},
		{"boss", "POST", "/v1/models", `{"id":"new"}`, 201},
		{"boss", "POST", "/v1/models/mail:decide", decide, 403},
		{"decider", "GET", "/metrics", "", 403},
		{"decider", "GET", "/", "", 403},
	} {
		a := e.do(c.method, c.path, c.body, "Authorization", "Bearer "+secrets[c.key])
		if a.status != c.status {
			t.Errorf("%d: %s may %s %s: %d, want %d; %s", i, c.key, c.method, c.path, a.status, c.status, a.body)
		}
	}
	if f.decides[0].Caller != "decider" || f.rewards[0].Caller != "payer" {
		t.Errorf("callers are %q and %q", f.decides[0].Caller, f.rewards[0].Caller)
	}
	e.do("POST", "/v1/rewards:batch", `{"rewards":[{"event_id":"EVENT1","value":1},{"event_id":"EVENT2","value":1}]}`, "X-API-Key", secrets["payer"]).
		want(t, "a batch with a foreign event", 200, "accepted", "forbidden")
	e.do("GET", "/v1/models/news", "", "X-API-Key", secrets["reader"]).want(t, "X-API-Key", 200)
	e.do("GET", "/v1/models/news", "", "Ocp-Apim-Subscription-Key", secrets["reader"]).want(t, "Personalizer's header", 200)
	r := httptest.NewRequest("GET", "http://127.0.0.1:8080/", nil)
	r.SetBasicAuth("anything", secrets["reader"])
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("Basic: %d", w.Code)
	}
	for _, bad := range []string{"", "troupe", "troupe_reader_", "troupe_reader", secrets["reader"] + "0", secrets["reader"][:len(secrets["reader"])-1],
		strings.Replace(secrets["reader"], "reader", "nobody", 1), strings.Replace(secrets["reader"], "reader", "boss", 1), "x" + secrets["reader"], "troupe__", "troupe__" + strings.Split(secrets["reader"], "_")[2]} {
		a := e.do("GET", "/v1/models/news", "", "X-API-Key", bad)
		a.want(t, "key "+bad, 401, `"code":"unauthorized"`)
		if a.header.Get("WWW-Authenticate") == "" {
			t.Error("401 without WWW-Authenticate")
		}
	}
	e.do("GET", "/livez", "").want(t, "livez without a key", 200)
	e.do("GET", "/readyz", "").want(t, "readyz without a key", 200)
	e.do("GET", "/docs", "").want(t, "the API's documentation without a key", 200, "unknown_field")
	e.do("GET", "/openapi.json", "").want(t, "the API's description without a key", 200, `"/v1/models"`)
	e.do("GET", "/metrics", "").want(t, "metrics without a key", 401)
	e.do("GET", "/docs/../metrics", "").want(t, "metrics by another way", 401)

	for _, bad := range []string{
		"", "[[key]]\nid = \"a\"\n", "[[key]]\nid = \"a b\"\nhash = \"" + strings.Repeat("0", 64) + "\"\nscopes = [\"read\"]\n",
		"[[key]]\nid = \"a\"\nhash = \"12\"\nscopes = [\"read\"]\n", "[[key]]\nid = \"a\"\nhash = \"" + strings.Repeat("0", 64) + "\"\nscopes = [\"raed\"]\n",
		"[[key]]\nid = \"a\"\nhash = \"" + strings.Repeat("0", 64) + "\"\nscopes = [\"read\"]\nmodels = [\"[\"]\n",
		"[[key]]\nid = \"a\"\nhash = \"" + strings.Repeat("0", 64) + "\"\nscopes = [\"read\"]\nsecret = \"x\"\n", "[[keys]]\n", list.String() + list.String(),
	} {
		if _, err := ParseKeys("keys.toml", bad, nil); err == nil {
			t.Errorf("ParseKeys takes %q", bad)
		}
	}
}

// A rate holds over a reload of the list, and the answer says when to come back.
func TestRate(t *testing.T) {
	secret, table, err := NewKey("slow", []string{"read"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys("keys.toml", table+"rate = 2\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newEdge(t, newFake("news"), Options{Keys: keys})
	limited := 0
	for range 20 {
		a := e.do("GET", "/v1/models/news", "", "X-API-Key", secret)
		if a.status == 429 {
			limited++
			if a.header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After = %q, want 1", a.header.Get("Retry-After"))
			}
		}
		// A reload with every request must not fill the bucket.
		again, err := ParseKeys("keys.toml", table+"rate = 2\n", e.Keys())
		if err != nil {
			t.Fatal(err)
		}
		e.SetKeys(again)
	}
	// Two at once; more only after half a second each, which twenty calls do not take.
	if limited < 15 {
		t.Errorf("%d of 20 requests were limited, want 18", limited)
	}
}

// A server on loopback answers to its own names only and to no page of another site.
func TestBrowsers(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{Hosts: LoopbackHosts})
	for host, status := range map[string]int{
		"127.0.0.1:8080": 200, "localhost:8080": 200, "LocalHost": 200, "[::1]:8080": 200, "evil.example": 421, "127.0.0.1.evil.example:8080": 421, "": 421,
	} {
		if a := e.do("GET", "/v1/models/news", "", "Host", host); a.status != status {
			t.Errorf("Host %q: %d, want %d", host, a.status, status)
		}
	}
	body := `{"actions":[{"id":"a"}]}`
	for _, c := range []struct {
		header, value string
		status        int
	}{{"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-origin", 200}, {"Origin", "https://evil.example", 403}, {"Origin", "http://127.0.0.1:8080", 200}} {
		if a := e.do("POST", "/v1/models/news:decide", body, c.header, c.value); a.status != c.status {
			t.Errorf("%s: %s: %d, want %d", c.header, c.value, a.status, c.status)
		}
	}
}

// More requests at once than there is room for are sent away, but the probes are answered.
func TestConcurrent(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{Concurrent: 1})
	e.requests <- struct{}{}
	a := e.do("GET", "/v1/models/news", "")
	a.want(t, "when full", 429, "too_busy")
	if a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	e.do("GET", "/readyz", "").want(t, "readyz when full", 200)
	<-e.requests
	e.do("GET", "/v1/models/news", "").want(t, "with room", 200)
}

// A certificate that was verified stands for a key.
func TestCertificates(t *testing.T) {
	keys, err := ParseKeys("keys.toml", "[[key]]\nid = \"machine\"\ncertificate = \"shop.example\"\nscopes = [\"decide\"]\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newEdge(t, newFake("news"), Options{Keys: keys})
	for name, status := range map[string]int{"shop.example": 200, "other.example": 401} {
		r := httptest.NewRequest("POST", "https://127.0.0.1/v1/models/news:decide", strings.NewReader(`{"actions":[{"id":"a"}]}`))
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: name}}}}}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("certificate of %s: %d, want %d", name, w.Code, status)
		}
		r = httptest.NewRequest("POST", "https://127.0.0.1/v1/models/news:decide", strings.NewReader(`{"actions":[{"id":"a"}]}`))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: name}}}} // not verified
		w = httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != 401 {
			t.Errorf("certificate of %s that nobody verified: %d, want 401", name, w.Code)
		}
	}
	if e.do("GET", "/v1/models/news", "", "X-API-Key", "troupe_machine_").status != 401 {
		t.Error("a key without a hash can be used without a certificate")
	}
}

// The pages: what they say, that they load nothing, and what they say when something is wrong.
func TestStatusPage(t *testing.T) {
	f := newFake("news", "mail")
	now := clock()
	e := newEdge(t, f, Options{Clock: timing.At(func() time.Time { return now })})
	f.models["news"].Counts = serve.Counts{Decisions: 1000, Rewards: 500, RewardSum: 65.5, Open: 12}
	e.flow.sample(t.Context())
	now = now.Add(30 * time.Second)
	f.models["news"].Counts.Decisions += 2406
	f.models["news"].Counts.Rewards += 100
	e.do("GET", "/", "").want(t, "status", 200, "All is well. 2 models, 2,406 decisions in the last hour.", "answered is on the disk.", "3,406", `data-name="Rewards a minute">100</td>`, "0.109", "up to entry 12")
	f.health.Ready, f.health.Damage, f.health.Missing = false, "entries 3–9 are missing", 1
	f.models["mail"].Failed = "V is singular"
	e.do("GET", "/", "").want(t, "status with trouble", 200, "3 things need you, first: the log is damaged, and the server is read-only.", "entries 3–9 are missing", "read-only", "V is singular")
	e.do("GET", "/readyz", "").want(t, "readyz with trouble", 503, `"ready":false`, "entries 3–9")
	f.health.Ready, f.health.Failed = true, []string{"mail"}
	e.do("GET", "/readyz", "").want(t, "readyz with a model that cannot decide", 200, `"ready":true`, `"failed":["mail"]`)
	f.models = map[string]*serve.Model{}
	e.do("GET", "/", "").want(t, "status without models", 200, "curl -X POST http://127.0.0.1:8080/v1/models")
	f.models = map[string]*serve.Model{"<script>": {Name: "<script>"}}
	if a := e.do("GET", "/", ""); strings.Contains(a.body, "<script>") {
		t.Error("a name is not escaped")
	}

	remote := regexp.MustCompile(`(?i)(src|href|action)\s*=\s*["']?(https?:)?//|@import|url\(|<script|<iframe`)
	for _, path := range []string{"/", "/docs"} {
		a := e.do("GET", path, "")
		if m := remote.FindString(a.body); m != "" || a.status != 200 {
			t.Errorf("%s: %d, and it loads something: %q", path, a.status, m)
		}
		if !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s has no policy: %v", path, a.header)
		}
		sent := e.do("GET", path, "", "Accept-Encoding", "br, gzip;q=0.5")
		if n := len(sent.body); n > 30_000 {
			t.Errorf("%s takes %d bytes, want less than 30 kB", path, n)
		}
		if path == "/" {
			continue
		}
		if sent.header.Get("Content-Encoding") != "gzip" || sent.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: headers %v", path, sent.header)
		}
		if z, err := gzip.NewReader(strings.NewReader(sent.body)); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if text, err := io.ReadAll(z); err != nil || string(text) != a.body {
			t.Errorf("%s: %d bytes with gzip, %d without, error %v", path, len(text), len(a.body), err)
		}
		for _, none := range []string{"identity", "gzip;q=0", "gzip ; q=0.0", "x-gzip"} {
			if got := e.do("GET", path, "", "Accept-Encoding", none); got.header.Get("Content-Encoding") != "" || got.body != a.body {
				t.Errorf("%s with Accept-Encoding %s: %v", path, none, got.header)
			}
		}
	}
	docs := e.do("GET", "/docs", "").body
	for _, p := range problems {
		if !strings.Contains(docs, `id="`+p.code+`"`) {
			t.Errorf("/docs does not explain %s, where the type of the problem leads", p.code)
		}
	}
}

// Rates need two samples, and counts that go back (a model made anew) give none.
func TestFlow(t *testing.T) {
	var f flow
	at := func(s int, n uint64) sample {
		return sample{clock().Add(time.Duration(s) * time.Second), map[unique.Handle[string]]tally{unique.Make("m"): {decisions: n}}}
	}
	if _, _, ok := f.perMinute("m", clock(), serve.Counts{}); ok {
		t.Error("a rate without samples")
	}
	for s := 0; s <= 300; s += 5 {
		f.add(at(s, uint64(s*s)))
	}
	if n := len(f.samples); n > 14 {
		t.Errorf("%d samples are kept", n)
	}
	// From 240 s to 302 s.
	d, _, ok := f.perMinute("m", clock().Add(302*time.Second), serve.Counts{Decisions: 302 * 302})
	if want := float64(302*302-240*240) * 60 / 62; !ok || d != want {
		t.Errorf("perMinute = %v, %v; want %v", d, ok, want)
	}
	if _, _, ok := f.perMinute("m", clock().Add(302*time.Second), serve.Counts{Decisions: 3}); ok {
		t.Error("a rate from counts that went back")
	}
	var young flow // a minute has no more than there were: 21 s after the start of the server
	young.add(at(0, 0))
	if d, _, ok := young.perMinute("m", clock().Add(21*time.Second), serve.Counts{Decisions: 10_000}); !ok || d != 10_000 {
		t.Errorf("after 21 s with 10,000 decisions the page says %v a minute, %v", d, ok)
	}
}

// The picture of the last hour: what came between samples stands in its minute, models that are made
// anew count from nothing, and what is older than an hour is gone.
func TestHour(t *testing.T) {
	var f flow
	add := func(s int, decisions, rewards uint64) {
		f.add(sample{clock().Truncate(time.Minute).Add(time.Duration(s) * time.Second), map[unique.Handle[string]]tally{unique.Make("m"): {decisions, rewards}}})
	}
	add(0, 1000, 900) // counted before the page looked
	add(30, 1010, 905)
	add(90, 1030, 905)
	add(120, 4, 2) // anew
	now := clock().Truncate(time.Minute).Add(125 * time.Second)
	got := f.lastHour(now)
	var flat [][2]uint64
	for _, m := range got {
		flat = append(flat, [2]uint64{m.decisions, m.rewards})
	}
	if want := [][2]uint64{{10, 5}, {20, 0}, {4, 2}}; !slices.Equal(flat, want) {
		t.Errorf("minutes %v, want %v", flat, want)
	}
	newest := []serve.Model{{Name: "m", Counts: serve.Counts{Decisions: 9}}, {Name: "young", Counts: serve.Counts{Decisions: 3}}}
	if n := f.unsampled(newest); n != 8 {
		t.Errorf("%d decisions since the newest sample, want 5 of m and 3 of a model that it does not have", n)
	}
	h := hourOf(got, now)
	if want := (bar{581, 0, 100}); len(h.Bars) != 3 || h.Bars[1] != want || !strings.HasPrefix(h.Text, "34 decisions and 7 rewards in the last hour, at most 20 ") {
		t.Errorf("%+v, want the middle bar %v", h, want)
	}
	if want := []hourTick{{100, "0"}, {75, "5"}, {50, "10"}, {25, "15"}, {0, "20"}}; !slices.Equal(h.Ticks, want) {
		t.Errorf("ticks %v, want %v", h.Ticks, want)
	}
	for most, want := range map[uint64]uint64{1: 1, 4: 1, 5: 2, 8: 2, 9: 5, 20: 5, 21: 10, 1300: 500, 4_000_001: 2_000_000} {
		if got := roundStep(most); got != want {
			t.Errorf("steps of %d for at most %d, want %d", got, most, want)
		}
	}
	for s := 180; s < 3*3600; s += 30 {
		add(s, uint64(s), 0)
	}
	if n := len(f.minutes); n != 60 {
		t.Errorf("%d minutes are kept, want 60", n)
	}
	if hourOf(nil, now) != nil {
		t.Error("a picture of nothing")
	}
}

// TestStatusHeadline: the first line says whether something is wrong.
func TestStatusHeadline(t *testing.T) {
	full, bad := alarm{Short: "the log is full, and nothing is recorded"}, alarm{Short: "the model news cannot decide"}
	for _, c := range []struct {
		alarms         []alarm
		models, warned int
		decisions      uint64
		want           string
	}{
		{nil, 0, 0, 0, "No model yet."},
		{nil, 1, 0, 6000, "All is well. One model, 6,000 decisions in the last hour."},
		{nil, 3, 0, 1, "All is well. 3 models, one decision in the last hour."},
		{nil, 3, 1, 0, "3 models, no decision in the last hour. One model has a warning."},
		{[]alarm{full}, 0, 0, 0, "One thing needs you: the log is full, and nothing is recorded."},
		{[]alarm{full, bad}, 2, 2, 5, "2 things need you, first: the log is full, and nothing is recorded. 2 models have warnings."},
	} {
		if got := headline(c.alarms, c.models, c.warned, c.decisions); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestMetrics(t *testing.T) {
	f := newFake("news")
	f.models["news"].Counts.Decisions = 42
	e := newEdge(t, f, Options{})
	e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"a"}]}`)
	e.do("POST", "/v1/events/EVENT1:reward", `{"value":1}`)
	e.do("POST", "/v1/events/SECRET:reward", `{"value":1}`)
	e.do("GET", "/no/such/SECRET", "")
	a := e.do("GET", "/metrics", "")
	a.want(t, "metrics", 200,
		`troupe_http_requests_total{route="POST /v1/models/{model}:decide",status="200"} 1`,
		`troupe_http_requests_total{route="none",status="404"} 1`,
		`troupe_rewards_total{status="accepted"} 1`, `troupe_rewards_total{status="refused"} 1`,
		`troupe_model_decisions_total{model="news"} 42`, "troupe_ready 1", "troupe_log_applied_seq 12", "go_goroutines")
	if strings.Contains(a.body, "SECRET") {
		t.Error("metrics have series made by requests")
	}
}

// A handler that panics answers 500 and leaves the server alive.
func TestPanic(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	e.via.Service = nil
	e.do("GET", "/v1/models/news", "").want(t, "panic", 500, `"code":"internal"`)
}

var _ http.Handler = (*API)(nil)

// serveOn gives the edge a real socket and returns its address.
func (e *edge) serveOn(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := e.Server()
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// dial opens a connection, sends what is given and returns what comes until the server closes. A
// server that never closes makes this an error after a while.
func dial(t *testing.T, address, send string) (net.Conn, func() string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Limit))
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	return c, func() string {
		t.Helper()
		b, err := io.ReadAll(c)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("the connection stays open after %q", send[:min(len(send), 60)])
		}
		return string(b)
	}
}

// A client that sends its headers or its body a byte a minute is closed; headers beyond 16 KiB are
// refused.
func TestSlowClients(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{Timeout: 100 * time.Millisecond})
	at := e.serveOn(t)
	_, rest := dial(t, at, "GET /v1/models HTTP/1.1\r\nHost: local")
	rest()
	_, rest = dial(t, at, "POST /v1/models/news:decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
	if body := rest(); strings.Contains(body, " 200 ") {
		t.Errorf("half a body: %s", body)
	}
	at = newEdge(t, newFake("news"), Options{}).serveOn(t) // with time for all of them
	_, rest = dial(t, at, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 17<<10)+"\r\n\r\n")
	if body := rest(); !strings.HasPrefix(body, "HTTP/1.1 431") {
		t.Errorf("17 KiB of headers: %.60q", body)
	}
	if len(e.fake.decides) > 0 {
		t.Error("half a body was decided")
	}
}

// Connections beyond the limit are closed at once, so that a flood leaves files for the log; when
// others go there is room again.
func TestConnections(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{Connections: 3})
	at := e.serveOn(t)
	const request = "GET /v1/models/news HTTP/1.1\r\nHost: localhost\r\n\r\n"
	answered := func(c net.Conn) bool {
		b := make([]byte, 12)
		_, err := io.ReadFull(c, b)
		return err == nil && string(b) == "HTTP/1.1 200"
	}
	var open []net.Conn
	for i := range 3 {
		c, _ := dial(t, at, request)
		if open = append(open, c); !answered(c) {
			t.Fatalf("connection %d of 3 was refused", i+1)
		}
		await.Until(t, "the server notes a moment after the answer that the connection is idle", func() bool { return e.connections.idling() > i })
	}
	// A fourth one takes the place of the first, which is idle longest.
	fourth, _ := dial(t, at, request)
	if !answered(fourth) {
		t.Error("the fourth connection was refused, and three are idle")
	}
	if _, err := io.ReadAll(open[0]); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection that was idle longest is open")
	}
	e.do("GET", "/metrics", "").want(t, "metrics", 200, "troupe_connections_refused_total 1")
}

// A slip behind the colon names the verb that was meant, not the methods of another path.
func TestVerbs(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	e.do("POST", "/v1/models/news:decid", "{}").want(t, "a slip", 404, "not_found", `did you mean \"decide\"?`)
	e.do("POST", "/v1/models/news:explode", "").want(t, "no verb", 404, "expected one of activate, arrive, batch, clone")
	e.do("GET", "/v1/models/news:decide", "").want(t, "another method", 405)
	e.do("PUT", "/v1/models", "").want(t, "another method", 405)
}

// A path that is not clean is a 404 that says why. A redirect would lead a client in circles: a name
// that is empty, as an unset variable of a shell, makes one.
func TestUncleanPaths(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	for path, word := range map[string]string{
		"/v1/events/:reward": "the name in front of the colon is missing", "/v1/models/:decide": "in front of the colon",
		"/v1/models/%3Adecide": "in front of the colon", "/v1//models/news:decide": "empty segment", "/v1/models/../models/news:decide": "or ..",
		"/v1/models/./news:decide": "or ..",
	} {
		e.do("POST", path, `{"actions":[{"id":"a"}]}`).want(t, path, 404, `"code":"not_found"`, word)
	}
	e.do("GET", "/docs/", "").want(t, "a slash at the end", 404, "there is no such path")
	e.do("GET", "/", "").want(t, "the first page", 200)
}

// A client that goes away before its answer is no fault of the server: neither an error in the log
// nor a 5xx in the metrics, on which alarms ring.
func TestClientGone(t *testing.T) {
	var log bytes.Buffer
	f := newFake("news")
	f.err = refuse(serve.Unavailable, "SLOW")
	e := newEdge(t, f, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("GET", "http://127.0.0.1/v1/models/news", nil).WithContext(ctx)
	e.ServeHTTP(httptest.NewRecorder(), r)
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log says\n%s", &log)
	}
	f.err = nil
	e.do("GET", "/metrics", "").want(t, "metrics", 200, `status="499"`)
	if strings.Contains(e.do("GET", "/metrics", "").body, `status="503"`) {
		t.Error("the metrics count a 503")
	}
}

// TestStatusOfNodes: the status page of a node has a line for each node, and what this one says of itself; that of a
// single machine has neither.
func TestStatusOfNodes(t *testing.T) {
	f := newFake("news")
	e := newEdge(t, f, Options{})
	if strings.Contains(e.do("GET", "/", "").body, "Cluster") {
		t.Error("a single machine has a cluster")
	}
	f.health.Cluster = &serve.ClusterHealth{
		Node: "b", Contact: 0.25, Clock: -0.125, KeyNumbers: []int{2, 1}, Void: 3, Elections: 4, Drained: true, Damage: "1.blk: bad",
		Unrepaired: "c is away", Repairs: 2, Repaired: new(time.Date(2026, 11, 26, 3, 1, 0, 0, time.UTC)),
		Attested: &serve.Attested{By: "Ops", Is: true}, CertificateEnds: new(time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)),
		Nodes:    []serve.NodeHealth{{Name: "a", Live: true, Heard: 0.5, Applied: 70, Clock: 1.5}, {Name: "b", Live: true, Applied: 71}, {Name: "c", Heard: -1}},
		Replicas: []eventlog.Replica{{Name: "a", Leader: true, Current: true}, {Name: "b", Current: true}, {Name: "c", Lag: 17, Offline: true}},
	}
	page := e.do("GET", "/", "").body
	for _, want := range []string{
		">Cluster<", "<td>b</td>", "0.2 s ago", "-0.125 s", "<td>2, 1</td>", "<td>3</td>", "<td>4</td>", "drained", "damaged: 1.blk: bad; c is away", "2 times, last on 2026-11-26 03:01", `May be stopped now</th><td>c; not another one: c was never heard of</td>`, "Ops vouches for them", "valid until 2027-03-01",
		`<th scope="row">a</th><td data-name="Seen">0.5 s ago</td><td data-name="Applied">70</td><td data-name="Replica">leads</td><td data-name="Clock">&#43;1.500 s</td>`,
		`<th scope="row">c</th><td data-name="Seen">never</td><td data-name="Applied">0</td><td data-name="Replica">not there, 17 entries behind</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	f.health.Followers = []serve.Follower{{Name: "h:/b", Last: 41200, Time: time.Date(2026, 11, 26, 3, 1, 0, 0, time.UTC)}}
	c := f.health.Cluster
	c.Damage, c.Verified, c.VerifiedEntry = "", new(time.Date(2026, 11, 25, 4, 0, 0, 0, time.UTC)), 40206
	c.Nodes[2].Live, c.Nodes[2].Heard, c.Replicas[2].Offline, c.Replicas[2].Current = true, 1, false, true
	page = e.do("GET", "/", "").body
	for _, want := range []string{"all read and whole on 2026-11-25 04:00, up to entry 40,206", "<td>one of a, b, c</td>",
		"Backup h:/b</th><td>up to entry 41,200, asked on 2026-11-26 03:01:00; the log is trimmed without waiting for it"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// The operator's pages name metrics that exist: a renamed one would be an alarm that never rings.
func TestAlertsExist(t *testing.T) {
	metrics := scraped(t)
	names := 0
	for _, page := range []string{"reference/alerts.yml", "guide/operations.md", "guide/cluster.md", "reference/cluster.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\btroupe_[a-z_]+\b`).FindAllString(string(text), -1) {
			if names++; !strings.Contains(metrics, "\n"+name+" ") && !strings.Contains(metrics, "\n"+name+"{") {
				t.Errorf("%s names %s, which /metrics does not have", page, name)
			}
		}
	}
	if names < 20 {
		t.Errorf("only %d names were found", names)
	}
}

// left is a connection whose client leaves when the answer is written. It notes every status.
type left struct {
	*httptest.ResponseRecorder
	leave func()
	got   []int
}

func (l *left) WriteHeader(status int)    { l.got = append(l.got, status) }
func (l *left) Write([]byte) (int, error) { l.leave(); return 0, io.ErrClosedPipe }

// TestStatusOnce: a request whose client leaves has one status; net/http warns in the log of a second one.
func TestStatusOnce(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/v1/models/news:decide", strings.NewReader(`{"actions":[{"id":"a"}]}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "with a space") // not a short way
	w := &left{httptest.NewRecorder(), cancel, nil}
	e.ServeHTTP(w, r)
	if len(w.got) != 1 || w.got[0] != 200 {
		t.Errorf("statuses %v, want 200 once", w.got)
	}
}

// FuzzDecide does the same for the routes of /v1 that read bodies.
func FuzzDecide(f *testing.F) {
	for _, s := range []string{`{"actions":[{"id":"a","features":{"p":1}}]}`, `{"requests":[{"actions":[{"id":"a"}]}]}`, `{"rewards":[{"event_id":"E","value":1}]}`,
		`{"value":1}`, `{"id":"m","features":{"learn":true}}`, `{"floor":null,"reward":{"rule":"sum"}}`, `{"context":[1,2,3],"packed":{"dtype":"float32"}}`, "{\"\xff\":1}"} {
		f.Add(s)
	}
	e := newEdge(f, nil, Options{MaxActions: 20})
	f.Fuzz(func(t *testing.T, body string) {
		e.t, e.via.Service = t, newFake("news")
		fuzzOne(t, e, "POST", "/v1/models/news:decide", body, 200)
		fuzzOne(t, e, "POST", "/v1/models/news:decideBatch", body, 200)
		fuzzOne(t, e, "POST", "/v1/rewards:batch", body, 200)
		fuzzOne(t, e, "POST", "/v1/events/EVENT1:reward", body, 200)
		fuzzOne(t, e, "PATCH", "/v1/models/news", body, 200)
		fuzzOne(t, e, "POST", "/v1/models", body, 201)
		fuzzOne(t, e, "POST", "/v1/models/news/actions", body, 200)
	})
}

func fuzzOne(t *testing.T, e *edge, method, path, body string, ok int) {
	a := e.do(method, path, body, "If-Match", "*")
	switch {
	case a.status == ok && (a.body == "" || json.Valid([]byte(a.body))):
	case a.status >= 400 && a.status < 500 && json.Valid([]byte(a.body)):
	default:
		t.Errorf("%s %s with %q: %d %s", method, path, body, a.status, a.body)
	}
}
