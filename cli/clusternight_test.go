package cli

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/backup"
	"troupe/internal/await"
)

// nightRows returns the quotes in the first column of the tables of the guide's section "When something is wrong".
func nightRows(t *testing.T) (quotes []string) {
	t.Helper()
	page, err := os.ReadFile("../docs/guide/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## When something is wrong\n")
	if !found {
		t.Fatal("docs/guide/cluster.md has no section When something is wrong")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		column, ok := strings.CutPrefix(line, "| ")
		if !ok || strings.HasPrefix(line, "| ---") {
			continue
		}
		column, _, _ = strings.Cut(column, " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(column, -1) {
			quotes = append(quotes, m[1])
		}
	}
	return quotes
}

// TestNightPage: what the section quotes stands in the program, so that a search for it finds the line.
func TestNightPage(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, dir := range []string{".", "../serve", "../eventlog"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			source.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	joined := regexp.MustCompile(`" \+\s+"`).ReplaceAllString(source.String(), "")
	system := []string{"connect: connection refused", "context deadline exceeded"} // not ours
	rows := nightRows(t)
	if len(rows) < 25 {
		t.Errorf("only %d texts were found", len(rows))
	}
	for _, quote := range rows {
		for _, part := range quoteParts(quote) {
			if !strings.Contains(joined, part) && !strings.Contains(strings.Join(system, "\n"), part) {
				t.Errorf("the page has %q, which the program does not say", part)
			}
		}
	}
}

// quoteParts are what stands between the names and numbers of a quote.
func quoteParts(quote string) (parts []string) {
	for _, part := range strings.Split(quote, "…") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// says reports whether a line of a text has the parts of a quote, in their order.
func says(text, quote string) bool {
line:
	for line := range strings.Lines(text) {
		for _, part := range quoteParts(quote) {
			_, rest, ok := strings.Cut(line, part)
			if !ok {
				continue line
			}
			line = rest
		}
		return true
	}
	return false
}

// played waits until what ask returns has a quote of the section. TestNightPage looks for its calls.
func played(t *testing.T, quote string, ask func() string) {
	t.Helper()
	for note := range await.Tries(t) {
		text := ask()
		if says(text, quote) {
			return
		}
		note("%q is never said: %s", quote, text)
	}
}

// playedElsewhere are quotes of the page that tests without processes, or with a fault inside a process, play: by the
// file of the test, which has the words that are given.
var playedElsewhere = map[string][2]string{
	"doubt": {"../serve/digests_test.go", `got != "doubt"`},
	"this node waits for the log of the cluster:":                   {"serveopen_test.go", "this node waits for the log of the cluster: "},
	"the log is gone:":                                              {"../eventlog/gone_test.go", "errors.As(l.Err(), new(*GoneError))"},
	"a backup that follows lacks entries then":                      {"../serve/followers_test.go", "begin another one"},
	"which is damaged, and no other node that answers has it whole": {"../eventlog/snap_test.go", "has it whole. Start the other nodes"},
	"led and does not have entry":                                   {"../eventlog/stream_test.go", "func TestDamagedLeader"},
	"counts servers that are gone":                                  {"../eventlog/members_test.go", "func TestGroupIsRescued"},
	"the state waits for entry":                                     {"../serve/patient_test.go", "the state waits for entry %d"},
	"no node has written them":                                      {"clustervoid_test.go", "h.Cluster.Unwritten != 1"},
	"read-only: ":                                                   {"clustervoid_test.go", "goes on behind entry"},
}

// TestNightPlayed: a test plays each row of the page, and compares what is printed with what the page quotes.
func TestNightPlayed(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("cluster*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	plays := map[string]bool{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bplayed\((?:c\.|g\.)?t, "([^"]+)"`).FindAllStringSubmatch(string(b), -1) {
			plays[m[1]] = true
		}
	}
	rows := nightRows(t)
	for _, quote := range rows {
		test, elsewhere := playedElsewhere[quote]
		switch {
		case elsewhere:
			if b, err := os.ReadFile(test[0]); err != nil || !strings.Contains(string(b), test[1]) {
				t.Errorf("%q: %s has no %q, error %v", quote, test[0], test[1], err)
			}
		case !plays[quote]:
			t.Errorf("no test plays %q", quote)
		}
	}
	for quote := range plays {
		if !slices.Contains(rows, quote) {
			t.Errorf("a test plays %q, which the page does not have", quote)
		}
	}
}

// prints returns what troupe cluster status prints with the file of a node.
func (c *realCluster) prints(i int) func() string {
	return func() string {
		var out bytes.Buffer
		command(c.t.Context(), []string{"cluster", "status", "--cluster", c.file(i)}, &out, &out)
		return out.String()
	}
}

// readyz returns what a node says of itself.
func (c *realCluster) readyz(i int) func() string {
	return func() string {
		a, err := c.http.Get(c.url(i) + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		return string(b)
	}
}

// TestClusterNight: faults of three processes are played, and the status, or /readyz, says what the page has a row for.
func TestClusterNight(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c, leader := startRealCluster(t)
	status := c.prints(leader)
	x, y := (leader+1)%3, (leader+2)%3
	c.kill(x)
	played(t, "connect: connection refused", status)
	c.kill(y)
	played(t, "has not reached a majority of the cluster for", status)
	played(t, "has not reached a majority of the cluster for", c.readyz(leader))
	c.start(x)
	c.ready(2)
	c.flip(y)
	c.start(y) // its files are damaged
	if os.Getenv("TROUPE_LONG") != "" {
		played(t, "it makes them anew from the other nodes", c.readyz(y))
	}
	played(t, "are made anew from the others since", status)
	c.ready(3)
	if os.Getenv("TROUPE_LONG") != "" {
		leader = c.longNight()
		y = (leader + 1) % 3
	}
	drainNode(t, c.names[y], "--cluster", c.file(leader))
	played(t, "this node is drained and may be stopped", func() string {
		_, err := c.call(y, "POST", "/v1/models/news:decide", map[string]any{"actions": []map[string]any{{"id": "x"}}}, nil)
		return fmt.Sprint(err)
	})
}

// longNight plays what takes longer.
func (c *realCluster) longNight() (leader int) {
	c.t.Helper()
	leader = c.ready(3)
	x := (leader + 1) % 3

	// A process that stands still.
	if err := freeze(c.procs[x].Process); err != nil {
		c.t.Fatal(err)
	}
	played(c.t, "context deadline exceeded", c.prints(leader))
	if err := thaw(c.procs[x].Process); err != nil {
		c.t.Fatal(err)
	}
	leader = c.ready(3)
	x = (leader + 1) % 3

	// The clock of a node.
	if err := os.WriteFile(c.clockFile(x), fmt.Append(nil, int64(3*time.Second)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	played(c.t, "s off the median of the cluster's", c.prints(leader))
	if err := os.WriteFile(c.clockFile(x), []byte("0"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.ready(3)

	// A certificate that ends soon.
	folder := filepath.Join(c.dir, "cluster", c.names[x])
	c.kill(x)
	endsSoon(c.t, filepath.Join(c.dir, "cluster", authorityDir), folder)
	c.start(x)
	leader = c.ready(3)
	played(c.t, "ends in … days", c.prints(leader))

	// A damage that the others cannot mend now: one of them is away, and no entry is missing.
	x, y := (leader+1)%3, (leader+2)%3
	c.kill(y)
	sums, err := filepath.Glob(filepath.Join(c.dir, "data-"+c.names[x], "log", "jetstream", "TROUPE", "streams", "TROUPE_EV_0", "meta.sum"))
	if err != nil || len(sums) != 1 {
		c.t.Fatalf("%v, %v", sums, err)
	}
	if err := os.WriteFile(sums[0], []byte("0123456789abcdef"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	var out bytes.Buffer
	command(c.t.Context(), []string{"cluster", "verify", "--cluster", c.file(x)}, &out, &out)
	played(c.t, "the files of … are damaged:", c.prints(leader))
	c.start(y)
	leader = c.ready(3)
	played(c.t, "are made anew from the others since", c.prints(leader))
	for note := range await.Tries(c.t) {
		s := c.status()
		if n := s.Nodes[x]; n.Cluster != nil && n.Cluster.Damage == "" {
			break
		}
		note("%+v", s)
	}
	leader = c.ready(3)

	// One machine is gone, and the disk of another one.
	x, y = (leader+1)%3, (leader+2)%3
	for i := range c.names { // a leader that was not killed would have all of it, and lead on
		c.kill(i)
	}
	if err := os.RemoveAll(filepath.Join(c.dir, "data-"+c.names[y])); err != nil {
		c.t.Fatal(err)
	}
	c.start(leader)
	c.start(y)
	played(c.t, "a replica of the others is empty or lacks entries", c.prints(leader))
	c.start(x)
	return c.ready(3)
}

// endsSoon gives a node another certificate, which is valid for twenty days.
func endsSoon(t *testing.T, authorityDir, folder string) {
	t.Helper()
	a, err := readAuthority(authorityDir)
	if err != nil {
		t.Fatal(err)
	}
	old, err := tls.LoadX509KeyPair(filepath.Join(folder, certFile), filepath.Join(folder, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(old.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	cert.NotAfter = time.Now().Add(20 * 24 * time.Hour)
	der, err := x509.CreateCertificate(cryptorand.Reader, cert, a.cert, cert.PublicKey, a.key)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, certFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestClusterNightEverywhere: one entry is damaged at all nodes. They say so and go on; a node that is stopped does not
// start any more, and says why. The command that the line names copies what is before the entry.
func TestClusterNightEverywhere(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c, leader := startRealCluster(t)
	for n := range 60 {
		if _, err := c.call(n%3, "POST", "/v1/models/news:decide", map[string]any{"context": map[string]any{"n": n}, "actions": []map[string]any{{"id": "x"}, {"id": "y"}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.level()
	for i := range c.names { // the files are the same at all of them up to here
		c.flipAt(i, 9000)
	}
	bad := (leader + 1) % 3
	var out bytes.Buffer
	command(t.Context(), []string{"cluster", "verify", "--cluster", c.file(bad)}, &out, &out)
	played(t, "the files of … are damaged:", c.prints(leader))
	if text := c.prints(leader)(); !strings.Contains(text, " are damaged: jetstream/") || !strings.Contains(c.metrics(bad), "\ntroupe_cluster_replica_damaged 1\n") {
		t.Errorf("neither the status nor the metrics name the damage: %s", text)
	}
	found := regexp.MustCompile(`entries (\d+) are whole neither here nor at (\w) and (\w); troupe cluster export DIR --until (\d+) `)
	until := ""
	for note := range await.Tries(t) {
		text := c.prints(leader)()
		if m := found.FindStringSubmatch(text); m != nil {
			until = m[4]
			break
		}
		note("the entry is not named: %s", text)
	}
	c.kill(bad)
	c.start(bad)
	if err := c.procs[bad].Wait(); err == nil {
		t.Error("a node starts although an entry is damaged everywhere")
	}
	c.procs[bad] = nil
	played(t, "is damaged:", c.logs[bad].String)
	out.Reset()
	if code := command(t.Context(), []string{"cluster", "export", filepath.Join(c.dir, "saved"), "--until", until, "--cluster", c.file(bad), "--data",
		filepath.Join(c.dir, "data-"+c.names[bad])}, &out, &out); code != 0 || !strings.Contains(out.String(), "entries 1 to "+until) {
		t.Errorf("export: %d, %s", code, &out)
	}
}

// TestClusterNightFull: a log that has --max-log bytes refuses everything, and takes records again when all nodes are
// started with more.
func TestClusterNightFull(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c, leader := startRealCluster(t, func(c *realCluster) { c.flags = []string{"--max-log", "2097152"} })
	var requests []map[string]any
	for range 100 {
		requests = append(requests, map[string]any{"context": map[string]any{"long": strings.Repeat("word ", 50)}, "actions": []map[string]any{{"id": "x"}, {"id": "y"}}})
	}
	decide := func() (int, error) {
		return c.call(leader, "POST", "/v1/models/news:decideBatch", map[string]any{"requests": requests}, nil)
	}
	since := time.Now()
	for note := range await.Tries(t) { // also when nothing was written for so long that the node seems to be cut off
		status, err := decide()
		if status == 507 && time.Since(since) > 10*time.Second {
			break
		}
		if err != nil && status != 503 && status != 507 {
			t.Fatalf("%d, %v", status, err)
		}
		note("%d, %v", status, err)
	}
	played(t, "the log is full", c.prints(leader))
	for i := range c.names {
		c.kill(i)
	}
	c.flags = []string{"--max-log", "4194304"}
	for i := range c.names {
		c.start(i)
	}
	leader = c.ready(3)
	if status, err := decide(); err != nil {
		t.Errorf("with a larger --max-log: %d, %v", status, err)
	}
}

// TestClusterNightBackup: the log is not trimmed while a backup that follows lacks entries, and the status says so.
func TestClusterNightBackup(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c := newRealCluster(t)
	c.flags = []string{"--keep-bytes", "1048576", "--trim-every", "1s"}
	for i := range c.names {
		c.start(i)
	}
	c.ready(3)
	if _, err := c.call(0, "POST", "/v1/models", map[string]any{"id": "news", "reward": map[string]any{"window": "1s"}}, nil); err != nil {
		t.Fatal(err)
	}
	c.level()
	to := filepath.Join(c.dir, "backup")
	end := background(t, func(ctx context.Context) {
		var out bytes.Buffer
		command(ctx, []string{"backup", "--url", c.url(0), "--to", to, "--follow", "--every", "1s", "--keys-file",
			filepath.Join(c.dir, "cluster", "a", "keys.json")}, &out, &out)
	})
	for note := range await.Tries(t) {
		if d, err := backup.Open(to); err == nil && len(d.Parts()) > 0 {
			break
		}
		note("there is no backup")
	}
	end()
	var requests []map[string]any
	for range 100 {
		requests = append(requests, map[string]any{"context": map[string]any{"long": strings.Repeat("word ", 50)}, "actions": []map[string]any{{"id": "x"}, {"id": "y"}}})
	}
	played(t, "the backup … has entries up to", func() string {
		if status, err := c.call(0, "POST", "/v1/models/news:decideBatch", map[string]any{"requests": requests}, nil); err != nil && status != 503 {
			t.Fatal(err)
		}
		return c.prints(0)()
	})
}

// TestClusterNightMember: a new node takes the log, and waits for what it says while too few of the others are there.
func TestClusterNightMember(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	g := newGrowing(t)
	n, by := g.newNode(), g.nodes[2]
	out := filepath.Join(t.TempDir(), "new")
	g.run(0, "add", n.says(), "--cluster", g.file(by), "--authority", filepath.Join(g.dir, "cluster", authorityDir), "--out", out)
	if err := os.Mkdir(g.folder(n), 0o700); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, filepath.Join(out, n.name), g.folder(n), clusterFile, caFile, certFile, keyFile, "keys.json")
	g.stop2(g.nodes[0])
	g.start(n)
	played(t, "this node is not one of the cluster's yet", func() string {
		_, text := g.call(t.Context(), n, "GET", "/readyz", "", "")
		return string(text)
	})
	g.start(g.nodes[0])
	g.await(n, 4)
}
