package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	toml "github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"troupe/spec"
)

// variablePrefix begins the environment variables of troupe serve. Every other name that begins with it is an error.
const variablePrefix = "TROUPE_SERVE_"

// settings are the flags of troupe serve from four places. The command line wins over the environment, which wins over the
// file of --config, which wins over the defaults.
type settings struct {
	flags *pflag.FlagSet
	from  map[string]string // the flags that a variable or a file set: which one, for errors
	notes []string          // variables that look like those of the server and are not read
}

// notSettings are the flags that only the command line has.
var notSettings = []string{"help", "print-config"}

// settle gives the flags that the command line leaves out their values from environ, which has NAME=value lines as
// os.Environ, and from the file that --config or TROUPE_SERVE_CONFIG names.
func settle(fl *pflag.FlagSet, environ []string) (*settings, error) {
	s := &settings{flags: fl, from: make(map[string]string)}
	given := make(map[string]bool) // on the command line
	fl.VisitAll(func(f *pflag.Flag) { given[f.Name] = f.Changed })
	if err := s.environment(environ, given); err != nil {
		return nil, err
	}
	file := fl.Lookup("config").Value.String()
	if file == "" {
		return s, nil
	}
	maps.DeleteFunc(given, func(name string, there bool) bool { return !there })
	for name := range s.from {
		given[name] = true
	}
	return s, s.file(file, given)
}

// all calls f for each flag that a variable and, but for --config, a file may set.
func (s *settings) all(f func(*pflag.Flag)) {
	s.flags.VisitAll(func(x *pflag.Flag) {
		if !x.Hidden && !slices.Contains(notSettings, x.Name) {
			f(x)
		}
	})
}

// variable is the name of the environment variable of a flag.
func variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// serviceLink matches what Kubernetes adds to a prefix for each Service of the namespace: of a Service with the name
// troupe-serve it makes TROUPE_SERVE_PORT and others, which no user wrote.
var serviceLink = regexp.MustCompile(`^(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

func (s *settings) environment(environ []string, given map[string]bool) error {
	byName := make(map[string]*pflag.Flag)
	s.all(func(f *pflag.Flag) { byName[variable(f.Name)] = f })
	known := slices.Sorted(maps.Keys(byName))
	for _, line := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "TROUPE_") {
			continue
		}
		f := byName[name]
		rest, ours := strings.CutPrefix(name, variablePrefix)
		switch {
		case text == "": // as if it were not set
		case f == nil && ours && !serviceLink.MatchString(rest):
			return fmt.Errorf("environment: %s is no variable of troupe serve%s", name, spec.Suggest(name, known))
		case f == nil && !ours:
			meant := byName[variablePrefix+strings.TrimPrefix(name, "TROUPE_")]
			if meant != nil && !meant.Changed {
				s.notes = append(s.notes, fmt.Sprintf("%s is not read; the variable of --%s is %s", name, meant.Name,
					variable(meant.Name)))
			}
		case f != nil && !given[f.Name]:
			if err := s.set(f, text, name); err != nil {
				return fmt.Errorf("environment: %s is %q, expected %s", name, text, expected(f))
			}
		}
	}
	return nil
}

// set gives a flag a value as the command line would, and remembers where it came from.
func (s *settings) set(f *pflag.Flag, text, from string) error {
	if err := s.flags.Set(f.Name, text); err != nil {
		return err
	}
	s.from[f.Name] = from
	return nil
}

// file reads the flags from TOML. Its keys are the names of flags.
func (s *settings) file(name string, given map[string]bool) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	raw, src, err := spec.ReadFile(name, string(data))
	if err != nil {
		return err
	}
	byName := make(map[string]*pflag.Flag)
	s.all(func(f *pflag.Flag) {
		if f.Name != "config" {
			byName[f.Name] = f
		}
	})
	keys := slices.SortedFunc(maps.Keys(raw), func(a, b string) int { // the first error is the first in the file
		la, ca := src.At(a)
		lb, cb := src.At(b)
		return cmp.Or(cmp.Compare(la, lb), cmp.Compare(ca, cb))
	})
	for _, key := range keys {
		f := byName[key]
		if f == nil {
			return src.Locate(spec.Errorf(key, "unknown key %q%s", key,
				spec.Suggest(key, slices.Collect(maps.Keys(byName)))))
		}
		line, column := src.At(key)
		from := fmt.Sprintf("%s:%d:%d", name, line, column)
		wrong := src.Locate(spec.Errorf(key, "is %s, expected %s", spec.Show(raw[key]), expected(f)))
		list, isList := f.Value.(pflag.SliceValue)
		if !isList {
			text, ok := scalar(f, raw[key])
			switch {
			case !ok:
				return wrong
			case given[key]:
			case s.set(f, text, from) != nil:
				return wrong
			}
			continue
		}
		values, ok := raw[key].([]any)
		texts := make([]string, len(values))
		for i, v := range values {
			text, isText := v.(string)
			if !isText {
				return src.Locate(spec.Errorf(spec.Element(key, i), "is %s, expected a string", spec.Show(v)))
			}
			texts[i] = text
		}
		if !ok {
			return wrong
		}
		if !given[key] {
			if err := list.Replace(texts); err != nil {
				return wrong
			}
			f.Changed, s.from[key] = true, from
		}
	}
	return nil
}

// scalar is the text of a TOML value as a flag reads it. A value of another type than the flag's is refused: no number
// is a text, and no text is a number.
func scalar(f *pflag.Flag, v any) (text string, ok bool) {
	switch f.Value.Type() {
	case "string", "duration":
		text, ok = v.(string)
	case "bool":
		var b bool
		b, ok = v.(bool)
		text = strconv.FormatBool(b)
	case "int", "int64":
		var n int64
		n, ok = v.(int64)
		text = strconv.FormatInt(n, 10)
	case "float64":
		var x float64
		x, ok = spec.Number(v)
		text = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return text, ok
}

// expected says which values a flag takes in a file or in the environment.
func expected(f *pflag.Flag) string {
	return map[string]string{"string": "a string", "bool": "true or false", "int": "a whole number", "int64": "a whole number",
		"float64": "a number", "duration": `a duration such as "10m" or "1h30m"`, "stringSlice": "a list of strings"}[f.Value.Type()]
}

// flagError is a flag with a value that troupe serve does not take.
type flagError struct {
	flag string
	err  error
}

func (e *flagError) Error() string { return "--" + e.flag + " " + e.err.Error() }

func (e *flagError) Unwrap() error { return e.err }

// wrong returns a *flagError. format begins with the value, or with what is wrong.
func wrong(flag, format string, a ...any) error { return &flagError{flag, fmt.Errorf(format, a...)} }

// locate says where the value of a flag came from that was refused: the line of the file, or the variable.
func (s *settings) locate(err error) error {
	var fault *flagError
	if errors.As(err, &fault) && s.from[fault.flag] != "" {
		return fmt.Errorf("%s: %w", s.from[fault.flag], err)
	}
	return err
}

// print writes a file for --config with the values that are in force. What has its default is written as a comment, so
// that a later version may have a better default.
func (s *settings) print(w io.Writer) error {
	var b bytes.Buffer
	var failed error
	fmt.Fprintf(&b, `# troupe serve --config FILE reads this file. A flag of the command line wins over its variable in the
# environment (%s for --max-log), and that wins over this file. Lines that begin with
# "# " and a key have the default.
`, variable("max-log"))
	s.all(func(f *pflag.Flag) {
		if f.Name == "config" {
			return
		}
		fmt.Fprintf(&b, "\n# %s\n", f.Usage)
		line, err := toml.Marshal(map[string]any{f.Name: tomlValue(f)})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("--%s: %w", f.Name, err))
		}
		if !f.Changed {
			b.WriteString("# ")
		}
		b.Write(line)
	})
	if failed != nil {
		return failed
	}
	_, err := b.WriteTo(w)
	return err
}

// tomlValue is the value of a flag with the type that it has in a file.
func tomlValue(f *pflag.Flag) any {
	text := f.Value.String()
	switch f.Value.Type() {
	case "stringSlice":
		return f.Value.(pflag.SliceValue).GetSlice()
	case "bool":
		return text == "true"
	case "int", "int64":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "float64":
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return x
		}
	}
	return text
}
