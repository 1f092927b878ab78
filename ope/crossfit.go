package ope

import (
	"context"
	"errors"
	"fmt"
	"io"

	"troupe/logged"
)

// crossFit fits a reward model for each of F folds of consecutive events on the events of the other folds. It reads the
// log twice: to count and see the first events, and to add up. For independent events: the fit sees later rewards, so
// sequences that use q are not given.
func crossFit(ctx context.Context, folds int, kind string, reopen func() (Source, error)) (models []*model, n int,
	err error) {
	pass := func(each func(i int, ev *logged.Event) error) (int, error) {
		src, err := reopen()
		if err != nil {
			return 0, err
		}
		if c, ok := src.(io.Closer); ok {
			defer c.Close()
		}
		var ev logged.Event
		for i := 0; ; i++ {
			if err := src.Read(&ev); err == io.EOF {
				return i, nil
			} else if err != nil {
				return i, err
			}
			if i%1024 == 0 && ctx.Err() != nil {
				return i, ctx.Err()
			}
			if err := each(i, &ev); err != nil {
				return i, err
			}
		}
	}
	var first []*logged.Event
	if n, err = pass(func(i int, ev *logged.Event) error {
		if len(ev.Slots) > 0 {
			return errors.New("--crossfit: lists of slots have no reward model")
		}
		if i < firstFit {
			first = append(first, ev.Clone())
		}
		return nil
	}); err != nil {
		return nil, 0, err
	}
	if n < 2*folds {
		return nil, 0, fmt.Errorf("--crossfit %d: %d events are too few", folds, n)
	}
	l, err := newLayout(first)
	if err != nil {
		return nil, 0, err
	}
	all := make([]sums, folds)
	var s scratch
	if _, err = pass(func(i int, ev *logged.Event) error {
		f := &all[foldOf(i, n, folds)]
		f.keep = kind == "logistic"
		var z []float64
		if kind != "mean" {
			z = l.vectors(ev, &s)
		}
		f.add(l, kind, ev, z, 1)
		return nil
	}); err != nil {
		return nil, 0, err
	}
	for f := range folds {
		m := &learner{kind: kind, l: l}
		m.total.keep = kind == "logistic"
		for g := range all {
			if g != f {
				m.total.merge(&all[g])
			}
		}
		if err := m.fit(); err != nil {
			return nil, 0, err
		}
		models = append(models, m.model)
	}
	return models, n, nil
}

// foldOf is the fold of event i of n: folds of consecutive events.
func foldOf(i, n, folds int) int { return min(i*folds/n, folds-1) }
