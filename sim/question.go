package sim

import (
	"math"
	"slices"

	"troupe/internal/infer"
	"troupe/spec"
)

// Claim is a table [[claim]] of a spec: a part of the hypothesis that the report answers by itself. It is a comparison or a range.
//
//	[[claim]]
//	less = "ensemble(m=16)"
//	than = "ensemble(m=4)"
//
// says that the estimand of one policy is less than Times that of another one, in an environment or in each of them.
//
//	[[claim]]
//	of   = "ensemble(m=16)"
//	over = "ts"
//	from = 0.9
//	to   = 1.1
//
// says that a number of a policy, a mean over the replications, lies in [From, To].
type Claim struct {
	Label       string  `key:"label" doc:"what the report calls the claim: H1" json:"label,omitzero"`
	Less        string  `key:"less" doc:"name of the policy that is expected to lose less" json:"less,omitzero"`
	Than        string  `key:"than" doc:"name of the policy that it is compared with" json:"than,omitzero"`
	Times       float64 `key:"times" doc:"factor: less than times × what the other one loses; 0.5 for half" json:"times,omitzero"`
	Environment string  `key:"environment" doc:"name of the environment it is about" default:"each of them" json:"environment,omitzero"`

	Of      string  `key:"of" doc:"instead of less and than: name of the policy whose number is expected to lie in a range" json:"of,omitzero"`
	Measure string  `key:"measure" doc:"which number: mean regret; rate, regret a round in the second half; exponent of the regret over the last decade; lost, the share of runs whose regret stays linear" default:"regret" json:"measure,omitzero"`
	At      int     `key:"at" doc:"the checkpoint, a round, at which the number is taken" default:"the horizon" json:"at,omitzero"`
	Over    string  `key:"over" doc:"of a regret or a rate: name of a policy by whose number it is divided" json:"over,omitzero"`
	OverIn  string  `key:"over_environment" doc:"of a regret or a rate: name of an environment by whose number it is divided" json:"over_environment,omitzero"`
	Per     float64 `key:"per" doc:"of a regret or a rate: a number by which it is divided" json:"per,omitzero"`
	From    float64 `key:"from" doc:"least value; 0: none" json:"from,omitzero"`
	To      float64 `key:"to" doc:"largest value; 0: none" json:"to,omitzero"`
}

// Range reports whether the claim is a range.
func (c *Claim) Range() bool { return c.Of != "" }

// The numbers that a range may be about.
const (
	MeasureRegret   = "regret"
	MeasureRate     = "rate"
	MeasureExponent = "exponent"
	MeasureLost     = "lost"
)

// ClaimKeys lists the keys of a table [[claim]].
func ClaimKeys() []spec.Option { return spec.Options(&Claim{Times: 1, Per: 1}) }

// maxClaims bounds the claims of an experiment.
const maxClaims = 100

// decodeQuestion decodes what the report is asked: the estimand and the claims. Policies, environments and checkpoints
// are there already.
func (d decoder) question(h *header, tree spec.Raw) error {
	e, ok := infer.Named(h.Estimand)
	if !ok || h.Estimand == "" {
		return spec.Errorf("estimand", "is %q%s", h.Estimand, spec.Suggest(h.Estimand, infer.Names()))
	}
	if e != infer.Mean {
		d.x.Estimand = h.Estimand
		if d.x.Reference != "" {
			return spec.Errorf("reference", "reference compares means, and the estimand is %q; a [[claim]] "+
				"compares two policies by it",
				d.x.Estimand)
		}
		if d.x.Until != "" {
			return spec.Errorf("until", "until is about means, and the estimand is %q; leave one of them out",
				d.x.Estimand)
		}
	}
	if e == infer.ShareLost && infer.Halfway(d.x.Checkpoints) < 0 {
		return spec.Errorf("estimand", "is %q, which needs a checkpoint near half the horizon, from %d to %d",
			h.Estimand,
			int(math.Ceil(float64(d.x.Horizon)/2.4)), int(float64(d.x.Horizon)/2*1.2))
	}
	return d.claims(tree)
}

func (d decoder) claims(tree spec.Raw) error {
	v, ok := tree["claim"]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > maxClaims {
		return spec.Errorf("claim", "is %s, expected 1 to %d tables [[claim]]", spec.Show(v), maxClaims)
	}
	var policies, environments []string
	for _, c := range d.x.Policies {
		policies = append(policies, c.Name)
	}
	for _, c := range d.x.Environments {
		environments = append(environments, c.Name)
	}
	for i, t := range list {
		at := spec.Element("claim", i)
		table, ok := t.(spec.Raw)
		if !ok {
			return spec.Errorf(at, "is %s, expected a table [[claim]]", spec.Show(t))
		}
		c := Claim{Times: 1, Per: 1}
		if err := spec.DecodeStruct(&c, table, at); err != nil {
			return err
		}
		check := c.checkComparison
		if table["of"] != nil {
			check = c.checkRange
		}
		if err := check(table, at, policies, environments); err != nil {
			return err
		}
		if slices.Contains(d.x.Claims, c) {
			return spec.Errorf(at, "is the same claim as one before")
		}
		d.x.Claims = append(d.x.Claims, c)
	}
	return nil
}

// sameQuestion reports whether a run fixed the same estimand and claims.
func (x *Experiment) sameQuestion(m *Manifest) bool {
	return m.Estimand == x.Estimand && slices.Equal(m.Claims, x.Claims)
}

// named is a key of a claim whose value is a name of the experiment.
type named struct {
	key, value string
	valid      []string
	what       string
}

// checkNames returns an error for the first name that the experiment does not have.
func checkNames(table spec.Raw, at string, names ...named) error {
	for _, n := range names {
		if table[n.key] != nil && !slices.Contains(n.valid, n.value) {
			return spec.Errorf(spec.Join(at, n.key), "is %q, which is no %s of this experiment%s", n.value, n.what, spec.Suggest(n.value, n.valid))
		}
	}
	return nil
}

// checkComparison checks a claim with less and than, and clears what stands for "not written".
func (c *Claim) checkComparison(table spec.Raw, at string, policies, environments []string) error {
	for _, key := range []string{"less", "than"} {
		if table[key] == nil {
			return spec.Errorf(at, "%s is missing, expected the name of a policy", key)
		}
	}
	for _, key := range []string{"measure", "at", "over", "over_environment", "per", "from", "to"} {
		if table[key] != nil {
			return spec.Errorf(spec.Join(at, key), "is for a claim with of = POLICY; one with less and than has times")
		}
	}
	if err := checkNames(table, at, named{"less", c.Less, policies, "policy"}, named{"than", c.Than, policies, "policy"},
		named{"environment", c.Environment, environments, "environment"}); err != nil {
		return err
	}
	switch {
	case !(c.Times > 0 && c.Times <= 1e6):
		return spec.Errorf(spec.Join(at, "times"), "is %v, expected a number above 0 and at most 1e6", c.Times)
	case c.Less == c.Than:
		return spec.Errorf(spec.Join(at, "than"), "is %q, the policy itself; expected another one", c.Than)
	}
	if c.Times == 1 {
		c.Times = 0 // as where it is not written
	}
	c.Per = 0
	return nil
}

// checkRange checks a claim with of, and clears what stands for "not written".
func (c *Claim) checkRange(table spec.Raw, at string, policies, environments []string) error {
	for _, key := range []string{"less", "than", "times"} {
		if table[key] != nil {
			return spec.Errorf(spec.Join(at, key), "is for a claim without of; one with of = POLICY has from and to")
		}
	}
	if err := checkNames(table, at, named{"of", c.Of, policies, "policy"}, named{"over", c.Over, policies, "policy"},
		named{"environment", c.Environment, environments, "environment"},
		named{"over_environment", c.OverIn, environments, "environment"}); err != nil {
		return err
	}
	measures := []string{MeasureRegret, MeasureRate, MeasureExponent, MeasureLost}
	if c.Measure == "" {
		c.Measure = MeasureRegret
	}
	quotient := c.Over != "" || c.OverIn != "" || table["per"] != nil
	switch {
	case !slices.Contains(measures, c.Measure):
		return spec.Errorf(spec.Join(at, "measure"), "is %q%s", c.Measure, spec.Suggest(c.Measure, measures))
	case quotient && (c.Measure == MeasureExponent || c.Measure == MeasureLost):
		return spec.Errorf(spec.Join(at, "measure"), "is %q, which is not divided by anything; expected no over, over_environment and per", c.Measure)
	case c.Over == c.Of && (c.OverIn == "" || c.OverIn == c.Environment), c.OverIn != "" && c.OverIn == c.Environment && c.Over == "":
		return spec.Errorf(at, "the number of %s is divided by itself", c.Of)
	case table["at"] != nil && c.At < 1:
		return spec.Errorf(spec.Join(at, "at"), "is %d, expected a round from 1 on", c.At)
	case !(c.Per > 0 && c.Per <= math.MaxFloat64):
		return spec.Errorf(spec.Join(at, "per"), "is %v, expected a positive number", c.Per)
	case !(c.From >= 0 && c.From <= math.MaxFloat64):
		return spec.Errorf(spec.Join(at, "from"), "is %v, expected a number that is not negative", c.From)
	case !(c.To >= 0 && c.To <= math.MaxFloat64):
		return spec.Errorf(spec.Join(at, "to"), "is %v, expected a number that is not negative", c.To)
	case c.From == 0 && c.To == 0:
		return spec.Errorf(at, "of = %q has no range: expected from, to, or both", c.Of)
	case c.To != 0 && c.From > c.To:
		return spec.Errorf(spec.Join(at, "to"), "is %v, expected at least from, which is %v", c.To, c.From)
	}
	if c.Times = 0; c.Per == 1 {
		c.Per = 0 // as where it is not written
	}
	if c.Measure == MeasureRegret {
		c.Measure = ""
	}
	return nil
}
