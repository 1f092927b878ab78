package logged

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// dsjsonSource reads dsjson and VW JSON: one event of a decision service on a line. The keys are those of
// VW's parser; docs/formats.md has the table.
type dsjsonSource struct {
	jsonLines
	plain bool // VW JSON: features and _multi at the top
	base  int  // of a: 0 or 1; −1 not known yet

	cost, prob, index, label value // of the line, raw nil when absent
	a, p, c, multi, slots    value
	outcomes                 value
	ids                      []int
	ps                       []float64
	slotOf                   []int // of each action of a slate; empty when the actions are of all slots
}

func newDSJSON(r *Reader, l *lines, plain bool) source {
	s := &dsjsonSource{jsonLines: newJSONLines(r, l), plain: plain, base: -1}
	s.vw, s.joined = true, !plain
	if r.o.IDs != "" {
		s.base = int(r.o.IDs[0] - '0')
	}
	return s
}

func (s *dsjsonSource) next(e *Event) error {
	v, err := s.object(e)
	if err != nil {
		return err
	}
	if v.raw == nil {
		return errSkip("no event: a line that does not begin with {")
	}
	skip, bad := s.event(v, e)
	if bad != nil {
		return s.at(bad)
	}
	if skip != "" {
		return errSkip(skip)
	}
	return nil
}

func (s *dsjsonSource) event(v value, e *Event) (skip string, bad_ *Error) {
	s.cost, s.prob, s.index, s.label, s.a, s.p, s.c, s.multi, s.slots, s.outcomes = value{}, value{}, value{}, value{},
		value{}, value{}, value{}, value{}, value{}, value{}
	if err := s.keys(v, e, &skip); err != nil || skip != "" {
		return skip, err
	}
	labelled := s.cost.raw != nil || s.prob.raw != nil || s.index.raw != nil || s.outcomes.raw != nil
	if !s.plain && !labelled && s.a.raw == nil {
		if s.c.raw != nil {
			return "without a label", nil
		}
		return "no event: a dangling reward or another line of the joiner", nil
	}
	context := s.c
	if s.plain {
		context = v
	} else if context.raw == nil {
		return "", bad("c", "missing", "the context and the actions")
	}
	if err := s.context(context, e); err != nil {
		return "", err
	}
	if s.multi.raw == nil {
		return "", bad("c._multi", "missing", "the list of actions")
	}
	if err := s.multis(e); err != nil {
		return "", err
	}
	e.K = len(e.Actions)
	if s.outcomes.raw != nil {
		return s.list(e)
	}
	return s.single(e)
}

// keys reads the top of the line.
func (s *dsjsonSource) keys(v value, e *Event, skip *string) *Error {
	var dotted [3]value
	err := v.fields(func(key []byte, w value) (err *Error) {
		name := string(key)
		if strings.HasPrefix(name, "_label_") { // what follows is read in any case
			for _, own := range labelKeys {
				if strings.EqualFold(name, own) {
					name = own
				}
			}
		}
		switch name {
		case "_label_cost":
			s.cost = w
		case "_label_probability":
			s.prob = w
		case "_labelIndex":
			s.index = w
		case "_label_Action":
			s.label = w
		case "_label":
			switch {
			case w.kind() == '"' && s.plain:
				return s.glued(w, &dotted)
			case w.kind() == '{':
				return w.fields(func(key []byte, w value) *Error {
					switch strings.ToLower(string(key)) {
					case "action":
						s.label = w
					case "cost":
						s.cost = w
					case "probability":
						s.prob = w
					default:
						return bad("_label."+shown(key), "an unknown key", "Action, Cost and Probability")
					}
					return nil
				})
			}
		case "EventId":
			e.ID, err = w.text("EventId")
		case "event_id":
			s.r.warn("event_id is not a key of dsjson: the id is EventId")
		case "Timestamp":
			var text string
			if text, err = w.text("Timestamp"); err == nil {
				t, wrong := time.Parse(time.RFC3339Nano, text)
				if wrong != nil { // Vowpal Wabbit writes it without a zone
					if t, wrong = time.Parse("2006-01-02T15:04:05.999999999", text); wrong == nil {
						s.r.warn("Timestamp has no time zone: it is read as UTC")
					}
				}
				if wrong != nil {
					return w.wrong("Timestamp", "a time such as 2026-05-04T10:00:00.0000000Z")
				}
				e.Time = t.UTC()
			}
		case "a":
			s.a = w
		case "p":
			s.p = w
		case "c":
			s.c = w
		case "o":
			if !s.plain {
				e.Observed = w.raw
			}
		case "pdrop":
			if e.Drop, err = w.number("pdrop"); err == nil && !(e.Drop >= 0 && e.Drop < 1) {
				err = w.wrong("pdrop", "a probability below 1")
			}
		case "_skipLearn":
			if string(w.raw) == "true" {
				*skip = "_skipLearn"
			}
		case "_outcomes":
			s.outcomes = w
		case "unit":
			if !s.plain {
				e.Unit, err = unitOf(w)
			}
		}
		return err
	})
	if err == nil && dotted[1].raw != nil {
		s.label, s.cost, s.prob = dotted[0], dotted[1], dotted[2]
	}
	return err
}

// labelKeys are the parts of a label, which Vowpal Wabbit reads in any case.
var labelKeys = []string{"_label_cost", "_label_probability", "_label_Action"}

// glued reads "_label": "i:cost:probability".
func (s *dsjsonSource) glued(w value, into *[3]value) *Error {
	n, from := 0, 1
	for i := 1; i < len(w.raw); i++ {
		if c := w.raw[i]; c == ':' || i == len(w.raw)-1 {
			if n == 3 {
				return w.wrong("_label", "action:cost:probability")
			}
			into[n] = value{w.raw[from:i], w.at + from}
			n, from = n+1, i+1
		}
	}
	if n != 3 {
		return w.wrong("_label", "action:cost:probability")
	}
	return nil
}

// context finds the actions and the slots and keeps the features.
func (s *dsjsonSource) context(w value, e *Event) *Error {
	if w.kind() == '[' { // a list of one object is that object
		inner, n := value{}, 0
		if err := w.each(func(_ int, v value) *Error { inner, n = v, n+1; return nil }); err != nil {
			return err
		}
		if n != 1 {
			return w.wrong("c", "an object, or a list of one")
		}
		w = inner
	}
	if w.kind() != '{' {
		return w.wrong("c", "an object")
	}
	at := len(e.buf)
	e.buf = append(e.buf, '{')
	err := w.fields(func(key []byte, v value) *Error {
		switch {
		case string(key) == "_multi":
			s.multi = v
		case string(key) == "_slots":
			s.slots = v
		case len(key) > 0 && key[0] == '_', s.plain && string(key) == "EventId", s.plain && string(key) == "Timestamp",
			s.plain && string(key) == "pdrop":
		default:
			e.buf = appendField(e.buf, at, key, v.raw)
		}
		return nil
	})
	e.buf = append(e.buf, '}')
	e.Named = e.buf[at:len(e.buf):len(e.buf)]
	return err
}

// appendField appends "key":value to an object that began at start.
func appendField(b []byte, start int, key, raw []byte) []byte {
	if len(b) > start+1 {
		b = append(b, ',')
	}
	plain := true
	for _, c := range key {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		b = append(append(append(b, '"'), key...), '"', ':')
	} else {
		b = append(appendText(b, string(key)), ':')
	}
	return append(b, raw...)
}

// multis reads the actions: their features without keys that begin with _, and _tag as id.
func (s *dsjsonSource) multis(e *Event) *Error {
	if s.multi.kind() != '[' {
		return s.multi.wrong("_multi", "a list of actions")
	}
	s.slotOf = s.slotOf[:0]
	return s.multi.each(func(i int, w value) *Error {
		at := "_multi[" + strconv.Itoa(i) + "]"
		if w.kind() != '{' {
			return w.wrong(at, "an object, {} for an action without features")
		}
		if len(e.Actions) == MaxActions {
			return w.wrong(at, "at most %d actions", MaxActions)
		}
		a := e.action()
		return named(e, w, at, &a.Named, &a.ID, "_tag", func(key string, v value) *Error {
			if key != "_slot_id" {
				return nil
			}
			n, err := v.whole(at + "._slot_id")
			if len(s.slotOf) != i {
				return v.wrong(at+"._slot_id", "one in every action, or in none")
			}
			s.slotOf = append(s.slotOf, n)
			return err
		})
	})
}

// named copies an object without the keys that begin with _; id gets the text of one of them.
func named(e *Event, w value, at string, into *[]byte, id *string, idKey string,
	more func(key string, v value) *Error) *Error {
	start := len(e.buf)
	e.buf = append(e.buf, '{')
	err := w.fields(func(key []byte, v value) (err *Error) {
		switch {
		case string(key) == idKey:
			if *id, err = v.label(at + "." + idKey); err != nil {
				return err
			}
		case len(key) > 0 && key[0] == '_':
			if more != nil {
				return more(string(key), v)
			}
		default:
			e.buf = appendField(e.buf, start, key, v.raw)
		}
		return nil
	})
	e.buf = append(e.buf, '}')
	*into = e.buf[start:len(e.buf):len(e.buf)]
	return err
}

// single reads the label of one decision.
func (s *dsjsonSource) single(e *Event) (skip string, _ *Error) {
	if s.cost.raw == nil && s.prob.raw == nil && s.index.raw == nil {
		return "without a label", nil
	}
	if s.prob.raw == nil {
		return "", bad("_label_probability", "missing", "the propensity")
	}
	var err *Error
	if e.Propensity, err = s.prob.number("_label_probability"); err != nil {
		return "", err
	}
	if err := s.chosen(e); err != nil {
		return "", err
	}
	if s.a.raw != nil && s.p.raw != nil {
		if err := s.law(e); err != nil {
			return "", err
		}
	}
	if err := s.r.lawful(e, s.prob.at+1); err != nil {
		return "", err
	}
	// The reward last: an event whose reward alone is bad may be kept as the worst case.
	e.BadReward = true
	if err := s.places(e.check(&s.r.o)); err != nil {
		return "", err
	}
	e.BadReward = false
	if s.cost.raw == nil {
		return "", bad("_label_cost", "missing", "−reward")
	}
	cost, err := s.cost.number("_label_cost")
	if err != nil {
		err.Reason, err.Field = "reward", "_label_cost"
		return "", err
	}
	e.Reward = 0 - cost
	return "", s.places(e.check(&s.r.o))
}

// places adds columns to an error of check.
func (s *dsjsonSource) places(e *Error) *Error {
	if e == nil || e.Column > 0 {
		return e
	}
	for _, f := range []struct {
		reason string
		v      value
	}{{"propensity", s.prob}, {"reward", s.cost}, {"law", s.p}, {"law contradicts propensity", s.p},
		{"action", s.index}, {"slots", s.outcomes}} {
		if f.reason == e.Reason && f.v.raw != nil {
			e.Column = f.v.at + 1
		}
	}
	return e
}

// chosen decides which action was played: _labelIndex wins, _label_Action must agree where both are.
func (s *dsjsonSource) chosen(e *Event) *Error {
	label := -1
	if s.label.raw != nil {
		n, err := s.label.whole("_label_Action")
		if err != nil {
			return err
		}
		label = n - 1
	}
	switch {
	case s.index.raw != nil:
		n, err := s.index.whole("_labelIndex")
		if err != nil {
			return err
		}
		e.Chosen = n
		if s.label.raw != nil && label != n {
			if label == -1 {
				s.r.warn("_label_Action is 0: _labelIndex says what was played")
				return nil
			}
			return s.label.wrong("_label_Action", "%d, _labelIndex + 1", n+1)
		}
	case s.label.raw != nil:
		e.Chosen = label
	case s.a.raw != nil:
		return bad("_labelIndex", "missing", "the index of the chosen action")
	default:
		return bad("_labelIndex", "missing", "the index of the chosen action (_labelIndex or _label_Action)")
	}
	return nil
}

// law reads a and p, ids and their probabilities: from 1 with the chosen one first, or from 0 in order.
func (s *dsjsonSource) law(e *Event) *Error {
	if err := s.pair(e, s.a, s.p, "a", "p"); err != nil {
		return err
	}
	if len(s.ids) != e.K {
		return s.a.wrong("a", "%d ids, one for each action of _multi", e.K)
	}
	base := -1
	for _, id := range s.ids {
		switch id {
		case 0:
			base = 0
		case e.K:
			if base == 0 {
				return s.a.wrong("a", "ids from 0 to %d, or from 1 to %d", e.K-1, e.K)
			}
			base = 1
		}
	}
	switch {
	case base < 0 && s.base < 0:
		return s.a.wrong("a", "ids among which 0 or %d is: do they count from 0 or 1? (--ids)", e.K)
	case base < 0:
		base = s.base
	case s.base < 0:
		s.base = base
	case s.base != base:
		return s.a.wrong("a", "ids from %d, as before in this file or as --ids says", s.base)
	}
	e.Law = e.numbers(e.K)
	for i := range e.Law {
		e.Law[i] = math.NaN()
	}
	for i, id := range s.ids {
		if id -= base; id < 0 || id >= e.K || !math.IsNaN(e.Law[id]) {
			return s.a.wrong("a", "every id from %d to %d once", base, e.K-1+base)
		}
		e.Law[id] = s.ps[i]
	}
	return nil
}

// pair reads two parallel lists.
func (s *dsjsonSource) pair(e *Event, a, p value, an, pn string) *Error {
	s.ids, s.ps = s.ids[:0], s.ps[:0]
	if a.kind() != '[' {
		return a.wrong(an, "a list of ids")
	}
	if p.kind() != '[' {
		return p.wrong(pn, "a list of probabilities")
	}
	if err := a.each(func(i int, w value) *Error {
		n, err := w.whole(an + "[" + strconv.Itoa(i) + "]")
		s.ids = append(s.ids, n)
		return err
	}); err != nil {
		return err
	}
	if err := p.each(func(i int, w value) *Error {
		x, err := w.number(pn + "[" + strconv.Itoa(i) + "]")
		s.ps = append(s.ps, x)
		return err
	}); err != nil {
		return err
	}
	if len(s.ids) != len(s.ps) {
		return p.wrong(pn, "%d probabilities, parallel to %s", len(s.ids), an)
	}
	return nil
}

// slate turns ids that count the actions of one slot into indices of all actions.
func (s *dsjsonSource) slate(slot int, a value, at string) *Error {
	if len(s.slotOf) == 0 {
		return nil
	}
	for k, id := range s.ids {
		found := -1
		for i, of := range s.slotOf {
			if of == slot {
				if id == 0 {
					found = i
					break
				}
				id--
			}
		}
		if found < 0 {
			return a.wrong(at+"._a", "indices of the actions of slot %d", slot)
		}
		s.ids[k] = found
	}
	return nil
}

// list reads the slots of a conditional contextual bandit, or of a slate.
func (s *dsjsonSource) list(e *Event) (skip string, _ *Error) {
	if s.outcomes.kind() != '[' {
		return "", s.outcomes.wrong("_outcomes", "a list with an object for each slot")
	}
	if err := s.outcomes.each(func(i int, w value) *Error { return s.slot(e, i, w) }); err != nil {
		return "", err
	}
	if len(e.Slots) == 0 {
		return "a list without slots", nil
	}
	if s.slots.raw != nil {
		if s.slots.kind() != '[' {
			return "", s.slots.wrong("_slots", "a list of slots")
		}
		n := 0
		if err := s.slots.each(func(i int, w value) *Error {
			n++
			if i >= len(e.Slots) || w.kind() != '{' {
				return nil
			}
			id := ""
			return named(e, w, "_slots["+strconv.Itoa(i)+"]", &e.Slots[i].Named, &id, "_id", nil)
		}); err != nil {
			return "", err
		}
		if n != len(e.Slots) {
			return "", s.outcomes.wrong("_outcomes", "%d outcomes, one for each slot", n)
		}
	}
	return "", s.places(e.check(&s.r.o))
}

// slot reads an object of _outcomes.
func (s *dsjsonSource) slot(e *Event, i int, w value) *Error {
	at := "_outcomes[" + strconv.Itoa(i) + "]"
	if w.kind() != '{' {
		return w.wrong(at, "an object")
	}
	e.Slots = append(e.Slots, Slot{})
	o := &e.Slots[i]
	var a, p, cost value
	if err := w.fields(func(key []byte, v value) (err *Error) {
		switch string(key) {
		case "_id":
			o.ID, err = v.label(at + "._id")
		case "_label_cost":
			cost = v
		case "_a":
			a = v
		case "_p":
			p = v
		}
		return err
	}); err != nil {
		return err
	}
	if cost.raw == nil && s.cost.raw != nil && (i == 0 || e.OneReward) { // a slate has one cost
		c, err := s.cost.number("_label_cost")
		if err != nil {
			return err
		}
		e.OneReward, e.Reward = true, 0-c
		cost = value{[]byte("0"), s.cost.at}
	}
	if a.raw == nil || p.raw == nil || cost.raw == nil {
		return w.wrong(at, "_label_cost, _a and _p")
	}
	if a.kind() != '[' { // one id and one probability, as some writers put them
		id, err := a.whole(at + "._a")
		if err != nil {
			return err
		}
		prob, err := p.number(at + "._p")
		if err != nil {
			return err
		}
		s.ids, s.ps = append(s.ids[:0], id), append(s.ps[:0], prob)
	} else if err := s.pair(e, a, p, at+"._a", at+"._p"); err != nil {
		return err
	}
	c, err := cost.number(at + "._label_cost")
	if err != nil {
		return err
	}
	if len(s.ids) == 0 {
		return a.wrong(at+"._a", "the chosen action first")
	}
	if err := s.slate(i, a, at); err != nil {
		return err
	}
	o.Reward = 0 - c
	o.Allowed = append(o.Allowed, s.ids...)
	o.Propensity = s.ps[0]
	if len(s.ps) > 1 || s.ps[0] == 1 {
		o.Law = e.numbers(len(s.ps))
		copy(o.Law, s.ps)
	}
	if len(s.slotOf) > 0 { // a slate draws its slots independently
		if o.Marginal = o.Propensity; o.Law != nil {
			o.Marginals = e.numbers(e.K)
			for k, a := range o.Allowed {
				o.Marginals[a] = o.Law[k]
			}
		}
	}
	return nil
}

// merged returns an object in which no key comes twice, as Vowpal Wabbit understands one: numbers of a key are added, texts
// are listed, objects are merged, and of keys that begin with _ the last one counts. ok is false for a key with values of
// different types.
func merged(v value) (_ []byte, ok bool) {
	switch v.kind() {
	case '[':
		b := []byte{'['}
		ok = true
		v.each(func(i int, w value) *Error {
			part, good := merged(w)
			if ok = ok && good; i > 0 {
				b = append(b, ',')
			}
			b = append(b, part...)
			return nil
		})
		return append(b, ']'), ok
	case '{':
	default:
		return v.raw, true
	}
	var keys []string
	values := map[string][]value{}
	v.fields(func(key []byte, w value) *Error {
		k := string(key)
		if values[k] == nil {
			keys = append(keys, k)
		}
		if values[k] = append(values[k], w); k != "" && k[0] == '_' {
			values[k] = values[k][len(values[k])-1:]
		}
		return nil
	})
	b := []byte{'{'}
	for _, k := range keys {
		one, good := mergedValues(values[k])
		if !good {
			return nil, false
		}
		b = appendField(b, 0, []byte(k), one)
	}
	return append(b, '}'), true
}

// mergedValues makes one value of those of a key.
func mergedValues(all []value) ([]byte, bool) {
	if len(all) == 1 {
		return merged(all[0])
	}
	var parts [][]byte
	sum, kind := 0.0, byte(0)
	for _, w := range all {
		k := w.kind()
		if k == '-' || k >= '0' && k <= '9' {
			k = '0'
			x, ok := parseFloat(w.raw)
			if sum += x; !ok {
				return nil, false
			}
		}
		if kind == 0 {
			kind = k
		}
		if k != kind {
			return nil, false
		}
		switch part, ok := merged(w); {
		case !ok:
			return nil, false
		case k == '{' && len(part) > 2:
			parts = append(parts, part[1:len(part)-1])
		case k == '"':
			parts = append(parts, part)
		}
	}
	inside := bytes.Join(parts, []byte(","))
	switch kind {
	case '0':
		return appendNumber(nil, sum), sum-sum == 0
	case '"':
		return append(append([]byte{'['}, inside...), ']'), true
	case '{':
		return merged(value{raw: append(append([]byte{'{'}, inside...), '}')})
	}
	return nil, false
}

// repeated reads a line in which a key comes twice in an object.
func (j *jsonLines) repeated(e *Event) (value, bool) {
	line := bytes.TrimSpace(e.buf)
	v := value{line, 0}
	if !jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true)) || v.kind() != '{' {
		return v, false
	}
	line, ok := merged(v)
	if !ok {
		return v, false
	}
	e.buf = append(e.buf[:0], line...)
	j.r.warn("a key comes twice in an object: its numbers are added, its texts listed, as Vowpal Wabbit does")
	return value{e.buf, 0}, true
}
