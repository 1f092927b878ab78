package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"troupe/spec"
)

// records yields the records of a CSV or space-separated file.
type records interface {
	// next returns the fields of the next record that is not blank, valid until the next call;
	// io.EOF at the end.
	next() ([]field, error)
}

// spaced splits lines at runs of blanks.
type spaced struct {
	lines  scanner
	fields []field
}

func (r *spaced) next() ([]field, error) {
	for r.lines.next() {
		r.fields = split(r.fields[:0], r.lines.text, r.lines.line)
		if len(r.fields) > 0 {
			return r.fields, nil
		}
	}
	return nil, io.EOF
}

// split appends the words of a line.
func split(dst []field, s string, line int) []field {
	blank := func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
	for i := 0; i < len(s); {
		if blank(s[i]) {
			i++
			continue
		}
		begin := i
		for i < len(s) && !blank(s[i]) {
			i++
		}
		dst = append(dst, field{text: s[begin:i], at: place{line, begin + 1}})
	}
	return dst
}

// separated reads CSV.
type separated struct {
	csv    *csv.Reader
	data   []byte // to see which fields are quoted
	starts []int  // offset of each line
	fields []field
}

func newSeparated(data []byte, delimiter string) *separated {
	r := &separated{csv: csv.NewReader(bytes.NewReader(data)), data: data, starts: []int{0}}
	if delimiter == "" {
		delimiter = commonest(data)
	}
	r.csv.Comma = rune(delimiter[0])
	r.csv.FieldsPerRecord = -1
	r.csv.TrimLeadingSpace = r.csv.Comma != '\t'
	r.csv.ReuseRecord = true
	for i, c := range data {
		if c == '\n' {
			r.starts = append(r.starts, i+1)
		}
	}
	return r
}

// commonest returns the delimiter that is most frequent in the first line that is not blank.
func commonest(data []byte) string {
	lines := scanner{rest: data}
	for lines.next() && strings.TrimSpace(lines.text) == "" {
	}
	best, count := ",", 0
	for _, d := range []string{",", ";", "\t"} {
		if n := strings.Count(lines.text, d); n > count {
			best, count = d, n
		}
	}
	return best
}

func (r *separated) next() ([]field, error) {
	for {
		texts, err := r.csv.Read()
		if err != nil {
			var e *csv.ParseError
			if errors.As(err, &e) {
				return nil, place{e.Line, e.Column}.errorf("%v", e.Err)
			}
			return nil, err
		}
		r.fields = r.fields[:0]
		blank := true
		for i, s := range texts {
			line, col := r.csv.FieldPos(i)
			quoted := false
			if at := r.starts[line-1] + col - 1; at < len(r.data) {
				quoted = r.data[at] == '"'
			}
			s = strings.TrimSpace(s)
			r.fields = append(r.fields, field{text: s, quoted: quoted && s != "", at: place{line, col}})
			blank = blank && s == "" && !quoted
		}
		if len(texts) == 1 && blank {
			continue // a line of blanks
		}
		return r.fields, nil
	}
}

// recordsOf reads the records of a format: csv, or space-separated text.
func recordsOf(data []byte, o Options, format string) records {
	if format == "csv" {
		return newSeparated(data, o.Delimiter)
	}
	return &spaced{lines: scanner{rest: data}}
}

// parseText reads CSV (format csv) and space-separated text (format space).
func parseText(data []byte, o Options, format string) (*Table, error) {
	in := recordsOf(data, o, format)
	first, err := in.next()
	if err == io.EOF {
		return nil, place{}.errorf("the file has no rows of data")
	}
	if err != nil {
		return nil, err
	}
	if err := checkSize(first[0].at, 1, len(first)); err != nil {
		return nil, err
	}
	if len(first) < 2 {
		return nil, first[0].at.errorf("one field, expected at least a feature and a class; is the delimiter right?")
	}
	head := slices.Clone(first)
	b := body{marks: map[string]bool{}, gaps: map[string]int{}}
	for _, g := range append(slices.Clone(Gaps), o.Gaps...) {
		b.marks[g] = true
	}
	header := o.Header == "yes" || o.Header != "no" && (nameOf(head, o) || isHeader(head, recordsOf(data, o, format), b.marks))
	if b.columns, err = columnsOf(head, header); err != nil {
		return nil, err
	}
	class, err := prepare(b.columns, columnNames(b.columns), o)
	if err != nil {
		return nil, err
	}
	if !header {
		if err := b.add(head); err != nil {
			return nil, err
		}
	}
	for {
		record, err := in.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = b.add(record)
		}
		if err != nil {
			return nil, err
		}
	}
	t, err := table(b.columns, class, b.rows)
	if err == nil && len(b.gaps) > 0 {
		t.Gaps = b.gaps
	}
	return t, err
}

// columnsOf makes the columns of a table, which have the names of its header or "column 1" and so on.
func columnsOf(head []field, header bool) ([]builder, error) {
	columns := make([]builder, len(head))
	for i := range columns {
		columns[i].name = "column " + strconv.Itoa(i+1)
		if header {
			columns[i].name = head[i].text
		}
	}
	if header {
		return columns, checkNames(head)
	}
	return columns, nil
}

// body collects the rows of a text.
type body struct {
	columns []builder
	marks   map[string]bool // texts that mark a missing value
	gaps    map[string]int  // how often each was met
	rows    int
}

func (b *body) add(record []field) error {
	if len(record) != len(b.columns) {
		return record[0].at.errorf("%d fields, expected %d", len(record), len(b.columns))
	}
	b.rows++
	if err := checkSize(record[0].at, b.rows, len(b.columns)); err != nil {
		return err
	}
	for i, f := range record {
		if !f.quoted && b.marks[f.text] {
			b.gaps[strings.Clone(f.text)]++
			f.text = ""
		}
		if err := b.columns[i].add(f); err != nil {
			return err
		}
	}
	return nil
}

// nameOf reports whether the first record has a name that the options give a column.
func nameOf(first []field, o Options) bool {
	named := slices.Clone(o.Categorical)
	if !slices.Contains([]string{"", "auto", "first", "last"}, o.Class) {
		named = append(named, o.Class)
	}
	return slices.ContainsFunc(first, func(f field) bool {
		_, isNumber := number(f.text)
		return !isNumber && slices.Contains(named, f.text)
	})
}

// isHeader reports whether no field of the first record is a number or missing, but the first value that is present in
// some column behind it is a number. in begins with the first record; a thousand more are looked at.
func isHeader(first []field, in records, marks map[string]bool) bool {
	for _, f := range first {
		if _, ok := number(f.text); ok || f.missing() || marks[f.text] {
			return false
		}
	}
	present := make([]bool, len(first))
	if _, err := in.next(); err != nil {
		return false
	}
	for range 1000 {
		record, err := in.next()
		if err != nil {
			return false
		}
		open := false
		for i, f := range record[:min(len(record), len(first))] {
			if present[i] {
				continue
			}
			if f.missing() || !f.quoted && marks[f.text] {
				open = true
				continue
			}
			if _, ok := number(f.text); ok {
				return true
			}
			present[i] = true
		}
		if !open {
			return false
		}
	}
	return false
}

// checkNames refuses a header with a column that has no name, or that of another.
func checkNames(head []field) error {
	seen := make(map[string]bool, len(head))
	for i, f := range head {
		switch {
		case f.text == "":
			return f.at.errorf("column %d has no name", i+1)
		case seen[f.text]:
			return f.at.errorf("column %d has the name %s of an earlier column", i+1, show(f.text))
		}
		seen[f.text] = true
	}
	return nil
}

func columnNames(columns []builder) []string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].name
	}
	return names
}

// prepare finds the class column and marks the categorical ones.
func prepare(columns []builder, header []string, o Options) (class int, err error) {
	for _, c := range o.Categorical {
		i, err := find(header, c)
		if err != nil {
			return 0, spec.Errorf("categorical", "%v", err)
		}
		columns[i].kind = names
	}
	class, err = classColumn(header, o)
	if err != nil {
		return 0, err
	}
	columns[class].kind, columns[class].class = names, true
	return class, nil
}
