package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Encoding says how a table becomes numbers.
//
// A numeric column gives one feature, a categorical column one 0/1 feature for each level, with one
// more for "?" where values are missing. A missing number is replaced by its column's mean. Then,
// in this order: numeric features are standardised, the intercept is appended, and the rows are
// brought into the unit ball.
type Encoding struct {
	// Standardise gives each numeric feature mean 0 and standard deviation 1 over the rows (divisor
	// n); a constant one becomes 0. 0/1 features stay as they are.
	Standardise bool
	// Intercept appends a feature that is 1 before the rows are scaled.
	Intercept bool
	// Normalise divides each row by its own norm, so that all rows that are not 0 have norm 1.
	// Otherwise all rows are divided by the largest norm if that is above 1, which keeps their
	// relative sizes; Encoded.Factor records it.
	Normalise bool
}

// Encoded is a table as numbers. It must not be changed: workers share it.
type Encoded struct {
	Table   *Table
	Rows    int
	Dim     int       // features per row, ≥ 1
	X       []float64 // Rows × Dim, row by row; every row has norm ≤ 1
	Label   []int32   // class of each row
	Classes []string  // name of each class
	Names   []string  // name of each feature: "cap-shape=x", "width", "intercept"
	Factor  float64   // what all rows were multiplied by; 1 if they were not, or row by row
	Notes   []string  // what a reader should know: imputed values, the factor
}

// Row returns the features of row i. The slice belongs to e and must not be changed.
func (e *Encoded) Row(i int) []float64 { return e.X[i*e.Dim : (i+1)*e.Dim : (i+1)*e.Dim] }

// Encode turns the table into numbers. It refuses numbers so large that a mean or a norm
// overflows. Cost: O(Rows·Dim).
func (t *Table) Encode(enc Encoding) (*Encoded, error) {
	e := &Encoded{Table: t, Rows: t.Rows, Label: t.Class.Codes, Classes: t.Class.Levels, Factor: 1}
	width := make([]int, len(t.Columns)) // features of each column
	imputed := 0
	for j := range t.Columns {
		c := &t.Columns[j]
		width[j] = 1
		if c.Categorical() {
			width[j] = len(c.Levels)
			for _, l := range c.Levels {
				e.Names = append(e.Names, c.Name+"="+l)
			}
			if c.Missing() > 0 {
				width[j]++
				e.Names = append(e.Names, c.Name+"=?")
			}
		} else {
			e.Names = append(e.Names, c.Name)
			imputed += c.Missing()
		}
		e.Dim += width[j]
	}
	if enc.Intercept {
		e.Names = append(e.Names, "intercept")
		e.Dim++
	}
	if e.Dim == 0 {
		return nil, fmt.Errorf("dataset: %s: no features", t.Name)
	}
	if e.Rows > maxCells/e.Dim {
		return nil, fmt.Errorf("dataset: %s: %d rows with %d features are more than %d numbers", t.Name, e.Rows, e.Dim,
			maxCells)
	}
	if len(t.Gaps) > 0 {
		var marks []string
		for _, g := range slices.Sorted(maps.Keys(t.Gaps)) {
			marks = append(marks, fmt.Sprintf("%s (%d)", g, t.Gaps[g]))
		}
		e.Notes = append(e.Notes, fmt.Sprintf("%s: read as missing: %s", t.Name, strings.Join(marks, ", ")))
	}
	if imputed > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("%s: %d missing numbers were replaced by the mean of their column",
			t.Name, imputed))
	}
	e.X = make([]float64, e.Rows*e.Dim)
	at := 0
	for j := range t.Columns {
		c := &t.Columns[j]
		if c.Categorical() {
			for i, k := range c.Codes {
				if k == Missing {
					k = int32(width[j] - 1)
				}
				e.X[i*e.Dim+at+int(k)] = 1
			}
		} else if err := e.numbers(c, at, enc.Standardise); err != nil {
			return nil, err
		}
		at += width[j]
	}
	if enc.Intercept {
		for i := range e.Rows {
			e.X[i*e.Dim+at] = 1
		}
	}
	if err := e.shrink(enc.Normalise); err != nil {
		return nil, err
	}
	return e, nil
}

// numbers stores a numeric column at feature number at.
func (e *Encoded) numbers(c *Column, at int, standardise bool) error {
	var sum, n float64
	for _, v := range c.Values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("dataset: %s: column %s has no values", e.Table.Name, show(c.Name))
	}
	mean, sd, constant := sum/n, 1.0, true
	if standardise {
		var squares float64
		var first = math.NaN()
		for _, v := range c.Values {
			if !math.IsNaN(v) {
				squares += float64((v - mean) * (v - mean))
				if math.IsNaN(first) {
					first = v
				}
				constant = constant && v == first
			}
		}
		sd = math.Sqrt(squares / n)
	}
	if math.IsInf(mean, 0) || math.IsInf(sd, 0) {
		return fmt.Errorf("dataset: %s: column %s holds numbers so large that their mean or variance overflows",
			e.Table.Name, show(c.Name))
	}
	for i, v := range c.Values {
		if math.IsNaN(v) {
			v = mean
		}
		if standardise {
			if v -= mean; constant || sd == 0 {
				v = 0
			} else {
				v /= sd
			}
		}
		e.X[i*e.Dim+at] = v
	}
	return nil
}

// shrink brings the rows into the unit ball.
func (e *Encoded) shrink(each bool) error {
	var largest float64
	for i := range e.Rows {
		row := e.Row(i)
		r := norm(row)
		if math.IsInf(r, 0) || math.IsNaN(r) {
			return fmt.Errorf("dataset: %s: row %d holds numbers so large that its norm overflows", e.Table.Name, i+1)
		}
		largest = max(largest, r)
		if each && r > 0 {
			divide(row, r)
		}
	}
	if !each && largest > 1 {
		e.Factor = 1 / largest
		for i := range e.Rows {
			divide(e.Row(i), largest)
		}
		e.Notes = append(e.Notes, fmt.Sprintf("%s: all rows were multiplied by %.6g to lie in the unit ball",
			e.Table.Name, e.Factor))
	}
	return nil
}

// divide divides x by r ≥ its norm and keeps it in the unit ball despite rounding.
func divide(x []float64, r float64) {
	for i := range x {
		x[i] /= r
	}
	for norm(x) > 1 {
		for i := range x {
			x[i] *= 1 - 0x1p-52
		}
	}
}

// norm is the Euclidean norm, without overflow or underflow on the way.
func norm(x []float64) float64 {
	var top, s float64
	for _, v := range x {
		top = max(top, math.Abs(v))
	}
	if top == 0 {
		return 0
	}
	for _, v := range x {
		v /= top
		s += float64(v * v)
	}
	return top * math.Sqrt(s)
}

// Source loads files for environments. Each file is read once and encoded once for each Encoding,
// however many replications ask; it is safe for concurrent use. The zero value is ready.
type Source struct {
	// Override, a file or a directory, comes from the command line (--data). A file takes the place
	// of every path in the spec; in a directory relative paths are looked up.
	Override string

	mu      sync.Mutex
	tables  map[tableKey]*once[*Table]
	encoded map[encodedKey]*once[*Encoded]
	others  map[tableKey]*once[any]
}

type tableKey struct{ path, options string }

type encodedKey struct {
	table tableKey
	enc   Encoding
}

// once holds the result of one load.
type once[T any] struct {
	sync.Once
	v   T
	err error
}

// Path returns the file that a spec's path stands for.
func (s *Source) Path(path string) (string, error) {
	if s.Override == "" {
		if path == "" {
			return "", fmt.Errorf("dataset: no data file: write data = \"FILE\" in the environment's table, or pass " +
				"--data FILE")
		}
		return path, nil
	}
	info, err := os.Stat(s.Override)
	if err != nil {
		return "", fmt.Errorf("dataset: --data %s: %w", s.Override, err)
	}
	switch {
	case !info.IsDir():
		return s.Override, nil
	case path == "":
		return "", fmt.Errorf("dataset: --data %s is a directory and the environment's table names no file: write "+
			"data = \"FILE\" there, or pass --data FILE", s.Override)
	case filepath.IsAbs(path):
		return path, nil
	}
	return filepath.Join(s.Override, path), nil
}

// Load returns the table in the file that path stands for.
func (s *Source) Load(path string, o Options) (*Table, error) {
	path, err := s.Path(path)
	if err != nil {
		return nil, err
	}
	return s.load(keyOf(path, o), path, o)
}

func keyOf(path string, o Options) tableKey { return tableKey{path, fmt.Sprintf("%#v", o)} }

func (s *Source) load(k tableKey, path string, o Options) (*Table, error) {
	s.mu.Lock()
	if s.tables == nil {
		s.tables = make(map[tableKey]*once[*Table])
	}
	c := s.tables[k]
	if c == nil {
		c = new(once[*Table])
		s.tables[k] = c
	}
	s.mu.Unlock()
	c.Do(func() {
		c.v, c.err = Read(path, o)
		if errors.Is(c.err, fs.ErrNotExist) && s.Override == "" {
			c.err = fmt.Errorf("%w; if the file is elsewhere, pass --data FILE", c.err)
		}
	})
	return c.v, c.err
}

// Encoded returns the encoded table in the file that path stands for.
func (s *Source) Encoded(path string, o Options, enc Encoding) (*Encoded, error) {
	path, err := s.Path(path)
	if err != nil {
		return nil, err
	}
	k := encodedKey{keyOf(path, o), enc}
	s.mu.Lock()
	if s.encoded == nil {
		s.encoded = make(map[encodedKey]*once[*Encoded])
	}
	c := s.encoded[k]
	if c == nil {
		c = new(once[*Encoded])
		s.encoded[k] = c
	}
	s.mu.Unlock()
	c.Do(func() {
		var t *Table
		if t, c.err = s.load(k.table, path, o); c.err == nil {
			c.v, c.err = t.Encode(enc)
		}
	})
	return c.v, c.err
}

// Other returns what read makes of the file that path stands for, for files that are no tables. Calls with
// one key share the result of the first; key says what read does.
func (s *Source) Other(path, key string, read func(file string) (any, error)) (any, error) {
	path, err := s.Path(path)
	if err != nil {
		return nil, err
	}
	k := tableKey{path, key}
	s.mu.Lock()
	if s.others == nil {
		s.others = make(map[tableKey]*once[any])
	}
	c := s.others[k]
	if c == nil {
		c = new(once[any])
		s.others[k] = c
	}
	s.mu.Unlock()
	c.Do(func() { c.v, c.err = read(path) })
	return c.v, c.err
}
