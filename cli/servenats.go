package cli

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/eventlog/natslog"
	"troupe/serve"
	"troupe/serve/fold"
)

// natsFlags are the flags of a server whose log is on a NATS cluster that is there.
type natsFlags struct {
	urls                   []string
	creds, attest, vouched string
	ca, cert, key          string
	node                   string
	nodes                  []string
	replicas               int   // 0: as many as the log has
	limit                  int64 // of the log; 0: its own
	create                 bool
	keysFile               string
}

// defaultNode is the name of a server that is the only one on its log.
const defaultNode = "troupe"

// connection are the flags of how to reach the servers, for a log that is there or is to be made.
func (f *natsFlags) connection(fl *pflag.FlagSet) {
	fl.StringSliceVar(&f.urls, "nats", nil, "servers of an existing NATS cluster that keep the log, tls://HOST:PORT,…")
	fl.StringVar(&f.creds, "nats-creds", "", "credentials of the NATS account that has the log: a .creds file, the "+
		"seed of an nkey, or a file with one line USER:PASSWORD")
	fl.StringVar(&f.attest, "nats-attest", "",
		"such a file for the system account of the NATS servers, which must report that they sync always")
	fl.StringVar(&f.vouched, "nats-attested-by", "",
		"name of the person or team that vouches for the NATS servers in place of --nats-attest; it is in the log, "+
			"/readyz and the metrics")
	fl.StringVar(&f.ca, "nats-ca", "", "authorities of the NATS servers' certificates (PEM), without it those of the "+
		"system")
	fl.StringVar(&f.cert, "nats-cert", "", "certificate that the NATS servers ask for (PEM)")
	fl.StringVar(&f.key, "nats-key", "", "key file of that certificate (PEM)")
	fl.IntVar(&f.replicas, "nats-replicas", 3,
		"NATS servers that are to have a new log, 1, 3 or 5; given later, the log must have as many")
}

func (f *natsFlags) flags(fl *pflag.FlagSet) {
	f.connection(fl)
	fl.BoolVar(&f.create, "nats-create", false,
		"make the log if the account has none; only at the first start with --data")
	fl.StringVar(&f.node, "nats-node", defaultNode, "name of this server among those on the log")
	fl.StringSliceVar(&f.nodes, "nats-nodes", nil,
		"names of all servers on the log, 1, 3 or 5, the same at each; without it this one is alone")
	fl.StringVar(&f.keysFile, "keys-file", "",
		"keys.json with the keys of event ids, the same at all servers on the log; troupe cluster keys keys.json "+
			"--new makes one")
}

// check refuses flags that do not go together.
func (f *natsFlags) check(fl *pflag.FlagSet, all *serveFlags) error {
	if len(f.urls) == 0 {
		return f.alone(fl)
	}
	if len(f.nodes) == 0 {
		f.nodes = []string{f.node}
	} else if !fl.Changed("nats-node") {
		return wrong("nats-nodes", "needs --nats-node, the name of this server among them")
	}
	switch {
	case all.cluster != "":
		return wrong("nats", "does not go with --cluster: the log is at NATS servers of others, or in the nodes")
	case f.keysFile == "":
		return wrong("nats", "needs --keys-file, the keys.json of all servers on the log: troupe cluster keys "+
			"keys.json --new makes one")
	case filepath.Base(f.keysFile) != serve.KeyFile:
		return wrong("keys-file", "%s: expected a file with the name %s", f.keysFile, serve.KeyFile)
	case len(f.nodes) != 1 && len(f.nodes) != 3 && len(f.nodes) != 5:
		return wrong("nats-nodes", "has %d names, expected 1, 3 or 5", len(f.nodes))
	case !slices.Contains(f.nodes, f.node):
		return wrong("nats-node", "%s: expected one of --nats-nodes, %s", f.node, strings.Join(f.nodes, ", "))
	}
	if err := f.checkConnection(); err != nil {
		return err
	}
	for i, n := range f.nodes {
		if !nodeName.MatchString(n) {
			return fmt.Errorf("--nats-nodes: %q, expected 1 to 64 letters, digits, dots, - or _", n)
		}
		if slices.Contains(f.nodes[:i], n) {
			return fmt.Errorf("--nats-nodes: %s is there twice", n)
		}
	}
	f.limit = all.maxLog
	if !f.create { // a log that is there has its own
		if !fl.Changed("nats-replicas") {
			f.replicas = 0
		}
		if !fl.Changed("max-log") {
			f.limit = 0
		}
	}
	return nil
}

// alone refuses flags that need --nats.
func (f *natsFlags) alone(fl *pflag.FlagSet) (err error) {
	fl.VisitAll(func(x *pflag.Flag) {
		// the names of our own flags: all that begin with nats are of this group
		if x.Changed && (strings.HasPrefix(x.Name, "nats") || x.Name == "keys-file") && err == nil {
			err = wrong(x.Name, "needs --nats")
			if x.Name == "nats" {
				err = wrong("nats", "names no server, expected tls://HOST:PORT,…")
			}
		}
	})
	return err
}

// checkConnection refuses flags of the connection that do not go together.
func (f *natsFlags) checkConnection() error {
	switch {
	case f.attest == "" && f.vouched == "":
		return wrong("nats", "needs --nats-attest, credentials of the system account, so that the servers report "+
			"that they sync always; or --nats-attested-by NAME, where NAME vouches for that")
	case f.attest != "" && f.vouched != "":
		return wrong("nats-attested-by", "does not go with --nats-attest")
	case len(f.vouched) > 64 || strings.ContainsFunc(f.vouched, func(r rune) bool {
		return r < ' ' ||
			r == '\u007f'
	}) || f.vouched == serve.AttestedByServers:
		return wrong("nats-attested-by", "%q: expected the name of a person or a team, at most 64 bytes, other "+
			"than %s", f.vouched, serve.AttestedByServers)
	case f.replicas != 1 && f.replicas != 3 && f.replicas != 5:
		return wrong("nats-replicas", "%d: expected 1, 3 or 5", f.replicas)
	}
	return nil
}

// options are those of a log at the servers. Files that are damaged are an error.
func (f *natsFlags) options(logger *slog.Logger) (o natslog.Options, err error) {
	o = natslog.Options{
		Node: f.node, URLs: f.urls, Credentials: f.creds, Attest: f.attest, VouchedBy: f.vouched, CA: f.ca,
		Cert: f.cert, Key: f.key,
		Create: f.create, Replicas: f.replicas, MaxBytes: f.limit, Logf: engineSays(logger), Clock: serverClock,
	}
	for _, x := range []struct{ flag, file string }{{"nats-creds", f.creds}, {"nats-attest", f.attest}} {
		if err := natslog.CheckCredentials(x.file); err != nil {
			return o, fmt.Errorf("--%s: %w", x.flag, err)
		}
	}
	if err := natslog.Check(o); err != nil {
		return o, fmt.Errorf("--nats: %w", err)
	}
	return o, nil
}

// natsServer has the log on a NATS cluster that is there.
type natsServer struct {
	keys    eventlog.IDKeys
	options natslog.Options
	nodes   []string
	remote  *natslog.Log
}

// newNATSServer reads what the flags name.
func newNATSServer(f *serveFlags, logger *slog.Logger) (*natsServer, error) {
	n := &natsServer{nodes: f.nats.nodes}
	var err error
	if n.options, err = f.nats.options(logger); err != nil {
		return nil, err
	}
	n.options.Dir = filepath.Join(f.data, "log")
	if n.keys, err = serve.ReadKeys(filepath.Dir(f.nats.keysFile)); err != nil {
		return nil, fmt.Errorf("--keys-file: %w", err)
	}
	if seqs, err := fold.Files(filepath.Join(f.data, snapshotDir)).List(); err == nil && len(seqs) > 0 &&
		!eventlog.HasForeign(n.options.Dir) {
		return nil, wrong("data", "%s has snapshots of another log; name another directory", f.data)
	}
	return n, nil
}

func (n *natsServer) open(ctx context.Context, o *serve.Options) (err error) {
	if n.remote, err = natslog.Open(ctx, n.options); err != nil {
		return err
	}
	o.Log, o.Keys, o.Committer.Batch = n.remote.Stream(), n.keys, n.remote.MostBatch()
	l := n.remote.Stream()
	o.Cluster = &serve.Cluster{Node: n.options.Node, Nodes: n.nodes, Trusted: n.remote.Verdict,
		Vouched: n.options.VouchedBy, Imported: l.Imported(), ImportedBase: l.ImportedBase()}
	// later the checkpoints in the log say which keys fit
	if want := l.ImportedKeys(); want != "" && want != serve.KeysFingerprint(n.keys).String() {
		info, err := l.Info(ctx, 0)
		if err != nil {
			return err
		}
		if info.Last == l.Imported() {
			return term.Misuse(fmt.Errorf("--keys-file does not have the keys of the log, which was imported: event "+
				"ids would not be recognised; give the %s of the directory that it came from", serve.KeyFile))
		}
	}
	return nil
}

// handOver does nothing: the servers of the log go on without this process.
func (n *natsServer) name() string { return n.options.Node }

func (n *natsServer) waits() string { return "" }

func (n *natsServer) handOver(context.Context) {}

func (n *natsServer) close() error {
	if n.remote == nil {
		return nil
	}
	return n.remote.Close()
}

// engineSays gives an operator what the log engine says.
func engineSays(logger *slog.Logger) func(format string, a ...any) {
	return func(format string, a ...any) { logger.Warn("log engine", "says", fmt.Sprintf(format, a...)) }
}
