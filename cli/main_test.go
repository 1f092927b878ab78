package cli

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/eventlog/raftlog"
	"troupe/internal/await"
	"troupe/internal/golden"
	"troupe/internal/scratch"
	"troupe/sim"
	"troupe/timing"
)

func TestMain(m *testing.M) {
	testscript.Main(patient{m}, map[string]func(){"troupe": func() {
		if file := os.Getenv(clockVariable); file != "" {
			serverClock = timing.At(func() time.Time { return time.Now().Add(offsetIn(file)) })
		}
		if os.Getenv(wiresVariable) != "" {
			raftDial = func(ctx context.Context, c *clusterConfig, to raftlog.Member) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", c.named(to.Name).Address)
			}
		}
		if text := os.Getenv(seedVariable); text != "" {
			cryptorand.Reader = &seeded{r: mathrand.NewChaCha8(sha256.Sum256([]byte(text)))}
		}
		Main(sim.Kinds())
	}})
}

// clockVariable names a file with nanoseconds that are added to the clock of a server; without the file there are none.
const clockVariable = "TROUPE_TEST_CLOCK"

// wiresVariable lets a node of the engine raft dial the addresses of its cluster.toml, where the others are behind proxies.
const wiresVariable = "TROUPE_TEST_WIRES"

// seedVariable seeds what a server takes for random: the seeds of its models, which differ each time otherwise. A server that is
// started again with the same one would number its records as before.
const seedVariable = "TROUPE_TEST_SEED"

// seeded is a generator for several goroutines.
type seeded struct {
	mu sync.Mutex
	r  *mathrand.ChaCha8
}

func (s *seeded) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Read(b)
}

func offsetIn(file string) time.Duration {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return time.Duration(n)
}

// patient lets six parallel tests run at a time: those of clusters wait for elections most of the time.
type patient struct{ *testing.M }

func (p patient) Run() int {
	flag.Parse()
	if v := flag.Lookup("test.parallel").Value; v.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = v.Set("6")
	}
	defer func() { _ = os.RemoveAll(natsDir) }() // of "" it does nothing
	return scratch.Run(p.M, 2*scratch.Enough)
}

// command runs one command line of troupe and returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return execute(ctx, sim.Kinds(), args, stdout, stderr)
}

// The command line as a user meets it: every script in testdata is a session with what it prints.
// golden.Command writes the text of cmp lines anew. With TROUPE_LONG every page and figure is written, also those that
// nothing looks at, and what is interrupted has two workers and more cells.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: golden.Update(),
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"waitfor": waitFor, "parquetrows": parquetRows},
		Setup: func(e *testscript.Env) error {
			e.Setenv("LANG", "C.UTF-8")
			e.Setenv("LC_ALL", "")
			e.Setenv("LC_CTYPE", "")
			e.Setenv("PAGE", fmt.Sprint("--no-report=", !long()))
			e.Setenv("FIGURES", fmt.Sprint("--no-figures=", !long()))
			e.Setenv("WORKERS", map[bool]string{false: "1", true: "2"}[long()])
			e.Setenv("REPLICATIONS", map[bool]string{false: "30", true: "50"}[long()])
			return nil
		},
	})
}

// long says whether the tests have their exhaustive sizes.
func long() bool { return os.Getenv("TROUPE_LONG") != "" }

// waitFor waits until a file has so many lines, or a word: waitfor FILE LINES, waitfor FILE WORD.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[1])
	if !await.Poll(func() bool {
		data, failed := os.ReadFile(ts.MkAbs(args[0]))
		return failed == nil && (err == nil && bytes.Count(data, []byte("\n")) >= want || err != nil && bytes.Contains(data, []byte(args[1])))
	}) {
		ts.Fatalf("%s has no %s after %v", args[0], args[1], await.Limit)
	}
}

// Every command has an example, and every example starts with the program's name and parses.
func TestExamples(t *testing.T) {
	root := rootCommand("troupe", sim.Kinds())
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				all = append(all, sub)
				walk(sub)
			}
		}
	}
	walk(root)
	if len(all) < 9 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, c := range all {
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			line = strings.Split(strings.Split(strings.TrimSpace(line), "   ")[0], "|")[0]
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "troupe" {
				t.Errorf("troupe %s: the example %q does not start with troupe and a command", c.Name(), line)
				continue
			}
			found, rest, err := root.Find(words[1:])
			if err != nil || found == root {
				t.Errorf("troupe %s: the example %q is no command: %v", c.Name(), line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("troupe %s: the example %q: %v", c.Name(), line, err)
			}
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if n := len([]rune(line)); n > 110 {
				t.Errorf("troupe %s: a line of its help has %d characters", c.Name(), n)
			}
		}
	}
}

// A misspelt command is misuse, with a suggestion.
func TestMisspelt(t *testing.T) {
	var out, errs bytes.Buffer
	if code := command(context.Background(), []string{"rnu"}, &out, &errs); code != term.Misused {
		t.Errorf("exit code %d, want %d", code, term.Misused)
	}
	if !strings.Contains(errs.String(), "Did you mean this?\n\trun") || out.Len() > 0 {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}
