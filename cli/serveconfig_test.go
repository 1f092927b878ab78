package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"troupe/cli/term"
)

// serveSettings settles the flags of troupe serve as the command does, with these arguments and variables.
func serveSettings(t *testing.T, environ []string, args ...string) (*serveFlags, *settings, error) {
	t.Helper()
	var f serveFlags
	fl := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.add(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	s, err := settle(fl, environ)
	return &f, s, err
}

// otherValue is a value of a flag that is not its default, as an environment variable has it.
func otherValue(t *testing.T, f *pflag.Flag) string {
	switch f.Value.Type() {
	case "string":
		return `a "b" \ c = é`
	case "stringSlice":
		return "x.example.org,y.example.org"
	case "bool":
		return map[string]string{"false": "true", "true": "false"}[f.DefValue]
	case "int", "int64":
		return "12345678"
	case "float64":
		return "0.37"
	case "duration":
		return "1h2m3s"
	}
	t.Fatalf("--%s has the type %s: the file of --config needs a form for it", f.Name, f.Value.Type())
	return ""
}

// Every flag can be set by a variable and by a file, and the file that --print-config writes is read to the same values.
func TestServeSettingsOfEveryFlag(t *testing.T) {
	_, s, err := serveSettings(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var environ []string
	s.all(func(f *pflag.Flag) {
		if f.Name == "config" {
			return
		}
		names = append(names, f.Name)
		environ = append(environ, variable(f.Name)+"="+otherValue(t, f))
	})
	if len(names) < 40 {
		t.Fatalf("%d flags", len(names))
	}
	byEnvironment, s, err := serveSettings(t, environ)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !s.flags.Changed(name) || s.from[name] != variable(name) {
			t.Errorf("--%s is not set by %s", name, variable(name))
		}
	}
	var printed bytes.Buffer
	if err := s.print(&printed); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "troupe.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(printed.String())
	byFile, s, err := serveSettings(t, nil, "--config", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, &printed)
	}
	byFile.config = ""
	if !reflect.DeepEqual(byEnvironment, byFile) {
		t.Errorf("by the environment %+v\nby the file %+v", byEnvironment, byFile)
	}
	for _, name := range names {
		if want := file + ":"; !strings.HasPrefix(s.from[name], want) {
			t.Errorf("--%s is from %q, expected a line of the file", name, s.from[name])
		}
	}
	// The defaults of the file are those of the flags: without its comment signs it changes nothing.
	_, s, err = serveSettings(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	printed.Reset()
	if err := s.print(&printed); err != nil {
		t.Fatal(err)
	}
	var live strings.Builder
	for line := range strings.Lines(printed.String()) {
		for _, name := range names {
			if strings.HasPrefix(line, "# "+name+" = ") {
				line = line[2:]
			}
		}
		live.WriteString(line)
	}
	write(live.String())
	defaults, s, err := serveSettings(t, nil, "--config", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, &live)
	}
	plain, _, _ := serveSettings(t, nil)
	defaults.config = ""
	for _, f := range []*serveFlags{plain, defaults} { // an empty list may be nil
		for _, list := range []*[]string{&f.hosts, &f.origins, &f.nats.urls, &f.nats.nodes} {
			*list = append([]string{}, *list...)
		}
	}
	if len(s.from) != len(names) || !reflect.DeepEqual(plain, defaults) {
		t.Errorf("%d of %d flags; the defaults are %+v\nby the file %+v", len(s.from), len(names), plain, defaults)
	}
}

// The command line wins over the environment, which wins over the file, which wins over the default.
func TestServeSettingsPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "troupe.toml")
	text := "max-body = 3000\nmax-open = 3\nhost = [\"file\"]\ntimeout = \"3s\"\ndrain = \"3s\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"TROUPE_SERVE_MAX_BODY=2000", "TROUPE_SERVE_MAX_OPEN=2", "TROUPE_SERVE_HOST=a,b", "TROUPE_SERVE_DRAIN=",
		"TROUPE_SERVE_CONFIG=" + file, "PATH=/bin"}
	f, s, err := serveSettings(t, environ, "--max-body", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if f.maxBody != 1000 || f.open != 2 || !slices.Equal(f.hosts, []string{"a", "b"}) || f.timeout != 3*time.Second ||
		f.drain != 3*time.Second || f.actions != 1000 {
		t.Errorf("max-body %d, max-open %d, host %v, timeout %v, drain %v, max-actions %d", f.maxBody, f.open, f.hosts, f.timeout,
			f.drain, f.actions)
	}
	want := map[string]string{"max-open": "TROUPE_SERVE_MAX_OPEN", "host": "TROUPE_SERVE_HOST", "timeout": file + ":4:1",
		"drain": file + ":5:1", "config": "TROUPE_SERVE_CONFIG"}
	if !maps.Equal(s.from, want) {
		t.Errorf("from %v, expected %v", s.from, want)
	}
}

// What is wrong in the file or the environment is refused with its place, and nothing is made.
func TestServeSettingsRefusals(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "troupe.toml"), filepath.Join(dir, "data")
	for _, c := range []struct{ text, variable, want string }{
		{text: "max-opne = 5\n", want: file + `:1:1: unknown key "max-opne"; did you mean "max-open"?`},
		{text: "# x\nmax_log = 5\n", want: file + `:2:1: unknown key "max_log"; did you mean "max-log"?`},
		{text: "[nats]\nx = 1\n", want: file + `:1:2: nats is a table, expected a list of strings`},
		{text: "[server]\nx = 1\n", want: file + `:1:2: unknown key "server"`},
		{text: "config = \"other.toml\"\n", want: file + `:1:1: unknown key "config"`},
		{text: "print-config = true\n", want: file + `:1:1: unknown key "print-config"`},
		{text: "timeout = 10\n", want: file + `:1:1: timeout is 10, expected a duration such as "10m"`},
		{text: "timeout = \"10\"\n", want: file + `:1:1: timeout is the string "10", expected a duration`},
		{text: "max-log = \"64GB\"\n", want: file + `:1:1: max-log is the string "64GB", expected a whole number`},
		{text: "max-log = 1e9\n", want: file + `:1:1: max-log is 1e+09, expected a whole number`},
		{text: "max-open = 99999999999999999999\n", want: file + ":1:12: "},
		{text: "host = \"a\"\n", want: file + `:1:1: host is the string "a", expected a list of strings`},
		{text: "host = [\"a\", 3]\n", want: file + `:1:14: host[1] is 3, expected a string`},
		{text: "plaintext = \"yes\"\n", want: file + `:1:1: plaintext is the string "yes", expected true or false`},
		{text: "verify-share = nan\n", want: file + `:1:1: --verify-share NaN: expected a number above 0 and at most 1`},
		{text: "max-body = 1\nmax-body = 2\n", want: file + ":2:1: "},
		{text: "max-body = = 1\n", want: file + ":1:12: "},
		// a value of the right type that no server takes is refused with its line, too
		{text: "\nmax-body = 5\n", want: file + ":2:1: --max-body 5: expected 1024 to"},
		{text: "log-level = \"loud\"\n", want: file + ":1:1: --log-level loud: expected error, warn, info or debug"},
		{text: "keep-bytes = 1048576\nkeys-file = \"k\"\n", want: file + ":2:1: --keys-file needs --nats"},
		{text: "host = [\"https://x\"]\n", want: file + ":1:1: --host https://x: expected a name without scheme"},
		{variable: "TROUPE_SERVE_MAX_BODY=5", want: "TROUPE_SERVE_MAX_BODY: --max-body 5: expected 1024 to"},
		{variable: "TROUPE_SERVE_MAX_BODY=5k", want: `TROUPE_SERVE_MAX_BODY is "5k", expected a whole number`},
		{variable: "TROUPE_SERVE_MAXBODY=5", want: "TROUPE_SERVE_MAXBODY is no variable of troupe serve; did you mean \"TROUPE_SERVE_MAX_BODY\"?"},
		{variable: "TROUPE_SERVE_PRINT_CONFIG=1", want: "TROUPE_SERVE_PRINT_CONFIG is no variable of troupe serve"},
		{variable: "TROUPE_SERVE_CONFIG=" + dir + "/none.toml", want: "--config: open " + dir + "/none.toml"},
		{variable: "TROUPE_SERVE_LOG_FORMAT=xml", want: "TROUPE_SERVE_LOG_FORMAT: --log-format xml: expected text or json"},
	} {
		args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0"}
		if c.text != "" {
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--config", file)
		}
		t.Run("", func(t *testing.T) {
			if name, value, ok := strings.Cut(c.variable, "="); ok {
				t.Setenv(name, value)
			}
			for _, last := range [][]string{nil, {"--print-config"}} {
				var out, errs bytes.Buffer
				code := command(t.Context(), append(args, last...), &out, &errs)
				if code != term.Misused || !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
					t.Errorf("%q %s: code %d, %q, %q; want %q", c.text, c.variable, code, &errs, &out, c.want)
				}
			}
		})
		if _, err := os.Stat(data); err == nil {
			t.Fatalf("%q made a data directory", c.text)
		}
	}
}

// Names without SERVE are said, and what Kubernetes makes of a Service is not.
func TestServeSettingsNearNames(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"TROUPE_MAX_LOG=5":                             "TROUPE_MAX_LOG is not read; the variable of --max-log is TROUPE_SERVE_MAX_LOG",
		"TROUPE_LONG=1":                                "",
		"TROUPE_KERNEL=portable":                       "",
		"TROUPE_SERVICE_HOST=10.0.0.1":                 "",
		"TROUPE_PORT=tcp://10.0.0.1:8080":              "",
		"TROUPE_SERVE_SERVICE_HOST=10.0.0.1":           "",
		"TROUPE_SERVE_SERVICE_PORT=8080":               "",
		"TROUPE_SERVE_SERVICE_PORT_HTTP=8080":          "",
		"TROUPE_SERVE_PORT=tcp://10.0.0.1:8080":        "",
		"TROUPE_SERVE_PORT_8080_TCP_ADDR=10.0.0.1":     "",
		"TROUPE_SERVE_PORT_8080_TCP=tcp://10.0.0.1:80": "",
	} {
		_, s, err := serveSettings(t, []string{variable})
		if err != nil || strings.Join(s.notes, "; ") != want {
			t.Errorf("%s: %v, %q, expected %q", variable, err, s.notes, want)
		}
	}
	_, s, err := serveSettings(t, []string{"TROUPE_CLUSTER=/a/cluster.toml"}, "--cluster", "/b/cluster.toml")
	if err != nil || len(s.notes) > 0 {
		t.Errorf("TROUPE_CLUSTER beside --cluster: %v, %q", err, s.notes)
	}
}

// A file that --print-config wrote starts a server, and its lines of the log are JSON.
func TestServeConfigFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	args := []string{"serve", "--max-actions", "3", "--log-format", "json", "--log-level", "debug", "--print-config"}
	if code := command(t.Context(), args, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("code %d: %s", code, &errs)
	}
	if !strings.Contains(out.String(), "\nmax-actions = 3\n") || !strings.Contains(out.String(), "\n# max-body = 1048576\n") {
		t.Errorf("printed:\n%s", &out)
	}
	file := filepath.Join(dir, "troupe.toml")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	url, logs, stop := startServer(t, filepath.Join(dir, "data"), "--config", file)
	post := func(path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequest("POST", url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Request-Id", "from-the-caller")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(b)
	}
	if status, body := post("/v1/models", `{"id":"m"}`); status != 201 {
		t.Fatalf("%d: %s", status, body)
	}
	if status, body := post("/v1/models/m:decide", `{"actions":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"d"}]}`); status != 413 && status != 422 {
		t.Errorf("four actions where the file allows three: %d: %s", status, body)
	}
	stop()
	found := false
	for line := range strings.Lines(logs.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("the line %q is not JSON: %v", line, err)
		}
		found = found || fmt.Sprint(entry["request"]) == "from-the-caller"
	}
	if !found {
		t.Errorf("no line has the caller's request id:\n%s", logs)
	}
}
