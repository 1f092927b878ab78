package ope

import (
	"context"
	"fmt"
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

// BenchmarkSets is the time of one event without reading it: 50 candidates, 20 segments, K = 5, named contexts, no reward model that learns.
func BenchmarkSets(b *testing.B) {
	all := uniformLog(4096, 5, 1)
	for i := range all {
		all[i].Named, all[i].Context = fmt.Appendf(nil, `{"city":"c%d","x":%g}`, i%20, all[i].Context[0]), nil
	}
	var targets []Target
	for i := range 50 {
		p := make([]float64, 5)
		p[i%5] = 0.5
		p[i/5%5] += 0.5
		targets = append(targets, &Fixed{fmt.Sprint(i), p})
	}
	by, err := ParseBy("city")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := Evaluate(context.Background(), &repeated{all: all, end: max(b.N, 1000)}, Options{Targets: targets, By: by, Workers: 2}); err != nil {
		b.Fatal(err)
	}
}
