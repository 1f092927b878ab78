package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog/raftlog"
)

func clusterRecoverCommand() *cobra.Command {
	var at clusterFlags
	var data, out, words string
	c := &cobra.Command{
		Use:   "recover",
		Short: "Go on with one node after the majority of the disks is lost for good",
		Long: `For clusters of the engine raft. The data directory of the node becomes that of a new cluster, of which
it is the only voter: it keeps entries, event ids and keys. What other nodes had acknowledged and this
one has not is lost. Run it where the newest entry has the highest term, and of these the highest
place; without --accept-loss it says both and changes nothing.

It writes cluster.toml for each node, with the name of the new cluster. Start this node with its own;
then the others, each with its new cluster.toml and an empty data directory. Never start an old
directory again with the old file. The command refuses while another node answers. After an
interruption, give the same command again.`,
		Example: `  troupe cluster recover --cluster /etc/troupe/cluster.toml --data /var/lib/troupe --out new`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := at.read(cmd.Context())
			if err != nil {
				return err
			}
			switch {
			case config.Engine != engineRaft:
				return term.Misuse(fmt.Errorf("%s is not of the engine %s: see troupe cluster salvage", config.file, engineRaft))
			case data == "":
				return term.Misuse(errors.New("--data is missing, expected the data directory that is left"))
			case out == "":
				return term.Misuse(errors.New("--out is missing, expected a directory for the files of the new cluster"))
			}
			return config.recover(cmd.Context(), cmd.OutOrStdout(), data, out, words)
		},
	}
	c.Flags().StringVar(&at.file, "cluster", "", "cluster.toml of the node; without it the one that TROUPE_CLUSTER names")
	c.Flags().StringVar(&at.ca, "ca", "", caHelp)
	c.Flags().StringVar(&data, "data", "", "data directory of the node, which is stopped")
	c.Flags().StringVar(&out, "out", "", "directory for the files of the new cluster")
	c.Flags().StringVar(&words, "accept-loss", "", "the words that the command says, typed again")
	return c
}

// recoversFile is a file in --out that says which recovery it is of, so that the files of one node are not taken for the consent of
// another one's operator.
const recoversFile = "recovers"

func (c *clusterConfig) recover(ctx context.Context, w io.Writer, data, out, words string) error {
	for _, n := range c.ask(ctx).Nodes {
		if n.answers() {
			return term.Misuse(fmt.Errorf("%s answers at %s: while another node has its disk, start all that are left; stop the server of "+
				"the node that is recovered", n.Name, n.URL))
		}
	}
	dir := filepath.Join(data, "log")
	next := *c
	own, note := filepath.Join(out, c.Node, clusterFile), filepath.Join(out, recoversFile)
	mine := func(cluster string) string { // what the note of this recovery says
		return fmt.Sprintf("cluster %s, node %s, as cluster %s\n", c.Cluster, c.Node, cluster)
	}
	began, err := os.ReadFile(note)
	switch {
	case err == nil:
		_, name, _ := strings.Cut(strings.TrimSuffix(string(began), "\n"), ", as cluster ")
		if string(began) != mine(name) || !nodeName.MatchString(name) {
			return term.Misuse(fmt.Errorf("--out %s is of another recovery (%s): give an empty directory, and recover one node of a cluster only", out,
				strings.TrimSpace(string(began))))
		}
		next.Cluster = name
	case !errors.Is(err, os.ErrNotExist):
		return term.Misuse(err)
	default:
		if err := emptyOut(out); err != nil {
			return term.Misuse(err)
		}
		var b [4]byte
		rand.Read(b[:]) // never fails: crypto/rand ends the program first
		next.Cluster = "troupe-" + hex.EncodeToString(b[:])
	}
	if began == nil {
		v, err := raftlog.Verify(dir)
		if err != nil {
			return source.OpenError(data, err)
		}
		if v.Cluster != c.raftCluster() {
			return term.Misuse(fmt.Errorf("%s is not of cluster %s", data, c.Cluster))
		}
		s := v.Shards[0]
		if len(s.Damage) > 0 {
			return fmt.Errorf("%s is damaged: %s: %s", dir, s.Damage[0].File, s.Damage[0].What)
		}
		want := fmt.Sprintf("what is behind place %d of term %d may be missing", s.Last, s.Term)
		fmt.Fprintf(w, "the newest entry in %s has the term %d and the place %d; a majority had those up to place %d for certain\n", data, s.Term,
			s.Last, s.Applied)
		switch words {
		case want:
		case "":
			return fmt.Errorf("nothing was changed: to go on, give --accept-loss %q", want)
		default:
			return term.Misuse(fmt.Errorf("--accept-loss %q: expected %q; nothing was changed", words, want))
		}
		if err := os.MkdirAll(out, 0o700); err != nil {
			return err
		}
		if err := replaceFile(note, []byte(mine(next.Cluster))); err != nil { // first: from here on the same command goes on
			return err
		}
	}
	if err := next.writeFiles(out, "", nil); err != nil {
		return err
	}
	// The id follows from the name, so that the same command goes on after an interruption.
	sum := sha256.Sum256([]byte(next.Cluster + "\n" + c.Node))
	self := raftlog.Member{ID: max(1, binary.LittleEndian.Uint64(sum[:])>>1), Name: c.Node, Addr: c.self().Address}
	cluster, id, err := raftlog.Identity(dir)
	if done := err == nil && cluster == next.raftCluster() && id == self.ID; !done {
		if _, err := raftlog.Recover(raftlog.Options{Dir: dir}, next.raftCluster(), self); err != nil {
			return source.OpenError(data, err)
		}
	}
	fmt.Fprintf(w, "%s is cluster %s now; put the new cluster.toml of each node into its folder\non %s: troupe serve --cluster %s --data %s\n", data,
		next.Cluster, c.Node, own, data)
	for _, n := range c.Nodes {
		if n.Name != c.Node {
			fmt.Fprintf(w, "on %s, then, with an empty data directory: troupe serve --cluster %s --data DIR\n", n.Name, filepath.Join(out, n.Name,
				clusterFile))
		}
	}
	return nil
}
