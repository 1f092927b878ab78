// Package term is what the commands of troupe share: how a command line ends (exit codes, misuse), how it is written
// down, and text for a terminal (columns, wrapped lines, numbers as people say them, colour).
package term

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"troupe/sim"
)

// Exit codes.
const (
	Failed      = 1   // a run or a check failed
	Misused     = 2   // a flag, a name or a file that is wrong
	Interrupted = 130 // a signal ended the run
)

// Misuse marks an error as the caller's: exit code 2.
func Misuse(err error) error { return &misuseError{err} }

type misuseError struct{ error }

func (e *misuseError) Unwrap() error { return e.error }

// ExitCode is what main passes to os.Exit.
func (*misuseError) ExitCode() int { return 2 }

// Silently ends the program with an exit code when everything has been said already.
func Silently(code int, err error) error { return &SilentError{code, err} }

// SilentError is an error that is not printed; Silently makes it.
type SilentError struct {
	code int
	err  error
}

func (e *SilentError) Error() string { return e.err.Error() }

// Unwrap returns the error that was said.
func (e *SilentError) Unwrap() error { return e.err }

// ExitCode is what main passes to os.Exit.
func (e *SilentError) ExitCode() int { return e.code }

// Arguments refuses fewer than least and more than most arguments, as misuse.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > most:
			return Misuse(fmt.Errorf("%s: unexpected argument %q\nusage: %s", cmd.CommandPath(), args[most],
				cmd.UseLine()))
		case len(args) < least:
			return Misuse(fmt.Errorf("%s: an argument is missing\nusage: %s", cmd.CommandPath(), cmd.UseLine()))
		}
		return nil
	}
}

// Line is the command line that was typed, in a form that can be pasted into a shell.
func Line(args []string) string {
	line := Called()
	for _, a := range args {
		line += " " + Quoted(a)
	}
	return line
}

// Quoted writes an argument as it can be pasted into a shell.
func Quoted(a string) string {
	if a == "" || strings.ContainsFunc(a, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_=./:,+@%", r))
	}) {
		return "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return a
}

// Called is the name by which commands that are printed call this program: troupe, or the name of the file where a main
// of another module has the command line.
func Called() string {
	info, _ := debug.ReadBuildInfo()
	return calledBy(info, os.Args[0])
}

func calledBy(info *debug.BuildInfo, file string) string {
	module := strings.TrimSuffix(reflect.TypeFor[sim.Catalogue]().PkgPath(), "/sim")
	name := strings.TrimSuffix(filepath.Base(file), ".exe")
	if info == nil || info.Main.Path == "" || info.Main.Path == module || strings.ContainsFunc(name, unicode.IsSpace) {
		return "troupe"
	}
	return name
}
