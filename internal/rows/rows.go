// Package rows writes rows of a struct as lines of JSON or as Parquet.
package rows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// Writer writes rows of type T. Close ends the file; it does not close the writer below.
type Writer[T any] interface {
	Write(row T) error
	Close() error
}

// More is a row that has columns of numbers beside those of its type, whose names are known when it is written. A nil value is
// null.
type More interface {
	More() (names []string, values []*float64)
}

// JSON returns a Writer of one JSON value a line. A row that is More must be an object.
func JSON[T any](w io.Writer) Writer[T] {
	l := &lines[T]{b: bufio.NewWriterSize(w, 1<<16)}
	l.e = json.NewEncoder(l.b)
	l.e.SetEscapeHTML(false)
	l.more = json.NewEncoder(&l.buf)
	l.more.SetEscapeHTML(false)
	return l
}

type lines[T any] struct {
	b    *bufio.Writer
	e    *json.Encoder
	more *json.Encoder // to buf
	buf  bytes.Buffer
}

func (l *lines[T]) Write(row T) error {
	x, ok := any(row).(More)
	if !ok {
		return l.e.Encode(row)
	}
	names, values := x.More()
	if len(names) == 0 {
		return l.e.Encode(row)
	}
	l.buf.Reset()
	if err := l.more.Encode(row); err != nil {
		return err
	}
	l.buf.Truncate(l.buf.Len() - len("}\n"))
	for i, name := range names {
		l.buf.WriteByte(',')
		if err := l.more.Encode(name); err != nil {
			return err
		}
		l.buf.Truncate(l.buf.Len() - 1)
		l.buf.WriteByte(':')
		if err := l.more.Encode(values[i]); err != nil {
			return err
		}
		l.buf.Truncate(l.buf.Len() - 1)
	}
	l.buf.WriteString("}\n")
	_, err := l.b.Write(l.buf.Bytes())
	return err
}

func (l *lines[T]) Close() error { return l.b.Flush() }

// Parquet returns a Writer of a Parquet file, compressed with zstd, with a row group for every group rows. The
// rows of a group are in memory until it is written. more are the names of further columns, optional numbers, which rows that
// are More have; a name that is not among them is left out.
func Parquet[T any](w io.Writer, group int, more ...string) Writer[T] {
	if len(more) == 0 {
		return &groups[T]{p: parquet.NewGenericWriter[T](w, parquet.Compression(&parquet.Zstd)), size: group}
	}
	g := &wider[T]{size: group, more: more}
	t := reflect.TypeFor[T]()
	var fields []reflect.StructField
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			fields, g.from = append(fields, f), append(g.from, i)
		}
	}
	for i, name := range more {
		fields = append(fields, reflect.StructField{Name: "More" + strconv.Itoa(i), Type: reflect.TypeFor[*float64](),
			Tag: reflect.StructTag(`parquet:"` + name + `,optional"`)})
	}
	g.row = reflect.New(reflect.StructOf(fields)).Elem()
	schema := parquet.NewSchema(parquet.SchemaOf(*new(T)).Name(), parquet.SchemaOf(g.row.Interface()))
	g.p = parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Zstd))
	return g
}

// wider writes rows of T with further columns: it copies each into a struct that has them.
type wider[T any] struct {
	p       *parquet.GenericWriter[any]
	row     reflect.Value
	from    []int // fields of T
	more    []string
	n, size int
}

func (g *wider[T]) Write(row T) error {
	in := reflect.ValueOf(row)
	for i, at := range g.from {
		g.row.Field(i).Set(in.Field(at))
	}
	names, values := any(row).(More).More()
	for i, name := range g.more {
		var v *float64
		if at := slices.Index(names, name); at >= 0 {
			v = values[at]
		}
		g.row.Field(len(g.from) + i).Set(reflect.ValueOf(v))
	}
	if _, err := g.p.Write([]any{g.row.Interface()}); err != nil {
		return err
	}
	if g.n++; g.n%g.size == 0 {
		return g.p.Flush()
	}
	return nil
}

func (g *wider[T]) Close() error { return g.p.Close() }

type groups[T any] struct {
	p       *parquet.GenericWriter[T]
	n, size int
}

func (g *groups[T]) Write(row T) error {
	if _, err := g.p.Write([]T{row}); err != nil {
		return err
	}
	if g.n++; g.n%g.size == 0 {
		return g.p.Flush()
	}
	return nil
}

func (g *groups[T]) Close() error { return g.p.Close() }
