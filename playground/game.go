// Package playground plays policies on linear bandits in the plane, a round at a time, and draws what they know: the
// program behind the page of troupe playground.
//
// A Setup is what a game depends on, a State what the page shows of it, Scenes the guided ones. The policies, the
// environment and the random numbers are those of troupe run: Setup.Spec is a spec file whose run has the same
// actions, propensities and regret, bit for bit.
//
// Nothing here is safe for concurrent use, and nothing starts goroutines.
package playground

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"troupe/bandit"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
)

// Game is a setup under way. It stands in round T: the actions are chosen and paid, and not learned yet.
type Game struct {
	setup Setup
	world bandit.Environment
	set   bandit.ActionSet // of round t
	t     int
	seats []*seat

	offer, choose, pay, perturb rng.Stream
}

// seat is a policy in a game.
type seat struct {
	name   string
	player bandit.Policy
	prober bandit.Prober // nil where the policy states no law

	x      bandit.Action
	law    bandit.Law
	reward float64 // of this round
	cost   float64 // regret of this round
	sum    float64 // of the rewards so far
	regret []float64
	pulls  []int // by arm, of the set where it stays
}

// New starts a game, in round 1. Its error is that of Check, or of a policy.
func New(s Setup) (*Game, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	key := rng.NewKey(uint64(s.Seed)).At(1) // of the first replication
	world, err := s.environment().Build(key, nil)
	if err != nil {
		return nil, err
	}
	g := &Game{setup: s, world: world, offer: key.Stream(rng.Offer), choose: key.Stream(rng.Select),
		pay: key.Stream(rng.Reward), perturb: key.Stream(rng.Perturb)}
	p := policy.Problem{Dim: 2, Horizon: s.Rounds, Arms: s.Arms, Init: key.Stream(rng.Init)}
	p.Sigma, _ = world.(env.Noisy).Sigma()
	for _, player := range s.Players {
		k, _ := player.kind()
		who, err := k.make(player).New(p)
		if err != nil {
			return nil, err
		}
		one := &seat{name: player.Name(), player: who, pulls: make([]int, s.Arms)}
		one.prober, _ = who.(bandit.Prober)
		g.seats = append(g.seats, one)
	}
	return g, g.decide()
}

// Play starts a game and plays to a round.
func Play(s Setup, round int) (*Game, error) {
	g, err := New(s)
	for err == nil && g.t < round {
		err = g.Step()
	}
	return g, err
}

// T returns the round in which the game stands, from 1.
func (g *Game) T() int { return g.t }

// Setup returns what the game was started with.
func (g *Game) Setup() Setup { return g.setup }

// RegretOf returns the sum of the regrets of a policy up to and with this round.
func (g *Game) RegretOf(player int) float64 { return g.seats[player].regret[g.t-1] }

// Action returns what a policy plays in this round, valid until the next step.
func (g *Game) Action(player int) bandit.Action { return g.seats[player].x }

// Policy returns a policy of the game, to be read.
func (g *Game) Policy(player int) bandit.Policy { return g.seats[player].player }

// Step lets the policies learn this round and plays the next. After the last round it does nothing.
func (g *Game) Step() error {
	if g.t >= g.setup.Rounds {
		return nil
	}
	for _, s := range g.seats {
		if err := s.player.Update(s.x, s.reward, g.perturb.Round(uint64(g.t))); err != nil {
			return fmt.Errorf("%s, round %d: %w", s.name, g.t, err)
		}
	}
	return g.decide()
}

// decide plays the next round up to the reward.
func (g *Game) decide() error {
	round := uint64(g.t + 1)
	set, err := g.world.Offer(g.offer.Round(round))
	if err != nil {
		return err
	}
	for _, s := range g.seats {
		if err := s.decide(g, set, round); err != nil {
			return fmt.Errorf("%s, round %d: %w", s.name, round, err)
		}
	}
	g.set, g.t = set, g.t+1
	return nil
}

func (s *seat) decide(g *Game, set bandit.ActionSet, round uint64) error {
	draw := g.choose.Round(round)
	if s.prober != nil {
		err := s.prober.Prob(&s.law, set, draw)
		if errors.Is(err, bandit.ErrUnsupported) {
			s.prober = nil
		} else if err != nil {
			return err
		}
	}
	if err := s.player.Select(&s.x, set, draw); err != nil {
		return err
	}
	var err error
	if s.reward, err = g.world.Reward(s.x, g.pay.Round(round)); err != nil {
		return err
	}
	if s.cost, err = g.world.Regret(s.x); err != nil {
		return err
	}
	s.sum += s.reward
	s.regret = append(s.regret, s.cost)
	if n := len(s.regret); n > 1 {
		s.regret[n-1] += s.regret[n-2]
	}
	if s.x.Index >= 0 && !g.setup.Redraw {
		s.pulls[s.x.Index]++
	}
	return nil
}

// Theta returns θ* of this round.
func (g *Game) Theta() []float64 { return g.world.(env.Truth).Theta() }

// Trace returns this round as lines of text, one for each policy: round, policy, action, law, regret so far and the
// sum of the rewards, numbers in the shortest form that reads back exactly. Two games with equal traces in all rounds
// played the same.
func (g *Game) Trace() string {
	var b strings.Builder
	for i, s := range g.seats {
		fmt.Fprintf(&b, "%d,%d,%s,%s,%s,%s\n", g.t, i+1, Vector(s.x.X), LawText(s.prober, &s.law), number(s.regret[g.t-1]),
			number(s.sum))
	}
	return b.String()
}

// Vector writes a vector for a trace.
func Vector(x []float64) string {
	var parts []string
	for _, v := range x {
		parts = append(parts, number(v))
	}
	return strings.Join(parts, " ")
}

// LawText writes the law of a policy for a trace, none for a policy without one.
func LawText(prober bandit.Prober, law *bandit.Law) string {
	if prober == nil {
		return "none"
	}
	var parts []string
	for _, a := range law.Atoms {
		if law.Total > 0 {
			parts = append(parts, strconv.FormatUint(a.Count, 10)+"/"+strconv.FormatUint(law.Total, 10))
		} else {
			parts = append(parts, number(a.P))
		}
	}
	return strings.Join(parts, " ")
}
