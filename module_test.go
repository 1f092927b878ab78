package troupe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModulePath: the line of CONTRIBUTING.md that gives the module another path works on a copy of
// this tree. With TROUPE_LONG all of the copy is compiled and its root tests run, otherwise three
// packages.
func TestModulePath(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a copy of the module")
	}
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(text), "```sh\n")
	line, _, closed := strings.Cut(line, "\n```")
	if !ok || !closed || !strings.Contains(line, "example.org/troupe") {
		t.Fatal("CONTRIBUTING.md has no line for the module's path")
	}
	dir := t.TempDir()
	run := func(in, script string) string {
		t.Helper()
		c := exec.Command("sh", "-eu", "-c", script)
		c.Dir = in
		c.Env = append(os.Environ(), "COPY="+dir, "TROUPE_LONG=") // what takes long is played in this tree
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("this test needs git")
	}
	files := strings.Split(strings.TrimSuffix(run(".", "git ls-files -z --cached --others --exclude-standard"), "\x00"), "\x00")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // removed, and the index does not know yet
		} else if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(dir, "git init -q . && git add -A -N") // the line asks for names only
	run(dir, line)
	if os.Getenv("TROUPE_LONG") != "" {
		run(dir, "go build ./... && go vet . && go test -vet=off -short .")
		return
	}
	run(dir, "go build -trimpath ./spec ./bandit ./actionset") // the same in any directory
	ours := 0
	for name := range strings.Lines(run(dir, `go list -f '{{.ImportPath}}{{"\n"}}{{join .Imports "\n"}}' ./...`)) {
		if strings.HasPrefix(name, "trou"+"pe/") {
			t.Errorf("the copy imports %s", name)
		} else if strings.HasPrefix(name, "example.org/troupe/") {
			ours++
		}
	}
	if ours < 100 {
		t.Errorf("the copy imports only %d packages of its own", ours)
	}
}
