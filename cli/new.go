package cli

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"troupe/sim"
)

//go:embed new
var skeletons embed.FS

// parts are what `troupe new` can write, and whether the catalogue has a kind of a name.
var parts = []struct {
	name string
	has  func(kinds sim.Catalogue, name string) bool
}{
	{"policy", func(k sim.Catalogue, name string) bool { _, ok := k.Policies[name]; return ok }},
	{"environment", func(k sim.Catalogue, name string) bool { _, ok := k.Environments[name]; return ok }},
	{"set", func(k sim.Catalogue, name string) bool { _, ok := k.Sets[name]; return ok }},
}

func newCommand(kinds sim.Catalogue) *cobra.Command {
	var out, checkout string
	c := &cobra.Command{
		Use:   "new policy|environment|set NAME",
		Short: "Write a module with a policy, environment or action set of your own",
		Long: `Writes a Go module that compiles and passes its test: an example of a policy, environment
or action set with its options, the conformance test, an experiment, and a main that is all of
troupe with this kind in it. Change the example to what you have in mind.

NAME is the kind in spec files and the directory. Files that exist are never overwritten. The
module finds troupe through go.work, which names the checkout on this machine.`,
		Example: `  troupe new policy mine
  troupe new environment rotating --out experiments/rotating
  troupe new set corners --troupe ~/src/troupe`,
		Args: arguments(2, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, p := range parts {
				if len(args) == 0 {
					names = append(names, p.name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				out = args[1]
			}
			if err := writeModule(kinds, args[0], args[1], out, checkout); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(),
				"module   %s\nnext     cd %s && go test . && go run . run experiment.toml\n", out, out)
			return err
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "directory to write (default NAME)")
	c.Flags().StringVar(&checkout, "troupe", "",
		"checkout of troupe (default: $TROUPE, then the one around the working directory, then the one this program "+
			"was built from)")
	return c
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// writeModule writes the module of one part into dir. Nothing is written when any of it cannot be.
func writeModule(kinds sim.Catalogue, part, name, dir, checkout string) error {
	var names []string
	at := -1
	for i, p := range parts {
		names = append(names, p.name)
		if p.name == part {
			at = i
		}
	}
	switch {
	case at < 0:
		return misuse(fmt.Errorf("troupe new %s: expected one of %s", part, strings.Join(names, ", ")))
	case !kindName.MatchString(name) || len(name) > 40:
		return misuse(fmt.Errorf("%q is no name of a kind: expected lower-case letters, digits and hyphens, "+
			"beginning with a letter, at most 40", name))
	case parts[at].has(kinds, name):
		return misuse(fmt.Errorf("there is a %s %q already; choose another name", part, name))
	}
	files, err := os.ReadDir(dir)
	switch {
	case err == nil && len(files) > 0:
		return misuse(fmt.Errorf("%s exists and is not empty; choose another directory with --out", dir))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return misuse(err)
	}
	module := strings.TrimSuffix(reflect.TypeFor[sim.Catalogue]().PkgPath(), "/sim")
	if checkout, err = findCheckout(checkout, module); err != nil {
		return misuse(err)
	}
	version, err := goVersion(filepath.Join(checkout, "go.mod"))
	if err != nil {
		return misuse(err)
	}
	var camel strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	values := map[string]string{
		"Name": name, "Module": module, "Checkout": filepath.ToSlash(checkout), "Go": version,
		"Type": camel.String(), "Var": strings.ToLower(camel.String()[:1]) + camel.String()[1:],
	}
	written := make(map[string][]byte)
	for _, from := range []string{"new", path.Join("new", part)} {
		entries, err := skeletons.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			t, err := template.ParseFS(skeletons, path.Join(from, e.Name()))
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := t.Option("missingkey=error").Execute(&b, values); err != nil {
				return err
			}
			to, text := strings.TrimSuffix(e.Name(), ".tmpl"), b.Bytes()
			if strings.HasSuffix(to, ".go") {
				if text, err = format.Source(text); err != nil { // the order of imports depends on the module's path
					return fmt.Errorf("%s: %w", to, err)
				}
			}
			written[to] = text
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return misuse(err)
	}
	for to, text := range written {
		if err := createFile(filepath.Join(dir, to), text); err != nil {
			return err
		}
	}
	return nil
}

// createFile writes a file that does not exist yet.
func createFile(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// findCheckout returns the directory of the module's source: the one given, $TROUPE, the nearest around the working
// directory, or that from which this program was built.
func findCheckout(given, module string) (string, error) {
	is := func(dir string) bool {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		first, _, _ := strings.Cut(string(text), "\n")
		return err == nil && strings.TrimSpace(first) == "module "+module
	}
	for _, c := range []struct{ dir, who string }{{given, "--troupe"}, {os.Getenv("TROUPE"), "TROUPE"}} {
		if c.dir == "" {
			continue
		}
		dir, err := filepath.Abs(c.dir)
		if err != nil || !is(dir) {
			return "", fmt.Errorf("%s %s: expected a directory with the go.mod of module %s", c.who, c.dir, module)
		}
		return dir, nil
	}
	if dir, err := os.Getwd(); err == nil {
		for ; ; dir = filepath.Dir(dir) {
			if is(dir) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if dir := filepath.Dir(filepath.Dir(file)); is(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no checkout of %s is known; name it with --troupe DIR", module)
}

var goLine = regexp.MustCompile(`(?m)^go (\d+\.\d+(\.\d+)?)$`)

// goVersion returns the release of Go that a go.mod asks for.
func goVersion(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	m := goLine.FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s: has no line \"go 1.26\"", file)
	}
	return string(m[1]), nil
}
