package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve"
)

// warning is what is wrong with a model and what to do about it.
type warning struct{ What, Do string }

// The warnings look at the newest warnDecisions decisions, on the status page and on the model's page.
const (
	warnDecisions = 200
	fewDecisions  = 20 // below it nothing is said of propensities
	someDecisions = 50 // below it nothing is said of actions and rewards
)

// countWarnings are those that the counts and the configuration tell, without the log, and then the model's own.
func countWarnings(m *serve.Model) (out []warning) {
	add := func(do, format string, args ...any) { out = append(out, warning{fmt.Sprintf(format, args...), do}) }
	c := &m.Counts
	if m.Failed != "" {
		add("Until then callers use their own default.", "The model cannot decide: %s.", m.Failed)
	}
	paid := c.Rewards + c.Ignored
	switch {
	case paid == 0 && c.Late > 0 && c.Decisions >= someDecisions:
		add("Send rewards earlier, or make reward.window longer.", "Every reward came after its window was closed.")
	case paid == 0 && c.Decisions >= someDecisions:
		add("Send POST /v1/events/EVENT_ID:reward with the event_id of each answer.",
			"No reward has come for %s decisions, so the model has learned nothing.", grouped(c.Decisions))
	case c.Late >= fewDecisions && 20*c.Late > c.Late+paid && (c.Late <= 100 || 2*c.Late <= c.Rewards):
		// with more, the model's own warnings have it
		add("Make reward.window longer: late rewards do not count.", "%s rewards came after their window was closed.",
			grouped(c.Late))
	}
	if allEqual(m) {
		add("Send the other rewards too, or set reward.default for decisions without one.",
			"All %s rewards are %s: there is nothing to learn from.",
			grouped(c.Rewards), short(c.RewardSum/float64(c.Rewards)))
	}
	for _, w := range m.Warnings {
		out = append(out, warning{What: w})
	}
	return out
}

// allEqual reports whether many rewards are all the smallest or all the largest: rewards lie in [min, max], so their
// mean is at an end only when each of them is.
func allEqual(m *serve.Model) bool {
	c, t := &m.Counts, termsOf(m)
	return c.Rewards >= someDecisions && c.Defaulted == 0 && !saysEqual(m) &&
		(c.RewardSum == t.min*float64(c.Rewards) || c.RewardSum == t.max*float64(c.Rewards))
}

// saysEqual reports whether the model's own warnings speak of equal rewards when there are any.
func saysEqual(m *serve.Model) bool {
	d := &m.Config.Reward.Default
	return m.Counts.Rewards >= 100 && !d.Set && d.Word != "auto"
}

// historyWarnings are those that the newest decisions tell.
func historyWarnings(h *modelHistory, m *serve.Model) (out []warning) {
	add := func(do, format string, args ...any) { out = append(out, warning{fmt.Sprintf(format, args...), do}) }
	var n, chosen, sure, valued, positive int
	single, equal := true, true
	var first, firstValued *past
	newest := h.decisions[max(0, len(h.decisions)-warnDecisions):]
	for _, d := range newest {
		if d.inactive {
			continue
		}
		n++
		if d.rewarded || d.fallback {
			if firstValued == nil {
				firstValued = d
			}
			if valued, equal = valued+1, equal && d.y == firstValued.y; d.y > 0 {
				positive++
			}
		}
		if !d.policy() {
			continue
		}
		if first == nil {
			first = d
		}
		chosen, single = chosen+1, single && d.what() == first.what()
		if d.num == d.den {
			sure++
		}
	}
	const alike = "Send features that tell the candidates and the situations apart, under the same names in every " +
		"request. If the schema was learned from a request without them, make a new model with the right schema. " +
		"Otherwise set floor, so that the log supports other policies."
	switch {
	case chosen >= fewDecisions && sure == chosen && single:
		add(alike, "The model is blind or has stopped exploring: the newest %d decisions all took the action %q with "+
			"probability 1.", chosen, clipped(first.what(), 80))
	case chosen >= fewDecisions && sure == chosen:
		add("Set floor, for example to 0.01, when the log shall support comparisons.",
			"The newest %d decisions were each taken with probability 1: the model does not explore, and its log "+
				"cannot say what other actions would have earned.", chosen)
	case chosen >= someDecisions && single:
		add(alike, "The newest %d decisions all took the action %q, although others were offered.", chosen,
			clipped(first.what(), 80))
	}
	if n >= someDecisions && chosen == 0 && newest[len(newest)-1].offered <= 1 {
		add("Send all candidates among which the model may choose.",
			"The newest decisions had one candidate each: there is nothing to choose.")
	}
	if valued >= someDecisions && equal && !allEqual(m) && !saysEqual(m) {
		do := "Send rewards that differ between good and bad outcomes."
		if positive == valued && !m.Config.Reward.Default.Set {
			do = "Send the failures too, or set reward.default to the smallest reward."
		}
		add(do, "The newest %d rewards are all %s: there is nothing to learn from.", valued, short(firstValued.y))
	}
	return out
}

// together removes what is said twice.
func together(lists ...[]warning) (out []warning) {
	seen := map[string]bool{}
	for _, list := range lists {
		for _, w := range list {
			if !seen[w.What] {
				seen[w.What] = true
				out = append(out, w)
			}
		}
	}
	return out
}

// verdicts keep the warnings from the log for the status page, which is loaded again and again.
type verdicts struct {
	log     serve.RecordService
	exports chan struct{} // semaphore of those that read the whole log

	mu    sync.Mutex
	known map[string]verdict
}

type verdict struct {
	model     eventlog.ID
	decisions uint64
	at        time.Time
	warnings  []warning
}

// The status page reads the log for at most verdictReads models at a time, and for one not before verdictAge is over.
const (
	verdictReads = 20
	verdictAge   = 30 * time.Second
	verdictKept  = 2000
)

// warnings returns the warnings of each model, by name. A model whose part of the log was not read yet has those of
// its counts; the next call goes on with it.
func (v *verdicts) warnings(ctx context.Context, models []serve.Model, now time.Time) map[string][]warning {
	out := map[string][]warning{}
	read := 0
	for i := range models {
		m := &models[i]
		old, ok := v.get(m.Name)
		if ok = ok && old.model == m.Incarnation; !ok {
			old = verdict{}
		}
		if m.Counts.Decisions >= fewDecisions && read < verdictReads &&
			(!ok || old.decisions != m.Counts.Decisions && now.Sub(old.at) >= verdictAge) {
			read++
			if w, done := v.read(ctx, m); done {
				old = verdict{m.Incarnation, m.Counts.Decisions, now, w}
				v.put(m.Name, old)
			}
		}
		out[m.Name] = together(old.warnings, countWarnings(m))
	}
	return out
}

func (v *verdicts) get(name string) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x, ok := v.known[name]
	return x, ok
}

func (v *verdicts) put(name string, x verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= verdictKept {
		v.known = map[string]verdict{}
	}
	v.known[name] = x
}

// read reads the newest entries of a model; not done when too many read the log, or it cannot be read.
func (v *verdicts) read(ctx context.Context, m *serve.Model) (_ []warning, done bool) {
	select {
	case v.exports <- struct{}{}:
		defer func() { <-v.exports }()
	default:
		return nil, false
	}
	h, err := readHistory(ctx, v.log, m, bounds{63 * firstChunk, warnDecisions, false, false})
	if err != nil || h.broken != "" {
		return nil, false
	}
	return historyWarnings(h, m), true
}
