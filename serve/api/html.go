package api

import (
	_ "embed"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"troupe/internal/decimal"
)

var (
	//go:embed page/style.css
	styleSheet string // of all pages
	//go:embed page/model.css
	modelStyle string // of those of a model
)

func writePage(w http.ResponseWriter, page []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "+
			"frame-ancestors 'none'")
	w.Write(page)
}

// named is a number with its name.
type named struct{ Name, Value string }

func baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func round(v float64) uint64 { return uint64(math.Round(max(0, v))) }

// grouped prints a count with commas between thousands.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clipped cuts a long text for the page, at the beginning of a character.
func clipped(s string, n int) string {
	switch {
	case s == "":
		return "none"
	case len(s) <= n:
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// when prints a time of the log.
func when(ns int64) string {
	if ns == 0 {
		return "–"
	}
	return time.Unix(0, ns).UTC().Format("2 Jan 2006, 15:04:05")
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// inWords prints a problem in a sentence.
func inWords(p *Problem) string {
	say := p.Title
	if p.Detail != "" {
		say += ": " + p.Detail
	}
	if p.Field != "" {
		say = p.Field + ": " + say
	}
	return say
}

// writeForm writes a page that has a form and no script.
func writeForm(w http.ResponseWriter, status int, page []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin") // the form's Origin header must not become null
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "+
			"frame-ancestors 'none'")
	w.WriteHeader(status)
	w.Write(page)
}

// short prints a value with four digits.
func short(v float64) string { return decimal.Short(v, 4) }
