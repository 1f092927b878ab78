package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
	"troupe/spec"
)

func clusterVoidCommand() *cobra.Command {
	f := serveFlags{}
	var accept bool
	c := &cobra.Command{
		Use:   "void [ENTRY...]",
		Short: "Declare entries void that nodes wrote and no node can read, so that the cluster goes on",
		Long: `An entry that a node wrote, and that is malformed or does not fit the log, stops all nodes: without it
they would lose what it has. Without ENTRY the command reads the log and lists these entries. With
their numbers and --accept-loss it writes a record into the log that declares them void. They stay in
the log, have no effect at any node, and are counted.

An entry that nodes can read is refused, and so is a list that lacks an unreadable one. troupe cluster
export --until copies what is before it.

The command is a node while it runs: stop the server of this node first. It needs a majority, so the
others run, read-only as they are, or the same command runs at them at the same time. Start all nodes
again afterwards. With --nats it is run once, beside servers that are stopped.`,
		Example: `  troupe cluster void --cluster /etc/troupe/cluster.toml --data /var/lib/troupe
  troupe cluster void 41201 --accept-loss --cluster /etc/troupe/cluster.toml --data /var/lib/troupe`,
		Args: term.Arguments(0, 64),
		RunE: func(cmd *cobra.Command, args []string) error {
			entries, err := entryNumbers(args)
			if err != nil {
				return term.Misuse(err)
			}
			if accept && len(entries) == 0 {
				return term.Misuse(errors.New("--accept-loss needs the numbers of the entries: without them the " +
					"command says which they are"))
			}
			if err := voidFlags(cmd, &f); err != nil {
				return term.Misuse(err)
			}
			return voidEntries(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), entries, accept, &f)
		},
	}
	c.Flags().StringVar(&f.cluster, "cluster", "",
		"cluster.toml of this node; without it the one that TROUPE_CLUSTER names")
	c.Flags().StringVar(&f.data, "data", source.DefaultData, "data directory of this node")
	c.Flags().Int64Var(&f.maxLog, "max-log", 64<<30, "bytes of the event log")
	c.Flags().StringVar(&f.ca, "ca", "", caHelp)
	c.Flags().BoolVar(&accept, "accept-loss", false, "declare the entries void; what they have is lost")
	f.nats.connection(c.Flags())
	c.Flags().StringVar(&f.nats.keysFile, "keys-file", "", "with --nats: the keys.json of the servers")
	return c
}

// voidFlags refuses flags that do not go together.
func voidFlags(cmd *cobra.Command, f *serveFlags) error {
	if len(f.nats.urls) > 0 {
		f.nats.node = defaultNode
		return f.nats.check(cmd.Flags(), f)
	}
	if err := f.nats.alone(cmd.Flags()); err != nil {
		return err
	}
	if f.cluster == "" {
		f.cluster = os.Getenv("TROUPE_CLUSTER")
	}
	if f.cluster == "" {
		return errors.New("--cluster is missing: give the cluster.toml of this node, or set TROUPE_CLUSTER")
	}
	return nil
}

func entryNumbers(args []string) (entries []uint64, err error) {
	for _, text := range args {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("ENTRY %q: expected the number of an entry, the first is 1", text)
		}
		if slices.Contains(entries, n) {
			return nil, fmt.Errorf("ENTRY %d is there twice", n)
		}
		entries = append(entries, n)
	}
	return entries, nil
}

func voidEntries(ctx context.Context, w, stderr io.Writer, entries []uint64, accept bool, f *serveFlags) (err error) {
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	l, err := newLogServer(f, logger)
	if err != nil {
		return term.Misuse(err)
	}
	var log *eventlog.Stream
	var keys eventlog.IDKeys
	defer func() { err = errors.Join(err, l.close()) }()
	switch l := l.(type) {
	case *clusterServer:
		keys = l.keys
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		log, err = l.join(ctx, waiting)
	case *raftServer:
		return l.config.onlyStream("troupe cluster export --until copies what is before the entry")
	case *natsServer:
		var o serve.Options
		if keys, err = l.keys, l.open(ctx, &o); err == nil {
			log = l.remote.Stream()
		}
	}
	if err != nil {
		return source.OpenError(f.data, err)
	}
	found, err := eventlog.FindUnusable(ctx, log, keys.Batches(), log.Imported())
	if err != nil {
		return fmt.Errorf("the log is not read to its end, and nothing was written: %w", err)
	}
	if err := sayUnusable(w, found, entries); err != nil || len(entries) == 0 {
		return err
	}
	if len(found.Left()) > 0 && !accept {
		return errors.New("nothing was written: what these entries have is lost with --accept-loss")
	}
	seq, err := found.DeclareVoid(ctx, operator(), time.Now())
	if err != nil {
		return err
	}
	if seq > 0 {
		fmt.Fprintf(w, "entry %d declares them void\n", seq)
	}
	if c, ok := l.(*clusterServer); ok {
		c.settle(ctx)
	}
	_, err = fmt.Fprintln(w, "start all nodes again")
	return err
}

// sayUnusable prints what was found, and refuses entries that are not that.
func sayUnusable(w io.Writer, found *eventlog.Survey, entries []uint64) error {
	if len(found.Unusable) == 0 && len(entries) == 0 {
		_, err := fmt.Fprintln(w, "every entry of the log can be read, or has no effect already: there is nothing to "+
			"declare void")
		return err
	}
	var all, left []string
	for _, u := range found.Unusable {
		holds := "nothing in it can be read"
		if u.Records > 0 {
			holds = fmt.Sprintf("it has %d records, which do not count", u.Records)
		}
		what := u.What
		if u.By == 0 {
			left = append(left, strconv.FormatUint(u.Seq, 10))
		}
		if _, err := fmt.Fprintf(w, "entry %d: %s; %s bytes, hash %v; %s\n", u.Seq, what, term.Grouped(int64(u.Bytes)),
			u.Hash, holds); err != nil {
			return err
		}
		all = append(all, strconv.FormatUint(u.Seq, 10))
	}
	for _, n := range entries {
		if text := strconv.FormatUint(n, 10); !slices.Contains(all, text) {
			return term.Misuse(fmt.Errorf("entry %d can be read, or has no effect already: nothing was written%s", n,
				spec.Suggest(text, all)))
		}
	}
	for _, text := range left {
		n, _ := strconv.ParseUint(text, 10, 64)
		switch {
		case len(entries) == 0:
			return term.Silently(term.Failed, errors.New("no node goes on behind entry "+text))
		case !slices.Contains(entries, n):
			return term.Misuse(fmt.Errorf("entry %s cannot be read either: name all of them, %s; nothing was written",
				text, strings.Join(left, " ")))
		}
	}
	return nil
}

// operator is who declares entries void, as far as the machine knows.
func operator() string {
	u, err := user.Current()
	if err != nil {
		return "an operator"
	}
	return u.Username
}

// join starts the node and opens the log, which the others have too. While they are no majority it says who is missing,
// until waiting ends.
func (c *clusterServer) join(ctx, waiting context.Context) (*eventlog.Stream, error) {
	if err := c.start(ctx, false); err != nil {
		return nil, err
	}
	go c.sayMissing(waiting)
	o := c.streamOptions()
	o.Create, o.Await = false, true // an empty node learns of the log from the others
	var err error
	c.stream, err = eventlog.OpenStream(ctx, c.node.Conn(), o)
	return c.stream, err
}

// sayMissing says which nodes are missing while the others are no majority.
func (c *clusterServer) sayMissing(ctx context.Context) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if missing := c.missing(); 2*len(missing) > len(c.config.Nodes) {
			c.logger.Info("waiting for a majority: start the server there, or this command", "missing",
				strings.Join(missing, ", "))
		}
	}
}

// settleFor is how long a node stays for the others, whose replicas may not have the newest entries yet.
const settleFor = 20 * time.Second

// settle waits until all replicas are current, but not for long: a majority has what was acknowledged.
func (c *clusterServer) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	for {
		r, err := c.stream.Replicas(ctx)
		if err == nil && len(r) == len(c.config.Nodes) &&
			!slices.ContainsFunc(r, func(x eventlog.Replica) bool { return !x.Current || x.Offline || x.Lag > 0 }) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
