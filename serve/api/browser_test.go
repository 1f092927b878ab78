//go:build browser

package api

// The page of a model in a real browser: Debian's chromium through chromedp. go test -tags browser ./serve/api runs
// it; without a browser it skips, with TROUPE_BROWSER=require it fails.

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"troupe/internal/await"
)

func browser(t *testing.T) context.Context {
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
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-background-networking", true))
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// inBrowser is what the browser shows while it may be loading another document.
type inBrowser struct {
	t   *testing.T
	ctx context.Context
}

// is runs a script; it is false also between two documents.
func (p inBrowser) is(script string) bool {
	ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](script))
	return err == nil && ok
}

func (p inBrowser) has(words string) bool { return p.is(includes(words)) }

func (p inBrowser) until(script string) {
	p.t.Helper()
	if !await.Poll(func() bool { return p.is(script) }) {
		shown, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("location.href + ' ' + document.body.innerText.slice(0, 3000)"))
		p.t.Fatalf("the page never has %s: %s %v", script, shown, err)
	}
}

func (p inBrowser) untilText(words string) {
	p.t.Helper()
	p.until(includes(words))
}

func includes(words string) string {
	return "document.body.innerText.includes(" + strconv.Quote(words) + ")"
}

// The page fits a phone and a desk, loads nothing else, has no fault of its policy in the console, and its forms work:
// a trial is answered, a wrong name pauses nothing, the right one does.
func TestModelPageInBrowser(t *testing.T) {
	ctx := browser(t)
	e, _ := newReal(t, Options{})
	e.fill("news", `{"id": "news", "floor": 1}`, twoActions, "b", 60)
	web := httptest.NewServer(e)
	defer web.Close()
	var mu sync.Mutex
	var messages, requests []string
	if err := chromedp.Listen(ctx, func(ev any) {
		mu.Lock()
		defer mu.Unlock()
		switch x := ev.(type) {
		case *log.EventEntryAdded:
			messages = append(messages, x.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(x.Request.URL, "data:") && !strings.HasPrefix(x.Request.URL, web.URL) {
				requests = append(requests, x.Request.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, struct{}{}); err != nil {
		t.Fatal(err)
	}
	show := inBrowser{t, ctx}
	for _, width := range []int64{390, 1280} {
		if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1}); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+"/models/news")); err != nil {
			t.Fatal(err)
		}
		over, err := chromedp.Run(ctx, chromedp.Evaluate[float64]("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
		if err != nil || over > 0 {
			t.Errorf("at %d pixels the page is %v too wide (%v)", width, over, err)
		}
	}
	show.untilText("<script>alert(1)</script>")                                     // the action's id
	show.untilText(`[{"id":"<script>alert(1)</script>","features":{"price": 0.2}}`) // the newest requests
	show.untilText(`{"city": "Oslo"}`)
	e.fill("weighed", `{"id": "weighed"}`, hostileFeature, "b", 30)
	if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+"/models/weighed")); err != nil {
		t.Fatal(err)
	}
	show.untilText("context.<script>alert(2)</script>=<b>Oslo</b> × id=b") // the name of a weight
	if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+"/models/news")); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Click(`form[action*="/try"] button`)); err != nil {
		t.Fatal(err)
	}
	show.untilText("with propensity") // the trial is answered
	// A wrong name, then the right one.
	if err := chromedp.Do(ctx, chromedp.SendKeys("#c1", "new"), chromedp.Click(`.acts form:first-child button`)); err != nil {
		t.Fatal(err)
	}
	show.untilText("nothing was changed")
	if e.paused(t) {
		t.Error("a wrong name paused the model")
	}
	if err := chromedp.Do(ctx, chromedp.SendKeys("#c1", "news"), chromedp.Click(`.acts form:first-child button`)); err != nil {
		t.Fatal(err)
	}
	show.untilText("This model is paused")
	if !e.paused(t) {
		t.Error("the right name did not pause the model")
	}
	mu.Lock()
	defer mu.Unlock()
	messages = slices.DeleteFunc(messages, func(m string) bool { return strings.Contains(m, "status of 422") }) // the wrong name
	if len(messages) > 0 || len(requests) > 0 {
		t.Errorf("console %q, requests %q", messages, requests)
	}
}

// The page follows the server without a reload, the search finds a decision, and the form makes a model; nothing is
// refused by the page's policy.
func TestLivePageInBrowser(t *testing.T) {
	ctx := browser(t)
	e, _ := newReal(t, Options{})
	e.fill("news", `{"id": "news", "floor": 1}`, twoActions, "b", 5)
	web := httptest.NewServer(e)
	defer web.Close()
	var mu sync.Mutex
	var messages []string
	if err := chromedp.Listen(ctx, func(ev any) {
		if x, ok := ev.(*log.EventEntryAdded); ok {
			mu.Lock()
			defer mu.Unlock()
			messages = append(messages, x.Entry.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, struct{}{}); err != nil {
		t.Fatal(err)
	}
	show := inBrowser{t, ctx}
	visit := func(path string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+path)); err != nil {
			t.Fatal(err)
		}
	}
	// The page follows decisions that come after it was loaded; the stream may begin later than the first of them.
	visit("/models/news")
	show.is("(window.mark = true)")
	for n := 0; !show.has("zebra"); n++ {
		if n > 40 {
			t.Fatal("the page does not follow the server")
		}
		e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"zebra"}]}`).want(t, "decide", 200)
		for end := time.Now().Add(time.Second); time.Now().Before(end) && !show.has("zebra"); {
		}
	}
	if !show.is("window.mark === true") {
		t.Error("the page was loaded again")
	}
	show.is(`(document.querySelector("#find").value = "zebr", document.querySelector("#find").form.requestSubmit(), true)`)
	show.until(`document.querySelector("#found") !== null && document.querySelector("section[aria-labelledby=search] td.name").innerText === "zebra"`)
	// A model from the form: a wrong field first.
	send := func(id, config string) {
		visit("/models")
		show.is(`(document.querySelector("#id").value = ` + strconv.Quote(id) + `, document.querySelector("#config").value = ` + strconv.Quote(config) + `, document.querySelector("form").requestSubmit(), true)`)
	}
	send("made", `{"flor": 1}`)
	show.until(`document.querySelector("[role=alert]") !== null && document.querySelector("[role=alert]").innerText.includes("flor") && document.querySelector("#id").value === "made"`)
	send("made", "")
	show.until(`document.querySelector("h1").innerText === "made is ready and has not been asked yet." && location.pathname === "/models/made"`)
	mu.Lock()
	defer mu.Unlock()
	messages = slices.DeleteFunc(messages, func(m string) bool { return strings.Contains(m, "status of 422") }) // the wrong field
	if len(messages) > 0 {
		t.Errorf("console %q", messages)
	}
}

func (e *edge) paused(t *testing.T) bool {
	t.Helper()
	return field[bool](t, e.do("GET", "/v1/models/news", ""), "paused")
}

// A page of another origin decides and rewards in a real browser where --cors has its origin, and neither there with a key
// that may do more, nor anywhere else.
func TestBrowserCORS(t *testing.T) {
	ctx := browser(t)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") }))
	t.Cleanup(pages.Close)
	e, secrets := corsEdge(t, newFake("news"))
	e.opts.Origins = []string{pages.URL}
	api := httptest.NewServer(e)
	t.Cleanup(api.Close)
	// what a page sees of a call: the status and a member of the answer, or that the browser refused
	call := func(path, body, key string) string {
		return `fetch("` + api.URL + path + `", {method: "POST", headers: {"Content-Type": "application/json", "Authorization": "Bearer ` + key +
			`", "Idempotency-Key": "k"}, body: '` + body + `'}).then(async a => a.status + " " + ((await a.json()).code || a.headers.has("x-request-id")), () => "refused")`
	}
	decide := `{"actions":[{"id":"a"}]}`
	for _, c := range []struct{ from, script, want string }{
		{pages.URL, call("/v1/models/news:decide", decide, secrets["page"]), "200 true"},
		{pages.URL, call("/v1/events/EVENT1:reward", `{"value":1}`, secrets["page"]), "200 true"},
		{pages.URL, call("/v1/models/news:decide", decide, secrets["boss"]), "403 forbidden"},
		{pages.URL, call("/v1/models", `{"id":"x"}`, secrets["boss"]), "refused"},
		{strings.Replace(pages.URL, "127.0.0.1", "localhost", 1), call("/v1/models/news:decide", decide, secrets["page"]), "refused"},
	} {
		if err := chromedp.Do(ctx, chromedp.Navigate(c.from)); err != nil {
			t.Fatal(err)
		}
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](c.script, chromedp.EvalAwaitPromise))
		if err != nil || got != c.want {
			t.Errorf("from %s: %s: %q, expected %q (%v)", c.from, c.script, got, c.want, err)
		}
	}
	if n := len(e.fake.decides); n != 1 {
		t.Errorf("%d decisions, expected one", n)
	}
}
