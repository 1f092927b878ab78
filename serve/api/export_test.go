package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"troupe/eventlog/eventlogtest"
	"troupe/serve"
)

// newReal is an edge in front of a real server with a log in memory.
func newReal(t testing.TB, o Options) (*edge, *serve.Server) {
	s := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Wait: time.Minute}))
	via := &swap{s}
	a := must(New(via, o))
	t.Cleanup(func() {
		a.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &edge{API: a, t: t, via: via}, s
}

// field reads one member of an answer.
func field[T any](t testing.TB, a answer, name string) (v T) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a.body), &all); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if err := json.Unmarshal(all[name], &v); err != nil {
		t.Fatalf("%s: %v: %s", name, err, a.body)
	}
	return v
}

// The log of a model as JSON lines and as Parquet, in one page and in pages of one entry: the same
// rows, this model's only, before and after a rollback. The Parquet file is read with a schema that
// is written down here, so that a renamed or retyped column turns this test red.
func TestExportLog(t *testing.T) {
	e, s := newReal(t, Options{})
	for _, name := range []string{"m", "other"} {
		e.do("POST", "/v1/models", `{"id": "`+name+`", "dim": 2, "reward": {"default": 0.25}}`).want(t, "create", 201)
	}
	var rewarded uint64
	var ids []string
	for i := range 6 {
		for _, name := range []string{"m", "other"} {
			d := e.do("POST", "/v1/models/"+name+":decide", fmt.Sprintf(`{"actions": [{"id": "a", "features": [0.5, 0.%d]}, {"id": "b", "features": [0.1, 0.2]}], "defer_activation": %t}`, i+1, i == 4))
			d.want(t, "decide", 200)
			id := field[string](t, d, "event_id")
			if name == "m" {
				ids = append(ids, id)
			}
			switch i {
			case 4:
				e.do("POST", "/v1/events/"+id+":activate", "").want(t, "activate", 200, "accepted")
			case 5:
			default:
				r := e.do("POST", "/v1/events/"+id+":reward", `{"value": -0.5}`)
				r.want(t, "reward", 200, "accepted")
				rewarded = field[uint64](t, r, "seq")
			}
		}
	}
	e.do("POST", "/v1/models/m:rollback", fmt.Sprintf(`{"to_seq": %d}`, rewarded)).want(t, "rollback", 200)

	lines := func(query string) (rows []logRow, next string) {
		t.Helper()
		a := e.do("GET", "/v1/models/m/log"+query, "")
		a.want(t, "log"+query, 200)
		if got := a.header.Get("Content-Type"); got != typeNDJSON {
			t.Errorf("Content-Type is %s", got)
		}
		for line := range strings.Lines(a.body) {
			var r logRow
			d := json.NewDecoder(strings.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			rows = append(rows, r)
		}
		return rows, a.header.Get("Log-Next")
	}
	all, next := lines("")
	if want := fmt.Sprint(s.Health().Applied + 1); next != want {
		t.Errorf("Log-Next is %s, want %s", next, want)
	}
	kinds := map[string]int{}
	var seen []string
	for _, r := range all {
		kinds[r.Kind]++
		if r.Kind == "decision" {
			seen = append(seen, r.EventID)
		}
	}
	if want := map[string]int{"decision": 6, "reward": 4, "activate": 1, "control": 2}; !maps.Equal(kinds, want) {
		t.Errorf("records of the kinds %v, want %v", kinds, want)
	}
	if !slices.Equal(seen, ids) {
		t.Errorf("decisions %v, want %v", seen, ids)
	}

	// The link leads through all pages.
	var paged []logRow
	for path := "?page_size=1"; path != ""; {
		a := e.do("GET", "/v1/models/m/log"+path, "")
		rows, _ := lines(path)
		paged = append(paged, rows...)
		link, ok := strings.CutPrefix(a.header.Get("Link"), "</v1/models/m/log")
		path, _, _ = strings.Cut(link, ">")
		if !ok {
			path = ""
		}
	}
	same := func(a, b any) bool { return bytes.Equal(must(json.Marshal(a)), must(json.Marshal(b))) }
	if !same(all, paged) {
		t.Errorf("in pages of one entry %d rows, in one page %d", len(paged), len(all))
	}
	middle, next := lines("?from=3&to=4")
	if next != "5" || len(middle) == 0 || middle[0].Seq < 3 || middle[len(middle)-1].Seq > 4 {
		t.Errorf("from 3 to 4: Log-Next %s, rows %+v", next, middle)
	}
	if rows, _ := lines("?from=1000000"); len(rows) > 0 {
		t.Errorf("behind the end: %v", rows)
	}

	type column struct { // as a reader would declare what it needs
		Seq      uint64    `parquet:"seq"`
		Kind     string    `parquet:"kind"`
		Event    *string   `parquet:"event,optional"`
		Time     time.Time `parquet:"time,timestamp(nanosecond)"`
		Num      *uint64   `parquet:"num,optional"`
		Den      *uint64   `parquet:"den,optional"`
		X        []float64 `parquet:"x,list"`
		Deferred *bool     `parquet:"deferred,optional"`
		Value    *float64  `parquet:"value,optional"`
	}
	a := e.do("GET", "/v1/models/m/log", "", "Accept", "text/html;q=0.5, "+typeParquet)
	a.want(t, "parquet", 200)
	table, err := parquet.Read[column](strings.NewReader(a.body), int64(len(a.body)))
	if err != nil {
		t.Fatal(err)
	}
	if len(table) != len(all) {
		t.Fatalf("%d rows as Parquet, %d as JSON", len(table), len(all))
	}
	for i, p := range table {
		r := all[i]
		event := ""
		if p.Event != nil {
			event = *p.Event
		}
		if p.Seq != r.Seq || p.Kind != r.Kind || event != r.Event || !p.Time.Equal(r.Time) || !same(p.Num, r.Num) || !same(p.Den, r.Den) ||
			!slices.Equal(p.X, r.X) || !same(p.Deferred, r.Deferred) || !same(p.Value, r.Value) {
			t.Errorf("row %d is %+v as Parquet and %+v as JSON", i, p, r)
		}
	}

	for _, c := range []struct {
		what, query, accept string
		status              int
		part                string
	}{
		{"another model", "", "text/html", 406, "not_acceptable"},
		{"backwards", "?from=5&to=4", "", 422, "query.to"},
		{"no entries", "?page_size=0", "", 422, "page_size"},
		{"too many entries", "?page_size=10001", "", 422, "page_size"},
		{"a word", "?from=x", "", 422, "from"},
		{"unknown", "?until=3", "", 422, "until"},
	} {
		e.do("GET", "/v1/models/m/log"+c.query, "", "Accept", c.accept).want(t, c.what, c.status, c.part)
	}
	e.do("GET", "/v1/models/m/decisions?ended=true", "", "Accept", typeParquet).want(t, "ended as Parquet", 422, "query.ended")
	e.do("GET", "/v1/models/nobody/log", "").want(t, "no model", 404)
}

// A log that cannot be read to the end of the page: an error when nothing was sent, otherwise the
// connection is cut, so that nobody takes a part for the whole.
func TestExportLogBreaks(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	a := e.do("GET", "/v1/models/news/log?from=50", "")
	a.want(t, "at once", 503, "unavailable")
	if a.header.Get("Log-Next") != "" || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("headers of the error: %v", a.header)
	}
	for range maxExports {
		e.calls.records.exports <- struct{}{}
	}
	e.do("GET", "/v1/models/news/log", "").want(t, "too many at once", 429, "too_busy")
	for range maxExports {
		<-e.calls.records.exports
	}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("a page that breaks off ends with %v, want http.ErrAbortHandler", v)
		}
		if len(e.calls.records.exports) > 0 {
			t.Errorf("%d exports are still counted", len(e.calls.records.exports))
		}
	}()
	a = e.do("GET", "/v1/models/news/log?from=1", "")
	t.Errorf("a page that breaks off: %d, %d bytes", a.status, len(a.body))
}

// Every route of the document answers on a real server with a status below 300, and where it takes a
// body, with the document's own example. Ids in the examples are replaced by real ones. The answers'
// examples are answers of their type.
func TestExamples(t *testing.T) {
	e, _ := newReal(t, Options{})
	type operation struct {
		OperationID string `json:"operationId"`
		RequestBody struct {
			Content map[string]struct{ Example json.RawMessage }
		}
		Responses map[string]struct {
			Content map[string]struct{ Example json.RawMessage }
		}
	}
	var doc struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal(e.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	type route struct {
		method, path string
		operation
	}
	all := map[string]route{}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			all[o.OperationID] = route{strings.ToUpper(method), path, o}
		}
	}
	event, action, move, parcel := "", "b", "", ""
	call := func(id string) answer {
		t.Helper()
		o, ok := all[id]
		if !ok {
			t.Fatalf("there is no operation %s", id)
		}
		delete(all, id)
		body := strings.NewReplacer("0402frnxfjrs0y001g00r5rdx6r4apmbsg", event, "12\n", "3\n",
			"0402a1b2c3d4e5f6", move).Replace(string(o.RequestBody.Content["application/json"].Example))
		if len(o.RequestBody.Content) > 0 && body == "" && id != "createModelFrom" && id != "arriveModel" {
			t.Errorf("%s has no example", id)
		}
		path := strings.NewReplacer("{model}", "news", "{event}", event, "{action}", action).Replace(o.path)
		if id == "createModelFrom" {
			body, path = e.do("GET", "/v1/models/news/state?format=model", "").body, strings.Replace(path, "news", "warm", 1)
		}
		if id == "arriveModel" {
			body = parcel
		}
		a := e.do(o.method, path, body, "If-Match", "*")
		if a.status >= 300 {
			t.Errorf("%s: %s %s answers %d to its example %s: %s", id, o.method, path, a.status, body, a.body)
		}
		return a
	}
	call("createModel")
	// Features in another order than the log keeps them, and numbers written otherwise.
	e.do("POST", "/v1/models/news/actions", `{"actions": [{"id": "a", "features": {"price": 4e-1, "colour": "red"}}]}`).want(t, "catalogue", 200, `{"colour":"red","price":0.4}`)
	e.do("DELETE", "/v1/models/news/actions/a", "").want(t, "catalogue", 200)
	event = field[string](t, call("decide"), "event_id")
	for _, id := range strings.Fields("decideBatch activate reward rewardBatch getEvent replay changeModel replaceModel putActions listActions deleteAction enterAction leaveAction " +
		"listModels getModel getState getCoin getControl pauseModel resumeModel cloneModel rollbackModel createModelFrom exportLog exportDecisions exportEntries livez readyz metrics") {
		var out struct{ Results []struct{ Problem *Problem } }
		a := call(id)
		if strings.HasSuffix(id, "Batch") {
			if err := json.Unmarshal([]byte(a.body), &out); err != nil || len(out.Results) == 0 || out.Results[0].Problem != nil {
				t.Errorf("%s answers %s", id, a.body)
			}
		}
	}
	move = strings.Repeat("7", 16)
	call("turnModel")
	move = field[string](t, call("departModel"), "move")
	call("stayModel")
	move = field[string](t, e.do("POST", "/v1/models/news:depart", `{"to": "https://b.example:8080"}`), "move")
	parcel = call("getParcel").body
	call("goneModel")
	a := e.do("GET", "/v1/models/news", "")
	a.want(t, "a model that has gone", 307, `"code":"moved"`, `"moved_to":"https://b.example:8080"`)
	if at := a.header.Get("Location"); at != "https://b.example:8080/v1/models/news" {
		t.Errorf("Location: %q", at)
	}
	a = e.do("POST", "/v1/events/"+event+":reward", `{"value": 1}`)
	a.want(t, "a reward of a model that has gone", 307, `"code":"moved"`)
	if at := a.header.Get("Location"); at != "https://b.example:8080/v1/events/"+event+":reward" {
		t.Errorf("Location: %q", at)
	}
	e.do("POST", "/v1/rewards:batch", `{"rewards": [{"event_id": "`+event+`", "value": 1}]}`).want(t, "in a batch", 200, `"moved_to":"https://b.example:8080"`)
	call("arriveModel")
	if state := field[string](t, call("getMove"), "state"); state != "here" {
		t.Errorf("the model is %s", state)
	}
	call("deleteModel")
	e.do("POST", "/v1/cluster:drain", "").want(t, "drain of a single machine", 409, "conflict")
	delete(all, "drain")
	e.do("DELETE", "/v1/cluster/nodes/b", "").want(t, "a node of a single machine", 409, "conflict")
	delete(all, "removeNode")
	e.do("GET", "/v1/cluster/replica", "").want(t, "the replica of a single machine", 409, "conflict")
	delete(all, "checkReplica")
	e.do("GET", "/v1/log/base", "").want(t, "the base of a log that is whole", 404, "not_found")
	delete(all, "exportBase")
	for id := range all {
		t.Errorf("the operation %s was not tried", id)
	}
	for id, into := range map[string]any{"decide": &serve.Decision{}, "reward": &serve.RewardResult{}} {
		found := false
		for _, methods := range doc.Paths {
			for _, o := range methods {
				if x := o.Responses["200"].Content["application/json"].Example; o.OperationID == id && x != nil {
					d := json.NewDecoder(bytes.NewReader(x))
					d.DisallowUnknownFields()
					if err := d.Decode(into); err != nil {
						t.Errorf("the example of %s's answer: %v", id, err)
					}
					found = true
				}
			}
		}
		if !found {
			t.Errorf("the answer of %s has no example", id)
		}
	}
}

// logReads counts the calls that read the log for one event.
type logReads struct {
	*serve.Server
	n int
}

func (s *logReads) Event(ctx context.Context, id string) (serve.EventView, error) {
	s.n++
	return s.Server.Event(ctx, id)
}

// A key with patterns sends rewards without a reading of the log for each (it took six times as long
// and the batches ran out of time), and sees nothing of other models, not even of deleted ones.
func TestPatterns(t *testing.T) {
	var list strings.Builder
	keys := map[string]string{}
	for name, pattern := range map[string][]string{"mine": {"m*"}, "others": {"x*"}, "all": nil} {
		secret, table, err := NewKey(name, []string{"decide", "reward", "read", "admin"}, pattern)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = secret
		list.WriteString(table)
	}
	e, s := newReal(t, Options{Keys: must(ParseKeys("keys.toml", list.String(), nil))})
	counted := &logReads{Server: s}
	e.via.Service = counted
	must(s.CreateModel(t.Context(), serve.DefaultConfig("m1"), ""))
	var items []string
	for range 20 {
		a := e.do("POST", "/v1/models/m1:decide", `{"actions": [{"features": {"p": 1}}, {"features": {"p": 2}}]}`, "X-API-Key", keys["mine"])
		a.want(t, "decide", 200)
		items = append(items, fmt.Sprintf(`{"event_id": %q, "value": 1}`, field[string](t, a, "event_id")))
	}
	batch := `{"rewards": [` + strings.Join(items, ",") + `]}`
	if n := strings.Count(e.do("POST", "/v1/rewards:batch", batch, "X-API-Key", keys["others"]).body, `"forbidden"`); n != 20 {
		t.Errorf("a key for other models was refused %d of 20 rewards", n)
	}
	if n := strings.Count(e.do("POST", "/v1/rewards:batch", batch, "X-API-Key", keys["mine"]).body, `"accepted"`); n != 20 {
		t.Errorf("%d of 20 rewards were accepted", n)
	}
	if counted.n > 0 {
		t.Errorf("40 rewards read the log %d times", counted.n)
	}
	event := "/v1/events/" + strings.Split(items[0], `"`)[3]
	must(0, s.DeleteModel(t.Context(), "m1", ""))
	for _, path := range []string{"GET " + event, "POST " + event + ":replay", "POST " + event + ":activate"} {
		method, path, _ := strings.Cut(path, " ")
		e.do(method, path, "", "X-API-Key", keys["others"]).want(t, "event of a deleted model", 403)
	}
	e.do("GET", event, "", "X-API-Key", keys["mine"]).want(t, "its own key", 200)
	e.do("GET", event, "", "X-API-Key", keys["all"]).want(t, "a key for all", 200)
}

// The limits of docs/guide/operations.md, each at its edge and one beyond, on a real server.
func TestLimits(t *testing.T) {
	e, s := newReal(t, Options{Timeout: time.Minute}) // the largest models take seconds under the race detector on a busy machine
	must(s.CreateModel(t.Context(), must(readConfig([]byte(`{"id": "m", "dim": 2}`))), ""))
	many := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	long := func(n int) string { return strings.Repeat("x", n) }
	const action = `{"features": [0.1, 0.2]}`
	config := func(id string, more string) string { return fmt.Sprintf(`{"id": %q, %s}`, id, more) }
	for _, c := range []struct {
		what, path, body string
		header           []string
		good             int // status
		over, overHeader string
		bad              int
		field            string
	}{
		{"actions", "/v1/models/m:decide", `{"actions": [` + many(1000, action) + `]}`, nil, 200, `{"actions": [` + many(1001, action) + `]}`, "", 413, "actions"},
		{"batch", "/v1/models/m:decideBatch", `{"requests": [` + many(256, `{"actions": [`+action+`]}`) + `]}`, nil, 200,
			`{"requests": [` + many(257, `{"actions": [`+action+`]}`) + `]}`, "", 422, "requests"},
		{"rewards", "/v1/rewards:batch", `{"rewards": [` + many(10_000, `{"event_id": "x", "value": 1}`) + `]}`, nil, 200,
			`{"rewards": [` + many(10_001, `{"event_id": "x", "value": 1}`) + `]}`, "", 422, "rewards"},
		{"d", "/v1/models", config("d", `"dim": 1024`), nil, 201, config("d1", `"dim": 1025`), "", 422, "dim"},
		{"m", "/v1/models", config("mm", `"dim": 2, "policy": {"kind": "ensemble", "m": 1000}`), nil, 201,
			config("mm1", `"dim": 2, "policy": {"kind": "ensemble", "m": 1001}`), "", 422, "policy.m"},
		{"name", "/v1/models", config(long(64), `"dim": 2`), nil, 201, config(long(65), `"dim": 2`), "", 422, "id"},
		{"action id", "/v1/models/m:decide", `{"actions": [{"id": "` + long(256) + `", "features": [0, 0]}]}`, nil, 200,
			`{"actions": [{"id": "` + long(257) + `", "features": [0, 0]}]}`, "", 422, "actions[0].id"},
		{"idempotency key", "/v1/models/m:decide", `{"actions": [` + action + `]}`, []string{"Idempotency-Key", long(256)}, 200,
			`{"actions": [` + action + `]}`, long(257), 422, "Idempotency-Key"},
		{"depth", "/v1/models/m:decide", `{"actions": [` + action + `], "context": null}`, nil, 200,
			`{"actions": [` + action + `], "context": ` + strings.Repeat("[", 17) + strings.Repeat("]", 17) + `}`, "", 422, ""},
		{"configuration", "/v1/models/m/actions", `{"actions": [{"id": "a", "features": [0, 0]}]}`, nil, 200,
			`{"actions": [` + many(1, func() string {
				var all []string
				for i := range 5000 {
					all = append(all, fmt.Sprintf(`{"id": "%0100d", "features": [0.25, 0.25]}`, i))
				}
				return strings.Join(all, ",")
			}()) + `]}`, "", 422, ""},
	} {
		e.do("POST", c.path, c.body, c.header...).want(t, c.what, c.good)
		header := c.header
		if c.overHeader != "" {
			header = []string{c.header[0], c.overHeader}
		}
		a := e.do("POST", c.path, c.over, header...)
		var p Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != c.bad || !strings.Contains(p.Field, c.field) {
			t.Errorf("%s, one beyond: %d %.200s, want %d of %s", c.what, a.status, a.body, c.bad, c.field)
		}
	}
}
