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
	// difference +0.057 in [-0.089, +0.166]
	// too close to call: between 19% worse and 36% better
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

// How many decisions until a difference of 0.02 is settled, by the laws alone: ten actions, a floor of 10 %, rewards of 20 %.
func ExamplePlanner() {
	p, err := ope.NewPlanner(ope.PlanOptions{Rate: 0.2})
	if err != nil {
		panic(err)
	}
	logger, target := make([]float64, 10), make([]float64, 10)
	for a := range logger {
		logger[a] = 0.01
	}
	logger[0], target[1] = 0.91, 1
	p.Add(logger, target)
	plan, err := p.Plan(0.02)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.1g decisions\n", plan.Decisions)
	// Output: 9e+05 decisions
}
