package move_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/cli/move"
	"troupe/client"
	"troupe/internal/await"
	"troupe/internal/scratch"
	"troupe/serve"
	"troupe/serve/api"
)

const childDir, childPort = "TROUPE_MOVE_DIR", "TROUPE_MOVE_PORT"

// TestMain serves as a process that is killed, where the environment says so.
func TestMain(m *testing.M) {
	dir, port := os.Getenv(childDir), os.Getenv(childPort)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := serve.Open(context.Background(), serve.Options{Dir: dir, SnapshotEvery: 2000, ExpireEvery: 50 * time.Millisecond})
	if err == nil {
		var edge *api.API
		if edge, err = api.New(s, api.Options{}); err == nil {
			err = http.ListenAndServe("127.0.0.1:"+port, edge)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// process is a server that can be killed and started again.
type process struct {
	t         testing.TB
	dir, port string
	mu        sync.Mutex
	cmd       *exec.Cmd
}

func (p *process) url() string { return "http://127.0.0.1:" + p.port }

func (p *process) start() {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+p.dir, childPort+"="+p.port)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = cmd
	if !await.Poll(func() bool {
		res, err := http.Get(p.url() + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == 200
	}) {
		p.t.Fatal("the server does not start")
	}
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Kill()
	_, _ = p.cmd.Process.Wait()
}

// again kills the process and starts it again.
func (p *process) again() { p.kill(); p.start() }

// TestMovesUnderLoad moves a model there and back while callers decide with keys and pay, some late, and kills one of the two
// servers before a random step of some moves. In the end every decision that was answered is there once, every reward that was
// answered counts once, a repeated call has its first answer, and one server alone has the model. With TROUPE_RECORD=1 it makes 50
// moves at 300 pairs a second, and says how long the model was closed.
func TestMovesUnderLoad(t *testing.T) {
	moves, kills, every, between := 4, 2, 20*time.Millisecond, int64(10)
	if os.Getenv("TROUPE_RECORD") != "" {
		moves, kills, every, between = 50, 25, time.Second/300, 300
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ports, err := scratch.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	var servers [2]*process
	for i := range servers {
		servers[i] = &process{t: t, dir: filepath.Join(t.TempDir(), "data"), port: fmt.Sprint(ports[i])}
		if err := os.Mkdir(servers[i].dir, 0o700); err != nil {
			t.Fatal(err)
		}
		servers[i].start()
		t.Cleanup(servers[i].kill)
	}
	c, err := client.New(servers[0].url(), client.Options{Tries: 1 << 20, Backoff: 2 * time.Millisecond, HTTP: &http.Client{
		Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{}).DialContext}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CreateModel(ctx, map[string]any{"id": "news", "dim": 64, "policy": map[string]any{"kind": "ensemble"},
		"reward": map[string]any{"rule": "sum", "min": -10, "max": 10, "window": "10m"}}); err != nil {
		t.Fatal(err)
	}
	var load load
	stop := make(chan struct{})
	for u := range 8 {
		load.callers.Go(func() { load.call(ctx, c, u, 8*every, stop) })
	}
	killings := 0
	draw := rand.New(rand.NewPCG(5, 1))
	longest, waited := time.Duration(0), int64(0)
	for n := range moves {
		from, to := servers[n%2], servers[1-n%2]
		m := move.Mover{From: move.Server{URL: from.url()}, To: move.Server{URL: to.url()}}
		killed := draw.IntN(moves) < kills || n == 1
		if killed {
			killings++
		}
		at, who := draw.IntN(4), servers[draw.IntN(2)]
		before := load.pairs.Load()
		if !await.Poll(func() bool { return load.pairs.Load() > before+between || load.failed.Load() != nil }) || load.failed.Load() != nil {
			t.Fatalf("before move %d nothing is decided: %v", n, load.err())
		}
		load.longest.Store(0)
		steps := 0
		m.Step = func(name string) {
			if steps++; killed && steps == at+1 {
				killed = false
				who.again()
			}
		}
		whole := !killed
		r, err := m.Move(ctx, "news")
		if err != nil { // as an operator does
			if r, err = m.Move(ctx, "news"); err != nil {
				t.Fatalf("move %d: %v", n, err)
			}
		}
		if after := load.pairs.Load(); whole && await.Poll(func() bool { return load.pairs.Load() > after+8 || load.failed.Load() != nil }) {
			longest, waited = max(longest, r.Paused), max(waited, load.longest.Load())
		}
		if killed { // behind the last step
			who.again()
		}
	}
	close(stop)
	load.callers.Wait()
	if err := load.err(); err != nil {
		t.Fatal(err)
	}
	home, left := servers[moves%2], servers[1-moves%2]
	var v struct {
		State  string
		Counts struct {
			Decisions, Rewards, Learned, Open uint64
			RewardSum                         float64 `json:"reward_sum"`
		}
	}
	get(t, home.url()+"/v1/models/news", &v)
	if v.Counts.Decisions != uint64(len(load.ids)) || v.Counts.Rewards != uint64(load.paid.Load()) || v.Counts.RewardSum != .5*float64(load.paid.Load()) {
		t.Errorf("%d decisions and %d rewards were answered; the model has %+v", len(load.ids), load.paid.Load(), v.Counts)
	}
	get(t, left.url()+"/v1/models/news/move", &v)
	if v.State != "gone" {
		t.Errorf("the other server has the model: %s", v.State)
	}
	n := 0
	for key, id := range load.ids {
		if n++; n > 200 {
			break
		}
		d, err := c.Decide(ctx, "news", request(key))
		if err != nil || d.EventID != id || !d.Repeated {
			t.Fatalf("a repeated call: %v, event %s, was %s", err, d.EventID, id)
		}
	}
	t.Logf("%d moves, %d kills, %d pairs, %d late rewards; without a kill the model was closed for at most %v, and a decision took at most %v",
		moves, killings, load.pairs.Load(), load.late.Load(), longest.Round(time.Millisecond), time.Duration(waited).Round(time.Millisecond))
}

// TestUndo: a move that is interrupted before each of its steps goes on, and is undone while the other server does not have the
// model; afterwards the model is where it was, and another move succeeds.
func TestUndo(t *testing.T) {
	ctx := context.Background()
	var urls []string
	for range 2 {
		s, err := serve.Open(ctx, serve.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		edge, err := api.New(s, api.Options{})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(edge)
		urls = append(urls, web.URL)
		t.Cleanup(func() {
			web.Close()
			edge.Close()
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	c, err := client.New(urls[0], client.Options{})
	if err == nil {
		err = c.CreateModel(ctx, map[string]any{"id": "news"})
	}
	if err != nil {
		t.Fatal(err)
	}
	m := move.Mover{From: move.Server{URL: urls[0]}, To: move.Server{URL: urls[1]}}
	if err := m.Undo(ctx, "news"); err == nil {
		t.Error("a move that was not begun was undone")
	}
	for _, at := range []string{"parcel", "arrive", "gone"} {
		short, stop := context.WithCancel(ctx)
		m.Step = func(name string) {
			if name == at {
				stop()
			}
		}
		_, err := m.Move(short, "news")
		stop()
		m.Step = nil
		if err == nil {
			t.Fatalf("%s: the move was not interrupted", at)
		}
		if at == "gone" {
			break
		}
		once, err := client.New(urls[0], client.Options{Tries: 1, Patience: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = once.Decide(ctx, "news", client.DecideRequest{Actions: []client.Action{{ID: "a"}}}); client.Code(err) != "leaving" {
			t.Errorf("%s: a closed model answers %v", at, err)
		}
		if err := m.Undo(ctx, "news"); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Undo(ctx, "news"); err == nil {
		t.Error("a move that has arrived was undone")
	}
	// A server that was never sent the model could turn it away, and the model would be open at two.
	other := move.Mover{From: m.From, To: move.Server{URL: urls[0]}}
	if err := other.Undo(ctx, "news"); err == nil || !strings.Contains(err.Error(), "is about to go to "+urls[1]) {
		t.Errorf("undone by another server: %v", err)
	}
	if _, err := m.Move(ctx, "news"); err != nil {
		t.Fatal(err)
	}
	if r, err := m.Move(ctx, "news"); err != nil || !r.Already {
		t.Errorf("once more: %+v, %v", r, err)
	}
	d, err := c.Decide(ctx, "news", client.DecideRequest{Actions: []client.Action{{ID: "a"}, {ID: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if items, err := c.RewardBatch(ctx, []client.RewardItem{{EventID: d.EventID, Value: 1}}); err != nil || items[0].Result == nil {
		t.Errorf("a batch of rewards to the old server: %+v, %v", items[0].Problem, err)
	}
	if err := m.Undo(ctx, "nobody"); err == nil {
		t.Error("a model that is not there was moved back")
	}
}

// load are callers, and what they were answered.
type load struct {
	callers           sync.WaitGroup
	mu                sync.Mutex
	ids               map[string]string // event by key
	pairs, paid, late atomic.Int64
	longest           atomic.Int64 // time of a decision, ns
	failed            atomic.Pointer[error]
}

func (l *load) err() error {
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

func request(key string) client.DecideRequest {
	h := rand.New(rand.NewPCG(uint64(len(key)), 3))
	for _, b := range []byte(key) {
		h = rand.New(rand.NewPCG(h.Uint64(), uint64(b)))
	}
	x := make([]float64, 4*64)
	for i := range x {
		x[i] = h.Float64() / 16
	}
	return client.DecideRequest{Packed: client.PackFloat64(x, 4, 64), IdempotencyKey: key}
}

// call decides and pays, every so often; each fourth reward comes twelve decisions later.
func (l *load) call(ctx context.Context, c *client.Client, u int, every time.Duration, stop chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var waiting []string
	pay := func(id string) bool {
		r, err := c.RewardOnce(ctx, id, .5, "pay")
		if err == nil && r.Status != "accepted" && r.Status != "duplicate" {
			err = fmt.Errorf("a reward is %s", r.Status)
		}
		if err != nil {
			l.failed.CompareAndSwap(nil, &err)
			return false
		}
		l.paid.Add(1)
		return true
	}
	for n := 0; ; n++ {
		select {
		case <-stop:
			for _, id := range waiting {
				if !pay(id) {
					return
				}
			}
			return
		case <-tick.C:
		}
		key := fmt.Sprintf("%d-%d", u, n)
		begin := time.Now()
		d, err := c.Decide(ctx, "news", request(key))
		if err != nil {
			l.failed.CompareAndSwap(nil, &err)
			return
		}
		if took := int64(time.Since(begin)); took > l.longest.Load() {
			l.longest.Store(took)
		}
		l.mu.Lock()
		if l.ids == nil {
			l.ids = map[string]string{}
		}
		l.ids[key] = d.EventID
		l.mu.Unlock()
		if waiting = append(waiting, d.EventID); n%4 == 0 && len(waiting) < 12 {
			l.late.Add(1)
			continue
		}
		if !pay(waiting[0]) {
			return
		}
		waiting = waiting[1:]
		l.pairs.Add(1)
	}
}

func get(t *testing.T, url string, into any) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}
