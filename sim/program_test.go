package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestIdentify: a program is known by the build ID in it, or by its bytes: another byte is another
// program.
func TestIdentify(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := identify(self)
	if err != nil || len(mine) != 64 || mine != own {
		t.Fatalf("this program is %q, and %q, error %v", mine, own, err)
	}
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	sum := sha256.Sum256([]byte("no ELF"))
	if got, err := identify(write("text", []byte("no ELF"))); err != nil || got != hex.EncodeToString(sum[:]) {
		t.Errorf("a file without a build ID is %q, error %v", got, err)
	}
	if _, err := identify(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing file is a program")
	}
	note := buildID(self)
	if note == nil {
		t.Skip("this system's programs have no note with a build ID")
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	at := len(note)/2 + bytes.Index(program, note)
	program[at] ^= 1
	if other, err := identify(write("other", program)); err != nil || other == mine {
		t.Errorf("a program with another build ID is the same, error %v", err)
	}
}

// A binary without a commit, such as this test, is named by its build ID; go run makes such binaries.
func TestBuild(t *testing.T) {
	m := Build()
	if m.Commit == "" || m.Dirty {
		if len(m.Build) != 16 || m.Build != Build().Build {
			t.Errorf("the build is %q, then %q", m.Build, Build().Build)
		}
	} else if m.Build != "" {
		t.Errorf("commit %s and build %s", m.Commit, m.Build)
	}
}

// A refusal names what differs, and each program once.
func TestProgramName(t *testing.T) {
	a, b := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	for _, c := range []struct{ program, other, want string }{
		{a + "\nengine 2\nengine 2", b + "\nengine 2", "the build abababababab"},
		{"engine 2", a + "\nengine 2", "engine 2"},
		{"engine 1", "engine 2", "engine 1"},
		{"", "engine 2", "an unknown program"},
	} {
		if got := programName(c.program, c.other); got != c.want {
			t.Errorf("%q beside %q is %q, want %q", c.program, c.other, got, c.want)
		}
	}
	x := parseReal(t, "replications = 1\nhorizon = 5\n[[environment]]\nkind = 'linear'\nd = 3\nset = { kind = 'basis' }\n[[policy]]\nkind = 'ts'\n[[policy]]\nkind = 'greedy'\n")
	if out := run(t, x, Options{Dir: t.TempDir()}); out.Manifest.Program != "engine "+strconv.Itoa(Engine) {
		t.Errorf("two policies of one engine are computed by %q", out.Manifest.Program)
	}
}
