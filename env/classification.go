package env

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/dataset"
	"troupe/internal/linalg"
	"troupe/rng"
)

// ClassificationOptions are the options of kind "classification": labelled rows of a file, played
// as a bandit. Each round shows the features c ∈ ℝᵖ of one row; the arms are the classes; the
// policy learns the payoff of the arm it chose and nothing of the others. The rows come in an order
// drawn once for each replication, and from the first again when all were visited.
//
// Features of arm a:
//
//	block    c in block a of ℝ^{Kp}, zeros elsewhere: each arm has its own parameter, d = K·p.
//	shared   s_a ⊙ c in ℝᵖ: one parameter for all arms, d = p. The signs s_a ∈ {−1, +1}ᵖ are the
//	         arm's code word, drawn once for each replication. This is block with its K·p features
//	         hashed into p buckets: far cheaper for many classes, and less expressive. In the
//	         mushroom game nothing is drawn: c for eating, and 0 for passing, which always pays 0.
//
// Payoffs:
//
//	zero-one   1 for the row's class, otherwise 0.
//	mushroom   arm 0 eats: +5 when the row is edible, and when it is poisonous −35 or +5 with
//	           probability ½ each, −15 in expectation; arm 1 passes and pays 0 (Blundell et al.
//	           2015; Riquelme et al. 2018). Regret uses the expected payoff. Eating comes first
//	           because ties go to the first arm: a policy that never explores should at least
//	           begin to eat. Where class is auto and no column has that name, the first column is
//	           the class, as in UCI's file.
//
// All payoffs, and so the regret, are multiplied by scale. The payoff is not a linear function of
// the features; that is recorded. Given the features a payoff lies in an interval of length 1
// (40 for mushroom) times scale, so by Hoeffding's lemma half of that is a subgaussian constant.
type ClassificationOptions struct {
	Data        string   `key:"data" doc:"file with labelled rows; the flag --data takes its place"`
	Format      string   `key:"format" doc:"arff, csv, space, libsvm, or auto"`
	Class       string   `key:"class" doc:"class column: first, last, its name, its number from 1, or auto (the column named class, otherwise the last, in the mushroom game the first)"`
	Header      string   `key:"header" doc:"whether the first line names the columns: yes, no, or auto"`
	Delimiter   string   `key:"delimiter" doc:"of CSV: comma, semicolon or tab; empty: found out"`
	Categorical []string `key:"categorical" doc:"columns (names or numbers from 1) whose values are names though they look like numbers"`
	Gaps        []string `key:"gaps" doc:"further texts that mark a missing value, beside ?, NA, nan, NULL and the like"`
	Features    string   `key:"features" doc:"block (a parameter for each class) or shared (one parameter; classes are told apart by signs, passing a mushroom by 0)"`
	Standardise bool     `key:"standardise" doc:"numeric columns get mean 0 and standard deviation 1"`
	Intercept   bool     `key:"intercept" doc:"append a feature that is 1"`
	Normalise   bool     `key:"normalise" doc:"divide each row by its norm, otherwise all rows by the largest norm above 1"`
	Reward      string   `key:"reward" doc:"zero-one, or mushroom (pass 0, eat +5, or if poisonous -35 or +5)"`
	Poisonous   string   `key:"poisonous" doc:"name of the poisonous class in the mushroom game"`
	Scale       float64  `key:"scale" doc:"what every payoff is multiplied by"`
}

// NewClassification returns the defaults.
func NewClassification() *ClassificationOptions {
	return &ClassificationOptions{Format: "auto", Class: "auto", Header: "auto", Features: "block",
		Standardise: true, Intercept: true, Normalise: true, Reward: "zero-one", Poisonous: "p", Scale: 1}
}

// Doc says what the kind is.
func (*ClassificationOptions) Doc() string {
	return "labelled rows of a file: choose the class, see the payoff of that choice only"
}

// DataFile implements FileReader.
func (o *ClassificationOptions) DataFile() string { return o.Data }

// The mushroom game.
const (
	eat        = 0 // arm
	pass       = 1 // arm
	good, bad  = 5, -35
	badHalf    = (good + bad) / 2 // expected payoff of eating a poisonous one
	halfSpread = (good - bad) / 2
)

// Build implements Options.
func (o *ClassificationOptions) Build(key rng.Key, data DataSource) (bandit.Environment, error) {
	if err := oneOf("features", o.Features, "block", "shared"); err != nil {
		return nil, err
	}
	if err := oneOf("reward", o.Reward, "zero-one", "mushroom"); err != nil {
		return nil, err
	}
	if err := positive("scale", o.Scale); err != nil {
		return nil, err
	}
	read := dataset.Options{Format: o.Format, Class: o.Class, Header: o.Header, Delimiter: o.Delimiter,
		Categorical: o.Categorical, Gaps: o.Gaps,
		ClassFirst: o.Reward == "mushroom"}
	if err := read.Check(""); err != nil {
		return nil, err
	}
	if data == nil {
		return nil, fmt.Errorf("env: classification needs a source of data")
	}
	rows, err := data.Encoded(o.Data, read, dataset.Encoding{Standardise: o.Standardise, Intercept: o.Intercept,
		Normalise: o.Normalise})
	if err != nil {
		return nil, err
	}
	e := &classification{rows: rows, scale: o.Scale, row: -1, notes: rows.Notes[:len(rows.Notes):len(rows.Notes)]}
	e.notes = append(e.notes, "outside the assumption: payoffs of classified rows are not linear in the features")
	e.arms = len(rows.Classes)
	if o.Reward == "mushroom" {
		e.poison = -1
		for k, name := range rows.Classes {
			if name == o.Poisonous {
				e.poison = int32(k)
			}
		}
		if len(rows.Classes) != 2 || e.poison < 0 {
			return nil, wrong("poisonous", "is %q, but the classes of %s are %q; the mushroom game needs two, one of "+
				"them poisonous (is the class column right? option class)", o.Poisonous, rows.Table.Name, rows.Classes)
		}
		e.mushroom, e.arms = true, 2
	}
	if e.arms < 2 {
		return nil, wrong("class", "is %q, but all rows of %s have the class %q", o.Class, rows.Table.Name,
			rows.Classes[0])
	}
	if e.arms > manyClasses {
		e.notes = append(e.notes, fmt.Sprintf("%s has %d classes in %d rows, so %d arms, and d = %d with features = "+
			"%q; is the class column %q a label? (option class)",
			rows.Table.Name, e.arms, rows.Rows, e.arms, e.dimension(o.Features), o.Features, rows.Table.Class.Name))
	}
	for _, c := range rows.Table.Columns {
		if len(c.Levels) > manyClasses {
			e.notes = append(e.notes, fmt.Sprintf("column %q has %d different values, each of which is a feature; is "+
				"it an identifier? leave it out of the file then", c.Name, len(c.Levels)))
		}
	}
	if o.Scale != 1 {
		e.notes = append(e.notes, fmt.Sprintf("payoffs and regret are multiplied by %.6g", o.Scale))
	}
	const most = 1 << 16
	e.dim = e.dimension(o.Features)
	if e.dim > most {
		return nil, wrong("features", "is %q, which with %d classes and %d features gives d = %d, expected at most %d",
			o.Features, e.arms, rows.Dim, e.dim, most)
	}
	instance := key.Stream(rng.Instance)
	if o.Features == "shared" {
		draw := instance.Round(drawSigns)
		e.signs = make([]float64, e.arms*rows.Dim)
		for i := range e.signs {
			switch {
			case !e.mushroom:
				e.signs[i] = draw.Sign(i)
			case i/rows.Dim == eat:
				e.signs[i] = 1
			}
		}
	}
	e.order = Shuffled(rows.Rows, key)
	return e, nil
}

// manyClasses is the number of classes, or of values of a column, from which on a note asks whether it is an
// identifier.
const manyClasses = 200

// dimension returns d.
func (e *classification) dimension(features string) int {
	if features == "block" {
		return e.rows.Dim * e.arms
	}
	return e.rows.Dim
}

// classification is the environment of kind "classification". It implements Noted and Noisy.
type classification struct {
	rows      *dataset.Encoded
	order     []int32
	arms, dim int
	signs     []float64 // arms × rows.Dim for shared features (0 for pass), otherwise nil
	mushroom  bool
	poison    int32
	scale     float64
	notes     []string
	row       int // offered last
}

// Dim returns d.
func (e *classification) Dim() int { return e.dim }

// Notes implements Noted.
func (e *classification) Notes() []string { return e.notes }

// Sigma implements Noisy.
func (e *classification) Sigma() (float64, bool) {
	if e.mushroom {
		return halfSpread * e.scale, true
	}
	return 0.5 * e.scale, true
}

// Offer implements bandit.Environment: round t shows row order[(t−1) mod n].
func (e *classification) Offer(draw rng.Source) (bandit.ActionSet, error) {
	n := uint64(len(e.order))
	e.row = int(e.order[(draw.At()+n-1)%n])
	c := e.rows.Row(e.row)
	if e.signs == nil {
		return newBlocks(c, e.arms), nil
	}
	block := make([]float64, len(e.signs))
	for i, s := range e.signs {
		block[i] = s * c[i%len(c)]
	}
	return actionset.FiniteOf(e.dim, block)
}

func (e *classification) check(a bandit.Action) {
	if e.row < 0 {
		panic("env: an action before the first offer")
	}
	if len(a.X) != e.dim {
		panic("env: the action has the wrong length")
	}
}

// mean returns the expected payoff of an arm for the row offered last, before scaling.
func (e *classification) mean(arm int) float64 {
	label := e.rows.Label[e.row]
	switch {
	case !e.mushroom && arm == int(label):
		return 1
	case !e.mushroom || arm == pass:
		return 0
	case label == e.poison:
		return badHalf
	}
	return good
}

// best returns the largest expected payoff for the row offered last, before scaling.
func (e *classification) best() float64 {
	if e.mushroom {
		return max(e.mean(pass), e.mean(eat))
	}
	return 1
}

// Reward implements bandit.Environment.
func (e *classification) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	e.check(a)
	if a.Index < 0 || a.Index >= e.arms {
		return 0, fmt.Errorf("env: the action's index is %d, expected an arm from 0 to %d", a.Index, e.arms-1)
	}
	y := e.mean(a.Index)
	if e.mushroom && a.Index == eat && e.rows.Label[e.row] == e.poison {
		y += float64(halfSpread * draw.Sign(0))
	}
	return e.scale * y, nil
}

// Regret implements bandit.Environment.
func (e *classification) Regret(a bandit.Action) (float64, error) {
	e.check(a)
	if a.Index < 0 || a.Index >= e.arms {
		return 0, fmt.Errorf("env: the action's index is %d, expected an arm from 0 to %d", a.Index, e.arms-1)
	}
	return e.scale * (e.best() - e.mean(a.Index)), nil
}

// LargestRegret implements Bounded.
func (e *classification) LargestRegret() (float64, bool) {
	if e.mushroom {
		return e.scale * max(good, -badHalf), true
	}
	return e.scale, true
}

// blocks is the finite set {e_a ⊗ c : a < k} ⊂ ℝ^{kp}: arm a has c in block a and zeros elsewhere.
// It keeps c. Who asks for an arm makes it store (k−1)·p zeros on either side of c, once: arm a is a window of
// length kp there in which c stands at block a. That is (2k−1)p numbers instead of k²p, and ArgMax costs kp.
type blocks struct {
	k      int
	c      []float64
	once   sync.Once
	padded []float64 // zeros, c, zeros
}

// newBlocks keeps c, which must not be changed.
func newBlocks(c []float64, k int) *blocks { return &blocks{k: k, c: c} }

// Dim returns k·p.
func (b *blocks) Dim() int { return b.k * len(b.c) }

// Len returns k.
func (b *blocks) Len() int { return b.k }

// At returns arm i.
func (b *blocks) At(i int) []float64 {
	if i < 0 || i >= b.k {
		panic("env: no such arm")
	}
	k, p := b.k, len(b.c)
	b.once.Do(func() {
		b.padded = make([]float64, (2*k-1)*p)
		copy(b.padded[(k-1)*p:], b.c)
	})
	from := (k - 1 - i) * p
	return b.padded[from : from+k*p : from+k*p]
}

// Radius returns ‖c‖.
func (b *blocks) Radius() float64 { return linalg.Norm(b.c) }

// far bounds numbers whose products and sums cannot overflow.
const far = 1e150

// ArgMax implements bandit.ActionSet: the first arm a with the largest ⟨c, theta_a⟩.
func (b *blocks) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	k, p := b.k, len(b.c)
	if len(theta) != k*p {
		panic("env: theta has the wrong length")
	}
	best, arm := math.Inf(-1), 0
	if linalg.Within(theta, far) && linalg.Within(b.c, far) {
		arm, best = linalg.ArgMax(theta, b.c)
	} else {
		for a := range k {
			v := linalg.Dot(b.c, theta[a*p:(a+1)*p])
			// Every entry of theta enters one value, so one that is not finite cannot hide.
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, fmt.Errorf("env: theta gives arm %d the value %v: %w", a, v, bandit.ErrNotFinite)
			}
			if v > best {
				best, arm = v, a
			}
		}
	}
	x := slices.Grow(dst.X[:0], k*p)[:k*p]
	clear(x)
	copy(x[arm*p:], b.c)
	dst.X, dst.Index, dst.At = x, arm, nil
	return best, nil
}

var (
	_ Noted         = (*classification)(nil)
	_ Noisy         = (*classification)(nil)
	_ bandit.Finite = (*blocks)(nil)
)
