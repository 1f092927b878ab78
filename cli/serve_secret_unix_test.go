//go:build unix

package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cli/term"
	"troupe/serve"
)

// A server does not start on files with secrets that other users can read, and makes nothing.
func TestServeSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, err := serve.NewKeys(0)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, text []byte, mode os.FileMode) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return file
	}
	makeCertificate(t, dir, "server", nil, nil)
	pem, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	var made, errs bytes.Buffer
	if code := command(t.Context(), []string{"cluster", "init", "--nodes", "a=127.0.0.1:17420/18080,b=127.0.0.1:17421/18081,c=127.0.0.1:17422/18082", "--out", filepath.Join(dir, "cluster")}, &made, &errs); code != 0 {
		t.Fatalf("%d: %s", code, &errs)
	}
	node := filepath.Join(dir, "cluster", "a")
	creds := put("app.creds", []byte("troupe:one\n"), 0o644)
	good := put("good/"+serve.KeyFile, keys, 0o600)
	nats := []string{"--nats", "nats://127.0.0.1:1", "--nats-attested-by", "ops"}
	open := put("open/"+serve.KeyFile, keys, 0o644)
	for _, c := range []struct {
		open string // is made readable for others
		args []string
	}{
		{open, []string{"--data", filepath.Dir(open)}},
		{open, append([]string{"--keys-file", open}, nats...)},
		{creds, append([]string{"--keys-file", good, "--nats-creds", creds}, nats...)},
		{key, []string{"--tls-cert", pem, "--tls-key", key}},
		{filepath.Join(node, keyFile), []string{"--cluster", filepath.Join(node, clusterFile)}},
		{filepath.Join(node, serve.KeyFile), []string{"--cluster", filepath.Join(node, clusterFile)}},
	} {
		if err := os.Chmod(c.open, 0o644); err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		data := filepath.Join(dir, "data")
		args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, c.args...)
		code := command(t.Context(), args, io.Discard, &errs)
		if want := c.open + " has mode 0644: other users can read it; chmod 600 it"; code != term.Misused || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: code %d, %s; want %q", c.args, code, &errs, want)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%v made a data directory", c.args)
		}
		if err := os.Chmod(c.open, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url, _, stop := startServer(t, filepath.Dir(open))
	if url == "" {
		t.Error("the file of mode 0600 is refused")
	}
	stop()
}
