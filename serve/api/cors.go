package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// origins are the pages of other sites that may call the server from a browser (CORS of the Fetch Standard), in the form
// of the header Origin. They may decide and send rewards, with a key that may do nothing else: whatever is in a page is
// public. Cookies and other credentials of a browser are never asked for.
type origins []string

// CheckOrigin returns why a text is not an origin as browsers send it: scheme, host and, where it is not that of the
// scheme, the port.
func CheckOrigin(text string) error {
	u, err := url.Parse(text)
	usual := map[string]string{"http": ":80", "https": ":443"}
	switch {
	case text == "*":
		return fmt.Errorf("%q, expected each origin by itself, such as https://shop.example.org", text)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		text != u.Scheme+"://"+u.Host || text != strings.ToLower(text) || strings.ContainsAny(u.Host, "*, ") ||
		strings.HasSuffix(u.Host, ":"):
		return fmt.Errorf("%q, expected scheme and host in lower case and nothing behind, such as https://shop.example.org", text)
	case strings.HasSuffix(u.Host, usual[u.Scheme]):
		return fmt.Errorf("%q, expected it without %s, as browsers send it", text, usual[u.Scheme])
	}
	return nil
}

// allows reports whether the request is a page's that may call: its origin is on the list, and the path is one of a
// decision, an activation or a reward.
func (o origins) allows(r *http.Request, kind Class) bool {
	from := r.Header["Origin"]
	return len(from) == 1 && slices.Contains(o, from[0]) && kind != Other && strings.HasPrefix(r.URL.Path, "/v1/")
}

// What pages may send, and read of an answer.
var (
	pageHeaders = []string{"Authorization, Content-Type, Idempotency-Key, Request-Timeout-Ms, X-API-Key, X-Request-Id"}
	pageReads   = []string{"Retry-After, X-Request-Id"}
	pageMethods = []string{"POST"}
	pageKeeps   = []string{"600"} // seconds for which a browser need not ask again
	varyOrigin  = []string{"Origin"}
)

// greetPage gives the answer to a page that may call the headers without which its browser hides it.
func greetPage(h http.Header, r *http.Request) {
	h["Access-Control-Allow-Origin"], h["Access-Control-Expose-Headers"] = r.Header["Origin"], pageReads
}

// harmless reports whether the key of the holder may stand in a page: it decides and rewards at most.
func (h *holder) harmless() bool {
	return !slices.ContainsFunc(h.scopes, func(s Scope) bool { return s != Decide && s != Reward })
}
