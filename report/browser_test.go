//go:build browser

package report

// The page in a real browser: Debian's chromium through chromedp. go test -tags browser ./report
// runs these; without a browser they skip, with TROUPE_BROWSER=require they fail. TROUPE_SAMPLES
// names a directory for the screenshots.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"troupe/experiments"
	"troupe/internal/await"
	"troupe/report/chart"
	"troupe/sim"
	"troupe/spec"
)

// browser starts chromium, or skips, or fails when it is required.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if name == "" {
			continue
		}
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("TROUPE_BROWSER") == "require" {
			t.Fatal("no chromium, and TROUPE_BROWSER=require")
		}
		t.Skip("no chromium on this machine: install it, or leave out -tags browser")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, // containers run as root
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// watch collects console messages, exceptions and requests of a tab.
type watch struct {
	mu       sync.Mutex
	messages []string
	requests []string
}

func watching(t *testing.T, ctx context.Context) *watch {
	t.Helper()
	w := &watch{}
	err := chromedp.Listen(ctx, func(ev any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch e := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			w.messages = append(w.messages, fmt.Sprintf("console.%s", e.Type))
		case *runtime.EventExceptionThrown:
			w.messages = append(w.messages, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			w.messages = append(w.messages, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "data:") {
				w.requests = append(w.requests, e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, enable := range []func() error{
		func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err },
		func() error { _, err := chromedp.Call(ctx, runtime.Enable, struct{}{}); return err },
		func() error { _, err := chromedp.Call(ctx, log.Enable, struct{}{}); return err },
	} {
		if err := enable(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// set changes the window and the colour scheme.
func set(t *testing.T, ctx context.Context, width, height int64, scheme string) {
	t.Helper()
	if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: false}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		t.Fatal(err)
	}
}

func navigate(t *testing.T, ctx context.Context, file string) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate("file://"+filepath.ToSlash(file))); err != nil {
		t.Fatal(err)
	}
}

func eval[T any](t *testing.T, ctx context.Context, js string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return v
}

func shot(t *testing.T, ctx context.Context, name string) []byte {
	t.Helper()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("TROUPE_SAMPLES"); dir != "" && name != "" {
		save(t, filepath.Join(dir, "shots", name+".png"), png)
	}
	return png
}

// problems is run in the page: overflow, contrast of every text on its composed ground, names of
// controls, unique ids, heading levels, size of targets. The colours are painted into a canvas, so
// that light-dark() and color-mix() resolve.
const problems = `(() => {
const out = [];
const show = e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.className && e.className.baseVal === undefined ? "." + e.className : "") + " '" + e.textContent.trim().slice(0, 30) + "'";
if (document.documentElement.scrollWidth > innerWidth) out.push("the page is " + document.documentElement.scrollWidth + " wide in a window of " + innerWidth);
const scroller = e => { for (; e; e = e.parentElement) { const o = getComputedStyle(e).overflowX; if (o == "auto" || o == "scroll" || (o == "hidden" && e.matches("figcaption"))) return true; } return false; };
for (const e of document.querySelectorAll("body *")) {
  const r = e.getBoundingClientRect();
  if (r.width && !e.closest("svg,.sr") && r.right > innerWidth + 0.5 && !scroller(e)) { out.push("beyond the right edge by " + (r.right - innerWidth).toFixed(1) + ": " + show(e)); }
  if (r.width && !e.closest("svg,.sr") && r.left < -0.5 && !scroller(e)) { out.push("beyond the left edge: " + show(e)); }
}
const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgba = s => { c.clearRect(0, 0, 1, 1); c.fillStyle = "#000"; c.fillStyle = s; c.fillRect(0, 0, 1, 1); const d = c.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const lum = v => { const f = v.slice(0, 3).map(x => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let least = 99;
while (walk.nextNode()) {
  const n = walk.currentNode, e = n.parentElement;
  if (!n.textContent.trim() || e.closest("script,style,.sr") || !e.getClientRects().length || getComputedStyle(e).visibility == "hidden") continue;
  const chain = []; let alpha = 1;
  for (let p = e; p; p = p.parentElement) { chain.push(p); alpha *= +getComputedStyle(p).opacity; }
  let ground = [255, 255, 255, 1];
  for (const p of chain.reverse()) ground = over(rgba(getComputedStyle(p).backgroundColor), ground);
  const ink = rgba(getComputedStyle(e).color); ink[3] *= alpha;
  const a = lum(over(ink, ground)), b = lum(ground), k = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  least = Math.min(least, k);
  if (k < (parseFloat(getComputedStyle(e).fontSize) >= 24 ? 3 : 4.5)) out.push("contrast " + k.toFixed(2) + ": " + show(e));
}
for (const e of document.querySelectorAll("input,button,summary,[tabindex]")) {
  const label = (e.labels && e.labels.length ? e.labels[0].textContent : "") || e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") && document.getElementById(e.getAttribute("aria-labelledby"))?.textContent) || e.textContent;
  if (!label.trim()) out.push("a control without a name: " + e.outerHTML.slice(0, 80));
  const r = (e.labels && e.labels.length ? e.labels[0] : e).getBoundingClientRect();
  if (r.width && (r.width < 24 || r.height < 24)) out.push("a target of " + r.width.toFixed(0) + " by " + r.height.toFixed(0) + ": " + show(e.labels?.[0] ?? e));
}
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
ids.filter((x, i) => ids.indexOf(x) != i).forEach(x => out.push("id given twice: " + x));
for (const e of document.querySelectorAll("[aria-labelledby]")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) out.push("aria-labelledby leads nowhere: " + e.getAttribute("aria-labelledby"));
let level = 0;
for (const h of document.querySelectorAll("h1,h2,h3,h4")) { const l = +h.tagName[1]; if (l > level + 1) out.push("heading level skipped: " + show(h)); level = l; }
if (document.querySelectorAll("h1").length != 1) out.push("not one h1");
for (const t of document.querySelectorAll("table")) if (!t.querySelector("th")) out.push("a table without th");
const seen = {};
return out.filter(x => !seen[x] && (seen[x] = 1)).slice(0, 20).concat("least contrast " + least.toFixed(2));
})()`

// site writes a sample report.
func site(t *testing.T, envs []sim.EnvironmentRow, players []player, reps int) (dir string, run *Run) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, envs, players, reps, 10_000, 54)
	run, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(run, dir, Options{NoFigures: true}); err != nil {
		t.Fatal(err)
	}
	return dir, run
}

// Four widths, two modes, four shapes of run: no console message, no request but the page, no
// overflow, and none of the accessibility problems that a script can see.
func TestBrowserEveryWidthAndMode(t *testing.T) {
	ctx := browser(t)
	w := watching(t, ctx)
	long := troupeOfSeven()
	long[0].name = "ensemble(lambda=0.001,m=4096,scale.value=1.7320508075688772)"
	for _, s := range []struct {
		name    string
		envs    []sim.EnvironmentRow
		players []player
		reps    int
	}{
		{"one", oneEnv(), troupeOfSeven(), 60},
		{"two", []sim.EnvironmentRow{linearEnv("ball-10", 10, ball()), linearEnv("a-long-name-of-an-environment, d=10", 10, arms())}, long, 30},
		{"single", oneEnv(), troupeOfSeven()[:1], 1},
		{name: "recorded"}, // played, with diagnostics and a reference
	} {
		var dir string
		if s.players == nil {
			dir = record(t, recordedSpec)
			if _, err := Build(dir, Options{NoFigures: true}); err != nil {
				t.Fatal(err)
			}
		} else {
			dir, _ = site(t, s.envs, s.players, s.reps)
		}
		file := filepath.Join(dir, "report.html")
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 768, 390, 320} {
				w.mu.Lock()
				w.requests, w.messages = nil, nil
				w.mu.Unlock()
				set(t, ctx, width, 900, scheme)
				navigate(t, ctx, file)
				name := fmt.Sprintf("%s-%d-%s", s.name, width, scheme)
				found := eval[[]string](t, ctx, problems)
				for _, p := range found[:len(found)-1] {
					t.Errorf("%s: %s", name, p)
				}
				if width == 1440 {
					t.Logf("%s: %s", name, found[len(found)-1])
				}
				shot(t, ctx, name)
				w.mu.Lock()
				if len(w.requests) != 1 || !strings.HasSuffix(w.requests[0], "/report.html") {
					t.Errorf("%s: requests %q, expected the page alone", name, w.requests)
				}
				if len(w.messages) != 0 {
					t.Errorf("%s: messages %q", name, w.messages)
				}
				w.mu.Unlock()
			}
		}
	}
}

// What a reader sees first: the first intervals within 350 pixels of the top, and the first figure above 700 on the page
// of five policies or fewer.
func TestBrowserFirstScreen(t *testing.T) {
	ctx := browser(t)
	for _, players := range [][]player{troupeOfSeven()[2:], troupeOfSeven()} {
		dir, _ := site(t, oneEnv(), players, 40)
		set(t, ctx, 1280, 800, "light")
		navigate(t, ctx, filepath.Join(dir, "report.html"))
		shot(t, ctx, fmt.Sprintf("first-%d", len(players)))
		top := func(sel string) float64 {
			return eval[float64](t, ctx, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().top`, sel))
		}
		if at := top(".forest svg"); at > 350 {
			t.Errorf("%d policies: the first intervals are %v pixels down", len(players), at)
		}
		if at := top("article .plot > svg"); len(players) <= 5 && at > 700 {
			t.Errorf("%d policies: the first figure is %v pixels down", len(players), at)
		}
	}
}

// The pages of a comparison and of a gallery have none of the problems that a script can see.
func TestBrowserComparedAndGallery(t *testing.T) {
	ctx := browser(t)
	dir := t.TempDir()
	one := loaded(t, oneEnv(), troupeOfSeven(), 40, 1000, 20)
	two := loaded(t, oneEnv(), troupeOfSeven(), 40, 1000, 20)
	two.Manifest.Seed = 2
	var compared, gallery bytes.Buffer
	d := compose(one, Options{})
	if err := errors.Join(compareRuns(one, two).WriteHTML(&compared), WriteGallery(&gallery, []GalleryEntry{{Run: one, Page: "a.html",
		Picture: d.picture(), Looks: d.looks}, {Run: two, Page: "b.html", Compared: []GalleryPair{{With: "seed 1", Page: "c.html",
		Verdict: "Nothing changed."}}}}, GalleryMeta{Command: "troupe gallery runs"})); err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string][]byte{"compare": compared.Bytes(), "gallery": gallery.Bytes()} {
		file := filepath.Join(dir, name+".html")
		save(t, file, page)
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 390} {
				set(t, ctx, width, 900, scheme)
				navigate(t, ctx, file)
				found := eval[[]string](t, ctx, problems)
				for _, p := range found[:len(found)-1] {
					t.Errorf("%s, %d, %s: %s", name, width, scheme, p)
				}
				shot(t, ctx, fmt.Sprintf("%s-%d-%s", name, width, scheme))
			}
		}
	}
}

// The check itself can fail: a page with planted faults.
func TestBrowserChecksAreNotBlind(t *testing.T) {
	ctx := browser(t)
	file := filepath.Join(t.TempDir(), "bad.html")
	save(t, file, []byte(`<!doctype html><title>bad</title><body><h1 id="a">x</h1><h3 id="a">y</h3><p style="color:#999;background:#fff">pale</p>
<p style="opacity:.4">faint</p><div style="width:3000px">wide</div><input type="checkbox" style="width:9px;height:9px"><table><tr><td>1</table>`))
	set(t, ctx, 390, 800, "light")
	navigate(t, ctx, file)
	all := strings.Join(eval[[]string](t, ctx, problems), "\n")
	for _, want := range []string{"wide in a window of 390", "beyond the right edge", "contrast 2.85: p 'pale'", "p 'faint'", "a control without a name", "a target of", "id given twice: a", "heading level skipped", "a table without th"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q not found in\n%s", want, all)
		}
	}
}

// The read-out shows the values of the results file, to the digit, by pointer and by keys.
func TestBrowserReadout(t *testing.T) {
	ctx := browser(t)
	dir, run := site(t, oneEnv(), troupeOfSeven(), 60)
	set(t, ctx, 1440, 900, "light")
	navigate(t, ctx, filepath.Join(dir, "report.html"))
	a := Analyze(run, 0)
	k := len(a.Rounds) - 4
	expected := func(k int) map[string]string {
		want := map[string]string{}
		for i := range a.Policies {
			m, h := painter{a}.curve(i)
			want[a.Label(i)] = chart.Amount(m[k], a.Dec) + "|± " + chart.Amount(h[k], a.Dec)
		}
		return want
	}
	check := func(what, plot string, k int) {
		t.Helper()
		head := eval[string](t, ctx, fmt.Sprintf(`document.querySelector("[data-plot=%s] .tip b")?.textContent ?? "no read-out"`, plot))
		if want := "t = " + chart.Count(a.Rounds[k]); head != want {
			t.Fatalf("%s: the read-out says %q, want %q", what, head, want)
		}
		got := eval[[]string](t, ctx, fmt.Sprintf(`[...document.querySelectorAll("[data-plot=%s] .tip div")].map(e => e.querySelector("span").textContent + "|" + e.querySelector("em").textContent + "|" + e.querySelector("small").textContent)`, plot))
		want := expected(k)
		if len(got) != len(want) {
			t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
		}
		for _, row := range got {
			name, value, _ := strings.Cut(row, "|")
			if value != want[name] {
				t.Errorf("%s: %s at t = %d: read-out %q, file %q", what, name, a.Rounds[k], value, want[name])
			}
		}
	}
	eval[bool](t, ctx, `document.querySelector("[data-plot=lin]").scrollIntoView({block: "center"}), true`)
	box := eval[[]float64](t, ctx, `(b => [b.left, b.top, b.width, b.height])(document.querySelector("[data-plot=lin] .plot").getBoundingClientRect())`)
	x := box[0] + box[2]*float64(a.Rounds[k])/float64(a.T)
	point := func(x float64) {
		if err := chromedp.Do(ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, box[1]+box[3]/2)); err != nil {
			t.Fatal(err)
		}
	}
	point(x)
	check("pointer", "lin", k)
	shot(t, ctx, "readout") // its larger window takes the pointer from the figure
	point(x + 1)
	point(x)
	check("pointer again", "lin", k)
	key := func(plot, k string) {
		eval[bool](t, ctx, fmt.Sprintf(`document.querySelector("[data-plot=%s]").dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true}))`, plot, k))
	}
	key("lin", "ArrowLeft")
	check("arrow left", "lin", k-1)
	key("lin", "End")
	check("end", "lin", len(a.Rounds)-1)
	key("lin", "Escape")
	if eval[int](t, ctx, `document.querySelectorAll(".tip").length`) != 0 {
		t.Error("escape leaves the read-out open")
	}
	eval[bool](t, ctx, `document.querySelector(".to-log").click(), true`)
	key("log", "End")
	check("log–log, end", "log", len(a.Rounds)-1)
	key("log", "ArrowLeft")
	check("log–log, left", "log", len(a.Rounds)-2)
}

// Hiding: the marks are gone, the row is dimmed, the page keeps its height, the axis belongs to the
// contenders that are left.
func TestBrowserHide(t *testing.T) {
	ctx := browser(t)
	dir, run := site(t, oneEnv(), troupeOfSeven(), 60)
	set(t, ctx, 1440, 900, "light")
	navigate(t, ctx, filepath.Join(dir, "report.html"))
	top := func() float64 {
		return eval[float64](t, ctx, `Math.max(...[...document.querySelectorAll("[data-plot=lin] .ty")].map(e => +e.textContent.replace(/,/g, "")))`)
	}
	height := func() float64 { return eval[float64](t, ctx, `document.documentElement.scrollHeight`) }
	visible := func(p int) int {
		return eval[int](t, ctx, fmt.Sprintf(`[...document.querySelectorAll(".env path.p%d, .env .end.p%d")].filter(e => getComputedStyle(e).display != "none" && !e.closest("[style*='display:none']") && e.getClientRects().length).length`, p, p))
	}
	before, tall := top(), height()
	const policy = 0 // ensemble(m=4), the contender with the largest mean
	if visible(policy) == 0 {
		t.Fatal("nothing to hide")
	}
	eval[bool](t, ctx, fmt.Sprintf(`document.getElementById("s%d").click(), true`, policy))
	if n := visible(policy); n != 0 {
		t.Errorf("%d marks of a hidden policy are visible", n)
	}
	if o := eval[string](t, ctx, fmt.Sprintf(`getComputedStyle(document.querySelector(".leader tr.p%d")).opacity`, policy)); o != "0.35" {
		t.Errorf("the row of a hidden policy has opacity %s", o)
	}
	if h := height(); h != tall {
		t.Errorf("hiding moved the page: %v high, before %v", h, tall)
	}
	a := Analyze(run, 0)
	want := 0.0
	for _, i := range a.Contenders() {
		if i == policy {
			continue
		}
		m, h := painter{a}.curve(i)
		for k := range m {
			want = max(want, m[k]+h[k])
		}
	}
	if got := top(); got < want*(1-1e-6) || got > 2*want || got >= before {
		t.Errorf("the axis ends at %v; contenders reach %v; it was %v", got, want, before)
	}
	shot(t, ctx, "hidden")
	eval[bool](t, ctx, fmt.Sprintf(`document.getElementById("s%d").click(), true`, policy))
	if got := top(); math.Abs(got-before) > 1e-9 {
		t.Errorf("shown again, the axis ends at %v, before %v", got, before)
	}
	// The environment's tabs, by class only.
	dir, _ = site(t, []sim.EnvironmentRow{linearEnv("ball-10", 10, ball()), linearEnv("arms-50", 10, arms())}, troupeOfSeven(), 25)
	navigate(t, ctx, filepath.Join(dir, "report.html"))
	shown := `[...document.querySelectorAll(".env")].map(e => e.getClientRects().length > 0 ? 1 : 0).join("")`
	if got := eval[string](t, ctx, shown); got != "10" {
		t.Errorf("environments shown: %s, want the first", got)
	}
	eval[bool](t, ctx, `document.getElementById("e1").click(), true`)
	if got := eval[string](t, ctx, shown); got != "01" {
		t.Errorf("environments shown: %s, want the second", got)
	}
}

// With scripts off the page is the same picture, and hiding, log–log and the theme work.
func TestBrowserWithoutScripts(t *testing.T) {
	ctx := browser(t)
	dir, _ := site(t, oneEnv(), troupeOfSeven(), 60)
	file := filepath.Join(dir, "report.html")
	set(t, ctx, 1440, 1300, "light") // down to the bar of chips
	navigate(t, ctx, file)
	centre := func(sel string) (x, y float64) {
		b := eval[[]float64](t, ctx, fmt.Sprintf(`(b => [b.left + b.width / 2, b.top + b.height / 2])(document.querySelector(%q).getBoundingClientRect())`, sel))
		return b[0], b[1]
	}
	chipX, chipY := centre(`.chip:has(#s0)`)
	darkX, darkY := centre(`label:has(#theme-dark)`)
	with := shot(t, ctx, "")
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	navigate(t, ctx, file)
	without := shot(t, ctx, "")
	if !bytes.Equal(with, without) {
		t.Error("the page without scripts is another picture")
	}
	click := func(x, y float64) {
		t.Helper()
		for _, typ := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
			if _, err := chromedp.Call(ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: typ, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := without
	for _, c := range []struct {
		what string
		x, y float64
	}{{"hide", chipX, chipY}, {"dark", darkX, darkY}} {
		click(c.x, c.y)
		var now []byte
		for note := range await.Tries(t) { // until the page is another one, and stays as it is
			before := now
			if now = shot(t, ctx, ""); !bytes.Equal(now, last) && bytes.Equal(now, before) {
				break
			}
			note("a click on %s changes nothing without scripts", c.what)
		}
		last = shot(t, ctx, "noscript-"+c.what)
	}
	// Log–log: its switch is further down the page, so the window is made tall enough.
	set(t, ctx, 1440, 3000, "light")
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}); err != nil {
		t.Fatal(err)
	}
	navigate(t, ctx, file)
	logX, logY := centre(`label:has(.to-log)`)
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	navigate(t, ctx, file)
	last = shot(t, ctx, "")
	click(logX, logY)
	if bytes.Equal(shot(t, ctx, "noscript-log"), last) {
		t.Error("log–log changes nothing without scripts")
	}
}

// Printed, the report is a few pages of A4.
func TestBrowserPrint(t *testing.T) {
	ctx := browser(t)
	dir, _ := site(t, oneEnv(), troupeOfSeven(), 60)
	set(t, ctx, 1440, 900, "dark")
	navigate(t, ctx, filepath.Join(dir, "report.html"))
	yes := true
	r, err := chromedp.Call(ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{PreferCSSPageSize: &yes, PrintBackground: &yes})
	if err != nil {
		t.Fatal(err)
	}
	if out := os.Getenv("TROUPE_SAMPLES"); out != "" {
		save(t, filepath.Join(out, "shots", "print.pdf"), r.Data)
	}
	if os.Getenv("TROUPE_SAMPLES") != "" { // a picture to look at: A4 less its margins
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
			t.Fatal(err)
		}
		if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 680, Height: 1000, DeviceScaleFactor: 2}); err != nil {
			t.Fatal(err)
		}
		shot(t, ctx, "print")
	}
	pages := len(regexp.MustCompile(`/Type\s*/Page\b[^s]`).FindAll(r.Data, -1))
	t.Logf("%d pages, %d kB", pages, len(r.Data)/1000)
	if pages < 2 || pages > 6 {
		t.Errorf("%d pages", pages)
	}
	for _, m := range regexp.MustCompile(`/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)`).FindAllSubmatch(r.Data, -1) {
		var w, h float64
		fmt.Sscan(string(m[1])+" "+string(m[2]), &w, &h)
		if math.Abs(w-595) > 2 || math.Abs(h-842) > 2 {
			t.Errorf("a page of %v by %v points, A4 is 595 by 842", w, h)
		}
	}
}

// Colour-vision deficiencies: pictures to look at, and the page stays a page.
func TestBrowserVision(t *testing.T) {
	ctx := browser(t)
	dir, _ := site(t, oneEnv(), troupeOfSeven(), 60)
	set(t, ctx, 1440, 900, "light")
	navigate(t, ctx, filepath.Join(dir, "report.html"))
	normal := shot(t, ctx, "")
	for _, v := range []emulation.SetEmulatedVisionDeficiencyType{"protanopia", "deuteranopia", "tritanopia", "achromatopsia"} {
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedVisionDeficiency, emulation.SetEmulatedVisionDeficiencyParams{Type: v}); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(normal, shot(t, ctx, "vision-"+string(v))) {
			t.Errorf("%s changes nothing: the emulation does not work", v)
		}
	}
}

// TestPrintOfDefault: the page of `troupe run` takes at most eight sheets of paper, its spec and tables included. The
// horizon and the replications are smaller here, which changes no length.
func TestPrintOfDefault(t *testing.T) {
	ctx := browser(t)
	e, ok := experiments.Find("default")
	if !ok {
		t.Fatal("no default")
	}
	text := e.Text
	for key, value := range map[string]string{"horizon": "1000", "replications": "20"} {
		var err error
		if text, err = spec.Override("default.toml", text, key, value); err != nil {
			t.Fatal(err)
		}
	}
	dir := record(t, text)
	if _, err := Build(dir, Options{NoFigures: true}); err != nil {
		t.Fatal(err)
	}
	navigate(t, ctx, filepath.Join(dir, "report.html"))
	yes := true
	r, err := chromedp.Call(ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{PreferCSSPageSize: &yes,
		PrintBackground: &yes})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`/Type\s*/Page[^s]`).FindAll(r.Data, -1)); n < 4 || n > 8 {
		t.Errorf("the default is printed on %d pages, expected at most 8", n)
	}
}
