package api

import (
	"fmt"
	"strings"
	"testing"
)

// corsEdge is a server with a key for each list of scopes, and one origin.
func corsEdge(t testing.TB, f *fake) (e *edge, secrets map[string]string) {
	t.Helper()
	secrets = map[string]string{}
	var list strings.Builder
	for name, scopes := range map[string][]string{"page": {"decide", "reward"}, "payer": {"reward"}, "reader": {"decide", "reward", "read"},
		"boss": {"admin"}, "backup": {"decide", "backup"}} {
		secret, table, err := NewKey(name, scopes, nil)
		if err != nil {
			t.Fatal(err)
		}
		secrets[name] = secret
		list.WriteString(table)
	}
	keys, err := ParseKeys("keys.toml", list.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return newEdge(t, f, Options{Keys: keys, Origins: []string{"https://shop.example.org"}}), secrets
}

// A page of a listed origin decides and rewards with a key that may do nothing else, and its browser shows it the answer;
// every other page, path and key is refused, and no answer tells a browser to send credentials of its own.
func TestCORS(t *testing.T) {
	e, secrets := corsEdge(t, newFake("news"))
	const decide, reward = "/v1/models/news:decide", "/v1/events/EVENT1:reward"
	const shop = "https://shop.example.org"
	type call struct {
		method, path, body, origin, key string
		status                          int
		shown                           bool // to the page
	}
	var calls []call
	actions := `{"actions":[{"id":"a"}]}`
	for _, hot := range []string{actions, " " + actions} { // the second time by the way of the other routes
		calls = append(calls,
			call{"POST", decide, hot, shop, "page", 200, true},
			call{"POST", decide, hot, shop, "payer", 403, true},
			call{"POST", decide, hot, shop, "reader", 403, true},
			call{"POST", decide, hot, shop, "boss", 403, true},
			call{"POST", decide, hot, shop, "backup", 403, true},
			call{"POST", decide, hot, shop, "", 401, true},
			call{"POST", decide, hot, "https://evil.example.org", "page", 403, false},
			call{"POST", decide, hot, "http://shop.example.org", "page", 403, false},
			call{"POST", decide, hot, "https://shop.example.org:444", "page", 403, false},
			call{"POST", decide, hot, "https://shop.example.org.evil.org", "page", 403, false},
			call{"POST", decide, hot, "null", "page", 403, false},
			call{"POST", decide, hot, "", "reader", 200, false}) // no browser
	}
	calls = append(calls,
		call{"POST", decide, `{"actions":[]}`, shop, "page", 422, true},
		call{"POST", "/v1/models/news:decideBatch", `{"requests":[` + actions + `]}`, shop, "page", 200, true},
		call{"POST", reward, `{"value":1}`, shop, "page", 200, true},
		call{"POST", "/v1/rewards:batch", `{"rewards":[{"event_id":"EVENT1","value":1}]}`, shop, "payer", 200, true},
		call{"POST", "/v1/models", `{"id":"x"}`, shop, "boss", 403, false},
		call{"POST", "/v1/models/news:pause", "", shop, "boss", 403, false},
		call{"DELETE", "/v1/models/news", "", shop, "boss", 403, false},
		call{"GET", "/v1/models/news", "", shop, "reader", 200, false}) // reading was never refused, and the page does not see it
	for _, c := range calls {
		headers := []string{"X-API-Key", secrets[c.key], "Sec-Fetch-Site", "cross-site"}
		if c.origin == "" {
			headers = headers[:2]
		} else {
			headers = append(headers, "Origin", c.origin)
		}
		e.noHot = c.body != strings.TrimSpace(c.body)
		a := e.do(c.method, c.path, c.body, headers...)
		what := fmt.Sprintf("%s %s of %q with %q", c.method, c.path, c.origin, c.key)
		a.want(t, what, c.status)
		allowed := a.header.Get("Access-Control-Allow-Origin")
		if want := map[bool]string{true: c.origin}[c.shown]; allowed != want {
			t.Errorf("%s: Access-Control-Allow-Origin is %q, expected %q", what, allowed, want)
		}
		if a.header.Get("Vary") != "Origin" || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", what, a.header)
		}
	}
	for _, c := range []struct {
		origin, path, method string
		status               int
	}{
		{shop, decide, "POST", 204}, {shop, reward, "POST", 204}, {shop, "/v1/rewards:batch", "POST", 204}, {shop, "/v1/events/E:activate", "POST", 204},
		{"https://evil.example.org", decide, "POST", 403}, {shop, "/v1/models", "POST", 403}, {shop, "/v1/models/news", "DELETE", 403}, {shop, "/", "POST", 403},
	} {
		a := e.do("OPTIONS", c.path, "", "Origin", c.origin, "Access-Control-Request-Method", c.method, "Access-Control-Request-Headers", "authorization,content-type")
		ok := a.status == 204 && a.header.Get("Access-Control-Allow-Origin") == c.origin && a.header.Get("Access-Control-Allow-Methods") == "POST" &&
			strings.Contains(strings.ToLower(a.header.Get("Access-Control-Allow-Headers")), "authorization, content-type, idempotency-key")
		if a.status != c.status || ok != (c.status == 204) {
			t.Errorf("preflight of %s to %s: %d %v", c.origin, c.path, a.status, a.header)
		}
	}
	if n := len(e.fake.decides); n != 6 { // the service itself refuses no actions
		t.Errorf("the service got %d requests for decisions, expected 6: nothing that is refused above reaches it", n)
	}
}

// Without the option nothing changes, and it is refused without keys and for what no browser sends.
func TestCORSOff(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	a := e.do("OPTIONS", "/v1/models/news:decide", "", "Origin", "https://shop.example.org", "Access-Control-Request-Method", "POST")
	a.want(t, "preflight", 405, "method_not_allowed")
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control") {
			t.Errorf("the answer has %s", name)
		}
	}
	if _, err := New(newFake(), Options{Origins: []string{"https://shop.example.org"}}); err == nil || !strings.Contains(err.Error(), "needs Keys") {
		t.Errorf("origins without keys: %v", err)
	}
	for _, good := range []string{"https://shop.example.org", "http://localhost:3000", "http://[::1]:3000", "https://192.0.2.1:8443"} {
		if err := CheckOrigin(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "*", "null", "shop.example.org", "https://", "https://shop.example.org/", "https://shop.example.org/a", "https://Shop.example.org",
		"https://*.example.org", "ftp://shop.example.org", "https://a@shop.example.org", "https://shop.example.org:443", "http://x:80", "http://x:", "https://a b", "https://x?y", "https://x#y", "https://x:99999999999999999999x"} {
		if err := CheckOrigin(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
