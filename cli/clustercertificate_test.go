package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"troupe/cli/term"
	"troupe/internal/await"
	"troupe/internal/scratch"
)

// copyFiles copies files of one folder over those of another; one that is not there is left out.
func copyFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shake makes a connection between the nodes of two folders, as the engine does.
func shake(t *testing.T, from, to string) error {
	t.Helper()
	config := func(folder string) *tls.Config {
		c, err := readCluster(filepath.Join(folder, clusterFile))
		if err != nil {
			t.Fatal(err)
		}
		own, err := c.tls()
		if err != nil {
			t.Fatal(err)
		}
		return own.Clone()
	}
	client, server := config(from), config(to)
	client.ServerName = "127.0.0.1"
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ends := make(chan error, 2)
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	go func() {
		s := tls.Server(b, server)
		err := s.HandshakeContext(ctx)
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		if err != nil {
			b.Close()
		}
		ends <- err
	}()
	go func() {
		c := tls.Client(a, client)
		err := c.HandshakeContext(ctx)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if err != nil {
			a.Close()
		}
		ends <- err
	}()
	return errors.Join(<-ends, <-ends)
}

// TestClusterCertificate: every state that three rounds of replacing an authority go through, node after node, lets all
// nodes talk to each other; afterwards a certificate of the authority before is refused, and so is one that is revoked.
func TestClusterCertificate(t *testing.T) {
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := command(t.Context(), append([]string{"cluster"}, args...), &out, &out); code != want {
			t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, &out)
		}
		return out.String()
	}
	names := []string{"a", "b", "c"}
	if text := run(0, "init", "--nodes", "a=127.0.0.1:1/2,b=127.0.0.1:3/4,c=127.0.0.1:5/6", "--out", in("cluster")); !strings.Contains(text, "keep "+in("cluster", authorityDir)+" away from the nodes") {
		t.Errorf("init says nothing of the key: %s", text)
	}
	talk := func(state string) {
		t.Helper()
		for _, x := range names {
			for _, y := range names {
				if x == y {
					continue
				}
				if err := shake(t, in("cluster", x), in("cluster", y)); err != nil {
					t.Errorf("%s: %s to %s: %v", state, x, y, err)
				}
			}
		}
	}
	copyFiles(t, in("cluster", "b"), dir, certFile, keyFile) // as somebody has it later
	talk("after init")
	run(0, "certificate", "replace", "--authority", in("cluster", authorityDir), "--out", in("two"))
	for _, x := range names {
		copyFiles(t, in("two"), in("cluster", x), caFile)
		talk("both authorities, up to " + x)
	}
	run(0, "certificate", "renew", "--authority", in("two"), "--cluster", in("cluster", "a", clusterFile), "--out", in("new"))
	for _, x := range names {
		copyFiles(t, in("new", x), in("cluster", x), caFile, certFile, keyFile, revokedFile)
		talk("certificates of the new authority, up to " + x)
	}
	run(0, "certificate", "retire", "--authority", in("two"))
	for _, x := range names {
		copyFiles(t, in("two"), in("cluster", x), caFile)
		talk("without the authority before, up to " + x)
	}
	old := in("old")
	if err := scratch.Copy(old, in("cluster", "b")); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, dir, old, certFile, keyFile)
	copyFiles(t, in("cluster", authorityDir), old, caFile)
	if err := shake(t, old, in("cluster", "a")); err == nil {
		t.Error("a certificate of the authority before is accepted")
	}
	if err := scratch.Copy(in("lost"), in("cluster", "b")); err != nil {
		t.Fatal(err)
	}
	run(0, "certificate", "revoke", "b", "--authority", in("two"))
	run(0, "certificate", "renew", "--authority", in("two"), "--cluster", in("cluster", "c", clusterFile), "--node", "b", "--out", in("again"))
	for _, x := range names {
		copyFiles(t, in("two"), in("cluster", x), revokedFile)
		if x == "a" {
			if err := shake(t, in("lost"), in("cluster", "a")); err == nil || !strings.Contains(err.Error(), "of node b is revoked") {
				t.Errorf("a certificate that is revoked: %v", err)
			}
			if err := shake(t, in("cluster", "a"), in("lost")); err == nil || !strings.Contains(err.Error(), "of node b is revoked") {
				t.Errorf("a node dials one whose certificate is revoked: %v", err)
			}
		}
	}
	c, err := readCluster(in("cluster", "b", clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.tls(); err == nil || !strings.Contains(err.Error(), "of node b is revoked") {
		t.Errorf("a node starts with its own certificate on its list: %v", err)
	}
	copyFiles(t, in("again", "b"), in("cluster", "b"), caFile, certFile, keyFile, revokedFile)
	talk("b has another certificate")
	run(0, "certificate", "replace", "--authority", in("two"), "--out", in("three"))
	copyFiles(t, in("three"), in("cluster", "a"), caFile, revokedFile)
	if err := shake(t, in("lost"), in("cluster", "a")); err == nil || !strings.Contains(err.Error(), "of node b is revoked") {
		t.Errorf("the next authority forgets what was revoked: %v", err)
	}
	if _, err := c.tls(); err != nil || c.certified.IsZero() || time.Until(c.certified) > 366*24*time.Hour {
		t.Errorf("a node's certificate is valid until %v, want one year: %v", c.certified, err)
	}
}

// TestClusterCertificateMisuse: what is refused with exit code 2 changes nothing.
func TestClusterCertificateMisuse(t *testing.T) {
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		return command(t.Context(), append([]string{"cluster"}, args...), &out, &out), out.String()
	}
	for _, args := range [][]string{
		{"init", "--nodes", "a=127.0.0.1:1/2,b=127.0.0.1:3/4,c=127.0.0.1:5/6", "--out", in("x")},
		{"init", "--nodes", "a=127.0.0.1:1/2,b=127.0.0.1:3/4,authority=127.0.0.1:5/6", "--out", in("none"), "--no-authority-key"},
	} {
		if code, text := run(args...); code != 0 {
			t.Fatalf("%v: %s", args, text)
		}
	}
	if _, err := os.Stat(in("none", authorityDir, caKeyFile)); err == nil {
		t.Error("--no-authority-key keeps the key")
	}
	authority, file := in("x", authorityDir), in("x", "a", clusterFile)
	before, err := os.ReadFile(filepath.Join(authority, issuedFile))
	if err != nil || bytes.Count(before, []byte("\n")) != 3 {
		t.Fatalf("%s: %v", before, err)
	}
	wrong := in("wrong")
	if err := scratch.Copy(wrong, authority); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, in("none", "a"), wrong, caFile)
	for name, text := range map[string]string{"issued": "zz b 2026-01-01\n"} {
		if err := scratch.Copy(in(name), authority); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(name, issuedFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := in("open")
	if err := scratch.Copy(open, authority); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(open, caKeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"init", "--nodes", "a=127.0.0.1:1/2,b=127.0.0.1:3/4,authority=127.0.0.1:5/6", "--out", in("y")}, "a node has the name authority"},
		{[]string{"certificate", "renew", "--cluster", file, "--out", in("o")}, "--authority is missing"},
		{[]string{"certificate", "renew", "--authority", in("none", "a"), "--cluster", file, "--out", in("o")}, caKeyFile},
		{[]string{"certificate", "renew", "--authority", open, "--cluster", file, "--out", in("o")}, "has mode 0644: other users can read it"},
		{[]string{"certificate", "renew", "--authority", wrong, "--cluster", file, "--out", in("o")}, "does not go with ca.pem"},
		{[]string{"certificate", "renew", "--authority", in("issued"), "--cluster", file, "--out", in("o")}, `issued.txt:1: "zz b 2026-01-01", expected`},
		{[]string{"certificate", "renew", "--authority", authority, "--cluster", in("no"), "--out", in("o")}, "no such file"},
		{[]string{"certificate", "renew", "--authority", authority, "--cluster", file}, "--out is missing"},
		{[]string{"certificate", "renew", "--authority", authority, "--cluster", file, "--out", in("x")}, "is not empty"},
		{[]string{"certificate", "renew", "--authority", authority, "--cluster", file, "--out", in("o"), "--node", "d"}, "--node d: " + file + " has a, b, c"},
		{[]string{"certificate", "revoke", "d", "--authority", authority}, "has no certificate of node d, expected one of a, b, c"},
		{[]string{"certificate", "revoke", "--authority", authority}, "NODE"},
		{[]string{"certificate", "replace", "--authority", authority}, "--out is missing"},
		{[]string{"certificate", "replace", "--authority", authority, "--out", in("x")}, "is not empty"},
		{[]string{"certificate", "retire", "--authority", authority}, "has one authority, none is retired"},
	} {
		if code, text := run(x.args...); code != term.Misused || !strings.Contains(text, x.want) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", x.args, code, term.Misused, x.want, text)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(authority, issuedFile)); !bytes.Equal(before, after) {
		t.Errorf("a refusal has changed %s: %s", issuedFile, after)
	}
	if _, err := os.Stat(in("o")); err == nil {
		t.Error("a refusal has left a folder")
	}
}

// TestClusterCertificateLive replaces the authority of a cluster that serves, in three rounds of drains and restarts; no
// call fails for good, and nothing that was acknowledged is lost. A node that shows a revoked certificate stays outside.
func TestClusterCertificateLive(t *testing.T) {
	seldom(t, 1, 1)
	t.Parallel()
	c, _ := startRealCluster(t)
	l := &clusterLoad{events: map[string]string{}}
	end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
	run := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := command(t.Context(), append([]string{"cluster", "certificate"}, args...), &out, &out); code != 0 {
			t.Fatalf("%v: %s", args, &out)
		}
	}
	in := func(names ...string) string { return filepath.Join(append([]string{c.dir}, names...)...) }
	round := func(from func(i int) string, names ...string) {
		for i := range c.names {
			c.drain(i)
			copyFiles(t, from(i), filepath.Dir(c.file(i)), names...)
			c.leave(i)
			c.stop(i)
			c.start(i)
			c.ready(3)
		}
	}
	two := func(int) string { return in("two") }
	run("replace", "--authority", in("cluster", authorityDir), "--out", in("two"))
	round(two, caFile)
	run("renew", "--authority", in("two"), "--cluster", c.file(0), "--out", in("new"))
	round(func(i int) string { return in("new", c.names[i]) }, caFile, certFile, keyFile)
	run("retire", "--authority", in("two"))
	round(two, caFile)
	l.more(t, 50)
	end()
	c.level()
	c.check(l)
	run("revoke", "c", "--authority", in("two"))
	for i := range 2 {
		copyFiles(t, in("two"), filepath.Dir(c.file(i)), revokedFile)
		c.stop(i)
		c.start(i)
		if i == 0 {
			c.ready(3)
		}
	}
	c.ready(2)
	for note := range await.Tries(t) {
		s := c.status()
		if !s.Nodes[2].Ready && s.Nodes[0].Ready && s.Nodes[1].Ready {
			break
		}
		note("a node with a revoked certificate takes part: %+v", s)
	}
	if text := c.logs[0].String() + c.logs[1].String(); !strings.Contains(text, "of node c is revoked") {
		t.Error("no node says whose certificate it refuses")
	}
	t.Logf("%d events with a key, %d without, %d of unknown outcome", len(l.events), l.unkeyed, l.unknown)
}
