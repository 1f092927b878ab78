package logged

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"troupe/spec"
)

// WriteOptions says how to write a file.
type WriteOptions struct {
	Format string // one of Formats; "" decides by the extension
	// Lossy writes events although the format cannot say all of them; Writer.Lost counts what was left out.
	Lossy bool
}

type byteWriter = io.Writer

// sink writes one format.
type sink interface {
	// lost names what of the event the format cannot say.
	lost(e *Event) []string
	write(e *Event) error
	end() error
}

// Writer writes the events of one file. The file appears under its name when it is whole. Not safe for
// concurrent use.
type Writer struct {
	name   string
	o      WriteOptions
	to     sink
	closed bool
	tmp    *os.File
	b      *bufio.Writer
	pack   io.WriteCloser
	lost   map[string]int
	events int
	ids    offered
}

// extensions of formats, for writing.
var extensions = map[string]string{".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet",
	".csv": "csv", ".npz": "npz",
	".vw": "vw", ".dat": "vw", ".dsjson": "dsjson"}

// FormatOf is the format of a name by its extension, "" when the extension says nothing.
func FormatOf(name string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	return extensions[strings.ToLower(filepath.Ext(base))]
}

// Create begins a file, "-" for stdout. It is written beside its name and renamed by Close; a name that ends in
// .gz or .zst is packed.
func Create(name string, o WriteOptions) (*Writer, error) {
	if o.Format == "" {
		if o.Format = FormatOf(name); o.Format == "" {
			return nil, &Error{File: name, Found: "an extension that names no format", Want: "--to " +
				strings.Join(Formats, "|"), fatal: true}
		}
	}
	if !slices.Contains(Formats, o.Format) {
		return nil, &Error{File: "--to", Found: strconv.Quote(o.Format) + spec.Suggest(o.Format, Formats), fatal: true}
	}
	w := &Writer{name: name, o: o, lost: map[string]int{}}
	if name == "-" {
		if o.Format == "npz" || o.Format == "parquet" {
			return nil, &Error{File: "stdout", Found: o.Format, Want: "a file", fatal: true}
		}
		w.b = bufio.NewWriterSize(os.Stdout, 1<<16)
	} else {
		tmp, err := os.CreateTemp(filepath.Dir(name), ".troupe-convert-*")
		if err != nil {
			return nil, &Error{File: name, Found: err.Error(), Want: "a file that can be written", fatal: true}
		}
		w.tmp, w.b = tmp, bufio.NewWriterSize(tmp, 1<<16)
	}
	var out io.Writer = w.b
	switch {
	case strings.HasSuffix(name, ".gz"):
		w.pack = gzip.NewWriter(w.b)
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewWriter(w.b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			w.Abort()
			return nil, err
		}
		w.pack = z
	}
	if w.pack != nil {
		if o.Format == "npz" || o.Format == "parquet" {
			w.Abort()
			return nil, &Error{File: name, Found: o.Format + " inside a packed file",
				Want: "the file itself: it is packed already", fatal: true}
		}
		out = w.pack
	}
	w.to = newSink(o.Format, out, filepath.Dir(name))
	return w, nil
}

func newSink(format string, out io.Writer, dir string) sink {
	switch format {
	case "jsonl":
		return &jsonlWriter{w: out}
	case "dsjson", "vw-json":
		return &dsjsonWriter{w: out, plain: format == "vw-json"}
	case "vw", "vw-flat":
		return &vwWriter{w: out, flat: format == "vw-flat"}
	case "csv":
		return &csvWriter{w: out}
	case "obd":
		return &obdWriter{w: out}
	case "npz":
		return &npzWriter{w: out, dir: dir}
	case "export":
		return &exportWriter{w: out}
	}
	return newParquetWriter(out)
}

// Lost counts the events of which something was left out, by what it was.
func (w *Writer) Lost() map[string]int { return w.lost }

// Write appends an event. An event that the format cannot say is an *Error that names what would be lost, unless
// WriteOptions.Lossy is set.
func (w *Writer) Write(e *Event) error {
	w.events++
	if e.BadReward {
		return &Error{File: w.name, Row: w.events, Field: "reward", Found: "damaged", Want: "a number", fatal: true}
	}
	lost := w.to.lost(e)
	if e.Outcomes > 1 {
		lost = append(lost, "the other rewards")
	}
	if e.Atoms != nil || slices.ContainsFunc(e.Actions, func(a Action) bool { return a.Atoms != nil }) {
		lost = append(lost, "hashed features, which only the log of a server has")
	}
	if len(lost) > 0 {
		if !w.o.Lossy {
			return &Error{File: w.name, Row: w.events, Found: titles[w.o.Format] + " cannot say: " +
				strings.Join(lost, ", "),
				Want: "--lossy to leave that out", fatal: true}
		}
		for _, l := range lost {
			w.lost[l]++
		}
	}
	err := unwritable(w.o.Format, e)
	if a, b := w.ids.twice(e); b >= 0 {
		err = sameID(e, a, b)
	}
	if err == nil {
		err = w.to.write(e)
	}
	if err != nil {
		var fault *Error
		if errors.As(err, &fault) {
			fault.File, fault.Row = w.name, w.events
		}
		return err
	}
	return nil
}

// unwritable refuses what could only be written as another event, or as one that no reader takes.
func unwritable(format string, e *Event) error {
	lists := format == "jsonl" || format == "parquet" || format == "dsjson"
	switch {
	case len(e.Slots) > 0 && !lists:
		return bad("slots", "a list", "a single decision: %s has no lists", titles[format])
	case len(e.Slots) == 0 && e.Law == nil && format == "dsjson":
		return bad("law", "missing", "the logger's whole law: without a and p a line of dsjson is no decision")
	case e.K == 0 && (format == "vw" || format == "obd" || format == "export" || format == "dsjson" ||
		format == "vw-json"):
		return bad("actions", "none", "the actions that were offered (--actions K)")
	}
	return nil
}

// Abort removes what was written. Nothing is left under the name, or what was there before.
func (w *Writer) Abort() {
	w.closed = true
	if c, ok := w.to.(interface{ abort() }); ok {
		c.abort()
	}
	if w.tmp != nil {
		w.tmp.Close()
		os.Remove(w.tmp.Name())
	}
}

// Close ends the file and gives it its name.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	err := w.to.end()
	if w.pack != nil {
		err = errors.Join(err, w.pack.Close())
	}
	err = errors.Join(err, w.b.Flush())
	if w.tmp == nil {
		w.closed = true
		return err
	}
	if err == nil {
		err = errors.Join(w.tmp.Chmod(0o644), w.tmp.Sync())
	}
	if err == nil {
		if err = w.tmp.Close(); err == nil {
			err = os.Rename(w.tmp.Name(), w.name)
		}
	}
	if err != nil {
		w.Abort()
	}
	w.closed = true
	return err
}

// saying collects what a format cannot say.
type saying []string

func (s *saying) no(is bool, what string) {
	if is {
		*s = append(*s, what)
	}
}

func anyX(e *Event) bool {
	return slices.ContainsFunc(e.Actions, func(a Action) bool { return a.X != nil })
}

func anyNamed(e *Event) bool {
	return slices.ContainsFunc(e.Actions, func(a Action) bool { return a.Named != nil })
}

func anyID(e *Event) bool {
	return slices.ContainsFunc(e.Actions, func(a Action) bool { return a.ID != "" })
}

// beside names what only JSON lines and Parquet have.
func (s *saying) beside(e *Event) {
	s.no(e.Target != nil, "the target's law")
	s.no(e.Q != nil, "q")
	s.no(e.Group != nil, "groups")
}

// unit is for formats that have none.
func (s *saying) unit(e *Event) { s.no(e.Unit != "", "units") }

// dsjsonWriter writes dsjson, ids from 1 and the chosen action first, and VW JSON.
type dsjsonWriter struct {
	w     byteWriter
	plain bool
	buf   []byte
}

func (d *dsjsonWriter) lost(e *Event) []string {
	var s saying
	s.beside(e)
	if d.plain {
		s.unit(e)
	}
	s.no(e.Context != nil, "a context as numbers without names")
	s.no(anyX(e), "features of actions as numbers without names")
	s.no(e.Position != NoPosition, "position")
	s.no(e.Time.Nanosecond()%100 != 0, "times below 100 ns")
	s.no(e.Time.Year() > 9999 || e.Time.Year() < 0, "a year of more than four digits")
	for _, a := range e.Actions {
		if a.Named == nil && a.X == nil {
			s.no(true, "an action without features, which is {} here")
			break
		}
	}
	if e.Named == nil && e.Context == nil {
		s.no(true, "a missing context, which is {} here")
	}
	if d.plain {
		s.no(e.Law != nil, "the logger's law")
		s.no(len(e.Slots) > 0, "lists")
		s.no(e.Observed != nil, "observations")
		return s
	}
	s.no(len(e.Slots) == 0 && e.Law == nil, "a propensity without the logger's whole law")
	s.no(e.ListLaw != nil || e.TargetListLaw != nil, "laws of whole lists")
	for _, o := range e.Slots {
		s.no(o.Propensity == 0, "a slot without its propensity given the entries above")
		s.no(e.ListLaw == nil && slateOf(e) == nil && (o.Prefix != 0 || o.Marginal != 0), "prefix and marginal probabilities")
		s.no(o.Hidden, "positions that were not shown")
		s.no(o.Target != nil, "a target's law")
		s.no(o.Law == nil && (len(o.Allowed) > 1 || o.Propensity == 1), "a slot's actions without their law")
		s.no(o.Law != nil && len(o.Allowed) == 1 && o.Propensity != 1,
			"a slot with one action and another propensity than 1")
	}
	for i := range e.Slots {
		if (e.Slots[i].Named == nil) != (e.Slots[0].Named == nil) {
			s.no(true, "slots of which some have features")
			break
		}
	}
	return s
}

func (d *dsjsonWriter) write(e *Event) error {
	b := append(d.buf[:0], '{')
	sep := func() {
		if len(b) > 1 {
			b = append(b, ',')
		}
	}
	if e.OneReward {
		b = appendNumber(append(b, `"_label_cost":`...), 0-e.Reward)
	}
	if len(e.Slots) == 0 {
		b = appendNumber(append(b, `"_label_cost":`...), 0-e.Reward)
		b = appendNumber(append(b, `,"_label_probability":`...), e.Propensity)
		b = strconv.AppendInt(append(b, `,"_label_Action":`...), int64(e.Chosen)+1, 10)
		b = strconv.AppendInt(append(b, `,"_labelIndex":`...), int64(e.Chosen), 10)
	}
	if e.ID != "" {
		sep()
		b = appendText(append(b, `"EventId":`...), e.ID)
	}
	if !e.Time.IsZero() {
		sep()
		b = append(e.Time.UTC().AppendFormat(append(b, `"Timestamp":"`...), "2006-01-02T15:04:05.0000000Z"), '"')
	}
	if e.Drop != 0 {
		sep()
		b = appendNumber(append(b, `"pdrop":`...), e.Drop)
	}
	if e.Unit != "" && !d.plain {
		sep()
		b = appendText(append(b, `"unit":`...), e.Unit)
	}
	if d.plain {
		b = d.context(append(b, ','), e)
	} else {
		sep()
		if len(e.Slots) == 0 && e.Law != nil {
			b = appendLaw(b, e)
		}
		b = append(d.context(append(b, `"c":{`...), e), '}')
		if len(e.Slots) > 0 {
			b = appendOutcomes(b, e)
		}
		if e.Observed != nil {
			b = append(append(b, `,"o":`...), e.Observed...)
		}
	}
	b = append(b, '}', '\n')
	d.buf = b
	_, err := d.w.Write(b)
	return err
}

// appendLaw writes a and p: ids from 1, the chosen one first.
func appendLaw(b []byte, e *Event) []byte {
	b = strconv.AppendInt(append(b, `"a":[`...), int64(e.Chosen)+1, 10)
	for k := range e.Law {
		if k != e.Chosen {
			b = strconv.AppendInt(append(b, ','), int64(k)+1, 10)
		}
	}
	b = appendNumber(append(b, `],"p":[`...), e.Law[e.Chosen])
	for k, p := range e.Law {
		if k != e.Chosen {
			b = appendNumber(append(b, ','), p)
		}
	}
	return append(b, ']', ',')
}

// context writes features, _multi and _slots.
func (d *dsjsonWriter) context(b []byte, e *Event) []byte {
	inner := func(named []byte) {
		if len(named) > 2 { // without its braces
			b = append(append(b, named[1:len(named)-1]...), ',')
		}
	}
	inner(e.Named)
	b = append(b, `"_multi":[`...)
	of := slateOf(e)
	for i := range e.K {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		if of != nil {
			b = append(strconv.AppendInt(append(b, `"_slot_id":`...), int64(of[i]), 10), ',')
		}
		if i < len(e.Actions) {
			a := &e.Actions[i]
			if a.ID != "" {
				b = append(appendText(append(b, `"_tag":`...), a.ID), ',')
			}
			inner(a.Named)
		}
		if b[len(b)-1] == ',' {
			b = b[:len(b)-1]
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if len(e.Slots) > 0 && e.Slots[0].Named != nil {
		b = append(b, `,"_slots":[`...)
		for i := range e.Slots {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '{')
			if e.Slots[i].ID != "" {
				b = append(appendText(append(b, `"_id":`...), e.Slots[i].ID), ',')
			}
			inner(e.Slots[i].Named)
			if b[len(b)-1] == ',' {
				b = b[:len(b)-1]
			}
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return b
}

// slateOf returns the slot of each action of a slate, whose slots are drawn independently, each from a set of its own; nil for
// another list.
func slateOf(e *Event) []int {
	if len(e.Slots) == 0 {
		return nil
	}
	if sets, _ := e.Sets(); sets != SetsOwn {
		return nil
	}
	of, n := make([]int, e.K), 0
	for i := range e.Slots {
		o := &e.Slots[i]
		if o.Propensity == 0 || o.Marginal != o.Propensity || o.Law == nil && len(o.Allowed) > 1 {
			return nil
		}
		for _, a := range o.Allowed {
			of[a] = i
			n++
		}
	}
	if n != e.K {
		return nil
	}
	return of
}

// inSlot is the number of an action among those of its slot.
func inSlot(of []int, a int) (n int) {
	for _, slot := range of[:a] {
		if slot == of[a] {
			n++
		}
	}
	return n
}

func appendOutcomes(b []byte, e *Event) []byte {
	b = append(b, `,"_outcomes":[`...)
	of := slateOf(e)
	for i := range e.Slots {
		o := &e.Slots[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		if o.ID != "" {
			b = append(appendText(append(b, `"_id":`...), o.ID), ',')
		}
		if !e.OneReward {
			b = append(appendNumber(append(b, `"_label_cost":`...), 0-o.Reward), ',')
		}
		b = append(b, `"_a":[`...)
		for k, a := range o.Allowed {
			if o.Law == nil && k > 0 {
				break
			}
			if k > 0 {
				b = append(b, ',')
			}
			if of != nil {
				a = inSlot(of, a)
			}
			b = strconv.AppendInt(b, int64(a), 10)
		}
		b = append(b, `],"_p":`...)
		if o.Law != nil {
			b = appendList(b, o.Law)
		} else {
			b = append(appendNumber(append(b, '['), o.Propensity), ']')
		}
		b = append(b, `,"_o":[]}`...)
	}
	return append(b, ']')
}

func (d *dsjsonWriter) end() error { return nil }

// vwWriter writes VW text: blocks, or one example a line.
type vwWriter struct {
	w    byteWriter
	flat bool
	buf  []byte
}

func (v *vwWriter) lost(e *Event) []string {
	var s saying
	s.beside(e)
	s.unit(e)
	s.no(e.Law != nil, "the logger's law")
	s.no(len(e.Slots) > 0, "lists")
	s.no(!e.Time.IsZero(), "times")
	s.no(e.Drop != 0, "drop")
	s.no(e.Position != NoPosition, "position")
	s.no(e.Observed != nil, "observations")
	s.no(e.Context != nil, "a context as numbers without names")
	s.no(anyX(e), "features of actions as numbers without names")
	s.no(!vwWord(e.ID), "an id with blanks, bars or quotes")
	s.no(!vwSayable(e.Named), "features that are not numbers or single words in namespaces")
	if v.flat {
		s.no(anyNamed(e), "features of actions")
		s.no(e.Named == nil, "a missing context, which is empty here")
		s.no(len(e.Actions) > 0 && !vwNumbered(e), "ids of actions that are not numbers from 1")
		return s
	}
	s.no(e.Named == nil && e.ID != "", "an id without a context")
	if len(e.Actions) == 0 {
		s.no(true, "actions without features, which are empty here")
	}
	for i := range e.Actions {
		a := &e.Actions[i]
		if a.Named == nil {
			s.no(true, "actions without features, which are empty here")
			break
		}
		if !vwWord(a.ID) || a.ID == "shared" {
			s.no(true, "ids of actions with blanks, bars or quotes")
			break
		}
		if !vwSayable(a.Named) {
			s.no(true, "features that are not numbers or single words in namespaces")
			break
		}
	}
	return s
}

// vwNumbered: the actions have different numbers from 1 as ids, so a line can list them. One action is no list.
func vwNumbered(e *Event) bool {
	seen := map[int]bool{}
	for i := range e.Actions {
		n, err := strconv.Atoi(e.Actions[i].ID)
		if err != nil || n < 1 || n > MaxActions || strconv.Itoa(n) != e.Actions[i].ID || seen[n] {
			return false
		}
		seen[n] = true
	}
	return len(e.Actions) > 1
}

// vwWord: a tag.
func vwWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == '|' || r == '\'' || unicode.IsSpace(r) })
}

// vwName: a name of a feature or namespace. "=" is allowed where a value follows.
func vwName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r == '|' || r == ':' || unicode.IsSpace(r) })
}

// vwFlatten calls f with every namespace, name and value, and space once for each namespace; false when the
// object has something that VW text cannot say.
func vwFlatten(named []byte, space func(name string), f func(name string, v value) bool) bool {
	if named == nil {
		return true
	}
	ok := true
	one := func(name string, w value) {
		if !vwName(name) {
			ok = false
			return
		}
		if w.kind() != '[' {
			ok = f(name, w) && ok
			return
		}
		n := 0
		w.each(func(_ int, x value) *Error {
			if n++; x.kind() != '"' {
				ok = false
				return nil
			}
			ok = f(name, x) && ok
			return nil
		})
		ok = ok && n > 1
	}
	top := false
	value{raw: named}.fields(func(key []byte, w value) *Error { // what has no namespace, first
		if w.kind() != '{' {
			if !top {
				space("")
				top = true
			}
			one(string(key), w)
		}
		return nil
	})
	value{raw: named}.fields(func(key []byte, w value) *Error {
		if w.kind() == '{' {
			if !vwName(string(key)) {
				ok = false
				return nil
			}
			space(string(key))
			w.fields(func(name []byte, x value) *Error {
				one(string(name), x)
				return nil
			})
		}
		return nil
	})
	return ok
}

// vwBreaks: a character that ends a word of VW text, or begins something else.
func vwBreaks(r rune) bool { return r == '|' || r == ':' || unicode.IsSpace(r) }

func vwSayable(named []byte) bool {
	return vwFlatten(named, func(string) {}, func(name string, v value) bool {
		switch v.kind() {
		case '"':
			text := v.unquote()
			return !strings.Contains(name, "=") && !strings.ContainsFunc(text, vwBreaks)
		case '{', '[', 't', 'f', 'n':
			return false
		}
		return true
	})
}

func appendVW(b, named []byte) []byte {
	began := false
	vwFlatten(named, func(name string) {
		if began {
			b = append(b, ' ')
		}
		b, began = append(append(b, '|'), name...), true
	}, func(name string, v value) bool {
		switch v.kind() {
		case '"':
			b = append(append(append(append(b, ' '), name...), '='), strings.Map(func(r rune) rune {
				if vwBreaks(r) {
					return '_'
				}
				return r
			}, v.unquote())...)
		case '{', '[', 'n', 'f':
		case 't':
			b = append(append(b, ' '), name...)
		default:
			x, _ := parseFloat(v.raw)
			b = appendNumber(append(append(append(b, ' '), name...), ':'), x)
		}
		return true
	})
	if !began {
		b = append(b, '|')
	}
	return b
}

func (v *vwWriter) write(e *Event) error {
	b := v.buf[:0]
	label := func(id int) {
		b = appendNumber(append(strconv.AppendInt(b, int64(id), 10), ':'), 0-e.Reward)
		b = append(appendNumber(append(b, ':'), e.Propensity), ' ')
	}
	tag := func(id string) {
		if id != "" && vwWord(id) { // what is left out is listed
			b = append(append(append(b, '\''), id...), ' ')
		}
	}
	if v.flat {
		listed := vwNumbered(e)
		if !listed {
			label(e.Chosen + 1)
		}
		for i := range e.Actions {
			if !listed {
				break
			}
			id, _ := strconv.Atoi(e.Actions[i].ID)
			if i == e.Chosen {
				label(id)
			} else {
				b = append(strconv.AppendInt(b, int64(id), 10), ' ')
			}
		}
		tag(e.ID)
		b = append(appendVW(b, e.Named), '\n')
	} else {
		if e.Named != nil {
			b = append(b, "shared "...)
			tag(e.ID)
			b = append(appendVW(b, e.Named), '\n')
		}
		for i := range e.K {
			if i == e.Chosen {
				label(i)
			}
			var named []byte
			if i < len(e.Actions) {
				tag(e.Actions[i].ID)
				named = e.Actions[i].Named
			}
			b = append(appendVW(b, named), '\n')
		}
		b = append(b, '\n')
	}
	v.buf = b
	_, err := v.w.Write(b)
	return err
}

func (v *vwWriter) end() error { return nil }

// shape is what a table or arrays fix with the first event.
type shape struct {
	is                    bool
	k, context            int
	law, target, q, group bool
	position              bool
}

func (s *shape) fix(e *Event) error {
	now := shape{is: true, k: e.K, context: len(e.Context), law: e.Law != nil, target: e.Target != nil, q: e.Q != nil,
		group:    e.Group != nil,
		position: e.Position != NoPosition}
	if !s.is {
		*s = now
		return nil
	}
	if s.k != now.k && (s.law || s.target || s.q || s.group) || s.context != now.context || s.law != now.law ||
		s.target != now.target ||
		s.q != now.q || s.group != now.group || s.position != now.position {
		return bad("event", fmt.Sprintf("%d actions, a context of %d numbers, law %v, target %v, q %v, position %v",
			now.k, now.context, now.law, now.target, now.q, now.position),
			"%d, %d, %v, %v, %v, %v as in the events before: a table has the same columns in every row", s.k, s.context,
			s.law, s.target, s.q, s.position)
	}
	return nil
}

// csvWriter writes a table with our own names of columns.
type csvWriter struct {
	units bool // the first event has a unit
	w     byteWriter
	shape shape
	ids   []string // of the actions, where the table has them: the same in every row
	buf   []byte
}

// csvNamed: the ids of the actions can be values of the column action and ends of the names of columns, and would be read
// as names.
func csvNamed(e *Event) bool {
	if e.Law == nil && e.Target == nil && e.Q == nil && e.Group == nil {
		return false
	}
	for i := range e.Actions {
		id := e.Actions[i].ID
		_, whole := wholeNumber(id)
		if id == "" || whole || strings.TrimLeft(id, "_-.: ") != id || strings.TrimSpace(id) != id ||
			strings.ContainsAny(id, "|\r\n") || !utf8.ValidString(id) {
			return false
		}
	}
	return true
}

func (c *csvWriter) lost(e *Event) []string {
	var s saying
	s.no(len(e.Slots) > 0, "lists")
	s.no(e.Named != nil, "a context with names")
	s.no(anyNamed(e) || anyX(e), "features of actions")
	s.no(anyID(e) && !csvNamed(e), "ids of actions that are numbers, or without a law or another list in columns")
	s.no(e.Observed != nil, "observations")
	s.no(e.K > 0 && e.Law == nil && e.Target == nil && e.Q == nil && e.Group == nil, "how many actions were offered")
	return s
}

func (c *csvWriter) write(e *Event) error {
	first := !c.shape.is
	if err := c.shape.fix(e); err != nil {
		return err
	}
	b := c.buf[:0]
	lists := []struct {
		name string
		x    []float64
	}{{"context", e.Context}, {"law", e.Law}, {"target", e.Target}, {"q", e.Q}}
	if first && anyID(e) && csvNamed(e) {
		for i := range e.Actions {
			c.ids = append(c.ids, e.Actions[i].ID)
		}
	}
	for i, id := range c.ids {
		if i >= len(e.Actions) || e.Actions[i].ID != id || len(e.Actions) != len(c.ids) {
			return bad("actions", "other ids than in the events before", "the same: a table has the same columns in every row")
		}
	}
	if first {
		b = append(b, "id,time,action,reward,propensity,drop,position"...)
		if c.units = e.Unit != ""; c.units {
			b = append(b, ",unit"...)
		}
		end := func(list string, i int) {
			if c.ids != nil && list != "context" {
				b = csvText(append(b, ','), list+"_"+c.ids[i])
			} else {
				b = strconv.AppendInt(append(append(append(b, ','), list...), '_'), int64(i), 10)
			}
		}
		for _, l := range lists {
			for i := range l.x {
				end(l.name, i)
			}
		}
		for i := range e.Group {
			end("group", i)
		}
		b = append(b, '\n')
	}
	b = append(csvText(b, e.ID), ',')
	if !e.Time.IsZero() {
		b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	}
	if b = append(b, ','); c.ids != nil {
		b = csvText(b, c.ids[e.Chosen])
	} else {
		b = strconv.AppendInt(b, int64(e.Chosen), 10)
	}
	b = appendNumber(append(b, ','), e.Reward)
	b = appendNumber(append(b, ','), e.Propensity)
	b = appendNumber(append(b, ','), e.Drop)
	b = append(b, ',')
	if e.Position != NoPosition {
		b = strconv.AppendInt(b, int64(e.Position), 10)
	}
	if c.units {
		b = csvText(append(b, ','), e.Unit)
	} else if e.Unit != "" {
		return bad("unit", shown([]byte(e.Unit)), "none, as in the first event: a table has the same columns in every row")
	}
	for _, l := range lists {
		for _, v := range l.x {
			b = appendNumber(append(b, ','), v)
		}
	}
	for _, g := range e.Group {
		b = csvText(append(b, ','), g)
	}
	b = append(b, '\n')
	c.buf = b
	_, err := c.w.Write(b)
	return err
}

func csvText(b []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n;\t ") {
		return append(b, s...)
	}
	if s == "" {
		return b
	}
	return append(append(append(b, '"'), strings.ReplaceAll(s, `"`, `""`)...), '"')
}

func (c *csvWriter) end() error { return nil }

// obdWriter writes the columns of the Open Bandit Dataset.
type obdWriter struct {
	w    byteWriter
	n, k int
	user int
	buf  []byte
}

// obdUser reads user_feature_0 … of a context; ok is false when it has anything else.
func obdUser(named []byte) (values []string, ok bool) {
	ok = true
	value{raw: named}.fields(func(key []byte, v value) *Error {
		if string(key) != "user_feature_"+strconv.Itoa(len(values)) || v.kind() != '"' {
			ok = false
			return nil
		}
		values = append(values, v.unquote())
		return nil
	})
	return values, ok
}

// obdAffinity reads the affinity of an action; more is true when the item has other features.
func obdAffinity(named []byte) (x float64, is, more bool) {
	value{raw: named}.fields(func(key []byte, v value) (err *Error) {
		if string(key) == "affinity" {
			x, err = v.number("affinity")
			is = err == nil
			return nil
		}
		more = true
		return nil
	})
	return
}

func (o *obdWriter) lost(e *Event) []string {
	var s saying
	s.beside(e)
	s.unit(e)
	s.no(len(e.Slots) > 0, "lists")
	s.no(e.Law != nil, "the logger's law")
	s.no(e.ID != "", "ids")
	s.no(e.Drop != 0, "drop")
	s.no(e.Observed != nil, "observations")
	s.no(e.Time.IsZero(), "a missing time")
	s.no(e.Position == NoPosition, "a missing position")
	s.no(e.Context != nil, "a context as numbers without names")
	if e.Named == nil {
		s.no(true, "a missing context")
	} else if _, ok := obdUser(e.Named); !ok {
		s.no(true, "a context that is not user_feature_0, user_feature_1, …")
	}
	s.no(len(e.Actions) == 0, "actions without affinities")
	for k := range e.Actions {
		a := &e.Actions[k]
		var is, more bool
		if a.Named != nil {
			_, is, more = obdAffinity(a.Named)
		}
		if !is || a.ID != strconv.Itoa(k) {
			s.no(true, "actions that are not items with an affinity")
			break
		}
		if more {
			s.no(true, "features of items (item_context.csv has them)")
			break
		}
	}
	return s
}

func (o *obdWriter) write(e *Event) error {
	user, _ := []string(nil), false
	if e.Named != nil {
		user, _ = obdUser(e.Named)
	}
	b := o.buf[:0]
	if o.n == 0 {
		o.k, o.user = e.K, len(user)
		b = append(b, ",timestamp,item_id,position,click,propensity_score"...)
		for i := range user {
			b = strconv.AppendInt(append(b, ",user_feature_"...), int64(i), 10)
		}
		for k := range e.K {
			b = strconv.AppendInt(append(b, ",user-item_affinity_"...), int64(k), 10)
		}
		b = append(b, '\n')
	}
	if e.K != o.k || len(user) != o.user {
		return bad("event", fmt.Sprintf("%d items and %d user features", e.K, len(user)), "%d and %d, as before", o.k,
			o.user)
	}
	b = append(strconv.AppendInt(b, int64(o.n), 10), ',')
	b = append(e.Time.UTC().AppendFormat(b, "2006-01-02 15:04:05.999999999-07:00"), ',')
	b = append(strconv.AppendInt(b, int64(e.Chosen), 10), ',')
	b = append(strconv.AppendInt(b, int64(max(e.Position, 0))+1, 10), ',') // without one it is 1
	b = appendNumber(b, e.Reward)
	b = appendNumber(append(b, ','), e.Propensity)
	for _, u := range user {
		b = csvText(append(b, ','), u)
	}
	for k := range e.K {
		x := 0.0
		if k < len(e.Actions) && e.Actions[k].Named != nil {
			if v, is, _ := obdAffinity(e.Actions[k].Named); is {
				x = v
			}
		}
		b = appendNumber(append(b, ','), x)
	}
	b = append(b, '\n')
	o.buf = b
	o.n++
	_, err := o.w.Write(b)
	return err
}

func (o *obdWriter) end() error { return nil }

// exportWriter writes rows as troupe log export does.
type exportWriter struct {
	w   byteWriter
	n   int
	buf []byte
}

// dyadic writes a float64 in (0, 1] as num/den with den a power of two; false when den has more than 63 bits.
func dyadic(p float64) (num, den uint64, ok bool) {
	f, exp := math.Frexp(p)
	m := uint64(f * (1 << 53))
	z := bits.TrailingZeros64(m)
	m >>= z
	if e := 53 - z - exp; e >= 0 && e < 64 {
		return m, 1 << e, true
	}
	return 0, 0, false
}

func (x *exportWriter) lost(e *Event) []string {
	var s saying
	s.beside(e)
	s.unit(e)
	s.no(len(e.Slots) > 0, "lists")
	s.no(e.Named != nil || anyNamed(e), "features with names")
	s.no(e.Context != nil, "a context beside the actions")
	s.no(anyID(e), "ids of actions other than the chosen one")
	s.no(e.Drop != 0, "drop")
	s.no(e.Position != NoPosition, "position")
	s.no(e.Observed != nil, "observations")
	s.no(e.K == 0, "how many actions were offered, which is missing")
	s.no(e.ID == "", "a missing id")
	s.no(e.Time.IsZero(), "a missing time")
	if _, _, ok := dyadic(e.Propensity); !ok {
		s.no(true, "a propensity that is no quotient of 64-bit numbers")
	}
	return s
}

func (x *exportWriter) write(e *Event) error {
	x.n++
	num, den, _ := dyadic(e.Propensity)
	id := e.ID
	if id == "" {
		id = strconv.Itoa(x.n)
	}
	b := appendText(append(x.buf[:0], `{"event":`...), id)
	b = strconv.AppendInt(append(b, `,"event_id":null,"seq":`...), int64(x.n), 10)
	b = append(e.Time.UTC().AppendFormat(append(b, `,"time":"`...), time.RFC3339Nano), '"')
	name := strconv.Itoa(e.Chosen)
	if e.Chosen < len(e.Actions) && e.Actions[e.Chosen].ID != "" {
		name = e.Actions[e.Chosen].ID
	}
	b = appendText(append(b, `,"model":"log","incarnation":"","mode":"online","action":`...), name)
	for _, f := range []struct {
		name string
		v    uint64
	}{{"index", uint64(e.Chosen)}, {"row", uint64(e.Chosen)}, {"offered", uint64(e.K)}, {"num", num}, {"den", den}} {
		b = strconv.AppendUint(append(append(append(b, `,"`...), f.name...), `":`...), f.v, 10)
	}
	b = appendNumber(append(b, `,"propensity":`...), e.Propensity)
	b = append(b, `,"basis_seq":0,"x":`...)
	if e.Chosen < len(e.Actions) {
		b = appendList(b, e.Actions[e.Chosen].X)
	} else {
		b = append(b, "[]"...)
	}
	b = append(b, `,"candidates":`...)
	if len(e.Actions) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, '[')
		for i := range e.Actions {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendList(b, e.Actions[i].X)
		}
		b = append(b, ']')
	}
	b = append(b, `,"active":true,"rewards":1`...)
	for _, name := range []string{"reward_first", "reward_sum", "reward_last"} {
		b = appendNumber(append(append(append(b, `,"`...), name...), `":`...), e.Reward)
	}
	b = append(b, `,"delay_seconds":0,"expired":true,"default":null`...)
	if e.Law != nil {
		b = appendList(append(b, `,"law":`...), e.Law)
	}
	b = append(b, '}', '\n')
	x.buf = b
	_, err := x.w.Write(b)
	return err
}

func (x *exportWriter) end() error { return nil }
