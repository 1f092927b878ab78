package decide_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/serve/choose"
	"troupe/serve/decide"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

var keys = eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("0123456789abcdef0123456789abcdef")}}

// fake is a server with one model: its versions, its log in memory, and its newest decisions.
type fake struct {
	v     *choose.Version
	newer *choose.Version // for a MinSeq above that of v, nil for none

	mu      sync.Mutex
	entries [][]eventlog.Record
	uses    map[[16]byte]fold.KeyUse
	puts    []eventlog.Event
	under   int                                        // calls that go on
	hook    func(context.Context) (stored, told error) // of the next append; an error of stored: nothing is in the log
	settled chan struct{}
}

func (f *fake) Ready(_ context.Context, _ string, min uint64) (decide.Model, *choose.Version, error) {
	if f.newer == nil || min <= f.v.Seq {
		return f, f.v, nil
	}
	if min > f.newer.Seq {
		return nil, nil, &fault.Error{Code: fault.Unavailable, Field: "min_seq", Want: "is not here yet"}
	}
	return f, f.newer, nil
}

func (f *fake) Worker(v *choose.Version) (*choose.Worker, error) { return v.Worker(nil) }
func (f *fake) Done(*choose.Worker)                              {}
func (f *fake) Broken(_ *choose.Version, err error) error        { return err }

func (f *fake) Observe(*choose.Worker, *eventlog.Decision) {}

func (f *fake) Warnings(eventlog.Notes, *choose.Version) []string { return nil }

func (f *fake) Append(ctx context.Context, records ...eventlog.Record) (eventlog.Receipt, error) {
	f.mu.Lock()
	hook := f.hook
	f.hook = nil
	f.mu.Unlock()
	var told error
	if hook != nil {
		var stored error
		if stored, told = hook(ctx); stored != nil {
			return eventlog.Receipt{}, stored
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = append(f.entries, records)
	seq := uint64(len(f.entries))
	first := eventlog.Event{Epoch: 1, Batch: seq}
	for i, r := range records {
		d, ok := r.(*eventlog.Decision)
		if !ok || len(d.Idempotency) == 0 {
			continue
		}
		if k := [16]byte(d.Idempotency[:16]); f.uses[k].Seq == 0 {
			f.uses[k] = fold.KeyUse{Request: [16]byte(d.Idempotency[16:]), Seq: seq,
				Event: eventlog.Event{Epoch: 1, Batch: seq, Index: uint32(i)}}
		}
	}
	return eventlog.Receipt{Seq: seq, Event: first}, told
}

func (f *fake) Applied(uint64) error { return nil }
func (f *fake) Settled()             { <-f.settled }

func (f *fake) Key(key [16]byte) (fold.KeyUse, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, ok := f.uses[key]
	return u, ok
}

func (f *fake) Decision(key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries[seq-1][key.Index].(*eventlog.Decision), nil
}

func (f *fake) Enter() { f.count(1) }
func (f *fake) Leave() { f.count(-1) }
func (f *fake) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.under += n
}

func (f *fake) Put(_ decide.Model, _ string, _ *decide.Request, _ *eventlog.Decision, key eventlog.Event, _ uint64) {
	f.puts = append(f.puts, key)
}

// decisions counts those in the log.
func (f *fake) decisions() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		for _, r := range e {
			if _, ok := r.(*eventlog.Decision); ok {
				n++
			}
		}
	}
	return n
}

func open(t *testing.T) (*fake, *decide.Decider) {
	t.Helper()
	c := model.Default("m")
	c.Dim, c.Floor = 2, 0
	if err := c.Policy.DecodeSpec(spec.Raw{"kind": "ensemble"}, "policy"); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(model.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	v := &choose.Version{Compiled: compiled, ID: 7, Root: 7}
	p, err := compiled.NewPolicy(v.Seed)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := p.AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	v.State = fold.NewState(snapshot)
	f := &fake{v: v, uses: map[[16]byte]fold.KeyUse{}, settled: make(chan struct{})}
	drawn := eventlog.ID(0)
	return f, decide.New(f, f, f, nil, decide.Options{Limits: model.DefaultLimits.Feature, Keys: keys,
		Turns: decide.NewTurns(1), Random: func() eventlog.ID { drawn++; return drawn },
		Now: func() time.Time { return time.Unix(1, 0) }, Clock: func() int64 { return 0 }})
}

// request has two candidates, of which the first depends on x.
func request(x, key string) *decide.Request {
	return &decide.Request{IdempotencyKey: key, Actions: []choose.Action{
		{ID: "a", Features: []byte("[" + x + ", 0]")}, {ID: "b", Features: []byte("[0, 0.5]")}}}
}

// TestKeys: a repetition has the decision of the first call, another request with the key is a conflict, and the log has
// one decision.
func TestKeys(t *testing.T) {
	ctx := context.Background()
	f, d := open(t)
	first, err := d.Decide(ctx, "m", request("0.5", "k"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Decide(ctx, "m", request("0.5", "k"))
	if err != nil || !again.Repeated || again.EventID != first.EventID || again.Action != first.Action ||
		again.Propensity != first.Propensity {
		t.Errorf("%+v, %v, want %+v repeated", again, err, first)
	}
	if _, err := d.Decide(ctx, "m", request("0.25", "k")); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("another request with the key: %v", err)
	}
	if n := f.decisions(); n != 1 || len(f.puts) != 1 || d.Held() != 0 {
		t.Errorf("%d decisions, %d remembered, %d keys held", n, len(f.puts), d.Held())
	}
}

// TestRefused: what the log has refused for certain is not held and not measured, and the next try decides.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	f, d := open(t)
	full := &fault.Error{Code: fault.Full, Want: "the log is full"}
	f.hook = func(context.Context) (error, error) { return full, nil }
	if _, err := d.Decide(ctx, "m", request("0.5", "k")); fault.CodeOf(err) != fault.Full {
		t.Fatal(err)
	}
	if d.Held() != 0 || f.decisions() != 0 {
		t.Errorf("%d keys held, %d decisions", d.Held(), f.decisions())
	}
	if r, err := d.Decide(ctx, "m", request("0.5", "k")); err != nil || r.Repeated || f.decisions() != 1 {
		t.Errorf("%+v, %v, %d decisions", r, err, f.decisions())
	}
}

// TestUnknown: while it is not known whether a decision is in the log its key is held; when it is known, the next try
// has that decision.
func TestUnknown(t *testing.T) {
	ctx := context.Background()
	f, d := open(t)
	unknown := &fault.Error{Code: fault.Unavailable, Want: fault.Unsure, Unknown: true}
	f.hook = func(context.Context) (error, error) { return nil, unknown }
	var e *fault.Error
	if _, err := d.Decide(ctx, "m", request("0.5", "k")); !errors.As(err, &e) || !e.Unknown {
		t.Fatal(err)
	}
	if d.Held() != 1 {
		t.Errorf("%d keys are held, want 1", d.Held())
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := d.Decide(short, "m", request("0.5", "k")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call while the key is held: %v", err)
	}
	close(f.settled)
	if r, err := d.Decide(ctx, "m", request("0.5", "k")); err != nil || !r.Repeated || f.decisions() != 1 {
		t.Errorf("%+v, %v, %d decisions", r, err, f.decisions())
	}
}

// TestCallerLeaves: a call whose caller leaves goes on, counted until its end, and the next try has its decision.
func TestCallerLeaves(t *testing.T) {
	f, d := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	stored := make(chan struct{})
	f.hook = func(inner context.Context) (error, error) {
		cancel()
		<-stored
		return inner.Err(), nil // the log is not told that the caller has left
	}
	var e *fault.Error
	if _, err := d.Decide(ctx, "m", request("0.5", "k")); !errors.As(err, &e) || !e.Unknown {
		t.Fatal(err)
	}
	f.mu.Lock()
	under := f.under
	f.mu.Unlock()
	if under != 1 {
		t.Errorf("%d calls go on, want 1", under)
	}
	close(stored)
	if r, err := d.Decide(context.Background(), "m", request("0.5", "k")); err != nil || !r.Repeated {
		t.Errorf("%+v, %v", r, err)
	}
	await.Until(t, "no call goes on", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.under == 0
	})
	if f.decisions() != 1 {
		t.Errorf("%d decisions", f.decisions())
	}
}

// TestBatch: the items of a batch are one entry in their order, an item that repeats another has its decision, and the
// error of one does not concern the others.
func TestBatch(t *testing.T) {
	f, d := open(t)
	bad := request("0.5", "")
	bad.Mode = "loud"
	out, err := d.Batch(context.Background(), "m", []decide.Request{*request("0.1", ""), *bad, *request("0.2", "k"),
		*request("0.2", "k"), *request("0.3", "k")})
	if err != nil {
		t.Fatal(err)
	}
	for i, code := range []fault.Code{"", fault.Invalid, "", "", fault.Conflict} {
		if err := out[i].Err; (code == "") != (err == nil) || err != nil && fault.CodeOf(err) != code {
			t.Errorf("item %d: %v, want %q", i, err, code)
		}
	}
	if a, b := out[2].Decision, out[3].Decision; !b.Repeated || a.Repeated || a.EventID != b.EventID {
		t.Errorf("%+v and %+v", a, b)
	}
	if len(f.entries) != 1 || f.decisions() != 2 || len(f.puts) != 2 || f.puts[1].Index != 1 || d.Held() != 0 {
		t.Errorf("%d entries, %d decisions, %v remembered, %d keys held", len(f.entries), f.decisions(), f.puts, d.Held())
	}
	id, err := keys.Parse(out[2].Decision.EventID)
	if err != nil || id.Event != f.puts[1] || id.Hint != 1 {
		t.Errorf("the id is %+v, %v, want that of %+v", id, err, f.puts[1])
	}
}

// TestBatchOneVersion: all items are decided on one version, that of the largest MinSeq, wherever it stands; an item whose
// MinSeq cannot be had fails alone; a version that is gone is not used.
func TestBatchOneVersion(t *testing.T) {
	for _, c := range []struct {
		min  []uint64
		want []uint64 // the basis of each item, 0 for an error
	}{
		{[]uint64{0, 0, 0}, []uint64{3, 3, 3}},
		{[]uint64{0, 7, 0}, []uint64{9, 9, 9}},
		{[]uint64{9, 0, 4}, []uint64{9, 9, 9}},
		{[]uint64{0, 3, 0}, []uint64{3, 3, 3}},
		{[]uint64{0, 10, 0}, []uint64{3, 0, 3}},
		{[]uint64{12, 5, 11, 0}, []uint64{0, 9, 0, 9}},
		{[]uint64{10, 11}, []uint64{0, 0}},
	} {
		for _, key := range []string{"", "k"} {
			f, d := open(t)
			f.v.Seq = 3
			newer := *f.v
			newer.Seq = 9
			f.newer = &newer
			var rs []decide.Request
			for i, min := range c.min {
				r := request("0.5", "")
				if r.MinSeq = min; key != "" {
					r.IdempotencyKey = key + string(rune('0'+i))
				}
				rs = append(rs, *r)
			}
			items, err := d.Batch(t.Context(), "m", rs)
			if err != nil {
				t.Error(err)
			}
			for i, it := range items {
				if it.Decision.BasisSeq != c.want[i] || (it.Err == nil) != (c.want[i] > 0) {
					t.Errorf("min_seq %v, keys %q: item %d on %d, %v, want %v", c.min, key, i, it.Decision.BasisSeq, it.Err, c.want)
				}
			}
			if n := f.v.State.Holders(); n != 1 || d.Held() != 0 {
				t.Errorf("min_seq %v: %d hold the state, %d keys are held", c.min, n, d.Held())
			}
		}
	}
}
