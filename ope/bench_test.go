package ope

import (
	"context"
	"io"
	"testing"

	"troupe/logged"
)

// repeated gives the same events again and again.
type repeated struct {
	all     []logged.Event
	at, end int
}

func (s *repeated) Read(e *logged.Event) error {
	if s.at == s.end {
		return io.EOF
	}
	*e = s.all[s.at%len(s.all)]
	s.at++
	return nil
}

// BenchmarkEvaluate is the time of one event without reading it: K = 10, a context of two numbers, both intervals, the
// difference, ridge.
func BenchmarkEvaluate(b *testing.B) {
	all := uniformLog(4096, 10, 1)
	b.ReportAllocs()
	if _, err := Evaluate(context.Background(), &repeated{all: all, end: max(b.N, 100)}, Options{Targets: []Target{&Fixed{"first", append(make([]float64, 9), 1)}}}); err != nil {
		b.Fatal(err)
	}
}
