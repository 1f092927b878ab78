package serve

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mostDeclared = 30 // methods that a type of this package and those below declares
	mostMethods  = 40 // methods that a call on any type of the module may choose from
)

// hubs are the types with a larger method set, and its size. A number may only fall: write the new one when it has. The list
// becomes empty; a type that is added to it needs a reason.
var hubs = map[string]int{
	"cli.raftEngine":        45, // a Node is embedded: engine is an interface of the methods that two engines share
	"effects.Model":         86,
	"eventlog.Node":         67,
	"eventlog.Stream":       45,
	"eventlog/raftlog.core": 41,
	// A facade: eventlog.Log, and a method for each ability that a log of several nodes has (eventlog.Voter and so on).
	"eventlog/raftlog/raftnode.Node": 45,

	"internal/gen.isa":      71, // an instruction is a method
	"internal/gen.product":  80, // isa is embedded: a kernel is written in its instructions
	"internal/linalg.Ridge": 52,
	"policy.accumulated":    44,
	"serve.Server":          96,
	"serve.agreement":       44,
	"serve.applier":         58,
	"serve.control":         45,
	"serve.deciding":        41,
	"serve.exports":         43,
	"serve.member":          55,
	"serve.reading":         42,
	"serve/fold.Fold":       121,
	"serve/fold.Model":      43,
}

// TestHubs: a type has few methods, so that what calls it can see what it needs. The methods of embedded types count: a type that
// embeds another one hands all of them on.
func TestHubs(t *testing.T) {
	for _, dir := range packages(t) {
		for name, n := range declared(methodSets(parseTree(t, dir))) {
			if n > mostDeclared {
				t.Errorf("%s declares %d methods, at most %d are allowed; make those that share few fields a type of their own",
					name, n, mostDeclared)
			}
		}
	}
	sets := methodSets(parseTree(t, ".."))
	if len(sets) < 1000 {
		t.Fatalf("%d types in the module", len(sets))
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		n, allowed := len(sets.all(name)), hubs[name]
		switch {
		case allowed == 0 && n > mostMethods:
			t.Errorf("%s has %d methods with those of the types that it embeds, at most %d are allowed; make those that share few fields a "+
				"type of their own, and hold it in a named field", name, n, mostMethods)
		case allowed > 0 && n > allowed:
			t.Errorf("%s has %d methods with those of the types that it embeds, it had %d; the number may only fall", name, n, allowed)
		case allowed > 0 && n < allowed:
			t.Errorf("%s has %d methods and no longer %d: write the new number into hubs, or leave the line out at %d and fewer", name, n, allowed,
				mostMethods)
		}
	}
	for name := range hubs {
		if sets[name] == nil {
			t.Errorf("hubs has %s, which the module has not", name)
		}
	}

	// The control: declared and embedded methods, through a pointer, a type parameter, another package and an interface.
	sets = methodSets(map[string][]*ast.File{
		"p": {parseText(t, `package p
			import other "troupe/q"
			type A struct { *B[int]; other.C; named D }
			type B[T any] struct { I }
			type I interface { five(); six() }
			type D struct {}
			func (a *A) one() {}
			func (A) two() {}
			func (x *B[T]) two() {}
			func (x *B[T]) three() {}
			func (D) seven() {}`)},
		"q": {parseText(t, "package q\ntype C struct{}\nfunc (C) four() {}")},
	})
	if got := slices.Sorted(maps.Keys(sets.all("p.A"))); strings.Join(got, " ") != "five four one six three two" || declared(sets)["p.A"] != 2 {
		t.Errorf("the control has the methods %q", got)
	}
}

func parseText(t *testing.T, text string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// parseTree reads the packages in a directory and below without their tests, by their path in the module.
func parseTree(t *testing.T, root string) map[string][]*ast.File {
	t.Helper()
	module, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]*ast.File{}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" || d.Name() == ".git" {
			return filepath.SkipDir
		}
		full, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(module, full)
		if err != nil {
			return err
		}
		if files := parseDir(t, token.NewFileSet(), name); len(files) > 0 {
			out[filepath.ToSlash(in)] = files
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// methodSet is what a type declares, and the types that it embeds.
type methodSet struct {
	methods map[string]bool
	embeds  []string
}

// typeSets has the types of packages by path and name, such as serve/fold.Fold.
type typeSets map[string]*methodSet

// methodSets reads the types of packages. Those of other modules have no methods here.
func methodSets(packages map[string][]*ast.File) typeSets {
	out := typeSets{}
	of := func(name string) *methodSet {
		if out[name] == nil {
			out[name] = &methodSet{methods: map[string]bool{}}
		}
		return out[name]
	}
	for in, files := range packages {
		for _, f := range files {
			imports := map[string]string{}
			for _, x := range f.Imports {
				to := strings.TrimPrefix(strings.Trim(x.Path.Value, `"`), "troupe/")
				name := path.Base(to)
				if x.Name != nil {
					name = x.Name.Name
				}
				imports[name] = to
			}
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv != nil {
						of(typeName(d.Recv.List[0].Type, in, imports)).methods[d.Name.Name] = true
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if x, ok := s.(*ast.TypeSpec); ok {
							of(in+"."+x.Name.Name).embed(x.Type, in, imports)
						}
					}
				}
			}
		}
	}
	return out
}

// embed adds what a type's definition brings: the methods of an interface, and what is embedded.
func (m *methodSet) embed(x ast.Expr, in string, imports map[string]string) {
	var fields []*ast.Field
	switch x := x.(type) {
	case *ast.StructType:
		fields = x.Fields.List
	case *ast.InterfaceType:
		fields = x.Methods.List
		for _, f := range fields {
			for _, name := range f.Names {
				m.methods[name.Name] = true
			}
		}
	}
	for _, f := range fields {
		if len(f.Names) == 0 {
			m.embeds = append(m.embeds, typeName(f.Type, in, imports))
		}
	}
}

// typeName is a type of a package by path and name, "" for one without a name.
func typeName(x ast.Expr, in string, imports map[string]string) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeName(x.X, in, imports)
	case *ast.IndexExpr:
		return typeName(x.X, in, imports)
	case *ast.IndexListExpr:
		return typeName(x.X, in, imports)
	case *ast.Ident:
		return in + "." + x.Name
	case *ast.SelectorExpr:
		if of, ok := x.X.(*ast.Ident); ok {
			return imports[of.Name] + "." + x.Sel.Name
		}
	}
	return ""
}

// all is the method set of a type with what it embeds.
func (s typeSets) all(name string) map[string]bool {
	out := map[string]bool{}
	seen := map[string]bool{}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		m := s[queue[0]]
		if m == nil || seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		maps.Copy(out, m.methods)
		queue = append(queue, m.embeds...)
	}
	return out
}

// declared counts the methods that each type declares itself.
func declared(s typeSets) map[string]int {
	out := map[string]int{}
	for name, m := range s {
		out[name] = len(m.methods)
	}
	return out
}
