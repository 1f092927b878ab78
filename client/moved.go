package client

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// moved remembers which models went to other servers, and which events these have decided: a server answers 307 with the
// address, once for a model. Safe for concurrent use. The zero value knows none.
type moved struct {
	mu     sync.Mutex
	models map[string]address
	events map[string]address // by the beginning of their ids, which names the writer
}

const (
	mostHops    = 4    // of one call
	mostWriters = 4096 // remembered
	writerChars = 16   // of an event id: number of the key, flags and writer
)

// subject is what a path is about: a model or an event, both "" for none.
func subject(path string) (model, event string) {
	if rest, ok := strings.CutPrefix(path, "/v1/models/"); ok {
		model = rest[:strings.IndexAny(rest+":", ":/?")]
	} else if rest, ok := strings.CutPrefix(path, "/v1/events/"); ok {
		event = rest[:strings.IndexAny(rest+":", ":/?")]
	}
	return model, event
}

func writerOf(event string) string {
	if len(event) < writerChars {
		return ""
	}
	return event[:writerChars]
}

// of returns the server that has what a path is about, a where that is not known to be another one.
func (m *moved) of(a address, path string) address {
	model, event := subject(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.models[model]; ok {
		return at
	}
	if at, ok := m.events[writerOf(event)]; ok && event != "" {
		return at
	}
	return a
}

// note remembers the server of a model.
func (m *moved) note(path string, at address) {
	model, _ := subject(path)
	if model == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.models == nil {
		m.models = map[string]address{}
	}
	m.models[model] = at
}

// forget ends note and decided: the model or event is not there. It reports whether it was noted.
func (m *moved) forget(path string) bool {
	model, event := subject(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if event != "" {
		_, ok := m.events[writerOf(event)]
		delete(m.events, writerOf(event))
		return ok
	}
	_, ok := m.models[model]
	delete(m.models, model)
	return ok
}

// decided remembers the server of an event, where its model is not at the address of the client.
func (m *moved) decided(path, event string) {
	model, _ := subject(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.models[model]
	if !ok || writerOf(event) == "" {
		return
	}
	if m.events == nil || len(m.events) >= mostWriters {
		m.events = map[string]address{}
	}
	m.events[writerOf(event)] = at
}

// next returns the server that an error of from names, "" for none. A key that was sent encrypted is not sent in the clear, but to
// the client's own address.
func next(from, base address, err error) string {
	var p *Problem
	if !errors.As(err, &p) || p.Code != "moved" {
		return ""
	}
	to := strings.TrimRight(p.MovedTo, "/")
	if to != base.base && encrypted(from.base) && !encrypted(to) {
		return ""
	}
	return to
}

func encrypted(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Scheme == "https"
}

// stays makes a client of HTTP give back the answer that a model has moved: following it, net/http would leave the key out.
func stays(h *http.Client) *http.Client {
	own := *h
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if r := req.Response; r != nil && r.StatusCode == http.StatusTemporaryRedirect && r.Header.Get("Content-Type") == "application/problem+json" {
			return http.ErrUseLastResponse
		}
		if h.CheckRedirect != nil {
			return h.CheckRedirect(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	return &own
}
