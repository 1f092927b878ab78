package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"troupe/cli/term"
	"troupe/internal/await"
)

// growing is a cluster of processes on loopback whose nodes change, and callers that decide and reward at them.
type growing struct {
	t     *testing.T
	dir   string
	http  *http.Client
	mu    sync.RWMutex // held for writing when the nodes that callers know change
	nodes []*growingNode
	given int // names

	pairs, calls, refused atomic.Int64
	dropped               atomic.Int64 // calls whose connection was closed before an answer
	longest, silent       atomic.Int64 // ns: of one call, and without any success
	last                  atomic.Int64 // when one succeeded, since began
	began                 time.Time
	events                sync.Map // some event ids
	slowly                sync.Mutex
	slowAt                time.Time
	slow                  []string // calls that took longer than the bar, in this round
	late                  int      // how many in all
	seen                  string   // what the status said during the changes of a round
}

// memberBar is how long a call may take while the nodes change.
const memberBar = 2 * time.Second

type growingNode struct {
	name, port, callers string
	proc                *exec.Cmd
	log                 logBuffer
	up                  atomic.Bool
}

func (n *growingNode) url() string { return "http://127.0.0.1:" + n.callers }

// says is what init and add take for the node.
func (n *growingNode) says() string { return n.name + "=127.0.0.1:" + n.port + "/" + n.callers }

func (g *growing) folder(n *growingNode) string { return filepath.Join(g.dir, "cluster", n.name) }

func (g *growing) file(n *growingNode) string { return filepath.Join(g.folder(n), clusterFile) }

func (g *growing) newNode() *growingNode {
	ports := freePorts(g.t, 2)
	n := &growingNode{name: "n" + strconv.Itoa(g.given), port: ports[0], callers: ports[1]}
	g.given++
	g.t.Cleanup(func() {
		if n.proc != nil {
			_ = n.proc.Process.Kill()
			_ = n.proc.Wait()
		}
		if g.t.Failed() {
			g.t.Logf("the end of the log of node %s:\n%s", n.name, lastLines(n.log.String(), 30))
		}
	})
	return n
}

func newGrowing(t *testing.T) *growing {
	t.Helper()
	clusters <- struct{}{}
	t.Cleanup(func() { <-clusters })
	g := &growing{t: t, dir: t.TempDir(), began: time.Now(), http: &http.Client{Timeout: await.Limit, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	var says []string
	for range 3 {
		n := g.newNode()
		g.nodes, says = append(g.nodes, n), append(says, n.says())
	}
	g.run(0, "init", "--nodes", strings.Join(says, ","), "--out", filepath.Join(g.dir, "cluster"))
	for _, n := range g.nodes {
		g.start(n)
	}
	for _, n := range g.nodes {
		g.await(n, len(g.nodes))
		n.up.Store(true)
	}
	if status, text := g.call(context.Background(), g.nodes[0], "POST", "/v1/models", "", `{"id": "news"}`); status != http.StatusCreated {
		t.Fatalf("create: %d %s", status, text)
	}
	for _, n := range g.nodes { // the others learn of it from the log
		for note := range await.Tries(t) {
			status, text := g.call(context.Background(), n, "GET", "/v1/models/news", "", "")
			if status == http.StatusOK {
				break
			}
			note("the model at %s: %d %s", n.name, status, text)
		}
	}
	return g
}

// run is troupe cluster with arguments.
func (g *growing) run(want int, args ...string) string {
	g.t.Helper()
	var text bytes.Buffer
	if code := command(g.t.Context(), append([]string{"cluster"}, args...), &text, &text); code != want {
		g.t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, &text)
	}
	return text.String()
}

func (g *growing) start(n *growingNode) {
	g.t.Helper()
	n.proc = exec.Command("troupe", "serve", "--cluster", g.file(n), "--data", filepath.Join(g.dir, "data-"+n.name))
	n.proc.Stdout, n.proc.Stderr = &n.log, &n.log
	if err := n.proc.Start(); err != nil {
		g.t.Fatal(err)
	}
}

// closed is the status of a call whose connection was closed before an answer came.
const closed = -2

// call sends one request; status is 0 when it was not sent.
func (g *growing) call(ctx context.Context, n *growingNode, method, path, key, body string) (status int, text []byte) {
	r, err := http.NewRequestWithContext(ctx, method, n.url()+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	a, err := g.http.Do(r)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return 0, nil
	}
	if err == nil {
		defer a.Body.Close()
		text, err = io.ReadAll(a.Body)
	}
	if errors.Is(err, io.EOF) {
		return closed, []byte(err.Error())
	}
	if err != nil {
		return -1, []byte(err.Error())
	}
	return a.StatusCode, text
}

// status is what troupe cluster status says with the file of a node.
func (g *growing) status(n *growingNode) (s clusterStatus) {
	var out bytes.Buffer
	command(context.Background(), []string{"cluster", "status", "--json", "--cluster", g.file(n)}, &out, io.Discard)
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		g.t.Errorf("status: %v: %s", err, &out)
	}
	return s
}

// await waits until size nodes of the file of n are ready, n is one of them, the log has as many, each has a replica,
// and no change is under way.
func (g *growing) await(n *growingNode, size int) {
	g.t.Helper()
	for note := range await.Tries(g.t) {
		s := g.status(n)
		ready, own, under := 0, false, ""
		var replicas int
		for _, x := range s.Nodes {
			if x.Ready {
				ready++
				own = own || x.Name == n.name
				under += x.Cluster.Change
				replicas = len(x.Cluster.Replicas)
			}
		}
		if ready == size && own && len(s.namesSaid()) == size && replicas == size && under == "" {
			return
		}
		note("%d nodes are ready, want %d; %d replicas; %s: %+v", ready, size, replicas, under, s)
	}
}

// pair decides and rewards once, at any node, and again at another one after a 503.
func (g *growing) pair(ctx context.Context, i int64) {
	send := func(path, key, body string) []byte {
		for ctx.Err() == nil {
			g.mu.RLock()
			n := g.nodes[rand.IntN(len(g.nodes))]
			if !n.up.Load() {
				g.mu.RUnlock()
				continue
			}
			begun := time.Now()
			status, text := g.call(ctx, n, "POST", path, key, body)
			g.mu.RUnlock()
			took := int64(time.Since(begun))
			for old := g.longest.Load(); took > old && !g.longest.CompareAndSwap(old, took); old = g.longest.Load() {
			}
			g.calls.Add(1)
			if took > int64(memberBar) {
				g.tardy(n, path, status, begun)
			}
			switch {
			case status == http.StatusOK:
				now := int64(time.Since(g.began))
				was := g.last.Swap(now)
				for old := g.silent.Load(); now-was > old && !g.silent.CompareAndSwap(old, now-was); old = g.silent.Load() {
				}
				return text
			case status == http.StatusServiceUnavailable:
				g.refused.Add(1)
			case status == closed: // with a key, and a reward of an event, it may be sent again
				g.dropped.Add(1)
			case ctx.Err() == nil:
				g.t.Errorf("%v: %s at %s: status %d: %s", time.Now().UTC(), path, n.name, status, text)
				return nil
			}
			time.Sleep(10 * time.Millisecond) // before it asks another node
		}
		return nil
	}
	text := send("/v1/models/news:decide", fmt.Sprint("pair ", i), `{"context": {"n": `+fmt.Sprint(i%50)+`}, "actions": [{"id": "x"}, {"id": "y"}]}`)
	var d struct {
		ID string `json:"event_id"`
	}
	if text == nil || json.Unmarshal(text, &d) != nil {
		return
	}
	if send("/v1/events/"+d.ID+":reward", "", fmt.Sprintf(`{"value": %d}`, i%2)) == nil {
		return
	}
	if g.pairs.Add(1)%50 == 1 {
		g.events.Store(i, d.ID)
	}
}

// tardy notes a call that took long, and what its node said meanwhile.
func (g *growing) tardy(n *growingNode, path string, status int, begun time.Time) {
	end := time.Now()
	var said []string
	for line := range strings.Lines(n.log.String()) {
		text, ok := strings.CutPrefix(line, "time=")
		at, err := time.Parse(time.RFC3339Nano, text[:max(0, strings.IndexByte(text, ' '))])
		if ok && err == nil && !strings.Contains(line, " msg=request ") && !at.Before(begun.Add(-2*time.Second)) && at.Before(end) {
			said = append(said, strings.TrimSpace(line))
		}
	}
	g.slowly.Lock()
	defer g.slowly.Unlock()
	if g.late++; len(g.slow) < 5 && begun.Sub(g.slowAt) > memberBar { // many wait for the same
		g.slowAt = begun
		g.slow = append(g.slow, fmt.Sprintf("%s at %s: status %d, from %s for %v; its node said %q", path, n.name, status,
			begun.UTC().Format("15:04:05.000"), end.Sub(begun).Round(time.Millisecond), said))
	}
}

// load sends rate pairs a second until the context ends; what was begun is brought to an end.
func (g *growing) load(ctx context.Context, rate int) {
	due := make(chan int64, 1)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range due {
				g.pair(g.t.Context(), i)
			}
		})
	}
	begun, first := time.Now(), g.pairs.Load()*1000
	g.last.Store(int64(time.Since(g.began)))
	for i := int64(0); ctx.Err() == nil; i++ {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(rate)))) // when it is due
		due <- first + i
	}
	close(due)
	wg.Wait()
}

// add makes one more node and waits until it is one. The others get their files while they run.
func (g *growing) add() {
	g.t.Helper()
	n, by := g.newNode(), g.nodes[len(g.nodes)-1]
	out := filepath.Join(g.t.TempDir(), "new")
	text := g.run(0, "add", n.says(), "--cluster", g.file(by), "--authority", filepath.Join(g.dir, "cluster", authorityDir), "--out", out)
	if size := len(g.nodes) + 1; size%2 == 0 && !strings.Contains(text, fmt.Sprintf("%d nodes are an even number: a majority is %d", size, size/2+1)) {
		g.t.Errorf("no word of the majority: %s", text)
	}
	if err := os.Mkdir(g.folder(n), 0o700); err != nil {
		g.t.Fatal(err)
	}
	copyFiles(g.t, filepath.Join(out, n.name), g.folder(n), clusterFile, caFile, certFile, keyFile, "keys.json")
	g.start(n)
	g.await(n, len(g.nodes)+1)
	for _, x := range g.nodes {
		copyFiles(g.t, filepath.Join(out, x.name), g.folder(x), clusterFile)
	}
	n.up.Store(true)
	g.mu.Lock()
	g.nodes = append(slices.Clone(g.nodes), n)
	g.mu.Unlock()
}

// leave ends the calls to a node and waits for those under way.
func (g *growing) leave(n *growingNode) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n.up.Store(false)
}

// stop drains a node and stops it, as a balancer and an operator do.
func (g *growing) stop(n *growingNode) {
	g.t.Helper()
	by := g.nodes[0]
	if by == n {
		by = g.nodes[1]
	}
	g.stopBy(n, by)
}

// stopBy is stop with the file of a node.
func (g *growing) stopBy(n, by *growingNode) {
	g.t.Helper()
	drainNode(g.t, n.name, "--cluster", g.file(by)) // a machine that took a name reads a long log before
	g.leave(n)
	_ = n.proc.Process.Signal(os.Interrupt)
	if err := n.proc.Wait(); err != nil {
		g.t.Errorf("node %s: %v", n.name, err)
	}
	n.proc = nil
}

// remove stops a node and removes it.
func (g *growing) remove(n *growingNode) {
	g.t.Helper()
	by := g.nodes[len(g.nodes)-1]
	out := filepath.Join(g.t.TempDir(), "new")
	if text := g.run(term.Failed, "remove", n.name, "--cluster", g.file(by), "--out", out); !strings.Contains(text, n.name+" is not removed: it answers at") {
		g.t.Errorf("a node that answers is removed: %s", text)
	}
	g.stop(n)
	text := g.run(0, "remove", n.name, "--cluster", g.file(by), "--out", out)
	if !strings.Contains(text, n.name+" is not one of the nodes any more, and has no replica") {
		g.t.Error(text)
	}
	rest := slices.DeleteFunc(slices.Clone(g.nodes), func(x *growingNode) bool { return x == n })
	for _, x := range rest {
		copyFiles(g.t, filepath.Join(out, x.name), g.folder(x), clusterFile)
	}
	g.mu.Lock()
	g.nodes = rest
	g.mu.Unlock()
	g.await(by, len(rest))
}

// same compares the nodes with each other and with what callers were told.
func (g *growing) same() {
	g.t.Helper()
	var first string
	for note := range await.Tries(g.t) {
		var all []string
		for _, n := range g.nodes {
			var m struct {
				Counts struct{ Decisions, Rewards, Late, Ignored int64 }
			}
			var s struct{ Digest string }
			_, text := g.call(g.t.Context(), n, "GET", "/v1/models/news", "", "")
			_ = json.Unmarshal(text, &m)
			_, text = g.call(g.t.Context(), n, "GET", "/v1/models/news/state", "", "")
			_ = json.Unmarshal(text, &s)
			all = append(all, fmt.Sprint(m.Counts, s.Digest))
		}
		want := fmt.Sprintf("{%[1]d %[1]d 0 0}", g.pairs.Load())
		first = all[0]
		if strings.HasPrefix(first, want) && !slices.ContainsFunc(all, func(x string) bool { return x != first }) {
			break
		}
		note("the nodes have %v, callers have %s", all, want)
	}
	g.events.Range(func(_, id any) bool {
		n := g.nodes[rand.IntN(len(g.nodes))]
		if status, text := g.call(g.t.Context(), n, "GET", "/v1/events/"+id.(string), "", ""); status != http.StatusOK {
			g.t.Errorf("event %v: %d %s", id, status, text)
		}
		return true
	})
}

// replace loses a machine for good, lets another one take its name, and brings the new addresses to the others.
func (g *growing) replace(n *growingNode) {
	g.t.Helper()
	by := g.nodes[0]
	if by == n {
		by = g.nodes[1]
	}
	size := len(g.nodes)
	g.leave(n)
	_ = n.proc.Process.Kill()
	_ = n.proc.Wait()
	n.proc = nil
	if err := os.RemoveAll(filepath.Join(g.dir, "data-"+n.name)); err != nil {
		g.t.Fatal(err)
	}
	ports := freePorts(g.t, 2)
	g.mu.Lock()
	n.port, n.callers = ports[0], ports[1]
	g.mu.Unlock()
	out := filepath.Join(g.t.TempDir(), "new")
	for note := range await.Tries(g.t) { // an election after the loss
		var text bytes.Buffer
		code := command(g.t.Context(), []string{"cluster", "replace", n.says(), "--cluster", g.file(by), "--authority",
			filepath.Join(g.dir, "cluster", authorityDir), "--out", out}, &text, &text)
		if code == 0 {
			break
		}
		note("replace: exit code %d: %s", code, &text)
	}
	copyFiles(g.t, filepath.Join(out, n.name), g.folder(n), clusterFile, caFile, certFile, keyFile, "keys.json")
	g.start(n)
	for _, x := range slices.DeleteFunc(slices.Clone(g.nodes), func(x *growingNode) bool { return x == n }) {
		copyFiles(g.t, filepath.Join(out, x.name), g.folder(x), clusterFile)
		g.stopBy(x, n) // the others do not know its address yet
		g.start(x)
		g.await(x, size)
		x.up.Store(true)
	}
	n.up.Store(true)
}

// watch keeps what the status says with the file of a node, until ctx ends.
func (g *growing) watch(ctx context.Context, n *growingNode) {
	for ctx.Err() == nil {
		var out bytes.Buffer
		command(ctx, []string{"cluster", "status", "--cluster", g.file(n)}, &out, &out)
		if text := out.String(); len(g.seen) < 1<<20 {
			g.seen += text
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lap returns and forgets the longest call and the longest time without a success.
func (g *growing) lap() [2]time.Duration {
	return [2]time.Duration{time.Duration(g.longest.Swap(0)).Round(time.Millisecond), time.Duration(g.silent.Swap(0)).Round(time.Millisecond)}
}

// round is one of TestClusterMembers: two nodes more, two other ones less, and with replace another machine for one that
// is lost. It returns what lap does of the nodes that come and go, and of the machine, whose loss is followed by an
// election when it led.
func (g *growing) round(rate int, replace bool) (changes, lost [2]time.Duration, old *growingNode) {
	g.t.Helper()
	g.lap()
	g.slow = nil
	pairs, calls, refused := g.pairs.Load(), g.calls.Load(), g.refused.Load()
	end := background(g.t, func(ctx context.Context) { g.load(ctx, rate) })
	last := g.nodes[len(g.nodes)-1]
	stop := background(g.t, func(ctx context.Context) { g.watch(ctx, last) })
	begun := time.Now()
	g.add()
	g.add()
	stop()
	old = g.nodes[rand.IntN(3)]
	g.remove(old)
	g.remove(g.nodes[rand.IntN(3)])
	changes = g.lap()
	what := ""
	if replace {
		n := g.nodes[rand.IntN(3)]
		led := g.status(n).Leader == n.name
		g.replace(n)
		lost = g.lap()
		what = fmt.Sprintf("; a machine lost and replaced (it led: %v): longest call %v, without a success %v", led, lost[0], lost[1])
	}
	took := time.Since(begun)
	end()
	g.same()
	g.t.Logf("%v, %d pairs, %d calls, %d of them 503; nodes that come and go: longest call %v, without a success %v%s", took.Round(time.Second),
		g.pairs.Load()-pairs, g.calls.Load()-calls, g.refused.Load()-refused, changes[0], changes[1], what)
	for _, text := range g.slow {
		g.t.Logf("above %v: %s", memberBar, text)
	}
	return changes, lost, old
}

// TestClusterMembers: a cluster goes from three nodes to five and back to three others while callers decide and reward.
// Each call is answered, by 503 at worst, but for one in a thousand whose connection is closed on a busy machine; nothing that was answered is lost, and all nodes have one state. With
// TROUPE_RECORD, which may be the number of rounds, a machine is replaced in each round, and there are a million events;
// calls that took longer than two seconds are counted and told, and fail the test when all rounds are played.
func TestClusterMembers(t *testing.T) {
	rounds, rate := recordRounds(seldom(t, 20, 1)), 100
	record := os.Getenv("TROUPE_RECORD") != ""
	if record {
		rate = 500
	} else {
		t.Parallel()
	}
	g := newGrowing(t)
	g.refusals()
	var all [2][2][]time.Duration // of changes and of lost machines, calls and silences
	for round := 0; round < rounds || record && 2*g.pairs.Load() < 1_000_000 && round < 2*rounds; round++ {
		changes, lost, old := g.round(rate, record)
		for i := range 2 {
			all[0][i], all[1][i] = append(all[0][i], changes[i]), append(all[1][i], lost[i])
		}
		t.Logf("round %d of %d: %d events in all", round+1, rounds, 2*g.pairs.Load())
		if t.Failed() {
			return
		}
		if round == 0 { // with its old folder and disk it is no node
			played(t, "the nodes are … in the log", func() string { return g.seen })
			played(t, "a change of the nodes is under way:", func() string { return g.seen })
			g.start(old)
			err := old.proc.Wait()
			old.proc = nil
			if err == nil {
				t.Error("a removed node starts")
			}
			played(t, "was removed from the cluster", old.log.String)
			if !strings.Contains(old.log.String(), "node "+old.name+" was removed from the cluster, whose nodes are ") {
				t.Errorf("a removed node says %s", old.log.String())
			}
		}
	}
	t.Logf("summary: %d rounds, %d events, %d calls, %d of them 503, %d above %v", len(all[0][0]), 2*g.pairs.Load(), g.calls.Load(),
		g.refused.Load(), g.late, memberBar)
	for i, what := range []string{"nodes that come and go", "machines lost and replaced"} {
		if i == 1 && !record {
			continue
		}
		for k, of := range []string{"longest call of a round", "longest without a success"} {
			d := all[i][k]
			slices.Sort(d)
			over := len(d)
			if at := slices.IndexFunc(d, func(d time.Duration) bool { return d > memberBar }); at >= 0 {
				over = at
			}
			t.Logf("summary: %s: %s %v in the median, %v at most, %d of %d rounds above %v", what, of, d[len(d)/2], d[len(d)-1],
				len(d)-over, len(d), memberBar)
		}
	}
	if d := all[0][0]; record && d[len(d)-1] > memberBar {
		t.Errorf("a call took %v while nodes came and went, want at most %v", d[len(d)-1], memberBar)
	}
	if n := g.dropped.Load(); n > 0 { // on a busy machine a server may not read a request within its limits
		t.Logf("%d connections were closed before an answer", n)
		if n > 3 && n > g.calls.Load()/1000 {
			t.Errorf("%d of %d calls had no answer", n, g.calls.Load())
		}
	}
	// of four, one is away: a second one may not go
	g.add()
	g.stop(g.nodes[0])
	g.stop2(g.nodes[1])
	out := filepath.Join(t.TempDir(), "new")
	text := g.run(term.Failed, "remove", g.nodes[0].name, "--cluster", g.file(g.nodes[3]), "--out", out)
	if !strings.Contains(text, "a majority of the 4 nodes is 3") || !strings.Contains(text, g.nodes[1].name) {
		t.Error(text)
	}
	n := g.newNode()
	text = g.run(term.Failed, "add", n.says(), "--cluster", g.file(g.nodes[3]), "--authority", filepath.Join(g.dir, "cluster", authorityDir), "--out", out)
	if !strings.Contains(text, "a majority of 5 nodes is 3, and ") {
		t.Error(text)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a refusal has written files")
	}
}

// stop2 ends a process although the others are no majority then.
func (g *growing) stop2(n *growingNode) {
	n.up.Store(false)
	_ = n.proc.Process.Kill()
	_ = n.proc.Wait()
	n.proc = nil
}

// refusals: bad input is refused with exit code 2, and nothing is written.
func (g *growing) refusals() {
	out, authority := filepath.Join(g.t.TempDir(), "new"), filepath.Join(g.dir, "cluster", authorityDir)
	a, b := g.nodes[0], g.nodes[1]
	free := freePorts(g.t, 2)
	at := "127.0.0.1:" + free[0] + "/" + free[1]
	with := func(args ...string) []string {
		return append(args, "--cluster", g.file(a), "--out", out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{with("add", a.name+"="+at, "--authority", authority), a.name + " is one of the nodes already, which are n0, n1, n2"},
		{with("add", "d=127.0.0.1:"+b.port, "--authority", authority), "has the address 127.0.0.1:" + b.port + ", which is there already"},
		{with("add", "d=127.0.0.1:"+free[0]+"/"+b.callers, "--authority", authority), "has the url http://127.0.0.1:" + b.callers + ", which is there already"},
		{with("add", "d=127.0.0.1:"+b.callers+"/"+free[1], "--authority", authority), "d: something listens at 127.0.0.1:" + b.callers + " already, expected a free port"},
		{with("add", "d d="+at, "--authority", authority), "expected 1 to 64 letters"},
		{with("add", "d=127.0.0.1:0", "--authority", authority), "expected NAME"},
		{with("add", "d="+at), "--authority is missing"},
		{[]string{"add", "d=" + at, "--out", out, "--authority", authority}, "--cluster is missing"},
		{[]string{"add", "d=" + at, "--cluster", g.file(a), "--authority", authority}, "--out is missing"},
		{with("remove", "n9"), "n9 is not one of the nodes n0, n1, n2"},
		{with("remove", a.name), "is the file of node n0: give that of a node that stays"},
		{with("remove", b.name), "the cluster has 3 nodes, the least there may be"},
	} {
		if text := g.run(term.Misused, c.args...); !strings.Contains(text, c.want) {
			g.t.Errorf("%v: %s, want %s", c.args, text, c.want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		g.t.Error("a refusal has written files")
	}
}
