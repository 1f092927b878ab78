package main

import (
	"bytes"
	"encoding/json"
)

// usage is what an answer took.
type usage struct {
	in, out float64 // tokens
	known   bool    // the upstream said so
}

// maxKept bounds the bytes of an answer, or of one event of it, that wait for their end.
const maxKept = 64 << 20

// meter finds the usage in an answer that is one JSON value, of any layout, or a stream of server-sent events.
type meter struct {
	events bool
	kept   []byte // the answer, or the line that is not complete
	data   []byte // of the event that is not complete
	lost   bool   // there was too much to keep
	last   usage
}

// add takes the next bytes of the answer.
func (m *meter) add(b []byte) {
	if m.lost = m.lost || len(m.kept)+len(m.data)+len(b) > maxKept; m.lost {
		m.kept, m.data = nil, nil
		return
	}
	m.kept = append(m.kept, b...)
	for m.events {
		line, rest, ok := bytes.Cut(m.kept, []byte("\n"))
		if !ok {
			return
		}
		m.line(bytes.TrimSuffix(line, []byte("\r")))
		m.kept = rest
	}
}

// line takes a line of a stream: the data lines of an event are one text, and an empty line ends it
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (m *meter) line(b []byte) {
	if len(b) == 0 {
		m.read(m.data)
		m.data = m.data[:0]
		return
	}
	if field, value, _ := bytes.Cut(b, []byte(":")); string(field) == "data" {
		m.data = append(append(m.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
	}
}

// end returns the usage when the answer is complete.
func (m *meter) end() usage {
	if !m.events {
		m.read(m.kept)
		return m.last
	}
	if len(m.kept) > 0 {
		m.line(m.kept)
	}
	m.line(nil) // some end without an empty line
	return m.last
}

// read takes the usage of a JSON value, if it has one. A stream may tell it more than once: the last one counts.
func (m *meter) read(b []byte) {
	var part struct {
		Usage *struct {
			In  *float64 `json:"prompt_tokens"`
			Out *float64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(b, &part) != nil || part.Usage == nil || part.Usage.In == nil || part.Usage.Out == nil ||
		*part.Usage.In < 0 || *part.Usage.Out < 0 || *part.Usage.In+*part.Usage.Out == 0 { // a prompt has tokens
		return
	}
	m.last = usage{*part.Usage.In, *part.Usage.Out, true}
}
