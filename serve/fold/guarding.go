package fold

import "troupe/eventlog"

// guards keeps the guards of models: what they decided and what came of it.
type guards struct{ models *registry }

// decided notes a guarded decision.
func (g *guards) decided(h *Model, key eventlog.Event, r *eventlog.Decision) {
	if r.Baseline == 0 || h.Guard == nil {
		return
	}
	was := h.GuardPlays()
	h.Guard.decide(key, r)
	g.turned(h, was)
}

// settled takes what counts as the reward of a decision: the smallest one where nothing does.
func (g *guards) settled(h *Model, key eventlog.Event, y float64, counts bool) {
	if h.Guard == nil {
		return
	}
	c := &h.Compiled.Config
	if !counts {
		y = c.Reward.Min
	}
	y, _ = c.Reward.Rewards().Clamp(y)
	was := h.GuardPlays()
	if h.Guard.settle(key, (y-c.Reward.Min)/(c.Reward.Max-c.Reward.Min), 1-c.Guard.Confidence) {
		g.turned(h, was)
	}
}

// expired is settled of an event whose window ends.
func (g *guards) expired(h *Model, e *openEvent, key eventlog.Event, r *eventlog.Expire) {
	if e.state&rewarded != 0 {
		g.settled(h, key, e.y, true)
	} else {
		g.settled(h, key, r.Y, r.Default)
	}
}

// turned publishes a version when the guard has changed its mind.
func (g *guards) turned(h *Model, was bool) {
	if h.GuardPlays() != was {
		g.models.markChanged(h)
	}
}
