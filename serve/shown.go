package serve

import (
	"container/list"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"troupe/eventlog"
	"troupe/serve/decide"
)

// The log has the hashes of a request, not its text. So that the page of a model can show what came, the server
// remembers the text of the newest requests that it has decided itself. It is no state: after a restart it begins anew.

const (
	shownRequests = 20
	shownContext  = 768     // bytes of a context
	shownActions  = 1536    // bytes of the candidates
	shownBytes    = 8 << 20 // of all models, about
	shownEvery    = 10_000_000
	shownOverhead = 128 * shownRequests // bytes of a model beside the texts
)

// pace says when the next request of a model is remembered: the first shownRequests are, then one in shownEvery
// nanoseconds of the server's clock.
type pace struct {
	first atomic.Int32
	last  atomic.Int64
}

// due reports whether a request of this time is remembered. It takes no lock.
func (p *pace) due(now int64) bool {
	last := p.last.Load()
	if since := now - last; since >= 0 && since < shownEvery && p.first.Load() >= shownRequests {
		return false
	}
	if p.first.Load() < shownRequests {
		p.first.Add(1)
	}
	return p.last.CompareAndSwap(last, now)
}

// shown remembers requests by model.
type shown struct {
	mu    sync.Mutex
	limit int
	bytes int
	rings map[string]*list.Element // of *shownRing, by the model's name
	queue list.List                // those first that were written last
}

// shownRing is the newest requests of a model. Its memory is used again.
type shownRing struct {
	model string
	bytes int
	next  int
	of    [shownRequests]shownRequest
}

type shownRequest struct {
	key              eventlog.Event
	seq              uint64
	context, actions []byte
	cut              bool
}

func (r *shownRequest) size() int { return cap(r.context) + cap(r.actions) }

// put remembers a request. It does not wait: when another one is just written, this one is left out.
func (s *shown) put(model string, key eventlog.Event, seq uint64, q *decide.Request) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	e := s.rings[model]
	if e == nil {
		if s.rings == nil {
			s.rings = map[string]*list.Element{}
		}
		e = s.queue.PushFront(&shownRing{model: strings.Clone(model), bytes: shownOverhead})
		s.bytes += shownOverhead
		s.rings[e.Value.(*shownRing).model] = e
	}
	s.queue.MoveToFront(e)
	ring := e.Value.(*shownRing)
	r := &ring.of[ring.next]
	ring.next = (ring.next + 1) % shownRequests
	before := r.size()
	r.key, r.seq, r.cut = key, seq, false
	r.context = r.clip(append(r.context[:0], q.Context[:min(len(q.Context), shownContext+1)]...), shownContext)
	r.actions = r.clip(appendActions(r.actions[:0], q, shownActions), shownActions)
	ring.bytes += r.size() - before
	s.bytes += r.size() - before
	for s.bytes > s.limit && s.queue.Len() > 1 {
		s.remove(s.queue.Back())
	}
}

// clip cuts a text at the beginning of a character.
func (r *shownRequest) clip(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	r.cut = true
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}

// appendActions appends the candidates as JSON, at most a little more than most bytes.
func appendActions(b []byte, q *decide.Request, most int) []byte {
	switch {
	case len(q.Packed) > 0:
		b = append(append(b, `{"packed":`...), q.Packed[:min(len(q.Packed), most)]...)
		if len(b) < most && len(q.IDs) > 0 {
			b = appendStrings(append(b, `,"ids":[`...), q.IDs, most)
		}
		return append(b, '}')
	case len(q.Actions) == 0:
		b = append(b, "the catalogue"...)
	default:
		b = append(b, '[')
		for i := range q.Actions {
			if i < len(q.Available) && !q.Available[i] {
				continue
			}
			if len(b) > most {
				return b
			}
			if len(b) > 1 {
				b = append(b, ", "...)
			}
			b = appendText(append(b, `{"id":`...), q.Actions[i].ID)
			if f := q.Actions[i].Features; len(f) > 0 {
				b = append(append(b, `,"features":`...), f[:min(len(f), max(0, most-len(b))+1)]...)
			}
			if c := q.Actions[i].Cost; c != nil && *c-*c == 0 {
				b = strconv.AppendFloat(append(b, `,"cost":`...), *c, 'g', -1, 64)
			}
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if len(q.Exclude) > 0 && len(b) < most {
		b = appendStrings(append(b, ` without [`...), q.Exclude, most)
	}
	return b
}

func appendStrings(b []byte, list []string, most int) []byte {
	for i, s := range list {
		if len(b) > most {
			return b
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, s)
	}
	return append(b, ']')
}

// appendText appends an id in quotes.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if c := s[i]; c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// remove forgets a model. The caller holds mu.
func (s *shown) remove(e *list.Element) {
	ring := e.Value.(*shownRing)
	s.bytes -= ring.bytes
	delete(s.rings, ring.model)
	s.queue.Remove(e)
}

// forget forgets the requests of a model that was deleted.
func (s *shown) forget(model string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.rings[model]; e != nil {
		s.remove(e)
	}
}

// size returns about how many bytes all requests take.
func (s *shown) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// each calls f with the requests of a model, the oldest first. f may not keep the texts.
func (s *shown) each(model string, f func(*shownRequest)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.rings[model]
	if e == nil {
		return
	}
	ring := e.Value.(*shownRing)
	for i := range shownRequests {
		if r := &ring.of[(ring.next+i)%shownRequests]; r.key != (eventlog.Event{}) {
			f(r)
		}
	}
}

func (r *shownRequest) view() RequestView {
	return RequestView{Context: string(r.context), Actions: string(r.actions), Cut: r.cut}
}
