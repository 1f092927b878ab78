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

// TestRequirements: the table of CONTRIBUTING.md has every module that go.mod requires directly, and no package that a program may
// import needs one that the table gives to tests.
func TestRequirements(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| Module | Why |\n| --- | --- |\n")
	table, _, closed := strings.Cut(table, "\n\n")
	if !ok || !closed {
		t.Fatal("CONTRIBUTING.md has no table of modules")
	}
	tests := map[string]bool{} // by module: it is for tests
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			t.Fatalf("row %q", row)
		}
		for module := range strings.SplitSeq(cells[1], ",") {
			tests[strings.TrimSpace(module)] = strings.HasPrefix(strings.TrimSpace(cells[2]), "tests: ")
		}
	}
	file, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, direct, _ := strings.Cut(string(file), "require (\n")
	direct, _, _ = strings.Cut(direct, "\n)")
	required := strings.Split(direct, "\n")
	for _, line := range required {
		module, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, ok := tests[module]; !ok {
			t.Errorf("go.mod requires %s, which the table does not have", module)
		}
	}
	if len(tests) != len(required) {
		t.Errorf("the table has %d modules, go.mod requires %d", len(tests), len(required))
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./policy", "./sim", "./ope", "./report", "./serve/api",
		"./client", "./cmd/troupe").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	needed := map[string]bool{}
	for module := range strings.SplitSeq(string(out), "\n") {
		needed[module] = true
	}
	for module, only := range tests {
		if only == needed[module] {
			t.Errorf("%s: for tests only: %v; a program needs it: %v", module, only, needed[module])
		}
	}
}
