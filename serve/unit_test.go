package serve

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// united makes a model whose unit is context.user.id.
func united(c *ModelConfig) { c.Unit = "context.user.id" }

// visit decides for users in turn, with two contexts each, and pays.
func visit(t *testing.T, from, to, users int, at ...*Server) (out []Decision) {
	t.Helper()
	for i := from; i < to; i++ {
		s, other := at[i%len(at)], at[(i+1)%len(at)]
		q := DecideRequest{Actions: named("a", "b", "c"), IdempotencyKey: fmt.Sprint("key-", i), MinSeq: s.progress.applied.Load(),
			Context: fmt.Appendf(nil, `{"user": {"id": "ann-%d", "tier": "t%d"}, "hour": "h%d"}`, i%users, i%users%3, i%2)}
		d := must(s.Decide(t.Context(), "m", q))
		y := 0.
		if (d.Action.Index+i)%3 == 0 {
			y = 1
		}
		must(other.Reward(t.Context(), RewardRequest{EventID: d.EventID, Value: y}))
		out = append(out, d)
	}
	return out
}

// checkUnits checks the records of a model with units, and returns how many units there are: decisions of one unit in one
// span have one member and sign, and nothing in the log has the value or a hash of it that needs no key.
func checkUnits(t *testing.T, s *Server) (units map[eventlog.ID]int) {
	t.Helper()
	units = map[eventlog.ID]int{}
	type draw struct {
		unit         eventlog.ID
		span, config uint64 // a learned schema has a policy of its own
	}
	drawn, last := map[draw]string{}, map[eventlog.ID]draw{}
	n, spans, anew := 0, 0, 0
	for d, err := range must(s.Decisions(t.Context(), "m", 0, 1_000_000)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		r := d.Record
		if r.Unit == 0 {
			t.Fatalf("entry %d has no unit", d.Seq)
		}
		units[r.Unit]++
		at, is := draw{r.Unit, r.Span, r.Config}, fmt.Sprint(r.Member, r.Negative)
		if was := drawn[at]; was != "" && was != is {
			t.Fatalf("entry %d: unit %v draws %s in span %d, before %s", d.Seq, r.Unit, is, r.Span, was)
		}
		if before := last[r.Unit]; before.unit != 0 && before != at && drawn[at] == "" {
			if spans++; drawn[before] != is {
				anew++
			}
		}
		drawn[at], last[r.Unit] = is, at
		n++
	}
	if 2*anew < spans || spans < 2 { // of 2m draws a unit has the same one again with probability 1/(2m)
		t.Errorf("%d of %d new spans have another draw", anew, spans)
	}
	if 2*len(drawn) > n {
		t.Errorf("%d decisions in %d spans of units: this shows too little", n, len(drawn))
	}
	return units
}

// logHas reports whether a text stands anywhere in the log as it is stored.
func logHas(t *testing.T, log eventlog.Log, text string) bool {
	t.Helper()
	found := false
	for d, err := range eventlog.Replay(t.Context(), log, eventlog.NewChain(0, 1), must(log.Info(t.Context(), 0)).Last) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Events() {
			b := must(eventlog.AppendRecord(nil, r))
			found = found || bytes.Contains(b, []byte(text))
		}
	}
	return found
}

// TestUnits: a unit keeps its member for a span; the log has its keyed hash and never the value, also not as a
// feature; decisions replay from the log alone and after a restart; the key outlives a rotation, and a
// request hash needs it.
func TestUnits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir, log, clock := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	edit := func(o *Options) { o.Dir, o.SnapshotAfter = dir, 50 }
	s := open(t, log, clock, edit)
	c := DefaultConfig("m")
	united(&c)
	must(s.CreateModel(ctx, c, ""))
	visit(t, 0, 300, 12, s)
	units := checkUnits(t, s)
	if len(units) != 12 {
		t.Fatalf("12 users are %d units", len(units))
	}
	replayAll(t, s, s, "at first")
	if logHas(t, log, "ann-") || !logHas(t, log, "context.user.id") {
		t.Error("the log has the value of a unit, or its records are not read")
	}
	// A context without the unit would be the same to the model.
	var u *Error
	if _, err := s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b"), Context: []byte(`{"user": {"tier": "t1"}}`)}); !errors.As(err, &u) || u.Code != Invalid || u.Field != "context.user.id" {
		t.Errorf("a request without its unit: %v", err)
	}
	items := must(s.DecideBatch(ctx, "m", []DecideRequest{
		{Actions: named("a", "b"), IdempotencyKey: "x", Context: []byte(`{"user": {"tier": "t1"}}`)},
		{Actions: named("a", "b"), IdempotencyKey: "y", Context: []byte(`{"user": {"id": "ann-1"}}`)},
		{Actions: named("a", "b"), IdempotencyKey: "y", Context: []byte(`{"user": {"id": "ann-2"}}`)},
		{Actions: named("a", "b"), Context: []byte(`{"user": {"id": 7}}`)},
	}))
	if items[0].Err == nil || items[1].Err != nil || items[2].Err == nil || items[3].Err != nil {
		t.Errorf("a batch: %+v", items)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	rotated := eventlog.IDKeys{Current: 9, Keys: map[byte][]byte{9: bytes.Repeat([]byte{7}, 32)}}
	for n, k := range testKeys.Keys {
		rotated.Keys[n] = k
	}
	turn := func(o *Options) { o.Keys = rotated }
	s = open(t, log, clock, edit, turn)
	visit(t, 300, 360, 12, s)
	if after := checkUnits(t, s); len(after) != 13 { // and the number 7
		t.Errorf("after a rotation 12 users and one more are %d units", len(after))
	}
	replayAll(t, s, open(t, log, clock, turn), "from the log alone")

	// Another unit from now on, and none: old decisions replay with that of their time.
	m := must(s.GetModel(ctx, "m"))
	if m.Config.Unit != "context.user.id" {
		t.Errorf("the model says that its unit is %q", m.Config.Unit)
	}
	for _, unit := range []string{"context.visit", ""} {
		m = must(s.GetModel(ctx, "m"))
		c := m.Config
		c.Unit = unit
		must(s.ConfigureModel(ctx, "m", m.ConfigVersion, c, ""))
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b", "c"), Context: []byte(`{"hour": "h1", "visit": 3}`)}))
		if r := must(s.Event(ctx, d.EventID)).Decision; (r.Unit != 0) != (unit != "") {
			t.Errorf("with the unit %q the record has %v", unit, r.Unit)
		}
	}
	replayAll(t, s, s, "after other units")
}

// TestUnitHash: what is recorded of a unit and of a request with one needs the key, and the model.
func TestUnitHash(t *testing.T) {
	records := map[string]eventlog.Decision{}
	for name, keys := range map[string]eventlog.IDKeys{"one": testKeys, "two": {Current: 1, Keys: map[byte][]byte{1: bytes.Repeat([]byte{3}, 32)}}} {
		s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) { o.Keys = keys })
		c := DefaultConfig("m")
		united(&c)
		must(s.CreateModel(t.Context(), c, ""))
		d := must(s.Decide(t.Context(), "m", DecideRequest{Actions: named("a", "b"), IdempotencyKey: "k", Context: []byte(`{"user":{"id":"ann"}}`)}))
		records[name] = must(s.Event(t.Context(), d.EventID)).Decision
		again := must(s.Decide(t.Context(), "m", DecideRequest{Actions: named("a", "b"), IdempotencyKey: "k", Context: []byte(`{"user":{"id":"ann"}}`)}))
		if again.EventID != d.EventID {
			t.Error("a repetition is another decision")
		}
		if _, err := s.Decide(t.Context(), "m", DecideRequest{Actions: named("a", "b"), IdempotencyKey: "k", Context: []byte(`{"user":{"id":"bob"}}`)}); err == nil {
			t.Error("the same key for another user is a repetition")
		}
		c.ID = "other"
		must(s.CreateModel(t.Context(), c, ""))
		d = must(s.Decide(t.Context(), "other", DecideRequest{Actions: named("a", "b"), Context: []byte(`{"user":{"id":"ann"}}`)}))
		if r := must(s.Event(t.Context(), d.EventID)).Decision; r.Unit == 0 || r.Unit == records[name].Unit {
			t.Errorf("two models know a user by the hashes %v and %v", records[name].Unit, r.Unit)
		}
	}
	a, b := records["one"], records["two"]
	if a.Unit == b.Unit || bytes.Equal(a.Idempotency[16:], b.Idempotency[16:]) {
		t.Errorf("another key, and the same hashes: %v, %x", a.Unit, a.Idempotency)
	}
	if a.Context != b.Context || !bytes.Equal(a.Full, b.Full) {
		t.Error("the value is in the context or in its features")
	}
}

// TestUnitsOnThreeNodes: a user has one hash and one member at each node, states are equal, and nodes replay one another.
func TestUnitsOnThreeNodes(t *testing.T) {
	t.Parallel()
	_, nodes, _ := three(t)
	c := DefaultConfig("m")
	united(&c)
	must(nodes[0].CreateModel(t.Context(), c, ""))
	until := func() {
		for _, s := range nodes {
			must(s.progress.until(t.Context(), nodes[0].Health().Log))
		}
	}
	until()
	visit(t, 0, 120, 7, nodes...)
	until()
	if units := checkUnits(t, nodes[2]); len(units) != 7 {
		t.Errorf("7 users are %d units", len(units))
	}
	replayAll(t, nodes[1], nodes[2], "at another node")
	agree(t, nodes...)
}
