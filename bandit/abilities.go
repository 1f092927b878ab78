package bandit

import "troupe/rng"

// This file has the optional abilities by which the server, its training from a log, off-policy evaluation and the
// recorders of experiments look into a policy. Each asks for an interface; none knows a kind. A policy without an
// ability is served all the same, with less to say: bandittest.TestServed holds a policy to those that it has.
//
// A wrapper has the abilities that it can pass on from its base, and then says in the answer where the base has none.

// Wrapper is implemented by policies around another one.
type Wrapper interface{ Base() Policy }

// Innermost returns the policy inside all wrappers, p where there are none.
func Innermost(p Policy) Policy {
	for {
		w, ok := p.(Wrapper)
		if !ok {
			return p
		}
		p = w.Base()
	}
}

// Scorer states the reward that it expects of an action, ⟨x, θ̂⟩ or that of the model that plays. The server shows it
// beside each candidate.
type Scorer interface {
	Score(a Action) float64
}

// GreedyScorer is implemented by policies that play an action of the largest ⟨x, θ⟩, unless they explore by a coin that
// does not look at the actions. The paper leaves open which of several is played; the server gives each the same
// probability.
type GreedyScorer interface {
	// GreedyTheta returns θ, of length d, until the next call of a method; nil where the policy is not greedy.
	GreedyTheta() []float64
}

// MemberDrawer is implemented by policies whose Select plays for one drawn member j and sign ξ. The server records both
// with the decision.
type MemberDrawer interface {
	// DrawnMember returns what Select draws from this source: 0 ≤ j, and ξ = 1 or −1; ξ = 0 where it draws no member.
	DrawnMember(draw rng.Source) (j int, xi float64)
}

// Redrawer is implemented by policies whose randomness is a function of the state and of the number of the decision,
// draw.At(), so that a recorded decision can be drawn again.
type Redrawer interface {
	// Redraws reports whether the members of each decision are drawn anew. Only then are decisions on one state
	// independent, and the law without the members of a decision is the law given everything before it.
	Redraws() bool
}

// Pender is implemented by policies that can count an action before its reward is there. A caller pends every action
// that is played, in order, before Update learns its reward, or none.
type Pender interface {
	// Pends reports whether Pend counts. The server, which keeps a state for each reward and none for each decision,
	// refuses such policies.
	Pends() bool
	// Pend counts an action whose reward is open. It keeps nothing of a. Errors are those of Update.
	Pend(a Action) error
}

// Witness is implemented by policies that look at decisions when they are made, and not only at their rewards: how many
// are open, and what the policy expected of them. A caller that has the decisions in their order calls Decided for each,
// and then, for each at most once and in any order, Settled in place of Update, or Dropped. event names the decision.
type Witness interface {
	// Decided notes the action that was played in a decision. It does not change what is chosen next.
	Decided(event uint64, a Action) error
	// Settled is Update for a decision that was noted; for one that was not, it is one without its circumstances.
	Settled(event uint64, a Action, y float64) error
	// Dropped says that nothing is learned of a decision. It does not change what is chosen next.
	Dropped(event uint64)
	// Alone forgets all decisions that are not settled, of a copy that goes on without them.
	Alone()
}

// Additive is implemented by policies that know whether their state is a sum over events into which an event enters by
// x and y alone. Where it is, n events as x√ρ and y√ρ leave what ρn events of the same kind leave.
type Additive interface {
	// Additive returns nil where the state is such a sum, otherwise an error that says in one clause why it is not.
	Additive() error
}

// Merger is implemented by policies whose sums over two sets of events add up to the state after both, within rounding.
// Training from a log then adds up blocks of events apart.
type Merger interface {
	// Merge adds the events that another policy of the same kind and configuration has seen. An error changes nothing;
	// ErrUnsupported: this policy, or one with these options, does not merge.
	Merge(other Policy) error
}

// Deferrer is implemented by policies of which some updates take long, and whose caller may do that work elsewhere. The
// bits of every action, law, update and snapshot are those without.
type Deferrer interface {
	// Defer says whether such work may wait. It does not at first.
	Defer(on bool)
	// Pending returns the work that waits, nil when there is none. Equal works compare equal.
	Pending() Work
	// Finish does what waits and takes its result.
	Finish()
}

// Work is done in slices, on any goroutine. Safe for concurrent use.
type Work interface {
	// Step does a slice and reports whether all is done.
	Step() (done bool)
}

// Ender is implemented by policies that give up a choice whose time is over. Between calls of late a few actions are looked at. Select
// and Prob then return its error, and nothing has changed. Until(nil) takes late away.
type Ender interface{ Until(late func() error) }

// Heeder is implemented by policies that know whether they choose by the mean reward of an action less its price on
// sets with prices (Priced). Others look at the vectors alone, and would ignore prices without a word.
type Heeder interface{ Heeds() bool }

// Heeds reports whether a policy heeds prices.
func Heeds(p Policy) bool {
	h, ok := p.(Heeder)
	return ok && h.Heeds()
}

// View is a look at the members of a policy at one decision. Its functions are good until the next call of a method of
// the policy.
type View struct {
	M     int                                    // members
	Signs []float64                              // the ξ with which each takes part: 1, or 1 and −1
	Scale func(j int) float64                    // r_t of member j
	Model func(dst []float64, j int, xi float64) // stores θ̂ + r ξ θ̃^j
	Mixed bool                                   // what plays is not one of these models
}

// Viewer shows the members of a decision. false: it has none, and dst is as it was.
type Viewer interface {
	View(dst *View, decision uint64) bool
}

var (
	both = []float64{1, -1}
	one  = []float64{1}
)

// SignsOf returns 1 and −1 for symmetrised members, 1 for the others. The slice must not be changed.
func SignsOf(symmetric bool) []float64 {
	if symmetric {
		return both
	}
	return one
}
