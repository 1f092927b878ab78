package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/sim"
)

// version is the newest release of CHANGELOG.md. "+dev" says that the code has changes since it, those under the
// heading "(unreleased)"; the release commit removes it. TestVersion compares both.
const version = "0.1.0+dev"

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
