package cells

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/timing"
)

// flags are those of all commands.
type flags struct {
	file  string
	json  bool
	over  time.Duration
	clock timing.Clock
}

// Command is `troupe cells`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "cells",
		Short: "Several servers or clusters, each with some of the models: their state, and what a proxy needs",
		Long: `A cell is a server or a cluster that has some of the models. Cells know nothing of one another. A
file has them:

  [[cell]]
  name = "one"
  number = 1                          # troupe serve --cell 1
  urls = ["http://10.0.0.1:8080"]     # of a cluster those of its nodes
  ca = "authority.pem"                # for https, if the system does not know it

The first character of an event id says its cell, so a proxy finds the cell of a reward. Where the
servers have --keys, set TROUPE_KEY to a key with the scope read.`,
		Example: `  troupe cells status --cells cells.toml
  troupe cells route > /etc/nginx/conf.d/troupe.conf
  troupe cells balance --dry-run`,
		Args: term.Arguments(0, 0),
	}
	c.AddCommand(statusCommand(), routeCommand(), balanceCommand())
	return c
}

func (f *flags) declare(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "cells", "cells.toml", "file with the cells")
}

func (f *flags) read() ([]cell, error) {
	all, err := read(f.file, os.Getenv("TROUPE_KEY"))
	if err != nil {
		return nil, term.Misuse(err)
	}
	return all, nil
}

// ask reads the file and looks at the cells.
func (f *flags) ask(ctx context.Context) ([]state, error) {
	if f.over < 100*time.Millisecond || f.over > time.Hour {
		return nil, term.Misuse(fmt.Errorf("--over %v: expected 100ms to 1h", f.over))
	}
	all, err := f.read()
	if err != nil {
		return nil, err
	}
	return ask(ctx, all, f.over, f.clock), nil
}

func encode(w io.Writer, x any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(x)
}

func statusCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show all cells: models, decisions a second, processor, memory, log, versions",
		Long: `Looks at every server of every cell twice and prints a row for each cell. CORES are those that its
servers keep busy, MEMORY is that of all of them, LOG that of one. The exit code is 1 when a cell has no
majority of servers that are ready.`,
		Example: `  troupe cells status --cells cells.toml
  troupe cells status --over 30s --json`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			states, err := f.ask(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				err = encode(cmd.OutOrStdout(), states)
			} else {
				err = print(cmd.OutOrStdout(), states)
			}
			for _, s := range states {
				if err == nil && s.Ready <= s.Servers/2 {
					err = term.Silently(term.Failed, errors.New("a cell is not ready"))
				}
			}
			return err
		},
	}
	f.declare(c)
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.Flags().DurationVar(&f.over, "over", 2*time.Second, "time between the two looks")
	return c
}

// print writes a table for people, then what is wrong.
func print(w io.Writer, states []state) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CELL\tREADY\tMODELS\tDECISIONS\tCORES\tMEMORY\tLOG\tVERSION\t")
	for _, s := range states {
		fmt.Fprintf(t, "%s\t%d of %d\t%d\t%.3g/s\t%.2f\t%.0f MB\t%.0f MB\t%s\t\n", s.Name, s.Ready, s.Servers, s.Models, s.Rate, s.Processor, s.Memory/1e6, s.Log/1e6,
			strings.Join(s.Versions, ", "))
	}
	err := t.Flush()
	versions := map[string]bool{}
	for _, s := range states {
		for _, e := range s.Errors {
			fmt.Fprintf(w, "%s: %s\n", s.Name, e)
		}
		for _, v := range s.Versions {
			versions[v] = true
		}
	}
	if len(versions) > 1 {
		fmt.Fprintf(w, "versions differ: %s\n", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	}
	return err
}

func routeCommand() *cobra.Command {
	var f flags
	var proxy, other, listen string
	c := &cobra.Command{
		Use:   "route",
		Short: "Print the configuration of a proxy in front of the cells",
		Long: `Asks each cell for its models and prints the configuration of nginx or HAProxy. Decisions go to the
cell of their model, rewards to the cell that decided. Everything else goes to --default: new models, and
rewards:batch, whose events must all be of one cell. Send batches to the cell itself.`,
		Example: `  troupe cells route --cells cells.toml > /etc/nginx/conf.d/troupe.conf
  troupe cells route --proxy haproxy --listen 8080 --default two`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write := proxies[proxy]
			if write == nil {
				return term.Misuse(fmt.Errorf("--proxy %s: expected one of %s", proxy, strings.Join(slices.Sorted(maps.Keys(proxies)), ", ")))
			}
			if !listens(listen) {
				return term.Misuse(fmt.Errorf("--listen %s: expected PORT or HOST:PORT", listen))
			}
			all, err := f.read()
			if err != nil {
				return err
			}
			models, errs := make([][]string, len(all)), make([]error, len(all))
			var wg sync.WaitGroup
			for i := range all {
				wg.Go(func() { models[i], errs[i] = all[i].models(cmd.Context()) })
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil { // a map without a cell's models would send them elsewhere
				return err
			}
			if other == "" {
				other = all[0].Name
			}
			r, err := newRouting(all, models, other, listen)
			if err != nil {
				return term.Misuse(err)
			}
			return write(cmd.OutOrStdout(), r)
		},
	}
	f.declare(c)
	c.Flags().StringVar(&proxy, "proxy", "nginx", "nginx or haproxy")
	c.Flags().StringVar(&other, "default", "", "cell of everything else; without it the first one")
	c.Flags().StringVar(&listen, "listen", "8080", "where the proxy listens, PORT or HOST:PORT")
	return c
}

func balanceCommand() *cobra.Command {
	var f flags
	var dry bool
	c := &cobra.Command{
		Use:   "balance --dry-run",
		Short: "Propose moves of models that make the cells equally busy",
		Long: `Measures the decisions a second of every model and prints moves until the busiest cell has at most
1.2 times the mean. It moves nothing: run the lines, or some of them, one after the other.`,
		Example: `  troupe cells balance --dry-run --over 1m`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !dry {
				return term.Misuse(errors.New("--dry-run is missing: the command proposes moves and makes none"))
			}
			states, err := f.ask(cmd.Context())
			if err != nil {
				return err
			}
			all, err := f.read()
			if err != nil {
				return err
			}
			for _, s := range states {
				if len(s.Errors) > 0 {
					return fmt.Errorf("cell %s: %s", s.Name, s.Errors[0])
				}
			}
			moves := balance(states)
			if f.json {
				return encode(cmd.OutOrStdout(), append([]transfer{}, moves...))
			}
			return propose(cmd.OutOrStdout(), all, states, moves)
		},
	}
	f.declare(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "propose only")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.Flags().DurationVar(&f.over, "over", 10*time.Second, "how long to measure")
	return c
}

// propose prints what balance found, and why there is no more.
func propose(w io.Writer, all []cell, states []state, moves []transfer) error {
	url := map[string]string{}
	for _, c := range all {
		url[c.Name] = c.URLs[0]
	}
	load, total := map[string]float64{}, 0.
	for _, s := range states {
		load[s.Name] = s.Rate
		total += s.Rate
	}
	var b strings.Builder
	for _, m := range moves {
		fmt.Fprintf(&b, "troupe move %s --from %s --to %s   # %.3g decisions a second, %s to %s\n", m.Model, url[m.From], url[m.To], m.Rate, m.From, m.To)
		load[m.From] -= m.Rate
		load[m.To] += m.Rate
	}
	busiest := slices.MaxFunc(states, func(x, y state) int { return int(load[x.Name]*1e3 - load[y.Name]*1e3) }).Name
	mean := total / float64(len(states))
	switch {
	case total == 0:
		fmt.Fprintln(&b, "no cell decides")
	case load[busiest] <= even*mean:
		fmt.Fprintf(&b, "the busiest cell, %s, has %.2f times the mean of %.3g decisions a second\n", busiest, load[busiest]/mean, mean)
	default:
		fmt.Fprintf(&b, "the busiest cell, %s, has %.2f times the mean of %.3g decisions a second; no move of one model makes it better\n", busiest, load[busiest]/mean, mean)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// listens reports whether a text is a port, or a host and a port.
func listens(text string) bool {
	host, port, ok := strings.Cut(text, ":")
	if !ok {
		host, port = "", text
	}
	n := 0
	if _, err := fmt.Sscanf(port, "%d", &n); err != nil || fmt.Sprint(n) != port || n < 1 || n > 65535 {
		return false
	}
	return !strings.ContainsAny(host, " ;{}\"'\n")
}
