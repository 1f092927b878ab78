package logged

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"troupe/dataset"
	"troupe/spec"
)

// table is a CSV file with a header.
type table struct {
	r      *Reader
	c      *csv.Reader
	header []string
	record []string

	outcomes int // rewards in columns of their own
}

func newTable(r *Reader, b *bufio.Reader) (*table, error) {
	t := &table{r: r}
	head, _ := b.Peek(1 << 12)
	head, _, _ = bytes.Cut(head, []byte("\n"))
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		b.Discard(3)
	}
	t.c = csv.NewReader(b)
	t.c.ReuseRecord = true
	for _, d := range ";\t" {
		if bytes.Count(head, []byte(string(d))) > bytes.Count(head, []byte(string(t.c.Comma))) {
			t.c.Comma = d
		}
	}
	h, err := t.c.Read()
	if err != nil {
		return nil, t.fault(err)
	}
	for _, name := range h {
		t.header = append(t.header, strings.TrimSpace(name))
	}
	seen := map[string]bool{}
	for _, name := range t.header {
		if seen[name] && name != "" {
			return nil, &Error{Line: 1, Found: "two columns " + strconv.Quote(name), Want: "every column once",
				fatal: true}
		}
		seen[name] = true
	}
	return t, nil
}

func (t *table) fault(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		want := strconv.Itoa(len(t.header)) + " fields, as the header has"
		if !errors.Is(err, csv.ErrFieldCount) {
			want = "a CSV line"
		}
		return &Error{Line: parse.Line, Column: parse.Column, Found: parse.Err.Error(), Want: want, Reason: "csv"}
	}
	if err == io.EOF {
		return err
	}
	return &Error{Found: err.Error(), Want: "a whole file", fatal: true}
}

func (t *table) next() (err error) {
	if t.record, err = t.c.Read(); err != nil {
		return t.fault(err)
	}
	return nil
}

func (t *table) place() (line, column, row int) {
	if t.record == nil {
		return 1, 0, 0
	}
	line, _ = t.c.FieldPos(0)
	return line, 0, 0
}

// at adds the place of a column.
func (t *table) at(e *Error, column int) *Error {
	if e.Line == 0 && column >= 0 && column < len(t.record) {
		e.Line, e.Column = t.c.FieldPos(column)
	} else if e.Line == 0 {
		e.Line, _, _ = t.place()
	}
	return e
}

// number reads a finite number of a column. The field stands in an error, with its index where that is not below 0.
func (t *table) number(field string, index, column int) (float64, *Error) {
	if x, ok := floatOf(t.record[column]); ok {
		return x, nil
	}
	s := strings.TrimSpace(t.record[column])
	if x, ok := floatOf(s); ok {
		return x, nil
	}
	if index >= 0 {
		field += "[" + strconv.Itoa(index) + "]"
	}
	return math.NaN(), t.at(bad(field, strconv.Quote(s), "a finite number"), column)
}

func floatOf(s string) (float64, bool) { return parseFloat(unsafe.Slice(unsafe.StringData(s), len(s))) }

// list reads the numbers of several columns.
func (t *table) list(e *Event, field string, columns []int) ([]float64, *Error) {
	x := e.numbers(len(columns))
	for i, c := range columns {
		var err *Error
		if x[i], err = t.number(field, i, c); err != nil {
			return x, err
		}
	}
	return x, nil
}

func (t *table) whole(field string, column int) (int, *Error) {
	n, ok := wholeNumber(strings.TrimSpace(t.record[column]))
	if !ok {
		return 0, t.at(bad(field, strconv.Quote(t.record[column]), "a whole number"), column)
	}
	return n, nil
}

// reward reads a number, or True and False as 1 and 0.
func (t *table) reward(column int) (float64, *Error) {
	x, err := t.number("reward", -1, column)
	if err != nil {
		switch strings.ToLower(strings.TrimSpace(t.record[column])) {
		case "true":
			return 1, nil
		case "false":
			return 0, nil
		}
	}
	return x, err
}

// outcomePrefix begins the columns of several rewards.
const outcomePrefix = "reward."

// outcome is the column of the reward: the one of Options.Outcome where the table has several.
func (t *table) outcome(column int) (int, error) {
	var names []string
	for _, h := range t.header {
		if name, ok := strings.CutPrefix(h, outcomePrefix); ok {
			names = append(names, name)
		}
	}
	switch {
	case t.r.o.Outcome != "":
		if i := slices.Index(t.header, outcomePrefix+t.r.o.Outcome); i >= 0 {
			t.outcomes = len(names)
			return i, nil
		}
		return -1, noOutcome(t.r.o.Outcome, names)
	case column < 0 && len(names) > 0:
		return -1, severalOutcomes(names)
	}
	return column, nil
}

// noOutcome refuses a name that is no reward of the log.
func noOutcome(name string, names []string) *Error {
	return &Error{Line: 1, Field: "reward", Found: "no reward " + strconv.Quote(name) + spec.Suggest(name, names),
		Want: "a column " + outcomePrefix + name + ", or a key of the object reward", fatal: true}
}

// severalOutcomes refuses several rewards of which none was chosen.
func severalOutcomes(names []string) *Error {
	return &Error{Line: 1, Field: "reward", Found: "several: " + shortList(names), Want: "--outcome NAME; evaluate takes several", fatal: true}
}

// csvSource reads any table whose columns the caller names.
type csvSource struct {
	*table
	id, time, action, reward, propensity, drop, position, unit int // columns, −1: none
	context, law, target, q, group                             []int
	named                                                      bool            // the context is read by name
	gaps                                                       map[string]bool // texts that mark a missing value
	arms                                                       arms
	rows                                                       int
}

func newCSV(r *Reader, b *bufio.Reader) (source, error) {
	t, err := newTable(r, b)
	if err != nil {
		return nil, err
	}
	if slices.Contains(t.header, "slate_id") && r.o.Columns == nil {
		return t.slates()
	}
	s := &csvSource{table: t, named: len(r.o.Gaps) > 0, gaps: map[string]bool{"": true, "?": true}}
	for _, g := range append(slices.Clone(dataset.Gaps), r.o.Gaps...) {
		s.gaps[g] = true
	}
	if r.o.Names != nil {
		s.arms.set(r.o.Names, "--actions says")
		s.arms.places = true
	}
	for _, c := range []struct {
		into *int
		own  []string // names of columns, of which the first that is there is taken
	}{{&s.id, []string{"id"}}, {&s.time, []string{"time"}}, {&s.action, []string{"action"}}, {&s.reward, []string{"reward"}},
		{&s.propensity, []string{"propensity", "pscore"}}, {&s.drop, []string{"drop"}},
		{&s.position, []string{"position"}}, {&s.unit, []string{"unit"}}} {
		if *c.into, err = t.column(c.own); err != nil {
			return nil, err
		}
	}
	if s.reward, err = s.outcome(s.reward); err != nil {
		return nil, err
	}
	if i := slices.Index(t.header, r.o.Unit); i >= 0 && r.o.Unit != "" {
		s.unit = i
	}
	if err := s.lists(); err != nil {
		return nil, err
	}
	for _, need := range []struct {
		field string
		at    int
	}{{"action", s.action}, {"reward", s.reward}, {"propensity", s.propensity}} {
		if need.at < 0 && !(need.field == "propensity" && r.o.Logger != nil) {
			return nil, &Error{Line: 1, Field: need.field, Found: "no such column",
				Want: "--columns " + need.field + "=NAME with one of: " + strings.Join(t.header, ", ") + unrecorded(need.field), fatal: true}
		}
	}
	return s, nil
}

// find returns the columns of a field: those that Options.Columns names for it, otherwise its own names. A name that
// ends in * is a prefix. ends are the ends of names that were found by one prefix, nil otherwise.
func (t *table) find(field string, own []string) (at []int, ends []string, _ error) {
	names, given := t.r.o.Columns[field]
	if !given {
		names = own
	}
	for _, name := range names {
		if prefix, all := strings.CutSuffix(name, "*"); all {
			for i, h := range t.header {
				if strings.HasPrefix(h, prefix) && len(h) > len(prefix) {
					at, ends = append(at, i), append(ends, h[len(prefix):])
				}
			}
			if given && len(at) == 0 {
				return nil, nil, &Error{File: "--columns", Found: field + "=" + name, Want: "a prefix of columns of " +
					t.r.name + ": " + strings.Join(t.header, ", "), fatal: true}
			}
			continue
		}
		if i := slices.Index(t.header, name); i >= 0 {
			at = append(at, i)
		} else if given {
			return nil, nil, &Error{File: "--columns", Found: field + "=" + name + spec.Suggest(name, t.header), fatal: true}
		}
	}
	if len(names) > 1 { // columns that were listed one by one
		ends = nil
	}
	return at, ends, nil
}

// column returns the column of a field with one value, −1 where there is none. own[0] is the field.
func (t *table) column(own []string) (int, error) {
	at, _, err := t.find(own[0], own)
	switch _, given := t.r.o.Columns[own[0]]; {
	case err != nil || len(at) == 0:
		return -1, err
	case given && len(at) > 1:
		return -1, &Error{File: "--columns", Found: strconv.Itoa(len(at)) + " columns for " + own[0], Want: "one",
			fatal: true}
	}
	return at[0], nil
}

// lists finds the columns of the fields with several values, those of actions in the order of the actions.
func (s *csvSource) lists() error {
	at, ends, err := s.find("context", []string{"context_*"})
	if s.context = at; err != nil {
		return err
	}
	if ends != nil {
		counted(at, ends)
	}
	var lists []armList
	var of [][]int
	for _, l := range []struct {
		field string
		into  *[]int
	}{{"law", &s.law}, {"target", &s.target}, {"q", &s.q}, {"group", &s.group}} {
		at, ends, err := s.find(l.field, []string{l.field + "_*"})
		if *l.into = at; err != nil {
			return err
		}
		if len(at) == 0 {
			continue
		}
		list := armList{field: l.field, ends: ends}
		for _, c := range at {
			list.columns = append(list.columns, s.header[c])
		}
		lists, of = append(lists, list), append(of, at)
	}
	orders, err := s.arms.order(s.r, lists)
	if err != nil {
		return err
	}
	for i, order := range orders {
		columns := slices.Clone(of[i])
		for k, c := range order {
			of[i][k] = columns[c]
		}
	}
	return nil
}

func (s *csvSource) close() error { return nil }

func (s *csvSource) next(e *Event) error {
	if err := s.table.next(); err != nil {
		return err
	}
	if s.rows++; s.rows == 1 {
		for _, c := range s.context {
			if _, err := s.number("context", -1, c); err != nil {
				s.named = true
			}
		}
	}
	if err := s.event(e); err != nil {
		return s.at(err, s.columnOf(err.Field))
	}
	return nil
}

// columnOf is the column of a field of check.
func (s *csvSource) columnOf(field string) int {
	name, index, _ := strings.Cut(field, "[")
	i, _ := strconv.Atoi(strings.TrimSuffix(index, "]"))
	list := map[string][]int{"law": s.law, "target": s.target, "q": s.q, "context": s.context, "reward": {s.reward},
		"action":     {s.action},
		"propensity": {s.propensity}, "drop": {s.drop}, "position": {s.position}, "unit": {s.unit}, "id": {s.id}, "time": {s.time}}[name]
	if i < len(list) {
		return list[i]
	}
	return -1
}

func (s *csvSource) event(e *Event) (err *Error) {
	if s.id >= 0 {
		e.ID = strings.Clone(s.record[s.id])
	}
	e.Outcomes = s.outcomes
	if s.unit >= 0 {
		e.Unit = strings.Clone(strings.TrimSpace(s.record[s.unit]))
	}
	if s.time >= 0 && s.record[s.time] != "" {
		if e.Time, err = timeText(s.record[s.time]); err != nil {
			return err
		}
	}
	if err := s.readContext(e); err != nil {
		return err
	}
	for _, l := range []struct {
		field string
		from  []int
		into  *[]float64
	}{{"law", s.law, &e.Law}, {"target", s.target, &e.Target}, {"q", s.q, &e.Q}} {
		if l.from == nil {
			continue
		}
		if *l.into, err = s.list(e, l.field, l.from); err != nil {
			return err
		}
	}
	for _, c := range s.group {
		e.Group = append(e.Group, strings.Clone(s.record[c]))
	}
	if s.drop >= 0 && s.record[s.drop] != "" {
		if e.Drop, err = s.number("drop", -1, s.drop); err != nil {
			return err
		}
	}
	if s.position >= 0 && s.record[s.position] != "" {
		if e.Position, err = s.whole("position", s.position); err != nil {
			return err
		}
	}
	if err := s.chosen(e); err != nil {
		return err
	}
	if s.propensity >= 0 {
		if e.Propensity, err = s.number("propensity", -1, s.propensity); err != nil {
			return err
		}
		if e.Propensity == 0 {
			return bad("propensity", "0", "a number in (0, 1]")
		}
	}
	if err := s.r.lawful(e, 0); err != nil {
		return err
	}
	e.BadReward = true
	if err := e.check(&s.r.o); err != nil {
		return err
	}
	e.BadReward = false
	if e.Reward, err = s.table.reward(s.reward); err != nil {
		return err
	}
	return checkReward("reward", e.Reward, &s.r.o)
}

// chosen reads the action: a number or a name.
func (s *csvSource) chosen(e *Event) *Error {
	text := strings.TrimSpace(s.record[s.action])
	at, ok, err := s.arms.find(text, s.r.o.IDs)
	if err == nil && !ok {
		if err = s.collect(); err == nil {
			at, _, err = s.arms.find(text, s.r.o.IDs)
		}
	}
	if err != nil {
		return err
	}
	e.Chosen = at
	if e.K = kOf(e, s.r.o.Actions); s.arms.names != nil {
		s.arms.fill(e, e.K)
		e.K = kOf(e, s.r.o.Actions)
	}
	return nil
}

// collect looks through the column of actions for their names.
func (s *csvSource) collect() *Error {
	if len(s.law)+len(s.target)+len(s.q)+len(s.group) > 0 {
		return bad("action", strconv.Quote(s.record[s.action]), "a number: nothing says which column of a law is this "+
			"action's (--actions NAME,NAME,… lists the actions in the order of the columns)")
	}
	err := s.arms.collect(s.r, func(see func(string, int) bool) error {
		b, done, err := s.r.again()
		if err != nil {
			return err
		}
		defer done()
		t, err := newTable(&Reader{name: s.r.name, o: s.r.o}, b)
		for err == nil {
			var fault *Error
			if err = t.next(); errors.As(err, &fault) && !fault.fatal {
				err = nil // the reading itself finds it again
			} else if err == nil {
				if line, _, _ := t.place(); !see(strings.TrimSpace(t.record[s.action]), line) {
					return nil
				}
			}
		}
		if err == io.EOF {
			err = nil
		}
		return err
	})
	if err == nil {
		return nil
	}
	fault, other := asFault(err)
	if other != nil {
		fault = &Error{Found: other.Error(), Want: "a whole file", fatal: true}
	}
	return fault
}

func (s *csvSource) armNames() []string { return s.arms.names }

func (s *csvSource) readContext(e *Event) (err *Error) {
	switch {
	case s.context == nil:
		return nil
	case !s.named:
		if e.Context, err = s.list(e, "context", s.context); err == nil {
			return nil
		}
		for _, c := range s.context {
			if text := strings.TrimSpace(s.record[c]); s.gaps[text] {
				err := bad("context", strconv.Quote(text)+", a missing value", "a number, as in the first row (--gap NA reads "+
					"contexts by name, without missing values)")
				err.Field = s.header[c]
				return s.at(err, c)
			}
		}
		return err
	}
	at := len(e.buf)
	e.buf = append(e.buf, '{')
	for _, c := range s.context {
		text := s.record[c]
		x, number := floatOf(text)
		if !number {
			if text = strings.TrimSpace(text); s.gaps[text] {
				if text != "" {
					s.r.warn("column " + s.header[c] + ": " + text + " is read as missing")
				}
				continue
			}
			x, number = floatOf(text)
		}
		if len(e.buf) > at+1 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(appendText(e.buf, s.header[c]), ':')
		if number {
			e.buf = appendNumber(e.buf, x)
		} else {
			e.buf = appendText(e.buf, text)
		}
	}
	e.buf = append(e.buf, '}')
	e.Named = e.buf[at:len(e.buf):len(e.buf)]
	return nil
}

// timeForms are what tables write.
var timeForms = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999", "2006-01-02"}

func timeText(s string) (time.Time, *Error) {
	for _, f := range timeForms {
		if t, err := time.Parse(f, s); err == nil {
			return t.UTC(), nil
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil { // seconds since 1970
		return time.Unix(n, 0).UTC(), nil
	}
	return time.Time{}, bad("time", strconv.Quote(s), "a time such as 2026-05-04T10:00:00Z, or seconds since 1970")
}

// obdSource reads the Open Bandit Dataset: user features, and the affinity of the user to every item.
type obdSource struct {
	*table
	time, item, position, click, score int
	user, affinity                     []int
	items                              [][]byte // features of each item, as the start of an object
	ids                                []string

	// The row before, for impressions of several rows.
	last          time.Time
	lastUser      []byte
	lastPositions int   // a bit each
	ahead         Event // with Lists: the row that begins the next list
	read          bool  // ahead is one
	failed        error // what the row after the list was
}

func newOBD(r *Reader, b *bufio.Reader) (source, error) {
	t, err := newTable(r, b)
	if err != nil {
		return nil, err
	}
	s := &obdSource{table: t}
	if r.o.Lists && r.o.Position != "" {
		return nil, &Error{Field: "position", Found: "--lists and --position",
			Want: "one of them: a list has all positions", fatal: true}
	}
	for _, c := range []struct {
		name string
		into *int
	}{{"timestamp", &s.time}, {"item_id", &s.item}, {"position", &s.position}, {"click", &s.click},
		{"propensity_score", &s.score}} {
		if *c.into = slices.Index(t.header, c.name); *c.into < 0 {
			return nil, &Error{Line: 1, Field: c.name, Found: "no such column",
				Want: "the columns of the Open Bandit Dataset", fatal: true}
		}
	}
	for k := 0; ; k++ {
		i := slices.Index(t.header, "user-item_affinity_"+strconv.Itoa(k))
		if i < 0 {
			break
		}
		s.affinity = append(s.affinity, i)
	}
	for k := 0; ; k++ {
		i := slices.Index(t.header, "user_feature_"+strconv.Itoa(k))
		if i < 0 {
			break
		}
		s.user = append(s.user, i)
	}
	if len(s.affinity) == 0 {
		return nil, &Error{Line: 1, Field: "user-item_affinity_0", Found: "no such column",
			Want: "one for each item: they say how many items there are", fatal: true}
	}
	s.items, s.ids = make([][]byte, len(s.affinity)), make([]string, len(s.affinity))
	for k := range s.items {
		s.items[k], s.ids[k] = []byte("{"), strconv.Itoa(k)
	}
	return s, s.itemContext()
}

// itemContext reads item_context.csv beside the file, where it is.
func (s *obdSource) itemContext() error {
	name := filepath.Join(filepath.Dir(s.r.name), "item_context.csv")
	f, err := os.Open(name)
	if err != nil {
		s.r.warn("item_context.csv is not beside the file: items have no features")
		return nil
	}
	defer f.Close()
	t, err := newTable(&Reader{name: name, o: Options{}}, bufio.NewReader(f))
	var fault *Error
	named := func(err error) error {
		if errors.As(err, &fault) {
			fault.File, fault.fatal = name, true
		}
		return err
	}
	if err != nil {
		return named(err)
	}
	item := slices.Index(t.header, "item_id")
	if item < 0 {
		return &Error{File: name, Line: 1, Field: "item_id", Found: "no such column", fatal: true}
	}
	for {
		if err := t.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return named(err)
		}
		k, fault := t.whole("item_id", item)
		if fault == nil && (k < 0 || k >= len(s.items)) {
			fault = t.at(bad("item_id", strconv.Itoa(k), "an item from 0 to %d", len(s.items)-1), item)
		}
		if fault != nil {
			return named(fault)
		}
		b := []byte("{")
		for c, name := range t.header {
			if !strings.HasPrefix(name, "item_feature_") {
				continue
			}
			b = append(appendText(b, name), ':')
			if x, err := t.number(name, -1, c); err == nil {
				b = appendNumber(b, x)
			} else {
				b = appendText(b, t.record[c])
			}
			b = append(b, ',')
		}
		s.items[k] = b
	}
}

func (s *obdSource) close() error { return nil }

func (s *obdSource) next(e *Event) error {
	if !s.r.o.Lists {
		err := s.row(e)
		if err == nil && s.again(e) {
			s.r.warn("a row has the time and the user of the row before: one impression. Its rows are not " +
				"independent; --lists makes one event of them, --position keeps one position")
		}
		return err
	}
	if err := s.failed; err != nil {
		s.failed = nil
		return err
	}
	if !s.read {
		s.ahead.reset()
		if err := s.row(&s.ahead); err != nil {
			return err
		}
		s.again(&s.ahead)
	}
	*e, s.ahead = s.ahead, *e
	s.slot(e, e)
	for {
		s.ahead.reset()
		err := s.row(&s.ahead)
		if skip := errSkip(""); errors.As(err, &skip) {
			s.r.skipped[string(skip)]++
			continue
		}
		if s.failed, s.read = err, err == nil; err != nil || !s.again(&s.ahead) {
			break
		}
		s.slot(e, &s.ahead)
	}
	e.Chosen, e.Reward, e.Propensity, e.Law, e.Position = 0, 0, 0, nil, NoPosition
	if err := e.check(&s.r.o); err != nil {
		return s.at(err, -1)
	}
	return nil
}

// again reports whether a row belongs to the impression of the row before, and remembers it.
func (s *obdSource) again(e *Event) bool {
	bit := 1 << min(e.Position, 62)
	same := s.lastPositions&bit == 0 && s.lastPositions != 0 && s.last.Equal(e.Time) && bytes.Equal(s.lastUser, e.Named)
	if !same {
		s.last, s.lastUser, s.lastPositions = e.Time, append(s.lastUser[:0], e.Named...), 0
	}
	s.lastPositions |= bit
	return same
}

// slot adds a row to a list. Its id is the position as the file counts. The propensity of an Open Bandit file is the probability of
// the item at the position, whatever stands above.
func (s *obdSource) slot(list, row *Event) {
	x := Slot{ID: strconv.Itoa(row.Position + 1), Allowed: []int{row.Chosen}, Reward: row.Reward,
		Marginal: row.Propensity}
	for k := range list.K {
		if k != row.Chosen {
			x.Allowed = append(x.Allowed, k)
		}
	}
	if row.Law != nil {
		x.Marginals = slices.Clone(row.Law)
	}
	list.Slots = append(list.Slots, x)
}

func (s *obdSource) row(e *Event) error {
	if err := s.table.next(); err != nil {
		return err
	}
	skip, err := s.event(e)
	if err != nil {
		c := map[string]int{"action": s.item, "reward": s.click, "propensity": s.score, "position": s.position,
			"time": s.time}
		column, ok := c[reasonOf(err.Field)]
		if !ok {
			column = -1
		}
		return s.at(err, column)
	}
	if skip != "" {
		return errSkip(skip)
	}
	return nil
}

func (s *obdSource) event(e *Event) (skip string, err *Error) {
	if s.r.o.Position != "" && s.record[s.position] != s.r.o.Position {
		return "of another position", nil
	}
	if e.Time, err = timeText(s.record[s.time]); err != nil {
		return "", err
	}
	if e.Chosen, err = s.whole("action", s.item); err != nil {
		return "", err
	}
	if e.Position, err = s.whole("position", s.position); err != nil {
		return "", err
	}
	if e.Position--; e.Position < 0 {
		return "", bad("position", s.record[s.position], "a position from 1")
	}
	if e.Propensity, err = s.number("propensity", -1, s.score); err != nil {
		return "", err
	}
	e.K = len(s.affinity)
	at := len(e.buf)
	e.buf = append(e.buf, '{')
	for i, c := range s.user {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(append(append(e.buf, '"'), s.header[c]...), '"', ':')
		e.buf = appendText(e.buf, s.record[c])
	}
	e.buf = append(e.buf, '}')
	e.Named = e.buf[at:len(e.buf):len(e.buf)]
	for k, c := range s.affinity {
		x, err := s.number("user-item_affinity_", k, c)
		if err != nil {
			err.Field, err.Reason = s.header[c], "user-item_affinity"
			return "", err
		}
		a := e.action()
		at := len(e.buf)
		e.buf = append(append(e.buf, s.items[k]...), `"affinity":`...)
		e.buf = append(appendNumber(e.buf, x), '}')
		a.ID, a.Named = s.ids[k], e.buf[at:len(e.buf):len(e.buf)]
	}
	if err := s.r.lawful(e, 0); err != nil {
		return "", err
	}
	e.BadReward = true
	if err := e.check(&s.r.o); err != nil {
		return "", err
	}
	e.BadReward = false
	if e.Reward, err = s.reward(s.click); err != nil {
		return "", err
	}
	return "", checkReward("reward", e.Reward, &s.r.o)
}
