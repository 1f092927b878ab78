package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"troupe/cli/term"
)

// TestNew: what `troupe new` writes is formatted, passes its test, and is the whole tool. It links six programs,
// so it needs TROUPE_LONG; docs/guide/own-policies.md, whose commands TestGuides runs, has the policy.
func TestNew(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("links six programs")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "x-1")
			var out, errs bytes.Buffer
			if code := command(t.Context(), []string{"new", p.name, "x-1", "--out", dir, "--troupe", root}, &out, &errs); code != 0 {
				t.Fatalf("exit code %d: %s", code, &errs)
			}
			sh := func(script string, wants ...string) {
				t.Helper()
				c := exec.Command("sh", "-eu", "-c", script)
				c.Dir = dir
				c.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=", "LC_ALL=C.UTF-8")
				b, err := c.CombinedOutput()
				for _, want := range wants {
					if err != nil || !strings.Contains(string(b), want) {
						t.Fatalf("%s: %v, expected %q in\n%s", script, err, want, b)
					}
				}
			}
			sh(`test -z "$(gofmt -l .)" && go vet . && go test . && go build -o tool .`, "ok")
			sh("./tool list x-1", "x-1")
			sh("./tool run experiment.toml --replications 4 --out out 2>&1", "out/report.html", "4 replications")
			if p.name != "policy" {
				return
			}
			// Nested, swept, tuned, recorded: like every other kind.
			spec := `horizon = 200
replications = 4
record = ["actions"]
[[environment]]
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 5 }
[[policy]]
kind = "mixed"
base = { kind = "x-1", c = [1.0, 9.0] }
tune = { epsilon = [0.1, 0.2] }
`
			if err := os.WriteFile(filepath.Join(dir, "nested.toml"), []byte(spec), 0o666); err != nil {
				t.Fatal(err)
			}
			sh("./tool run nested.toml --out nested && head -1 nested/diagnostics.csv", "mixed(c=9)", "action_1")
			sh("./tool tune experiment.toml --replications 16 -o tuned.toml | grep '^to run   tool run tuned.toml' && grep -c x-1 tuned.toml && ./tool run tuned.toml --replications 2 --no-report", "x-1")
		})
	}
}

// What exists is not touched, and what cannot be is refused, in words, with nothing left behind.
func TestNewRefuses(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.Mkdir(full, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(full, "main.go"), []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "new")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"policy", "x", "--out", full}, "exists and is not empty"},
		{[]string{"policy", "x", "--out", filepath.Join(full, "main.go")}, "not a directory"},
		{[]string{"polcy", "x"}, "expected one of policy, environment, set"},
		{[]string{"policy", "X y"}, "lower-case letters"},
		{[]string{"policy", "../x"}, "lower-case letters"},
		{[]string{"policy", "ts"}, `there is a policy "ts" already`},
		{[]string{"set", "ball"}, `there is a set "ball" already`},
		{[]string{"policy", "x", "--troupe", dir}, "expected a directory with the go.mod"},
		{[]string{"policy"}, "an argument is missing"},
	} {
		args := append([]string{"new"}, c.args...)
		if !strings.Contains(strings.Join(args, " "), "--out") {
			args = append(args, "--out", to)
		}
		if !strings.Contains(strings.Join(args, " "), "--troupe") {
			args = append(args, "--troupe", root)
		}
		var out, errs bytes.Buffer
		if code := command(t.Context(), args, &out, &errs); code != term.Misused || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q: exit code %d, %s", c.args, code, &errs)
		}
	}
	if text, err := os.ReadFile(filepath.Join(full, "main.go")); err != nil || string(text) != "mine" {
		t.Errorf("main.go is %q now, error %v", text, err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("something was written to %s: %v", to, err)
	}
}
