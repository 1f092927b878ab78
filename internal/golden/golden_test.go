package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// told is a TB that keeps what it is told.
type told struct {
	testing.TB
	text string
}

func (t *told) Helper()                           {}
func (t *told) Errorf(format string, args ...any) { t.text += fmt.Sprintf(format, args...) }

// TestCompare: a file that is right, one that differs, one that is shorter, one that is missing; and that Update writes.
func TestCompare(t *testing.T) {
	t.Setenv("TROUPE_UPDATE", "")
	file := filepath.Join(t.TempDir(), "deep", "a.txt")
	try := func(text, want string) {
		t.Helper()
		var to told
		Compare(&to, file, text)
		if want == "" && to.text != "" || !strings.Contains(to.text, want) || to.text != "" && !strings.HasPrefix(to.text, Command) {
			t.Errorf("%q, expected %q after the command", to.text, want)
		}
	}
	try("a\nb\n", "no such file")
	t.Setenv("TROUPE_UPDATE", "1")
	try("a\nb\n", "")
	t.Setenv("TROUPE_UPDATE", "")
	try("a\nb\n", "")
	try("a\nc\n", "a.txt:2 is\nb\nand the code gives\nc")
	try("a\nb\nd", "a.txt:3 is\n\nand the code gives\nd")
	try("a", "a.txt:2 is\nb\nand the code gives\n(the end)")
	if b, err := os.ReadFile(file); err != nil || string(b) != "a\nb\n" {
		t.Errorf("the file is %q, %v", b, err)
	}
}
