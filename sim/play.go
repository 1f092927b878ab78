// Package sim runs experiments: every policy on every environment, many times, and writes what
// happened to a directory that another program can read.
//
// Four nouns:
//
//   - an Experiment is a spec file, decoded strictly and with its sweeps multiplied out (Parse);
//   - a cell is one environment × policy × replication; Play is its loop;
//   - the journal keeps every finished cell under a hash of everything its numbers depend on, so
//     a run that was killed goes on where it stopped and ends with the same bytes;
//   - the Manifest says what produced a result directory.
//
// All randomness of replication i comes from rng.NewKey(seed).At(i), whatever the environment and
// the policy. So policies meet the same instances and the same noise, and adding a policy or an
// environment changes no other's numbers. Cells share nothing else, so results.csv does not depend
// on the number of workers.
//
// # Files of a result directory
//
//	results.csv     environment,policy,replication,round,regret,reward: one line for each
//	                checkpoint of each cell, in the order of the spec; regret and reward are sums
//	                over the rounds 1 … round, printed in the shortest form that reads back exactly
//	diagnostics.csv what else the spec asks for with record = [...], at the same checkpoints: shares of
//	                actions, singular values, optimism, coverage (see Builtin)
//	values.csv      what the members of agents thought of DeepSea before some episodes (see ValuesFile)
//	manifest.json   the Manifest
//	cells.journal   finished cells in the order in which they finished (see journal.go)
package sim

import (
	"errors"
	"fmt"
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
)

// Observer is told what happened in round t = 1, 2, …: the pseudo-regret of the action, which no
// policy sees, and the reward. An error ends the play.
type Observer interface {
	Round(t int, regret, reward float64) error
}

// Play runs horizon rounds of a policy in an environment. All random numbers come from the
// streams of key; Play itself draws none but which of the arms of an actionset.Shared is played. A bandit.Logged
// world is played as its comment says. An error is a *RoundError.
//
// Cost: what the environment and the policy cost; nothing is allocated in a round.
func Play(world bandit.Environment, player bandit.Policy, key rng.Key, horizon int, observer Observer) error {
	return playFrom(world, player, key, 0, horizon, observer)
}

// playFrom plays the rounds after round from of a policy in the state after it.
func playFrom(world bandit.Environment, player bandit.Policy, key rng.Key, from, horizon int, observer Observer) error {
	g, s := newGame(world, key), seat{player: player, observer: observer}
	var log *replay
	if past, ok := world.(bandit.Logged); ok {
		log = newReplay(past, player)
	}
	for t := from + 1; t <= horizon; t++ {
		set, err := g.next(t)
		if err != nil {
			return err
		}
		if log != nil {
			err = s.logged(g, t, set, log)
		} else {
			err = s.round(g, t, set)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// game is the world of a replication, with the streams of its rounds.
type game struct {
	world                       bandit.Environment
	both                        bandit.Settler // the same, nil where it does not settle
	costly                      bandit.Costly  // the same, nil where actions cost nothing
	positioned                  bandit.Positioned
	offer, choose, pay, perturb rng.Stream
	ties                        rng.Stream // which of equal arms that share is played
}

func newGame(world bandit.Environment, key rng.Key) *game {
	g := &game{world: world, offer: key.Stream(rng.Offer), choose: key.Stream(rng.Select), pay: key.Stream(rng.Reward),
		perturb: key.Stream(rng.Perturb), ties: key.Child("ties").Stream(rng.Select)}
	g.both, _ = world.(bandit.Settler)
	g.costly, _ = world.(bandit.Costly)
	g.positioned, _ = world.(bandit.Positioned)
	return g
}

// next offers the set of round t.
func (g *game) next(t int) (bandit.ActionSet, error) {
	set, err := g.world.Offer(g.offer.Round(uint64(t)))
	if err != nil {
		return nil, &RoundError{t, "the environment's offer", err}
	}
	return set, nil
}

// seat is a policy that plays a game, and its observer.
type seat struct {
	player   bandit.Policy
	observer Observer
	x        bandit.Action
}

// choices returns what a policy chooses from on a set: all of it, or its groups where equal arms share.
func choices(set bandit.ActionSet) (bandit.ActionSet, *actionset.Shared) {
	if shared, ok := set.(*actionset.Shared); ok {
		return shared.Groups(), shared
	}
	return set, nil
}

// round plays round t on the set that was offered last. Where equal arms share, the policy chooses and learns a group,
// and the environment and the observer see an arm of it.
func (s *seat) round(g *game, t int, set bandit.ActionSet) error {
	round := uint64(t)
	set, shared := choices(set)
	if err := s.player.Select(&s.x, set, g.choose.Round(round)); err != nil {
		return &RoundError{t, "the policy's choice", err}
	}
	group := s.x.Index
	if shared != nil {
		if n := shared.Groups().Len(); group < 0 || group >= n {
			return &RoundError{t, "the policy's choice",
				fmt.Errorf("the action's index is %d, expected one from 0 to %d", group, n-1)}
		}
		s.x.Index = shared.Member(group, g.ties.Round(round))
	}
	var y, regret float64
	var err error
	if g.both != nil {
		y, regret, err = g.both.Settle(s.x, g.pay.Round(round))
	} else if y, err = g.world.Reward(s.x, g.pay.Round(round)); err == nil {
		regret, err = g.world.Regret(s.x)
	}
	if err != nil {
		return &RoundError{t, "the environment's answer", err}
	}
	if !finite(y) || !finite(regret) {
		return &RoundError{t, "the environment", fmt.Errorf("reward %v, regret %v: %w", y, regret, bandit.ErrNotFinite)}
	}
	if err := s.observer.Round(t, regret, y); err != nil {
		return &RoundError{t, "the observer", err}
	}
	if g.costly != nil {
		if err := s.pay(g, t); err != nil {
			return err
		}
	}
	if g.positioned != nil {
		if err := s.positions(g, t); err != nil {
			return err
		}
	}
	s.x.Index = group
	if err := s.player.Update(s.x, y, g.perturb.Round(round)); err != nil {
		return &RoundError{t, "the policy's update", err}
	}
	return nil
}

// pay tells a policy that keeps a budget what its action cost.
func (s *seat) pay(g *game, t int) error {
	payer, ok := inner(s.player).(bandit.Payer)
	if !ok {
		return nil
	}
	cost, err := g.costly.Cost(s.x)
	if err != nil {
		return &RoundError{t, "the environment's cost", err}
	}
	if err := payer.Pay(s.x, cost); err != nil {
		return &RoundError{t, "the policy's payment", err}
	}
	return nil
}

// positions tells a policy for lists the rewards of the positions. They are those of this round, so they cannot be late.
func (s *seat) positions(g *game, t int) error {
	rewards := g.positioned.ByPosition()
	learner, ok := inner(s.player).(bandit.PositionLearner)
	if !ok || rewards == nil {
		return nil
	}
	for p := s.player; ; {
		switch w := p.(type) {
		case *late:
			return &RoundError{t, "the policy's rewards by position", errors.New("feedback is late, and a policy that learns positions needs it at once")}
		case *watched:
			p = w.Policy
			continue
		}
		break
	}
	if err := learner.ByPosition(s.x, rewards); err != nil {
		return &RoundError{t, "the policy's rewards by position", err}
	}
	return nil
}

// inner returns the policy inside those that the runner puts around it.
func inner(p bandit.Policy) bandit.Policy {
	for {
		switch w := p.(type) {
		case *late:
			p = w.Policy
		case *watched:
			p = w.Policy
		default:
			return p
		}
	}
}

// logged plays round t of a log.
func (s *seat) logged(g *game, t int, set bandit.ActionSet, log *replay) error {
	round := uint64(t)
	if _, shared := choices(set); shared != nil {
		return &RoundError{t, "the environment's offer",
			errors.New(`equal arms share (ties = "share"), which a log cannot: its rewards belong to single arms`)}
	}
	if err := s.player.Select(&s.x, set, g.choose.Round(round)); err != nil {
		return &RoundError{t, "the policy's choice", err}
	}
	if err := log.round(&s.x, set, g.choose.Round(round)); err != nil {
		return &RoundError{t, "the policy's law", err}
	}
	if err := s.observer.Round(t, float64(log.weight*log.loss), float64(log.weight*log.reward)); err != nil {
		return &RoundError{t, "the observer", err}
	}
	if err := s.player.Update(log.action, log.reward, g.perturb.Round(round)); err != nil {
		return &RoundError{t, "the policy's update", err}
	}
	return nil
}

// replay plays a policy against a log, see bandit.Logged.
type replay struct {
	past   bandit.Logged
	prober bandit.Prober // nil for a policy without an exact law
	law    bandit.Law
	action bandit.Action // of the log

	reward, loss, weight float64
}

func newReplay(past bandit.Logged, player bandit.Policy) *replay {
	prober, _ := inner(player).(bandit.Prober)
	return &replay{past: past, prober: prober}
}

// round weighs the log's action by the policy, which chose x.
func (l *replay) round(x *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	var p float64
	l.reward, l.loss, p = l.past.Logged(&l.action)
	l.weight = 0
	if l.prober != nil {
		err := l.prober.Prob(&l.law, set, draw)
		switch {
		case errors.Is(err, bandit.ErrUnsupported):
			l.prober = nil
		case err != nil:
			return err
		default:
			l.weight = l.law.Atoms[l.action.Index].P / p
			return nil
		}
	}
	if x.Index == l.action.Index {
		l.weight = 1 / p
	}
	return nil
}

// RoundError says in which round and in whose hands a play ended.
type RoundError struct {
	Round int
	Where string
	Err   error
}

// Error says in one line what is wrong.
func (e *RoundError) Error() string { return fmt.Sprintf("round %d, %s: %v", e.Round, e.Where, e.Err) }

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *RoundError) Unwrap() error { return e.Err }

func finite(x float64) bool { return x-x == 0 }

// Checkpoints returns the rounds at which a cell of the given horizon is recorded: the numbers
// ⌊10^{k/15} + ½⌋, k = 0, 1, …, below the horizon, each once, and the horizon itself. That is
// every round up to 7, then about 15 in a decade: 54 for T = 10 000, 69 for T = 100 000.
func Checkpoints(horizon int) []int {
	var at []int
	for k := 0; ; k++ {
		t := math.Floor(math.Pow(10, float64(k)/15) + 0.5)
		if t >= float64(horizon) {
			return append(at, horizon)
		}
		if n := len(at); n == 0 || at[n-1] != int(t) {
			at = append(at, int(t))
		}
	}
}
