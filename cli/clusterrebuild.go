package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
	"troupe/spec"
)

func clusterRebuildCommand() *cobra.Command {
	f := serveFlags{}
	c := &cobra.Command{
		Use:   "rebuild NODE",
		Short: "Make the replica of a stopped node again from the other nodes",
		Long: `For a node whose files are damaged, or whose disk is empty. Run it on the node's machine while its
server is stopped. All other nodes must be ready, current and of one digest, and each must find its own
files whole; otherwise the command says why not and changes nothing.

It puts log and snapshots aside as damaged-1, damaged-2, …, takes the log from the others, who go on,
and checks every entry. After an interruption the same command begins again. Where the nodes have
--keys, set TROUPE_KEY to a key with the scope admin.`,
		Example: `  troupe cluster rebuild b.example --cluster /etc/troupe/cluster.toml --data /var/lib/troupe`,
		Args:    term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.cluster == "" {
				f.cluster = os.Getenv("TROUPE_CLUSTER")
			}
			if f.cluster == "" {
				return term.Misuse(errors.New("--cluster is missing: give the cluster.toml of this node, or set " +
					"TROUPE_CLUSTER"))
			}
			return rebuildNode(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &f)
		},
	}
	c.Flags().StringVar(&f.cluster, "cluster", "",
		"cluster.toml of this node; without it the one that TROUPE_CLUSTER names")
	c.Flags().StringVar(&f.data, "data", source.DefaultData, "data directory of this node")
	c.Flags().Int64Var(&f.maxLog, "max-log", 64<<30, "bytes of the event log")
	c.Flags().StringVar(&f.ca, "ca", "", caHelp)
	return c
}

func rebuildNode(ctx context.Context, w, stderr io.Writer, name string, f *serveFlags) (err error) {
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	c, err := newClusterServer(f, logger)
	if err != nil {
		return term.Misuse(err)
	}
	if c.config.named(name) == nil {
		return term.Misuse(fmt.Errorf("%s is not one of the nodes %s%s", name, strings.Join(c.config.names(), ", "),
			spec.Suggest(name, c.config.names())))
	}
	if c.config.Node != name {
		return term.Misuse(fmt.Errorf("%s is the file of node %s: run the command on the machine of %s, with its own "+
			"file", f.cluster, c.config.Node, name))
	}
	key := os.Getenv("TROUPE_KEY")
	target, err := c.config.othersWhole(ctx, key)
	if err != nil {
		return fmt.Errorf("%s is not rebuilt, nothing was changed: %w", name, err)
	}
	begun := time.Now()
	aside, err := eventlog.SetAsideReplica(f.data, eventlog.NodeOptions{Cluster: c.config.Cluster, Name: name},
		"snapshots")
	if err != nil {
		return source.OpenError(f.data, err)
	}
	if aside != "" {
		fmt.Fprintf(w, "the old files are in %s\n", aside)
	}
	if err := c.fetchReplica(ctx, target); err != nil {
		return fmt.Errorf("%s is not rebuilt yet: %w", name, err)
	}
	r, err := eventlog.CheckReplica(filepath.Join(f.data, "log"), c.keys.Batches(), nil)
	switch {
	case err != nil:
		return err
	case len(r.Damage) > 0:
		return &eventlog.DamagedReplicaError{Dir: f.data, Damage: r.Damage}
	case r.Last < target:
		return fmt.Errorf("%s has entries up to %d, the others had %d: run the command again", name, r.Last, target)
	}
	// The last entry vouches for all before it.
	var last eventlog.Entry
	if _, err := eventlog.CheckReplica(filepath.Join(f.data, "log"), c.keys.Batches(),
		func(e eventlog.Entry) error { last = e; return nil }); err != nil {
		return err
	}
	from := &entrySource{config: c.config, key: key, last: last.Seq}
	there, _, _, err := from.page(ctx, last.Seq)
	if err == nil && (len(there) == 0 || there[0].Seq != last.Seq || !bytes.Equal(there[0].Data, last.Data)) {
		err = fmt.Errorf("entry %d of %s is not that of the other nodes", last.Seq, name)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s has entries %d to %d, all whole, after %.1f s; start it: troupe serve --cluster %s "+
		"--data %s\n",
		name, r.First, r.Last, time.Since(begun).Seconds(), f.cluster, f.data)
	return err
}

// fetchReplica runs the node's engine until it has what the leader has.
func (c *clusterServer) fetchReplica(ctx context.Context, target uint64) (err error) {
	if err := c.start(ctx, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	o := c.streamOptions()
	o.Create, o.Await = false, true // an empty node learns of the log from the others
	if c.stream, err = eventlog.OpenStream(ctx, c.node.Conn(), o); err != nil {
		return err
	}
	for {
		replicas, err := c.stream.Replicas(ctx)
		for _, r := range replicas {
			if err != nil || r.Name != c.config.Node || !r.Current || r.Lag > 0 {
				continue
			}
			if found, err := c.node.Check(); err == nil && found.Last >= target && len(found.Damage) == 0 {
				return c.node.Joined()
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// othersWhole returns the newest entry that the nodes other than c.Node have, or why one of them is not whole and
// current.
func (c *clusterConfig) othersWhole(ctx context.Context, key string) (newest uint64, err error) {
	for since := time.Now(); ; { // what passes by itself, such as an election, may
		if newest, err = c.othersCurrent(ctx); err == nil || time.Since(since) > 10*time.Second {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err != nil {
		return 0, err
	}
	for _, n := range c.Nodes {
		if n.Name == c.Node {
			continue
		}
		if err := n.replicaWhole(ctx, key); err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// wholeFor is how long a node whose files lack entries is asked again: those of a busy log are written a moment later.
const wholeFor = 10 * time.Second

// replicaWhole asks a node to read its files, which must be whole and have what the node had applied when it began. A
// log that grows meanwhile is no reason against it.
func (n clusterNode) replicaWhole(ctx context.Context, key string) error {
	for since := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		r, err := n.checkReplica(ctx, key)
		switch {
		case err != nil:
			return err
		case len(r.Damage) > 0:
			return fmt.Errorf("the files of %s are damaged, too: %s", n.Name, r.Damage[0])
		case r.Last >= r.Began:
			return nil
		case time.Since(since) > wholeFor:
			return fmt.Errorf("the files of %s end with entry %d, and it had applied %d when it began to read them",
				n.Name, r.Last, r.Began)
		}
	}
}

// othersCurrent is othersWhole without their files.
func (c *clusterConfig) othersCurrent(ctx context.Context) (newest uint64, err error) {
	s := c.ask(ctx)
	current := map[string]bool{}
	for _, n := range s.Nodes {
		if n.Name == c.Node || n.Error != "" || n.Cluster == nil {
			continue
		}
		for _, r := range n.Cluster.Replicas {
			if r.Current && !r.Offline {
				current[r.Name] = true
			}
		}
	}
	for _, n := range s.Nodes { // first, because the others are not ready without it
		switch {
		case n.Name == c.Node && n.answers():
			return 0, fmt.Errorf("the server of %s answers: stop it first", n.Name)
		case n.Name != c.Node && n.Error != "":
			return 0, fmt.Errorf("%s does not answer: %s", n.Name, n.Error)
		}
	}
	for _, n := range s.Nodes {
		switch {
		case n.Name == c.Node:
			continue
		case !n.Ready:
			return 0, fmt.Errorf("%s is not ready: %s", n.Name, n.Reason)
		case n.Cluster.Digest != "agrees":
			return 0, fmt.Errorf("the digest of %s does not agree with that of a majority", n.Name)
		case !current[n.Name]:
			return 0, fmt.Errorf("%s does not have all that the leader has", n.Name)
		}
		newest = max(newest, n.Applied)
	}
	return newest, nil
}

// checkReplica asks a node to read its files.
func (n clusterNode) checkReplica(ctx context.Context, key string) (r serve.ReplicaCheck, err error) {
	for since := time.Now(); ; {
		q, err := http.NewRequestWithContext(ctx, "GET", n.URL+"/v1/cluster/replica", nil)
		if err != nil {
			return r, err
		}
		if key != "" {
			q.Header.Set("X-API-Key", key)
		}
		a, err := n.do(q)
		if err != nil {
			return r, err
		}
		b, err := io.ReadAll(io.LimitReader(a.Body, 1<<20))
		a.Body.Close()
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s answers %s: %s", n.Name, a.Status, strings.TrimSpace(string(b)))
		}
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil || r.Done {
			return r, err
		}
		if time.Since(since) > 10*time.Minute {
			return r, fmt.Errorf("%s reads its files for more than 10 minutes", n.Name)
		}
	}
}
