package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
	"troupe/serve/fold"
)

func clusterSalvageCommand() *cobra.Command {
	var at clusterFlags
	var nodes []string
	var data, words string
	c := &cobra.Command{
		Use:   "salvage DIR",
		Short: "Begin a new cluster with what the one disk that is left has, when the others are gone for good",
		Long: `For a cluster of which all disks but one are gone for good. Stop the server of that node first. The
command reads its replica. It says which entries it has, and from which one on entries may be missing
that callers were told of. Nothing is written before you type these words as --accept-loss.

Then DIR/log has the entries, as from troupe cluster export, and DIR/cluster the files of a new cluster
with the same keys, as from troupe cluster init --import. Events keep their ids and entries their
numbers. It is refused while another node answers. After an interruption, give the same command again.`,
		Example: `  troupe cluster salvage rescue --cluster /etc/troupe/cluster.toml --data /var/lib/troupe
  troupe cluster salvage rescue --cluster a/cluster.toml --data data --accept-loss "entries after 9 may be missing"`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(at.urls) > 0 {
				return term.Misuse(errors.New("--url: expected --cluster, the file of the node whose disk is left"))
			}
			config, err := at.read(cmd.Context())
			if err != nil {
				return err
			}
			if err := config.onlyStream("see troupe cluster recover"); err != nil {
				return err
			}
			if data == "" {
				return term.Misuse(errors.New("--data is missing, expected the data directory that is left"))
			}
			list := config.Nodes
			if len(nodes) > 0 {
				if list, err = parseNodes(nodes); err != nil {
					return term.Misuse(err)
				}
			}
			return config.salvage(cmd.Context(), cmd.OutOrStdout(), args[0], data, words, list)
		},
	}
	c.Flags().StringVar(&at.file, "cluster", "", "cluster.toml of the node; without it the one that TROUPE_CLUSTER names")
	c.Flags().StringVar(&at.ca, "ca", "", caHelp)
	c.Flags().StringVar(&data, "data", "", "data directory of the node, which is stopped")
	c.Flags().StringSliceVar(&nodes, "nodes", nil, "the nodes of the new cluster; without it those of the old one")
	c.Flags().StringVar(&words, "accept-loss", "", "the words that the command says, typed again")
	return c
}

func (c *clusterConfig) salvage(ctx context.Context, w io.Writer, out, data, words string, list []clusterNode) error {
	folder := filepath.Join(out, "cluster")
	if err := emptyOut(folder); err != nil {
		return term.Misuse(fmt.Errorf("%s is not empty: a second cluster from one disk would be two logs", folder))
	}
	secrets, err := serve.ReadKeys(c.folder())
	if err != nil {
		return term.Misuse(err)
	}
	for _, n := range c.ask(ctx).Nodes {
		if n.answers() {
			return term.Misuse(fmt.Errorf("%s answers at %s: while another node has its disk, start all that are left; "+
				"stop the server of the node that is salvaged", n.Name, n.URL))
		}
	}
	r, damage, err := eventlog.ReadRemains(filepath.Join(data, "log"), secrets.Batches())
	switch {
	case err != nil:
		return source.OpenError(data, err)
	case damage != nil:
		return fmt.Errorf("the replica in %s is damaged: %v: troupe cluster export --until %d copies what is before it, "+
			"and troupe cluster init --import makes a cluster of that", data, damage, r.Last)
	case r.Last < r.First:
		return term.Misuse(fmt.Errorf("the replica in %s has no entries", data))
	}
	want := fmt.Sprintf("entries after %d may be missing", r.Last)
	if err := sayRemains(w, c, r, data); err != nil {
		return err
	}
	switch words {
	case want:
	case "":
		return fmt.Errorf("nothing was written: to go on, give --accept-loss %q", want)
	default:
		return term.Misuse(fmt.Errorf("--accept-loss %q: expected %q; nothing was written", words, want))
	}
	rescue := filepath.Join(out, "log")
	if err := c.export(ctx, w, rescue, "", data, 0); err != nil {
		return err
	}
	next, err := makeCluster(folder, list, engineStream, rescue, 0, true)
	if err != nil {
		return err
	}
	first := filepath.Join(folder, list[0].Name, clusterFile)
	fmt.Fprintf(w, "%s: %d nodes in %s, with empty data directories:\n", next.Cluster, len(list), folder)
	for _, n := range list[1:] {
		fmt.Fprintf(w, "on %s: troupe serve --cluster %s --data DIR\n", n.Name, filepath.Join(folder, n.Name, clusterFile))
	}
	_, err = fmt.Fprintf(w, "on %s, then: troupe cluster import %s --cluster %s --data DIR\nand: troupe serve --cluster %s "+
		"--data DIR\nkeep %s away from the nodes\n", list[0].Name, rescue, first, first,
		filepath.Join(folder, authorityDir))
	return err
}

// sayRemains says which entries the disk has, and which may be missing.
func sayRemains(w io.Writer, c *clusterConfig, r eventlog.Remains, data string) error {
	fmt.Fprintf(w, "%s has entries %d to %d, all whole\n", data, r.First, r.Last)
	if r.Settled < r.Last {
		fmt.Fprintf(w, "a majority had those up to %d for certain; callers may not have been told of %d to %d, which count "+
			"from now on\n", r.Settled, r.Settled+1, r.Last)
	}
	others := slices.DeleteFunc(c.names(), func(n string) bool { return n == c.Node })
	since := ""
	if !r.Written.IsZero() {
		since = ", written about " + r.Written.UTC().Format(time.RFC3339) + " or later"
	}
	_, err := fmt.Fprintf(w, "from entry %d on%s, only the disks of %s may have had entries that callers were told of\n",
		r.Last+1, since, strings.Join(others, ", "))
	if err != nil {
		return err
	}
	seqs, err := fold.Files(filepath.Join(data, snapshotDir)).List()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(seqs) > 0 && slices.Max(seqs) > r.Last {
		fmt.Fprintf(w, "a snapshot here is of entry %d: entries %d to %d were there for certain, and are missing\n",
			slices.Max(seqs), r.Last+1, slices.Max(seqs))
	}
	return nil
}
