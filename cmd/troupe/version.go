package main

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"troupe/sim"
)

// version is the newest release of CHANGELOG.md. "+dev" says that the code has changes since it, those under the
// heading "(unreleased)"; the release commit removes it. TestVersion compares both.
const version = "0.1.0+dev"

// build says which code this is, as far as the binary knows.
func build() sim.Manifest {
	m := sim.Manifest{Troupe: version}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				m.Commit = s.Value
			case "vcs.modified":
				m.Dirty = s.Value == "true"
			}
		}
	}
	return m
}

// program returns a hash that identifies this program's code, "" when its file cannot be read. It tells
// results of one build from those of another, also where no commit is known.
func program() string {
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	id, err := identify(name)
	if err != nil {
		return ""
	}
	return id
}

// identify hashes the build ID that the Go linker wrote into a program, which is itself a hash of all
// that is in it, or the whole file where there is none: to read 60 MB takes longer than many a run.
func identify(name string) (string, error) {
	if id := buildID(name); id != nil {
		sum := sha256.Sum256(id)
		return hex.EncodeToString(sum[:]), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// buildID returns the note with the build ID of an ELF file, nil where there is none or it is empty.
func buildID(name string) []byte {
	f, err := elf.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	section := f.Section(".note.go.buildid")
	if section == nil || section.Size > 1<<12 {
		return nil
	}
	note, err := section.Data()
	if err != nil || len(note) <= 16 { // three lengths, "Go" and the text
		return nil
	}
	return note
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go release",
		Example: "  troupe version",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := build()
			commit := m.Commit
			switch {
			case commit == "":
				commit = "unknown commit"
			case m.Dirty:
				commit += ", modified"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "troupe %s (%s), %s %s/%s\n", m.Troupe, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
