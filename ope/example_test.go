package ope_test

import (
	"context"
	"fmt"

	"troupe/logged"
	"troupe/ope"
)

func ExampleEvaluate() {
	r, err := logged.Open("../logged/testdata/events.jsonl", logged.Options{Rewards: &[2]float64{0, 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	answer, err := ope.Evaluate(context.Background(), r, ope.Options{Targets: []ope.Target{ope.Column{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	t := answer.Targets[0]
	fmt.Printf("difference %+.3f in [%+.3f, %+.3f]\n", *t.Uplift.Value, t.Uplift.Sequence[0], t.Uplift.Sequence[1])
	fmt.Println(t.Verdict)
	// Output:
	// difference +0.049 in [-0.089, +0.166]
	// not settled: between 19 % worse and 36 % better
}

func ExampleSequence() {
	// Values in [0, 1] that come one after the other: their average mean is above this with 97.5 %, whenever one looks.
	s := ope.NewSequence(0)
	for i := range 1000 {
		s.Add(float64(i % 2))
	}
	fmt.Printf("%.3f\n", s.Lower(0.025, 0, 1))
	// Output: 0.444
}
