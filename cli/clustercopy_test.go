package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/cli/term"
	"troupe/internal/await"
	"troupe/serve"
	"troupe/timing"
)

// fillSingle makes the data directory of a single machine with n pairs of decisions and rewards, trimmed to so many bytes unless that is 0, and returns
// the ids of some decisions without a reward, and the digest of the model news.
func fillSingle(t *testing.T, dir string, n int, keep int64) (waiting []string, digest string) {
	t.Helper()
	ctx := t.Context()
	var ago atomic.Int64 // the windows of the first half end before the second one
	ago.Store(int64(25 * time.Hour))
	now := func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) }
	s, err := serve.Open(ctx, serve.Options{Dir: dir, KeepBytes: keep, TrimEvery: -1, Clock: timing.At(now)})
	if err != nil {
		t.Fatal(err)
	}
	config := serve.DefaultConfig("news")
	config.Reward.Window = serve.Duration(24 * time.Hour)
	if _, err := s.CreateModel(ctx, config, "test"); err != nil {
		t.Fatal(err)
	}
	for done := 0; done < n; {
		if done >= n/2 && ago.Swap(0) > 0 {
			if _, err := s.Expire(ctx); err != nil {
				t.Fatal(err)
			}
		}
		var requests []serve.DecideRequest
		for i := range min(25, n-done) {
			requests = append(requests, serve.DecideRequest{Context: fmt.Appendf(nil, `{"hour": %d}`, (done+i)%24), Actions: []serve.Action{{ID: "x"}, {ID: "y"}, {ID: "z"}}})
		}
		items, err := s.DecideBatch(ctx, "news", requests)
		if err != nil {
			t.Fatal(err)
		}
		var rewards []serve.RewardRequest
		for i, item := range items {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			if done >= n/2 && (done+i)%50 == 7 && len(waiting) < 20 {
				waiting = append(waiting, item.Decision.EventID)
				continue
			}
			rewards = append(rewards, serve.RewardRequest{EventID: item.Decision.EventID, Value: float64((done + i) % 2)})
		}
		if _, err := s.RewardBatch(ctx, rewards); err != nil {
			t.Fatal(err)
		}
		done += len(items)
	}
	state, err := s.State(ctx, "news")
	if err != nil {
		t.Fatal(err)
	}
	if first, err := s.Trim(ctx); err != nil || (first > 1) != (keep > 0) {
		t.Fatalf("the log begins with entry %d, to keep are %d bytes, error %v", first, keep, err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return waiting, state.Digest.String()
}

// digestOf returns the digest and the number of updates of the model news at a node.
func (c *realCluster) digestOf(i int) (digest string, learned int) {
	c.t.Helper()
	var s struct {
		Digest  string
		Learned int
	}
	if _, err := c.call(i, "GET", "/v1/models/news/state", nil, &s); err != nil {
		c.t.Fatal(err)
	}
	return s.Digest, s.Learned
}

// TestClusterCopies: the log of a single machine, which was trimmed, becomes a cluster's, by an import that is killed on the way, and back. The
// state is the same each time, rewards for decisions of before count, and all go on. With TROUPE_RECORD the log is whole.
func TestClusterCopies(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	ctx := t.Context()
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := command(ctx, args, &out, &out); code != want {
			t.Fatalf("troupe %s: code %d, want %d:\n%s", strings.Join(args, " "), code, want, &out)
		}
		return out.String()
	}
	pairs, keep := 100_000, int64(4<<20)
	if os.Getenv("TROUPE_RECORD") != "" {
		pairs, keep = 500_000, 0
	}
	one := filepath.Join(t.TempDir(), "one")
	waiting, digest := fillSingle(t, one, pairs, keep)
	c := newRealCluster(t, "--import", one)
	importing := []string{"cluster", "import", one, "--cluster", c.file(0), "--data", filepath.Join(c.dir, "data-a")}
	if keep > 0 {
		snapshots := filepath.Join(one, snapshotDir)
		if err := os.Rename(snapshots, snapshots+".away"); err != nil {
			t.Fatal(err)
		}
		if text := run(term.Misused, importing...); !strings.Contains(text, "the log was trimmed") {
			t.Error(text)
		}
		if err := os.Rename(snapshots+".away", snapshots); err != nil {
			t.Fatal(err)
		}
	}
	c.start(1)
	c.start(2)
	p := exec.Command("troupe", importing...)
	progress := &logBuffer{}
	p.Stdout, p.Stderr = progress, progress
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	await.Until(t, "an import is killed in the middle, with many pairs, or ends", func() bool {
		if strings.Contains(progress.String(), "msg=importing") {
			_ = p.Process.Kill()
		}
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	begun := time.Now()
	text := run(0, importing...)
	t.Logf("%d pairs, %v after the restart: %s", pairs, time.Since(begun).Round(100*time.Millisecond), text)
	if text := run(0, importing...); !strings.Contains(text, "are the log of") { // once more is no harm
		t.Error(text)
	}
	c.start(0)
	c.ready(3)
	for i := range c.names {
		if got, _ := c.digestOf(i); got != digest {
			t.Errorf("node %s has the digest %s, the single machine had %s", c.names[i], got, digest)
		}
	}
	_, before := c.digestOf(1)
	for i, id := range waiting {
		var r struct{ Status string }
		if _, err := c.call(i%3, "POST", "/v1/events/"+id+":reward", map[string]any{"value": 1}, &r); err != nil || r.Status != "accepted" {
			t.Fatalf("a reward for a decision of before the import: %q, %v", r.Status, err)
		}
	}
	for i := range c.names {
		for note := range await.Tries(t) {
			_, n := c.digestOf(i)
			if n == before+len(waiting) {
				break
			}
			note("node %s has learned %d, want %d", c.names[i], n, before+len(waiting))
		}
	}
	digest, _ = c.digestOf(0)
	if text := run(term.Misused, "cluster", "export", one, "--cluster", c.file(0)); !strings.Contains(text, "a log already") {
		t.Error(text)
	}
	same := func(dir string) {
		t.Helper()
		s, err := serve.Open(ctx, serve.Options{Dir: dir, KeepLogVersion: true})
		if err != nil {
			t.Fatal(err)
		}
		state, err := s.State(ctx, "news")
		if err != nil || state.Digest.String() != digest {
			t.Errorf("%s has the digest %v, the cluster %s, error %v", dir, state.Digest, digest, err)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	back := filepath.Join(c.dir, "back")
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	var out bytes.Buffer
	command(canceled, []string{"cluster", "export", back, "--cluster", c.file(0)}, &out, &out) // interrupted
	run(0, "cluster", "export", back, "--cluster", c.file(0))
	same(back)
	c.stop(2)
	stopped := filepath.Join(c.dir, "stopped")
	run(0, "cluster", "export", stopped, "--cluster", c.file(2), "--data", filepath.Join(c.dir, "data-c"))
	same(stopped)
	if text := run(term.Misused, "cluster", "export", filepath.Join(c.dir, "x"), "--cluster", c.file(0), "--data", filepath.Join(c.dir, "data-a")); !strings.Contains(text, "in use by") {
		t.Error(text)
	}
	if pairs > 2000 { // its disk is lost
		if err := os.RemoveAll(filepath.Join(c.dir, "data-c")); err != nil {
			t.Fatal(err)
		}
		t.Log(run(0, "cluster", "rebuild", "c", "--cluster", c.file(2), "--data", filepath.Join(c.dir, "data-c")))
		c.start(2)
		c.ready(3)
		if got, _ := c.digestOf(2); got != digest {
			t.Errorf("the node that was rebuilt has the digest %s, want %s", got, digest)
		}
	}
	// A single machine goes on with it.
	s, err := serve.Open(ctx, serve.Options{Dir: back})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	d, err := s.Decide(ctx, "news", serve.DecideRequest{Context: []byte(`{"hour": 3}`), Actions: []serve.Action{{ID: "x"}, {ID: "y"}}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: 1}); err != nil || r.Status != serve.Accepted {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNATSCopies: the log of a single machine becomes one on a NATS cluster of others, by an import that is killed on the way; it is trimmed there, a server
// with an empty directory folds it from its base; and an export of it, a trimmed log, becomes the log of another account. The state is the same each time.
func TestNATSCopies(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: three NATS servers for seconds")
	}
	t.Parallel()
	ctx := t.Context()
	pairs := 10_000
	if os.Getenv("TROUPE_RECORD") != "" {
		pairs = 100_000
	}
	c := newNATSCluster(t)
	for i := range c.procs {
		c.start(i)
	}
	run := func(want int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := command(ctx, args, &out, &out); code != want || !strings.Contains(out.String(), says) {
			t.Fatalf("troupe %s: code %d, want %d and %q:\n%s", strings.Join(args, " "), code, want, says, &out)
		}
	}
	one, other := c.in("one"), c.in("other")
	waiting, digest := fillSingle(t, one, pairs, 0)
	fillSingle(t, other, 100, 0)
	importing := func(dir, creds string) []string {
		return []string{"cluster", "import", dir, "--nats", c.urls(), "--nats-creds", c.in(creds), "--nats-attest", c.in("sys.creds"), "--nats-ca", c.in("ca.pem"), "--max-log", "67108864"}
	}
	p := exec.Command("troupe", importing(one, "app.creds")...)
	progress := &logBuffer{}
	p.Stdout, p.Stderr = progress, progress
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	for running := true; running; { // killed on the way
		select {
		case <-ended:
			running = false
		case <-time.After(time.Millisecond):
			if strings.Contains(progress.String(), "msg=importing") {
				_ = p.Process.Kill()
			}
		}
	}
	run(term.Failed, "an import needs an account without a log", importing(other, "app.creds")...)
	begun := time.Now()
	run(0, "are the log of the account", importing(one, "app.creds")...)
	t.Logf("%d pairs in %v after the restart", pairs, time.Since(begun).Round(100*time.Millisecond))
	run(0, "are the log of the account", importing(one, "app.creds")...) // once more is no harm
	run(term.Failed, "an import needs an account without a log", importing(other, "app.creds")...)

	state := func(s *natsTroupe) (digest string, learned int) {
		t.Helper()
		var x struct {
			Digest  string
			Learned int
		}
		if err := s.call("GET", "/v1/models/news/state", "", nil, &x); err != nil {
			t.Fatal(err)
		}
		return x.Digest, x.Learned
	}
	c.troupe("data").refused(term.Misused, nil, "--keys-file does not have the keys of the log, which was imported")
	server := func(data, dir, creds string, more ...string) *natsTroupe {
		t.Helper()
		s := c.troupe(data, more...)
		s.replace("--keys-file", "--keys-file", filepath.Join(dir, serve.KeyFile))
		s.replace("--nats-creds", "--nats-creds", c.in(creds))
		s.start()
		s.until(true)
		return s
	}
	s := server("data-one", one, "app.creds", "--keep", "1h", "--keep-bytes", "1048576", "--trim-every", "1s")
	if got, _ := state(s); got != digest {
		t.Errorf("the digest is %s, the single machine had %s", got, digest)
	}
	_, before := state(s)
	for _, id := range waiting {
		var r struct{ Status string }
		if err := s.call("POST", "/v1/events/"+id+":reward", "", map[string]any{"value": 1}, &r); err != nil || r.Status != "accepted" {
			t.Fatalf("a reward for a decision of before the import: %q, %v", r.Status, err)
		}
	}
	js := c.account("app")
	first := uint64(0)
	c.again(func() error { // trimmed, and all is learned
		_, n := state(s)
		stream, err := js.Stream(ctx, "TROUPE_EV_0")
		if err == nil {
			first = stream.CachedInfo().State.FirstSeq
		}
		if err == nil && (first < 100 || n != before+len(waiting)) {
			err = fmt.Errorf("the log begins with entry %d, %d are learned, want %d", first, n, before+len(waiting))
		}
		return err
	})
	digest, _ = state(s)
	s.kill()
	fresh := server("data-fresh", one, "app.creds")
	if got, _ := state(fresh); got != digest {
		t.Errorf("folded from the base the digest is %s, want %s", got, digest)
	}
	back := c.in("back")
	run(0, "it is whole", "cluster", "export", back, "--url", fresh.url, "--keys-file", filepath.Join(one, serve.KeyFile))
	fresh.kill()
	run(0, fmt.Sprintf("entries %d to", first), importing(back, "three.creds")...)
	again := server("data-again", back, "three.creds")
	if got, _ := state(again); got != digest {
		t.Errorf("after the export and another import the digest is %s, want %s", got, digest)
	}
	again.pair("after")
}
