package fold

import (
	"encoding/binary"
	"math"

	"troupe/eventlog"
	"troupe/ope"
)

// Guard is the state of a guarded model: a fold over its guarded decisions, those in which the policy was played with a
// known baseline and those in which the baseline was played. With rewards in [0, 1], V_t the value of the policy's law
// and B_t that of the baseline at guarded decision t, it keeps
//
//	Σ_{t≤n} (value of what is played − B_t) ≥ −margin·n,  at every n at once, with probability confidence.
//
// A decision that plays the baseline adds 0. For one that plays the policy's draw a, whose law gave the baseline b the
// probability π(b), let w = 1{a = b}/π(b) and y its reward. Then
//
//	φ = (w − 1)(1 − y) ≥ −1,   E[φ | past] = E[w] − 1 + V_t − E[w y] ≤ V_t − B_t
//
// (equal where π(b) > 0; where it is 0, w = 0 and φ = y − 1). So the log-mixture sequence of package ope is a lower
// bound ℓ of the mean of V_t − B_t over the m decisions that are in it, at every m at once. Those whose rewards are not
// final, o of them, count −1. The policy is played while the next decision could not break the margin,
//
//	m·ℓ − o − 1 ≥ −margin·(n + 1),
//
// which is conservative exploration with a confidence sequence in place of an ellipsoid (Wu et al. 2016; Kazerouni et
// al. 2017). Decisions enter the sequence in their own order, whatever order their rewards come in: one that waits
// holds up those behind it, so that which terms are in does not depend on rewards.
type Guard struct {
	N      uint64 // guarded decisions
	Played uint64 // of these the policy's

	seq   *ope.Sequence
	lower float64 // m·ℓ
	queue []guarded
	head  uint64                    // how many decisions have left the queue
	at    map[eventlog.Event]uint64 // place of a decision among all that were in it
}

// guarded is a decision of the policy that is not in the sequence yet.
type guarded struct {
	event eventlog.Event
	w, y  float64
	final bool
}

func newGuard() *Guard { return &Guard{seq: ope.NewSequence(1), at: map[eventlog.Event]uint64{}} }

// Plays reports whether the next guarded decision plays the policy. margin is a share of the range of rewards.
func (g *Guard) Plays(margin float64) bool {
	return g.lower-float64(len(g.queue))-1 >= float64(-margin*float64(g.N+1))
}

// Lower returns the lower bound of the mean difference over all guarded decisions, as a share of the range.
func (g *Guard) Lower() float64 {
	if g.N == 0 {
		return 0
	}
	return (g.lower - float64(len(g.queue))) / float64(g.N)
}

// Open returns how many decisions of the policy are not in the sequence yet.
func (g *Guard) Open() int { return len(g.queue) }

// decide notes a guarded decision.
func (g *Guard) decide(key eventlog.Event, r *eventlog.Decision) {
	if g.N++; r.Play == eventlog.PlayBaseline {
		return
	}
	g.Played++
	w := 0.
	if r.Index+1 == r.Baseline {
		w = float64(r.Den) / float64(r.Num)
	}
	g.at[key] = g.head + uint64(len(g.queue))
	g.queue = append(g.queue, guarded{event: key, w: w})
}

// settle takes the final reward of a decision as a share of the range, and reports whether the bound may have changed.
func (g *Guard) settle(key eventlog.Event, y, alpha float64) bool {
	at, ok := g.at[key]
	if !ok {
		return false
	}
	if q := &g.queue[at-g.head]; !q.final {
		q.y, q.final = min(1, max(0, y)), true
	}
	n := 0
	for ; n < len(g.queue) && g.queue[n].final; n++ {
		q := &g.queue[n]
		g.seq.Add(float64((q.w - 1) * (1 - q.y)))
		g.seq.Settle()
		delete(g.at, q.event)
	}
	if n == 0 {
		return false
	}
	g.queue, g.head = append(g.queue[:0], g.queue[n:]...), g.head+uint64(n)
	g.bound(alpha)
	return true
}

// bound computes m·ℓ.
func (g *Guard) bound(alpha float64) {
	g.lower = 0
	if n, _, _ := g.seq.Numbers(); n > 0 {
		g.lower = float64(n) * g.seq.Lower(alpha, -1, 1)
	}
}

// append and readGuard are the bytes of a state.
func (g *Guard) append(b []byte) []byte {
	u := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	n, fraction, exponent := g.seq.Numbers()
	u(g.N)
	u(g.Played)
	u(uint64(n))
	for j := range fraction {
		u(math.Float64bits(fraction[j]))
		u(uint64(exponent[j]))
	}
	u(math.Float64bits(g.lower))
	u(g.head)
	u(uint64(len(g.queue)))
	for i := range g.queue {
		q := &g.queue[i]
		final := uint64(0)
		if q.final {
			final = 1
		}
		for _, v := range []uint64{uint64(q.event.Epoch), q.event.Batch, uint64(q.event.Index), math.Float64bits(q.w),
			math.Float64bits(q.y), final} {
			u(v)
		}
	}
	return b
}

func readGuard(r *reader) (*Guard, error) {
	g := newGuard()
	g.N, g.Played = r.fixed(), r.fixed()
	_, fraction, exponent := g.seq.Numbers()
	n := int(r.fixed())
	for j := range fraction {
		fraction[j], exponent[j] = math.Float64frombits(r.fixed()), int64(r.fixed())
	}
	g.lower, g.head = math.Float64frombits(r.fixed()), r.fixed()
	for k := r.fixed(); k > 0 && r.err == nil; k-- {
		q := guarded{event: eventlog.Event{Epoch: eventlog.ID(r.fixed()), Batch: r.fixed(), Index: uint32(r.fixed())},
			w: math.Float64frombits(r.fixed()), y: math.Float64frombits(r.fixed()), final: r.fixed() == 1}
		g.at[q.event] = g.head + uint64(len(g.queue))
		g.queue = append(g.queue, q)
	}
	if r.err != nil {
		return nil, r.err
	}
	var err error
	if g.seq, err = ope.SequenceOf(1, n, fraction, exponent); err != nil {
		return nil, err
	}
	return g, nil
}
