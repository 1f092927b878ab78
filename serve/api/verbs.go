package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// verbs are the words after the colon in paths like /v1/models/news:decide.
var verbs = []string{"decide", "decideBatch", "reward", "activate", "pause", "resume", "clone", "createFrom",
	"rollback", "batch", "replay", "depart", "arrive", "gone", "turn", "stay"}

// splitVerb writes …/news:decide as …/news/:decide, because a ServeMux knows whole segments only.
func splitVerb(path string) string {
	i := strings.LastIndexByte(path, ':')
	if i <= strings.LastIndexByte(path, '/') || !slices.Contains(verbs, path[i+1:]) {
		return path
	}
	return path[:i] + "/" + path[i:]
}

// route rewrites the path of a request for the mux. Some clients write the colon as %3A.
func route(r *http.Request) *http.Request {
	esc := r.URL.EscapedPath()
	if !strings.HasPrefix(esc, "/v1/") || strings.Contains(esc, "/actions/") {
		return r
	}
	slash := strings.LastIndexByte(esc, '/')
	last := strings.Replace(strings.Replace(esc[slash:], "%3A", ":", 1), "%3a", ":", 1)
	split := splitVerb(esc[:slash] + last)
	if split == esc {
		return r
	}
	plain, err := url.PathUnescape(split)
	if err != nil {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = plain, split
	out := r.WithContext(r.Context())
	out.URL = &u
	return out
}

// verbMux registers patterns as route rewrites paths.
type verbMux struct{ *http.ServeMux }

func (m verbMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.ServeMux.HandleFunc(splitVerb(pattern), h)
}
