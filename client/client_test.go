package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// start serves a handler and returns a client whose waits are recorded instead of slept.
func start(t *testing.T, h http.HandlerFunc) (*Client, *[]time.Duration) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	// Without reuse of connections every repetition is ours and none is net/http's own.
	c, err := New(s.URL+"/", Options{Key: "troupe_k_s", HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		t.Fatal(err)
	}
	waits := new([]time.Duration)
	c.wait = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
	return c, waits
}

// A decision is repeated with the same key and body until it is answered, and waits as long as the
// server asks.
func TestDecideIsRepeated(t *testing.T) {
	var mu sync.Mutex // each call has a connection of its own
	var keys, bodies []string
	c, waits := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(b))
		if r.URL.Path != "/v1/models/news:decide" || r.Header.Get("Authorization") != "Bearer troupe_k_s" {
			t.Errorf("request to %s with authorization %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		switch len(keys) {
		case 1:
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(503)
			io.WriteString(w, `{"status":503,"code":"unavailable","unknown_outcome":true}`)
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			io.WriteString(w, `{"event_id":"E","action":{"id":"a","index":0},"propensity":{"num":3,"den":8},"seq":7,"durable":true,"new":1}`)
		}
	})
	d, err := c.Decide(t.Context(), "news", DecideRequest{Actions: []Action{{ID: "a", Features: []float64{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if d.EventID != "E" || d.Propensity.Float() != 0.375 || d.Seq != 7 {
		t.Errorf("decision = %+v", d)
	}
	if len(keys) != 3 || len(keys[0]) != 32 || keys[0] != keys[1] || keys[1] != keys[2] || bodies[0] != bodies[2] {
		t.Errorf("keys %q, bodies %q: want three equal ones", keys, bodies)
	}
	if len(*waits) != 2 || (*waits)[0] != 2*time.Second || (*waits)[1] > 100*time.Millisecond {
		t.Errorf("waits = %v, want 2s as the server said, then less than 100ms", *waits)
	}
}

// What the caller did wrong is not repeated, and the problem arrives whole.
func TestProblemsOfTheCaller(t *testing.T) {
	var calls atomic.Int32
	c, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.WriteHeader(422)
		io.WriteString(w, `{"type":"/docs#invalid","status":422,"code":"invalid","field":"value","detail":"expected a number in [0, 1]"}`)
	})
	_, err := c.Reward(t.Context(), "E", 2)
	if Code(err) != "invalid" || Unknown(err) || calls.Load() != 1 {
		t.Errorf("error %v after %d calls, want invalid after one", err, calls.Load())
	}
	if want := "troupe: 422 invalid: value: expected a number in [0, 1]"; err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
}

// A server that never answers: as many tries as configured, and the outcome is unknown.
func TestUnknown(t *testing.T) {
	var calls atomic.Int32
	c, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	})
	c.opts.Tries = 3
	if _, err := c.Reward(t.Context(), "E", 1); !Unknown(err) || calls.Load() < 3 {
		t.Errorf("error %v after %d calls, want an unknown outcome after 3", err, calls.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := calls.Load()
	if _, err := c.Reward(ctx, "E", 1); err == nil || calls.Load() != before {
		t.Errorf("a call with a context that is over: error %v, %d calls", err, calls.Load()-before)
	}
}

// Every reward of a batch has a key, so that a repetition is harmless.
func TestBatches(t *testing.T) {
	c, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		var b struct {
			Rewards []struct {
				EventID string `json:"event_id"`
				Value   float64
				Key     string
			}
			Requests []struct{ Mode string }
		}
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/v1/rewards:batch":
			if len(b.Rewards) != 2 || b.Rewards[0].Key != "mine" || len(b.Rewards[1].Key) != 32 || b.Rewards[1].Value != 0.5 {
				t.Errorf("rewards = %+v", b.Rewards)
			}
			io.WriteString(w, `{"results":[{"result":{"status":"accepted","seq":1}},{"problem":{"code":"gone","status":410}}]}`)
		case "/v1/models/m%2Fx:decideBatch", "/v1/models/m/x:decideBatch":
			if len(b.Requests) != 2 || b.Requests[1].Mode != "frozen" {
				t.Errorf("requests = %+v", b.Requests)
			}
			io.WriteString(w, `{"results":[{"decision":{"event_id":"E"}},{"problem":{"code":"invalid","status":422}}]}`)
		default:
			t.Errorf("path %s", r.URL.Path)
		}
	})
	items := []RewardItem{{EventID: "A", Value: 1, Key: "mine"}, {EventID: "B", Value: 0.5}}
	rewards, err := c.RewardBatch(t.Context(), items)
	if err != nil || len(rewards) != 2 || rewards[0].Result.Status != "accepted" || rewards[1].Problem.Code != "gone" {
		t.Errorf("rewards = %+v, %v", rewards, err)
	}
	if items[1].Key != "" {
		t.Error("RewardBatch wrote into its argument")
	}
	decisions, err := c.DecideBatch(t.Context(), "m/x", []DecideRequest{{}, {Mode: "frozen"}})
	if err != nil || len(decisions) != 2 || decisions[0].Decision.EventID != "E" || decisions[1].Problem.Code != "invalid" {
		t.Errorf("decisions = %+v, %v", decisions, err)
	}
}

// TestRewardsLeft: rewards that a server does not take (429) are sent again with their keys while each call takes some, and the
// answers are in the order of the rewards. A server that takes none ends it.
func TestRewardsLeft(t *testing.T) {
	keys, takes, calls := map[string]string{}, 3, 0
	c, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		var b struct{ Rewards []RewardItem }
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			t.Error(err)
		}
		var out []string
		for i, x := range b.Rewards {
			if k := keys[x.EventID]; k != "" && k != x.Key || x.Key == "" {
				t.Errorf("event %s has the keys %q and %q", x.EventID, k, x.Key)
			}
			switch keys[x.EventID] = x.Key; {
			case i >= takes:
				out = append(out, `{"problem":{"code":"too_busy","status":429}}`)
			case x.EventID == "4":
				out = append(out, `{"problem":{"code":"gone","status":410}}`)
			default:
				out = append(out, fmt.Sprintf(`{"result":{"status":"accepted","seq":%s}}`, x.EventID))
			}
		}
		fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(out, ","))
	})
	var items []RewardItem
	for i := range 10 {
		items = append(items, RewardItem{EventID: fmt.Sprint(i), Value: 1})
	}
	answers, err := c.RewardBatch(t.Context(), items)
	if err != nil || len(answers) != 10 || calls != 4 {
		t.Fatalf("%d answers after %d calls, error %v", len(answers), calls, err)
	}
	for i, a := range answers {
		if i == 4 && (a.Problem == nil || a.Problem.Status != 410) || i != 4 && (a.Result == nil || a.Result.Seq != uint64(i)) {
			t.Errorf("answer %d: %+v, %+v", i, a.Result, a.Problem)
		}
	}
	takes = 0
	clear(keys)
	if answers, err = c.RewardBatch(t.Context(), items); err != nil || calls != 5 || answers[9].Problem.Status != 429 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

// An activation is one call, with the id as a part of the path.
func TestActivate(t *testing.T) {
	c, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.URL.Path != "/v1/events/E:activate" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		io.WriteString(w, `{"status":"accepted","seq":7}`)
	})
	if r, err := c.Activate(t.Context(), "E"); err != nil || r.Status != "accepted" || r.Seq != 7 {
		t.Errorf("activation = %+v, %v", r, err)
	}
}

// A batch of decisions has no keys: it is repeated when it was refused, and never when it may have
// happened.
func TestDecideBatchIsNotDoubled(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  func(http.ResponseWriter)
		unsafe bool
	}{
		{"refused", func(w http.ResponseWriter) { w.WriteHeader(429) }, false},
		{"unknown", func(w http.ResponseWriter) {
			w.WriteHeader(503)
			io.WriteString(w, `{"status":503,"code":"unavailable","unknown_outcome":true}`)
		}, true},
		{"gateway", func(w http.ResponseWriter) { w.WriteHeader(504) }, true},
		{"broken", func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, true},
	} {
		var calls atomic.Int32
		client, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				c.first(w)
				return
			}
			io.WriteString(w, `{"results":[]}`)
		})
		_, err := client.DecideBatch(t.Context(), "m", []DecideRequest{{}})
		if c.unsafe && (calls.Load() != 1 || !Unknown(err)) || !c.unsafe && (calls.Load() != 2 || err != nil) {
			t.Errorf("%s: %d calls, error %v", c.name, calls.Load(), err)
		}
	}
}

func TestNew(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://host", "http://", "http://a b", "unix:"} {
		if _, err := New(base, Options{}); err == nil {
			t.Errorf("New(%q) has no error", base)
		}
	}
}

func TestPack(t *testing.T) {
	p := PackFloat64([]float64{1, -2}, 2, 1)
	b, err := json.Marshal(p)
	if want := `{"dtype":"float64","shape":[2,1],"data":"AAAAAAAA8D8AAAAAAAAAwA=="}`; err != nil || string(b) != want {
		t.Errorf("packed = %s, %v; want %s", b, err, want)
	}
	b, err = json.Marshal(PackFloat32([]float64{1, -2}, 1, 2))
	if want := `{"dtype":"float32","shape":[1,2],"data":"AACAPwAAAMA="}`; err != nil || string(b) != want {
		t.Errorf("packed = %s, %v; want %s", b, err, want)
	}
}

// The log comes in lines, with the place to go on in a header; an answer that breaks off is asked for
// again, and is no short page.
func TestLog(t *testing.T) {
	var tries atomic.Int32
	c, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/v1/models/news/log?from=7&page_size=100" {
			t.Errorf("asked for %s", r.URL)
		}
		try := tries.Add(1)
		if try == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Log-Next", "9")
		io.WriteString(w, "{\"seq\":7,\"kind\":\"decision\",\"num\":3,\"den\":64}\n{\"seq\":8,\"kind\":\"reward\",\"value\":0}\n")
		if try == 2 { // the connection breaks in the middle: once more
			io.WriteString(w, "{\"seq\":")
			panic(http.ErrAbortHandler)
		}
	})
	records, next, err := c.Log(t.Context(), "news", 7, 100)
	if err != nil || next != 9 || len(records) != 2 || records[0].Num != 3 || records[0].Value != nil || records[1].Value == nil || *records[1].Value != 0 {
		t.Errorf("Log = %+v, %d, %v", records, next, err)
	}
	if n := tries.Load(); n != 3 {
		t.Errorf("%d attempts, want 3: one refused, one cut", n)
	}
}

// TestList: a list is asked for and read, and its rewards are sent by position and for all.
func TestList(t *testing.T) {
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.URL.Path+" "+string(b))
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, ":decide") {
			fmt.Fprint(w, `{"event_id":"E","mode":"online","seq":2,"basis_seq":1,"durable":true,"list":[{"position":0,"slot":"hero","id":"c","index":2,"propensity":{"num":1,"den":4}}]}`)
			return
		}
		fmt.Fprint(w, `{"status":"accepted","seq":3}`)
	}))
	defer s.Close()
	c, err := New(s.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Decide(t.Context(), "m", DecideRequest{Slots: []Slot{{ID: "hero", Exclude: []string{"b"}}}, Actions: []Action{{ID: "c"}}})
	if err != nil || len(d.List) != 1 || d.List[0] != (Entry{Slot: "hero", ID: "c", Index: 2, Propensity: Fraction{Num: 1, Den: 4}}) {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := c.RewardPosition(t.Context(), d.EventID, 0, 1); err != nil {
		t.Error(err)
	}
	if _, err := c.RewardList(t.Context(), d.EventID, []float64{0, 1}, 2); err != nil {
		t.Error(err)
	}
	for i, want := range []string{`"slots":[{"id":"hero","exclude":["b"]}]`, `:reward {"position":0,"value":1,"key":"`, `:reward {"values":[0,1],"shown":2,"key":"`} {
		if i >= len(bodies) || !strings.Contains(bodies[i], want) {
			t.Errorf("%q, want %s", bodies, want)
		}
	}
}

// TestRewardNamed: rewards with names are sent alone and in a batch without a value, and a value without them.
func TestRewardNamed(t *testing.T) {
	var bodies []string
	c, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, ":batch") {
			fmt.Fprint(w, `{"results":[{"result":{"status":"accepted","seq":3}},{"result":{"status":"accepted","seq":3}}]}`)
			return
		}
		fmt.Fprint(w, `{"status":"accepted","seq":3}`)
	})
	reward := map[string]float64{"click": 1, "revenue": 12.5}
	if r, err := c.RewardNamed(t.Context(), "E", reward); err != nil || r.Status != "accepted" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.RewardBatch(t.Context(), []RewardItem{{EventID: "E", Reward: reward, Key: "k"}, {EventID: "F", Key: "l"}}); err != nil {
		t.Error(err)
	}
	if len(bodies) != 2 || !strings.HasPrefix(bodies[0], `{"reward":{"click":1,"revenue":12.5},"key":"`) ||
		bodies[1] != `{"rewards":[{"event_id":"E","key":"k","reward":{"click":1,"revenue":12.5}},{"event_id":"F","value":0,"key":"l"}]}` {
		t.Errorf("%q", bodies)
	}
}
