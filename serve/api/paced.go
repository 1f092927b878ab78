package api

import (
	"strings"
	"sync"
	"time"

	"troupe/timing"
)

// paced lets one line a second through for each reason: while a node is cut off every call is refused, thousands of
// them a second, and the lines drown the others. The zero value is usable, by many goroutines.
type paced struct {
	mu sync.Mutex
	of map[string]*line
}

// line is when the newest line of a reason was written, and how many were not written since then.
type line struct {
	at     timing.Instant
	silent uint64
}

const (
	pacedEvery   = time.Second
	pacedReasons = 64 // remembered
)

// tell reports whether a line about the reason is written now, and how many were left out since the one before. Two
// reasons that differ in their numbers only are one.
func (p *paced) tell(reason string, now timing.Instant) (silent uint64, ok bool) {
	reason = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, reason)
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of[reason]
	switch {
	case l == nil:
		if p.of == nil || len(p.of) >= pacedReasons {
			p.of = map[string]*line{}
		}
		p.of[reason] = &line{at: now}
		return 0, true
	case now.Sub(l.at) < pacedEvery:
		l.silent++
		return 0, false
	}
	silent = l.silent
	*l = line{at: now}
	return silent, true
}
