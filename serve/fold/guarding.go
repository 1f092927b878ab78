package fold

import (
	"troupe/eventlog"
)

// guards notes a guarded decision.
func (f *Fold) guards(h *Model, key eventlog.Event, r *eventlog.Decision) {
	if r.Baseline == 0 || h.Guard == nil {
		return
	}
	was := h.GuardPlays()
	h.Guard.decide(key, r)
	f.turned(h, was)
}

// guardSettles takes what counts as the reward of a decision: the smallest one where nothing does.
func (f *Fold) guardSettles(h *Model, key eventlog.Event, y float64, counts bool) {
	if h.Guard == nil {
		return
	}
	c := &h.Compiled.Config
	if !counts {
		y = c.Reward.Min
	}
	was := h.GuardPlays()
	if h.Guard.settle(key, (y-c.Reward.Min)/(c.Reward.Max-c.Reward.Min), 1-c.Guard.Confidence) {
		f.turned(h, was)
	}
}

// guardExpires is guardSettles of an event whose window ends.
func (f *Fold) guardExpires(h *Model, e *openEvent, key eventlog.Event, r *eventlog.Expire) {
	if e.state&rewarded != 0 {
		f.guardSettles(h, key, e.y, true)
	} else {
		f.guardSettles(h, key, r.Y, r.Default)
	}
}

// turned publishes a version when the guard has changed its mind.
func (f *Fold) turned(h *Model, was bool) {
	if h.GuardPlays() != was {
		f.markChanged(h)
	}
}
