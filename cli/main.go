// Package cli is the program troupe: its commands, flags, files, terminal and exit codes. A program of your
// own with policies, environments and action sets of your own is one call:
//
//	func main() { cli.Main(kinds) }
//
// where kinds is a sim.Catalogue. `troupe new` writes such a module. It has every command of troupe. run, tune, report
// and list know the kinds of the catalogue; serve, log, train and evaluate know its policies.
//
// Results go to stdout, everything that moves or explains goes to stderr. Exit codes: 0 fine, 1 a
// run or a check failed, 2 misuse (a flag, a name, a spec file), 130 interrupted.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"troupe/cli/bench"
	"troupe/cli/cells"
	"troupe/cli/evaluate"
	"troupe/cli/load"
	"troupe/cli/log"
	"troupe/cli/plan"
	"troupe/cli/term"
	"troupe/policy"
	"troupe/sim"
	"troupe/spec"
)

// Main runs the command line of this process with the kinds of a catalogue, and ends the process with the
// exit code of the command. sim.Kinds() is the catalogue of troupe itself.
func Main(kinds sim.Catalogue) {
	tuneHeap()
	if err := register(kinds); err != nil {
		fmt.Fprintln(os.Stderr, "troupe:", err)
		os.Exit(term.Misused)
	}
	os.Exit(execute(context.Background(), kinds, os.Args[1:], os.Stdout, os.Stderr))
}

// register makes the policies that a program adds to the catalogue of troupe known to its server and to readers of
// logs. What troupe itself has only in the catalogue (process, which starts a program) stays out of them.
func register(kinds sim.Catalogue) error {
	own := sim.Kinds().Policies
	for _, name := range slices.Sorted(maps.Keys(kinds.Policies)) {
		if own[name] == nil {
			if err := policy.Register(name, kinds.Policies[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, kinds sim.Catalogue, args []string, stdout, stderr io.Writer) int {
	root := rootCommand(term.Line(args), kinds)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var quiet *term.SilentError
	if !errors.As(err, &quiet) {
		fmt.Fprintln(stderr, "troupe:", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	var file *spec.FileError
	var dir *sim.DirError
	var source *sim.NoSource
	var mixed *sim.MixedError
	switch {
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.As(err, &file), errors.As(err, &dir), errors.As(err, &source), errors.As(err, &mixed),
		strings.HasPrefix(err.Error(), "unknown command"): // cobra has no type for it; testdata/misuse.txtar has it
		return term.Misused
	case errors.Is(err, sim.ErrInterrupted):
		return term.Interrupted
	}
	return term.Failed
}

const rootPage = `troupe: linear ensemble sampling, measured and served

  troupe run tour            compare six tuned policies in two seconds, with a report
  troupe run                 the default experiment: two sets, six policies, 10 s
  troupe plan -d 10 -T 1e4   what the theorems ask for and promise
  troupe verify              check the paper's statements
  troupe serve               a decision server, durable, on this machine alone

  troupe list                policies, environments, action sets, experiments
  troupe help run            every option, with examples
`

func rootCommand(line string, kinds sim.Catalogue) *cobra.Command {
	root := &cobra.Command{
		Use:   "troupe",
		Short: "Linear ensemble sampling, measured",
		Long: `troupe runs linear ensemble sampling and its rivals: experiments from spec files, reports
with honest intervals, what the theorems plan and promise, and checks of the paper.

Completion for bash, zsh, fish and PowerShell: troupe completion --help.`,
		Example: `  troupe run tour
  troupe run paper/ensemble-size --workers 2
  troupe list policies`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), rootPage)
			return err
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return term.Misuse(fmt.Errorf("%s%s\nsee troupe help%s", flagWords(err), nearFlag(cmd, err),
			strings.TrimPrefix(cmd.CommandPath(), "troupe")))
	})
	root.AddCommand(moveCommand(), runCommand(line, kinds), mergeCommand(line, kinds), shardsCommand(kinds), tuneCommand(kinds),
		newCommand(kinds), listCommand(kinds),
		reportCommand(kinds), shareCommand(kinds), checkCommand(kinds), galleryCommand(line), playgroundCommand(), plan.Command(),
		verifyCommand(line),
		bench.Command(), bench.EdgeLimitCommand(), evaluate.Command(), trainCommand(), lintCommand(), convertCommand(),
		serveCommand(), backupCommand(), restoreCommand(), clusterCommand(), cells.Command(), load.Command(), log.Command(),
		versionCommand(), manCommand())
	strictHelp(root)
	return root
}

// strictHelp makes help and completion, which the library adds and which print the general help for any argument, refuse
// what does not exist.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	names := func(c *cobra.Command) (all []string) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Hidden {
				all = append(all, sub.Name())
			}
		}
		return all
	}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil {
					found, rest = root, args
				}
				if len(rest) > 0 {
					path := strings.TrimPrefix(found.CommandPath()+" ", "troupe ")
					return term.Misuse(fmt.Errorf("help %s%s: no such command%s\nsee troupe help", path, rest[0],
						nearest(rest[0], names(found))))
				}
				found.InitDefaultHelpFlag()
				return found.Help()
			}
		case "completion":
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return term.Misuse(fmt.Errorf("completion %s: expected one of %s", args[0],
						strings.Join(names(cmd), ", ")))
				}
				return cmd.Help()
			}
		}
	}
}

// flagWords says what a flag expected, without the words of the parser.
func flagWords(err error) string {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err.Error()
	}
	want, ok := map[string]string{"int": "a whole number", "int64": "a whole number", "float64": "a number",
		"bool": "true or false", "duration": "a duration such as 10m or 1h30m"}[bad.GetFlag().Value.Type()]
	if !ok {
		return err.Error()
	}
	if want == "a whole number" && strings.Trim(bad.GetValue(), "+-0123456789") == "" {
		want = fmt.Sprintf("a whole number of at most %d", math.MaxInt64)
	}
	return fmt.Sprintf("--%s %q: expected %s", bad.GetFlag().Name, bad.GetValue(), want)
}

// nearFlag suggests a flag for an unknown one.
func nearFlag(cmd *cobra.Command, err error) string {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return ""
	}
	name := missing.GetSpecifiedName()
	var valid []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { valid = append(valid, f.Name) })
	v := spec.Near(name, valid)
	if v == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", "--"+v)
}
