package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/playground/page"
)

func playgroundCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "playground",
		Short: "Write a page on which one plays with policies in the plane",
		Long: `Writes index.html: one page that opens from a disk, without network. It plays troupe's own policies,
compiled to WebAssembly, on linear bandits in the plane. It shows what they know: θ̂, the confidence
ellipse, every member with its mirror image, the exact probability of each arm, and the regret. θ* can
be dragged. A spec on the page plays the same with troupe run.

troupe serve has the page at /playground.`,
		Example: `  troupe playground --out page`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := writePlayground(out)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "open %s\n", file)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "playground", "directory of the page: empty, or not there")
	return c
}

// writePlayground writes the page into a directory and returns its file.
func writePlayground(dir string) (string, error) {
	files, err := os.ReadDir(dir)
	switch {
	case err == nil && len(files) > 0:
		return "", term.Misuse(fmt.Errorf("--out: %s is not empty (%s); name another directory", dir, files[0].Name()))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", term.Misuse(fmt.Errorf("--out: %w", err))
	}
	program, err := page.Builtin()
	if err != nil {
		return "", err
	}
	p, err := page.Render(program)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", term.Misuse(fmt.Errorf("--out: %w", err))
	}
	file := filepath.Join(dir, "index.html")
	return file, createFile(file, p.HTML)
}
