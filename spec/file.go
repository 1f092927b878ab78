package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	toml "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// FileError is a fault in a spec file, at a place in it. Line and Column count from 1.
type FileError struct {
	File         string
	Line, Column int
	Msg          string
	Path         string // of the key, such as policy[0].lambda; "" where the text is no TOML, and for the whole document
}

// Error says in one line what is wrong.
func (e *FileError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// File is a spec file with an index of its keys: from a path such as policy[1].scale.value to the
// place where the key is written.
type File struct {
	Name string // as messages call it
	text string
	at   map[string]place
}

type place struct {
	line, column int
	value        unstable.Range // of a scalar value; of length 0 for a table or a list
}

// ReadFile decodes a TOML document to a generic tree and indexes its keys. A byte-order mark at its beginning, which
// some editors write, is skipped. Errors are *FileError.
func ReadFile(file, text string) (Raw, *File, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	src := &File{Name: file, text: text, at: map[string]place{"": {line: 1, column: 1}}}
	var tree Raw
	if err := toml.Unmarshal([]byte(text), &tree); err != nil {
		var fault *toml.DecodeError
		if !errors.As(err, &fault) {
			return nil, nil, &FileError{File: file, Line: 1, Column: 1, Msg: err.Error()}
		}
		line, column := fault.Position()
		msg := again(text, line)
		if msg == "" {
			msg = strings.TrimPrefix(fault.Error(), "toml: ")
		}
		return nil, nil, &FileError{File: file, Line: line, Column: column, Msg: msg}
	}
	if tree == nil {
		tree = Raw{}
	}
	src.index()
	return tree, src, nil
}

// again says what is wrong with a header in this line that repeats one above it: [policy] twice, or [policy] and
// [[policy]]. It returns "" where the line has no such header.
func again(text string, line int) string {
	type header struct {
		line int
		list bool
	}
	brackets := func(path string, list bool) string {
		if list {
			return "[[" + path + "]]"
		}
		return "[" + path + "]"
	}
	var p unstable.Parser
	p.Reset([]byte(text))
	seen := make(map[string]header)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		path, at := "", 0
		for keys := e.Key(); keys.Next(); {
			path, at = Join(path, string(keys.Node().Data)), p.Shape(keys.Node().Raw).Start.Line
		}
		h := header{at, e.Kind == unstable.ArrayTable}
		first, there := seen[path]
		if !there {
			seen[path] = h
		}
		if at != line {
			continue
		}
		if !there || first.list && h.list {
			return ""
		}
		return fmt.Sprintf("%s, and line %d has %s: expected [[%s]] for each table of a list, or the table once",
			brackets(path, h.list), first.line, brackets(path, first.list), path)
	}
	return ""
}

// index walks the syntax tree. The document decoded without error, so it is well formed.
func (s *File) index() {
	var p unstable.Parser
	p.Reset([]byte(s.text))
	elements := make(map[string]int) // path of an array of tables → how many so far
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = ""
			keys := e.Key()
			for keys.Next() {
				key := keys.Node()
				table = Join(table, string(key.Data))
				if e.Kind == unstable.ArrayTable && keys.IsLast() {
					s.put(&p, table, key, nil) // the list itself, at its first table
					elements[table]++
				}
				if n := elements[table]; n > 0 {
					table = Element(table, n-1)
				}
				if keys.IsLast() {
					s.put(&p, table, key, nil)
				}
			}
		case unstable.KeyValue:
			s.keyValue(&p, table, e)
		}
	}
}

func (s *File) keyValue(p *unstable.Parser, path string, kv *unstable.Node) {
	keys := kv.Key()
	for keys.Next() {
		path = Join(path, string(keys.Node().Data))
		s.put(p, path, keys.Node(), kv.Value())
	}
	s.value(p, path, kv.Value())
}

// value indexes what is inside a value. The elements of a list share the place of their key where
// the parser keeps none for them.
func (s *File) value(p *unstable.Parser, path string, v *unstable.Node) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			s.keyValue(p, path, it.Node())
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); i++ {
			if n := it.Node(); n.Raw.Length > 0 {
				s.put(p, Element(path, i), n, n)
			}
			s.value(p, Element(path, i), it.Node())
		}
	}
}

func (s *File) put(p *unstable.Parser, path string, at, value *unstable.Node) {
	if _, ok := s.at[path]; ok {
		return // a dotted key that is written more than once: its first place
	}
	start := p.Shape(at.Raw).Start
	pl := place{line: start.Line, column: start.Column}
	if value != nil && value.Kind != unstable.InlineTable && value.Kind != unstable.Array {
		pl.value = value.Raw
	}
	s.at[path] = pl
}

// Element is the path of an element of a list.
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Locate turns a *Error into a *FileError at the place of its path, or of the nearest table
// around it that is written in the file. Other errors pass.
func (s *File) Locate(err error) error {
	var fault *Error
	if !errors.As(err, &fault) {
		return err
	}
	msg := fault.Msg
	if strings.HasPrefix(msg, "is ") || strings.HasPrefix(msg, "has ") {
		msg = withoutTable(fault.Path) + " " + msg
	}
	pl := s.nearest(fault.Path)
	return &FileError{File: s.Name, Line: pl.line, Column: pl.column, Msg: msg, Path: fault.Path}
}

// At returns the place of a path, or of the nearest table around it that is written in the file.
func (s *File) At(path string) (line, column int) {
	pl := s.nearest(path)
	return pl.line, pl.column
}

func (s *File) nearest(path string) place {
	for {
		if pl, ok := s.at[path]; ok {
			return pl
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// withoutTable drops the name of the array of tables: policy[1].scale.value → scale.value. The
// line says which one it is.
func withoutTable(path string) string {
	if head, rest, ok := strings.Cut(path, "."); ok && strings.HasSuffix(head, "]") {
		return rest
	}
	return path
}

// Override returns the text of a spec with the value of a top-level key replaced, or added where
// the key is not written: what --horizon 100 does to horizon = 10_000. So the spec that a manifest
// shows is the spec that was run. value is TOML.
func Override(file, text, key, value string) (string, error) {
	_, src, err := ReadFile(file, text)
	if err != nil {
		return "", err
	}
	text = src.text // without a byte-order mark
	pl, ok := src.at[key]
	if !ok {
		return key + " = " + value + "\n" + text, nil
	}
	if pl.value.Length == 0 {
		return "", &FileError{File: file, Line: pl.line, Column: pl.column, Path: key, Msg: key +
			" is a list or a table here and cannot be replaced from the command line"}
	}
	return text[:pl.value.Offset] + value + text[pl.value.Offset+pl.value.Length:], nil
}

// Insert returns the text of a spec with a key written as the first one of a table of a list, such as environment[0], that
// begins with a header [[…]]. A key that the table has already is an error at its place. value is TOML.
func Insert(file, text, table, key, value string) (string, error) {
	_, src, err := ReadFile(file, text)
	if err != nil {
		return "", err
	}
	text = src.text
	path := Join(table, key)
	if pl, there := src.at[path]; there {
		return "", &FileError{File: file, Line: pl.line, Column: pl.column, Path: path, Msg: key + " is written here, and " +
			"the command line cannot add to it: write " + value + " here"}
	}
	pl, there := src.at[table]
	if !there {
		return "", &FileError{File: file, Line: 1, Column: 1, Path: table, Msg: "no table " + table}
	}
	end := 0 // of the header's line
	for range pl.line {
		if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
			end += i + 1
		} else {
			text += "\n"
			end = len(text)
		}
	}
	text = text[:end] + key + " = " + value + "\n" + text[end:]
	if _, src, err = ReadFile(file, text); err == nil {
		if _, there := src.at[path]; there {
			return text, nil
		}
	}
	return "", &FileError{File: file, Line: pl.line, Column: pl.column, Path: path, Msg: "no header of the table " + table +
		" here, so that " + key + " cannot come from the command line: write " + key + " = " + value + " in it"}
}
