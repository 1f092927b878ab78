package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// TestShown: the newest requests of a model are remembered as they were sent, one at a time, in batches and after a rollback; a
// deleted model's are forgotten, and after a restart there are none.
func TestShown(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	request := func(n int) DecideRequest {
		return DecideRequest{Context: fmt.Appendf(nil, `{"n": %d}`, n), Actions: []Action{{ID: "a", Features: json.RawMessage(`{"x": 1}`)}, {ID: `"b"`}, {ID: "c"}}, Available: []bool{true, true, false}, Exclude: []string{"a"}}
	}
	var ids []string
	for n := range 30 {
		clock.forward(time.Second)
		if n%2 == 0 {
			ids = append(ids, must(s.Decide(ctx, "m", request(n))).EventID)
			continue
		}
		item := must(s.DecideBatch(ctx, "m", []DecideRequest{{Context: []byte("wrong")}, request(n)}))[1]
		if item.Err != nil {
			t.Fatal(item.Err)
		}
		ids = append(ids, item.Decision.EventID)
	}
	check := func(what string, from int) {
		t.Helper()
		got := must(s.GetModel(ctx, "m")).Requests
		if len(got) != shownRequests {
			t.Fatalf("%s: %d requests are remembered, want %d", what, len(got), shownRequests)
		}
		for i, r := range got {
			n := from + i
			if want := (RequestView{EventID: ids[n], Context: fmt.Sprintf(`{"n": %d}`, n), Actions: `[{"id":"a","features":{"x": 1}}, {"id":"\"b\""}] without ["a"]`}); r != want {
				t.Errorf("%s: request %d is %+v, want %+v", what, i, r, want)
			}
		}
	}
	check("first", 10)
	if v := must(s.Event(ctx, ids[29])); v.Request == nil || v.Request.Context != `{"n": 29}` {
		t.Errorf("the event has the request %+v", v.Request)
	}
	if v := must(s.Event(ctx, ids[0])); v.Request != nil {
		t.Errorf("an old event has the request %+v", v.Request)
	}
	// Many at one time are one in a while.
	for range 5 {
		must(s.Decide(ctx, "m", request(99)))
	}
	check("at one time", 10)
	clock.forward(time.Second)
	ids = append(ids, must(s.Decide(ctx, "m", request(30))).EventID)
	check("later", 11)
	m := must(s.GetModel(ctx, "m"))
	must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: m.Created.Seq}))
	check("after a rollback", 11)
	if h := s.Health(); s.shown.size() == 0 || h.ModelBytes < int64(s.shown.size()) {
		t.Errorf("%d bytes of requests are not in %d bytes of models", s.shown.size(), h.ModelBytes)
	}
	if err := s.DeleteModel(ctx, "m", ""); err != nil {
		t.Fatal(err)
	}
	if s.shown.size() != 0 || len(s.requestsOf("m")) > 0 {
		t.Errorf("%d bytes of a deleted model are kept", s.shown.size())
	}
}

// TestShownBounds: texts are cut at characters, a model takes at most 64 KiB and all models the bound, those first forgotten that
// were not asked for longest.
func TestShownBounds(t *testing.T) {
	s := &shown{limit: 300 << 10}
	long := strings.Repeat("ü", 5000)
	q := &DecideRequest{Context: json.RawMessage(`{"text": "` + long + `"}`)}
	for i := range 100 {
		q.Actions = append(q.Actions, Action{ID: fmt.Sprint(i), Features: json.RawMessage(`{"text": "` + long[:10*i] + `"}`)})
	}
	for m := range 50 {
		for n := range 2 * shownRequests {
			s.put(fmt.Sprint("m", m), eventlog.Event{Batch: uint64(n) + 1}, 1, q)
		}
		if m == 0 && s.size() > 64<<10 {
			t.Errorf("one model takes %d bytes", s.size())
		}
	}
	sum := 0
	for m := range 50 {
		n := 0
		if s.rings[fmt.Sprint("m", m)] != nil {
			sum += shownOverhead
		}
		s.each(fmt.Sprint("m", m), func(r *shownRequest) {
			n++
			sum += r.size()
			if v := r.view(); !v.Cut || !utf8.ValidString(v.Context) || !utf8.ValidString(v.Actions) || len(v.Context) > shownContext || len(v.Actions) > shownActions {
				t.Errorf("a text is %+v", v)
			}
		})
		if n > 0 && (n != shownRequests || m < 40) {
			t.Errorf("model %d has %d requests", m, n)
		}
	}
	if sum > s.limit || sum != s.size() || sum == 0 {
		t.Errorf("the requests take %d bytes, counted are %d of %d", sum, s.size(), s.limit)
	}
	if n := int(unsafe.Sizeof(shownRing{})); n > shownOverhead {
		t.Errorf("a model takes %d bytes beside the texts, %d are counted", n, shownOverhead)
	}
	if n := testing.AllocsPerRun(100, func() { s.put("m49", eventlog.Event{Batch: 7}, 1, q) }); n > 0 {
		t.Errorf("a request that is remembered makes %v allocations", n)
	}
	for _, q := range []*DecideRequest{{}, {Packed: json.RawMessage(`{}`), IDs: []string{"a", "b"}}} {
		if text := string(appendActions(nil, q, shownActions)); text != "the catalogue" && text != `{"packed":{},"ids":["a","b"]}` {
			t.Errorf("candidates %s", text)
		}
	}
}
