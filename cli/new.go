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
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"troupe/cli/term"
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
	var out, checkout, lang string
	c := &cobra.Command{
		Use:   "new policy|environment|set NAME",
		Short: "Write a module with a policy, environment or action set of your own",
		Long: `Writes a Go module that compiles and passes its test. It has an example of a policy, environment or
action set with its options, the conformance test and an experiment. Its main is all of troupe with this
kind in it. Change the example to what you have in mind. With --lang python a policy or an
environment is a class in a file of its own, with the module that speaks to troupe, a test and an
experiment.

NAME is the kind in spec files and the directory. Files that exist are never overwritten. The
module finds troupe through go.work, which names the checkout on this machine.`,
		Example: `  troupe new policy mine
  troupe new policy mine --lang python
  troupe new environment rotating --out experiments/rotating
  troupe new environment visitors --lang python
  troupe new set corners --troupe ~/src/troupe`,
		Args: term.Arguments(2, 2),
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
			next := "go test . && go run . run experiment.toml"
			switch {
			case lang == "python" && args[0] == "set":
				return term.Misuse(errors.New("--lang python: expected troupe new policy or environment, not set"))
			case lang != "python" && lang != "go":
				return term.Misuse(fmt.Errorf("--lang %s: expected go or python", lang))
			}
			module, err := writeModule(kinds, args[0], lang, args[1], out, checkout)
			if err != nil {
				return err
			}
			if lang == "python" {
				next = "python3 test_" + module + ".py && troupe run experiment.toml"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "module   %s\nnext     cd %s && %s\n", out, out, next)
			return err
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "directory to write (default NAME)")
	c.Flags().StringVar(&lang, "lang", "go", "go, or python for a policy or environment")
	c.Flags().StringVar(&checkout, "troupe", "",
		"checkout of troupe (default: $TROUPE, then the one around the working directory, then the one this program "+
			"was built from)")
	return c
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// pythonWords are names that a module in Python cannot have here: keywords, and what the policy and its test import.
var pythonWords = strings.Fields("and as assert async await break class continue def del elif else except finally " +
	"for from global if import in is lambda nonlocal not or pass raise return try while with yield " +
	"array base64 io json numpy platform random struct sys time typing unittest test")

// writeModule writes the module of one part into dir, and returns its name in the language. Nothing is written when any
// of it cannot be.
func writeModule(kinds sim.Catalogue, part, lang, name, dir, checkout string) (called string, err error) {
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
		return "", term.Misuse(fmt.Errorf("troupe new %s: expected one of %s", part, strings.Join(names, ", ")))
	case !kindName.MatchString(name) || len(name) > 40:
		return "", term.Misuse(fmt.Errorf("%q is no name of a kind: expected lower-case letters, digits and hyphens, "+
			"beginning with a letter, at most 40", name))
	case lang == "python" && slices.Contains(pythonWords, name):
		return "", term.Misuse(fmt.Errorf("%s.py would hide a module of Python, or is no name there; choose another "+
			"name", name))
	case lang != "python" && parts[at].has(kinds, name):
		return "", term.Misuse(fmt.Errorf("there is a %s %q already; choose another name", part, name))
	}
	files, err := os.ReadDir(dir)
	switch {
	case err == nil && len(files) > 0:
		return "", term.Misuse(fmt.Errorf("%s exists and is not empty; choose another directory with --out", dir))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", term.Misuse(err)
	}
	module := strings.TrimSuffix(reflect.TypeFor[sim.Catalogue]().PkgPath(), "/sim")
	if checkout, err = findCheckout(checkout, module); err != nil {
		return "", term.Misuse(err)
	}
	version, err := goVersion(filepath.Join(checkout, "go.mod"))
	if err != nil {
		return "", term.Misuse(err)
	}
	var camel strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	values := map[string]string{
		"Name": name, "Module": module, "Checkout": filepath.ToSlash(checkout), "Go": version,
		"Type": camel.String(), "Var": strings.ToLower(camel.String()[:1]) + camel.String()[1:],
	}
	from := []string{"new", path.Join("new", part)}
	if lang == "python" {
		module = strings.ReplaceAll(name, "-", "_")
		from, values["Module"] = []string{"new/python-" + part}, module
	}
	written, err := fillTemplates(from, values)
	if err != nil {
		return "", err
	}
	if lang == "python" {
		text, err := os.ReadFile(filepath.Join(checkout, "clients", "python", "troupe", "policy.py"))
		if err != nil {
			return "", term.Misuse(err)
		}
		written["troupe_policy.py"] = text
		for _, prefix := range []string{"", "test_"} {
			written[prefix+module+".py"] = written[prefix+"module.py"]
			delete(written, prefix+"module.py")
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", term.Misuse(err)
	}
	for to, text := range written {
		if err := createFile(filepath.Join(dir, to), text); err != nil {
			return "", err
		}
	}
	return module, nil
}

// fillTemplates executes the templates of some directories; the names of files are without .tmpl.
func fillTemplates(from []string, values map[string]string) (map[string][]byte, error) {
	written := make(map[string][]byte)
	for _, dir := range from {
		entries, err := skeletons.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			t, err := template.ParseFS(skeletons, path.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			var b bytes.Buffer
			if err := t.Option("missingkey=error").Execute(&b, values); err != nil {
				return nil, err
			}
			to, text := strings.TrimSuffix(e.Name(), ".tmpl"), b.Bytes()
			if strings.HasSuffix(to, ".go") {
				if text, err = format.Source(text); err != nil { // the order of imports depends on the module's path
					return nil, fmt.Errorf("%s: %w", to, err)
				}
			}
			written[to] = text
		}
	}
	return written, nil
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
