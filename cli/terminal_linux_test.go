package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"troupe/cli/term"
	"troupe/internal/await"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// onTerminal runs troupe with stdout and stderr on a pseudo-terminal of 80 columns and returns what
// was written there.
func onTerminal(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	return onColumns(t, 80, dir, env, args...)
}

// onColumns is the same for a terminal of any width.
func onColumns(t *testing.T, columns uint16, dir string, env []string, args ...string) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: columns}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("troupe", args...) // TestMain puts it into the path
	c.Dir, c.Stdout, c.Stderr = dir, slave, slave
	c.Env = append(os.Environ(), append([]string{"TERM=xterm", "LANG=C.UTF-8", "LC_ALL=", "LC_CTYPE=", "NO_COLOR=", "CI="}, env...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	got := make(chan []byte)
	go func() {
		var b bytes.Buffer
		io.Copy(&b, master) // ends with EIO when the last writer is gone
		got <- b.Bytes()
	}()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	select {
	case b := <-got:
		return string(b)
	case <-time.After(await.Limit):
		t.Fatal("the terminal is still open")
		return ""
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// On a terminal a run shows what it plays, one line that is repainted, and then the answer and the table, both with the
// first line bold; no line is wider than the terminal, of 80, 60 or 40 columns, and words are not broken. With NO_COLOR
// nothing is bold; with TERM=dumb or CI nothing is repainted, but there are lines as in a pipe.
func TestTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := `name = "a name that is long enough to be cut in the middle of a line"
horizon = 800
replications = 120
[[environment]]
name = "an environment with a long name, as they come from sweeps(d=10, arms=50)"
kind = "linear"
d = 10
set = { kind = "random-sphere", arms = 50 }
[[policy]]
kind = "ensemble"
m = [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]
[[policy]]
name = "a policy whose name does not fit its column"
kind = "greedy"
`
	if err := os.WriteFile(filepath.Join(dir, "x.toml"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "x.toml", "--workers", "1", "--no-report", "--out"}
	for _, columns := range []uint16{80, 60, 40} {
		text := onColumns(t, columns, dir, nil, append(args, fmt.Sprint("out", columns))...)
		plain := escapes.ReplaceAllString(text, "")
		for _, want := range []string{" cells  about ", "\x1b[1m◆ ", "\x1b[1mRegret of ensemble grows with m", "results  out"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns: no %q in\n%s", columns, want, plain)
			}
		}
		for i, line := range strings.Split(plain, "\n") {
			for _, part := range strings.Split(line, "\r") {
				if n := utf8.RuneCountInString(part); n > int(columns) && !strings.HasPrefix(part, "a policy whose …s column  a policy") { // a name in full
					t.Errorf("%d columns: line %d has %d: %q", columns, i, n, part)
				}
			}
		}
		for _, m := range regexp.MustCompile(`\x1b\[(\d+)A`).FindAllStringSubmatch(text, -1) { // lines that a repaint goes up
			if m[1] != "1" {
				t.Errorf("%d columns: the live line is %s lines", columns, m[1])
			}
		}
	}
	text := ""
	if text = onTerminal(t, dir, []string{"NO_COLOR=1"}, append(args, "out80")...); strings.Contains(text, "\x1b[1m") || strings.Contains(text, "\x1b[2m") || !strings.Contains(text, "◆ ") {
		t.Errorf("with NO_COLOR: %q", text)
	}
	if !long() { // nothing is painted twice below
		args = append([]string{"run", "x.toml", "--replications", "20"}, args[2:]...)
	}
	for i, env := range []string{"TERM=dumb", "CI=true"} {
		text = onTerminal(t, dir, []string{env}, append(args, fmt.Sprint("out", i))...)
		if strings.Contains(text, "\x1b[") && strings.Contains(env, "dumb") || strings.Contains(text, "━") || !strings.Contains(text, "troupe: a name that is long") {
			t.Errorf("with %s: %q", env, text)
		}
	}
}

// The exit code says what happened: 0 fine, 1 failed, 2 misuse.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"fine.toml":  "horizon=2\nreplications=1\n[[environment]]\nkind='linear'\nd=2\nset={kind='ball'}\n[[policy]]\nkind='uniform'\n",
		"wrong.toml": "horizon='x'\n",
		"box.toml":   "[[environment]]\nkind='linear'\nd=2\nset={kind='box'}\n[[policy]]\nkind='linucb'\n",
		"m.toml":     "[[environment]]\nkind='linear'\nd=2\nset={kind='ball'}\n[[policy]]\nkind='ensemble'\nm=0\n",
		// The rewards add up to more than a float64 holds.
		"fails.toml": "horizon=30\nreplications=2\n[[environment]]\nkind='linear'\ntheta='given'\nvalue=[1.0]\nset={kind='finite',arms=[[1.0]]}\nnoise={kind='gaussian',sigma=1e308}\n[[policy]]\nkind='fixed'\nx=[1.0]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	for _, c := range []struct {
		want int
		err  string // on stderr
		args []string
	}{
		{0, "", []string{"run", filepath.Join(dir, "fine.toml"), "--out", out, "-qq", "--no-report"}},
		{0, "", []string{"list"}},
		{term.Failed, "not a finite number", []string{"run", filepath.Join(dir, "fails.toml"), "--out", filepath.Join(dir, "f"), "-q"}},
		{term.Misused, "nowhere is no result directory", []string{"report", filepath.Join(dir, "nowhere")}},
		{term.Misused, "wrong.toml:1:1: horizon is the string", []string{"run", filepath.Join(dir, "wrong.toml")}},
		{term.Misused, "holds 1 finished cell that this run would drop: they are of another spec, which has policy uniform, environment linear", []string{"run", filepath.Join(dir, "fails.toml"), "--out", out}},
		{term.Misused, "expected a whole number of at most 9223372036854775807", []string{"run", "tour", "--seed", "99999999999999999999999"}},
		{term.Misused, "fine.toml is a file, expected a directory with the results of troupe run: troupe run ", []string{"share", filepath.Join(dir, "fine.toml")}},
		{term.Misused, "linucb: optimism needs a finite set or the unit ball, this is a box", []string{"run", filepath.Join(dir, "box.toml")}},
		{term.Misused, "leave the key out for its default, max(16, 2d), or with a preset, paper: theorem's m; janz2026: that of its lemmas", []string{"run", filepath.Join(dir, "m.toml")}},
		{term.Misused, "unknown flag: --nope", []string{"run", "--nope"}},
		{term.Misused, "exclude each other", []string{"report", out, "--size", "slide", "--no-figures"}},
		{term.Misused, `did you mean "column"?`, []string{"report", out, "--size", "colum"}},
	} {
		var stdout, stderr bytes.Buffer
		if code := command(t.Context(), c.args, &stdout, &stderr); code != c.want || !strings.Contains(stderr.String(), c.err) {
			t.Errorf("troupe %s: exit code %d, want %d, stderr %q", strings.Join(c.args, " "), code, c.want, stderr.String())
		}
	}
}
