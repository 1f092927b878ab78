package serve

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDirection: the files of this package need each other in one direction: none needs itself through others.
func TestDirection(t *testing.T) {
	if circles := arrowsInCircles(fileNeeds(t, ".")); len(circles) > 0 {
		t.Errorf("these files need each other in a circle; move what both need into a file below them:\n  %s",
			strings.Join(circles, "\n  "))
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

// fileNeeds returns which file of a package needs which others, with the names that it uses.
func fileNeeds(t *testing.T, dir string) map[string]map[string][]string {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
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
	return needsOf(fset, files)
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
