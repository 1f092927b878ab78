package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/model"
	"troupe/spec"
	"troupe/timing"
)

// reference is what the server should be, said naively: lists of everything that happened, and
// states computed from scratch by a policy that nobody else touches.
type reference struct {
	t      *rapid.T
	s      *Server
	log    *eventlogtest.Memory
	clock  *fakeClock
	dir    string
	models map[string]*refModel
	events []*refEvent
	n      int
}

type refModel struct {
	name         string
	seed         rng.Key
	rule         Rule
	mode         string
	fallback     *float64
	paused, gone bool
	floor        float64
	began        uint64
	lessons      []lesson
	next         *refModel
	cut          uint64
	keep         bool
	before       []life // lives that a rollback ended, oldest first
}

// life is a model that was current until a sequence.
type life struct {
	until uint64
	model *refModel
}

// lesson is one update.
type lesson struct {
	seq uint64
	key eventlog.Event
	x   []float64
	y   float64
}

type refEvent struct {
	id       string
	request  DecideRequest
	key      eventlog.Event
	model    *refModel
	seq      uint64
	deadline time.Time
	x        []float64
	rule     Rule
	learns   bool
	inactive bool
	paid     bool
	closed   bool
	y        float64
	keys     map[string]bool
}

// pupil is who learns from an event now, nil for nobody.
func (e *refEvent) pupil() *refModel {
	m := e.model
	for m.next != nil {
		if e.seq > m.cut && !m.keep {
			return nil
		}
		m = m.next
	}
	if m.gone {
		return nil
	}
	return m
}

func (r *reference) open(from string) {
	o := Options{Log: r.log, Keys: testKeys, Clock: timing.At(r.clock.now), ExpireEvery: -1, SnapshotEvery: -1, Wait: time.Minute, Dir: from}
	s, err := Open(context.Background(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = s
}

const refDim = 3

func (r *reference) config(name string) ModelConfig {
	c := vectors(name, refDim)
	c.Policy = PolicySpec{Raw: spec.Raw{"kind": "ensemble", "m": int64(3)}, Options: &policy.EnsembleOptions{M: 3}}
	c.Reward.Rule = rapid.SampledFrom([]Rule{"first", "sum", "last"}).Draw(r.t, "rule")
	c.Mode = rapid.SampledFrom([]string{"online", "online", "apprentice", "shadow", "frozen"}).Draw(r.t, "mode")
	c.Floor = rapid.SampledFrom([]float64{0, 0.25}).Draw(r.t, "floor")
	if rapid.Bool().Draw(r.t, "default") {
		c.Reward.Default = Maybe{Set: true, Value: -0.5}
	}
	return c
}

func (m *refModel) take(c ModelConfig) {
	m.rule, m.mode, m.floor, m.fallback = c.Reward.Rule, c.Mode, c.Floor, nil
	if c.Reward.Default.Set {
		y := c.Reward.Default.Value
		m.fallback = &y
	}
}

var refNames = []string{"a", "b", "c"}

func (r *reference) name() (string, *refModel) {
	n := rapid.SampledFrom(refNames).Draw(r.t, "model")
	return n, r.models[n]
}

func (r *reference) event() *refEvent {
	if len(r.events) == 0 {
		return nil
	}
	// mostly the newest
	i := rapid.IntRange(max(0, len(r.events)-6), len(r.events)-1).Draw(r.t, "event")
	if rapid.IntRange(0, 4).Draw(r.t, "any") == 0 {
		i = rapid.IntRange(0, len(r.events)-1).Draw(r.t, "old event")
	}
	return r.events[i]
}

func (r *reference) want(err error, code Code) bool {
	r.t.Helper()
	if code == "" {
		if err != nil {
			r.t.Fatalf("error: %v (%v)", err, errors.Unwrap(err))
		}
		return true
	}
	if err == nil || CodeOf(err) != code {
		r.t.Fatalf("error %v, want %s", err, code)
	}
	return false
}

func (r *reference) create() {
	name, m := r.name()
	c := r.config(name)
	view, err := r.s.CreateModel(context.Background(), c, "")
	if m != nil {
		r.want(err, Conflict)
		return
	}
	r.want(err, "")
	m = &refModel{name: name, seed: r.s.fold.Model(view.Incarnation).Seed, began: view.Created.Seq}
	m.take(c)
	r.models[name] = m
}

func (r *reference) decide() {
	name, m := r.name()
	r.n++
	k := rapid.IntRange(1, 5).Draw(r.t, "k")
	q := DecideRequest{Actions: actions(r.n, k, refDim), Deferred: rapid.IntRange(0, 3).Draw(r.t, "deferred") == 0}
	for i := range k - 1 {
		if rapid.IntRange(0, 3).Draw(r.t, "exclude") == 0 {
			q.Exclude = append(q.Exclude, q.Actions[i].ID)
		}
	}
	base := k - 1 // never excluded
	q.Baseline = &base
	if rapid.IntRange(0, 3).Draw(r.t, "override") == 0 {
		q.Mode = rapid.SampledFrom([]Mode{Online, Apprentice, Shadow, Frozen}).Draw(r.t, "request mode")
	}
	if rapid.Bool().Draw(r.t, "with key") {
		q.IdempotencyKey = fmt.Sprint("request ", r.n)
	}
	d, err := r.s.Decide(context.Background(), name, q)
	switch {
	case m == nil:
		r.want(err, NotFound)
		return
	case m.paused:
		r.want(err, Paused)
		return
	}
	r.want(err, "")
	mode := Mode(m.mode)
	if q.Mode != "" {
		mode = q.Mode
	}
	if d.Mode != mode || slices.Contains(q.Exclude, d.Action.ID) || d.Action.ID != q.Actions[d.Action.Index].ID {
		r.t.Fatalf("decision %+v for mode %s without %v", d, mode, q.Exclude)
	}
	den := uint64(6)
	if m.floor > 0 {
		den = 4 * 6 * uint64(k-len(q.Exclude))
	}
	if d.Propensity.Den != den || d.Propensity.Num == 0 {
		r.t.Fatalf("propensity %+v, want the denominator %d", d.Propensity, den)
	}
	if mode == Apprentice || mode == Shadow {
		if d.Action.Index != base || d.Propensity.Num != den || d.Would == nil {
			r.t.Fatalf("the baseline %d was not played: %+v", base, d)
		}
	}
	id, err := testKeys.Parse(d.EventID)
	if err != nil {
		r.t.Fatal(err)
	}
	var x []float64
	if err := json.Unmarshal(q.Actions[d.Action.Index].Features, &x); err != nil {
		r.t.Fatal(err)
	}
	// A decision is answered before it is applied; the test wants an order.
	if _, err := r.s.progress.until(context.Background(), d.Seq); err != nil {
		r.t.Fatal(err)
	}
	r.events = append(r.events, &refEvent{
		id: d.EventID, request: q, key: id.Event, model: m, seq: d.Seq, deadline: r.clock.now().Add(10 * time.Minute), x: x, rule: m.rule,
		learns: mode == Online || mode == Apprentice, inactive: q.Deferred, keys: map[string]bool{},
	})
}

// repeat sends an earlier request once more. Whatever has happened since (the window closed, restarts,
// rollbacks; the clock has not moved by a day), the answer is the earlier event.
func (r *reference) repeat() {
	e := r.event()
	if e == nil || e.request.IdempotencyKey == "" {
		return
	}
	m := e.model
	for m.next != nil {
		m = m.next
	}
	if m.gone {
		return // the name may be another model's
	}
	d, err := r.s.Decide(context.Background(), m.name, e.request)
	if m.paused {
		r.want(err, Paused)
		return
	}
	r.want(err, "")
	if d.EventID != e.id || !d.Repeated {
		r.t.Fatalf("the key %q gave %s (repeated: %v), it was %s", e.request.IdempotencyKey, d.EventID, d.Repeated, e.id)
	}
}

func (r *reference) reward() {
	e := r.event()
	if e == nil {
		return
	}
	q := RewardRequest{EventID: e.id, Value: float64(rapid.IntRange(-4, 4).Draw(r.t, "y")) / 4}
	if rapid.Bool().Draw(r.t, "with key") {
		q.Key = rapid.SampledFrom([]string{"k1", "k2"}).Draw(r.t, "key")
	}
	got, err := r.s.Reward(context.Background(), q)
	r.want(err, "")
	p := e.pupil()
	var want RewardStatus
	switch {
	case e.closed:
		want = Late
	case e.rule == "first" && e.paid, q.Key != "" && e.keys[q.Key]:
		want = Duplicate
	case p == nil || !e.learns:
		want = Ignored
	default:
		want = Accepted
	}
	if got.Status != want {
		r.t.Fatalf("reward of %+v: status %s, want %s", e, got.Status, want)
	}
	if want == Late || want == Duplicate {
		return
	}
	if q.Key != "" && e.rule != "first" {
		e.keys[q.Key] = true
	}
	e.paid, e.inactive = true, false
	if e.rule == "sum" {
		e.y += q.Value
	} else {
		e.y = q.Value
	}
	if want == Accepted {
		if e.rule == "first" {
			p.lessons = append(p.lessons, lesson{got.Seq, e.key, e.x, e.y})
		}
	}
}

// layAside must change nothing that can be seen.
func (r *reference) layAside() {
	for range 2 { // what was used since the first call is laid aside by the second
		if _, err := r.s.aside.layAside(); err != nil {
			r.t.Fatal(err)
		}
	}
	if n := r.s.Health().Awake; n != 0 {
		r.t.Fatalf("%d models are awake", n)
	}
}

func (r *reference) activate() {
	e := r.event()
	if e == nil {
		return
	}
	got, err := r.s.Activate(context.Background(), e.id, "")
	r.want(err, "")
	want := Duplicate
	if e.inactive {
		want = Accepted
	}
	if e.closed && got.Status == Late {
		return // it was deferred; whether it was active then, nobody knows any more
	}
	if got.Status != want {
		r.t.Fatalf("activate %+v: %s, want %s", e, got.Status, want)
	}
	e.inactive = false
}

func (r *reference) expire() {
	r.clock.forward(time.Duration(rapid.IntRange(0, 11).Draw(r.t, "minutes")) * time.Minute)
	if _, err := r.s.Expire(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	seq := r.s.Health().Applied
	// The server closes in the order of deadlines, which is that of decisions here.
	for _, e := range r.events {
		if e.closed || e.deadline.After(r.clock.now()) {
			continue
		}
		e.closed = true
		p := e.pupil()
		// The default is that of the model as it is now, also for events of its earlier lives.
		h := e.model
		for h.next != nil {
			h = h.next
		}
		switch {
		case p == nil || !e.learns:
		case e.paid && e.rule != "first":
			p.lessons = append(p.lessons, lesson{seq, e.key, e.x, e.y})
		case !e.paid && !e.inactive && h.fallback != nil:
			p.lessons = append(p.lessons, lesson{seq, e.key, e.x, *h.fallback})
		}
		e.inactive = false
	}
}

func (r *reference) configure() {
	name, m := r.name()
	c := r.config(name)
	_, err := r.s.ConfigureModel(context.Background(), name, 0, c, "")
	if m == nil {
		r.want(err, NotFound)
		return
	}
	r.want(err, "")
	m.take(c)
}

func (r *reference) pause() {
	name, m := r.name()
	pause := rapid.IntRange(0, 2).Draw(r.t, "pause") == 0
	var err error
	if pause {
		_, err = r.s.PauseModel(context.Background(), name, "")
	} else {
		_, err = r.s.ResumeModel(context.Background(), name, "")
	}
	if m == nil {
		r.want(err, NotFound)
		return
	}
	r.want(err, "")
	m.paused = pause
}

// history returns the lessons of a model at a sequence, which may lie in an earlier life.
func (m *refModel) history(seq uint64) []lesson {
	for _, l := range m.before {
		if seq < l.until {
			return l.model.at(seq)
		}
	}
	return m.at(seq)
}

// at returns the lessons of a model up to a sequence.
func (m *refModel) at(seq uint64) []lesson {
	i := slices.IndexFunc(m.lessons, func(l lesson) bool { return l.seq > seq })
	if i < 0 {
		i = len(m.lessons)
	}
	return slices.Clone(m.lessons[:i])
}

func (r *reference) clone() {
	from, m := r.name()
	to, taken := r.name()
	seq := rapid.Uint64Range(0, r.s.Health().Applied).Draw(r.t, "at")
	got, err := r.s.CloneModel(context.Background(), CloneRequest{From: from, Name: to, AtSeq: seq})
	switch {
	case m == nil:
		r.want(err, NotFound)
	case taken != nil:
		r.want(err, Conflict)
	case seq != 0 && seq < m.began:
		r.want(err, Invalid)
	default:
		r.want(err, "")
		if seq == 0 {
			seq = got.Created.Seq
		}
		r.models[to] = &refModel{name: to, seed: m.seed, rule: m.rule, mode: m.mode, floor: m.floor, fallback: m.fallback, began: got.Created.Seq, lessons: m.history(seq)}
	}
}

func (r *reference) rollback() {
	name, m := r.name()
	q := RollbackRequest{Name: name, ToSeq: rapid.Uint64Range(1, max(1, r.s.Health().Applied)).Draw(r.t, "to"), KeepLater: rapid.Bool().Draw(r.t, "keep")}
	_, err := r.s.RollbackModel(context.Background(), q)
	switch {
	case m == nil:
		r.want(err, NotFound)
	case q.ToSeq < m.began:
		r.want(err, Invalid)
	default:
		r.want(err, "")
		n := &refModel{name: name, seed: m.seed, rule: m.rule, mode: m.mode, floor: m.floor, fallback: m.fallback, began: m.began, paused: m.paused, lessons: m.history(q.ToSeq)}
		m.next, m.cut, m.keep = n, q.ToSeq, q.KeepLater
		n.before = append(slices.Clone(m.before), life{r.s.Health().Applied, m})
		r.models[name] = n
	}
}

func (r *reference) remove() {
	name, m := r.name()
	err := r.s.DeleteModel(context.Background(), name, "")
	if m == nil {
		r.want(err, NotFound)
		return
	}
	r.want(err, "")
	m.gone = true
	delete(r.models, name)
}

// check compares every model with its lessons learned from scratch.
func (r *reference) check() {
	ctx := context.Background()
	list, more, err := r.s.ListModels(ctx, "", 0)
	if err != nil || more || len(list) != len(r.models) {
		r.t.Fatalf("%d models (more: %v, %v), want %d", len(list), more, err, len(r.models))
	}
	for name, m := range r.models {
		got, err := r.s.State(ctx, name)
		if err != nil {
			r.t.Fatal(err)
		}
		c := vectors(name, refDim)
		c.Policy = PolicySpec{Raw: spec.Raw{"kind": "ensemble", "m": int64(3)}, Options: &policy.EnsembleOptions{M: 3}}
		p, err := must(c.Compile(model.Limits{Members: 100})).NewPolicy(m.seed)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, l := range m.lessons {
			u := m.seed.At(uint64(l.key.Epoch)).Stream(rng.Perturb).Round(l.key.Batch<<11 | uint64(l.key.Index))
			if err := p.Update(bandit.Action{X: l.x}, l.y, u); err != nil {
				r.t.Fatal(err)
			}
		}
		if want := must(p.AppendSnapshot(nil)); !bytes.Equal(got.Snapshot, want) {
			r.t.Fatalf("model %s: the state (%d learned, %v) is not that of %d lessons", name, got.Learned, r.s.fold.Named(name).Counts, len(m.lessons))
		}
	}
}

// restart ends the server and begins another one on the same log, from a snapshot or from zero, and
// compares the states, bit for bit.
func (r *reference) restart() {
	before := r.bytes()
	if err := r.s.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	dir := r.dir
	if rapid.Bool().Draw(r.t, "from zero") {
		dir = ""
	}
	r.open(dir)
	if dir == "" && r.s.recovery.Snapshot != 0 {
		r.t.Fatal("a snapshot from nowhere")
	}
	if dir != "" && r.s.recovery.Snapshot == 0 && r.s.fold.Seq() > 0 && len(must(os.ReadDir(dir))) > 0 {
		r.t.Fatalf("the snapshot was not used: %v", r.s.recovery.Skipped)
	}
	if !bytes.Equal(before, r.bytes()) {
		r.t.Fatal("the state after the restart is another one")
	}
}

func (r *reference) bytes() []byte {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	// The chain's memory depends on where it began: only the fold is compared.
	return must(r.s.fold.AppendState(nil, eventlog.NewChain(0, r.s.fold.Seq()+1)))
}

// TestAgainstReference: null: the server does what the reference does. Random interleavings of every
// operation, restarts from snapshots and from zero among them; after each run all states are compared
// with policies that learned the same lessons from scratch, and decisions are replayed.
func TestAgainstReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "troupe")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		r := &reference{t: t, log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock: &fakeClock{}, dir: dir, models: map[string]*refModel{}}
		r.open(dir)
		defer func() {
			if err := r.s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}()
		r.create()
		ops := map[string]func(){
			"create": r.create, "configure": r.configure, "pause": r.pause, "clone": r.clone, "rollback": r.rollback, "remove": r.remove, "activate": r.activate,
			"decide": r.decide, "decide 2": r.decide, "decide 3": r.decide, "reward": r.reward, "reward 2": r.reward, "reward 3": r.reward, "expire": r.expire, "restart": r.restart,
			"repeat": r.repeat, "lay aside": r.layAside,
		}
		names := slices.Sorted(maps.Keys(ops))
		for range rapid.IntRange(5, 60).Draw(t, "operations") {
			ops[rapid.SampledFrom(names).Draw(t, "operation")]()
		}
		r.check()
		for _, e := range r.events[max(0, len(r.events)-3):] {
			got, err := r.s.Replay(context.Background(), e.id)
			if err != nil || !got.Equal {
				t.Fatalf("replay: %v %+v", err, fmt.Sprint(got.Differs))
			}
		}
	})
}
