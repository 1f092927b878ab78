package serve

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDirection: the files of a package need each other in one direction: none needs itself, directly or through others.
func TestDirection(t *testing.T) {
	for _, dir := range packages(t) {
		if circles := arrowsInCircles(fileNeeds(t, dir)); len(circles) > 0 {
			t.Errorf("%s: %d arrows run in circles; move what both files need into a file below them:\n  %s",
				dir, len(circles), strings.Join(circles, "\n  "))
		}
	}
	// The control: a circle of two files, and a file that needs both and is in none.
	fset := token.NewFileSet()
	var files []*ast.File
	for name, text := range map[string]string{
		"a.go": "package p\ntype A struct{ b B }\nfunc (a A) do() {}",
		"b.go": "package p\ntype B struct{}\nfunc (B) of(a A) { a.do() }",
		"c.go": "package p\nvar c A\nvar d B",
	} {
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if got := arrowsInCircles(needsOf(fset, files)); len(got) != 2 || !strings.HasPrefix(got[0], "a.go -> b.go (B)") {
		t.Errorf("the control has the circles %q", got)
	}
}

// packages lists the directories with Go files here and below.
func packages(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			!slices.Contains(dirs, filepath.Dir(path)) {
			dirs = append(dirs, filepath.Dir(path))
		}
		return err
	})
	if err != nil || len(dirs) < 8 {
		t.Fatalf("packages %q, %v", dirs, err)
	}
	return dirs
}

// fileNeeds returns which file of a package needs which others, with the names that it uses.
func fileNeeds(t *testing.T, dir string) map[string]map[string][]string {
	t.Helper()
	fset := token.NewFileSet()
	return needsOf(fset, parseDir(t, fset, dir))
}

// parseDir reads the files of a package without its tests.
func parseDir(t *testing.T, fset *token.FileSet, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// needsOf is fileNeeds for files that were read. Other packages are not read: what a name of theirs is does not matter.
func needsOf(fset *token.FileSet, files []*ast.File) map[string]map[string][]string {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := config.Check("p", fset, files, info) // with errors, because nothing is imported
	out := map[string]map[string][]string{}
	for id, o := range info.Uses {
		from, to := fset.File(id.Pos()), fset.File(o.Pos())
		if o.Pkg() != pkg || to == nil || from == to {
			continue
		}
		if _, local := o.(*types.PkgName); local {
			continue
		}
		a, b := filepath.Base(from.Name()), filepath.Base(to.Name())
		if out[a] == nil {
			out[a] = map[string][]string{}
		}
		if !slices.Contains(out[a][b], o.Name()) {
			out[a][b] = append(out[a][b], o.Name())
		}
	}
	return out
}

// nothing imports packages without names.
type nothing struct{}

func (nothing) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// arrowsInCircles lists the needs between files that need each other, directly or through others.
func arrowsInCircles(needs map[string]map[string][]string) (out []string) {
	reach := map[string]map[string]bool{}
	for from := range needs {
		seen := map[string]bool{}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			for to := range needs[queue[0]] {
				if !seen[to] {
					seen[to] = true
					queue = append(queue, to)
				}
			}
		}
		reach[from] = seen
	}
	for _, a := range slices.Sorted(maps.Keys(needs)) {
		for _, b := range slices.Sorted(maps.Keys(needs[a])) {
			if reach[b][a] {
				slices.Sort(needs[a][b])
				out = append(out, fmt.Sprintf("%s -> %s (%s)", a, b, strings.Join(needs[a][b], ", ")))
			}
		}
	}
	return out
}
