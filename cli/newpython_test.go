package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewPython: what `troupe new policy NAME --lang python` writes passes its test, which notices a policy with
// randomness of its own, and is played by its experiment.
func TestNewPython(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "my-greedy")
	run := func(code int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if got := command(t.Context(), args, &out, &out); got != code {
			t.Fatalf("troupe %v: exit code %d, want %d:\n%s", args, got, code, &out)
		}
		return out.String()
	}
	if out := run(0, "new", "policy", "my-greedy", "--lang", "python", "--out", dir, "--troupe", root); !strings.Contains(out, "python3 test_my_greedy.py") {
		t.Errorf("prints %q", out)
	}
	test := func() ([]byte, error) {
		c := exec.Command("python3", "-B", "test_my_greedy.py")
		c.Dir = dir
		return c.CombinedOutput()
	}
	if out, err := test(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out := run(0, "run", filepath.Join(dir, "experiment.toml"), "--replications", "3", "--horizon", "100", "--no-report", "--out", filepath.Join(dir, "out"))
	if !strings.Contains(out, "my-greedy(epsilon=0.05)") && !strings.Contains(out, "epsilon") {
		t.Errorf("the sweep is not named in\n%s", out)
	}
	file := filepath.Join(dir, "my_greedy.py")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("draw.random.randrange"), []byte("__import__('random').randrange"), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := test(); err == nil || !bytes.Contains(out, []byte("randomness")) {
		t.Errorf("own randomness: %v\n%s", err, out)
	}
	for want, args := range map[string][]string{
		"expected go or python":      {"new", "policy", "x", "--lang", "perl"},
		"expected troupe new policy": {"new", "set", "x", "--lang", "python"},
		"would hide a module":        {"new", "policy", "random", "--lang", "python"},
		"exists and is not empty":    {"new", "policy", "my-greedy", "--lang", "python", "--out", dir, "--troupe", root},
	} {
		if out := run(2, args...); !strings.Contains(out, want) {
			t.Errorf("%v: %q, want %q", args, out, want)
		}
	}
}
