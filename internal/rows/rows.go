// Package rows writes rows of a struct as lines of JSON or as Parquet.
package rows

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Writer writes rows of type T. Close ends the file; it does not close the writer below.
type Writer[T any] interface {
	Write(row T) error
	Close() error
}

// JSON returns a Writer of one JSON value a line.
func JSON[T any](w io.Writer) Writer[T] {
	b := bufio.NewWriterSize(w, 1<<16)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return &lines[T]{b, e}
}

type lines[T any] struct {
	b *bufio.Writer
	e *json.Encoder
}

func (l *lines[T]) Write(row T) error { return l.e.Encode(row) }
func (l *lines[T]) Close() error      { return l.b.Flush() }

// Parquet returns a Writer of a Parquet file, compressed with zstd, with a row group for every group rows. The
// rows of a group are in memory until it is written.
func Parquet[T any](w io.Writer, group int) Writer[T] {
	return &groups[T]{p: parquet.NewGenericWriter[T](w, parquet.Compression(&parquet.Zstd)), size: group}
}

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
