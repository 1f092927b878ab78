package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"troupe/cli/load"
	"troupe/cli/log"
	"troupe/cli/term"
	"troupe/client"
	"troupe/internal/await"
	"troupe/internal/scratch"
	"troupe/internal/worlds"
)

// logBuffer takes the output of a server that is running.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startServer runs troupe serve in this process on a free port and returns its URL; stop ends it as
// a signal would and returns its log.
func startServer(t *testing.T, data string, args ...string) (url string, logs *logBuffer, stop func()) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	if i := slices.Index(args, "--ready-file"); i >= 0 {
		ready = args[i+1]
	}
	ctx, cancel := context.WithCancel(context.Background())
	logs = &logBuffer{}
	code := make(chan int, 1)
	go func() {
		code <- command(ctx, append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--ready-file", ready}, args...), io.Discard, logs)
	}()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if c := <-code; c != 0 {
			t.Errorf("the server ended with code %d:\n%s", c, logs)
		}
	}
	t.Cleanup(stop)
	for note := range await.Tries(t) {
		if text, err := os.ReadFile(ready); err == nil && bytes.HasSuffix(text, []byte("\n")) {
			url = strings.TrimSpace(string(text))
			break
		}
		select {
		case c := <-code:
			stopped = true
			t.Fatalf("the server ended with code %d:\n%s", c, logs)
		default:
		}
		note("the server is not ready:\n%s", logs)
	}
	return url, logs, stop
}

// need returns the path of a program that Debian has.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("this test needs %s (apt-get install %s)", program, program)
	}
	return path
}

// The curl lines of the users' pages work as written. They run in the order of the page, in one
// shell, against a server that has seen nothing.
func TestPagesWork(t *testing.T) {
	need(t, "curl")
	for page, args := range map[string][]string{"serving.md": nil, "lists-and-numbers.md": nil, "migrating-from-personalizer.md": {"--personalizer", "shop"}} {
		text, err := os.ReadFile(filepath.Join("../docs/guide", page))
		if err != nil {
			t.Fatal(err)
		}
		var script strings.Builder
		lines := 0
		for _, block := range strings.Split(string(text), "```sh\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			script.WriteString(block)
			for _, line := range strings.Split(block, "\n") {
				if strings.HasPrefix(line, "curl") {
					lines++
				}
			}
		}
		url, logs, stop := startServer(t, filepath.Join(t.TempDir(), "data"), args...)
		// Every curl line ends with the status, so that each is seen.
		body := strings.ReplaceAll(script.String(), "http://127.0.0.1:8080", url)
		body = strings.ReplaceAll(body, "curl -sS", `curl -sS -w '%{stderr}\nSTATUS %{http_code}\n'`)
		c := exec.Command("sh", "-eu", "-c", body)
		c.Dir = t.TempDir()
		// Two buffers: in one, the status of a curl and the output of what it is piped into would mix.
		var out, statuses bytes.Buffer
		c.Stdout, c.Stderr = &out, &statuses
		if err := c.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", page, err, &out, &statuses)
		}
		var wrong []string
		good := 0
		for _, line := range strings.Split(statuses.String(), "\n") {
			switch {
			case strings.HasPrefix(line, "STATUS 2"):
				good++
			case strings.HasPrefix(line, "STATUS"):
				wrong = append(wrong, line)
			}
		}
		// serving.md shows one problem on purpose.
		refused := map[string]int{"serving.md": 1}[page]
		if lines < 3 || good != lines-refused || len(wrong) != refused {
			t.Errorf("%s: %d of %d requests succeeded, refused %v:\n%s\n%s", page, good, lines, wrong, &out, logs)
		}
		if page == "serving.md" {
			for _, want := range []string{`"status":"accepted"`, `"status":"duplicate"`, `"repeated":true`, `"field":"actions[0].feature"`} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s: no answer has %s:\n%s", page, want, &out)
				}
			}
		}
		stop()
	}
}

// A client in another language, on its standard library.
func TestPythonClient(t *testing.T) {
	python := need(t, "python3")
	url, logs, _ := startServer(t, filepath.Join(t.TempDir(), "data"))
	script, err := os.ReadFile("testdata/serve/client.py") // read here, so that a cached result knows of a change
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", string(script), url).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%v\n%s\n%s", err, out, logs)
	}
	if strings.Contains(logs.String(), "SECRET") || strings.Contains(logs.String(), "Bergen") {
		t.Errorf("the log has features in it:\n%s", logs)
	}
}

// stateOf is the digest of a model's state.
func stateOf(t *testing.T, c *client.Client, model string) (digest string, learned int) {
	t.Helper()
	var s struct {
		Digest  string
		Learned int
	}
	if err := c.Get(t.Context(), "/v1/models/"+model+"/state", &s); err != nil {
		t.Fatal(err)
	}
	return s.Digest, s.Learned
}

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func decideOne(t *testing.T, c *client.Client, i int) client.Decision {
	t.Helper()
	d, err := c.Decide(t.Context(), "m", client.DecideRequest{Actions: []client.Action{
		{ID: "a", Features: []float64{1 / float64(i+2), 0.5}}, {ID: "b", Features: []float64{0.5, -1 / float64(i+2)}}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The drill of docs/guide/operations.md: stop, copy, verify, lose the directory, restore, verify, start.
// The restored server has the same state and takes rewards for decisions from before; rewards for
// decisions that came after the backup are refused and counted as an alarm.
func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	data, backup := filepath.Join(dir, "data"), filepath.Join(dir, "backup")
	url, _, stop := startServer(t, data)
	c := newClient(t, url)
	if err := c.CreateModel(t.Context(), map[string]any{"id": "m", "dim": 2}); err != nil {
		t.Fatal(err)
	}
	var waiting client.Decision
	for i := range 30 {
		d := decideOne(t, c, i)
		if i == 29 {
			waiting = d
			break
		}
		if _, err := c.Reward(t.Context(), d.EventID, float64(i%3)/2); err != nil {
			t.Fatal(err)
		}
	}
	digest, learned := stateOf(t, c, "m")
	if learned != 29 {
		t.Fatalf("%d rewards were learned from, want 29", learned)
	}
	stop()
	if err := scratch.Copy(backup, data); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := command(t.Context(), args, &out, &errs); code != 0 {
			t.Fatalf("troupe %v: code %d\n%s%s", args, code, &out, &errs)
		}
		return out.String()
	}
	if out := run("log", "verify", backup); !strings.Contains(out, "verdict  whole") {
		t.Errorf("verify says\n%s", out)
	}

	url, _, stop = startServer(t, data)
	c = newClient(t, url)
	after := decideOne(t, c, 77) // will be lost with the directory
	stop()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}

	if err := scratch.Copy(data, backup); err != nil {
		t.Fatal(err)
	}
	run("log", "verify", data)
	url, _, stop = startServer(t, data)
	c = newClient(t, url)
	if again, n := stateOf(t, c, "m"); again != digest || n != learned {
		t.Errorf("the restored state is %s after %d rewards, want %s after %d", again, n, digest, learned)
	}
	if r, err := c.Reward(t.Context(), waiting.EventID, 1); err != nil || r.Status != "accepted" {
		t.Errorf("a reward for a decision from before: %+v, %v", r, err)
	}
	if _, err := c.Reward(t.Context(), after.EventID, 1); client.Code(err) != "not_found" {
		t.Errorf("a reward for a decision that was lost: %v, want not_found", err)
	}
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.Contains(string(text), "troupe_log_missing_acked_total 1") {
		t.Errorf("the alarm did not ring: %v", err)
	}
	// While the server runs, nobody else may use the directory.
	var errs bytes.Buffer
	if code := command(t.Context(), []string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, io.Discard, &errs); code != term.Misused {
		t.Errorf("a second server on the directory ends with %d: %s", code, &errs)
	}
	stop()

	// What the log says about it all.
	out := run("log", "replay", data, "--event", waiting.EventID)
	if !strings.Contains(out, `"equal": true`) {
		t.Errorf("replay says\n%s", out)
	}
	rows := strings.Split(strings.TrimSpace(run("log", "export", data)), "\n")
	file := filepath.Join(dir, "rows.parquet")
	run("log", "export", data, "--format", "parquet", "--out", file)
	table, err := parquet.ReadFile[log.Row](file)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 30 || len(table) != 30 {
		t.Fatalf("%d rows as JSONL and %d as Parquet, want 30", len(rows), len(table))
	}
	for i, line := range rows {
		var row struct {
			Event      string
			Time       time.Time
			Propensity float64
			X          []float64
			First      *float64 `json:"reward_first"`
			Model      string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		p := table[i]
		want := float64(i%3) / 2
		if i == 29 {
			want = 1
		}
		if row.Event != p.Event || !row.Time.Equal(p.Time) || row.Propensity != p.Propensity || row.X[0] != p.X[0] || *row.First != *p.First || *p.Sum != want ||
			row.Model != "m" || p.Rewards != 1 || !p.Active || p.Propensity != float64(p.Num)/float64(p.Den) {
			t.Errorf("row %d is %+v as JSONL and %+v as Parquet; want reward %v", i, row, p, want)
		}
	}
	if n := len(strings.TrimSpace(run("log", "export", data, "--model", "other"))); n > 0 {
		t.Errorf("the export of another model has %d bytes", n)
	}
}

// Over TLS: nobody without a key, a client certificate stands for one, and an old protocol is
// refused.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, caKey := makeCertificate(t, dir, "ca", nil, nil)
	makeCertificate(t, dir, "server", ca, caKey)
	makeCertificate(t, dir, "shop", ca, caKey)
	in := func(name string) string { return filepath.Join(dir, name) }
	var table, secret bytes.Buffer
	if code := command(t.Context(), []string{"serve", "key", "reader", "--scopes", "read,admin"}, &table, &secret); code != 0 {
		t.Fatal(secret.String())
	}
	table.WriteString("[[key]]\nid = \"shop\"\ncertificate = \"shop\"\nscopes = [\"decide\"]\nmodels = [\"m\"]\n")
	if err := os.WriteFile(in("keys.toml"), table.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _, _ := startServer(t, in("data"), "--keys", in("keys.toml"), "--tls-cert", in("server.pem"), "--tls-key", in("server.key"), "--tls-client-ca", in("ca.pem"))
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	with := func(key string, conf *tls.Config) *client.Client {
		conf.RootCAs = pool
		c, err := client.New(url, client.Options{Key: key, Tries: 1, HTTP: &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	key := strings.TrimSpace(strings.TrimPrefix(secret.String(), "key: "))
	if err := with(key, &tls.Config{}).CreateModel(t.Context(), map[string]any{"id": "m", "dim": 2}); err != nil {
		t.Errorf("with a key: %v", err)
	}
	if err := with("", &tls.Config{}).Get(t.Context(), "/v1/models", nil); client.Code(err) != "unauthorized" {
		t.Errorf("without a key: %v", err)
	}
	pair, err := tls.LoadX509KeyPair(in("shop.pem"), in("shop.key"))
	if err != nil {
		t.Fatal(err)
	}
	shop := with("", &tls.Config{Certificates: []tls.Certificate{pair}})
	decideOne(t, shop, 1)
	if err := shop.Get(t.Context(), "/v1/models/m", nil); client.Code(err) != "forbidden" {
		t.Errorf("a certificate without the scope: %v", err)
	}
	if err := with(key, &tls.Config{MaxVersion: tls.VersionTLS12}).Get(t.Context(), "/v1/models", nil); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
}

// makeCertificate writes NAME.pem and NAME.key, signed by an authority or, without one, by itself. It holds for 127.0.0.1 and more addresses.
func makeCertificate(t *testing.T, dir, name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey, more ...net.IP) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(name))), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: append(more, net.IPv4(127, 0, 0, 1)), IsCA: ca == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ca == nil {
		ca, caKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"pem": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name+"."+file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

// A short load: every call is answered, the numbers fit together, and the server learns: with 200
// decisions in d = 4 the last tenth's mean regret is below uniform play's.
// One caller: a decision waits for the reward of the one before, so the server has learned from it
// however slow the machine is.
func TestLoad(t *testing.T) {
	t.Parallel()
	url, _, _ := startServer(t, filepath.Join(t.TempDir(), "data"))
	var out, errs bytes.Buffer
	args := []string{"load", "--url", url, "--rate", "200", "--duration", "1s", "-d", "4", "-K", "5", "-m", "8", "--json", "--callers", "1", "--fsync", t.TempDir()}
	if code := command(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("code %d: %s%s", code, &out, &errs)
	}
	var r load.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Decide.Calls != 200 || r.Reward.Calls != 200 || r.Fsync.Calls != 500 || len(r.Errors) > 0 || r.Decide.P50 > r.Decide.P99 || r.Decide.P99 > r.Decide.Max || r.Decide.P50 <= 0 {
		t.Errorf("result = %+v", r)
	}
	if last, uniform := *r.RegretLast, *r.RegretUniform; last >= uniform || uniform <= 0 {
		t.Errorf("regret %v in the last tenth, %v of uniform play: nothing was learned", last, uniform)
	}
	out.Reset()
	if code := command(t.Context(), append(args, "-d", "5"), &out, &errs); code != term.Misused {
		t.Errorf("another dimension: code %d", code)
	}
}

// TestLoadAddresses: an address that is gone costs no call; the next one has them.
func TestLoadAddresses(t *testing.T) {
	t.Parallel()
	url, _, _ := startServer(t, filepath.Join(t.TempDir(), "data"))
	gone, _, stop := startServer(t, filepath.Join(t.TempDir(), "gone"))
	stop()
	for _, batch := range []string{"1", "8"} {
		var out, errs bytes.Buffer
		args := []string{"load", "--url", gone + "," + url, "--rate", "200", "--duration", "1s", "-d", "4", "-K", "5", "-m", "8", "--json", "--callers", "4", "--batch", batch}
		if code := command(t.Context(), args, &out, &errs); code != 0 {
			t.Fatalf("code %d: %s%s", code, &out, &errs)
		}
		var r load.Result
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Decided() != 200 || len(r.Errors) > 0 || r.ServerCPU != nil {
			t.Errorf("batches of %s: result = %+v", batch, r)
		}
	}
	var out bytes.Buffer
	if code := command(t.Context(), []string{"load", "--url", url + ",nowhere"}, &out, &out); code != term.Misused || !strings.Contains(out.String(), `"nowhere"`) {
		t.Errorf("code %d: %s", code, &out)
	}
}

// TestLoadData: a file as a stream of decisions teaches a model of which only the name is given.
func TestLoadData(t *testing.T) {
	t.Parallel()
	url, _, _ := startServer(t, filepath.Join(t.TempDir(), "data"))
	var text strings.Builder
	text.WriteString("city,age,class\n")
	for i := range 800 {
		fmt.Fprintf(&text, "c%d,%d,%s\n", i%4, 20+i%37, []string{"red", "green", "blue"}[i%4%3])
	}
	file := filepath.Join(t.TempDir(), "taste.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	args := []string{"load", "--url", url, "--data", file, "--json", "--smoke-test", "--model"}
	if code := command(t.Context(), append(args, "taste"), &out, &errs); code != 0 {
		t.Fatalf("code %d: %s%s", code, &out, &errs)
	}
	var r load.StreamResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Lines) != 1 || r.Lines[0].Rounds != 800 || r.Lines[0].Share < 0.45 || r.Actions != 3 || !strings.Contains(string(r.Model), `"kind":"effects"`) {
		t.Errorf("result %+v", r)
	}
	for _, bad := range [][]string{{"--missing", "2"}, {"--client", "ones"}, {"--client", "now/scale=x"}, {"--data", file + "x"}, {"--useless", "-1"}, {"--rows", "-1"}} {
		if code := command(t.Context(), append(append(args, "bad"), bad...), &out, &errs); code != term.Misused {
			t.Errorf("%v: code %d", bad, code)
		}
	}
	if code := command(t.Context(), append(args, "taste"), &out, &errs); code != 1 {
		t.Errorf("a model that exists: code %d", code)
	}
}

// Batches, the disk of the server's own directory, its processor time, and a Ctrl-C in the middle: what
// was sent is finished and reported, the code is that of an interruption.
func TestLoadInBatches(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	url, _, _ := startServer(t, data)
	load := func(ctx context.Context, code int, more ...string) (r load.Result) {
		t.Helper()
		var out, errs bytes.Buffer
		args := append([]string{"load", "--url", url, "--rate", "400", "-d", "4", "-K", "5", "-m", "8", "--json", "--callers", "1"}, more...)
		if got := command(ctx, args, &out, &errs); got != code {
			t.Fatalf("code %d, want %d: %s%s", got, code, &out, &errs)
		}
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		return r
	}
	r := load(t.Context(), 0, "--batch", "20", "--duration", "500ms")
	if r.Decide.Calls != 10 || r.Reward.Calls != 10 || r.Decided() != 200 || len(r.Errors) > 0 || *r.RegretLast >= *r.RegretUniform {
		t.Errorf("in batches: %+v", r)
	}
	if r.Fsync == nil || r.Fsync.Calls != 500 || r.FsyncDir != data || r.ServerCPU == nil || *r.ServerCPU <= 0 {
		t.Errorf("the server's disk and processor: %+v", r)
	}
	// What the log says of it, page by page, by the Go client.
	c, kinds := newClient(t, url), map[string]int{}
	for from, next := uint64(0), uint64(1); next != from; {
		from = next
		var records []client.LogRecord
		var err error
		if records, next, err = c.Log(t.Context(), "load", from, 3); err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if kinds[r.Kind]++; r.Kind == "decision" && (r.EventID == "" || r.Num == 0 || len(r.X) != 4) {
				t.Fatalf("record %+v", r)
			}
		}
	}
	if kinds["decision"] != 200 || kinds["reward"] != 200 || kinds["control"] != 1 {
		t.Errorf("the log has %v", kinds)
	}
	if left, err := filepath.Glob(filepath.Join(data, ".troupe-fsync-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // Ctrl-C once it has decided something
		await.Poll(func() bool {
			var m struct{ Counts struct{ Decisions int } }
			return ctx.Err() != nil || c.Get(ctx, "/v1/models/load", &m) == nil && m.Counts.Decisions > 200
		})
		cancel()
	}()
	r = load(ctx, term.Interrupted, "--duration", "1m", "--no-reward", "--fsync", "-")
	if n := r.Decided(); !r.Interrupted || n == 0 || n >= 24_000 || len(r.Errors) > 0 || r.Fsync != nil || r.Reward.Calls > 0 {
		t.Errorf("interrupted: %+v", r)
	}
}

// Latency counts from when a request was due: a server that stalls for 300 ms in the middle delays
// everything behind, and the quantiles must show it although only one request was slow to answer.
func TestLoadIsOpen(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	n := 0
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ":decide") {
			io.WriteString(w, `{"dim":4}`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 10 {
			time.Sleep(300 * time.Millisecond) // the stall
		}
		io.WriteString(w, `{"event_id":"E","action":{"id":"0","index":0}}`)
	})}
	go s.Serve(listener)
	defer s.Close()
	var out, errs bytes.Buffer
	args := []string{"load", "--url", "http://" + listener.Addr().String(), "--rate", "100", "--duration", "500ms", "-d", "4", "-K", "2", "--callers", "1", "--no-reward", "--json"}
	if code := command(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("code %d: %s%s", code, &out, &errs)
	}
	r := load.Result{Seconds: 1}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	// 50 requests, one caller. Those due in the stall wait for 300 ms, 290 ms, …: about 30 of 50 are
	// late, so more than a tenth wait longer than 200 ms. A closed loop would see one.
	if r.Decide.Calls != 50 || r.Decide.P90 < 200 {
		t.Errorf("p90 = %.1f ms of %d calls, want at least 200 ms of 50: latency is not from the scheduled time", r.Decide.P90, r.Decide.Calls)
	}
}

// What troupe serve refuses before it opens anything.
func TestServeRefusals(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "give --keys"},
		{[]string{"--listen", ":0"}, "give --keys"},
		{[]string{"--listen", "[::]:0"}, "give --keys"},
		{[]string{"--tls-cert", "x"}, "belong together"},
		{[]string{"--tls-client-ca", "x"}, "needs --tls-cert"},
		{[]string{"--ca", "x"}, "--ca needs --cluster"},
		{[]string{"--keys", "nothing.toml"}, "nothing.toml"},
		{[]string{"--models", "nothing.toml"}, "nothing.toml"},
		{[]string{"--listen", "nonsense"}, "--listen nonsense"},
		{[]string{"--listen", taken.Addr().String()}, "in use"},
		{[]string{"--timeout", "0s"}, "--timeout 0s: expected"},
		{[]string{"--max-log", "5"}, "--max-log 5: expected"},
		{[]string{"--max-actions", "-4"}, "--max-actions -4: expected"},
		{[]string{"--host", "https://api.example.org"}, "--host https://api.example.org: expected a name without scheme"},
		{[]string{"--host", "api.example.org:443"}, "without scheme, port"},
		{[]string{"--cors", "https://shop.example.org"}, "--cors needs --keys"},
		{[]string{"--cors", "*", "--keys", "k"}, `--cors "*", expected each origin by itself`},
		{[]string{"--cors", "shop.example.org", "--keys", "k"}, `--cors "shop.example.org", expected scheme and host`},
		{[]string{"--personalizer", "a/b"}, "--personalizer a/b: expected 1 to 64 letters"},
		{[]string{"extra"}, "unexpected argument"},
		{[]string{"key", "a b"}, "letters, digits"},
		{[]string{"key", "a", "--scopes", "raed"}, "read"},
		{[]string{"key"}, "argument is missing"},
	} {
		var errs bytes.Buffer
		data := filepath.Join(dir, "data")
		args := append([]string{"serve"}, c.args...)
		if c.args[0] != "key" {
			args = append(args, "--data", data)
		}
		if code := command(t.Context(), args, io.Discard, &errs); code != term.Misused || !strings.Contains(errs.String(), c.want) {
			t.Errorf("troupe %v: code %d, %q; want %q", args, code, &errs, c.want)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("troupe %v made a data directory", args)
		}
	}
	// Files: the line and the column of what is wrong, and nothing is made.
	for _, c := range []struct{ flag, text, want string }{
		{"--models", "[[model]]\nid = \"x\"\nflor = 0.2\n", `:3:1: unknown key "flor"; did you mean "floor"?`},
		{"--models", "[[model]]\nid = \"x\"\nfloor = \"a\"\n", `:3:1: floor is the string "a", expected a number`},
		{"--models", "[[model]]\nid = \"x\"\nfloor = = 2\n", `:3:9: `},
		{"--models", "[[model]]\nid = \"x\"\n\nfloor = 2\n", `:4:1: floor is 2, expected a number in [0, 1]`},
		{"--models", "[[model]]\nid = \"x\"\nreward = { min = 3 }\n", `:3:12: reward.min is 3, expected less than max`},
		{"--models", "[[model]]\nid = \"x\"\npolicy = { kind = \"ensembel\" }\n", `:3:12: unknown kind "ensembel"; did you mean "ensemble"?`},
		{"--models", "[[model]]\nid = \"x\"\n[[model]]\nid = \"x\"\n", `:4:1: id is x, which is there already`},
		{"--models", "[model]\nid = \"x\"\n", `two brackets`},
		{"--models", "[[models]]\n", `unknown key "models"`},
		{"--models", "", `no table [[model]]`},
		{"--keys", "[[key]]\nid = \"a\"\nhash = \"12\"\nscopes = [\"read\"]\n", `:3:1: hash is not 64 hexadecimal digits`},
		{"--keys", "[[key]]\nid = \"a\"\ncertificate = \"c\"\nscopes = [\"read\"]\nrate = nan\n", `:5:1: rate is NaN`},
	} {
		file, data := filepath.Join(dir, "file.toml"), filepath.Join(dir, "data")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		code := command(t.Context(), []string{"serve", "--data", data, "--listen", "127.0.0.1:0", c.flag, file}, io.Discard, &errs)
		if code != term.Misused || !strings.Contains(errs.String(), c.want) || !strings.Contains(errs.String(), file) {
			t.Errorf("%q: code %d, %q; want %q", c.text, code, &errs, c.want)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%q made a data directory", c.text)
		}
	}
	keys := filepath.Join(dir, "keys.toml")
	if err := os.WriteFile(keys, fmt.Appendf(nil, "[[key]]\nid = \"a\"\nhash = \"%064d\"\nscopes = [\"read\"]\n", 1), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if code := command(t.Context(), []string{"serve", "--data", dir + "/d", "--listen", "0.0.0.0:0", "--keys", keys}, io.Discard, &errs); code != term.Misused || !strings.Contains(errs.String(), "in the clear") {
		t.Errorf("keys in the clear: code %d, %q", code, &errs)
	}
}

// TestReadyFile: a script that waits for the file of --ready-file never reads the address of an
// earlier server or of another one on the same port: the file goes before the port is taken and when
// the server ends.
func TestReadyFile(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	if err := os.WriteFile(ready, []byte("http://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	code := command(t.Context(), []string{"serve", "--data", filepath.Join(dir, "data"), "--listen", busy.Addr().String(), "--ready-file", ready}, io.Discard, &stderr)
	if code != 2 || !strings.Contains(stderr.String(), "the port is in use") {
		t.Errorf("code %d: %s", code, &stderr)
	}
	if _, err := os.Stat(ready); !os.IsNotExist(err) {
		t.Errorf("the file of an earlier server is still there after a start that failed: %v", err)
	}
	url, _, stop := startServer(t, filepath.Join(dir, "data"), "--ready-file", ready)
	text, err := os.ReadFile(ready)
	if err != nil || string(text) != url+"\n" {
		t.Errorf("the file has %q, error %v, expected %q", text, err, url)
	}
	stop()
	if _, err := os.Stat(ready); !os.IsNotExist(err) {
		t.Errorf("the file is still there after the end: %v", err)
	}
}

// playStream runs `troupe load` with --json on a stream.
func playStream(t *testing.T, url string, args ...string) (r load.WorldsResult) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"load", "--url", url, "--json"}, args...)
	if code := command(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("%v: code %d: %s%s", args, code, &out, &errs)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLoadClients: rewards come to the server as each client sends them: when, with which values, and what is left to
// windows that close.
func TestLoadClients(t *testing.T) {
	t.Parallel()
	url, _, _ := startServer(t, filepath.Join(t.TempDir(), "data"))
	type view struct {
		Counts   struct{ Decisions, Rewards, Expired uint64 }
		Warnings []string
	}
	play := func(client string, more ...string) (v view) {
		t.Helper()
		model := strings.NewReplacer("/", "-", "=", "-", "@", "-").Replace(client)
		r := playStream(t, url, append([]string{"--stream", "useless", "--rounds", "450", "--model", model, "--client", client}, more...)...)
		if err := json.Unmarshal(r.Model, &v); err != nil {
			t.Fatal(err)
		}
		if r.Client != client || v.Counts.Decisions != 450 || r.Late > 0 {
			t.Errorf("%s: %+v, %+v", client, r, v)
		}
		return v
	}
	for client, want := range map[string]uint64{"now": 450, "late": 250, "zeros-first": 450, "batch": 450, "wild": 450, "now/equal=.5": 450} {
		if got := play(client).Counts.Rewards; got != want {
			t.Errorf("%s: %d rewards, want %d", client, got, want)
		}
	}
	if v := play("bursts"); v.Counts.Rewards < 400 || v.Counts.Rewards >= 450 { // the last 50 zeros do not come
		t.Errorf("bursts: %d rewards", v.Counts.Rewards)
	}
	for client, most := range map[string]uint64{"ones": 300, "some": 400} {
		if v := play(client, "--window", "10m"); v.Counts.Rewards < 50 || v.Counts.Rewards > most {
			t.Errorf("%s: %d rewards", client, v.Counts.Rewards)
		}
	}
	if v := play("now/wild=1e6@300"); !strings.Contains(strings.Join(v.Warnings, "\n"), "1e+06") {
		t.Errorf("a wild value is in no warning: %q", v.Warnings)
	}
}

// TestLoadStreams: streams play, their shares fit together, the rivals learn what they are told, and the same seed makes
// the same worlds.
func TestLoadStreams(t *testing.T) {
	t.Parallel()
	url, _, _ := startServer(t, filepath.Join(t.TempDir(), "data"))
	play := func(args ...string) load.WorldsResult { t.Helper(); return playStream(t, url, args...) }
	kinds := []string{"budget", "nested", "texts", "held-bigids", "held-tags", "change-swap"}
	if long() {
		kinds = nil
		for _, k := range worlds.Kinds() {
			kinds = append(kinds, k.Name)
		}
	}
	for _, name := range kinds {
		r := play("--stream", name, "--rounds", "100", "--model", name, "--window", "5s")
		if len(r.Worlds) != 1 || len(r.Worlds[0]) != 1 || r.Worlds[0][0].Rounds != 100 {
			t.Fatalf("%s: %+v", name, r)
		}
		for _, l := range r.Worlds[0] {
			for _, share := range []float64{l.Share, l.Recent, l.Table, l.Linear} {
				if !(math.Abs(share) < 3 && share <= 1) {
					t.Errorf("%s: %+v", name, l)
				}
			}
		}
	}
	rounds := "500"
	if long() {
		rounds = "1000"
	}
	a := play("--stream", "segments", "--rounds", rounds, "--worlds", "2", "--model", "a")
	b := play("--stream", "segments", "--rounds", rounds, "--model", "b", "--window", "7m")
	answer, err := http.Get(url + "/v1/models/b")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(got), `"window":"7m0s"`) {
		t.Errorf("a model of --window 7m is %s (%v)", got, err)
	}
	if len(a.Worlds) != 2 || len(b.Worlds) != 1 || len(b.Worlds[0]) < 2 || len(b.Worlds[0]) > len(a.Worlds[0]) || a.Worlds[0][0].Table == a.Worlds[1][0].Table {
		t.Errorf("two worlds are one: %+v", a)
	}
	for w, lines := range a.Worlds {
		last := lines[len(lines)-1]
		if w < len(b.Worlds) {
			at := len(b.Worlds[w]) - 1
			if first, again := lines[at], b.Worlds[w][at]; again.Rounds != first.Rounds || again.Table != first.Table || again.Linear != first.Linear {
				t.Errorf("world %d: %+v, again %+v", w, first, again)
			}
		}
		if !(last.Table > .35 && last.Linear > .3 && last.Share > .2) {
			t.Errorf("world %d: %+v", w, last)
		}
	}
	for want, args := range map[string][]string{
		`--stream "nine": expected one of segments`: {"--stream", "nine"}, `--stream ""`: {"--stream", ""},
		"--rounds 99: expected 100":   {"--stream", "ids", "--rounds", "99"},
		"--worlds 0: expected 1":      {"--stream", "ids", "--worlds", "0"},
		"--worlds goes with --stream": {"--worlds", "2"}, "--rows goes with --data": {"--stream", "ids", "--rows", "2"},
		"--stream and --data": {"--stream", "ids", "--data", "x.csv"},
		"--window goes with":  {"--window", "2s"}, "--window -1s: expected": {"--stream", "ids", "--window", "-1s"},
		"--client goes with":                              {"--client", "late"},
		`--client: is "soon", expected one of now, late`:  {"--stream", "ids", "--client", "soon"},
		`--client: has "wild=x"`:                          {"--stream", "ids", "--client", "now/wild=x"},
		"--client ones leaves rewards out, and needs":     {"--stream", "ids", "--client", "ones"},
		"--client some leaves rewards out":                {"--stream", "ids", "--client", "some"},
		"--client ones leaves rewards out, and needs --w": {"--stream", "conversion"},
	} {
		var out, errs bytes.Buffer
		if code := command(t.Context(), append([]string{"load", "--url", url}, args...), &out, &errs); code != term.Misused ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("%v: code %d, %s; want %q", args, code, &errs, want)
		}
	}
}
