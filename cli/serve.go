package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/internal/secret"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/personalizer"
	"troupe/spec"
	"troupe/timing"
)

// serveFlags are the flags of `troupe serve`.
type serveFlags struct {
	data, listen        string
	models, keys        string
	personalizer        string
	cell                int
	cert, key, clientCA string
	ca                  string // of the certificates that callers of the other nodes see
	hosts, origins      []string
	plaintext           bool
	logLevel, logFormat string
	maxBody, maxLog     int64
	keep                time.Duration
	keepBytes           int64
	trimEvery           time.Duration
	concurrent, actions int
	work                time.Duration
	modelBytes          int64
	layAside            time.Duration
	connections, open   int
	timeout, drain      time.Duration
	readyFile           string
	cluster             string
	nats                natsFlags
	verifyEvery         time.Duration
	verifyShare         float64
	listens             bool // --listen was given
	config              string
	printConfig         bool
}

func serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Choose actions and learn from rewards, over HTTP, durably",
		Long: `Runs the decision server: one process, one data directory, nothing else to install. The status
page is at /, the API at /docs. When a decision or a reward is answered, it is on the disk.

Without --keys every caller that reaches the server may do everything, so it listens on loopback only.
Other addresses need --keys (troupe serve key makes them) and TLS, or --plaintext behind a proxy that
ends TLS.

Each flag may also stand in the file of --config, by its name, or in the environment: TROUPE_SERVE_MAX_LOG
is --max-log. The command line wins over the environment, the environment over the file, and the file
over the defaults. An empty variable counts as absent.

SIGHUP reads the files of --models, --keys and of the certificate again. SIGINT and SIGTERM end the
server after the requests under way. Operations: docs/guide/operations.md.`,
		Example: `  troupe serve
  troupe serve --data /var/lib/troupe --models models.toml
  troupe serve --max-log 1000000000 --print-config > troupe.toml
  troupe serve --config troupe.toml
  troupe serve --listen 0.0.0.0:8443 --keys keys.toml --tls-cert cert.pem --tls-key key.pem
  troupe serve key shop --scopes decide,reward --models 'news-*' >> keys.toml`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := settle(cmd.Flags(), os.Environ())
			if err != nil {
				return term.Misuse(err)
			}
			for _, note := range from.notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "troupe: environment:", note)
			}
			f.listens = cmd.Flags().Changed("listen")
			if err := f.together(cmd.Flags()); err != nil {
				return term.Misuse(from.locate(err))
			}
			if f.printConfig {
				if err := f.check(); err != nil {
					return term.Misuse(from.locate(err))
				}
				return from.print(cmd.OutOrStdout())
			}
			return from.locate(runServer(cmd.Context(), cmd.ErrOrStderr(), f))
		},
	}
	f.add(c.Flags())
	c.AddCommand(serveKeyCommand())
	return c
}

// together refuses flags that do not go together.
func (f *serveFlags) together(fl *pflag.FlagSet) error {
	if f.cluster != "" || len(f.nats.urls) > 0 {
		if most := f.maxLog / 10 * 9; f.keepBytes > most { // a full log does not take the record of a trim
			return wrong("keep-bytes", "%d: expected at most %d, nine tenths of --max-log", f.keepBytes, most)
		}
	}
	if f.ca != "" && f.cluster == "" {
		return wrong("ca", "needs --cluster: it is for what a node asks of the others")
	}
	return f.nats.check(fl, f)
}

// add adds the flags to the command.
func (f *serveFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.data, "data", source.DefaultData, "data directory, made if need be")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8080",
		"address; port 0 takes a free one; unix:PATH is a socket in the file system, for its owner and group")
	fl.StringVar(&f.cluster, "cluster", "", "cluster.toml of this node, made by troupe cluster init: the log is that "+
		"of three to five nodes")
	fl.StringVar(&f.ca, "ca", "", "with --cluster: "+caHelp)
	fl.DurationVar(&f.verifyEvery, "verify-every", 7*24*time.Hour,
		"how long after a read of all files of the log they are read again; 0: never")
	fl.Float64Var(&f.verifyShare, "verify-share", 0.1, "share of the time that such a read may use the disk, at most 1")
	f.nats.flags(fl)
	fl.StringVar(&f.models, "models", "", "TOML file with a [[model]] table for each model that must exist")
	fl.StringVar(&f.keys, "keys", "", "TOML file with API keys, see troupe serve key")
	fl.StringVar(&f.personalizer, "personalizer", "",
		"name of the model behind /personalizer/v1.0; it is made when it does not exist")
	fl.IntVar(&f.cell, "cell", 0, "number of this server, or of its cluster, among cells behind a proxy, 1 to 31, from its first start on (troupe cells). "+
		"The ids of its events begin with a character of its own. 0: it is no cell")
	fl.StringVar(&f.cert, "tls-cert", "", "certificate file (PEM)")
	fl.StringVar(&f.key, "tls-key", "", "key file of the certificate (PEM)")
	fl.StringVar(&f.clientCA, "tls-client-ca", "", "authorities whose client certificates stand for keys (PEM)")
	fl.StringSliceVar(&f.hosts, "host", nil, "name under which the server is called, beside loopback (may be repeated)")
	fl.StringSliceVar(&f.origins, "cors", nil, "origin of pages of another site that may decide and reward from a browser, such "+
		"as https://shop.example.org, with a key that has no other scope (may be repeated)")
	fl.BoolVar(&f.plaintext, "plaintext", false, "listen beyond loopback without TLS, because a proxy ends it")
	fl.StringVar(&f.logLevel, "log-level", "info", "what is logged: error, warn, info, or debug, which has every request")
	fl.StringVar(&f.logFormat, "log-format", "text", "text: key=value; json: an object in each line")
	fl.Int64Var(&f.maxBody, "max-body", 1<<20, "bytes of a request")
	fl.Int64Var(&f.maxLog, "max-log", 64<<30,
		"bytes of the event log; a full log refuses new records and deletes nothing")
	fl.DurationVar(&f.keep, "keep", 0, "trim the log: keep entries that are younger, and those that are needed (720h "+
		"are 30 days); 0 keeps all")
	fl.DurationVar(&f.trimEvery, "trim-every", 10*time.Minute,
		"how often to look for what --keep and --keep-bytes let go")
	fl.Int64Var(&f.keepBytes, "keep-bytes", 0,
		"trim the log: keep that many bytes, and entries that are needed; 0 keeps all")
	fl.IntVar(&f.actions, "max-actions", 1000, "actions of a decision")
	fl.DurationVar(&f.work, "max-work", model.DefaultWork, "processor time of the decisions of a request, estimated from their sizes; more "+
		"is answered 413 before it is begun. The rewards of a batch may take half as much again")
	fl.IntVar(&f.concurrent, "max-concurrent", 1024, "requests at once; more are answered 429")
	fl.IntVar(&f.open, "max-open", 4_000_000,
		"events whose reward window is open, some 110 bytes each, 180 with an idempotency key; more decisions are answered 429")
	fl.Int64Var(&f.modelBytes, "max-model-bytes", 0,
		"memory of all models, about; a model that does not fit is answered 429, and near the bound models are laid "+
			"aside early; 0: no bound")
	fl.DurationVar(&f.layAside, "lay-aside", time.Minute,
		"a model that is not used for so long keeps only its snapshot, in a file without a name, and the next call "+
			"builds it again; 0: never")
	fl.IntVar(&f.connections, "max-connections", 4096,
		"open connections, at most half of the files that the system allows; more are closed")
	fl.DurationVar(&f.timeout, "timeout", 10*time.Second, "time of one request")
	fl.DurationVar(&f.drain, "drain", 20*time.Second, "time for the end: requests under way, and before, at most "+
		"half of it, until the other nodes of a cluster are a majority")
	fl.StringVar(&f.config, "config", "", "TOML file with the values of flags, such as max-log = 1000000; --print-config "+
		"writes one")
	fl.BoolVar(&f.printConfig, "print-config", false, "print a file for --config with the values in force, and end")
	fl.StringVar(&f.readyFile, "ready-file", "", "file that gets the server's URL when it answers; removed at the end")
}

func serveKeyCommand() *cobra.Command {
	var scopes, models []string
	c := &cobra.Command{
		Use:   "key NAME",
		Short: "Make an API key",
		Long: `Prints the table for the file of --keys to stdout and the key itself to stderr. The key is shown
once: only its hash is in the table. For a change of keys give both for a while, then remove the old.`,
		Example: `  troupe serve key shop --scopes decide,reward --models 'news-*' >> keys.toml
  troupe serve key monitor --scopes read >> keys.toml`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, table, err := api.NewKey(args[0], scopes, models)
			if err != nil {
				return term.Misuse(err)
			}
			if _, err := fmt.Fprint(cmd.OutOrStdout(), table); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "key: %s\n", secret)
			return err
		},
	}
	c.Flags().StringSliceVar(&scopes, "scopes", []string{"decide", "reward"}, "decide, reward, read, admin, backup")
	c.Flags().StringSliceVar(&models, "models", nil, "names of models, with * and ?; default all")
	return c
}

// runServer serves until ctx ends or a signal asks for the end: it reads the files that the flags name, takes the port,
// opens the log, makes the models that must exist, and answers.
func runServer(ctx context.Context, stderr io.Writer, f serveFlags) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	logger, err := f.logger(stderr)
	if err != nil {
		return term.Misuse(err)
	}

	in, err := f.read(logger)
	if err != nil {
		return term.Misuse(err)
	}
	listener, err := f.claim()
	if err != nil {
		return term.Misuse(err)
	}
	defer func() { listener.Close() }()

	options := f.options(logger)
	var early *joining // of a node
	var server *serve.Server
	if in.node != nil {
		defer func() { err = errors.Join(err, in.node.close()) }()
		if _, ok := socketPath(f.listen); !ok {
			f.listen = listener.Addr().String()
		}
		early = answerEarly(in.node, &in, listener)
		defer early.close()
		server, err = early.open(ctx, options, logger)
	} else {
		server, err = serve.Open(ctx, options)
	}
	if err != nil {
		return source.OpenError(f.data, err)
	}
	h := server.Health()
	logger.Info("log folded", "entries", h.Applied, "snapshot", h.Recovery.Snapshot, "batches", h.Recovery.Batches,
		"took", h.Recovery.Took.Round(time.Millisecond))
	freeStart()
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), f.drain)
		defer cancel()
		if e := server.Close(end); e != nil {
			err = errors.Join(err, fmt.Errorf("closing %s: %w", f.data, e))
			return
		}
		logger.Info("closed", "data", f.data)
	}()
	if err := ensureModels(ctx, server, in.models, f.personalizer, logger); err != nil {
		return err
	}
	edge, err := f.edge(server, in.keys, logger)
	if err != nil {
		return err
	}
	defer edge.Close() // before the server: evaluations read its log
	if early != nil {
		if listener, err = early.giveBack(); err != nil {
			return err
		}
	}

	r := &running{f, in, server, edge, logger}
	return r.answer(ctx, stop, hangup, listener)
}

// running is a server that is open.
type running struct {
	flags  serveFlags
	in     serveInputs
	server *serve.Server
	edge   *api.API
	log    *slog.Logger
}

// answer serves on the listener until ctx ends, then lets another node lead and answers the calls under way. stop gives
// the signals their usual effect back; at each hangup the files of keys, models and certificates are read again.
func (r *running) answer(ctx context.Context, stop func(), hangup <-chan os.Signal, listener net.Listener) error {
	f, logger := &r.flags, r.log
	hs := r.edge.Server()
	scheme := "http"
	if certs := r.in.certs; certs != nil {
		hs.TLSConfig, scheme = certs.config(), "https"
		listener = tls.NewListener(listener, hs.TLSConfig)
	}
	background, cancel := context.WithCancel(context.Background())
	defer cancel()
	go r.edge.Run(background)
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(listener) }()
	url := scheme + "://" + listener.Addr().String()
	if _, ok := socketPath(f.listen); ok {
		url = f.listen
	}
	logger.Info("listening", "url", url, "data", f.data, "keys", r.in.keys != nil)
	if f.readyFile != "" {
		if err := os.WriteFile(f.readyFile, []byte(url+"\n"), 0o644); err != nil {
			return err
		}
		defer os.Remove(f.readyFile)
	}
	for ctx.Err() == nil {
		select {
		case <-hangup:
			r.reload(ctx)
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
	}
	stop() // a second signal ends the process at once
	end, cancelEnd := context.WithTimeout(context.Background(), f.drain)
	defer cancelEnd()
	r.awaitStop(end)
	logger.Info("draining", "at most", f.drain)
	if r.in.node != nil { // while calls are still answered
		r.in.node.handOver(end)
	}
	if err := hs.Shutdown(end); err != nil {
		logger.Warn("requests were cut off", "error", err.Error())
		hs.Close()
	}
	return nil
}

// awaitStop lets a node that is needed serve on, for at most half of the time that is left at the end.
func (r *running) awaitStop(ctx context.Context) {
	half := r.flags.drain / 2
	wait, cancel := context.WithTimeout(ctx, half)
	defer cancel()
	why := r.server.AwaitStop(wait, func(why string) {
		r.log.Warn("this node is needed and serves on", "because", why, "at most", half)
	})
	if why != "" {
		r.log.Warn("this node stops although it is needed", "because", why)
	}
}

// serveInputs are what the files of the flags hold. Keys, certs and node are nil where the flags name none.
type serveInputs struct {
	keys   *api.Keys
	models []wantedModel
	certs  *certificates
	node   logServer
}

// read checks the flags and reads the files that they name. It changes the address of a member of a cluster
// to that of its file, and removes the ready file of an earlier server, whose address is not this one's.
func (f *serveFlags) read(logger *slog.Logger) (in serveInputs, err error) {
	if err := f.check(); err != nil {
		return in, err
	}
	if in.keys, err = readKeys(f.keys, nil); err != nil {
		return in, err
	}
	if in.models, err = readModels(f.models); err != nil {
		return in, err
	}
	if f.personalizer != "" {
		in.models = append(in.models, wantedModel{ModelConfig: personalizer.Config(f.personalizer)})
	}
	if in.certs, err = newCertificates(*f); err != nil {
		return in, err
	}
	if in.node, err = newLogServer(f, logger); err != nil {
		return in, err
	}
	if err := checkExposure(*f, in.keys != nil, in.certs != nil); err != nil {
		return in, err
	}
	if f.readyFile != "" {
		if err := os.Remove(f.readyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return in, fmt.Errorf("--ready-file: %w", err)
		}
	}
	return in, nil
}

// logLevels are the words of --log-level.
var logLevels = map[string]slog.Level{"error": slog.LevelError, "warn": slog.LevelWarn, "info": slog.LevelInfo,
	"debug": slog.LevelDebug}

// logger writes what --log-level and --log-format say.
func (f *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	level, ok := logLevels[f.logLevel]
	if !ok {
		return nil, wrong("log-level", "%s: expected error, warn, info or debug", f.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, wrong("log-format", "%s: expected text or json", f.logFormat)
}

// claim takes the address of --listen.
func (f *serveFlags) claim() (net.Listener, error) {
	l, err := listen(f.listen)
	switch {
	case errors.Is(err, errInUse):
		return nil, wrong("listen", "%s: another server answers there", f.listen)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, wrong("listen", "%s: the port is in use, perhaps by another server; --listen 127.0.0.1:0 "+
			"takes a free one", f.listen)
	case err != nil:
		return nil, wrong("listen", "%s: %w", f.listen, err)
	}
	return l, nil
}

// serverClock is that of servers, their logs and pages. Tests give one.
var serverClock timing.Clock

// options are those of the server behind the API.
func (f *serveFlags) options(logger *slog.Logger) serve.Options {
	return serve.Options{
		Clock: serverClock,
		Dir:   f.data, Cell: f.cell, Limits: serve.Limits{Open: f.open, Work: f.work, ModelBytes: f.modelBytes,
			Feature: feature.Limits{Actions: f.actions, Bytes: int(f.maxBody)}},
		Disk: eventlog.DiskOptions{MaxBytes: f.maxLog, VerifyEvery: f.verifyEvery,
			Logf: func(format string, a ...any) { logger.Warn(fmt.Sprintf(format, a...)) }},
		Logger: logger, Keep: f.keep, KeepBytes: f.keepBytes, TrimEvery: f.trimEvery,
		LayAside: cmp.Or(f.layAside, -1), LaidAside: giveBack(),
	}
}

// edge returns the HTTP side of server.
func (f *serveFlags) edge(server *serve.Server, keys *api.Keys, logger *slog.Logger) (*api.API, error) {
	hosts := append([]string(nil), f.hosts...)
	if loopback(f.listen) || len(hosts) > 0 {
		hosts = append(hosts, api.LoopbackHosts...)
	}
	for i := range hosts {
		hosts[i] = strings.ToLower(hosts[i])
	}
	data, err := filepath.Abs(f.data)
	if err != nil {
		return nil, err
	}
	connections := min(f.connections, openFiles()/2) // the log needs files too
	if connections < f.connections {
		logger.Warn("fewer connections than --max-connections: the system allows too few open files", "connections",
			connections)
	}
	return api.New(server, api.Options{
		Data: data, Connections: connections, Origins: f.origins,
		Keys: keys, Hosts: hosts, Adapters: []api.Adapter{personalizer.New(f.personalizer)}, MaxBody: f.maxBody, MaxActions: f.actions,
		Concurrent: f.concurrent, Timeout: f.timeout, Version: version, Logger: logger,
		Clock: serverClock,
	})
}

// check refuses limits that no server could keep.
func (f *serveFlags) check() error {
	if _, err := f.logger(io.Discard); err != nil {
		return err
	}
	for _, c := range []struct {
		flag            string
		value, low, top int64
	}{
		{"cell", int64(f.cell), 0, eventlog.LastCell},
		{"max-body", f.maxBody, 1 << 10, serve.MaxBytes},
		{"max-log", f.maxLog, 1 << 20, 1 << 60},
		{"max-actions", int64(f.actions), 1, serve.MaxActions},
		{"max-concurrent", int64(f.concurrent), 1, 1 << 20},
		{"max-open", int64(f.open), 1, 1 << 30},
		{"max-connections", int64(f.connections), 1, 1 << 20},
	} {
		if c.value < c.low || c.value > c.top {
			return wrong(c.flag, "%d: expected %d to %d", c.value, c.low, c.top)
		}
	}
	switch {
	case f.timeout < time.Millisecond || f.timeout > time.Hour:
		return wrong("timeout", "%v: expected 1ms to 1h", f.timeout)
	case f.work < time.Millisecond || f.work > time.Hour:
		return wrong("max-work", "%v: expected 1ms to 1h", f.work)
	case f.modelBytes != 0 && f.modelBytes < 1<<20:
		return wrong("max-model-bytes", "%d: expected at least %d, or 0 for no bound", f.modelBytes, 1<<20)
	case f.layAside != 0 && f.layAside < time.Second:
		return wrong("lay-aside", "%v: expected at least 1s, or 0 for never", f.layAside)
	case f.drain < 0 || f.drain > 24*time.Hour:
		return wrong("drain", "%v: expected 0s to 24h", f.drain)
	case f.keep != 0 && f.keep < time.Minute:
		return wrong("keep", "%v: expected at least 1m, or 0 to keep all", f.keep)
	case f.trimEvery < time.Second || f.trimEvery > 24*time.Hour:
		return wrong("trim-every", "%v: expected 1s to 24h", f.trimEvery)
	case f.keepBytes != 0 && f.keepBytes < 1<<20:
		return wrong("keep-bytes", "%d: expected at least %d, or 0 to keep all", f.keepBytes, 1<<20)
	case f.verifyEvery != 0 && f.verifyEvery < time.Minute:
		return wrong("verify-every", "%v: expected at least 1m, or 0 for never", f.verifyEvery)
	case !(f.verifyShare > 0 && f.verifyShare <= 1):
		return wrong("verify-share", "%v: expected a number above 0 and at most 1", f.verifyShare)
	}
	for _, h := range f.hosts { // it is compared with the header Host, and another would refuse every request
		if h == "" || strings.ContainsAny(h, "/ []") || strings.Contains(h, ":") && net.ParseIP(h) == nil {
			return wrong("host", "%s: expected a name without scheme, port and path, such as api.example.org", h)
		}
	}
	for _, origin := range f.origins {
		if err := api.CheckOrigin(origin); err != nil {
			return wrong("cors", "%w", err)
		}
	}
	if len(f.origins) > 0 && f.keys == "" {
		return wrong("cors", "needs --keys: without keys every page of the list could do everything")
	}
	if f.personalizer != "" {
		var e *model.Error
		if err := personalizer.Config(f.personalizer).Check(); errors.As(err, &e) {
			return wrong("personalizer", "%s: %s", f.personalizer, e.Want)
		}
	}
	return nil
}

// checkExposure refuses to offer to a network what only loopback may have.
func checkExposure(f serveFlags, keys, tls bool) error {
	if f.clientCA != "" && !tls {
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key")
	}
	if path, ok := socketPath(f.listen); ok && path == "" {
		return wrong("listen", "%s: expected unix: and the path of the socket", f.listen)
	} else if ok && tls {
		return wrong("listen", "%s: a socket in the file system has no TLS; leave out --tls-cert", f.listen)
	}
	if loopback(f.listen) {
		return nil
	}
	switch {
	case !keys:
		return wrong("listen", "%s is more than loopback: every caller could do everything; give --keys", f.listen)
	case !tls && !f.plaintext:
		return wrong("listen", "%s without TLS sends keys in the clear; give --tls-cert and --tls-key, or "+
			"--plaintext behind a proxy", f.listen)
	}
	return nil
}

// socketPath returns PATH of unix:PATH.
func socketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix:") }

var errInUse = errors.New("another server answers there")

// listen opens a port, or a socket in the file system that its owner and group may use. A socket that a server left
// behind is replaced; one that answers, and a file that is no socket, stay.
func listen(address string) (net.Listener, error) {
	path, ok := socketPath(address)
	if !ok {
		return net.Listen("tcp", address)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is there and is no socket", path)
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil, errInUse
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func loopback(address string) bool {
	if _, ok := socketPath(address); ok {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func readKeys(file string, previous *api.Keys) (*api.Keys, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return api.ParseKeys(file, string(data), previous)
}

// readModels reads the [[model]] tables of a file.
func readModels(file string) ([]wantedModel, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	raw, src, err := spec.ReadFile(file, string(data))
	if err != nil {
		return nil, err
	}
	out, err := decodeModels(raw, filepath.Dir(file))
	if err != nil {
		return nil, src.Locate(err)
	}
	return out, nil
}

// wantedModel is a [[model]] table: a configuration, or the file of a saved model that it starts from.
type wantedModel struct {
	serve.ModelConfig
	start []byte
}

// startOf reads a table with start: id and start, nothing else. The configuration is in the file.
func startOf(raw spec.Raw, at, dir string) (m wantedModel, err error) {
	for key := range raw {
		if key != "id" && key != "start" {
			return m, spec.Errorf(spec.Join(at, key),
				"cannot stand beside start: the configuration is that of the saved model")
		}
	}
	m.ID, _ = raw["id"].(string)
	if err := model.CheckName("id", m.ID); err != nil {
		return m, spec.Errorf(spec.Join(at, "id"), "is %s, expected 1 to 64 letters, digits and . _ -",
			spec.Show(raw["id"]))
	}
	file, ok := raw["start"].(string)
	if !ok {
		return m, spec.Errorf(spec.Join(at, "start"), "is %s, expected the file of a saved model",
			spec.Show(raw["start"]))
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	if m.start, err = os.ReadFile(file); err == nil {
		_, err = fold.ReadSaved(m.start)
	}
	if err != nil {
		return m, spec.Errorf(spec.Join(at, "start"), "%v", err)
	}
	return m, nil
}

func decodeModels(raw spec.Raw, dir string) (out []wantedModel, err error) {
	for name := range raw {
		if name != "model" {
			return nil, spec.Errorf(name, "unknown key %q; expected tables [[model]]", name)
		}
	}
	list, ok := raw["model"].([]any)
	switch {
	case raw["model"] == nil:
		return nil, spec.Errorf("", "there is no table [[model]]")
	case !ok:
		return nil, spec.Errorf("model", "is %s, expected tables [[model]] with two brackets", spec.Show(raw["model"]))
	}
	for i, v := range list {
		at := spec.Element("model", i)
		var c wantedModel
		if raw, ok := v.(spec.Raw); ok && raw["start"] != nil {
			c, err = startOf(raw, at, dir)
		} else {
			c.ModelConfig, err = serve.DecodeModel(v, at)
		}
		if err != nil {
			return nil, err
		}
		var fault *model.Error
		if err := c.check(); errors.As(err, &fault) {
			field := at + strings.TrimPrefix(fault.Field, "config")
			if fault.Value == "" {
				return nil, spec.Errorf(field, "is wrong: %s", fault.Want)
			}
			return nil, spec.Errorf(field, "is %s, %s", fault.Value, fault.Want)
		} else if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o wantedModel) bool { return o.ID == c.ID }) {
			return nil, spec.Errorf(at+".id", "is %s, which is there already", c.ID)
		}
		out = append(out, c)
	}
	return out, nil
}

func (m *wantedModel) check() error {
	if m.start != nil {
		return nil
	}
	return m.Check()
}

// ensureModels makes the models that do not exist and gives the others their configuration. keep is
// the name of a model that is only made: its configuration is changed over HTTP.
func ensureModels(ctx context.Context, s serve.Service, configs []wantedModel, keep string, logger *slog.Logger) error {
	for _, c := range configs {
		m, err := s.GetModel(ctx, c.ID)
		switch {
		case err == nil && (c.ID == keep || c.start != nil): // it has learned since
		case err == nil:
			// A model that learned its features keeps them: the file still says learn.
			if c.Features.Schema == nil && c.Dim == 0 {
				c.Features = m.Config.Features
			}
			was, err1 := m.Config.MarshalJSON()
			is, err2 := c.MarshalJSON()
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if string(was) == string(is) {
				continue
			}
			if m, err = s.ConfigureModel(ctx, c.ID, m.ConfigVersion, c.ModelConfig,
				"models-file"); serve.CodeOf(err) == serve.Conflict && s.Health().Cluster != nil {
				logger.Info("model configured by another node", "model", c.ID)
				continue
			} else if err != nil {
				return fmt.Errorf("model %s: %w", c.ID, err)
			}
			logger.Info("model configured", "model", c.ID, "version", m.ConfigVersion)
		case serve.CodeOf(err) == serve.NotFound:
			if c.start != nil {
				_, err = s.CreateModelFrom(ctx, c.ID, c.start, "models-file")
			} else {
				_, err = s.CreateModel(ctx, c.ModelConfig, "models-file")
			}
			if serve.CodeOf(err) == serve.Conflict && s.Health().Cluster != nil {
				logger.Info("model created by another node", "model", c.ID)
				continue
			}
			if err != nil {
				return fmt.Errorf("model %s: %w", c.ID, err)
			}
			logger.Info("model created", "model", c.ID)
		default:
			return err
		}
	}
	return nil
}

// reload reads the files again. What cannot be read leaves what was; the reason is logged.
func (r *running) reload(ctx context.Context) {
	f, logger := &r.flags, r.log
	if f.keys != "" {
		if keys, err := readKeys(f.keys, r.edge.Keys()); err != nil {
			logger.Error("keys not reloaded", "error", err.Error())
		} else {
			r.edge.SetKeys(keys)
			logger.Info("keys reloaded", "file", f.keys)
		}
	}
	if certs := r.in.certs; certs != nil {
		if err := certs.load(); err != nil {
			logger.Error("certificate not reloaded", "error", err.Error())
		} else {
			logger.Info("certificate reloaded", "file", f.cert)
		}
	}
	if f.models != "" {
		configs, err := readModels(f.models)
		if err == nil {
			err = ensureModels(ctx, r.server, configs, f.personalizer, logger)
		}
		if err != nil {
			logger.Error("models not reloaded", "error", err.Error())
		} else {
			logger.Info("models reloaded", "file", f.models)
		}
	}
}

// certificates are the files of TLS, read again on SIGHUP.
type certificates struct {
	cert, key string
	clients   *x509.CertPool
	now       atomic.Pointer[tls.Certificate]
}

func newCertificates(f serveFlags) (*certificates, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together")
	}
	if f.cert == "" {
		return nil, nil
	}
	c := &certificates{cert: f.cert, key: f.key}
	if f.clientCA != "" {
		pem, err := os.ReadFile(f.clientCA)
		if err != nil {
			return nil, err
		}
		c.clients = x509.NewCertPool()
		if !c.clients.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", filepath.Clean(f.clientCA))
		}
	}
	return c, c.load()
}

func (c *certificates) load() error {
	if err := secret.Check(c.key); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.now.Store(&pair)
	}
	return err
}

// config is TLS 1.3. A client certificate is verified when it is given: keys may come instead.
func (c *certificates) config() *tls.Config {
	t := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
	if c.clients != nil {
		t.ClientCAs, t.ClientAuth = c.clients, tls.VerifyClientCertIfGiven
	}
	return t
}

var _ http.Handler = (*api.API)(nil)
