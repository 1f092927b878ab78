package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
)

// TestNATSVoid: on a NATS cluster of others stands an entry with a right MAC that no server can read. The server refuses, and says which command helps;
// troupe cluster void --nats names the entry and declares it void, and the server goes on with all that was answered.
func TestNATSVoid(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: three NATS servers for seconds")
	}
	t.Parallel()
	c := newNATSCluster(t)
	for i := range c.procs {
		c.start(i)
	}
	s := c.troupe("data")
	s.start("--nats-create")
	s.until(true)
	if err := s.call("POST", "/v1/models", "", map[string]any{"id": "news"}, nil); err != nil {
		t.Fatal(err)
	}
	first := s.pair("first")
	keys, err := serve.ReadKeys(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	js := c.account("app")
	put := func(data []byte) (seq uint64) {
		t.Helper()
		c.again(func() error {
			ack, err := js.Publish(t.Context(), "troupe.ev.0", data)
			if err == nil {
				seq = ack.Sequence
			}
			return err
		})
		return seq
	}
	put(bytes.Repeat([]byte{0xfe}, 70)) // no server has written it: it has no effect
	second := s.pair("second")
	broken, err := keys.Batches().Append(nil, eventlog.Header{Format: eventlog.Format3, Epoch: 77, No: 1, After: 2, Prev: eventlog.Hash{1}},
		&eventlog.Activate{Event: eventlog.Event{Epoch: 1, Batch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	bad := put(broken)
	s.until(false, fmt.Sprintf("entry %d", bad))
	s.kill()
	s.refused(term.Failed, nil, fmt.Sprintf("entry %d", bad), "see troupe cluster void")

	void := func(code int, want string, more ...string) {
		t.Helper()
		var out strings.Builder
		args := append([]string{"cluster", "void", "--nats", c.urls(), "--nats-creds", c.in("app.creds"), "--nats-attest", c.in("sys.creds"),
			"--nats-ca", c.in("ca.pem"), "--keys-file", c.in("keys.json"), "--data", c.in("data")}, more...)
		if got := command(t.Context(), args, &out, &out); got != code || !strings.Contains(out.String(), want) {
			t.Fatalf("void %v: exit code %d, want %d and %q: %s", more, got, code, want, &out)
		}
	}
	void(term.Failed, fmt.Sprintf("entry %d: writer 000000000000004d has the rolling hash", bad))
	void(term.Misused, "entry 1 can be read, or has no effect already: nothing was written", "1", "--accept-loss")
	void(term.Failed, "nothing was written: what these entries have is lost with --accept-loss", fmt.Sprint(bad))
	void(0, "declares them void", fmt.Sprint(bad), "--accept-loss")
	void(0, "declared void by entry", fmt.Sprint(bad), "--accept-loss") // once more is the same

	s.start()
	if h := s.until(true); h.Cluster.Declared != 1 || h.Cluster.Unwritten != 1 {
		t.Errorf("%d entries are declared void, %d were not written, want 1 and 1", h.Cluster.Declared, h.Cluster.Unwritten)
	}
	for key, want := range map[string]string{"first": first, "second": second} {
		if got := s.pair(key); got != want {
			t.Errorf("the key %s gives %s, it was %s", key, got, want)
		}
	}
}
