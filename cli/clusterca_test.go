package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"troupe/cli/term"
	"troupe/serve"
)

// TestClusterCA: the certificates that callers see may be of an authority that the system does not know: without --ca the
// status says what is missing, with it the nodes answer; a file that is none is refused.
func TestClusterCA(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(nodeStatus{Ready: true, Applied: 7, Cluster: &serve.ClusterHealth{Node: "a", Nodes: []serve.NodeHealth{{Name: "a"}}}})
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	dir := t.TempDir()
	ca, none := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "none.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(none, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, term.Failed, "give the authority's certificate with --ca FILE"},
		{[]string{"--ca", ca}, 0, "a     yes"},
		{[]string{"--ca", none}, term.Misused, "none.pem has no certificate"},
		{[]string{"--ca", filepath.Join(dir, "gone")}, term.Misused, "--ca: open "},
	} {
		var out bytes.Buffer
		code := command(context.Background(), append([]string{"cluster", "status", "--url", s.URL}, c.args...), &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", c.args, code, c.code, c.want, &out)
		}
	}
}

// TestServeCA: a node asks the others who is ready before it stops; with --ca it knows certificates of an authority that the
// system does not.
func TestServeCA(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(nodeStatus{Ready: true, Cluster: &serve.ClusterHealth{Node: "b"}})
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	c := &nodesHere{t: t, dir: t.TempDir(), names: []string{"a", "b", "c"}}
	c.run(0, "cluster", "init", "--out", filepath.Join(c.dir, "cluster"), "--nodes", "a=127.0.0.1:1/2,b=127.0.0.1:3/4,c=127.0.0.1:5/6")
	text, err := os.ReadFile(c.file(0))
	if err == nil {
		err = os.WriteFile(c.file(0), bytes.Replace(text, []byte("http://127.0.0.1:4"), []byte(s.URL), 1), 0o600)
	}
	ca := filepath.Join(c.dir, "ca.pem")
	if err == nil {
		err = os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"": "give the authority's certificate with --ca FILE", ca: ""} {
		n, err := newClusterServer(&serveFlags{cluster: c.file(0), data: c.data(0), ca: file}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.config.Nodes[1].ask(t.Context()); !strings.Contains(got.Error, want) || (got.Error == "") != (want == "") {
			t.Errorf("--ca %q: the other node says %q, want %q", file, got.Error, want)
		}
	}
}

// TestReplicaWhole: the files of a node must have what it had applied when it began to read them, and not what the log has
// got since then; files that are a moment behind are read again.
func TestReplicaWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		answers []serve.ReplicaCheck
		want    string
	}{
		{"whole", []serve.ReplicaCheck{{Done: true, Last: 20_887, Began: 20_880}}, ""},
		{"behind for a moment", []serve.ReplicaCheck{{Done: true, Last: 5, Began: 9}, {Done: true, Last: 12, Began: 11}}, ""},
		{"damaged", []serve.ReplicaCheck{{Done: true, Last: 5, Began: 9, Damage: []string{"2.blk"}}}, "the files of b are damaged, too: 2.blk"},
	} {
		var asked atomic.Int32 // each call may have a connection of its own
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(c.answers[min(int(asked.Add(1)), len(c.answers))-1])
		}))
		err := clusterNode{Name: "b", URL: s.URL}.replicaWhole(t.Context(), "")
		s.Close()
		if n := int(asked.Load()); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want || n != len(c.answers) {
			t.Errorf("%s: asked %d times, %v", c.what, n, err)
		}
	}
}
