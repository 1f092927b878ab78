package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/serve"
)

func clusterVerifyCommand() *cobra.Command {
	var at clusterFlags
	c := &cobra.Command{
		Use:   "verify",
		Short: "Let each node read all files of its replica, one node after the other",
		Long: `Every entry is compared with its checksum, its place and the hashes in the entries around it. Each
node does so by itself once a week, see --verify-every and --verify-share of troupe serve; this
command does it now, and without pauses. A node that finds damage lets another one lead and repairs
its files from the others, see troupe cluster status. The exit code is 1 when a node found damage or
did not answer. Where the nodes have --keys, set TROUPE_KEY to a key with the scope admin.`,
		Example: `  troupe cluster verify --cluster cluster/a.example/cluster.toml`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := at.read(cmd.Context())
			if err != nil {
				return err
			}
			return config.verify(cmd.Context(), cmd.OutOrStdout(), os.Getenv("TROUPE_KEY"))
		},
	}
	at.flags(c.Flags())
	return c
}

// verify lets each node read its files, and says what each found.
func (c *clusterConfig) verify(ctx context.Context, w io.Writer, key string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	bad := 0
	for _, n := range c.Nodes {
		begun := time.Now()
		var r serve.ReplicaCheck
		err := errors.New("--url does not have it")
		if n.URL != "" {
			r, err = n.checkReplica(ctx, key)
		}
		switch took := time.Since(begun).Seconds(); {
		case err != nil:
			bad++
			fmt.Fprintf(t, "%s\t\t%v\n", n.Name, err)
		case len(r.Damage) > 0:
			bad++
			fmt.Fprintf(t, "%s\tentries %d to %d\tdamaged: %s\n", n.Name, r.First, r.Last, r.Damage[0])
		default:
			fmt.Fprintf(t, "%s\tentries %d to %d\twhole, %.1f s\n", n.Name, r.First, r.Last, took)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return term.Silently(term.Failed, errors.New("not all replicas were found whole"))
	}
	return nil
}
