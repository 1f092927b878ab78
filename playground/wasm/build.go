//go:build !js

// Command wasm is the program of the playground's page, compiled for a browser: it hands the page's script an object
// "troupe" with which it plays and draws. Compiled for the machine itself it is the command that builds that program
// into playground/page, where it is committed and go build takes it from:
//
//	go run ./playground/wasm
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"troupe/playground/page"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "wasm:", err)
		os.Exit(1)
	}
}

func build() error {
	p, err := compile()
	if err != nil {
		return err
	}
	dir := filepath.Join("playground", "page", "built")
	for name, data := range map[string][]byte{page.ProgramFile: p.Gzip, page.ExecFile: p.Exec, page.GoFile: []byte(p.Go + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d bytes, compiled by %s\n", filepath.Join(dir, page.ProgramFile), len(p.Gzip), p.Go)
	return nil
}

// compile compiles the program of this checkout with the go command. Equal sources and equal versions of Go give equal
// bytes.
func compile() (*page.Program, error) {
	dir, err := os.MkdirTemp("", "troupe-playground-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "playground.wasm")
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "./playground/wasm")
	c.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOWASM=",
		"GOFIPS140=off")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
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
	c = exec.Command("go", "env", "GOROOT", "GOVERSION")
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT GOVERSION: %w", err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(root), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return nil, err
	}
	return &page.Program{Gzip: packed.Bytes(), Exec: script, Go: strings.TrimSpace(version)}, nil
}
