package cells

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/internal/scratch"
	"troupe/timing"
)

func save(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cells.toml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// run runs a command line of cells.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := Command()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

const two = `[[cell]]
name = "one"
number = 1
urls = ["http://127.0.0.1:1"]

[[cell]]
name = "two"
number = 2
urls = ["http://127.0.0.1:2"]
`

// TestFile: what is wrong with a file is said with its line and the field.
func TestFile(t *testing.T) {
	for change, want := range map[[2]string]string{
		{`number = 2`, `number = 1`}:                                        `:8:1: number is 1, which another cell has`,
		{`number = 2`, `number = 32`}:                                       `number is 32, expected 1 to 31`,
		{`name = "two"`, `name = "Two"`}:                                    `:7:1: name is "Two", expected a lower-case letter`,
		{`name = "two"`, `name = "one"`}:                                    `name is "one", which another cell has`,
		{`"http://127.0.0.1:2"`, `"http://127.0.0.1:1"`}:                    `urls[0] is "http://127.0.0.1:1", which is there twice`,
		{`"http://127.0.0.1:2"`, `"127.0.0.1:2"`}:                           `urls[0] is "127.0.0.1:2", expected http://HOST:PORT`,
		{`"http://127.0.0.1:2"`, `"http://h:2", "https://h:3"`}:             `:9:23: urls[1] is "https://h:3", expected http as the first one`,
		{`["http://127.0.0.1:2"]`, `[]`}:                                    `urls is empty`,
		{`number = 2`, "number = 2\nca = \"none.pem\""}:                     `ca: open `,
		{`number = 2`, "number = 2\nkind = \"x\""}:                          `unknown key "kind"`,
		{"[[cell]]\nname = \"one\"", "cells = 3\n[[cell]]\nname = \"one\""}: `unknown key "cells"; did you mean "cell"?`,
	} {
		if _, err := read(save(t, strings.Replace(two, change[0], change[1], 1)), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", change[1], err, want)
		}
	}
	if all, err := read(save(t, two), ""); err != nil || len(all) != 2 || all[1].Number != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// server is a server of a cell, as far as the commands ask.
type server struct {
	decisions map[string]*atomic.Int64
	processor atomic.Int64 // milliseconds
	ready     bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/readyz":
		fmt.Fprintf(w, `{"ready":%v}`, s.ready)
	case "/metrics":
		fmt.Fprintf(w, "troupe_info{data=\"d\",version=\"1.2\"} 1\ntroupe_models %d\nprocess_cpu_seconds_total %v\nprocess_resident_memory_bytes 5e7\ntroupe_log_bytes 3e6\n",
			len(s.decisions), float64(s.processor.Load())/1000)
		fmt.Fprintln(w, "# TYPE troupe_model_decisions_total counter")
		for _, m := range slices.Sorted(maps.Keys(s.decisions)) {
			fmt.Fprintf(w, "troupe_model_decisions_total{model=%q} %d\n", m, s.decisions[m].Load())
		}
	case "/v1/models": // in pages of one
		names := slices.Sorted(maps.Keys(s.decisions))
		at := slices.Index(names, r.URL.Query().Get("page_token")) + 1
		next := ""
		if at < len(names)-1 {
			next = names[at]
		}
		fmt.Fprintf(w, `{"models":[{"name":%q}],"next_page_token":%q}`, names[at], next)
	default:
		http.NotFound(w, r)
	}
}

// TestStatus: a cell of three nodes, each of which counts all decisions, and one whose server is not ready.
func TestStatus(t *testing.T) {
	nodes := [3]*server{}
	file := ""
	for i := range nodes {
		nodes[i] = &server{ready: i != 2, decisions: map[string]*atomic.Int64{"news": {}, "shop": {}}}
		s := httptest.NewServer(nodes[i])
		defer s.Close()
		file += fmt.Sprintf("%q, ", s.URL)
	}
	lone := &server{decisions: map[string]*atomic.Int64{"other": {}}}
	s := httptest.NewServer(lone)
	defer s.Close()
	file = fmt.Sprintf("[[cell]]\nname = \"one\"\nnumber = 1\nurls = [%s]\n[[cell]]\nname = \"two\"\nnumber = 2\nurls = [%q]\n", strings.TrimSuffix(file, ", "), s.URL)
	name := save(t, file)
	all, err := read(name, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		n.decisions["news"].Store(int64(100 - i)) // some nodes are behind
	}
	var looks atomic.Int64
	states := make([]state, 2)
	for i := range all {
		before := all[i].http.Transport
		all[i].http.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/metrics" && looks.Add(1) > int64(len(all[i].URLs)) {
				for _, n := range nodes {
					n.decisions["news"].Store(1100)
					n.processor.Store(500)
				}
			}
			return before.RoundTrip(r)
		})
		looks.Store(0)
		states[i] = all[i].ask(t.Context(), 100*time.Millisecond, timing.Clock{})
	}
	one := states[0]
	if one.Ready != 2 || one.Servers != 3 || one.Models != 2 || one.Rate <= 0 || one.Rates["news"] != one.Rate || one.Memory != 1.5e8 || one.Log != 3e6 {
		t.Errorf("cell one: %+v", one)
	}
	// All three were busy for half a second while about a thousand decisions were made.
	if ratio := one.Rate / one.Processor; ratio < 1000/1.5*.98 || ratio > 1002/1.5*1.02 {
		t.Errorf("%v decisions for each second of a processor", ratio)
	}
	if states[1].Ready != 0 || states[1].Rate != 0 {
		t.Errorf("cell two: %+v", states[1])
	}
	out, err := run(t, "status", "--cells", name, "--over", "100ms")
	if err == nil || !strings.Contains(out, "two   0 of 1") || !strings.Contains(out, "one   2 of 3") {
		t.Errorf("%v\n%s", err, out)
	}
	s.Close()
	if out, _ = run(t, "status", "--cells", name, "--over", "100ms"); !strings.Contains(out, "two: "+s.URL+": dial") {
		t.Errorf("a server that does not answer:\n%s", out)
	}
	if _, err := run(t, "route", "--cells", name); err == nil || !strings.Contains(err.Error(), "cell two") {
		t.Errorf("a route without the models of a cell: %v", err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestBalance: the moves make the busiest cell at most 1.2 times as busy as the mean where models are small, and nothing is
// proposed where one model is all of a cell.
func TestBalance(t *testing.T) {
	cell := func(name string, rates ...float64) state {
		s := state{Name: name, Rates: map[string]float64{}}
		for i, r := range rates {
			s.Rates[fmt.Sprint(name, i)] = r
			s.Rate += r
		}
		return s
	}
	states := []state{cell("a", 50, 40, 30, 30, 10), cell("b", 20), cell("c")}
	moves := balance(states)
	load := map[string]float64{"a": 160, "b": 20}
	for _, m := range moves {
		load[m.From] -= m.Rate
		load[m.To] += m.Rate
	}
	for name, l := range load {
		if l > even*60 {
			t.Errorf("cell %s has %v of a mean of 60 after %+v", name, l, moves)
		}
	}
	if len(moves) == 0 || len(moves) > 3 {
		t.Errorf("moves %+v", moves)
	}
	for _, states := range [][]state{{cell("a", 100), cell("b")}, {cell("a", 10), cell("b", 11)}, {cell("a"), cell("b")}} {
		if moves := balance(states); len(moves) > 0 {
			t.Errorf("%+v: moves %+v", states, moves)
		}
	}
}

// TestProxies: nginx and HAProxy read what route prints, and bring decisions to the cell of their model and rewards to the
// cell in which the event id was made.
func TestProxies(t *testing.T) {
	var cells []cell
	for i, name := range []string{"one", "two", "last"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch r.URL.Path {
			case "/v1/models/went:decide": // to cell two
				if name == "one" {
					http.Redirect(w, r, cells[1].URLs[0]+r.URL.Path, http.StatusTemporaryRedirect)
					return
				}
			case "/v1/models/away:decide": // to a server that is no cell
				http.Redirect(w, r, "http://elsewhere.example"+r.URL.Path, http.StatusTemporaryRedirect)
				return
			}
			fmt.Fprintf(w, "%s %s %s", name, r.URL.EscapedPath(), body)
		}))
		defer s.Close()
		cells = append(cells, cell{Name: name, Number: []int{1, 2, 31}[i], URLs: []string{s.URL}})
	}
	models := [][]string{{"news"}, {"shop", "a.b"}, {"x", "x-1"}}
	event := func(number int) string {
		first := byte(number * eventlog.CellKeys)
		k := eventlog.IDKeys{Current: first + 3, Keys: map[byte][]byte{first + 3: bytes.Repeat([]byte{7}, 32)}}
		return k.Format(eventlog.EventID{Event: eventlog.Event{Epoch: 9, Batch: 4}})
	}
	want := map[string]string{
		"/v1/models/news:decide":                   "one",
		"/v1/models/shop:decide":                   "two",
		"/v1/models/shop":                          "two",
		"/v1/models/shop/decisions?from=1":         "two",
		"/v1/models/shopping:decide":               "one", // another model
		"/v1/models/a.b:decide":                    "two",
		"/v1/models/aXb:decide":                    "one",
		"/v1/models/%61.b:decide":                  "two",
		"/v1/models/x:decide":                      "last",
		"/v1/models/x-1:decide":                    "last",
		"/v1/models/x-2:decide":                    "one",
		"/v1/models":                               "one",
		"/v1/events/" + event(1) + ":reward":       "one",
		"/v1/events/" + event(2) + ":reward":       "two",
		"/v1/events/" + event(31) + ":reward":      "last",
		"/v1/events/" + event(31) + "/explain":     "last",
		"/v1/rewards:batch":                        "one",
		"/personalizer/v1.0/rank":                  "one",
		"/v1/models/news:decide?then=/v1/events/2": "one",
	}
	for proxy, command := range map[string]func(dir, conf string) []string{
		"nginx": func(dir, conf string) []string {
			main := filepath.Join(dir, "nginx.conf")
			text := fmt.Sprintf("daemon off; master_process off; pid %s/pid; error_log %s/errors;\nevents {}\nhttp { access_log off; client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s; include %s; }\n",
				dir, dir, dir, dir, dir, dir, dir, conf)
			if err := os.WriteFile(main, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"nginx", "-c", main}
		},
		"haproxy": func(_, conf string) []string { return []string{"haproxy", "-db", "-f", conf} },
	} {
		t.Run(proxy, func(t *testing.T) {
			if _, err := exec.LookPath(proxy); err != nil {
				if os.Getenv("TROUPE_PROXY") == "require" {
					t.Fatal(err)
				}
				t.Skipf("the proxy is not there: %v", err)
			}
			dir := t.TempDir()
			ports, err := scratch.Ports(1)
			if err != nil {
				t.Fatal(err)
			}
			address := "127.0.0.1:" + ports[0]
			r, err := newRouting(cells, models, "one", address)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := proxies[proxy](&text, r); err != nil {
				t.Fatal(err)
			}
			conf := filepath.Join(dir, "route.conf")
			if err := os.WriteFile(conf, text.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			line := command(dir, conf)
			var said bytes.Buffer
			program := exec.CommandContext(t.Context(), line[0], line[1:]...)
			program.Stdout, program.Stderr = &said, &said
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- program.Wait() }()
			defer func() { _ = program.Process.Kill(); <-ended }()
			ask := func(path string) (string, error) {
				a, err := http.Post("http://"+address+path, "application/json", strings.NewReader("{}"))
				if err != nil {
					return "", err
				}
				defer a.Body.Close()
				b, err := io.ReadAll(a.Body)
				return string(b), err
			}
			await.Until(t, proxy+" listens", func() bool {
				select {
				case err := <-ended:
					ended <- err
					t.Fatalf("%s ended with %v: %s\n%s", proxy, err, said.String(), text.String())
				default:
				}
				for _, path := range []string{"/v1/models/news:decide", "/v1/models/shop:decide", "/v1/models/x:decide"} { // haproxy looks whether each is there
					if b, err := ask(path); err != nil || !strings.HasSuffix(b, " {}") {
						return false
					}
				}
				return true
			})
			// nginx follows a model that went to another cell, and hands on what goes elsewhere.
			c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			for path, want := range map[string]string{"/v1/models/went:decide": "two /v1/models/went:decide {}", "/v1/models/away:decide": "http://elsewhere.example/v1/models/away:decide"} {
				a, err := c.Post("http://"+address+path, "application/json", strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(a.Body)
				a.Body.Close()
				got := a.Header.Get("Location")
				if a.StatusCode == http.StatusOK {
					got = string(b)
				}
				if proxy == "haproxy" && path == "/v1/models/went:decide" {
					want = cells[1].URLs[0] + path // callers follow
				}
				if got != want {
					t.Errorf("%s: %d %q, want %q", path, a.StatusCode, got, want)
				}
			}
			for _, path := range slices.Sorted(maps.Keys(want)) {
				got, err := ask(path)
				plain, _, _ := strings.Cut(path, "?")
				if err != nil || got != want[path]+" "+plain+" {}" {
					t.Errorf("%s: %q, %v; want cell %s", path, got, err, want[path])
				}
			}
		})
	}
	for what, change := range map[string]func(cells []cell, models [][]string){
		`model "news" is at the cells one and two`: func(_ []cell, models [][]string) { models[1] = []string{"news"} },
		`differ in https`:                          func(cells []cell, _ [][]string) { cells[1].URLs = []string{"https://h:1"} },
		`no cell with this name`:                   func(cells []cell, _ [][]string) { cells[0].Name = "zero" },
	} {
		c, m := slices.Clone(cells), slices.Clone(models)
		change(c, m)
		if _, err := newRouting(c, m, "one", "80"); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want %s", err, what)
		}
	}
}
