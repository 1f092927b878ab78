// Package golden is for tests: text that is checked in, so that a change of it is seen in review.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Command writes every file of this kind anew. A failure prints it first.
const Command = "TROUPE_UPDATE=1 go test ./..."

// Update reports whether tests write the files anew.
func Update() bool { return os.Getenv("TROUPE_UPDATE") != "" }

// Write writes a file and the directory that it stands in.
func Write(t testing.TB, file string, b []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Compare holds a file against text, or writes it with Update. The failure names the first line that differs.
func Compare(t testing.TB, file, text string) {
	t.Helper()
	if Update() {
		Write(t, file, []byte(text))
		return
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s writes it: %v", Command, err)
		return
	}
	if string(b) == text {
		return
	}
	line, have, want := differ(text, string(b))
	t.Errorf("%s writes it anew: %s:%d is\n%s\nand the code gives\n%s", Command, file, line, want, have)
}

// differ returns the number of the first line in which two texts differ, and both lines.
func differ(a, b string) (line int, x, y string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for line < len(as) && line < len(bs) && as[line] == bs[line] {
		line++
	}
	at := func(s []string) string {
		if line < len(s) {
			return s[line]
		}
		return "(the end)"
	}
	return line + 1, at(as), at(bs)
}
