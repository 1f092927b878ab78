package feature

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"sync"

	"troupe/internal/logs"
)

// Standard is how the numbers of one feature become coordinates: z = (t(x) − Mean)/Deviation, with
// t(x) = x, or t(x) = asinh((x − Center)/Width) where Width > 0, for numbers with heavy tails. It is an
// event of the log: from then on the feature's numbers have the coordinates of this generation.
type Standard struct {
	Feature    uint64  // hash of the name
	Name       string  // for people; at most 256 bytes
	Generation uint32  // 1 for the first record of a feature, then one more each time
	Mean       float64 // finite, of t(x)
	Deviation  float64 // finite, ≥ 0, of t(x); 0: all values were equal, and numbers stay hashed levels
	Center     float64 // finite
	Width      float64 // finite, ≥ 0; 0: t(x) = x
	Levels     bool    // numbers within ±3 are levels, not bins: few whole numbers were seen
}

func (s Standard) check() error {
	finite := func(v float64) bool { return v-v == 0 }
	switch {
	case s.Generation == 0:
		return fmt.Errorf("feature: standard of %q has generation 0, expected 1 or more", s.Name)
	case !finite(s.Mean) || !finite(s.Center):
		return fmt.Errorf("feature: standard of %q has mean %v and center %v, expected finite numbers", s.Name, s.Mean,
			s.Center)
	case !(s.Deviation >= 0) || !finite(s.Deviation) || !(s.Width >= 0) || !finite(s.Width):
		return fmt.Errorf("feature: standard of %q has deviation %v and width %v, expected finite numbers of at "+
			"least 0", s.Name, s.Deviation, s.Width)
	case len(s.Name) > maxName:
		return fmt.Errorf("feature: standard has a name of %d bytes, expected at most %d", len(s.Name), maxName)
	}
	return nil
}

// z returns the standardised value of x, cut at ±3, and whether it lies inside.
func (s *Standard) z(x float64) (z float64, inside bool) {
	z = (s.transform(x) - s.Mean) / s.Deviation
	if z > cut {
		return cut, false
	} else if z < -cut {
		return -cut, false
	}
	return z, true
}

func (s *Standard) transform(x float64) float64 {
	if s.Width == 0 {
		return x
	}
	u := math.Abs((x - s.Center) / s.Width)
	if u > 1e150 {
		u = 1e150
	}
	return math.Copysign(logs.Log(u+math.Sqrt(float64(u*u)+1)), x-s.Center)
}

// standardOf returns the standard that first values of a feature give. The order of the values does not
// matter beyond rounding; values is sorted.
func standardOf(values []float64) Standard {
	slices.Sort(values)
	n := len(values)
	var s Standard
	quantile := func(q int) float64 { return values[q*(n-1)/4] }
	low, middle, high := quantile(1), quantile(2), quantile(3)
	switch iqr := high - low; {
	case values[0] > 0 && high > scales*low: // of several orders of magnitude: its logarithm, about
		s.Width = low / 4
	case iqr > 0 && max(values[n-1]-middle, middle-values[0]) > heavy*iqr:
		s.Center, s.Width = middle, iqr
	}
	s.Levels = values[n-1]-values[0] < fewLevels
	for _, x := range values {
		s.Levels = s.Levels && x == math.Floor(x) && math.Abs(x) < 1<<53
	}
	first, last := 0, n // without values that are far from all others
	if s.Width > 0 && s.Center == middle {
		for last > n-few && (values[last-1]-middle)/s.Width > far {
			last--
		}
		for first < few && (middle-values[first])/s.Width > far {
			first++
		}
	}
	n = last - first
	var m2 float64
	for i, x := range values[first:last] {
		d := s.transform(x) - s.Mean
		s.Mean += d / float64(i+1)
		m2 += float64(d * (s.transform(x) - s.Mean))
	}
	s.Deviation = math.Sqrt(m2 / float64(n))
	if !(s.Deviation > 1e-12*math.Abs(s.Mean)) || math.IsInf(s.Deviation, 0) || s.Mean-s.Mean != 0 {
		s = Standard{} // equal numbers, or such that float64 has no room for their squares
	}
	return s
}

// MaxStandards is the largest number of number features with statistics; numbers of further features
// stay hashed levels.
const MaxStandards = 4096

// Statistics is what a HashedBatch knows of numbers: one Standard for each feature. It is a fold over
// Standards: With returns the next state and changes nothing, so that a version of a model keeps its
// own. The zero pointer is the state before the first record. Safe for concurrent use.
type Statistics struct {
	of map[uint64]Standard
}

// With returns the statistics after a record. A record that is not newer than the one of its feature,
// or of a further feature than MaxStandards, changes nothing: the first record wins.
func (s *Statistics) With(r Standard) (*Statistics, error) {
	if err := r.check(); err != nil {
		return s, err
	}
	var of map[uint64]Standard
	if s != nil {
		of = s.of
	}
	old, known := of[r.Feature]
	if known && old.Generation >= r.Generation || !known && len(of) >= MaxStandards {
		return s, nil
	}
	of = maps.Clone(of)
	if of == nil {
		of = map[uint64]Standard{}
	}
	of[r.Feature] = r
	return &Statistics{of}, nil
}

// Of returns the standard of a feature.
func (s *Statistics) Of(feature uint64) (r Standard, ok bool) {
	if s == nil {
		return r, false
	}
	r, ok = s.of[feature]
	return r, ok
}

// All returns the standards in ascending order of names, for pages and answers.
func (s *Statistics) All() []Standard {
	if s == nil {
		return nil
	}
	all := slices.Collect(maps.Values(s.of))
	slices.SortFunc(all, func(a, b Standard) int {
		if a.Name != b.Name {
			if a.Name < b.Name {
				return -1
			}
			return 1
		}
		if a.Feature < b.Feature {
			return -1
		}
		return 1
	})
	return all
}

// A list of standards is: "TRFS", u8 1, count u32, for each: feature u64, generation u32, levels u8, mean, deviation,
// center and width f64, name (u16 length, bytes); then CRC-32C of all before. Little-endian, ascending by feature.
// docs/reference/formats.md describes it.
const standardsMagic = "TRFS\x01"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends the state; equal states have equal bytes.
func (s *Statistics) Append(b []byte) []byte {
	start := len(b)
	b = append(b, standardsMagic...)
	var keys []uint64
	if s != nil {
		keys = slices.Sorted(maps.Keys(s.of))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(keys)))
	for _, k := range keys {
		r := s.of[k]
		b = binary.LittleEndian.AppendUint64(b, r.Feature)
		b = binary.LittleEndian.AppendUint32(b, r.Generation)
		if b = append(b, 0); r.Levels {
			b[len(b)-1] = 1
		}
		for _, v := range []float64{r.Mean, r.Deviation, r.Center, r.Width} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Name)))
		b = append(b, r.Name...)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// ReadStatistics is the inverse of Append. Other bytes are an error.
func ReadStatistics(b []byte) (*Statistics, error) {
	n := len(b) - 4
	if n < len(standardsMagic)+4 || string(b[:len(standardsMagic)]) != standardsMagic {
		return nil, errors.New("feature: not statistics of a hashed encoder")
	}
	if crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, errors.New("feature: statistics are damaged (checksum)")
	}
	b = b[len(standardsMagic):n]
	count := binary.LittleEndian.Uint32(b)
	b = b[4:]
	s := &Statistics{of: map[uint64]Standard{}}
	for range count {
		const fixed = 8 + 4 + 1 + 4*8 + 2
		if len(b) < fixed || len(b) < fixed+int(binary.LittleEndian.Uint16(b[fixed-2:])) {
			return nil, errors.New("feature: statistics are cut short")
		}
		number := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[13+8*i:])) }
		n := fixed + int(binary.LittleEndian.Uint16(b[fixed-2:]))
		r := Standard{
			Feature: binary.LittleEndian.Uint64(b), Generation: binary.LittleEndian.Uint32(b[8:]), Levels: b[12] == 1,
			Mean: number(0), Deviation: number(1), Center: number(2), Width: number(3), Name: string(b[fixed:n]),
		}
		if b[12] > 1 {
			return nil, fmt.Errorf("feature: statistics of %q have the mark %d, expected 0 or 1", r.Name, b[12])
		}
		if err := r.check(); err != nil {
			return nil, err
		}
		s.of[r.Feature] = r
		b = b[n:]
	}
	if len(b) > 0 || len(s.of) != int(count) || count > MaxStandards {
		return nil, errors.New("feature: statistics have a wrong length")
	}
	if count == 0 {
		return nil, nil
	}
	return s, nil
}

// Observer looks at the numbers of requests and proposes Standards: one when a feature has shown 32
// values, and a new one when more than a fifth of a thousand values lie outside ±3 of the standard in
// force. What it has counted is not part of the state of a model: after a restart it counts anew. Safe
// for concurrent use.
//
// Strings count as numbers as long as all of a feature are decimal numbers, and 24 in a row have at least 18 different
// values: fewer are rather names of things. After four times 24 with fewer they stay strings.
type Observer struct {
	mu    sync.Mutex
	seen  map[uint64]*counted
	texts map[uint64]bool // features whose strings are strings
}

// firstValues is how many values of a feature make its standard, window how many are looked at before it is
// replaced, and cut where standardised values are cut. A value farther than heavy interquartile ranges
// from the median is a heavy tail, and one farther than far of them an error of its sender, of which two on each side
// have no part in the deviation. Positive numbers whose upper quartile is more than scales times the lower one are read
// by their logarithm. Whole numbers in an interval shorter than fewLevels are levels.
const (
	firstValues = 32
	window      = 1000
	cut         = 3
	heavy       = 4
	far         = 100
	few         = 2
	scales      = 8
	fewLevels   = 32

	firstTexts = 24 // strings before a standard
	manyTexts  = 18 // different ones among them
	textTries  = 4
)

type counted struct {
	n, outside int       // values since the window began, and of them outside
	values     []float64 // the first ones, or every eighth of the window
	proposed   uint32    // the newest generation that was proposed
	tries      int       // times that firstTexts strings had too few values
}

// Look counts the numbers of the request that b holds and returns the standards that are now due. known are
// the statistics in force.
func (o *Observer) Look(b *HashedBatch, known *Statistics) []Standard {
	o.mu.Lock()
	defer o.mu.Unlock()
	var due []Standard
	for _, v := range b.seen {
		text := v.kind == 's' && v.numeric
		switch {
		case text && o.texts[v.feature]:
			continue
		case v.kind == 's' && !v.numeric, v.kind == 't':
			o.isText(v.feature)
			continue
		case !text && v.kind != 'n':
			continue
		}
		if s, ok := o.look(v.feature, v.x, known, text); ok {
			s.Name = string(b.names[v.from:v.to])
			due = append(due, s)
		}
	}
	return due
}

// isText notes that the strings of a feature are strings. Of more features than are kept, all are.
func (o *Observer) isText(feature uint64) {
	if o.texts == nil {
		o.texts = map[uint64]bool{}
	}
	if len(o.texts) < 2*MaxStandards {
		o.texts[feature] = true
	}
}

// Forget takes back standards that Look returned and that were not recorded: their values are counted anew.
func (o *Observer) Forget(due []Standard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range due {
		if c := o.seen[s.Feature]; c != nil && c.proposed == s.Generation {
			*c = counted{}
		}
	}
}

func (o *Observer) look(feature uint64, x float64, known *Statistics, text bool) (Standard, bool) {
	if o.seen == nil {
		o.seen = map[uint64]*counted{}
	}
	c := o.seen[feature]
	if c == nil {
		if len(o.seen) >= 2*MaxStandards {
			return Standard{}, false
		}
		c = &counted{}
		o.seen[feature] = c
	}
	now, ok := known.Of(feature)
	if c.proposed > now.Generation { // it was proposed and is on its way
		return Standard{}, false
	}
	if !ok {
		enough := firstValues
		if text {
			enough = firstTexts
		}
		if c.values = append(c.values, x); len(c.values) < enough {
			return Standard{}, false
		}
		if slices.Sort(c.values); text && len(slices.Compact(slices.Clone(c.values))) < manyTexts {
			if c.tries++; c.tries == textTries || len(o.texts) >= 2*MaxStandards {
				o.isText(feature)
			}
			c.values = c.values[:0]
			return Standard{}, false
		}
	} else {
		if c.n++; c.n > window {
			c.n, c.outside, c.values = 1, 0, c.values[:0]
		}
		if c.n%8 == 1 {
			c.values = append(c.values, x)
		}
		inside := x == now.Mean
		if now.Deviation > 0 {
			_, inside = now.z(x)
		}
		if !inside {
			c.outside++
		}
		if c.outside <= window/5 {
			return Standard{}, false
		}
	}
	s := standardOf(c.values)
	if s.Deviation == 0 {
		s.Mean = x
	}
	s.Feature, s.Generation = feature, now.Generation+1
	*c = counted{proposed: s.Generation}
	return s, true
}
