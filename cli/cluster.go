package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/spec"
)

func clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Several servers with one log: files, state, planned stops, copies",
		Long: `Three to five servers share one log. Any of them decides and takes rewards. When a machine is gone, the
others continue after a few seconds, and nothing that was answered is lost. How to start and operate a
cluster: docs/guide/cluster.md.`,
		Example: `  troupe cluster init --nodes a.example,b.example,c.example --out cluster
  troupe serve --cluster cluster/a.example/cluster.toml --data /var/lib/troupe
  troupe cluster status --cluster cluster/a.example/cluster.toml`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(clusterInitCommand(), clusterStatusCommand(), clusterDrainCommand(), clusterKeysCommand(),
		clusterCertificateCommand(), clusterReplaceCommand(), clusterAddCommand(), clusterRemoveCommand(),
		clusterRebuildCommand(), clusterVerifyCommand(), clusterVoidCommand(), clusterExportCommand(),
		clusterImportCommand(), clusterSalvageCommand(),
		clusterRecoverCommand())
	return c
}

func clusterInitCommand() *cobra.Command {
	var nodes []string
	var out, from, engine string
	var noKey bool
	var cell int
	c := &cobra.Command{
		Use:   "init",
		Short: "Make the files of a new cluster, a folder for each node",
		Long: `Writes a folder for each node: cluster.toml, the certificate of the cluster's authority, the
node's own certificate and key, and keys.json, the same for all, which signs event ids. Copy each
folder to its machine, and keep it secret. The folder authority has the key that makes further
certificates: keep it away from the nodes. Certificates are valid for one year, see troupe cluster
certificate; with --no-authority-key for ten, and no further one can be made.

A node is NAME, NAME=HOST, NAME=HOST:PORT or NAME=HOST:PORT/CALLERPORT. PORT is for the other
nodes, CALLERPORT for callers.`,
		Example: `  troupe cluster init --nodes a.example,b.example,c.example --out cluster
  troupe cluster init --nodes a=127.0.0.1:7421/8081,b=127.0.0.1:7422/8082,c=127.0.0.1:7423/8083 --out cluster`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := parseNodes(nodes)
			if err != nil {
				return term.Misuse(err)
			}
			if !isEngine(engine) {
				return term.Misuse(wrong("engine", "%s: expected one of %s", engine, strings.Join(engines, ", ")))
			}
			switch {
			case cell < 0 || cell > eventlog.LastCell:
				return term.Misuse(wrong("cell", "%d: expected 1 to %d, or 0 for a cluster that is no cell", cell, eventlog.LastCell))
			case cell > 0 && from != "":
				return term.Misuse(wrong("cell", "does not go with --import: the cluster has the keys of that machine"))
			}
			if engine == engineRaft && from != "" {
				return term.Misuse(wrong("import", "does not go with --engine %s yet", engineRaft))
			}
			cluster, err := makeCluster(out, list, engine, from, cell, !noKey)
			if err != nil {
				return term.Misuse(err)
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "%s: %d nodes in %s\n", cluster.Cluster, len(list), out)
			if len(list)%2 == 0 {
				fmt.Fprint(w, majorityWords(len(list)))
			}
			if from != "" {
				fmt.Fprintf(w, "on %s, at last: troupe cluster import %s --cluster %s --data DIR\n", list[0].Name, from,
					filepath.Join(out, list[0].Name, clusterFile))
			}
			for _, n := range list {
				fmt.Fprintf(w, "on %s: troupe serve --cluster %s --data DIR\n", n.Name,
					filepath.Join(out, n.Name, clusterFile))
			}
			if !noKey {
				fmt.Fprintf(w, "keep %s away from the nodes: its key makes certificates that they accept\n",
					filepath.Join(out, authorityDir))
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&nodes, "nodes", nil, "the nodes, three to five, separated by commas")
	c.Flags().IntVar(&cell, "cell", 0, "number of the cluster among cells behind a proxy, 1 to 31 (troupe cells); 0: it is no cell")
	c.Flags().StringVar(&out, "out", "cluster", "directory for the folders, empty or not there")
	c.Flags().BoolVar(&noKey, "no-authority-key", false, "do not keep the authority's key; certificates are valid for "+
		"ten years")
	c.Flags().StringVar(&engine, "engine", engineStream, "what replicates the log: jetstream, or raft, which is new")
	c.Flags().StringVar(&from, "import", "", "data directory of a single machine: the cluster has its keys, and "+
		"waits for troupe cluster import")
	return c
}

// clusterServer is a node of a cluster in this process.
type clusterServer struct {
	config *clusterConfig
	flags  *serveFlags
	keys   eventlog.IDKeys
	node   *eventlog.Node
	stream *eventlog.Stream
	logger *slog.Logger

	damage  string        // of the files at the start, although the node started
	suspect chan struct{} // the engine did not give an entry

	names   atomic.Pointer[[]string] // of the nodes, as the log has them
	reading sync.Mutex               // of cluster.toml again
	told    atomic.Bool              // that it is not what the log says
	waiting atomic.Pointer[string]   // what open waits for
	gone    atomic.Pointer[eventlog.GoneError]
	closed  atomic.Bool
}

// logServer is what has the log of a server that is not alone: NATS servers in the nodes, or those of others.
type logServer interface {
	// open waits until there is a log and sets the options that depend on it.
	open(ctx context.Context, o *serve.Options) error
	// name is that of this node, and waits what open waits for, empty when it does not.
	name() string
	waits() string
	// handOver lets another node lead before this one stops.
	handOver(ctx context.Context)
	close() error
}

// newLogServer reads what --cluster or --nats names, nil without both.
func newLogServer(f *serveFlags, logger *slog.Logger) (logServer, error) {
	switch {
	case f.cluster != "":
		config, keys, err := readNode(f)
		if err != nil {
			return nil, err
		}
		if config.Engine == engineRaft {
			return newRaftServer(config, keys, f, logger)
		}
		return startable(config, keys, f, logger)
	case len(f.nats.urls) > 0:
		return newNATSServer(f, logger)
	}
	return nil, nil
}

// readNode reads what --cluster names, and sets --listen when it was not given.
func readNode(f *serveFlags) (config *clusterConfig, keys eventlog.IDKeys, err error) {
	if config, err = readCluster(f.cluster); err != nil {
		return nil, keys, err
	}
	if err := config.trust(f.ca, f.cert); err != nil {
		return nil, keys, err
	}
	if keys, err = serve.ReadKeys(config.folder()); err != nil {
		return nil, keys, err
	}
	if _, err := config.tls(); err != nil {
		return nil, keys, err
	}
	if u, err := url.Parse(config.self().URL); err == nil && !f.listens && u.Port() != "" {
		f.listen = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return config, keys, nil
}

// newClusterServer reads what --cluster names for a command that works on the files or the protocol of the default engine.
func newClusterServer(f *serveFlags, logger *slog.Logger) (*clusterServer, error) {
	config, keys, err := readNode(f)
	if err == nil {
		err = config.onlyStream("docs/reference/cluster.md says what is")
	}
	if err != nil {
		return nil, err
	}
	return startable(config, keys, f, logger)
}

// startable returns a node that may start: its address is free.
func startable(config *clusterConfig, keys eventlog.IDKeys, f *serveFlags, logger *slog.Logger) (*clusterServer, error) {
	c := &clusterServer{config: config, keys: keys, flags: f, logger: logger, suspect: make(chan struct{}, 1)}
	address := c.config.self().Address
	l, err := net.Listen("tcp", address) // the engine would only log it
	if err != nil {
		return nil, fmt.Errorf("%s: address %s of node %s: %w", f.cluster, address, c.config.Node, err)
	}
	l.Close()
	return c, nil
}

// open starts the node and waits until the cluster has a log.
func (c *clusterServer) open(ctx context.Context, o *serve.Options) error {
	if err := c.start(ctx, true); err != nil {
		return err
	}
	waiting, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { c.wait(waiting) })
	var err error
	var said time.Time
	for {
		c.stream, err = eventlog.OpenStream(ctx, c.node.Conn(), c.streamOptions())
		var gone *eventlog.GoneError
		if !errors.As(err, &gone) {
			break
		}
		c.gone.Store(gone) // it must not end and be started again as if nothing were wrong
		if time.Since(said) >= saidAgain {
			said = time.Now()
			c.logger.Error("the log is gone", "error", gone.Error())
		}
		if !serverClock.Sleep(ctx, goneAgain) {
			break
		}
	}
	stop()
	told.Wait()
	c.waiting.Store(nil)
	c.gone.Store(nil)
	if err == nil && !c.config.Join {
		err = c.node.Joined()
	}
	o.Log, o.Keys = c.stream, c.keys
	o.Cluster = &serve.Cluster{Node: c.config.Node, Nodes: c.config.names(), Missing: c.missing,
		Engine: engineOf{c}, Joins: c.config.Join && c.node.Fresh(),
		Certified: c.config.certified, SyncTime: c.node.SyncTime, Replica: serve.Replica{
			Check: c.node.Check, Walk: c.node.Walk, Repair: c.node.Repair, Care: c.node.Care,
			Damage: cmp.Or(c.damage, c.node.Unfinished()), Suspect: c.suspect,
			WalkEvery: c.flags.verifyEvery, WalkShare: c.flags.verifyShare}}
	if err == nil {
		o.Cluster.Imported, o.Cluster.ImportedBase = c.stream.Imported(), c.stream.ImportedBase()
	}
	return err
}

func (c *clusterServer) streamOptions() eventlog.StreamOptions {
	await := c.config.Import != "" || c.config.Join
	return eventlog.StreamOptions{
		Replicas: len(c.config.Nodes), Node: c.node, Create: !await && c.node.Fresh(), Await: await && c.node.Fresh(),
		MaxBytes: c.flags.maxLog, Logf: engineSays(c.logger), Clock: serverClock,
		Suspect: func() {
			select {
			case c.suspect <- struct{}{}:
			default:
			}
		},
	}
}

// start starts the node, whose files are made anew from the others when they are damaged and repair is set.
func (c *clusterServer) start(ctx context.Context, repair bool) error {
	tls, err := c.config.tls()
	if err != nil {
		return err
	}
	c.node, err = eventlog.StartNode(ctx, eventlog.NodeOptions{
		Dir: filepath.Join(c.flags.data, "log"), Cluster: c.config.Cluster, Name: c.config.Node,
		Listen: c.config.self().Address,
		Routes: c.config.addresses(), TLS: tls, Keys: c.keys.Batches(), Logf: engineSays(c.logger), Clock: serverClock,
		Damaged: func(e *eventlog.DamagedReplicaError) error { return c.damaged(ctx, e) }, Repair: repair,
	})
	return err
}

// damaged decides whether a node with damaged files may start. Where the others are a majority they go on without it,
// and it can be rebuilt. Where they are not it is needed: after a loss of power of all machines every replica may lack
// some of its newest pages, which the engine has in a log of its own, and the chain still refuses what was not written.
func (c *clusterServer) damaged(ctx context.Context, e *eventlog.DamagedReplicaError) error {
	ready := 0
	for _, n := range c.config.ask(ctx).Nodes {
		if n.Name != c.config.Node && n.Ready {
			ready++
		}
	}
	if ready > len(c.config.Nodes)/2 {
		return e
	}
	c.logger.Error("the node starts although its files are damaged, because the others are no majority; it makes them "+
		"anew when they are", "error", e.Error())
	c.damage = e.Damage[0].String()
	return nil
}

func (c *clusterServer) name() string { return c.config.Node }

func (c *clusterServer) waits() string {
	if gone := c.gone.Load(); gone != nil {
		return gone.Error()
	}
	if w := c.waiting.Load(); w != nil {
		return *w
	}
	return ""
}

// wait says which nodes are missing until the log is there.
func (c *clusterServer) wait(ctx context.Context) {
	since := time.Now()
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for {
		missing := c.missing()
		what := "an election"
		if c.config.Import != "" && c.node.Fresh() {
			what = "the end of troupe cluster import"
		} else if c.config.Join {
			what = "the log of the others"
		}
		if len(missing) > 0 {
			what = strings.Join(missing, ", ")
		}
		c.waiting.Store(&what)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.logger.Info("waiting", "for", what, "since", time.Since(since).Round(time.Second))
	}
}

// missing are the nodes that this one has no connection to.
func (c *clusterServer) missing() []string {
	here := c.node.Peers()
	return slices.DeleteFunc(slices.Clone(c.list()), func(n string) bool {
		return n == c.config.Node || slices.Contains(here, n)
	})
}

// handOver lets another node lead before this one stops.
func (c *clusterServer) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // without a majority there is none to hand over to
	defer cancel()
	if err := c.stream.HandOver(ctx); err != nil {
		c.logger.Warn("no other node leads yet", "error", err.Error())
	}
}

func (c *clusterServer) close() error {
	c.closed.Store(true)
	var errs []error
	if c.stream != nil {
		errs = append(errs, c.stream.Close())
	}
	if c.node != nil {
		errs = append(errs, c.node.Close())
	}
	return errors.Join(errs...)
}

// nodeStatus is what a node says at /readyz, or why it says nothing.
type nodeStatus struct {
	Name       string               `json:"name"`
	URL        string               `json:"url"`
	Error      string               `json:"error,omitempty"`
	Ready      bool                 `json:"ready"`
	Reason     string               `json:"reason,omitempty"`
	Applied    uint64               `json:"applied"`
	Leader     bool                 `json:"leader"`
	Lag        uint64               `json:"lag"` // entries behind the newest one that any node has applied
	Durability string               `json:"durability,omitempty"`
	Cluster    *serve.ClusterHealth `json:"cluster,omitempty"`

	reserved bool // it answers, and keeps to itself what it knows of the others: it wants a key
}

// answers reports whether a server answered, although it may not have said who it is.
func (s *nodeStatus) answers() bool { return s.Error == "" || s.reserved }

// clusterStatus is what troupe cluster status prints.
type clusterStatus struct {
	Cluster string       `json:"cluster"`
	Leader  string       `json:"leader,omitempty"`
	Nodes   []nodeStatus `json:"nodes"`
	// MayStop are the nodes of which one may be stopped without a pause for more than an election.
	MayStop []string `json:"may_stop"`
	// Lacking says of the nodes that the others cannot go on with at once what they lack.
	Lacking map[string]string `json:"lacking,omitempty"`

	fitness []serve.Fitness
}

// ask asks every node.
func (c *clusterConfig) ask(ctx context.Context) clusterStatus {
	s := clusterStatus{Cluster: c.Cluster, Nodes: make([]nodeStatus, len(c.Nodes)), MayStop: []string{}}
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		wg.Go(func() { s.Nodes[i] = n.ask(ctx) })
	}
	wg.Wait()
	newest := uint64(0)
	for _, n := range s.Nodes {
		newest = max(newest, n.Applied)
		if n.Ready && n.Cluster != nil {
			for _, r := range n.Cluster.Replicas {
				if r.Leader {
					s.Leader = r.Name
				}
			}
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Leader, n.Lag = n.Name == s.Leader, newest-n.Applied
		if n.Error != "" {
			n.Lag = 0
		}
	}
	s.judge()
	return s
}

// judge finds out which nodes may be stopped: what the leader knows of the others counts, or another node that is
// ready, and whether each is ready by its own words.
func (s *clusterStatus) judge() {
	var view *serve.ClusterHealth
	for _, n := range s.Nodes {
		if n.Ready && n.Cluster != nil && (view == nil || n.Leader) {
			view = n.Cluster
		}
	}
	var known []serve.Fitness
	if view != nil {
		known = view.Fitness()
	}
	for _, n := range s.Nodes {
		f := serve.Fitness{Name: n.Name, Lacks: "is not one of the cluster's yet"}
		if at := slices.IndexFunc(known, func(k serve.Fitness) bool { return k.Name == n.Name }); at >= 0 {
			f = known[at]
			known = slices.Delete(known, at, at+1)
		}
		if n.reserved {
			f.Lacks = "wants a key"
		} else if n.Error != "" {
			f.Lacks = "does not answer"
		} else if !n.Ready {
			f.Lacks = "is not ready"
		}
		s.fitness = append(s.fitness, f)
	}
	s.fitness = append(s.fitness, known...) // of the log, and not in the file of this command
	s.MayStop = append(s.MayStop, serve.MayStop(s.fitness)...)
	for _, f := range s.fitness {
		if f.Lacks != "" {
			if s.Lacking == nil {
				s.Lacking = map[string]string{}
			}
			s.Lacking[f.Name] = f.Lacks
		}
	}
}

func (n clusterNode) ask(ctx context.Context) nodeStatus {
	s := nodeStatus{Name: n.Name, URL: n.URL}
	if n.URL == "" {
		s.Error = "--url does not have it"
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", n.URL+"/readyz", nil)
	if err == nil {
		if key := os.Getenv("TROUPE_KEY"); key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		var a *http.Response
		if a, err = n.do(r); err == nil {
			defer a.Body.Close()
			err = json.NewDecoder(io.LimitReader(a.Body, 1<<20)).Decode(&s)
		}
	}
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	if err != nil {
		s.Error = err.Error()
	} else if s.Cluster == nil && s.Durability == "majority" {
		s.reserved, s.Error = true, "it has keys: set TROUPE_KEY to one with the scope read"
	} else if s.Cluster == nil || n.Name != "" && n.Name != n.URL && s.Cluster.Node != n.Name {
		s.Ready, s.Error = false, "the server there is not this node"
	} else {
		n.Name = s.Cluster.Node
	}
	s.Name, s.URL = n.Name, n.URL
	return s
}

// renewBefore is how long before the end of a certificate the status asks for another one.
const renewBefore = 30 * 24 * time.Hour

// print writes a status for people.
func (s *clusterStatus) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tREADY\tLEADER\tAPPLIED\tLAG\tCONTACT\tCLOCK\tDIGEST\tVOID\tKEYS\t")
	for _, n := range s.Nodes {
		ready := "yes"
		if !n.Ready {
			ready = "no"
		}
		if n.Error != "" {
			fmt.Fprintf(t, "%s\t%s\t\t\t\t\t\t\t\t\t%s\n", n.Name, ready, n.Error)
			continue
		}
		leader := ""
		if n.Leader {
			leader = "leads"
		}
		keys := strings.ReplaceAll(strings.Trim(fmt.Sprint(n.Cluster.KeyNumbers), "[]"), " ", ",")
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.1f s\t%+.3f s\t%s\t%d\t%s\t%s\n", n.Name, ready, leader, n.Applied, n.Lag,
			n.Cluster.Contact, n.Cluster.Clock, n.Cluster.Digest, n.Cluster.Void, keys, n.Reason)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range s.Nodes { // the live node that comes first removes the entries
		if n.Ready && n.Cluster != nil && n.Cluster.Trim != "" {
			fmt.Fprintf(w, "trimming up to entry %d: %s\n", n.Cluster.Base, n.Cluster.Trim)
			break
		}
	}
	for _, n := range s.Nodes {
		if n.Error == "" && n.Cluster.Damage != "" {
			fmt.Fprintf(w, "the files of %s are damaged: %s; %s\n", n.Name, n.Cluster.Damage,
				cmp.Or(n.Cluster.Unrepaired, "it makes them anew from the others"))
		}
	}
	for _, n := range s.Nodes {
		if n.Error != "" || n.Cluster.CertificateEnds == nil {
			continue
		}
		if left := time.Until(*n.Cluster.CertificateEnds); left < renewBefore {
			fmt.Fprintf(w, "the certificate of %s ends in %d days: troupe cluster certificate renew\n", n.Name,
				max(0, int(left.Hours()/24)))
		}
	}
	s.care(w)
	s.other(w)
	s.without(w)
	if text := s.raise(); text != "" {
		fmt.Fprintln(w, text)
	}
	if text := s.servers(); text != "" {
		fmt.Fprintln(w, text)
	}
	_, err := fmt.Fprintf(w, "may be stopped now: %s\n", serve.MayStopText(s.fitness))
	return err
}

// care says when the files of each node were read last, and which were made anew.
func (s *clusterStatus) care(w io.Writer) {
	var read []string
	for _, n := range s.Nodes {
		if n.Error != "" || n.Cluster.Verified == nil {
			continue
		}
		read = append(read, n.Name+" "+n.Cluster.Verified.UTC().Format("2006-01-02 15:04"))
		if n.Cluster.Repaired != nil {
			fmt.Fprintf(w, "the files of %s were damaged, and are made anew from the others since %s (%d times in all)\n",
				n.Name, n.Cluster.Repaired.UTC().Format("2006-01-02 15:04"), n.Cluster.Repairs)
		}
	}
	if len(read) > 0 {
		fmt.Fprintf(w, "all files read, and whole: %s\n", strings.Join(read, ", "))
	}
}

// without says which entries of the log have no effect. The counts are the same at all nodes that have applied as much.
func (s *clusterStatus) without(w io.Writer) {
	for _, n := range s.Nodes {
		if !n.Ready || n.Cluster == nil {
			continue
		}
		if n.Cluster.Unwritten > 0 {
			fmt.Fprintf(w, "%d entries of the log have no effect, the newest is %d: no node has written them, so "+
				"something else can write to the log\n", n.Cluster.Unwritten, n.Cluster.UnwrittenEntry)
		}
		if n.Cluster.Declared > 0 {
			fmt.Fprintf(w, "%d entries of the log have no effect, because an operator has declared them void\n",
				n.Cluster.Declared)
		}
		return
	}
}

// raise says which nodes run a program that cannot read what the others can, empty when none does.
func (s *clusterStatus) raise() string {
	for _, n := range s.Nodes {
		if !n.Ready || n.Cluster == nil {
			continue
		}
		highest, behind := uint32(0), []string{}
		for _, x := range n.Cluster.Nodes {
			highest = max(highest, x.Readable)
		}
		for _, x := range n.Cluster.Nodes {
			if x.Readable < highest {
				behind = append(behind, x.Name)
			}
		}
		if len(behind) == 0 || highest <= uint32(n.Cluster.LogVersion) {
			return ""
		}
		return fmt.Sprintf("log version %d: it rises to %d when %s can read that", n.Cluster.LogVersion, highest,
			strings.Join(behind, ", "))
	}
	return ""
}

// servers says what has the log, where it is not the nodes.
func (s *clusterStatus) servers() string {
	for _, n := range s.Nodes {
		if n.Error != "" || n.Cluster.Attested == nil {
			continue
		}
		var names []string
		for _, r := range n.Cluster.Replicas {
			name := r.Name
			switch {
			case r.Leader:
				name += " (leads)"
			case r.Offline || !r.Current:
				name += " (behind or not there)"
			}
			names = append(names, name)
		}
		by := "they report that they sync always"
		switch a := n.Cluster.Attested; {
		case !a.Is:
			by = "they are not known to keep what they acknowledge"
		case a.By != serve.AttestedByServers:
			by = a.By + " vouches for them"
		}
		return fmt.Sprintf("the log is at the NATS servers %s; %s", strings.Join(names, ", "), by)
	}
	return ""
}

// clusterFlags name a cluster: by the file of a node, or by where its servers are.
type clusterFlags struct {
	file string
	urls []string
	ca   string
}

// caHelp is the help of --ca.
const caHelp = "file with the authority of the certificates that callers see (PEM), beside the system's and the cluster's"

func (f *clusterFlags) flags(fl *pflag.FlagSet) {
	fl.StringVar(&f.file, "cluster", "", "cluster.toml of any node; without it the one that TROUPE_CLUSTER names")
	fl.StringSliceVar(&f.urls, "url", nil, "in place of --cluster: where the servers are, http://HOST:PORT,…; for "+
		"servers with --nats")
	fl.StringVar(&f.ca, "ca", "", caHelp)
}

func (f *clusterFlags) read(ctx context.Context) (*clusterConfig, error) {
	if len(f.urls) > 0 {
		if f.file != "" {
			return nil, term.Misuse(errors.New("--url does not go with --cluster"))
		}
		return clusterAt(ctx, f.urls, f.ca)
	}
	file := f.file
	if file == "" {
		file = os.Getenv("TROUPE_CLUSTER")
	}
	if file == "" {
		return nil, term.Misuse(errors.New("--cluster is missing: give the cluster.toml of any node, or set " +
			"TROUPE_CLUSTER; or --url"))
	}
	c, err := readCluster(file)
	if err == nil {
		err = c.trust(f.ca, "")
	}
	if err != nil {
		return nil, term.Misuse(err)
	}
	return c, nil
}

// clusterAt asks the servers at urls which nodes they are. One that does not answer has its URL for a name. Nodes that
// they know and that no URL names are in the list too, without one.
func clusterAt(ctx context.Context, urls []string, ca string) (*clusterConfig, error) {
	c := &clusterConfig{}
	asks := &clusterConfig{Nodes: make([]clusterNode, 1)} // for its client
	if err := asks.trust(ca, ""); err != nil {
		return nil, term.Misuse(err)
	}
	var known []serve.NodeHealth
	silent := 0
	for i, text := range urls {
		u, err := url.Parse(strings.TrimSuffix(text, "/"))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, term.Misuse(fmt.Errorf("--url: the one at place %d is not readable, expected "+
				"http://HOST:PORT or https://HOST:PORT", i+1))
		}
		n := clusterNode{URL: u.String(), client: asks.Nodes[0].client}
		s := n.ask(ctx)
		if n.Name = s.Name; n.Name == "" {
			n.Name = n.URL
			silent++
		} else if c.named(n.Name) != nil {
			return nil, term.Misuse(fmt.Errorf("--url: %s is node %s, which is there already", n.URL, n.Name))
		}
		if s.Cluster != nil && len(s.Cluster.Nodes) > len(known) {
			known = s.Cluster.Nodes
		}
		c.Nodes = append(c.Nodes, n)
	}
	for _, k := range known {
		if silent == 0 && c.named(k.Name) == nil {
			c.Nodes = append(c.Nodes, clusterNode{Name: k.Name})
		}
	}
	return c, nil
}

func clusterStatusCommand() *cobra.Command {
	var at clusterFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, the leader, what each has applied, and what may be stopped now",
		Long: `Asks every node at the url in cluster.toml, or the servers at --url. The columns:

  CONTACT  how long ago the node reached a majority
  CLOCK    how far its clock is ahead of the median
  DIGEST   whether the state of its models agrees with that of a majority
  VOID     how many of its batches were stored too late to count
  KEYS     the numbers of its keys of event ids, the current one first

The exit code is 1 when less than a majority is ready. Where the nodes have --keys, set TROUPE_KEY to a
key with the scope read. What to do about each line: docs/guide/cluster.md.`,
		Example: `  troupe cluster status --cluster cluster/a.example/cluster.toml
  troupe cluster status --cluster cluster/a.example/cluster.toml --json
  troupe cluster status --url http://127.0.0.1:8080`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := at.read(cmd.Context())
			if err != nil {
				return err
			}
			s := config.ask(cmd.Context())
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(s)
			} else {
				err = s.print(cmd.OutOrStdout())
			}
			ready := 0
			for _, n := range s.Nodes {
				if n.Ready {
					ready++
				}
			}
			if err == nil && ready <= len(config.Nodes)/2 {
				err = term.Silently(term.Failed, errors.New("less than a majority is ready"))
			}
			return err
		},
	}
	at.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func clusterDrainCommand() *cobra.Command {
	var at clusterFlags
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Prepare a node for its stop: another one leads, its calls are answered, new ones refused",
		Long: `Another node leads the log, the node answers new calls with 503, and the command returns when the calls
under way are answered. It asks for 30 s while no other node leads. Then the process may be stopped; a
new start takes calls again.

The command and the node refuse when the other nodes that are ready and current are no majority. A node
that gets SIGTERM drains by itself; if it is needed, it keeps serving first, for at most half of
--drain. Where the nodes have --keys, set TROUPE_KEY to a key with the scope admin.`,
		Example: `  troupe cluster drain b.example --cluster cluster/a.example/cluster.toml`,
		Args:    term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := at.read(cmd.Context())
			if err != nil {
				return err
			}
			n := config.named(args[0])
			if n == nil {
				return term.Misuse(fmt.Errorf("%s is not one of the nodes %s%s", args[0],
					strings.Join(config.names(), ", "), spec.Suggest(args[0], config.names())))
			}
			return config.drain(cmd.Context(), n, os.Getenv("TROUPE_KEY"))
		},
	}
	at.flags(c.Flags())
	return c
}

// stopFor is how long a drain waits until the others are a majority.
const stopFor = 5 * time.Second

// drainFor is how long a drain asks again while the node answers that no other node leads yet, that calls are still
// under way, or that it is needed although the status says that it is not: it learns of the others seconds later.
const drainFor = 30 * time.Second

// drain prepares the stop of a node once it may be stopped. What passes by itself, such as an election, may.
func (c *clusterConfig) drain(ctx context.Context, n *clusterNode, key string) (err error) {
	for since := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		s, atMost := c.ask(ctx), drainFor
		if slices.Contains(s.MayStop, n.Name) {
			err = n.drain(ctx, key)
		} else {
			atMost = stopFor
			err = &refusal{code: serve.Needed, text: fmt.Sprintf("%s may not be stopped now; may be stopped now: %s",
				n.Name, serve.MayStopText(s.fitness))}
		}
		if codeOf(err) != serve.Needed || time.Since(since) > atMost || ctx.Err() != nil {
			return err
		}
	}
}

// refusal is the answer of a node that did not do what it was asked for.
type refusal struct {
	text  string
	code  serve.Code    // of the problem, empty where the answer has none
	again time.Duration // when to ask again, where the answer says so
}

func (e *refusal) Error() string { return e.text }

// codeOf returns the code of a refusal, empty for another error.
func codeOf(err error) serve.Code {
	if e := (*refusal)(nil); errors.As(err, &e) {
		return e.code
	}
	return ""
}

// act sends a request without a body, which is answered without one. Another answer is a refusal.
func (n clusterNode) act(ctx context.Context, method, path, key string) error {
	r, err := http.NewRequestWithContext(ctx, method, n.URL+path, nil)
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	a, err := n.do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusNoContent {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(a.Body, 4096))
	e := &refusal{text: fmt.Sprintf("%s answers %s: %s", n.Name, a.Status, strings.TrimSpace(string(text)))}
	var p api.Problem
	if json.Unmarshal(text, &p) == nil && p.Code != "" {
		e.code = serve.Code(p.Code)
		e.text = fmt.Sprintf("%s answers %s: %s", n.Name, a.Status, cmp.Or(p.Detail, p.Title))
	}
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil &&
		a.StatusCode == http.StatusServiceUnavailable {
		e.again = time.Duration(max(1, seconds)) * time.Second
	}
	return e
}

// drain prepares the stop of the node. An election takes seconds on a busy machine, so an answer with Retry-After is
// followed by another call, for drainFor.
func (n clusterNode) drain(ctx context.Context, key string) error {
	for since := time.Now(); ; {
		err := n.act(ctx, "POST", "/v1/cluster:drain", key)
		e := (*refusal)(nil)
		if !errors.As(err, &e) || e.again == 0 || time.Since(since)+e.again > drainFor {
			return err
		}
		select {
		case <-time.After(e.again):
		case <-ctx.Done():
			return err
		}
	}
}
