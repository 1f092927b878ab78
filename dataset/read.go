package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"troupe/spec"
)

// Options says how to read a file. The zero value finds out what it can.
type Options struct {
	// Format is arff, csv, space or libsvm; "" or auto decides by the file's extension and, where
	// that says nothing, by its first line.
	Format string
	// Class is the class column: first, last, a column's name, or its number from 1. "" or auto is
	// the column with the name "class" (in any case), otherwise the last one, or the first if
	// ClassFirst is set. LIBSVM has its own.
	Class      string
	ClassFirst bool
	// Header says whether the first line of CSV or space-separated text names the columns: yes or
	// no. "" or auto: yes if Class or Categorical has a name that stands in it, or if no field of
	// the first line is a number but the first value behind it in some column is.
	Header string
	// Delimiter separates CSV fields: one of "," ";" and tab; "" chooses the one that is most
	// frequent in the first line.
	Delimiter string
	// Categorical lists columns (names, or numbers from 1) of CSV or space-separated text whose
	// values are names even where they look like numbers.
	Categorical []string
	// Gaps are further texts that mark a missing value in CSV or space-separated text, beside "?", an empty field and those
	// of the variable Gaps.
	Gaps []string
}

// Formats lists the formats that Options.Format may name.
var Formats = []string{"arff", "csv", "space", "libsvm"}

// Check refuses an option that has no meaning, as a spec.Error that names it under path.
func (o Options) Check(path string) error {
	oneOf := func(key, v string, valid ...string) error {
		if v == "" || v == "auto" || slices.Contains(valid, v) {
			return nil
		}
		return spec.Errorf(spec.Join(path, key), "is %q%s", v, spec.Suggest(v, append([]string{"auto"}, valid...)))
	}
	if err := oneOf("format", o.Format, Formats...); err != nil {
		return err
	}
	if err := oneOf("header", o.Header, "yes", "no"); err != nil {
		return err
	}
	if o.Delimiter != "" && o.Delimiter != "," && o.Delimiter != ";" && o.Delimiter != "\t" {
		return spec.Errorf(spec.Join(path, "delimiter"), `is %q, expected ",", ";" or a tab`, o.Delimiter)
	}
	return nil
}

// Read reads the file at path.
func Read(path string, o Options) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	if len(data) > maxBytes {
		return nil, &Error{File: path, Msg: fmt.Sprintf("the file is larger than %d bytes", maxBytes)}
	}
	return Parse(path, data, o)
}

// Parse reads a file's bytes. name is the file's name: it appears in messages, and its extension
// may decide the format. A fault in the bytes is an *Error, one in the options a *spec.Error.
func Parse(name string, data []byte, o Options) (*Table, error) {
	if err := o.Check(""); err != nil {
		return nil, err
	}
	t, err := parse(name, data, o)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.File = name
		}
		return nil, err
	}
	sum := sha256.Sum256(data)
	t.Name, t.SHA256 = filepath.Base(name), hex.EncodeToString(sum[:])
	return t, nil
}

func parse(name string, data []byte, o Options) (*Table, error) {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return nil, place{}.errorf("UTF-16 text, expected UTF-8 (iconv -f UTF-16 -t UTF-8 %s > OUT)", name)
		}
	}
	if text := bytes.TrimLeft(data, " \t\r\n"); bytes.HasPrefix(text, []byte("[")) || bytes.HasPrefix(text, []byte("{")) {
		return nil, place{}.errorf("JSON, expected a table (in Python: pandas.read_json(%q).to_csv(OUT, index=False))", name)
	}
	if i := bytes.IndexFunc(data, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }); i >= 0 {
		before := data[:i]
		at := place{1 + bytes.Count(before, []byte{'\n'}), i - bytes.LastIndexByte(before, '\n')}
		return nil, at.errorf("the byte 0x%02x, expected text", data[i])
	}
	// A byte order mark counts as three blanks: dropped, with columns unchanged.
	if mark := []byte("\xef\xbb\xbf"); bytes.HasPrefix(data, mark) {
		data = append([]byte("   "), data[3:]...)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, place{}.errorf("the file is empty")
	}
	format := o.Format
	if format == "" || format == "auto" {
		format = guess(name, data)
	}
	var t *Table
	var err error
	switch format {
	case "arff":
		t, err = parseARFF(data, o)
	case "libsvm":
		t, err = parseLIBSVM(data, o)
	default:
		t, err = parseText(data, o, format)
	}
	if err != nil {
		return nil, err
	}
	t.Format = format
	return t, nil
}

// guess decides the format by extension, then by the first line that says something.
func guess(name string, data []byte) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".arff":
		return "arff"
	case ".csv", ".tsv":
		return "csv"
	case ".libsvm", ".svm", ".svmlight":
		return "libsvm"
	}
	lines := scanner{rest: data}
	for lines.next() {
		s := strings.TrimSpace(lines.text)
		switch {
		case s == "":
		case s[0] == '%' || s[0] == '@':
			return "arff"
		case s[0] == '#':
			return "libsvm"
		case strings.ContainsAny(s, ",;\t"):
			return "csv"
		default:
			words := strings.Fields(s)
			if len(words) > 1 && strings.Contains(words[1], ":") {
				return "libsvm"
			}
			return "space"
		}
	}
	return "space"
}

// scanner yields the lines of a file without their ends.
type scanner struct {
	rest []byte
	text string
	line int
}

func (s *scanner) next() bool {
	if len(s.rest) == 0 {
		return false
	}
	var line []byte
	line, s.rest, _ = bytes.Cut(s.rest, []byte{'\n'})
	s.text = string(bytes.TrimSuffix(line, []byte{'\r'}))
	s.line++
	return true
}

// classColumn returns the number of the class column, from 0.
func classColumn(names []string, o Options) (int, error) {
	last := len(names) - 1
	switch o.Class {
	case "", "auto":
		for i, n := range names {
			if strings.EqualFold(n, "class") {
				return i, nil
			}
		}
		if o.ClassFirst {
			return 0, nil
		}
		return last, nil
	case "first":
		return 0, nil
	case "last":
		return last, nil
	}
	i, err := find(names, o.Class)
	if err != nil {
		return 0, spec.Errorf("class", "%v", err)
	}
	return i, nil
}

// find returns the number, from 0, of the column with a name or a number from 1.
func find(names []string, column string) (int, error) {
	if i := slices.Index(names, column); i >= 0 {
		return i, nil
	}
	if n, err := strconv.Atoi(column); err == nil {
		if n < 1 || n > len(names) {
			return 0, fmt.Errorf("is column %d, expected 1 to %d", n, len(names))
		}
		return n - 1, nil
	}
	if len(names) > 40 {
		names = names[:40]
	}
	return 0, fmt.Errorf("is %q, which is no column%s", column, spec.Suggest(column, slices.Clone(names)))
}

// table assembles the columns that were built.
func table(columns []builder, class, rows int) (*Table, error) {
	if rows == 0 {
		return nil, place{}.errorf("the file has no rows of data")
	}
	t := &Table{Rows: rows}
	for i := range columns {
		if i == class {
			t.Class = columns[i].column()
		} else {
			t.Columns = append(t.Columns, columns[i].column())
		}
	}
	return t, nil
}

// checkSize refuses a table that would be too large.
func checkSize(at place, rows, columns int) error {
	if columns > maxColumns {
		return at.errorf("%d columns, expected at most %d", columns, maxColumns)
	}
	if rows > maxCells/max(columns, 1) {
		return at.errorf("more than %d cells (%d columns)", maxCells, columns)
	}
	return nil
}
