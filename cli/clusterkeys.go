package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
)

func clusterKeysCommand() *cobra.Command {
	var add, fresh bool
	var use, drop, cell int
	c := &cobra.Command{
		Use:   "keys FILE",
		Short: "Show the keys of event ids in a keys.json, or rotate them",
		Long: `Lists the keys of a keys.json by number and fingerprint; the current one makes new event ids, all are
recognised. --add adds a new key, which is not used yet; --use makes one current; --drop takes one
away, and the ids that it made are not recognised any more. In a cluster each key also vouches for what
the nodes have written under it, so the file keeps a dropped one for that. --new makes the file;
troupe cluster init makes that of its nodes by itself.

To rotate: --add, copy the file to all nodes, start each again, one after the other; then --use, copy and
start again likewise. A node whose current key another node does not have, or that lacks
the current key of another one, does not start. A running server reads its file at its start only.`,
		Example: `  troupe cluster keys keys.json --new
  troupe cluster keys cluster/a.example/keys.json
  troupe cluster keys cluster/a.example/keys.json --add
  troupe cluster keys cluster/a.example/keys.json --use 2`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, name := filepath.Split(args[0])
			if name != serve.KeyFile {
				return term.Misuse(fmt.Errorf("FILE is %q, expected a file with the name %s", args[0], serve.KeyFile))
			}
			given := cmd.Flags().Changed
			if given("cell") && (!fresh || cell < 1 || cell > eventlog.LastCell) {
				return term.Misuse(wrong("cell", "%d: expected 1 to %d, with --new", cell, eventlog.LastCell))
			}
			if fresh {
				if add || given("use") || given("drop") {
					return term.Misuse(errors.New("--new goes alone"))
				}
				if err := makeKeys(args[0], cell); err != nil {
					return term.Misuse(err)
				}
			}
			k, err := serve.ReadKeys(filepath.Clean(dir))
			if err != nil {
				return term.Misuse(err)
			}
			if add && given("use") || add && given("drop") || given("use") && given("drop") {
				return term.Misuse(errors.New("--add, --use and --drop go one at a time"))
			}
			if changed, err := changeKeys(&k, add, given("use"), use, given("drop"), drop); err != nil {
				return term.Misuse(err)
			} else if changed {
				if err := serve.WriteKeys(filepath.Clean(dir), k); err != nil {
					return err
				}
			}
			return printKeys(cmd.OutOrStdout(), k)
		},
	}
	c.Flags().BoolVar(&fresh, "new", false, "make the file, which must not be there, with one key: for troupe serve "+
		"--nats")
	c.Flags().IntVar(&cell, "cell", 0, "with --new: number of the servers among cells behind a proxy, 1 to 31 (troupe cells)")
	c.Flags().BoolVar(&add, "add", false, "add a new key")
	c.Flags().IntVar(&use, "use", 0, "number of the key that makes event ids from now on")
	c.Flags().IntVar(&drop, "drop", 0, "number of a key to take away")
	return c
}

// makeKeys makes a file with one key.
func makeKeys(name string, cell int) error {
	b, err := serve.NewKeys(cell)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// changeKeys does what the flags ask for.
func changeKeys(k *eventlog.IDKeys, add, using bool, use int, dropping bool, drop int) (changed bool, err error) {
	numbers := slices.Sorted(maps.Keys(k.Keys))
	has := func(flag string, n int) error {
		if n < 0 || n > 255 || !slices.Contains(numbers, byte(n)) {
			return fmt.Errorf("--%s %d: expected one of the keys %v", flag, n, numbers)
		}
		return nil
	}
	switch {
	case add:
		next := int(slices.Max(slices.AppendSeq(numbers, maps.Keys(k.Dropped)))) + 1
		if next > 255 {
			return false, fmt.Errorf("--add: key 255 is there, and numbers end with it")
		}
		if cell := eventlog.CellOf(k.Current); cell > 0 && eventlog.CellOf(byte(next)) != cell {
			return false, fmt.Errorf("--add: key %d is there, and the numbers of cell %d end with it", next-1, cell)
		}
		k.Keys[byte(next)] = serve.NewKey()
	case using:
		if err := has("use", use); err != nil {
			return false, err
		}
		k.Current = byte(use)
	case dropping:
		if err := has("drop", drop); err != nil {
			return false, err
		}
		if byte(drop) == k.Current {
			return false, fmt.Errorf("--drop %d: it is the current key; --use another one first", drop)
		}
		if k.Dropped == nil {
			k.Dropped = map[byte][]byte{}
		}
		k.Dropped[byte(drop)] = k.Keys[byte(drop)]
		delete(k.Keys, byte(drop))
	}
	return add || using || dropping, nil
}

func printKeys(w io.Writer, k eventlog.IDKeys) error {
	for _, n := range slices.Sorted(maps.Keys(k.Keys)) {
		current := ""
		if n == k.Current {
			current = "  current"
		}
		if _, err := fmt.Fprintf(w, "key %d  %v%s\n", n, serve.KeyFingerprint(n, k.Keys[n]), current); err != nil {
			return err
		}
	}
	for _, n := range slices.Sorted(maps.Keys(k.Dropped)) {
		if _, err := fmt.Fprintf(w, "key %d  %v  dropped\n", n, serve.KeyFingerprint(n, k.Dropped[n])); err != nil {
			return err
		}
	}
	return nil
}
