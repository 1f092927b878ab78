package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/serve"
	"troupe/spec"
)

func clusterAddCommand() *cobra.Command {
	var file, dir, out, ca string
	c := &cobra.Command{
		Use:   "add NODE=HOST[:PORT[/CALLERPORT]]",
		Short: "Make the files of one more node, which takes the log from the others",
		Long: `For a cluster of three or four nodes. It writes a folder for each node: all files of the new one, and
cluster.toml for the others. Start the new machine with an empty data directory. It takes the log from
the others, writes into the log that it is one of the nodes, and gets a replica that counts. Copy
cluster.toml to the others at any time; they read it while they run.

Of four nodes a majority is three, so one may be missing, as of three. The command is refused if the
name or the address is taken, something listens there, or the ready nodes would be no majority of one
more.`,
		Example: `  troupe cluster add d.example --cluster a.example/cluster.toml --authority authority --out new`,
		Args:    term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := presentCluster(file, ca)
			if err != nil {
				return err
			}
			a, err := readAuthority(dir)
			if err == nil {
				err = emptyOut(out)
			}
			if err != nil {
				return term.Misuse(err)
			}
			n, next, err := config.add(args[0])
			if err != nil {
				return term.Misuse(err)
			}
			s := config.ask(cmd.Context())
			if err := config.isPresent(s); err != nil {
				return term.Misuse(err)
			}
			if err := mayAdd(s, len(next.Nodes)); err != nil {
				return fmt.Errorf("%s is not added, nothing was written: %w", n.Name, err)
			}
			return writeAddition(cmd.OutOrStdout(), next, a, n, out)
		},
	}
	c.Flags().StringVar(&file, "cluster", "", "cluster.toml of a node, with keys.json beside it")
	c.Flags().StringVar(&dir, "authority", "", authorityHelp)
	c.Flags().StringVar(&out, "out", "", "directory for the folders, empty or not there")
	c.Flags().StringVar(&ca, "ca", "", caHelp)
	return c
}

// presentCluster reads the file that --cluster names.
func presentCluster(file, ca string) (*clusterConfig, error) {
	if file == "" {
		return nil, term.Misuse(errors.New("--cluster is missing, expected the cluster.toml of a node that stays"))
	}
	config, err := readCluster(file)
	if err == nil {
		err = config.trust(ca, "")
	}
	if err != nil {
		return nil, term.Misuse(err)
	}
	return config, nil
}

// add returns the cluster with one more node, which must be free. Callers reach it by the scheme of the others.
func (c *clusterConfig) add(text string) (n clusterNode, next *clusterConfig, err error) {
	if n, err = parseNode(text); err != nil {
		return n, nil, err
	}
	if c.named(n.Name) != nil {
		return n, nil, fmt.Errorf("%s is one of the nodes already, which are %s; another machine in its place: troupe "+
			"cluster replace", n.Name, strings.Join(c.names(), ", "))
	}
	if !slices.ContainsFunc(c.Nodes, func(x clusterNode) bool { return !strings.HasPrefix(x.URL, "https:") }) {
		n.URL = "https:" + strings.TrimPrefix(n.URL, "http:")
	}
	of := *c
	next = &of
	next.Nodes = append(slices.Clone(c.Nodes), n)
	if err := next.check(func(i int) string {
		if i < 0 {
			return "the cluster"
		}
		return next.Nodes[i].Name
	}); err != nil {
		return n, nil, err
	}
	where := []string{n.Address}
	if u, err := url.Parse(n.URL); err == nil {
		where = append(where, u.Host)
	}
	for _, address := range where {
		if l, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			l.Close()
			return n, nil, fmt.Errorf("%s: something listens at %s already, expected a free port", n.Name, address)
		}
	}
	return n, next, nil
}

// namesSaid returns the nodes that the log has, as the nodes that answer say; nil when none does.
func (s *clusterStatus) namesSaid() (names []string) {
	applied := uint64(0)
	for _, n := range s.Nodes {
		if n.Error == "" && n.Cluster != nil && len(n.Cluster.Nodes) > 0 && (names == nil || n.Applied > applied) {
			applied, names = n.Applied, n.Cluster.Names()
		}
	}
	return names
}

// isPresent returns how the file differs from what the log says.
func (c *clusterConfig) isPresent(s clusterStatus) error {
	names := s.namesSaid()
	if i := slices.IndexFunc(s.Nodes, func(n nodeStatus) bool { return n.reserved }); i >= 0 && names == nil {
		return fmt.Errorf("the nodes of the log are not known: %s answers, but %s", s.Nodes[i].Name, s.Nodes[i].Error)
	}
	if names != nil && !sameNames(names, c.names()) {
		return fmt.Errorf("%s has the nodes %s, and the log has %s: give the present cluster.toml", c.file,
			strings.Join(c.names(), ", "), strings.Join(names, ", "))
	}
	return nil
}

// sameNames compares two lists in any order; no name is twice in one.
func sameNames(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

// mayAdd reports why the nodes that are ready are no majority of size nodes.
func mayAdd(s clusterStatus, size int) error {
	ready := 0
	var missing []string
	for _, n := range s.Nodes {
		switch {
		case n.Ready:
			ready++
		case n.Error != "":
			missing = append(missing, fmt.Sprintf("%s does not answer (%s)", n.Name, n.Error))
		default:
			missing = append(missing, fmt.Sprintf("%s is not ready (%s)", n.Name, n.Reason))
		}
	}
	if most := size/2 + 1; ready < most {
		return fmt.Errorf("a majority of %d nodes is %d, and %d are ready: %s", size, most, ready,
			strings.Join(missing, "; "))
	}
	return nil
}

// majorityWords say what an even number of nodes means.
func majorityWords(nodes int) string {
	if nodes%2 == 1 {
		return fmt.Sprintf("%d nodes: a majority is %d, so %d may be missing\n", nodes, nodes/2+1, nodes-nodes/2-1)
	}
	return fmt.Sprintf("warning: %d nodes are an even number: a majority is %d, so %d may be missing, as of %d\n", nodes,
		nodes/2+1, nodes-nodes/2-1, nodes-1)
}

// filesOf certifies a machine that joins, and returns its files but for cluster.toml.
func (c *clusterConfig) filesOf(a *authority, n clusterNode) (map[string][]byte, error) {
	keys, err := os.ReadFile(filepath.Join(c.folder(), serve.KeyFile))
	if err != nil {
		return nil, term.Misuse(err)
	}
	cert, key, err := a.certify(n, nodeYears)
	if err == nil {
		err = a.write() // first, so that no certificate is there that cannot be revoked
	}
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{caFile: a.bundle, certFile: cert, keyFile: key, serve.KeyFile: keys}
	if a.crl != nil {
		files[revokedFile] = a.crl
	}
	return files, nil
}

// writeAddition writes the folders of cluster add.
func writeAddition(w io.Writer, c *clusterConfig, a *authority, n clusterNode, out string) error {
	files, err := c.filesOf(a, n)
	if err != nil {
		return err
	}
	if err := c.writeFiles(out, n.Name, files); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "on the new machine, with an empty data directory: troupe serve --cluster %s --data DIR\n"+
		"copy %s to each other node; none needs a new start\n%s",
		filepath.Join(out, n.Name, clusterFile), filepath.Join(out, "NODE", clusterFile), majorityWords(len(c.Nodes)))
	return err
}

// writeFiles writes cluster.toml for each node, and files for the one that joins, if there is one.
func (c *clusterConfig) writeFiles(out, joins string, files map[string][]byte) error {
	for _, x := range c.Nodes {
		of := *c
		of.Node, of.Join = x.Name, x.Name == joins
		if of.Join {
			of.Import = "" // the others have it
		}
		all := map[string][]byte{clusterFile: []byte(of.text())}
		if of.Join {
			for name, data := range files {
				all[name] = data
			}
		}
		if err := os.MkdirAll(filepath.Join(out, x.Name), 0o700); err != nil {
			return err
		}
		for name, data := range all {
			if err := replaceFile(filepath.Join(out, x.Name, name), data); err != nil {
				return err
			}
		}
	}
	return nil
}

func clusterRemoveCommand() *cobra.Command {
	var file, out, ca string
	c := &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a node that is stopped off the list of nodes, and its replicas away",
		Long: `For a cluster of four or five nodes. Drain the node and stop it first; a machine that is gone needs
nothing. The list of nodes is in the log. The others go on without the node at once, and the command
waits until the engine has removed its replicas. It writes cluster.toml for each node that stays; copy
it there, no node needs a restart. Then revoke the certificate of the node.

It is refused while the node answers, while nodes that were added have no replica, and if the others
are no majority of all. Where the nodes have --keys, set TROUPE_KEY to a key with the scope admin. After
an interruption, give the same command again.`,
		Example: `  troupe cluster remove d.example --cluster a.example/cluster.toml --out new`,
		Args:    term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := presentCluster(file, ca)
			if err != nil {
				return err
			}
			if err := emptyOut(out); err != nil {
				return term.Misuse(err)
			}
			next, err := config.remove(args[0])
			if err != nil {
				return term.Misuse(err)
			}
			if err := config.removeNode(cmd.Context(), args[0], os.Getenv("TROUPE_KEY")); err != nil {
				return err
			}
			if err := next.writeFiles(out, "", nil); err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			waits := next.awaitChange(cmd.Context(), args[0])
			if waits != "" {
				fmt.Fprintf(w, "%s is not one of the nodes any more; its replicas are still being removed: %s; see "+
					"troupe cluster status\n", args[0], waits)
			} else {
				fmt.Fprintf(w, "%s is not one of the nodes any more, and has no replica\n", args[0])
			}
			_, err = fmt.Fprintf(w, "copy %s to each node; none needs a new start\nrevoke its certificate: troupe cluster "+
				"certificate revoke %s --authority DIR\n%s",
				filepath.Join(out, "NODE", clusterFile), args[0], majorityWords(len(next.Nodes)))
			return err
		},
	}
	c.Flags().StringVar(&file, "cluster", "", "cluster.toml of a node that stays")
	c.Flags().StringVar(&out, "out", "", "directory for the files of the nodes that stay, empty or not there")
	c.Flags().StringVar(&ca, "ca", "", caHelp)
	return c
}

// remove returns the cluster without a node.
func (c *clusterConfig) remove(name string) (*clusterConfig, error) {
	switch {
	case c.named(name) == nil:
		return nil, fmt.Errorf("%s is not one of the nodes %s%s", name, strings.Join(c.names(), ", "),
			spec.Suggest(name, c.names()))
	case c.Node == name:
		return nil, fmt.Errorf("%s is the file of node %s: give that of a node that stays", c.file, name)
	case len(c.Nodes) <= leastNodes:
		return nil, fmt.Errorf("the cluster has %d nodes, the least there may be: troupe cluster add before, or troupe "+
			"cluster replace", len(c.Nodes))
	}
	of := *c
	of.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n clusterNode) bool { return n.Name == name })
	return &of, nil
}

// removeNode lets a node that stays write the record, unless it is in the log already.
func (c *clusterConfig) removeNode(ctx context.Context, name, key string) error {
	s := c.ask(ctx)
	said := s.namesSaid()
	stay := slices.DeleteFunc(c.names(), func(x string) bool { return x == name })
	if said != nil && sameNames(said, stay) {
		return nil
	}
	err := c.isPresent(s)
	if err != nil {
		return term.Misuse(err)
	}
	var by *clusterNode
	ready := 0
	var missing []string
	for i, n := range s.Nodes {
		switch {
		case n.Name == name && n.answers():
			return fmt.Errorf("%s is not removed: it answers at %s; troupe cluster drain %s, and stop it first", name,
				n.URL, name)
		case n.Name == name:
		case n.Ready:
			ready++
			by = &c.Nodes[i]
		default:
			missing = append(missing, n.Name)
		}
	}
	if most := len(c.Nodes)/2 + 1; ready < most {
		return fmt.Errorf("%s is not removed: a majority of the %d nodes is %d, and without %s it would be missing %s",
			name, len(c.Nodes), most, name, strings.Join(missing, " and "))
	}
	for since := time.Now(); ; time.Sleep(500 * time.Millisecond) { // it counts as live for some seconds
		atMost := stopFor
		if codeOf(err) == serve.Changing {
			atMost = changeFor
		}
		err = by.act(ctx, "DELETE", "/v1/cluster/nodes/"+url.PathEscape(name), key)
		if err == nil || time.Since(since) > atMost || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s is not removed: %w", name, err)
	}
	return nil
}

// changeFor is how long a removal waits for the engine.
const changeFor = time.Minute

// awaitChange waits until no replica is at a node that was removed, and returns what it still waits for.
func (c *clusterConfig) awaitChange(ctx context.Context, name string) (waits string) {
	for since := time.Now(); ; {
		waits = "no node says that it is done"
		s := c.ask(ctx)
		for _, n := range s.Nodes {
			if n.Error == "" && n.Cluster != nil && n.Ready && n.Cluster.Settled && sameNames(n.Cluster.Names(), c.names()) {
				waits = ""
			}
		}
		for _, n := range s.Nodes {
			if n.Error != "" || n.Cluster == nil {
				continue
			}
			for _, r := range n.Cluster.Replicas {
				if r.Name == name {
					waits = "a replica is there"
				}
			}
			if n.Cluster.Change != "" {
				waits = n.Cluster.Change
			}
		}
		if waits == "" || time.Since(since) > changeFor {
			return waits
		}
		select {
		case <-ctx.Done():
			return waits
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// other says that the file of a command is not what the log has, and what a change of the nodes waits for.
func (s *clusterStatus) other(w io.Writer) {
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	if said := s.namesSaid(); said != nil && !sameNames(said, names) {
		fmt.Fprintf(w, "the nodes are %s in the log, and %s in the file of this command: copy the present cluster.toml\n",
			strings.Join(said, ", "), strings.Join(names, ", "))
	}
	for _, n := range s.Nodes {
		if n.Error == "" && n.Cluster != nil && n.Ready && n.Cluster.Change != "" {
			fmt.Fprintf(w, "a change of the nodes is under way: %s\n", n.Cluster.Change)
			return
		}
	}
}

// engineOf is the engine of a node, for the server.
type engineOf struct{ c *clusterServer }

func (e engineOf) InGroup(ctx context.Context) error { return e.c.node.InGroup(ctx) }

func (e engineOf) Fit(ctx context.Context, names, gone []string) (string, error) {
	return e.c.stream.Fit(ctx, names, gone)
}

// Changed takes the names of the nodes from the log.
func (e engineOf) Changed(names []string) {
	c := e.c
	if !slices.Contains(names, c.config.Node) { // not yet
		return
	}
	if err := c.node.Joined(); err != nil {
		c.logger.Error("the node does not note that it is one of the cluster's", "error", err.Error())
	}
	c.names.Store(&names)
	c.readAgain()
}

// list are the nodes of the log, or those of cluster.toml before the log is read.
func (c *clusterServer) list() []string {
	if names := c.names.Load(); names != nil {
		return *names
	}
	return c.config.names()
}

// rereadEvery is how often a node looks at its cluster.toml while that is not what the log says.
const rereadEvery = 5 * time.Second

// readAgain gives the engine the nodes of the log with the addresses of cluster.toml, now and until that has them all:
// an operator copies it.
func (c *clusterServer) readAgain() {
	c.reading.Lock()
	defer c.reading.Unlock()
	names := c.list()
	config, err := readCluster(c.flags.cluster)
	if err == nil && (config.Node != c.config.Node || config.Cluster != c.config.Cluster) {
		err = fmt.Errorf("%s is that of another node", c.flags.cluster)
	}
	if err != nil {
		config = c.config
	}
	var addresses []string
	for _, n := range config.Nodes {
		if slices.Contains(names, n.Name) {
			addresses = append(addresses, n.Address)
		}
	}
	c.node.SetMembers(names, addresses)
	if sameNames(names, config.names()) {
		return
	}
	if !c.told.Swap(true) {
		c.logger.Warn("cluster.toml of this node is not what the log says: copy the present one, the node reads it again",
			"log", strings.Join(names, ", "), "file", strings.Join(config.names(), ", "))
	}
	time.AfterFunc(rereadEvery, func() {
		if c.closed.Load() {
			return
		}
		c.readAgain()
	})
}
