package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/experiments"
	"troupe/sim"
	"troupe/spec"
)

// topic is one thing that can be listed.
type topic struct {
	name  string
	title string // what to write in a spec
	kinds []kind
}

// kind is one entry of a registry.
type kind struct {
	name    string
	doc     string
	options []spec.Option
}

// kindsOf lists a registry.
func kindsOf[T any](reg spec.Registry[T]) []kind {
	var out []kind
	for _, name := range spec.Names(reg) {
		o := reg[name]()
		k := kind{name: name, options: spec.Options(o)}
		if d, ok := any(o).(spec.Documented); ok {
			k.doc = d.Doc()
		}
		out = append(out, k)
	}
	return out
}

// topicsOf lists what a spec can name of a catalogue.
func topicsOf(kinds sim.Catalogue) []topic {
	return []topic{
		{"policies", `Policies: [[policy]] kind = "NAME"`, kindsOf(kinds.Policies)},
		{"environments", `Environments: [[environment]] kind = "NAME"`, kindsOf(kinds.Environments)},
		{"agents", `Agents, which play episodes: [[agent]] kind = "NAME"`, kindsOf(kinds.Agents)},
		{"problems", `Environments of agents: [[environment]] kind = "NAME"`, kindsOf(kinds.Problems)},
		{"sets", `Action sets: set = { kind = "NAME" }`, kindsOf(kinds.Sets)},
		{"noise", `Noise: noise = { kind = "NAME" }`, kindsOf(kinds.Noise)},
		{"feedback", `Late feedback, in any environment: feedback = { delay = { kind = "NAME" } }, or { batch = 64 }, or both`,
			kindsOf(sim.Delays)},
	}
}

// known are the data sets that have an experiment of their own.
var known = [][]string{
	{"letter", "letter.arff: UCI letter recognition, 20 000 x 16 numeric, 26 classes"},
	{"mushroom", "mushroom.data: UCI mushroom, 8 124 x 22 categorical, edible or poisonous"},
	{"pendigits", "pendigits.arff: UCI pen-based digits, 10 992 x 16 numeric, 10 classes"},
	{"shuttle", "shuttle.trn: UCI Statlog shuttle, 43 500 x 9 numeric, 7 classes"},
}

func listCommand(catalogue sim.Catalogue) *cobra.Command {
	topics := topicsOf(catalogue)
	names := []string{"experiments", "policies", "environments", "agents", "problems", "sets", "noise", "feedback",
		"data", "spec", "record"}
	return &cobra.Command{
		Use:   "list [TOPIC | KIND]",
		Short: "What there is: policies, environments, action sets, experiments, data",
		Long: `Lists what a spec file can name. A topic lists its entries with their options; a kind
(ensemble, ball, …) explains each option; the name of an experiment prints its spec.

Topics: ` + strings.Join(names, ", ") + ".",
		Example: `  troupe list
  troupe list policies
  troupe list ensemble
  troupe list spec`,
		Args: term.Arguments(0, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return append(names, allKinds(topics)...), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			if len(args) == 0 {
				listAll(w, topics)
				return nil
			}
			name := args[0]
			switch name {
			case "experiments":
				listExperiments(w)
				return nil
			case "data":
				listData(w)
				return nil
			case "spec":
				listSpec(w)
				return nil
			case "record":
				listRecord(w, catalogue)
				return nil
			}
			for _, t := range topics {
				if t.name == name {
					t.list(w)
					return nil
				}
			}
			found := false
			for _, t := range topics {
				for _, k := range t.kinds {
					if k.name == name {
						if found {
							fmt.Fprintln(w)
						}
						k.explain(w, t)
						found = true
					}
				}
			}
			if e, ok := experiments.Find(name); ok {
				_, err := io.WriteString(w, e.Text)
				return err
			}
			if !found {
				return term.Misuse(fmt.Errorf("nothing is called %q%s\nsee troupe list", name,
					nearest(name, slices.Concat(names, allKinds(topics), experimentNames()))))
			}
			return nil
		},
	}
}

func allKinds(topics []topic) []string {
	var out []string
	for _, t := range topics {
		for _, k := range t.kinds {
			out = append(out, k.name)
		}
	}
	return out
}

func listAll(w io.Writer, topics []topic) {
	listExperiments(w)
	for _, t := range topics {
		fmt.Fprintln(w)
		t.list(w)
	}
	fmt.Fprintln(w)
	listData(w)
	fmt.Fprintln(w, "\nOptions of one kind: troupe list KIND      The frame of a spec: troupe list spec")
}

func listExperiments(w io.Writer) {
	fmt.Fprint(w, "Experiments: troupe run NAME\n\n")
	var rows [][]string
	for _, e := range experiments.All() {
		rows = append(rows, []string{e.Name, e.Doc})
	}
	term.Columns(w, rows)
}

func listData(w io.Writer) {
	fmt.Fprint(w, "Data: troupe run classification/NAME --data FILE\n\n")
	term.Columns(w, known)
	fmt.Fprintln(w, "\n"+term.Wrap("Any other file of labelled rows: kind = \"classification\", in ARFF, CSV, "+
		"space-separated or LIBSVM form.", 0))
}

// list prints the entries of a topic, each with one line and its options.
func (t topic) list(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", t.title)
	var rows [][]string
	for _, k := range t.kinds {
		rows = append(rows, []string{k.name, k.doc})
		if len(k.options) > 0 {
			var keys []string
			for _, o := range k.options {
				keys = append(keys, o.Key)
			}
			rows = append(rows, []string{"", "[" + strings.Join(keys, ", ") + "]"})
		}
	}
	term.Columns(w, rows)
}

// explain prints the options of a kind.
func (k kind) explain(w io.Writer, t topic) {
	fmt.Fprintf(w, "%s\n%s\n", strings.Replace(t.title, "NAME", k.name, 1), term.Wrap(k.doc, 0))
	if len(k.options) == 0 {
		fmt.Fprintln(w, "\n  no options")
		return
	}
	fmt.Fprintln(w)
	optionRows(w, k.options)
}

// defaultText is the default of an option; where it has another one for a preset, with the presets' names.
func defaultText(o spec.Option, options []spec.Option) string {
	i := slices.IndexFunc(options, func(p spec.Option) bool { return p.Key == "preset" })
	if i < 0 || !strings.Contains(o.Default, "; ") {
		return o.Default
	}
	return options[i].Default + ": " + o.Default
}

func optionRows(w io.Writer, options []spec.Option) {
	var rows [][]string
	for _, o := range options {
		doc := o.Doc
		if o.Default != "" && !strings.HasPrefix(o.Default, "[") { // a list does not fit on the line; only what is shown
			doc += " (default " + defaultText(o, options) + ")"
		}
		rows = append(rows, []string{o.Key, o.Type, doc})
	}
	term.Columns(w, rows)
}

// listRecord explains what a spec can record beside regret and reward.
func listRecord(w io.Writer, kinds sim.Catalogue) {
	fmt.Fprint(w, "Diagnostics: record = [\"NAME\", ...], written to diagnostics.csv at every checkpoint\n\n")
	var rows [][]string
	for _, q := range kinds.Quantities() {
		rows = append(rows, []string{q.Name, q.Doc}, []string{"", "for " + q.Who},
			[]string{"", "[" + strings.Join(q.Columns, ", ") + "]"})
	}
	term.Columns(w, rows)
	fmt.Fprintln(w, "\nCosts: troupe run beyond/budget; all others: troupe run paper/diagnostics")
}

// listSpec explains the frame of a spec file.
func listSpec(w io.Writer) {
	fmt.Fprint(w, "A spec file is TOML: these keys, then [[environment]] and [[policy]] tables (or [[agent]], for "+
		"episodes)\n\n")
	optionRows(w, sim.Keys())
	for _, key := range []string{"environment", "policy", "agent"} {
		fmt.Fprintf(w, "\nEvery [[%s]] table, beside the options of its kind\n\n", key)
		optionRows(w, sim.CaseKeys(key))
	}
	fmt.Fprint(w, "\nEvery [[claim]] table: a hypothesis as a comparison, which the report answers\n\n")
	optionRows(w, sim.ClaimKeys())
	fmt.Fprint(w, `
A list where a single value is expected is a sweep: m = [5, 20, 80] makes three
policies. Shortest example:

  horizon = 1_000
  replications = 20

  [[environment]]
  kind = "linear"
  d = 5
  set = { kind = "random-sphere", arms = 20 }

  [[policy]]
  kind = "ensemble"
  m = [4, 16]

  [[policy]]
  kind = "ts"
`)
}
