//go:build browser

package report

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"troupe/verify"
)

// The page of every statement in four widths and two modes: no problem that the script of
// browser_test.go can see, no request but the page; the switch leaves the statements that have a
// refuted reading.
func TestBrowserVerify(t *testing.T) {
	ctx := browser(t)
	results, err := verify.Run(context.Background(), verify.Checks, verify.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, err := BuildVerify(dir, results, VerifyMeta{When: "20 Nov 2026", Command: "troupe verify", Seed: 1})
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
			name := fmt.Sprintf("verify-%d-%s", width, scheme)
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
	const shown = `[...document.querySelectorAll(".st")].filter(e => e.getClientRects().length).length`
	all := eval[int](t, ctx, shown)
	eval[bool](t, ctx, `document.querySelector("#only-wrong").click(), true`)
	some := eval[int](t, ctx, shown)
	wrong := map[string]bool{}
	for _, r := range results {
		if r.Verdict == verify.Refuted {
			wrong[r.Label] = true
		}
	}
	if all != len(verify.Labels()) || some != len(wrong) {
		t.Errorf("%d statements shown, %d after the switch; want %d and %d", all, some, len(verify.Labels()), len(wrong))
	}
}
