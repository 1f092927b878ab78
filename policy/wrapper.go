package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// Base is the option `base` of a policy made of another: a nested policy table.
type Base struct {
	Options
	kinds *spec.Kinds // where its kind is looked up; nil for Kinds
}

// defaultBase is what a wrapper wraps when nothing is said.
func defaultBase() Base { return Base{Options: &EnsembleOptions{}} }

// DecodeSpec implements spec.Decoder.
func (b *Base) DecodeSpec(v any, path string) (err error) {
	b.Options, err = spec.DecodeTable(spec.In(b.kinds, Kinds), v, path)
	return err
}

// BindKinds implements spec.Binder.
func (b *Base) BindKinds(kinds *spec.Kinds) { b.kinds = kinds }

// ExpandSpec implements spec.Decoder.
func (b *Base) ExpandSpec(v any) []spec.Choice { return spec.ExpandTable(spec.In(b.kinds, Kinds), v) }

// String describes the default for listings.
func (b *Base) String() string { return `{ kind = "ensemble" }` }

// New builds the base. Errors name the option under base.
func (b Base) New(p Problem) (bandit.Policy, error) {
	if b.Options == nil {
		b = defaultBase()
	}
	p.Timed = false // no wrapper passes times on
	base, err := b.Options.New(p)
	if err != nil {
		return nil, spec.Under("base", err)
	}
	return base, nil
}

// warnings returns what the base has to say.
func warnings(base bandit.Policy, set bandit.ActionSet) []string {
	if w, ok := base.(bandit.Warner); ok {
		return w.Warnings(set)
	}
	return nil
}

// costOf returns what a snapshot of the base costs; 0 where it does not know.
func costOf(base bandit.Policy) (bytes, work int) {
	if w, ok := base.(bandit.Weighed); ok {
		return w.SnapshotCost()
	}
	return 0, 0
}

// snapshotter returns the base's ability, or an error that names the wrapper.
func snapshotter(wrapper string, base bandit.Policy) (bandit.Snapshotter, error) {
	s, ok := base.(bandit.Snapshotter)
	if !ok {
		return nil, fmt.Errorf("policy: %s: the base, a %T, has no snapshots", wrapper, base)
	}
	return s, nil
}

// drawnMember is bandit.MemberDrawer of the base.
func drawnMember(base bandit.Policy, draw rng.Source) (j int, xi float64) {
	if d, ok := base.(bandit.MemberDrawer); ok {
		return d.DrawnMember(draw)
	}
	return 0, 0
}

// redraws is bandit.Redrawer of the base.
func redraws(base bandit.Policy) bool {
	r, ok := base.(bandit.Redrawer)
	return ok && r.Redraws()
}

// drawMember returns the member J and the sign ξ that a policy draws: numbers 0 and 1 of the source.
func drawMember(draw rng.Source, m int, symmetric bool) (j int, xi float64) {
	j, xi = draw.Intn(0, m), 1.0
	if symmetric {
		xi = draw.Sign(1)
	}
	return j, xi
}

// constantly is a scale that all members have.
func constantly(r float64) func(int) float64 { return func(int) float64 { return r } }

// forgets returns why a regression with a discount is not a sum over events, nil without one.
func forgets(discount float64) error {
	if discount < 1 {
		return fmt.Errorf("with discount = %g an event counts by its place in the log", discount)
	}
	return nil
}
