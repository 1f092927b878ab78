package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{"0.2.0": "0.2.0", "0.2.0-dev-c4ba0236": "0.2.0.dev0+c4ba0236", "0.2.0-snapshot": "0.2.0+snapshot",
		"0.2.0-dev-c4ba0236-snapshot": "0.2.0.dev0+c4ba0236.snapshot"} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s is %s in Python, expected %s", version, got, want)
		}
	}
}

// TestWheel: pip installs a wheel into an empty environment without network; then there are the command and the package,
// which finds the program beside its own python. Here the program is a script; .ci/run does it with the real one.
func TestWheel(t *testing.T) {
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import venv, ensurepip").Run() != nil {
		if os.Getenv("TROUPE_WHEEL") == "require" {
			t.Fatal("python3-venv is not here, and TROUPE_WHEEL=require")
		}
		t.Skip("needs Debian's python3-venv")
	}
	t.Chdir("..")
	dir := t.TempDir()
	program := filepath.Join(dir, "troupe")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho troupe of the wheel $*\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	target := runtime.GOOS + "/" + runtime.GOARCH
	r := &release{work: dir, version: "0.2.0-dev-c4ba0236", time: time.Unix(1_700_000_000, 0).UTC()}
	if err := r.wheel(target, program, []byte("licenses\n")); err != nil {
		t.Fatal(err)
	}
	wheel := filepath.Join(dir, r.files[0])
	first, err := os.ReadFile(wheel)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.wheel(target, program, []byte("licenses\n")); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(wheel); err != nil || string(again) != string(first) {
		t.Errorf("the same sources give other bytes (%v)", err)
	}
	z, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		want := uint32(0o100644)
		if strings.Contains(f.Name, ".data/scripts/") {
			want = 0o100755
		}
		if f.ExternalAttrs>>16 != want {
			t.Errorf("%s has the mode %#o, expected %#o", f.Name, f.ExternalAttrs>>16, want)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Env, c.Dir = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "PIP_NO_INDEX=1"}, dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run(python, "-m", "venv", "env")
	run("env/bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel)
	if out := run("env/bin/troupe", "version"); out != "troupe of the wheel version\n" {
		t.Errorf("the command says %q", out)
	}
	out := run("env/bin/python", "-c", "import troupe.program, importlib.metadata as m; print(troupe.program._binary(), m.version('troupe'))")
	if want := filepath.Join(dir, "env/bin/troupe") + " 0.2.0.dev0+c4ba0236\n"; out != want {
		t.Errorf("the package finds %q, expected %q", out, want)
	}
	if out := run("env/bin/pip", "check"); !strings.Contains(out, "No broken requirements") {
		t.Error(out)
	}
}
