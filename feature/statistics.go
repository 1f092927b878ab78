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
)

// Standard is how one number feature is standardised: z = (x − Mean)/Deviation. It is an event of the
// log: from then on the feature's numbers have the coordinates of this generation.
type Standard struct {
	Feature    uint64  // hash of the name
	Name       string  // for people; at most 256 bytes
	Generation uint32  // 1 for the first record of a feature, then one more each time
	Mean       float64 // finite
	Deviation  float64 // finite, ≥ 0; 0: all values were equal, and numbers stay hashed levels
}

func (s Standard) check() error {
	switch {
	case s.Generation == 0:
		return fmt.Errorf("feature: standard of %q has generation 0, expected 1 or more", s.Name)
	case s.Mean-s.Mean != 0:
		return fmt.Errorf("feature: standard of %q has mean %v, expected a finite number", s.Name, s.Mean)
	case !(s.Deviation >= 0) || math.IsInf(s.Deviation, 0):
		return fmt.Errorf("feature: standard of %q has deviation %v, expected a finite number of at least 0", s.Name, s.Deviation)
	case len(s.Name) > maxName:
		return fmt.Errorf("feature: standard has a name of %d bytes, expected at most %d", len(s.Name), maxName)
	}
	return nil
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

// A list of standards is: "TRFS", u8 1, count u32, for each: feature u64, generation u32, mean and
// deviation f64, name (u16 length, bytes); then CRC-32C of all before. Little-endian, ascending by
// feature. docs/reference/formats.md describes it.
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
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.Mean))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.Deviation))
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
		if len(b) < 30 || len(b) < 30+int(binary.LittleEndian.Uint16(b[28:])) {
			return nil, errors.New("feature: statistics are cut short")
		}
		r := Standard{
			Feature: binary.LittleEndian.Uint64(b), Generation: binary.LittleEndian.Uint32(b[8:]),
			Mean: math.Float64frombits(binary.LittleEndian.Uint64(b[12:])), Deviation: math.Float64frombits(binary.LittleEndian.Uint64(b[20:])),
		}
		n := 30 + int(binary.LittleEndian.Uint16(b[28:]))
		r.Name = string(b[30:n])
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
type Observer struct {
	mu   sync.Mutex
	seen map[uint64]*counted
}

// firstValues is how many values of a feature make its standard, window how many are looked at before it is
// replaced, and cut where standardised values are cut.
const (
	firstValues = 32
	window      = 1000
	cut         = 3
)

type counted struct {
	n, outside int
	mean, m2   float64 // Welford, of the values outside where a standard is in force
	proposed   uint32  // the newest generation that was proposed
}

// Look counts the numbers of the request that b holds and returns the standards that are now due. known are
// the statistics in force.
func (o *Observer) Look(b *HashedBatch, known *Statistics) []Standard {
	if len(b.seen) == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var due []Standard
	for _, v := range b.seen {
		if s, ok := o.look(v.feature, v.x, known); ok {
			s.Name = string(b.names[v.from:v.to])
			due = append(due, s)
		}
	}
	return due
}

func (o *Observer) look(feature uint64, x float64, known *Statistics) (Standard, bool) {
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
	most := firstValues
	if ok {
		if c.n++; c.n > window {
			*c = counted{n: 1, proposed: c.proposed}
		}
		if d := x - now.Mean; math.Abs(d) <= cut*now.Deviation {
			return Standard{}, false
		}
		most = window/5 + 1
	}
	c.outside++
	d := x - c.mean
	c.mean += d / float64(c.outside)
	c.m2 += float64(d * (x - c.mean))
	if c.outside < most {
		return Standard{}, false
	}
	s := Standard{Feature: feature, Generation: now.Generation + 1, Mean: c.mean, Deviation: math.Sqrt(c.m2 / float64(c.outside))}
	*c = counted{proposed: s.Generation}
	if s.Mean-s.Mean != 0 || s.Deviation-s.Deviation != 0 {
		return Standard{}, false
	}
	if s.Deviation <= 1e-12*math.Abs(s.Mean) {
		s.Deviation = 0
	}
	return s, true
}
