package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"troupe/policy"
	"troupe/sim"
)

// A program with kinds of its own plays a log once, without a horizon in the spec: the kinds are known when the spec is
// read again with the length of the log.
func TestOwnKindOnLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"log.vw":   "shared |u a\n0:1.0:0.5 |x p\n|x q\n\nshared |u b\n|x p\n0:0.0:0.5 |x q\n\n",
		"own.toml": "replications = 1\n[[environment]]\nkind = \"vw\"\ndata = \"log.vw\"\n[[policy]]\nkind = \"own\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kinds := sim.Kinds()
	kinds.Policies["own"] = func() policy.Options { return new(policy.UniformOptions) }
	var stdout, stderr bytes.Buffer
	args := []string{"run", filepath.Join(dir, "own.toml"), "--data", dir, "--out", filepath.Join(dir, "out"), "--no-report"}
	if code := execute(context.Background(), kinds, args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	rows, err := os.ReadFile(filepath.Join(dir, "out", sim.ResultsFile))
	if err != nil || bytes.Count(rows, []byte("\nvw,own,1,2,")) != 1 {
		t.Errorf("%v, results:\n%s", err, rows)
	}
}
