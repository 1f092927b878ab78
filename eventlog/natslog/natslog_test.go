package natslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"troupe/eventlog"
)

// report is what a server of the cluster theirs answers, with changes.
func report(t *testing.T, name string, edit ...func(map[string]any)) (r serverReport) {
	t.Helper()
	m := map[string]any{"server": map[string]any{"name": name, "cluster": "theirs", "ver": "2.15.2", "jetstream": true},
		"data": map[string]any{"config": map[string]any{"sync_interval": 120_000_000_000, "sync_always": true}}}
	for _, f := range edit {
		f(m)
	}
	b, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func of(part, key string, v any) func(map[string]any) {
	return func(m map[string]any) { m[part].(map[string]any)[key] = v }
}

// TestJudgeReports: what servers say, or keep back, and what is made of it.
func TestJudgeReports(t *testing.T) {
	peers := []eventlog.Replica{{Name: "n1", Leader: true, Current: true}, {Name: "n2", Current: true, Active: time.Second}, {Name: "n3", Current: true, Active: time.Second}}
	gone := func(names ...string) []eventlog.Replica {
		out := append([]eventlog.Replica(nil), peers...)
		for i := range out {
			if strings.Contains(strings.Join(names, " "), out[i].Name) {
				out[i].Active, out[i].Current = time.Minute, false
			}
		}
		return out
	}
	n := func(name string, edit ...func(map[string]any)) serverReport { return report(t, name, edit...) }
	group := of("data", "meta_cluster", map[string]any{"replicas": []map[string]any{{"name": "n2", "current": true, "active": 1}, {"name": "n3", "current": true, "active": 1}}})
	for _, c := range []struct {
		what    string
		peers   []eventlog.Replica
		reports []serverReport
		want    string // empty: trusted
		silent  bool
	}{
		{"all well", peers, []serverReport{n("n1", group), n("n2"), n("n3")}, "", false},
		{"one syncs now and then", peers, []serverReport{n("n1"), n("n2", func(m map[string]any) { delete(m["data"].(map[string]any)["config"].(map[string]any), "sync_always") }), n("n3")}, "server n2 reports sync_always: false (it syncs every 2m0s)", false},
		{"one that has no replica syncs now and then", peers, []serverReport{n("n1"), n("n2"), n("n3"), n("n4", of("data", "config", map[string]any{}))}, "server n4 reports sync_always: false", false},
		{"one of another cluster syncs now and then", peers, []serverReport{n("n1"), n("n2"), n("n3"), n("far", of("data", "config", map[string]any{}), of("server", "cluster", "elsewhere"))}, "", false},
		{"one without JetStream and without a replica", peers, []serverReport{n("n1"), n("n2"), n("n3"), n("n4", of("data", "disabled", true), of("data", "config", map[string]any{}))}, "", false},
		{"one with a replica and without JetStream", peers, []serverReport{n("n1"), n("n2"), n("n3", of("data", "disabled", true))}, "server n3 has the log and reports that its JetStream is off", true},
		{"an old version", peers, []serverReport{n("n1"), n("n2"), n("n3", of("server", "ver", "2.15.1"))}, `server n3 reports the version "2.15.1", expected 2.15.2 or later, below 2.16.0`, false},
		{"an unknown version", peers, []serverReport{n("n1"), n("n2", of("server", "ver", "2.16.0")), n("n3")}, "server n2 reports the version", false},
		{"a preview", peers, []serverReport{n("n1"), n("n2", of("server", "ver", "2.15.3-RC.1")), n("n3")}, "server n2 reports the version", false},
		{"no version", peers, []serverReport{n("n1"), n("n2", of("server", "ver", "")), n("n3")}, "server n2 reports the version", false},
		{"a later one of the same line", peers, []serverReport{n("n1"), n("n2", of("server", "ver", "2.15.10")), n("n3")}, "", false},
		{"one keeps silent", peers, []serverReport{n("n1"), n("n2")}, "server n3 has the log and does not report", true},
		{"one is away", gone("n3"), []serverReport{n("n1"), n("n2")}, "", false},
		{"one is away and another one syncs now and then", gone("n3"), []serverReport{n("n1"), n("n2", of("data", "config", map[string]any{}))}, "server n2 reports sync_always: false", false},
		{"two are away", gone("n2", "n3"), []serverReport{n("n1")}, "1 of the 3 NATS servers that have the log report, expected a majority", true},
		{"a leader that has not heard of one", []eventlog.Replica{peers[0], peers[1], {Name: "n3"}}, []serverReport{n("n1"), n("n2")}, "", false},
		{"one reports an error", peers, []serverReport{n("n1"), n("n2", func(m map[string]any) { m["error"] = map[string]any{"description": "no"} }), n("n3")}, "server n2 reports an error: no", false},
		{"no answer", peers, nil, "no NATS server with JetStream in the cluster of the log answers", true},
		{"no log yet", nil, []serverReport{n("n1", group), n("n2"), n("n3")}, "", false},
		{"no log yet, and one keeps silent", nil, []serverReport{n("n1", group), n("n2"), n("n4")}, "server n3 may have the log and does not report", true},
		{"no log yet, and too few", nil, []serverReport{n("n1"), n("n2")}, `NATS servers with JetStream that report: 2, expected at least 3, which are to have the log`, true},
	} {
		err := judgeReports("theirs", c.peers, 3, c.reports)
		var a *AttestError
		switch {
		case c.want == "" && err == nil:
		case c.want == "" || err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		case !errors.As(err, &a) || a.Silent != c.silent:
			t.Errorf("%s: silent is %v, want %v", c.what, a.Silent, c.silent)
		}
	}
	if !allowedServer(server.VERSION) {
		t.Errorf("the version that the tests run with, %s, is not allowed", server.VERSION)
	}
}

// TestOptions: what is refused before a server is asked, and that no password is repeated.
func TestOptions(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ok := file("ok.creds", "app:pass-word\n")
	for i, c := range []struct {
		o    Options
		want string
	}{
		{Options{URLs: []string{"tls://n1", "tls://n2:4222"}, Credentials: ok, Attest: ok}, ""},
		{Options{URLs: []string{"nats://app:pass-word@127.0.0.1:4222"}, VouchedBy: "Ops"}, ""},
		{Options{VouchedBy: "Ops"}, "no server is named"},
		{Options{URLs: []string{"n1:4222"}, VouchedBy: "Ops"}, "server 1 is"},
		{Options{URLs: []string{"tls://n1", "https://app:pass-word@n2"}, VouchedBy: "Ops"}, "server 2 is https://n2, expected tls://"},
		{Options{URLs: []string{"tls://app:pass-word@n1:port"}, VouchedBy: "Ops"}, "server 1 is not readable"},
		{Options{URLs: []string{"nats://app:pass-word@n1"}, VouchedBy: "Ops"}, "server 1 is nats://n1: without TLS"},
		{Options{URLs: []string{"tls://n1", "nats://localhost"}, VouchedBy: "Ops"}, "another scheme"},
		{Options{URLs: []string{"tls://app:pass-word@n1", "tls://n2"}, VouchedBy: "Ops"}, "other credentials"},
		{Options{URLs: []string{"tls://app:pass-word@n1"}, Credentials: ok, VouchedBy: "Ops"}, "expected one of them"},
		{Options{URLs: []string{"tls://n1"}}, "nothing says that the servers sync always"},
		{Options{URLs: []string{"tls://n1"}, Attest: ok, VouchedBy: "Ops"}, "expected one of them"},
		{Options{URLs: []string{"tls://n1"}, Attest: filepath.Join(dir, "none")}, "no such file"},
		{Options{URLs: []string{"tls://n1"}, Attest: file("two", "pass-word\nanother:one\n")}, "expected a .creds file"},
		{Options{URLs: []string{"tls://n1"}, Attest: file("seed", "SUpass-word")}, "the seed is not readable"},
		{Options{URLs: []string{"tls://n1"}, Attest: ok, CA: ok}, "has no certificate"},
		{Options{URLs: []string{"nats://[::1]"}, Attest: ok, CA: ok}, "expected tls://"},
		{Options{URLs: []string{"tls://n1"}, Attest: ok, Cert: ok}, "belong together"},
	} {
		err := Check(c.o)
		if text := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(text, c.want) || strings.Contains(text, "pass-word") {
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
	}
}
