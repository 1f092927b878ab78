// Package deploy has the files with which troupe is installed: a unit for systemd, manifests for Kubernetes.
package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// analyze runs systemd-analyze on a unit file.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

// verified is what systemd-analyze verify prints of the unit, whose program is one that exists here. It exits with 0
// for values that it does not know, so any line is a fault.
func verified(t *testing.T, unit string) string {
	t.Helper()
	file := t.TempDir() + "/troupe.service"
	if err := os.WriteFile(file, []byte(strings.Replace(unit, "/usr/local/bin/troupe", "/bin/true", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return analyze(t, "verify", file)
}

// TestUnit: systemd has nothing to say against the unit, it leaves an exposure of at most 3.0, and the guide names it.
// Controls: an unknown value is found, and the unit without its restrictions has more than 8.
func TestUnit(t *testing.T) {
	data, err := os.ReadFile("systemd/troupe.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(data)
	guide, err := os.ReadFile("../docs/guide/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "`deploy/systemd/troupe.service`") {
		t.Error("docs/guide/operations.md does not name deploy/systemd/troupe.service")
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("TROUPE_SYSTEMD") == "require" {
			t.Fatal(err)
		}
		t.Skip("no systemd-analyze")
	}
	if out := verified(t, unit); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	if verified(t, strings.Replace(unit, "Restart=on-failure", "Restart=sometimes", 1)) == "" {
		t.Error("an unknown value was not found")
	}
	if e := exposure(t, unit); e > 3.0 {
		t.Errorf("exposure %.1f, at most 3.0", e)
	}
	bare, _, _ := strings.Cut(unit, "# What the server")
	if e := exposure(t, bare); e < 8 {
		t.Errorf("without restrictions: exposure %.1f, expected more than 8", e)
	}
}

// exposure is the overall level of systemd-analyze security, from 0 to 10.
func exposure(t *testing.T, unit string) float64 {
	t.Helper()
	file := t.TempDir() + "/troupe.service"
	if err := os.WriteFile(file, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	out := analyze(t, "security", "--offline=true", "--no-pager", file)
	m := regexp.MustCompile(`Overall exposure level for troupe.service: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatal(out)
	}
	e, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
