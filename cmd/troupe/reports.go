package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"troupe/report"
)

func reportCommand() *cobra.Command {
	var figures bool
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "Build the page of a result directory again",
		Long: `Builds report.html, figures/ and tables/ from results.csv and manifest.json of a result
directory. The same files give the same bytes.`,
		Example: `  troupe report runs/size
  troupe report runs/size --no-figures`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := report.Build(args[0], report.Options{NoFigures: figures})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "report   %s\n", paths.Page)
			return err
		},
	}
	c.Flags().BoolVar(&figures, "no-figures", false, "the page only, without figures/ and tables/")
	return c
}
