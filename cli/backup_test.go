package cli

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/backup"
	"troupe/client"
)

// backupRun runs a command line in this process and returns its exit code and what it prints.
func backupRun(args ...string) (code int, out string) {
	var b bytes.Buffer
	code = command(context.Background(), args, &b, &b)
	return code, b.String()
}

// decideSome makes n decisions of the model news and rewards them.
func decideSome(t *testing.T, c *client.Client, n int) {
	for i := range n {
		d, err := c.Decide(t.Context(), "news", client.DecideRequest{Actions: []client.Action{{ID: "a"}, {ID: "b"}}})
		if err == nil {
			_, err = c.Reward(t.Context(), d.EventID, float64(i%2))
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// newsServer is a server with the model news.
func newsServer(t *testing.T, args ...string) (c *client.Client, url, data string, stop func()) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	url, _, stop = startServer(t, data, args...)
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CreateModel(t.Context(), map[string]any{"id": "news"}); err != nil {
		t.Fatal(err)
	}
	return c, url, data, stop
}

// restored starts a server on a data directory and returns the digest of news.
func restored(t *testing.T, data string) string {
	t.Helper()
	url, _, stop := startServer(t, data)
	defer stop()
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	digest, _ := stateOf(t, c, "news")
	return digest
}

// TestBackup: a backup in pieces gives back any moment, with the digest of that moment; what is wrong is refused in words, and nothing
// is written.
func TestBackup(t *testing.T) {
	t.Parallel()
	c, url, data, stop := newsServer(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(args ...string) string {
		t.Helper()
		code, out := backupRun(args...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, out)
		}
		return out
	}
	var digests, moments []string
	for i := range 4 {
		decideSome(t, c, 15)
		out := must("backup", "--url", url, "--keys-file", filepath.Join(data, "keys.json"), "--to", in("b"))
		d, err := backup.Open(in("b"))
		if err != nil || len(d.Parts()) != i+1 || !strings.Contains(out, "; new: ") {
			t.Fatalf("%v, %s", err, out)
		}
		digest, _ := stateOf(t, c, "news")
		digests, moments = append(digests, digest), append(moments, strconv.FormatUint(d.Last(), 10))
		if i == 2 { // the time of the last entry names the same moment
			moments[i] = d.Parts()[i].To.Add(time.Microsecond).Format(time.RFC3339Nano)
		}
	}
	if out := must("backup", "--url", url, "--to", in("b")); !strings.Contains(out, "nothing is new") {
		t.Error(out)
	}
	if out := must("restore", "--from", in("b"), "--check"); !strings.Contains(out, "in 4 parts; it is whole") {
		t.Error(out)
	}
	_, other, otherData, _ := newsServer(t)
	for _, x := range []struct{ args, want string }{
		{"backup --url " + other + " --to " + in("b"), "it is the backup of another log"},
		{"backup --url " + url, "--to is missing"},
		{"backup --url " + url + " --to " + in("c"), "--keys-file is missing"},
		{"backup --url " + url + " --to " + in("c") + " --keys-file " + filepath.Join(data, "nothing"), "expected a file with the name keys.json"},
		{"backup --url " + url + " --to " + otherData + " --without-keys", "is not empty"},
		{"backup --url " + url + " --to " + in("b") + " --every 1ms", "--every 1ms: expected 1s to 24h"},
		{"restore --from " + in("nothing") + " --data " + in("r"), "there is no backup in"},
		{"restore --from " + in("b"), "expected one of --data"},
		{"restore --from " + in("b") + " --data " + otherData, "is not empty"},
		{"restore --from " + in("b") + " --at 100000 --data " + in("r"), "--at 100000: the backup has the moments after the entries 1 to "},
		{"restore --from " + in("b") + " --at 2001-01-01T00:00:00Z --data " + in("r"), "the oldest moment of the backup is after entry 1, of "},
		{"restore --from " + in("b") + " --at NaN --data " + in("r"), `--at "NaN": expected an entry, or a time`},
	} {
		code, out := backupRun(strings.Fields(x.args)...)
		if code != 2 || !strings.Contains(out, x.want) {
			t.Errorf("%s: exit %d, %q in %s", x.args, code, x.want, out)
		}
	}
	decideSome(t, c, 5)
	stop()
	if err := os.MkdirAll(in("r0.restore/mine"), 0o700); err != nil { // a directory of the user, whatever its name
		t.Fatal(err)
	}
	for i, at := range moments {
		name := in("r" + strconv.Itoa(i))
		must("restore", "--from", in("b"), "--at", at, "--data", name)
		if got := restored(t, name); got != digests[i] {
			t.Errorf("at %s: digest %s, expected %s", at, got, digests[i])
		}
	}
	if len(slices.Compact(slices.Clone(digests))) != 4 {
		t.Errorf("the digests do not tell moments apart: %v", digests)
	}
	files, err := os.ReadDir(dir)
	if _, mine := os.Stat(in("r0.restore/mine")); err != nil || mine != nil || len(files) != 6 { // and b, and four restored ones: no refusal wrote anything
		t.Errorf("%v, %v", files, err)
	}

	// A changed byte of a part is named.
	d, err := backup.Open(in("b"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(in("b"), d.Parts()[1].File)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--check"}, {"--data", in("late")}} {
		if code, out := backupRun(append([]string{"restore", "--from", in("b")}, args...)...); code != 1 || !strings.Contains(out, d.Parts()[1].File+": other bytes") {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
	if _, err := os.Stat(in("late")); err == nil {
		t.Error("a directory of a damaged backup appeared")
	}
	must("restore", "--from", in("b"), "--at", moments[0], "--data", in("early")) // what is before the damage
}

// TestBackupOfTrimmed: of a log that was trimmed the base is in the backup; one that comes too late is told both ends of the gap.
func TestBackupOfTrimmed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	fillSingle(t, data, 6000, 1<<18)
	url, _, stop := startServer(t, data)
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	code, out := backupRun("backup", "--url", url, "--keys-file", filepath.Join(data, "keys.json"), "--to", filepath.Join(dir, "b"))
	d, err := backup.Open(filepath.Join(dir, "b"))
	if code != 0 || err != nil || d.First() == 1 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	want, _ := stateOf(t, c, "news")
	stop()
	if code, out := backupRun("restore", "--from", filepath.Join(dir, "b"), "--data", filepath.Join(dir, "r")); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	if got := restored(t, filepath.Join(dir, "r")); got != want {
		t.Errorf("digest %s, expected %s", got, want)
	}
}

// TestBackupKilled: troupe backup is killed at random places, 30 times with TROUPE_LONG, while a server is under load; then the backup is
// whole and has every entry.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	rounds, idle := 5, 200*time.Millisecond // between twenty decisions
	if long() {
		rounds, idle = 30, 0
	}
	c, url, data, stop := newsServer(t)
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	over := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(idle): // other tests need the processor
				decideSome(t, c, 20)
			}
		}
	})
	killed := 0
	for range rounds {
		p := exec.Command("troupe", "backup", "--url", url, "--keys-file", filepath.Join(data, "keys.json"), "--to", filepath.Join(dir, "b"), "--follow",
			"--every", "1s")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(2500)) * time.Millisecond) // it is killed anywhere
		if p.Process.Kill() == nil {
			killed++
		}
		p.Wait()
	}
	close(over)
	load.Wait()
	if h, err := getText(url + "/metrics"); err != nil || !strings.Contains(h, "\ntroupe_backup_asked_timestamp_seconds{backup=\"") || !strings.Contains(h, filepath.Join(dir, "b")+"\"} ") {
		t.Errorf("the server does not know the backup that follows: %v, %s", err, h)
	}
	if code, out := backupRun("backup", "--url", url, "--keys-file", filepath.Join(data, "keys.json"), "--to", filepath.Join(dir, "b")); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	want, learned := stateOf(t, c, "news")
	stop()
	if code, out := backupRun("restore", "--from", filepath.Join(dir, "b"), "--data", filepath.Join(dir, "r")); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	if got := restored(t, filepath.Join(dir, "r")); got != want || killed != rounds || learned == 0 {
		t.Errorf("digest %s, expected %s; %d of %d killed, %d learned", got, want, killed, rounds, learned)
	}
}

// getText returns what a URL answers.
func getText(url string) (string, error) {
	a, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return string(b), err
}
