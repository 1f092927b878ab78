package logged

import (
	"bytes"
	"io"
	"strconv"
	"unicode"
)

// vwLine is one line of VW text: what stands before the first bar, and the features as a JSON object.
type vwLine struct {
	label  []byte // without the tag
	tag    []byte
	named  []byte
	column int // of the label, from 1
}

// vwParser turns lines into objects: |User x:0.5 city=Oslo becomes {"User": {"x": 0.5, "city": "Oslo"}}. A name
// alone is 1; a namespace's weight multiplies; a feature that comes twice is added up (numbers) or listed (texts).
type vwParser struct {
	spaces []vwSpace
	seen   map[string]int
	added  bool // of the line: a number was added to one of the same name
	// nameless counts the features without a name of a namespace: |f :1 :2 has the features 0 and 1.
	nameless int
}

type vwSpace struct {
	name  []byte
	feats []vwFeature
}

type vwFeature struct {
	name, text []byte
	value      float64
	isText     bool
	more       [][]byte
}

func (p *vwParser) line(e *Event, line []byte) (vwLine, *Error) {
	var out vwLine
	before, rest, bar := bytes.Cut(line, []byte("|"))
	head := bytes.TrimLeft(before, " \t")
	out.column = len(before) - len(head) + 1
	if !bytes.HasSuffix(head, []byte(" ")) && !bytes.HasSuffix(head, []byte("\t")) && bar && len(head) > 0 {
		// a word glued to the bar is the tag
		at := bytes.LastIndexAny(head, " \t") + 1
		if word := head[at:]; string(word) != "shared" {
			out.tag, head = bytes.TrimPrefix(word, []byte("'")), head[:at]
		}
	}
	head = bytes.TrimSpace(head)
	if at := bytes.LastIndexAny(head, " \t") + 1; at < len(head) && head[at] == '\'' {
		out.tag, head = head[at+1:], bytes.TrimSpace(head[:at])
	}
	out.label = head
	if err := p.features(rest, len(line)-len(rest), bar); err != nil {
		return out, err
	}
	out.named = p.object(e)
	return out, nil
}

// features reads what stands behind the first bar.
func (p *vwParser) features(rest []byte, at int, bar bool) *Error {
	p.spaces, p.added = p.spaces[:0], false
	for bar {
		var part []byte
		part, rest, bar = bytes.Cut(rest, []byte("|"))
		weight := 1.0
		var name []byte
		i := 0
		if len(part) > 0 && part[0] != ' ' && part[0] != '\t' {
			i = bytes.IndexAny(part, " \t")
			if i < 0 {
				i = len(part)
			}
			name = part[:i]
			if c := bytes.LastIndexByte(name, ':'); c >= 0 {
				w, ok := parseFloat(name[c+1:])
				if !ok {
					return &Error{Column: at + c + 2, Field: "namespace " + shown(name), Found: shown(name[c+1:]),
						Want: "a finite weight", Reason: "features"}
				}
				name, weight = name[:c], w
			}
		}
		space := p.space(name)
		p.nameless = 0
		clear(p.seen)
		for k := range space.feats {
			p.seen[string(space.feats[k].name)] = k
		}
		for i < len(part) {
			if part[i] == ' ' || part[i] == '\t' {
				i++
				continue
			}
			end := i
			for end < len(part) && part[end] != ' ' && part[end] != '\t' {
				end++
			}
			if err := p.feature(space, part[i:end], weight, at+i); err != nil {
				return err
			}
			i = end
		}
		at += len(part) + 1
	}
	return nil
}

func (p *vwParser) space(name []byte) *vwSpace {
	for i := range p.spaces {
		if bytes.Equal(p.spaces[i].name, name) {
			return &p.spaces[i]
		}
	}
	if len(p.spaces) < cap(p.spaces) {
		p.spaces = p.spaces[:len(p.spaces)+1]
		s := &p.spaces[len(p.spaces)-1]
		s.name, s.feats = name, s.feats[:0]
		return s
	}
	p.spaces = append(p.spaces, vwSpace{name: name})
	return &p.spaces[len(p.spaces)-1]
}

func (p *vwParser) feature(s *vwSpace, word []byte, weight float64, at int) *Error {
	f := vwFeature{name: word, value: weight}
	if c := bytes.LastIndexByte(word, ':'); c >= 0 {
		v, ok := parseFloat(word[c+1:])
		if !ok {
			return &Error{Column: at + 1, Field: "feature", Found: shown(word),
				Want: "name, name:value or name=text, value a finite number", Reason: "features"}
		}
		if f.name, f.value = word[:c], v*weight; c == 0 { // without a name: its number, as in Vowpal Wabbit
			f.name = strconv.AppendInt(nil, int64(p.nameless), 10)
			p.nameless++
		}
	} else if q := bytes.IndexByte(word, '='); q > 0 && weight == 1 {
		f.name, f.text, f.isText = word[:q], word[q+1:], true
	}
	if p.seen == nil {
		p.seen = map[string]int{}
	}
	if k, ok := p.seen[string(f.name)]; ok {
		old := &s.feats[k]
		if old.isText != f.isText {
			return &Error{Column: at + 1, Field: "feature", Found: shown(word),
				Want: "a number or a text under one name, not both", Reason: "features"}
		}
		if f.isText {
			old.more = append(old.more, f.text)
		} else {
			old.value += f.value
			p.added = true
		}
		return nil
	}
	p.seen[string(f.name)] = len(s.feats)
	s.feats = append(s.feats, f)
	return nil
}

// object writes the features of the line into the event's text.
func (p *vwParser) object(e *Event) []byte {
	start := len(e.buf)
	b := append(e.buf, '{')
	comma := func() {
		if c := b[len(b)-1]; c != '{' {
			b = append(b, ',')
		}
	}
	for i := range p.spaces {
		s := &p.spaces[i]
		if len(s.name) > 0 {
			comma()
			b = append(appendText(b, string(s.name)), ':', '{')
		}
		for k := range s.feats {
			f := &s.feats[k]
			comma()
			b = append(appendText(b, string(f.name)), ':')
			switch {
			case f.isText && f.more != nil:
				b = appendText(append(b, '['), string(f.text))
				for _, t := range f.more {
					b = appendText(append(b, ','), string(t))
				}
				b = append(b, ']')
			case f.isText:
				b = appendText(b, string(f.text))
			default:
				b = appendNumber(b, f.value)
			}
		}
		if len(s.name) > 0 {
			b = append(b, '}')
		}
	}
	e.buf = append(b, '}')
	return e.buf[start:len(e.buf):len(e.buf)]
}

// clash finds a namespace and a feature without one that have the same name.
func (p *vwParser) clash() []byte {
	for i := range p.spaces {
		if len(p.spaces[i].name) > 0 {
			continue
		}
		for k := range p.spaces[i].feats {
			for j := range p.spaces {
				if bytes.Equal(p.spaces[i].feats[k].name, p.spaces[j].name) {
					return p.spaces[j].name
				}
			}
		}
	}
	return nil
}

// label reads i:cost:probability.
func vwLabel(label []byte) (id int, cost, prob float64, err *Error) {
	parts := bytes.Split(label, []byte(":"))
	fault := func(want string) *Error { return bad("label", shown(label), want) }
	if len(parts) != 3 {
		return 0, 0, 0, fault("action:cost:probability")
	}
	id, wrong := strconv.Atoi(string(parts[0]))
	if wrong != nil {
		return 0, 0, 0, fault("a whole number for the action")
	}
	prob, ok := parseFloat(parts[2])
	if !ok {
		return 0, 0, 0, fault("a finite probability")
	}
	if err := checkPropensity("propensity", prob); err != nil {
		err.Found = shown(parts[2])
		return 0, 0, 0, err
	}
	if cost, ok = parseFloat(parts[1]); !ok {
		e := bad("reward", shown(parts[1]), "a finite cost")
		return id, 0, prob, e
	}
	return id, cost, prob, nil
}

// vwSource reads blocks: an optional shared line, a line for each action, an empty line.
type vwSource struct {
	r     *Reader
	l     *lines
	p     vwParser
	first int // line of the event
	label int // line of its label
}

func newVW(r *Reader, l *lines) source {
	return &vwSource{r: r, l: l, p: vwParser{seen: map[string]int{}}}
}

func (s *vwSource) close() error { return nil }

func (s *vwSource) place() (line, column, row int) { return s.first, 0, 0 }

func (s *vwSource) next(e *Event) error {
	var fault *Error
	labelled, n := false, 0
	for {
		line, err := s.l.next()
		if err == io.EOF && n > 0 {
			break
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			if n == 0 {
				continue
			}
			break
		}
		if n++; n == 1 {
			s.first = s.l.line
		}
		if fault == nil {
			at := len(e.buf) // the features point into the event's text
			e.buf = append(e.buf, line...)
			if fault = s.line(e, e.buf[at:len(e.buf):len(e.buf)], n, &labelled); fault != nil && fault.Line == 0 {
				fault.Line = s.l.line
			}
		}
	}
	e.K = len(e.Actions)
	switch {
	case fault != nil && fault.Reason == "reward": // the rest is good
		e.BadReward = true
		if rest := e.check(&s.r.o); rest != nil {
			fault = rest
		}
		return fault
	case fault != nil:
		return fault
	case e.K == 0:
		return &Error{Line: s.first, Field: "block", Found: "no action line", Want: "one line for each action",
			Reason: "block"}
	case !labelled:
		return errSkip("without a label")
	}
	if err := s.r.lawful(e, 0); err != nil {
		err.Line = s.label
		return err
	}
	if err := e.check(&s.r.o); err != nil {
		err.Line = s.label
		return err
	}
	return nil
}

// line reads one line of a block.
func (s *vwSource) line(e *Event, line []byte, n int, labelled *bool) *Error {
	if line[0] == '{' {
		return &Error{Column: 1, Found: "JSON", Want: "VW text", Reason: "block", fatal: true}
	}
	v, err := s.p.line(e, line)
	if err != nil {
		return err
	}
	if s.p.added {
		s.r.warn("a feature is twice in a line: its values are added")
	}
	if c := s.p.clash(); c != nil {
		return &Error{Column: 1, Field: "namespace", Found: shown(c),
			Want: "another name than a feature without a namespace", Reason: "features"}
	}
	if string(v.label) == "shared" {
		if n > 1 {
			return &Error{Column: v.column, Field: "block", Found: "a shared line",
				Want: "it first in its block: is an empty line missing?", Reason: "block"}
		}
		e.Named, e.ID = v.named, string(v.tag)
		return nil
	}
	if bytes.HasPrefix(v.label, []byte("ccb ")) || bytes.HasPrefix(v.label, []byte("slates ")) {
		return &Error{Column: v.column, Field: "label", Found: shown(v.label),
			Want: "a decision; lists are read from dsjson", Reason: "block"}
	}
	if len(e.Actions) == MaxActions {
		return &Error{Column: 1, Field: "block", Found: "more than " + strconv.Itoa(MaxActions) + " lines",
			Want: "an empty line between blocks", Reason: "block", fatal: true}
	}
	a := e.action()
	a.Named, a.ID = v.named, string(v.tag)
	if len(v.label) == 0 {
		return nil
	}
	if *labelled {
		return &Error{Column: v.column, Field: "label", Found: "a second label in the block: " + shown(v.label),
			Want: "one; is this the one-line form? (--format vw-flat --actions K)", Reason: "two labels"}
	}
	_, cost, prob, err := vwLabel(v.label)
	*labelled, s.label = true, s.l.line
	e.Chosen, e.Propensity = len(e.Actions)-1, prob
	if err != nil {
		err.Column = v.column
		return err
	}
	e.Reward = 0 - cost
	return nil
}

// vwFlatSource reads one example a line: 2:-0.5:0.2 | features, ids from 1 to K.
type vwFlatSource struct {
	r    *Reader
	l    *lines
	p    vwParser
	line int
	ids  []string
}

func newVWFlat(r *Reader, l *lines) source {
	s := &vwFlatSource{r: r, l: l, p: vwParser{seen: map[string]int{}}, ids: make([]string, r.o.Actions+1)}
	for i := range s.ids {
		s.ids[i] = strconv.Itoa(i)
	}
	return s
}

func (s *vwFlatSource) close() error { return nil }

func (s *vwFlatSource) place() (line, column, row int) { return s.line, 0, 0 }

func (s *vwFlatSource) next(e *Event) error {
	for {
		line, err := s.l.next()
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		s.line = s.l.line
		e.buf = append(e.buf, line...)
		skip, fault := s.event(e, e.buf)
		if fault != nil {
			if fault.Line == 0 {
				fault.Line = s.line
			}
			return fault
		}
		if skip != "" {
			return errSkip(skip)
		}
		return nil
	}
}

func (s *vwFlatSource) event(e *Event, line []byte) (skip string, _ *Error) {
	if bytes.HasPrefix(line, []byte("shared")) {
		return "", &Error{Column: 1, Found: "a shared line",
			Want: "one example a line; this is VW text in blocks (--format vw)", Reason: "block", fatal: true}
	}
	v, err := s.p.line(e, line)
	if err != nil {
		return "", err
	}
	if s.p.added {
		s.r.warn("a feature is twice in a line: its values are added")
	}
	if c := s.p.clash(); c != nil {
		return "", &Error{Column: 1, Field: "namespace", Found: shown(c),
			Want: "another name than a feature without a namespace", Reason: "features"}
	}
	e.Named, e.ID, e.K = v.named, string(v.tag), s.r.o.Actions
	words := bytes.FieldsFunc(v.label, unicode.IsSpace)
	if len(words) == 0 {
		return "without a label", nil
	}
	place := func(e *Error) *Error {
		e.Column = v.column
		return e
	}
	chosen := 0
	var reward *Error
	for i, w := range words {
		id := w
		if c := bytes.IndexByte(w, ':'); c >= 0 {
			if chosen != 0 {
				return "", place(bad("label", "several costs", "one: the action that was played"))
			}
			n, cost, prob, err := vwLabel(w)
			if err != nil && err.Reason != "reward" {
				return "", place(err)
			}
			reward = err
			chosen, e.Reward, e.Propensity, id = n, 0-cost, prob, w[:c]
			e.Chosen = i
		}
		n, wrong := strconv.Atoi(string(id))
		if wrong != nil || n < 1 || n > s.r.o.Actions {
			return "", place(bad("action", shown(id), "an id from 1 to %d", s.r.o.Actions))
		}
		if len(words) > 1 {
			for k := range e.Actions {
				if e.Actions[k].ID == s.ids[n] {
					return "", place(bad("action", shown(id), "each allowed action once"))
				}
			}
			e.action().ID = s.ids[n]
		}
	}
	if chosen == 0 {
		return "without a label", nil
	}
	if len(words) == 1 {
		e.Chosen = chosen - 1
	} else {
		e.K = len(words)
	}
	if err := s.r.lawful(e, v.column); err != nil {
		return "", err
	}
	e.BadReward = reward != nil
	if err := e.check(&s.r.o); err != nil {
		return "", place(err)
	}
	if reward != nil {
		return "", place(reward)
	}
	return "", nil
}
