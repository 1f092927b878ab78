package sim

import (
	"math"
	"slices"

	"troupe/internal/infer"
	"troupe/spec"
)

// Claim is a table [[claim]] of a spec: a hypothesis as a comparison, which the report answers.
//
//	[[claim]]
//	less = "ensemble(m=16)"
//	than = "ensemble(m=4)"
//
// It says that the estimand of one policy is less than Times that of another one, in an environment or in each of them.
type Claim struct {
	Less        string  `key:"less" doc:"name of the policy that is expected to lose less" json:"less"`
	Than        string  `key:"than" doc:"name of the policy that it is compared with" json:"than"`
	Times       float64 `key:"times" doc:"factor: less than times × what the other one loses; 0.5 for half" json:"times,omitzero"`
	Environment string  `key:"environment" doc:"name of the environment it is about" default:"each of them" json:"environment,omitzero"`
}

// ClaimKeys lists the keys of a table [[claim]].
func ClaimKeys() []spec.Option { return spec.Options(&Claim{Times: 1}) }

// maxClaims bounds the claims of an experiment.
const maxClaims = 100

// decodeQuestion decodes what the report is asked: the estimand and the claims. Policies, environments and checkpoints
// are there already.
func (x *Experiment) decodeQuestion(h *header, tree spec.Raw) error {
	e, ok := infer.Named(h.Estimand)
	if !ok || h.Estimand == "" {
		return spec.Errorf("estimand", "is %q%s", h.Estimand, spec.Suggest(h.Estimand, infer.Names()))
	}
	if e != infer.Mean {
		x.Estimand = h.Estimand
		if x.Reference != "" {
			return spec.Errorf("reference", "reference compares means, and the estimand is %q; a [[claim]] "+
				"compares two policies by it",
				x.Estimand)
		}
		if x.Until != "" {
			return spec.Errorf("until", "until is about means, and the estimand is %q; leave one of them out",
				x.Estimand)
		}
	}
	if e == infer.ShareLost && infer.Halfway(x.Checkpoints) < 0 {
		return spec.Errorf("estimand", "is %q, which needs a checkpoint near half the horizon, from %d to %d",
			h.Estimand,
			int(math.Ceil(float64(x.Horizon)/2.4)), int(float64(x.Horizon)/2*1.2))
	}
	return x.decodeClaims(tree)
}

func (x *Experiment) decodeClaims(tree spec.Raw) error {
	v, ok := tree["claim"]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > maxClaims {
		return spec.Errorf("claim", "is %s, expected 1 to %d tables [[claim]]", spec.Show(v), maxClaims)
	}
	var policies, environments []string
	for _, c := range x.Policies {
		policies = append(policies, c.Name)
	}
	for _, c := range x.Environments {
		environments = append(environments, c.Name)
	}
	for i, t := range list {
		at := spec.Element("claim", i)
		table, ok := t.(spec.Raw)
		if !ok {
			return spec.Errorf(at, "is %s, expected a table [[claim]]", spec.Show(t))
		}
		c := Claim{Times: 1}
		if err := spec.DecodeStruct(&c, table, at); err != nil {
			return err
		}
		for _, name := range []struct {
			key, value string
			valid      []string
			what       string
		}{{"less", c.Less, policies, "policy"}, {"than", c.Than, policies, "policy"},
			{"environment", c.Environment, environments, "environment"}} {
			if name.key == "environment" && table["environment"] == nil {
				continue
			}
			if table[name.key] == nil {
				return spec.Errorf(at, "%s is missing, expected the name of a policy", name.key)
			}
			if !slices.Contains(name.valid, name.value) {
				return spec.Errorf(spec.Join(at, name.key), "is %q, which is no %s of this experiment%s", name.value,
					name.what,
					spec.Suggest(name.value, name.valid))
			}
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
		if slices.Contains(x.Claims, c) {
			return spec.Errorf(at, "is the same claim as one before")
		}
		x.Claims = append(x.Claims, c)
	}
	return nil
}

// sameQuestion reports whether a run fixed the same estimand and claims.
func (x *Experiment) sameQuestion(m *Manifest) bool {
	return m.Estimand == x.Estimand && slices.Equal(m.Claims, x.Claims)
}
