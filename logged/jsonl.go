package logged

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"troupe/spec"
)

// jsonLines is what the readers of one JSON object a line share.
type jsonLines struct {
	r      *Reader
	l      *lines
	dec    *jsontext.Decoder
	buf    bytes.Buffer
	line   int
	vw     bool // a key may come twice in an object
	joined bool // lines that begin with something else than { are no events
}

func newJSONLines(r *Reader, l *lines) jsonLines {
	return jsonLines{r: r, l: l, dec: jsontext.NewDecoder(bytes.NewReader(nil))}
}

func (j *jsonLines) close() error { return nil }

func (j *jsonLines) place() (line, column, row int) { return j.line, 0, 0 }

// place is that of the id, which is what is looked at last.
func (s *jsonlSource) place() (line, column, row int) { return s.line, s.at[kID], 0 }

// object reads the next line that is not blank into the event's storage.
func (j *jsonLines) object(e *Event) (value, error) {
	for {
		line, err := j.l.next()
		if err != nil {
			return value{}, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		j.line = j.l.line
		e.buf = append(e.buf[:0], line...)
		if j.joined && line[0] != '{' && line[0] != ' ' && line[0] != '\t' {
			return value{}, nil
		}
		v, bad := validJSON(j.dec, &j.buf, e.buf)
		if bad != nil && bad.twice {
			if !j.vw {
				bad.Want = "every key once"
			} else if again, ok := j.repeated(e); ok {
				return again, nil
			}
		}
		if bad == nil && v.kind() != '{' {
			bad = v.wrong("", "a JSON object")
			bad.Reason = "json"
		}
		if bad != nil {
			return v, j.at(bad)
		}
		return v, nil
	}
}

func (j *jsonLines) at(e *Error) *Error {
	if e.Line == 0 {
		e.Line = j.line
	}
	return e
}

type jsonlSource struct {
	jsonLines
	export bool
	row    exportRow
	cut    bool // of an export: an open window was met, all later decisions are cut
	at     [kTargetListLaw + 1]int
	arms   arms
}

// The keys of a line, and the places of what a check may refuse.
const (
	kID = iota
	kTime
	kContext
	kActions
	kAction
	kReward
	kPropensity
	kPscore
	kLaw
	kTarget
	kQ
	kGroup
	kDrop
	kPosition
	kSlots
	kObserved
	kUnit
	kListLaw
	kTargetListLaw
)

var jsonlKeys = []string{"id", "time", "context", "actions", "action", "reward", "propensity", "pscore", "law",
	"target", "q", "group", "drop", "position", "slots", "observed", "unit", "list_law", "target_list_law"}

func newJSONL(r *Reader, l *lines, export bool) source {
	s := &jsonlSource{jsonLines: newJSONLines(r, l), export: export}
	if r.o.Names != nil {
		s.arms.set(r.o.Names, "--actions says")
		s.arms.places = true
	}
	return s
}

func (s *jsonlSource) armNames() []string { return s.arms.names }

func (s *jsonlSource) next(e *Event) error {
	v, err := s.object(e)
	if err != nil {
		return err
	}
	if s.export {
		return s.exported(v, e)
	}
	if bad := s.event(v, e); bad != nil {
		return s.at2(bad)
	}
	return nil
}

// at2 adds line and, where the field's place is known, column.
func (s *jsonlSource) at2(e *Error) *Error {
	if e.Column == 0 {
		for k, name := range jsonlKeys {
			if name == reasonOf(e.Field) || name == e.Reason {
				e.Column = s.at[k]
			}
		}
	}
	return s.jsonLines.at(e)
}

func keyOf(key []byte) int {
	for k, name := range jsonlKeys {
		if string(key) == name {
			return k
		}
	}
	return -1
}

// event reads one line of our own form.
func (s *jsonlSource) event(v value, e *Event) *Error {
	s.at = [kTargetListLaw + 1]int{}
	var reward *Error
	var action value
	haveReward := false
	bad := v.fields(func(key []byte, w value) (err *Error) {
		k := keyOf(key)
		if k < 0 {
			err := bad(shown(key), "an unknown key"+spec.Suggest(string(key), jsonlKeys), "")
			err.Column, err.Reason = w.at+1, "unknown key"
			return err
		}
		s.at[k] = w.at + 1
		if string(w.raw) == "null" {
			s.at[k] = 0
			return nil
		}
		switch k {
		case kReward:
			haveReward = true
			if w.kind() == '{' || s.r.o.Outcome != "" {
				if w, e.Outcomes, err = s.outcome(w); err != nil {
					return err
				}
			}
			if e.Reward, reward = w.payoff("reward"); reward != nil {
				e.Reward = math.NaN()
			}
		case kAction:
			action = w
		default:
			return s.field(k, w, e)
		}
		return nil
	})
	if bad == nil {
		bad = s.finish(e, action, haveReward)
	}
	if bad == nil && reward != nil {
		e.BadReward = true
		if bad = e.check(&s.r.o); bad == nil {
			bad = reward
		}
		e.BadReward = false
		return bad
	}
	if bad == nil {
		bad = e.check(&s.r.o)
	}
	return bad
}

// outcome returns the one of several rewards that Options.Outcome names.
func (s *jsonlSource) outcome(w value) (out value, n int, _ *Error) {
	name := s.r.o.Outcome
	if w.kind() != '{' {
		return w, 0, w.wrong("reward", "an object with a reward %s, as --outcome says", name)
	}
	var names []string
	err := w.fields(func(key []byte, v value) *Error {
		if names = append(names, string(key)); string(key) == name {
			out = v
		}
		return nil
	})
	switch {
	case err != nil:
		return w, 0, err
	case len(names) == 0:
		return w, 0, w.wrong("reward", "a number, or an object of rewards")
	case name == "":
		several := severalOutcomes(names)
		several.Line = s.line
		return w, 0, several
	case out.raw == nil:
		return w, 0, w.wrong("reward", "an object with a reward %s, as --outcome says", name)
	}
	return out, len(names), nil
}

// field reads one key but for action and reward.
func (s *jsonlSource) field(k int, w value, e *Event) (err *Error) {
	switch k {
	case kID:
		if e.ID, err = w.text("id"); err == nil && e.ID == "" {
			err = w.wrong("id", "a text that is not empty")
		}
	case kTime:
		e.Time, err = timeOf(w)
	case kContext:
		if w.kind() == '{' {
			e.Named = w.raw
			return nil
		}
		if e.Context, err = w.list(e, "context"); err != nil && w.kind() != '[' {
			err = w.wrong("context", "a list of numbers or an object of features")
		}
		if len(e.Context) == 0 {
			e.Context = nil
		}
	case kActions:
		return s.actions(w, e)
	case kPropensity:
		e.Propensity, err = w.number("propensity")
	case kPscore:
		if s.at[kPropensity] != 0 {
			return w.wrong("pscore", "either propensity or pscore")
		}
		e.Propensity, err = w.number("pscore")
	case kLaw:
		e.Law, err = w.list(e, "law")
	case kTarget:
		e.Target, err = w.list(e, "target")
	case kQ:
		e.Q, err = w.list(e, "q")
	case kGroup:
		if w.kind() != '[' {
			return w.wrong("group", "a list of labels")
		}
		return w.each(func(i int, g value) *Error {
			label := string(g.raw)
			switch g.kind() {
			case '"':
				label = g.unquote()
			case '{', '[', 'n', 't', 'f':
				return g.wrong("group["+strconv.Itoa(i)+"]", "a text or a number")
			}
			e.Group = append(e.Group, label)
			return nil
		})
	case kDrop:
		e.Drop, err = w.number("drop")
	case kPosition:
		if e.Position, err = w.whole("position"); err == nil && e.Position < 0 {
			err = w.wrong("position", "a place from 0")
		}
	case kSlots:
		return s.slots(w, e)
	case kObserved:
		e.Observed = w.raw
	case kUnit:
		e.Unit, err = unitOf(w)
	case kListLaw:
		e.ListLaw, err = listLaw(w, e, "list_law")
	case kTargetListLaw:
		e.TargetListLaw, err = listLaw(w, e, "target_list_law")
	}
	return err
}

// unitOf reads a unit: a text that is not empty, or a whole number. null is none.
func unitOf(w value) (string, *Error) {
	switch w.kind() {
	case 'n':
		return "", nil
	case '"':
		if text := w.unquote(); text != "" {
			return text, nil
		}
	case '{', '[', 't', 'f':
	default:
		if _, err := strconv.ParseInt(string(w.raw), 10, 64); err == nil {
			return string(w.raw), nil
		}
	}
	return "", w.wrong("unit", "a text that is not empty, or a whole number")
}

// timeOf reads RFC 3339.
func timeOf(w value) (time.Time, *Error) {
	text, err := w.text("time")
	if err != nil {
		return time.Time{}, err
	}
	t, bad := time.Parse(time.RFC3339Nano, text)
	if bad != nil {
		return t, w.wrong("time", "a time such as 2026-05-04T10:00:00Z")
	}
	return t.UTC(), nil
}

// action appends one to the event, reusing storage.
func (e *Event) action() *Action {
	if len(e.Actions) < cap(e.Actions) {
		e.Actions = e.Actions[:len(e.Actions)+1]
		e.Actions[len(e.Actions)-1] = Action{}
	} else {
		e.Actions = append(e.Actions, Action{})
	}
	return &e.Actions[len(e.Actions)-1]
}

func (s *jsonlSource) actions(w value, e *Event) *Error {
	if w.kind() != '[' {
		return w.wrong("actions", "a list")
	}
	return w.each(func(i int, v value) (err *Error) {
		at := "actions[" + strconv.Itoa(i) + "]"
		if len(e.Actions) == MaxActions {
			return v.wrong(at, "at most %d actions", MaxActions)
		}
		a := e.action()
		switch v.kind() {
		case '[':
			a.X, err = v.list(e, at)
			return err
		case '"':
			a.ID = v.unquote()
			return nil
		case '{':
			return v.fields(func(key []byte, f value) (err *Error) {
				switch {
				case string(key) == "id":
					if a.ID, err = f.text(at + ".id"); err == nil && a.ID == "" {
						err = f.wrong(at+".id", "a text that is not empty")
					}
				case string(key) == "features" && f.kind() == '{':
					a.Named = f.raw
				case string(key) == "features":
					a.X, err = f.list(e, at+".features")
				default:
					err = bad(at+"."+shown(key), "an unknown key"+spec.Suggest(string(key), []string{"id", "features"}),
						"")
					err.Column, err.Reason = f.at+1, "unknown key"
				}
				return err
			})
		}
		return v.wrong(at, "an object with id and features, a list of numbers or an id")
	})
}

// slotKeys are the keys of a slot.
var slotKeys = []string{"id", "action", "features", "actions", "reward", "propensity", "law", "prefix", "marginal", "marginals", "shown",
	"target"}

func (s *jsonlSource) slots(w value, e *Event) *Error {
	if w.kind() != '[' {
		return w.wrong("slots", "a list")
	}
	return w.each(func(i int, v value) *Error {
		at := "slots[" + strconv.Itoa(i) + "]"
		if v.kind() != '{' {
			return v.wrong(at, "an object")
		}
		e.Slots = append(e.Slots, Slot{})
		o := &e.Slots[i]
		return v.fields(func(key []byte, f value) (err *Error) {
			switch string(key) {
			case "id":
				o.ID, err = f.text(at + ".id")
			case "action": // the id in an export
				_, err = f.text(at + ".action")
			case "features":
				if f.kind() != '{' {
					return f.wrong(at+".features", "an object of features")
				}
				o.Named = f.raw
			case "actions":
				if f.kind() != '[' {
					return f.wrong(at+".actions", "a list of indices, the chosen one first")
				}
				return f.each(func(_ int, a value) *Error {
					n, err := a.whole(at + ".actions")
					o.Allowed = append(o.Allowed, n)
					return err
				})
			case "reward":
				o.Reward, err = f.payoff(at + ".reward")
			case "propensity":
				o.Propensity, err = f.number(at + ".propensity")
			case "law":
				o.Law, err = f.list(e, at+".law")
			case "prefix":
				o.Prefix, err = f.number(at + ".prefix")
			case "marginal":
				o.Marginal, err = f.number(at + ".marginal")
			case "marginals":
				o.Marginals, err = f.list(e, at+".marginals")
			case "shown":
				switch string(f.raw) {
				case "true", "false":
					o.Hidden = string(f.raw) == "false"
				default:
					return f.wrong(at+".shown", "true or false")
				}
			case "target":
				o.Target, err = standing(f, e, at+".target")
			default:
				err = bad(at+"."+shown(key), "an unknown key"+spec.Suggest(string(key), slotKeys), "")
				err.Column, err.Reason = f.at+1, "unknown key"
			}
			return err
		})
	})
}

// finish decides K and the chosen action.
func (s *jsonlSource) finish(e *Event, action value, haveReward bool) *Error {
	e.K = kOf(e, s.r.o.Actions)
	if len(e.Slots) > 0 {
		if action.raw != nil {
			return action.wrong("action", "actions in slots only, where there are slots")
		}
		e.OneReward = haveReward
		for i := range e.Slots {
			if len(e.Slots[i].Allowed) == 0 {
				return bad("slots["+strconv.Itoa(i)+"].actions", "none", "the chosen one first")
			}
		}
		return e.lawsOfLists()
	}
	if e.ListLaw != nil || e.TargetListLaw != nil {
		return bad("list_law", "a law of lists", "slots beside it")
	}
	if action.raw == nil {
		return bad("action", "missing", "the chosen action: an index or an id")
	}
	if !haveReward {
		return bad("reward", "missing", "a number")
	}
	if action.kind() == '"' {
		id := action.unquote()
		e.Chosen = -1
		for i := range e.Actions {
			if e.Actions[i].ID == id {
				if e.Chosen >= 0 {
					return action.wrong("action", "an id that one action has")
				}
				e.Chosen = i
			}
		}
		if e.Chosen < 0 && len(e.Actions) == 0 {
			at, ok, err := s.arms.find(strings.TrimSpace(id), s.r.o.IDs)
			if err == nil && !ok {
				err = bad("action", shown(action.raw), "an index, or an id (--actions NAME,NAME,… lists them where the lines "+
					"have no actions)")
			}
			if err != nil {
				err.Column = action.at + 1
				return err
			}
			e.Chosen = at
			s.arms.fill(e, e.K)
			e.K = kOf(e, s.r.o.Actions)
		}
		if e.Chosen < 0 {
			return action.wrong("action", "an index, or the id of one of the %d actions", len(e.Actions))
		}
	} else {
		n, err := action.whole("action")
		if err != nil {
			return err
		}
		if s.r.o.IDs == "1" {
			n--
		}
		if e.Chosen = n; s.arms.names != nil {
			s.arms.fill(e, e.K)
			e.K = kOf(e, s.r.o.Actions)
		}
	}
	if err := s.r.lawful(e, s.at[kPropensity]); err != nil {
		return err
	}
	if e.Propensity == 0 && s.at[kPropensity] == 0 && s.at[kPscore] == 0 {
		return bad("propensity", "missing", "the probability of the chosen action"+unrecorded("propensity"))
	}
	return nil
}

// kOf is the number of offered actions, from whatever says it.
func kOf(e *Event, given int) int {
	for _, n := range []int{len(e.Actions), len(e.Law), len(e.Target), len(e.Q), len(e.Group)} {
		if n > 0 {
			return n
		}
	}
	return given
}

// jsonlWriter writes our own form.
type jsonlWriter struct {
	w   byteWriter
	buf []byte
}

func (j *jsonlWriter) lost(*Event) []string { return nil }

func (j *jsonlWriter) write(e *Event) error {
	b := append(j.buf[:0], '{')
	key := func(name string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), '"', ':')
	}
	list := func(name string, x []float64) {
		if x != nil {
			key(name)
			b = appendList(b, x)
		}
	}
	if e.ID != "" {
		key("id")
		b = appendText(b, e.ID)
	}
	if !e.Time.IsZero() {
		key("time")
		b = append(e.Time.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	}
	if e.Named != nil {
		key("context")
		b = append(b, e.Named...)
	} else {
		list("context", e.Context)
	}
	if len(e.Actions) > 0 {
		key("actions")
		b = appendActions(b, e.Actions)
	}
	if len(e.Slots) == 0 {
		key("action")
		b = strconv.AppendInt(b, int64(e.Chosen), 10)
		key("reward")
		b = appendNumber(b, e.Reward)
		key("propensity")
		b = appendNumber(b, e.Propensity)
	}
	list("law", e.Law)
	list("target", e.Target)
	list("q", e.Q)
	if e.Group != nil {
		key("group")
		b = append(b, '[')
		for i, g := range e.Group {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, g)
		}
		b = append(b, ']')
	}
	if e.Drop != 0 {
		key("drop")
		b = appendNumber(b, e.Drop)
	}
	if e.Position != NoPosition {
		key("position")
		b = strconv.AppendInt(b, int64(e.Position), 10)
	}
	if len(e.Slots) > 0 {
		key("slots")
		b = appendSlots(b, e, true)
	}
	if e.OneReward {
		key("reward")
		b = appendNumber(b, e.Reward)
	}
	if e.ListLaw != nil {
		key("list_law")
		b = appendListLaw(b, e.ListLaw)
	}
	if e.TargetListLaw != nil {
		key("target_list_law")
		b = appendListLaw(b, e.TargetListLaw)
	}
	if e.Observed != nil {
		key("observed")
		b = append(b, e.Observed...)
	}
	if e.Unit != "" {
		key("unit")
		b = appendText(b, e.Unit)
	}
	b = append(b, '}', '\n')
	j.buf = b
	_, err := j.w.Write(b)
	return err
}

func (j *jsonlWriter) end() error { return nil }

func appendActions(b []byte, actions []Action) []byte {
	b = append(b, '[')
	for i := range actions {
		a := &actions[i]
		if i > 0 {
			b = append(b, ',')
		}
		if a.ID == "" && a.Named == nil && a.X != nil {
			b = appendList(b, a.X)
			continue
		}
		b = append(b, '{')
		if a.ID != "" {
			b = appendText(append(b, `"id":`...), a.ID)
		}
		if a.Named != nil || a.X != nil {
			if a.ID != "" {
				b = append(b, ',')
			}
			b = append(b, `"features":`...)
			if a.Named != nil {
				b = append(b, a.Named...)
			} else {
				b = appendList(b, a.X)
			}
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendSlots writes slots; laws says that the laws of whole lists, from which the rest follows, are written too.
func appendSlots(b []byte, e *Event, laws bool) []byte {
	b = append(b, '[')
	for i := range e.Slots {
		s := &e.Slots[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		if s.ID != "" {
			b = append(appendText(append(b, `"id":`...), s.ID), ',')
		}
		if s.Named != nil {
			b = append(append(append(b, `"features":`...), s.Named...), ',')
		}
		b = append(b, `"actions":[`...)
		for k, a := range s.Allowed {
			if k > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(a), 10)
		}
		b = append(b, ']')
		if !e.OneReward {
			b = appendNumber(append(b, `,"reward":`...), s.Reward)
		}
		for _, x := range []struct {
			name string
			p    float64
		}{{`,"propensity":`, s.Propensity}, {`,"prefix":`, s.Prefix}, {`,"marginal":`, s.Marginal}} {
			if x.p != 0 {
				b = appendNumber(append(b, x.name...), x.p)
			}
		}
		if s.Law != nil {
			b = appendList(append(b, `,"law":`...), s.Law)
		}
		if s.Marginals != nil && !(laws && e.ListLaw != nil) {
			b = appendList(append(b, `,"marginals":`...), s.Marginals)
		}
		if s.Hidden {
			b = append(b, `,"shown":false`...)
		}
		if s.Target != nil && !(laws && e.TargetListLaw != nil) {
			b = appendStanding(append(b, `,"target":`...), s.Target)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}
