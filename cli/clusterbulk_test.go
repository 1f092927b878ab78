package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/serve"
)

// bulkBatch is how many decisions are in a call of a bulk.
const bulkBatch = 64

// bulk is callers that send batches, beside those that send one decision in a call: a batch is decided with a key at one node, repeated at another one, and its
// rewards go to any. What is not answered is asked for again elsewhere. The model is one of its own, so the counts must be exact.
type bulk struct {
	t     *testing.T
	model string
	urls  []string
	http  *http.Client
	up    func(node int) bool
	heard func() // after each answer

	acked, goal atomic.Int64 // decisions, repetitions and rewards; beyond the goal callers send a batch every second
	again       atomic.Int64 // calls that were sent again
	mu          sync.Mutex
	events      []uint64 // hashes of the ids of all events that were decided and rewarded
	sum         int64    // of their rewards
	rounds      map[string]bool
	bodies      [16][]byte
}

// bulkGoal is how many events a line of the fault table has with TROUPE_RECORD, and how many with TROUPE_LONG; 0 without them.
func bulkGoal() int64 {
	switch {
	case os.Getenv("TROUPE_RECORD") != "":
		return 1_000_000
	case os.Getenv("TROUPE_LONG") != "":
		return 3 * bulkBatch
	}
	return 0
}

// newBulk makes the model of a bulk and waits until every node has it.
func newBulk(t *testing.T, urls []string, up func(int) bool) *bulk {
	t.Helper()
	b := &bulk{t: t, model: "bulk", urls: urls, up: up, heard: func() {}, http: &http.Client{Timeout: await.Limit, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	random := rand.New(rand.NewPCG(21, 22))
	for i := range b.bodies {
		var requests []any
		for range bulkBatch {
			data := make([]byte, 0, 3*4*4)
			for range 3 * 4 {
				data = binary.LittleEndian.AppendUint32(data, random.Uint32N(1<<24)|0x3e<<24) // 0.125 to 0.5
			}
			requests = append(requests, map[string]any{"packed": map[string]any{"dtype": "float32", "shape": []int{3, 4}, "data": data}})
		}
		text, err := json.Marshal(map[string]any{"requests": requests})
		if err != nil {
			t.Fatal(err)
		}
		b.bodies[i] = text
	}
	config, err := json.Marshal(map[string]any{"id": b.model, "dim": 4, "policy": map[string]any{"kind": "ensemble", "m": 4}, "log_candidates": "none"})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := b.once(t.Context(), 0, "POST", "/v1/models", "", config, nil); err != nil {
		t.Fatal(status, err)
	}
	for i := range urls {
		for note := range await.Tries(t) {
			_, err := b.once(t.Context(), i, "GET", "/v1/models/"+b.model, "", nil, nil)
			if err == nil {
				break
			}
			note("%v", err)
		}
	}
	return b
}

// withBulk gives the load of a cluster its bulk.
func (c *realCluster) withBulk(l *clusterLoad) *bulk {
	c.t.Helper()
	if bulkGoal() == 0 {
		return nil
	}
	var urls []string
	for i := range c.names {
		urls = append(urls, c.url(i))
	}
	b := newBulk(c.t, urls, func(i int) bool { return c.up[i].Load() })
	b.heard = l.answered
	l.bulk = b
	return b
}

func (b *bulk) once(ctx context.Context, node int, method, path, key string, body []byte, into any) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, b.urls[node]+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	a, err := b.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode >= 300 {
		err = fmt.Errorf("status %d: %s", a.StatusCode, text)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return a.StatusCode, err
}

// until sends a call to one node after the other, begun with node, until one answers and good finds nothing wrong with it.
func (b *bulk) until(node int, path, key string, body []byte, good func(text []byte) error) (err error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), await.Limit)
	defer cancel()
	for ; ; node = (node + 1) % len(b.urls) {
		if b.up(node) {
			var text json.RawMessage
			if _, err = b.once(ctx, node, "POST", path, key, body, &text); err == nil {
				err = good(text)
			}
			if err == nil {
				b.heard()
				return nil
			}
			b.again.Add(1)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s with the key %q: %w: %v", path, key, ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

type bulkAnswer struct {
	ID       string `json:"event_id"`
	Action   struct{ Index int }
	Repeated bool
}

// decide returns the decisions of a batch; first, if any, is what was answered before.
func (b *bulk) decide(node int, key string, body []byte, first []bulkAnswer) (answers []bulkAnswer, err error) {
	err = b.until(node, "/v1/models/"+b.model+":decideBatch", key, body, func(text []byte) error {
		var a struct {
			Results []struct {
				Decision *bulkAnswer
				Problem  json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &a); err != nil {
			return err
		}
		if len(a.Results) != bulkBatch {
			return fmt.Errorf("%d results: %s", len(a.Results), text)
		}
		answers = answers[:0]
		for _, r := range a.Results {
			if r.Decision == nil {
				return fmt.Errorf("a problem: %s", r.Problem)
			}
			answers = append(answers, *r.Decision)
		}
		return nil
	})
	for i := range answers {
		if err == nil && first != nil && (answers[i].ID != first[i].ID || answers[i].Action != first[i].Action || !answers[i].Repeated) {
			b.t.Errorf("key %s/%d: %+v and then %+v", key, i, first[i], answers[i])
		}
	}
	return answers, err
}

// pay sends the rewards of a batch.
func (b *bulk) pay(node int, answers []bulkAnswer) (sum int64, err error) {
	type reward struct {
		ID    string `json:"event_id"`
		Value int    `json:"value"`
	}
	var rewards []reward
	for i, a := range answers {
		rewards = append(rewards, reward{a.ID, i % 2})
		sum += int64(i % 2)
	}
	body, err := json.Marshal(map[string]any{"rewards": rewards})
	if err != nil {
		return 0, err
	}
	return sum, b.until(node, "/v1/rewards:batch", "", body, func(text []byte) error {
		var a struct {
			Results []struct {
				Result  struct{ Status string }
				Problem json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &a); err != nil {
			return err
		}
		if len(a.Results) != len(rewards) {
			return fmt.Errorf("%d results: %s", len(a.Results), text)
		}
		for _, r := range a.Results {
			if s := r.Result.Status; s != "accepted" && s != "duplicate" {
				return fmt.Errorf("status %q, problem %s", s, r.Problem)
			}
		}
		return nil
	})
}

func hashOf(id string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, id)
	return h.Sum64()
}

// batch decides, repeats and pays once.
func (b *bulk) batch(key string, i int) error {
	node, body := rand.IntN(len(b.urls)), b.bodies[i%len(b.bodies)]
	first, err := b.decide(node, key, body, nil)
	if err == nil {
		_, err = b.decide((node+1)%len(b.urls), key, body, first)
	}
	sum := int64(0)
	if err == nil {
		sum, err = b.pay((node+2)%len(b.urls), first)
	}
	if err != nil {
		return err
	}
	b.done(first, sum)
	return nil
}

// done notes what was decided, repeated and paid.
func (b *bulk) done(first []bulkAnswer, sum int64) {
	b.mu.Lock()
	for _, a := range first {
		b.events = append(b.events, hashOf(a.ID))
	}
	b.sum += sum
	b.mu.Unlock()
	b.acked.Add(3 * int64(len(first)))
}

// mine takes the idempotency keys of a round, which no other load may have: its decisions would be repetitions, and the
// counts of check would be wrong.
func (b *bulk) mine(round string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rounds[round] {
		return fmt.Errorf("two loads of batches have the idempotency keys %s/…", round)
	}
	if b.rounds == nil {
		b.rounds = map[string]bool{}
	}
	b.rounds[round] = true
	return nil
}

// TestLoadsHaveKeys: each load has idempotency keys of its own, and one that would share them is named.
func TestLoadsHaveKeys(t *testing.T) {
	l, b := &clusterLoad{}, &bulk{}
	for range 2 {
		if err := b.mine(fmt.Sprint("bulk/", l.own())); err != nil {
			t.Error(err)
		}
	}
	if err := b.mine("bulk/2"); err == nil || !strings.Contains(err.Error(), "the idempotency keys bulk/2/") {
		t.Errorf("a load has the keys of another one: %v", err)
	}
}

// run lets callers work until ctx ends; what a caller has begun it brings to an end. Each call has a round of its own.
func (b *bulk) run(ctx context.Context, round string) {
	if err := b.mine(round); err != nil {
		b.t.Error(err)
		return
	}
	var wg sync.WaitGroup
	callers := 8
	if bulkGoal() < 1000 {
		callers = 1
	}
	for w := range callers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := b.batch(fmt.Sprintf("%s/%d/%d", round, w, i), i); b.t.Context().Err() != nil {
					return
				} else if err != nil {
					b.t.Error(err)
					return
				}
				if b.acked.Load() >= b.goal.Load() {
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
				}
			}
		})
	}
	wg.Wait()
}

// reach waits until the goal is reached.
func (b *bulk) reach() {
	if b == nil {
		return
	}
	b.t.Helper()
	for have := b.acked.Load(); have < b.goal.Load() && !b.t.Failed(); have = b.acked.Load() {
		await.Until(b.t, "the load of batches goes on", func() bool { return b.acked.Load() > have || b.t.Failed() })
	}
}

// more raises the goal by a share of what a line needs.
func (b *bulk) more(parts int) {
	if b != nil {
		b.goal.Add((bulkGoal() + int64(parts) - 1) / int64(parts))
	}
}

// check compares the counts and digests of all nodes, which have applied what was answered before, with what callers were told.
func (b *bulk) check() {
	if b == nil {
		return
	}
	b.t.Helper()
	var states []string
	for i := range b.urls {
		var s struct{ Digest string }
		var m struct {
			Counts struct {
				Decisions, Rewards, Learned, Late, Ignored int64
				RewardSum                                  float64 `json:"reward_sum"`
			}
		}
		if _, err := b.once(b.t.Context(), i, "GET", "/v1/models/"+b.model+"/state", "", nil, &s); err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.once(b.t.Context(), i, "GET", "/v1/models/"+b.model, "", nil, &m); err != nil {
			b.t.Fatal(err)
		}
		n, want := m.Counts, int64(len(b.events))
		if n.Decisions != want || n.Rewards != want || n.Learned != want || n.Late != 0 || n.Ignored != 0 || n.RewardSum != float64(b.sum) {
			b.t.Errorf("%s counts %+v of the model %s; callers have %d events, each with a reward, of the sum %d", b.urls[i], n, b.model, want, b.sum)
		}
		states = append(states, fmt.Sprint(s.Digest, n))
	}
	for _, s := range states {
		if s != states[0] || len(s) < 10 {
			b.t.Errorf("the nodes differ: %v", states)
		}
	}
}

// audit compares the events of an exported log with those that callers have: each is there once, with its reward, and there is no other one.
func (b *bulk) audit(s *serve.Server, events []uint64) error {
	page, err := s.Decisions(b.t.Context(), b.model, 0, 1<<40)
	if err != nil {
		return err
	}
	var logged []uint64
	unpaid := map[eventlog.Event]bool{}
	for d, err := range page.Decisions {
		if err != nil {
			return err
		}
		logged = append(logged, hashOf(d.EventID))
		unpaid[d.Key] = true
	}
	records, err := s.Log(b.t.Context(), b.model, 0, 1<<40)
	if err != nil {
		return err
	}
	for r, err := range records.Records {
		if err != nil {
			return err
		}
		if reward, ok := r.Record.(*eventlog.Reward); ok {
			delete(unpaid, reward.Event)
		}
	}
	events = slices.Sorted(slices.Values(events))
	slices.Sort(logged)
	missing, more := 0, 0
	for i, j := 0, 0; i < len(events) || j < len(logged); {
		switch {
		case j == len(logged) || i < len(events) && events[i] < logged[j]:
			missing++
			i++
		case i == len(events) || logged[j] < events[i]:
			more++
			j++
		default:
			i++
			j++
		}
	}
	if missing+more+len(unpaid) > 0 {
		return fmt.Errorf("of %d events %d are not in the log; the log has %d that callers do not have, and %d without their reward", len(events), missing, more, len(unpaid))
	}
	return nil
}

// whole exports the log of the cluster, folds it on one machine and compares the digest, and every event of the bulk. The controls: an event that was answered
// twice, and one that is not in the log, are found.
func (c *realCluster) whole(l *clusterLoad) {
	c.t.Helper()
	if l.bulk == nil || c.t.Failed() {
		return
	}
	// A window that closes during the export teaches the model; the next export has it.
	for try := range 20 {
		before, _ := c.digestOf(0)
		dir := filepath.Join(c.dir, fmt.Sprint("whole-", try))
		var out bytes.Buffer
		if code := command(c.t.Context(), []string{"cluster", "export", dir, "--cluster", c.file(0)}, &out, &out); code != 0 {
			c.t.Fatalf("export: %d, %s", code, &out)
		}
		if digest, _ := c.digestOf(0); digest == before {
			l.bulk.whole(dir, map[string]string{"news": digest})
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Fatal("the model changes during every export")
}

func (b *bulk) whole(dir string, digests map[string]string) {
	b.t.Helper()
	ctx := context.WithoutCancel(b.t.Context())
	begun := time.Now()
	var state struct{ Digest string }
	if _, err := b.once(ctx, 0, "GET", "/v1/models/"+b.model+"/state", "", nil, &state); err != nil {
		b.t.Fatal(err)
	}
	digests[b.model] = state.Digest
	s, err := serve.Open(ctx, serve.Options{Dir: dir, KeepLogVersion: true})
	if err != nil {
		b.t.Fatal(err)
	}
	for model, want := range digests {
		if got, err := s.State(ctx, model); err != nil || got.Digest.String() != want {
			b.t.Errorf("one machine that folds the exported log has the digest %v of the model %s, the cluster %s, error %v", got.Digest, model, want, err)
		}
	}
	if err := b.audit(s, b.events); err != nil {
		b.t.Error(err)
	}
	if err := b.audit(s, append(slices.Clone(b.events), b.events[0])); err == nil || !strings.Contains(err.Error(), "1 are not in the log; the log has 0") {
		b.t.Errorf("control: an event that was answered twice is not found: %v", err)
	}
	if err := b.audit(s, b.events[1:]); err == nil || !strings.Contains(err.Error(), " 0 are not in the log; the log has 1") {
		b.t.Errorf("control: an event that no caller has is not found: %v", err)
	}
	if err := s.Close(ctx); err != nil {
		b.t.Error(err)
	}
	b.t.Logf("batches: %d events acknowledged, %d decisions, as many repetitions and rewards; %d calls were sent again; each is in the exported log once, which was read in %v",
		b.acked.Load(), len(b.events), b.again.Load(), time.Since(begun).Round(100*time.Millisecond))
}

// atOnce sends n batches to two nodes at the same time, each with one key, and does not wait for every fourth of the second answers, which is asked for at a third
// node then. Both answers are the same decisions.
func (b *bulk) atOnce(n int) {
	b.t.Helper()
	begun := time.Now()
	var next, lost, repeated atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n && !b.t.Failed(); i = int(next.Add(1)) {
				key, body := fmt.Sprint("at once ", i), b.bodies[i%len(b.bodies)]
				var a [2][]bulkAnswer
				var err [2]error
				var both sync.WaitGroup
				for k := range 2 {
					both.Go(func() {
						node := (i + k) % len(b.urls)
						if k == 1 && i%4 == 3 {
							ctx, cancel := context.WithTimeout(b.t.Context(), time.Duration(i%40)*500*time.Microsecond)
							if _, err := b.once(ctx, node, "POST", "/v1/models/"+b.model+":decideBatch", key, body, nil); err != nil {
								lost.Add(1)
							}
							cancel()
							node = (i + 2) % len(b.urls)
						}
						a[k], err[k] = b.decide(node, key, body, nil)
					})
				}
				both.Wait()
				if err[0] != nil || err[1] != nil {
					b.t.Errorf("key %s: %v, %v", key, err[0], err[1])
					return
				}
				for j := range a[0] {
					if x, y := a[0][j], a[1][j]; x.ID != y.ID || x.Action != y.Action || !x.Repeated && !y.Repeated {
						b.t.Errorf("key %s/%d: %+v and %+v", key, j, x, y)
					}
					if a[0][j].Repeated {
						repeated.Add(1)
					}
				}
				sum, e := b.pay((i+2)%len(b.urls), a[0])
				if e != nil {
					b.t.Error(e)
					return
				}
				b.done(a[0], sum)
			}
		})
	}
	wg.Wait()
	b.t.Logf("%d batches of %d at two nodes at once in %v: %d answers were not waited for, %d of the first were repetitions", n, bulkBatch, time.Since(begun).Round(time.Second), lost.Load(), repeated.Load())
}

// TestClusterUpgrade: nodes are stopped in order and started with another program under load, one by one, forth and back. TROUPE_OLD is the older program.
func TestClusterUpgrade(t *testing.T) {
	old := os.Getenv("TROUPE_OLD")
	if os.Getenv("TROUPE_RECORD") == "" || old == "" {
		t.Skip("TROUPE_RECORD is not set, or TROUPE_OLD is no program; TestRollingUpgrade of package serve is short")
	}
	c, _ := startRealCluster(t, func(c *realCluster) { c.progs = [3]string{old, old, old} })
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	steps := []struct {
		node int
		prog string
	}{{1, ""}, {0, ""}, {0, old}, {0, ""}, {2, ""}, {1, old}, {1, ""}}
	for _, step := range steps {
		l.bulk.more(len(steps))
		end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
		l.more(t, 50)
		l.begin()
		c.drain(step.node)
		c.leave(step.node)
		c.stop(step.node)
		c.progs[step.node] = step.prog
		c.start(step.node)
		c.ready(3)
		gap := l.since()
		l.more(t, 50)
		l.bulk.reach()
		end()
		t.Logf("%s with the program %q: longest time without an answer %v", c.names[step.node], step.prog, gap.Round(10*time.Millisecond))
		c.level()
		c.check(l)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d events with a key, %d without, %d of unknown outcome", len(l.events), l.unkeyed, l.unknown)
	c.whole(l)
}

// TestClusterClocks: the clock of a node is a day or two seconds off. The node is not ready and says why; no window of an hour ends early, and no key is
// forgotten. The control: when the clocks of all are a day ahead, the window ends.
func TestClusterClocks(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD is not set; TestClocksOfNodes of package serve is short")
	}
	c, _ := startRealCluster(t)
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	if _, err := c.call(0, "POST", "/v1/models", map[string]any{"id": "hour", "reward": map[string]any{"window": "1h"}}, nil); err != nil {
		t.Fatal(err)
	}
	c.level()
	request := func() any {
		return map[string]any{"key": "old", "actions": []map[string]any{{"id": "x"}, {"id": "y"}}}
	}
	var first struct {
		ID string `json:"event_id"`
	}
	if _, err := c.call(0, "POST", "/v1/models/hour:decide", request(), &first); err != nil {
		t.Fatal(err)
	}
	set := func(i int, by time.Duration) {
		t.Helper()
		if err := os.WriteFile(c.clockFile(i), fmt.Append(nil, int64(by)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(i int) int {
		t.Helper()
		var m struct{ Counts struct{ Open int } }
		if _, err := c.call(i, "GET", "/v1/models/hour", nil, &m); err != nil {
			t.Fatal(err)
		}
		return m.Counts.Open
	}
	day := 24 * time.Hour
	offsets := []time.Duration{day, -day, 2 * time.Second, -2 * time.Second}
	for round := range 12 {
		node, by := round%3, offsets[round%4]
		l.bulk.more(12)
		end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
		l.more(t, 20)
		set(node, by)
		for note := range await.Tries(t) {
			s := c.status().Nodes
			if !s[node].Ready && strings.Contains(s[node].Reason, "clock") && s[(node+1)%3].Ready && s[(node+2)%3].Ready {
				break
			}
			note("the clock of %s is %v off: %+v", c.names[node], by, s)
		}
		l.bulk.reach()
		for i := range c.names {
			var again struct {
				ID string `json:"event_id"`
			}
			if i == node { // not ready: asked as one may be
				continue
			}
			if _, err := c.call(i, "POST", "/v1/models/hour:decide", request(), &again); err != nil || again.ID != first.ID {
				t.Errorf("the clock of %s is %v off, and %s has forgotten a key: %v, %v", c.names[node], by, c.names[i], again, err)
			}
			if n := open(i); n != 1 {
				t.Errorf("the clock of %s is %v off, and %s has %d open windows, want 1", c.names[node], by, c.names[i], n)
			}
		}
		set(node, 0)
		c.ready(3)
		l.more(t, 20)
		end()
		c.level()
		c.check(l)
		t.Logf("the clock of %s is %v off", c.names[node], by)
		if t.Failed() {
			return
		}
	}
	c.whole(l)
	for i := range c.names { // control
		set(i, day)
	}
	for note := range await.Tries(t) {
		if open(0) == 0 {
			break
		}
		note("control: all clocks are a day ahead, and the window does not end")
	}
}
