// Package page is the page of the playground: one HTML file without network, with the program of playground/wasm
// inside, and five pictures for browsers that cannot run it.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	_ "embed"

	"troupe/playground"
)

// Names of the files that Build makes and this package embeds, in the directory built.
const (
	ProgramFile = "playground.wasm.gz"
	ExecFile    = "wasm_exec.js"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string
	//go:embed page.js
	scriptText string

	// built has what go run ./playground/wasm wrote before this program was compiled; a release does that.
	//
	//go:embed built
	built embed.FS
)

// Program is the program of the page.
type Program struct {
	Gzip []byte // WebAssembly, compressed
	Exec []byte // wasm_exec.js of the Go that compiled it
}

// ErrNotBuilt: this troupe was compiled without the program of the page.
var ErrNotBuilt = errors.New("this troupe was built without the program of the playground")

// Builtin returns the program that this binary has inside, or ErrNotBuilt.
func Builtin() (*Program, error) {
	program, err := built.ReadFile("built/" + ProgramFile)
	if err != nil {
		return nil, ErrNotBuilt
	}
	exec, err := built.ReadFile("built/" + ExecFile)
	if err != nil {
		return nil, ErrNotBuilt
	}
	return &Program{program, exec}, nil
}

// Build compiles the program from a clone of troupe with the go command. Equal sources and equal versions of Go give
// equal bytes.
func Build(ctx context.Context, clone string) (*Program, error) {
	dir, err := os.MkdirTemp("", "troupe-playground-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "playground.wasm")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "./playground/wasm")
	c.Dir = clone
	c.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOWASM=",
		"GOFIPS140=off")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build of the playground in %s: %w\n%s", clone, err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(program); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	c = exec.CommandContext(ctx, "go", "env", "GOROOT")
	c.Dir = clone
	root, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return nil, err
	}
	return &Program{packed.Bytes(), script}, nil
}

// Page is the page as it is written and served.
type Page struct {
	HTML []byte
	CSP  string // the policy for content that it states itself, for a header
}

// Render makes the page around a program. Without one (nil) it is the page of five pictures, and says so.
func Render(p *Program) (*Page, error) {
	var d struct {
		CSP, Style, Exec, Script, Program string
		Scenes                            []scene
		Kinds                             []string
	}
	if p == nil {
		p = &Program{}
	}
	d.Style, d.Exec, d.Script = styleText, string(p.Exec), scriptText
	d.Program = base64.StdEncoding.EncodeToString(p.Gzip)
	d.CSP = fmt.Sprintf("default-src 'none'; script-src %s %s 'wasm-unsafe-eval'; style-src %s; img-src data:; "+
		"base-uri 'none'; form-action 'none'", hash(d.Exec), hash(d.Script), hash(d.Style))
	d.Kinds = playground.Kinds()
	for _, s := range playground.Scenes {
		one, err := draw(s)
		if err != nil {
			return nil, err
		}
		d.Scenes = append(d.Scenes, one)
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"text": html.EscapeString, "inc": func(i int) int { return i + 1 },
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, d); err != nil {
		return nil, err
	}
	return &Page{b.Bytes(), d.CSP}, nil
}

// hash is the source expression of an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// scene is a guided game with its picture.
type scene struct {
	playground.Scene
	Links                       []string // of its marks
	Names                       []string // of the policies that the marks look at
	Plane, Regret, Words, Shown string
}

// draw plays a scene to the mark that its picture shows.
func draw(s playground.Scene) (scene, error) {
	one := scene{Scene: s}
	for i, m := range s.Marks {
		state := s.State(i)
		one.Links = append(one.Links, state.Link())
		one.Names = append(one.Names, state.Players[m.Look].Name())
	}
	mark := s.Picture
	state := s.State(mark)
	g, err := playground.Play(state.Setup, state.At)
	if err != nil {
		return one, fmt.Errorf("scene %s: %w", s.Name, err)
	}
	one.Plane, one.Words, one.Shown = g.Plane(state.Look, 320), g.Words(state.Look), s.Marks[mark].Text
	if g, err = playground.Play(state.Setup, state.Rounds); err != nil {
		return one, fmt.Errorf("scene %s: %w", s.Name, err)
	}
	one.Regret = g.Regret(state.Look, 320, 200)
	return one, nil
}
