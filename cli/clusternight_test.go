package cli

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// nightRows returns what the lines of a table of the guide's page say: the texts of their first column, in parts between
// the names and numbers.
func nightRows(t *testing.T) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../docs/guide/at-3-am.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		column, ok := strings.CutPrefix(line, "| ")
		if !ok || strings.HasPrefix(line, "| ---") {
			continue
		}
		column, _, _ = strings.Cut(column, " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(column, -1) {
			var parts []string
			for _, part := range strings.Split(m[1], "…") {
				if part = strings.TrimSpace(part); part != "" {
					parts = append(parts, part)
				}
			}
			rows = append(rows, parts)
		}
	}
	return rows
}

// TestNightPage: what the page at-3-am.md quotes stands in the program, so that a search for it finds the line.
func TestNightPage(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, dir := range []string{".", "../serve", "../eventlog"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			source.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	joined := regexp.MustCompile(`" \+\s+"`).ReplaceAllString(source.String(), "")
	system := []string{"connect: connection refused", "context deadline exceeded"} // not ours
	rows := nightRows(t)
	if len(rows) < 25 {
		t.Errorf("only %d texts were found", len(rows))
	}
	for _, row := range rows {
		for _, part := range row {
			if !strings.Contains(joined, part) && !strings.Contains(strings.Join(system, "\n"), part) {
				t.Errorf("the page has %q, which the program does not say", part)
			}
		}
	}
}

// TestClusterNight: faults of three processes are played, and the page has a row for what the status, or /readyz, says.
func TestClusterNight(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c := newRealCluster(t)
	for i := range c.names {
		c.start(i)
	}
	leader := c.ready(3)
	c.makeModel()
	rows := nightRows(t)
	says := func(what string, ask func() string) {
		t.Helper()
		for since := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			text := ask()
			if strings.Contains(text, what) {
				break
			}
			if time.Since(since) > time.Minute {
				t.Fatalf("%q is never said: %s", what, text)
			}
		}
		for _, row := range rows {
			if strings.Contains(what, row[0]) {
				return
			}
		}
		t.Errorf("the page has no row for %q", what)
	}
	status := func() string {
		var out bytes.Buffer
		command(t.Context(), []string{"cluster", "status", "--cluster", c.file(leader)}, &out, &out)
		return out.String()
	}
	readyz := func(i int) func() string {
		return func() string {
			a, err := c.http.Get(c.url(i) + "/readyz")
			if err != nil {
				return err.Error()
			}
			defer a.Body.Close()
			b, _ := io.ReadAll(a.Body)
			return string(b)
		}
	}
	x, y := (leader+1)%3, (leader+2)%3
	c.kill(x)
	says("connect: connection refused", status)
	c.kill(y)
	says("has not reached a majority of the cluster for", status)
	says("has not reached a majority of the cluster for", readyz(leader))
	c.start(x)
	c.ready(2)
	c.flip(y)
	c.start(y) // its files are damaged
	if os.Getenv("TROUPE_LONG") != "" {
		says("it makes them anew from the other nodes", readyz(y))
	}
	says(" are made anew from the others since", status)
	c.ready(3)
	var out bytes.Buffer
	if code := command(t.Context(), []string{"cluster", "drain", c.names[y], "--cluster", c.file(leader)}, &out, &out); code != 0 {
		t.Fatal(&out)
	}
	says("this node is drained and may be stopped", func() string {
		_, err := c.call(y, "POST", "/v1/models/news:decide", map[string]any{"actions": []map[string]any{{"id": "x"}}}, nil)
		return fmt.Sprint(err)
	})
}
