package api

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPlaygroundPage: the page of the playground needs no key, allows its own scripts only, and is linked.
func TestPlaygroundPage(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8080"+path, nil))
		return w
	}
	w := get("/playground")
	if w.Code != 200 || strings.Count(w.Body.String(), `<svg class="plane"`) != 5 {
		t.Errorf("%d: %.200s", w.Code, w.Body)
	}
	csp := w.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(csp, "default-src 'none'; script-src 'sha256-") || !strings.HasSuffix(csp, "; frame-ancestors 'none'") ||
		strings.Contains(csp, "unsafe-inline") {
		t.Errorf("the policy is %s", csp)
	}
	if !strings.Contains(get("/").Body.String(), `href="/playground"`) {
		t.Error("the status page has no link to it")
	}
}
