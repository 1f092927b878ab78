//go:build browser

package report

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"troupe/ope"
)

// The page of an evaluation in four widths and two modes: no problem that the script of browser_test.go can see, no request but
// the page, and the difference above everything else.
func TestBrowserEvaluation(t *testing.T) {
	ctx := browser(t)
	file, err := BuildEvaluation(t.TempDir(), evaluationOf(t, ope.Column{}, ope.Uniform{}), EvaluateMeta{When: "4 May 2026", Command: "troupe evaluate events.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	w := watching(t, ctx)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 768, 390, 320} {
			w.mu.Lock()
			w.requests, w.messages = nil, nil
			w.mu.Unlock()
			set(t, ctx, width, 900, scheme)
			navigate(t, ctx, file)
			name := fmt.Sprintf("evaluation-%d-%s", width, scheme)
			found := eval[[]string](t, ctx, problems)
			for _, p := range found[:len(found)-1] {
				t.Errorf("%s: %s", name, p)
			}
			shot(t, ctx, name)
			w.mu.Lock()
			if len(w.requests) != 1 || !strings.HasSuffix(w.requests[0], filepath.Base(file)) || len(w.messages) != 0 {
				t.Errorf("%s: requests %q, messages %q", name, w.requests, w.messages)
			}
			w.mu.Unlock()
		}
	}
	const tables = `[...document.querySelectorAll("td, th")].map(e => e.textContent.trim()).filter(x => x == "difference" || x == "logged")[0]`
	if first := eval[string](t, ctx, tables); first != "difference" {
		t.Errorf("the first row is %q, expected the difference", first)
	}
}
