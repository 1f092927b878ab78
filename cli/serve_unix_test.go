//go:build unix

package cli

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"troupe/client"
	"troupe/internal/await"
)

// Models, keys and certificate are read again on SIGHUP; a file that cannot be read leaves what was.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	models := filepath.Join(dir, "models.toml")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(models, "[[model]]\nid = \"m\"\ndim = 2\nfloor = 0.1\n")
	url, logs, _ := startServer(t, filepath.Join(dir, "data"), "--models", models)
	c := newClient(t, url)
	floor := func(model string) (float64, string) {
		var m struct{ Config struct{ Floor float64 } }
		err := c.Get(t.Context(), "/v1/models/"+model, &m)
		return m.Config.Floor, client.Code(err)
	}
	if f, code := floor("m"); f != 0.1 {
		t.Fatalf("floor %v, %s", f, code)
	}
	hangup := func(said string) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for note := range await.Tries(t) {
			if strings.Contains(logs.String(), said) {
				return
			}
			note("the log does not say %q:\n%s", said, logs)
		}
	}
	write(models, "[[model]]\nid = \"m\"\ndim = 2\nfloor = 0.3\n[[model]]\nid = \"n\"\n")
	hangup("models reloaded")
	if f, _ := floor("m"); f != 0.3 {
		t.Errorf("floor %v after a reload, want 0.3", f)
	}
	if _, code := floor("n"); code != "" {
		t.Errorf("the new model: %s", code)
	}
	write(models, "[[model]]\nid = \"m\"\nflor = 0.5\n")
	hangup("models not reloaded")
	if f, _ := floor("m"); f != 0.3 {
		t.Errorf("floor %v after a bad file, want 0.3", f)
	}
}

// TestSocket: a server on a socket in the file system is for its owner and group, answers a client without keys, replaces what a
// killed server left behind, and leaves alone what answers or is no socket.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	old, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	old.Close() // the file stays, as after SIGKILL
	url, _, stop := startServer(t, filepath.Join(dir, "data"), "--listen", "unix:"+path)
	if url != "unix:"+path {
		t.Errorf("the ready file says %s", url)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CreateModel(t.Context(), map[string]any{"id": "m"}); err != nil {
		t.Fatal(err)
	}
	d, err := c.Decide(t.Context(), "m", client.DecideRequest{Actions: []client.Action{{ID: "a"}, {ID: "b"}}})
	if err != nil || d.EventID == "" {
		t.Fatalf("%+v, %v", d, err)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		if code := command(t.Context(), append([]string{"serve", "--data", filepath.Join(dir, "other")}, args...), io.Discard, &stderr); code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: code %d, %s", args, code, &stderr)
		}
	}
	refused("another server answers there", "--listen", "unix:"+path)
	refused("expected unix: and the path", "--listen", "unix:")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("is no socket", "--listen", "unix:"+plain)
	if b, err := os.ReadFile(plain); err != nil || string(b) != "x" {
		t.Errorf("the file is %q, %v", b, err)
	}
	var out, stderr bytes.Buffer
	if code := command(t.Context(), []string{"load", "--url", url, "--duration", "200ms", "--rate", "50", "--fsync", "-", "--json"}, &out, &stderr); code != 0 || !strings.Contains(out.String(), `"decide"`) {
		t.Errorf("troupe load: code %d, %s%s", code, &out, &stderr)
	}
	stop()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is there after the server's end")
	}
}
