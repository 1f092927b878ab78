package api

import (
	"context"
	"sync"
	"time"
	"unique"

	"troupe/serve"
	"troupe/timing"
)

// flow remembers counts of the last minute, so that the status page can say how much there is, and
// how much there was in each minute of the last hour.
type flow struct {
	svc   serve.ModelService
	clock timing.Clock

	mu      sync.Mutex
	samples []sample // oldest first
	minutes []minute // oldest first
}

// minute is what came in one minute of the clock.
type minute struct {
	at                 time.Time
	decisions, rewards uint64
}

// sample is how many decisions and rewards each model had. There are twelve of them, so a name is in memory once.
type sample struct {
	at     time.Time
	counts map[unique.Handle[string]]tally
}

type tally struct{ decisions, rewards uint64 }

const (
	sampleEvery = 5 * time.Second
	sampleFor   = time.Minute
)

// add keeps a sample and forgets those that are too old, but always the youngest of them, so that a
// whole minute is covered.
func (f *flow) add(s sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.samples); n > 0 {
		f.count(f.samples[n-1], s)
	}
	f.samples = append(f.samples, s)
	for len(f.samples) > 2 && s.at.Sub(f.samples[1].at) >= sampleFor {
		f.samples = f.samples[1:]
	}
}

// count adds what came between two samples to the minute of the second.
func (f *flow) count(old, now sample) {
	at := now.at.Truncate(time.Minute)
	if n := len(f.minutes); n == 0 || f.minutes[n-1].at.Before(at) {
		f.minutes = append(f.minutes, minute{at: at})
	}
	for len(f.minutes) > 0 && at.Sub(f.minutes[0].at) >= time.Hour {
		f.minutes = f.minutes[1:]
	}
	m := &f.minutes[len(f.minutes)-1]
	for name, c := range now.counts {
		before := old.counts[name]
		if c.decisions < before.decisions || c.rewards < before.rewards {
			before = tally{} // a model made anew
		}
		m.decisions += c.decisions - before.decisions
		m.rewards += c.rewards - before.rewards
	}
}

// lastHour returns the minutes of the last hour in which something was counted.
func (f *flow) lastHour(now time.Time) (out []minute) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.minutes {
		if now.Sub(m.at) < time.Hour {
			out = append(out, m)
		}
	}
	return out
}

// unsampled returns the decisions of models since the newest sample, all of a model that it does not have.
func (f *flow) unsampled(models []serve.Model) (decisions uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) == 0 { // what was before the start is not known
		return 0
	}
	counts := f.samples[len(f.samples)-1].counts
	for _, m := range models {
		before := counts[unique.Make(m.Name)].decisions
		if m.Counts.Decisions < before {
			before = 0 // a model made anew
		}
		decisions += m.Counts.Decisions - before
	}
	return decisions
}

// perMinute returns decisions and rewards a minute of a model, given its counts now. ok is false
// while there is nothing to compare with.
func (f *flow) perMinute(model string, now time.Time, c serve.Counts) (decisions, rewards float64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.samples {
		old, there := s.counts[unique.Make(model)]
		took := now.Sub(s.at)
		if !there || took < time.Second || old.decisions > c.Decisions || old.rewards > c.Rewards {
			continue
		}
		scale := float64(time.Minute) / float64(max(took, sampleFor)) // never more than there were
		return scale * float64(c.Decisions-old.decisions), scale * float64(c.Rewards-old.rewards), true
	}
	return 0, 0, false
}

// run samples the counts of the models until ctx ends.
func (f *flow) run(ctx context.Context) {
	tick := f.clock.Ticker(sampleEvery)
	defer tick.Stop()
	for {
		f.sample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *flow) sample(ctx context.Context) {
	s := sample{f.clock.Now(), map[unique.Handle[string]]tally{}}
	for after, more := "", true; more; {
		var models []serve.Model
		var err error
		if models, more, err = f.svc.ListModels(ctx, after, 1000); err != nil {
			return
		}
		for _, m := range models {
			s.counts[unique.Make(m.Name)] = tally{m.Counts.Decisions, m.Counts.Rewards}
			after = m.Name
		}
	}
	f.add(s)
}
