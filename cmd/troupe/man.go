package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages, for packagers. It is hidden: nobody needs it twice.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a directory",
		Example: "  troupe man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			date := time.Unix(0, 0).UTC() // equal programs write equal pages
			head := &doc.GenManHeader{Title: "TROUPE", Section: "1", Source: "troupe " + version, Manual: "troupe", Date: &date}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, head, args[0]); err != nil {
				return fmt.Errorf("manual pages: %w", err)
			}
			return nil
		},
	}
}
