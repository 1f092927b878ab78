package worlds

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"troupe/rng"
)

// Action is a candidate of a decision.
type Action struct {
	ID       string
	Features Object // nil where it has none
}

// Decision is one decision of a world: what a player sees, and what only the measurement knows.
type Decision struct {
	Context Object
	Actions []Action

	Means   []float64 // of the reward of each action
	Rewards []float64 // that each action would pay
	Cells   []int     // for a player that is told which cell of a table each action's mean belongs to
}

// World is a stream of decisions.
type World struct {
	Kind      string
	Seed      uint64
	Client    string // how its rewards arrive, where the kind says so; now otherwise
	Decisions []Decision
	Changes   []int // decisions at which means begin to change
}

// Family says what a kind may be used for.
type Family string

// The families.
const (
	Base   Family = "base"
	Wide   Family = "wide"
	Change Family = "change"
	Held   Family = "held"
	Later  Family = "later"
)

// Kind is a kind of worlds.
type Kind struct {
	Name   string
	Doc    string
	Family Family
	client string
	make   func(g *gen) func(t int) Decision
}

// Client returns how the rewards of the kind arrive, as ClientOf reads it.
func (k Kind) Client() string { return cmp.Or(k.client, "now") }

// Kinds returns all kinds, in the order of the families.
func Kinds() []Kind { return slices.Concat(baseKinds, wideKinds, changeKinds, heldKinds, laterKinds) }

// Select returns the kinds that a list with commas names: names of kinds, of families, or all.
func Select(list string) ([]Kind, error) {
	var out []Kind
	all := Kinds()
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		found := false
		for _, k := range all {
			if name == k.Name || name == string(k.Family) || name == "all" {
				found = true
				out = append(out, k)
			}
		}
		if !found {
			return nil, fmt.Errorf("kinds: %q is neither a kind nor a family (base, wide, change, held, later, all); the kinds are %s",
				name, strings.Join(names(all), ", "))
		}
	}
	return out, nil
}

func names(kinds []Kind) []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.Name)
	}
	return out
}

// OfRows is a kind whose decisions are rows in random order, and then again.
func OfRows(name string, rows []Decision) Kind {
	return Kind{Name: name, make: func(g *gen) func(int) Decision {
		order := g.Perm(len(rows))
		return func(t int) Decision { return rows[order[t%len(rows)]] }
	}}
}

// New returns the world of a kind by its name. Worlds with other seeds are independent.
func New(kind string, seed uint64, T int) (*World, error) {
	for _, k := range Kinds() {
		if k.Name == kind {
			return k.New(seed, T)
		}
	}
	return nil, fmt.Errorf("kind: is %q, expected one of %s", kind, strings.Join(names(Kinds()), ", "))
}

// MaxDecisions is the largest length of a world.
const MaxDecisions = 1 << 20

// New returns the world of a seed with T decisions.
func (k Kind) New(seed uint64, T int) (*World, error) {
	if T < 1 || T > MaxDecisions {
		return nil, fmt.Errorf("decisions: T is %d, expected 1 to %d decisions", T, MaxDecisions)
	}
	key := rng.NewKey(seed).Child("worlds").Child(k.Name)
	w := &World{Kind: k.Name, Seed: seed, Client: k.Client(), Decisions: make([]Decision, T)}
	g := &gen{Rand: key.Stream(rng.Instance).Round(0).Rand(), pay: key.Stream(rng.Reward).Round(0).Rand(), world: w, T: T}
	step := k.make(g)
	g.Rand = key.Stream(rng.Offer).Round(0).Rand()
	for t := range w.Decisions {
		w.Decisions[t] = step(t)
	}
	return w, nil
}

// gen is what a kind draws its parameters, and then its decisions, from. Rewards have random numbers of their own.
type gen struct {
	*rand.Rand
	pay   *rand.Rand
	world *World
	T     int
}

func (g *gen) between(lo, hi float64) float64 { return lo + float64((hi-lo)*g.Float64()) }

// logBetween is uniform on the scale of logarithms.
func (g *gen) logBetween(lo, hi float64) float64 {
	return math.Exp(g.between(math.Log(lo), math.Log(hi)))
}

// table returns rows × columns numbers between lo and hi.
func (g *gen) table(rows, columns int, lo, hi float64) [][]float64 {
	out := make([][]float64, rows)
	for i := range out {
		out[i] = make([]float64, columns)
		for j := range out[i] {
			out[i][j] = g.between(lo, hi)
		}
	}
	return out
}

// normals returns rows × columns normal numbers with a deviation.
func (g *gen) normals(rows, columns int, sd float64) [][]float64 {
	out := make([][]float64, rows)
	for i := range out {
		out[i] = make([]float64, columns)
		for j := range out[i] {
			out[i][j] = sd * g.NormFloat64()
		}
	}
	return out
}

// actions returns n actions with ids that begin with a prefix and without features.
func actions(prefix string, n int) []Action {
	out := make([]Action, n)
	for i := range out {
		out[i].ID = prefix + strconv.Itoa(i)
	}
	return out
}

// level returns a string with a number, such as de3.
func level(prefix string, i int) Value { return Str(prefix + strconv.Itoa(i)) }

// A law draws the reward of an action with a mean.
type law func(mean float64) float64

// click pays 1 with the mean as its probability, else 0.
func (g *gen) click(mean float64) float64 {
	if g.pay.Float64() < mean {
		return 1
	}
	return 0
}

// normal returns the law N(mean, sd²).
func (g *gen) normal(sd float64) law {
	return func(mean float64) float64 { return mean + sd*g.pay.NormFloat64() }
}

// decide fills in the rewards and the cells of a decision whose means depend on a cell and the place of the action.
func decide(context Object, a []Action, cell int, means []float64, pay law) Decision {
	d := Decision{Context: context, Actions: a, Means: means, Rewards: make([]float64, len(a)), Cells: make([]int, len(a))}
	for i, m := range means {
		d.Rewards[i], d.Cells[i] = pay(m), cell*len(a)+i
	}
	return d
}

// tabled is a world whose cell is drawn uniformly and whose means stand in a table with a row for each cell.
func tabled(g *gen, means [][]float64, context func(cell int) Object, pay law) func(int) Decision {
	a := actions("a", len(means[0]))
	return func(int) Decision {
		c := g.IntN(len(means))
		return decide(context(c), a, c, means[c], pay)
	}
}

// segment returns a context with one field.
func segment(c int) Object { return Object{F("segment", level("s", c))} }

func clip(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func round(x, unit float64) float64 { return math.Round(x/unit) * unit }
