package cli

import (
	"context"
	"errors"
	"fmt"
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

	"troupe/internal/await"
	"troupe/internal/powerfs"
	"troupe/internal/scratch"
)

// Lines of the fault table with real processes; the others are in clusterfaults_test.go and cluster_test.go.

// counted returns how many decisions of the model news each node counts, which must be the same, after all have applied everything.
func (c *realCluster) counted() int {
	c.t.Helper()
	c.level()
	first, status := c.decisions(0)
	for i := range c.names {
		if n, s := c.decisions(i); n != first || s != 200 || status != 200 {
			c.t.Errorf("node %s counts %d decisions with status %d, node a %d with %d", c.names[i], n, s, first, status)
		}
	}
	return first
}

// equal compares the digests of the nodes.
func (c *realCluster) equal() {
	c.t.Helper()
	if all := c.digests("news"); all[0] != all[1] || all[0] != all[2] {
		c.t.Errorf("the nodes have the digests %s", all)
	}
}

// TestClusterAtOnce: two nodes get one key at the same time, and every fourth time nobody waits for one of the answers: one decision is made, and every answer has it.
// Two nodes get a change of a configuration with one ETag: one wins, the other one answers 412. The controls: two keys make two decisions, and of two changes one
// after the other, each with the ETag of then, both win.
func TestClusterAtOnce(t *testing.T) {
	n := seldom(t, 10_000, 100)
	t.Parallel()
	c, _ := startRealCluster(t)
	begun := time.Now()
	request := func(key string) func() any {
		return func() any {
			return map[string]any{"key": key, "actions": []map[string]any{{"id": "x"}, {"id": "y"}, {"id": "z"}}}
		}
	}
	type answer struct {
		ID       string `json:"event_id"`
		Repeated bool
		Action   struct{ ID string }
	}
	decide := func(ctx context.Context, node int, key string) (a answer, err error) {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://127.0.0.1:"+c.ports[3+node]+"/v1/models/news:decide", strings.NewReader(`{"actions": [{"id": "x"}, {"id": "y"}, {"id": "z"}]}`))
		if err != nil {
			return a, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		got, err := c.http.Do(r)
		if err == nil {
			got.Body.Close()
		}
		return a, err
	}
	var lost, repeated atomic.Int64
	pair := func(i int, keys [2]string) (a [2]answer) {
		var wg sync.WaitGroup
		for k := range 2 {
			wg.Go(func() {
				node := (i + k) % 3
				if k == 1 && i%4 == 3 { // its answer is not waited for, and it is repeated at a third node
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%40)*100*time.Microsecond)
					if _, err := decide(ctx, node, keys[k]); err != nil {
						lost.Add(1)
					}
					cancel()
					node = (i + 2) % 3
				}
				if _, err := c.call(node, "POST", "/v1/models/news:decide", request(keys[k])(), &a[k]); err != nil {
					t.Errorf("key %s: %v", keys[k], err)
				}
				if a[k].Repeated {
					repeated.Add(1)
				}
			})
		}
		wg.Wait()
		return a
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n && !t.Failed(); i = int(next.Add(1)) {
				key := fmt.Sprint("key ", i)
				if a := pair(i, [2]string{key, key}); a[0].ID == "" || a[0].ID != a[1].ID || a[0].Action != a[1].Action || !a[0].Repeated && !a[1].Repeated {
					t.Errorf("key %d: %+v and %+v", i, a[0], a[1])
				}
			}
		})
	}
	wg.Wait()
	if got := c.counted(); got != n {
		t.Errorf("%d keys made %d decisions", n, got)
	}
	if a := pair(0, [2]string{"one", "two"}); a[0].ID == a[1].ID || c.counted() != n+2 {
		t.Errorf("control: two keys made %+v and %+v, %d decisions", a[0], a[1], c.counted())
	}
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	l.bulk.atOnce(seldom(t, int(bulkGoal()/(3*bulkBatch))+1, n))
	t.Logf("%d keys at two nodes at once in %v: %d answers were not waited for, %d were repetitions", n, time.Since(begun).Round(time.Second), lost.Load(), repeated.Load())

	patch := func(node int, etag string, floor float64) (status int, next string) {
		t.Helper()
		r, err := http.NewRequest("PATCH", "http://127.0.0.1:"+c.ports[3+node]+"/v1/models/news", strings.NewReader(fmt.Sprintf(`{"floor": %v}`, floor)))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set("Content-Type", "application/merge-patch+json")
		r.Header.Set("If-Match", etag)
		a, err := c.http.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer a.Body.Close()
		_, _ = io.Copy(io.Discard, a.Body)
		return a.StatusCode, a.Header.Get("ETag")
	}
	read := func(node int) string {
		t.Helper()
		a, err := c.http.Get("http://127.0.0.1:" + c.ports[3+node] + "/v1/models/news")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		return a.Header.Get("ETag")
	}
	etag := read(0)
	acts := max(20, n/100)
	for i := range acts {
		var status [2]int
		var tags [2]string
		for k := range 2 {
			await.Until(t, "a node has applied the change of before", func() bool { return read((i+k)%3) == etag })
		}
		var both sync.WaitGroup
		for k := range 2 {
			both.Go(func() { status[k], tags[k] = patch((i+k)%3, etag, 0.01+float64(2*i+k)/10_000) })
		}
		both.Wait()
		if got := []int{min(status[0], status[1]), max(status[0], status[1])}; got[0] != 200 || got[1] != 412 {
			t.Fatalf("two changes with the ETag %s: %v", etag, status)
		}
		etag = tags[slices.Index(status[:], 200)]
	}
	for i := range 2 { // control
		await.Until(t, "a node has applied the change of before", func() bool { return read(i) == etag })
		status := 0
		if status, etag = patch(i, etag, 0.5+float64(i)/100); status != 200 {
			t.Fatalf("control: a change with the present ETag: %d", status)
		}
	}
	c.level()
	c.equal()
	l.bulk.check()
	c.whole(l)
	t.Logf("%d pairs of changes with one ETag", acts)
}

// TestClusterVoid: a node is cut off while the others write many entries. What it had sent is void when it is stored, and does not count; nobody stops, and all have one
// state. A caller with a key whose outcome is unknown there has the decision that counts from another node. The control: while few entries are written, it is not void.
func TestClusterVoid(t *testing.T) {
	entries := uint64(seldom(t, 30_000, 0))
	c, wires := newWiredCluster(t)
	for i := range c.names {
		c.start(i)
	}
	leader := c.ready(3)
	c.makeModel()
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	l.bulk.more(1)
	cutOff := (leader + 1) % 3
	others := []int{leader, (leader + 2) % 3}
	for _, n := range []uint64{200, entries} {
		before := c.counted()
		var acked, unknown atomic.Int64
		decide := func(i int) error {
			_, err := c.call(i, "POST", "/v1/models/news:decide", map[string]any{"actions": []map[string]any{{"id": "x"}, {"id": "y"}}}, nil)
			switch {
			case err == nil:
				acked.Add(1)
			case strings.Contains(err.Error(), "unknown_outcome"):
				unknown.Add(1)
			}
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 8 { // one of their batches is under way when the node is cut off
			callers.Go(func() {
				for ctx.Err() == nil && decide(cutOff) == nil {
				}
			})
		}
		await.Until(t, "each of them has been answered", func() bool { return acked.Load() >= 16 })
		begun := time.Now()
		for _, i := range others { // what it sends first, so that no batch is stored whose answer is lost
			cut(wires, cutOff, i, true)
		}
		time.Sleep(time.Second) // answers to what it has sent arrive
		for _, i := range others {
			cut(wires, i, cutOff, true)
		}
		keyed := func(i int) (id string, err error) {
			var d struct {
				ID string `json:"event_id"`
			}
			_, err = c.call(i, "POST", "/v1/models/news:decide", map[string]any{"key": fmt.Sprint("cut off for ", n), "actions": []map[string]any{{"id": "x"}, {"id": "y"}}}, &d)
			return d.ID, err
		}
		asked := make(chan error, 1)
		go func() { _, err := keyed(cutOff); asked <- err }()
		from := c.status().Nodes[others[0]].Applied
		c.up[cutOff].Store(false)
		if n == entries {
			callers.Go(func() { l.bulk.run(ctx, "bulk") })
		}
		for _, i := range others {
			for range 2 {
				callers.Go(func() {
					for ctx.Err() == nil {
						_ = decide(i)
					}
				})
			}
		}
		for c.status().Nodes[others[0]].Applied < from+n || unknown.Load() == 0 { // the callers at the node that is cut off have their answer
			if time.Since(begun) > 10*time.Minute {
				t.Fatalf("%+v", c.status())
			}
			time.Sleep(100 * time.Millisecond) // the callers need the processors; of 30,000 entries package await would give up
		}
		if err := <-asked; err == nil || !strings.Contains(err.Error(), "unknown_outcome") || !strings.Contains(err.Error(), "same Idempotency-Key, at any node") {
			t.Errorf("a caller with a key at the node that is cut off is told %v", err)
		}
		first, err := keyed(others[0]) // the one that counts
		if acked.Add(1); err != nil {
			t.Error(err)
		}
		if n == entries {
			l.bulk.reach()
		}
		stop()
		callers.Wait()
		written := c.status().Nodes[others[0]].Applied - from
		void := c.status().Nodes[cutOff].Cluster.Void
		for _, i := range others {
			cut(wires, i, cutOff, false)
			cut(wires, cutOff, i, false)
		}
		c.up[cutOff].Store(true)
		healed := time.Now()
		c.ready(3)
		got := c.counted() - before
		void = c.status().Nodes[cutOff].Cluster.Void - void
		t.Logf("cut off for %d entries in %v, ready %v later: %d decisions answered, %d of unknown outcome, %d counted, %d batches void", written, healed.Sub(begun).Round(time.Second), time.Since(healed).Round(time.Millisecond), acked.Load(), unknown.Load(), got, void)
		if late := n > 16_384; late && (void == 0 || got != int(acked.Load())) || !late && (void != 0 || got <= int(acked.Load())) || got > int(acked.Load()+unknown.Load()) {
			t.Errorf("%d decisions count, %d were answered and %d are unknown; %d batches are void", got, acked.Load(), unknown.Load(), void)
		}
		if id, err := keyed(cutOff); err != nil || id != first {
			t.Errorf("the decision with a key is %s, and at the node that was cut off %s, %v", first, id, err)
		}
		c.equal()
		l.bulk.check()
	}
	c.whole(l)
}

// copyInto makes to a copy of from.
func copyInto(t *testing.T, from, to string) {
	t.Helper()
	err := os.RemoveAll(to)
	if err == nil {
		err = scratch.Copy(to, from)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestClusterBits: a bit is flipped at many places of the block files of a node that is stopped, files are cut, or are gone. The node has the state of the others or does not
// start, and says why; the others go on. Then it is rebuilt. The control: unchanged, it starts every time.
func TestClusterBits(t *testing.T) {
	places := seldom(t, 120, 6)
	t.Parallel()
	c, leader := startRealCluster(t)
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
	l.more(t, 60)
	end()
	bad := (leader + 1) % 3
	c.level()
	c.stop(bad)
	data, kept := filepath.Join(c.dir, "data-"+c.names[bad]), filepath.Join(c.dir, "kept")
	copyInto(t, data, kept)
	// What the engine has of the log: the stream's own blocks, and the log of its group of replicas.
	blocks, err := filepath.Glob(filepath.Join(kept, "log", "jetstream", "*", "streams", "TROUPE_EV_0", "msgs", "*.blk"))
	raft, e := filepath.Glob(filepath.Join(kept, "log", "jetstream", "*", "_js_", "*", "msgs", "*.blk"))
	if err = errors.Join(err, e); err != nil || len(blocks) == 0 || len(raft) == 0 {
		t.Fatalf("%v, %v, %v", blocks, raft, err)
	}
	type change struct {
		file string
		name string
		do   func([]byte) []byte
	}
	var changes []change
	for _, file := range append(slices.Clone(blocks), raft...) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		share := max(1, places/2/len(blocks))
		if slices.Contains(raft, file) {
			share = max(1, places/2/len(raft))
		}
		for k := range share {
			at := (int(info.Size()) - 1) * (2*k + 1) / (2 * share)
			if info.Size() == 0 {
				continue
			}
			changes = append(changes, change{file, fmt.Sprintf("a bit at byte %d of %d", at, info.Size()), func(b []byte) []byte { b[at] ^= 1 << (at % 8); return b }})
		}
	}
	changes = append(changes,
		change{blocks[0], "nothing", func(b []byte) []byte { return b }},
		change{blocks[0], "cut in the middle", func(b []byte) []byte { return b[:len(b)/2] }},
		change{blocks[0], "gone", func([]byte) []byte { return nil }},
	)
	refused, same := 0, 0
	for _, x := range changes {
		copyInto(t, kept, data)
		rel, err := filepath.Rel(kept, x.file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(x.file)
		if err == nil {
			if b = x.do(b); b == nil {
				err = os.Remove(filepath.Join(data, rel))
			} else {
				err = os.WriteFile(filepath.Join(data, rel), b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		what := filepath.Base(filepath.Dir(filepath.Dir(rel))) + "/" + filepath.Base(rel) + ", " + x.name
		from := len(c.logs[bad].String())
		l.bulk.more(len(changes))
		end := background(t, func(ctx context.Context) {
			l.bulk.run(ctx, "bulk/"+x.name+"/"+filepath.Base(rel)+fmt.Sprint(refused+same))
		})
		idle := func() { // the batches of this place are answered
			l.bulk.reach()
			end()
		}
		c.start(bad)
		p := c.procs[bad]
		ended := make(chan error, 1)
		go func() { ended <- p.Wait() }()
		others := 0
		for note := range await.Tries(t) {
			if _, err := c.call(leader, "POST", "/v1/models/news:decide", map[string]any{"actions": []map[string]any{{"id": "x"}}}, nil); err == nil {
				others++
			}
			var err error
			select {
			case err = <-ended:
				if text := c.logs[bad].String()[from:]; err == nil || !strings.Contains(text, "is damaged") || !strings.Contains(text, "see troupe help cluster rebuild") {
					t.Errorf("%s: it stops, %v: %s", what, err, text)
				}
				refused++
				idle()
			default:
				s := c.status().Nodes[bad]
				if s.Ready && s.Lag == 0 && s.Cluster != nil && s.Cluster.Digest == "agrees" {
					idle()
					c.level()
					c.equal()
					l.bulk.check()
					_ = p.Process.Kill()
					<-ended
					same++
					break
				}
				note("%s: it is neither ready nor stopped: %+v\n%s", what, s, c.logs[bad])
				continue
			}
			break
		}
		c.procs[bad] = nil
		c.up[bad].Store(false)
		if others == 0 {
			t.Errorf("%s: no other node decides", what)
		}
		if x.name == "nothing" && same == 0 {
			t.Error("control: it does not start on unchanged files")
		}
		if t.Failed() {
			return
		}
	}
	anew := strings.Count(c.logs[bad].String(), "are made anew from the others and whole")
	t.Logf("%d changes of files: %d times it did not start, %d times it had the state of the others, %d of them from files made anew", len(changes), refused, same,
		anew)
	if anew == 0 || same <= anew {
		t.Error("every change had the same end")
	}
	c.start(bad)
	c.ready(3)
	c.level()
	c.equal()
	l.bulk.check()
	c.whole(l)
}

// onPowerFS gives a node a disk that loses what was not synced.
func (c *realCluster) onPowerFS(i int) *powerfs.FS {
	c.t.Helper()
	p := powerfs.Mount(c.t)
	if err := os.Symlink(p.Dir, filepath.Join(c.dir, "data-"+c.names[i])); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { c.kill(i) }) // before the unmount
	return p
}

// startOnDisks starts every node on a disk of its own that can fail.
func (c *realCluster) startOnDisks() (disks []*powerfs.FS) {
	c.t.Helper()
	for i := range c.names {
		disks = append(disks, c.onPowerFS(i))
		c.start(i)
	}
	return disks
}

// TestClusterPowerLoss: all three machines lose power at once, and what was not synced is gone, with a random half of it left every second time. What was answered is there
// once afterwards. The control: on disks whose syncs do nothing, events are lost, or the nodes do not start.
func TestClusterPowerLoss(t *testing.T) {
	rounds := seldom(t, 12, 1)
	t.Parallel()
	c := newRealCluster(t)
	disks := c.startOnDisks()
	c.ready(3)
	c.makeModel()
	random := rand.New(rand.NewPCG(11, 12))
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	for round := range rounds + 1 {
		control := round == rounds
		if control {
			c.whole(l)
			for _, p := range disks {
				p.Fail(func(op powerfs.Op) powerfs.Fault {
					if op.Kind == powerfs.Sync {
						return powerfs.Lie
					}
					return powerfs.None
				})
			}
		}
		before := len(l.events)
		end := func() {}
		if !control {
			l.bulk.more(rounds)
			end = background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
			l.more(t, 80)
		} else {
			for n := range 80 {
				var d struct {
					ID string `json:"event_id"`
				}
				if _, err := c.call(n%3, "POST", "/v1/models/news:decide", map[string]any{"actions": []map[string]any{{"id": "x"}}}, &d); err != nil {
					t.Fatal(err)
				}
				l.events[fmt.Sprint("control ", n)] = d.ID
			}
		}
		var all sync.WaitGroup
		for i := range c.names {
			all.Go(func() { c.kill(i) })
		}
		all.Wait()
		for i, p := range disks {
			if round%2 == 0 || control {
				p.Lose(t, nil)
			} else {
				p.Lose(t, random)
			}
			c.start(i)
		}
		begun := time.Now()
		if control {
			lost, asked := 0, 0
			// Nodes that have lost what they synced may not start at all.
			for since := time.Now(); time.Since(since) < 20*time.Second && asked == 0; time.Sleep(200 * time.Millisecond) {
				for i, n := range c.status().Nodes {
					if !n.Ready || asked > 0 {
						continue
					}
					for key, id := range l.events {
						if strings.HasPrefix(key, "control ") {
							asked++
							if status, _ := c.call(i, "GET", "/v1/events/"+id, nil, nil); status == 404 {
								lost++
							}
						}
					}
				}
			}
			t.Logf("control, syncs do nothing: of %d answered events %d are asked for and %d lost", len(l.events)-before, asked, lost)
			if asked > 0 && lost == 0 {
				t.Error("control: nothing is lost on disks that do not sync")
			}
			return
		}
		c.ready(3)
		took := time.Since(begun)
		l.more(t, 30)
		l.bulk.reach()
		end()
		c.level()
		c.check(l)
		t.Logf("round %d: %d events, ready %v after the power is back", round, len(l.events), took.Round(100*time.Millisecond))
		if t.Failed() {
			return
		}
	}
}

// TestClusterDisk: the disk of one node is full, fails to sync, or takes a second for each sync, first that of a follower and then that of the leader. The others go on, the node
// is not ready and says why; a full disk passes by itself, as a slow one does, and a node whose syncs failed is whole after a new start.
func TestClusterDisk(t *testing.T) {
	lines := seldom(t, 3, 2)
	t.Parallel()
	c := newRealCluster(t)
	disks := c.startOnDisks()
	leader := c.ready(3)
	c.makeModel()
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	for _, what := range []string{"full", "EIO", "slow"}[:lines] {
		for _, who := range []string{"follower", "leader"} {
			i := leader
			if who == "follower" {
				i = (leader + 1) % 3
			}
			l.bulk.more(2 * lines)
			end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
			l.more(t, 30)
			l.begin()
			begun := time.Now()
			disks[i].Fail(func(op powerfs.Op) powerfs.Fault {
				switch {
				case what == "full":
					return powerfs.Full
				case what == "EIO" && op.Kind == powerfs.Sync:
					return powerfs.EIO
				case what == "slow" && op.Kind == powerfs.Sync:
					time.Sleep(time.Second) // the fault
				}
				return powerfs.None
			})
			l.more(t, 150)
			switch { // out
			case what == "full":
				played(t, "the disk of this node is full", c.readyz(i))
			case what == "EIO":
				played(t, "the disk of this node has failed", c.readyz(i))
			case who == "leader" && !c.raft(): // which hands over without a word
				played(t, "the disk of this node is slow", c.logs[i].String)
			}
			gap := l.since()
			faulty := time.Since(begun)
			disks[i].Fail(nil)
			healed := time.Now()
			restarted := what == "EIO"
			if restarted {
				c.kill(i)
				c.start(i)
			}
			leader = c.ready(3)
			t.Logf("%s at the %s for %v: longest time without an answer %v, all ready %v later, restarted %v", what, who, faulty.Round(time.Second), gap.Round(10*time.Millisecond), time.Since(healed).Round(100*time.Millisecond), restarted)
			l.more(t, 30)
			l.bulk.reach()
			end()
			c.level()
			c.check(l)
			if t.Failed() {
				return
			}
		}
	}
	c.whole(l)
}
