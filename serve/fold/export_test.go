package fold

import (
	"context"

	"troupe/serve/model"
)

// SetInMemory sets how many bytes of an image are in memory, and returns how many were.
func SetInMemory(n int) (before int) {
	before, inMemory = inMemory, n
	return before
}

// Judged returns of the events of a try: the weight 1/(K·p), and the squares of the one-step errors of the hashed model
// and of the one that is learned.
func (h *History) Judged(ctx context.Context, l Learner, limits model.Limits) (out [][3]float64, err error) {
	cfg, err := h.propose(ctx, l, limits, new(Try))
	if err != nil {
		return nil, err
	}
	fit, err := newFit(h.Log, cfg, l.Seed)
	if err == nil {
		err = fit.learn(ctx, l.Events, l.Seed, l.Lost)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range fit.judged {
		out = append(out, [3]float64{e.weight, e.hashed, e.learned})
	}
	return out, nil
}
