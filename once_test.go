package troupe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A policy is written once: outside its package, and the program that lists it, code asks for abilities (bandit) and
// not for a concrete kind. A case clause or an assertion that names *policy.X fails, with its place.
func TestPoliciesAreWrittenOnce(t *testing.T) {
	files := token.NewFileSet()
	seen := eachFile(t, files, ".", func(dir string) bool { return dir == "policy" || dir == "cli" }, func(_ string, f *ast.File) {
		for _, e := range concrete(f) {
			t.Errorf("%v names a concrete policy; ask for an ability of package bandit", files.Position(e.Pos()))
		}
	})
	if seen < 100 {
		t.Errorf("%d files were read, expected the whole module", seen)
	}
	planted, err := parser.ParseFile(files, "planted.go", `package p
func f(p any) {
	switch p.(type) { case *policy.Atoms: }
	_, _ = p.(*policy.Mixed)
	_ = p.(policy.Options)
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(concrete(planted)); n != 2 {
		t.Errorf("%d concrete policies found where there are 2", n)
	}
}

// eachFile parses the Go files below a directory, without tests, and returns how many there are. Directories that skip
// names, nil for none, and hidden ones are left out.
func eachFile(t *testing.T, files *token.FileSet, root string, skip func(dir string) bool, f func(name string, file *ast.File)) (n int) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(path)
		if d.IsDir() {
			if skip != nil && skip(name) || strings.HasPrefix(d.Name(), ".") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		n++
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err == nil {
			f(name, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// concrete returns the types *policy.X in case clauses and assertions of a file.
func concrete(f *ast.File) (out []ast.Expr) {
	is := func(e ast.Expr) bool {
		star, ok := e.(*ast.StarExpr)
		if !ok {
			return false
		}
		x, ok := star.X.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		p, ok := x.X.(*ast.Ident)
		return ok && p.Name == "policy"
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CaseClause:
			for _, e := range n.List {
				if is(e) {
					out = append(out, e)
				}
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && is(n.Type) {
				out = append(out, n.Type)
			}
		}
		return true
	})
	return out
}
