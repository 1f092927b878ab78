package env

import (
	"fmt"
	"math"
	"math/bits"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/dataset"
	"troupe/rng"
)

// OneHotOptions are the options of kind "one-hot": labelled rows of a file, played as a bandit on sparse
// vectors. Each round shows a row; the arms are the classes, and the payoff is 1 for the row's class,
// otherwise 0.
//
// A row becomes an intercept and one feature for each column: its level, or where a numeric column has more
// than 16 values, its bin of equal width in the column's range. pairs adds the products of each two columns'
// features. The vector of an arm has all of them crossed with the arm, at hashed coordinates of 2^bits, with
// equal values and norm 1. It is for the policy kinds sparse and hashed.
type OneHotOptions struct {
	Data        string   `key:"data" doc:"file with labelled rows; the flag --data takes its place"`
	Format      string   `key:"format" doc:"arff, csv, space, libsvm, or auto"`
	Class       string   `key:"class" doc:"class column: first, last, its name, its number from 1, or auto (the column named class, otherwise the last)"`
	Header      string   `key:"header" doc:"whether the first line names the columns: yes, no, or auto"`
	Delimiter   string   `key:"delimiter" doc:"of CSV: comma, semicolon or tab; empty: found out"`
	Categorical []string `key:"categorical" doc:"columns (names or numbers from 1) whose values are names though they look like numbers"`
	Gaps        []string `key:"gaps" doc:"further texts that mark a missing value, beside ?, NA, nan, NULL and the like"`
	Bins        int      `key:"bins" doc:"bins of a numeric column with more than 16 values"`
	Pairs       bool     `key:"pairs" doc:"products of each two columns too"`
	Bits        int      `key:"bits" doc:"2^bits coordinates"`
}

// NewOneHot returns the defaults.
func NewOneHot() *OneHotOptions {
	return &OneHotOptions{Format: "auto", Class: "auto", Header: "auto", Bins: 10, Pairs: true, Bits: 18}
}

// Doc says what the kind is.
func (*OneHotOptions) Doc() string {
	return "labelled rows as sparse vectors: one-hot columns and their pairs, crossed with the class"
}

// DataFile implements FileReader.
func (o *OneHotOptions) DataFile() string { return o.Data }

// Limits of OneHotOptions.
const (
	fewValues = 16
	maxBins   = 1000
)

// Build implements Options.
func (o *OneHotOptions) Build(key rng.Key, data DataSource) (bandit.Environment, error) {
	if o.Bits < 10 || o.Bits > 28 {
		return nil, wrong("bits", "is %d, expected 10 to 28", o.Bits)
	}
	if o.Bins < 2 || o.Bins > maxBins {
		return nil, wrong("bins", "is %d, expected 2 to %d", o.Bins, maxBins)
	}
	read := dataset.Options{Format: o.Format, Class: o.Class, Header: o.Header, Delimiter: o.Delimiter,
		Categorical: o.Categorical, Gaps: o.Gaps}
	if err := read.Check(""); err != nil {
		return nil, err
	}
	if data == nil {
		return nil, fmt.Errorf("env: one-hot needs a source of data")
	}
	rows, err := data.Encoded(o.Data, read, dataset.Encoding{})
	if err != nil {
		return nil, err
	}
	t := rows.Table
	columns := len(t.Columns)
	nonzeros := columns + 1
	if o.Pairs {
		nonzeros += columns * (columns - 1) / 2
	}
	if nonzeros > actionset.MaxNonzeros {
		return nil, wrong("pairs", "is %v, which with %d columns gives %d nonzeros in an action, expected at most %d",
			o.Pairs, columns, nonzeros, actionset.MaxNonzeros)
	}
	if len(t.Class.Levels) < 2 {
		return nil, wrong("class", "is %q, but all rows of %s have the class %q", o.Class, t.Name, t.Class.Levels[0])
	}
	e := &oneHot{label: t.Class.Codes, arms: len(t.Class.Levels), bits: o.Bits, columns: columns, pairs: o.Pairs,
		nonzeros: nonzeros, row: -1}
	e.levels = make([]uint64, t.Rows*columns)
	for j := range t.Columns {
		levelsOf(e.levels[j:], columns, &t.Columns[j], o.Bins)
	}
	e.notes = append(e.notes, "outside the assumption: payoffs of classified rows are not linear in the features",
		e.collisions(t.Rows))
	e.order = Shuffled(t.Rows, key)
	return e, nil
}

// levelsOf stores the level or the bin of each row at stride in dst.
func levelsOf(dst []uint64, stride int, c *dataset.Column, bins int) {
	if c.Categorical() {
		for i, k := range c.Codes {
			dst[i*stride] = uint64(k + 1)
		}
		return
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	values := map[float64]bool{}
	for _, v := range c.Values {
		if v == v {
			lo, hi = min(lo, v), max(hi, v)
			if len(values) <= fewValues {
				values[v] = true
			}
		}
	}
	for i, v := range c.Values {
		switch {
		case v != v:
			dst[i*stride] = 0
		case len(values) <= fewValues:
			dst[i*stride] = math.Float64bits(v) | 1
		default:
			dst[i*stride] = 1 + uint64(min(int((v-lo)/(hi-lo)*float64(bins)), bins-1))
		}
	}
}

// Shuffled returns the order in which a replication visits n rows of data.
func Shuffled(n int, key rng.Key) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	draw := key.Stream(rng.Instance).Round(drawOrder)
	for i := n - 1; i > 0; i-- { // Fisher and Yates
		j := draw.Intn(i, i+1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// oneHot is the environment of kind "one-hot". It implements Noted and Noisy.
type oneHot struct {
	label    []int32
	levels   []uint64 // rows × columns
	order    []int32
	arms     int
	bits     int
	columns  int
	pairs    bool
	nonzeros int
	notes    []string
	row      int // offered last
}

func mixed64(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// features calls f with the hash of every feature of a row.
func (e *oneHot) features(row int, f func(h uint64)) {
	level := func(j int) uint64 { return mixed64(uint64(j+1)*0x9e3779b97f4a7c15 ^ e.levels[row*e.columns+j]) }
	f(mixed64(1))
	for j := range e.columns {
		f(level(j))
	}
	if !e.pairs {
		return
	}
	for j := range e.columns {
		a := level(j)
		for k := j + 1; k < e.columns; k++ {
			f(mixed64(a*3 + level(k)))
		}
	}
}

func (e *oneHot) coordinate(h uint64, arm int) uint32 {
	return uint32(mixed64(h^uint64(arm+1)*0xd6e8feb86659fd93) >> (64 - e.bits))
}

// collisions says how many coordinates are shared by features of the rows.
func (e *oneHot) collisions(rows int) string {
	seen := map[uint64]bool{}
	for i := range rows {
		e.features(i, func(h uint64) { seen[h] = true })
	}
	used := make([]uint64, (1<<e.bits+63)/64)
	for h := range seen {
		for a := range e.arms {
			c := e.coordinate(h, a)
			used[c/64] |= 1 << (c % 64)
		}
	}
	n := 0
	for _, w := range used {
		n += bits.OnesCount64(w)
	}
	all := len(seen) * e.arms
	return fmt.Sprintf("%d features of %d arms on %d of 2^%d coordinates: %d collide with another", len(seen), e.arms,
		n, e.bits, all-n)
}

// Dim returns 2^bits.
func (e *oneHot) Dim() int { return 1 << e.bits }

// Notes implements Noted.
func (e *oneHot) Notes() []string { return e.notes }

// Sigma implements Noisy.
func (e *oneHot) Sigma() (float64, bool) { return 0.5, true }

// LargestRegret implements Bounded.
func (e *oneHot) LargestRegret() (float64, bool) { return 1, true }

// Offer implements bandit.Environment: round t shows row order[(t−1) mod n].
func (e *oneHot) Offer(draw rng.Source) (bandit.ActionSet, error) {
	n := uint64(len(e.order))
	e.row = int(e.order[(draw.At()+n-1)%n])
	size := e.arms * e.nonzeros
	from, at, x := make([]int, 1, e.arms+1), make([]uint32, 0, size), make([]float64, size)
	for a := range e.arms {
		e.features(e.row, func(h uint64) { at = append(at, e.coordinate(h, a)) })
		from = append(from, len(at))
	}
	v := 1 / math.Sqrt(float64(e.nonzeros))
	for i := range x {
		x[i] = v
	}
	return actionset.SparseOf(e.Dim(), from, at, x)
}

// Reward implements bandit.Environment.
func (e *oneHot) Reward(a bandit.Action, _ rng.Source) (float64, error) {
	r, err := e.Regret(a)
	return 1 - r, err
}

// Regret implements bandit.Environment.
func (e *oneHot) Regret(a bandit.Action) (float64, error) {
	if e.row < 0 {
		panic("env: an action before the first offer")
	}
	if a.Index < 0 || a.Index >= e.arms {
		return 0, fmt.Errorf("env: the action's index is %d, expected an arm from 0 to %d", a.Index, e.arms-1)
	}
	if a.Index == int(e.label[e.row]) {
		return 0, nil
	}
	return 1, nil
}

var (
	_ Noted = (*oneHot)(nil)
	_ Noisy = (*oneHot)(nil)
)
