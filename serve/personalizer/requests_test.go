package personalizer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	openapi "troupe/internal/contract"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/timing"
)

// caller makes requests from an OpenAPI document: values of the types, lengths and numbers that a schema names, its ends, and
// what it does not allow.
type caller struct {
	r      *rand.Rand
	doc    map[string]any
	events []string // of decisions that were answered
	saved  []byte   // of a model
}

type operation struct {
	method, path string
	of           map[string]any
}

func (c *caller) operations() (all []operation) {
	paths := c.doc["paths"].(map[string]any)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		item := paths[p].(map[string]any)
		for _, m := range slices.Sorted(maps.Keys(item)) {
			if of, ok := item[m].(map[string]any); ok && m != "parameters" {
				all = append(all, operation{strings.ToUpper(m), p, of})
			}
		}
	}
	return all
}

func (c *caller) one(of ...string) string { return of[c.r.IntN(len(of))] }

// resolve follows references.
func (c *caller) resolve(schema map[string]any) map[string]any {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		var at any = c.doc
		for _, key := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[key]
		}
		schema = at.(map[string]any)
	}
}

// anything is a value of any type.
func (c *caller) anything(depth int) any {
	switch n := c.r.IntN(12); {
	case n == 0:
		return nil
	case n == 1:
		return c.r.IntN(2) == 0
	case n < 5:
		return c.number()
	case n < 8 || depth > 3:
		return c.text()
	case n < 10:
		out := make([]any, c.r.IntN(4))
		for i := range out {
			out[i] = c.anything(depth + 1)
		}
		return out
	}
	out := map[string]any{}
	for range c.r.IntN(4) {
		out[c.one("a", "b", "id", "kind", "value", "x y", "é", "")] = c.anything(depth + 1)
	}
	return out
}

func (c *caller) number() json.Number {
	return json.Number(c.one("0", "1", "-1", "2", "0.5", "1e-9", "5e-324", "1e15", "1e100", "-1e100", "1e308", "4294967296", "18446744073709551615",
		"18446744073709551616", "-9223372036854775808", "1e400", strconv.Itoa(c.r.IntN(2000)), strconv.FormatFloat(c.r.Float64(), 'g', -1, 64)))
}

func (c *caller) text() string {
	if n := len(c.events); n > 0 && c.r.IntN(4) == 0 {
		return c.events[c.r.IntN(n)]
	}
	return c.one("a", "b", "m0", "m1", "m2", "", "x y", "é", "\x00", "a/b", "1h", "10m", "-1s", "2026-11-28T10:00:00Z", "first", "sum", "effects", "auto", "none",
		"restarts", "full", "online", strings.Repeat("k", 257), "<script>", "../..", "%2f", "1", "true")
}

// value makes a value of a schema.
func (c *caller) value(schema map[string]any, depth int) any {
	schema = c.resolve(schema)
	if c.r.IntN(60) == 0 {
		return c.anything(depth)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if of, ok := schema[key].([]any); ok {
			return c.value(of[c.r.IntN(len(of))].(map[string]any), depth+1)
		}
	}
	if of, ok := schema["enum"].([]any); ok {
		return of[c.r.IntN(len(of))]
	}
	if x, ok := schema["const"]; ok {
		return x
	}
	kind, _ := schema["type"].(string)
	if kinds, ok := schema["type"].([]any); ok {
		kind, _ = kinds[c.r.IntN(len(kinds))].(string)
	}
	limit := func(key string, otherwise float64) float64 {
		if v, ok := schema[key].(float64); ok {
			return v
		}
		return otherwise
	}
	switch kind {
	case "null":
		return nil
	case "boolean":
		return c.r.IntN(2) == 0
	case "integer", "number":
		lo, hi := limit("minimum", limit("exclusiveMinimum", 0)), limit("maximum", limit("exclusiveMaximum", 100))
		var x float64
		switch c.r.IntN(5) {
		case 0:
			x = lo
		case 1:
			x = hi
		case 2:
			return c.number()
		default:
			x = lo + c.r.Float64()*min(hi-lo, 100)
		}
		if kind == "integer" {
			return json.Number(strconv.FormatFloat(x-x+float64(int64(x)), 'f', -1, 64))
		}
		return x
	case "array":
		items, _ := schema["items"].(map[string]any)
		n := int(min(limit("minItems", 0)+float64(c.r.IntN(4)), limit("maxItems", 8)))
		out := make([]any, 0, n)
		for range n {
			if items == nil || depth > 6 {
				out = append(out, c.anything(depth))
			} else {
				out = append(out, c.value(items, depth+1))
			}
		}
		return out
	case "string":
		if c.r.IntN(3) > 0 {
			return c.one("a", "b", "m0", "m1", "1s", "10m")
		}
		return c.text()
	}
	properties, _ := schema["properties"].(map[string]any)
	more, _ := schema["additionalProperties"].(map[string]any)
	if kind != "object" && properties == nil {
		return c.anything(depth)
	}
	out := map[string]any{}
	required, _ := schema["required"].([]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if depth < 8 && (slices.Contains(required, any(key)) && c.r.IntN(30) > 0 || c.r.IntN(1+len(properties)/2) < 2) {
			out[key] = c.value(properties[key].(map[string]any), depth+1)
		}
	}
	for more != nil && depth < 8 && c.r.IntN(2) == 0 {
		out[c.one("a", "b", "c")] = c.value(more, depth+1)
	}
	if c.r.IntN(40) == 0 {
		out[c.one("a", "unknown", "ID", "")] = c.anything(depth)
	}
	return out
}

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

// soon takes away what a decision would wait for.
func soon(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "min_seq")
		for _, x := range v {
			soon(x)
		}
	case []any:
		for _, x := range v {
			soon(x)
		}
	}
}

// request makes a request of an operation.
func (c *caller) request(o operation) (target string, headers map[string]string, body []byte) {
	headers = map[string]string{}
	target = inBraces.ReplaceAllStringFunc(o.path, func(name string) string {
		switch name {
		case "{model}":
			if c.r.IntN(30) > 0 {
				return c.one("m0", "m1", "m2")
			}
		case "{event}":
			if n := len(c.events); n > 0 && c.r.IntN(10) > 0 {
				return url.PathEscape(c.events[n-1-c.r.IntN(min(n, 30))])
			}
		}
		return url.PathEscape(c.text())
	})
	query := url.Values{}
	parameters, _ := o.of["parameters"].([]any)
	for _, p := range parameters {
		p := c.resolve(p.(map[string]any))
		name := p["name"].(string)
		if p["in"] == "path" || c.r.IntN(3) > 0 && name != "If-Match" {
			continue
		}
		v := fmt.Sprint(c.value(p["schema"].(map[string]any), 0))
		switch {
		case p["in"] == "query":
			query.Set(name, v)
		case name == "If-Match" && c.r.IntN(10) > 0:
			headers[name] = "*"
		case name == "Accept":
			headers[name] = c.one("application/json", "application/vnd.apache.parquet", "*/*", "text/html")
		default:
			headers[name] = strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return -1
				}
				return r
			}, v)
		}
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	content := c.of(o.of, "requestBody", "content")
	if content["application/octet-stream"] != nil {
		body = bytes.Clone(c.saved)
		if n := len(body); n > 0 && c.r.IntN(3) == 0 {
			body[c.r.IntN(n)] ^= 1 << c.r.IntN(8)
		}
		return target, headers, body
	}
	if content["application/json"] == nil {
		return target, headers, nil
	}
	v := c.value(c.of(content, "application/json", "schema"), 0)
	soon(v)
	if m, ok := v.(map[string]any); ok && c.r.IntN(10) > 0 { // names that are there
		for _, key := range []string{"id", "name"} {
			if _, ok := m[key]; ok && strings.Contains(o.path, "models") && !strings.Contains(o.path, "actions") {
				m[key] = c.one("m0", "m1", "m2")
			}
		}
		if rewards, ok := m["rewards"].([]any); ok {
			for _, x := range rewards {
				if x, ok := x.(map[string]any); ok && len(c.events) > 0 && c.r.IntN(5) > 0 {
					x["event_id"] = c.events[c.r.IntN(len(c.events))]
				}
			}
		}
		if strings.HasSuffix(o.path, ":decide") && c.r.IntN(2) == 0 {
			m = map[string]any{"actions": []any{map[string]any{"id": "a"}, map[string]any{"id": "b"}}, "context": c.anything(0)}
			v = m
		}
		if o.path == "/v1/models" && c.r.IntN(2) == 0 {
			v = map[string]any{"id": m["id"]}
		}
	}
	body, _ = json.Marshal(v)
	switch n := c.r.IntN(60); {
	case n == 0 && len(body) > 0:
		body = body[:c.r.IntN(len(body))]
	case n == 1 && len(body) > 0:
		body[c.r.IntN(len(body))] = byte(c.r.IntN(256))
	case n == 2:
		headers["Content-Type"] = c.one("text/plain", "application/xml", "application/json; charset=latin1")
	}
	return target, headers, body
}

func (c *caller) of(m map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		m, _ = m[key].(map[string]any)
	}
	return m
}

// TestRandomRequests sends requests that are made from openapi.json, of every operation, to a real server with the adapter: no
// answer is 500, each is one that the document describes, and at the end the server takes records and no model has failed.
// TROUPE_LONG sends 100,000, TROUPE_SEED sets the first seed.
func TestRandomRequests(t *testing.T) {
	requests := 4000
	if os.Getenv("TROUPE_LONG") != "" {
		requests = 100_000
	}
	seed, _ := strconv.ParseUint(os.Getenv("TROUPE_SEED"), 10, 64)
	counts := map[int]int{}
	for sent := 0; sent < requests && !t.Failed(); seed++ {
		n := min(2000, requests-sent)
		sendRandom(t, seed, n, counts)
		sent += n
	}
	t.Logf("answers by status: %v", counts)
	if counts[200]+counts[201] < requests/20 {
		t.Errorf("few requests are taken: %v", counts)
	}
}

func sendRandom(t *testing.T, seed uint64, n int, counts map[int]int) {
	var ns atomic.Int64
	clock := timing.At(func() time.Time { return time.Unix(1_800_000_000, ns.Load()).UTC() })
	svc := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Clock: clock, ExpireEvery: time.Millisecond,
		LayAside: 20 * time.Millisecond, Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	edge := must(api.New(svc, api.Options{Clock: clock, MaxActions: 50, MaxBody: 1 << 16, Timeout: time.Minute, Adapters: []api.Adapter{New("m0")}}))
	defer func() {
		edge.Close()
		if err := svc.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	document := must(openapi.Read(edge.OpenAPI()))
	c := &caller{r: rand.New(rand.NewPCG(seed, 47))}
	if err := json.Unmarshal(edge.OpenAPI(), &c.doc); err != nil {
		t.Fatal(err)
	}
	all := c.operations()
	for _, p := range []string{"/", "/docs", "/openapi.json", "/new", "/models/m0", "/models/m1", "/models/m0/search", "/models/{model}", "/models/{model}/history"} {
		all = append(all, operation{"GET", p, map[string]any{}})
	}
	var often []operation // without which there is nothing to read
	for _, o := range all {
		if o.method == "POST" && (o.path == "/v1/models" || strings.HasSuffix(o.path, ":decide") || strings.HasSuffix(o.path, ":reward") || strings.HasSuffix(o.path, "/rank")) {
			often = append(often, o)
		}
	}
	for i := range n {
		o := all[c.r.IntN(len(all))]
		if c.r.IntN(3) == 0 {
			o = often[c.r.IntN(len(often))]
		}
		target, headers, body := c.request(o)
		r := httptest.NewRequest(o.method, "http://127.0.0.1"+target, bytes.NewReader(body))
		if len(body) > 0 {
			r.Header.Set("Content-Type", "application/json")
		}
		for k, v := range headers {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, r)
		counts[w.Code]++
		failed := func(what any) {
			t.Errorf("seed %d, request %d: %s %s %v %.600s: %d %.600s: %v (TROUPE_SEED=%d go test ./serve/personalizer -run TestRandomRequests)", seed, i, o.method,
				target, headers, body, w.Code, w.Body, what, seed)
		}
		if w.Code >= 500 && w.Code != 501 && (w.Code != 503 || headers["Request-Timeout-Ms"] == "") || strings.Contains(w.Body.String(), `"code":"model_failed"`) {
			failed("a fault of the server")
		}
		if strings.HasPrefix(o.path, "/v1/") {
			taken := body
			if strings.Contains(w.Body.String(), `"problem":{`) { // of an item of a batch, which was not taken
				taken = nil
			}
			if err := document.Check(openapi.Exchange{Method: o.method, Path: r.URL.Path, Request: taken, Status: w.Code, Header: w.Header(), Answer: w.Body.Bytes()}); err != nil {
				failed(err)
			}
		}
		if t.Failed() {
			return
		}
		var answer struct {
			EventID string `json:"event_id"`
			Rank    string `json:"eventId"`
		}
		if w.Code < 300 && json.Unmarshal(w.Body.Bytes(), &answer) == nil && (o.method == "POST") {
			for _, id := range []string{answer.EventID, answer.Rank} {
				if id != "" {
					c.events = append(c.events, id)
				}
			}
		}
		if w.Code == 200 && strings.Contains(target, "format=model") {
			c.saved = bytes.Clone(w.Body.Bytes())
		}
		if c.r.IntN(50) == 0 {
			ns.Add(int64(time.Hour))
		}
	}
	if h := svc.Health(); !h.Ready || len(h.Failed) > 0 {
		t.Errorf("seed %d: the server is not ready: %s; failed %v", seed, h.Reason, h.Failed)
	}
}

// TestPlaysNumbers: a model that plays numbers has no place in the answer of a rank: it is refused in words. Its probability was
// 0/0, which is no JSON. Nor has one whose rewards have names a place for them.
func TestPlaysNumbers(t *testing.T) {
	for config, words := range map[string]string{
		`{"id": "shop", "numbers": [{"name": "price", "min": 1, "max": 20}]}`: "plays numbers",
		`{"id": "shop", "rewards": {"click": 1, "revenue": 0.1}}`:             "the rewards click and revenue",
	} {
		refusesRanks(t, config, words)
	}
}

// refusesRanks: a model of this configuration refuses ranks with these words.
func refusesRanks(t *testing.T, config, words string) {
	t.Helper()
	svc := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	edge := must(api.New(svc, api.Options{Adapters: []api.Adapter{New("shop")}}))
	defer func() {
		edge.Close()
		if err := svc.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	send := func(path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if status, text := send("/v1/models", config); status != 201 {
		t.Fatalf("create: %d %s", status, text)
	}
	for path, body := range map[string]string{
		"rank":           `{"actions": [{"id": "a", "features": [{"p": 1}]}, {"id": "b", "features": [{"p": 2}]}]}`,
		"multislot/rank": `{"actions": [{"id": "a", "features": [{"p": 1}]}, {"id": "b", "features": [{"p": 2}]}], "slots": [{"id": "s", "baselineAction": "a"}]}`,
	} {
		if status, text := send("/v1/models/shop/personalizer/v1.0/"+path, body); status != 400 || !strings.Contains(text, words) {
			t.Errorf("%s: %d %s, want 400", path, status, text)
		}
	}
	if m := must(svc.GetModel(t.Context(), "shop")); m.Counts.Decisions != 0 {
		t.Errorf("%d refused decisions were recorded", m.Counts.Decisions)
	}
}
