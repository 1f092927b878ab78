package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewPythonEnvironment: what `troupe new environment NAME --lang python` writes passes its test, which notices
// arms from other randomness and a regret that is not that of the rewards, and is played by its experiment, which
// sweeps its options.
func TestNewPythonEnvironment(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "two-parts")
	var out bytes.Buffer
	if code := command(t.Context(), []string{"new", "environment", "two-parts", "--lang", "python", "--out", dir, "--troupe", root}, &out, &out); code != 0 || !strings.Contains(out.String(), "python3 test_two_parts.py") {
		t.Fatalf("exit code %d: %s", code, &out)
	}
	test := func() ([]byte, error) {
		c := exec.Command("python3", "-B", "test_two_parts.py")
		c.Dir = dir
		return c.CombinedOutput()
	}
	if out, err := test(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out.Reset()
	if code := command(t.Context(), []string{"run", filepath.Join(dir, "experiment.toml"), "--replications", "2", "--horizon", "60", "--no-report", "--out", filepath.Join(dir, "out")}, &out, &out); code != 0 || !strings.Contains(out.String(), "sigma=0.1") {
		t.Errorf("exit code %d, expected a sweep of sigma in\n%s", code, &out)
	}
	file := filepath.Join(dir, "two_parts.py")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []struct{ from, to, want string }{
		{"self.direction(draw.random)", "self.direction(__import__('random'))", "offer different arms"},
		{"return self.mean(x) + self", "return 0.5 + self", "AssertionError"},
		{"return max(self.mean(arm) for arm in self.arms)", "return 1 + max(self.mean(arm) for arm in self.arms)", "no arm has regret 0"},
	} {
		broken := bytes.Replace(text, []byte(fault.from), []byte(fault.to), 1)
		if bytes.Equal(broken, text) {
			t.Fatalf("the file has no %q", fault.from)
		}
		if err := os.WriteFile(file, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := test(); err == nil || !bytes.Contains(out, []byte(fault.want)) {
			t.Errorf("%s: %v, expected %q in\n%s", fault.to, err, fault.want, out)
		}
	}
}

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
		"expected go or python":   {"new", "policy", "x", "--lang", "perl"},
		"policy or environment":   {"new", "set", "x", "--lang", "python"},
		"would hide a module":     {"new", "policy", "random", "--lang", "python"},
		"exists and is not empty": {"new", "policy", "my-greedy", "--lang", "python", "--out", dir, "--troupe", root},
	} {
		if out := run(2, args...); !strings.Contains(out, want) {
			t.Errorf("%v: %q, want %q", args, out, want)
		}
	}
}
