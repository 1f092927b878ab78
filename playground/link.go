package playground

import (
	"math"
	"strconv"
	"strings"

	"troupe/spec"
)

// State is what a page shows: a setup, the round that it has reached, and the policy that it looks at.
type State struct {
	Setup
	At   int // round, from 1 to Rounds
	Look int // index of a player
}

// Link returns the state as text that stands behind the # of an address. ParseLink reads it back.
//
//	seed=1&theta=0.6,0.3&arms=6&sigma=0.5&rounds=500&p=ensemble,m=16,scale=1&p=greedy&t=40&look=1
func (s State) Link() string {
	parts := []string{"seed=" + strconv.Itoa(s.Seed), "theta=" + pair(s.Theta)}
	if s.From > 0 {
		parts = append(parts, "from="+strconv.Itoa(s.From), "later="+pair(s.Later))
	}
	parts = append(parts, "arms="+strconv.Itoa(s.Arms))
	if s.Redraw {
		parts = append(parts, "redraw=1")
	}
	parts = append(parts, "sigma="+number(s.Sigma))
	if s.Clicks {
		parts = append(parts, "clicks=1")
	}
	parts = append(parts, "rounds="+strconv.Itoa(s.Rounds))
	for _, p := range s.Players {
		parts = append(parts, "p="+strings.Join(append([]string{p.Kind}, p.keys()...), ","))
	}
	return strings.Join(append(parts, "t="+strconv.Itoa(s.At), "look="+strconv.Itoa(s.Look+1)), "&")
}

// ParseLink reads a state, strictly: a key that is unknown or there twice, and a value outside the limits, are errors
// that name it. What is not said has its default.
func ParseLink(text string) (State, error) {
	s := State{Setup: Setup{Seed: 1, Theta: [2]float64{0.6, 0.3}, Arms: 6, Sigma: 0.5, Rounds: 500}, At: 1}
	if len(text) > 2000 {
		return s, spec.Errorf("link", "has %d bytes, expected at most 2000", len(text))
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, "&") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return s, spec.Refuse("link", part, "expected key=value")
		}
		if seen[key] && key != "p" {
			return s, spec.Errorf("link", "has the key %q twice", key)
		}
		seen[key] = true
		if err := s.set(key, value); err != nil {
			return s, err
		}
	}
	if len(s.Players) == 0 {
		s.Players = []Player{{Kind: "ensemble", M: 16}}
	}
	if err := s.Check(); err != nil {
		return s, err
	}
	if s.At < 1 || s.At > s.Rounds {
		return s, spec.Refuse("t", s.At, "expected a round from 1 to %d", s.Rounds)
	}
	if s.Look < 0 || s.Look >= len(s.Players) {
		return s, spec.Refuse("look", s.Look+1, "expected a policy from 1 to %d", len(s.Players))
	}
	return s, nil
}

func (s *State) set(key, value string) (err error) {
	switch key {
	case "seed":
		s.Seed, err = whole(key, value)
	case "theta":
		s.Theta, err = point(key, value)
	case "from":
		s.From, err = whole(key, value)
	case "later":
		s.Later, err = point(key, value)
	case "arms":
		s.Arms, err = whole(key, value)
	case "redraw":
		s.Redraw, err = flag(key, value)
	case "sigma":
		s.Sigma, err = realNumber(key, value)
	case "clicks":
		s.Clicks, err = flag(key, value)
	case "rounds":
		s.Rounds, err = whole(key, value)
	case "t":
		s.At, err = whole(key, value)
	case "look":
		s.Look, err = whole(key, value)
		s.Look--
	case "p":
		var p Player
		p, err = player(value)
		s.Players = append(s.Players, p)
	default:
		known := []string{"seed", "theta", "from", "later", "arms", "redraw", "sigma", "clicks", "rounds", "p", "t", "look"}
		return spec.Errorf("link", "has the key %q%s", key, spec.Suggest(key, known))
	}
	return err
}

// player reads ensemble,m=16,lambda=1,scale=0.5.
func player(text string) (p Player, err error) {
	kind, rest, _ := strings.Cut(text, ",")
	p.Kind = kind
	seen := map[string]bool{}
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		key, value, ok := strings.Cut(part, "=")
		if !ok || seen[key] {
			return p, spec.Refuse("p", text, "expected a kind and m=, lambda=, scale=, change=, each once")
		}
		seen[key] = true
		switch key {
		case "m":
			p.M, err = whole(key, value)
		case "lambda":
			p.Lambda, err = realNumber(key, value)
		case "scale":
			p.Scale, err = realNumber(key, value)
		case "change":
			if p.Restarts = value == "restarts"; !p.Restarts {
				err = spec.Refuse(key, value, "expected restarts")
			}
		default:
			err = spec.Errorf("p", "has the key %q%s", key, spec.Suggest(key, []string{"m", "lambda", "scale", "change"}))
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func whole(key, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, spec.Refuse(key, text, "expected a whole number")
	}
	return n, nil
}

func realNumber(key, text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, spec.Refuse(key, text, "expected a number")
	}
	return x, nil
}

func point(key, text string) (p [2]float64, err error) {
	x, y, ok := strings.Cut(text, ",")
	if !ok {
		return p, spec.Refuse(key, text, "expected two numbers with a comma between them")
	}
	if p[0], err = realNumber(key, x); err == nil {
		p[1], err = realNumber(key, y)
	}
	return p, err
}

func flag(key, text string) (bool, error) {
	if text != "0" && text != "1" {
		return false, spec.Refuse(key, text, "expected 0 or 1")
	}
	return text == "1", nil
}
