package troupe_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"troupe/experiments"
	"troupe/internal/golden"
	"troupe/policy"
	"troupe/spec"
	"troupe/verify"
)

// documents are the pages whose words in backquotes are held against the code.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, more...)
	}
	pages := make(map[string]string)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	return pages
}

// declared lists what the module declares at top level: "rng.Source", "rng.Source.Word" (a method
// or a field) and, for tests, benchmarks and fuzz targets, "TestLaws"; and the names of its packages.
func declared(t *testing.T) (names, packages map[string]bool) {
	t.Helper()
	names, packages = make(map[string]bool), make(map[string]bool)
	for _, dir := range append(slices.Collect(maps.Keys(layers)), ".") {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		pkg := dir[strings.LastIndexByte(dir, '/')+1:]
		packages[pkg] = true
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			isTest := strings.HasSuffix(file, "_test.go")
			for _, d := range tree.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					switch {
					case isTest:
						names[d.Name.Name] = true
					case d.Recv == nil:
						names[pkg+"."+d.Name.Name] = true
					default:
						of := d.Recv.List[0].Type
						for {
							if star, ok := of.(*ast.StarExpr); ok {
								of = star.X
							} else if index, ok := of.(*ast.IndexExpr); ok {
								of = index.X
							} else {
								break
							}
						}
						names[pkg+"."+of.(*ast.Ident).Name+"."+d.Name.Name] = true
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						switch s := s.(type) {
						case *ast.ValueSpec:
							for _, n := range s.Names {
								names[pkg+"."+n.Name] = true
							}
						case *ast.TypeSpec:
							names[pkg+"."+s.Name.Name] = true
							if body, ok := s.Type.(*ast.StructType); ok {
								for _, f := range body.Fields.List {
									for _, n := range f.Names {
										names[pkg+"."+s.Name.Name+"."+n.Name] = true
									}
								}
							}
						}
					}
				}
			}
		}
	}
	return names, packages
}

var (
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	testName   = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	identifier = regexp.MustCompile(`^([a-z]+)(\.[A-Z]\w*){1,2}$`)
	ourFile    = regexp.MustCompile(`^[\w-]+(/[\w.-]+)*\.(go|md|toml)$`)
	embedded   = regexp.MustCompile(`^(paper|classification)/[\w-]+$`)
)

// TestDocumentsAreTrue: what the pages name in backquotes exists — tests, exported names with their
// package, files, embedded experiments — so that renaming something turns its page red.
func TestDocumentsAreTrue(t *testing.T) {
	names, packages := declared(t)
	var runs []string
	for _, e := range experiments.All() {
		runs = append(runs, e.Name)
	}
	checked := 0
	for page, text := range documents(t) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			word, ok := m[1], true
			switch {
			case testName.MatchString(word):
				ok = names[word]
			case identifier.MatchString(word) && packages[word[:strings.IndexByte(word, '.')]]:
				ok = names[word]
			case ourFile.MatchString(word) && strings.Contains(word, "/"):
				_, err := os.Stat(filepath.FromSlash(word))
				ok = err == nil
			case embedded.MatchString(word):
				ok = slices.Contains(runs, word)
			default:
				continue
			}
			checked++
			if !ok {
				t.Errorf("%s speaks of `%s`, which does not exist", page, word)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d words were checked; the pages have changed their ways", checked)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks: a link to a file leads to one, and its fragment to a heading there.
func TestLinks(t *testing.T) {
	pages := documents(t)
	slugs := func(page string) []string {
		var out []string
		for _, h := range heading.FindAllStringSubmatch(pages[page], -1) {
			out = append(out, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
		}
		return out
	}
	checked := 0
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, fragment, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(target, ":") {
				continue // elsewhere
			}
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			checked++
			if _, err := os.Stat(filepath.FromSlash(file)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[0])
			} else if fragment != "" && !slices.Contains(slugs(file), fragment) {
				t.Errorf("%s: %s has no heading #%s", page, file, fragment)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were checked", checked)
	}
}

// TestIndex: docs/README.md links every guide and every page of reference.
func TestIndex(t *testing.T) {
	pages := documents(t)
	for page := range pages {
		if dir := path.Dir(page); dir != "docs/guide" && dir != "docs/reference" {
			continue
		}
		from := strings.TrimPrefix(page, "docs/")
		if !strings.Contains(pages["docs/README.md"], "]("+from+")") && !strings.Contains(pages["docs/README.md"], "]("+from+"#") {
			t.Errorf("docs/README.md has no link to %s: which task is it for?", page)
		}
	}
}

// inside are packages without an example: programs, embedded files, and what only the program uses.
var inside = []string{"cli", "cmd/troupe", "experiments", "report", "report/chart", "report/coin", "report/forest", "spec", "verify", "serve/api",
	"serve/personalizer", "eventlog/natslog", "eventlog/raftlog/raftnode", "serve/fault", "serve/recent", "serve/decide",
	"serve/model", "serve/candidates", "serve/fold", "serve/choose", "eventlog/eventlogtest", "deploy", "release",
	"docs/guide/router", "playground/page", "playground/wasm"}

// TestPackagesHaveExamples: every public package has an example with output, which go test runs.
func TestPackagesHaveExamples(t *testing.T) {
	for dir := range layers {
		if strings.HasPrefix(dir, "internal/") || strings.HasPrefix(dir, "cli/") || slices.Contains(inside, dir) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range doc.Examples(file) {
				found = found || e.Output != ""
			}
		}
		if !found {
			t.Errorf("the package %s has no example with output", dir)
		}
	}
}

// aPage is the most words of a decision: two pages of paper.
const aPage = 1000

// TestADRs: every decision has its status, its date, and what else was possible, on a page. docs/design/adr/README.md is
// their index, which this test writes.
func TestADRs(t *testing.T) {
	pages := documents(t)
	index := "# Decisions\n\n" +
		"Each page is one decision with its date, its alternatives and its cost. It is accepted, or superseded by a later one, and " +
		"then it is not changed any more. Mechanisms and formats are in the reference, figures in the record.\n\n" +
		"| | Decision | Status | Date |\n| --- | --- | --- | --- |\n"
	form := regexp.MustCompile(`(?m)^Status: (proposed|accepted|superseded by \[ADR (\d+)\].*)\. Date: (\d{4}-\d{2}-\d{2})\.$`)
	numbers := []int{0}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		text := pages[page]
		if path.Dir(page) != "docs/design/adr" || path.Base(page) == "README.md" {
			continue
		}
		if n := len(strings.Fields(text)); n > aPage {
			t.Errorf("%s has %d words, at most %d: mechanisms belong to docs/reference, figures to docs/record", page, n, aPage)
		}
		for _, h := range []string{"Context", "Decision", "Alternatives", "Consequences"} {
			if !strings.Contains(text, "\n## "+h+"\n") {
				t.Errorf("%s has no section %s", page, h)
			}
		}
		var n int
		first, _, _ := strings.Cut(text, "\n")
		status := form.FindStringSubmatch(text)
		_, title, ok := strings.Cut(first, ". ")
		if _, err := fmt.Sscanf(first, "# %d.", &n); err != nil || !ok || status == nil {
			t.Errorf("%s has not the lines \"# 7. Title\" and \"Status: accepted. Date: 2026-11-21.\"", page)
			continue
		}
		for k := numbers[len(numbers)-1] + 1; k < n; k++ {
			index += fmt.Sprintf("| %d | no page has this number | | |\n", k)
		}
		numbers = append(numbers, n)
		word := status[1]
		if status[2] != "" {
			word = "superseded by " + status[2]
		}
		index += fmt.Sprintf("| [%d](%s) | %s | %s | %s |\n", n, path.Base(page), title, word, status[3])
	}
	if len(numbers) < 40 {
		t.Errorf("only %d decisions were found", len(numbers))
	}
	golden.Compare(t, "docs/design/adr/README.md", index)
}

// TestDocumentsAreComplete: every package has its row in docs/reference/packages.md, and every policy is
// in the changelog, as CONTRIBUTING.md asks.
func TestDocumentsAreComplete(t *testing.T) {
	pages := documents(t)
	for dir := range layers {
		if !strings.Contains(pages["docs/reference/packages.md"], "| `"+dir+"` |") {
			t.Errorf("docs/reference/packages.md has no row for the package %s", dir)
		}
	}
	for _, kind := range spec.Names(policy.Kinds) {
		if !strings.Contains(pages["CHANGELOG.md"], "`"+kind+"`") {
			t.Errorf("CHANGELOG.md does not speak of the policy %s", kind)
		}
	}
}

// firstCell is the labels that a row of a table of docs/design/paper.md is about.
var firstCell = regexp.MustCompile(`(?m)^\| ([^|]*` + "`" + `[^|]*) \|`)

// figure is a number of two digits or more, with commas or blanks between thousands.
var figure = regexp.MustCompile(`\d{1,3}(?:[, \x{a0}]\d{3})+|\d+\.\d+|\d{2,}`)

// plainFigure is a figure without what stands between its thousands.
func plainFigure(text string) string {
	return strings.NewReplacer(",", "", " ", "", "\u00a0", "").Replace(text)
}

// TestReadmeFigures: each figure in the table of the README is on a page of the record that its row links, and a row
// that links one has some.
func TestReadmeFigures(t *testing.T) {
	pages := documents(t)
	_, table, _ := strings.Cut(pages["README.md"], "\n## What you can rely on\n")
	table, _, _ = strings.Cut(table, "\n## ")
	link := regexp.MustCompile(`\((docs/record/[^)]*)\)`)
	rows, seen := 0, 0
	for row := range strings.Lines(table) {
		var record []string
		for _, l := range link.FindAllStringSubmatch(row, -1) {
			for _, f := range figure.FindAllString(pages[l[1]], -1) {
				record = append(record, plainFigure(f))
			}
		}
		if len(record) == 0 {
			continue
		}
		rows++
		for _, f := range figure.FindAllString(link.ReplaceAllString(row, ""), -1) {
			if seen++; !slices.Contains(record, plainFigure(f)) {
				t.Errorf("no page of the record that the row links has %s: %s", f, strings.TrimSpace(row))
			}
		}
	}
	if rows < 3 || seen < 9 {
		t.Errorf("%d rows of the table link the record, with %d figures: expected 3 and 9", rows, seen)
	}
}

// TestPaperPage: docs/design/paper.md and docs/record/verify.html speak of the statements that `troupe verify` checks.
// Every label with a check is in a row of docs/design/paper.md and has its place in
// docs/record/verify.html, which counts as many checks as there are; every row is about something that is
// checked, but for the two equations that are code.
func TestPaperPage(t *testing.T) {
	page, html := documents(t)["docs/design/paper.md"], ""
	if text, err := os.ReadFile(filepath.FromSlash("docs/record/verify.html")); err != nil {
		t.Fatal(err)
	} else {
		html = string(text)
	}
	rows := make(map[string]bool)
	for _, row := range firstCell.FindAllStringSubmatch(page, -1) {
		for _, label := range quoted.FindAllStringSubmatch(row[1], -1) {
			rows[label[1]] = true
		}
	}
	labels := verify.Labels()
	for _, label := range labels {
		if !rows[label] {
			t.Errorf("docs/design/paper.md has no row for %s, which is checked", label)
		}
		if !strings.Contains(html, `id="`+label+`"`) {
			t.Errorf("docs/record/verify.html has no %s; it is what troupe verify writes", label)
		}
	}
	code := []string{"eq:rr_closed_form", "eq:beta", "cor:ts"} // cor:ts is the second label of claim:ts
	for label := range rows {
		if !slices.Contains(labels, label) && !slices.Contains(code, label) {
			t.Errorf("docs/design/paper.md has a row for %s, which nothing checks", label)
		}
	}
	texts := documents(t)
	script, err := os.ReadFile(filepath.FromSlash(".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	texts[".ci/run"] = string(script)
	for name, text := range texts {
		for _, m := range regexp.MustCompile(`\b(\d+) checks\b`).FindAllStringSubmatch(text, -1) {
			if m[1] != fmt.Sprint(len(verify.Checks)) && !strings.HasPrefix(name, "docs/record/") {
				t.Errorf("%s speaks of %s; verify has %d", name, m[0], len(verify.Checks))
			}
		}
	}
	if n := fmt.Sprintf("%d of %d planted faults noticed", len(verify.Checks), len(verify.Checks)); !strings.Contains(html, n) {
		t.Errorf("docs/record/verify.html does not say %q", n)
	}
}
