package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
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
	mine, err := identify(self)
	if err != nil || len(mine) != 64 || mine != program() {
		t.Fatalf("this program is %q, and %q, error %v", mine, program(), err)
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

// TestVersion: the version is the newest release in CHANGELOG.md, with "+dev" while there are changes
// above it.
func TestVersion(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) \((.+)\)$`).FindAllStringSubmatch(string(text), -1)
	if len(headings) == 0 {
		t.Fatal("CHANGELOG.md has no release")
	}
	want := headings[0][1]
	if headings[0][2] == "unreleased" {
		if len(headings) < 2 {
			t.Fatal("CHANGELOG.md has no release below the unreleased changes")
		}
		want = headings[1][1] + "+dev"
	}
	if version != want {
		t.Errorf("the program says it is %s; by CHANGELOG.md it is %s", version, want)
	}
	var out bytes.Buffer
	if code := execute(t.Context(), []string{"version"}, &out, io.Discard); code != 0 || !strings.HasPrefix(out.String(), "troupe "+want+" (") {
		t.Errorf("troupe version prints %q with code %d, expected troupe %s", out.String(), code, want)
	}
}
