// Command mutate measures how many small faults the tests of a package notice: it changes one place of the package at
// random, runs the package's tests with -short, and counts. Nothing in the tree is written: the changed file
// is laid over the old one (go test -overlay).
//
//	go run ./internal/mutate -n 60 -seed 1 ./theory ./internal/stats
//	go run ./internal/mutate -at theory/few.go:38:9,theory/few.go:61:2 -run TestFew ./theory
//
// The second line plays the changes of the named places only, and asks the named tests.
//
// A mutant is killed when the tests fail or do not end in time, and survives when they pass. It prints the survivors,
// each with its place and change, and the share of killed ones with an exact 95 % interval. Mutants that do
// not compile are drawn anew. Some survivors are equivalent programs: a person has to look.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/internal/stats"
)

func main() {
	n := flag.Int("n", 60, "mutants of each package")
	seed := flag.Uint64("seed", 1, "of the choice of places")
	limit := flag.Duration("limit", 75*time.Second, "time of one run of the tests")
	budget := flag.Duration("budget", time.Hour, "time of all")
	at := flag.String("at", "", "places to change, file:line:column with commas between, instead of random ones")
	flag.StringVar(&pattern, "run", "", "the tests to run, as of go test; all by default")
	flag.Parse()
	if flag.NArg() == 0 || *n < 1 {
		fmt.Fprintln(os.Stderr, "usage: mutate [-n 60] [-seed 1] ./package ...")
		os.Exit(2)
	}
	end := time.Now().Add(*budget)
	for _, dir := range flag.Args() {
		if err := run(dir, *at, *n, *seed, *limit, end); err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(1)
		}
	}
}

// pattern selects the tests; "" is all.
var pattern string

// run plays the mutants of one package: those at places, or n random ones where that is "".
func run(dir, places string, n int, seed uint64, limit time.Duration, end time.Time) error {
	all, err := sites(dir)
	if err != nil {
		return err
	}
	if places != "" {
		named := strings.Split(places, ",")
		all = slices.DeleteFunc(all, func(s site) bool { return !slices.Contains(named, s.place()) })
		n = len(all)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: nothing to change", dir)
	}
	if out, err := exec.Command("go", "test", "-short", "-run", pattern, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: the tests fail without a fault:\n%s", dir, out)
	}
	r := rand.New(rand.NewPCG(seed, 0x6d757461))
	order := r.Perm(len(all))
	killed, survived, slow := 0, 0, 0
	for _, i := range order {
		if killed+survived == n || time.Now().After(end) {
			break
		}
		switch verdict, err := all[i].test(dir, limit); {
		case err != nil:
			return err
		case verdict == broken:
		case verdict == alive:
			survived++
			fmt.Printf("survived  %s\n", all[i])
		default:
			killed++
			if verdict == late {
				slow++
			}
		}
	}
	lo, hi := stats.ClopperPearson(killed, max(killed+survived, 1), 0.05)
	fmt.Printf("%s: %d places, %d of %d mutants killed (%d by time): %.2f [%.2f, %.2f]\n",
		dir, len(all), killed, killed+survived, slow, float64(killed)/float64(max(killed+survived, 1)), lo, hi)
	return nil
}

// site is one change of one file.
type site struct {
	file string
	at   token.Position
	what string
	text []byte // of the changed file
}

func (s site) String() string {
	return s.place() + "  " + s.what
}

// place returns file:line:column.
func (s site) place() string {
	return fmt.Sprintf("%s:%d:%d", filepath.ToSlash(s.file), s.at.Line, s.at.Column)
}

// verdicts of one mutant.
type verdict int

const (
	alive verdict = iota
	dead
	late
	broken // it does not compile
)

// test runs the tests of the package on the mutant.
func (s site) test(dir string, limit time.Duration) (verdict, error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	changed, overlay := filepath.Join(tmp, "changed.go"), filepath.Join(tmp, "overlay.json")
	abs, err := filepath.Abs(s.file)
	if err != nil {
		return 0, err
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {abs: changed}})
	if err != nil {
		return 0, err
	}
	for name, text := range map[string][]byte{changed: s.text, overlay: b} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return 0, err
		}
	}
	if exec.Command("go", "vet", "-overlay", overlay, "-printf=false", dir).Run() != nil {
		if exec.Command("go", "build", "-overlay", overlay, dir).Run() != nil {
			return broken, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-short", "-failfast", "-run", pattern, "-overlay", overlay,
		"-timeout", limit.String(), dir).CombinedOutput()
	switch {
	case err == nil:
		return alive, nil
	case ctx.Err() != nil || bytes.Contains(out, []byte("test timed out")):
		return late, nil
	}
	return dead, nil
}

// swaps are the operators and what takes their place.
var swaps = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.LSS: token.LEQ,
	token.LEQ: token.LSS,
	token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR,
	token.LOR: token.LAND,
}

// sites lists the changes of the files of a package that are not tests: another operator, a larger constant, a
// condition that is false, a statement that is gone.
func sites(dir string) (all []site, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		add := func(at token.Pos, what string) {
			var b bytes.Buffer
			if format.Node(&b, set, tree) == nil {
				all = append(all, site{name, set.Position(at), what, b.Bytes()})
			}
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || f.Name.Name == "Doc" || f.Name.Name == "String" || f.Name.Name == "Error" {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				change(n, add)
				return true
			})
		}
	}
	return all, nil
}

// change makes each change of a node, calls add, and takes it back.
func change(n ast.Node, add func(at token.Pos, what string)) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if to, ok := swaps[n.Op]; ok {
			was := n.Op
			n.Op = to
			add(n.OpPos, fmt.Sprintf("%s → %s", was, to))
			n.Op = was
		}
	case *ast.BasicLit:
		was := n.Value
		switch n.Kind {
		case token.INT:
			if v, err := strconv.ParseInt(was, 0, 64); err == nil {
				n.Value = strconv.FormatInt(v+1, 10)
			}
		case token.FLOAT:
			if v, err := strconv.ParseFloat(was, 64); err == nil {
				n.Value = strconv.FormatFloat(1.25*v, 'g', -1, 64)
				if v == 0 {
					n.Value = "0.25"
				}
			}
		}
		if n.Value != was {
			add(n.Pos(), fmt.Sprintf("%s → %s", was, n.Value))
			n.Value = was
		}
	case *ast.IfStmt:
		was := n.Cond
		n.Cond = &ast.BinaryExpr{X: &ast.ParenExpr{X: was}, Op: token.LAND, Y: ast.NewIdent("false")}
		add(n.Pos(), "the condition is false")
		n.Cond = was
	case *ast.BlockStmt:
		for i, s := range n.List {
			switch s := s.(type) {
			case *ast.ExprStmt, *ast.IncDecStmt:
			case *ast.AssignStmt:
				if s.Tok == token.DEFINE {
					continue
				}
			default:
				continue
			}
			n.List[i] = &ast.EmptyStmt{}
			add(s.Pos(), "the statement is gone")
			n.List[i] = s
		}
	}
}
