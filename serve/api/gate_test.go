package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"troupe/internal/await"
	"troupe/serve"
	"troupe/timing"
)

// offer sends decisions of one weight at even intervals for some time to a gate that takes work for each, and returns how many were made, the
// waits of those, and the longest wait of one that was refused.
func offer(t *testing.T, g *gate, every, during, work time.Duration, weight int) (made, refused int, waits []time.Duration, longestRefused time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range int(during / every) {
		all.Go(func() {
			waited, err := g.enter(t.Context(), weight, 0)
			mu.Lock()
			if err != nil {
				refused++
				longestRefused = max(longestRefused, waited)
				mu.Unlock()
				return
			}
			made++
			waits = append(waits, waited)
			mu.Unlock()
			time.Sleep(work) // in a bubble of synctest: the work
			g.leave(weight)
		})
		await.Pass(every)
	}
	all.Wait()
	return made, refused, waits, longestRefused
}

// TestGateBurst: a line that is gone within half a second is not refused, however long each waits.
func TestGateBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(timing.Clock{})
		g.size, g.free = 4, 4
		// 100 at once, 10 ms each, four at a time: the last waits 240 ms.
		made, refused, waits, _ := offer(t, g, time.Microsecond, 100*time.Microsecond, 10*time.Millisecond, 1)
		if made != 100 || refused != 0 || waits[len(waits)-1] < 200*time.Millisecond {
			t.Errorf("%d made, %d refused, the last waited %v", made, refused, waits[len(waits)-1])
		}
		if g.free != 4 || g.count != 0 {
			t.Errorf("%d free, %d waiting at the end", g.free, g.count)
		}
	})
}

// TestGateOverload: at twice what can be made, the gate makes as many as without a load beyond, nobody waits longer than half a second and
// the target, and once the line has stood, those that are let in have waited about the target.
func TestGateOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(timing.Clock{})
		g.size, g.free = 4, 4
		// 800 a second are offered, 400 can be made.
		made, refused, waits, longestRefused := offer(t, g, 1250*time.Microsecond, 10*time.Second, 10*time.Millisecond, 1)
		if made < 3980 || made+refused != 8000 {
			t.Errorf("%d made of 4000 that can be, %d refused", made, refused)
		}
		if longestRefused > longest {
			t.Errorf("one was refused after %v", longestRefused)
		}
		late := 0
		for i, w := range waits {
			if w > longest {
				t.Fatalf("decision %d waited %v", i, w)
			}
			if i > 500 && w > target {
				late++
			}
		}
		if late > 0 {
			t.Errorf("%d of %d waited longer than the target", late, len(waits))
		}
		if g.free != 4 || g.count != 0 {
			t.Errorf("%d free, %d waiting at the end", g.free, g.count)
		}
	})
}

// TestGateHangs: where nothing is finished, everybody has an answer after longest, or at the end of a patience or a context; and afterwards the
// gate is whole.
func TestGateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(timing.Clock{})
		g.size, g.free = 2, 2
		for range 2 {
			if _, err := g.enter(t.Context(), 1, 0); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		for _, c := range []struct {
			ctx      context.Context
			patience time.Duration
			want     time.Duration
			text     string
		}{
			{t.Context(), 0, longest, "wait too long"},
			{t.Context(), 20 * time.Millisecond, 20 * time.Millisecond, "Request-Timeout-Ms"},
			{t.Context(), time.Hour, longest, "wait too long"},
			{short, 0, 10 * time.Millisecond, "deadline exceeded"},
		} {
			go func() {
				waited, err := g.enter(c.ctx, 2, c.patience)
				if waited != c.want || err == nil || !strings.Contains(err.Error(), c.text) {
					t.Errorf("patience %v: waited %v, %v", c.patience, waited, err)
				}
				var p *Problem
				if errors.As(err, &p) && (p.Status != 429 || p.RetryAfter < 1) {
					t.Errorf("patience %v: %+v", c.patience, p)
				}
			}()
		}
		await.Pass(time.Second)
		if g.waiting() != 0 {
			t.Errorf("%d wait", g.waiting())
		}
		g.leave(1)
		g.leave(1)
		if waited, err := g.enter(t.Context(), 2, 0); waited != 0 || err != nil {
			t.Errorf("waited %v, %v", waited, err)
		}
	})
}

// TestClasses: Decidings and feedback in every form that clients write them.
func TestClasses(t *testing.T) {
	for path, want := range map[string]Class{
		"/v1/models/news:decide": Deciding, "/v1/models/a:b:decideBatch": Deciding, "/v1/events/E:reward": Feedback, "/v1/events/E:activate": Feedback,
		"/v1/rewards:batch": Feedback, "/v1/models/news": Other, "/v1/models/news/actions/x:decide": Deciding, "/v1/models/decide": Other,
		"/v1/models/news:clone": Other, "/": Other, "": Other, "/rank": Other, "/personalizer/v1.0/rank": Other,
	} {
		if got := adapters(nil).class(path); got != want {
			t.Errorf("%s is %d, want %d", path, got, want)
		}
	}
}

// slow is a service whose decisions take until they are let go.
type slow struct {
	*fake
	going chan struct{}
	at    atomic.Int64
}

func (s *slow) Decide(ctx context.Context, _ string, _ serve.DecideRequest) (serve.Decision, error) {
	s.at.Add(1)
	select {
	case <-s.going:
		return serve.Decision{EventID: "E"}, nil
	case <-ctx.Done():
		return serve.Decision{}, ctx.Err()
	}
}

// TestFeedbackFirst: while decisions fill the server and its line, more of them are answered 429 with Retry-After, on both ways, and rewards
// and activations pass; a client's own timeout ends its decision; the metrics tell.
func TestFeedbackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{fake: newFake("news"), going: make(chan struct{})}
		s.events["EVENT1"] = "news"
		a := must(New(s, Options{Concurrent: 8, Clock: timing.At(clock)}))
		a.gates.small.size, a.gates.small.free = 2, 2
		post := func(path, body string, headers ...string) *httptest.ResponseRecorder {
			rec := httptest.NewRecorder()
			r := httptest.NewRequest("POST", path, strings.NewReader(body))
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			a.ServeHTTP(rec, r)
			return rec
		}
		decide := func(i int, headers ...string) *httptest.ResponseRecorder {
			path := "/v1/models/news:decide"
			if i%2 == 1 {
				path = "/v1/models/news%3Adecide" // the way of the described routes
			}
			return post(path, `{"actions":[{"id":"a"}]}`, headers...)
		}
		var all sync.WaitGroup
		var codes [8]atomic.Int64
		for i := range 8 {
			all.Go(func() { codes[i].Store(int64(decide(i).Code)) })
			await.Pass(time.Millisecond)
		}
		if s.at.Load() != 2 || a.gates.small.waiting() != 6 {
			t.Fatalf("%d decide and %d wait", s.at.Load(), a.gates.small.waiting())
		}
		if rec := decide(0); rec.Code != 429 || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("a ninth: %d %v", rec.Code, rec.Header())
		}
		for _, path := range []string{"/v1/events/EVENT1:reward", "/v1/events/EVENT1:activate", "/v1/rewards:batch"} {
			body := `{"value":1}`
			if strings.HasSuffix(path, "batch") {
				body = `{"rewards":[{"event_id":"EVENT1","value":1}]}`
			}
			if rec := post(path, body); rec.Code != 200 {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
		await.Pass(longest)
		refused := 0
		for i := range codes {
			if codes[i].Load() == 429 {
				refused++
			}
		}
		if refused != 6 {
			t.Errorf("%d of 6 were refused", refused)
		}
		for i := range 2 {
			if rec := decide(i, timeoutHeader, "30"); rec.Code != 429 || !strings.Contains(rec.Body.String(), timeoutHeader) {
				t.Errorf("a patience of 30 ms: %d %s", rec.Code, rec.Body)
			}
		}
		if s.at.Load() != 2 {
			t.Errorf("%d were decided", s.at.Load())
		}
		close(s.going)
		all.Wait()
		if rec := decide(0, timeoutHeader, "30"); rec.Code != 200 {
			t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
		}
		if rec := decide(0, timeoutHeader, "soon"); rec.Code != 422 || !strings.Contains(rec.Body.String(), "header."+timeoutHeader) {
			t.Errorf("a timeout in words: %d %s", rec.Code, rec.Body)
		}
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{"troupe_decisions_shed_total 8", "troupe_decisions_waiting 0", "troupe_decision_wait_seconds_count 8"} {
			if !strings.Contains(rec.Body.String(), "\n"+line) {
				t.Errorf("/metrics has no line %q", line)
			}
		}
		await.Pass(time.Minute) // the limits of the requests
	})
}
