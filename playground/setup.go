package playground

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"troupe/actionset"
	"troupe/env"
	"troupe/policy"
	"troupe/spec"
)

// Limits of a Setup, so that a link cannot ask for more than a page can show.
const (
	MaxArms     = 8
	MaxMembers  = 64
	MaxRounds   = 5000
	MaxPolicies = 4
)

// Setup is all that a game in the plane depends on. It is written as a link (Link), and as a spec file with which
// troupe run plays the same (Spec).
type Setup struct {
	Seed    int        // of all random numbers, 0 or more
	Theta   [2]float64 // θ*, in the unit disc
	From    int        // the round from which on θ* is Later; 0: it stays
	Later   [2]float64
	Arms    int     // 2 to MaxArms arms on the unit circle, drawn by the seed; 0: all of the unit disc
	Redraw  bool    // new arms in every round
	Sigma   float64 // standard deviation of the noise
	Clicks  bool    // rewards are +1 or −1 with mean ⟨x, θ*⟩, and Sigma does not count
	Rounds  int     // T
	Players []Player
}

// Player is one policy. A zero number is the default of its kind.
type Player struct {
	Kind     string  // of Kinds
	M        int     // members, where the kind has them
	Lambda   float64 // ridge parameter λ
	Scale    float64 // constant scale r, where the kind has one
	Restarts bool    // change = "restarts", where the kind has it
}

// kind is a policy that the playground has. Its options are made here and not looked up in policy.Kinds, so that the
// program of the page has what it plays and nothing else.
type kind struct {
	name                      string
	members, scale, restarted bool // which numbers of a Player it has
	make                      func(p Player) policy.Options
}

var kinds = []kind{
	{"ensemble", true, true, false, func(p Player) policy.Options {
		return &policy.EnsembleOptions{M: p.M, Lambda: p.Lambda, Scale: scale(p)}
	}},
	{"atoms", true, true, true, func(p Player) policy.Options {
		return &policy.AtomsOptions{M: p.M, Lambda: p.Lambda, Scale: scale(p), Change: change(p)}
	}},
	{"ts", false, true, false, func(p Player) policy.Options {
		return &policy.ThompsonOptions{Lambda: p.Lambda, Scale: scale(p)}
	}},
	{"ats", true, true, false, func(p Player) policy.Options {
		return &policy.ATSOptions{M: p.M, Lambda: p.Lambda, Scale: scale(p)}
	}},
	{"linucb", false, true, true, func(p Player) policy.Options {
		return &policy.LinUCBOptions{Lambda: p.Lambda, Scale: scale(p), Change: change(p)}
	}},
	{"greedy", false, false, false, func(p Player) policy.Options { return &policy.GreedyOptions{Lambda: p.Lambda} }},
	{"epsilon-greedy", false, false, false, func(p Player) policy.Options {
		return &policy.EpsilonGreedyOptions{Lambda: p.Lambda}
	}},
}

// Kinds lists the kinds of policies.
func Kinds() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func scale(p Player) policy.Scale {
	if p.Scale == 0 {
		return policy.Scale{}
	}
	return policy.Constant(p.Scale)
}

func change(p Player) string {
	if p.Restarts {
		return "restarts"
	}
	return ""
}

func (p Player) kind() (kind, bool) {
	for _, k := range kinds {
		if k.name == p.Kind {
			return k, true
		}
	}
	return kind{}, false
}

// keys lists what the player says beside its kind, as key=value.
func (p Player) keys() (all []string) {
	if p.M != 0 {
		all = append(all, "m="+strconv.Itoa(p.M))
	}
	if p.Lambda != 0 {
		all = append(all, "lambda="+number(p.Lambda))
	}
	if p.Scale != 0 {
		all = append(all, "scale="+number(p.Scale))
	}
	if p.Restarts {
		all = append(all, "change=restarts")
	}
	return all
}

// Name returns what figures call the player.
func (p Player) Name() string {
	if k := p.keys(); len(k) > 0 {
		return p.Kind + "(" + strings.Join(k, ", ") + ")"
	}
	return p.Kind
}

// number writes a number in the shortest form that reads back exactly.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func pair(x [2]float64) string { return number(x[0]) + "," + number(x[1]) }

// Check refuses a setup outside the limits; the error is a *spec.Error with the key of the link.
func (s Setup) Check() error {
	switch {
	case s.Seed < 0:
		return spec.Refuse("seed", s.Seed, "expected a whole number of at least 0")
	case !(math.Hypot(s.Theta[0], s.Theta[1]) <= 1):
		return spec.Refuse("theta", s.Theta, "expected a point of the unit disc")
	case s.From < 0 || s.From == 1 || s.From > MaxRounds:
		return spec.Refuse("from", s.From, "expected a round from 2 to %d, or 0 for none", MaxRounds)
	case !(math.Hypot(s.Later[0], s.Later[1]) <= 1):
		return spec.Refuse("later", s.Later, "expected a point of the unit disc")
	case s.Arms != 0 && (s.Arms < 2 || s.Arms > MaxArms):
		return spec.Refuse("arms", s.Arms, "expected 2 to %d, or 0 for the unit disc", MaxArms)
	case s.Redraw && s.Arms == 0:
		return spec.Refuse("redraw", "1", "expected arms: the unit disc is the same in every round")
	case !(s.Sigma >= 0.01 && s.Sigma <= 10):
		return spec.Refuse("sigma", s.Sigma, "expected a number from 0.01 to 10")
	case s.Rounds < 1 || s.Rounds > MaxRounds:
		return spec.Refuse("rounds", s.Rounds, "expected 1 to %d", MaxRounds)
	case len(s.Players) < 1 || len(s.Players) > MaxPolicies:
		return spec.Errorf("p", "names %d policies, expected 1 to %d", len(s.Players), MaxPolicies)
	}
	for i, p := range s.Players {
		if err := p.check(); err != nil {
			return err
		}
		for _, q := range s.Players[:i] {
			if p == q {
				return spec.Errorf("p", "names %s twice, expected policies that differ", p.Name())
			}
		}
	}
	return nil
}

func (p Player) check() error {
	k, ok := p.kind()
	if !ok {
		return spec.Refuse("p", p.Kind, "expected one of %s", strings.Join(Kinds(), ", "))
	}
	switch {
	case p.M != 0 && !k.members:
		return spec.Refuse("m", p.M, "but %s has no members", p.Kind)
	case p.M < 0 || p.M > MaxMembers:
		return spec.Refuse("m", p.M, "expected 1 to %d, or 0 for the default", MaxMembers)
	case p.Lambda != 0 && !(p.Lambda >= 0.001 && p.Lambda <= 1000):
		return spec.Refuse("lambda", p.Lambda, "expected a number from 0.001 to 1000, or 0 for the default")
	case p.Scale != 0 && !k.scale:
		return spec.Refuse("scale", p.Scale, "but %s has no scale", p.Kind)
	case p.Scale != 0 && !(p.Scale >= 0.001 && p.Scale <= 100):
		return spec.Refuse("scale", p.Scale, "expected a number from 0.001 to 100, or 0 for the default")
	case p.Restarts && !k.restarted:
		return spec.Refuse("change", "restarts", "but %s has no restarts", p.Kind)
	}
	return nil
}

// environment returns the options of kind "linear" that the setup stands for.
func (s Setup) environment() *env.LinearOptions {
	o := env.NewLinear()
	o.D, o.Theta, o.Value = 2, "given", s.Theta[:]
	if s.From > 0 {
		o.From, o.Later = s.From, s.Later[:]
	}
	if s.Arms > 0 {
		o.Set = actionset.Spec{Kind: "random-sphere",
			Builder: &actionset.RandomSphereOptions{Arms: s.Arms, Again: s.Redraw}}
	}
	if s.Clicks {
		o.Noise = env.Noise{Kind: "bernoulli", Law: &env.Bernoulli{Values: "plus-minus"}}
	} else {
		o.Noise = env.Noise{Kind: "gaussian", Law: &env.Gaussian{Std: s.Sigma}}
	}
	return o
}

// Spec returns the setup as a spec file. troupe run plays it with the same actions, propensities and regret.
func (s Setup) Spec() string {
	var b strings.Builder
	fmt.Fprintf(&b, "name         = \"playground\"\nseed         = %d\nhorizon      = %d\nreplications = 1\n", s.Seed, s.Rounds)
	fmt.Fprintf(&b, "\n[[environment]]\nkind  = \"linear\"\nd     = 2\ntheta = \"given\"\nvalue = %s\n", list(s.Theta))
	if s.From > 0 {
		fmt.Fprintf(&b, "from  = %d\nlater = %s\n", s.From, list(s.Later))
	}
	switch {
	case s.Redraw:
		fmt.Fprintf(&b, "set   = { kind = \"random-sphere\", arms = %d, redraw = true }\n", s.Arms)
	case s.Arms > 0:
		fmt.Fprintf(&b, "set   = { kind = \"random-sphere\", arms = %d }\n", s.Arms)
	default:
		fmt.Fprintf(&b, "set   = { kind = \"ball\" }\n")
	}
	if s.Clicks {
		fmt.Fprintf(&b, "noise = { kind = \"bernoulli\", values = \"plus-minus\" }\n")
	} else {
		fmt.Fprintf(&b, "noise = { kind = \"gaussian\", sigma = %s }\n", decimal(s.Sigma))
	}
	for _, p := range s.Players {
		fmt.Fprintf(&b, "\n[[policy]]\nname   = %q\nkind   = %q\n", p.Name(), p.Kind)
		if p.M != 0 {
			fmt.Fprintf(&b, "m      = %d\n", p.M)
		}
		if p.Lambda != 0 {
			fmt.Fprintf(&b, "lambda = %s\n", decimal(p.Lambda))
		}
		if p.Scale != 0 {
			fmt.Fprintf(&b, "scale  = %s\n", decimal(p.Scale))
		}
		if p.Restarts {
			fmt.Fprintf(&b, "change = \"restarts\"\n")
		}
	}
	return b.String()
}

// decimal writes a number as TOML reads a float.
func decimal(x float64) string {
	text := number(x)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func list(x [2]float64) string { return "[" + decimal(x[0]) + ", " + decimal(x[1]) + "]" }

// Abilities says which numbers of a Player a kind has: members, a scale, restarts.
func Abilities(name string) (members, scale, restarts bool) {
	k, _ := Player{Kind: name}.kind()
	return k.members, k.scale, k.restarted
}
