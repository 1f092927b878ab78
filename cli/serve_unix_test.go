//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"troupe/client"
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
		for range 6000 {
			if strings.Contains(logs.String(), said) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("the log does not say %q:\n%s", said, logs)
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
