package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/sim"
)

// version is the one place of the version number: the release that the top heading of CHANGELOG.md describes, with "-dev"
// while that is "(unreleased)". The release commit removes it. TestVersion holds everything else that has the number to it
// (the Python and TypeScript packages, CITATION.cff, the manifests), and writes it there with TROUPE_UPDATE=1.
const version = "0.2.0-dev"

// build says which code this is, as far as the binary knows.
func build() sim.Manifest {
	m := sim.Build()
	m.Troupe = version
	return m
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go release",
		Example: "  troupe version",
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := build()
			commit := m.Commit
			switch {
			case commit == "":
				commit = "commit not recorded, build " + m.Build
			case m.Dirty:
				commit += ", modified, build " + m.Build
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "troupe %s (%s), %s %s/%s\n", m.Troupe, commit, runtime.Version(),
				runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
