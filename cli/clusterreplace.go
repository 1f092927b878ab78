package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/spec"
)

func clusterReplaceCommand() *cobra.Command {
	var file, dir, out, ca string
	c := &cobra.Command{
		Use:   "replace NODE=HOST[:PORT[/CALLERPORT]]",
		Short: "Make the files that put another machine in the place of a node",
		Long: `For a machine that is gone, or a folder that is lost. The node keeps its name. It writes a folder for
each node: all files of the replaced one, with a new certificate, and cluster.toml for the others.
Start the new machine with an empty data directory: it takes the log from the others. Then copy
cluster.toml to the others, and restart one after the other, each with troupe cluster drain before.

It is refused while the node still answers, and if the others are no majority that serves. Revoke the
certificate of the machine that is gone if somebody else may have it.`,
		Example: `  troupe cluster replace b.example=b2.example --cluster a.example/cluster.toml --authority authority --out new`,
		Args:    term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return term.Misuse(errors.New("--cluster is missing, expected the cluster.toml of another node"))
			}
			config, err := readCluster(file)
			if err != nil {
				return term.Misuse(err)
			}
			if err := config.trust(ca, ""); err != nil {
				return term.Misuse(err)
			}
			a, err := readAuthority(dir)
			if err != nil {
				return term.Misuse(err)
			}
			if err := emptyOut(out); err != nil {
				return term.Misuse(err)
			}
			n, err := config.replace(args[0])
			if err != nil {
				return term.Misuse(err)
			}
			if err := config.mayReplace(cmd.Context(), n.Name); err != nil {
				return fmt.Errorf("%s is not replaced, nothing was written: %w", n.Name, err)
			}
			return writeReplacement(cmd.OutOrStdout(), config, a, n, out)
		},
	}
	c.Flags().StringVar(&file, "cluster", "", "cluster.toml of another node, with keys.json beside it")
	c.Flags().StringVar(&dir, "authority", "", authorityHelp)
	c.Flags().StringVar(&out, "out", "", "directory for the folders, empty or not there")
	c.Flags().StringVar(&ca, "ca", "", caHelp)
	return c
}

// emptyOut refuses a directory that has files.
func emptyOut(out string) error {
	if out == "" {
		return errors.New("--out is missing, expected a directory for the folders")
	}
	files, err := os.ReadDir(out)
	if err == nil && len(files) > 0 {
		return fmt.Errorf("--out %s is not empty", out)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// replace gives the node that text names another address. Callers reach it by the scheme of before.
func (c *clusterConfig) replace(text string) (n clusterNode, err error) {
	if n, err = parseNode(text); err != nil {
		return n, err
	}
	old := c.named(n.Name)
	if old == nil {
		return n, fmt.Errorf("%s is not one of the nodes %s%s", n.Name, strings.Join(c.names(), ", "),
			spec.Suggest(n.Name, c.names()))
	}
	if c.Node == n.Name {
		return n, fmt.Errorf("%s is the file of node %s: give that of a node that stays", c.file, n.Name)
	}
	if strings.HasPrefix(old.URL, "https:") {
		n.URL = "https:" + strings.TrimPrefix(n.URL, "http:")
	}
	next := &clusterConfig{Nodes: append([]clusterNode(nil), c.Nodes...)}
	next.named(n.Name).Address = n.Address
	return n, next.check(func(i int) string {
		if i < 0 {
			return c.file
		}
		return c.Nodes[i].Name
	})
}

// mayReplace reports why a node may not be replaced now: it still answers, or those that are ready beside it are no
// majority.
func (c *clusterConfig) mayReplace(ctx context.Context, name string) error {
	ready := 0
	var missing []string
	for _, n := range c.ask(ctx).Nodes {
		switch {
		case n.Name == name && n.answers():
			return fmt.Errorf("it answers at %s: stop it first", n.URL)
		case n.Name == name:
		case n.Ready:
			ready++
		case n.Error != "":
			missing = append(missing, fmt.Sprintf("%s does not answer (%s)", n.Name, n.Error))
		default:
			missing = append(missing, fmt.Sprintf("%s is not ready (%s)", n.Name, n.Reason))
		}
	}
	if ready <= len(c.Nodes)/2 {
		return fmt.Errorf("%d of %d other nodes are ready, no majority of the cluster: %s", ready, len(c.Nodes)-1,
			strings.Join(missing, "; "))
	}
	return nil
}

// writeReplacement writes the folders of cluster replace.
func writeReplacement(w io.Writer, c *clusterConfig, a *authority, n clusterNode, out string) error {
	joining, err := c.filesOf(a, n)
	if err != nil {
		return err
	}
	old := c.named(n.Name)
	old.Address, old.URL = n.Address, n.URL
	for _, x := range c.Nodes {
		of := *c
		of.Node = x.Name
		files := map[string][]byte{clusterFile: []byte(of.text())}
		if x.Name == n.Name {
			maps.Copy(files, joining)
		}
		if err := os.MkdirAll(filepath.Join(out, x.Name), 0o700); err != nil {
			return err
		}
		for name, data := range files {
			if err := replaceFile(filepath.Join(out, x.Name, name), data); err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintf(w, "on the new machine, with an empty data directory: troupe serve --cluster %s --data DIR\n"+
		"then copy %s to each other node, and start one after the other again\n",
		filepath.Join(out, n.Name, clusterFile), filepath.Join(out, "NODE", clusterFile))
	return err
}
