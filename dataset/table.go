package dataset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Missing is the level number of a categorical value that is missing.
const Missing = -1

// Limits on what a file may hold, so that a damaged or hostile file cannot exhaust the memory.
const (
	maxBytes   = 1 << 30 // of a file
	maxColumns = 1 << 16
	maxCells   = 1 << 27 // rows × columns: 1 GiB of float64
)

// Column is one column of a table. A column with Levels is categorical and its values are in
// Codes, otherwise it is numeric and its values are in Values; the other slice is nil.
type Column struct {
	Name   string
	Levels []string  // distinct values in a fixed order: as declared, or sorted
	Codes  []int32   // level number of each row, or Missing
	Values []float64 // finite, or NaN where the value is missing
}

// Categorical reports whether the column's values are names.
func (c *Column) Categorical() bool { return c.Levels != nil }

// Missing counts the missing values.
func (c *Column) Missing() int {
	n := 0
	for _, k := range c.Codes {
		if k == Missing {
			n++
		}
	}
	for _, v := range c.Values {
		if math.IsNaN(v) {
			n++
		}
	}
	return n
}

// Table is the contents of one file.
type Table struct {
	Name    string   // the file's name, for messages
	SHA256  string   // of the file's bytes, in hex
	Format  string   // the format it was read as: arff, csv, space or libsvm
	Columns []Column // the features
	Class   Column   // categorical, nothing missing
	Rows    int
	Gaps    map[string]int // texts other than "?" that were read as gaps, with how often
}

// ClassCounts counts the rows of each class, in the order of Class.Levels.
func (t *Table) ClassCounts() []int {
	n := make([]int, len(t.Class.Levels))
	for _, k := range t.Class.Codes {
		n[k]++
	}
	return n
}

// String says what was read, in one line.
func (t *Table) String() string {
	n := 0
	for i := range t.Columns {
		if t.Columns[i].Categorical() {
			n++
		}
	}
	return fmt.Sprintf("%s: %d rows, %d features (%d categorical), %d classes", t.Name, t.Rows, len(t.Columns), n,
		len(t.Class.Levels))
}

// Error is a fault in a file.
type Error struct {
	File      string
	Line, Col int // from 1; the column counts bytes; 0 when the fault has no place
	Msg       string
}

// Error says in one line what is wrong.
func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	case e.Col == 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

// place is where a field begins.
type place struct{ line, col int }

func (p place) errorf(format string, args ...any) error {
	return &Error{Line: p.line, Col: p.col, Msg: fmt.Sprintf(format, args...)}
}

// field is one value as it stands in the file.
type field struct {
	text   string
	quoted bool // a quoted "?" is a value, not a gap
	at     place
}

func (f field) missing() bool { return !f.quoted && (f.text == "?" || f.text == "") }

// Gaps are the texts that mark a missing value in CSV and space-separated text, beside "?" and an empty field: those that
// pandas.read_csv takes by default.
var Gaps = []string{"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
	"NULL", "NaN", "None", "n/a", "nan", "null"}

// wholeText is a whole number without its fraction of zeros: 1 for 1.0, as pandas writes a column of whole numbers with a
// gap. Other texts are returned as they are.
func wholeText(s string) string {
	whole, fraction, point := strings.Cut(s, ".")
	digits := strings.TrimPrefix(whole, "-")
	if !point || digits == "" || strings.Trim(digits, "0123456789") != "" || strings.Trim(fraction, "0") != "" {
		return s
	}
	return whole
}

// show quotes a value for a message, shortened.
func show(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return strconv.Quote(s)
}

// number reads a decimal number. ok is false when s is not one; a number that is not finite is
// returned as it is, for the caller to refuse.
func number(s string) (v float64, ok bool) {
	if strings.ContainsAny(s, "xX_pP") { // Go's hexadecimal and spaced literals
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// kind says how a column's values are read.
type kind int

const (
	unknown kind = iota // numeric or names, as the first value that is present decides
	numeric             // numbers
	whole               // numbers without a fraction
	nominal             // one of the declared levels
	names               // any text; the levels are what occurs
	codes               // whole numbers that are names: class labels
)

// builder collects the values of one column.
type builder struct {
	name     string
	kind     kind
	inferred bool // the kind was unknown: numbers and text may not mix
	class    bool // a missing value is refused
	levels   []string
	index    map[string]int32 // level → its number
	codes    []int32
	values   []float64
	gaps     int // missing values while the kind is unknown
}

// add appends one value, or refuses it.
func (b *builder) add(f field) error {
	if !utf8.ValidString(f.text) {
		return b.refuse(f, "valid UTF-8")
	}
	if f.missing() {
		return b.gap(f)
	}
	v, isNumber := number(f.text)
	if b.kind == unknown {
		b.decide(isNumber)
	}
	switch b.kind {
	case numeric, whole:
		switch {
		case !isNumber && b.inferred:
			return b.refuse(f, fmt.Sprintf("a number like the values above it (if the column holds names, list it as "+
				"categorical; if this marks a missing value, --gap %s or gaps = [%[1]s])", show(f.text)))
		case !isNumber:
			return b.refuse(f, "a number")
		case math.IsNaN(v) || math.IsInf(v, 0):
			return b.refuse(f, "a finite number")
		case b.kind == whole && v != math.Trunc(v):
			return b.refuse(f, "a whole number")
		}
		b.values = append(b.values, v)
	case nominal:
		k, ok := b.index[f.text]
		if !ok {
			return b.refuse(f, "one of the declared "+list(b.levels))
		}
		b.codes = append(b.codes, k)
	case names:
		switch {
		case isNumber && b.inferred:
			if len(b.levels) == 1 {
				return b.refuse(f, fmt.Sprintf("%s like all values above it (if that marks a missing value, --gap %[1]s or gaps = "+
					"[%[1]s]; if the column holds names, list it as categorical)", show(b.levels[0])))
			}
			return b.refuse(f, "text like the values above it (if the column holds names, list it as categorical)")
		case isNumber && b.class && v != math.Trunc(v):
			return b.refuse(f, "a class: a name or a whole number")
		}
		if b.class {
			f.text = wholeText(f.text)
		}
		b.codes = append(b.codes, b.code(f.text))
	case codes:
		if !isNumber || math.IsInf(v, 0) || v != math.Trunc(v) {
			return b.refuse(f, "a class: a whole number")
		}
		b.codes = append(b.codes, b.code(strconv.FormatFloat(v+0, 'f', -1, 64)))
	}
	return nil
}

func (b *builder) refuse(f field, expected string) error {
	return f.at.errorf("column %s: the value is %s, expected %s", show(b.name), show(f.text), expected)
}

func (b *builder) gap(f field) error {
	if b.class {
		return f.at.errorf("column %s: the class is missing", show(b.name))
	}
	switch b.kind {
	case unknown:
		b.gaps++
	case numeric, whole:
		b.values = append(b.values, math.NaN())
	default:
		b.codes = append(b.codes, Missing)
	}
	return nil
}

// decide sets an unknown kind and stores the gaps met so far.
func (b *builder) decide(isNumber bool) {
	b.inferred = true
	if b.kind = names; isNumber {
		b.kind = numeric
	}
	for range b.gaps {
		if isNumber {
			b.values = append(b.values, math.NaN())
		} else {
			b.codes = append(b.codes, Missing)
		}
	}
}

// code returns the number of a level, a new one if it was not met before.
func (b *builder) code(level string) int32 {
	k, ok := b.index[level]
	if !ok {
		if b.index == nil {
			b.index = make(map[string]int32)
		}
		level = strings.Clone(level) // do not keep the file's bytes alive
		k = int32(len(b.levels))
		b.index[level] = k
		b.levels = append(b.levels, level)
	}
	return k
}

// column returns what was collected. Levels that were not declared are sorted, as numbers where
// all of them are, so that their order does not depend on the order of the rows.
func (b *builder) column() Column {
	switch b.kind {
	case unknown: // nothing but gaps
		b.decide(false)
	case numeric, whole:
		return Column{Name: b.name, Values: b.values}
	}
	if b.kind != nominal {
		order := make([]int32, len(b.levels))
		asNumbers := make([]float64, len(b.levels))
		all := true
		for i, s := range b.levels {
			v, ok := number(s)
			all = all && ok && !math.IsNaN(v)
			order[i], asNumbers[i] = int32(i), v
		}
		slices.SortStableFunc(order, func(i, j int32) int {
			if all {
				if c := cmp.Compare(asNumbers[i], asNumbers[j]); c != 0 {
					return c
				}
			}
			return strings.Compare(b.levels[i], b.levels[j])
		})
		rank := make([]int32, len(order))
		sorted := make([]string, len(order))
		for r, i := range order {
			rank[i], sorted[r] = int32(r), b.levels[i]
		}
		b.levels = sorted
		for i, k := range b.codes {
			if k != Missing {
				b.codes[i] = rank[k]
			}
		}
	}
	if b.levels == nil {
		b.levels = []string{}
	}
	return Column{Name: b.name, Levels: b.levels, Codes: b.codes}
}

// list names some of the levels.
func list(levels []string) string {
	const most = 8
	if len(levels) <= most {
		return "{" + strings.Join(levels, ", ") + "}"
	}
	return fmt.Sprintf("{%s, … %d in all}", strings.Join(levels[:most], ", "), len(levels))
}
