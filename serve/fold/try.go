package fold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/model"
)

// sampleBytes bounds the requests that a schema is learned from at once.
const sampleBytes = 64 << 20

// Learn learns a schema from the requests of the model, lets auto learn its events, and returns the record of what came
// of it. It reads the log and no fold.
func (h *History) Learn(ctx context.Context, l Learner, limits model.Limits) (*eventlog.Control, error) {
	try := Try{Number: l.Number, From: l.From, Dropped: l.Dropped, Events: len(l.Events), Version: l.Version}
	var digest eventlog.ID
	cfg, err := h.propose(ctx, l, limits, &try)
	if err == nil {
		digest, err = h.judge(ctx, l, cfg, &try)
	}
	var f *unlearned
	if errors.As(err, &f) {
		try.Why, err = "no model: "+f.Error(), nil
	}
	if err != nil {
		return nil, err
	}
	c := &eventlog.Control{Act: eventlog.Adopt, Model: l.ID, Name: l.Name}
	if try.TookOver {
		if c.Config, err = ControlConfig(cfg.Config, nil); err != nil {
			return nil, err
		}
		c.Digest = digest
	}
	for len(try.Reasons) > 0 {
		if c.Data, err = json.Marshal(try); err != nil || len(c.Data) <= maxTry {
			break
		}
		try.Reasons, try.Lacks = try.Reasons[:len(try.Reasons)/2], try.Lacks[:len(try.Lacks)/2]
	}
	if len(try.Reasons) == 0 {
		c.Data, err = json.Marshal(try)
	}
	return c, err
}

// maxTry bounds the data of an Adopt record.
const maxTry = 64 << 10

// unlearned is why no model came of the requests.
type unlearned struct{ error }

// propose learns the schema.
func (h *History) propose(ctx context.Context, l Learner, limits model.Limits, try *Try) (*model.Compiled, error) {
	read := requestReader{log: h.Log}
	var samples []feature.Sample
	size, left := 0, 0
	for i := len(l.Events) - 1; i >= 0; i-- { // the newest first
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := read.read(l.Events[i].Key, l.Events[i].Seq)
		if l.Lost && errors.Is(err, eventlog.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r, err := readRequest(d)
		if err != nil {
			continue
		}
		if size += r.size; size > sampleBytes {
			left = i + 1
			break
		}
		s := feature.Sample{Context: r.Context}
		for _, a := range r.Actions {
			s.Actions = append(s.Actions, feature.SampleAction{ID: a.ID, Features: a.Features})
		}
		samples = append(samples, s)
	}
	p, err := feature.Learn(samples, feature.LearnOptions{MaxDim: LearnedDim, MaxLevels: 64, Limits: limits.Feature})
	if err != nil {
		return nil, &unlearned{err}
	}
	for _, r := range p.Reasons {
		words := r.Feature + ": " + r.Words
		if try.Reasons = append(try.Reasons, words); r.Lacks {
			try.Lacks = append(try.Lacks, words)
		}
	}
	if left > 0 {
		try.Reasons = append(try.Reasons, fmt.Sprintf("the %d oldest requests were left out, because the others have "+
			"%d MiB", left, sampleBytes>>20))
	}
	cfg, err := l.Compiled.Config.Learned(p.Schema, l.Low, l.High, limits)
	if err != nil {
		return nil, &unlearned{err}
	}
	try.Dim, try.Schema = cfg.Dim, fmt.Sprint(p.Schema.ID())
	return cfg, nil
}

// judge lets the learned model predict and learn every event, and compares its errors with those of the hashed model.
func (h *History) judge(ctx context.Context, l Learner, cfg *model.Compiled, try *Try) (eventlog.ID, error) {
	fit, err := newFit(h.Log, cfg, l.Seed)
	if err == nil {
		err = fit.learn(ctx, l.Events, l.Seed, l.Lost)
	}
	if errors.Is(err, bandit.ErrNumerical) {
		return 0, &unlearned{err}
	}
	if err != nil {
		return 0, err
	}
	if fit.Learned == 0 {
		return 0, &unlearned{errors.New("no request could be encoded")}
	}
	try.Rewards = int(fit.Learned)
	try.decide(fit.judged[len(fit.judged)/2:]) // both began with nothing
	digest, err := fit.digest()
	if err == nil && try.TookOver {
		h.whole().fits.put(fitKeyOf(l.ID, cfg, l.Number), fit)
	}
	return digest, err
}

// decide lets the learned model take over when its mean squared error is smaller in both of two means: over what was
// played, and over the candidates alike, where an event has the weight 1/(K·p). The first mean alone says little of
// actions that the hashed model has given up, the second alone is mostly about what neither model has learned.
//
// Weights are at most √n of n events (truncated importance weights, Ionides 2008), so that one rare action does not
// decide; the bias of that vanishes as n grows.
func (t *Try) decide(events []judged) {
	most := math.Sqrt(float64(len(events)))
	t.Hashed, t.Learned = means(events, func(judged) float64 { return 1 })
	hashed, learned := means(events, func(e judged) float64 { return min(e.weight, most) })
	t.TookOver = t.Learned < t.Hashed && learned < hashed
	verdict, weighted := "not below", ""
	if t.Learned < t.Hashed {
		verdict, weighted = "below", ", but not with"
		if t.TookOver {
			weighted = ", also with"
		}
		weighted += fmt.Sprintf(" more weight for actions that were seldom chosen (%.6g and %.6g)", learned, hashed)
	}
	t.Why = fmt.Sprintf("its mean squared one-step error on the later half of %d kept requests, %.6g, is %s that "+
		"of the hashed model, %.6g%s", t.Rewards, t.Learned, verdict, t.Hashed, weighted)
}

// means returns the weighted means of the squares.
func means(events []judged, weight func(judged) float64) (hashed, learned float64) {
	var sum float64
	for _, e := range events {
		w := weight(e)
		sum += w
		hashed += float64(w * e.hashed)
		learned += float64(w * e.learned)
	}
	return hashed / sum, learned / sum
}
