package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMutate: of a package with a test that looks at one of two functions the mutants of that one die and those of the
// other live, nothing is written, and what does not compile is not counted.
func TestMutate(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.org/m\n\ngo 1.24\n",
		"m.go":      "package m\n\nfunc Seen(a, b int) int { return a - b }\n\nfunc Unseen(a, b int) int { return a * b }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc Test(t *testing.T) {\n\tif Seen(3, 1) != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	all, err := sites(".")
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v; expected two places", all, err)
	}
	for _, s := range all {
		want := dead
		if s.what == "* → /" {
			want = alive
		}
		if got, err := s.test(".", time.Minute); err != nil || got != want {
			t.Errorf("%v: verdict %d, %v; expected %d", s, got, err, want)
		}
	}
	if err := run(".", "m.go:9:9", 60, 1, time.Minute, time.Now().Add(time.Minute)); err == nil || !strings.Contains(err.Error(), "nothing to change") {
		t.Errorf("a place without a change: error %v", err)
	}
	all[0].text = []byte("package m\n\nfunc Seen(a, b int) int { return }\n")
	if got, err := all[0].test(".", time.Minute); err != nil || got != broken {
		t.Errorf("a mutant that does not compile: verdict %d, %v", got, err)
	}
	if b, err := os.ReadFile("m.go"); err != nil || !strings.Contains(string(b), "a - b") {
		t.Errorf("the tree was changed: %s, %v", b, err)
	}
}
