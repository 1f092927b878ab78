//go:build !js

// Command wasm is the program of the playground's page, compiled for a browser: it hands the page's script an object
// "troupe" with which it plays and draws. Compiled for the machine itself it is the command that builds that program
// into playground/page, from where the next go build takes it:
//
//	go run ./playground/wasm
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"troupe/playground/page"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "wasm:", err)
		os.Exit(1)
	}
}

func build() error {
	p, err := page.Build(context.Background(), ".")
	if err != nil {
		return err
	}
	dir := filepath.Join("playground", "page", "built")
	if err := os.WriteFile(filepath.Join(dir, page.ProgramFile), p.Gzip, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, page.ExecFile), p.Exec, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes\n", filepath.Join(dir, page.ProgramFile), len(p.Gzip))
	return nil
}
