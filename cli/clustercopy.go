package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/eventlog/natslog"
	"troupe/serve"
	"troupe/serve/fold"
	"troupe/spec"
)

const (
	snapshotDir = "snapshots" // in a data directory
	baseMost    = 4 << 30     // bytes of a base
)

// copyPatience is how long an export waits for a node that answers.
const copyPatience = 2 * time.Minute

func clusterExportCommand() *cobra.Command {
	var at clusterFlags
	var node, data, keys string
	var until uint64
	c := &cobra.Command{
		Use:   "export DIR",
		Short: "Copy the cluster's log into the data directory of a single machine: a backup, or the way back",
		Long: `Makes DIR, a data directory with every entry of the log and with keys.json. troupe log reads it, troupe
serve --data DIR continues from it, and troupe cluster import makes a cluster of it. The entries come
from a running node, or with --data from the directory of a stopped node, which may lack the newest
ones. The base of a trimmed log is copied too. Every entry is checked, and the result once more.

After an interruption, give the same command again. Where the nodes have --keys, set TROUPE_KEY to a key
with the scope admin.

--until ENTRY copies the entries up to that one, also if later entries are damaged at every node.`,
		Example: `  troupe cluster export backup --cluster cluster/a.example/cluster.toml
  troupe cluster export backup --cluster /etc/troupe/cluster.toml --data /var/lib/troupe
  troupe cluster export rescue --cluster /etc/troupe/cluster.toml --data /var/lib/troupe --until 41200
  troupe cluster export backup --url http://127.0.0.1:8080 --keys-file keys.json`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := at.read(cmd.Context())
			if err != nil {
				return err
			}
			if len(at.urls) > 0 {
				if filepath.Base(keys) != serve.KeyFile || data != "" {
					return term.Misuse(fmt.Errorf("--url needs --keys-file, a file with the name %s, and does not go "+
						"with --data", serve.KeyFile))
				}
				config.file = keys // the keys are in its folder
			} else if keys != "" {
				return term.Misuse(errors.New("--keys-file needs --url"))
			}
			if node != "" && config.named(node) == nil {
				return term.Misuse(fmt.Errorf("--node: %s is not one of the nodes %s%s", node,
					strings.Join(config.names(), ", "), spec.Suggest(node, config.names())))
			}
			if data != "" {
				if err := config.onlyStream("export from a node that runs"); err != nil {
					return err
				}
			}
			if node != "" && data != "" {
				return term.Misuse(errors.New("--node does not go with --data"))
			}
			if cmd.Flags().Changed("until") && until == 0 {
				return term.Misuse(errors.New("--until 0: expected an entry, the first is 1"))
			}
			return config.export(cmd.Context(), cmd.OutOrStdout(), args[0], node, data, until)
		},
	}
	at.flags(c.Flags())
	c.Flags().StringVar(&keys, "keys-file", "", "with --url: the keys.json of the servers")
	c.Flags().StringVar(&node, "node", "", "name of the node to read from; without it one that is ready")
	c.Flags().StringVar(&data, "data", "", "read the data directory of a node that is stopped")
	c.Flags().Uint64Var(&until, "until", 0, "copy the entries up to this one; without it all")
	return c
}

// export makes a data directory of what a node has, up to entry until if that is not 0.
func (c *clusterConfig) export(ctx context.Context, w io.Writer, dir, node, data string, until uint64) error {
	keys, err := os.ReadFile(filepath.Join(c.folder(), serve.KeyFile))
	if err != nil {
		return term.Misuse(err)
	}
	secrets, err := serve.ReadKeys(c.folder())
	if err != nil {
		return term.Misuse(err)
	}
	batches := secrets.Batches()
	from := &entrySource{config: c, node: node, key: os.Getenv("TROUPE_KEY")}
	first := uint64(1)
	if data == "" {
		if first, err = from.begin(ctx); err != nil {
			return err
		}
	} else if first, from.last, err = replicaSpan(data, batches, until); err != nil {
		return err
	}
	if until > 0 && (until < first || until > from.last) {
		return term.Misuse(fmt.Errorf("--until %d: expected one of the entries %d to %d", until, first, from.last))
	} else if until > 0 {
		from.last = until
	}
	if first > 1 {
		if err := from.base(ctx, dir, data, first, until); err != nil {
			return err
		}
	}
	b, err := eventlog.OpenBuilder(ctx, filepath.Join(dir, "log"), batches, first)
	if err != nil {
		return source.OpenError(dir, err)
	}
	defer b.Close()
	begun := b.Last()
	if data == "" {
		err = from.copy(ctx, b, first)
		if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusGone {
			err = fmt.Errorf("the log was trimmed since the export began: remove %s and export again: %w", dir, err)
		}
	} else {
		_, err = eventlog.CheckReplica(filepath.Join(data, "log"), batches, func(e eventlog.Entry) error {
			switch {
			case e.Seq < begun || e.Seq > from.last:
				return nil
			case e.Seq == begun && begun >= first:
				return sameEntry(ctx, b, e)
			}
			return b.Add(ctx, e)
		})
	}
	if err == nil {
		err = fold.WriteDurable(dir, serve.KeyFile, bytes.NewReader(keys))
	}
	if err == nil {
		err = b.Finish(ctx)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	r, err := eventlog.Verify(filepath.Join(dir, "log"), batches)
	if err == nil && !r.OK() {
		err = &eventlog.DamagedError{Report: r}
	}
	if err != nil {
		return err
	}
	s := r.Shards[0]
	if _, err := serve.Base(dir, s.First); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: entries %d to %d, %s events; it is whole: troupe serve --data %s\n", dir, s.First,
		s.Last, term.Grouped(int64(s.Events)), dir)
	return err
}

// replicaSpan returns the entries that a replica has whole. Where it is damaged it must have those up to until.
func replicaSpan(data string, keys *eventlog.BatchKeys, until uint64) (first, last uint64, err error) {
	r, err := eventlog.CheckReplica(filepath.Join(data, "log"), keys, nil)
	switch {
	case err != nil:
		return 0, 0, term.Misuse(err)
	case r.Last < r.First && len(r.Damage) == 0:
		return 0, 0, term.Misuse(fmt.Errorf("the replica in %s has no entries", data))
	case len(r.Damage) > 0 && (until == 0 || until > r.Last):
		return 0, 0, fmt.Errorf("the replica in %s is damaged: %v: export from another node, or with --until %d "+
			"what is before it", data, r.Damage[0], r.Last)
	}
	return r.First, r.Last, nil
}

// sameEntry refuses to go on behind an entry that is not the last one of what is there.
func sameEntry(ctx context.Context, b *eventlog.Builder, e eventlog.Entry) error {
	if !b.Has(ctx, e) {
		return fmt.Errorf("entry %d of the export that was interrupted is not that of this cluster: remove it, or "+
			"name another directory", e.Seq)
	}
	return nil
}

// entrySource reads the log of a cluster from nodes that run.
type entrySource struct {
	config *clusterConfig
	node   string // empty: any
	key    string
	last   uint64 // end of the log at the beginning
	// name of a backup that follows the log, empty for none
	follower string
}

// begin finds a node and returns the first entry.
func (s *entrySource) begin(ctx context.Context) (first uint64, err error) {
	_, first, s.last, err = s.page(ctx, 0)
	if err == nil && s.last == 0 {
		err = errors.New("the log is empty")
	}
	return first, err
}

// base makes the snapshot in dir from which a log that begins with entry first is folded: that of a node that runs, or
// in the data directory of one that is stopped. It must not be behind entry until.
func (s *entrySource) base(ctx context.Context, dir, data string, first, until uint64) (err error) {
	var seq uint64
	var state []byte
	if data == "" {
		seq, state, err = s.runningBase(ctx)
	} else if seq, err = serve.Base(data, first); err == nil {
		state, err = os.ReadFile(filepath.Join(data, snapshotDir, fold.FileName(seq)))
	}
	if err != nil {
		return err
	}
	if until > 0 && seq > until {
		return term.Misuse(fmt.Errorf("--until %d: the log was trimmed, and its base is the state after entry %d: "+
			"expected that one or a later one", until, seq))
	}
	into := fold.Files(filepath.Join(dir, snapshotDir))
	if err := into.Write(seq, bytes.NewReader(state)); err != nil {
		return err
	}
	if _, _, err = into.Load(seq, first, nil); err != nil {
		return fmt.Errorf("the base of the log, %s: %w", fold.FileName(seq), err)
	}
	return nil
}

// runningBase asks the nodes for the base.
func (s *entrySource) runningBase(ctx context.Context) (seq uint64, state []byte, err error) {
	for _, n := range s.config.Nodes {
		if s.node != "" && n.Name != s.node {
			continue
		}
		var h http.Header
		if state, h, err = n.get(ctx, "/v1/log/base", s.key, baseMost); err == nil {
			seq, err = strconv.ParseUint(h.Get("Log-Base"), 10, 64)
		}
		if err == nil {
			return seq, state, nil
		}
		err = fmt.Errorf("%s: the base of the log: %w", n.Name, err)
	}
	return 0, nil, err
}

// copy adds what b, whose first entry is first, does not have.
func (s *entrySource) copy(ctx context.Context, b *eventlog.Builder, first uint64) error {
	from := max(b.Last(), first)
	for b.Last() < s.last {
		entries, _, _, err := s.page(ctx, from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch {
			case e.Seq == b.Last():
				err = sameEntry(ctx, b, e)
			case e.Seq > b.Last() && e.Seq <= s.last:
				err = b.Add(ctx, e)
			}
			if err != nil {
				return err
			}
		}
		from = b.Last() + 1
	}
	return nil
}

// page asks one node after the other until one answers.
func (s *entrySource) page(ctx context.Context, from uint64) (entries []eventlog.Entry, first, applied uint64,
	err error) {
	for since := time.Now(); ; {
		for _, n := range s.config.Nodes {
			if s.node != "" && n.Name != s.node {
				continue
			}
			if entries, first, applied, err = n.entries(ctx, from, s.key, s.follower); err == nil &&
				(from <= applied || s.last == 0) {
				return entries, first, applied, nil
			}
			if err == nil {
				err = fmt.Errorf("%s has entries up to %d, entry %d is wanted", n.Name, applied, from)
			}
			var refused *refusedError
			if errors.As(err, &refused) || ctx.Err() != nil {
				return nil, 0, 0, err
			}
		}
		if time.Since(since) > copyPatience {
			return nil, 0, 0, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// refusedError is an answer that another call does not change.
type refusedError struct {
	status int
	text   string
}

func (e *refusedError) Error() string { return e.text }

// entries asks a node for entries, for a backup that follows the log when follower is not empty.
func (n clusterNode) entries(ctx context.Context, from uint64, key, follower string) (out []eventlog.Entry, first,
	applied uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	path := "/v1/log/entries?from=" + strconv.FormatUint(from, 10)
	if follower != "" {
		path += "&follower=" + url.QueryEscape(follower)
	}
	b, h, err := n.get(ctx, path, key, 64<<20)
	if err != nil {
		return nil, 0, 0, err
	}
	first, err1 := strconv.ParseUint(h.Get("Log-First"), 10, 64)
	applied, err2 := strconv.ParseUint(h.Get("Log-Applied"), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, 0, 0, fmt.Errorf("%s: %w", n.Name, err)
	}
	for len(b) > 0 {
		if len(b) < 12 || len(b)-12 < int(binary.LittleEndian.Uint32(b[8:])) {
			return nil, 0, 0, fmt.Errorf("%s: an answer that breaks off", n.Name)
		}
		size := int(binary.LittleEndian.Uint32(b[8:]))
		out = append(out, eventlog.Entry{Seq: binary.LittleEndian.Uint64(b), Data: b[12 : 12+size]})
		b = b[12+size:]
	}
	return out, first, applied, nil
}

// get asks a node for at most so many bytes.
func (n clusterNode) get(ctx context.Context, path, key string, most int64) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", n.URL+path, nil)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	a, err := n.do(r)
	if err != nil {
		return nil, nil, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, most))
	if err != nil {
		return nil, nil, err
	}
	if a.StatusCode != http.StatusOK {
		text := fmt.Sprintf("%s answers %s: %s", n.Name, a.Status, strings.TrimSpace(string(b)))
		if a.StatusCode/100 == 4 && a.StatusCode != http.StatusTooManyRequests {
			return nil, nil, &refusedError{a.StatusCode, text}
		}
		return nil, nil, errors.New(text)
	}
	return b, a.Header, nil
}

func clusterImportCommand() *cobra.Command {
	f := serveFlags{}
	c := &cobra.Command{
		Use:   "import DIR",
		Short: "Make the log of a new cluster from the data directory of a single machine",
		Long: `Copies every entry of the log in DIR, and the base of a trimmed log, into the log of a cluster that has
none. Entries keep their numbers and events their ids, and rewards for earlier decisions count. The
server of DIR must be stopped, and DIR is not changed.

The cluster is one of troupe cluster init --import DIR. The command is the node while it runs. Start the
other nodes with troupe serve before it, and this one after it.

With --nats the log is made on an existing NATS cluster, in an account without one. Start the servers
afterwards, with the keys.json of DIR. After an interruption, give the same command again.`,
		Example: `  troupe cluster init --nodes a.example,b.example,c.example --import troupe-data --out cluster
  troupe cluster import troupe-data --cluster cluster/a.example/cluster.toml --data /var/lib/troupe
  troupe cluster import troupe-data --nats tls://n1,tls://n2,tls://n3 --nats-creds app.creds --nats-attest sys.creds`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.nats.urls) > 0 {
				if f.cluster != "" || cmd.Flags().Changed("data") {
					return term.Misuse(errors.New("--nats does not go with --cluster and --data: the log is at NATS " +
						"servers of others, or in the nodes"))
				}
				if err := f.nats.checkConnection(); err != nil {
					return term.Misuse(err)
				}
				f.nats.limit = f.maxLog
				return importNATS(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &f.nats)
			}
			if err := f.nats.alone(cmd.Flags()); err != nil {
				return term.Misuse(err)
			}
			if f.cluster == "" {
				f.cluster = os.Getenv("TROUPE_CLUSTER")
			}
			if f.cluster == "" {
				return term.Misuse(errors.New("--cluster is missing: give the cluster.toml of this node, or set " +
					"TROUPE_CLUSTER"))
			}
			return importCluster(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &f)
		},
	}
	c.Flags().StringVar(&f.cluster, "cluster", "",
		"cluster.toml of this node; without it the one that TROUPE_CLUSTER names")
	c.Flags().StringVar(&f.data, "data", source.DefaultData,
		"data directory of this node, empty or of an import that was interrupted")
	c.Flags().Int64Var(&f.maxLog, "max-log", 64<<30, "bytes of the event log")
	f.nats.connection(c.Flags())
	return c
}

// importNATS makes the log at the servers that the flags name.
func importNATS(ctx context.Context, w, stderr io.Writer, dir string, f *natsFlags) (err error) {
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	_, keys, err := importSource(dir)
	if err != nil {
		return term.Misuse(err)
	}
	options, err := f.options(logger)
	if err != nil {
		return term.Misuse(err)
	}
	old, err := eventlog.OpenDisk(ctx, source.Dir(dir), eventlog.DiskOptions{Logf: engineSays(logger)})
	if err != nil {
		return source.OpenError(dir, err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	base, err := importBase(ctx, dir, old, keys)
	if err != nil {
		return source.OpenError(dir, err)
	}
	begun := time.Now()
	info, err := natslog.Import(ctx, options, old, keys.Batches(), base, serve.KeysFingerprint(keys).String(),
		func(done, last uint64) {
			logger.Info("importing", "entry", done, "of", last)
		})
	if err != nil {
		return source.OpenError(dir, err)
	}
	_, err = fmt.Fprintf(w, "entries %d to %d of %s are the log of the account, after %.1f s; start the servers: "+
		"troupe serve --nats …, with a copy of %s for --keys-file\n",
		info.First, info.Last, dir, time.Since(begun).Seconds(), filepath.Join(dir, serve.KeyFile))
	return err
}

// importSource returns the id of the log in a data directory and its keys.
func importSource(dir string) (id eventlog.ID, keys eventlog.IDKeys, err error) {
	if id, err = eventlog.LogID(source.Dir(dir)); err == nil {
		keys, err = serve.ReadKeys(dir)
	}
	return id, keys, err
}

// importBase returns the base of a log that was trimmed, nil for one that is whole. The log must go on from it.
func importBase(
	ctx context.Context, dir string, source *eventlog.Disk, keys eventlog.IDKeys,
) (*eventlog.ImportBase, error) {
	info, err := source.Info(ctx, 0)
	if err != nil || info.First <= 1 {
		return nil, err
	}
	seq, err := serve.Base(dir, info.First)
	if err != nil {
		return nil, term.Misuse(err)
	}
	files := fold.Files(filepath.Join(dir, snapshotDir))
	state, err := files.Read(seq)
	if err != nil {
		return nil, err
	}
	_, chain, err := fold.Restore(state, nil)
	if err != nil {
		return nil, err
	}
	if seq >= info.First {
		e, err := source.Get(ctx, 0, seq)
		if err != nil {
			return nil, err
		}
		if eventlog.HashBatch(e.Data) != chain.Head().Hash {
			return nil, fmt.Errorf("the log in %s is not that of its base, %s: entry %d differs", dir,
				fold.FileName(seq), seq)
		}
	}
	for _, err := range eventlog.Replay(ctx, source, chain.Trust(keys.Batches()), info.Last) {
		if err != nil {
			return nil, fmt.Errorf("the log in %s does not go on from its base, %s: %w", dir, fold.FileName(seq), err)
		}
	}
	return &eventlog.ImportBase{Seq: seq, State: state}, nil
}

func importCluster(ctx context.Context, w, stderr io.Writer, dir string, f *serveFlags) (err error) {
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	id, keys, err := importSource(dir)
	if err != nil {
		return term.Misuse(err)
	}
	c, err := newClusterServer(f, logger)
	if err != nil {
		return term.Misuse(err)
	}
	switch {
	case c.config.Import == "":
		return term.Misuse(fmt.Errorf("%s has no key import: make the cluster's files with troupe cluster init "+
			"--import %s", f.cluster, dir))
	case c.config.Import != id.String():
		return term.Misuse(fmt.Errorf("%s is for the import of log %s, the log in %s is %v", f.cluster, c.config.Import,
			dir, id))
	case !reflect.DeepEqual(c.keys, keys):
		return term.Misuse(fmt.Errorf("the keys in %s are not those in %s: event ids would not be recognised",
			c.config.folder(), dir))
	}
	says := func(format string, a ...any) { logger.Warn("log engine", "says", fmt.Sprintf(format, a...)) }
	old, err := eventlog.OpenDisk(ctx, source.Dir(dir), eventlog.DiskOptions{Logf: says})
	if err != nil {
		return source.OpenError(dir, err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	base, err := importBase(ctx, dir, old, keys)
	if err != nil {
		return source.OpenError(dir, err)
	}
	if err := c.start(ctx, false); err != nil {
		return source.OpenError(f.data, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	waiting, stop := context.WithCancel(ctx)
	go c.wait(waiting)
	begun := time.Now()
	info, err := eventlog.ImportLog(ctx, c.node.Conn(), old, keys.Batches(), base, c.streamOptions(), func(done, last uint64) {
		stop()
		logger.Info("importing", "entry", done, "of", last)
	})
	stop()
	if err != nil {
		return err
	}
	if err := c.node.Joined(); err != nil {
		return err
	}
	if c.stream, err = eventlog.OpenStream(ctx, c.node.Conn(), c.streamOptions()); err == nil {
		c.handOver(ctx) // the others go on at once
	}
	_, err = fmt.Fprintf(w, "entries %d to %d of %s are the log of %s, after %.1f s; start this node: troupe serve "+
		"--cluster %s --data %s\n",
		info.First, info.Last, dir, c.config.Cluster, time.Since(begun).Seconds(), f.cluster, f.data)
	return err
}
