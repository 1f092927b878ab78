package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/playground/page"
	"troupe/sim"
)

func playgroundCommand() *cobra.Command {
	var out, checkout string
	c := &cobra.Command{
		Use:   "playground",
		Short: "Write a page on which one plays with policies in the plane",
		Long: `Writes index.html: one page that opens from a disk, without network. It plays troupe's own policies,
compiled to WebAssembly, on linear bandits in the plane, and shows what they know: θ̂, the confidence
ellipse, every member with its mirror image, the exact probability of each arm, and the regret. θ* can
be dragged. A spec on the page plays the same with troupe run.

The program of the page is in every release. A troupe that was built without it compiles it with go
from a checkout. troupe serve has the page at /playground.`,
		Example: `  troupe playground --out page`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := writePlayground(cmd.Context(), out, checkout)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "open %s\n", file)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "playground", "directory of the page: empty, or not there")
	c.Flags().StringVar(&checkout, "troupe", "", "checkout of troupe to compile the page's program from (default: the "+
		"program inside, then $TROUPE, then the checkout around the working directory)")
	return c
}

// writePlayground writes the page into a directory and returns its file.
func writePlayground(ctx context.Context, dir, checkout string) (string, error) {
	files, err := os.ReadDir(dir)
	switch {
	case err == nil && len(files) > 0:
		return "", term.Misuse(fmt.Errorf("--out: %s is not empty (%s); name another directory", dir, files[0].Name()))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", term.Misuse(fmt.Errorf("--out: %w", err))
	}
	program, err := page.Builtin()
	if err != nil || checkout != "" {
		module := strings.TrimSuffix(reflect.TypeFor[sim.Catalogue]().PkgPath(), "/sim")
		found, none := findCheckout(checkout, module)
		if none != nil && err != nil {
			return "", term.Misuse(fmt.Errorf("%w; a release has it, or: %w", err, none))
		} else if none != nil {
			return "", term.Misuse(none)
		}
		if program, err = page.Build(ctx, found); err != nil {
			return "", err
		}
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
