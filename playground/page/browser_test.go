//go:build browser

package page

// The page in a real browser: Debian's chromium through chromedp. go test -tags browser ./playground/page runs these;
// without a browser they skip, with TROUPE_BROWSER=require they fail. TROUPE_SAMPLES names a directory for screenshots.

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"troupe/internal/await"
)

// tab is a tab of a browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	file string

	mu       sync.Mutex
	messages []string // of the console, and what the page asks a network for
}

// open starts a browser and shows nothing yet.
func open(t *testing.T) *tab {
	t.Helper()
	var path string
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); name != "" && err == nil {
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
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, // containers run as root
		chromedp.Flag("disable-gpu", true), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-background-networking", true))
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	w := &tab{t: t, ctx: ctx, file: filepath.Join(t.TempDir(), "index.html")}
	page, err := Render(program(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file, page.HTML, 0o600); err != nil {
		t.Fatal(err)
	}
	w.listen()
	return w
}

func (w *tab) listen() {
	w.t.Helper()
	err := chromedp.Listen(w.ctx, func(ev any) {
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
			if u := e.Request.URL; !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "file://"+filepath.ToSlash(w.file)) {
				w.messages = append(w.messages, "asks for "+u)
			}
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err1 := chromedp.Call(w.ctx, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(w.ctx, runtime.Enable, struct{}{})
	_, err3 := chromedp.Call(w.ctx, log.Enable, struct{}{})
	if err1 != nil || err2 != nil || err3 != nil {
		w.t.Fatal(err1, err2, err3)
	}
}

// look sets the window, the colours and whether motion is wanted.
func (w *tab) look(width int64, scheme, motion string) {
	w.t.Helper()
	_, err1 := chromedp.Call(w.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	_, err2 := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}}})
	if err1 != nil || err2 != nil {
		w.t.Fatal(err1, err2)
	}
}

// show loads the page anew, with a link.
func (w *tab) show(link string) {
	w.t.Helper()
	if err := chromedp.Do(w.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate("file://"+filepath.ToSlash(w.file)+link)); err != nil {
		w.t.Fatal(err)
	}
}

func eval[T any](w *tab, js string) T {
	w.t.Helper()
	v, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		w.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits for a condition.
func (w *tab) until(js string) {
	w.t.Helper()
	if !await.Poll(func() bool { return eval[bool](w, js) }) {
		w.t.Fatalf("the page never has %s: %s", js, eval[string](w, "document.body.innerText.slice(0, 2000)"))
	}
}

func (w *tab) ready() { w.t.Helper(); w.until(`!document.getElementById("live").hidden`) }

func (w *tab) round(n int) {
	w.t.Helper()
	w.until(`document.getElementById("round").textContent === "` + strconv.Itoa(n) + `"`)
}

func (w *tab) click(selector string) {
	w.t.Helper()
	if err := chromedp.Do(w.ctx, chromedp.Click(selector)); err != nil {
		w.t.Fatalf("%s: %v", selector, err)
	}
}

func (w *tab) press(key string) {
	w.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{"keyDown", "keyUp"} {
		if _, err := chromedp.Call(w.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: key}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *tab) mouse(kind input.DispatchMouseEventType, x, y float64) {
	w.t.Helper()
	if _, err := chromedp.Call(w.ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: "left", ClickCount: 1}); err != nil {
		w.t.Fatal(err)
	}
}

// quiet fails when the console had a message or the page asked for something.
func (w *tab) quiet() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.messages) > 0 {
		w.t.Errorf("the console and the network have %q", w.messages)
	}
}

// sample writes a screenshot where TROUPE_SAMPLES says.
func (w *tab) sample(name string) {
	dir := os.Getenv("TROUPE_SAMPLES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// The page fits a phone and a desk in both colours, its scenes and controls work with mouse and keys, θ* can be
// dragged, a link brings the state back, and nothing is loaded or complained about.
func TestPlaygroundInBrowser(t *testing.T) {
	w := open(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1100} {
			w.look(width, scheme, "no-preference")
			w.show("")
			w.ready()
			if over := eval[float64](w, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
				t.Errorf("at %d pixels the page is %v too wide", width, over)
			}
			w.round(60) // its best moment
			if top := eval[float64](w, `document.querySelector("#regret svg").getBoundingClientRect().bottom`); width > 1000 && top > 700 {
				t.Errorf("the figure of regret ends %v pixels down, expected at most 700", top)
			}
			w.click("#before")
			w.round(10)
			w.sample(fmt.Sprintf("%s-%d", scheme, width))
		}
	}
	w.until(`document.getElementById("words").textContent.startsWith("Round 10 of 500, ensemble(m=16). It drew")`)
	w.until(`document.querySelectorAll("#plane .member").length === 32 && document.querySelectorAll("#plane .lit").length === 1`)
	w.click("#step")
	w.round(11)
	w.click("#back")
	w.round(10)
	w.press("ArrowRight")
	w.round(11)
	w.press("Home")
	w.round(1)
	w.press("End")
	w.round(500)
	w.press("Home")
	w.until(`!document.activeElement.closest("button")`) // Back, which has no meaning here, loses the focus with the next frame
	w.press(" ")                                         // plays
	w.until(`Number(document.getElementById("round").textContent) >= 4`)
	w.press(" ") // pauses
	w.until(`document.getElementById("play").textContent === "Play"`)
	w.click(`[data-scene="few"]`)
	w.until(`document.querySelectorAll("#plane .member").length === 2`)
	w.drag()
	w.click(`[data-scene="change"]`)
	w.until(`document.querySelectorAll("#looks input").length === 4`)
	w.click("#looks label:nth-of-type(4) input")
	w.until(`document.getElementById("words").textContent.includes("linucb(scale=0.5, change=restarts)")`)
	eval[bool](w, `(() => { const e = document.getElementById("form").elements; e.kind3.value = ""; e.sigma.value = "0.25"; e.sigma.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	w.until(`document.getElementById("spec").textContent.includes("sigma = 0.25") && document.querySelectorAll("#looks input").length === 3`)
	eval[bool](w, `(() => { const e = document.getElementById("form").elements; e.sigma.value = "-1"; e.sigma.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	w.until(`document.getElementById("error").textContent === "sigma is -1, expected a number from 0.01 to 10" && !document.getElementById("error").hidden`)
	w.quiet()
}

// drag moves θ* with the mouse and with keys.
func (w *tab) drag() {
	w.t.Helper()
	eval[bool](w, `document.getElementById("plane").scrollIntoView({ block: "center" }) === undefined`)
	at := func() (x, y float64) {
		return eval[float64](w, `(b => b.left + b.width / 2)(document.getElementById("star").getBoundingClientRect())`),
			eval[float64](w, `(b => b.top + b.height / 2)(document.getElementById("star").getBoundingClientRect())`)
	}
	x, y := at()
	w.mouse("mousePressed", x, y)
	w.mouse("mouseMoved", x-60, y+40)
	w.mouse("mouseReleased", x-60, y+40)
	w.until(`!document.getElementById("link").value.includes("theta=0.6,0.5")`)
	x2, y2 := at()
	if math.Abs(x2-x+60) > 3 || math.Abs(y2-y-40) > 3 {
		w.t.Errorf("θ* was dragged by -60, 40 and moved by %v, %v", x2-x, y2-y)
	}
	w.press("ArrowUp") // the star has the focus
	w.until(`Math.abs(Number(document.getElementById("form").elements.theta1.value) - 0.34) < 0.06`)
	if _, y3 := at(); y3 >= y2 {
		w.t.Errorf("the arrow up moved θ* from %v to %v", y2, y3)
	}
}

// A link brings a state back with the same numbers as on this machine, and one that is wrong is named.
func TestLinkInBrowser(t *testing.T) {
	w := open(t)
	const link = "seed=3&theta=0.5,-0.5&arms=8&redraw=1&sigma=0.5&clicks=1&rounds=60&p=epsilon-greedy&p=atoms,change=restarts&p=ts,scale=2&t=60&look=2"
	w.show("#" + link)
	w.ready()
	w.round(60)
	lines := strings.Split(strings.TrimSpace(trace(t, link)), "\n")
	want := strings.Join(lines[len(lines)-3:], "\n") + "\n"
	if got := eval[string](w, "troupe.trace()"); got != want {
		t.Errorf("the browser has\n%s, this machine\n%s", got, want)
	}
	if got := eval[string](w, `document.getElementById("link").value.split("#")[1]`); got != link {
		t.Errorf("the link is %s, expected %s", got, link)
	}
	w.quiet()
	w.show("#seed=1&arms=40")
	w.until(`document.getElementById("error").textContent.includes("arms is 40, expected 2 to 8, or 0 for the unit disc")`)
	w.round(60)
	w.quiet()
}

// With reduced motion nothing moves by itself; without WebAssembly or without scripts there are five pictures.
func TestWithoutInBrowser(t *testing.T) {
	w := open(t)
	w.look(1100, "light", "reduce")
	w.show("")
	w.ready()
	w.click("#play")
	w.round(110)
	eval[bool](w, `painted = 0, (function paint() { if (++painted < 10) requestAnimationFrame(paint) })(), true`)
	w.until("painted === 10")
	w.round(110)
	w.quiet()
	_, err := chromedp.Call(w.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: "delete globalThis.WebAssembly"})
	if err != nil {
		t.Fatal(err)
	}
	w.look(360, "light", "no-preference")
	w.show("")
	w.until(`document.getElementById("status").textContent.includes("no WebAssembly")`)
	if !eval[bool](w, `document.getElementById("live").hidden && document.querySelectorAll("#pictures svg.plane").length === 5`) {
		t.Error("there are no five pictures")
	}
	if over := eval[float64](w, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
		t.Errorf("the pictures are %v too wide", over)
	}
	w.sample("pictures")
	w.quiet()
}

// The first picture and ten thousand rounds: logged, because a busy machine is no measure; the record has the figures.
func TestSpeedInBrowser(t *testing.T) {
	w := open(t)
	began := time.Now()
	w.show("")
	w.ready()
	first := time.Since(began)
	js := `(() => { let best = 0; for (let i = 0; i < 5; i++) { troupe.open("seed=1&theta=0.6,0.3&arms=6&sigma=0.5&rounds=2000&p=ensemble,m=16"); ` +
		`const t = performance.now(); troupe.to(2000); best = Math.max(best, 2000 / (performance.now() - t) * 1000); } return best; })()`
	t.Logf("first picture after %v, %.0f rounds a second of one ensemble, m = 16", first.Round(time.Millisecond), eval[float64](w, js))
}
