package logged

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"troupe/spec"
)

// leaf reads one column of numbers or texts row by row, without the others: a page is decoded at a time.
type leaf struct {
	f      *parquet.File
	name   string // the column at the top, or below structs
	path   string
	index  int
	rep    int // repetition levels of the column
	null   int // definition level below which the whole field is null
	nanos  int64
	text   bool // a column of texts, and no part of another one
	group  int
	pages  parquet.Pages
	values parquet.ValueReader
	buf    []parquet.Value
	at, n  int
}

// peek returns the next value; nil at the end.
func (c *leaf) peek() (*parquet.Value, error) {
	for c.at == c.n {
		if c.values == nil {
			if c.pages == nil {
				groups := c.f.RowGroups()
				if c.group == len(groups) {
					return nil, nil
				}
				c.pages = groups[c.group].ColumnChunks()[c.index].Pages()
				c.group++
			}
			p, err := c.pages.ReadPage()
			if err == io.EOF {
				c.pages.Close()
				c.pages = nil
				continue
			}
			if err != nil {
				return nil, err
			}
			c.values = p.Values()
		}
		n, err := c.values.ReadValues(c.buf)
		if err != nil && err != io.EOF {
			return nil, err
		}
		c.at, c.n = 0, n
		if err == io.EOF {
			c.values = nil
		}
	}
	return &c.buf[c.at], nil
}

// row calls f for each value of the next row; null is true for a row where the field is null.
func (c *leaf) row(f func(v *parquet.Value) *Error) (null bool, _ *Error, _ error) {
	first := true
	var fault *Error
	for {
		v, err := c.peek()
		if err != nil {
			return false, nil, err
		}
		if v == nil {
			if first {
				return false, nil, io.ErrUnexpectedEOF
			}
			return null, fault, nil
		}
		if !first && v.RepetitionLevel() == 0 {
			return null, fault, nil
		}
		if first && v.IsNull() && v.DefinitionLevel() < c.null {
			null = true
		}
		first = false
		if fault == nil && !null {
			fault = f(v)
		}
		c.at++
	}
}

// numberOf reads a number of any physical type.
func numberOf(v *parquet.Value) (float64, bool) {
	switch v.Kind() {
	case parquet.Double:
		return v.Double(), true
	case parquet.Float:
		return float64(v.Float()), true
	case parquet.Int32:
		return float64(v.Int32()), true
	case parquet.Int64:
		return float64(v.Int64()), true
	case parquet.Boolean:
		if v.Boolean() {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

type parquetSource struct {
	outcomes int      // rewards in columns of their own
	named    []string // their names, of an export
	r        *Reader
	f        *parquet.File
	fields   map[string][]*leaf // by key of an event, or by column of an export
	nested   []string           // columns below structs, such as user.id
	rows     int64
	row      int
	export   bool
	cut      bool
	exp      exportRow
	dec      *jsontext.Decoder
	buf      bytes.Buffer
	arms     arms
	looked   bool // the column of actions was looked through for names
	json     jsonlSource
}

// parquetFields are what a column can be.
var parquetFields = append(slices.Clone(jsonlKeys), "features")

func newParquet(r *Reader, f *os.File, size int64) (source, error) {
	p, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, &Error{Found: err.Error(), Want: "a Parquet file", fatal: true}
	}
	s := &parquetSource{r: r, f: p, fields: map[string][]*leaf{}, rows: p.NumRows(),
		dec: jsontext.NewDecoder(bytes.NewReader(nil))}
	s.json = jsonlSource{jsonLines: jsonLines{r: r}}
	var names []string
	leaves := map[string][]*leaf{}
	for _, top := range p.Root().Columns() {
		parts := s.parts(top, leaves)
		if top.Name() != "reward" || parts == nil { // a struct of rewards is that of several outcomes
			names = append(names, top.Name())
			s.leaves(top, top.Name(), 0, leaves)
			s.nested = append(s.nested, parts...)
			continue
		}
		names = append(names, parts...)
	}
	s.export = slices.Contains(names, "basis_seq") && slices.Contains(names, "num") && slices.Contains(names, "event")
	if r.o.Format == "export" && !s.export {
		return nil, &Error{Found: "Parquet with the columns " + strings.Join(names, ", "),
			Want: "those of troupe log export", fatal: true}
	}
	if s.export {
		r.format = "export"
		for _, name := range exportKeys {
			s.fields[name] = leaves[name]
		}
		for _, n := range names {
			if name, ok := strings.CutPrefix(n, outcomePrefix); ok {
				s.named, s.fields[n] = append(s.named, name), leaves[n]
			}
		}
		return s, nil
	}
	return s, s.choose(names, leaves)
}

// parts lists the columns below a struct, such as reward.click, nil where the column is none. Lists and maps are not looked into.
func (s *parquetSource) parts(c *parquet.Column, into map[string][]*leaf) (names []string) {
	if c.Leaf() || c.Repeated() || c.Type().LogicalType() != nil {
		return nil
	}
	for _, child := range c.Columns() {
		if !child.Leaf() {
			names = append(names, s.parts(child, into)...)
			continue
		}
		if child.MaxRepetitionLevel() > 0 {
			continue
		}
		name := strings.Join(child.Path(), ".")
		s.leaves(child, name, 0, into)
		names = append(names, name)
	}
	return names
}

// leaves lists the columns of numbers and texts below a node.
func (s *parquetSource) leaves(c *parquet.Column, top string, depth int, into map[string][]*leaf) {
	if c.Leaf() {
		l := &leaf{f: s.f, name: top, path: strings.Join(c.Path(), "."), index: c.Index(), rep: c.MaxRepetitionLevel(),
			buf: make([]parquet.Value, 256), text: depth == 0 && c.Type().Kind() == parquet.ByteArray}
		if c := s.f.Root().Column(top); c != nil && c.Optional() {
			l.null = 1
		}
		if l.rep == 0 {
			l.null = c.MaxDefinitionLevel()
		}
		if lt := c.Type().LogicalType(); lt != nil {
			if stamp, ok := lt.Value.(*format.TimestampType); ok {
				switch stamp.Unit.Value.(type) {
				case *format.MilliSeconds:
					l.nanos = 1e6
				case *format.MicroSeconds:
					l.nanos = 1e3
				default:
					l.nanos = 1
				}
			}
		}
		into[top] = append(into[top], l)
		return
	}
	if depth < 16 {
		for _, child := range c.Columns() {
			s.leaves(child, top, depth+1, into)
		}
	}
}

// choose finds the columns of an event: by --columns, by our names, or by our prefixes.
func (s *parquetSource) choose(names []string, leaves map[string][]*leaf) error {
	if s.r.o.Names != nil {
		s.arms.set(s.r.o.Names, "--actions says")
		s.arms.places = true
	}
	used, all := map[string]bool{}, slices.Concat(names, s.nested)
	var lists []armList
	for _, field := range parquetFields {
		columns, ends, err := s.columnsOf(field, all, used)
		if err != nil {
			return err
		}
		switch field {
		case "law", "target", "q", "group":
			if ends != nil || len(columns) > 1 {
				lists = append(lists, armList{field: field, columns: columns, ends: ends})
				continue
			}
		case "context":
			columns = numbered(columns, ends)
		}
		for _, n := range columns {
			s.fields[field] = append(s.fields[field], leaves[n]...)
		}
	}
	if err := s.findOutcomes(names, used); err != nil {
		return err
	}
	orders, err := s.arms.order(s.r, lists)
	if err != nil {
		return err
	}
	for i, order := range orders {
		for _, c := range order {
			s.fields[lists[i].field] = append(s.fields[lists[i].field], leaves[lists[i].columns[c]]...)
		}
	}
	for _, n := range s.nested { // what is used of a struct is all of it
		if top, _, _ := strings.Cut(n, "."); used[n] {
			used[top] = true
		}
	}
	return s.complete(names, used)
}

// columnsOf returns the columns of a field of an event, and notes them as used. ends are what stands behind the prefix of
// each, where one prefix names them all.
func (s *parquetSource) columnsOf(field string, names []string, used map[string]bool) (columns, ends []string, err error) {
	wanted, given := s.r.o.Columns[field]
	switch {
	case given:
	case field == "reward" && s.r.o.Outcome != "":
		wanted = []string{outcomePrefix + s.r.o.Outcome}
	case field == "unit" && slices.Contains(names, s.r.o.Unit):
		wanted = []string{s.r.o.Unit}
	case !slices.Contains(names, field) && slices.Contains([]string{"context", "law", "target", "q", "group"}, field):
		wanted = []string{field + "_*"}
	default:
		wanted = []string{field}
	}
	for _, name := range wanted {
		prefix, all := strings.CutSuffix(name, "*")
		found := false
		for _, n := range names {
			if n == name || all && strings.HasPrefix(n, prefix) && len(n) > len(prefix) {
				columns = append(columns, n)
				if all && len(wanted) == 1 {
					ends = append(ends, n[len(prefix):])
				}
				found, used[n] = true, true
			}
		}
		if given && !found {
			return nil, nil, &Error{File: "--columns", Found: field + "=" + name + spec.Suggest(name, names), fatal: true}
		}
	}
	return columns, ends, nil
}

// numbered returns columns in the order of the numbers at their ends, and as they are without ends.
func numbered(columns, ends []string) []string {
	if ends == nil {
		return columns
	}
	at := make([]int, len(columns))
	for i := range at {
		at[i] = i
	}
	counted(at, ends)
	out := make([]string, len(columns))
	for i, k := range at {
		out[i] = columns[k]
	}
	return out
}

// findOutcomes counts the columns of outcomes, of which one must be the reward.
func (s *parquetSource) findOutcomes(names []string, used map[string]bool) error {
	var outcomes []string
	for _, n := range names {
		if name, ok := strings.CutPrefix(n, outcomePrefix); ok {
			outcomes, used[n] = append(outcomes, name), true
		}
	}
	switch s.outcomes = len(outcomes); {
	case len(s.fields["reward"]) > 0:
	case s.r.o.Outcome != "":
		return noOutcome(s.r.o.Outcome, outcomes)
	case len(outcomes) > 0:
		return severalOutcomes(outcomes)
	}
	return nil
}

// complete refuses columns that are not known, and a table without one that an event needs.
func (s *parquetSource) complete(names []string, used map[string]bool) error {
	if s.r.o.Columns == nil {
		for _, n := range names {
			if !used[n] {
				return &Error{Field: n, Found: "an unknown column" + spec.Suggest(n, parquetFields),
					Want: "the columns of an event; --columns names those of another table", fatal: true}
			}
		}
	}
	need := []string{"action", "reward", "propensity"}
	if len(s.fields["slots"]) > 0 {
		need = nil
	}
	for _, n := range need {
		if len(s.fields[n]) == 0 && !(n == "propensity" && (s.r.o.Logger != nil || len(s.fields["pscore"]) > 0)) {
			return &Error{Field: n, Found: "no such column", Want: "--columns " + n + "=NAME with one of: " +
				strings.Join(names, ", ") + unrecorded(n), fatal: true}
		}
	}
	return nil
}

func (s *parquetSource) close() error {
	for _, ls := range s.fields {
		for _, l := range ls {
			if l.pages != nil {
				l.pages.Close()
			}
		}
	}
	return nil
}

func (s *parquetSource) place() (line, column, row int) { return 0, 0, s.row }

func (s *parquetSource) next(e *Event) error {
	if int64(s.row) >= s.rows {
		return io.EOF
	}
	s.row++
	var fault *Error
	var err error
	if s.export {
		if fault, err = s.exported(e); err == nil && fault == nil {
			err = s.exp.fill(s.r, e, &s.cut)
			if errors.As(err, &fault) {
				err = nil
			}
		}
	} else {
		fault, err = s.event(e)
	}
	if err != nil {
		var skip errSkip
		if errors.As(err, &skip) {
			return err
		}
		return &Error{Row: s.row, Found: err.Error(), Want: "a whole Parquet file", fatal: true}
	}
	if fault != nil {
		fault.Row = s.row
		return fault
	}
	return nil
}

// numbers reads a field of numbers; several columns follow each other.
func (s *parquetSource) numbers(e *Event, field string) ([]float64, *Error, error) {
	var first *Error
	at, none := len(e.num), true
	for _, l := range s.fields[field] {
		null, fault, err := l.row(func(v *parquet.Value) *Error {
			if v.IsNull() {
				if l.rep > 0 && v.DefinitionLevel() <= l.null { // an empty list
					return nil
				}
				return bad(field+"["+strconv.Itoa(len(e.num)-at)+"]", "null", "a finite number")
			}
			x, ok := numberOf(v)
			if !ok || x-x != 0 {
				found := "a text"
				if ok {
					found = number(x)
				}
				return bad(field+"["+strconv.Itoa(len(e.num)-at)+"]", found, "a finite number")
			}
			e.num = append(e.num, x)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = fault
		}
		none = none && null
	}
	if len(e.num) == at {
		return nil, first, nil
	}
	return e.num[at:len(e.num):len(e.num)], first, nil
}

// one reads a field of one number.
func (s *parquetSource) one(e *Event, field string) (x float64, is bool, _ *Error, _ error) {
	if len(s.fields[field]) == 0 {
		return 0, false, nil, nil
	}
	l := s.fields[field][0]
	null, fault, err := l.row(func(v *parquet.Value) *Error {
		if v.IsNull() {
			return nil
		}
		var ok bool
		if x, ok = numberOf(v); !ok || x-x != 0 {
			return bad(field, shown([]byte(v.String())), "a finite number")
		}
		is = true
		return nil
	})
	return x, is && !null, fault, err
}

// text reads a field of one text.
func (s *parquetSource) text(field string) (string, error) {
	if len(s.fields[field]) == 0 {
		return "", nil
	}
	out := ""
	_, _, err := s.fields[field][0].row(func(v *parquet.Value) *Error {
		if !v.IsNull() {
			out = string(v.ByteArray())
		}
		return nil
	})
	return out, err
}

// label reads a field of one text or number, as text.
func (s *parquetSource) label(field string) (string, error) {
	if len(s.fields[field]) == 0 {
		return "", nil
	}
	out := ""
	_, _, err := s.fields[field][0].row(func(v *parquet.Value) *Error {
		switch {
		case v.IsNull():
		case v.Kind() == parquet.ByteArray, v.Kind() == parquet.FixedLenByteArray:
			out = string(v.ByteArray())
		case v.Kind() == parquet.Double, v.Kind() == parquet.Float:
			if x, ok := numberOf(v); ok && x == x { // pandas makes floats of whole numbers with a gap
				out = number(x)
			}
		default:
			out = v.String()
		}
		return nil
	})
	return out, err
}

// object checks a JSON text and keeps it.
func (s *parquetSource) object(e *Event, field string, text []byte, kind byte) ([]byte, *Error) {
	at := len(e.buf)
	e.buf = append(e.buf, text...)
	v, fault := validJSON(s.dec, &s.buf, e.buf[at:len(e.buf):len(e.buf)])
	if fault == nil && v.kind() != kind {
		fault = bad(field, shown(text), "a JSON text that begins with %c", kind)
	}
	if fault != nil {
		fault.Field, fault.Column = field, 0
		return nil, fault
	}
	return v.raw, nil
}

func (s *parquetSource) isText(field string) bool {
	ls := s.fields[field]
	return len(ls) == 1 && ls[0].rep == 0 && ls[0].text
}

// event reads a row. Every column is read whatever is found, so that they stay in step; the first fault is kept.
func (s *parquetSource) event(e *Event) (*Error, error) {
	var first *Error
	keep := func(fault *Error) {
		if first == nil && fault != nil {
			first = fault
		}
	}
	id, err := s.text("id")
	if err != nil {
		return nil, err
	}
	e.ID = id
	e.Outcomes = s.outcomes
	if e.Unit, err = s.label("unit"); err != nil {
		return nil, err
	}
	if err := s.time(e); err != nil {
		return nil, err
	}
	if err := s.features(e, keep); err != nil {
		return nil, err
	}
	fault, err := s.actions(e, "actions")
	if err != nil {
		return nil, err
	}
	keep(fault)
	if err := s.laws(e, keep); err != nil {
		return nil, err
	}
	if err := s.group(e); err != nil {
		return nil, err
	}
	var reward *Error
	haveReward, havePropensity := false, false
	for _, l := range []struct {
		field string
		set   func(x float64)
	}{
		{"drop", func(x float64) { e.Drop = x }},
		{"propensity", func(x float64) { e.Propensity, havePropensity = x, true }},
		{"pscore", func(x float64) { e.Propensity, havePropensity = x, true }},
		{"reward", func(x float64) { e.Reward, haveReward = x, true }},
		{"position", func(x float64) { e.Position = int(x) }},
	} {
		x, is, fault, err := s.one(e, l.field)
		if err != nil {
			return nil, err
		}
		if l.field == "reward" {
			reward = fault
			haveReward = haveReward || fault != nil
		} else {
			keep(fault)
		}
		if is && fault == nil {
			l.set(x)
		}
	}
	if err := s.objects(e, keep); err != nil {
		return nil, err
	}
	fault, err = s.chosen(e)
	if err != nil {
		return nil, err
	}
	if first != nil {
		return first, nil
	}
	return s.finish(e, fault, reward, haveReward, havePropensity), nil
}

// features reads what is known of the situation: named values, or numbers.
func (s *parquetSource) features(e *Event, keep func(*Error)) error {
	for _, field := range []string{"context", "features"} {
		if len(s.fields[field]) == 0 {
			continue
		}
		if field == "features" || s.isText(field) {
			text, err := s.text(field)
			if err != nil {
				return err
			}
			if text != "" {
				raw, fault := s.object(e, field, []byte(text), '{')
				keep(fault)
				e.Named = raw
			}
			continue
		}
		x, fault, err := s.numbers(e, field)
		if err != nil {
			return err
		}
		keep(fault)
		e.Context = x
	}
	return nil
}

// laws reads the lists that have a number for each action.
func (s *parquetSource) laws(e *Event, keep func(*Error)) error {
	for _, l := range []struct {
		field string
		into  *[]float64
	}{{"law", &e.Law}, {"target", &e.Target}, {"q", &e.Q}} {
		x, fault, err := s.numbers(e, l.field)
		if err != nil {
			return err
		}
		keep(fault)
		*l.into = x
	}
	return nil
}

// group reads what an event belongs to.
func (s *parquetSource) group(e *Event) error {
	for _, l := range s.fields["group"] {
		if _, _, err := l.row(func(v *parquet.Value) *Error {
			if !v.IsNull() {
				text := v.String()
				if v.Kind() == parquet.ByteArray {
					text = string(v.ByteArray())
				}
				e.Group = append(e.Group, text)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// objects reads the columns that hold JSON. Faults go to keep.
func (s *parquetSource) objects(e *Event, keep func(*Error)) error {
	for _, l := range []struct {
		field string
		kind  byte
	}{{"slots", '['}, {"observed", '['}} {
		text, err := s.text(l.field)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		raw, fault := s.object(e, l.field, []byte(text), l.kind)
		keep(fault)
		if fault == nil && l.field == "slots" {
			keep(s.json.slots(value{raw: raw}, e))
		} else {
			e.Observed = raw
		}
	}
	return nil
}

// finish checks the event, the reward last.
func (s *parquetSource) finish(e *Event, fault, reward *Error, haveReward, havePropensity bool) *Error {
	if len(e.Slots) > 0 {
		e.Chosen, e.OneReward = 0, haveReward
		return e.check(&s.r.o)
	}
	switch {
	case fault != nil:
		return fault
	case havePropensity && e.Propensity == 0:
		return bad("propensity", "0", "a number in (0, 1]")
	case !havePropensity && s.r.o.Logger == nil:
		return bad("propensity", "null", "a number in (0, 1]")
	case !haveReward:
		return bad("reward", "null", "a number")
	}
	if err := s.r.lawful(e, 0); err != nil {
		return err
	}
	e.BadReward = true
	if err := e.check(&s.r.o); err != nil {
		return err
	}
	e.BadReward = false
	if reward != nil {
		return reward
	}
	return checkReward("reward", e.Reward, &s.r.o)
}

func (s *parquetSource) time(e *Event) error {
	if len(s.fields["time"]) == 0 {
		return nil
	}
	l := s.fields["time"][0]
	_, _, err := l.row(func(v *parquet.Value) *Error {
		switch {
		case v.IsNull():
		case v.Kind() == parquet.Int64:
			e.Time = time.Unix(0, v.Int64()*max(l.nanos, 1)).UTC()
		case v.Kind() == parquet.ByteArray:
			e.Time, _ = timeText(string(v.ByteArray()))
		}
		return nil
	})
	return err
}

// chosen reads the action: an index, or an id among the actions, or an arm's name.
func (s *parquetSource) chosen(e *Event) (fault *Error, _ error) {
	if len(e.Actions) == 0 && len(s.fields["slots"]) == 0 {
		if err := s.collect(); err != nil {
			return asFault(err)
		}
		s.arms.fill(e, s.r.o.Actions)
	}
	e.K = kOf(e, s.r.o.Actions)
	if len(s.fields["action"]) == 0 {
		return nil, nil
	}
	is := false
	_, wrong, err := s.fields["action"][0].row(func(v *parquet.Value) *Error {
		if v.IsNull() {
			return nil
		}
		is = true
		if v.Kind() == parquet.ByteArray {
			return s.arm(e, v.ByteArray())
		}
		x, ok := numberOf(v)
		if !ok || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			return bad("action", shown([]byte(v.String())), "a whole number or an id")
		}
		if s.arms.names != nil {
			at, _, err := s.arms.find(strconv.FormatFloat(x, 'f', -1, 64), s.r.o.IDs)
			e.Chosen = at
			return err
		}
		if e.Chosen = int(x); s.r.o.IDs == "1" {
			e.Chosen--
		}
		return nil
	})
	if err == nil && wrong == nil && !is {
		wrong = bad("action", "null", "an index or an id")
	}
	return wrong, err
}

// arm finds an action by its text.
func (s *parquetSource) arm(e *Event, id []byte) *Error {
	for i := range e.Actions {
		if e.Actions[i].ID == string(id) {
			e.Chosen = i
			return nil
		}
	}
	if len(e.Actions) > 0 && s.arms.names == nil {
		return bad("action", shown(id), "the id of one of the %d actions", len(e.Actions))
	}
	at, ok, err := s.arms.find(strings.TrimSpace(string(id)), s.r.o.IDs)
	if err == nil && !ok {
		err = bad("action", shown(id), "a number: nothing says which column of a law is this action's (--actions "+
			"NAME,NAME,… lists the actions in the order of the columns)")
	}
	e.Chosen = at
	return err
}

// collect looks through a column of texts for the names of actions, before the first row is read.
func (s *parquetSource) collect() error {
	if s.looked || s.arms.names != nil || !s.isText("action") {
		return nil
	}
	s.looked = true
	for _, field := range []string{"law", "target", "q", "group"} {
		if len(s.fields[field]) > 0 {
			return nil
		}
	}
	own := s.fields["action"][0]
	look := &leaf{f: s.f, name: own.name, path: own.path, index: own.index, rep: own.rep, null: own.null,
		buf: make([]parquet.Value, 256)}
	defer func() {
		if look.pages != nil {
			look.pages.Close()
		}
	}()
	numbers, others := 0, 0
	each := func(see func(text string, at int) bool) error {
		for row := 1; ; row++ {
			more := true
			_, _, err := look.row(func(v *parquet.Value) *Error {
				if !v.IsNull() {
					more = see(strings.TrimSpace(string(v.ByteArray())), row)
				}
				return nil
			})
			if err == io.ErrUnexpectedEOF {
				return nil
			}
			if err != nil || !more {
				return err
			}
		}
	}
	var first string
	if err := each(func(text string, _ int) bool {
		if _, whole := wholeNumber(text); whole {
			numbers++
		} else if others++; others == 1 {
			first = text
		}
		return others == 0 || numbers == 0
	}); err != nil || others == 0 {
		return err
	}
	if numbers > 0 {
		return bad("action", strconv.Quote(first)+" beside numbers",
			"either numbers or names (--actions NAME,NAME,… lists the actions where all are names)")
	}
	if look.pages != nil {
		look.pages.Close()
	}
	*look = leaf{f: s.f, name: own.name, path: own.path, index: own.index, rep: own.rep, null: own.null, buf: look.buf}
	return s.arms.collect(s.r, each)
}

func (s *parquetSource) armNames() []string { return s.arms.names }

// actions reads the offered actions: a list of lists of numbers, or of groups with id, x and features.
func (s *parquetSource) actions(e *Event, field string) (*Error, error) {
	var first *Error
	for _, l := range s.fields[field] {
		at, i := 0, -1
		isID := strings.HasSuffix(l.path, ".id") || l.rep == 1 && strings.Count(l.path, ".") <= 2
		isNamed := strings.HasSuffix(l.path, ".features")
		_, fault, err := l.row(func(v *parquet.Value) *Error {
			if v.RepetitionLevel() <= 1 { // the next action
				if v.IsNull() && v.DefinitionLevel() <= l.null { // no action at all
					return nil
				}
				i++
				at = len(e.num)
				if i == MaxActions {
					return bad(field, "too many", "at most %d actions", MaxActions)
				}
				for len(e.Actions) <= i {
					e.action()
				}
			}
			a := &e.Actions[i]
			switch {
			case v.IsNull():
				return nil
			case isID || isNamed:
				if v.Kind() != parquet.ByteArray {
					return bad(fmt.Sprintf("%s[%d]", field, i), v.String(), "a text")
				}
				if isID {
					a.ID = string(v.ByteArray())
					return nil
				}
				raw, fault := s.object(e, fmt.Sprintf("%s[%d].features", field, i), v.ByteArray(), '{')
				a.Named = raw
				return fault
			}
			x, ok := numberOf(v)
			if !ok || x-x != 0 {
				return bad(fmt.Sprintf("%s[%d]", field, i), shown([]byte(v.String())), "finite numbers")
			}
			e.num = append(e.num, x)
			a.X = e.num[at:len(e.num):len(e.num)]
			return nil
		})
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = fault
		}
	}
	return first, nil
}

// exported reads a row of an export.
func (s *parquetSource) exported(e *Event) (*Error, error) {
	row := &s.exp
	*row = exportRow{reward: row.reward, cost: math.NaN(), outcomes: s.named, sparseRow: row.sparseRow[:0], sparseHash: row.sparseHash[:0],
		sparseValue: row.sparseValue[:0]}
	if row.reward == nil {
		row.reward = map[string]float64{}
	}
	clear(row.reward)
	for _, t := range []struct {
		field string
		into  *string
	}{{"event", &row.event}, {"event_id", &row.eventID}, {"model", &row.model}, {"mode", &row.mode},
		{"reward_state", &row.state}, {"action", &row.action}, {"unit", &row.unit}, {"group", &row.group},
		{"control_plays", &row.plays}} {
		text, err := s.text(t.field)
		if err != nil {
			return nil, err
		}
		*t.into = text
	}
	if err := s.time(e); err != nil {
		return nil, err
	}
	row.time = e.Time
	var first *Error
	keep := func(fault *Error) {
		if first == nil {
			first = fault
		}
	}
	for _, f := range []struct {
		field string
		set   func(x float64)
	}{
		{"row", func(x float64) { row.row = int(x) }}, {"offered", func(x float64) { row.offered = int(x) }},
		{"propensity", func(x float64) { row.propensity = x }}, {"rewards", func(x float64) { row.rewards = int(x) }},
		{"active", func(x float64) { row.active = x != 0 }}, {"expired", func(x float64) { row.expired = x != 0 }},
		{"reward_first", func(x float64) { row.reward["reward_first"] = x }},
		{"reward_sum", func(x float64) { row.reward["reward_sum"] = x }},
		{"reward_last", func(x float64) { row.reward["reward_last"] = x }},
		{"reward", func(x float64) { row.reward["reward"] = x }},
		{"default", func(x float64) { row.defaulted, row.hasDefault = x, true }},
		{"control", func(x float64) { row.share, row.hasShare = x, true }},
		{"cost", func(x float64) { row.cost = x }}, {"stopped", func(x float64) { row.stopped = x != 0 }},
		{"positions", func(x float64) { row.positions = int(x) }}, {"one_reward", func(x float64) { row.oneReward = x != 0 }},
	} {
		x, is, fault, err := s.one(e, f.field)
		if err != nil {
			return nil, err
		}
		if keep(fault); is {
			f.set(x)
		}
	}
	for _, name := range s.named {
		x, is, fault, err := s.one(e, outcomePrefix+name)
		if err != nil {
			return nil, err
		}
		if keep(fault); is {
			row.reward[outcomePrefix+name] = x
		}
	}
	var err error
	var fault *Error
	if row.law, fault, err = s.numbers(e, "law"); err != nil {
		return nil, err
	}
	keep(fault)
	if row.costs, fault, err = s.numbers(e, "costs"); err != nil {
		return nil, err
	}
	keep(fault)
	if fault, err = s.actions(e, "candidates"); err != nil {
		return nil, err
	}
	keep(fault)
	if fault, err = s.sparse(row); err != nil {
		return nil, err
	}
	keep(fault)
	return first, nil
}

// sparse reads the three columns of hashed features.
func (s *parquetSource) sparse(row *exportRow) (first *Error, _ error) {
	for _, column := range []string{"sparse_row", "sparse_hash", "sparse_value"} {
		for _, l := range s.fields[column] {
			_, fault, err := l.row(func(v *parquet.Value) *Error {
				switch {
				case v.IsNull():
				case column == "sparse_row" && v.Kind() == parquet.Int32:
					row.sparseRow = append(row.sparseRow, v.Int32())
				case column == "sparse_hash" && v.Kind() == parquet.Int64:
					row.sparseHash = append(row.sparseHash, v.Uint64())
				case column == "sparse_value" && v.Kind() == parquet.Double:
					row.sparseValue = append(row.sparseValue, v.Double())
				default:
					return bad(column, v.String(), "32-bit places, 64-bit hashes, float64 values")
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			if first == nil {
				first = fault
			}
		}
	}
	return first, nil
}
