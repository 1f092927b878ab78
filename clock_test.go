package troupe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ofTheMachine are the places of the server and its log that do not take the clock that they are given, by file: how
// many, and why.
var ofTheMachine = map[string]struct {
	n   int
	why string
}{
	"serve/api/api.go":                {1, "the deadline of a connection"},
	"serve/api/hot.go":                {3, "deadlines of a connection and of a request's context, which the runtime keeps"},
	"serve/api/export.go":             {2, "deadlines of a connection"},
	"eventlog/void.go":                {1, "a tool beside the nodes"},
	"eventlog/snapshot.go":            {1, "a file that another process of the machine is writing"},
	"eventlog/raftlog/raftnet/net.go": {1, "deadlines of a connection"},
	"eventlog/natslog/natslog.go":     {1, "CheckCredentials, which has no options"},
}

// TestOneClock: the server and its log take time from the clock of their options (package timing) alone. Time of day,
// time that passes, timers and tickers of package time, and clocks made on the way, fail with their places.
func TestOneClock(t *testing.T) {
	files, seen := token.NewFileSet(), 0
	for _, root := range []string{"serve", "eventlog"} {
		seen += eachFile(t, files, root, nil, func(name string, f *ast.File) {
			at := clocks(f)
			allowed := ofTheMachine[name]
			if len(at) == allowed.n {
				return
			} else if allowed.n > 0 {
				t.Errorf("%s has %d places with a clock of the machine, %d are known (%s)", name, len(at), allowed.n,
					allowed.why)
			}
			for _, p := range at {
				t.Errorf("%v: take the clock of the options (package timing)", files.Position(p))
			}
		})
	}
	if seen < 100 {
		t.Errorf("%d files were read, expected those of the server and its log", seen)
	}
	planted, err := parser.ParseFile(files, "planted.go", `package p
var a, b = time.Now(), timing.Clock{}
func f() { time.Sleep(1); <-time.After(1); time.AfterFunc(1, f); g(time.Since); _ = time.Second; _ = time.Unix(1, 0) }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(clocks(planted)); n != 6 {
		t.Errorf("%d clocks found where there are 6", n)
	}
}

// TestSleeps: what is left of time.Sleep in tests has its reason in a comment, on its line or above. Tests wait for conditions
// (package internal/await), or in a bubble of synctest.
func TestSleeps(t *testing.T) {
	const most = 30
	n := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") || name == "clock_test.go" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if !strings.Contains(line, "time.Sleep(") {
				continue
			}
			n++
			if !strings.Contains(line, "//") && !strings.Contains(lines[max(i-1, 0)], "//") {
				t.Errorf("%s:%d: a sleep without a reason: wait for a condition with package await", name, i+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n > most || n < 10 {
		t.Errorf("%d sleeps in tests, at most %d", n, most)
	}
}

// clocks returns where a file asks package time for the present or for a wait, or makes a clock.
func clocks(f *ast.File) (at []token.Pos) {
	name := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				return x.Name + "." + s.Sel.Name
			}
		}
		return ""
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if n.Type != nil && name(n.Type) == "timing.Clock" {
				at = append(at, n.Pos())
			}
		case *ast.SelectorExpr:
			switch name(n) {
			case "time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer",
				"time.NewTicker", "time.Tick":
				at = append(at, n.Pos())
			}
		}
		return true
	})
	return at
}
