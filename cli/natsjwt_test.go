package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"troupe/cli/term"
	"troupe/internal/await"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// operated is one process of nats-server whose accounts and users are JWTs of an operator, as of nsc.
type operated struct {
	*natsCluster
	operator, systemKey, appKey nkeys.KeyPair
	app                         *jwt.AccountClaims
}

// pair makes a key pair and its public key.
func pair(t *testing.T, kind nkeys.PrefixByte) (nkeys.KeyPair, string) {
	t.Helper()
	k, err := nkeys.CreatePair(kind)
	if err != nil {
		t.Fatal(err)
	}
	public, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return k, public
}

// claimed encodes claims, as nsc does.
func claimed(t *testing.T, claims interface {
	Encode(nkeys.KeyPair) (string, error)
}, by nkeys.KeyPair) string {
	t.Helper()
	text, err := claims.Encode(by)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	o := &operated{natsCluster: newNATSCluster(t)}
	var operator, system, app string
	o.operator, operator = pair(t, nkeys.PrefixByteOperator)
	o.systemKey, system = pair(t, nkeys.PrefixByteAccount)
	o.appKey, app = pair(t, nkeys.PrefixByteAccount)
	oc := jwt.NewOperatorClaims(operator)
	oc.SystemAccount = system
	sc := jwt.NewAccountClaims(system)
	sc.Name = "SYS"
	o.app = jwt.NewAccountClaims(app)
	o.app.Name = "APP"
	o.app.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	text := fmt.Sprintf(`server_name: n1
listen: 127.0.0.1:%s
tls { cert_file: %q, key_file: %q }
jetstream { store_dir: %q, sync_interval: always }
operator: %s
resolver { type: full, dir: %q }
resolver_preload { %s: %s, %s: %s }
`, o.ports[0], o.in("cert.pem"), o.in("key.pem"), o.in("store-1"), claimed(t, oc, o.operator), o.in("accounts"), system, claimed(t, sc, o.operator), app, claimed(t, o.app, o.operator))
	o.write("n1.conf", text)
	p := exec.Command(o.program, "-c", o.in("n1.conf"))
	p.Stdout, p.Stderr = o.logs[0], o.logs[0]
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	o.procs[0] = p
	for note := range await.Tries(t) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+o.ports[0])
		if err == nil {
			conn.Close()
			break
		}
		note("%v", err)
	}
	return o
}

func (o *operated) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(o.in(name), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// user writes a .creds file for a new user of an account, and returns his public key.
func (o *operated) user(file string, account nkeys.KeyPair, change func(*jwt.UserClaims)) string {
	o.t.Helper()
	k, public := pair(o.t, nkeys.PrefixByteUser)
	c := jwt.NewUserClaims(public)
	c.Name = file
	if change != nil {
		change(c)
	}
	seed, err := k.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(claimed(o.t, c, account), seed)
	if err != nil {
		o.t.Fatal(err)
	}
	o.write(file, string(text))
	return public
}

// push gives the server new claims of an account, as nsc push does.
func (o *operated) push(c *jwt.AccountClaims) {
	o.t.Helper()
	nc, err := nats.Connect("tls://127.0.0.1:"+o.ports[0], nats.UserCredentials(o.in("operator.creds")), nats.RootCAs(o.in("ca.pem")))
	if err != nil {
		o.t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request("$SYS.REQ.CLAIMS.UPDATE", []byte(claimed(o.t, c, o.operator)), time.Minute)
	if err != nil {
		o.t.Fatal(err)
	}
	var a struct {
		Error any `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil || a.Error != nil {
		o.t.Fatalf("%s, %v", m.Data, err)
	}
}

// TestNATSCredentials: .creds files of an operator's users. Those that are damaged are refused before a server is asked; of those that a server
// refuses, or that may not do what a log needs, the server says so; and one that is withdrawn while troupe runs may be replaced.
func TestNATSCredentials(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: a NATS server, built and asked for seconds")
	}
	t.Parallel()
	o := newOperated(t)
	o.user("operator.creds", o.systemKey, nil)
	o.user("sys.creds", o.systemKey, func(c *jwt.UserClaims) {
		c.Pub.Allow.Add("$SYS.REQ.SERVER.PING.JSZ")
		c.Sub.Allow.Add("_INBOX.>", "$SYS.SERVER.*.STATSZ")
	})
	needed := func(c *jwt.UserClaims) {
		c.Pub.Allow.Add("$JS.API.>", "troupe.>")
		c.Sub.Allow.Add("_INBOX.>")
	}
	public := o.user("app.creds", o.appKey, needed)
	o.user("few.creds", o.appKey, func(c *jwt.UserClaims) { c.Pub.Allow.Add("mine"); c.Sub.Allow.Add("_INBOX.>") })
	o.user("untrimmed.creds", o.appKey, func(c *jwt.UserClaims) { c.Pub.Allow.Add("$JS.API.>", "troupe.ev.>"); c.Sub.Allow.Add("_INBOX.>") })
	o.user("reads.creds", o.appKey, func(c *jwt.UserClaims) { c.Pub.Allow.Add("$JS.API.>"); c.Sub.Allow.Add("_INBOX.>") })
	o.user("deaf.creds", o.appKey, func(c *jwt.UserClaims) { c.Sub.Allow.Add("mine") })
	o.user("old.creds", o.appKey, func(c *jwt.UserClaims) { c.Expires = 1_000_000_000 })
	o.app.Revoke(o.user("revoked.creds", o.appKey, nil))
	o.push(o.app)
	plainKey, plain := pair(t, nkeys.PrefixByteAccount)
	without := jwt.NewAccountClaims(plain)
	without.Name = "PLAIN"
	o.push(without)
	o.user("plain.creds", plainKey, nil)
	unknownKey, _ := pair(t, nkeys.PrefixByteAccount)
	o.user("unknown.creds", unknownKey, nil)
	whole, err := os.ReadFile(o.in("app.creds"))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte("\nSU")) + 1
	seed := string(whole[at : at+bytes.IndexByte(whole[at:], '\n')])
	seedOf := func(k nkeys.KeyPair) string {
		b, err := k.Seed()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	another, _ := pair(t, nkeys.PrefixByteUser)
	o.write("cut.creds", string(whole[:at+20]))
	o.write("jwt.creds", string(whole[:at]))
	o.write("signed.creds", strings.Replace(string(whole), "eyJ", "eyK", 1))
	o.write("account.creds", strings.Replace(string(whole), seed, seedOf(o.appKey), 1))
	o.write("mixed.creds", strings.Replace(string(whole), seed, seedOf(another), 1))
	o.write("account.nk", seedOf(o.appKey))
	o.write("cut.nk", seedOf(another)[:40])
	o.write("user.nk", seedOf(another))
	o.write("words.creds", "hello")

	url := "tls://127.0.0.1:" + o.ports[0]
	at1 := func(data string) *natsTroupe {
		s := o.troupe(data, "--nats-replicas", "1")
		s.replace("--nats", "--nats", url)
		return s
	}
	at1("none") // makes keys.json
	var cases sync.WaitGroup
	free := make(chan bool, 4)
	for _, x := range []struct {
		flag, file string
		want       []string
	}{
		{"", "none.creds", []string{"no such file"}},
		{"", "words.creds", []string{"expected a .creds file"}},
		{"", "account.nk", []string{"expected a .creds file, the seed of an nkey's user (SU"}},
		{"", "cut.nk", []string{"the seed is not readable"}},
		{"", "cut.creds", []string{"the seed of its user (SU…) is missing or not readable"}},
		{"", "jwt.creds", []string{"the seed of its user (SU…) is missing or not readable"}},
		{"", "account.creds", []string{"the seed of its user (SU…) is missing or not readable"}},
		{"", "signed.creds", []string{"the JWT of its user is not readable"}},
		{"", "mixed.creds", []string{"its seed is that of user U", "its JWT that of U"}},
		{"", "old.creds", []string{"has expired, 2001-09-09T01:46:40Z"}},
		{"--nats-creds", "unknown.creds", []string{"the NATS server " + url + " refuses the credentials in", "Authorization Violation"}},
		{"--nats-creds", "revoked.creds", []string{"the NATS server " + url + " refuses the credentials in"}},
		{"--nats-creds", "user.nk", []string{"the NATS server " + url + " refuses the credentials in"}},
		{"--nats-creds", "few.creds", []string{`Permissions Violation for Publish to "$JS.API.STREAM.INFO.TROUPE_EV_0"`, "must be allowed to publish to $JS.API.> and troupe.>"}},
		{"--nats-creds", "reads.creds", []string{`Permissions Violation for Publish to "troupe.ev.0"`, "must be allowed to publish to $JS.API.> and troupe.>"}},
		{"--nats-creds", "untrimmed.creds", []string{`Permissions Violation for Publish to "troupe.base.0.asks"`, "must be allowed to publish to $JS.API.> and troupe.>"}},
		{"--nats-creds", "deaf.creds", []string{"Permissions Violation for Subscription to", "to subscribe to _INBOX.>"}},
		{"--nats-creds", "sys.creds", []string{"Permissions Violation for Publish"}},
		{"--nats-creds", "plain.creds", []string{"the account of the log has no JetStream"}},
		{"--nats-attest", "unknown.creds", []string{"the system account of the NATS servers cannot be entered: the NATS server " + url + " refuses the credentials in"}},
		{"--nats-attest", "app.creds", []string{"the user in", `may not ask the NATS servers for their reports`, `Publish to "$SYS.REQ.SERVER.PING.JSZ"`}},
		{"--nats-attest", "plain.creds", []string{"no NATS server reports to the user in", "is this a user of the system account?"}},
	} {
		flags := []string{x.flag}
		if x.flag == "" { // the file alone says what is wrong
			flags, x.want = []string{"--nats-creds", "--nats-attest"}, append(x.want, o.in(x.file))
		}
		for _, flag := range flags {
			code := term.Misused
			if x.file == "plain.creds" && flag == "--nats-creds" {
				code = term.Failed
			}
			s := at1("data-" + strings.TrimPrefix(flag, "--nats-") + x.file)
			s.replace(flag, flag, o.in(x.file))
			want := x.want
			if x.flag == "" {
				want = append(slices.Clone(want), flag+": ")
			}
			cases.Go(func() {
				free <- true
				defer func() { <-free }()
				s.refused(code, []string{"--nats-create"}, want...)
			})
		}
	}
	cases.Wait()

	s := at1("data")
	s.start("--nats-create")
	s.until(true)
	if err := s.call("POST", "/v1/models", "", map[string]any{"id": "news"}, nil); err != nil {
		t.Fatal(err)
	}
	first := s.pair("first")
	o.app.Revoke(public)
	o.push(o.app)
	s.until(false, "the NATS server "+url+" refuses the credentials in "+o.in("app.creds"))
	if err := s.decide("second"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a decision without credentials: %v", err)
	}
	o.user("app.creds", o.appKey, needed)
	s.until(true)
	if again := s.pair("first"); again != first {
		t.Errorf("one key gave %s and %s", first, again)
	}
}
