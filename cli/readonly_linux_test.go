package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Results on a read-only disk can be looked at: run prints them, report says how, and report --out writes the page
// elsewhere.
func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	spec, out, page := filepath.Join(dir, "x.toml"), filepath.Join(dir, "out"), filepath.Join(dir, "page")
	text := "hypothesis = 'ts wins'\nhorizon = 20\nreplications = 3\n[[environment]]\nkind = 'linear'\nd = 3\nset = { kind = 'basis' }\n[[policy]]\nkind = 'ts'\n"
	if err := os.WriteFile(spec, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) (code int, stdout, stderr string) {
		var a, b bytes.Buffer
		code = command(context.Background(), args, &a, &b)
		return code, a.String(), b.String()
	}
	if code, _, stderr := call("run", spec, "--out", out, "--no-report"); code != 0 {
		t.Fatal(stderr)
	}
	if err := syscall.Mount(out, out, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("no mount here: %v", err)
	}
	defer syscall.Unmount(out, 0)
	if err := syscall.Mount("", out, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("no read-only mount here: %v", err)
	}
	code, stdout, stderr := call("run", spec, "--out", out, "--explain")
	if code != 0 || !strings.Contains(stdout, "ts lost") ||
		!strings.Contains(stdout, "Stated before the run: ts wins") || !strings.Contains(stderr, "cannot be written") {
		t.Errorf("run: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr = call("report", out); code != 1 || !strings.Contains(stderr, "--out DIR") {
		t.Errorf("report: exit code %d, %s", code, stderr)
	}
	if code, stdout, stderr = call("report", out, "--out", page); code != 0 || !strings.Contains(stdout, page) {
		t.Errorf("report --out: exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, name := range []string{"report.html", "figures", "tables"} {
		if _, err := os.Stat(filepath.Join(page, name)); err != nil {
			t.Error(err)
		}
	}
	if code, stdout, stderr = call("share", out, "--out", page+".zip"); code != 0 || !strings.Contains(stdout, "sha256") {
		t.Errorf("share: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = call("check", page+".zip"); code != 0 || !strings.Contains(stdout, "what this program makes") {
		t.Errorf("check: exit code %d\n%s%s", code, stdout, stderr)
	}
	into := filepath.Join(out, "x.zip")
	if code, _, stderr = call("share", out, "--out", into); code != 2 || !strings.Contains(stderr, into) ||
		!strings.Contains(stderr, "--out FILE") {
		t.Errorf("share into a read-only directory: exit code %d, %s", code, stderr)
	}
	if code, _, stderr = call("run", spec, "--out", out, "--replications", "4"); code == 0 ||
		!strings.Contains(stderr, "read-only") {
		t.Errorf("run of what is not there: exit code %d, %s", code, stderr)
	}
	if code, _, stderr = call("report", spec); code != 2 || !strings.Contains(stderr, "is a file, expected a directory") ||
		!strings.Contains(stderr, "troupe run "+spec) {
		t.Errorf("report of a spec: exit code %d, %s", code, stderr)
	}
}
