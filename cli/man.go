package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"troupe/cli/term"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages, for packagers. It is hidden: users do not need it.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a directory",
		Example: "  troupe man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManuals(cmd.Root(), args[0])
		},
	}
}

// writeManuals writes the page of a command and those of the commands below it. Equal programs write
// equal pages.
func writeManuals(c *cobra.Command, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(manual(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := writeManuals(sub, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// manName is "troupe-log-dump".
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manual is the page of a command in the language of man(7). The library that comes with cobra goes through
// Markdown, which would read the stars and underscores of our texts as its own, and whose parser every
// start of the program would pay for.
func manual(c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", name) }
	fmt.Fprintf(&b, ".TH \"%s\" \"1\" \"\" \"troupe %s\" \"troupe\"\n.nh\n.ad l\n", strings.ToUpper(manName(c)),
		version)
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(manName(c)), roff(c.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, "\\fB%s\\fP\n", roff(c.UseLine()))
	section("DESCRIPTION")
	text := c.Long
	if text == "" {
		text = c.Short
	}
	manText(&b, text)
	for _, o := range []struct {
		name  string
		flags *pflag.FlagSet
	}{{"OPTIONS", c.NonInheritedFlags()}, {"OPTIONS INHERITED FROM PARENT COMMANDS", c.InheritedFlags()}} {
		if o.flags.HasAvailableFlags() {
			section(o.name)
			o.flags.VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
		}
	}
	if c.Example != "" {
		section("EXAMPLE")
		manLines(&b, strings.Split(c.Example, "\n"))
	}
	var also []string
	if c.HasParent() {
		also = append(also, roff(manName(c.Parent())))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, roff(manName(sub)))
		}
	}
	if len(also) > 0 {
		section("SEE ALSO")
		fmt.Fprintf(&b, "\\fB%s\\fP(1)\n", strings.Join(also, `\fP(1), \fB`))
	}
	return b.String()
}

// manFlag writes one option: its names, what it is without being given, and what it does.
func manFlag(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden || f.Deprecated != "" {
		return
	}
	names := `\fB` + roff("--"+f.Name) + `\fP`
	if f.Shorthand != "" {
		names = `\fB` + roff("-"+f.Shorthand) + `\fP, ` + names
	}
	value := "=" + f.DefValue
	if f.Value.Type() == "string" {
		value = fmt.Sprintf("=%q", f.DefValue)
	}
	if f.NoOptDefVal != "" {
		value = "[" + value + "]"
	}
	fmt.Fprintf(b, ".TP\n%s%s\n%s\n", names, roff(value), roff(f.Usage))
}

// manText writes paragraphs; one whose lines are indented stays as it is.
func manText(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		lines := strings.Split(paragraph, "\n")
		for len(lines) > 0 {
			n := 0
			for n < len(lines) && !strings.HasPrefix(lines[n], " ") {
				fmt.Fprintf(b, "%s\n", roff(lines[n]))
				n++
			}
			lines, n = lines[n:], 0
			for n < len(lines) && strings.HasPrefix(lines[n], " ") {
				n++
			}
			if n > 0 {
				manLines(b, lines[:n])
			}
			lines = lines[n:]
		}
	}
}

// manLines writes lines as they are.
func manLines(b *strings.Builder, lines []string) {
	b.WriteString(".EX\n")
	for _, line := range lines {
		fmt.Fprintf(b, "%s\n", roff(line))
	}
	b.WriteString(".EE\n")
}

var roffEscape = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// roff escapes a line: a dash can be copied into a shell, and no line is a request.
func roff(line string) string {
	line = roffEscape.Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
