package serve

import "context"

// Foretelling says what a model expects now, for decisions of its log. Nothing is written. It is safe for concurrent use.
type Foretelling interface {
	// Curve says what is expected where a number of a decision is at the places u of its range, and all else is as in the decision,
	// whose features are those of its record. nil: the model does not say it.
	Curve(ctx context.Context, features []byte, number string, u []float64) (*LearnedCurve, error)
	// BestList says which list is expected to earn most of the actions that stood at each position in some lists of one context, the
	// newest first. nil: the model does not say it.
	BestList(ctx context.Context, lists []PlayedList) (*BestList, error)
}

// LearnedCurve is what a model expects of a number at some places of its range: means, and standard deviations under the variances
// that it has learned.
type LearnedCurve struct{ Mean, SD []float64 }

// PlayedList is a list of the log: the features of its record, and the actions from the top.
type PlayedList struct {
	Features []byte
	Actions  []string
}

// BestList is a list with what each position is expected to earn where none above is rewarded.
type BestList struct {
	Actions     []string
	Expected    []float64
	Approximate bool // categories repeat, and the search may have missed the best list
}
