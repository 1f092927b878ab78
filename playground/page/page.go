// Package page is the page of the playground: one HTML file without network, with the program of playground/wasm
// inside, and five pictures for browsers that cannot run it.
//
// The program is committed in the directory built, so that every build of troupe has it. go run ./playground/wasm writes it
// again; TestSameInWebAssembly fails when it plays or draws otherwise than the code beside it.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"strings"
	"text/template"

	_ "embed"

	"troupe/playground"
)

// Names of the files in the directory built, which go run ./playground/wasm writes and this package embeds.
const (
	ProgramFile = "playground.wasm.gz"
	ExecFile    = "wasm_exec.js"
	GoFile      = "go-version" // of the compiler, whose wasm_exec.js belongs to the program
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string
	//go:embed page.js
	scriptText string

	// built has what go run ./playground/wasm wrote.
	//
	//go:embed built
	built embed.FS
)

// Program is the program of the page.
type Program struct {
	Gzip []byte // WebAssembly, compressed
	Exec []byte // wasm_exec.js of the Go that compiled it
	Go   string // that Go: go1.26.8
}

// ErrNotBuilt is what Builtin returns when troupe was compiled from a tree without the program of the page.
var ErrNotBuilt = errors.New("this troupe was built without the program of the playground; run go run ./playground/wasm in a " +
	"checkout, then build troupe again")

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
	version, err := built.ReadFile("built/" + GoFile)
	if err != nil {
		return nil, ErrNotBuilt
	}
	return &Program{program, exec, strings.TrimSpace(string(version))}, nil
}

// The headline of the page and what it is about, which a link to it shows, too.
const (
	title = "Watch an ensemble choose"
	about = "A bandit in the plane: playing an arm x pays ⟨x, θ*⟩ plus noise, and no policy knows θ*. Play a scene, or drag θ*. " +
		"The policies, instances and noise are those of troupe run."
)

// Page is the page as it is written and served.
type Page struct {
	HTML []byte
	CSP  string // the policy for content that it states itself, for a header
}

// Render makes the page around a program. Without one (nil) it is the page of five pictures, and says so.
func Render(p *Program) (*Page, error) {
	var d struct {
		CSP, Style, Exec, Script, Program string
		Title, About                      string
		Scenes                            []scene
		Kinds                             []string
	}
	if p == nil {
		p = &Program{}
	}
	d.Title, d.About = title, about
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
	Players                     []string // names of all its policies
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
	for _, p := range state.Players {
		one.Players = append(one.Players, p.Name())
	}
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
