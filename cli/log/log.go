// Package log is the command `troupe log`: it verifies, prints, repairs, exports and replays the event log of a data
// directory. Command is all of it; Row is a row of an export, which is a format.
package log

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/eventlog/raftlog"
	"troupe/serve"
)

// Command works on the event log of a data directory while no server runs there.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Verify, dump, export, replay or repair the event log of a data directory",
		Long: `Works on the event log of the decision server, while the server is not running. verify and
dump read the files themselves and change nothing.`,
		Example: `  troupe log verify
  troupe log dump troupe-data | head
  troupe log repair troupe-data --from /backup/troupe-data`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(logVerifyCommand(), logDumpCommand(), logRepairCommand(), logExportCommand(), logReplayCommand())
	return c
}

func dataDir(args []string) string {
	if len(args) == 0 {
		return source.DefaultData
	}
	return args[0]
}

func logVerifyCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Check that everything that was acknowledged is there and whole",
		Long: `Reads the whole event log. It checks the checksums, the numbers and hashes of every writer, and the end
of what was acknowledged. Of a trimmed log it checks the base, and of a data directory the keys of its
event ids. Nothing is written. Exit code 1 when something is missing or changed; the place is named.`,
		Example: `  troupe log verify
  troupe log verify troupe-data --json`,
		Args: term.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := dataDir(args)
			if _, _, err := raftlog.Identity(source.Dir(dir)); !errors.Is(err, eventlog.ErrNoLog) {
				return verifyReplica(cmd.OutOrStdout(), source.Dir(dir), asJSON)
			}
			r, err := eventlog.Verify(source.Dir(dir), source.Keys(dir))
			if err != nil {
				return source.Error(err)
			}
			beside := 0
			if source.Dir(dir) != dir { // not the log alone
				beside = checkBeside(dir, r)
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(r)
			} else {
				err = printReport(cmd.OutOrStdout(), r, beside)
			}
			if err == nil && !r.OK() {
				err = term.Silently(term.Failed, errors.New("the data directory is damaged"))
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "the report as JSON")
	return c
}

// verifyReplica verifies the directory of a node of a replicated log.
func verifyReplica(w io.Writer, dir string, asJSON bool) error {
	v, err := raftlog.Verify(dir)
	if err != nil {
		return source.Error(err)
	}
	bad := false
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "log      %s, node %d of cluster %v\n", dir, v.ID, v.Cluster)
	for i, s := range v.Shards {
		fmt.Fprintf(b, "shard %d  places %d to %d, the last of term %d; %s batches\n", i, s.First, s.Last, s.Term, term.Grouped(int64(s.Batches)))
		if s.Torn > 0 {
			fmt.Fprintf(b, "         %s bytes of an unfinished write at the end, never acknowledged\n", term.Grouped(s.Torn))
		}
		for _, d := range s.Damage {
			bad = true
			fmt.Fprintf(b, "damage   %s at byte %d: %s\n", d.File, d.Offset, d.What)
		}
	}
	if !bad {
		fmt.Fprintln(b, "ok       what this node acknowledged is there and whole; /readyz says whether its state agrees with the others")
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(v)
	} else {
		err = b.Flush()
	}
	if err == nil && bad {
		err = term.Silently(term.Failed, errors.New("the directory is damaged"))
	}
	return err
}

// checkBeside adds to the report of a log what a start needs of the files beside it, and returns how many damages they have.
func checkBeside(dir string, r *eventlog.Report) (damages int) {
	add := func(file string, err error) {
		if err != nil {
			r.Damage = append(r.Damage, eventlog.Damage{File: "../" + file, What: err.Error()})
			damages++
		}
	}
	empty := true
	for _, s := range r.Shards {
		empty = empty && s.Last == 0
	}
	whole := r.OK()
	add(serve.KeyFile, serve.CheckKeys(dir, empty))
	if whole {
		_, err := serve.Base(dir, r.Shards[0].First)
		add("snapshots", err)
	}
	return damages
}

// printReport prints a report, in which so many damages are of files beside the log.
func printReport(w io.Writer, r *eventlog.Report, beside int) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "log      %s, id %v\n", r.Dir, r.ID)
	for _, s := range r.Shards {
		if s.Last < s.First {
			fmt.Fprintf(b, "shard %d  no entries\n", s.Shard)
		} else {
			fmt.Fprintf(b, "shard %d  entries %d to %d, %s events, %s writers, %s bytes\n", s.Shard, s.First, s.Last,
				term.Grouped(int64(s.Events)), term.Grouped(int64(s.Writers)), term.Grouped(int64(s.Bytes)))
		}
		if s.Torn > 0 {
			fmt.Fprintf(b, "         %s bytes of an unfinished write at the end, never acknowledged\n",
				term.Grouped(s.Torn))
		}
		if s.Unwritten > 0 {
			fmt.Fprintf(b, "         %d entries without effect: no node of the cluster has written them\n", s.Unwritten)
		}
		if s.Declared > 0 {
			fmt.Fprintf(b, "         %d entries without effect: an operator has declared them void\n", s.Declared)
		}
		if s.Repeats > 0 {
			fmt.Fprintf(b, "         %d batches stored twice and counted once\n", s.Repeats)
		}
		for _, l := range losses(s.Lost) {
			fmt.Fprintf(b, "lost     shard %d, entries %d to %d, given up in a repair: %s\n", s.Shard, l.First, l.Last,
				l.Reason)
		}
	}
	for _, d := range r.All() {
		fmt.Fprintf(b, "damaged  %v\n", d)
	}
	if r.OK() {
		fmt.Fprintln(b, "verdict  whole: everything that was acknowledged is there")
	} else if len(r.All()) == beside {
		fmt.Fprintln(b, "verdict  damaged: the log is whole, and a server would not start without the files named above")
	} else {
		fmt.Fprintln(b, "verdict  damaged: see troupe help log repair")
	}
	return b.Flush()
}

// losses names every range once; each of its sequences holds a record of it.
func losses(all []eventlog.Loss) (once []eventlog.Loss) {
	for _, l := range all {
		if n := len(once); n == 0 || once[n-1] != l {
			once = append(once, l)
		}
	}
	return once
}

func logDumpCommand() *cobra.Command {
	var from uint64
	c := &cobra.Command{
		Use:   "dump [DIR]",
		Short: "Print the records of the event log as JSON, one a line",
		Long: `Prints every record in the order of the log with its sequence and key. Where the log is
damaged a line of kind "damage" stands, and the exit code is 1.`,
		Example: `  troupe log dump troupe-data | head
  troupe log dump --from 1000`,
		Args: term.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
			r, err := eventlog.Dump(b, source.Dir(dataDir(args)), source.Keys(dataDir(args)), from)
			if err = errors.Join(err, b.Flush()); err != nil {
				return source.Error(err)
			}
			if !r.OK() {
				return &eventlog.DamagedError{Report: r}
			}
			return nil
		},
	}
	c.Flags().Uint64Var(&from, "from", 0, "first sequence to print, in every shard")
	return c
}

func logRepairCommand() *cobra.Command {
	var opt eventlog.RepairOptions
	c := &cobra.Command{
		Use:   "repair [DIR]",
		Short: "Rebuild a damaged event log from what is whole in it and in copies",
		Long: `Rebuilds the log of a damaged data directory. What is missing is looked for in the copies.
Every entry keeps its sequence. If something cannot be saved, repair says what and changes nothing,
unless the loss is accepted; then a record of the loss stands at every lost sequence for ever. The
damaged files are put aside in log/damaged-1, log/damaged-2, …, and log/repair-1.json says what was done.
Snapshots that know what was lost are put aside as *.snap.lost.`,
		Example: `  troupe log repair troupe-data --from /backup/troupe-data
  troupe log repair troupe-data --accept-loss`,
		Args: term.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.Time = time.Now().UnixNano()
			opt.Keys = source.Keys(dataDir(args))
			dir := source.Dir(dataDir(args))
			for i := range opt.From {
				opt.From[i] = source.Dir(opt.From[i])
			}
			repair := serve.Repair
			if dir == dataDir(args) { // the log alone
				repair = eventlog.Repair
			}
			r, err := repair(cmd.Context(), dataDir(args), opt)
			var loss *eventlog.LossError
			if errors.As(err, &loss) {
				return fmt.Errorf("%w\nnothing was changed; look for a copy (--from), or accept the loss "+
					"(--accept-loss)", err)
			}
			if err != nil {
				return source.Error(err)
			}
			w := bufio.NewWriter(cmd.OutOrStdout())
			if r.PutAside == "" {
				fmt.Fprintf(w, "%s is whole; nothing to repair\n", dir)
				return w.Flush()
			}
			for _, s := range r.Shards {
				fmt.Fprintf(w, "shard %d  entries %d to %d, %d of them from a copy\n", s.Shard, s.First, s.Last,
					s.FromCopy)
				for _, l := range s.Lost {
					fmt.Fprintf(w, "lost     shard %d, entries %d to %d: %s\n", s.Shard, l.First, l.Last, l.Reason)
				}
			}
			for _, n := range r.Unrecorded {
				fmt.Fprintf(w, "warning  shard %d: the record of what was acknowledged was gone; entries behind the "+
					"last one may be missing\n", n)
			}
			fmt.Fprintf(w, "aside    the damaged files are in %s\n", filepath.Join(dir, r.PutAside))
			return w.Flush()
		},
	}
	c.Flags().StringArrayVar(&opt.From, "from", nil,
		"a copy of the data directory to take missing entries from (may be repeated)")
	c.Flags().BoolVar(&opt.AcceptLoss, "accept-loss", false, "rebuild although something is lost")
	return c
}
