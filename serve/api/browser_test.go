//go:build browser

package api

// The page of a model in a real browser: Debian's chromium through chromedp. go test -tags browser ./serve/api runs
// it; without a browser it skips, with TROUPE_BROWSER=require it fails.

import (
	"context"
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
	text := func() string {
		t.Helper()
		s, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
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
	if s := text(); !strings.Contains(s, "<script>alert(1)</script>") {
		t.Errorf("the action's id is not on the page as text: %.500s", s)
	}
	if s := text(); !strings.Contains(s, `[{"id":"<script>alert(1)</script>","features":{"price": 0.2}}`) || !strings.Contains(s, `{"city": "Oslo"}`) {
		t.Errorf("the newest requests are not on the page as text: %.3000s", s)
	}
	e.fill("weighed", `{"id": "weighed"}`, hostileFeature, "b", 30)
	if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+"/models/weighed")); err != nil {
		t.Fatal(err)
	}
	if s := text(); !strings.Contains(s, "context.<script>alert(2)</script>=<b>Oslo</b> × id=b") {
		t.Errorf("the name of a weight is not on the page as text: %.3000s", s)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+"/models/news")); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Click(`form[action*="/try"] button`), chromedp.WaitVisible("#answer")); err != nil {
		t.Fatal(err)
	}
	s := text()
	for since := time.Now(); !strings.Contains(s, "with propensity") && time.Since(since) < time.Minute; s = text() { // the old page may answer once more
		time.Sleep(50 * time.Millisecond)
	}
	if !strings.Contains(s, "with propensity") {
		t.Errorf("the trial has no answer: %.800s", s)
	}
	// A wrong name, then the right one.
	if err := chromedp.Do(ctx, chromedp.SendKeys("#c1", "new"), chromedp.Click(`.acts form:first-child button`), chromedp.WaitVisible(`[role=alert]`)); err != nil {
		t.Fatal(err)
	}
	if s := text(); !strings.Contains(s, "nothing was changed") || e.paused(t) {
		t.Errorf("a wrong name: paused %v, %.300s", e.paused(t), s)
	}
	if err := chromedp.Do(ctx, chromedp.SendKeys("#c1", "news"), chromedp.Click(`.acts form:first-child button`), chromedp.WaitVisible(`.acts [value=resume] ~ button`)); err != nil {
		t.Fatal(err)
	}
	if s := text(); !strings.Contains(s, "This model is paused") || !e.paused(t) {
		t.Errorf("the right name: paused %v, %.300s", e.paused(t), s)
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
	has := func(words string) string { return "document.body.innerText.includes(" + strconv.Quote(words) + ")" }
	is := func(script string) bool { // false also while the browser changes the page
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		return err == nil && ok
	}
	until := func(script string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !is(script); {
			if time.Now().After(end) {
				shown, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + ' ' + document.querySelector('section[aria-labelledby=search]').outerHTML.slice(0, 1500)"))
				t.Fatalf("the page never has %s: %s %v", script, shown, err)
			}
		}
	}
	visit := func(path string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+path)); err != nil {
			t.Fatal(err)
		}
	}
	// The page follows decisions that come after it was loaded; the stream may begin later than the first of them.
	visit("/models/news")
	is("(window.mark = true)")
	for n := 0; !is(has("zebra")); n++ {
		if n > 40 {
			t.Fatal("the page does not follow the server")
		}
		e.do("POST", "/v1/models/news:decide", `{"actions":[{"id":"zebra"}]}`).want(t, "decide", 200)
		for end := time.Now().Add(time.Second); time.Now().Before(end) && !is(has("zebra")); {
		}
	}
	if !is("window.mark === true") {
		t.Error("the page was loaded again")
	}
	is(`(document.querySelector("#find").value = "zebr", document.querySelector(".find").requestSubmit(), true)`)
	until(`document.querySelector("#found") !== null && document.querySelector("section[aria-labelledby=search] td.name").innerText === "zebra"`)
	// A model from the form: a wrong field first.
	send := func(id, config string) {
		visit("/models")
		is(`(document.querySelector("#id").value = ` + strconv.Quote(id) + `, document.querySelector("#config").value = ` + strconv.Quote(config) + `, document.querySelector("form").requestSubmit(), true)`)
	}
	send("made", `{"flor": 1}`)
	until(`document.querySelector("[role=alert]") !== null && document.querySelector("[role=alert]").innerText.includes("flor") && document.querySelector("#id").value === "made"`)
	send("made", "")
	until(`document.querySelector("h1").innerText === "made" && location.pathname === "/models/made"`)
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
