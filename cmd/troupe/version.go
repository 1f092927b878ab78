package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"troupe/sim"
)

// version is the release; between releases it ends in -dev.
const version = "0.1.0-dev"

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

// program returns a hash of this program's file, "" when it cannot be read. It tells results of one
// build from those of another, also where no commit is known.
func program() string {
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
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
