package page

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"troupe/playground"
)

// program is the committed program, which every build of troupe has.
func program(t *testing.T) *Program {
	t.Helper()
	p, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProgram: the committed program is at most 1.5 MB compressed, and is one; its Go is named.
func TestProgram(t *testing.T) {
	p := program(t)
	t.Logf("%d bytes compressed", len(p.Gzip))
	if len(p.Gzip) > 1_500_000 {
		t.Errorf("the program has %d bytes compressed, expected at most 1.5 MB", len(p.Gzip))
	}
	z, err := gzip.NewReader(bytes.NewReader(p.Gzip))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || !bytes.HasPrefix(text, []byte("\x00asm")) {
		t.Errorf("the program begins %.8q (%v)", text, err)
	}
	if !strings.HasPrefix(p.Go, "go1.") || len(p.Exec) == 0 {
		t.Errorf("compiled by %q, with %d bytes of %s", p.Go, len(p.Exec), ExecFile)
	}
}

// traced are games of every kind of policy, set, noise and change, beside the scenes.
var traced = []string{
	"seed=1&theta=0.6,0.3&arms=6&sigma=0.5&rounds=60&p=ensemble,m=16&p=atoms,m=4,scale=0.7&p=ts&p=linucb",
	"seed=7&theta=-0.2,0.9&arms=0&sigma=1&rounds=60&p=ensemble,m=1&p=ensemble,m=8,lambda=2,scale=0.3&p=linucb&p=epsilon-greedy",
	"seed=3&theta=0.5,-0.5&arms=8&redraw=1&clicks=1&rounds=60&p=epsilon-greedy&p=atoms,change=restarts&p=linucb,change=restarts&p=ts,scale=2",
}

// again is the command that renews the committed program.
const again = "; when the code has changed, run go run ./playground/wasm and commit playground/page/built"

// TestSameInWebAssembly: the committed program of the page, run by node, plays every round with the actions, propensities
// and regret of this machine's code, and draws the last one, byte for byte; and TestSameAsRun of package playground compares
// that with troupe run.
func TestSameInWebAssembly(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("TROUPE_BROWSER") == "require" {
			t.Fatal("no node, and TROUPE_BROWSER=require")
		}
		t.Skip("no node on this machine; the browser test compares the same")
	}
	p := program(t)
	dir := t.TempDir()
	for name, text := range map[string][]byte{"program.gz": p.Gzip, "wasm_exec.js": p.Exec, "play.js": []byte(`
const fs = require("fs"), zlib = require("zlib");
require("./wasm_exec.js");
const go = new Go();
WebAssembly.instantiate(zlib.gunzipSync(fs.readFileSync("program.gz")), go.importObject).then(({ instance }) => {
  go.run(instance);
  let out = "";
  for (const link of process.argv.slice(2)) {
    const err = troupe.open(link);
    if (err) throw new Error(err);
    const rounds = Number(/rounds=(\d+)/.exec(link)[1]);
    for (let t = 1; t <= rounds; t++) { troupe.to(t); out += troupe.trace(); }
    const v = troupe.view(320, 400, 200);
    out += [v.plane, v.arms, v.regret, v.words, v.link, v.spec, v.names].join("\n") + "\n";
  }
  fs.writeSync(1, out);
  process.exit(0);
});`)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	links := traced
	for _, s := range playground.Scenes {
		links = append(links, s.Link+"&t=1")
	}
	c := exec.Command(node, append([]string{"play.js"}, links...)...)
	c.Dir = dir
	got, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, link := range links {
		want.WriteString(trace(t, link))
		want.WriteString(view(t, link))
	}
	if string(got) != want.String() {
		a, b := strings.Split(string(got), "\n"), strings.Split(want.String(), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("line %d: WebAssembly has\n%s, this machine\n%s"+again, i+1, a[i], b[i])
			}
		}
		t.Fatalf("WebAssembly has %d lines, this machine %d"+again, len(a), len(b))
	}
}

// trace plays a link to its last round on this machine.
func trace(t *testing.T, link string) string {
	t.Helper()
	s, err := playground.ParseLink(link)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	g, err := playground.New(s.Setup)
	for ; err == nil; err = g.Step() {
		b.WriteString(g.Trace())
		if g.T() == s.Rounds {
			return b.String()
		}
	}
	t.Fatal(err)
	return ""
}

// view draws the last round of a link on this machine.
func view(t *testing.T, link string) string {
	t.Helper()
	s, err := playground.ParseLink(link)
	if err != nil {
		t.Fatal(err)
	}
	s.At = s.Rounds
	g, err := playground.Play(s.Setup, s.At)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range s.Players {
		names = append(names, p.Name())
	}
	return strings.Join([]string{g.Plane(s.Look, 320), g.Arms(s.Look), g.Regret(s.Look, 400, 200), g.Words(s.Look), s.Link(), s.Spec(),
		strings.Join(names, ",")}, "\n") + "\n"
}

// TestPage: the page has the five pictures and its policy, loads nothing, and says so where it has no program.
func TestPage(t *testing.T) {
	for _, p := range []*Program{nil, {Gzip: []byte("x"), Exec: []byte("// exec")}} {
		page, err := Render(p)
		if err != nil {
			t.Fatal(err)
		}
		text := string(page.HTML)
		if n := strings.Count(text, `<svg class="plane"`); n != 5 || strings.Count(text, `<svg class="regret"`) != 5 {
			t.Errorf("the page has %d pictures, expected 5", n)
		}
		if got := strings.Contains(text, "built without its program"); got != (p == nil) {
			t.Errorf("with the program %v the page says that it has none: %v", p, got)
		}
		if got := strings.Contains(text, "<code>go run ./playground/wasm</code>"); got != (p == nil) {
			t.Errorf("with the program %v the page names the command that makes it: %v", p, got)
		}
		for _, s := range playground.Scenes { // the pictures without script name their policies
			for _, p := range s.State(0).Players {
				if !strings.Contains(text, "</i>"+p.Name()+"</span>") {
					t.Errorf("the picture of scene %s does not name %s", s.Name, p.Name())
				}
			}
		}
		if !strings.Contains(text, `content="`+page.CSP+`"`) {
			t.Errorf("the page does not state its policy")
		}
		for _, part := range []string{"'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*"} {
			if strings.Contains(page.CSP, part) {
				t.Errorf("the policy has %s: %s", part, page.CSP)
			}
		}
		if m := regexp.MustCompile(`(?i)(src|href)="[^"]*"|url\([^)]*\)|@import|style="`).FindAllString(text, -1); len(m) != 1 || m[0] != `href="data:,"` {
			t.Errorf("the page names %v", m)
		}
	}
}
