package troupe_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCINames: each test, package, session and page that .ci/run names is there. The lists are kept by hand, and a name that is
// gone would mean a test that is not run, or one that is run twice.
func TestCINames(t *testing.T) {
	script, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	n := readNames(t)
	for _, fault := range n.faults(string(script)) {
		t.Error(fault)
	}
	if len(n.tests["cli"]) < 100 || len(n.sessions) < 20 || len(n.pages) < 10 {
		t.Errorf("%d tests of cli, %d sessions and %d pages were found", len(n.tests["cli"]), len(n.sessions), len(n.pages))
	}
	for planted, want := range map[string]string{
		"scenes='TestClusterBits|TestClusterGone'":        "TestClusterGone is no test",
		"race ./env 'TestConcurrentBuild|TestScripts'":    "TestScripts is no test of env",
		"few='actionset|fast'":                            "few: there is no package fast",
		"long='^troupe(/(backup|cli/(plan|plot)|ope))?$'": "long: it has no package with plot",
		"alone+='|^TestScripts$/^(run|plan.*|walk)$'":     "TestScripts has no walk",
		`alone+='|^TestGuides$/^(deep|shallow)\.md$'`:     "TestGuides has no shallow",
		"go test ./policy -run 'Sparse|Thick'":            "-run: no test has Thick in its name",
	} {
		if got := n.faults("set -eu\n# TestComment\n" + planted + "\n"); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", planted, got, want)
		}
	}
}

// names are what a list of .ci/run can name.
type names struct {
	tests           map[string][]string // by folder
	sessions, pages []string            // of TestScripts and TestGuides
}

var testFunction = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]`)

func readNames(t *testing.T) names {
	t.Helper()
	n := names{tests: map[string][]string{}}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != "." {
			return filepath.SkipDir
		}
		dir, base := path.Split(name)
		dir = path.Clean(dir)
		switch {
		case dir == "cli/testdata" && strings.HasSuffix(base, ".txtar"):
			n.sessions = append(n.sessions, strings.TrimSuffix(base, ".txtar"))
		case dir == "docs/guide" && strings.HasSuffix(base, ".md"):
			n.pages = append(n.pages, strings.TrimSuffix(base, ".md"))
		case strings.HasSuffix(base, ".go") && !strings.Contains(dir, "testdata"):
			n.tests[dir] = append(n.tests[dir], "") // a package
		}
		if !strings.HasSuffix(base, "_test.go") || strings.Contains(dir, "testdata") {
			return nil
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && testFunction.MatchString(f.Name.Name) {
				n.tests[dir] = append(n.tests[dir], f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// has reports whether a test of any package matches.
func (n names) has(match func(name string) bool) bool {
	for _, all := range n.tests {
		if slices.ContainsFunc(all, func(name string) bool { return name != "" && match(name) }) {
			return true
		}
	}
	return false
}

var (
	ciComment = regexp.MustCompile(`(^|\s)#.*`)
	ciTest    = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*`)
	ciRace    = regexp.MustCompile(`^race \./(\S+) '(.*)'$`)
	ciFew     = regexp.MustCompile(`^few='(.*)'$`)
	ciLong    = regexp.MustCompile(`^long='(.*)'$`)
	ciSub     = regexp.MustCompile(`\^(TestScripts|TestGuides)\$/\^\(([^)]*)\)`)
	ciRun     = regexp.MustCompile(`-run '([^'$]*)'`)
	ciPackage = regexp.MustCompile(`[a-z]+`)
)

// faults are what a script names and is not there.
func (n names) faults(script string) (faults []string) {
	fault := func(format string, a ...any) { faults = append(faults, fmt.Sprintf(format, a...)) }
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(ciComment.ReplaceAllString(strings.TrimSuffix(line, "\n"), ""))
		for _, name := range ciTest.FindAllString(line, -1) {
			if !n.has(func(x string) bool { return x == name }) {
				fault("%s is no test", name)
			}
		}
		if m := ciRace.FindStringSubmatch(line); m != nil {
			for _, name := range strings.Split(m[2], "|") {
				if !slices.Contains(n.tests[m[1]], name) {
					fault("%s is no test of %s", name, m[1])
				}
			}
		}
		if m := ciFew.FindStringSubmatch(line); m != nil {
			for _, dir := range strings.Split(m[1], "|") {
				if n.tests[dir] == nil {
					fault("few: there is no package %s", dir)
				}
			}
		}
		if m := ciLong.FindStringSubmatch(line); m != nil {
			faults = append(faults, n.long(m[1])...)
		}
		for _, m := range ciSub.FindAllStringSubmatch(line, -1) {
			of := map[string][]string{"TestScripts": n.sessions, "TestGuides": n.pages}[m[1]]
			for _, pattern := range strings.Split(m[2], "|") {
				if is := regexp.MustCompile("^" + pattern + "$"); !slices.ContainsFunc(of, is.MatchString) {
					fault("%s has no %s", m[1], pattern)
				}
			}
		}
		for _, m := range ciRun.FindAllStringSubmatch(line, -1) {
			for _, part := range strings.Split(m[1], "|") {
				if part = strings.Trim(part, "^()"); part != "" && !n.has(func(x string) bool { return strings.Contains(x, part) }) {
					fault("-run: no test has %s in its name", part)
				}
			}
		}
	}
	return faults
}

// long looks at a pattern of packages: each of its words is in the path of a package that it matches.
func (n names) long(pattern string) (faults []string) {
	is := regexp.MustCompile(pattern)
	words := map[string]bool{}
	for dir := range n.tests {
		if name := path.Join("troupe", dir); is.MatchString(name) {
			for _, word := range ciPackage.FindAllString(name, -1) {
				words[word] = true
			}
		}
	}
	for _, word := range ciPackage.FindAllString(pattern, -1) {
		if !words[word] {
			faults = append(faults, "long: it has no package with "+word)
		}
	}
	return faults
}
