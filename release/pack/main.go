// Command pack makes what a release needs libraries for: the image for containers, and the bill of materials of a
// program. It is a module of its own, so that troupe does not depend on these libraries. go run ./release calls it.
//
//	pack image -o FILE.tar -version V -commit C -time T amd64=PROGRAM arm64=PROGRAM
//	pack root -o FILE.tar -time T PROGRAM
//	pack sbom -o FILE.json -version V PROGRAM
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("expected image, root or sbom")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := f.String("o", "", "file to write")
	version := f.String("version", "", "version of the release")
	commit := f.String("commit", "", "commit that it is built from")
	at := f.String("time", "", "time of that commit, RFC 3339")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	about := facts{version: *version, commit: *commit}
	if args[0] != "sbom" {
		var err error
		if about.time, err = time.Parse(time.RFC3339, *at); err != nil {
			return fmt.Errorf("-time: %w", err)
		}
	}
	if args[0] != "image" && f.NArg() != 1 {
		return fmt.Errorf("%s: expected one program, got %d", args[0], f.NArg())
	}
	switch args[0] {
	case "image":
		return writeImage(*out, about, f.Args())
	case "root":
		return writeRoot(*out, about, f.Arg(0))
	case "sbom":
		return writeBill(*out, *version, f.Arg(0))
	}
	return fmt.Errorf("%q: expected image, root or sbom", args[0])
}
