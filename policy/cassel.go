package policy

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// CasselOptions configures the batch ensemble. The zero value is the default of a spec file.
type CasselOptions struct {
	// M is the number of batches of each arm; 0 means ⌈log₂ T⌉, or 16 where the horizon is not known.
	M int `key:"m" doc:"number of batches of each arm" default:"⌈log₂ T⌉; 16 without a horizon"`
}

// Doc implements spec.Documented.
func (*CasselOptions) Doc() string {
	return "batch ensemble for multi-armed bandits: the largest of m batch means of an arm (Cassel et al. 2024); " +
		"finite sets; written from the abstract and its argument, not from the paper's pseudo-code"
}

// New implements Options.
func (o *CasselOptions) New(p Problem) (bandit.Policy, error) { return NewCassel(*o, p) }

// Cassel is the batch ensemble for multi-armed bandits (Cassel, Levy & Mansour 2024, arXiv 2409.08570). The rewards of
// an arm go to m batches in turn, reward n to batch n mod m, and the arm with the largest optimistic mean is played,
//
//	X_t ∈ argmax_a max_{j<m} Ȳ_{a,j},  Ȳ_{a,j} the mean of batch j of arm a, +∞ while that is empty.
//
// So each arm is played m times first. For rewards that are symmetric around their mean all m batch means
// are below it with probability 2⁻ᵐ, whatever the variance, so m = ⌈log₂ T⌉ makes that 1/T: this is where the default
// comes from.
//
// It is no linear policy: an arm is its feature vector, bit for bit, and nothing is learned about one arm from
// another. A set whose vectors change from round to round has new arms all the time. The next action is not random;
// among equal arms the first in lexicographic order of the vectors is played.
//
// Cost of a round: Select K·(d + m), Update d. State: d + m + 1 numbers for each arm that was played, at most
// maxCasselArms.
type Cassel struct {
	d, m  int
	known map[string]int // of the bytes of a vector: its place in the lists
	x     []float64      // n×d
	sums  []float64      // n×m
	count []float64      // n: rewards of the arm
	key   []byte
}

// maxCasselArms bounds the arms that are kept.
const maxCasselArms = 1 << 16

// NewCassel returns the policy before round 1. The error names the option that is wrong.
func NewCassel(o CasselOptions, p Problem) (*Cassel, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if o.M == 0 {
		o.M = 16
		if p.Horizon > 0 {
			o.M = max(1, int(math.Ceil(logs.Log(float64(p.Horizon))/math.Ln2-1e-9)))
		}
	}
	if o.M < 1 || o.M > 1024 {
		return nil, spec.Refuse("m", o.M, "expected at least 1 and at most 1024")
	}
	return &Cassel{d: p.Dim, m: o.M, known: make(map[string]int)}, nil
}

// Batches returns m.
func (c *Cassel) Batches() int { return c.m }

// find returns the place of an arm, −1 when it was never played. It leaves the bytes of x in key.
func (c *Cassel) find(x []float64) int {
	c.key = c.key[:0]
	for _, v := range x {
		c.key = binary.LittleEndian.AppendUint64(c.key, math.Float64bits(v+0)) // −0 is 0
	}
	if at, ok := c.known[string(c.key)]; ok {
		return at
	}
	return -1
}

// Mean returns the optimistic mean of an arm, +∞ before it was played m times.
func (c *Cassel) Mean(x []float64) float64 {
	at := c.find(x)
	if at < 0 || c.count[at] < float64(c.m) {
		return math.Inf(1)
	}
	n, best := int(c.count[at]), math.Inf(-1)
	for j, sum := range c.sums[at*c.m : at*c.m+c.m] {
		best = max(best, sum/float64((n-j+c.m-1)/c.m))
	}
	return best
}

func (c *Cassel) choose(dst *bandit.Action, set bandit.ActionSet) error {
	if err := checkSet(set, c.d); err != nil {
		return err
	}
	f, ok := set.(bandit.Finite)
	if !ok {
		return fmt.Errorf("policy: cassel: a batch ensemble needs a finite set of arms, this is %s: %w", described(set),
			bandit.ErrUnsupported)
	}
	at, best := 0, math.Inf(-1)
	for a := range f.Len() {
		if v := c.Mean(f.At(a)); v > best || v == best && slices.Compare(f.At(a), f.At(at)) < 0 {
			at, best = a, v
		}
	}
	dst.Set(f.At(at), at)
	return nil
}

// Select implements bandit.Policy. It uses no random numbers.
func (c *Cassel) Select(dst *bandit.Action, set bandit.ActionSet, _ rng.Source) error {
	return c.choose(dst, set)
}

// Prob implements bandit.Prober on finite sets: one action has probability 1.
func (c *Cassel) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	return certain(dst, set, c.choose)
}

// Update implements bandit.Policy.
func (c *Cassel) Update(a bandit.Action, y float64, _ rng.Source) error {
	if err := checkAction(a, y, c.d); err != nil {
		return err
	}
	at := c.find(a.X)
	if at >= 0 && math.IsInf(c.sums[at*c.m+int(c.count[at])%c.m]+y, 0) {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	if at < 0 {
		if len(c.count) == maxCasselArms {
			return fmt.Errorf("policy: cassel: more than %d different arms were played: %w", maxCasselArms,
				bandit.ErrUnsupported)
		}
		at = c.add(a.X)
	}
	c.sums[at*c.m+int(c.count[at])%c.m] += y
	c.count[at]++
	return nil
}

// add makes room for the arm of which find left the key.
func (c *Cassel) add(x []float64) int {
	at := len(c.count)
	c.known[string(c.key)] = at
	c.x = append(c.x, x...)
	c.sums = append(c.sums, make([]float64, c.m)...)
	c.count = append(c.count, 0)
	return at
}

// AppendSnapshot implements bandit.Snapshotter.
func (c *Cassel) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "cassel", [][]float64{c.x, c.sums, c.count}), nil
}

// Restore implements bandit.Snapshotter.
func (c *Cassel) Restore(b []byte) error {
	v, err := readSnapshot(b, "cassel", []int{-1, -1, -1})
	if err != nil {
		return err
	}
	n := len(v[2])
	if len(v[0]) != n*c.d || len(v[1]) != n*c.m || n > maxCasselArms {
		return fmt.Errorf("policy: snapshot holds %d arms with %d features and %d sums, expected %d and %d", n,
			len(v[0]), len(v[1]), n*c.d, n*c.m)
	}
	for i, k := range v[2] {
		if !(k >= 1 && k <= 1<<53 && k == math.Trunc(k)) {
			return fmt.Errorf("policy: snapshot holds %v rewards of arm %d", k, i)
		}
	}
	fresh := Cassel{d: c.d, m: c.m, known: make(map[string]int)}
	for i := range n {
		x := v[0][i*c.d : i*c.d+c.d]
		if fresh.find(x) >= 0 {
			return fmt.Errorf("policy: snapshot holds arm %d twice", i)
		}
		fresh.add(x)
	}
	copy(fresh.sums, v[1])
	copy(fresh.count, v[2])
	*c = fresh
	return nil
}
