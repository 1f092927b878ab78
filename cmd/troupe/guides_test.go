package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shellOf returns the commands of a page: its blocks that begin with ```sh, in order.
func shellOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range strings.Split(string(text), "```sh\n")[1:] {
		block, _, closed := strings.Cut(block, "\n```")
		if !closed {
			t.Fatalf("%s: a block is not closed", page)
		}
		script.WriteString(block + "\n")
	}
	return script.String()
}

// TestGuides: the commands of the guides and of the README work as written, in the order of the
// page, in an empty directory. Pages with a server of their own are in TestPagesWork.
func TestGuides(t *testing.T) {
	need(t, "python3")
	need(t, "curl")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []struct {
		page  string
		wants []string // in what the commands print
	}{
		{"README.md", []string{`"status":"accepted"`, `"kind":"decision"`, "regret"}},
		{"docs/guide/experiments.md", []string{"80 replications", "figures/column/regret.pdf"}},
		{"docs/guide/results.md", []string{"ts - es: ", "over 50 replications"}},
		{"docs/guide/choosing.md", []string{"ensemble(m=64)", "39 400"}},
		{"docs/guide/library.md", []string{"arm 1: "}},
		{"docs/guide/own-policies.md", []string{"160 cells are in out", "out/report.html"}},
	} {
		t.Run(filepath.Base(g.page), func(t *testing.T) {
			t.Parallel()
			script := shellOf(t, filepath.Join(root, g.page))
			// The program is there already: it is this test.
			script = strings.ReplaceAll(script, "CGO_ENABLED=0 go build -o . ./cmd/troupe ", `cp "$(command -v troupe)" troupe `)
			c := exec.Command("sh", "-eu", "-c", script)
			c.Dir = t.TempDir()
			c.Env = append(os.Environ(), "TROUPE="+root, "GOPROXY=off", "GOSUMDB=off", "GOWORK=", "LC_ALL=C.UTF-8")
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			if err := c.Run(); err != nil {
				t.Fatalf("%s: %v\n%s", g.page, err, &out)
			}
			for _, want := range g.wants {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s: nothing printed has %q:\n%s", g.page, want, &out)
				}
			}
		})
	}
}
