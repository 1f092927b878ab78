package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
	"troupe/timing"
)

// otherKeys are those of another server.
var otherKeys = eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("fedcba9876543210fedcba9876543210")}}

func withOtherKeys(o *Options) { o.Keys = otherKeys }

// movedKind is a model with what its windows have.
type movedKind struct {
	name   string
	config func() ModelConfig
	ask    func(n int) DecideRequest
	pay    func(n int, id string) []RewardRequest
}

func onePay(n int, id string) []RewardRequest {
	return []RewardRequest{{EventID: id, Value: float64(n%3) / 3, Key: fmt.Sprint("pay", n)}}
}

var movedKinds = []movedKind{
	{"vectors, sum", func() ModelConfig {
		return vectors("m", 3, func(c *ModelConfig) { c.Reward.Rule, c.Reward.Min, c.Reward.Max = model.Sum, -9, 9 })
	}, func(n int) DecideRequest { return DecideRequest{Actions: actions(n, 4, 3), Deferred: n%7 == 3} }, onePay},
	{"requests, defaults", func() ModelConfig {
		c := DefaultConfig("m")
		c.Reward.Default = Maybe{Set: true}
		return c
	}, func(n int) DecideRequest {
		return DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Actions: named("a", "b", "c")}
	}, onePay},
	{"lists", func() ModelConfig {
		c := DefaultConfig("m")
		c.Reward.Default = Maybe{Set: true}
		return c
	}, func(n int) DecideRequest { return listRequest(n, 3, "a", "b", "c", "d") }, func(n int, id string) []RewardRequest {
		return []RewardRequest{{EventID: id, Value: 1, Position: new(n % 3), Key: fmt.Sprint("p", n)}}
	}},
	{"lists of a baseline", func() ModelConfig {
		c := DefaultConfig("m")
		c.Mode = string(Apprentice)
		return c
	}, func(n int) DecideRequest { return listRequest(n, 2, "a", "b", "c", "d") }, func(n int, id string) []RewardRequest {
		return []RewardRequest{{EventID: id, Values: []float64{float64(n % 2), 0}}}
	}},
	{"numbers", func() ModelConfig { return DefaultConfig("m") }, func(n int) DecideRequest {
		return DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Numbers: []NumberAsk{playing("price", 1, 20, .5)}}
	}, onePay},
	{"names", func() ModelConfig {
		return twoRewards("m", model.First, map[string]float64{"click": 1, "revenue": .05})
	},
		func(n int) DecideRequest { return DecideRequest{Actions: actions(n, 4, 2)} }, func(n int, id string) []RewardRequest {
			return []RewardRequest{{EventID: id, Rewards: map[string]float64{[]string{"click", "revenue"}[n%2]: float64(n % 2)}}}
		}},
	{"guarded", func() ModelConfig { return watched("m") }, func(n int) DecideRequest {
		return DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Actions: named("a", "b"), Baseline: new(n % 2)}
	}, func(n int, id string) []RewardRequest { return []RewardRequest{{EventID: id, Value: float64(n % 2)}} }},
	{"budget", func() ModelConfig { return budgeted("m", model.Budget{Mean: 2}) }, func(n int) DecideRequest {
		q := DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Actions: named("a", "b")}
		for i := range q.Actions {
			q.Actions[i].Cost = new(float64(i + 1))
		}
		return q
	}, func(n int, id string) []RewardRequest {
		return []RewardRequest{{EventID: id, OnlyCost: true, Cost: new(1.5)}, {EventID: id, Value: float64(n % 2)}}
	}},
	{"half-life by time, control group", func() ModelConfig {
		c := DefaultConfig("m")
		if err := c.Policy.DecodeSpec(spec.Raw{"kind": "effects", "half_life": "1h"}, "policy"); err != nil {
			panic(err)
		}
		c.Control = model.Control{Share: .3, Plays: model.PlaysFirst}
		return c
	}, func(n int) DecideRequest {
		return DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, n%3), Actions: named("a", "b", "c")}
	}, onePay},
}

// TestMoveKinds: a parcel has all of a model. It is opened at both servers, which no operator does, and goes on there in the
// same way: the same rewards and the same ends of windows leave the same state and counts. Repeated calls with keys get the
// answers of before, and the parcel of the model that came is the same.
func TestMoveKinds(t *testing.T) {
	for _, k := range movedKinds {
		t.Run(k.name, func(t *testing.T) {
			ctx, clock := context.Background(), &fakeClock{}
			a := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
			logB := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
			b := open(t, logB, clock, withOtherKeys)
			must(b.CreateModel(ctx, vectors("other", 3), ""))
			must(b.Decide(ctx, "other", DecideRequest{Actions: actions(1, 4, 3)}))
			c := k.config()
			c.Reward.Window = Duration(time.Hour)
			must(a.CreateModel(ctx, c, ""))
			must(a.CreateModel(ctx, vectors("stays", 3), ""))
			ask := func(n int) DecideRequest {
				q := k.ask(n)
				q.IdempotencyKey = fmt.Sprint("key ", n)
				return q
			}
			var first []Decision
			decide := func(from, to int) {
				for n := from; n < to; n++ {
					clock.forward(time.Millisecond)
					first = append(first, must(a.Decide(ctx, "m", ask(n))))
					must(a.Decide(ctx, "stays", DecideRequest{Actions: actions(n, 4, 3), IdempotencyKey: fmt.Sprint("stays ", n)}))
					if n%2 == 0 {
						for _, r := range k.pay(n, first[n].EventID) {
							must(a.Reward(ctx, r))
						}
					}
				}
			}
			decide(0, 12)
			clock.forward(2 * time.Hour)
			must(a.Expire(ctx))
			decide(12, 30)
			items := must(a.DecideBatch(ctx, "m", []DecideRequest{ask(30), ask(31), ask(32)}))
			for _, x := range items {
				if x.Err != nil {
					t.Fatal(x.Err)
				}
				first = append(first, x.Decision)
			}
			v := must(MovesOf(a).Depart(ctx, "m", "http://b", "ann"))
			if again := must(MovesOf(a).Depart(ctx, "m", "http://b", "ann")); again.Move != v.Move || v.State != "closed" {
				t.Fatalf("departed: %+v, then %+v", v, again)
			}
			_, err := a.Decide(ctx, "m", ask(50))
			wantCode(t, err, Leaving)
			_, err = a.Reward(ctx, k.pay(29, first[29].EventID)[0])
			wantCode(t, err, Leaving)
			p := must(MovesOf(a).Parcel(ctx, "m"))
			if !bytes.Equal(p, must(MovesOf(a).Parcel(ctx, "m"))) {
				t.Fatal("a second parcel differs")
			}
			there := must(MovesOf(b).Arrive(ctx, "m", p, "ann"))
			if there.Digest != v.Digest || there.Open != v.Open || there.State != "here" || v.Open == 0 {
				t.Fatalf("left: %+v\ncame: %+v", v, there)
			}
			must(MovesOf(b).Arrive(ctx, "m", p, "ann")) // once more
			must(MovesOf(b).Depart(ctx, "m", "http://a", "ann"))
			q, r := must(fold.ReadParcel(p)), must(fold.ReadParcel(must(MovesOf(b).Parcel(ctx, "m"))))
			if q.Sum() != r.Sum() || q.Events() != int(v.Open) || len(q.Decisions()) != len(first) {
				t.Fatalf("the parcel of the model that came differs: %d parts of %d and %d bytes, %d decisions of %d", len(r.Parts),
					len(q.Parts[0]), len(r.Parts[0]), len(q.Decisions()), len(first))
			}
			must(MovesOf(b).Stay(ctx, "m", r.Move, "ann"))
			must(MovesOf(a).Stay(ctx, "m", v.Move, "ann"))
			// A restart from a snapshot reads the same.
			if err := b.Close(ctx); err != nil {
				t.Fatal(err)
			}
			b = open(t, logB, clock, withOtherKeys)
			for n, d := range first {
				for _, s := range []*Server{a, b} {
					again := must(s.Decide(ctx, "m", ask(n)))
					if again.Seq = d.Seq; !again.Repeated || fmt.Sprint(again.EventID, again.Action, again.Propensity, again.List, again.Numbers, again.Would, again.Group) !=
						fmt.Sprint(d.EventID, d.Action, d.Propensity, d.List, d.Numbers, d.Would, d.Group) {
						t.Fatalf("decision %d again: %+v\nwas %+v", n, again, d)
					}
				}
			}
			for n := 12; n < len(first); n++ {
				if n%5 == 4 {
					continue
				}
				for _, r := range k.pay(n, first[n].EventID) {
					x, y := must(a.Reward(ctx, r)), must(b.Reward(ctx, r))
					if x.Status != y.Status {
						t.Fatalf("reward of %d: %s and %s", n, x.Status, y.Status)
					}
				}
			}
			late := k.pay(1, first[1].EventID)[0]
			if x, y := must(a.Reward(ctx, late)), must(b.Reward(ctx, late)); x.Status != Late || y.Status != Late {
				t.Errorf("late rewards: %s and %s", x.Status, y.Status)
			}
			clock.forward(2 * time.Hour)
			if x, y := must(a.Expire(ctx)), must(b.Expire(ctx)); x != int(v.Open)+18 || y != int(v.Open)+1 {
				t.Errorf("%d and %d windows closed, want %d of the model", x, y, v.Open)
			}
			x, y := must(a.GetModel(ctx, "m")), must(b.GetModel(ctx, "m"))
			if x.Counts != y.Counts || x.Counts.Learned == 0 && c.Mode != string(Apprentice) {
				t.Errorf("counts %+v\n   and %+v", x.Counts, y.Counts)
			}
			if x, y := must(a.State(ctx, "m")), must(b.State(ctx, "m")); x.Digest != y.Digest || x.Digest == v.Digest {
				t.Errorf("digests %v and %v, was %v", x.Digest, y.Digest, v.Digest)
			}
			if fmt.Sprint(x.Budget) != fmt.Sprint(y.Budget) || fmt.Sprint(x.Guard) != fmt.Sprint(y.Guard) {
				t.Errorf("%+v %+v\nand %+v %+v", x.Budget, x.Guard, y.Budget, y.Guard)
			}
		})
	}
}

// moveModel moves a model from one server to another.
func moveModel(t testing.TB, name string, from, to *Server, address string) {
	t.Helper()
	ctx := context.Background()
	v := must(MovesOf(from).Depart(ctx, name, address, "ann"))
	there := must(MovesOf(to).Arrive(ctx, name, must(MovesOf(from).Parcel(ctx, name)), "ann"))
	if there.Digest != v.Digest {
		t.Fatalf("left: %+v\ncame: %+v", v, there)
	}
	must(MovesOf(from).Gone(ctx, name, v.Move, "ann"))
}

// TestMoveThereAndBack: a model goes, is rolled back, and comes back. The server that it left names the other one, for the
// model and for its events, also after a restart, from a snapshot and from the log; the name stays taken until it is deleted.
// Events of before both moves count once.
func TestMoveThereAndBack(t *testing.T) {
	ctx, clock := context.Background(), &fakeClock{}
	logA, logB := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	a, b := open(t, logA, clock), open(t, logB, clock, withOtherKeys)
	sum := func(name string) ModelConfig {
		return vectors(name, 3, func(c *ModelConfig) { c.Reward.Rule, c.Reward.Min, c.Reward.Max = model.Sum, -9, 9 })
	}
	must(a.CreateModel(ctx, sum("m"), ""))
	must(a.CreateModel(ctx, sum("stays"), ""))
	ask := func(n int) DecideRequest {
		return DecideRequest{Actions: actions(n, 4, 3), IdempotencyKey: fmt.Sprint("key ", n)}
	}
	old := must(a.Decide(ctx, "m", ask(1)))
	must(a.Reward(ctx, RewardRequest{EventID: old.EventID, Value: .5, Key: "one"}))
	moveModel(t, "m", a, b, "http://b")

	for _, how := range []string{"as it is", "from a snapshot", "from the log"} {
		switch how {
		case "from a snapshot":
			if err := a.Close(ctx); err != nil {
				t.Fatal(err)
			}
			a = open(t, logA, clock)
		case "from the log":
			a.stop()
			a = open(t, logA, clock, func(o *Options) { o.Dir = t.TempDir() })
		}
		for what, err := range map[string]error{
			"decide": errorOf(a.Decide(ctx, "m", ask(1))), "reward": errorOf(a.Reward(ctx, RewardRequest{EventID: old.EventID, Value: 1})),
			"read": errorOf(a.GetModel(ctx, "m")), "pause": errorOf(a.PauseModel(ctx, "m", "")), "activate": errorOf(a.Activate(ctx, old.EventID, "")),
			"log": errorOf(a.Log(ctx, "m", 0, 10)), "state": errorOf(a.State(ctx, "m")),
		} {
			var e *Error
			if what == "activate" { // it was never deferred
				continue
			}
			if wantCode(t, err, Moved); !errors.As(err, &e) || e.To != "http://b" {
				t.Errorf("%s, %s: %v names %q", how, what, err, e.To)
			}
		}
		wantCode(t, errorOf(a.CreateModel(ctx, sum("m"), "")), Conflict, "http://b")
		if items := must(a.RewardBatch(ctx, []RewardRequest{{EventID: old.EventID, Value: 1}})); CodeOf(items[0].Err) != Moved {
			t.Errorf("%s: a batch: %+v", how, items[0])
		}
	}
	if r := must(b.Reward(ctx, RewardRequest{EventID: old.EventID, Value: .5, Key: "one"})); r.Status != Duplicate {
		t.Errorf("the reward of before the move: %+v", r)
	}
	_, err := b.Reward(ctx, RewardRequest{EventID: old.EventID[:len(old.EventID)-1] + "0", Value: 1})
	if old.EventID[len(old.EventID)-1] != '0' {
		wantCode(t, err, BadEventID)
	}
	wantCode(t, errorOf(b.Replay(ctx, old.EventID)), Gone)
	if v := must(b.Event(ctx, old.EventID)); v.Model != "m" || v.Status != "rewarded" || v.Action != old.Action {
		t.Errorf("the event at the other server: %+v", v)
	}
	newer := must(b.Decide(ctx, "m", ask(2)))
	applied(b)
	at := b.progress.applied.Load()
	must(b.Reward(ctx, RewardRequest{EventID: newer.EventID, Value: 1}))
	must(b.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: at}))
	wantCode(t, errorOf(b.CloneModel(ctx, CloneRequest{From: "m", Name: "c", Change: &ModelChange{Sigma: .5}})), Gone)

	moveModel(t, "m", b, a, "http://a")
	wantCode(t, errorOf(b.Decide(ctx, "m", ask(2))), Moved)
	if again := must(a.Decide(ctx, "m", ask(1))); !again.Repeated || again.EventID != old.EventID {
		t.Errorf("%+v, was %+v", again, old)
	}
	if again := must(a.Decide(ctx, "m", ask(2))); !again.Repeated || again.EventID != newer.EventID {
		t.Errorf("%+v, was %+v", again, newer)
	}
	for _, d := range []Decision{old, newer} {
		for _, want := range []RewardStatus{Accepted, Duplicate} {
			if r := must(a.Reward(ctx, RewardRequest{EventID: d.EventID, Value: .25, Key: "three"})); r.Status != want {
				t.Errorf("a reward at home: %+v, want %s", r, want)
			}
		}
	}
	clock.forward(48 * time.Hour)
	if n := must(a.Expire(ctx)); n != 2 {
		t.Errorf("%d windows closed, want 2", n)
	}
	m := must(a.GetModel(ctx, "m"))
	if m.Counts.Learned != 2 || m.Counts.Open != 0 || m.Counts.Decisions != 2 {
		t.Errorf("counts %+v", m.Counts)
	}
	digest := must(a.State(ctx, "m")).Digest
	a.stop()
	a = open(t, logA, clock, func(o *Options) { o.Dir = t.TempDir() })
	if d := must(a.State(ctx, "m")).Digest; d != digest {
		t.Errorf("after a restart from the log the digest is %v, was %v", d, digest)
	}
	if err := b.DeleteModel(ctx, "m", ""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, errorOf(b.Decide(ctx, "m", ask(2))), NotFound)
	must(b.CreateModel(ctx, sum("m"), ""))
}

func errorOf[T any](_ T, err error) error { return err }

// TestMoveUndone: a move that the other server has turned away does not arrive, and the model opens again; one that has arrived
// is not turned away, and does not arrive twice, also when the model has gone on meanwhile.
func TestMoveUndone(t *testing.T) {
	ctx, clock := context.Background(), &fakeClock{}
	open3 := func(keys eventlog.IDKeys) *Server {
		return open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock, func(o *Options) { o.Keys = keys })
	}
	a, b, c := open3(testKeys), open3(otherKeys), open3(otherKeys)
	must(a.CreateModel(ctx, vectors("m", 3), ""))
	d := must(a.Decide(ctx, "m", DecideRequest{Actions: actions(1, 4, 3)}))
	v := must(MovesOf(a).Depart(ctx, "m", "http://b", ""))
	wantCode(t, errorOf(MovesOf(a).Depart(ctx, "m", "http://c", "")), Conflict)
	p := must(MovesOf(a).Parcel(ctx, "m"))
	must(MovesOf(b).Turn(ctx, "m", v.Incarnation, v.Move, ""))
	wantCode(t, errorOf(MovesOf(b).Arrive(ctx, "m", p, "")), Conflict, "turned away")
	clock.forward(48 * time.Hour)
	if n := must(a.Expire(ctx)); n != 0 {
		t.Errorf("%d windows of a closed model closed", n)
	}
	must(MovesOf(a).Stay(ctx, "m", v.Move, ""))
	if n := must(a.Expire(ctx)); n != 1 {
		t.Errorf("%d windows closed, want 1", n)
	}
	if r := must(a.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1})); r.Status != Late {
		t.Errorf("%+v", r)
	}

	v = must(MovesOf(a).Depart(ctx, "m", "http://b", ""))
	p = must(MovesOf(a).Parcel(ctx, "m"))
	must(MovesOf(b).Arrive(ctx, "m", p, ""))
	wantCode(t, errorOf(MovesOf(b).Turn(ctx, "m", v.Incarnation, v.Move, "")), Conflict, "arrived")
	moveModel(t, "m", b, c, "http://c")
	if x := must(MovesOf(b).Arrive(ctx, "m", p, "")); x.State != "gone" {
		t.Errorf("a parcel arrived twice: %+v", x)
	}
	wantCode(t, errorOf(MovesOf(b).Turn(ctx, "m", v.Incarnation, v.Move, "")), Conflict, "arrived")
	must(MovesOf(a).Gone(ctx, "m", v.Move, ""))
	p[len(p)/2] ^= 1
	wantCode(t, errorOf(MovesOf(c).Arrive(ctx, "m", p, "")), Invalid, "checksum")
}

// TestMoveUnderCalls: while callers decide and pay, every decision that was answered is in the parcel, and every reward that was
// answered counts there; what was refused is not. Rounds end with the model open again.
func TestMoveUnderCalls(t *testing.T) {
	ctx := context.Background()
	a := must(Open(ctx, Options{Dir: t.TempDir(), ExpireEvery: -1, SnapshotEvery: -1}))
	defer a.Close(ctx)
	sum := vectors("m", 3, func(c *ModelConfig) { c.Reward.Rule, c.Reward.Min, c.Reward.Max = model.Sum, -9, 9 })
	must(a.CreateModel(ctx, sum, ""))
	rounds, callers := 12, 16
	if testing.Short() {
		rounds = 4
	}
	answered, paid := map[string]bool{}, uint64(0)
	var mu sync.Mutex
	for round := range rounds {
		var calls sync.WaitGroup
		begun := make(chan struct{}, callers)
		for u := range callers {
			calls.Go(func() {
				for n := 0; ; n++ {
					d, err := a.Decide(ctx, "m", DecideRequest{Actions: actions(n, 4, 3), IdempotencyKey: fmt.Sprint(round, u, n)})
					if err == nil {
						mu.Lock()
						answered[d.EventID] = true
						mu.Unlock()
						_, err = a.Reward(ctx, RewardRequest{EventID: d.EventID, Value: .5, Key: "k"})
						if err == nil {
							mu.Lock()
							paid++
							mu.Unlock()
						}
					}
					if n == 5 {
						begun <- struct{}{}
					}
					if err != nil {
						if CodeOf(err) != Leaving {
							t.Errorf("round %d: %v", round, err)
						}
						return
					}
				}
			})
		}
		for range callers {
			<-begun
		}
		v := must(MovesOf(a).Depart(ctx, "m", "http://b", ""))
		p := must(fold.ReadParcel(must(MovesOf(a).Parcel(ctx, "m"))))
		calls.Wait()
		if again := must(fold.ReadParcel(must(MovesOf(a).Parcel(ctx, "m")))); again.Sum() != p.Sum() {
			t.Error("the parcel changed after the model was closed")
		}
		carried := map[string]bool{}
		for _, c := range p.Decisions() {
			carried[c.ID()] = true
		}
		for id := range answered {
			if !carried[id] {
				t.Fatalf("round %d: the decision %s was answered and is not in the parcel", round, id)
			}
		}
		m := must(a.GetModel(ctx, "m"))
		if m.Counts.Rewards != paid || len(carried) != len(answered) || m.Counts.Decisions != uint64(len(answered)) {
			t.Fatalf("round %d: %d rewards were answered, %d decisions; the parcel has %d, the model %+v", round, paid, len(answered), len(carried), m.Counts)
		}
		must(MovesOf(a).Stay(ctx, "m", v.Move, ""))
	}
}

// TestForgedParcels: a parcel whose bytes were changed, with a sum that is right again, is refused, or its model is one that
// bears rewards, the ends of its windows, decisions and a restart. None stops the server, and none stays in the log to do so later.
func TestForgedParcels(t *testing.T) {
	forged := 12
	if os.Getenv("TROUPE_LONG") != "" {
		forged = 600
	}
	for _, k := range movedKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			ctx, clock := t.Context(), &fakeClock{}
			a := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
			c := k.config()
			c.Reward.Window = Duration(time.Hour)
			must(a.CreateModel(ctx, c, ""))
			var ids []string
			for n := range 16 {
				q := k.ask(n)
				q.IdempotencyKey = fmt.Sprint("key", n)
				d := must(a.Decide(ctx, "m", q))
				if ids = append(ids, d.EventID); n%2 == 0 {
					for _, r := range k.pay(n, d.EventID) {
						must(a.Reward(ctx, r))
					}
				}
			}
			must(MovesOf(a).Depart(ctx, "m", "http://b", ""))
			sound := must(MovesOf(a).Parcel(ctx, "m"))
			r := rand.New(rand.NewPCG(7, uint64(len(k.name))))
			arrived := 0
			for i := range forged {
				p := bytes.Clone(sound[:len(sound)-sha256.Size])
				for range 1 + r.IntN(2) {
					switch at := 6 + r.IntN(len(p)-6-8); r.IntN(4) {
					case 0:
						p[at] ^= 1 << r.IntN(8)
					case 1:
						p[at] = byte(r.Uint32())
					case 2:
						binary.LittleEndian.PutUint64(p[at:], math.Float64bits(math.NaN()))
					case 3:
						binary.LittleEndian.PutUint64(p[at:], math.Float64bits([]float64{math.Inf(1), math.MaxFloat64, -1e300, 0}[r.IntN(4)]))
					}
				}
				p = fold.Sign(p, 0)
				log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
				b := open(t, log, clock, withOtherKeys)
				now := clock.ns.Load()
				_, err := MovesOf(b).Arrive(ctx, "m", p, "")
				if err != nil {
					if code := CodeOf(err); code != Invalid && code != Conflict && code != TooBusy && code != TooLarge {
						t.Errorf("forgery %d: %v", i, err)
					}
				} else {
					arrived++
				}
				for n, id := range ids {
					for _, r := range k.pay(n, id) {
						_, _ = b.Reward(ctx, r) // whatever the forged model says
					}
				}
				_, _ = b.Decide(ctx, "m", k.ask(3))
				clock.forward(3 * time.Hour)
				if _, err := b.Expire(ctx); err != nil {
					t.Errorf("forgery %d: windows do not end: %v", i, err)
				}
				must(b.CreateModel(ctx, vectors("other", 3), ""))
				if h := b.Health(); !h.Ready || h.Damage != "" {
					t.Errorf("forgery %d: %+v", i, h)
				}
				if err := b.Close(ctx); err != nil {
					t.Errorf("forgery %d: %v", i, err)
				}
				if b, err = Open(ctx, Options{Log: log, Keys: otherKeys, Clock: timing.At(clock.now), ExpireEvery: -1, SnapshotEvery: -1, Wait: time.Minute}); err != nil {
					t.Errorf("forgery %d: the log is not opened again: %v", i, err)
				} else if err := b.Close(ctx); err != nil {
					t.Error(err)
				}
				clock.ns.Store(now)
			}
			t.Logf("%d of %d forged parcels arrived", arrived, forged)
		})
	}
}
