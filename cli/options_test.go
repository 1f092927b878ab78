package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"troupe/internal/golden"
	"troupe/serve"
	"troupe/sim"
	"troupe/spec"
)

// TestOptionsPage holds docs/reference/options.md against the options structs, the server's
// configuration and the flags.
func TestOptionsPage(t *testing.T) {
	const page = "../docs/reference/options.md"
	golden.Compare(t, page, optionsPage())
}

// optionsPage is docs/reference/options.md.
func optionsPage() string {
	var b strings.Builder
	b.WriteString(`# Options

Every key of a spec file, of a model of the server, and every flag. This page is generated from the code
(` + "`TestOptionsPage`" + `). In the program: ` + "`troupe list KIND`" + ` and ` + "`troupe COMMAND --help`" + `.

A list where a single value is expected is a sweep. Keys without a default must be given or are off.

## Spec file

`)
	optionTable(&b, sim.Keys())
	for _, key := range []string{"environment", "policy", "agent"} {
		fmt.Fprintf(&b, "\n### Every [[%s]] table\n\n", key)
		optionTable(&b, sim.CaseKeys(key))
	}
	b.WriteString("\n### Every [[claim]] table\n\n")
	optionTable(&b, sim.ClaimKeys())
	b.WriteString("\n### record\n\n| Name | What | Columns | For |\n| --- | --- | --- | --- |\n")
	for _, q := range sim.Builtin {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", q.Name, cell(q.Doc), cell(strings.Join(q.Columns, ", ")), cell(q.Who))
	}
	for _, topic := range topicsOf(sim.Kinds()) {
		title, _, _ := strings.Cut(topic.title, ":")
		fmt.Fprintf(&b, "\n## %s\n", title)
		for _, k := range topic.kinds {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", k.name, k.doc)
			if len(k.options) > 0 {
				b.WriteString("\n")
				optionTable(&b, k.options)
			}
		}
	}
	b.WriteString("\n## Models of the server\n\nOne JSON object, or one `[[model]]` table of the file of `troupe serve --models`.\n\n")
	model := serve.DefaultConfig("")
	optionTable(&b, spec.Options(&model))
	b.WriteString("\n### reward\n\n")
	optionTable(&b, spec.Options(&model.Reward))
	b.WriteString("\n## Flags\n")
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
				continue
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", sub.CommandPath(), sub.Short)
			rows := 0
			sub.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Hidden || f.Name == "help" {
					return
				}
				if rows++; rows == 1 {
					b.WriteString("\n| Flag | Type | Default | Meaning |\n| --- | --- | --- | --- |\n")
				}
				value := f.DefValue
				if value == "[]" || value == "0" || value == "0s" || value == "false" {
					value = ""
				}
				fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", f.Name, f.Value.Type(), cell(value), cell(f.Usage))
			})
			walk(sub)
		}
	}
	walk(rootCommand("troupe", sim.Kinds()))
	return b.String()
}

func optionTable(b *strings.Builder, options []spec.Option) {
	b.WriteString("| Key | Type | Default | Meaning |\n| --- | --- | --- | --- |\n")
	for _, o := range options {
		value := defaultText(o, options)
		if value == "[]" {
			value = ""
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", o.Key, cell(o.Type), cell(value), cell(o.Doc))
	}
}

// cell is a text as a cell of a table shows it.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
