package api

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// packed is a body that does not change. Clients that read gzip get a fifth of its bytes, which are made once, when they are first
// asked for.
type packed struct {
	plain []byte
	small func() []byte // with gzip
}

func pack(b []byte) packed {
	return packed{b, sync.OnceValue(func() []byte {
		var out bytes.Buffer
		w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level exists
		_, _ = w.Write(b)                                       // a buffer takes everything
		_ = w.Close()
		return out.Bytes()
	})}
}

// of returns the body for a request, and sets its headers.
func (p *packed) of(w http.ResponseWriter, r *http.Request) []byte {
	w.Header().Add("Vary", "Accept-Encoding")
	if !takesGzip(r.Header.Values("Accept-Encoding")) {
		return p.plain
	}
	w.Header().Set("Content-Encoding", "gzip")
	return p.small()
}

// takesGzip reads Accept-Encoding of RFC 9110, section 12.5.3.
func takesGzip(values []string) bool {
	for _, part := range strings.Split(strings.Join(values, ","), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, ok := strings.Cut(weight, "=")
		x, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !ok || err == nil && x > 0
	}
	return false
}
