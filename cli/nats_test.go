package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"troupe/internal/await"
	"troupe/serve"
)

// natsCluster is three processes of nats-server on loopback, with TLS, two accounts for logs, the second with an nkey, and a system account.
type natsCluster struct {
	t       *testing.T
	dir     string
	program string
	ports   []string // of clients, then of routes
	procs   [3]*exec.Cmd
	logs    [3]*logBuffer
	sync    [3]string // sync_interval
	sys     string    // password of the system account
	nkey    string    // nkey of the user of the account THREE
}

func newNATSCluster(t *testing.T) *natsCluster {
	t.Helper()
	c := &natsCluster{t: t, dir: t.TempDir(), ports: freePorts(t, 6), sync: [3]string{"always", "always", "always"}, sys: "sys-secret"}
	c.program = natsProgram(t)
	authority, key, ca, err := signCertificate("test", "", authorityYears, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, serverKey, cert, err := signCertificate("n", "127.0.0.1", nodeYears, authority, key)
	if err != nil {
		t.Fatal(err)
	}
	var user nkeys.KeyPair
	user, c.nkey = pair(t, nkeys.PrefixByteUser)
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.pem": ca, "cert.pem": cert, "key.pem": keyPEM(t, serverKey), "app.creds": []byte("app:app-secret\n"), "three.creds": seed, "sys.creds": []byte("sys:sys-secret\n")} {
		if err := os.WriteFile(c.in(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range c.procs {
		c.logs[i] = &logBuffer{}
	}
	t.Cleanup(func() {
		for i := range c.procs {
			c.kill(i)
		}
		if t.Failed() {
			for i, l := range c.logs {
				t.Logf("n%d:\n%s", i+1, l)
			}
		}
	})
	return c
}

// natsProgram returns the nats-server of the pinned module. The first test that asks for it builds it.
func natsProgram(t *testing.T) (program string) {
	t.Helper()
	program, err := buildNATS()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// natsDir has the program; TestMain removes it.
var natsDir string

var buildNATS = sync.OnceValues(func() (program string, err error) {
	if natsDir, err = os.MkdirTemp("", "nats-server-"); err != nil {
		return "", err
	}
	program = filepath.Join(natsDir, "nats-server")
	text, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return program, nil
})

func (c *natsCluster) in(name string) string { return filepath.Join(c.dir, name) }

// configure writes the file of a server.
func (c *natsCluster) configure(i int) string {
	c.t.Helper()
	var routes []string
	for _, p := range c.ports[3:] {
		routes = append(routes, "nats-route://127.0.0.1:"+p)
	}
	text := fmt.Sprintf(`server_name: n%d
listen: 127.0.0.1:%s
tls { cert_file: %q, key_file: %q }
jetstream { store_dir: %q, sync_interval: %s }
cluster { name: theirs, listen: 127.0.0.1:%s, routes: [%s] }
accounts {
  APP { jetstream: enabled, users: [{user: app, password: app-secret}] }
  THREE { jetstream: enabled, users: [{nkey: %s}] }
  SYS { users: [{user: sys, password: %s, permissions: {publish: ["$SYS.REQ.SERVER.PING.JSZ"], subscribe: ["_INBOX.>", "$SYS.SERVER.*.STATSZ"]}}] }
}
system_account: SYS
`, i+1, c.ports[i], c.in("cert.pem"), c.in("key.pem"), c.in(fmt.Sprintf("store-%d", i+1)), c.sync[i], c.ports[3+i], strings.Join(routes, ", "), c.nkey, c.sys)
	file := c.in(fmt.Sprintf("n%d.conf", i+1))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return file
}

func (c *natsCluster) start(i int) {
	c.t.Helper()
	p := exec.Command(c.program, "-c", c.configure(i))
	p.Stdout, p.Stderr = c.logs[i], c.logs[i]
	if err := p.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.procs[i] = p
	for note := range await.Tries(c.t) { // SIGHUP would end it before
		conn, err := net.Dial("tcp", "127.0.0.1:"+c.ports[i])
		if err == nil {
			conn.Close()
			return
		}
		note("n%d does not listen: %v", i+1, err)
	}
}

func (c *natsCluster) kill(i int) {
	if p := c.procs[i]; p != nil {
		_ = p.Process.Kill()
		_ = p.Wait()
		c.procs[i] = nil
	}
}

// reload lets all servers read their files again, as an operator does.
func (c *natsCluster) reload() {
	c.t.Helper()
	for i := range c.procs {
		c.configure(i)
		if err := c.procs[i].Process.Signal(syscall.SIGHUP); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *natsCluster) urls() string {
	var out []string
	for _, p := range c.ports[:3] {
		out = append(out, "tls://127.0.0.1:"+p)
	}
	return strings.Join(out, ",")
}

// account enters the account of a log as somebody else does.
func (c *natsCluster) account(user string) jetstream.JetStream {
	c.t.Helper()
	nc, err := nats.Connect(c.urls(), nats.UserInfo(user, user+"-secret"), nats.RootCAs(c.in("ca.pem")), nats.MaxReconnects(-1))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	return js
}

// natsTroupe is a process of this program whose log is on a natsCluster.
type natsTroupe struct {
	t    *testing.T
	url  string
	proc *exec.Cmd
	log  *logBuffer
	args []string
}

func (c *natsCluster) troupe(data string, more ...string) *natsTroupe {
	port := freePorts(c.t, 1)[0]
	if _, err := os.Stat(c.in("keys.json")); err != nil {
		var out bytes.Buffer
		if code := command(c.t.Context(), []string{"cluster", "keys", c.in("keys.json"), "--new"}, &out, &out); code != 0 {
			c.t.Fatalf("keys: %s", &out)
		}
	}
	s := &natsTroupe{t: c.t, url: "http://127.0.0.1:" + port, log: &logBuffer{}, args: append([]string{"serve", "--nats", c.urls(), "--nats-creds", c.in("app.creds"), "--nats-attest", c.in("sys.creds"),
		"--nats-ca", c.in("ca.pem"), "--keys-file", c.in("keys.json"), "--data", c.in(data), "--listen", "127.0.0.1:" + port, "--max-log", "67108864"}, more...)}
	c.t.Cleanup(func() {
		s.kill()
		if c.t.Failed() {
			c.t.Logf("troupe with %s:\n%s", data, s.log)
		}
	})
	return s
}

// replace gives another flag in place of one.
func (s *natsTroupe) replace(flag, by, value string) {
	i := slices.Index(s.args, flag)
	s.args[i], s.args[i+1] = by, value
}

func (s *natsTroupe) start(more ...string) {
	s.t.Helper()
	s.proc = exec.Command("troupe", append(s.args, more...)...)
	s.proc.Stdout, s.proc.Stderr = s.log, s.log
	if err := s.proc.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *natsTroupe) kill() {
	if s.proc != nil {
		_ = s.proc.Process.Kill()
		_ = s.proc.Wait()
		s.proc = nil
	}
}

// refused starts the server, which must end with code and say all of want.
func (s *natsTroupe) refused(code int, more []string, want ...string) {
	s.t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(s.t.Context(), await.Limit)
	defer cancel()
	p := exec.CommandContext(ctx, "troupe", append(s.args, more...)...)
	p.Stdout, p.Stderr = &out, &out
	err := p.Run()
	if p.ProcessState == nil || p.ProcessState.ExitCode() != code {
		s.t.Errorf("the server ends with %v, want %d: %s", err, code, &out)
	}
	for _, w := range want {
		if !strings.Contains(out.String(), w) {
			s.t.Errorf("the server does not say %q: %s", w, &out)
		}
	}
	if strings.Contains(out.String(), "secret") {
		s.t.Errorf("a password is printed: %s", &out)
	}
}

func (s *natsTroupe) call(method, path, key string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	client := http.Client{Timeout: await.Limit}
	a, err := client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err == nil && a.StatusCode >= 300 {
		err = fmt.Errorf("status %d: %s", a.StatusCode, text)
	}
	return err
}

// until waits for what /readyz says.
func (s *natsTroupe) until(ready bool, reason ...string) (h nodeStatus) {
	s.t.Helper()
	for note := range await.Tries(s.t) {
		h = nodeStatus{}
		err := s.call("GET", "/readyz", "", nil, &h)
		lacks := func(r string) bool { return !strings.Contains(h.Reason, r) }
		if h.Cluster != nil && h.Ready == ready && !slices.ContainsFunc(reason, lacks) {
			break
		}
		note("ready is %v with the reason %q, error %v; want %v and %q", h.Ready, h.Reason, err, ready, reason)
	}
	return h
}

// pair decides and rewards, and repeats until both are answered.
func (s *natsTroupe) pair(key string) (event string) {
	s.t.Helper()
	for note := range await.Tries(s.t) {
		var d struct {
			ID string `json:"event_id"`
		}
		err := s.call("POST", "/v1/models/news:decide", key, map[string]any{"actions": []map[string]any{{"id": "x"}, {"id": "y"}}}, &d)
		if err == nil {
			err = s.call("POST", "/v1/events/"+d.ID+":reward", "", map[string]any{"value": 1}, nil)
		}
		if err == nil {
			event = d.ID
			break
		}
		note("no decision: %v", err)
	}
	return event
}

// again repeats what fails while the servers elect.
func (c *natsCluster) again(f func() error) {
	c.t.Helper()
	for note := range await.Tries(c.t) {
		err := f()
		if err == nil {
			return
		}
		note("%v", err)
	}
}

// leader returns the number of the server that leads the log.
func (c *natsCluster) leader(js jetstream.JetStream) (led int) {
	c.t.Helper()
	c.again(func() error {
		s, err := js.Stream(context.Background(), "TROUPE_EV_0")
		if err == nil && s.CachedInfo().Cluster.Leader == "" {
			err = errors.New("no server leads")
		}
		if err == nil {
			led = int(s.CachedInfo().Cluster.Leader[1] - '1')
		}
		return err
	})
	return led
}

// TestNATS runs a server on three NATS servers of others through what may happen to them.
func TestNATS(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: three NATS servers for half a minute")
	}
	t.Parallel()
	begun := time.Now()
	phase := func(name string) { t.Logf("%5.1f s: %s", time.Since(begun).Seconds(), name) }
	c := newNATSCluster(t)
	c.sync[1] = `"2m"`
	for i := range c.procs {
		c.start(i)
	}
	s := c.troupe("data")

	phase("a server that does not sync always")
	s.refused(2, []string{"--nats-create"}, "the NATS server n2 reports sync_always: false")
	c.kill(1)
	c.sync[1] = "always"
	c.start(1)

	phase("no log")
	s.refused(2, nil, "no stream TROUPE_EV_0", "--nats-create")
	s.start("--nats-create")
	h := s.until(true)
	of := c.troupe("of")
	of.refused(1, []string{"--nats-replicas", "1"}, "num_replicas is 3, want 1")
	of.refused(1, []string{"--max-log", "1152921504606846976"}, "cannot be raised to 1152921504606846976")
	if a := h.Cluster.Attested; a == nil || a.By != "servers" || !a.Is {
		t.Errorf("attested: %+v", a)
	}
	if err := s.call("POST", "/v1/models", "", map[string]any{"id": "news"}, nil); err != nil {
		t.Fatal(err)
	}
	first := s.pair("first")

	phase("the leader is killed")
	js := c.account("app")
	led := c.leader(js)
	c.kill(led)
	if again := s.pair("first"); again != first {
		t.Errorf("one key gave %s and %s", first, again)
	}
	s.pair("second")
	s.until(true)
	c.start(led)

	phase("the credentials of the system account are withdrawn")
	c.sys = "another-secret"
	c.reload()
	h = s.until(false, "system account")
	if h.Cluster.Attested.Is {
		t.Error("it says that the servers are attested")
	}
	if err := s.decide("third"); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a decision without attestation: %v", err)
	}
	if err := s.call("GET", "/v1/models/news", "", nil, nil); err != nil {
		t.Errorf("reading without attestation: %v", err)
	}
	c.sys = "sys-secret"
	c.reload()
	s.until(true)
	s.pair("third")

	phase("a server comes back without sync")
	c.kill(2)
	c.sync[2] = `"2m"`
	c.start(2)
	s.until(false, "the NATS server n3 reports sync_always: false")
	c.kill(2)
	c.sync[2] = "always"
	c.start(2)
	s.until(true)

	phase("somebody changes the stream")
	ctx := t.Context()
	var was jetstream.StreamConfig
	c.again(func() error {
		stream, err := js.Stream(ctx, "TROUPE_EV_0")
		if err == nil {
			was = stream.CachedInfo().Config
		}
		return err
	})
	is := was
	is.Discard, is.MaxAge = jetstream.DiscardOld, time.Hour
	update := func(to jetstream.StreamConfig) {
		c.again(func() error { _, err := js.UpdateStream(ctx, to); return err })
	}
	update(is)
	s.until(false, "somebody has changed the settings of the stream TROUPE_EV_0", "max_age is 1h0m0s", "discard")
	s.kill()
	s.refused(1, nil, "max_age is 1h0m0s")
	update(was)
	s.start("--nats-create") // as in a unit file that was never changed
	s.until(true)
	if again := s.pair("first"); again != first {
		t.Errorf("one key gave %s and %s", first, again)
	}

	phase("two processes of one name")
	second := c.troupe("data-second")
	second.start()
	s.until(false, "another process serves as node troupe")
	second.until(true)
	if again := second.pair("first"); again != first {
		t.Errorf("one key gave %s and %s", first, again)
	}
	s.kill()

	phase("other directories")
	c.troupe("data", "--nats-node", "other").refused(2, nil, "keeps of its log, and this one is other")
	var out bytes.Buffer
	if code := command(ctx, []string{"serve", "--data", c.in("data")}, &out, &out); code != 2 || !strings.Contains(out.String(), "on a NATS cluster") {
		t.Errorf("a single machine opens the directory: %d, %s", code, &out)
	}
	single := c.in("single")
	_, _, stop := startServer(t, single)
	stop()
	c.troupe("single").refused(2, nil, "another")

	phase("three servers on one log")
	c.three()

	phase("somebody deletes the stream")
	c.again(func() error {
		if err := js.DeleteStream(ctx, "TROUPE_EV_0"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		return nil
	})
	second.until(false, "the log is gone: its stream TROUPE_EV_0 was deleted")
	if err := second.decide("fourth"); err == nil {
		t.Error("a decision without a log")
	}
	second.kill()
	second.refused(1, []string{"--nats-create"}, "the log is gone: its stream TROUPE_EV_0 was deleted")
	if _, err := js.Stream(ctx, "TROUPE_EV_0"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("there is a second log: %v", err)
	}
	other := c.troupe("data-other")
	other.replace("--nats-attest", "--nats-attested-by", "Ops team")
	other.start("--nats-create")
	if a := other.until(true).Cluster.Attested; a == nil || *a != (serve.Attested{By: "Ops team", Is: true}) {
		t.Errorf("attested: %+v", a)
	}
	a, err := http.Get(other.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	a.Body.Close()
	if err != nil || !strings.Contains(string(text), `troupe_cluster_attested{by="Ops team"} 1`) {
		t.Errorf("the metrics do not say who vouches, error %v", err)
	}
	other.kill()
	second.refused(2, nil, "another one")
	phase("done")
}

// three runs three servers on the log of another account: any of them answers, one is killed and a NATS server too, and all have one state.
func (c *natsCluster) three() {
	t := c.t
	t.Helper()
	var servers []*natsTroupe
	var urls []string
	for _, name := range []string{"a", "b", "c"} {
		s := c.troupe("data-"+name, "--nats-node", name, "--nats-nodes", "a,b,c")
		s.replace("--nats-creds", "--nats-creds", c.in("three.creds"))
		s.replace("--max-log", "--max-log", "4294967296")
		s.start("--nats-create")
		servers, urls = append(servers, s), append(urls, s.url)
	}
	for _, s := range servers {
		s.until(true)
	}
	if err := servers[0].call("POST", "/v1/models", "", map[string]any{"id": "news"}, nil); err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	b := newBulk(t, urls, func(i int) bool { return i != 2 || !away.Load() })
	b.more(1)
	half := b.goal.Load() / 2
	end := background(t, func(ctx context.Context) { b.run(ctx, "bulk") })
	for i := range 12 {
		key := fmt.Sprint("k", i)
		if i == 6 {
			await.Until(t, "half of the batches are answered", func() bool { return b.acked.Load() >= half || t.Failed() })
			away.Store(true)
			servers[2].kill()
			c.kill(1)
		}
		first := servers[i%2].pair(key)
		if again := servers[1-i%2].pair(key); again != first {
			t.Errorf("key %s gave %s and %s", key, first, again)
		}
	}
	c.start(1)
	servers[2].start()
	for _, s := range servers {
		s.until(true)
	}
	away.Store(false)
	b.reach()
	end()
	var states []string
	for _, s := range servers {
		for _, act := range []string{"pause", "resume"} { // afterwards it has applied what was answered before
			c.again(func() error { return s.call("POST", "/v1/models/news:"+act, "", nil, nil) })
		}
		var state struct{ Digest string }
		var m struct {
			Counts struct{ Decisions, Rewards int }
		}
		if err := errors.Join(s.call("GET", "/v1/models/news/state", "", nil, &state), s.call("GET", "/v1/models/news", "", nil, &m)); err != nil {
			t.Error(err)
		}
		states = append(states, fmt.Sprint(state.Digest, m.Counts))
	}
	if states[0] == "" || states[0] != states[1] || states[0] != states[2] || !strings.Contains(states[0], "{12 12}") {
		t.Errorf("the servers have %q", states)
	}
	b.check()
	run := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := command(t.Context(), args, &out, &out); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%q: %d, %s; want %q", args, code, &out, want)
		}
	}
	run("they report that they sync always", "cluster", "status", "--url", strings.Join(urls, ","))
	run("--url does not have it", "cluster", "status", "--url", strings.Join(urls[:2], ","))
	run("it is whole", "cluster", "export", c.in("backup"), "--url", strings.Join(urls, ","), "--keys-file", c.in("keys.json"))
	b.whole(c.in("backup"), map[string]string{})
	drainNode(t, "b", "--url", strings.Join(urls, ","))
	servers[1].until(false, "drained")
	for _, s := range servers {
		s.kill()
	}
}

// decide decides once.
func (s *natsTroupe) decide(key string) error {
	return s.call("POST", "/v1/models/news:decide", key, map[string]any{"actions": []map[string]any{{"id": "x"}, {"id": "y"}}}, nil)
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// TestNATSGuide: the commands for NATS in docs/reference/cluster.md work as written.
func TestNATSGuide(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: three NATS servers for seconds")
	}
	t.Parallel()
	need(t, "curl")
	script := shellOf(t, "../docs/reference/cluster.md")
	ports := freePorts(t, 7)
	for i, old := range []string{"127.0.0.1:422$n", "127.0.0.1:622$n"} { // the servers' own
		script = strings.ReplaceAll(script, old, "127.0.0.1:$(echo "+strings.Join(ports[3*i:3*i+3], " ")+" | cut -d' ' -f$n)")
	}
	for i, old := range []string{"4221", "4222", "4223", "6221", "6222", "6223", "8084"} {
		script = strings.ReplaceAll(script, "127.0.0.1:"+old, "127.0.0.1:"+ports[i])
	}
	runGuide(t, "PATH="+filepath.Dir(natsProgram(t))+":$PATH\n"+script, []string{"n1", "n2", "n3", "troupe"}, []string{
		`"repeated":true`, "they report that they sync always", "it is whole: troupe serve --data nats-backup",
	})
}

// TestNATSFlags: flags that do not go together are refused before anything is asked or written.
func TestNATSFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, keys := filepath.Join(dir, "data"), filepath.Join(dir, "keys.json")
	var out bytes.Buffer
	if code := command(t.Context(), []string{"cluster", "keys", keys, "--new"}, &out, &out); code != 0 {
		t.Fatalf("keys: %s", &out)
	}
	if code := command(t.Context(), []string{"cluster", "keys", keys, "--new"}, &out, &out); code != 2 || !strings.Contains(out.String(), "file exists") {
		t.Errorf("keys are made twice: %d, %s", code, &out)
	}
	for _, c := range []struct {
		flags string
		want  string
	}{
		{"--nats-create", "--nats-create needs --nats"},
		{"--keys-file keys.json", "--keys-file needs --nats"},
		{"--nats tls://n1 --nats-attest x", "troupe cluster keys keys.json --new"},
		{"--nats tls://n1 --nats-attest x --keys-file other.json", "--keys-file other.json"},
		{"--nats tls://n1 --keys-file " + keys, "--nats-attested-by NAME, where NAME vouches"},
		{"--nats tls://n1 --nats-attest x --nats-attested-by me --keys-file " + keys, "does not go with --nats-attest"},
		{"--nats tls://n1 --nats-attested-by servers --keys-file " + keys, `--nats-attested-by "servers"`},
		{"--nats tls://n1 --nats-attest x --cluster y --keys-file " + keys, "--nats does not go with --cluster"},
		{"--nats tls://n1 --nats-attest x --nats-replicas 2 --keys-file " + keys, "--nats-replicas 2: expected 1, 3 or 5"},
		{"--nats tls://n1 --nats-attest x --nats-nodes a,b,c --keys-file " + keys, "--nats-nodes needs --nats-node"},
		{"--nats tls://n1 --nats-attest x --nats-node a --nats-nodes a,b --keys-file " + keys, "--nats-nodes has 2 names"},
		{"--nats tls://n1 --nats-attest x --nats-node d --nats-nodes a,b,c --keys-file " + keys, "--nats-node d: expected one of"},
		{"--nats tls://n1 --nats-attest x --nats-node a --nats-nodes a,b,b --keys-file " + keys, "b is there twice"},
		{"--nats tls://n1 --nats-attest x --nats-node a/b --keys-file " + keys, `"a/b", expected 1 to 64 letters`},
		{"--nats nats://u:pass-word@n1 --nats-attested-by me --keys-file " + keys, "without TLS"},
		{"--nats tls://n1 --nats-attest " + filepath.Join(dir, "none") + " --keys-file " + keys, "no such file"},
		{"--nats tls://n1 --nats-attested-by me --keys-file " + filepath.Join(dir, "none", "keys.json"), "--keys-file: open"},
	} {
		var out bytes.Buffer
		if code := command(t.Context(), append([]string{"serve", "--data", data}, strings.Fields(c.flags)...), &out, &out); code != 2 || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "pass-word") {
			t.Errorf("%s: %d, %s; want %q", c.flags, code, &out, c.want)
		}
	}
	for _, c := range []struct {
		flags string
		want  string
	}{
		{"--nats tls://n1 --nats-attest x --cluster y", "--nats does not go with --cluster and --data"},
		{"--nats tls://n1 --nats-attest x --data y", "--nats does not go with --cluster and --data"},
		{"--nats tls://n1", "--nats-attested-by NAME, where NAME vouches"},
		{"--nats tls://n1 --nats-attested-by me --nats-replicas 4", "--nats-replicas 4: expected 1, 3 or 5"},
		{"--nats tls://n1 --nats-attested-by me", "none"},
		{"--nats-creds x", "--nats-creds needs --nats"},
	} {
		var out bytes.Buffer
		if code := command(t.Context(), append([]string{"cluster", "import", filepath.Join(dir, "none")}, strings.Fields(c.flags)...), &out, &out); code != 2 || !strings.Contains(out.String(), c.want) {
			t.Errorf("import %s: %d, %s; want %q", c.flags, code, &out, c.want)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made")
	}
}
