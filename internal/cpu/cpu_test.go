package cpu

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestParse: every name is understood where the machine offers it, and nothing else is.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		value string
		best  Level
		want  Level
		err   string
	}{
		{"", AVX512, AVX512, ""},
		{"", Portable, Portable, ""},
		{"portable", AVX512, Portable, ""},
		{"avx2", AVX512, AVX2, ""},
		{"avx512", AVX512, AVX512, ""},
		{"avx512", AVX2, 0, `TROUPE_KERNEL is "avx512", but this machine offers avx2 at most`},
		{"AVX2", AVX512, 0, `TROUPE_KERNEL is "AVX2", expected one of portable, avx2, avx512`},
	} {
		got, err := parse(c.value, c.best)
		if (err == nil) != (c.err == "") || (err != nil && err.Error() != c.err) || (err == nil && got != c.want) {
			t.Errorf("parse(%q, %v) = %v, %v; want %v, %q", c.value, c.best, got, err, c.want, c.err)
		}
	}
}

// TestVariable starts this test program again with the variable set.
func TestVariable(t *testing.T) {
	if want := os.Getenv("WANT_KERNEL"); want != "" {
		if got := Kernels().String(); got != want {
			t.Fatalf("kernels run at %s", got)
		}
		return
	}
	run := func(value string) (string, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestVariable$")
		cmd.Env = append(os.Environ(), Variable+"="+value, "WANT_KERNEL="+value)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if _, err := run("portable"); errors.Is(err, syscall.ENOEXEC) {
		t.Skip("an emulator runs this program, and the system cannot start it by itself:", err)
	}
	for l := Portable; l <= Best(); l++ {
		if out, err := run(l.String()); err != nil {
			t.Errorf("%v: %v\n%s", l, err, out)
		}
	}
	out, err := run("sse")
	var exit *exec.ExitError
	if e, ok := err.(*exec.ExitError); ok {
		exit = e
	}
	if exit == nil || exit.ExitCode() != 2 || !strings.Contains(out, `TROUPE_KERNEL is "sse"`) || strings.Contains(out, "goroutine") {
		t.Errorf("an unknown value gives %v:\n%s", err, out)
	}
}

// TestForce runs at a lower level for a while.
func TestForce(t *testing.T) {
	was := Kernels()
	restore := Force(Portable)
	if Kernels() != Portable {
		t.Error("Force did nothing")
	}
	if restore(); Kernels() != was {
		t.Error("restore did nothing")
	}
}
